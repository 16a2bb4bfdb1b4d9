// The graph of what Granite Speech hears with: a pair of frames goes in for each row, and of each span of rows a few of the text model's
// width come out (src/audio/paired.ts).
//
// A layer of the conformer: an MLP half, attention over the rows of a block, a convolution of each column over some rows to either side,
// an MLP half. Scores have a part by distance (distances.ts). Halfway each row is told what has been heard so far: as how likely it is each
// of some characters.
//
// The projector has learned questions, which see those of their span and all of its rows: BLIP-2's. A question has no row of its own: those
// of a span stand in the place of its first rows. Which rows are of the same span the scores say: heads are wider by a column for each of
// three turns, in which rows of another's are far below those of the same, and no neighbour has the same.
//
// Source: modeling_granite_speech.py, modeling_granite_speech_plus.py and modeling_blip_2.py of transformers.

import { PAIRED_MARKS } from "../../audio/paired.ts"
import {
  add,
  apply,
  attention,
  concat,
  convolve,
  embed,
  finish,
  headLinear,
  hiddenIn,
  linear,
  multiply,
  reorder,
  route,
  select,
  slice,
  weigh,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import { headsFor } from "../layers.ts"
import { type Named, named, normed, scaled } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"
import { attendByDistance, onesOf, pairsFor, type Turning } from "./distances.ts"

export interface GraniteConfig {
  architecture: string
  /** Numbers of a pair of frames. */
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
  /** Columns that are convolved. */
  channels: number
  taps: number
  /** Rows that see each other. */
  block: number
  /** Distances that are learned to either side. */
  reach: number
  /** Characters that a row may be halfway. */
  outputs: number
  /** Layers whose rows, with what they are told behind one, stand before the last's, in order, counted from 1; 0: what goes into the first. */
  left: readonly number[]
  /** Of so many rows, so many come out. */
  span: number
  asked: number
  projector: {
    width: number
    heads: number
    layers: number
    /** The first layer of so many sees the conformer's rows. */
    every: number
    intermediate: number
    activation: Activation
    epsilon: number
  }
  /** Of a row that comes out: the text model's, which multiplies it as a token's. */
  hidden: number
  softToken: number
  /** Its norm over what is convolved is stored as a factor and a shift; else as PyTorch's is trained. */
  folded?: true
  naming: Naming
}

/** Nobody reads what a layer keeps of its rows behind it: all of a kind have one place. */
const [ATTENTION, CONVOLUTION, QUESTIONS] = [0, 1, 2]

const EVEN = { kind: "layer", bias: true, epsilon: 1e-5 } as const

export function graniteTower(config: GraniteConfig): Graph {
  const { architecture, bands, width, layers, outputs, left } = config
  const own = named("", "model.")
  const given = hiddenIn(takenOf(config))
  const there = slice(given, bands + PAIRED_MARKS.there, 1)
  const same = { there, ones: onesOf(turningOf(config)) }
  let x = projection(own, slice(given, 0, bands), "input_linear", width)
  const kept = left.includes(0) ? [x] : []
  for (let index = 0; index < layers; index++) {
    x = layer(config, x, index, same)
    if (index + 1 === layers >> 1) x = add(x, told(own, x, outputs))
    if (left.includes(index + 1)) kept.push(x)
  }
  const heard = multiply([...kept, x].reduce(concat), there)
  const hidden = asked(config, heard, slice(given, bands, PAIRED_MARKS.columns))
  const head = own("out_mid", "out_mid.weight", width, outputs) // nobody asks for logits
  const last = projection(own, x, "out", outputs)
  const shapes = graniteShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, last, head, { hidden })
}

/** What has been heard so far, as how likely each character is. */
function told(own: Named, x: Node, outputs: number): Node {
  const likely = route(projection(own, x, "out", outputs), {
    ...{ active: outputs, score: "softmax", normalized: false, factor: 1, groups: undefined },
  })
  return projection(own, likely, "out_mid", x.columns)
}

function projection(own: Named, x: Node, name: string, rows: number, bias = true): Node {
  const matrix = own(name, `${name}.weight`, rows, x.columns)
  return linear(x, matrix, bias ? own(`${name}_bias`, `${name}.bias`, rows) : undefined)
}

/** What is the same for all layers; `there`: 0 where there is no row, which nobody may see. */
type Same = Record<"there" | "ones", Node>

function layer(config: GraniteConfig, x: Node, index: number, { there, ones }: Same): Node {
  const own = named(`layers.${index}.`, `model.layers.${index}.`)
  const half = (x: Node, name: string) => {
    const even = normed(x, EVEN, own, `${name}.norm`, `${name}.pre_norm`)
    const up = apply("silu", projection(own, even, `${name}.up_proj`, config.intermediate))
    return add(scaled(projection(own, up, `${name}.down_proj`, x.columns), 0.5), x)
  }
  const first = half(x, "ff1")
  const seen = add(attended(config, own, first, ones), first)
  const second = half(add(convolved(config, own, seen, there), seen), "ff2")
  return normed(second, EVEN, own, "post_norm", "post_norm")
}

/** Tokens of a tile are numbers of questions. */
export const turningOf = ({ heads, headDim, block, asked }: GraniteConfig): Turning => ({
  heads,
  headDim,
  pairs: pairsFor(block, 2),
  tokens: asked,
})

