// Qwen that sees, from the bytes of pictures to the reply: towers, coordinates, logits and greedy tokens are those of transformers
// (test/golden/vision/qwen.py).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { type App, createApp } from "../../src/app.ts"
import { ImageKeys, Sight } from "../../src/chat/vision.ts"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan, SumOrder } from "../../src/compiler/plan.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openImages } from "../../src/images/images.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram, ProgramLimits } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"

const names = readdirSync(goldenFolder("vision", "."))
  .filter((name) => name.startsWith("qwen"))
  .filter((name) => !name.includes("."))

interface Prompt {
  pictures: string[]
  grids: [height: number, width: number][] // in patches
  parts: string[]
  behind: number
}

function golden(name: string) {
  const folder = goldenFolder("vision", name)
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (prompts as Prompt[]).map((prompt, i) => ({
    ...prompt,
    bytes: prompt.pictures.map((file) => readFileSync(join(folder, file))),
    features: new Float32Array(tensors(`features.${i}`)),
    ids: [...new Int32Array(tensors(`prompt.${i}`))],
    greedy: [...new Int32Array(tensors(`greedy.${i}`))],
    coordinates: new Int32Array(tensors(`coordinates.${i}`)), // [3, length]
  }))
}

interface Answer {
  usage: { prompt_tokens_details: { cached_tokens: number } }
}

type Open = (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>

/** Rows of all pictures are those of transformers' tower, and lie in the grid that they have there. */
async function judgeTower(name: string, open: Open, sums?: SumOrder): Promise<void> {
  const model = await openModel(goldenFolder("vision", name), { sees: true })
  onTestFinished(() => model.close())
  expect(model.blind).toBeUndefined()
  const { graph, format, codecOf, weights, images } = model.vision!
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...(sums && { sums }) })
  const program = await open(plan, towerLimits(plan.groups.length, 256))
  const tower = createTower(program)
  onTestFinished(() => tower.close())
  await loadParameters(weights, program.manifest, program)
  const eyes = openImages(images)
  onTestFinished(() => eyes.close())
  for (const { bytes, grids, features } of golden(name)) {
    const seen = await Promise.all(bytes.map((each) => eyes.see(each, "image", { client: "" })))
    expect(seen.map(({ grid }) => grid)).toEqual(
      grids.map(([height, width]) => ({ height: height / 2, width: width / 2 })),
    )
    const tiles = seen.flatMap((each) => each.tiles)
    const count = seen.reduce((sum, each) => sum + each.rows, 0)
    const rows = await tower.read(count, async () => tiles, { client: "" })
    expect(rows.length).toBe(features.length)
    const worst = rows.reduce((most, x, i) => Math.max(most, Math.abs(x - features[i]!)), 0)
    expect(worst).toBeLessThan(2e-4)
  }
}

describe.each(names)("the tower of %s", (name) => {
  test("on reference", () => judgeTower(name, openReference))

  test(
    "on cpu",
    () => judgeTower(name, async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits)),
    120_000,
  )
})

const { isSkipped, why } = lackOf("vulkan")

/** With windows, and with what some layers leave. */
test.skipIf(isSkipped).each(["qwen2-5-vl", "qwen3-vl"])(
  `the tower of %s on vulkan${why}`,
  async (name) => {
    const { vulkan } = targets
    const open: Open = async (plan, limits) => (await vulkan.prepare(plan)).open(limits)
    await judgeTower(name, open, vulkan.traits.sums)
  },
  GPU_MILLISECONDS,
)

const scratch = mkdtempSync(join(tmpdir(), "sinter-qwen-"))
afterAll(() => rmSync(scratch, { recursive: true }))

type Json = Record<string, unknown>

/** Why the golden model sees nothing with other words in its configuration; undefined: it just does not. */
async function blindBy(
  name: string,
  change: (vision: Json, config: Json) => void,
  damage: (folder: string) => void = () => {},
) {
  const folder = mkdtempSync(join(scratch, `${name}-`))
  cpSync(goldenFolder("vision", name), folder, { recursive: true })
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  change(config.vision_config, config)
  writeFileSync(file, JSON.stringify(config))
  damage(folder)
  const model = await openModel(folder, { sees: true })
  onTestFinished(() => model.close())
  expect(model.vision).toBeUndefined()
  return model.blind
}

