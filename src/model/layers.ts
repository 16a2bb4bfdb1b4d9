// The graph of a decoder, made of its blocks. Weights have llama's names, whatever a folder calls them
// (weights/names.ts); places that llama has no norms at are called `embed_norm`, `self_attn.output_norm`, `mlp.output_norm`,
// `attention.sum_norm` and `mlp.sum_norm`. The short names are the ones a plan shows.

import {
  add,
  apply,
  attention,
  bound,
  concat,
  convolve,
  deltaRule,
  deltaRuleByColumn,
  embed,
  embedOrElse,
  embedOrSee,
  experts,
  finish,
  headLinear,
  indexer,
  linear,
  multiply,
  norm,
  relativeAttention,
  rope,
  route,
  seenPart,
  select,
  selectiveScan,
  selectiveStates,
  slice,
  sparseAttention,
  stacked,
  weigh,
  weight,
} from "../compiler/graph/builder.ts"
import {
  type Attention,
  distancesOf,
  type Graph,
  type Node,
  type Routing,
  type Weight,
} from "../compiler/graph/graph.ts"
import { readableTokens } from "../runtime/manifest.ts"
import { growing, type Rotation } from "../runtime/rotation.ts"
import {
  type Block,
  type Cross,
  type Delta,
  type Experts,
  type HeadNorms,
  type Indexer,
  type Latent,
  type Mlp,
  type Relative,
  type Scan,
  type Selective,
  XIELU_BETA,
} from "./block.ts"
import { type ModelConfig, widestWindow } from "./config.ts"
import { corrected, predicted, type Streams, spread, together } from "./streams.ts"
import { type Named, named, normed, scaled, TINY } from "./tensors.ts"

/** Of its two tables of tokens, which may be one, the names. */
export const EMBEDDING = "model.embed_tokens.weight"
export const HEAD = "lm_head.weight"

/**
 * Embedding, one block after the other, a last norm, the head.
 * @param given layers that hand out the rows they read, behind the last hidden row; the number of all: what the last one leaves
 */
export function decoder(
  architecture: string,
  config: ModelConfig,
  given: readonly number[] = [],
): Graph {
  const { shapes, embedding, head, sinks } = config
  const { vocabulary, hidden, taken } = shapes
  const table = embeddingTable(config)
  let x = scaled(embedding.sees ? embedOrSee(table, taken) : embed(table), embedding.factor) // [tokens, hidden]
  if (embedding.positions) x = add(x, embedPositions(config))
  if (embedding.norm) x = normed(x, embedding.norm, named("", "model."), "embed_norm", "embed_norm")
  if (embedding.narrow !== undefined) x = widened(x, hidden)
  const inputs = layerInputs(config, x)
  const queries = new Map<number, Node>() // of cross-attention, by layers: of rows that are handed out
  const sight = config.blocks.some(({ media }) => media) ? sightOf() : undefined
  const chosen = new Map<number, Node>()
  const place = { layers: shapes.layers, prefix: "model.", hidden, sinks, queries, sight, chosen }
  const placeOf = (index: number) => ({ ...place, index, input: inputs?.(index), heard: x })
  const rows = [x] // that each layer reads, and what the last one leaves
  const lastNorm = (row: Node) =>
    config.norm ? normed(row, config.norm, named("", "model."), "norm", "norm") : row
  if (config.streams) rows.push(streamedLayers(config, config.streams, x, placeOf))
  else if (config.cycles) rows.push(cycledLayers(config, config.cycles, x, placeOf, lastNorm))
  else
    for (const { index, begins } of passes(config)) {
      const [row, place] = [rows.at(-1)!, { ...placeOf(index), keptBy: rows.length - 1 }]
      const read = begins ? add(lastNorm(row), lastNorm(rows[config.loop!.from]!)) : row
      rows.push(withSeen(config, decoderLayer(config.blocks[index]!, read, place), index))
    }
  const left = rows.at(-1)!
  const last = config.cycles ? left : lastNorm(left)
  const matrix = head.tied ? table : weight("head", HEAD, vocabulary, hidden)
  const bias = head.bias ? weight("head_bias", "lm_head.bias", vocabulary) : undefined
  const shape = shapeOf(config)
  const read = [last, ...given.map((layer) => rows[layer]!)].map((row) => select(row, "hidden"))
  const handed = [...read, ...alignedQueries(config, queries)]
  const columns = handed.reduce((sum, row) => sum + row.columns, 0)
  const own = handed.length > 1 ? { ...shapes, given: columns } : shapes
  const graph = { architecture, shapes: own, window: widestWindow(config), sinks }
  const hiddenRows = handed.reduce(concat)
  if (embedding.narrow === undefined)
    return finish(graph, last, matrix, { bias, shape, hidden: hiddenRows })
  // Logits that nobody reads, of as many columns as there are.
  const some = slice(last, 0, embedding.narrow)
  return finish(graph, some, matrix, { hidden: hiddenRows })
}

/** What tells where in a recording a token is said (`ModelConfig.aligned`). */
function alignedQueries(
  { aligned = [], blocks }: ModelConfig,
  queries: ReadonlyMap<number, Node>,
): Node[] {
  return aligned.map(({ layer, head }) => {
    const { headDim } = blocks[layer]!.cross!
    return slice(queries.get(layer)!, head * headDim, headDim)
  })
}

/** Which layer comes after which; `begins`: one pass of several. */
function passes({ blocks, loop }: ModelConfig): { index: number; begins: boolean }[] {
  const all = [...blocks.keys()].map((index) => ({ index, begins: index === loop?.from }))
  if (!loop) return all
  const { from, to, times } = loop
  const again = Array.from({ length: times }, () => all.slice(from, to)).flat()
  return [...all.slice(0, from), ...again, ...all.slice(to)]
}

