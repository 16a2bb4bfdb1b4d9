// What the steps of small decoders run beside products: rows, attention with keys and values of every type, the sampler,
// copies of blocks. The twin takes some steps of each decoder, launch after launch, and what a launch is given in one of them is
// a shape of its kernel. The first step only fills the blocks: attention is merged beyond 256 positions. Which kernels there are,
// and how many shapes of each, is known without the twin, who takes seconds: it begins when somebody asks for the first shape.

import type { CodecName } from "../../../runtime/format.ts"
import { MOST_LISTED } from "../../../runtime/gpu/regions.ts"
import { StepBlock } from "../../../runtime/gpu/step-block.ts"
import {
  groupsOf,
  stepLaunches,
  type Tape,
  type TapeLaunch,
  type TapeStep,
} from "../../../runtime/gpu/tape.ts"
import { type KvType, takenColumns } from "../../../runtime/manifest.ts"
import {
  BLOCK,
  blockGap,
  NO_LOGPROBS,
  type ProgramLimits,
  type SamplingRows,
  SEEN,
  type StepInput,
  sinkBlocks,
  TOLD,
  UNMASKED,
} from "../../../runtime/program.ts"
import type { Rotation } from "../../../runtime/rotation.ts"
import { compile } from "../../compile.ts"
import {
  add,
  apply,
  attention,
  deltaRule,
  embed,
  embedOrSee,
  experts,
  finish,
  indexer,
  linear,
  multiply,
  norm,
  rope,
  route,
  seenPart,
  selectiveScan,
  selectiveStates,
  slice,
  sparseAttention,
  stacked,
  weight,
} from "../../graph/builder.ts"
import type { Activation } from "../../graph/elementwise.ts"
import type { Graph, Node, Routing } from "../../graph/graph.ts"
import type { Plan, SumOrder } from "../../plan.ts"
import { type CheckedKernel, type Numbers, SHAPES, type ShapedCase } from "./check-cases.ts"
import { asOperand, randomParts } from "./check-products.ts"
import { mulberry32 } from "./check-random.ts"
import type { Kernel } from "./ir/ir.ts"
import { Memory, runKernel } from "./ir/run.ts"
import { weightLayout } from "./layout.ts"
import { type KernelWords, tapeOf } from "./tape-of.ts"

/** How decoders differ: each brings what the others have not. */
interface Decoder {
  kv: KvType
  /** Of one, all that attention computes is for rows that somebody wants; of two, the first is for all tokens. */
  layers: 1 | 2 | 3
  /** Of the table of embeddings. */
  table: CodecName
  kind: "rms" | "layer"
  gate: Activation
  headDim: number
  heads: number
  window?: number
  sinks: number
  cap?: number
  /** Instead of its MLP it has experts. */
  routing?: Routing
  /** Behind these it has others, without gates. */
  hasUngated?: true
  /** What gates of experts are multiplied with is in this, and so is a matrix by itself. */
  ups?: CodecName
  /** The layers have states beside their attention: of the delta rule, selective ones, and those by number. */
  hasState?: true
  /** What attention makes is gated head by head. */
  hasGates?: true
  /** Behind it stands latent attention that sees what an indexer chooses. */
  hasIndexer?: true
  /** Of some tokens a row is taken in; tokens turn by coordinates, and see as far as the step says. */
  sees?: true
  /** What attention's rows are multiplied with is in this. Floats: nobody rounds rows, and merges their spans before that. */
  outs?: CodecName
}

const decoders: readonly Decoder[] = [
  {
    kv: "f32",
    layers: 3,
    table: "q4f16_1",
    kind: "rms",
    gate: "silu",
    headDim: 16,
    heads: 4,
    sinks: 0,
    hasState: true,
  },
  {
    kv: "f16",
    layers: 1,
    table: "q6_k",
    kind: "rms",
    gate: "gelu_tanh",
    headDim: 6,
    heads: 2,
    window: 40,
    sinks: 3,
  },
  {
    kv: "bf16",
    layers: 1,
    table: "q3f16_1",
    kind: "layer",
    gate: "relu2",
    headDim: 12,
    heads: 6,
    sinks: 0,
    routing: {
      active: 3,
      score: "sigmoid",
      normalized: true,
      factor: 1.5,
      groups: { count: 3, open: 2, rank: "two largest" },
    },
    hasUngated: true,
    hasGates: true,
    hasIndexer: true,
  },
  {
    kv: "q8",
    layers: 2,
    table: "q5_1",
    kind: "rms",
    gate: "gelu",
    headDim: 32,
    heads: 4,
    sinks: 0,
    sees: true,
    cap: 20,
    routing: { active: 2, score: "softmax", normalized: false, factor: 1, groups: undefined },
    ups: "q5_k",
    outs: "f16",
  },
]

