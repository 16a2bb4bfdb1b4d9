// The graph of a vision tower with its projector: a row of pixels for each patch of a tile goes in, rows of the text model's width
// come out, and go where its tokens' rows do. Its tokens are places: rows of the table of positions. Patches that become one
// row lie behind one another, and `hiddenRows` names the first of each. Nobody asks for its logits: a graph has some, so they are
// read off a matrix that is there, which costs nothing.
//
// Towers that take images of any proportions have no such table. Where positions are learned, for a square of places, those between
// are mixed of the four around them: behind a patch's pixels its row has how much each place counts, which is multiplied with them.
// Where each height and each width has a row of its own, both are added. Or a patch has the nearest of these places, which its token names; or
// of very many places the four around it are named by its token and its coordinates, and behind its pixels is how much each of these counts.
//
// Where patches are merged between two layers, each of those that become one has the row of all of them from then on: keys and values
// that are there four times count four times less, so what is seen is the same. It costs what a tower without that costs.
//
// With a resampler rows stand behind the patches that ask: learned queries, one each, see all patches and not each other.

import {
  add,
  apply,
  attention,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  multiply,
  select,
  slice,
  stacked,
  weigh,
  weight,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Graph, Node, Weight } from "../../compiler/graph/graph.ts"
import { NAMED } from "../../images/patches.ts"
import { tileNumbers, togetherRows, toldColumns } from "../../images/together.ts"
import type { Shapes } from "../../runtime/manifest.ts"
import type { Axis, Rotation } from "../../runtime/rotation.ts"
import { type Block, type NormKind, withAttention, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import { decoderLayer } from "../layers.ts"
import { planeOf } from "../plane.ts"
import { type Named, named, normed, scaled } from "../tensors.ts"
import type { Naming } from "../weights/names.ts"
import { type Asking, asked } from "./asking.ts"

export interface TowerConfig {
  /** What its configuration calls it. */
  architecture: string
  /** Of a patch, in pixels. */
  patch: number
  /** Of a tile, in patches; of one that fits images, of the square of places that positions are learned for. */
  side: number
  /** It takes images of any proportions. */
  fits?: Fits
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
  /** Between two layers patches are merged. */
  between?: Between
  merge: Merge
  /** All tiles of an image are read at once, by two towers behind one another. */
  tiled?: Tiled
  /** What comes out are not its patches, but what is asked of them. */
  resampler?: Resampler
  /** Of its windows is asked, in the place of what merges and projects; rows of several layers come out. */
  asking?: Asking
  projector: Projector
  /** What comes out behind the last layer's rows, side by side. */
  stacked?: readonly Stacked[]
  /** Of these; absent: as that of the last layer's, behind a norm. */
  stackedProjector?: Projector
  /** The token in whose place a row that comes out stands in a prompt. */
  softToken: number
  /** A row of its own ends each line of an image, in the prompt. */
  newline?: true
  /** The same, made of one that is as wide as what the projector's last matrix takes; another begins an image, and a third ends it. */
  framed?: true
  /** In the text model the rows of a tile see each other, in all layers or in those that have windows; or all tokens of a prompt with an image. */
  mutual?: "everywhere" | "in windows" | "with the prompt"
  /** Where the text model gives layers columns of the token's own, a row of an image has those of this one. */
  instead?: number
  /** What turns each pair in the text model. */
  axes?: readonly Axis[]
  naming: Naming
}

/** Rows that a layer leaves, merged, under a norm and a projector of that number. */
export interface Stacked {
  layer: number
  number: number
  /** They are added behind that layer of the text model, counted from 0; absent: behind the first that no others are added to. */
  behind?: number
}

/** Of an image, where images have tiles of their own: as many as Qwen 2 VL's processor makes by itself, 1280 x 28 x 28 pixels. */
export const MAX_PATCHES = 5120

export interface Fits {
  rows: number // of the largest
  /** A patch is so many frames, which are all the same. */
  frames: number
  /** All colours of one of them lie behind those of another; absent: frames of a colour do. */
  framesFirst?: true
  /** Positions are learned: added before the first norm, where there is one, or behind it. */
  interpolated?: "before the norm" | "behind the norm"
  /** The same, of which a patch has the nearest. */
  nearest?: true
  /** The four around a patch are named. */
  named?: true
  /** Of so many heights and as many widths. */
  lines?: number
}

/**
 * How many patches of a tile, along each of its sides, become one row: side by side, row after row of them, as their mean, or by a
 * matrix, which makes one as wide as each of them was.
 */
export interface Merge {
  side: number
  by: "columns" | "mean" | "matrix"
  /** One of each so many rows is read: the others are the same. */
  every?: number
  /** Of each patch before. */
  norm?: NormKind
  /** What a mean is multiplied with. */
  factor?: number
  /** And a stored row is taken off it, and the rest multiplied with another. */
  standardized?: true
}

/**
 * Behind that layer, counted from 0, so many patches to each side see each other and become one: their mean, and what two matrices make of
 * them side by side, under a norm, with so many columns between.
 */
export interface Between {
  layer: number
  side: number
  norm: NormKind
  columns: number
}

/** So many tiles at the most; of the layers so many are the first tower's; and what those of these numbers read, from 0 on, stands beside the last's rows. */
export interface Tiled {
  most: number
  local: number
  beside: readonly number[]
}

/** Heads of learned queries, each of which sees all patches: their keys are told by line and column where they lie, as sines. */
export interface Resampler {
  queries: number
  /** Of a row, which heads share. */
  columns: number
  heads: number
  /** Of queries, and of what keys and values are made of. */
  norm: NormKind
}

/** Of patches to each side of a tile, where these are told by sines. */
export const MAX_LINES = 512

/** A norm, and one matrix, two or three. */
export interface Projector {
  norm: NormKind | undefined
  /**
   * So many columns between two matrices are activated; or where they are `gated` the second half of them is, and the first is
   * multiplied with it. `twice`: behind them is another such matrix, whose rows are activated, too. Undefined: there is one matrix.
   */
  inner: Inner | undefined
  bias: boolean
  /** Of what is activated. */
  middle?: NormKind
  /** Behind these a matrix that takes so many columns. */
  behind?: { columns: number }
  /** Of what comes out. */
  last?: NormKind
  /** Behind that a matrix, a norm, gelu and a gated MLP so wide; none of them has a bias. */
  gatedMlp?: { columns: number; activation: Activation }
  /** Of a row that comes out: the text model's. */
  width: number
  /** What it is multiplied with. */
  factor: number
}

interface Inner {
  columns: number
  activation: Activation
  gated: boolean
  twice?: true
  /** What comes of the first matrix is told by sines in which column and line of its tile it lies, and normed. */
  placed?: NormKind
}

export const COLOURS = 3

/** What projectors of stacked layers are called, before their numbers. */
export const STACKED = "deepstack_merger_list"

/** The text model, in whose prompts rows may stand for tokens. */
export function seeingImages(
  text: ModelConfig,
  {
    mutual,
    instead,
    axes,
    stacked = [],
  }: Pick<TowerConfig, "mutual" | "instead" | "axes" | "stacked"> = {},
): ModelConfig {
  const { hidden } = text.shapes
  const seeing = {
    ...text,
    shapes: stacked.length ? { ...text.shapes, taken: hidden * (1 + stacked.length) } : text.shapes,
    embedding: {
      ...text.embedding,
      sees: true,
      stacked: stacked.map(({ behind }, number) => behind ?? number),
    } as const,
    ...(text.layerInputs && {
      layerInputs: { ...text.layerInputs, ...(instead !== undefined && { instead }) },
    }),
  }
  const by = (turn: Rotation) => (axes ? { ...turn, axes } : turn)
  return withBlocks(seeing, (block, layer) => {
    if (text.seeing?.has(layer)) return attendingToMedia(block)
    const { rotation, window } = block.attention
    const isMutual =
      mutual === "everywhere" ||
      mutual === "with the prompt" ||
      (mutual === "in windows" && window !== undefined)
    const turned = rotation && { query: by(rotation.query), key: rotation.key && by(rotation.key) }
    return withAttention(block, { rotation: turned, ...(isMutual && { mutual: true }) })
  })
}

/** A layer that leaves what it reads where nothing is seen. */
function attendingToMedia(block: Block): Block {
  const { only: _, ...attending } = block
  return { ...attending, media: true, gates: true }
}

export function tower(config: TowerConfig): Graph {
  const { architecture, width, blocks, firstNorm, lastNorm, layersRead, projector } = config
  const own = named("", "model.")
  const table = namesPlaces(config) ? positionsOf(config) : undefined
  const given = hiddenIn(towerShapes(config).taken)
  const places = config.fits?.named
    ? fourPlaces(config, given)
    : table
      ? embed(table)
      : learnedPlaces(config, given)
  const isBehind = config.fits?.interpolated === "behind the norm"
  const patches = patchesOf(config, given) // [tokens, width]
  const seen = places && !isBehind ? add(patches, places) : patches
  const even = firstNorm ? normed(seen, firstNorm, own, "embed_norm", "embed_norm") : seen
  let x = places && isBehind ? add(even, places) : even
  // A tile is whole in a step, so nobody reads a layer's keys and values behind it: all have one place, layer after layer.
  const inPlane = blocks.some(({ convolution }) => convolution) ? planeOf(width) : undefined
  const all = { layers: blocks.length, prefix: "model.", hidden: width, sinks: 0, keptBy: 0 }
  const place = { ...all, inPlane }
  const left = blocks.map((block, index) => {
    x = decoderLayer(block, x, { ...place, index })
    if (config.between?.layer === index) x = mergedBetween(x, config.between, block)
    return x
  })
  const last = lastNorm ? normed(x, lastNorm, own, "norm", "norm") : x
  const read = layersRead?.map((layer) => left[layer - 1]!).reduce(concat) ?? last
  const hidden = config.asking
    ? asked(config.asking, left, projector)
    : projectedRows(config, read, left)
  const { heads, headDim } = blocks[0]!.attention
  const layer = `layers.${blocks.findIndex(({ convolution }) => !convolution)}`
  const head =
    table ?? weight(`${layer}.o`, `model.${layer}.self_attn.o_proj.weight`, width, heads * headDim)
  const shapes = towerShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, last, head, { hidden })
}