/** Each stack ends with the last norm, and each pass keeps its keys by itself. */
function cycledLayers(
  { blocks, shapes: { hidden } }: ModelConfig,
  { slow, fast }: NonNullable<ModelConfig["cycles"]>,
  x: Node,
  placeOf: (layer: number) => LayerPlace,
  lastNorm: (row: Node) => Node,
): Node {
  const each = blocks.length / 2
  let passed = 0
  const pass = (first: number, row: Node) => {
    let left = row
    for (let index = first; index < first + each; index++)
      left = decoderLayer(blocks[index]!, left, { ...placeOf(index), keptBy: passed++ })
    return lastNorm(left)
  }
  const [zeros, first] = ["zeros", "row"].map((name) =>
    weight(`fast_${name}`, `model.fast_${name}.weight`, hidden),
  )
  let fastRow = learnedRow(x, zeros!, first!)
  let slowRow = x
  for (let cycle = 0; cycle < slow; cycle++) {
    for (let time = 0; time < fast; time++) fastRow = pass(0, add(fastRow, slowRow))
    slowRow = pass(each, add(slowRow, fastRow))
  }
  return slowRow
}

/** As many as there are rows of `x`, whatever these are: a norm whose weights are 0, and its bias. */
export const learnedRow = (x: Node, zeros: Weight, row: Weight) =>
  norm(x, zeros, TINY, { kind: "layer", bias: row })

function widened(x: Node, hidden: number): Node {
  const part = named("", "model.")
  const matrix = part("embed_wide", "embed_projection.weight", hidden, x.columns)
  return linear(x, matrix, part("embed_wide_bias", "embed_projection.bias", hidden))
}

/** What becomes of a logit. */
export const shapeOf =
  ({ head: { factor, cap, weighed } }: ModelConfig) =>
  (logits: Node): Node => {
    const own = weighed === undefined ? logits : weigh(logits, headFactors(logits))
    const sized = scaled(own, factor)
    return cap === undefined ? sized : apply("cap", sized, cap)
  }

const headFactors = ({ columns }: Node) => weight("head_factors", "lm_head.factors.weight", columns)

function embeddingTable({ shapes, embedding }: ModelConfig): Weight {
  const { vocabulary, hidden } = shapes
  const { isPaired, narrow: columns = hidden } = embedding
  if (!isPaired) return weight("embed", EMBEDDING, readableTokens(shapes), columns)
  const halves = ["tokens", "paired"].map((name) =>
    weight(name, `model.embed_${name}.weight`, vocabulary / 2, columns),
  )
  return stacked("embed", halves)
}

function embedPositions({ shapes: { context, hidden }, embedding }: ModelConfig): Node {
  const { positions, narrow: columns = hidden } = embedding
  const { heard = 0 } = positions!
  const table = weight("positions", "model.embed_positions.weight", context - heard, columns)
  if (heard === 0) return embed(table, "position")
  const zeros = weight("zeros", "model.heard_positions.weight", heard, columns)
  // In floats, whatever the others are in: what is added to a recording's rows is 0.
  return embed({ ...stacked("positions", [zeros, table]), exact: true }, "position")
}

/** [tokens, 1] 1 where a token sees an image, else 0, which its height says. */
function sightOf(): Node {
  const both = { ...weight("sight", "model.sight.weight", 2, 2), exact: true as const }
  return slice(embed(both, "height"), 1, 1)
}

/** DeepStack (arXiv 2406.04334): what some layers leave, and more of what is seen. */
function withSeen({ shapes, embedding }: ModelConfig, x: Node, layer: number): Node {
  const { hidden, taken } = shapes
  const part = embedding.stacked?.indexOf(layer) ?? -1
  if (taken === undefined || part < 0) return x
  return add(x, seenPart(taken, (1 + part) * hidden, hidden))
}

/** What each layer is given beside what the layer before it has left; undefined: nothing. */
function layerInputs(
  { layerInputs: given, shapes }: ModelConfig,
  x: Node,
): ((layer: number) => Node) | undefined {
  if (!given) return undefined
  const { width, epsilon, projected: isProjected, instead } = given
  const { vocabulary, hidden, layers } = shapes
  const all = layers * width
  const matrix = weight("inputs_projection", "model.per_layer_model_projection.weight", all, hidden)
  const weights = weight("inputs_norm", "model.per_layer_projection_norm.weight", width)
  const projected = norm(scaled(linear(x, matrix), hidden ** -0.5), weights, epsilon)
  const inputsOf = (inputs: Node) => (layer: number) => slice(inputs, layer * width, width)
  if (isProjected) return inputsOf(projected)
  const table = weight("inputs", "model.embed_tokens_per_layer.weight", vocabulary, all)
  const rows = instead === undefined ? embed(table) : embedOrElse(table, instead)
  const ofToken = scaled(rows, Math.sqrt(width))
  return inputsOf(scaled(add(projected, ofToken), Math.SQRT1_2))
}

export interface LayerPlace {
  index: number
  /** How many there are. */
  layers: number
  /** What stands before `layers` in the names of its tensors. */
  prefix: string
  hidden: number
  sinks: number
  /** The layer in whose place it keeps its keys and values; absent: its own. */
  keptBy?: number
  /** Of the token's own, for this layer. */
  input?: Node | undefined
  /** What the first layer reads: of a recording's rows what its tower left, whatever layers make of them. */
  heard?: Node
  /** Those of cross-attention, of rows that are handed out: it adds its own. */
  queries?: Map<number, Node>
  /** Whether a token sees an image. */
  sight?: Node | undefined
  /** What indexers have chosen, by their layers: a layer adds its own. */
  chosen?: Map<number, Node>
  /** What attention reads in the place of the row. */
  read?: Node
  /** A convolution over the plane of an image's patches, where it is none over the tokens before. */
  inPlane?: ((x: Node, layer: Named) => Node) | undefined
}

