// The graph of what a model hears with, an encoder and a projector behind it: frames go in for each row, rows of the text model's width
// come out, and go where its tokens' rows do. Whisper's encoder is given bands of five neighbouring frames; another begins as chunks.ts
// says.
//
// Two convolutions of three taps come first, the second of which leaves out every other row. Row t needs rows 2t - 1 to 2t + 1 of the
// first one, and these frames 2t - 2 to 2t + 2: each row computes its three by itself, half as much again as there are. Row -1 is
// nothing, not what the first one makes of silence, and so a column that goes in is 0 for it. Of pieces the row behind the last is nothing, too,
// where the last has only two, and one more column says so. Where rows are filled up to as many as become one, a third says which
// are none: they come out as zeros, and nobody sees them.
//
// Sources: modeling_whisper.py, modeling_qwen2_5_omni.py and modeling_qwen3_asr.py of transformers.

import { chunkLayout } from "../../audio/chunks.ts"
import {
  add,
  apply,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  multiply,
  slice,
  weight,
} from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { Block, NormKind } from "../block.ts"
import { decoderLayer } from "../layers.ts"
import { named, normed } from "../tensors.ts"
import { merged, type Projector, projected } from "../vision/tower.ts"
import type { Naming } from "../weights/names.ts"
import { chunkRowsOf } from "./chunks.ts"

export interface HearingConfig {
  /** What its configuration calls it. */
  architecture: string
  /** Of the mel scale, in a frame. */
  bands: number
  /** Of a window. */
  rows: number
  /** Of a row between the layers. */
  width: number
  blocks: readonly Block[]
  /** Rows have learned places; else heads are turned, or rows are told their places. */
  hasPlaces: boolean
  /** It hears a second at a time, by convolutions with so many channels. */
  channels?: number
  /** What it hears at once is a piece, with nothing around it. */
  isPiece?: true
  /** Likewise, and rows fill up those that become one, which are none. */
  isFilled?: true
  /** Behind the last layer; of rows of which a mean is taken it is the projector's. */
  lastNorm: NormKind | undefined
  /** So many rows become one: side by side, or as their mean. */
  joined: number
  by: "columns" | "mean"
  /** Undefined: its rows are what the text model reads. */
  projector: Projector | undefined
  /** The token in whose place a row that comes out stands in a prompt. */
  softToken: number
  naming: Naming
}

const TAPS = 3

/** Frames that a row is made of. */
const FRAMES = 2 * TAPS - 1

export function hearingTower(config: HearingConfig): Graph {
  const { architecture, width, blocks, hasPlaces, lastNorm, projector } = config
  const own = named("", "model.")
  const table = hasPlaces ? own("positions", "positions.weight", config.rows, width) : undefined
  const { bands, channels } = config
  const given = hiddenIn(hearingShapes(config).taken)
  const convolved = channels ? chunkRowsOf({ bands, width, channels }) : convolutions(config, given)
  let x = table ? add(convolved, embed(table)) : convolved
  // A window is whole in a step, so nobody reads a layer's keys and values behind it: all have one place, layer after layer.
  const place = { layers: blocks.length, prefix: "model.", hidden: width, sinks: 0, keptBy: 0 }
  for (const [index, block] of blocks.entries()) x = decoderLayer(block, x, { ...place, index })
  const even = lastNorm ? normed(x, lastNorm, own, "norm", "norm") : x
  const last = config.isFilled ? multiply(even, markIn(given, config, 2)) : even
  const ending = named("projector.", "")
  const rows = merged(last, config.joined, config, ending)
  const hidden = projector ? projected(rows, projector, ending) : rows
  const { heads, headDim } = blocks[0]!.attention
  const matrix = "model.layers.0.self_attn.o_proj.weight"
  const head = table ?? weight("layers.0.o", matrix, width, heads * headDim) // nobody asks for logits
  const shapes = hearingShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, last, head, { hidden })
}

/** [tokens, width] */
function convolutions(config: HearingConfig, given: Node): Node {
  const { bands, width, isPiece, isFilled } = config
  const own = named("", "model.")
  const first = own("conv1", "conv1.weight", width, TAPS * bands)
  const firstBias = own("conv1_bias", "conv1.bias", width)
  const rows = Array.from({ length: TAPS }, (_, row) =>
    apply("gelu", linear(slice(given, row * bands, TAPS * bands), first, firstBias)),
  )
  rows[0] = multiply(rows[0]!, markIn(given, config, 0))
  if (isPiece || isFilled) rows[2] = multiply(rows[2]!, markIn(given, config, 1))
  const second = own("conv2", "conv2.weight", width, TAPS * width)
  const secondBias = own("conv2_bias", "conv2.bias", width)
  return apply("gelu", linear(rows.reduce(concat), second, secondBias))
}

/** Behind the frames: whether there is a row before, a row behind, the row itself. */
const markIn = (given: Node, { bands }: HearingConfig, at: 0 | 1 | 2): Node =>
  slice(given, FRAMES * bands + at, 1)

export function hearingShapes(config: HearingConfig): Shapes & { taken: number } {
  const { blocks, bands, rows, width, hasPlaces, channels, isPiece, isFilled, projector } = config
  const { attention, mlp } = blocks[0]!
  const { heads, kvHeads, headDim } = attention
  const marks = isFilled ? 3 : isPiece ? 2 : 1
  return {
    vocabulary: hasPlaces ? rows : width,
    hidden: projector?.width ?? width,
    taken: channels ? chunkLayout(bands, width).columns : FRAMES * bands + marks,
    layers: blocks.length,
    heads,
    kvHeads,
    headDim,
    intermediate: mlp.intermediate,
    context: isFilled ? Math.ceil(rows / config.joined) * config.joined : rows,
  }
}