/** [rows that come out, columns] @param read rows of the last layer that is read @param left those of each */
function projectedRows(config: TowerConfig, read: Node, left: readonly Node[]): Node {
  const { merge, projector, lastNorm, resampler, side, stacked = [] } = config
  const ending = named("projector.", "")
  const leading = resampler
    ? resampled(read, resampler, ending)
    : merged(read, merge.side ** 2, merge, ending)
  return [
    projected(leading, projector, ending, side / merge.side),
    ...stacked.map(({ layer, number }) => {
      const norm = { kind: "layer", bias: true, epsilon: lastNorm!.epsilon } as const
      const ofLayer = named(`stacked.${number}.`, `model.${STACKED}.${number}.`)
      const { norm: _, ...plain } = merge
      const joined = merged(left[layer]!, merge.side ** 2, plain, ofLayer)
      return projected(joined, config.stackedProjector ?? { ...projector, norm }, ofLayer)
    }),
  ].reduce(concat)
}

/** [tokens, width] of each patch the row of all that become one. */
function mergedBetween(x: Node, { side, norm, columns }: Between, block: Block): Node {
  const own = named("vit_merger.", "model.vit_merger.")
  const { heads, headDim, scale } = block.attention
  const memory = { layer: 0, heads, kvHeads: heads, headDim, cap: undefined, window: undefined }
  const within = { ...memory, sinks: 0, mutual: true } as const
  const project = (name: string, tensor: string, row: Node, rows: number) =>
    linear(
      row,
      own(name, `${tensor}.weight`, rows, row.columns),
      own(`${name}_bias`, `${tensor}.bias`, rows),
    )
  const even = normed(x, norm, own, "attention_norm", "input_layernorm")
  const [q, k, v] = ["q", "k", "v"].map((name) =>
    project(name, `self_attn.${name}_proj`, even, x.columns),
  )
  const seen = attention(q!, k, v, { ...within, scale })
  const sum = add(x, project("o", "self_attn.o_proj", seen, x.columns))
  // Where all scores are 0 each row counts the same: what only one of them has, as often as there are rows, is what that one has.
  const count = side * side
  const marks = { ...own("marks", "marks.weight", count, count), exact: true as const }
  const mark = embed(marks, "height")
  const rows = Array.from({ length: count }, (_, i) =>
    attention(sum, sum, multiply(sum, slice(mark, i, 1)), { ...within, scale: 0 }),
  )
  const beside = normed(rows.reduce(concat), norm, own, "norm", "norm")
  const made = apply("gelu_tanh", project("up", "linear_1", beside, columns))
  return add(project("down", "linear_2", made, x.columns), scaled(rows.reduce(add), 1 / count))
}