/** Each layer computes the first row of several; of what it has left, its own input changes the others. */
function streamedLayers(
  { blocks, shapes: { hidden } }: ModelConfig,
  streams: Streams,
  x: Node,
  placeOf: (layer: number) => LayerPlace,
): Node {
  const pass = (rows: readonly Node[], block: Block, index: number) => {
    const { input, ...place } = placeOf(index)
    const layer = layerNamed(place)
    const guessed = predicted(rows, streams, layer)
    const left = decoderLayer(block, guessed[0]!, place)
    const [first, ...others] = corrected(guessed, left, streams, layer)
    if (!input) return [first!, ...others]
    const scale = layer("streams_scale", "altup.correct_output_scale.weight", hidden)
    const read = streams.scaled ? weigh(first!, scale) : first!
    const made = ofInput(block, layer, read, input)
    return [first!, ...others.map((row) => add(row, made))]
  }
  return together(blocks.reduce(pass, spread(x, streams)), streams)
}

const layerNamed = ({ index, prefix }: Pick<LayerPlace, "index" | "prefix">) =>
  named(`layers.${index}.`, `${prefix}layers.${index}.`)

/** One block's attention and MLP, each added to what it read. */
export function decoderLayer(block: Block, x: Node, place: LayerPlace): Node {
  const layer = layerNamed(place)
  const { norms, only, parallel, residual } = block
  const normIf = (wanted: boolean, value: Node, name: string, tensor: string, kind = block.norm) =>
    wanted ? normed(value, kind, layer, name, tensor) : value
  const behind = { ...block.norm, epsilon: norms.behind ?? block.norm.epsilon }
  const weighed = (value: Node, name: string) => {
    const seen = block.media ? multiply(value, place.sight!) : value
    if (block.gates) return weigh(seen, layer(`${name}_gate`, `${name}.out_gate.weight`, 1))
    return block.layerScale
      ? weigh(seen, layer(`${name}_scale`, `${name}.layer_scale.weight`, value.columns))
      : seen
  }
  const moved = (row: Node, read: Node, made: Node, name: string) => {
    if (block.interpolated === undefined) return add(row, scaled(weighed(made, name), residual))
    const share = layer(`${name}_share`, `${name}.share.weight`, read.columns)
    return add(read, weigh(add(made, scaled(read, -1)), share))
  }
  const ofMlp = (value: Node) =>
    normIf(norms.beforeMlp, value, "mlp_norm", "post_attention_layernorm")
  if (only === "nothing") return x
  if (only === "mlp") {
    const made = feedForward(block, layer, ofMlp(x), place)
    return finished(block, layer, add(x, scaled(made, residual)), place)
  }
  const read = place.read ?? normIf(norms.beforeAttention, x, "attention_norm", "input_layernorm")
  if (only === "attention") {
    const made = attended(block, layer, read, place)
    return finished(block, layer, add(x, scaled(made, residual)), place)
  }
  const mixed = normIf(
    norms.afterAttention,
    attended(block, layer, read, place),
    "attention_post_norm",
    "self_attn.output_norm",
    behind,
  )
  const sumOf = (name: string, value: Node) =>
    normIf(norms.sums ?? false, value, `${name}_sum_norm`, `${name}.sum_norm`)
  const own = moved(x, read, mixed, "attention")
  const sum = block.cross ? withHeard(block, block.cross, layer, own, place) : own
  const between = parallel ? x : sumOf("attention", withLaurel(block, layer, sum, read))
  const before = ofMlp(between)
  const given = block.experts?.beside
    ? mlpAndExperts(block, block.experts, layer, { normed: before, row: between }, place)
    : feedForward(block, layer, parallel && !norms.beforeMlp ? read : before, place)
  const made = normIf(norms.afterMlp, given, "mlp_post_norm", "mlp.output_norm", behind)
  const left = moved(parallel ? sum : between, before, made, "mlp")
  return finished(block, layer, parallel ? left : sumOf("mlp", left), place)
}

/** Attention, or what stands in its place. */
function attended(block: Block, layer: Named, x: Node, place: LayerPlace): Node {
  const { delta, selective, scan, convolution: short, isPlain, attention } = block
  if (block.media) return mediaAttention(block, layer, x, place)
  if (isPlain) return linear(x, layer("plain", "self_attn.plain.weight", place.hidden, x.columns))
  if (delta) return gatedDelta(block, delta, layer, x, place)
  if (selective) {
    const states = stateSpace(block, selective, layer, x, place)
    const { beside } = selective
    if (!beside) return states
    return add(states, scaled(selfAttention(block, layer, x, place), beside.attention))
  }
  if (scan) return scannedStates(scan, layer, x, place)
  if (short) return convolution(short, layer, x, place)
  if (attention.latent) return latentAttention(block, attention.latent, layer, x, place)
  return selfAttention(block, layer, x, place)
}

/** Keys and values are of rows that are taken in: of words nobody sees any, and so none are computed (`select-rows.ts`). */
function withHeard(
  { norm }: Block,
  { rows, heads, headDim, scale }: Cross,
  layer: Named,
  x: Node,
  { index, layers, hidden, sinks, heard, queries }: LayerPlace,
): Node {
  const width = heads * headDim
  const project = (name: string, input: Node, count: number) =>
    linear(
      input,
      layer(`cross_${name}`, `cross_attn.${name}_proj.weight`, count, input.columns),
      layer(`cross_${name}_bias`, `cross_attn.${name}_proj.bias`, count),
    )
  const read = normed(x, norm, layer, "cross_norm", "cross_layernorm")
  // By products of their own, as attention may have its queries divided among shards.
  queries?.set(index, project("q", select(read, "hidden"), width))
  const [k, v] = [project("k", heard!, width), project("v", heard!, width)]
  const seen = { heads, kvHeads: heads, headDim, scale, cap: undefined, window: undefined, sinks }
  const which = rows === undefined ? ({ mutual: true, media: true } as const) : { cross: rows }
  const own = { ...seen, layer: layers + index, ...which } // behind those of self-attention
  return add(x, project("o", attention(project("q", read, width), k, v, own), hidden))
}

