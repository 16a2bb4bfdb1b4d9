// Where the answers of `sinter batch` go: stdout, or a file, which an earlier run may have begun. What that has answered stays there
// and is not asked again; the lines of what it was refused, and a last one that was cut, make room for new ones. A file that holds
// anything else is somebody's, and is left alone.

import { createReadStream, existsSync } from "node:fs"
import { open, realpath, rename, rm, stat } from "node:fs/promises"
import { Problem, systemWords } from "../errors.ts"
import { linesOf } from "./batch-line.ts"
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
    if (error instanceof Problem) throw error
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
async function keep(named: string): Promise<Set<string>> {
  const path = await realpath(named)
  const status = await stat(path)
  if (!status.isFile()) refuse("--output", `${quoted(named)} is no file to go on with.`)
  const kept = new Set<string>()
  const part = `${path}.part`
  const file = await open(part, "w", status.mode)
  try {
    let [number, cut] = [0, 0]
    for await (const line of linesOf(createReadStream(path))) {
      number++
      if (cut > 0) refuseOthers(named, cut)
      const answer = answerOf(line)
      if (answer === "cut") cut = number
      else if (answer === "other") refuseOthers(named, number)
      else if (answer !== "refused") {
        kept.add(answer.id)
        await file.appendFile(line)
        await file.appendFile("\n")
      }
    }
    await rename(part, path)
  } finally {
    await file.close()
    await rm(part, { force: true })
  }
  return kept
}

function refuseOthers(path: string, line: number): never {
  refuse(
    "--output",
    `line ${line} of ${quoted(path)} is no answer; name a file of answers, or a new one.`,
  )
}

/** What a line of a file of answers is: what has been answered, or what has not. */
function answerOf(line: Uint8Array): { id: string } | "refused" | "cut" | "other" {
  const text = Buffer.from(line).toString()
  if (text.trim() === "") return "refused"
  let read: Partial<Answer> | null
  try {
    read = JSON.parse(text)
  } catch {
    return "cut"
  }
  const { custom_id: id, response, error } = read ?? {}
  if (id === undefined || response === undefined || error === undefined) return "other"
  return typeof id === "string" && response?.status_code === 200 ? { id } : "refused"
}

/** What is looked at of an answer's line, whoever wrote it. */
interface Answer {
  custom_id: unknown
  response: { status_code?: unknown } | null
  error: unknown
}
