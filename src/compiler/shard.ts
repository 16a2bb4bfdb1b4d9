// One plan for several devices: each computes some heads and some columns of what lies between two products, and they meet where
// a sum goes over all of them. Every shard runs the same plan on parts of the same parameters:
//
//   q, k, v, gate, up   rows of their matrices; the head's too, whose logits are gathered
//   o, down             columns, so that each shard has partial sums: `gather` brings those of all together, `reduce` adds them
//   experts             rows of gate and up; what they make is gathered, since a row's sums are added up by their shares and parts
//                       of sums cannot be; then rows of down
//   latent attention    heads of queries, and the rows that bring them to what is remembered and back; that is whole everywhere, and so
//                       is what an indexer chooses of it
//   states              heads, with their keys; convolutions, their columns
//   norms               of heads; where one goes over more columns than a shard has, these are gathered, and what is made of them
//                       is whole
//   all else            whole, in every shard
//
// Heads of keys that are fewer than the shards lie in several of them, with their keys and values.
//
// A shard's columns are whole parts of a sum (`partEnds`), and `reduce` adds on as those are added: the bits are one device's.
// What is divided is found by following values through the steps. A product whose rows somebody wants otherwise (whole, for a norm
// over all of them; an expert's, a head's) is remembered with that, and all is done once more.

import { problem } from "../errors.ts"
import { groupCodecs, isGroupCodec } from "../runtime/format.ts"
import type { KvShape, Parameter } from "../runtime/manifest.ts"
import { type Cut, ownLength, type Segment, type Slice, sliceSizes } from "../runtime/slices.ts"
import { type Delta, decayColumns, ratesOfHead, stateSize } from "./graph/graph.ts"
import {
  type Buffer,
  type BufferId,
  type Codes,
  type Experts,
  type ParameterId,
  type Place,
  type Plan,
  type ProductInput,
  rowsOfGateUp,
  type Step,
  type StepOp,
  type View,
} from "./plan.ts"

export const shardCounts = [1, 2, 4, 8] as const

export interface Sharded {
  shards: number
  /** Of each of them. */
  plan: Plan
  /** What its parameters are of the whole plan's. */
  slices: readonly Slice[]
}

/**
 * The plan of each of several shards; undefined where nothing in a plan can be divided, so that one device computes it.
 * @param plan sums its products in eight parts
 * @throws `option_invalid` where it has what does not divide, or figures that do not
 */
export function shard(plan: Plan, shards: number): Sharded | undefined {
  if (shards === 1) return undefined
  checkHeads(plan, shards)
  const wishes = new Wishes()
  for (;;) {
    try {
      const sharded = new Sharding(plan, shards, wishes).sharded()
      return sharded.slices.some(({ cut }) => cut.kind !== "whole") ? sharded : undefined
    } catch (error) {
      if (!(error instanceof WantedOtherwise)) throw error
      if (wishes.add(error)) continue
      if (wishes.why !== undefined) throw refuse(shards, wishes.why)
      throw new Error("internal: rows of a product are wanted in two ways")
    }
  }
}

/** Columns of what a product makes, and how they are to be divided. */
interface Wish extends Segment {
  product: number // a step
  from: number
}

/** Somebody wants columns divided otherwise than they are. */
class WantedOtherwise extends Error {
  readonly wishes: readonly Wish[]
  /** What is in the way of dividing them, where that is how many they are. */
  readonly why: string | undefined

  constructor(wishes: readonly Wish[], why?: string) {
    super("internal: rows of a product are wanted otherwise")
    this.wishes = wishes
    this.why = why
  }
}

/** What has been wanted of each product. */
class Wishes {
  readonly #of = new Map<number, Wish[]>()
  /** What was in the way first. Heads that are whole because of it cannot be divided, which would sound as if they were too few. */
  why: string | undefined

  /** @returns whether one at least is new: else it would be wished for ever */
  add({ wishes, why }: WantedOtherwise): boolean {
    this.why ??= why
    const isKnown = (wish: Wish) =>
      this.of(wish.product).some((known) => JSON.stringify(known) === JSON.stringify(wish))
    const added = wishes.filter((wish) => !isKnown(wish))
    for (const wish of added) this.#of.set(wish.product, [...this.of(wish.product), wish])
    return added.length > 0
  }

  of(product: number): readonly Wish[] {
    return this.#of.get(product) ?? []
  }
}

function refuse(shards: number, why: string): Error {
  return problem("option_invalid", {
    option: "--overrides tensor_parallel_shards",
    problem: `the model cannot be divided into ${shards}: ${why}.`,
  })
}

