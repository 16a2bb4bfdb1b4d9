// What is compiled for a model: the choices that its number format brings with it.

import { type CompileOptions, compile } from "../compiler/compile.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import type { Plan } from "../compiler/plan.ts"
import type { Overrides } from "../engine/limits.ts"
import { type FormatName, formats } from "../runtime/format.ts"

/** What to compile for a model whose weights are wanted in `format`. */
export function planOf(
  model: { graph: Graph },
  format: FormatName,
  overrides: Overrides = {},
  dump?: CompileOptions["dump"],
): Plan {
  // Formats of floats keep keys and values exact, since nothing else is rounded; packed ones halve them.
  const usual = formats[format].kind === "float" ? "f32" : "f16"
  return compile(model.graph, {
    format,
    activations: "int8",
    kv: overrides.kv_dtype ?? usual,
    ...(dump ? { dump } : {}),
  })
}