const VOCABULARY = 90
const HIDDEN = 44
/** What stands in a token's place, and what is added behind the first layer. */
const TAKEN = 2 * HIDDEN
const INTERMEDIATE = 52
const KV_HEADS = 2
const CONTEXT = 512
/** Of the ten columns of a key nine are a value. */
const LATENT = { heads: 3, kvHeads: 1, headDim: 10, latent: 9 }
const INDEXER = { heads: 9, headDim: 12, top: 30 }
const EXPERTS = 12
/** A value of two groups of threads, the latter not full. */
const DELTA = { keyHeads: 2, valueHeads: 4, keyDim: 6, valueDim: 40 }

function graphOf(decoder: Decoder): Graph {
  const { layers, kind, gate, headDim, heads, window, sinks, cap, hasState } = decoder
  const frequencies = [1, 0.1, 0.01].slice(0, headDim / 2)
  const rotation: Rotation = { frequencies, factor: 1, ...(decoder.sees && { axes: [1, 0, 2] }) }
  const vector = (name: string, rows: number) => weight(name, name, rows)
  const normed = (x: Node, name: string) =>
    norm(x, vector(name, HIDDEN), 1e-5, {
      kind,
      ...(kind === "layer" ? { bias: vector(`${name} bias`, HIDDEN) } : {}),
    })
  const product = (x: Node, name: string, rows: number) => {
    const bias = kind === "layer" ? vector(`${name} bias`, rows) : undefined
    return linear(x, weight(name, name, rows, x.columns), bias)
  }
  const table = weight("embed", "embed", VOCABULARY, HIDDEN)
  let x = decoder.sees ? embedOrSee(table, TAKEN) : embed(table)
  for (let layer = 0; layer < layers; layer++) {
    const own = (name: string) => `${layer} ${name}`
    const h = normed(x, own("attention norm"))
    const turned = (name: string, count: number) => {
      const rows = product(h, name, count * headDim)
      const each = kind === "rms" ? norm(rows, vector(`${name} norm`, headDim), 1e-5) : rows
      return rope(each, headDim, rotation)
    }
    const [q, k] = [turned(own("q"), heads), turned(own("k"), KV_HEADS)]
    const mixed = attention(q, k, product(h, own("v"), KV_HEADS * headDim), {
      layer,
      heads,
      kvHeads: KV_HEADS,
      headDim,
      scale: headDim ** -0.5,
      cap,
      window,
      sinks,
      ...(decoder.sees && { mutual: true }),
    })
    const gates = (name: "softplus" | "exp_gap") => apply(name, product(h, own(name), heads))
    const opened = decoder.hasGates
      ? multiply(
          multiply(mixed, gates("softplus")),
          apply("clip", apply("above", gates("exp_gap"), 0.01), 0.3),
        )
      : mixed
    x = add(x, product(opened, own("o"), HIDDEN))
    if (decoder.hasIndexer) {
      const rows = (name: string, count: number) => product(h, own(name), count)
      const chosen = indexer(
        rows("index queries", INDEXER.heads * INDEXER.headDim),
        rows("index keys", INDEXER.headDim),
        rows("index weights", INDEXER.heads),
        { layer: 2 * layers + layer, ...INDEXER },
        CONTEXT,
      )
      const { heads, headDim } = LATENT
      const shape = { layer: layers + layer, ...LATENT, scale: headDim ** -0.5, sinks }
      const sparse = sparseAttention(
        rows("latent queries", heads * headDim),
        rows("latents", headDim),
        chosen,
        { ...shape, cap: undefined, window: undefined },
      )
      x = add(x, product(sparse, own("latent o"), HIDDEN))
    }
    if (hasState) {
      const { keyHeads, valueHeads, keyDim, valueDim } = DELTA
      const given = product(h, own("given"), 2 * keyHeads * keyDim + valueHeads * valueDim)
      const matrix = weight(own("decays"), own("decays"), valueHeads, HIDDEN)
      const decays = linear(h, { ...matrix, exact: true })
      const ofHeads = (name: string) => vector(own(name), valueHeads)
      const weights = { decay: ofHeads("decay"), bias: ofHeads("decay bias") }
      const read = () => {
        if (layer === 2) {
          const [values, columns] = [valueHeads * valueDim, valueHeads * valueDim * keyDim]
          return selectiveScan(
            slice(given, 0, values),
            {
              steps: apply("softplus", product(h, own("steps"), values)),
              keys: slice(given, values, 2 * keyDim),
            },
            { rates: vector(own("rates"), columns), skip: vector(own("skip"), values) },
            { layer, valueHeads, keyDim, valueDim },
          )
        }
        if (layer > 0) {
          const all = { ...weights, skip: ofHeads("skip") }
          return selectiveStates(given, decays, all, { layer, ...DELTA })
        }
        const shares = apply("sigmoid", product(h, own("shares"), valueHeads))
        return deltaRule(given, { decays, shares }, weights, { layer, ...DELTA })
      }
      x = add(x, product(read(), own("read"), HIDDEN))
    }
    const m = normed(x, own("mlp norm"))
    if (decoder.routing) {
      x = add(x, mixture(m, own, decoder.routing, gate))
      const others = (name: string) => own(`ungated ${name}`)
      if (decoder.sees && layer === 0) x = add(x, seenPart(TAKEN, HIDDEN, HIDDEN))
      if (decoder.hasUngated)
        x = add(x, mixture(normed(x, others("norm")), others, decoder.routing, gate, false))
      continue
    }
    const gated = multiply(
      apply(gate, product(m, own("gate"), INTERMEDIATE)),
      product(m, own("up"), INTERMEDIATE),
    )
    x = add(x, product(gated, own("down"), HIDDEN))
  }
  const shapes = {
    vocabulary: VOCABULARY,
    hidden: HIDDEN,
    layers,
    heads,
    kvHeads: KV_HEADS,
    headDim,
    intermediate: INTERMEDIATE,
    context: CONTEXT,
    ...(decoder.sees && { taken: TAKEN }),
  }
  const head = weight("head", "head", VOCABULARY, HIDDEN)
  return finish({ architecture: "check", shapes, window, sinks }, normed(x, "norm"), head)
}