function mediaAttention(
  { attention: shape, norm: { epsilon } }: Block,
  layer: Named,
  x: Node,
  { index, hidden, sinks, heard }: LayerPlace,
): Node {
  const { heads, kvHeads, headDim, scale } = shape
  const project = (name: string, input: Node, rows: number) =>
    linear(input, layer(`media_${name}`, `cross_attn.${name}_proj.weight`, rows, input.columns))
  const even = (name: string, row: Node) =>
    norm(row, layer(`media_${name}_norm`, `cross_attn.${name}_norm.weight`, headDim), epsilon)
  const q = even("q", project("q", x, heads * headDim))
  const k = even("k", project("k", heard!, kvHeads * headDim))
  const v = project("v", heard!, kvHeads * headDim)
  const own = { layer: index, heads, kvHeads, headDim, scale, cap: undefined, window: undefined }
  return project("o", attention(q, k, v, { ...own, sinks, mutual: true, media: true }), hidden)
}

/** LAuReL (arXiv 2411.07501): what attention read, by way of a few columns, too. */
function withLaurel({ laurel, norm }: Block, layer: Named, sum: Node, read: Node): Node {
  if (!laurel) return sum
  const narrow = layer("laurel_left", "laurel.linear_left.weight", laurel.rank, read.columns)
  const wide = layer("laurel_right", "laurel.linear_right.weight", read.columns, laurel.rank)
  const made = linear(linear(read, narrow), wide)
  const beside = add(read, normed(made, norm, layer, "laurel_norm", "laurel.post_laurel_norm"))
  return scaled(add(sum, beside), Math.SQRT1_2)
}

/** What a layer does with the token's own columns, and its last number. */
function finished(block: Block, layer: Named, x: Node, { input }: LayerPlace): Node {
  const left = input ? add(x, ofInput(block, layer, x, input)) : x
  return block.scaled ? weigh(left, layer("scalar", "layer_scalar.weight", 1)) : left
}

/** What a layer makes of the token's own columns, by what it has left. */
function ofInput({ norm, mlp }: Block, layer: Named, x: Node, input: Node): Node {
  const { columns } = input
  const gate = layer("input_gate", "per_layer_input_gate.weight", columns, x.columns)
  const back = layer("input_projection", "per_layer_projection.weight", x.columns, columns)
  const gated = multiply(apply(mlp.activation, linear(x, gate)), input)
  return normed(linear(gated, back), norm, layer, "input_norm", "post_per_layer_input_norm")
}

/** What a matrix reads, or what it gives, between the two numbers that are stored beside it. */
export function within(
  bounded: true | undefined,
  x: Node,
  layer: Named,
  tensor: string,
  side: "input" | "output",
): Node {
  if (!bounded) return x
  const name = layer(`${tensor}_${side}`, "", 0).name
  const numbers = ["min", "max"].map((end) => layer("", `${tensor}.${side}_${end}.weight`, 1))
  return bound(x, stacked(name, numbers))
}

function selfAttention(
  block: Block,
  layer: Named,
  x: Node,
  { index, hidden, sinks, keptBy = index }: LayerPlace,
): Node {
  const { attention: shape } = block
  const { heads, kvHeads, headDim, scale, cap, window, rotation } = shape
  const { chunked, bidirectional, mutual } = shape
  const { norms, bias, gated, gate, sinkLogits, valuesAreKeys, normsValues, reads, clip } = shape
  const clipped = (x: Node) => (clip === undefined ? x : apply("clip", x, clip))
  const project = (name: string, input: Node, rows: number, biased: boolean, own = name) => {
    const tensor = `self_attn.${name}_proj`
    const given = linear(
      within(block.bounded, input, layer, tensor, "input"),
      layer(own, `${tensor}.weight`, rows, input.columns),
      biased ? layer(`${own}_bias`, `${tensor}.bias`, rows) : undefined,
    )
    return within(block.bounded, given, layer, tensor, "output")
  }
  const prepared = (name: "q" | "k", value: Node, turn: Rotation | undefined) => {
    const normIf = (place: HeadNorms["place"], x: Node) =>
      norms?.place === place ? headNormed(x, norms, layer, name, headDim) : x
    const before = clipped(normIf("before", value))
    return normIf("after", turn ? rope(before, headDim, turn) : before)
  }
  const weighed = (name: "q" | "gate", value: Node) =>
    shape.weighed
      ? weigh(
          value,
          layer(`attention_${name}_factors`, `self_attn.${name}_factors.weight`, value.columns),
        )
      : value
  const { values: own = { columns: headDim, factor: 1 } } = shape
  const kept = { layer: reads ?? keptBy, heads, kvHeads, headDim }
  const memory = { ...kept, scale, cap, window, sinks }
  const sunk = sinkLogits && layer("sinks", "self_attn.sinks.weight", heads)
  const q = project("q", x, heads * headDim, bias.qkv) // [tokens, heads * headDim]
  const remembered = () => {
    const k = project("k", x, kvHeads * headDim, bias.qkv) // [tokens, kvHeads * headDim]
    const made = valuesAreKeys ? k : clipped(project("v", x, kvHeads * own.columns, bias.qkv))
    const v = scaled(made, own.factor)
    const ones = layer("v_norm", "self_attn.v_norm.weight", headDim)
    return [
      prepared("k", k, rotation?.key),
      normsValues ? norm(v, ones, norms!.epsilon) : v,
    ] as const
  }
  const seen = {
    ...memory,
    ...(own.columns !== headDim && { value: own.columns }),
    ...(chunked && { chunked }),
    ...(bidirectional && { bidirectional }),
    ...(mutual && { mutual }),
  }
  const queries = weighed("q", prepared("q", q, rotation?.query))
  const [keys, values] = reads === undefined ? remembered() : []
  const biases = shape.biases && attentionBiases(heads, shape.biases.positions)
  const given =
    shape.relative && keys && values
      ? disentangled([queries, keys, values], shape.relative, layer, seen)
      : attention(queries, keys, values, seen, { sinkLogits: sunk, biases })
  const open = (opened: Node) => multiply(given, apply(gate ?? "sigmoid", weighed("gate", opened)))
  const width = gated === "heads" ? heads : given.columns
  // The MLP has a gate, too.
  const mixed = gated
    ? open(project("gate", x, width, bias.qkv && gate === undefined, "attention_gate"))
    : given
  const even = shape.normed
    ? normed(mixed, shape.normed, layer, "attention_sub_norm", "self_attn.sub_norm")
    : mixed
  return project("o", even, hidden, bias.o)
}

