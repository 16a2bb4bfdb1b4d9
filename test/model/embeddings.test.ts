// Models that embed, beside what independent programs computed of ten texts each.

import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { load, type Model } from "../../src/app/library.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { openModel } from "../../src/model/model.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"

/** How long their texts may be; the first reads them piece by piece, the others see both ways and read them whole. */
const models = [
  ["qwen3-embedding", 512, { prefill_chunk_size: 24 }],
  ["bert", 150, {}],
  ["xlm-roberta", 160, {}],
  ["nomic-bert", 512, {}],
  ["modernbert", 512, {}],
  ["embeddinggemma", 512, {}],
  ["roberta", 512, {}],
  ["camembert", 160, {}],
  ["electra", 150, {}],
  ["distilbert", 150, {}],
  ["mpnet", 160, {}],
  ["deberta", 150, {}],
  ["jina-v2", 150, {}],
  ["jina-v3", 160, {}],
  ["nomic-moe", 2048, {}],
  ["gte", 160, {}],
  ["eurobert", 512, {}],
  ["embedding-gemma2", 512, {}],
] as const

const encoders = join(import.meta.dirname, "../golden/gguf/encoders")

const files = [
  "bert",
  "xlm-roberta",
  "roberta",
  "distilbert",
  "nomic-bert",
  "modernbert",
  "embeddinggemma",
  "jina-v2",
  "jina-v3",
  "nomic-moe",
  "eurobert",
]
describe.each(files)("%s as a GGUF file", (name) => {
  const folder = goldenFolder("embeddings", name)
  const all: string[] = JSON.parse(readFileSync(join(folder, "embeddings.json"), "utf8")).texts
  // A file has no normal forms but as a table, which these have not.
  const texts = all.filter((text) => text === text.normalize("NFKC"))
  const tensors = readTensors(join(folder, "embeddings.safetensors"))
  const file = join(encoders, `${name}.gguf`)
  const kind = name === "nomic-moe" ? "file" : "embedding" // which lacks a row that the folder has

  async function judge(path: string): Promise<void> {
    const model = await load(path, { target: "cpu", mode: "server" })
    onTestFinished(() => model.close())
    const vectors = await model.embed(texts)
    for (const [i, text] of texts.entries()) {
      const expected = new Float32Array(tensors(`${kind}.${all.indexOf(text)}`))
      expect(farthest(vectors[i]!, Array.from(expected)), text).toBeLessThan(1e-5)
    }
  }

  test("says what its folder says", async () => {
    expect(texts.length).toBeGreaterThan(6)
    await judge(file)
  }, 120_000)

  test("is compiled, where a compiled folder has a place for all of it", async () => {
    const place = mkdtempSync(join(tmpdir(), "sinter-encoder-"))
    onTestFinished(() => rmSync(place, { recursive: true }))
    const source = await openModel(file)
    onTestFinished(() => source.close())
    const compiled = compileFolder(source, join(place, name), { format: "q0f32" })
    if (name === "embeddinggemma") await expect(compiled).rejects.toThrow(/no place for/)
    else await compiled.then(() => judge(join(place, name)))
  }, 120_000)
})

/** The interpreter takes two of them, drivers of GPUs those whose layers differ most. */
const others: Readonly<Record<string, readonly ("reference" | "vulkan" | "opencl")[]>> = {
  "qwen3-embedding": ["reference"],
  bert: ["reference", "vulkan", "opencl"],
  modernbert: ["vulkan"],
  embeddinggemma: ["vulkan"],
  electra: ["reference", "vulkan"],
  mpnet: ["reference", "vulkan", "opencl"],
  deberta: ["reference"],
  "jina-v2": ["reference", "vulkan"],
  "embedding-gemma2": ["reference", "vulkan"],
  "nomic-moe": ["reference", "vulkan", "opencl"],
}

