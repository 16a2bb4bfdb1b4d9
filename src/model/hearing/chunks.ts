// What stands before the layers of an encoder that hears a second at a time (src/audio/chunks.ts): three convolutions of three by
// three, and a matrix that makes a row of all that is left in height. Each is a product for every place that a row needs of it, by the same
// matrix: the first, of a few numbers, for all places at once, as if they were heads with rows of their own.
//
// Places lie height by height, the three columns side by side, so that the nine that the next convolution sees are neighbours.

import { chunkLayout } from "../../audio/chunks.ts"
import {
  add,
  apply,
  concat,
  embed,
  headLinear,
  hiddenIn,
  linear,
  multiply,
  slice,
} from "../../compiler/graph/builder.ts"
import type { Node, Weight } from "../../compiler/graph/graph.ts"
import { named } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"

const TAPS = 9

export interface Chunks {
  bands: number
  width: number
  /** Of each convolution. */
  channels: number
}

const own = named("", "model.")

/** [tokens, width] */
export function chunkRowsOf({ bands, width, channels }: Chunks): Node {
  const { heights, places, parts, columns } = chunkLayout(bands, width)
  const given = hiddenIn(columns)
  const part = ({ from, columns }: { from: number; columns: number }) => slice(given, from, columns)
  const [around, marks] = [part(parts.around), part(parts.first)]
  const [second, third] = [filter("conv2", channels), filter("conv3", channels)]
  const firsts = Array.from({ length: 3 }, (_, column) => {
    const seen = slice(around, column * places * TAPS, places * TAPS)
    const mark = slice(marks, column * places, places)
    return multiply(firstOf(seen, places, channels), mark)
  })
  const seconds = Array.from({ length: heights[1] - 1 }, (_, at) =>
    firsts.map((first) => filtered(first, at, second)),
  )
  // Below the lowest stands any other, which is marked as nothing.
  const all = sideBySide([...seconds[0]!, ...seconds.flat()])
  const middle = multiply(apply("gelu", all), part(parts.second))
  const thirds = Array.from({ length: bands / 8 }, (_, at) => filtered(middle, at, third))
  const left = apply("gelu", sideBySide(thirds))
  const made = linear(left, own("conv_out", "conv_out.weight", width, left.columns))
  return add(made, part(parts.position))
}

/** The first convolution at so many places, with its bias. */
function firstOf(seen: Node, places: number, channels: number): Node {
  const { sources, ...one } = own("conv1", "conv1.weight", channels, TAPS)
  const all: Weight = {
    ...one,
    rows: places * channels,
    sources: Array.from({ length: places }, () => sources[0]!),
  }
  const bias = { ...own("conv1_bias", "conv1.bias", 1, channels), exact: true as const }
  return apply("gelu", add(headLinear(seen, all, places), repeated(embed(bias), places)))
}

interface Filter {
  matrix: Weight
  bias: Weight
}

function filter(name: string, channels: number): Filter {
  return {
    matrix: own(name, `${name}.weight`, channels, TAPS * channels),
    bias: own(`${name}_bias`, `${name}.bias`, channels),
  }
}

/** At a place in height, whose neighbours stand before and behind it, after one below the lowest. */
function filtered(x: Node, place: number, { matrix, bias }: Filter): Node {
  const run = (2 * matrix.columns) / 3 // two heights of three columns
  return linear(slice(x, place * run, matrix.columns), matrix, bias)
}

/** Half of them beside the other half, so that few are copied often. */
export function sideBySide(nodes: readonly Node[]): Node {
  if (nodes.length === 1) return nodes[0]!
  const half = nodes.length >> 1
  return concat(sideBySide(nodes.slice(0, half)), sideBySide(nodes.slice(half)))
}

function repeated(x: Node, count: number): Node {
  if (count === 1) return x
  const half = repeated(x, count >> 1)
  const even = concat(half, half)
  return count % 2 === 0 ? even : concat(even, x)
}

/**
 * What the stored filters are called, [channels, channels before, heights, columns], and as which rows they are read.
 * @param named a convolution by its number
 * @param bias how the first one's is stored
 */
export function chunkParts(
  { bands, channels }: Chunks,
  named: (number: number) => string,
  bias: readonly number[],
): Naming["parts"] {
  const filterParts = (number: number): Naming["parts"] => ({
    [`conv${number}`]: named(number),
    [`conv${number}.weight`]: {
      name: `${named(number)}.weight`,
      shape: [channels, channels, 3, 3],
      turnedColumns: TAPS,
    },
  })
  return {
    embed_tokens: named(1), // by which the tower is found
    "conv1.weight": { name: `${named(1)}.weight`, shape: [channels, 1, 3, 3] },
    "conv1.bias": { name: `${named(1)}.bias`, shape: bias },
    ...filterParts(2),
    ...filterParts(3),
    "conv_out.weight": { name: "conv_out.weight", turnedColumns: bands / 8 },
  }
}
