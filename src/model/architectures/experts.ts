// What mixtures of experts have in common: how many experts there are and which of them a token goes to. How their
// configurations call that, each family says itself.

import type { Routing } from "../../compiler/graph/graph.ts"
import { MAX_LAYERS } from "../config.ts"
import type { Fields } from "../fields.ts"

const MAX_EXPERTS = 1024 // as many as kernels have room for

/** A mixture's experts, whose numbers stand in the fields `count` and `active`. */
export function readRouting(
  fields: Fields,
  { count, active }: { count: string; active: string },
  routing: Partial<Routing> = {},
): { count: number; routing: Routing } {
  const all = commonCount(fields, count, undefined, MAX_EXPERTS)
  const chosen = commonCount(fields, active)
  if (chosen > all) throw fields.wrong(active, `is ${chosen}, but there are ${all} experts`)
  return {
    count: all,
    routing: {
      active: chosen,
      score: "softmax",
      normalized: true,
      factor: 1,
      groups: undefined,
      ...routing,
    },
  }
}

const MLPS = ["dense", "sparse"]

/** Which layers have experts, the sparse ones, where a configuration lists them. */
export function readMlpTypes(fields: Fields, layers: number): string[] | undefined {
  if (!fields.has("mlp_layer_types")) return undefined
  const types = fields.texts("mlp_layer_types")
  if (types.length === layers && types.every((type) => MLPS.includes(type))) return types
  throw fields.wrong("mlp_layer_types", `is not a list of ${layers}, each ${MLPS.join(" or ")}`)
}

/** A number of all layers, or a list of the same one for each. */
export function commonCount(
  fields: Fields,
  name: string,
  otherwise?: number,
  most?: number,
): number {
  if (!Array.isArray(fields.json[name])) return fields.count(name, otherwise, 1, most)
  const counts = fields.counts(name, MAX_LAYERS)
  if (counts.length === 0 || counts.some((count) => count < 1 || count !== counts[0]))
    throw fields.wrong(name, "is a list of several numbers; known: layers that are alike")
  return fields.over({ [name]: counts[0]! }).count(name, undefined, 1, most)
}