function checkHeads({ steps }: Plan, shards: number): void {
  const whole = "which each device needs whole ones of"
  for (const step of steps) {
    if (step.op === "delta") {
      const { keyHeads, valueHeads } = step.delta
      if (keysOfStates(step.delta, shards) === undefined)
        throw refuse(
          shards,
          `its states have ${valueHeads} heads and ${keyHeads} of keys, ${whole}`,
        )
    }
    if (step.op === "experts") {
      const { intermediate } = step.experts
      const { columns } = step.output
      const parts = `have no ${shards} equal parts`
      if (intermediate % (4 * shards) !== 0)
        throw refuse(shards, `${intermediate} columns of an expert ${parts} of whole fours`)
      if (columns % shards !== 0)
        throw refuse(shards, `${columns} columns that experts give ${parts}`)
    }
    if (step.op !== "attend") continue
    const { heads, kvHeads, latent } = step.attention
    if (heads % shards === 0 && (kvHeads % shards === 0 || shards % kvHeads === 0)) continue
    const ofKeys = latent === undefined ? ` and ${kvHeads} of keys and values` : ""
    throw refuse(shards, `it has ${heads} query heads${ofKeys}, ${whole}`)
  }
}

/** How key heads of states lie: those that a shard's value heads read; undefined: they are no part. */
function keysOfStates(
  { keyHeads, valueHeads, tiled }: Delta,
  shards: number,
): Pick<Segment, "parts" | "cyclic"> | undefined {
  if (valueHeads % shards !== 0) return undefined
  if (!tiled || valueHeads === keyHeads) {
    if (keyHeads % shards === 0) return { parts: shards }
    return shards % keyHeads === 0 ? { parts: keyHeads } : undefined
  }
  const own = valueHeads / shards // neighbours, and so are the keys they read, begun again behind the last
  if (own % keyHeads === 0) return { parts: 1 }
  return keyHeads % own === 0 ? { parts: keyHeads / own, cyclic: true } : undefined
}

/** Neighbouring columns, and which products' they are. */
interface Part extends Segment {
  madeBy: readonly Origin[]
  /** States of heads have been read for it, of which no shard has all. */
  ofStates?: true
}

/** Columns of a product, divided as what has become of them. */
interface Origin {
  product: number
  from: number
  length: number
}

/** Columns of which each shard has a part; of some of them it may have all. */
type Split = readonly Part[]

const wholeWishes = (split: Split): Wish[] =>
  split.flatMap(({ madeBy }) => madeBy.map((origin) => ({ ...origin, parts: 1 })))

const wantedWhole = (split: Split, why?: string) => new WantedOtherwise(wholeWishes(split), why)

/** As it is cut. */
const cutOf = (split: Split, factor = 1): Segment[] =>
  split.map(({ length, parts, cyclic }) => ({
    length: length * factor,
    parts,
    ...(cyclic && { cyclic }),
  }))

/** @param width columns of `a` for each of `b` */
const isAlike = (a: Split | undefined, b: Split | undefined, width: number) =>
  JSON.stringify(a && cutOf(a)) === JSON.stringify(b && cutOf(b, width))

const columnsOf = (split: Split) => split.reduce((sum, { length }) => sum + length, 0)
const ownColumns = (split: Split) => split.reduce((sum, part) => sum + ownLength(part), 0)

class Sharding {
  readonly #plan: Plan
  readonly #shards: number
  readonly #wishes: Wishes
  readonly #steps: Step[] = []
  readonly #buffers: Buffer[] = []
  readonly #bufferIds = new Map<string, BufferId>()
  readonly #parameters: Parameter[] = []
  readonly #slices: Slice[] = []
  readonly #parameterIds = new Map<string, ParameterId>()
  /** What lies in the whole plan's buffers now; absent: it is whole. */
  readonly #splits = new Map<BufferId, Split>()
  /** Of the rows that layers with convolutions remember. */
  readonly #stored = new Map<string, Split | undefined>()
  /** What a shard keeps of each group. */
  readonly #groups = new Map<number, Map<string, KvShape>>()

  constructor(plan: Plan, shards: number, wishes: Wishes) {
    this.#plan = plan
    this.#shards = shards
    this.#wishes = wishes
  }