/** [rows that ask, columns] what each query has seen. */
function resampled(x: Node, { queries, columns, heads, norm }: Resampler, own: Named): Node {
  const project = (name: "q" | "k" | "v" | "o", row: Node) => {
    const matrix = own(`resampler_${name}`, `resampler_${name}.weight`, columns, columns)
    return linear(row, matrix, own(`resampler_${name}_bias`, `resampler_${name}.bias`, columns))
  }
  const learned = stacked("queries", [
    own("asking", "queries.weight", queries, columns),
    own("rest", "queries_rest.weight", MAX_LINES - queries, columns),
  ])
  const asking = normed(
    embed({ ...learned, exact: true }, "height"),
    norm,
    own,
    "ask",
    "query_norm",
  )
  const even = normed(
    linear(x, own("resampler_kv", "resampler_kv.weight", columns, x.columns)),
    norm,
    own,
    "seen",
    "key_norm",
  )
  const places = sines(MAX_LINES, columns)
  const headDim = columns / heads
  const seen = attention(
    project("q", asking),
    project("k", add(even, places)),
    project("v", even),
    {
      ...{ layer: 1, heads, kvHeads: heads, headDim, scale: headDim ** -0.5 },
      ...{ cap: undefined, window: undefined, sinks: 0, mutual: true },
    },
  )
  return project("o", select(seen, "hidden"))
}

