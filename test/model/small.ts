// A decoder small enough to be read in a test, with weights drawn from a seed: for what no golden model asks.

import {
  add,
  apply,
  attention,
  concat,
  convolve,
  deltaRule,
  embed,
  embedOrSee,
  experts,
  finish,
  headLinear,
  hiddenIn,
  indexer,
  linear,
  multiply,
  norm,
  relativeAttention,
  reorder,
  rope,
  route,
  seenPart,
  select,
  sparseAttention,
  stacked,
  weigh,
  weight,
} from "../../src/compiler/graph/builder.ts"
import type { CodecOf } from "../../src/compiler/graph/codecs.ts"
import {
  type Attention,
  distancesOf,
  type Graph,
  type Node,
  type Routing,
  type Weight,
} from "../../src/compiler/graph/graph.ts"
import { quantise } from "../../src/model/weights/convert.ts"
import { narrow } from "../../src/runtime/dtype.ts"
import {
  type CodecName,
  codeTables,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  rowLayout,
} from "../../src/runtime/format.ts"
import type { Manifest } from "../../src/runtime/manifest.ts"
import type { Rotation } from "../../src/runtime/rotation.ts"

export interface SmallShape {
  layers?: number
  window?: number
  /** Of one layer after the other, over and over; undefined: all positions are seen. */
  windows?: readonly (number | undefined)[]
  /** Of odd layers. */
  chunked?: true
  sinks?: number
  bidirectional?: true
  takesHidden?: boolean // concat(embedding, hiddenIn) goes in, as EAGLE's heads do
  /** Tokens may have rows that are taken in in their place. */
  sees?: boolean
  /** And as many columns again, which are added behind the first layer. */
  stacked?: true
  /** Whose pairs turn by height, by time and by width. */
  axes?: true
  /** Whose layers see as far as the step says. */
  mutual?: true
  /** Pixels go in, so many of each row, to which a token's row is added; so many rows become one that goes out through a product. */
  tower?: { taken: number; joined: number }
  hidden?: number
  intermediate?: number
  /**
   * One key for all heads, whose first columns are so many values; and behind each layer's attention one that convolves. Odd layers see
   * what an indexer chooses.
   */
  latent?: number
  /**
   * Experts in the place of MLPs, with limits: of even layers the best of all, of odd ones those of the best groups, with
   * biases, behind attention that has sinks; what these count, and what the layer leaves, is weighed. Values are narrower than keys.
   */
  hasExperts?: boolean
  /** What queries and the outputs of attention are computed from is put in another order first. */
  hasOrder?: boolean
  /** Scores have biases by distance. */
  hasBiases?: boolean
  /** Every fourth layer, from the third on, has scores that hang on what either token has for the bucket of a distance. */
  isRelative?: true
  /** What attention gives is gated head by head. */
  hasGates?: boolean
  /** And behind those of a `latent` one with a state, whose values are cut into vectors in every way. */
  hasStates?: boolean
}

const EXPERTS = 12
const softmax: Routing = {
  active: 3,
  score: "softmax",
  normalized: false,
  factor: 1,
  groups: undefined,
}
const grouped: Routing = {
  active: 4,
  score: "sigmoid",
  normalized: true,
  factor: 2.5,
  groups: { count: 4, open: 2, rank: "two largest" },
}

const VOCABULARY = 70
const CONTEXT = 512
const BUCKETS = 6
const [HEADS, KV_HEADS, HEAD_DIM, VALUE_DIM] = [4, 2, 6, 4]

/** Heads keep four of their columns and bring two to those of the key; they end as wide as they began. */
function latentAttention(
  q: Node,
  h: Node,
  w: (name: string, rows: number, columns: number) => Weight,
  memory: Omit<Attention, "kvHeads" | "headDim"> & { latent: number },
  sparse: { layer: number } | undefined,
): Node {
  const [kept, headDim] = [4, memory.latent + 4]
  const queries = headLinear(q, w("k_up", HEADS * memory.latent, HEAD_DIM - kept), HEADS, kept)
  const key = linear(h, w("k", headDim, h.columns))
  const shape = { ...memory, kvHeads: 1, headDim }
  const mixed = sparse
    ? sparseAttention(queries, key, chosen(h, w, sparse.layer), shape)
    : attention(queries, key, undefined, shape)
  return headLinear(mixed, w("v_up", HEADS * HEAD_DIM, memory.latent), HEADS)
}

