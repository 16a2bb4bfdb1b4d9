// Where the answers of `sinter batch` go: stdout, or a file, which an earlier run may have begun. What that has answered stays there
// and is not asked again; the lines of what it was refused, and a last one that was cut, make room for new ones.

import { createReadStream, existsSync } from "node:fs"
import { type FileHandle, open, rename } from "node:fs/promises"
import { createInterface } from "node:readline/promises"
import { systemWords } from "../errors.ts"
import { quoted, refuse } from "./values.ts"

export interface AnswerFile {
  /** Whether an earlier run has answered it. */
  has(id: string): boolean
  print(line: string): Promise<void>
  count(isAnswered: boolean): void
  readonly refused: number
  /** "3 requests: 2 answered, 1 refused" */
  summary(): string
  close(): Promise<void>
}

/** @throws `option_invalid` */
export async function openAnswers(
  path: string | undefined,
  isResumed: boolean,
): Promise<AnswerFile> {
  if (path === undefined && isResumed)
    refuse("--resume", "goes on with a file; name it by --output.")
  if (path === undefined) return counting(new Set(), printed, async () => {})
  if (existsSync(path) && !isResumed)
    refuse(
      "--output",
      `${quoted(path)} is there already; add --resume to go on with it, or name another.`,
    )
  try {
    const kept = existsSync(path) ? await keep(path) : new Set<string>()
    const file = await open(path, "a")
    return counting(
      kept,
      (line) => file.appendFile(line),
      () => file.close(),
    )
  } catch (error) {
    return refuse("--output", `${quoted(path)} cannot be written: ${systemWords(error as Error)}.`)
  }
}

function counting(
  kept: ReadonlySet<string>,
  print: (text: string) => Promise<void>,
  close: () => Promise<void>,
): AnswerFile {
  let [answered, refused] = [0, 0]
  return {
    has: (id) => kept.has(id),
    print: (line) => print(`${line}\n`),
    count: (isAnswered) => {
      if (isAnswered) answered++
      else refused++
    },
    get refused() {
      return refused
    },
    summary: () => {
      const before = kept.size > 0 ? `, ${kept.size} before` : ""
      const all = answered + refused
      return `${all} ${all === 1 ? "request" : "requests"}: ${answered} answered, ${refused} refused${before}`
    },
    close,
  }
}

function printed(text: string): Promise<void> {
  return new Promise((resolve) => process.stdout.write(text, () => resolve()))
}

/** Leaves in a file of answers what has been answered, and says what that is. */
async function keep(path: string): Promise<Set<string>> {
  const kept = new Set<string>()
  const part = `${path}.part`
  const file: FileHandle = await open(part, "w")
  try {
    for await (const line of createInterface({ input: createReadStream(path) })) {
      const id = answeredId(line)
      if (id === undefined) continue
      kept.add(id)
      await file.appendFile(`${line}\n`)
    }
  } finally {
    await file.close()
  }
  await rename(part, path)
  return kept
}

function answeredId(line: string): string | undefined {
  try {
    const { custom_id: id, response } = JSON.parse(line)
    return response.status_code === 200 ? id : undefined
  } catch {
    return undefined
  }
}