/** [tokens, columns] of each its column and its line, as sines. */
function sines(lines: number, columns: number): Node {
  const own = named("", "model.")("lines", "lines.weight", lines, columns / 2)
  const table = { ...own, exact: true as const }
  return concat(embed(table, "width"), embed(table, "height"))
}

/** [tokens, width] patches. @param given the pixels of each, and how much each learned place counts for it */
function patchesOf({ width, patch, patchBias, hasClass, fits }: TowerConfig, given: Node): Node {
  const own = named("", "model.")
  const size = patch * patch
  const pixels = COLOURS * size
  const frames = fits?.frames ?? 1
  const matrix = own("patches", "patch_embedding.weight", width, frames * pixels)
  // Where there is a class, the bias is in the table: the class has none.
  const bias = patchBias && !hasClass && own("patches_bias", "patch_embedding.bias", width)
  const shown = given.columns > pixels ? slice(given, 0, pixels) : given
  const colours = Array.from({ length: COLOURS }, (_, colour) => slice(shown, colour * size, size))
  const all = fits?.framesFirst
    ? Array<Node>(frames).fill(shown)
    : colours.flatMap((colour) => Array<Node>(frames).fill(colour))
  return linear(frames > 1 ? all.reduce(concat) : shown, matrix, bias || undefined)
}

/** [tokens, width] where patches are, of towers that fit images. */
function learnedPlaces({ width, side, patch, fits }: TowerConfig, given: Node): Node | undefined {
  if (fits?.lines) return linesOf(fits.lines, width)
  if (!fits?.interpolated) return undefined
  const places = side * side
  const table = named("", "model.")("positions", "positions.weight", width, places)
  const shares = slice(given, COLOURS * patch * patch, places)
  return linear(shares, { ...table, exact: true as const })
}

/** [tokens, width] each patch's four places, as much of each as stands behind its pixels. */
function fourPlaces(config: TowerConfig, given: Node): Node {
  const table = positionsOf(config)
  const pixels = COLOURS * config.patch ** 2
  return (["token", "time", "height", "width"] as const)
    .map((by, i) => multiply(embed(table, by), slice(given, pixels + i, 1)))
    .reduce(add)
}

/** Rows of two tables, which are kept as exactly as they are added. */
function linesOf(lines: number, width: number): Node {
  const own = named("", "model.")
  const table = (name: string) => ({
    ...own(name, `${name}.weight`, lines, width),
    exact: true as const,
  })
  return add(embed(table("widths"), "width"), embed(table("heights"), "height"))
}

/** A table with a row for each place, which MLX may have packed: what is read has a row for each of its columns. */
export function placesParts(name: string, count: number, width: number): Naming["parts"] {
  const rows = { of: count, from: 0, run: count, every: count }
  return { "positions.weight": { name, rows, turnedRuns: { width } } }
}

/** Rows that are read beside the graph: what ends lines, and what stands before and behind them. */
export function apartOf({ newline, framed, projector: { width, behind } }: TowerConfig): Weight[] {
  const row = (name: string, columns: number) => weight(name, `${name}.weight`, columns)
  if (newline) return [row("newline", width)]
  if (!framed) return []
  return [row("newline", behind!.columns), row("opening", width), row("closing", width)]
}

/** Whether tokens are rows of its table of positions. */
const namesPlaces = ({ fits }: TowerConfig) => !fits || fits.nearest || fits.named || false

