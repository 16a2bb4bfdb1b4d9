// One plan for several devices: each computes some heads and some columns of what lies between two products, and they meet where
// a sum goes over all of them. Every shard runs the same plan on parts of the same parameters:
//
//   q, k, v, gate, up   rows of their matrices; the head's too, whose logits are gathered
//   o, down             columns, so that each shard has partial sums: `gather` brings those of all together, `reduce` adds them
//   all else            whole, in every shard
//
// A shard's columns are whole parts of a sum (`partEnds`), and `reduce` adds on as those are added: the bits are one device's.
// What is split is found by following values through the steps. A product whose rows somebody wants whole (a norm over all
// of them, the sum of two values) stays whole.

import { problem } from "../errors.ts"
import { groupCodecs, isGroupCodec } from "../runtime/format.ts"
import type { KvShape, Parameter } from "../runtime/manifest.ts"
import { type Cut, type Slice, sliceSizes } from "../runtime/slices.ts"
import type { Buffer, BufferId, Codes, ParameterId, Plan, Step, StepOp, View } from "./plan.ts"

export const shardCounts = [1, 2, 4, 8] as const

export interface Sharded {
  shards: number
  /** Of each of them. */
  plan: Plan
  /** What its parameters are of the whole plan's. */
  slices: readonly Slice[]
}

/**
 * The plan of each of several shards; undefined where nothing in a plan can be split, so that one device computes it.
 * @param plan sums its products in eight parts
 * @throws `option_invalid` where it has what does not split, or figures that do not divide
 */
export function shard(plan: Plan, shards: number): Sharded | undefined {
  if (shards === 1) return undefined
  checkHeads(plan, shards)
  const whole = new Set<number>()
  for (;;) {
    try {
      const sharded = new Sharding(plan, shards, whole).sharded()
      return sharded.slices.some(({ cut }) => cut.kind !== "whole") ? sharded : undefined
    } catch (error) {
      if (!(error instanceof WantedWhole)) throw error
      for (const step of error.steps) whole.add(step)
    }
  }
}

/** Somebody wants all columns of what these products make. */
class WantedWhole extends Error {
  readonly steps: ReadonlySet<number>

  constructor(steps: ReadonlySet<number>) {
    super("internal: rows of a product are wanted whole")
    this.steps = steps
  }
}

function refuse(shards: number, why: string): Error {
  return problem("option_invalid", {
    option: "--overrides tensor_parallel_shards",
    problem: `the model cannot be divided into ${shards}: ${why}.`,
  })
}

const ALONE = "can run on one device alone"

const undivided = {
  experts: "its experts",
  route: "its experts",
  headMatmul: "its latent attention",
  convolve: "its convolutions",
  delta: "its states",
} as const

function checkHeads({ steps }: Plan, shards: number): void {
  for (const step of steps) {
    if (step.op in undivided)
      throw refuse(shards, `${undivided[step.op as keyof typeof undivided]} ${ALONE}`)
    if (step.op !== "attend") continue
    const { heads, kvHeads, latent } = step.attention
    if (latent !== undefined) throw refuse(shards, `${undivided.headMatmul} ${ALONE}`)
    if (kvHeads % shards !== 0)
      throw refuse(
        shards,
        `it has ${heads} query heads and ${kvHeads} of keys and values, which each device needs whole ones of`,
      )
  }
}

/** Columns of which each shard has a part: of each segment, by its length, and which products made them. */
interface Split {
  segments: readonly number[]
  madeBy: ReadonlySet<number>
}

class Sharding {
  readonly #plan: Plan
  readonly #shards: number
  readonly #whole: ReadonlySet<number> // products
  readonly #steps: Step[] = []
  readonly #buffers: Buffer[] = []
  readonly #bufferIds = new Map<string, BufferId>()
  readonly #parameters: Parameter[] = []
  readonly #slices: Slice[] = []
  readonly #parameterIds = new Map<string, ParameterId>()
  /** What lies in the whole plan's buffers now; absent: it is whole. */
  readonly #splits = new Map<BufferId, Split>()

  constructor(plan: Plan, shards: number, whole: ReadonlySet<number>) {
    this.#plan = plan
    this.#shards = shards
    this.#whole = whole
  }