/** Queries meet what keys of distances are, and keys what queries of distances are. */
function disentangled(
  [q, k, v]: readonly [Node, Node, Node],
  { positions, span }: Relative,
  layer: Named,
  seen: Attention,
): Node {
  const { heads, headDim, scale } = seen
  const met = (x: Node, name: string) =>
    headLinear(
      scaled(x, scale),
      layer(name, `self_attn.${name}.weight`, heads * 2 * span, headDim),
      heads,
    )
  const name = "attention_buckets"
  const buckets = weight(name, `model.${name}.weight`, distancesOf(positions))
  const [byQuery, byKey] = [met(q, "position_keys"), met(k, "position_queries")]
  return relativeAttention([q, k, v], { byQuery, byKey, buckets }, seen)
}

/** Of all layers. */
function attentionBiases(heads: number, positions: number): Weight {
  const name = "attention_biases"
  return weight(name, `model.${name}.weight`, heads * distancesOf(positions))
}

function gatedDelta(
  { norm: { epsilon: usual } }: Block,
  { taps: count, tapsApart, epsilon = usual, most, byColumn, ...delta }: Delta,
  layer: Named,
  x: Node,
  { index, hidden }: LayerPlace,
): Node {
  const { keyHeads, valueHeads, keyDim, valueDim } = delta
  const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim]
  const projection = (name: string, rows: number) =>
    layer(`delta_${name}`, `linear_attn.${name}_proj.weight`, rows, hidden)
  const filters = (name: string, rows: number) =>
    layer(`conv_taps${name}`, `linear_attn.${name}conv.weight`, count * rows)
  // Never packed: how long a state lasts hangs on them, and they are small.
  const exact = (name: string) => linear(x, { ...projection(name, valueHeads), exact: true })
  const given = stacked(layer("delta_qkv", "", 0).name, [
    projection("q", keys),
    projection("k", keys),
    projection("v", values),
  ])
  const taps = tapsApart
    ? stacked(layer("conv_taps", "", 0).name, [
        filters("q_", keys),
        filters("k_", keys),
        filters("v_", values),
      ])
    : filters("", given.rows)
  const place = { layer: index, count, heads: headsFor(given.rows) }
  const ofHeads = (name: string) => layer(name, `linear_attn.${name}.weight`, valueHeads)
  const opened = apply("sigmoid", exact("b"))
  const shares = most === undefined ? opened : scaled(opened, most)
  const mixed = apply("silu", convolve(linear(x, given), taps, place))
  const own = { layer: index, ...delta }
  const weights = () => ({ decay: ofHeads("decay"), bias: ofHeads("decay_bias") })
  const read = byColumn
    ? deltaRuleByColumn(mixed, { decays: decaysByColumn(delta, byColumn, layer, x), shares }, own)
    : deltaRule(mixed, { decays: exact("a"), shares }, weights(), own)
  const even = norm(read, layer("delta_norm", "linear_attn.norm.weight", valueDim), epsilon)
  const gate = byColumn
    ? apply("sigmoid", throughFew("z", values, byColumn, layer, x))
    : apply("silu", linear(x, projection("z", values)))
  const gated = multiply(even, gate)
  return linear(gated, layer("delta_out", "linear_attn.out_proj.weight", hidden, values))
}

/** e^(-e^decay * ln(1 + e^(what is projected + bias))): what each column of a value head's key fades to. */
function decaysByColumn(
  { valueHeads, keyDim }: Pick<Delta, "valueHeads" | "keyDim">,
  rank: NonNullable<Delta["byColumn"]>,
  layer: Named,
  x: Node,
): Node {
  const columns = valueHeads * keyDim
  const ofColumns = (name: string) => layer(name, `linear_attn.${name}.weight`, columns)
  const steps = throughFew("f", columns, rank, layer, x, ofColumns("decay_bias"))
  return apply("exp", weigh(apply("softplus", steps), ofColumns("rates")))
}

/** Projected by way of a few columns. With a bias it is never packed, as decays are not. */
function throughFew(
  name: "f" | "z",
  rows: number,
  { rank }: NonNullable<Delta["byColumn"]>,
  layer: Named,
  x: Node,
  bias?: Weight,
): Node {
  const project = (part: "a" | "b", input: Node, rows: number) => {
    const tensor = `linear_attn.${name}_${part}_proj.weight`
    const matrix = layer(`delta_${name}_${part}`, tensor, rows, input.columns)
    return [input, { ...matrix, ...(bias && { exact: true as const }) }] as const
  }
  const narrow = linear(...project("a", x, rank))
  return linear(...project("b", narrow, rows), bias)
}