export function towerShapes(config: TowerConfig): Shapes & { taken: number } {
  const { blocks, patch, side, hasClass, width, fits, tiled, projector, stacked = [] } = config
  const shares = fits?.named ? NAMED : fits?.interpolated ? side * side : 0
  const { attention, mlp } = blocks[0]!
  const { heads, kvHeads, headDim } = attention
  const ofTile = side * side + Number(hasClass)
  const places = tiled ? tileNumbers(tiled.most) * ofTile : ofTile
  const told = tiled ? toldColumns(tiled.most) : shares
  return {
    vocabulary: namesPlaces(config) ? places : width,
    hidden: projector.width * (1 + stacked.length),
    taken: COLOURS * patch * patch + told,
    layers: blocks.length,
    heads,
    kvHeads,
    headDim,
    intermediate: mlp.intermediate,
    context: tiled ? togetherRows({ side, most: tiled.most }) : (fits?.rows ?? places),
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

/** [rows that come out, columns of as many rows as become one, or of what is made of them] */
export function merged(x: Node, count: number, merge: Omit<Merge, "side">, own: Named): Node {
  const { by, norm, factor = 1, standardized, every = 1 } = merge
  const even = norm ? normed(x, norm, own, "merging_norm", "merging_norm") : x
  const whole = select(even, "hidden", count)
  if (by === "matrix")
    return linear(whole, own("merging", "merging.weight", x.columns, whole.columns))
  if (by === "columns" && every === 1) return whole
  if (by === "columns")
    return Array.from({ length: count / every }, (_, i) =>
      slice(whole, i * every * x.columns, x.columns),
    ).reduce(concat)
  const rows = Array.from({ length: count }, (_, i) => slice(whole, i * x.columns, x.columns))
  const mean = scaled(rows.reduce(add), factor / count)
  return standardized ? standard(mean) : mean
}

/** Less one stored row, which is that of every token, times another. */
function standard(x: Node): Node {
  const own = named("", "model.")
  const table = { ...own("std_bias", "std_bias.weight", 1, x.columns), exact: true as const }
  const less = scaled(select(embed(table), "hidden"), -1)
  return weigh(add(x, less), own("std_scale", "std_scale.weight", x.columns))
}

/** @param lines of what comes out, of which a tile has so many */
export function projected(x: Node, projector: Projector, own: Named, lines = 0): Node {
  const { norm: kind, inner, middle, behind, last, gatedMlp, bias, width, factor } = projector
  const project = (name: string, input: Node, rows: number) =>
    linear(
      input,
      own(name, `${name}.weight`, rows, input.columns),
      bias ? own(`${name}_bias`, `${name}.bias`, rows) : undefined,
    )
  const even = kind ? normed(x, kind, own, "norm", "projector_norm") : x
  if (!inner && gatedMlp) return throughGatedMlp(project("linear_1", even, width), gatedMlp, own)
  const ended = (out: Node) => (last ? normed(out, last, own, "last_norm", "last_norm") : out)
  if (!inner) return scaled(ended(project("linear_1", even, width)), factor)
  const { columns, activation, gated, twice, placed } = inner
  const first = project("linear_1", even, columns)
  const made = placed
    ? normed(
        add(first, select(sines(lines, columns), "hidden")),
        placed,
        own,
        "placed",
        "placed_norm",
      )
    : first
  const half = columns / 2
  const activated = gated
    ? multiply(apply(activation, slice(made, half, half)), slice(made, 0, half))
    : apply(activation, made)
  if (!twice) {
    const between = middle
      ? normed(activated, middle, own, "middle_norm", "middle_norm")
      : activated
    const second = project("linear_2", between, behind?.columns ?? width)
    const out = behind ? project("linear_3", second, width) : second
    return scaled(ended(out), factor)
  }
  const again = apply(activation, project("linear_2", activated, columns))
  return scaled(project("linear_3", again, width), factor)
}

function throughGatedMlp(
  x: Node,
  { columns, activation }: NonNullable<Projector["gatedMlp"]>,
  own: Named,
): Node {
  const { columns: width } = x
  const project = (name: string, input: Node, rows: number) =>
    linear(input, own(name, `${name}.weight`, rows, input.columns))
  const even = normed(
    project("linear_2", x, width),
    { kind: "layer", bias: true, epsilon: 1e-5 },
    own,
    "mlp_norm",
    "mlp_norm",
  )
  const read = apply("gelu", even)
  const gate = apply(activation, project("gate_proj", read, columns))
  return project("down_proj", multiply(gate, project("up_proj", read, columns)), width)
}