/** Of five heads, which are no whole fours. */
function chosen(
  h: Node,
  w: (name: string, rows: number, columns: number) => Weight,
  layer: number,
): Node {
  const shape = { layer, heads: 5, headDim: 9, top: 21 }
  const [q, k, weights] = [45, 9, 5].map((rows, i) =>
    linear(h, w(`index_${i}`, rows, h.columns)),
  ) as [Node, Node, Node]
  return indexer(q, k, weights, shape, CONTEXT)
}

export function smallGraph(shape: SmallShape = {}): Graph {
  const {
    layers = 2,
    window,
    windows = [window],
    chunked,
    sinks = 0,
    bidirectional,
    takesHidden,
    sees,
    stacked: more,
    axes,
    mutual,
    tower,
    hidden = 20,
    intermediate = 44,
    hasExperts,
    hasOrder,
    hasBiases,
    isRelative,
    hasGates,
    hasStates,
    latent,
  } = shape
  const frequencies = [1, 0.1, 0.01]
  const rotation: Rotation = { frequencies, factor: 1, ...(axes && { axes: [1, 0, 2] }) }
  const table = weight("embed", "embed", VOCABULARY, hidden)
  const taken = more ? 2 * hidden : tower?.taken
  let x = sees ? embedOrSee(table, taken) : embed(table)
  if (tower)
    x = add(linear(hiddenIn(tower.taken), weight("pixels", "pixels", hidden, tower.taken)), x)
  if (takesHidden)
    x = linear(
      concat(x, hiddenIn(hidden)),
      weight("fc", "fc", hidden, 2 * hidden),
      weight("fc_bias", "fc_bias", hidden),
    )
  for (let layer = 0; layer < layers; layer++) {
    const w = (name: string, rows: number, columns?: number) =>
      weight(`layers.${layer}.${name}`, `${layer}.${name}`, rows, columns)
    const h = norm(x, w("attention_norm", hidden), 1e-5)
    const inOrder = (row: Node, name: string) =>
      hasOrder ? reorder(row, w(name, row.columns)) : row
    const queries = linear(inOrder(h, "q_order"), w("q", HEADS * HEAD_DIM, hidden))
    const q = norm(queries, w("q_norm", HEAD_DIM), 1e-5)
    const memory = {
      layer,
      heads: HEADS,
      scale: HEAD_DIM ** -0.5,
      cap: undefined,
      window: windows[layer % windows.length],
      ...(chunked && layer % 2 === 1 && { chunked }),
      sinks,
      ...(bidirectional && { bidirectional }),
      ...(mutual && { mutual }),
    }
    const narrow = hasExperts && { value: VALUE_DIM }
    const sparse = layer % 2 === 1 ? { layer: 2 * layers + layer } : undefined
    const whole = { ...memory, kvHeads: KV_HEADS, headDim: HEAD_DIM, ...(narrow || {}) }
    const keysAndValues = () =>
      [
        rope(linear(h, w("k", KV_HEADS * HEAD_DIM, hidden)), HEAD_DIM, rotation),
        linear(h, w("v", KV_HEADS * (narrow ? narrow.value : HEAD_DIM), hidden)),
      ] as const
    const buckets = (name: string) => linear(h, w(name, HEADS * BUCKETS, hidden))
    const mixed = latent
      ? latentAttention(rope(q, HEAD_DIM, rotation), h, w, { ...memory, latent }, sparse)
      : isRelative && layer % 4 === 2
        ? relativeAttention(
            [rope(q, HEAD_DIM, rotation), ...keysAndValues()],
            {
              byQuery: buckets("by_query"),
              byKey: buckets("by_key"),
              buckets: w("the_buckets", distancesOf(CONTEXT)),
            },
            whole,
          )
        : attention(rope(q, HEAD_DIM, rotation), ...keysAndValues(), whole, {
            ...(hasExperts && layer % 2 === 1 && { sinkLogits: w("sinks", HEADS) }),
            ...(hasBiases && { biases: w("biases", HEADS * distancesOf(CONTEXT)) }),
          })
    const gates = () => apply("softplus", linear(h, w("gates", HEADS, hidden)))
    const given = inOrder(hasGates ? multiply(mixed, gates()) : mixed, "o_order")
    x = add(x, linear(given, w("o", hidden, given.columns)))
    if (latent) {
      const place = { layer: layers + layer, count: 3, heads: 2 }
      x = add(x, convolve(linear(x, w("conv", hidden, hidden)), w("taps", 3 * hidden), place))
      if (hasStates) x = add(x, withState(x, layer, w))
    }
    const m = norm(x, w("mlp_norm", hidden), 1e-5)
    if (hasExperts) {
      x = add(x, mixture(m, w, layer % 2 === 0 ? softmax : grouped, intermediate))
      if (layer % 2 === 1) x = weigh(x, w("scalar", 1))
      continue
    }
    const gate = apply("silu", linear(m, w("gate", intermediate, hidden)))
    const gated = multiply(gate, linear(m, w("up", intermediate, hidden)))
    x = add(x, linear(gated, w("down", hidden, intermediate)))
    if (more && layer === 0) x = add(x, seenPart(2 * hidden, hidden, hidden))
  }
  const shapes = {
    vocabulary: VOCABULARY,
    hidden,
    layers,
    heads: HEADS,
    kvHeads: KV_HEADS,
    headDim: HEAD_DIM,
    intermediate,
    context: CONTEXT,
    ...(taken && { taken }),
  }
  const last = norm(x, weight("norm", "norm", hidden), 1e-5)
  return finish(
    { architecture: "small", shapes, window, sinks },
    last,
    weight("head", "head", VOCABULARY, hidden),
    tower && { hidden: projected(last, tower.joined) },
  )
}

