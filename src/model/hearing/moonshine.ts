// What a Moonshine hears with: no bands, but three convolutions of samples, and layers that see all rows of a piece. What comes of the first convolution
// is normed over all columns of all its places (src/audio/strided.ts), of which each row has those that it sees: a mean of all rows is attention
// whose scores are all 0.
//
// Sources: modeling_moonshine.py of transformers, and Wav2Vec2FeatureExtractor, which leaves samples as they are.

import type { StridedProcessing } from "../../audio/audio.ts"
import { RATE } from "../../audio/features.ts"
import { PLACES, STRIDES, stridedColumns } from "../../audio/strided.ts"
import {
  add,
  apply,
  attention,
  finish,
  hiddenIn,
  linear,
  multiply,
  slice,
  weigh,
} from "../../compiler/graph/builder.ts"
import type { Graph, Node, Weight } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import { neighboursOf } from "../architectures/glm4.ts"
import {
  PIECE_ROWS,
  PIECE_SECONDS,
  readMoonshineBegin,
  readMoonshineLayers,
  readMoonshineTokens,
} from "../architectures/moonshine.ts"
import type { Block, NormKind } from "../block.ts"
import { type ModelConfig, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import { decoderLayer, learnedRow } from "../layers.ts"
import { named, normed, scaled } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"
import { sideBySide } from "./chunks.ts"
import type { AudioFiles } from "./families.ts"
import type { PieceAdvice } from "./pieces.ts"

const MOONSHINE = "moonshine"

export interface MoonshineConfig {
  architecture: string
  /** Of the largest tile. */
  rows: number
  /** Of a row between the layers. */
  width: number
  blocks: readonly Block[]
  norm: NormKind
  /** Samples are convolved. */
  strided: true
  /** No prompt has one. */
  softToken: number
  naming: Naming
}

const EPSILON = 1e-5 // of the norm of all rows
const SECONDS = 3600
const MAX_WIDTH = 8192
const ALIKE = 16 // columns of a mean, all of which are the same: a head of a kernel has so many

/** @returns nothing where the model is of another kind */
export function readMoonshineHearing(fields: Fields): MoonshineConfig | undefined {
  if (fields.text("model_type", "") !== MOONSHINE) return undefined
  const config = seeingBothWays(readMoonshineLayers(fields, "encoder", PIECE_ROWS))
  const { hidden: width } = config.shapes
  if (width > MAX_WIDTH) throw fields.wrong("hidden_size", `is ${width}; ${MAX_WIDTH} are the most`)
  return {
    architecture: "moonshine_encoder",
    rows: PIECE_ROWS,
    width,
    blocks: config.blocks,
    norm: config.norm!,
    strided: true,
    softToken: 0,
    naming: namingOf(config),
  }
}

function namingOf(config: ModelConfig): Naming {
  const { hidden: width } = config.shapes
  const neighbours = neighboursOf(config)
  const [first, second, third] = STRIDES.map(({ taps }) => taps)
  return {
    roots: ["model.encoder.", "encoder."].map((root) => ({ root, head: root })),
    layers: "layers.",
    parts: {
      embed_tokens: "conv1", // by which the tower is found
      nothing: { name: "nothing", constant: 0 },
      ones: { name: "ones", constant: 1 },
      means: { name: "means", constant: 1 / width },
      "conv1.weight": { name: "conv1.weight", shape: [width, 1, first!] },
      "conv2.weight": {
        name: "conv2.weight",
        shape: [2 * width, width, second!],
        turnedColumns: second!,
      },
      "conv3.weight": {
        name: "conv3.weight",
        shape: [width, 2 * width, third!],
        turnedColumns: third!,
      },
      "self_attn.q_proj": { name: "self_attn.q_proj", neighbours },
      "self_attn.k_proj": { name: "self_attn.k_proj", neighbours },
      norm: "layer_norm",
      "mlp.up_proj": "mlp.fc1",
      "mlp.down_proj": "mlp.fc2",
    },
  }
}

/** How recordings are made ready. */
export function readMoonshineAudio({ extractor }: AudioFiles): StridedProcessing {
  const known = [
    ["feature_size", 1],
    ["sampling_rate", RATE],
  ] as const
  for (const [name, is] of known)
    if (extractor.count(name, is) !== is)
      throw extractor.wrong(name, `is ${extractor.count(name)}; only ${is} is known of this model`)
  if (extractor.flag("do_normalize", true))
    throw extractor.wrong("do_normalize", "is true; only false is known of this model")
  return {
    bands: 1,
    cutting: "strided",
    most: SECONDS,
    window: PIECE_SECONDS,
    ...{ mark: "", soft: "", before: "", after: "" }, // no prompt has rows of it
  }
}

export const readMoonshineAdvice = (fields: Fields): PieceAdvice => ({
  begin: readMoonshineBegin(fields),
  most: readMoonshineTokens(fields),
})

export function moonshineTower(config: MoonshineConfig): Graph {
  const { architecture, width, blocks, norm } = config
  const place = { layers: blocks.length, prefix: "model.", hidden: width, sinks: 0, keptBy: 0 }
  let x = convolvedRows(config)
  for (const [index, block] of blocks.entries()) x = decoderLayer(block, x, { ...place, index })
  const last = normed(x, norm, own, "norm", "norm")
  const head = own("layers.0.o", "layers.0.self_attn.o_proj.weight", width, width) // nobody asks for logits
  const shapes = moonshineShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, last, head)
}

