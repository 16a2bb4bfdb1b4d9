// Qwen that sees, from the bytes of pictures to the reply: towers, coordinates, logits and greedy tokens are those of transformers
// (test/golden/vision/qwen.py).

import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { ImageKeys, Sight } from "../../src/chat/vision.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import {
  answersAsGolden,
  blindBy,
  golden,
  type Json,
  judgeTower,
  opening,
  type Prompt,
  qwens,
} from "./pictures.ts"

interface Placed extends Prompt {
  grids: [height: number, width: number][] // in patches
  behind: number
}

const gridsOf = (name: string) =>
  golden<Placed>(name).map(({ grids }) =>
    grids.map(([height, width]) => ({ height: height / 2, width: width / 2 })),
  )

describe.each(qwens)("the tower of %s", (name) => {
  test("on reference", async () =>
    expect(await judgeTower(name, opening.reference)).toEqual(gridsOf(name)))

  test("on cpu", () => judgeTower(name, opening.cpu), 120_000)
})

const { isSkipped, why } = lackOf("vulkan")

/** With windows, and with what some layers leave. */
test.skipIf(isSkipped).each(["qwen2-5-vl", "qwen3-vl"])(
  `the tower of %s on vulkan${why}`,
  async (name) => {
    await judgeTower(name, opening.vulkan, { sums: traitsOf("vulkan").sums })
  },
  GPU_MILLISECONDS,
)

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
  expect(await blindBy("qwen3-vl", (vision) => (vision.model_type = "pixtral"))).toBeUndefined()
})

test.each(qwens)("%s: tokens of its prompts stand where transformers has them", (name) => {
  const tensors = readTensors(join(goldenFolder("vision", name), "golden.safetensors"))
  for (const [i, { ids, grids, behind }] of golden<Placed>(name).entries()) {
    const coordinates = new Int32Array(tensors(`coordinates.${i}`)) // [3, length]
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

describe.each(qwens)("%s answers as transformers does", answersAsGolden)
