// The compiler's front door: a graph goes in, a plan comes out, and every phase in between can be had as text. What makes a
// program of the plan is a target.

import { createHash } from "node:crypto"
import { type FormatName, formats } from "../runtime/format.ts"
import { ABI, type Manifest } from "../runtime/manifest.ts"
import type { CodecOf } from "./graph/codecs.ts"
import { type Graph, printGraph } from "./graph/graph.ts"
import { splitExperts } from "./graph/split-experts.ts"
import { lower } from "./lower.ts"
import { fuseGated } from "./passes/fuse-gated.ts"
import { fuseResidual } from "./passes/fuse-residual.ts"
import { joinLinears } from "./passes/join-linears.ts"
import { orderNodes } from "./passes/order-nodes.ts"
import { quantizeActivations } from "./passes/quantize-activations.ts"
import { selectRows } from "./passes/select-rows.ts"
import {
  adaptersIn,
  joinedBy,
  type Plan,
  placesIn,
  printPlan,
  readsWords,
  type SumOrder,
  takenBy,
} from "./plan.ts"

export interface CompileOptions {
  format: FormatName
  /** What each weight is kept in; absent: what the format says of its kind. */
  codecOf?: CodecOf
  /**
   * "int8": inputs of packed matrices are rounded to 8 bits, an operation of the plan; those of float matrices are not. "int16":
   * those of matrices of 16-bit floats are rounded too, to 16 bits.
   */
  activations: "float" | "int8" | "int16"
  /** What keys and values are kept in. */
  kv: Plan["kv"]
  /** In which order sums are added; absent: as processors add. */
  sums?: SumOrder
  /** Given every phase as a readable file. */
  dump?: (name: string, text: string) => void
}

type PassOptions = CompileOptions & { codecOf: CodecOf }

interface Pass {
  name: string
  run: (graph: Graph, options: PassOptions) => Graph
}

/**
 * In this order: rows are chosen before products of one input are joined, since a select makes another input; and nodes are put in
 * order when there are no more to come.
 */
export const passes: readonly Pass[] = [
  { name: "select-rows", run: selectRows },
  { name: "split-experts", run: (graph, { codecOf }) => splitExperts(graph, codecOf) },
  { name: "join-linears", run: (graph, { codecOf }) => joinLinears(graph, codecOf) },
  { name: "fuse-gated", run: fuseGated },
  { name: "fuse-residual", run: fuseResidual },
  {
    name: "quantize-activations",
    run: (graph, { activations, codecOf }) =>
      activations === "float" ? graph : quantizeActivations(graph, codecOf, activations),
  },
  { name: "order-nodes", run: orderNodes },
]

/** Matrices as the format packs them. Vectors are small and stay exact, whatever a file rounds them to. */
export function usualCodecs(format: FormatName): CodecOf {
  return ({ columns, exact }) => (columns > 1 && !exact ? formats[format].matrix : "f32")
}

const ofProcessors: SumOrder = { parts: 1, span: undefined }

export function compile(graph: Graph, options: CompileOptions): Plan {
  const { format, kv, sums = ofProcessors, dump, codecOf = usualCodecs(format) } = options
  dump?.("0-graph.txt", printGraph(graph))
  const final = passes.reduce((before, { name, run }, i) => {
    const after = run(before, { ...options, codecOf })
    dump?.(`${i + 1}-${name}.txt`, printGraph(after))
    return after
  }, graph)
  const plan = lower(final, { format, codecOf, kv, sums })
  dump?.(`${passes.length + 1}-plan.txt`, printPlan(plan))
  return plan
}

/** What a target adds to a plan to make a manifest. */
export interface TargetFacts {
  target: string
  kv: Manifest["kv"]
  shards?: number
  bytes: Manifest["bytes"]
  features: readonly string[]
  /** Hash of what beside the plan decides the bits, and how weights lie: kernels, mostly. */
  sources: string
}

export function manifestOf(
  plan: Plan,
  { target, kv, shards, bytes, features, sources }: TargetFacts,
): Manifest {
  const { architecture, format, shapes, sinks, parameters } = plan
  const [bidirectional, mutual] = (["bidirectional", "mutual"] as const).map((direction) =>
    plan.steps.some(
      (step) => step.op === "attend" && step.attention[direction] && !step.attention.media,
    ),
  )
  const [takes, joined] = [takenBy(plan), joinedBy(plan)]
  const [places, adapters] = [placesIn(plan), adaptersIn(plan)]
  const computes = planHash(plan)
  return {
    abi: ABI,
    target,
    architecture,
    format,
    plan: computes,
    fingerprint: sha256(`${computes} ${target} ${sources}`),
    shapes,
    sinks,
    ...(bidirectional ? { bidirectional } : {}),
    ...(mutual ? { mutual } : {}),
    ...(takes ? { takes } : {}),
    ...(readsWords(plan) ? { words: true } : {}),
    ...(joined > 1 ? { joined } : {}),
    ...(places === undefined ? {} : { places }),
    ...(adapters === undefined ? {} : { adapters }),
    kv,
    ...(shards === undefined ? {} : { shards }),
    bytes,
    features,
    parameters,
  }
}

/** What a plan computes: equal ones, whoever runs them. */
export function planHash(plan: Plan): string {
  return sha256(JSON.stringify(plan))
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex")
}
