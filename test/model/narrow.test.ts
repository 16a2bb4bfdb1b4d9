// Widths of 1: of each golden model's configuration, each number is put to 1, and one sentence says which field is meant, or it is a model.

import { readdirSync, readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { architectures } from "../../src/model/architectures.ts"
import { Fields } from "../../src/model/fields.ts"
import { isObject, type Json } from "../../src/model/folder.ts"
import { decoder } from "../../src/model/layers.ts"
import { graphOrWhy } from "../../src/model/narrow.ts"
import { architectureOf, textFields, wholeFields } from "../../src/model/seeing.ts"
import { goldenFolder } from "./golden.ts"

class Told extends Error {}

const goldenModels = readdirSync(goldenFolder("models", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const configOf = (name: string): Json =>
  JSON.parse(readFileSync(goldenFolder("models", `${name}/config.json`), "utf8"))

/** What is said of a model of these fields; nothing: it is one. */
function saidOf(json: Json): string | undefined {
  try {
    const whole = wholeFields(new Fields(json, (what) => new Told(what) as never))
    const [architecture, fields] = [architectureOf(whole), textFields(whole)]
    const config = architectures[architecture].read(fields)
    graphOrWhy(architecture, fields, () => decoder(architecture, config))
  } catch (error) {
    if (error instanceof Told) return error.message
    throw error
  }
  return undefined
}

/** The fields with 1 in the place of one number, of each by its path. */
function* narrowed(json: Json): Generator<[string, Json]> {
  for (const [name, value] of Object.entries(json)) {
    if (Number.isInteger(value)) yield [name, { ...json, [name]: 1 }]
    if (!isObject(value)) continue
    for (const [inner, changed] of narrowed(value))
      yield [`${name}.${inner}`, { ...json, [name]: changed }]
  }
}

test("no number of a configuration that is 1 is a fault of ours", () => {
  const faults = goldenModels.flatMap((name) =>
    [...narrowed(configOf(name))].flatMap(([field, json]) => {
      try {
        saidOf(json)
        return []
      } catch (error) {
        return [`${name}, ${field}: ${(error as Error).message}`]
      }
    }),
  )
  expect(faults).toEqual([])
})

test.each<[string, Json, string]>([
  ["qwen2-moe", { shared_expert_intermediate_size: 1 }, "shared_expert_intermediate_size leaves"],
  [
    "deepseek-v3",
    { moe_intermediate_size: 1 },
    "moe_intermediate_size leaves layers.1.shared_down",
  ],
  ["deepseek-v3", { q_lora_rank: 1, v_head_dim: 1 }, "q_lora_rank leaves layers.0.q_b one column"],
  [
    "kimi-linear",
    {
      linear_attn_config: { ...(configOf("kimi-linear").linear_attn_config as Json), head_dim: 1 },
    },
    "linear_attn_config.head_dim leaves layers.0.delta_f_b one column",
  ],
  [
    "gemma3n",
    { laurel_rank: 1 },
    "laurel_rank leaves layers.0.laurel_right one column; a width is",
  ],
  [
    "mamba",
    { time_step_rank: "auto", hidden_size: 16, intermediate_size: 32 },
    "hidden_size is too small",
  ],
])("%s with %j is refused", (name, changes, words) => {
  expect(saidOf({ pad_token_id: 1, ...configOf(name), ...changes })).toContain(words)
})
