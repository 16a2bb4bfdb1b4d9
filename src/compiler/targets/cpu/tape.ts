// A plan as a generic library reads it: what emit.ts says in C, as numbers, all of which a double holds exactly. kernels/generic.h
// reads it when a model is opened, generic.ts has the names.
//
//   | how many words | constants | the widest attention | extents | bytes of a KV block, and whether it is a state, of each group | parameters | steps | lists |

import type { Plan } from "../../plan.ts"
import { constantsOf, extentsOf, parametersOf, widestAttention } from "./emit.ts"
import { keptParameters } from "./kept.ts"
import { attention, extent, type Lists, parameter } from "./kinds.ts"
import { type Layout, layoutOf } from "./layout.ts"
import { stepCode } from "./steps.ts"

export function tapeOf(plan: Plan, layout: Layout = layoutOf(plan)): number[] {
  const weights = keptParameters(plan)
  const all: number[] = []
  const lists: Lists = { place: (numbers) => all.push(...numbers) - numbers.length }
  const { count, words } = stepCode(plan, weights, lists)
  const tape = [
    ...Object.values(constantsOf(plan, layout, count)),
    ...attention.tape(widestAttention(plan), lists),
    ...extentsOf(plan, layout).flatMap(([, at]) => extent.tape(at, lists)),
    ...layout.kv.map(({ blockBytes }) => blockBytes),
    ...layout.kv.map(({ isState }) => Number(isState)),
    ...parametersOf(weights, layout).flatMap((value) => parameter.tape(value, lists)),
    ...words,
    ...all,
  ]
  return [tape.length + 1, ...tape]
}
