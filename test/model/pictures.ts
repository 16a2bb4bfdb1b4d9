// Golden models whose prompts are of pictures (test/golden/vision/qwen.py, pictures.py, fitting.py): what their towers make of a
// picture's bytes, and what a server answers about it.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished } from "vitest"
import { preparing } from "../../src/app/towers.ts"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan, SumOrder } from "../../src/compiler/plan.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openImages } from "../../src/images/images.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram, ProgramLimits } from "../../src/runtime/program.ts"
import { answersWith } from "./answers.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { arithmeticOf, expectNear } from "./steps.ts"

/** Whose tiles are as large as their images, and whose prompts tell in which grids they lie. */
const IS_FITTING = /^(cohere-compass|qwen|gemma4|glm|hunyuan|muse|paddleocr)/

export const picturedModels = readdirSync(goldenFolder("vision", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter((name) => "pictures" in promptsOf(name)[0]!)

export const fitting = picturedModels.filter((name) => IS_FITTING.test(name))
export const others = picturedModels.filter((name) => !IS_FITTING.test(name))

export interface Prompt {
  pictures: string[]
  parts: string[]
  /** Rows of its pictures, where they stand before all tokens. */
  rows?: number
}

function promptsOf(name: string): Prompt[] {
  const file = join(goldenFolder("vision", name), "golden.json")
  return JSON.parse(readFileSync(file, "utf8")).prompts
}

export function golden<Own extends Prompt>(name: string) {
  const folder = goldenFolder("vision", name)
  const tensors = readTensors(join(folder, "golden.safetensors"))
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  const front = ({ rows = 0 }: Prompt) => Array<number>(rows).fill(config.image_token_index)
  return (promptsOf(name) as Own[]).map((prompt, i) => ({
    ...prompt,
    bytes: prompt.pictures.map((file) => readFileSync(join(folder, file))),
    features: new Float32Array(tensors(`features.${i}`)),
    ids: [...front(prompt), ...new Int32Array(tensors(`prompt.${i}`))],
    greedy: [...new Int32Array(tensors(`greedy.${i}`))],
  }))
}

export type Open = (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>

/** How programs are opened on each target. */
export const opening: Record<"reference" | "cpu" | "vulkan" | "opencl", Open> = {
  reference: openReference,
  cpu: async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits),
  vulkan: async (plan, limits) => (await targets.vulkan.prepare(plan)).open(limits),
  opencl: async (plan, limits) => (await targets.opencl.prepare(plan)).open(limits),
}

type Size = { width: number; height: number } | undefined

/**
 * Rows of all pictures are those of transformers' tower.
 * @param path of other files with the same weights
 * @returns for each prompt in which grids they lie
 */
export async function judgeTower(
  name: string,
  open: Open,
  {
    sums,
    path = goldenFolder("vision", name),
  }: { sums?: SumOrder | undefined; path?: string } = {},
): Promise<Size[][]> {
  const model = await openModel(path, { sees: true })
  onTestFinished(() => model.close())
  expect(model.blind).toBeUndefined()
  const { config, graph, format, codecOf, weights, images, apart } = model.vision!
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...(sums && { sums }) })
  const program = await open(plan, towerLimits(plan.groups.length, 300))
  const tower = createTower(program)
  onTestFinished(() => tower.close())
  await loadParameters(weights, program.manifest, program)
  // A GGUF file does not say how large images are made.
  const folder = await openModel(goldenFolder("vision", name), { sees: true })
  onTestFinished(() => folder.close())
  const { images: said, config: own } = folder.vision!
  const { mutual, softToken, fits } = own
  const { factor: mean, standardized, side, by } = own.merge
  const merge = { side, by, ...(mean && { factor: mean }), ...(standardized && { standardized }) }
  const { frames: _, framesFirst: __, ...fitting } = fits ?? {} // which a file may have added up
  const also = { ...(mutual && { mutual }), ...(fits && { fits: fitting }) }
  expect(config).toMatchObject({ ...also, softToken, merge })
  expect({ ...images, cutting: said.cutting, mean: said.mean, std: said.std }).toEqual(said)
  const eyes = openImages(said)
  onTestFinished(() => eyes.close())
  const prepare = preparing(eyes, tower, apart && { apart })
  const nobody = { client: "" }
  const grids: Size[][] = []
  for (const { bytes, features } of golden(name)) {
    const seen = await Promise.all(bytes.map((each) => prepare(each, "image", nobody)))
    grids.push(seen.map(({ grid }) => grid))
    const pieces = await Promise.all(seen.map((each) => each.encode(nobody)))
    const rows = Float32Array.from(pieces.flatMap((piece) => [...piece]))
    expect(rows.length).toBe(features.length)
    const { factor } = config.projector
    const made = rows.map((x) => x / factor)
    expectNear(made, features, { distance: 2e-4, arithmetic: arithmeticOf(program) })
  }
  return grids
}

export type Json = Record<string, unknown>

/**
 * A folder of the golden model with other words in its configuration.
 * @param damage done to the folder
 */
export function changed(
  name: string,
  change: (vision: Json, config: Json) => void,
  damage: (folder: string) => void = () => {},
): string {
  const folder = mkdtempSync(join(tmpdir(), `sinter-${name}-`))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(goldenFolder("vision", name), folder, { recursive: true })
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  change(config.vision_config, config)
  writeFileSync(file, JSON.stringify(config))
  damage(folder)
  return folder
}

/**
 * Why it sees nothing then; undefined: it just does not.
 * @param damage done to the folder
 */
export async function blindBy(
  name: string,
  change: (vision: Json, config: Json) => void,
  damage: (folder: string) => void = () => {},
) {
  const model = await openModel(changed(name, change, damage), { sees: true })
  onTestFinished(() => model.close())
  expect(model.vision).toBeUndefined()
  return model.blind
}

/** A test: both prompts at once, then the second again behind what is remembered of it. */
export function answersAsGolden(name: string, model = goldenFolder("vision", name)): void {
  const overrides = {
    max_total_seq_length: 512,
    prefill_chunk_size: /^(gemma4|paligemma)/.test(name) ? 80 : 32, // whose images, or prompts, are whole in a step
    kv_dtype: "f32",
  } as const
  const sent = (bytes: Buffer) => {
    const data = bytes.toString("base64")
    return { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }
  }
  answersWith({ model, overrides, prompts: golden(name), media: ["image"], sent })
}
