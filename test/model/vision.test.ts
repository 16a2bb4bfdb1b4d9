// Towers of models that see make of pixels what transformers' make of them (test/golden/vision).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { openModel } from "../../src/model/model.ts"
import { openVision, type Vision } from "../../src/model/vision/open-vision.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder } from "./golden.ts"
import { judgeTower, type Open } from "./towers.ts"
import { readSights, seeingModels } from "./vision.ts"

async function visionOf(name: string): Promise<Vision> {
  const model = await openModel(goldenFolder("vision", name))
  onTestFinished(() => model.close())
  const vision = await openVision(model)
  onTestFinished(() => vision!.close())
  return vision!
}

/** How programs are opened on each target. */
const opening: Record<"reference" | "cpu" | "vulkan", Open> = {
  reference: openReference,
  cpu: async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits),
  vulkan: async (plan, limits) => (await targets.vulkan.prepare(plan)).open(limits),
}

async function judge(name: string, on: keyof typeof opening): Promise<void> {
  const { sums } = on === "vulkan" ? traitsOf(on) : { sums: undefined }
  await judgeTower(await visionOf(name), readSights(name), opening[on], sums && { sums })
}

describe.each(seeingModels)("%s", (name) => {
  test("on reference", () => judge(name, "reference"))

  test("on cpu", () => judge(name, "cpu"), 120_000)
})

/** A class, rows of a table in float32 beside matrices in bf16, layer scale; rows of which a mean is taken. */
describe.each(["internvl", "gemma3"])("%s", (name) => {
  const { isSkipped, why } = lackOf("vulkan")
  test.skipIf(isSkipped)(`on vulkan${why}`, () => judge(name, "vulkan"), GPU_MILLISECONDS)
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-vision-"))
afterAll(() => rmSync(scratch, { recursive: true }))

/** The golden model with other words in its configuration. */
async function openChanged(
  name: string,
  change: (config: Json, vision: Json, folder: string) => void,
): Promise<Vision | undefined> {
  const folder = mkdtempSync(join(scratch, `${name}-`))
  cpSync(goldenFolder("vision", name), folder, { recursive: true })
  const file = join(folder, "config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  change(config, config.vision_config, folder)
  writeFileSync(file, JSON.stringify(config))
  const model = await openModel(folder)
  onTestFinished(() => model.close())
  const vision = await openVision(model)
  onTestFinished(() => vision?.close())
  return vision
}

type Json = Record<string, unknown>

test("filters are read with their channels last, as MLX keeps them", async () => {
  const [vision, changed] = [
    await visionOf("llava-siglip"),
    (await openChanged("llava-siglip", (_, __, folder) => turnFilters(join(folder, WEIGHTS))))!,
  ]
  const patches = ({ weights }: Vision) =>
    weights.tensor("model.patch_embedding.weight", 48, 3 * 7 * 7).read(5, 40)
  expect((await patches(changed)).values).toEqual((await patches(vision)).values)
})

const WEIGHTS = "model.safetensors"

/** [48, 3, 7, 7] of bf16 as [48, 7, 7, 3]. */
function turnFilters(path: string): void {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const header = bytes.toString("latin1", 8, data)
  const [, offset] = /"shape":\[48,3,7,7\],"data_offsets":\[(\d+),/.exec(header)!
  bytes.write(header.replace("[48,3,7,7]", "[48,7,7,3]"), 8, "latin1")
  const filters = new Uint16Array(48 * 49 * 3)
  const at = data + Number(offset)
  const stored = new Uint16Array(
    bytes.buffer.slice(bytes.byteOffset + at).slice(0, filters.byteLength),
  )
  for (let row = 0; row < 48; row++)
    for (let point = 0; point < 49; point++)
      for (let colour = 0; colour < 3; colour++)
        filters[(row * 49 + point) * 3 + colour] = stored[(row * 3 + colour) * 49 + point]!
  bytes.set(new Uint8Array(filters.buffer), at)
  writeFileSync(path, bytes)
}

test("a tower that is not known is none", async () => {
  const isNone = async (name: string, change: (config: Json, vision: Json) => void) =>
    expect(await openChanged(name, change)).toBeUndefined()
  await isNone("llava-clip", (_, vision) => Object.assign(vision, { model_type: "vit" }))
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
  ["llava-clip", "vision_feature_layer holds -5", (c) => (c.vision_feature_layer = [-2, -5])],
  ["llava-clip", "vision_feature_layer holds 0", (config) => (config.vision_feature_layer = 0)],
  ["llava-clip", 'vision_feature_layer holds "last"', (c) => (c.vision_feature_layer = "last")],
  ["llava-clip", "vision_feature_layer names no layer", (c) => (c.vision_feature_layer = [])],
  ["llava-clip", 'vision_config.hidden_act is "mish"', (_, vision) => (vision.hidden_act = "mish")],
  ["internvl", "vision_config.image_size is [24, 30]", (_, v) => (v.image_size = [24, 30])],
  ["internvl", "vision_config.norm_type", (_, vision) => (vision.norm_type = "batch_norm")],
  ["internvl", "select_strategy", (config) => (config.vision_feature_select_strategy = "full")],
  ["aya-vision", "alignment_intermediate_size", (c) => (c.alignment_intermediate_size = 41)],
  ["gemma3", "mm_tokens_per_image is 5", (config) => (config.mm_tokens_per_image = 5)],
])("%s: %s is refused", async (name, what, change) => {
  await expect(openChanged(name, change)).rejects.toMatchObject({
    code: "model_broken",
    message: expect.stringContaining(what),
  })
})