function mixture(
  x: Node,
  own: (name: string) => string,
  routing: Routing,
  activation: Activation,
  gated = true,
): Node {
  const matrix = (name: string, rows: number, columns: number) =>
    weight(own(name), own(name), rows, columns)
  const logits = linear(x, { ...matrix("router", EXPERTS, HIDDEN), exact: true })
  const isCompared = routing.score === "sigmoid"
  const bias = isCompared ? weight(own("router bias"), own("router bias"), EXPERTS) : undefined
  const gatesAndUps = Array.from({ length: EXPERTS }, (_, expert) =>
    (gated ? ["gate", "up"] : ["up"]).map((half) =>
      matrix(`expert ${expert}'s ${half}`, INTERMEDIATE, HIDDEN),
    ),
  )
  return experts(x, route(logits, routing, bias), {
    active: routing.active,
    gated,
    gateUp: stacked(own("experts' gate+up"), gatesAndUps.flat()),
    down: matrix("experts' down", EXPERTS * HIDDEN, INTERMEDIATE),
    activation,
  })
}

// ------------------------------------------------------------------ steps

/**
 * Tokens of a sequence that goes on, and of one that begins; the first step is no shape. Items of attention have one row or
 * several, up to eight in some decoders: all but few steps have both. In three steps experts are given so many rows that these
 * are gathered. In the last two nobody begins, so that products make their one row.
 */
const steps = [
  [257, 1],
  [1, 1],
  [1, 8],
  [9, 40],
  [2, 1],
  [2, 1],
  [3, 1],
  [17, 33],
  [2, 1],
  [5, 1],
  [3, 1],
  [8, 1],
  [2, 1],
  [16, 1],
  [4, 1],
  [2, 1],
  [3, 1],
  [25, 17],
  [2, 1],
  [7, 1],
  [6, 1],
  [15, 1],
  [4, 1],
  [1, 5],
  [1, 0],
  [1, 0],
] as const

