// What mixtures of experts have in common: how many experts there are and which of them a token goes to. How their
// configurations call that, each family says itself.

import type { Routing } from "../../compiler/graph/graph.ts"
import type { Fields } from "../fields.ts"

const MAX_EXPERTS = 1024 // as many as kernels have room for

/** A mixture's experts, whose numbers stand in the fields `count` and `active`. */
export function readRouting(
  fields: Fields,
  { count, active }: { count: string; active: string },
  routing: Partial<Routing> = {},
): { count: number; routing: Routing } {
  const all = fields.count(count, undefined, 1, MAX_EXPERTS)
  const chosen = fields.count(active, undefined, 1)
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