function stateSpace(
  { norm: { epsilon } }: Block,
  {
    groups,
    heads,
    stateDim,
    headDim,
    taps: count,
    bias,
    behind,
    beside,
    factors = UNSCALED,
  }: Selective,
  layer: Named,
  x: Node,
  { index, layers, hidden }: LayerPlace,
): Node {
  const [keys, values] = [groups * stateDim, heads * headDim]
  const projection = (name: string, rows: number) =>
    layer(`selective_${name}`, `mamba.${name}_proj.weight`, rows, hidden)
  const given = stacked(layer("selective_vkq", "", 0).name, [
    projection("v", values),
    projection("k", keys),
    projection("q", keys),
  ])
  const taps = layer("conv_taps", "mamba.conv.weight", count * given.rows)
  const biases = bias ? layer("conv_bias", "mamba.conv.bias", given.rows) : undefined
  // What is kept is found by its layer, and that is attention's where it stands beside.
  const rows = { layer: beside ? layers + index : index, count, heads: headsFor(given.rows) }
  const ofHeads = (name: string) => layer(`selective_${name}`, `mamba.${name}.weight`, heads)
  const { v, k, q } = factors
  const factor = (name: string, rows: number) =>
    layer(`${name}_factor`, `mamba.${name}_factor.weight`, rows)
  const all = stacked(layer("selective_factors", "", 0).name, [
    factor("v", values),
    factor("k", keys),
    factor("q", keys),
  ])
  const projected = linear(x, given)
  const sized = v === k && k === q ? scaled(projected, v) : weigh(projected, all)
  const convolved = convolve(sized, taps, rows, biases)
  const read = selectiveStates(
    apply("silu", convolved),
    scaled(linear(x, { ...projection("a", heads), exact: true }), factors.a), // as of the delta rule
    { decay: ofHeads("decay"), bias: ofHeads("decay_bias"), skip: ofHeads("skip") },
    {
      ...{ layer: index, keyHeads: groups, valueHeads: heads },
      ...{ keyDim: stateDim, valueDim: headDim },
    },
  )
  const gate = apply("silu", scaled(linear(x, projection("z", values)), factors.z))
  const even = (row: Node) =>
    norm(row, layer("selective_norm", "mamba.norm.weight", values), epsilon, {
      width: values / groups,
    })
  const gated = multiply(behind === "normed, then gated" ? even(read) : read, gate)
  const out = layer("selective_out", "mamba.out_proj.weight", hidden, values)
  return scaled(linear(behind === undefined ? even(gated) : gated, out), factors.out)
}

const UNSCALED = { z: 1, v: 1, k: 1, q: 1, a: 1, out: 1 }

function scannedStates(
  { columns, stateDim, rank, taps: count, bias, normed }: Scan,
  layer: Named,
  x: Node,
  { index, hidden }: LayerPlace,
): Node {
  const project = (name: string, input: Node, rows: number, exact?: true) => {
    const matrix = layer(`scan_${name}`, `mamba.${name}_proj.weight`, rows, input.columns)
    return [input, { ...matrix, ...(exact && { exact }) }] as const
  }
  const vector = (name: string, rows: number) => layer(`scan_${name}`, `mamba.${name}.weight`, rows)
  const evened = (name: string, row: Node) =>
    normed ? norm(row, vector(`${name}_norm`, row.columns), normed.epsilon) : row
  const heads = headsFor(columns)
  const taps = layer("conv_taps", "mamba.conv.weight", count * columns)
  const biases = bias ? layer("conv_bias", "mamba.conv.bias", columns) : undefined
  const given = linear(...project("v", x, columns))
  const values = apply("silu", convolve(given, taps, { layer: index, count, heads }, biases))
  // Never packed: how long a state lasts hangs on them, and they are small.
  const made = linear(...project("x", values, rank + 2 * stateDim, true))
  const narrow = evened("steps", slice(made, 0, rank))
  const [key, query] = ["k", "q"].map((name, i) =>
    evened(name, slice(made, rank + i * stateDim, stateDim)),
  ) as [Node, Node]
  const keys = normed ? concat(key, query) : slice(made, rank, 2 * stateDim)
  const steps = linear(
    ...project("steps", narrow, columns, true),
    layer("scan_steps_bias", "mamba.steps_proj.bias", columns),
  )
  const read = selectiveScan(
    values,
    { steps: apply("softplus", steps), keys },
    { rates: vector("rates", columns * stateDim), skip: vector("skip", columns) },
    { layer: index, valueHeads: heads, keyDim: stateDim, valueDim: columns / heads },
  )
  const gated = multiply(read, apply("silu", linear(...project("z", x, columns))))
  return linear(gated, layer("scan_out", "mamba.out_proj.weight", hidden, columns))
}

/** Of a row, one third times another is convolved, and that times the one between is projected. */
function convolution(
  { taps: count }: { taps: number },
  layer: Named,
  x: Node,
  { index, hidden, inPlane }: LayerPlace,
): Node {
  const all = linear(x, layer("conv_in", "conv.in_proj.weight", 3 * hidden, hidden))
  const [before, behind, value] = [0, 1, 2].map((third) => slice(all, third * hidden, hidden)) as [
    Node,
    Node,
    Node,
  ]
  const through = multiply(before, value)
  const along = () => {
    const taps = layer("conv_taps", "conv.conv.weight", count * hidden)
    return convolve(through, taps, { layer: index, count, heads: headsFor(hidden) })
  }
  const mixed = multiply(behind, inPlane ? inPlane(through, layer) : along())
  return linear(mixed, layer("conv_out", "conv.out_proj.weight", hidden, hidden))
}

/** Rows that are remembered are kept as heads of about the usual width. */
export function headsFor(columns: number): number {
  let width = Math.min(128, columns)
  while (columns % width !== 0) width--
  return columns / width
}

/**
 * Keys are never made: a head's query is brought to what is remembered, and what it has mixed from there to its values. So
 * all heads read one key, whose first columns are the values. Weights have their turned columns first in a head, where
 * transformers has them last (weights/names.ts).
 */