const LONG_BLOCKS = 26
const limits = { tokens: 258, sequences: 2, rows: 16 }
/** Scratch memory is for steps that are far longer. */
const MAX_FIXED = 1 << 17
/** Those of the sequence that goes on, three of the other, and some to copy to. */
const BLOCKS = LONG_BLOCKS + 8

function stepOf(number: number, decoder: Decoder): StepInput {
  const { window, sinks, hasState, hasIndexer, sees } = decoder
  const [long, short] = steps[number]!
  const from = steps.slice(0, number).reduce((sum, [count]) => sum + count, 0)
  const next = mulberry32(number)
  const total = long + short
  // With a window, blocks that no row sees any more have been given back.
  const visible = window === undefined ? 0 : Math.max(0, from - window)
  const gap = blockGap(visible, sinks)
  const last = Math.floor((from + long - 1) / BLOCK)
  const list = Array.from({ length: last + 1 }, (_, block) => block)
  list.splice(sinkBlocks(sinks), gap)
  const others = Array.from({ length: Math.ceil(short / BLOCK) }, (_, block) => LONG_BLOCKS + block)
  // From one state to another; who begins leaves one that nobody goes on from.
  const states = [
    [number % 2, (number + 1) % 2],
    [3, 2],
  ]
  const isAlone = short === 0
  const ofEach = <Own>(each: readonly Own[]) => (isAlone ? each.slice(0, 1) : each)
  const kept = hasIndexer ? 3 : 1 // groups that keep rows of all positions
  const lists = [
    ...Array.from({ length: kept }, () => ofEach([list, others])).flat(),
    ...(hasState ? ofEach(states) : []),
  ]
  const wanted = Array.from({ length: Math.min(long, 2 + (number % 5)) }, (_, i) => long - 1 - i)
  const logitRows = Int32Array.from(isAlone ? wanted : [...wanted, total - 1])
  const tokens = Int32Array.from({ length: total }, () => next() % VOCABULARY)
  // Every third token is a row, the last one first.
  const seen = sees ? Math.floor(total / 3) : 0
  for (let row = 0; row < seen; row++) tokens[3 * row + 1] = SEEN + seen - 1 - row
  const hiddenIn = Float32Array.from({ length: seen * TAKEN }, () => (next() % 2001) / 1000 - 1)
  const positions = Int32Array.from({ length: total }, (_, i) => (i < long ? from + i : i - long))
  const ends = positions.map((_, i) => (i < long ? from + long : short) - 1)
  const ofSight = {
    coordinates: Int32Array.from({ length: 3 * total }, (_, i) => positions[i % total]! % (5 + i)),
    seenFrom: positions.map((position) => Math.min(position, 50)),
    seenTo: positions.map((position, i) => Math.min(position - (position % 3) + 2, ends[i]!)),
  }
  return {
    tokens,
    ...(seen > 0 && { hiddenIn }),
    ...(sees && ofSight),
    starts: Int32Array.from(isAlone ? [0, long] : [0, long, total]),
    positions,
    blocks: Int32Array.from(lists.flat()),
    blockStarts: Int32Array.from(
      { length: lists.length + 1 },
      (_, i) => lists.slice(0, i).flat().length,
    ),
    visibleFrom: Int32Array.from({ length: lists.length }, (_, i) => (i === 0 ? visible : 0)),
    logitRows,
    hiddenRows: Int32Array.from({ length: 1 + (number % 3) }, (_, i) => i % total),
    sampling: samplingOf(logitRows, next, number % 2 === 1),
  }
}