  sharded(): Sharded {
    for (const [i, { rows, ...op }] of this.#plan.steps.entries())
      for (const own of this.#step(op as StepOp, i)) this.#steps.push({ rows, ...own })
    const { logits, hidden, groups } = this.#plan
    const gathered = this.#gathered(logits)
    const plan: Plan = {
      ...this.#plan,
      groups: groups.map((group): KvShape => ({ ...group, kvHeads: group.kvHeads / this.#shards })),
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
    if (split.segments.length > 1) throw new WantedWhole(split.madeBy)
    const output = this.#ownBuffer("logits of all", logits.buffer, logits.columns)
    this.#steps.push({ rows: "logits", op: "gather", part: this.#part(logits), output })
    return output
  }

  /** What a shard does instead of a step. */
  #step(step: StepOp, index: number): StepOp[] {
    switch (step.op) {
      case "embed":
        return [{ ...step, table: this.#parameter(step.table), output: this.#made(step.output) }]
      case "hiddenIn":
      case "ropeTable":
        return [{ ...step, output: this.#made(step.output) }]
      case "norm":
        return [this.#norm(step)]
      case "quantize":
        return [this.#quantize(step)]
      case "matmul":
        return this.#matmul(step, index)
      case "rope": {
        const split = this.#splitOf(step.view)
        if (split) this.#requireWholes(split, step.headDim)
        const ropeTable = this.#wholeView(step.ropeTable)
        return [{ ...step, view: this.#same(step.view, split), ropeTable }]
      }
      case "storeKv":
        return [
          { ...step, key: this.#heads(step.key), value: step.value && this.#heads(step.value) },
        ]
      case "attend":
        return [this.#attend(step)]
      case "weigh": {
        const split = this.#splitOf(step.input)
        const { rows } = this.#plan.parameters[step.weight]!
        const weight = this.#parameter(step.weight, rows === 1 ? undefined : split)
        return [
          {
            ...step,
            input: this.#same(step.input, split),
            weight,
            output: this.#made(step.output, split),
          },
        ]
      }
      case "apply":
      case "copy":
      case "select": {
        const split = this.#splitOf(step.input)
        return [
          { ...step, input: this.#same(step.input, split), output: this.#made(step.output, split) },
        ]
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

  #norm(step: Extract<StepOp, { op: "norm" }>): StepOp {
    const { input, output, width } = step
    const split = this.#splitOf(input)
    if (split && width === input.columns) throw new WantedWhole(split.madeBy)
    if (split) this.#requireWholes(split, width)
    const isEach = (id: ParameterId) => this.#plan.parameters[id]!.rows === width
    const vector = (id: ParameterId) => this.#parameter(id, isEach(id) ? undefined : split)
    return {
      ...step,
      input: this.#same(input, split),
      weight: vector(step.weight),
      bias: step.bias === undefined ? undefined : vector(step.bias),
      output: this.#made(output, split),
    }
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
    this.#requireOne(split)
    const output = this.#ownBuffer("row of all", step.input.buffer, step.input.columns)
    return [{ op: "gather", part: this.#part(step.input), output }, from(output)]
  }

  #quantize(step: Extract<StepOp, { op: "quantize" }>): StepOp {
    const { input, output } = step
    const split = this.#splitOf(input)
    if (split) {
      this.#requireOne(split)
      this.#requireGroups(output.columns, output.group)
      this.#splits.set(output.codes, split)
    } else this.#splits.delete(output.codes)
    return { ...step, input: this.#same(input, split), output: this.#codes(output, split) }
  }

  #matmul(step: Extract<StepOp, { op: "matmul" }>, index: number): StepOp[] {
    const { input, weight, bias, epilogue, output } = step
    const split =
      input.kind === "float" ? this.#splitOf(input.view) : this.#splits.get(input.codes.codes)
    const own: typeof input =
      input.kind === "float"
        ? { kind: "float", view: this.#same(input.view, split) }
        : { kind: "int8", codes: this.#codes(input.codes, split) }
    if (split && this.#readers(output, index).some(isOfHeads)) throw new WantedWhole(split.madeBy)
    if (split) return this.#partial({ ...step, input: own }, split)
    const segments = epilogue.kind === "add" ? undefined : this.#segmentsFor(output, index)
    const made = segments && { segments, madeBy: new Set([index]) }
    const rows = made && epilogue.kind === "gated" ? { segments: [...segments, ...segments] } : made
    return [
      {
        ...step,
        input: own,
        weight: this.#parameter(weight, rows),
        bias: bias === undefined ? undefined : this.#parameter(bias, rows),
        epilogue:
          epilogue.kind === "add" ? { kind: "add", to: this.#wholeView(epilogue.to) } : epilogue,
        output: this.#made(output, made),
      },
    ]
  }

  /** A product of which every shard has some columns of its sums. */
  #partial(step: Extract<StepOp, { op: "matmul" }>, split: Split): StepOp[] {
    const { weight, bias, epilogue, output, parts } = step
    if (epilogue.kind === "gated") throw new WantedWhole(split.madeBy)
    this.#requireOne(split)
    const { columns, codec } = this.#plan.parameters[weight]!
    this.#requireGroups(columns, isGroupCodec(codec) ? groupCodecs[codec].group : 32)
    if (parts !== 8) throw new Error(`internal: shards of a sum in ${parts} parts`)
    const shards = this.#shards
    const part = this.#ownBuffer("partial", output.buffer, output.columns)
    const partials = this.#ownBuffer("partials", output.buffer, output.columns * shards)
    const to = epilogue.kind === "add" ? this.#wholeView(epilogue.to) : undefined
    return [
      {
        ...step,
        weight: this.#parameterOf(weight, { kind: "columns" }),
        bias: undefined,
        parts: (8 / shards) as 1 | 2 | 4,
        epilogue: { kind: "store" },
        output: part,
      },
      { op: "gather", part, output: partials },
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

  #attend(step: Extract<StepOp, { op: "attend" }>): StepOp {
    const { query, attention, sinkLogits, output } = step
    const shards = this.#shards
    const own = this.#heads(query)
    const { segments, madeBy } = this.#splitOf(query)!
    return {
      ...step,
      query: own,
      attention: {
        ...attention,
        heads: attention.heads / shards,
        kvHeads: attention.kvHeads / shards,
      },
      sinkLogits:
        sinkLogits === undefined
          ? undefined
          : this.#parameter(sinkLogits, { segments: [attention.heads] }),
      output: this.#made(output, { segments, madeBy }),
    }
  }

  #twoOf(step: Extract<StepOp, { op: "add" | "multiply" }>): StepOp {
    const [a, b] = [this.#splitOf(step.a), this.#splitOf(step.b)]
    const isOne = step.b.columns === 1 && step.a.columns > 1
    const isAlike = String(a?.segments) === String(b?.segments)
    if ((a || b) && !(isOne ? !b : isAlike))
      throw new WantedWhole(new Set([...(a?.madeBy ?? []), ...(b?.madeBy ?? [])]))
    const split = a && { ...a, madeBy: new Set([...a.madeBy, ...(b?.madeBy ?? [])]) }
    return {
      ...step,
      a: this.#same(step.a, a),
      b: this.#same(step.b, b),
      output: this.#made(step.output, split),
    }
  }

  /** Heads of queries, of keys or of values, of which each shard has some. */
  #heads(view: View): View {
    const split = this.#splitOf(view)
    if (split?.segments.length !== 1)
      throw refuse(this.#shards, "something in its attention is computed of all heads together")
    return this.#part(view)
  }

  /** How the columns that a product makes are split: by whatever is read of them. Undefined: they are not. */
  #segmentsFor(output: View, index: number): number[] | undefined {
    const { buffers, logits, hidden } = this.#plan
    const { buffer, columns } = output
    if (this.#whole.has(index) || columns !== buffers[buffer]!.columns) return undefined
    const results = this.#lastWith(buffer, index) === Infinity ? [logits, hidden] : []
    const read = [...this.#readers(output, index).flatMap(viewsRead), ...results]
    const bounds = new Set([columns])
    for (const view of read)
      if (view.buffer === buffer) bounds.add(view.from).add(view.from + view.columns)
    const ends = [...bounds].filter((bound) => bound > 0).sort((a, b) => a - b)
    const segments = ends.map((end, i) => end - (ends[i - 1] ?? 0))
    return segments.every((length) => length % this.#shards === 0) ? segments : undefined
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

  /** How a view's columns are split, if they are. */
  #splitOf({ buffer, from, columns }: View): Split | undefined {
    const split = this.#splits.get(buffer)
    if (!split) return undefined
    let at = 0
    const segments = split.segments.filter((length) => {
      const begin = at
      at += length
      return begin >= from && at <= from + columns
    })
    if (segments.reduce((sum, length) => sum + length, 0) !== columns)
      throw new WantedWhole(split.madeBy)
    return { segments, madeBy: split.madeBy }
  }

  #requireOne({ segments, madeBy }: Split): void {
    if (segments.length > 1) throw new WantedWhole(madeBy)
  }

  /** That a shard's part of each segment has whole heads. */
  #requireWholes({ segments, madeBy }: Split, width: number): void {
    if (segments.some((length) => length % (this.#shards * width) !== 0))
      throw new WantedWhole(madeBy)
  }

  #requireGroups(columns: number, group: number): void {
    if (columns % (this.#shards * group) === 0) return
    throw refuse(
      this.#shards,
      `${columns} columns of a product have no ${this.#shards} equal parts of whole groups of ${group}`,
    )
  }

  /** A view of what has been made. */
  #same(view: View, split: Split | undefined): View {
    return split ? this.#part(view) : this.#wholeView(view)
  }

  /** What lies in a view from now on. Of a buffer that is split, a step in place may do some columns. */
  #made(view: View, split?: Split): View {
    if (!split) this.#splits.delete(view.buffer)
    else if (view.columns === this.#plan.buffers[view.buffer]!.columns)
      this.#splits.set(view.buffer, split)
    else if (String(this.#splitOf(view)?.segments) !== String(split.segments))
      throw new WantedWhole(split.madeBy)
    return this.#same(view, split)
  }

  #part({ buffer, from, columns }: View): View {
    const own = this.#buffer(buffer, true)
    return { buffer: own, from: from / this.#shards, columns: columns / this.#shards }
  }

  #wholeView(view: View): View {
    if (this.#splits.has(view.buffer)) throw new WantedWhole(this.#splits.get(view.buffer)!.madeBy)
    return { ...view, buffer: this.#buffer(view.buffer, false) }
  }

  #codes(codes: Codes, split: Split | undefined): Codes {
    return {
      ...codes,
      codes: this.#buffer(codes.codes, split !== undefined),
      scales: this.#buffer(codes.scales, split !== undefined),
      columns: split ? codes.columns / this.#shards : codes.columns,
    }
  }

  /** A buffer of the whole plan's, or one for a shard's part of what lies in it. */
  #buffer(id: BufferId, isPart: boolean): BufferId {
    const { columns, ...buffer } = this.#plan.buffers[id]!
    const own = isPart ? columns / this.#shards : columns
    return this.#bufferOf(`${id} ${isPart}`, { ...buffer, columns: own })
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

  /** A parameter, whole or with a part of its rows. */
  #parameter(id: ParameterId, split?: Pick<Split, "segments">): ParameterId {
    return this.#parameterOf(
      id,
      split ? { kind: "rows", segments: split.segments } : { kind: "whole" },
    )
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

/** Whether a step takes heads by themselves, of which a shard has whole ones. */
function isOfHeads(step: Step): boolean {
  if (step.op === "norm") return step.width < step.input.columns
  return step.op === "rope" || step.op === "storeKv" || step.op === "attend"
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
    case "reorder":
    case "copy":
    case "select":
      return [step.input]
    case "rope":
      return [step.view, step.ropeTable]
    case "matmul": {
      const input = step.input.kind === "float" ? [step.input.view] : []
      return step.epilogue.kind === "add" ? [...input, step.epilogue.to] : input
    }
    case "storeKv":
      return step.value ? [step.key, step.value] : [step.key]
    case "attend":
      return [step.query]
    case "add":
    case "multiply":
      return [step.a, step.b]
    default:
      return []
  }
}
