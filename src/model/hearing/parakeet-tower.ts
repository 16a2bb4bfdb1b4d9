// The graph of a FastConformer, what Parakeet hears with: fifteen neighbouring frames go in for each row, and what names tokens reads the rows that
// come out (architectures/parakeet.ts).
//
// Three convolutions over frames and bands come first, each of which leaves out every other frame and every other band. The second and the third are
// stored as two, one of each channel and one over channels, with nothing between: here they are one. A row is computed by itself: it needs three
// rows of the second convolution and seven of the first, of which marks say that they are there (src/audio/eighths.ts).
//
// A layer: an MLP half, attention over all rows, a convolution of each column over some rows to either side, an MLP half. A score has a part for how
// far a key stands from its query, a sum of as many sines and cosines as a row has columns; so it is what turned columns of wider heads have
// as their product (distances.ts).
//
// Source: modeling_parakeet.py of transformers (ParakeetEncoder).

import { eighthsColumns, nothingAt, SEEN } from "../../audio/eighths.ts"
import {
  add,
  apply,
  concat,
  convolve,
  finish,
  headLinear,
  hiddenIn,
  linear,
  multiply,
  reorder,
  select,
  slice,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Graph, Node, Weight } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import { headsFor, learnedRow } from "../layers.ts"
import { type Named, named, normed, scaled } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"
import { sideBySide } from "./chunks.ts"
import { attendByDistance, onesOf, type Turning } from "./distances.ts"

export interface ParakeetConfig {
  architecture: string
  /** Of the mel scale, in a frame. */
  bands: number
  /** Of the largest tile. */
  rows: number
  /** Of a row between the layers. */
  width: number
  layers: number
  heads: number
  headDim: number
  /** Of an MLP. */
  intermediate: number
  activation: Activation
  /** Of the convolutions that come first. */
  subsampled: number
  /** Rows that are convolved. */
  taps: number
  /** Whether matrices of MLPs and of attention have a bias, and those around a convolution. */
  biases: { attention: boolean; convolution: boolean }
  /** What a row is multiplied with ahead of the first layer. */
  factor: number
  /** Of a row that comes out, if it is a product of the last layer's. */
  projected: number | undefined
  /** No prompt has one. */
  softToken: number
  naming: Naming
}

/** Nobody reads what a layer keeps of its rows behind it: all of a kind have one place. */
const [ATTENTION, CONVOLUTION] = [0, 1]
const EVEN = { kind: "layer", bias: true, epsilon: 1e-5 } as const
const TAPS = 3 // of the first convolutions, over frames and over bands
const AROUND = TAPS * TAPS
const SEEN_FIRST = AROUND + 1 // of the first convolution, with a mark, by which its bias is multiplied

export function parakeetTower(config: ParakeetConfig): Graph {
  const { architecture, width, layers, projected } = config
  const ones = onesOf(turningOf(config))
  let x = subsampledRows(config)
  for (let index = 0; index < layers; index++) x = layer(config, x, { index, ones })
  const out = select(x, "hidden")
  const hidden =
    projected === undefined
      ? out
      : projection(named("", ""), out, "encoder_projector", projected, true)
  const head = layerOf(0)("self_attn.o_proj", "self_attn.o_proj.weight", width, width) // nobody asks for logits
  const shapes = parakeetShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, x, head, { hidden })
}

const layerOf = (index: number) => named(`layers.${index}.`, `model.layers.${index}.`)

/** Of the convolutions: places in height of the first, and of the second; places of the first that one row of the second sees. */
function heightsOf({ bands }: ParakeetConfig) {
  return { first: bands / 2, second: bands / 4, third: bands / 8, places: (bands / 2) * TAPS }
}