function attended(config: GraniteConfig, own: Named, x: Node, ones: Node): Node {
  const { heads, headDim } = config
  const turning = turningOf(config)
  const even = normed(x, EVEN, own, "attn.norm", "attn.pre_norm")
  const project = (name: string) => projection(own, even, `attn.to_${name}`, heads * headDim, false)
  const [q, k, v] = [project("q"), project("k"), project("v")]
  const one = own("attn.relative", "attn.relative.weight", 2 * turning.pairs, headDim)
  const relative = {
    ...one,
    rows: heads * one.rows,
    sources: Array.from({ length: heads }, () => one.sources[0]!),
    exact: true as const,
  }
  const distances = headLinear(q, relative, heads)
  const values = attendByDistance({ q, k, v, distances, ones }, turning, {
    ...{ layer: ATTENTION, scale: headDim ** -0.5, cap: undefined, window: undefined, sinks: 0 },
    mutual: true,
  })
  return projection(own, values, "attn.to_out", x.columns)
}

function convolved(
  { channels, taps: count }: GraniteConfig,
  own: Named,
  x: Node,
  there: Node,
): Node {
  const even = normed(x, EVEN, own, "conv.norm", "conv.norm")
  const both = projection(own, even, "conv.up_conv", 2 * channels)
  const gated = multiply(
    slice(both, 0, channels),
    apply("sigmoid", slice(both, channels, channels)),
  )
  const vector = (name: string) => own(`conv.${name}`, `conv.${name}.weight`, channels)
  // A norm over columns of all rows is a factor and a shift for each, and what it does behind a convolution it may do before.
  const heard = weigh(multiply(gated, there), vector("scale"))
  const taps = own("conv.taps", "conv.depth_conv.conv.weight", count * channels)
  const ahead = count - 1 - (count >> 1)
  const kept = { layer: CONVOLUTION, count, ahead, heads: headsFor(channels) }
  const made = apply("silu", convolve(heard, taps, kept, vector("shift")))
  return projection(own, made, "conv.down_conv", x.columns)
}

const FAR = 128 // the square of it, times what scores are multiplied with, is beyond what any of two rows can be apart

/** Columns of a head: its own, and those by which spans are told apart. */
export function askingColumns({ projector: { width, heads } }: GraniteConfig) {
  const own = width / heads
  return { own, wide: 16 * Math.ceil((own + PAIRED_MARKS.seen - PAIRED_MARKS.asking) / 16) }
}

/** [rows that come out, hidden] @param heard rows of the conformer @param marks what stands behind their frames */
function asked(config: GraniteConfig, heard: Node, marks: Node): Node {
  const { asked, projector, hidden, span } = config
  const { width, heads, layers, every, intermediate, activation, epsilon } = projector
  const { own: headDim, wide } = askingColumns(config)
  const own = named("projector.", "")
  const kind = { kind: "layer", bias: true, epsilon } as const
  const { asking, seen, nothing } = PAIRED_MARKS
  const count = seen - asking
  const zero = slice(marks, nothing, 1)
  const of = (from: number, factor: number) =>
    concat(scaled(slice(marks, from, count), factor), zero)
  const [ofQuery, ofKey] = [of(asking, FAR), of(seen, -FAR)]
  const order = (name: string, rows = heads * wide) =>
    named("", "model.asked.")(`asked.${name}`, `${name}.weight`, rows)
  const beside = (x: Node, marks: Node, name: string) => reorder(concat(x, marks), order(name))
  const attend = (x: Node, seen: Node, name: string, keys: "among" | "open") => {
    const inner = `${name}.attention`
    const q = projection(own, x, `${inner}.query`, width)
    const [k, v] = ["key", "value"].map((part) => projection(own, seen, `${inner}.${part}`, width))
    const mixed = attention(
      beside(q, ofQuery, "among"),
      beside(k!, ofKey, keys),
      beside(v!, ofKey, "values"),
      {
        ...{ layer: QUESTIONS, heads, kvHeads: heads, headDim: wide, scale: headDim ** -0.5 },
        ...{ cap: undefined, window: span, bidirectional: true, sinks: 0 },
      },
    )
    const values = reorder(mixed, order("apart", width))
    const made = projection(own, values, `${name}.output.dense`, width)
    return normed(add(made, x), kind, own, `${name}.norm`, `${name}.output.LayerNorm`)
  }
  const table = { ...own("query", "query.weight", asked, width), exact: true as const }
  let x = normed(embed(table), kind, own, "norm", "qformer.layernorm")
  for (let index = 0; index < layers; index++) {
    const name = `qformer.encoder.layer.${index}`
    x = attend(x, x, `${name}.attention`, "among")
    if (index % every === 0) x = attend(x, heard, `${name}.crossattention`, "open")
    const up = projection(own, x, `${name}.intermediate_query.dense`, intermediate)
    const down = projection(own, apply(activation, up), `${name}.output_query.dense`, width)
    x = normed(add(down, x), kind, own, `${name}.norm`, `${name}.output_query.LayerNorm`)
  }
  return projection(own, select(x, "hidden"), "linear", hidden)
}

const takenOf = ({ bands }: GraniteConfig) => bands + PAIRED_MARKS.columns

export function graniteShapes(config: GraniteConfig): Shapes & { taken: number } {
  const { width, layers, heads, headDim, intermediate, rows, hidden } = config
  return {
    vocabulary: width,
    hidden,
    taken: takenOf(config),
    layers,
    heads,
    kvHeads: heads,
    headDim,
    intermediate,
    context: rows,
  }
}