test.each<[string, string, (vision: Json, config: Json) => void]>([
  ["qwen2-vl", "depth is 99999", (vision) => (vision.depth = 99999)],
  ["qwen2-vl", "num_heads makes heads of 2 columns", (vision) => (vision.num_heads = 16)],
  ["qwen2-vl", "temporal_patch_size is 1; known: 2", (vision) => (vision.temporal_patch_size = 1)],
  [
    "qwen2-vl",
    "rope_scaling.mrope_section is [1, 2, 2], not three parts of 6",
    (_, config) => (config.rope_scaling = { type: "mrope", mrope_section: [1, 2, 2] }),
  ],
  ["qwen2-5-vl", "window_size is 4, less than", (vision) => (vision.window_size = 4)],
  ["qwen2-5-vl", 'hidden_act is "mish"', (vision) => (vision.hidden_act = "mish")],
  ["qwen3-vl", "names layer 3 of 3", (vision) => (vision.deepstack_visual_indexes = [0, 3])],
  [
    "qwen3-vl",
    "names 4 layers, for 3",
    (vision) => Object.assign(vision, { depth: 4, deepstack_visual_indexes: [0, 1, 2, 3] }),
  ],
  ["qwen3-vl", "pos_embed.weight", (vision) => (vision.num_position_embeddings = 16)],
  ["qwen3-5", "image_token_id is 336", (_, config) => (config.image_token_id = 336)],
])("%s: %s, so it is served blind", async (name, what, change) => {
  expect(await blindBy(name, change)).toContain(what)
})

test("a tower that is not known is none", async () => {
  expect(await blindBy("qwen3-vl", (vision) => (vision.model_type = "pixtral"))).toMatch(
    /config\.json: vision_config is of a tower that is not known: "qwen3_vl", of type "pixtral"$/,
  )
})

/** Tensors of a folder, by names that are as long. */
const renaming = (name: string, other: string) => (folder: string) => {
  const file = join(folder, "model.safetensors")
  const bytes = readFileSync(file, "latin1").replaceAll(name, other)
  writeFileSync(file, bytes, "latin1")
}

test.each([
  ["attn.proj.scales", "attn.proj.scaled", "tensor vision_tower.blocks.0.attn.proj.weight has"],
  ["attn.proj.biases", "attn.proj.biased", "tensor vision_tower.blocks.0.attn.proj.biases is not"],
  ["norm1.weight", "norm7.weight", "there is no tensor vision_tower.blocks.0.norm1.weight"],
])("a tower of MLX's with %s under another name is not guessed at", async (name, other, what) => {
  const damage = renaming(`blocks.0.${name}`, `blocks.0.${other}`)
  expect(await blindBy("qwen3-vl-mlx", () => {}, damage)).toContain(what)
})

test("a folder without its tower says so", async () => {
  const damage = renaming("vision_tower.", "vision_hidden")
  expect(await blindBy("qwen3-vl-mlx", () => {}, damage)).toMatch(/holds no weights of the tower/)
})

test.each(names)("%s: tokens of its prompts stand where transformers has them", (name) => {
  for (const { ids, grids, coordinates, behind } of golden(name)) {
    const soft = { text: "<|image_pad|>", id: 324 }
    const prepare = () => Promise.reject(new Error("nothing is prepared"))
    const sight = new Sight(
      { mark: soft.text, soft, prepare, keys: new ImageKeys() },
      [],
      undefined,
    )
    const images = grids.map(([height, width]) => ({
      hash: "",
      text: "",
      rows: (height * width) / 4,
      grid: { height: height / 2, width: width / 2 },
      encode: prepare,
    }))
    const { placed } = sight.found(Int32Array.from(ids), images)
    expect(placed.coordinates).toEqual({ ofPrompt: coordinates, behind })
  }
})

/** Both prompts at once, then the second again behind what is remembered of it. */
describe.each(names)("%s answers as transformers does", (name) => {
  let app: App
  let url: string
  beforeAll(async () => {
    const overrides = {
      max_total_seq_length: 512,
      prefill_chunk_size: 32,
      kv_dtype: "f32",
    } as const
    const model = goldenFolder("vision", name)
    app = await createApp({ model, servedName: name, overrides })
    url = `http://127.0.0.1:${await app.listen(0)}`
    await app.ready
  }, 240_000)
  afterAll(() => app.close())

  async function ask({ parts, bytes, greedy }: ReturnType<typeof golden>[number]) {
    let at = 0
    const content = parts.map((part) => {
      if (part !== "image") return { type: "text", text: part }
      const data = bytes[at++]!.toString("base64")
      return { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }
    })
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: name,
        messages: [{ role: "user", content }],
        temperature: 0,
        max_tokens: greedy.length,
        return_token_ids: true,
      }),
    })
    return (await response.json()) as Answer
  }

  test("pictures and texts, alone and together", async () => {
    const prompts = golden(name)
    const replies = await Promise.all(prompts.map(ask))
    replies.push(await ask(prompts[1]!))
    for (const [i, { ids, greedy }] of [...prompts, prompts[1]!].entries()) {
      expect(replies[i]).toMatchObject({
        prompt_token_ids: ids,
        choices: [{ token_ids: greedy }],
      })
    }
    expect(replies[2]!.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(16)
  }, 240_000)
})
