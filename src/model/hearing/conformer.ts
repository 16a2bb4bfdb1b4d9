// The graph of a conformer, what Gemma 4 hears with, and Gemma 3n: seven neighbouring frames go in for each row, rows of the text model's width
// come out. Two convolutions over frames and bands come first, which leave out every other frame and every other band; of the three rows of the
// first one that a row of the second sees, two may be none, and the last two columns that go in say so. Each is a matrix here, most of
// which is zeros: an eighth more work than the layers', and no operation of its own.
//
// Those of Gemma 3n look ahead, and its norms at all there has been (cumulative.ts); behind them both have the same layers.
//
// A layer: an MLP half, attention over the last few rows, a convolution of each column over the last few rows, an MLP half. A score of
// attention is q · k + q · r, where r is a learned row for how far the key lies back (distances.ts).
//
// Sources: modeling_gemma4.py (Gemma4AudioModel) and modeling_gemma3n.py (Gemma3nAudioEncoder) of transformers.

import { ENDED_MARKS } from "../../audio/ended.ts"
import {
  add,
  apply,
  convolve,
  finish,
  headLinear,
  hiddenIn,
  linear,
  multiply,
  norm,
  select,
  slice,
  weigh,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import { headsFor, within } from "../layers.ts"
import { type Named, named, scaled } from "../tensors.ts"
import { type Projector, projected } from "../vision/tower.ts"
import type { Naming } from "../weights/names.ts"
import { type Cumulative, evenSoFar, type Mark, orLearned } from "./cumulative.ts"
import { attendByDistance, onesOf, pairsFor, type Turning } from "./distances.ts"

export interface ConformerConfig {
  /** What its configuration calls it. */
  architecture: string
  /** Of the mel scale, in a frame. */
  bands: number
  /** Of either convolution over them. */
  channels: readonly [number, number]
  /** Of the largest tile. */
  rows: number
  /** Of a row between the layers. */
  width: number
  layers: number
  heads: number
  headDim: number
  /** Rows that a row sees, itself included. */
  window: number
  /** Scores are bent below it. */
  cap: number
  /** Keys count as they are, and not by a factor. */
  plainKeys?: true
  /** Rows that are convolved. */
  taps: number
  activation: Activation
  /** What half an MLP makes is multiplied with. */
  residual: number
  /** What goes in and out of parts of a layer is cut off beyond it. */
  most: number
  /** What each matrix of a layer reads and gives stays between stored numbers. */
  bounded?: true
  epsilon: number
  /** Of a row that the layers give; absent: as wide as between them. */
  given?: number
  /** Its convolutions look ahead, and their norms at all there has been; rows that are learned stand behind those of the recording. */
  cumulative?: Cumulative
  projector: Projector
  /** The token in whose place a row that comes out stands in a prompt. */
  softToken: number
  /** Where the text model gives layers columns of the token's own, a row has those of this one. */
  instead?: number
  naming: Naming
}

/** Frames that a row is made of. */
const SEEN_FRAMES = 7
const TAPS = 3 // of the convolutions over frames and bands, on either side
const USUAL = 1e-6 // epsilon of the norms that no configuration has one for

export function conformer(config: ConformerConfig): Graph {
  const { architecture, width, layers, cumulative, projector } = config
  const frames = hiddenIn(conformerShapes(config).taken)
  const ones = onesOf(turningOf(config))
  let x = subsampled(config, frames)
  for (let index = 0; index < layers; index++) x = layer(config, x, { index, ones })
  const last = given(config, select(x, "hidden"))
  const rows = cumulative ? orLearned(last, markIn(frames, config), cumulative) : last
  const hidden = projected(rows, projector, named("projector.", ""))
  const head = layerOf(0)("self_attn.post", "self_attn.post.weight", width, width) // nobody asks for logits
  const shapes = conformerShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, x, head, { hidden })
}

function given({ given, width }: ConformerConfig, x: Node): Node {
  if (given === undefined) return x
  const own = named("", "model.")
  const matrix = own("output", "output_proj.weight", given, width)
  return linear(x, matrix, own("output_bias", "output_proj.bias", given))
}

const layerOf = (index: number) => named(`layers.${index}.`, `model.layers.${index}.`)

/** What the second convolution sees of the first: columns of bands, of channels each. */
export function convolutionOf({ bands, channels }: ConformerConfig, index: 0 | 1) {
  const bandsIn = index === 0 ? bands : bands / 2
  return { bandsIn, channelsIn: index === 0 ? 1 : channels[0], channels: channels[index] }
}

/** What stands behind the frames. */
const markIn =
  (frames: Node, { bands }: ConformerConfig): Mark =>
  (at) =>
    slice(frames, SEEN_FRAMES * bands + at, 1)

