// Words that graphs of models are written in, beside those of the graph itself: weights under two names, the short one that a plan
// shows and the tensor's; norms of whole rows.

import { apply, norm, weight } from "../compiler/graph/builder.ts"
import type { Node, Weight } from "../compiler/graph/graph.ts"
import type { NormKind } from "./block.ts"

export type Named = (name: string, tensor: string, rows: number, columns?: number) => Weight

export function named(prefix: string, tensorPrefix: string): Named {
  return (name, tensor, rows, columns) =>
    weight(prefix + name, tensorPrefix + tensor, rows, columns)
}

export const scaled = (x: Node, factor: number) => (factor === 1 ? x : apply("scale", x, factor))

/** A norm over the whole row; its tensors are `tensor` with .weight and .bias. */
export function normed(x: Node, kind: NormKind, layer: Named, name: string, tensor: string): Node {
  return norm(x, layer(name, `${tensor}.weight`, x.columns), kind.epsilon, {
    kind: kind.kind,
    bias: kind.bias ? layer(`${name}_bias`, `${tensor}.bias`, x.columns) : undefined,
  })
}

/** Of norms that stand for a division by the root mean square or by the deviation, which are not 0. */
export const TINY = 1e-12
