// `sinter embed MODEL < texts`: each line of stdin is a text, and each line of stdout its row of numbers as JSON, in order. A line
// that is refused is named once the rows before it are written.

import { createInterface } from "node:readline/promises"
import { load } from "../app/library.ts"
import { Problem, problem } from "../errors.ts"
import { openingOf } from "./opening.ts"
import type { embedOptions } from "./options.ts"
import type { Values } from "./read-options.ts"

const AT_ONCE = 64 // lines

export async function embed(model: string, options: Values<typeof embedOptions>): Promise<void> {
  const loaded = await load(model, openingOf(options))
  const { "--dimensions": dimensions, "--prompt": prompt_name } = options
  const fields = {
    ...(dimensions === undefined ? {} : { dimensions }),
    ...(prompt_name === undefined ? {} : { prompt_name }),
  }
  let printed = 0
  const print = async (texts: readonly string[]) => {
    const rows = await Promise.allSettled(texts.map((text) => loaded.embed([text], fields)))
    const end = rows.findIndex(({ status }) => status === "rejected")
    let written = ""
    for (const row of end < 0 ? rows : rows.slice(0, end))
      if (row.status === "fulfilled") written += `${JSON.stringify(row.value[0])}\n`
    await new Promise<void>((resolve) => process.stdout.write(written, () => resolve()))
    const refused = rows[end]
    if (refused?.status === "rejected") throw ofLine(printed + end + 1, refused.reason)
    printed += texts.length
  }
  try {
    let texts: string[] = []
    for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
      texts.push(line)
      if (texts.length < AT_ONCE) continue
      await print(texts)
      texts = []
    }
    if (texts.length > 0) await print(texts)
  } finally {
    await loaded.close()
  }
}

/** What is wrong with an option is no line's fault. */
function ofLine(line: number, error: unknown): unknown {
  if (!(error instanceof Problem) || error.param !== "texts") return error
  return problem("option_invalid", { option: `stdin, line ${line}`, problem: error.message })
}
