// Towers of models that see make of pixels what transformers' make of them (test/golden/vision).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { openModel } from "../../src/model/model.ts"
import { openVision, type Vision } from "../../src/model/vision/open-vision.ts"
import { goldenFolder } from "./golden.ts"
import { goldensOf, judgeTower, type Open } from "./towers.ts"

const names = readdirSync(goldenFolder("vision", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

async function visionOf(name: string): Promise<Vision> {
  const model = await openModel(goldenFolder("vision", name))
  onTestFinished(() => model.close())
  const vision = await openVision(model)
  onTestFinished(() => vision!.close())
  return vision!
}

async function judge(name: string, open: Open): Promise<void> {
  await judgeTower(await visionOf(name), goldensOf(name), open)
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
