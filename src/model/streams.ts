// AltUp (arXiv 2301.13310), as Gemma 3n has it: several rows of a token go through the layers side by side. A layer predicts all of them
// from what they were, computes the first, and corrects the others by what that differs from its prediction. Sources:
// modeling_gemma3n.py of transformers.

import { add, apply, linear, multiply, norm, slice } from "../compiler/graph/builder.ts"
import type { Node, Weight } from "../compiler/graph/graph.ts"
import { type Named, named, scaled, TINY } from "./tensors.ts"

export interface Streams {
  /** How many rows. */
  count: number
  /** Of the norm before what mixes them. */
  epsilon: number
  /** What a layer's own input reads of the first row is multiplied with a stored number for each column. */
  scaled: boolean
}

const outside = named("", "model.")

/** The row, and projections of it that are as long as it. */
export function spread(x: Node, { count }: Streams): Node[] {
  const length = lengthOf(x)
  const others = Array.from({ length: count - 1 }, (_, i) =>
    sized(projection("in", "altup_projections", i, x), length),
  )
  return [x, ...others]
}

/** The mean of the first row and of projections of the others, which are as long as it. */
export function together([first, ...others]: readonly Node[], { count }: Streams): Node {
  const length = lengthOf(first!)
  const projected = others.map((row, i) =>
    sized(projection("out", "altup_unembed_projections", i, row), length),
  )
  return scaled([first!, ...projected].reduce(add), 1 / count)
}

function projection(name: string, tensor: string, number: number, x: Node): Node {
  const { columns } = x
  return linear(
    x,
    outside(`streams_${name}.${number}`, `${tensor}.${number}.weight`, columns, columns),
  )
}

/** Each row, and all of them times numbers that hang on the first. */
export function predicted(rows: readonly Node[], streams: Streams, layer: Named): Node[] {
  const { count } = streams
  const own = layer("streams_predict", "altup.prediction_coefs.weight", count ** 2, count)
  const numbers = linear(modes(rows[0]!, streams, layer), exact(own))
  return rows.map((row, i) => {
    const parts = rows.map((each, j) => multiply(each, slice(numbers, i * count + j, 1)))
    return add(parts.reduce(add), row)
  })
}

/** Each row, and what `left` is more than was predicted of it, times a number that hangs on `left`. */
export function corrected(
  rows: readonly Node[],
  left: Node,
  streams: Streams,
  layer: Named,
): Node[] {
  const { count } = streams
  const own = layer("streams_correct", "altup.correction_coefs.weight", count, count)
  const ones = layer("streams_correct_bias", "altup.ones.weight", count)
  const numbers = linear(modes(left, streams, layer), exact(own), ones)
  const more = add(left, scaled(rows[0]!, -1))
  return rows.map((row, i) => add(row, multiply(more, slice(numbers, i, 1))))
}

/** A number from -1 to 1 for each row. */
function modes(x: Node, { count, epsilon }: Streams, layer: Named): Node {
  const { columns } = x
  const even = norm(x, layer("streams_norm", "altup.router_norm.weight", columns), epsilon)
  const router = layer("streams_router", "altup.modality_router.weight", count, columns)
  return apply("cap", linear(scaled(even, 1 / columns), exact(router)), 1)
}

const exact = (weight: Weight): Weight => ({ ...weight, exact: true })

/** The root of the mean of squares, one column. */
function lengthOf(x: Node): Node {
  const ones = outside("streams_sum", "altup_sum.weight", 1, x.columns)
  return scaled(linear(multiply(even(x), x), exact(ones)), 1 / x.columns)
}

const sized = (x: Node, length: Node) => multiply(even(x), length)

const even = (x: Node) => norm(x, outside("streams_ones", "altup_ones.weight", x.columns), TINY)
