// The graph of a vision tower with its projector: a row of pixels for each patch of a tile goes in, rows of the text model's width
// come out, and go where its tokens' rows do. Its tokens are places: rows of the table of positions. Patches that become one
// row lie behind one another, and `hiddenRows` names the first of each. Nobody asks for its logits: a graph has some, so they are
// read off the table of positions, which costs nothing.

import {
  add,
  apply,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  multiply,
  select,
  slice,
  stacked,
  weight,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Graph, Node, Weight } from "../../compiler/graph/graph.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import { type Block, type NormKind, withAttention, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import { decoderLayer } from "../layers.ts"
import { named, normed, scaled } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"

export interface TowerConfig {
  /** What its configuration calls it. */
  architecture: string
  /** Of a patch, in pixels. */
  patch: number
  /** Of a tile, in patches. */
  side: number
  /** In front of the patches is a row that has none, whose pixels are zeros; its place is the first. */
  hasClass: boolean
  /** Patches are projected with a bias, which the class has not. */
  patchBias: boolean
  /** Of a row between the layers. */
  width: number
  blocks: readonly Block[]
  /** Of patches with their positions, before the first layer. */
  firstNorm: NormKind | undefined
  /** Behind the last one. */
  lastNorm: NormKind | undefined
  /** Layers whose rows are read as they leave them, side by side, counted from 1; undefined: those of the last, normed. */
  layersRead: readonly number[] | undefined
  merge: Merge
  projector: Projector
  /** The token in whose place a row that comes out stands in a prompt. */
  softToken: number
  /** In the text model the rows of a tile see each other. */
  mutual?: true
  naming: Naming
}

/** How many patches of a tile, along each of its sides, become one row: side by side, row after row of them, or as their mean. */
export interface Merge {
  side: number
  by: "columns" | "mean"
}

/** A norm, and one matrix or two. */
export interface Projector {
  norm: NormKind | undefined
  /**
   * So many columns between two matrices are activated; or where they are `gated` the second half of them is, and the first is
   * multiplied with it. Undefined: there is one matrix.
   */
  inner: { columns: number; activation: Activation; gated: boolean } | undefined
  bias: boolean
  /** Of a row that comes out: the text model's. */
  width: number
  /** What it is multiplied with. */
  factor: number
}

const COLOURS = 3

/** The text model, in whose prompts rows may stand for tokens. */
export function seeingImages(text: ModelConfig, { mutual }: TowerConfig): ModelConfig {
  const seeing = { ...text, embedding: { ...text.embedding, sees: true } as const }
  return mutual ? withBlocks(seeing, (block) => withAttention(block, { mutual })) : seeing
}

export function tower(config: TowerConfig): Graph {
  const { architecture, width, patchBias, hasClass, firstNorm, lastNorm } = config
  const own = named("", "model.")
  const shapes = towerShapes(config)
  const { taken } = shapes
  const table = positionsOf(config)
  const matrix = own("patches", "patch_embedding.weight", width, taken)
  // Where there is a class, the bias is in the table: the class has none.
  const bias = patchBias && !hasClass && own("patches_bias", "patch_embedding.bias", width)
  const seen = add(linear(hiddenIn(taken), matrix, bias || undefined), embed(table)) // [tokens, width]
  const first = firstNorm ? normed(seen, firstNorm, own, "embed_norm", "embed_norm") : seen
  const layers = config.blocks.length
  // A tile is whole in a step, so nobody reads a layer's keys and values behind it: all have one place, layer after layer.
  const place = { layers, prefix: "model.", hidden: width, sinks: 0, keptBy: 0 }
  const left: Node[] = []
  for (const [index, block] of config.blocks.entries())
    left.push(decoderLayer(block, left.at(-1) ?? first, { ...place, index }))
  const end = left.at(-1)!
  const last = lastNorm ? normed(end, lastNorm, own, "norm", "norm") : end
  const read = config.layersRead?.map((layer) => left[layer - 1]!).reduce(concat) ?? last
  const hidden = projected(merged(read, config.merge), config.projector)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, last, table, { hidden })
}

export function towerShapes(config: TowerConfig): Shapes & { taken: number } {
  const { attention, mlp } = config.blocks[0]!
  const { heads, kvHeads, headDim } = attention
  const places = config.side * config.side + Number(config.hasClass)
  return {
    vocabulary: places,
    hidden: config.projector.width,
    taken: COLOURS * config.patch * config.patch,
    layers: config.blocks.length,
    heads,
    kvHeads,
    headDim,
    intermediate: mlp.intermediate,
    context: places,
  }
}

/** A class's row is its position's and its own; it makes a table of sums, which are kept as exactly as they are added. */
function positionsOf({ side, width, hasClass }: TowerConfig): Weight {
  const patches = side * side
  if (!hasClass) return weight("positions", "model.positions.weight", patches, width)
  const rows = [
    weight("class", "model.class_position.weight", 1, width),
    weight("places", "model.patch_positions.weight", patches, width),
  ]
  return { ...stacked("positions", rows), exact: true }
}

/** [rows that come out, columns of as many patches as become one, or of their mean] */
function merged(x: Node, { side, by }: Merge): Node {
  const count = side * side
  const whole = select(x, "hidden", count)
  if (by === "columns" || count === 1) return whole
  const patches = Array.from({ length: count }, (_, i) => slice(whole, i * x.columns, x.columns))
  return scaled(patches.reduce(add), 1 / count)
}

function projected(x: Node, { norm: kind, inner, bias, width, factor }: Projector): Node {
  const own = named("projector.", "")
  const project = (name: string, input: Node, rows: number) =>
    linear(
      input,
      own(name, `${name}.weight`, rows, input.columns),
      bias ? own(`${name}_bias`, `${name}.bias`, rows) : undefined,
    )
  const even = kind ? normed(x, kind, own, "norm", "projector_norm") : x
  if (!inner) return scaled(project("linear_1", even, width), factor)
  const { columns, activation, gated } = inner
  const made = project("linear_1", even, columns)
  const half = columns / 2
  const activated = gated
    ? multiply(apply(activation, slice(made, half, half)), slice(made, 0, half))
    : apply(activation, made)
  return scaled(project("linear_2", activated, width), factor)
}