function runsOf(name: string) {
  return (["cpu", ...(others[name] ?? [])] as const).map((target) => {
    if (target === "cpu" || target === "reference")
      return { title: `on ${target}`, isSkipped: false, place: { target } }
    const { isSkipped, why } = lackOf(target)
    const place = { device: { name: target, id: 0 } }
    return { title: `on ${target}${why}`, isSkipped, place }
  })
}

describe.each(models)("%s", (name, context, overrides) => {
  const folder = goldenFolder("embeddings", name)
  const { texts }: { texts: string[] } = JSON.parse(
    readFileSync(join(folder, "embeddings.json"), "utf8"),
  )
  const named = join(folder, "config_sentence_transformers.json")
  const { prompts }: { prompts: Record<string, string> } = existsSync(named)
    ? JSON.parse(readFileSync(named, "utf8"))
    : { prompts: {} }
  const tensors = readTensors(join(folder, "embeddings.safetensors"))
  const expected = texts.map((_, i) => Array.from(new Float32Array(tensors(`embedding.${i}`))))

  for (const { title, isSkipped, place } of runsOf(name))
    describe.skipIf(isSkipped)(title, () => {
      let model: Model
      beforeAll(async () => {
        model = await load(folder, {
          ...place,
          quantization: "q0f32",
          overrides,
          mode: "server", // all texts at once
        })
      }, GPU_MILLISECONDS)
      afterAll(() => model?.close())

      test("says what they computed", async () => {
        const vectors = await model.embed(texts)
        expect(vectors.map(({ length }) => length)).toEqual(expected.map(({ length }) => length))
        for (const [i, vector] of vectors.entries())
          expect(farthest(vector, expected[i]!), texts[i]).toBeLessThan(1e-5)
      })

      test("was made for nothing else", async () => {
        const asked = [model.chat("Hi"), model.generate("Hi")]
        for (const reply of asked) await expect(reply.text()).rejects.toThrow(/writes no text/)
      })

      test("puts a prompt of its folder before a text where it is named", async () => {
        for (const [prompt_name, prompt] of Object.entries(prompts))
          expect(await model.embed(["Hi"], { prompt_name })).toEqual(
            await model.embed([`${prompt}Hi`]),
          )
        const names = Object.keys(prompts).join(", ")
        const words = names ? `prompt_name must be one of ${names}` : "must be left out"
        await expect(model.embed(["Hi"], { prompt_name: "poem" })).rejects.toThrow(words)
      })

      test("refuses what is longer than it reads", async () => {
        const refused = {
          code: "context_length_exceeded",
          message: expect.stringContaining(`${context}`),
        }
        await expect(model.embed(["1 ".repeat(context)])).rejects.toMatchObject(refused)
      })

      test("its first numbers at unit length, as many as it has", async () => {
        const [whole] = await model.embed([texts[3]!])
        const [short] = await model.embed([texts[3]!], { dimensions: 3 })
        const length = Math.hypot(...whole!.slice(0, 3))
        const scaled = whole!.slice(0, 3).map((value) => value / length)
        expect(short).toHaveLength(3)
        expect(farthest(short!, scaled)).toBeLessThan(1e-12)
        const more = model.embed([texts[3]!], { dimensions: whole!.length + 1 })
        await expect(more).rejects.toMatchObject({ code: "invalid_value", param: "dimensions" })
      })

      test("says the same of a text alone as in company", async () => {
        const together = await model.embed([...texts, ...texts])
        for (const i of [1, 3, texts.length - 1]) {
          const [alone] = await model.embed([texts[i]!])
          expect(alone).toEqual(together[i])
          expect(alone).toEqual(together[texts.length + i])
        }
      })
    })
})