function projected(last: Node, joined: number): Node {
  const whole = select(last, "hidden", joined)
  return linear(whole, weight("project", "project", last.columns, whole.columns))
}

/** Two heads of 84 columns, under one key. */
function withState(
  x: Node,
  layer: number,
  w: (name: string, rows: number, columns?: number) => Weight,
): Node {
  const { columns: hidden } = x
  const [keyHeads, valueHeads, keyDim, valueDim] = [1, 2, 6, 84]
  const given = linear(x, w("given", 2 * keyDim + valueHeads * valueDim, hidden))
  const read = deltaRule(
    given,
    {
      decays: linear(x, w("decays", valueHeads, hidden)),
      shares: apply("sigmoid", linear(x, w("shares", valueHeads, hidden))),
    },
    { decay: w("decay", valueHeads), bias: w("decay_bias", valueHeads) },
    { layer, keyHeads, valueHeads, keyDim, valueDim },
  )
  return linear(read, w("read", hidden, valueHeads * valueDim))
}

/** Beside the experts their sum's gate, one column that is multiplied with all. */
function mixture(
  x: Node,
  w: (name: string, rows: number, columns?: number) => Weight,
  routing: Routing,
  intermediate: number,
): Node {
  const hidden = x.columns
  const router = linear(x, { ...w("router", EXPERTS, hidden), exact: true })
  const biased = routing === grouped
  const downRows = EXPERTS * hidden
  // A gate and its up row follow each other, as a model's do.
  const gateUp = (name: string, kind: string, columns?: number) => {
    const sources = Array.from({ length: EXPERTS }, (_, expert) =>
      ["gate", "up"].map((part) => w(`${expert}.${part}${kind}`, intermediate, columns)),
    )
    return stacked(w(name, 0).name, sources.flat())
  }
  const bias = biased ? w("router_bias", EXPERTS) : undefined
  const shares = route(router, routing, bias)
  const made = experts(x, biased ? weigh(shares, w("factors", EXPERTS)) : shares, {
    active: routing.active,
    gateUp: gateUp("experts_gate+up", "", hidden),
    down: w("experts_down", downRows, intermediate),
    ...(biased
      ? {
          biases: {
            gateUp: gateUp("experts_gate+up_bias", "_bias"),
            down: w("experts_down_bias", downRows),
          },
          activation: "quick_gelu",
          limit: 0.75,
        }
      : { activation: "silu", limit: 0.5 }),
  })
  const gate = linear(x, { ...w("gate", 1, hidden), exact: true })
  return multiply(made, apply("sigmoid", gate))
}

/** What gates, up and down are in. */
export type ExpertCodecs = readonly [CodecName, CodecName, CodecName]

