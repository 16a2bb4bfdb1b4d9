// Llama 3.2 Vision on every target: its tower's rows and its logits are those of test/golden/vision/mllama.py; a row's bits are the same in
// chunks and in company. And what a server does with rows that stand before all tokens: prefixes, choices, too little memory.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { prepareDrafting } from "../../src/app/drafting.ts"
import { type App, createApp } from "../../src/app.ts"
import { compile } from "../../src/compiler/compile.ts"
import { shard } from "../../src/compiler/shard.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference, openShards } from "../../src/compiler/targets/reference/reference.ts"
import { createLog } from "../../src/log.ts"
import { readMllama } from "../../src/model/architectures/mllama.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"
import { openModel } from "../../src/model/model.ts"
import { seeingImages } from "../../src/model/vision/tower.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { BLOCK, type Program, SEEN, type StepDone } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { rewritten } from "./gguf-file.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { blindBy, golden, type Json, judgeTower, opening } from "./pictures.ts"
import { loadSmall } from "./small.ts"
import { batch, limitsFor, notCancelled, worstDifference } from "./steps.ts"
import { write } from "./tensor-file.ts"

const FOLDER = goldenFolder("vision", "mllama")
const [HIDDEN, VOCABULARY, TILE_ROWS] = [40, 322, 10]

interface Sight {
  at: number
  from: number
  to: number
}

interface Shown {
  rows: Float32Array
  width: number
  tokens: number[]
  /** What of the rows is seen from where on, by hand. */
  sights: Sight[]
  logits: Float32Array // of the last two tokens
}

/** Prompts with their rows; tokens stand behind these. */
function shownPrompts(): Shown[] {
  const tensors = readTensors(join(FOLDER, "golden.safetensors"))
  return golden("mllama").map(({ features, ids }, i) => {
    const front = features.length / HIDDEN
    const marks = ids.flatMap((id, at) => (at >= front && id === VOCABULARY ? [at] : []))
    const { tiles } = promptNotes[i]!
    const ends = tiles.map((_, n) =>
      tiles.slice(0, n + 1).reduce((sum, count) => sum + count * TILE_ROWS, 0),
    )
    const isTogether = marks[1] === marks[0]! + 1
    const sights = marks.map((at, n) => ({
      at,
      from: isTogether ? 0 : (ends[n - 1] ?? 0),
      to: ends[n]! - 1,
    }))
    const logits = new Float32Array(tensors(`logits.${i}`))
    return { rows: features, width: HIDDEN, tokens: ids.slice(front), sights, logits }
  })
}

const frontOf = ({ rows, width }: Shown) => rows.length / width

const promptNotes: { tiles: number[] }[] = JSON.parse(
  readFileSync(join(FOLDER, "golden.json"), "utf8"),
).prompts

/** Some positions of a prompt, either of rows or of tokens. */
interface Piece {
  prompt: Shown
  from: number
  to: number
  first: number // of its blocks
}

/** What the engine hands over of it (engine/batch.ts), said once more. */
async function takeStep(program: Program, pieces: readonly Piece[]): Promise<StepDone> {
  const hiddenIn: number[] = []
  const seen: { from: number; to: number; isSeeing: boolean }[] = []
  const parts = pieces.map(({ prompt, from, to }) => {
    const front = frontOf(prompt)
    const tokens = Array.from({ length: to - from }, (_, i) => {
      const position = from + i
      const sight = prompt.sights.findLast(({ at }) => at <= position)
      seen.push({ from: sight?.from ?? 0, to: sight?.to ?? 0, isSeeing: sight !== undefined })
      if (position >= front) return prompt.tokens[position - front]!
      const { width } = prompt
      hiddenIn.push(...prompt.rows.subarray(position * width, (position + 1) * width))
      return SEEN + hiddenIn.length / width - 1
    })
    const logits = from < front ? [] : tokens.map((_, i) => i)
    return { tokens, from, blocks: [], logits }
  })
  const lists = program.manifest.kv.groups.flatMap(({ media }) =>
    pieces.map(({ prompt, from, to, first }) => {
      const front = frontOf(prompt)
      const visible = media ? 0 : Math.min(from, front)
      const number = Math.floor(visible / BLOCK)
      const count = Math.ceil(to / BLOCK) - number
      return { visible, blocks: Array.from({ length: count }, (_, i) => first + number + i) }
    }),
  )
  let end = 0
  const output = await program.step(
    {
      ...batch(parts),
      blocks: Int32Array.from(lists.flatMap(({ blocks }) => blocks)),
      blockStarts: Int32Array.of(0, ...lists.map(({ blocks }) => (end += blocks.length))),
      visibleFrom: Int32Array.from(lists, ({ visible }) => visible),
      seenFrom: Int32Array.from(seen, ({ from }) => from),
      seenTo: Int32Array.from(seen, ({ to }) => to),
      coordinates: Int32Array.from({ length: 3 * seen.length }, (_, i) =>
        Number(i >= seen.length && i < 2 * seen.length && seen[i - seen.length]!.isSeeing),
      ),
      ...(hiddenIn.length > 0 && { hiddenIn: Float32Array.from(hiddenIn) }),
    },
    notCancelled(),
  )
  if (output.kind !== "done") throw new Error("the step was cancelled")
  return output
}