/** Which columns of what goes in each place of the convolutions sees, those of each of three rows side by side, and behind them the marks of these places. */
export function orderOfFrames(config: ParakeetConfig): number[] {
  const { bands } = config
  const { first, second } = heightsOf(config)
  const marks = SEEN.frames * bands
  const rows = Array.from({ length: TAPS }, (_, row) => row)
  const numbers = (count: number) => Array.from({ length: count }, (_, at) => at)
  const markOf = (row: number) => marks + row
  const seenBy = (row: number, height: number) => [
    ...rows.flatMap((frame) =>
      rows.map((tap) => {
        const band = 2 * height - 1 + tap
        return band < 0 || band >= bands ? nothingAt(bands) : (2 * row + frame) * bands + band
      }),
    ),
    markOf(row),
  ]
  return [
    ...rows.flatMap((row) =>
      numbers(first).flatMap((height) => rows.flatMap((tap) => seenBy(2 * row + tap, height))),
    ),
    ...rows.flatMap((row) =>
      numbers(first).flatMap(() => rows.map((tap) => markOf(2 * row + tap))),
    ),
    ...numbers(second).flatMap(() => rows.map((row) => markOf(SEEN.firsts + row))),
  ]
}

/** Height by height, of each the three rows: these stand one behind the other in what is put in order. */
export function orderOfRows(config: ParakeetConfig): number[] {
  const { subsampled: channels } = config
  const { second } = heightsOf(config)
  return Array.from({ length: second * TAPS * channels }, (_, place) => {
    const [height, row] = [
      Math.floor(place / (TAPS * channels)),
      Math.floor(place / channels) % TAPS,
    ]
    return (row * second + height) * channels + (place % channels)
  })
}

/** [tokens, width] */
function subsampledRows(config: ParakeetConfig): Node {
  const { bands, subsampled: channels, width, factor } = config
  const { second, third, places } = heightsOf(config)
  const own = named("", "model.subsampling.")
  const given = hiddenIn(eighthsColumns(bands))
  const order = own("frames", "frames.weight", TAPS * places * (SEEN_FIRST + 1) + second * TAPS)
  const all = reorder(given, order)
  const marks = TAPS * places * SEEN_FIRST
  const one = own("conv1", "conv1.weight", channels, SEEN_FIRST)
  const filters = repeated({ ...one, exact: true }, places)
  const above = (x: Node) => apply("above", x, 0)
  const firstRow = (row: number) => {
    const seen = slice(all, row * places * SEEN_FIRST, places * SEEN_FIRST)
    const made = above(headLinear(seen, filters, places))
    return multiply(made, slice(all, marks + row * places, places))
  }
  const filtered = (x: Node, heights: number, name: string) => {
    const made = (part: string, taps: number) =>
      ({ ...own(part, `${part}.weight`, channels, taps * channels), exact: true }) as const
    const [matrix, edge] = [made(name, AROUND), made(`${name}_edge`, AROUND - TAPS)]
    const shift = own(`${name}_bias`, `${name}_bias.weight`, channels)
    const run = TAPS * channels
    const parts = Array.from({ length: heights }, (_, height) =>
      height === 0 // below it there is none
        ? linear(slice(x, 0, edge.columns), edge, shift)
        : linear(slice(x, (2 * height - 1) * run, matrix.columns), matrix, shift),
    )
    return above(sideBySide(parts))
  }
  const seconds = Array.from({ length: TAPS }, (_, row) => filtered(firstRow(row), second, "conv2"))
  const middle = reorder(
    seconds.reduce(concat),
    own("rows", "rows.weight", second * TAPS * channels),
  )
  const left = multiply(middle, slice(all, marks + TAPS * places, second * TAPS))
  const last = filtered(left, third, "conv3")
  const matrix = own("linear", "linear.weight", width, last.columns)
  return scaled(linear(last, matrix, own("linear_bias", "linear.bias", width)), factor)
}

/** The same rows for each head. */
function repeated(one: Weight, heads: number): Weight {
  const sources = Array.from({ length: heads }, () => one.sources[0]!)
  return { ...one, rows: heads * one.rows, sources }
}