/** Experts in the codecs of their layer, all else in floats. */
export function withExpertsIn(layers: readonly ExpertCodecs[]): CodecOf {
  return ({ columns, sources: [first], exact }) => {
    const [, layer, which] =
      /^(\d+)\.(?:\d+\.(?=gate|up)|experts_(?=down))(\w+)$/.exec(first!.tensor) ?? []
    if (columns === 1 || exact || which === undefined) return "f32"
    return layers[Number(layer)]![["gate", "up", "down"].indexOf(which)]!
  }
}

/**
 * Values between -1 and 1 that depend on the source tensor and the element alone, whatever it is joined with; of an order the
 * columns, each once.
 */
export function smallWeights(tensor: string, count: number): Float32Array {
  if (tensor.endsWith("_order"))
    return Float32Array.from({ length: count }, (_, i) => (i * 7 + 3) % count)
  if (tensor.includes("_buckets"))
    return Float32Array.from({ length: count }, (_, i) => i % BUCKETS)
  let state = Array.from(tensor).reduce((hash, c) => Math.imul(hash, 31) + c.charCodeAt(0), 7) | 1
  return Float32Array.from({ length: count }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 2 ** 31
  })
}

interface Program {
  manifest: Manifest
  load(
    id: number,
    row: number,
    rows: number,
    values: Uint8Array,
    scales?: Uint8Array,
  ): Promise<void>
}

/** Fills a program's parameters, packed as their formats want. */
export async function loadSmall(program: Program): Promise<void> {
  for (const [id, { rows, columns, codec, sources }] of program.manifest.parameters.entries()) {
    const values = new Float32Array(rows * columns)
    let at = 0
    for (const source of sources) {
      values.set(smallWeights(source.tensor, source.rows * columns), at)
      at += source.rows * columns
    }
    if (isGroupCodec(codec)) {
      const packed = /f(16|32)_1$/.test(codec)
        ? quantise(values, rows, columns, codec)
        : blocks(values, rows, columns, codec)
      await program.load(id, 0, rows, packed.values, packed.scales)
    } else await program.load(id, 0, rows, narrow(values, codec))
  }
}

/** Any codes under any scales, and minimums, taken from the values: nobody packs what only files of others hold. */
function blocks(values: Float32Array, rows: number, columns: number, codec: GroupCodecName) {
  const { words, groups } = rowLayout(codec, columns)
  const { bits, dtype, minimums, block, table }: GroupCodec = groupCodecs[codec]
  const any = (i: number) => values[i % values.length]!
  // No file has larger ones, and a target may count on that.
  const mask = codec === "q3_k" ? 0x77777777 : bits === 4 ? 0xffffffff : 0x3f3f3f3f
  const codes = Uint32Array.from({ length: rows * words }, (_, i) => (any(i) * 2 ** 31) & mask)
  // In a file's block scales are one 16-bit float times small whole numbers, and so are minimums.
  const number = (i: number) => {
    const kindOfRow = Math.floor(i / groups)
    const inBlock = any(7 * (kindOfRow * groups + Math.floor((i % groups) / (block ?? 1))))
    const factor = Math.round(inBlock * 1024) / (bits === 4 ? 2 ** 14 : 2 ** 16)
    return block ? (factor * (1 + (i % 15))) / 8 : factor
  }
  const numbers = Float32Array.from({ length: rows * groups * (minimums ? 2 : 1) }, (_, i) =>
    number(i),
  )
  const bytes = new Uint8Array(codes.buffer)
  return {
    values: table ? bytes.map((byte) => codeTables[table][byte & 15]!) : bytes,
    scales: narrow(numbers, dtype),
  }
}

/** Makes the keys of one token infinite in the first layer, and only those; weights are q0f32. */
export async function loadInfiniteKey(program: Program, token: number): Promise<void> {
  for (const [id, { rows, columns, sources }] of program.manifest.parameters.entries()) {
    const load = (row: number, values: Float32Array) =>
      program.load(id, row, values.length / columns, narrow(values, "f32"))
    let row = 0
    for (const source of sources) {
      const values = smallWeights(source.tensor, source.rows * columns)
      if (source.tensor === "embed") {
        // Column 0 is this token's alone, and all that it has.
        for (let t = 0; t < rows; t++) values[t * columns] = 0
        values.fill(0, token * columns, (token + 1) * columns)
        values[token * columns] = 1
        await load(row, values)
      } else if (source.tensor === "0.attention_norm") {
        await load(row, values.fill(1))
      } else if (source.tensor === "0.k") {
        values[0] = 3.4e38
        await load(row, values)
      }
      row += source.rows
    }
  }
}