/** Logits of all its tokens, in pieces. */
async function logitsOf(
  program: Program,
  prompt: Shown,
  { rows, tokens, first }: { rows: number; tokens: number; first: number },
): Promise<Float32Array> {
  const front = frontOf(prompt)
  const end = front + prompt.tokens.length
  const logits: number[] = []
  const ends = [...every(0, front, rows), ...every(front, end, tokens)]
  let from = 0
  for (const to of ends) {
    const done = await takeStep(program, [{ prompt, from, to, first }])
    if (from >= front) logits.push(...done.logits!)
    from = to
  }
  return Float32Array.from(logits)
}

const every = (from: number, to: number, step: number) =>
  Array.from({ length: Math.ceil((to - from) / step) }, (_, i) =>
    Math.min(from + (i + 1) * step, to),
  )

const SIZES = { blocks: 64, tokens: 200, sequences: 4, rows: 120 }

async function judge(program: Program): Promise<void> {
  const prompts = shownPrompts()
  const whole: Float32Array[] = []
  for (const [i, prompt] of prompts.entries()) {
    const all = await logitsOf(program, prompt, { rows: 200, tokens: 200, first: 8 * i })
    expect(worstDifference(all.subarray(-2 * VOCABULARY), prompt.logits)).toBeLessThan(1e-3)
    whole.push(all)
  }
  for (const [i, prompt] of prompts.entries())
    for (const pieces of [
      { rows: 7, tokens: 5 },
      { rows: 16, tokens: 1 },
    ])
      expect(await logitsOf(program, prompt, { ...pieces, first: 40 })).toEqual(whole[i])
  // Rows of all, then tokens of all.
  const pieceOf = (prompt: Shown, i: number) => {
    const front = frontOf(prompt)
    return { prompt, first: 32 + 8 * i, front, end: front + prompt.tokens.length }
  }
  const all = prompts.map(pieceOf)
  await takeStep(
    program,
    all.map(({ front, ...piece }) => ({ ...piece, from: 0, to: front })),
  )
  const last = await takeStep(
    program,
    all.map(({ front, end, ...piece }) => ({ ...piece, from: front, to: end })),
  )
  expect([...last.logits!]).toEqual(whole.flatMap((logits) => [...logits]))
}

type Device = keyof typeof opening

async function judgeOn(on: Device, path = FOLDER): Promise<void> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  expect(model.blind).toBeUndefined()
  const { sums } = on === "vulkan" || on === "opencl" ? traitsOf(on) : {}
  const options = { format: "q0f32", activations: "float", kv: "f32" } as const
  const plan = compile(model.graph, { ...options, ...(sums && { sums }) })
  const program = await opening[on](plan, limitsFor(plan, SIZES))
  onTestFinished(() => program.close())
  await loadParameters(model.weights, program.manifest, program)
  await judge(program)
}

test.each<Device>(["reference", "cpu"])("sees as the model does, on %s", (on) => judgeOn(on))

/** Written by test/golden/gguf/architectures/convert.py; those of its first converter have other names. */
test.each(["as its converter writes it", "as its first converter wrote it"])(
  "Ollama's file sees as the model does, %s",
  async (how) => {
    const file = join(goldenFolder("gguf", "ollama"), "mllama.gguf")
    const path = how.includes("first") ? asFirstWritten(file) : file
    await judgeOn("reference", path)
    await judgeTower("mllama", opening.reference, { path })
  },
)