/** @param few whether whatever is drawn keeps few tokens by top-k */
function samplingOf(logitRows: Int32Array, next: () => number, few: boolean): SamplingRows {
  const rows = logitRows.length
  const any = <Value>(...values: readonly Value[]) => values[next() % values.length]!
  const floats = (...values: readonly number[]) =>
    Float32Array.from({ length: rows }, () => any(...values))
  const integers = (...values: readonly number[]) =>
    Int32Array.from({ length: rows }, () => any(...values))
  const words = Math.ceil(VOCABULARY / 32)
  const [temperature, topP] = [floats(0, 0.3, 1, 1, 2), floats(1, 1, 0, 0.5, 0.95)]
  const topK = few ? integers(1, 5, 40, MOST_LISTED) : integers(0, 0, 1, 5, VOCABULARY - 1)
  temperature[0] = 1 // one is drawn, and of all tokens where others may be
  topP[0] = 0.95
  if (!few) topK[0] = 0
  return {
    temperature,
    topK,
    topP,
    minP: floats(0, 0, 0.05, 0.5),
    presence: floats(0, 0.5, 1),
    frequency: floats(0, 0.5, 1),
    repetition: floats(1, 1.25, 1.5),
    countStarts: Int32Array.from({ length: rows + 1 }, (_, i) => 2 * i),
    countTokens: Int32Array.from({ length: 2 * rows }, (_, i) => ((next() % 40) << 1) | (i & 1)),
    counts: Int32Array.from({ length: 2 * rows }, () => 1 + (next() % 4)),
    biasStarts: Int32Array.from({ length: rows + 1 }, (_, i) => i),
    biasTokens: Int32Array.from({ length: rows }, () => next() % VOCABULARY),
    biases: Float32Array.from({ length: rows }, () => (next() % 9) - 4),
    masks: Uint32Array.from({ length: words * 2 }, () => next() | 1),
    maskRow: integers(UNMASKED, UNMASKED, 0, 1),
    seed: BigUint64Array.from({ length: rows }, () => BigInt(next()) << 20n),
    choice: integers(0, 1, 2),
    position: logitRows.slice(),
    topLogprobs: integers(NO_LOGPROBS, 0, 3, 20),
  }
}

// ------------------------------------------------------------------ what the twin makes of them

interface Launched {
  kernel: Kernel
  operands: readonly (Memory | number)[]
  groups: [number, number, number]
  /** Where this is one of the kernel's. */
  shape?: string
}

/** Plays a tape as program.ts does, and keeps what each kernel is given. */
class Play {
  readonly shapes = new Map<Kernel, string[]>()
  /** All that the twin has not run yet, in order. */
  readonly #launches: Launched[] = []
  readonly #cases = new Map<Kernel, ShapedCase[]>()
  readonly #tape: Omit<Tape, "profiles" | "kernels">
  readonly #kernels: readonly Kernel[]
  readonly #block: StepBlock
  readonly #places: readonly Memory[]
  readonly #products: ReadonlySet<number> // among the tape's steps
  #step = new Memory(0)
  /** The step's before it. */
  #before: Memory | undefined
  #pairs = new Memory(0)