const own = named("", "model.")

/** [tokens, width] */
function convolvedRows({ width, blocks }: MoonshineConfig): Node {
  const given = hiddenIn(stridedColumns.all)
  const marks = slice(given, stridedColumns.samples, PLACES)
  const each = slice(given, stridedColumns.all - 1, 1) // rows there are for a place
  const [first, second, third] = STRIDES
  const filters = { ...own("conv1", "conv1.weight", width, first.taps), exact: true as const }
  const places = Array.from({ length: PLACES }, (_, place) =>
    linear(slice(given, place * first.stride, first.taps), filters),
  )
  const made = apply("cap", sideBySide(places), 1) // the hyperbolic tangent
  const even = evened(made, { marks, each, layer: blocks.length })
  const ofAll = (name: string) =>
    repeated(own(`groupnorm_${name}`, `groupnorm.${name}`, width), PLACES)
  const weighed = weigh(even, ofAll("weight"))
  const normed = add(weighed, sameRow(weighed, ofAll("bias")))
  const convolved = (x: Node, number: 2 | 3, [from, columns]: readonly [number, number]) => {
    const rows = number === 2 ? 2 * width : width
    const matrix = own(`conv${number}`, `conv${number}.weight`, rows, columns)
    const bias = own(`conv${number}_bias`, `conv${number}.bias`, rows)
    return apply("gelu", linear(slice(x, from, columns), matrix, bias))
  }
  const seconds = Array.from({ length: third.taps }, (_, place) =>
    convolved(normed, 2, [place * second.stride * width, second.taps * width]),
  )
  return convolved(sideBySide(seconds), 3, [0, third.taps * 2 * width])
}

/** What all places have less their mean, over their deviation. */
function evened(x: Node, { marks, each, layer }: { marks: Node; each: Node; layer: number }): Node {
  const sums = { ...own("means", "means.weight", ALIKE, x.columns), exact: true as const }
  const meanOf = (x: Node) => {
    const sum = linear(multiply(x, marks), sums)
    const mean = attention(sum, sum, sum, {
      ...{ layer, heads: 1, kvHeads: 1, headDim: ALIKE, bidirectional: true },
      ...{ scale: 0, cap: undefined, window: undefined, sinks: 0 },
    })
    return multiply(slice(mean, 0, 1), each)
  }
  const ones = sameRow(x, own("ones", "ones.weight", x.columns))
  const centred = add(x, multiply(ones, scaled(meanOf(x), -1)))
  const variance = meanOf(multiply(centred, centred))
  return multiply(centred, apply("inverse_root", variance, EPSILON))
}

/** As many as there are rows of `x`, all of which are that. */
const sameRow = (x: Node, row: Weight): Node =>
  learnedRow(x, own("nothing", "nothing.weight", x.columns), row)

/** The same numbers so many times. */
function repeated(one: Weight, times: number): Weight {
  const sources = Array.from({ length: times }, () => one.sources[0]!)
  return { ...one, rows: times * one.rows, sources }
}

export function moonshineShapes({ width, blocks, rows }: MoonshineConfig): Shapes & {
  taken: number
} {
  const { attention, mlp } = blocks[0]!
  const { heads, kvHeads, headDim } = attention
  return {
    vocabulary: width,
    hidden: width,
    taken: stridedColumns.all,
    layers: blocks.length,
    heads,
    kvHeads,
    headDim,
    intermediate: mlp.intermediate,
    context: rows,
  }
}
