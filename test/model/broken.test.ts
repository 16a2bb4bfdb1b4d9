// Folders with one fault each (test/golden/broken): every one is refused in a sentence that names file and fault, quickly,
// without reading a file outside of the folder. Faults of tokenizers and templates are the chat room's to find.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest"
import { Problem } from "../../src/errors.ts"
import { openModel } from "../../src/model/model.ts"
import { allocated } from "../allocated.ts"
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
    const memory = allocated()
    const folder = goldenFolder("broken", name)
    const error = await refusal(folder)
    expect(processorTime() - started).toBeLessThan(1000)
    expect(allocated() - memory).toBeLessThan(50e6)
    if (entry.expect === "load" || elsewhere.test(name)) expect(error).toBeUndefined()
    if (entry.expect === "refuse" && !elsewhere.test(name)) expect(error).toBeInstanceOf(Problem)
    if (!error) return
    expect(error).toBeInstanceOf(Problem)
    expect(error.message.startsWith(folder)).toBe(true)
    expect(error.message).not.toMatch(/\n|undefined|\[object/)
    expect(error.message.length).toBeLessThan(folder.length + 250)
  })
})

describe("what a folder has in place of safetensors", () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sinter-broken-"))
    cpSync(goldenFolder("broken", "sound-hf"), folder, { recursive: true })
    rmSync(join(folder, "model.safetensors"))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  test.each(["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth"])(
    "%s is a pickle, and the sentence has the cure",
    async (name) => {
      writeFileSync(join(folder, "optimizer.pt"), "")
      writeFileSync(join(folder, name), "")
      const { message } = (await refusal(folder))!
      expect(message.startsWith(`${join(folder, name)}: it is a pickle, which can run`)).toBe(true)
      expect(message).toContain("convert it once: python -c 'from transformers import")
    },
  )

  test("nothing that is known", async () => {
    writeFileSync(join(folder, "optimizer.pt"), "")
    const { message } = (await refusal(folder))!
    expect(message).toContain("model.safetensors: there is no such file, nor model.safetensors.in")
  })
})

test.each([
  ["parakeet.nemo", "an archive of NVIDIA NeMo and is not read; take the model as transformers"],
  ["model.pt", "a pickle, which can run any program, and is not read; take the model's folder"],
  ["model.onnx", "a graph of ONNX and is not read; take the folder that it was made from"],
  ["model.engine", "an engine of TensorRT, made for one GPU, and is not read"],
  ["model.task", "a model of LiteRT and is not read"],
])(
  "%s is another program's, alone or in a folder, and the sentence has the cure",
  async (name, is) => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-broken-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, name)
    writeFileSync(file, "")
    expect((await refusal(file))!.message.startsWith(`${file}: it is ${is}`)).toBe(true)
    const { message } = (await refusal(folder))!
    const held = `${join(folder, "config.json")}: there is no such file, and ${name} is ${is}`
    expect(message.startsWith(held)).toBe(true)
  },
)

test.each([
  ["encoder.mlmodelc", undefined, "it is a model of Core ML and is not read; take the folder"],
  ["weights.safetensors", "", "it is a part of a model, weights alone, and is not read; take"],
  ["llama.bin", `tjgg${"\0".repeat(60)}`, "it is of the time before GGUF; convert the model again"],
  ["torch.bin", `PK${"\0".repeat(60)}`, "it does not begin with GGUF; name one, a .bin of whisper"],
])("%s is refused by name, with the cure", async (name, text, words) => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-broken-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  if (text === undefined) mkdirSync(join(folder, name))
  else writeFileSync(join(folder, name), text)
  expect((await refusal(join(folder, name)))!.message).toContain(words)
})

describe("an index beside one file of weights", () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sinter-broken-"))
    cpSync(goldenFolder("broken", "sound-hf"), folder, { recursive: true })
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  /** An index that says that some file holds all tensors. */
  const indexOf = (file: string) => {
    const bytes = readFileSync(join(folder, "model.safetensors"))
    const header = JSON.parse(bytes.toString("utf8", 8, 8 + Number(bytes.readBigUInt64LE())))
    const names = Object.keys(header).filter((name) => name !== "__metadata__")
    const weight_map = Object.fromEntries(names.map((name) => [name, file]))
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map }))
  }

  test("of shards that are gone says nothing: the one file has all", async () => {
    indexOf("model-00001-of-00002.safetensors")
    const model = await openModel(folder)
    expect(new Set(model.weights.entries.map(({ file }) => file))).toEqual(
      new Set(["model.safetensors"]),
    )
    await model.close()
  })

  test("of shards that are there is followed, and one that leads out is refused", async () => {
    cpSync(join(folder, "model.safetensors"), join(folder, "other.safetensors"))
    indexOf("other.safetensors")
    const model = await openModel(folder)
    expect(model.weights.entries[0]!.file).toBe("other.safetensors")
    await model.close()
    indexOf("../nowhere.safetensors")
    expect((await refusal(folder))!.message).toContain("which is no file of this folder")
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