  constructor(plan: Plan, words: KernelWords) {
    const { tape, kernels } = tapeOf(plan, words)
    const { vocabulary } = plan.shapes
    const taken = takenColumns(plan.shapes)
    const all: ProgramLimits = { ...limits, blocks: plan.groups.map(() => BLOCKS) }
    this.#tape = tape
    this.#kernels = kernels
    const isProduct = ({ text: [first] }: TapeStep) => / = matmul /.test(first!)
    this.#products = new Set(tape.steps.flatMap((step, i) => (isProduct(step) ? [i] : [])))
    this.#block = new StepBlock({ limits: all, sinks: plan.sinks, vocabulary, taken }, tape.regions)
    this.#places = tape.places.map(({ fixed, perToken, perRow, perBlock }) => {
      const ofBlocks = perBlock ? perBlock.bytes * BLOCKS : 0
      const own = Math.min(fixed, MAX_FIXED) + ofBlocks
      return new Memory(own + perToken * limits.tokens + perRow * limits.rows)
    })
    for (const [id, parameter] of plan.parameters.entries()) {
      const place = this.#places[tape.places.findIndex(({ name }) => name === `p${id}`)]!
      const parts = randomParts(parameter, mulberry32(id))
      for (const { name, at } of weightLayout(parameter).parts) place.put(at, parts.get(name)!)
    }
  }

  /** @param draws whether tokens are drawn, which all decoders do alike */
  take(input: StepInput, shape: string | undefined, draws: boolean): void {
    const block = this.#block
    // The first and the last token are as the step before has drawn them.
    const last = input.tokens.length - 1
    const drawnBy = input.tokens.map((_, i) => (i === 0 ? 1 : i === last ? 0 : TOLD))
    block.fill(draws && this.#before ? { ...input, drawnBy } : input)
    this.#step = new Memory(block.bytes.length)
    this.#step.put(0, block.bytes)
    const countOf = (of: Parameters<typeof block.countOf>[0]) => {
      const count = block.countOf(of)
      return count === 0 ? 0 : 2 ** Math.ceil(Math.log2(count)) // as many groups as a recording has
    }
    for (const [i, step] of this.#tape.steps.slice(0, draws ? undefined : -1).entries()) {
      for (const { launch, chunk } of stepLaunches([step], countOf)) {
        // Products of every codec have shapes of their own. Those of experts, two beside each other, and those that make their row
        // have these.
        const isMore = /_beside_|_of_/.test(this.#kernels[launch.kernel]!.name)
        const isProduct = this.#products.has(i) && !isMore
        this.#launch(launch, groupsOf(launch, countOf), { chunk }, isProduct ? undefined : shape)
      }
    }
    this.#before = this.#step
    const free = LONG_BLOCKS + 3
    const pairs = Int32Array.of(0, free, 1, free + 1, 2, free + 2)
    const count = 1 + (input.tokens.length % 3)
    this.#pairs = Memory.of(pairs.subarray(0, 2 * count))
    const [ofAttention] = this.#tape.copies // the one kernel copies states, too
    for (const launch of ofAttention!)
      this.#launch(launch, groupsOf(launch, countOf, { count }), { count }, shape)
  }

  /** One for each shape. */
  casesOf(wanted: Kernel): readonly ShapedCase[] {
    for (const { kernel, operands, groups, shape } of this.#launches.splice(0)) {
      if (shape !== undefined) {
        const given = operands.map((operand, i): Numbers | number =>
          typeof operand === "number" ? operand : asOperand(kernel, i, operand.u8()),
        )
        const before = this.#cases.get(kernel) ?? []
        this.#cases.set(kernel, [...before, { shape, kernel, operands: given, groups }])
      }
      runKernel(kernel, operands, groups)
    }
    return this.#cases.get(wanted)!
  }

  #launch(
    launch: TapeLaunch,
    groups: [number, number, number],
    numbers: { chunk?: number; count?: number },
    shape: string | undefined,
  ): void {
    if (groups.includes(0)) return
    const kernel = this.#kernels[launch.kernel]!
    const operands = launch.operands.map((operand) => {
      if (typeof operand === "number") return operand
      if ("place" in operand) return this.#places[operand.place]!.at(operand.at)
      if ("region" in operand) return this.#region(operand.region)
      if ("given" in operand) return this.#pairs
      const number = numbers[operand.number as keyof typeof numbers]
      if (number === undefined) throw new Error(`internal: no ${operand.number} of a step`)
      return number
    })
    const own = this.shapes.get(kernel) ?? []
    const isOne = shape !== undefined && own.length < SHAPES && own.at(-1) !== shape
    if (isOne) this.shapes.set(kernel, [...own, shape])
    this.#launches.push({ kernel, operands, groups, ...(isOne && { shape }) })
  }

  /** To where the next one begins. */
  #region(region: number): Memory {
    const begin = this.#block.offsetOf(region)
    const others = this.#tape.regions.map((_, other) => this.#block.offsetOf(other))
    const end = Math.min(this.#step.bytes, ...others.filter((at) => at > begin))
    const isDrawn = this.#tape.regions[region]!.name === "drawn"
    const memory = (isDrawn && this.#before) || this.#step
    return memory.at(begin, end - begin)
  }
}

/** @param sums as the target's plans have them */
export function* stepKernels(sums: SumOrder, words: KernelWords): Generator<CheckedKernel> {
  const known = new Set<string>()
  for (const decoder of decoders) {
    const { kv, table, ups, outs = "q4f16_1" } = decoder
    const plan = compile(graphOf(decoder), {
      format: "q4f16_1",
      codecOf: ({ name, columns, sources: [first] }) => {
        if (columns === 1) return "f32"
        if (name === "embed") return table
        if (ups && first!.tensor.endsWith("'s up")) return ups
        return first!.tensor.endsWith(" o") ? outs : "q4f16_1"
      },
      activations: "int8",
      kv,
      sums,
    })
    const play = new Play(plan, words)
    for (const [number, [long, short]] of steps.entries()) {
      play.take(
        stepOf(number, decoder),
        number === 0 ? undefined : `step ${number} of ${long} and ${short} tokens`,
        decoder === decoders[0],
      )
    }
    for (const [kernel, { length: shapes }] of play.shapes) {
      const { name, body } = kernel
      const text = JSON.stringify([name, body])
      if (known.has(text)) continue
      known.add(text)
      const at = (shape: number) => play.casesOf(kernel)[shape]!
      yield { name, kernel, profiles: "first", shapes, at }
    }
  }
}
