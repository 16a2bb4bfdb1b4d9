// The format that weights are in where nothing names it: each matrix may be in a codec of its own.

import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import { splitExperts } from "../compiler/graph/split-experts.ts"
import { type CodecName, type FloatType, type FormatName, isGroupCodec } from "../runtime/format.ts"
import { weightsOf } from "./graph-weights.ts"
import type { Weights } from "./weights/weights.ts"

/**
 * @param mixture what it is called if matrices are in codes
 * @param apart whether floats of several types are such a mixture, too, rather than all of them the widest
 */
export function storedFormat(
  graph: Graph,
  weights: Weights,
  mixture: FormatName,
  broken: (what: string) => Error,
  apart = false,
): { format: FormatName; codecOf?: CodecOf } {
  const codecs = codecsOf(weights, graph)
  const codecOf: CodecOf = ({ columns, sources: [first], exact }) =>
    columns > 1 && !exact ? codecs.get(first!.tensor)! : "f32"
  checkStacks(splitExperts(graph, codecOf), codecs, broken)
  const isMixed =
    [...codecs.values()].some(isGroupCodec) || (apart && new Set(codecs.values()).size > 1)
  return isMixed ? { format: mixture, codecOf } : { format: formatOfFloats(codecs) }
}

/** Of all experts gates are kept as one matrix, so in one codec, and so are up and down. */
function checkStacks(
  graph: Graph,
  codecs: ReadonlyMap<string, CodecName>,
  broken: (what: string) => Error,
): void {
  for (const { sources } of weightsOf(graph)) {
    const [first, ...others] = sources.map(({ tensor }) => ({ tensor, codec: codecs.get(tensor) }))
    const other = others.find(({ codec }) => codec !== first!.codec)
    if (other?.codec && [first!.codec!, other.codec].some(isGroupCodec))
      throw broken(
        `tensors ${first!.tensor} and ${other.tensor} are packed in different ways, and are one matrix here; use another quantisation of the model`,
      )
  }
}

/** What each matrix that the graph reads is stored in. */
function codecsOf(weights: Weights, graph: Graph): Map<string, CodecName> {
  const matrices = weightsOf(graph).filter(({ columns, exact }) => columns > 1 && !exact)
  return new Map(
    matrices.flatMap(({ sources, columns }) =>
      sources.map(({ tensor, rows }) => [tensor, weights.tensor(tensor, rows, columns).codec]),
    ),
  )
}

/** The format of a folder of floats: that of its matrices, or where they differ the one that holds them all exactly. */
function formatOfFloats(codecs: ReadonlyMap<string, CodecName>): FormatName {
  const types = new Set([...codecs.values()] as FloatType[])
  const [only] = types
  return types.size === 1 ? `q0${only!}` : "q0f32"
}
