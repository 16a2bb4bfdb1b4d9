// What is compiled for a model: the choices that its number format and its device bring with them.

import { type CompileOptions, compile } from "../compiler/compile.ts"
import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import type { Plan } from "../compiler/plan.ts"
import type { PlanTraits } from "../compiler/targets/target.ts"
import type { Overrides } from "../engine/limits.ts"
import { type FormatName, isMixed, isPacked } from "../runtime/format.ts"

/**
 * What to compile for a model whose weights are wanted in `format`.
 * @param traits those of the device that is to run it
 */
export function planOf(
  model: { graph: Graph; codecOf?: CodecOf },
  format: FormatName,
  overrides: Overrides,
  traits: PlanTraits,
  dump?: CompileOptions["dump"],
): Plan {
  // Formats of floats keep keys and values exact, since nothing else is rounded; packed ones halve them.
  const usual = isPacked(format) ? "f16" : "f32"
  return compile(model.graph, {
    format,
    ...traits,
    ...(isMixed(format) && model.codecOf ? { codecOf: model.codecOf } : {}),
    kv: overrides.kv_dtype ?? usual,
    ...(dump ? { dump } : {}),
  })
}

/**
 * What to compile of what a model sees or hears with. Its keys and values last for one step, so their type is the usual one, or f32
 * where the cache has that: a coarser `kv_dtype` would save no memory and cost it its accuracy.
 */
export function towerPlanOf(
  tower: { graph: Graph; codecOf?: CodecOf; format: FormatName },
  { kv_dtype }: Overrides,
  traits: PlanTraits,
  dump?: CompileOptions["dump"],
): Plan {
  const finest: Overrides = kv_dtype === "f32" ? { kv_dtype } : {}
  return planOf(tower, tower.format, finest, traits, dump)
}