function projection(own: Named, x: Node, name: string, rows: number, bias: boolean): Node {
  const matrix = own(name, `${name}.weight`, rows, x.columns)
  return linear(x, matrix, bias ? own(`${name}_bias`, `${name}.bias`, rows) : undefined)
}

function layer(
  config: ParakeetConfig,
  x: Node,
  { index, ones }: { index: number; ones: Node },
): Node {
  const own = layerOf(index)
  const { intermediate, activation, biases } = config
  const half = (x: Node, name: string) => {
    const even = normed(x, EVEN, own, `norm_${name}`, `norm_${name}`)
    const up = projection(own, even, `${name}.linear1`, intermediate, biases.attention)
    const down = projection(
      own,
      apply(activation, up),
      `${name}.linear2`,
      x.columns,
      biases.attention,
    )
    return add(scaled(down, 0.5), x)
  }
  const first = half(x, "feed_forward1")
  const seen = add(attended(config, own, first, ones), first)
  const second = half(add(convolved(config, own, seen), seen), "feed_forward2")
  return normed(second, EVEN, own, "norm_out", "norm_out")
}

/** Sines and cosines of a distance in steps of as many lengths as there are pairs of a row's columns. */
export const turningOf = ({ heads, headDim, width }: ParakeetConfig): Turning => ({
  heads,
  headDim,
  pairs: width / 2,
  tokens: 1,
  frequencies: Array.from({ length: width / 2 }, (_, pair) => 10_000 ** ((-2 * pair) / width)),
})

function attended(config: ParakeetConfig, own: Named, x: Node, ones: Node): Node {
  const { heads, headDim, width, biases } = config
  const even = normed(x, EVEN, own, "norm_self_att", "norm_self_att")
  const project = (name: string) =>
    projection(own, even, `self_attn.${name}_proj`, width, biases.attention)
  const [q, k, v] = [project("q"), project("k"), project("v")]
  const zeros = named("", "model.")("nothing", "nothing.weight", width)
  const told = (name: string) =>
    add(q, learnedRow(even, zeros, own(`self_attn.${name}`, `self_attn.${name}.weight`, width)))
  const relative = own("self_attn.relative", "self_attn.relative.weight", heads * width, headDim)
  const distances = headLinear(told("bias_v"), { ...relative, exact: true }, heads)
  const values = attendByDistance({ q: told("bias_u"), k, v, distances, ones }, turningOf(config), {
    ...{ layer: ATTENTION, scale: headDim ** -0.5, cap: undefined, window: undefined, sinks: 0 },
    bidirectional: true,
  })
  return projection(own, values, "self_attn.o_proj", width, biases.attention)
}

function convolved({ taps: count, activation, biases }: ParakeetConfig, own: Named, x: Node): Node {
  const { columns } = x
  const even = normed(x, EVEN, own, "norm_conv", "norm_conv")
  const both = projection(own, even, "conv.pointwise_conv1", 2 * columns, biases.convolution)
  const gated = multiply(slice(both, 0, columns), apply("sigmoid", slice(both, columns, columns)))
  // A norm over columns of all rows is a factor and a shift for each; the factor is in the taps.
  const taps = own("conv.taps", "conv.taps.weight", count * columns)
  const shift = own("conv.shift", "conv.shift.weight", columns)
  const kept = { layer: CONVOLUTION, count, ahead: count >> 1, heads: headsFor(columns) }
  const made = apply(activation, convolve(gated, taps, kept, shift))
  return projection(own, made, "conv.pointwise_conv2", columns, biases.convolution)
}

export function parakeetShapes(config: ParakeetConfig): Shapes & { taken: number } {
  const { bands, width, layers, heads, headDim, intermediate, rows, projected } = config
  return {
    vocabulary: width,
    hidden: projected ?? width,
    taken: eighthsColumns(bands),
    layers,
    heads,
    kvHeads: heads,
    headDim,
    intermediate,
    context: rows,
  }
}
