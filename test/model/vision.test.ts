// Towers of models that see make of pixels what transformers' make of them (test/golden/vision).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { openModel } from "../../src/model/model.ts"
import { openVision, type Vision } from "../../src/model/vision/open-vision.ts"
import type { TowerConfig } from "../../src/model/vision/tower.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram, ProgramLimits } from "../../src/runtime/program.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { batch, blocksFor, limitsFor, type Part, take } from "./steps.ts"

const names = readdirSync(goldenFolder("vision", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !entry.name.startsWith("qwen")) // qwen-vision.test.ts
  .map(({ name }) => name)

/** Some tiles, and the rows that come out of all of them. */
interface Golden {
  tiles: number
  pixels: Float32Array // [tiles, 3, side, side]
  features: Float32Array // [rows, hidden]
}

function goldens(name: string): Golden[] {
  const folder = goldenFolder("vision", name)
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (prompts as { tiles: number }[]).map(({ tiles }, i) => ({
    tiles,
    pixels: new Float32Array(tensors(`pixels.${i}`)),
    features: new Float32Array(tensors(`features.${i}`)),
  }))
}

async function visionOf(name: string): Promise<Vision> {
  const model = await openModel(goldenFolder("vision", name))
  onTestFinished(() => model.close())
  const vision = await openVision(model)
  onTestFinished(() => vision!.close())
  return vision!
}

/**
 * The patches of a tile [3, pixels, pixels] as a tower takes them: those that become one row behind one another, and a class's
 * row before them.
 */
function cut(
  { patch, side, hasClass, merge }: TowerConfig,
  tile: Float32Array,
): { rows: number[][]; places: number[]; wanted: number[] } {
  const across = Math.sqrt(tile.length / 3)
  const [rows, places, wanted]: [number[][], number[], number[]] = [[], [], []]
  if (hasClass) {
    rows.push(Array<number>(3 * patch * patch).fill(0))
    places.push(0)
  }
  const inBlocks = side / merge.side
  for (let block = 0; block < inBlocks * inBlocks; block++) {
    wanted.push(rows.length)
    for (let i = 0; i < merge.side * merge.side; i++) {
      const y = Math.floor(block / inBlocks) * merge.side + Math.floor(i / merge.side)
      const x = (block % inBlocks) * merge.side + (i % merge.side)
      places.push((hasClass ? 1 : 0) + y * side + x)
      rows.push(
        Array.from({ length: 3 * patch * patch }, (_, n) => {
          const colour = Math.floor(n / (patch * patch))
          const down = y * patch + (Math.floor(n / patch) % patch)
          return tile[(colour * across + down) * across + x * patch + (n % patch)]!
        }),
      )
    }
  }
  return { rows, places, wanted }
}

/** What comes out of all tiles in one step. */
async function seen(
  program: LoadableProgram,
  { config }: Vision,
  { tiles, pixels }: Golden,
): Promise<Float32Array> {
  const size = pixels.length / tiles
  const cuts = Array.from({ length: tiles }, (_, tile) =>
    cut(config, pixels.subarray(tile * size, (tile + 1) * size)),
  )
  const parts = cuts.map(({ places, wanted }, tile): Part => {
    const blocks = blocksFor(places.length, tile * blocksFor(places.length).length)
    return { tokens: places, from: 0, blocks, logits: [], hidden: wanted }
  })
  const hiddenIn = Float32Array.from(cuts.flatMap(({ rows }) => rows.flat()))
  return (await take(program, { ...batch(parts), hiddenIn })).hidden
}

async function judge(
  name: string,
  open: (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>,
): Promise<void> {
  const vision = await visionOf(name)
  const { graph, format, codecOf, weights } = vision
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, options)
  const { context } = graph.shapes
  const limits = { blocks: 20, tokens: 2 * context, sequences: 2, rows: 2 * context }
  const program = await open(plan, limitsFor(plan, limits))
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  for (const golden of goldens(name)) {
    const hidden = await seen(program, vision, golden)
    // Gemma's text model multiplies what comes out, here and not there.
    const { factor } = vision.config.projector
    const expected = golden.features.map((feature) => feature * factor)
    expect(hidden.length).toBe(expected.length)
    const worst = hidden.reduce((most, x, i) => Math.max(most, Math.abs(x - expected[i]!)), 0)
    expect(worst).toBeLessThan(1e-4)
  }
}

describe.each(names)("%s", (name) => {
  test("on reference", () => judge(name, openReference))

  test(
    "on cpu",
    () => judge(name, async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits)),
    120_000,
  )
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-vision-"))
afterAll(() => rmSync(scratch, { recursive: true }))

/** The golden model with other words in its configuration. */
async function openChanged(
  name: string,
  change: (config: Json, vision: Json) => void,
): Promise<Vision | undefined> {
  const folder = mkdtempSync(join(scratch, `${name}-`))
  cpSync(goldenFolder("vision", name), folder, { recursive: true })
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  change(config, config.vision_config)
  writeFileSync(file, JSON.stringify(config))
  const model = await openModel(folder)
  onTestFinished(() => model.close())
  const vision = await openVision(model)
  onTestFinished(() => vision?.close())
  return vision
}

type Json = Record<string, unknown>

test("a tower that is not known is none", async () => {
  const isNone = async (name: string, change: (config: Json, vision: Json) => void) =>
    expect(await openChanged(name, change)).toBeUndefined()
  await isNone("llava-clip", (_, vision) => Object.assign(vision, { model_type: "pixtral" }))
  await isNone("llava-clip", (config) => delete config.vision_config)
  await isNone("gemma3", (config) => Object.assign(config, config.text_config))
})

test("a model whose folder holds no tower has none", async () => {
  const folder = goldenFolder("models", "llama-tied")
  const model = await openModel(folder)
  onTestFinished(() => model.close())
  expect(await openVision(model)).toBeUndefined()
  const renamed = { image_token_id: 5, model_type: "llava" }
  const place = mkdtempSync(join(scratch, "blind-"))
  cpSync(folder, place, { recursive: true })
  const text_config = JSON.parse(readFileSync(join(place, "config.json"), "utf8"))
  const config = { ...renamed, text_config, vision_config: { model_type: "clip_vision_model" } }
  writeFileSync(join(place, "config.json"), JSON.stringify(config))
  const blind = await openModel(place)
  onTestFinished(() => blind.close())
  expect(await openVision(blind)).toBeUndefined()
})

test.each<[string, string, (config: Json, vision: Json) => void]>([
  ["smolvlm", "scale_factor joins 4 patches a side", (config) => (config.scale_factor = 4)],
  ["smolvlm", "vision_config.num_channels is 1", (_, vision) => (vision.num_channels = 1)],
  ["smolvlm", "image_token_id is 336", (config) => (config.image_token_id = 336)],
  ["smolvlm", "vision_config.patch_size is 25", (_, vision) => (vision.patch_size = 25)],
  ["idefics3", "vision_config.num_hidden_layers is 20000", (_, v) => (v.num_hidden_layers = 20000)],
  ["idefics3", "makes 9999 layers", (_, vision) => (vision.num_hidden_layers = 9999)],
  ["idefics3", "position_embedding.weight has shape", (_, vision) => (vision.image_size = 56)],
  ["llava-clip", "vision_feature_layer is [-2,-5]", (c) => (c.vision_feature_layer = [-2, -5])],
  ["llava-clip", "vision_feature_layer is -4", (config) => (config.vision_feature_layer = -4)],
  ["llava-clip", "vision_feature_layer is 0", (config) => (config.vision_feature_layer = 0)],
  ["llava-clip", 'vision_config.hidden_act is "mish"', (_, vision) => (vision.hidden_act = "mish")],
  ["internvl", "vision_config.image_size is [24, 30]", (_, v) => (v.image_size = [24, 30])],
  ["internvl", "vision_config.norm_type", (_, vision) => (vision.norm_type = "batch_norm")],
  ["internvl", "select_strategy", (config) => (config.vision_feature_select_strategy = "full")],
  ["gemma3", "mm_tokens_per_image is 5", (config) => (config.mm_tokens_per_image = 5)],
])("%s: %s is refused", async (name, what, change) => {
  await expect(openChanged(name, change)).rejects.toMatchObject({
    code: "model_broken",
    message: expect.stringContaining(what),
  })
})
