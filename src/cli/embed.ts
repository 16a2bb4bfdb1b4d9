// `sinter embed MODEL < texts`: each line of stdin is a text, and each line of stdout its row of numbers as JSON, in order.

import { createInterface } from "node:readline/promises"
import { load } from "../app/library.ts"
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
  const print = async (texts: readonly string[]) => {
    const vectors = await loaded.embed(texts, fields)
    const written = vectors.map((vector) => `${JSON.stringify(vector)}\n`).join("")
    await new Promise<void>((resolve) => process.stdout.write(written, () => resolve()))
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