/** [tokens, width] */
function subsampled(config: ConformerConfig, frames: Node): Node {
  const { bands, width, cumulative, epsilon } = config
  const place = "model.subsample_conv_projection."
  const own = named("", place)
  const mark = markIn(frames, config)
  const convolved = (x: Node, index: 0 | 1, frame = "") => {
    const { bandsIn, channels } = convolutionOf(config, index)
    const tensor = `layer${index}.spread${frame}.weight`
    return linear(x, own(`conv${index}${frame}`, tensor, (bandsIn / 2) * channels, x.columns))
  }
  const even = (rows: readonly Node[], index: 0 | 1) => {
    const made = cumulative
      ? evenSoFar(rows, mark, named(`conv${index}_`, `${place}layer${index}.`), cumulative.epsilon)
      : rows.map((row) => {
          const weights = own(
            `conv${index}_norm`,
            `layer${index}.norm.weight`,
            config.channels[index],
          )
          return norm(row, weights, epsilon, { kind: "layer" })
        })
    return made.map((row) => apply("above", row, 0))
  }
  const { second, third } = ENDED_MARKS
  const flags = cumulative ? [undefined, mark(second), mark(third)] : [mark(0), undefined, mark(1)]
  const parts = [0, 2, 4].map((frame) => convolved(slice(frames, frame * bands, TAPS * bands), 0))
  const rows = even(parts, 0).map((row, frame) => {
    const flag = flags[frame]
    return convolved(flag ? multiply(row, flag) : row, 1, `${frame}`) // its columns are many: one by one
  })
  const [x] = even([rows.reduce(add)], 1) as [Node]
  return linear(x, own("input", "input_proj_linear.weight", width, x.columns))
}

/** Which layer, and what is the same for all. */
interface Place {
  index: number
  ones: Node
}

function layer(config: ConformerConfig, x: Node, { index, ones }: Place): Node {
  const { most, epsilon } = config
  const own = layerOf(index)
  const cut = (x: Node) => apply("clip", x, most)
  const even = (x: Node, name: string, by = USUAL) =>
    norm(x, own(name, `${name}.weight`, x.columns), by)
  const half = (x: Node, name: string) => {
    const inner = 4 * x.columns
    const read = even(cut(x), `${name}.pre_layer_norm`)
    const up = apply(config.activation, projection(config, own, read, `${name}.ffw_layer_1`, inner))
    const made = cut(projection(config, own, up, `${name}.ffw_layer_2`, x.columns))
    return add(scaled(even(made, `${name}.post_layer_norm`), config.residual), x)
  }
  const first = half(x, "feed_forward1")
  const mixed = attended(config, own, even(cut(first), "norm_pre_attn"), ones)
  const sum = add(even(cut(mixed), "norm_post_attn"), first)
  const opened = even(sum, "lconv1d.pre_layer_norm", epsilon)
  const convolved = cut(gatedConvolution(config, own, opened))
  const activated = apply(config.activation, even(convolved, "lconv1d.conv_norm", epsilon))
  const light = add(projection(config, own, activated, "lconv1d.linear_end", x.columns), sum)
  return even(cut(half(light, "feed_forward2")), "norm_out")
}

function projection(
  { bounded }: ConformerConfig,
  own: Named,
  x: Node,
  name: string,
  rows: number,
): Node {
  const matrix = own(name, `${name}.weight`, rows, x.columns)
  return within(
    bounded,
    linear(within(bounded, x, own, name, "input"), matrix),
    own,
    name,
    "output",
  )
}

/** Nobody reads what a layer keeps of its rows behind it: all have one place, and so have all that convolve. */
const [ATTENTION, CONVOLUTION] = [0, 1]

function gatedConvolution(config: ConformerConfig, own: Named, x: Node): Node {
  const { columns } = x
  const both = projection(config, own, x, "lconv1d.linear_start", 2 * columns)
  const gated = multiply(slice(both, 0, columns), apply("sigmoid", slice(both, columns, columns)))
  const count = config.taps
  const taps = own("conv_taps", "lconv1d.depthwise_conv1d.weight", count * columns)
  return convolve(gated, taps, { layer: CONVOLUTION, count, heads: headsFor(columns) })
}

/** Rows see what is before them alone, and all are token 0. */
export const turningOf = ({ heads, headDim, window }: ConformerConfig): Turning => ({
  heads,
  headDim,
  pairs: pairsFor(window, 1),
  tokens: 1,
})

/** What scores are multiplied with: transformers has a part of it in queries, and a part in keys alone. */
export function scalesOf({ headDim, plainKeys }: Pick<ConformerConfig, "headDim" | "plainKeys">) {
  const key = plainKeys ? 1 : Math.log(1 + Math.E) / Math.LN2
  return { query: headDim ** -0.5 / Math.LN2, key }
}

function attended(config: ConformerConfig, own: Named, x: Node, ones: Node): Node {
  const { heads, headDim, window, cap } = config
  const turning = turningOf(config)
  const project = (name: string) => projection(config, own, x, `self_attn.${name}_proj`, x.columns)
  const q = weigh(project("q"), own("scales", "self_attn.scales.weight", x.columns))
  const relative = own("relative", "self_attn.relative.weight", 2 * heads * turning.pairs, headDim)
  const distances = headLinear(q, { ...relative, exact: true }, heads)
  const { query, key } = scalesOf(config)
  const read = { q, k: project("k"), v: project("v"), distances, ones }
  const values = attendByDistance(read, turning, {
    layer: ATTENTION,
    scale: query * key,
    cap,
    window,
    sinks: 0,
  })
  return projection(config, own, values, "self_attn.post", x.columns)
}

export function conformerShapes(config: ConformerConfig): Shapes & { taken: number } {
  const { bands, width, layers, heads, headDim, rows, cumulative, projector } = config
  return {
    vocabulary: width,
    hidden: projector.width,
    taken: SEEN_FRAMES * bands + (cumulative ? ENDED_MARKS.columns : 2),
    layers,
    heads,
    kvHeads: heads,
    headDim,
    intermediate: 4 * width,
    context: rows,
  }
}
