// The compiler's front door: a graph goes in, a plan comes out, and every phase in between can be had as text. What makes a
// program of the plan is a target.

import { createHash } from "node:crypto"
import { type FormatName, formats } from "../runtime/format.ts"
import { ABI, type Manifest } from "../runtime/manifest.ts"
import { type Graph, printGraph } from "./graph/graph.ts"
import { lower } from "./lower.ts"
import { fuseResidual } from "./passes/fuse-residual.ts"
import { fuseSwiglu } from "./passes/fuse-swiglu.ts"
import { joinLinears } from "./passes/join-linears.ts"
import { quantizeActivations } from "./passes/quantize-activations.ts"
import { selectRows } from "./passes/select-rows.ts"
import { type Plan, printPlan } from "./plan.ts"

export interface CompileOptions {
  format: FormatName
  /** "int8": inputs of packed matrices are rounded to 8 bits, an operation of the plan. Formats of floats have none. */
  activations: "float" | "int8"
  /** What keys and values are kept in. */
  kv: Plan["kv"]
  /** Given every phase as a readable file. */
  dump?: (name: string, text: string) => void
}

interface Pass {
  name: string
  run: (graph: Graph, options: CompileOptions) => Graph
}

/** In this order: rows are chosen before products of one input are joined, since a select makes another input. */
export const passes: readonly Pass[] = [
  { name: "select-rows", run: selectRows },
  { name: "join-linears", run: joinLinears },
  { name: "fuse-swiglu", run: fuseSwiglu },
  { name: "fuse-residual", run: fuseResidual },
  {
    name: "quantize-activations",
    run: (graph, { format, activations }) => {
      const row = formats[format]
      return activations === "int8" && row.kind === "group"
        ? quantizeActivations(graph, row.group)
        : graph
    },
  },
]

export function compile(graph: Graph, options: CompileOptions): Plan {
  const { format, kv, dump } = options
  dump?.("0-graph.txt", printGraph(graph))
  const final = passes.reduce((before, { name, run }, i) => {
    const after = run(before, options)
    dump?.(`${i + 1}-${name}.txt`, printGraph(after))
    return after
  }, graph)
  const plan = lower(final, format, kv)
  dump?.(`${passes.length + 1}-plan.txt`, printPlan(plan))
  return plan
}

/** What a target adds to a plan to make a manifest. */
export interface TargetFacts {
  target: string
  kv: Manifest["kv"]
  features: readonly string[]
  /** Hash of what beside the plan decides the bits: kernels, compiler, flags. */
  sources: string
}

export function manifestOf(plan: Plan, { target, kv, features, sources }: TargetFacts): Manifest {
  const { architecture, format, shapes, window, sinks, parameters } = plan
  const computes = sha256(JSON.stringify(plan))
  return {
    abi: ABI,
    target,
    architecture,
    format,
    plan: computes,
    fingerprint: sha256(`${computes} ${target} ${sources}`),
    shapes,
    sinks,
    ...(window === undefined ? {} : { window }),
    kv,
    features,
    parameters,
  }
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex")
}