function asFirstWritten(file: string): string {
  const folder = mkdtempSync(join(tmpdir(), "sinter-mllama-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, "mllama.gguf")
  const older: Readonly<Record<string, string>> = {
    ...{ attn_output: "attn_out", attn_norm: "ln1", ffn_norm: "ln2" },
    ...{ ffn_up: "ffn_down", ffn_down: "ffn_up" },
  }
  const written = rewritten(readFileSync(file), ({ tensors }) => {
    for (const [name, tensor] of [...tensors]) {
      const [, begin, part, end] = /^(v\..*blk\.\d+\.)(\w+)(\..+)$/.exec(name) ?? []
      if (part === undefined || !Object.hasOwn(older, part)) continue
      tensors.set(`${begin}${older[part]}${end}-`, tensor)
      tensors.delete(name)
    }
    for (const [name, tensor] of [...tensors]) {
      if (!name.endsWith("-")) continue
      tensors.delete(name)
      tensors.set(name.slice(0, -1), tensor)
    }
  })
  writeFileSync(path, written)
  return path
}

test.each([2, 4])("in %i shards it computes the bits of one", async (count) => {
  const fields = new Fields(
    {
      ...{ vocab_size: 72, hidden_size: 256, num_hidden_layers: 3, num_attention_heads: 8 },
      ...{ num_key_value_heads: 4, intermediate_size: 512, cross_attention_layers: [1] },
      ...{ max_position_embeddings: 96 },
    },
    (what) => {
      throw new Error(what)
    },
  )
  const graph = decoder("mllama_text_model", seeingImages(readMllama(fields)))
  const plan = compile(graph, {
    ...{ format: "q0f32", activations: "float", kv: "f32" },
    sums: traitsOf("vulkan").sums!,
  })
  const limits = limitsFor(plan, SIZES)
  const programs = [openReference(plan, limits), openShards(plan, shard(plan, count)!, limits)]
  for (const program of programs) await loadSmall(program)
  const prompt = {
    rows: Float32Array.from({ length: 20 * 256 }, (_, i) => Math.sin(i)),
    width: 256,
    tokens: [1, 79, 2, 3, 4],
    sights: [{ at: 21, from: 0, to: 19 }],
    logits: new Float32Array(),
  }
  const [one, several] = await Promise.all(
    programs.map((program) => logitsOf(program, prompt, { rows: 12, tokens: 3, first: 0 })),
  )
  expect(several).toEqual(one)
})

for (const on of ["vulkan", "opencl"] as const) {
  const { isSkipped, why } = lackOf(on)
  test.skipIf(isSkipped)(
    `sees as the model does, on ${on}${why}`,
    async () => {
      await judgeOn(on)
      await judgeTower("mllama", opening[on], { sums: traitsOf(on).sums })
    },
    GPU_MILLISECONDS,
  )
}

test("the tower on cpu, and compiled", async () => {
  await judgeTower("mllama", opening.cpu)
  const model = await openModel(FOLDER, { sees: true })
  onTestFinished(() => model.close())
  const folder = mkdtempSync(join(tmpdir(), "sinter-mllama-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  await compileFolder(model, folder, { format: model.format })
  await judgeTower("mllama", opening.reference, { path: folder })
})

test.each<[string, (vision: Json, config: Json) => void]>([
  [
    "vision_output_dim is 7680, and 3 layers leave 96 columns",
    (vision) => delete vision.vision_output_dim,
  ],
  [
    "intermediate_layers_indices holds 3, which is no layer of 3",
    (vision) => (vision.intermediate_layers_indices = [0, 3]),
  ],
  [
    "supported_aspect_ratios is [[1,1],[2,2]]; of 4 tiles only",
    (vision) =>
      (vision.supported_aspect_ratios = [
        [1, 1],
        [2, 2],
      ]),
  ],
  ["patch_size is 5, which does not divide tiles of 12", (vision) => (vision.patch_size = 5)],
  ["num_channels is 4; images have 3 colours", (vision) => (vision.num_channels = 4)],
  [
    "image_token_index is 330, not between 0 and 329",
    (_, config) => (config.image_token_index = 330),
  ],
])("%s, so it is served blind", async (what, change) => {
  expect(await blindBy("mllama", change)).toContain(what)
})

test("an image processor of other tiles than the tower's is named", async () => {
  const blind = await blindBy(
    "mllama",
    () => {},
    (folder) => {
      const file = join(folder, "preprocessor_config.json")
      const image = JSON.parse(readFileSync(file, "utf8"))
      writeFileSync(file, JSON.stringify({ ...image, max_image_tiles: 2 }))
    },
  )
  expect(blind).toContain("max_image_tiles is 2, but the tower reads 4 tiles")
})

test("an activation that is not known is named", async () => {
  expect(await blindBy("mllama", (vision) => (vision.hidden_act = "mish"))).toMatch(
    /hidden_act is "mish"/,
  )
})

test("an adapter changes layers that attend to images, where they are read", async () => {
  const adapter = mkdtempSync(join(tmpdir(), "sinter-mllama-"))
  onTestFinished(() => rmSync(adapter, { recursive: true }))
  const factors = Float32Array.from({ length: 2 * HIDDEN }, (_, i) => Math.sin(i))
  const rows = [Buffer.from(factors.buffer)]
  const at = "base_model.model.language_model.model.layers.1.cross_attn.q_proj.lora_"
  const fields = { peft_type: "LORA", r: 2, lora_alpha: 4, target_modules: ["q_proj"] }
  writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify(fields))
  write(
    join(adapter, "adapter_model.safetensors"),
    new Map([
      [`${at}A.weight`, { dtype: "F32", shape: [2, HIDDEN], rows }],
      [`${at}B.weight`, { dtype: "F32", shape: [HIDDEN, 2], rows }],
    ]),
  )
  const queriesBy = async (adapters: string[]) => {
    const model = await openModel(FOLDER, { sees: true, adapters })
    onTestFinished(() => model.close())
    const name = "model.layers.1.cross_attn.q_proj.weight"
    const { values } = await model.weights.tensor(name, HIDDEN, HIDDEN).read(0, HIDDEN)
    return [...values]
  }
  expect(await queriesBy([adapter])).not.toEqual(await queriesBy([]))
  // A text goes past these layers.
  await expect(openModel(FOLDER, { adapters: [adapter] })).rejects.toThrow(
    /it changes nothing that is served/,
  )
})

test("drafters that read rows of all tokens are refused", async () => {
  const model = await openModel(FOLDER, { sees: true })
  onTestFinished(() => model.close())
  const prepared = prepareDrafting({
    ...{ mode: "eagle", models: FOLDER, model, format: "q0bf16", overrides: {} },
    ...{ device: { name: "cpu", id: 0 }, target: "reference", log: createLog("silent", false) },
  })
  await expect(prepared).rejects.toThrow(
    /--speculative-mode: eagle reads rows of all tokens, and mllama makes none of an image's/,
  )
})

describe("a server", () => {
  let app: App
  let url: string
  beforeAll(async () => {
    app = await createApp({
      model: FOLDER,
      servedName: "golden",
      overrides: { max_total_seq_length: 512, prefill_chunk_size: 32, kv_dtype: "f32" },
    })
    url = `http://127.0.0.1:${await app.listen(0)}`
    await app.ready
  }, 240_000)
  afterAll(() => app.close())

  async function ask(prompt: number, more: object = {}, pictures?: readonly Buffer[]) {
    const { parts, bytes, greedy } = golden("mllama")[prompt]!
    const shown = pictures ?? bytes
    let at = 0
    const content = parts.map((part) =>
      part === "image"
        ? {
            type: "image_url",
            image_url: { url: `data:image/png;base64,${shown[at++]!.toString("base64")}` },
          }
        : { type: "text", text: part },
    )
    const body = {
      ...{ model: "golden", messages: [{ role: "user", content }], temperature: 0 },
      ...{ max_tokens: greedy.length, return_token_ids: true },
      ...more,
    }
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    })
    return (await response.json()) as {
      choices: { token_ids: number[]; message: { content: string } }[]
      usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } }
    }
  }

  test("gives choices of one image, and finds its prefix and no other's", async () => {
    const [one, other] = golden("mllama")
    const both = await ask(0, { n: 2 })
    expect(both.choices.map(({ token_ids }) => token_ids)).toEqual([one!.greedy, one!.greedy])
    expect(both.usage.prompt_tokens).toBe(one!.ids.length)
    const again = await ask(0)
    expect(again.choices[0]!.token_ids).toEqual(one!.greedy)
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(
      Math.floor((one!.ids.length - 1) / BLOCK) * BLOCK,
    )
    // As large an image as the first.
    const turned = await ask(0, {}, [other!.bytes[1]!])
    expect(turned.choices[0]!.token_ids).not.toEqual(one!.greedy)
    expect(turned.usage.prompt_tokens_details.cached_tokens).toBe(0)
  })

  test("goes on with texts beside images, and holds a reply to a schema", async () => {
    const text = { messages: [{ role: "user", content: "What is this?" }], max_tokens: 8 }
    const alone = await ask(0, text)
    const schema = { type: "object", properties: { a: { enum: [1, 22] } }, required: ["a"] }
    const json = {
      response_format: {
        type: "json_schema",
        json_schema: { name: "a", schema: { ...schema, additionalProperties: false } },
      },
    }
    const [held, beside, ...seeing] = await Promise.all([
      ask(0, json),
      ask(0, text),
      ...[0, 1, 2].map((prompt) => ask(prompt)),
    ])
    expect(beside!.choices[0]!.token_ids).toEqual(alone.choices[0]!.token_ids)
    expect(seeing.map(({ choices }) => choices[0]!.token_ids)).toEqual(
      golden("mllama").map(({ greedy }) => greedy),
    )
    expect([1, 22]).toContain(JSON.parse(held!.choices[0]!.message.content).a)
  })
})