function latentAttention(
  { attention: shape }: Block,
  { rank, queryRank, straight, turned, value, epsilon, indexer: by }: Latent,
  layer: Named,
  x: Node,
  place: LayerPlace,
): Node {
  const { index, hidden, sinks } = place
  const { heads, scale, cap, window, rotation } = shape
  const project = (name: string, input: Node, rows: number) =>
    linear(input, layer(name, `self_attn.${name}_proj.weight`, rows, input.columns))
  const small = (name: string, input: Node) =>
    norm(input, layer(`${name}_norm`, `self_attn.${name}_layernorm.weight`, input.columns), epsilon)
  const read = queryRank === undefined ? x : small("q_a", project("q_a", x, queryRank))
  // Products grow as what they are made of does, in all of their columns.
  const growth = rotation?.query.growth
  const grown = growth ? rope(read, read.columns, growing(read.columns, growth)) : read
  const turn = (x: Node, headDim: number, rotation: Rotation | undefined) => {
    if (!rotation) return x
    const { growth: _, ...plain } = rotation
    return rope(x, headDim, plain)
  }
  const width = turned + straight
  const q = turn(project("q_b", grown, heads * width), width, rotation?.query)
  const remembered = small("kv_a", project("kv_a", x, rank))
  const key = concat(remembered, turn(project("k_turned", x, turned), turned, rotation?.key))
  const up = (name: string, rows: number, columns: number) =>
    layer(name, `self_attn.${name}_proj.weight`, heads * rows, columns)
  const queries = headLinear(q, up("k_up", rank, straight), heads, turned)
  const memory = { layer: index, heads, kvHeads: 1, headDim: rank + turned, latent: rank }
  const seen = { ...memory, scale, cap, window, sinks }
  const mixed = by
    ? sparseAttention(queries, key, chosenBy(by, layer, { x, read, turn, rotation }, place), seen)
    : attention(queries, key, undefined, seen)
  return project("o", headLinear(mixed, up("v_up", value, rank), heads), hidden)
}

/** Of the norm of an indexer's keys, whatever configurations say of others. */
const INDEXER_EPSILON = 1e-6

/** What a layer sees: what its indexer chooses, or where it has none the last one's before it. */
function chosenBy(
  by: Indexer | "before",
  layer: Named,
  {
    x,
    read,
    turn,
    rotation,
  }: {
    x: Node
    read: Node
    turn: (x: Node, headDim: number, rotation: Rotation | undefined) => Node
    rotation: Block["attention"]["rotation"]
  },
  { index, layers, chosen = new Map() }: LayerPlace,
): Node {
  if (by === "before") return [...chosen.values()].at(-1)!
  const { heads, headDim, top, context } = by
  const part = (name: string, tensor: string, rows: number, columns?: number) =>
    layer(`index_${name}`, `self_attn.indexer.${tensor}`, rows, columns)
  const queries = linear(read, part("q", "wq_b.weight", heads * headDim, read.columns))
  const keys = linear(x, part("k", "wk.weight", headDim, x.columns))
  const even = norm(keys, part("k_norm", "k_norm.weight", headDim), INDEXER_EPSILON, {
    kind: "layer",
    bias: part("k_norm_bias", "k_norm.bias", headDim),
  })
  // Never packed: they decide what is seen, and are small.
  const weights = linear(x, {
    ...part("weights", "weights_proj.weight", heads, x.columns),
    exact: true,
  })
  const own = indexer(
    turn(queries, headDim, rotation?.query),
    turn(even, headDim, rotation?.key),
    scaled(weights, (heads * headDim) ** -0.5),
    { layer: layers + index, heads, headDim, top }, // keys of attention are the layer's own
    context,
  )
  chosen.set(index, own)
  return own
}

function headNormed(x: Node, norms: HeadNorms, layer: Named, name: string, headDim: number): Node {
  const { kind, epsilon, over, inOne } = norms
  const size = over === "every head" ? headDim : x.columns
  const weights = layer(`${name}_norm`, `self_attn.${name}_norm.weight`, size)
  if (over !== "each head") return norm(x, weights, epsilon, { kind })
  if (inOne) return norm(x, weights, epsilon, { kind, width: headDim })
  const sources = Array.from({ length: x.columns / headDim }, (_, head) => {
    const tensor = `self_attn.${name}_norm.${head}.weight`
    return layer(name, tensor, headDim).sources[0]!
  })
  return norm(x, { ...weights, sources }, epsilon, { kind, width: headDim })
}

function feedForward(block: Block, layer: Named, x: Node, { hidden }: LayerPlace): Node {
  if (!block.experts) return mlp(block.mlp, layer, x, hidden, block)
  const routed = mixture(block.mlp, block.experts, layer, x, hidden)
  const { shared } = block.experts
  if (!shared) return routed
  const own: Named = (name, tensor, rows, columns) =>
    layer(`shared_${name}`, tensor.replace("mlp.", "mlp.shared_expert."), rows, columns)
  const beside = mlp({ ...block.mlp, intermediate: shared.intermediate }, own, x, hidden)
  if (!shared.gated) return add(routed, beside)
  const gate = layer("shared_expert_gate", "mlp.shared_expert_gate.weight", 1, hidden)
  return add(routed, multiply(beside, apply("sigmoid", linear(x, { ...gate, exact: true }))))
}

/** @param rows what the MLP reads, and what experts and router have norms of their own for */
function mlpAndExperts(
  { norm: kind, mlp: expert }: Block,
  experts: Experts,
  layer: Named,
  rows: { normed: Node; row: Node },
  { hidden }: LayerPlace,
): Node {
  const own = (x: Node, name: string, tensor: string) => normed(x, kind, layer, name, tensor)
  const dense = mlp(experts.beside!, layer, rows.normed, hidden)
  const read = own(rows.row, "experts_norm", "pre_feedforward_layernorm_2")
  const routed = norm(rows.row, layer("router_norm", "router.scale.weight", hidden), kind.epsilon)
  const made = mixture(expert, experts, layer, read, hidden, scaled(routed, hidden ** -0.5))
  return add(
    own(dense, "dense_post_norm", "post_feedforward_layernorm_1"),
    own(made, "experts_post_norm", "post_feedforward_layernorm_2"),
  )
}

