// Folders with one fault each (test/golden/broken): every one is refused in a sentence that names file and fault, quickly,
// without reading a file outside of the folder. Faults of tokenizers and templates are the chat room's to find.

import { readFileSync } from "node:fs"
import { describe, expect, test } from "vitest"
import { Problem } from "../../src/errors.ts"
import { openModel } from "../../src/model/model.ts"
import { processorTime } from "../processor-time.ts"
import { goldenFolder } from "./golden.ts"

interface Broken {
  folder: string
  expect: "load" | "refuse" | "load or refuse"
  why: string
}

const index: Broken[] = JSON.parse(readFileSync(goldenFolder("broken", "index.json"), "utf8"))
const elsewhere = /^(template-|tokenizer-(?!missing))/

/** The refusal, or nothing when the folder opens. */
async function refusal(folder: string): Promise<Error | undefined> {
  try {
    await (await openModel(folder)).close()
    return undefined
  } catch (error) {
    return error as Error
  }
}

describe("broken folders", () => {
  test.each(index.map((entry) => [entry.folder, entry] as const))("%s", async (name, entry) => {
    const started = processorTime()
    const memory = process.memoryUsage().rss
    const folder = goldenFolder("broken", name)
    const error = await refusal(folder)
    expect(processorTime() - started).toBeLessThan(1000)
    expect(process.memoryUsage().rss - memory).toBeLessThan(50e6)
    if (entry.expect === "load" || elsewhere.test(name)) expect(error).toBeUndefined()
    if (entry.expect === "refuse" && !elsewhere.test(name)) expect(error).toBeInstanceOf(Problem)
    if (!error) return
    expect(error).toBeInstanceOf(Problem)
    expect(error.message.startsWith(folder)).toBe(true)
    expect(error.message).not.toMatch(/\n|undefined|\[object/)
    expect(error.message.length).toBeLessThan(folder.length + 250)
  })
})

test("the sentences name the fault", async () => {
  const sentence = async (name: string) => {
    const folder = goldenFolder("broken", name)
    const { message } = (await refusal(folder))!
    return message.slice(folder.length + 1).replace(/(not valid JSON) \(.+\)/, "$1") // words of V8
  }
  const names = index.filter((entry) => entry.expect === "refuse" && !elsewhere.test(entry.folder))
  const sentences = await Promise.all(
    names.map(async ({ folder }) => `${folder}: ${await sentence(folder)}`),
  )
  await expect(`${sentences.join("\n")}\n`).toMatchFileSnapshot("broken.txt")
})