const rankers = [
  "bert",
  "xlm-roberta",
  "roberta",
  "mpnet",
  "electra",
  "distilbert",
  "deberta",
  "modernbert",
  "jina",
]
describe.each(rankers)("%s ranks", (name) => {
  const folder = goldenFolder("ranking", name)
  const golden = JSON.parse(readFileSync(join(folder, "scores.json"), "utf8"))
  let model: Model
  beforeAll(async () => {
    model = await load(folder, { target: "reference", quantization: "q0f32" })
  }, 120_000)
  afterAll(() => model?.close())

  test("as numpy or transformers do", async () => {
    const scores = await model.rank(golden.query, golden.documents)
    expect(farthest(scores, golden.scores)).toBeLessThan(1e-5)
    expect(scores).toHaveLength(golden.scores.length)
  })

  test("and does nothing else", async () => {
    await expect(model.chat("Hi").text()).rejects.toThrow(/writes no text; POST \/v1\/rerank/)
    await expect(model.embed(["Hi"])).rejects.toThrow(/no text into a vector/)
    const long = model.rank(golden.query, ["1 ".repeat(600)])
    await expect(long).rejects.toMatchObject({
      code: "context_length_exceeded",
      param: "documents",
    })
  })
})

test.each([
  [{ id2label: { 0: "no", 1: "yes" } }, /id2label has 2 labels; a model that ranks has 1/],
  [{ id2label: undefined }, /has 2 labels/],
  [{ architectures: ["LlamaForSequenceClassification"] }, /are known/],
])("a folder that classifies with %j is refused", async (changes, words) => {
  const folder = copyOf(goldenFolder("ranking", "bert"))
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  writeFileSync(file, JSON.stringify({ ...config, ...changes }))
  await expect(openModel(folder)).rejects.toThrow(words)
})

test("an adapter of a model whose rows of distances it would change, too, is refused", async () => {
  const adapters = [goldenFolder("adapters", "llama")]
  const opened = openModel(goldenFolder("embeddings", "deberta"), { adapters })
  await expect(opened).rejects.toThrow(/rows of distances/)
})

test("a decoder whose configuration says is_causal: false sees both ways, compiled, too", async () => {
  const golden = goldenFolder("embeddings", "qwen3-embedding")
  const read = (name: string) => JSON.parse(readFileSync(join(golden, name), "utf8"))
  const folder = copyOf(golden)
  const directed = { ...read("config.json"), is_causal: false }
  writeFileSync(join(folder, "config.json"), JSON.stringify(directed))
  const compiled = join(copyOf(golden), "compiled")
  const source = await openModel(folder)
  await compileFolder(source, compiled, { format: "q0f32" })
  await source.close()
  const expected: number[][] = read("both-ways.json")
  for (const path of [folder, compiled]) {
    const model = await load(path, { target: "reference", quantization: "q0f32" })
    const vectors = await model.embed(read("embeddings.json").texts)
    await model.close()
    for (const [i, vector] of vectors.entries())
      expect(farthest(vector, expected[i]!)).toBeLessThan(1e-5)
  }
}, 120_000)

test("a folder that has a matrix for pooled rows among its weights is not compiled", async () => {
  const source = await openModel(goldenFolder("embeddings", "embedding-gemma2"))
  onTestFinished(() => source.close())
  const output = join(tmpdir(), "sinter-never-written")
  await expect(compileFolder(source, output, { format: "q0f32" })).rejects.toThrow(/its matrix/)
  expect(existsSync(output)).toBe(false)
})

test("a folder that embeds need hold no head", async () => {
  const folder = copyOf(goldenFolder("embeddings", "qwen3-embedding"))
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  const untied = { ...config, tie_word_embeddings: false }
  writeFileSync(join(folder, "config.json"), JSON.stringify(untied))
  const model = await openModel(folder)
  await model.close()
  rmSync(join(folder, "modules.json"))
  await expect(openModel(folder)).rejects.toThrow(/lm_head/)
})

function copyOf(path: string): string {
  const folder = mkdtempSync(join(tmpdir(), "sinter-copy-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(path, folder, { recursive: true })
  return folder
}

function farthest(values: readonly number[], others: readonly number[]): number {
  return Math.max(...values.map((value, i) => Math.abs(value - others[i]!)))
}