  sharded(): Sharded {
    for (const [i, { rows, ...op }] of this.#plan.steps.entries())
      for (const own of this.#step(op as StepOp, i)) this.#steps.push({ rows, ...own })
    const { logits, hidden, groups } = this.#plan
    const gathered = this.#gathered(logits)
    this.#checkStored()
    const plan: Plan = {
      ...this.#plan,
      groups: groups.map((group, number) => this.#kept(number) ?? group),
      parameters: this.#parameters,
      hidden: this.#wholeView(hidden),
      logits: gathered,
      buffers: this.#buffers,
      steps: this.#steps,
    }
    return { shards: this.#shards, plan, slices: this.#slices }
  }

  /** The logits of all, in a buffer of their own where each shard has some. */
  #gathered(logits: View): View {
    const split = this.#splitOf(logits)
    if (!split) return this.#wholeView(logits)
    this.#requireOne(split)
    const output = this.#ownBuffer("logits of all", logits.buffer, logits.columns)
    this.#steps.push({ rows: "logits", op: "gather", part: this.#view(logits), pieces: 1, output })
    return output
  }

  /** What a shard does instead of a step. */
  #step(step: StepOp, index: number): StepOp[] {
    switch (step.op) {
      case "embed":
        return [{ ...step, table: this.#parameter(step.table), output: this.#made(step.output) }]
      case "hiddenIn":
      case "seenPart":
      case "ropeTable":
        return [{ ...step, output: this.#made(step.output) }]
      case "norm":
        return this.#norm(step)
      case "quantize":
        return [this.#quantize(step)]
      case "matmul":
        return this.#matmul(step, index)
      case "headMatmul":
        return [this.#headMatmul(step)]
      case "rope": {
        const split = this.#splitOf(step.view)
        if (split) this.#requireWholes(split, step.headDim)
        const ropeTable = this.#wholeView(step.ropeTable)
        return [{ ...step, view: this.#view(step.view), ropeTable }]
      }
      case "storeKv":
        return [this.#isConvolved(step.place) ? this.#storeRows(step) : this.#storeHeads(step)]
      case "attend":
        return [this.#attend(step)]
      case "indexer":
        return [
          {
            ...step,
            query: this.#wholeView(step.query),
            weights: this.#wholeView(step.weights),
            output: this.#made(step.output),
          },
        ]
      case "convolve": {
        const split = this.#stored.get(JSON.stringify(step.place))
        const taps = this.#parameter(step.taps, split && cutOf(split, step.count))
        const bias =
          step.bias === undefined ? undefined : this.#parameter(step.bias, split && cutOf(split))
        return [{ ...step, taps, bias, output: this.#made(step.output, split) }]
      }
      case "delta":
        return [this.#delta(step)]
      case "route": {
        const bias = step.bias === undefined ? undefined : this.#parameter(step.bias)
        return [
          { ...step, input: this.#wholeView(step.input), bias, output: this.#made(step.output) },
        ]
      }
      case "experts":
        return this.#experts(step)
      case "weigh": {
        const split = this.#splitOf(step.input)
        const { rows } = this.#plan.parameters[step.weight]!
        const weight = this.#parameter(step.weight, rows === 1 ? undefined : split && cutOf(split))
        const input = this.#view(step.input)
        return [{ ...step, input, weight, output: this.#made(step.output, split) }]
      }
      case "bound": {
        const split = this.#splitOf(step.input)
        const bounds = this.#parameter(step.bounds)
        const input = this.#view(step.input)
        return [{ ...step, input, bounds, output: this.#made(step.output, split) }]
      }
      case "apply":
      case "copy":
      case "select": {
        const split = this.#splitOf(step.input)
        return [{ ...step, input: this.#view(step.input), output: this.#made(step.output, split) }]
      }
      case "reorder":
        return this.#reorder(step)
      case "add":
      case "multiply":
        return [this.#twoOf(step)]
      default:
        throw new Error(`internal: ${step.op} in shards`)
    }
  }

  #norm(step: Extract<StepOp, { op: "norm" }>): StepOp[] {
    const { input, output, width } = step
    const split = this.#splitOf(input)
    if (split?.some((part) => part.ofStates && ownLength(part) % width !== 0))
      return this.#normOfAll(step, split)
    if (split && width === input.columns) return this.#normOfAll(step, split)
    if (split) this.#requireWholes(split, width)
    const isEach = (id: ParameterId) => this.#plan.parameters[id]!.rows === width
    const vector = (id: ParameterId) =>
      this.#parameter(id, isEach(id) ? undefined : split && cutOf(split))
    return [
      {
        ...step,
        input: this.#view(input),
        weight: vector(step.weight),
        bias: step.bias === undefined ? undefined : vector(step.bias),
        output: input.buffer === output.buffer ? this.#view(output) : this.#made(output, split),
      },
    ]
  }

  /** What each shard has some columns of is brought together. */
  #normOfAll(step: Extract<StepOp, { op: "norm" }>, split: Split): StepOp[] {
    const gather = this.#gather(step.input, split)
    const weight = this.#parameter(step.weight)
    const bias = step.bias === undefined ? undefined : this.#parameter(step.bias)
    return [
      gather,
      { ...step, input: gather.output, weight, bias, output: this.#made(step.output) },
    ]
  }

  /** A row of which each shard has a part, in a buffer of its own. */
  #gather(view: View, split: Split): Extract<StepOp, { op: "gather" }> {
    this.#requireOne(split)
    const output = this.#ownBuffer("row of all", view.buffer, view.columns)
    return { op: "gather", part: this.#view(view), pieces: 1, output }
  }

  /** Columns come from everywhere: every shard has the row whole first, and then in its other order. */
  #reorder(step: Extract<StepOp, { op: "reorder" }>): StepOp[] {
    const split = this.#splitOf(step.input)
    const order = this.#parameter(step.order)
    const from = (input: View): StepOp => ({
      ...step,
      input,
      order,
      output: this.#made(step.output),
    })
    if (!split) return [from(this.#wholeView(step.input))]
    const gather = this.#gather(step.input, split)
    return [gather, from(gather.output)]
  }

  #quantize(step: Extract<StepOp, { op: "quantize" }>): StepOp {
    const { input, output } = step
    const split = this.#splitOf(input)
    if (split) {
      this.#requireOne(split)
      this.#requireGroups(split, output.columns, output.group)
      this.#splits.set(output.codes, split)
    } else this.#splits.delete(output.codes)
    return { ...step, input: this.#view(input), output: this.#codes(output, split) }
  }

  #splitOfInput(input: ProductInput): Split | undefined {
    if (input.kind === "float") return this.#splitOf(input.view)
    return this.#splits.get(input.codes.codes)
  }

  #input(input: ProductInput): ProductInput {
    if (input.kind === "float") return { kind: "float", view: this.#view(input.view) }
    return { kind: input.kind, codes: this.#codes(input.codes, this.#splitOfInput(input)) }
  }

  #matmul(step: Extract<StepOp, { op: "matmul" }>, index: number): StepOp[] {
    const { input, weight, bias, epilogue, output } = step
    const split = this.#splitOfInput(input)
    const readers = this.#readers(output, index)
    const readsHeads = readers.some((reader) => isOfHeads(reader, output.buffer))
    if (split && (readsHeads || this.#isLowRank(step, index))) throw wantedWhole(split)
    if (split) return this.#partial(step, split)
    const made =
      epilogue.kind === "add" ? this.#splitOf(epilogue.to) : this.#splitFor(output, index)
    const rows =
      made && (epilogue.kind === "gated" ? [...cutOf(made), ...cutOf(made)] : cutOf(made))
    return [
      {
        ...step,
        input: this.#input(input),
        weight: this.#parameter(weight, rows),
        bias: bias === undefined ? undefined : this.#parameter(bias, rows),
        epilogue: epilogue.kind === "add" ? { kind: "add", to: this.#view(epilogue.to) } : epilogue,
        output: this.#made(output, made),
      },
    ]
  }

  /**
   * Whether it makes more columns of what a product alone has made: both matrices stand for one of low rank. The narrow row is had
   * whole then, which costs little, so that each shard has some of the wide one's columns without a meeting.
   */
  #isLowRank({ input, output }: Extract<StepOp, { op: "matmul" }>, index: number): boolean {
    const before = this.#plan.steps.slice(0, index)
    const codes = input.kind === "float" ? undefined : input.codes.codes
    const rounded = before.findLast((step) => step.op === "quantize" && step.output.codes === codes)
    const read = input.kind === "float" ? input.view : (rounded as { input: View }).input
    const made = before.findLast(
      (step) => step.op !== "quantize" && "output" in step && step.output.buffer === read.buffer,
    )
    return made?.op === "matmul" && read.columns < output.columns
  }

  /** A product of which every shard has some columns of its sums. */
  #partial(step: Extract<StepOp, { op: "matmul" }>, split: Split): StepOp[] {
    const { input, weight, bias, epilogue, output, parts } = step
    if (epilogue.kind === "gated") throw wantedWhole(split)
    this.#requireOne(split)
    const { columns, codec } = this.#plan.parameters[weight]!
    this.#requireGroups(split, columns, isGroupCodec(codec) ? groupCodecs[codec].group : 32)
    if (parts !== 8) throw new Error(`internal: shards of a sum in ${parts} parts`)
    const shards = this.#shards
    const part = this.#ownBuffer("partial", output.buffer, output.columns)
    const partials = this.#ownBuffer("partials", output.buffer, output.columns * shards)
    const to = epilogue.kind === "add" ? this.#wholeView(epilogue.to) : undefined
    return [
      {
        ...step,
        input: this.#input(input),
        weight: this.#parameterOf(weight, { kind: "columns" }),
        bias: undefined,
        parts: (8 / shards) as 1 | 2 | 4,
        epilogue: { kind: "store" },
        output: part,
      },
      { op: "gather", part, pieces: 1, output: partials },
      {
        op: "reduce",
        partials,
        shards,
        bias: bias === undefined ? undefined : this.#parameter(bias),
        to,
        output: this.#made(output),
      },
    ]
  }

  /** Rows of each head are neighbours, and so are heads. */
  #headMatmul(step: Extract<StepOp, { op: "headMatmul" }>): StepOp {
    const { input, weight, heads, output } = step
    const split = this.#splitOf(input)
    if (!split) {
      const own = this.#parameter(weight)
      return { ...step, input: this.#wholeView(input), weight: own, output: this.#made(output) }
    }
    this.#requireOne(split)
    const parts = this.#shards
    const { rows } = this.#plan.parameters[weight]!
    return {
      ...step,
      input: this.#view(input),
      weight: this.#parameter(weight, [{ length: rows, parts }]),
      heads: heads / parts,
      output: this.#made(output, [{ length: output.columns, parts, madeBy: originsOf(split) }]),
    }
  }

  /**
   * Every shard makes some columns of what all experts of a row have between their products, and then, of those of all shards,
   * some columns of their sums.
   */
  #experts(step: Extract<StepOp, { op: "experts" }>): StepOp[] {
    const { experts, input, weights, output } = step
    const split = this.#splitOfInput(input)
    if (split) throw wantedWhole(split)
    const parts = this.#shards
    const { count, active, intermediate, gateUp, up, down, biases } = experts
    const times = count * rowsOfGateUp(experts)
    const upSplit = up && this.#splitOfInput(up.input)
    if (upSplit) throw wantedWhole(upSplit)
    const rowsOf = (id: ParameterId, length: number, times: number) =>
      this.#parameterOf(id, { kind: "rows", segments: [{ length, parts }], times })
    const ofGates = (id: ParameterId) => rowsOf(id, intermediate, times)
    const ofUp = (id: ParameterId) => rowsOf(id, intermediate, count)
    const ofSums = (id: ParameterId) => rowsOf(id, output.columns, count)
    const own: Omit<Experts, "intermediate" | "up"> = {
      ...experts,
      gateUp: ofGates(gateUp),
      down: ofSums(down),
      biases: biases && {
        gateUp: ofGates(biases.gateUp),
        up: biases.up === undefined ? undefined : ofUp(biases.up),
        down: ofSums(biases.down),
      },
    }
    const ownUp = up && { weight: ofUp(up.weight), input: this.#input(up.input) }
    const width = active * intermediate
    const some = this.#ownBuffer("rows of experts", output.buffer, width / parts)
    const all = this.#ownBuffer("whole rows of experts", output.buffer, width)
    const sums = this.#ownBuffer("sums of experts", output.buffer, output.columns / parts)
    const shares = this.#wholeView(weights)
    return [
      {
        op: "expertRows",
        experts: { ...own, up: ownUp, intermediate: intermediate / parts },
        input: this.#input(input),
        weights: shares,
        output: some,
      },
      { op: "gather", part: some, pieces: active, output: all },
      {
        op: "expertSums",
        experts: { ...own, up: undefined, intermediate },
        input: all,
        weights: shares,
        output: sums,
      },
      { op: "gather", part: sums, pieces: 1, output: this.#made(output) },
    ]
  }

  #isConvolved({ group, layer }: Place): boolean {
    return this.#plan.steps.some(
      ({ ...step }) =>
        step.op === "convolve" && step.place.group === group && step.place.layer === layer,
    )
  }

  /** What a convolution reads again: columns as they come. */
  #storeRows(step: Extract<StepOp, { op: "storeKv" }>): StepOp {
    const { key, place } = step
    const split = this.#splitOf(key)
    this.#stored.set(JSON.stringify(place), split)
    const group = this.#plan.groups[place.group]!
    const columns = split ? ownColumns(split) : key.columns
    this.#keep(place, { ...group, kvHeads: columns / group.headDim.key })
    return { ...step, key: this.#view(key), value: undefined }
  }

  /** Rows are rounded in pieces: only whole ones are as one device keeps them. */
  #checkStored(): void {
    for (const [place, split] of this.#stored) {
      const { group } = JSON.parse(place) as Place
      const { kvHeads, headDim } = this.#plan.groups[group]!
      if (split?.some((part) => ownLength(part) % headDim.key !== 0))
        throw refuse(
          this.#shards,
          `its convolutions keep rows in ${kvHeads} pieces of ${headDim.key} columns, which each device needs whole ones of`,
        )
    }
  }

  /** Keys and values of heads; or what all heads read, which is one key. */
  #storeHeads(step: Extract<StepOp, { op: "storeKv" }>): StepOp {
    const { key, value, place } = step
    const group = this.#plan.groups[place.group]!
    const parts = Math.min(group.kvHeads, this.#shards)
    this.#keep(place, { ...group, kvHeads: group.kvHeads / parts })
    return { ...step, key: this.#heads(key, parts), value: value && this.#heads(value, parts) }
  }

  /** Layers of a group are divided alike in the end; on the way there a later one may not know yet what an earlier one has wished. */
  #keep({ group }: Place, shape: KvShape): void {
    const shapes = this.#groups.get(group) ?? new Map<string, KvShape>()
    this.#groups.set(group, shapes.set(JSON.stringify(shape), shape))
  }

  #kept(group: number): KvShape | undefined {
    const [shape, ...others] = this.#groups.get(group)?.values() ?? []
    if (others.length > 0) throw new Error("internal: layers of a group are divided in two ways")
    return shape
  }

  #attend(step: Extract<StepOp, { op: "attend" }>): StepOp {
    const { query, attention, sinkLogits, biases, relative, chosen, output } = step
    const parts = this.#shards
    const { heads, kvHeads } = attention
    const own = this.#heads(query, parts)
    const madeBy = originsOf(this.#splitOf(query)!)
    return {
      ...step,
      query: own,
      attention: {
        ...attention,
        heads: heads / parts,
        kvHeads: kvHeads / Math.min(kvHeads, parts),
      },
      sinkLogits:
        sinkLogits === undefined
          ? undefined
          : this.#parameter(sinkLogits, [{ length: heads, parts }]),
      biases: biases && {
        ...biases,
        parameter: this.#parameter(
          biases.parameter,
          relative ? undefined : [{ length: heads * biases.distances, parts }],
        ),
      },
      ...(relative && {
        relative: {
          query: this.#heads(relative.query, parts),
          key: this.#heads(relative.key, parts),
        },
      }),
      ...(chosen && { chosen: this.#wholeView(chosen) }),
      output: this.#made(output, [{ length: output.columns, parts, madeBy }]),
    }
  }

  #delta(step: Extract<StepOp, { op: "delta" }>): StepOp {
    const { input, decays, shares, keys: apart, decay, bias, skip, delta, place, output } = step
    const parts = this.#shards
    const { keyHeads, valueHeads, keyDim, valueDim } = delta
    const keys = keysOfStates(delta, parts)!
    const ofKeys = { length: keyHeads * keyDim, ...keys }
    const values = { length: valueHeads * valueDim, parts }
    const beside = apart ? [] : [ofKeys, ofKeys]
    const kinds = delta.selective ? [values, ...beside] : [...beside, values]
    const split = this.#divided(input, kinds)
    const heads = { length: valueHeads, parts }
    const ofHeads = (parameter: ParameterId | undefined, each = 1) =>
      parameter === undefined
        ? undefined
        : this.#parameter(parameter, [{ length: valueHeads * each, parts }])
    const each = ratesOfHead(delta)
    this.#divided(decays, [{ length: decayColumns(delta), parts }])
    if (shares) this.#divided(shares, [heads])
    const own = { ...delta, keyHeads: keyHeads / keys.parts, valueHeads: valueHeads / parts }
    this.#keep(place, { ...this.#plan.groups[place.group]!, state: stateSize(own) })
    return {
      ...step,
      input: this.#view(input),
      decays: this.#view(decays),
      shares: shares && this.#view(shares),
      keys: apart && this.#wholeView(apart),
      decay: ofHeads(decay, each.decay),
      bias: ofHeads(bias),
      skip: ofHeads(skip, each.skip),
      delta: own,
      output: this.#made(output, [
        { ...values, madeBy: split[kinds.indexOf(values)]!.madeBy, ofStates: true },
      ]),
    }
  }

  /** How a view is divided, which must be like that. */
  #divided(view: View, wanted: readonly Segment[]): Split {
    const split = this.#splitOf(view)
    if (!split) throw this.#undivided("states")
    if (JSON.stringify(cutOf(split)) === JSON.stringify(wanted)) return split
    let at = 0
    const wishes = wanted.flatMap((segment): Wish[] => {
      const [from, end] = [at, at + segment.length]
      at = end
      let begin = 0
      for (const part of split) {
        if (begin <= from && end <= begin + part.length) {
          const offset = from - begin
          return part.madeBy.map(({ product, ...origin }) => ({
            ...segment,
            product,
            from: origin.from + offset,
          }))
        }
        begin += part.length
      }
      return wholeWishes(split)
    })
    throw new WantedOtherwise(wishes)
  }

  #twoOf(step: Extract<StepOp, { op: "add" | "multiply" }>): StepOp {
    const [a, b] = [this.#splitOf(step.a), this.#splitOf(step.b)]
    const isOne = step.b.columns === 1 && step.a.columns > 1
    const width = step.a.columns / step.b.columns
    if ((a || b) && !(isOne ? !b : isAlike(a, b, width)))
      throw new WantedOtherwise(wholeWishes([...(a ?? []), ...(b ?? [])]))
    const split = a?.map((part, i) => ({
      ...part,
      madeBy: [...part.madeBy, ...(b?.[i]?.madeBy ?? [])],
    }))
    return {
      ...step,
      a: this.#view(step.a),
      b: this.#view(step.b),
      output: this.#made(step.output, split),
    }
  }

  /** Heads of queries, of keys or of values, in so many parts. */
  #heads(view: View, parts: number): View {
    const split = this.#splitOf(view)
    const [part, ...others] = split ?? []
    if (split && parts < this.#shards) {
      const isDivided = others.length === 0 && part!.parts === parts
      if (!isDivided) throw new WantedOtherwise(wishesFor(split, parts))
    } else if (parts > 1 && (part?.parts !== parts || others.length > 0))
      throw this.#undivided("attention")
    return this.#view(view)
  }

  #undivided(what: string): Error {
    const why = this.#wishes.why ?? `something in its ${what} is computed of all heads together`
    return refuse(this.#shards, why)
  }

  /** How the columns that a product makes are divided: by whatever is read of them, and as has been wished. */
  #splitFor(output: View, index: number): Split | undefined {
    const { buffers, logits, hidden } = this.#plan
    const { buffer, columns } = output
    if (columns !== buffers[buffer]!.columns) return undefined
    const results = this.#lastWith(buffer, index) === Infinity ? [logits, hidden] : []
    const read = [...this.#readers(output, index).flatMap(viewsRead), ...results]
    const bounds = new Set([columns])
    for (const view of read)
      if (view.buffer === buffer) bounds.add(view.from).add(view.from + view.columns)
    const wishes = this.#wishes.of(index)
    for (const { from, length } of wishes) bounds.add(from).add(from + length)
    const ends = [...bounds].filter((bound) => bound > 0).sort((a, b) => a - b)
    const split = ends.map((end, i): Part => {
      const from = ends[i - 1] ?? 0
      const length = end - from
      const of = wishes.filter((wish) => wish.from <= from && end <= wish.from + wish.length)
      const most = { parts: largestPart(length, this.#shards) }
      const { parts, cyclic } = [most, ...of].reduce((least, each) =>
        each.parts <= least.parts ? each : least,
      ) as Segment
      const madeBy = [{ product: index, from, length }]
      return { length, parts, ...(cyclic && { cyclic }), madeBy }
    })
    return split.some(({ parts }) => parts > 1) ? split : undefined
  }

  /** Steps that read what a step has made, before something else lies there. */
  #readers({ buffer }: View, index: number): Step[] {
    return this.#plan.steps
      .slice(index + 1, this.#lastWith(buffer, index) + 1)
      .filter((step) => viewsRead(step).some((view) => view.buffer === buffer))
  }

  /** The step before which what one has made lies in its buffer; Infinity: it does at the end. */
  #lastWith(buffer: BufferId, index: number): number {
    const at = this.#plan.steps.findIndex((step, i) => i > index && overwrites(step, buffer))
    return at < 0 ? Infinity : at
  }

  /** How a view's columns are divided; undefined where the shard has them all. */
  #splitOf({ buffer, from, columns }: View): Split | undefined {
    let at = 0
    const within = (this.#splits.get(buffer) ?? []).filter(({ length }) => {
      const begin = at
      at += length
      return begin < from + columns && at > from
    })
    if (within.every(({ parts }) => parts === 1)) return undefined
    if (columnsOf(within) !== columns) throw wantedWhole(within)
    return within
  }

  #requireOne(split: Split): void {
    const [{ parts, cyclic }] = split as [Part]
    if (split.length > 1 || parts !== this.#shards || cyclic) throw wantedWhole(split)
  }

  /** That a shard's part of each segment has whole heads. */
  #requireWholes(split: Split, width: number): void {
    const torn = split.filter((part) => ownLength(part) % width !== 0)
    if (torn.length === 0) return
    throw new WantedOtherwise(
      torn.flatMap((part) => wishesFor([part], largestPart(part.length / width, part.parts))),
    )
  }

  /** Where there are fewer groups than shards, they stay whole. */
  #requireGroups(split: Split, columns: number, group: number): void {
    if (columns % (this.#shards * group) === 0) return
    const why = `${columns} columns of a product have no ${this.#shards} equal parts of whole groups of ${group}`
    if (columns < this.#shards * group) throw wantedWhole(split, why)
    throw refuse(this.#shards, why)
  }

  /** What lies in a view from now on. */
  #made(view: View, split?: Split): View {
    if (!split) this.#splits.delete(view.buffer)
    else if (view.columns === this.#plan.buffers[view.buffer]!.columns)
      this.#splits.set(view.buffer, split)
    else throw wantedWhole(split)
    return this.#view(view)
  }

  /** What a shard has of a view. */
  #view({ buffer, from, columns }: View): View {
    const split = this.#splits.get(buffer)
    const { columns: all } = this.#plan.buffers[buffer]!
    const own = (end: number) => (split ? ownBefore(split, end) : end)
    return {
      buffer: this.#buffer(buffer, own(all)),
      from: own(from),
      columns: own(from + columns) - own(from),
    }
  }

  #wholeView(view: View): View {
    const split = this.#splitOf(view)
    if (split) throw wantedWhole(split)
    return this.#view(view)
  }

  #codes(codes: Codes, split: Split | undefined): Codes {
    const part = (columns: number) => (split ? columns / this.#shards : columns)
    const own = (id: BufferId) => this.#buffer(id, part(this.#plan.buffers[id]!.columns))
    return {
      ...codes,
      codes: own(codes.codes),
      scales: own(codes.scales),
      columns: part(codes.columns),
    }
  }

  /** A buffer of the whole plan's, with so many columns. */
  #buffer(id: BufferId, columns: number): BufferId {
    return this.#bufferOf(`${id} ${columns}`, { ...this.#plan.buffers[id]!, columns })
  }

  /** One for what only shards have, shared by all who need such a one beside the same buffer. */
  #ownBuffer(what: string, beside: BufferId, columns: number): View {
    const { capacity } = this.#plan.buffers[beside]!
    const name = `${what} ${capacity} ${columns}`
    return { buffer: this.#bufferOf(name, { capacity, columns, dtype: "f32" }), from: 0, columns }
  }

  #bufferOf(name: string, buffer: Buffer): BufferId {
    const known = this.#bufferIds.get(name)
    if (known !== undefined) return known
    this.#bufferIds.set(name, this.#buffers.length)
    return this.#buffers.push(buffer) - 1
  }

  /** A parameter, whole or with parts of its rows. */
  #parameter(id: ParameterId, segments?: readonly Segment[]): ParameterId {
    return this.#parameterOf(id, segments ? { kind: "rows", segments } : { kind: "whole" })
  }

  #parameterOf(of: ParameterId, cut: Cut): ParameterId {
    const name = JSON.stringify([of, cut])
    const known = this.#parameterIds.get(name)
    if (known !== undefined) return known
    this.#parameterIds.set(name, this.#parameters.length)
    const whole = this.#plan.parameters[of]!
    this.#slices.push({ of, cut })
    return this.#parameters.push({ ...whole, ...sliceSizes(whole, cut, this.#shards) }) - 1
  }
}

const originsOf = (split: Split): Origin[] => split.flatMap(({ madeBy }) => madeBy)

/** That each is in so many parts. */
function wishesFor(split: Split, parts: number): Wish[] {
  return originsOf(split).map((origin) => ({ ...origin, parts }))
}

/** Into how many equal parts something can be divided, of which several shards may have the same. */
function largestPart(length: number, shards: number): number {
  let parts = shards
  while (length % parts !== 0) parts /= 2
  return parts
}

/** How much a shard has of the columns before one. */
function ownBefore(split: Split, end: number): number {
  let [begin, own] = [0, 0]
  for (const part of split) {
    if (end < begin + part.length) {
      if (end > begin && part.parts > 1) throw wantedWhole([part])
      return own + end - begin
    }
    begin += part.length
    own += ownLength(part)
  }
  return own
}

/** Whether a step takes heads of what lies in a buffer by themselves, of which a shard has whole ones. */
function isOfHeads(step: Step, buffer: BufferId): boolean {
  if (step.op === "norm") return step.width < step.input.columns
  if (step.op === "delta" && step.keys?.buffer === buffer) return false // all heads read it
  return ["rope", "storeKv", "attend", "headMatmul", "delta"].includes(step.op)
}

/** Whether all of a buffer is something else after a step. */
function overwrites(step: Step, buffer: BufferId): boolean {
  if (!("output" in step) || step.op === "quantize") return false
  return step.output.buffer === buffer && viewsRead(step).every((view) => view.buffer !== buffer)
}

/** What a step reads of buffers of floats. */
function viewsRead(step: Step): View[] {
  switch (step.op) {
    case "norm":
    case "quantize":
    case "apply":
    case "weigh":
    case "bound":
    case "reorder":
    case "copy":
    case "select":
    case "headMatmul":
    case "route":
      return [step.input]
    case "delta":
      return [step.input, step.decays, step.shares, step.keys].filter((view) => view !== undefined)
    case "experts":
      return [step.input, ...(step.experts.up ? [step.experts.up.input] : [])]
        .flatMap((input) => (input.kind === "float" ? [input.view] : []))
        .concat(step.weights)
    case "rope":
      return [step.view, step.ropeTable]
    case "matmul": {
      const input = step.input.kind === "float" ? [step.input.view] : []
      return step.epilogue.kind === "add" ? [...input, step.epilogue.to] : input
    }
    case "storeKv":
      return step.value ? [step.key, step.value] : [step.key]
    case "attend":
      return [step.query, step.chosen, step.relative?.query, step.relative?.key].filter(
        (view) => view !== undefined,
      )
    case "indexer":
      return [step.query, step.weights]
    case "add":
    case "multiply":
      return [step.a, step.b]
    default:
      return []
  }
}