/** What chosen experts make of each row; `routed`: what the router reads. */
function mixture(
  mlp: Mlp,
  { latent, addend, ...experts }: Experts,
  layer: Named,
  x: Node,
  hidden: number,
  routed = x,
): Node {
  if (addend) {
    const row = (name: string) => layer(`experts_${name}`, `mlp.experts_${name}.weight`, hidden)
    const addedRow = learnedRow(x, row("zeros"), row("row"))
    return add(mixture(mlp, experts, layer, x, hidden, routed), addedRow)
  }
  if (latent === undefined) return chosenExperts(mlp, experts, layer, x, routed)
  const narrow = layer("latent_in", "mlp.latent_in_proj.weight", latent, hidden)
  const made = chosenExperts(mlp, experts, layer, linear(x, narrow), routed)
  return linear(made, layer("latent_out", "mlp.latent_out_proj.weight", hidden, latent))
}

/** @param x what they read, of as many columns as they make */
function chosenExperts(
  { gated, activation, intermediate }: Mlp,
  { count, routing, chosenByBias, cap, weighed, biased, limit, beside }: Experts,
  layer: Named,
  x: Node,
  routed: Node,
): Node {
  const { columns } = x
  const correction = chosenByBias
    ? layer("router_bias", "mlp.gate.e_score_correction_bias", count)
    : undefined
  const bias = biased && layer("router_bias", "mlp.gate.bias", count)
  const router: Weight = {
    ...layer("router", "mlp.gate.weight", count, routed.columns),
    exact: true,
  }
  const numbers = Array.from({ length: count }, (_, expert) => expert)
  const all = (name: string, kind: "weight" | "bias", ...names: string[]) => {
    const parts = (expert: number) =>
      names.map((name) => {
        const [rows, read] = name === "down" ? [columns, intermediate] : [intermediate, columns]
        const tensor = `mlp.experts.${expert}.${name}_proj.${kind}`
        return layer(name, tensor, rows, kind === "weight" ? read : undefined)
      })
    return stacked(layer(name, "", 0).name, numbers.flatMap(parts))
  }
  const said = linear(routed, router, bias)
  const logits = cap === undefined ? said : apply("cap", said, cap)
  const choose = (routing: Routing) => route(logits, routing, correction)
  const ones = { ...layer("weighed", "mlp.weighed.weight", 1, count), exact: true as const }
  const read = weighed === "input" ? multiply(x, linear(choose(routing), ones)) : x
  const shares = choose(weighed === "input" ? { ...routing, normalized: true } : routing)
  const factors = beside && layer("expert_factors", "router.per_expert_scale.weight", count)
  const inner = gated ? ["gate", "up"] : ["up"]
  const name = `experts_${inner.join("+")}`
  return experts(read, factors ? weigh(shares, factors) : shares, {
    active: routing.active,
    gated,
    gateUp: all(name, "weight", ...inner),
    down: all("experts_down", "weight", "down"),
    biases: biased && {
      gateUp: all(`${name}_bias`, "bias", ...inner),
      down: all("experts_down_bias", "bias", "down"),
    },
    activation,
    limit,
  })
}

function mlp(
  shape: Mlp,
  layer: Named,
  x: Node,
  hidden: number,
  { bounded }: Pick<Block, "bounded"> = {},
): Node {
  const { gated, activation, xielu, rectified, above, intermediate, bias } = shape
  const { factors = { gate: 1, down: 1 } } = shape
  const project = (name: string, input: Node, rows: number) => {
    const tensor = `mlp.${name}_proj`
    const given = linear(
      within(bounded, input, layer, tensor, "input"),
      layer(name, `${tensor}.weight`, rows, input.columns),
      bias === true || bias === name ? layer(`${name}_bias`, `${tensor}.bias`, rows) : undefined,
    )
    return within(bounded, given, layer, tensor, "output")
  }
  if (!gated) {
    const up = project("up", x, intermediate)
    const own = rectified ? apply("above", up, 0) : apply(activation, up)
    return project("down", xielu ? xieluOf(up, layer) : own, hidden)
  }
  const projected = (name: "gate" | "up") => {
    const given = project(name, x, intermediate)
    if (shape.weighed === undefined) return given
    return weigh(given, layer(`${name}_factors`, `mlp.${name}_factors.weight`, intermediate))
  }
  const opened = scaled(projected("gate"), factors.gate)
  const cut = (x: Node) => (shape.limit === undefined ? x : apply("clip", x, shape.limit))
  const gate = apply(activation, above === undefined ? opened : highest(opened, above, layer))
  const both = multiply(cut(gate), cut(projected("up")))
  const given = shape.normed
    ? normed(both, shape.normed, layer, "mlp_sub_norm", "mlp.sub_norm")
    : both
  return scaled(project("down", given, hidden), factors.down)
}

/** What each column is more than so many deviations above the mean of its row, else 0. */
function highest(x: Node, deviations: number, layer: Named): Node {
  const { columns } = x
  const even = norm(x, layer("gate_norm", "mlp.gate_norm.weight", columns), TINY, { kind: "layer" })
  const ones = { ...layer("gate_sum", "mlp.gate_sum.weight", 1, columns), exact: true as const }
  const deviation = scaled(linear(multiply(even, x), ones), 1 / columns)
  return multiply(apply("above", even, deviations), deviation)
}

/**
 * beta * x + p * x^2 above zero, beta * x + n * (e^x - 1 - x) below it, for two learned numbers p and n (arXiv 2411.13010, with what
 * transformers adds to n).
 */
function xieluOf(x: Node, layer: Named): Node {
  const learned = (name: string) => layer(name, `mlp.act_fn.${name}.weight`, 1)
  const above = weigh(apply("relu2", x), learned("alpha_p"))
  const below = weigh(apply("exp_gap", x), learned("alpha_n"))
  return add(add(scaled(x, XIELU_BETA), above), below)
}
