// What a plan does to each row by itself, as kernels: one work-group a row, and one kernel for as many neighbours as `runs`
// joins. Each operation is a fragment: it says which columns its threads touch, and writes its statements. Where a fragment
// touches what another thread has written, or writes what another has read, a barrier comes first. A group beyond the last row
// passes the barriers and does nothing between them: compilers copy what follows a barrier that may be skipped, some wrongly.
//
// All that layers share is a constant of the kernel, widths and places in a row included; which buffers and weights, operands
// say. So layers of one shape have one kernel.
//
// A product of so few columns that one group of threads has them all may stand in a run, where rows are few.
//
// Of one row a run may keep it among keys and values, and convolve it behind a barrier with what earlier steps have kept; and a run
// before the delta rule makes the units of that.
//
// A run behind attention first merges the softmaxes of its rows' spans, where any wait: some heads are a group's, and so are their
// columns in all of the run. Of many rows attention merges them itself, with more groups than a run has.

import { isWideCodec } from "../../../../runtime/format.ts"
import { NO_ITEM } from "../../../../runtime/gpu/attention-work.ts"
import { operandLayout } from "../../../../runtime/gpu/device.ts"
import { DRAWN, RESULT_WORDS, type Region, resultWord } from "../../../../runtime/gpu/regions.ts"
import { BLOCK, SEEN } from "../../../../runtime/program.ts"
import type { RowSet } from "../../../../runtime/step-rows.ts"
import { elementwise } from "../../../graph/elementwise.ts"
import { type EmbeddedBy, NOWHERE } from "../../../graph/graph.ts"
import {
  type BufferId,
  type Codes,
  type ParameterId,
  type Place,
  type Plan,
  type Step,
  type View,
  wideCodes,
} from "../../../plan.ts"
import type { RowStep } from "../../runs.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  type Operable,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import type { Access, Element } from "../ir/ir.ts"
import { type Binding, type Choice, type Launch, OPERAND_BYTES } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import { type Attend, type Waiting, waitingOf } from "./attend.ts"
import { codedGroup, coding, sizeBits, wideGroup } from "./codes.ts"
import { type DeltaStep, unitsBinding, writeUnits } from "./delta.ts"
import { pairsOf, type Sums, sumsOf } from "./experts.ts"
import {
  type KvLayout,
  keyIndex,
  kvElements,
  kvLayout,
  kvReads,
  readKey,
  type Spot,
  scaleIndex,
  valueIndex,
} from "./kv.ts"
import { MERGE_THREADS, Merge, MOST_MERGED, workOf } from "./merge.ts"
import { inTurns, LaneSums, nearestBrain, type Term, turnedPair } from "./numbers.ts"
import { addFloats, groupsAhead, groupsOfPart, PARTS, sumOfTree } from "./products.ts"
import { NONE, type RowPairs, route } from "./route.ts"
import type { Units } from "./tiles.ts"
import { columnValue, type Weight, weightBindings, weightBuffers, weightRow } from "./weights.ts"

/** Of one thread, so that they are under way together. */
const COLUMNS_AT_ONCE = 8

/** What a run becomes, and behind attention whose softmaxes it can merge (`Pieces`) what it becomes of few rows. */
export function rowChoices(plan: Plan, run: readonly RowStep[], pieces?: Pieces): Choice[] {
  const plain: Choice = { most: undefined, launches: rowLaunches(plan, run) }
  return pieces
    ? [{ most: MOST_MERGED, launches: [rowLaunch(plan, run, { pieces })] }, plain]
    : [plain]
}

/** One launch, or several where one has not operands enough. The first adds up what experts have made, where the run reads that. */
export function rowLaunches(plan: Plan, run: readonly RowStep[]): Launch[] {
  return launchesOf(plan, run, { sums: sumsOf(plan, run) })
}

/**
 * The same as one launch, which may keep what it convolves where there is no more than one row, and makes the units of the delta rule
 * that stands behind it, if one does.
 * @returns undefined: it has not operands enough, or cannot see what it has just kept
 */
export function wholeLaunch(
  plan: Plan,
  run: readonly RunStep[],
  delta?: DeltaStep,
): Launch | undefined {
  if (rereads(run) && !["f32", "f16"].includes(plan.kv)) return undefined // of others, it reads other elements
  const launch = rowLaunch(plan, run, { sums: sumsOf(plan, run) }, delta)
  return operandBytes(launch) <= OPERAND_BYTES ? launch : undefined
}

/** A step of a run, or a product that may stand in one. */
type RunStep = RowStep | NarrowProduct
type NarrowProduct = Extract<Step, { op: "matmul" }> & { input: { kind: "float" } }

/** Whether a product of floats has no more columns than a group of threads, which then sums as it would by itself. */
export function isNarrow({ parameters }: Plan, step: Step): step is NarrowProduct {
  if (step.op !== "matmul" || step.input.kind !== "float" || step.epilogue.kind !== "store")
    return false
  return step.output.columns <= PANEL && parameters[step.weight]!.codec === "f32"
}

/** It convolves what it keeps. */
const rereads = (run: readonly RunStep[]) =>
  run.some(({ op }) => op === "storeKv") && run.some(({ op }) => op === "convolve")

/** The same as a launch that may stand beside a product's: rows lie along the second axis, and it has as many threads. */
export function rowsBeside(plan: Plan, run: readonly RowStep[]): Launch {
  return rowLaunch(plan, run, { threadsBeside: PARTS * PANEL })
}

export const operandBytes = ({ kernel }: Launch) =>
  operandLayout(kernel.operands.map(({ kind }) => kind)).bytes

function launchesOf(plan: Plan, run: readonly RowStep[], first: First): Launch[] {
  const launch = rowLaunch(plan, run, first)
  if (operandBytes(launch) <= OPERAND_BYTES) return [launch]
  if (run.length === 1) throw new Error(`internal: ${run[0]!.op} has too many operands`)
  const half = Math.ceil(run.length / 2)
  return [
    ...launchesOf(plan, run.slice(0, half), first),
    ...launchesOf(plan, run.slice(half), { sums: undefined }),
  ]
}

/** What a kernel does before its run, or beside what. */
type First = { pieces: Pieces } | { sums: Sums | undefined } | { threadsBeside: number }

function rowLaunch(plan: Plan, run: readonly RunStep[], before: First, delta?: DeltaStep): Launch {
  const { rows } = run[0]!
  const touches = run.map((step) => fragmentOf(step).touches(step))
  const pieces = "pieces" in before ? before.pieces : undefined
  const sums = "sums" in before ? before.sums : undefined
  const threadsBeside = "threadsBeside" in before ? before.threadsBeside : undefined
  const merged = pieces ? [writes(pieces.attend.output, "any")] : []
  const summed = sums ? [writes(sums.output)] : []
  const behind = delta
    ? [delta.input, ...(delta.delta.given ? [] : [delta.decays])].map((view) => reads(view, "any"))
    : []
  const operands: Binding[] = []
  const name = pieces
    ? `merge${pieces.heads}_${nameOf(run)}`
    : sums
      ? nameOf(run).replace("rows", `rows_sum${sums.active}`)
      : nameOf(run)
  const sumsAtOnce = run.map((step) =>
    step.op === "matmul" ? step.output.columns * step.parts : 1,
  )
  const ownThreads = () =>
    Math.max(threadsFor([...touches.flat(), ...behind]), threadsOf(Math.max(...sumsAtOnce)))
  const threads = pieces?.threads ?? threadsBeside ?? ownThreads()
  const made = kernel(delta ? `${name}_units` : name, threads, (k) => {
    const all = [...merged, ...summed, ...touches.flat(), ...behind]
    const row = k.group(threadsBeside ? 1 : 0)
    const fragments = new Fragments(k, plan, run, all, operands, { pieces, row })
    if (pieces) fragments.merge(merged, pieces)
    if (sums) fragments.addUp(summed, sums)
    for (const [i, step] of run.entries()) fragments.add(touches[i]!, fragmentOf(step), step)
    fragments.finish()
    if (delta) fragments.addUnits(delta)
  })
  const axes = [{ rows, per: 1 }, pieces?.count ?? 1] as const
  const groups = threadsBeside ? ([1, axes[0], 1] as const) : ([...axes, 1] as const)
  return { kernel: made, operands, groups }
}

// ------------------------------------------------------------------ behind attention

/** A group has as many columns at least, where there are so many, and of heads that have fewer at most so many. */
const PIECE = 512
const MOST_HEADS = 16
/** Heads that a group merges at a time. */
const MERGED_AT_ONCE = 4

/** How a run behind attention is cut, to merge before anything else: so many pieces, of so many heads' columns or what is left. */
export interface Pieces {
  attend: Attend
  waiting: Waiting
  count: number
  heads: number
  threads: number
}

/**
 * @param attend the step before the run
 * @param units as attention's choices are made for
 * @returns undefined: the run looks at other columns than attention's, or cannot be cut into so many pieces as take the time of one
 */
export function piecesOf(
  plan: Plan,
  attend: Attend,
  run: readonly RowStep[],
  units: readonly Units[],
): Pieces | undefined {
  const { output, rows, attention } = attend
  const { columns } = output
  if (sumsOf(plan, run)) return undefined
  const groups: number[] = []
  for (const step of run) {
    if (step.rows !== rows) return undefined
    if (step.op === "quantize") groups.push(step.output.group)
    else if (!byColumn.has(step.op)) return undefined
  }
  const touches = [writes(output), ...run.flatMap((step) => fragmentOf(step).touches(step))]
  const widths = touches.filter(({ view }) => plan.buffers[view.buffer]!.dtype === "f32")
  if (widths.some(({ view }) => view.columns !== columns)) return undefined
  // What one group writes no other touches.
  for (const { view, writes } of widths)
    for (const { view: other } of writes ? widths : [])
      if (view.buffer === other.buffer && view.from !== other.from) return undefined
  const ofHead = columns / attention.heads
  const isWhole = (heads: number) => groups.every((group) => (heads * ofHead) % group === 0)
  let heads = Math.min(attention.heads, Math.ceil(PIECE / ofHead))
  while (heads < attention.heads && !isWhole(heads)) heads++
  if (heads > MOST_HEADS && columns > PIECE) return undefined
  const atOnce = heads < 2 ? 1 : heads < MERGED_AT_ONCE ? 2 : MERGED_AT_ONCE
  const count = Math.ceil(attention.heads / heads)
  const waiting = waitingOf(plan, attend, units)
  return { attend, waiting, heads, count, threads: atOnce * MERGE_THREADS }
}

/** Each column of what these write is made of the same one of what they read. */
export const byColumn: ReadonlySet<RowStep["op"]> = new Set([
  "add",
  "apply",
  "copy",
  "multiply",
  "weigh",
  "bound",
] as const)

/** The operations in order; those of one name that follow each other count once. */
function nameOf(run: readonly RunStep[]): string {
  const ops = run.map(({ op }) => op)
  return `rows_${ops.filter((op, i) => op !== ops[i - 1]).join("_")}`
}

/** Short rows have nothing to do for many threads. */
const threadsOf = (sums: number) => (sums <= 64 ? 64 : sums <= 128 ? 128 : 256)

function threadsFor(touches: readonly Touch[]): number {
  const widest = Math.max(...touches.map(({ view }) => view.columns))
  return widest <= 256 ? 64 : widest <= 1024 ? 128 : 256
}

// ------------------------------------------------------------------ what fragments are written with

/** Columns that a fragment reads or writes. */
export interface Touch {
  view: View
  writes: boolean
  /** "column": column i of the view is touched by thread i mod threads alone. "any": by whichever. */
  by: "column" | "any"
  /** The fragment has a barrier of its own behind this. */
  ahead?: boolean
  /** In another row than its own, which nobody writes. */
  elsewhere?: boolean
}

export const reads = (view: View, by: Touch["by"] = "column"): Touch => ({
  view,
  writes: false,
  by,
})
export const writes = (view: View, by: Touch["by"] = "column"): Touch => ({
  view,
  writes: true,
  by,
})

/** Some columns of a row. */
export interface Cells {
  load: (column: Operable) => Value
  /** So many fours of columns, the first of them a multiple of four in the row. */
  loadFours: (column: Operable, count: number) => Value[]
  store: (column: Operable, value: Operable) => void
}

export class Fragments {
  readonly k: Builder
  readonly plan: Plan
  readonly sums: LaneSums
  readonly #row: Value
  readonly #rows: RowSet
  /** It convolves what it keeps. */
  readonly #rereads: boolean
  readonly #pieces: Pieces | undefined
  readonly #isThere: Value
  #token: Value | undefined // of this section
  readonly #operands: Binding[]
  readonly #named = new Map<string, Elements>()
  readonly #accesses: ReadonlyMap<BufferId, Access>
  readonly #begins: ReadonlyMap<BufferId, Value> // where the row begins
  #pending: Touch[] = [] // since the last barrier
  #section: (() => void)[] = [] // what is to be written for the row before the next barrier

  constructor(
    k: Builder,
    plan: Plan,
    run: readonly RunStep[],
    touches: readonly Touch[],
    operands: Binding[],
    { pieces, row = k.group(0) }: { pieces?: Pieces | undefined; row?: Value } = {},
  ) {
    const { rows } = run[0]!
    this.k = k
    this.plan = plan
    this.#rows = rows
    this.#rereads = rereads(run)
    this.#pieces = pieces
    this.#operands = operands
    const accesses = new Map<BufferId, Access>()
    for (const { view, writes } of touches) {
      const access = writes ? "write" : "read"
      const before = accesses.get(view.buffer) ?? access
      accesses.set(view.buffer, before === access ? access : "readwrite")
    }
    this.#accesses = accesses
    this.#row = row
    this.#isThere = k.let(this.#row.lt(this.region({ name: "count", of: rows }).load(0)))
    this.sums = new LaneSums(k, this.#isThere)
    const begins = Array.from(accesses.keys(), (buffer): [BufferId, Value] => [
      buffer,
      k.let(this.#row.mul(this.#stride(buffer))),
    ])
    this.#begins = new Map(begins)
  }

  /** Writes a fragment behind the others, and a barrier before it where it needs one. */
  add<S extends RunStep>(touches: readonly Touch[], fragment: Fragment<S>, step: S): void {
    const own = touches.filter(({ elsewhere }) => !elsewhere)
    const isDisturbed = own.some((touch) =>
      this.#pending.some((before) => this.#conflict(before, touch)),
    )
    if (isDisturbed || (step.op === "convolve" && this.#rereads)) this.#meet()
    if (fragment.hasBarriers?.(this.plan)) {
      this.finish()
      fragment.write(this, step)
      this.#pending = []
    } else this.#section.push(() => fragment.write(this, step))
    this.#pending.push(...own.filter(({ ahead }) => !ahead))
  }

  #meet(): void {
    this.finish()
    this.k.barrier()
    this.sums.passBarrier()
    this.#pending = []
  }

  /** What the delta rule's kernel finds made of the row's token, behind all else. */
  addUnits(step: DeltaStep): void {
    this.#meet()
    const { decay, bias } = step
    writeUnits(this.k, this.plan, step, {
      ...{ token: this.#row, isThere: this.#isThere, sums: this.sums },
      input: this.cells(step.input).load,
      states:
        decay === undefined || bias === undefined
          ? undefined
          : {
              decays: this.cells(step.decays).load,
              ...{ decay: this.#vector(decay), bias: this.#vector(bias) },
            },
      units: this.#operand("units", unitsBinding(this.plan, step), "f32", "write", "units"),
    })
  }

  /** What attention has left of the piece's heads, made to one, where it has not been. */
  merge(touches: readonly Touch[], { attend, waiting: left, heads }: Pieces): void {
    const { k } = this
    const { of, items, partials, heads: all, values } = left
    const out = this.cells(attend.output)
    const waiting = this.region({ name: "waiting", of })
    const work = this.#operand("items", items, "u32", "read", "items")
    const merge = new Merge(k, values, this.#operand("partials", partials, "f32", "read"))
    const item = k.variable(u32(NO_ITEM))
    this.ifThere(() => item.set(waiting.load(this.#row)))
    const atOnce = k.threads / MERGE_THREADS
    const number = k.let(k.lane.div(MERGE_THREADS))
    const firstHead = k.let(k.group(1).mul(heads))
    const last = k.let(firstHead.add(heads - 1).min(all - 1))
    // Barriers stand under no condition: a loop has turns, or none.
    const end = select(item.now.ne(NO_ITEM), last.add(1), firstHead)
    k.for(firstHead, end, atOnce, (first) => {
      const own = k.let(first.add(number))
      // Who has no head of its own helps with the last one's for nothing, since all come to the barriers.
      const head = k.let(own.min(last))
      const { row, ...found } = workOf(work, item.now)
      merge.head({ ...found, r: this.#row.sub(row), heads: all, head }, (column, value) =>
        k.if(own.le(last), () => out.store(head.mul(values).add(column), value)),
      )
    })
    this.#pending = [...touches]
  }

  /** What the pairs of the row have made, each times its share, in the order of experts. */
  addUp(touches: readonly Touch[], { output, active, madeStride, ...from }: Sums): void {
    const { k } = this
    const out = this.cells(output)
    const experts = this.#operand("experts", from.experts, "u32", "read", "experts")
    const shares = this.#operand("shares", from.shares, "f32", "read", "shares")
    const made = this.#operand("made", from.made, "f32", "read", "made")
    this.#section.push(() => {
      const first = k.let(this.#row.mul(active))
      const pairs = Array.from({ length: active }, (_, i) => {
        const pair = k.let(first.add(i))
        const isThere = k.let(experts.load(pair).ne(NONE))
        return { isThere, share: shares.load(pair), from: k.let(pair.mul(madeStride)) }
      })
      this.eachColumn(output.columns, (column) => {
        // Where there is no pair nobody has made anything. What all have made is under way together.
        const values = pairs.map(({ isThere, from }) => {
          const value = k.variable(f32(0))
          k.if(isThere, () => value.set(made.load(from.add(column))))
          return value.now
        })
        return () => {
          const sum = pairs.reduce<Value>(
            (sum, { isThere, share }, i) =>
              k.let(select(isThere, fma(share, values[i]!, sum), sum)),
            f32(0),
          )
          out.store(column, sum)
        }
      })
    })
    this.#pending.push(...touches)
  }

  /** Writes what has been held back, to stand under one condition. */
  finish(): void {
    const section = this.#section
    this.#section = []
    if (section.length > 0)
      this.ifThere(() => {
        for (const write of section) write()
      })
  }

  /** What is done where there is a row; with no barrier in it. */
  ifThere(write: () => void): void {
    this.#token = undefined
    this.k.if(this.#isThere, write)
  }

  /** What the row stands for. Asked where there is one. */
  get token(): Value {
    const rows = this.#rows
    if (rows === "tokens") return this.#row
    this.#token ??= this.region({ name: "tokensOf", set: rows }).load(this.#row)
    return this.#token
  }

  /** Each thread takes every `threads`th of the group's columns. `load` reads all that it needs, and returns what stores. */
  eachColumn(count: number, load: (column: Value) => () => void): void {
    const { k } = this
    const { most, first } = this.#ofPiece(count)
    inTurns(k, k.lane, { count: most, step: k.threads, most: COLUMNS_AT_ONCE }, (columns) => {
      if (first) for (const i of columns) this.#ifBelow(count, i.add(first), (i) => load(i)())
      else for (const store of columns.map(load)) store()
    })
  }

  /** The same, of what is not columns. */
  each(count: number, body: (number: Value) => void): void {
    const { most, first } = this.#ofPiece(count)
    this.k.each(most, (i) => (first ? this.#ifBelow(count, i.add(first), body) : body(i)))
  }

  /** Whether the group has what is last of a row. */
  get hasEnd(): Value | undefined {
    return this.#pieces && this.k.group(1).eq(this.#pieces.count - 1)
  }

  /** Of `count` things of the row, how many a group has at most, and the first of them; absent: it has them all. */
  #ofPiece(count: number): { most: number; first?: Value } {
    if (!this.#pieces || this.#pieces.count === 1) return { most: count }
    const { heads, attend } = this.#pieces
    const most = Math.floor((count * heads) / attend.attention.heads)
    return { most, first: this.k.let(this.k.group(1).mul(most)) }
  }

  #ifBelow(count: number, i: Value, body: (i: Value) => void): void {
    const { k } = this
    const own = k.let(i)
    k.if(own.lt(count), () => body(own))
  }

  #conflict(before: Touch, after: Touch): boolean {
    const [a, b] = [before.view, after.view]
    const overlap =
      a.buffer === b.buffer && a.from < b.from + b.columns && b.from < a.from + a.columns
    if (!overlap || !(before.writes || after.writes)) return false
    const bySame = before.by === "column" && after.by === "column"
    return !(bySame && (a.from - b.from) % this.k.threads === 0)
  }

  #stride(buffer: BufferId): number {
    const words = this.plan.buffers[buffer]!.dtype === "i8" ? 4 : 1
    return strideOf(this.plan.buffers[buffer]!) / words
  }

  /** Columns of the row, or of another one. Codes are words of four. */
  cells({ buffer, from }: View, row = this.#row): Cells {
    const { k } = this
    const { dtype } = this.plan.buffers[buffer]!
    const elements = this.#operand(
      `${dtype} ${buffer}`,
      { kind: "buffer", buffer, from: 0 },
      dtype === "i8" ? "u32" : "f32",
      this.#accesses.get(buffer)!,
    )
    const begin =
      row === this.#row ? this.#begins.get(buffer)! : k.let(row.mul(this.#stride(buffer)))
    const first = from === 0 ? begin : k.let(begin.add(from))
    return {
      load: (column) => elements.load(first.add(column)),
      loadFours: (column, count) => {
        const four = k.let(first.add(column).div(4))
        return Array.from({ length: count }, (_, i) => elements.loadFour(four.add(i))).flat()
      },
      store: (column, value) => elements.store(first.add(column), value),
    }
  }

  region(region: Region, element: "u32" | "f32" = "u32"): Elements {
    const binding = { kind: "step", region } as const
    return this.#operand(JSON.stringify(region), binding, element, "read", region.name)
  }

  /** A parameter of one column. */
  vector(parameter: ParameterId): (i: Value) => Value {
    const elements = this.#vector(parameter)
    return (i) => elements.load(i)
  }

  #vector(parameter: ParameterId): Elements {
    const binding = { kind: "weight", parameter, part: "values" } as const
    return this.#operand(`vector ${parameter}`, binding, "f32", "read", "vector")
  }

  /** A row of a matrix, number by number. */
  rowOf(matrix: ParameterId, row: Value): (column: Value) => Value {
    const own = weightRow(this.k, this.matrix(matrix), row)
    return (column) => columnValue(this.k, own, column)
  }

  matrix(parameter: ParameterId): Weight {
    const { k, plan } = this
    const { codec, columns } = plan.parameters[parameter]!
    const parts = weightBuffers(k, codec, `table${this.#operands.length}`)
    this.#operands.push(...weightBindings(plan, parameter))
    return { codec, columns: u32(columns), ...parts }
  }

  /** A layer's keys and values, or their scales. */
  kv(place: Place, element: Element, only: Access = "write"): Elements {
    const access = this.#rereads ? "readwrite" : only
    const key = `kv ${access} ${element} ${JSON.stringify(place)}`
    return this.#operand(key, { kind: "kv", place }, element, access, `kv ${element}`)
  }

  /** Where the pairs of a row and its experts go. */
  pairs(route: Of<"route">): RowPairs | undefined {
    const made = pairsOf(this.plan, route)
    if (!made) return undefined
    const { active } = made
    const experts = this.#operand("experts", made.experts, "u32", "write", "experts")
    const shares = this.#operand("shares", made.shares, "f32", "write", "shares")
    const first = this.k.let(this.#row.mul(active))
    const store = (place: Value, expert: Operable, share: Operable) => {
      experts.store(first.add(place), expert)
      shares.store(first.add(place), share)
    }
    return { active, store }
  }

  #operand(
    key: string,
    binding: Binding,
    element: Element,
    access: Access,
    name = "row",
  ): Elements {
    const known = this.#named.get(key)
    if (known) return known
    const elements = this.k.buffer(`${name}${this.#operands.length}`, element, access)
    this.#operands.push(binding)
    this.#named.set(key, elements)
    return elements
  }
}

// ------------------------------------------------------------------ fragments

interface Fragment<S extends RunStep> {
  touches(step: S): Touch[]
  /** It has barriers of its own, and says itself what is done only where there is a row. */
  hasBarriers?: (plan: Plan) => boolean
  write(to: Fragments, step: S): void
}

type Of<Op extends RowStep["op"]> = Extract<RowStep, { op: Op }>

export function fragmentOf(step: RunStep): Fragment<RunStep> {
  return step.op === "matmul" ? narrow : fragments[step.op]
}

/** One that computes each column of its output from the same column of its inputs. */
function columnwise<S extends RowStep & { output: View }>(
  inputs: (step: S) => readonly View[],
  of: (to: Fragments, step: S) => (column: Value, ...inputs: Value[]) => Value,
): Fragment<S> {
  return {
    touches: (step) => [...inputs(step).map((view) => reads(view)), writes(step.output)],
    write(to, step) {
      const [out, ins] = [to.cells(step.output), inputs(step).map((view) => to.cells(view))]
      const value = of(to, step)
      to.eachColumn(step.output.columns, (i) => {
        const own = value(i, ...ins.map(({ load }) => load(i)))
        return () => out.store(i, own)
      })
    },
  }
}

const fragments: { [Op in RowStep["op"]]: Fragment<Of<Op>> } = {
  embed: columnwise<Of<"embed">>(
    () => [],
    (to, { table, by, sees, instead }) => {
      const index = indexBy(to, by)
      if (sees) return rowOrSeen(to, table, index, sees)
      const own = instead === undefined ? index : select(index.ge(SEEN), u32(instead), index)
      return to.rowOf(table, to.k.let(own))
    },
  ),
  hiddenIn: columnwise<Of<"hiddenIn">>(
    () => [],
    (to, { output: { columns } }) => {
      const given = to.region({ name: "hiddenIn" }, "f32")
      const first = to.k.let(to.token.mul(columns))
      return (i) => given.load(first.add(i))
    },
  ),
  seenPart: columnwise<Of<"seenPart">>(
    () => [],
    (to, { taken, from }) => {
      const { k } = to
      const token = tokenAt(to)
      const given = to.region({ name: "hiddenIn" }, "f32")
      const isSeen = k.let(token.ge(SEEN))
      const first = k.let(
        token
          .and(SEEN - 1)
          .mul(taken)
          .add(from),
      )
      return (i) => {
        const value = k.variable(f32(0))
        k.if(isSeen, () => value.set(given.load(first.add(i))))
        return value.now
      }
    },
  ),
  ropeTable: columnwise<Of<"ropeTable">>(
    () => [],
    (to, { rotation, output: { columns } }) => {
      const turns = to.region({ name: "turns", rotation }, "f32")
      const first = to.k.let(to.token.mul(columns))
      return (i) => turns.load(first.add(i))
    },
  ),
  norm: {
    touches: ({ input, output, width }) => {
      const by = width === output.columns ? "column" : "any"
      return [{ ...reads(input, "any"), ahead: true }, reads(input, by), writes(output, by)]
    },
    hasBarriers: () => true,
    write: norm,
  },
  quantize: {
    touches: ({ input, output }) => [
      reads(input, "any"),
      writes({ buffer: output.codes, from: 0, columns: bytesOf(output) }, "any"),
      writes({ buffer: output.scales, from: 0, columns: groupsOf(output) }, "any"),
    ],
    write: quantize,
  },
  rope: {
    touches: ({ rows, view, ropeTable }) => [
      { ...reads(ropeTable, "any"), elsewhere: rows !== "tokens" },
      reads(view, "any"),
      writes(view, "any"),
    ],
    write(to, { view, headDim, ropeTable }) {
      const { k } = to
      const [x, table] = [to.cells(view), to.cells(ropeTable, to.token)]
      const half = ropeTable.columns / 2
      to.eachColumn((view.columns / headDim) * half, (pair) => {
        const i = k.let(pair.rem(half))
        const first = k.let(pair.div(half).mul(headDim).add(i))
        const [cos, sin] = [table.load(i), table.load(i.add(half))]
        const [a, b] = [x.load(first), x.load(first.add(half))]
        return () => {
          const [one, other] = turnedPair(a, b, cos, sin)
          x.store(first, one)
          x.store(first.add(half), other)
        }
      })
    },
  },
  storeKv: {
    touches: ({ key, value }) => [key, value].flatMap((view) => (view ? reads(view, "any") : [])),
    hasBarriers: ({ kv }) => kv === "q8",
    write: storeKv,
  },
  convolve: columnwise<Of<"convolve">>(
    () => [],
    (to, { taps, bias, count, ahead, place }) => {
      const { k, plan } = to
      const layout = kvLayout(plan.kv, plan.groups[place.group]!)
      const [weights, stored] = [to.vector(taps), to.kv(place, kvReads[layout.kv].element, "read")]
      const begin = bias === undefined ? () => f32(0) : to.vector(bias)
      const slots = to.region({ name: "lastSlots", group: place.group, count, ahead })
      const first = k.let(to.token.mul(count))
      const spots = Array.from({ length: count }, (_, tap) => slots.load(first.add(tap)))
      return (column) => {
        const [head, i] = [
          k.let(column.div(layout.headDim.key)),
          k.let(column.rem(layout.headDim.key)),
        ]
        const sum = k.variable(begin(column))
        for (const [tap, slot] of spots.entries())
          k.if(slot.ne(0xffffffff), () => {
            const spot = { block: k.let(slot.div(BLOCK)), head, position: k.let(slot.rem(BLOCK)) }
            const value = readKey(k, layout, stored, spot, i)
            sum.set(fma(weights(column.mul(count).add(tap)), value, sum.now))
          })
        return sum.now
      }
    },
  ),
  reduce: {
    touches: ({ partials, to, output }) => [
      reads(partials, "any"),
      ...(to ? [reads(to)] : []),
      writes(output),
    ],
    write(to, step) {
      const { columns } = step.output
      const [parts, out] = [to.cells(step.partials), to.cells(step.output)]
      const added = step.to && to.cells(step.to)
      const bias = step.bias === undefined ? undefined : to.vector(step.bias)
      to.eachColumn(columns, (i) => {
        const own = Array.from({ length: step.shards }, (_, shard) =>
          parts.load(i.add(shard * columns)),
        )
        const sum = sumOfTree(own)
        const biased = bias ? sum.add(bias(i)) : sum
        const whole = added ? added.load(i).add(biased) : biased
        return () => out.store(i, whole)
      })
    },
  },
  apply: columnwise<Of<"apply">>(
    ({ input }) => [input],
    ({ k }, step) =>
      (_, x) =>
        elementwise[step.function].gpu(k, x!, step.by ?? 0),
  ),
  add: columnwise<Of<"add">>(
    ({ a, b }) => [a, b],
    () => (_, a, b) => a!.add(b!),
  ),
  multiply: {
    touches: ({ a, b, output }) => [
      reads(a),
      reads(b, b.columns < a.columns ? "any" : "column"),
      writes(output),
    ],
    write(to, { a, b, output }) {
      const [x, y, out] = [to.cells(a), to.cells(b), to.cells(output)]
      const width = a.columns / b.columns
      const other = (i: Value) => (b.columns === 1 ? 0 : width === 1 ? i : i.div(width))
      to.eachColumn(output.columns, (i) => {
        const own = x.load(i).mul(y.load(other(i)))
        return () => out.store(i, own)
      })
    },
  },
  weigh: columnwise<Of<"weigh">>(
    ({ input }) => [input],
    (to, { weight }) => {
      const isOne = to.plan.parameters[weight]!.rows === 1
      const own = to.vector(weight)
      return (i, x) => x!.mul(own(isOne ? u32(0) : i))
    },
  ),
  bound: columnwise<Of<"bound">>(
    ({ input }) => [input],
    (to, { bounds }) => {
      const own = to.vector(bounds)
      const [least, most] = [own(u32(0)), own(u32(1))].map((each) => to.k.let(each)) as [
        Value,
        Value,
      ]
      return (_, x) => {
        const value = to.k.let(x!)
        const below = to.k.let(select(value.lt(most), value, most))
        return select(below.gt(least), below, least).add(value.mul(0))
      }
    },
  ),
  reorder: {
    touches: ({ input, output }) => [reads(input, "any"), writes(output)],
    write(to, { input, order, output }) {
      const [x, out, own] = [to.cells(input), to.cells(output), to.vector(order)]
      to.eachColumn(output.columns, (i) => {
        const place = to.k.let(own(i))
        const value = to.k.let(x.load(select(place.lt(0), f32(0), place).whole().bits("u32")))
        const there = select(place.lt(0), f32(NOWHERE), value)
        return () => out.store(i, there)
      })
    },
  },
  copy: columnwise<Of<"copy">>(
    ({ input }) => [input],
    () => (_, x) => x!,
  ),
  route: {
    touches: ({ input, output }) => [{ ...reads(input, "any"), ahead: true }, writes(output)],
    hasBarriers: () => true,
    write(to, step) {
      const { routing, input, bias, output } = step
      const [x, out] = [to.cells(input), to.cells(output)]
      route(to.k, routing, {
        experts: input.columns,
        bias: bias === undefined ? undefined : to.vector(bias),
        load: x.load,
        store: out.store,
        pairs: to.pairs(step),
        ifThere: (write) => to.ifThere(write),
      })
    },
  },
  select: {
    touches: ({ input, output }) => [{ ...reads(input), elsewhere: true }, writes(output)],
    write(to, { input, from, behind = 0, output }) {
      const first =
        from === "tokens" ? to.token : to.region({ name: "rowsInWanted" }).load(to.token)
      const row = behind ? to.k.let(first.add(behind)) : first
      const [x, out] = [to.cells(input, row), to.cells(output)]
      to.eachColumn(output.columns, (i) => {
        const own = x.load(i)
        return () => out.store(i, own)
      })
    },
  },
}

const narrow: Fragment<NarrowProduct> = {
  touches: ({ input, output }) => [{ ...reads(input.view, "any"), ahead: true }, writes(output)],
  hasBarriers: () => true,
  write: narrowProduct,
}

/** The row's token: told, or as it was drawn. Where there was none to draw, any will do: what comes of it is thrown away. */
function indexBy(to: Fragments, by: EmbeddedBy): Value {
  if (by === "token") return tokenAt(to)
  return to.region(regionBy(by)).load(to.token)
}

function regionBy(by: Exclude<EmbeddedBy, "token">): Region {
  if (by === "position") return { name: "positions" }
  return by === "adapter" ? { name: "adapters" } : { name: "places", of: by }
}

function tokenAt(to: Fragments): Value {
  const { k } = to
  const told = k.let(to.region({ name: "tokens" }).load(to.token))
  const drawn = to.region({ name: "drawn" })
  const token = k.variable(told)
  k.if(told.ge(DRAWN), () => {
    const row = k.let(told.sub(DRAWN).mul(RESULT_WORDS))
    const isThere = drawn.load(row.add(resultWord.isFinite)).ne(0)
    token.set(select(isThere, drawn.load(row.add(resultWord.token)), 0))
  })
  return token.now
}

/** A row of the table, or the first columns of the `taken` ones that are taken in for the token. */
function rowOrSeen(to: Fragments, table: ParameterId, token: Value, taken: number) {
  const { k } = to
  const given = to.region({ name: "hiddenIn" }, "f32")
  const isSeen = k.let(token.ge(SEEN))
  const own = to.rowOf(table, k.let(select(isSeen, u32(0), token)))
  const first = k.let(token.and(SEEN - 1).mul(taken))
  return (i: Value) => {
    const value = k.variable(f32(0))
    k.if(
      isSeen,
      () => value.set(given.load(first.add(i))),
      () => value.set(own(i)),
    )
    return value.now
  }
}

// ------------------------------------------------------------------ norms

function norm(to: Fragments, step: Of<"norm">): void {
  const { k, sums } = to
  const { width, output } = step
  const [out, own] = [to.cells(output), normed(to, step)]
  const storing = (begin: Value, value: (i: Value) => Value) => (i: Value) => {
    const now = value(i)
    return () => out.store(begin.add(i), now)
  }
  if (width === output.columns) {
    const value = own((term) => sums.sum(width, term), u32(0))
    to.ifThere(() => to.eachColumn(width, storing(u32(0), value)))
    return
  }
  const heads = output.columns / width
  const threads = LaneSums.threads(width) // of a head
  const atOnce = k.threads / threads
  const [number, thread] = [k.let(k.lane.div(threads)), k.let(k.lane.rem(threads))]
  const some = (first: Operable) => {
    const head = k.let(number.add(first))
    // Who has no head of its own helps with the last one's sum for nothing, since all come to the barriers.
    const begin = k.let(head.min(heads - 1).mul(width))
    const value = own((term) => sums.sums(width, term), begin)
    const turns = { count: width, step: threads, most: COLUMNS_AT_ONCE }
    const store = () =>
      inTurns(k, thread, turns, (columns) => {
        for (const stored of columns.map(storing(begin, value))) stored()
      })
    to.ifThere(() => (heads % atOnce === 0 ? store() : k.if(head.lt(heads), store)))
  }
  if (heads <= atOnce) some(0)
  else {
    sums.enterLoop()
    k.for(0, heads, atOnce, some)
  }
}

/** Of `width` columns from `begin` on, what each becomes; `sum` makes a sum over them. */
function normed(to: Fragments, { kind, input, weight, bias, epsilon, width }: Of<"norm">) {
  const { k } = to
  const x = to.cells(input)
  const weights = to.vector(weight)
  const biases = bias === undefined ? undefined : to.vector(bias)
  const isShared = to.plan.parameters[weight]!.rows === width // by all heads
  return (sum: (term: Term) => Value, begin: Value) => {
    const load = (i: Value) => x.load(begin.add(i))
    const mean =
      kind === "layer"
        ? k.let(
            sum((i) => {
              const own = load(i)
              return (before) => before.add(own)
            }).div(width),
          )
        : undefined
    const centred = (own: Value) => (mean ? k.let(own.sub(mean)) : own)
    const squares = sum((i) => {
      const own = load(i)
      return (before) => {
        const x = centred(own)
        return fma(x, x, before)
      }
    })
    const scale = k.let(f32(1).div(squares.div(width).add(epsilon).sqrt()))
    return (i: Value) => {
      const at = isShared ? i : begin.add(i)
      const [own, weight, bias] = [load(i), weights(at), biases?.(at)]
      const scaled = centred(own).mul(scale)
      return bias ? fma(scaled, weight, bias) : scaled.mul(weight)
    }
  }
}

// ------------------------------------------------------------------ narrow products

/** A part of a sum is a thread's. */
function narrowProduct(to: Fragments, step: NarrowProduct): void {
  const { k, plan } = to
  const { input, weight, bias, parts, output } = step
  const { codec } = plan.parameters[weight]!
  const outputs = output.columns
  const [x, out, matrix] = [to.cells(input.view), to.cells(output), to.matrix(weight)]
  const biases = bias === undefined ? undefined : to.vector(bias)
  const sums = k.shared("sums of parts", "f32", outputs * parts)
  const load = (column: Value, count: number) =>
    input.view.from % 4 === 0 && count % 4 === 0
      ? x.loadFours(column, count / 4)
      : Array.from({ length: count }, (_, i) => x.load(column.add(i)))
  to.ifThere(() =>
    k.each(outputs * parts, (i) => {
      const total = k.variable(f32(0))
      const range = groupsOfPart(k, { codec, parts }, matrix.columns, k.let(i.div(outputs)))
      const weights = [weightRow(k, matrix, k.let(i.rem(outputs)))]
      const work = { range, weights, totals: [[total]], atOnce: groupsAhead(codec, 1) }
      addFloats(k, codec, work, (_, column, count) => load(column, count))
      sums.store(i, total.now)
    }),
  )
  k.barrier()
  to.sums.passBarrier()
  to.ifThere(() =>
    to.eachColumn(outputs, (column) => {
      const own = Array.from({ length: parts }, (_, part) => sums.load(column.add(part * outputs)))
      const sum = sumOfTree(own)
      const biased = biases ? sum.add(biases(column)) : sum
      return () => out.store(column, biased)
    }),
  )
}

// ------------------------------------------------------------------ codes

const groupsOf = ({ columns, group }: Codes) => Math.ceil(columns / group)
const bytesOf = ({ columns, codec }: Codes) => (isWideCodec(codec) ? wideCodes(columns) : columns)

/** A group is a thread's, which needs nobody else for it. */
function quantize(to: Fragments, { input, output }: Of<"quantize">): void {
  const { k } = to
  const { columns, group } = output
  const x = to.cells(input)
  const wholeRow = { from: 0, columns }
  const codes = to.cells({ ...wholeRow, buffer: output.codes })
  const scales = to.cells({ ...wholeRow, buffer: output.scales })
  const store = (number: Value, scale: Value, first: Value, words: readonly Value[]) => {
    scales.store(number, scale)
    for (const [word, four] of words.entries()) codes.store(first.add(word), four)
  }
  const isWide = isWideCodec(output.codec)
  const write = (number: Value, values: readonly Value[], words: number) => {
    if (isWide) {
      const { scale, words } = wideGroup(k, values)
      store(number, scale, k.let(number.mul(wideCodes(group) / 4)), [
        ...words.upper,
        ...words.lower,
      ])
    } else {
      const own = codedGroup(k, values, words)
      store(number, own.scale, k.let(number.mul(group / 4)), own.words)
    }
  }
  const whole = Math.floor(columns / group)
  to.each(whole, (number) => {
    const first = k.let(number.mul(group))
    const values =
      input.from % 4 === 0
        ? x.loadFours(first, group / 4)
        : Array.from({ length: group }, (_, i) => x.load(first.add(i)))
    write(number, values, group / 4)
  })
  // What is left of a group, and the zeros behind the last column.
  const begin = whole * group
  const words = isWide
    ? columns - begin // its groups are whole
    : (strideOf(to.plan.buffers[output.codes]!) - begin) / 4
  const isLast = k.lane.eq(whole % k.threads)
  if (words > 0)
    k.if(to.hasEnd ? isLast.and(to.hasEnd) : isLast, () => {
      const values = Array.from({ length: columns - begin }, (_, i) => x.load(begin + i))
      if (values.length > 0) write(u32(whole), values, words)
      else for (let word = 0; word < words; word++) codes.store(begin / 4 + word, 0)
    })
}

// ------------------------------------------------------------------ keys and values

/** Those of a token, as kv.ts lays them out. */
function storeKv(to: Fragments, step: Of<"storeKv">): void {
  const layout = kvLayout(to.plan.kv, to.plan.groups[step.place.group]!)
  const { keyWidth, valueWidth, headDim } = layout
  const both: Stored[] = [{ of: "keys", view: step.key, dim: headDim.key, width: keyWidth }]
  if (step.value)
    both.push({ of: "values", view: step.value, dim: headDim.value, width: valueWidth })
  if (layout.kv === "q8") storeCodes(to, step, layout, both)
  else storeFloats(to, step, layout, both)
}

/** Keys or values. */
interface Stored {
  of: "keys" | "values"
  view: View
  dim: number
  /** With the zeros behind a head. */
  width: number
}

type StoreNumber = (head: Value, i: Value, number: (x: Value) => Value) => () => void

/** Loads number `i` of a head, and returns what stores it, or the 0 that stands behind a head's last one. */
function storing(
  to: Fragments,
  { place }: Of<"storeKv">,
  layout: KvLayout,
  spot: Omit<Spot, "head">,
  { of, view, dim, width }: Stored,
): StoreNumber {
  const [x, blocks] = [to.cells(view), to.kv(place, kvElements[layout.kv])]
  const indexOf = of === "keys" ? keyIndex : valueIndex
  return (head, i, number) => {
    const first = head.mul(dim)
    const own = x.load(first.add(dim === width ? i : i.min(dim - 1)))
    return () => {
      const index = indexOf(layout, { ...spot, head }, i)
      blocks.store(index, dim === width ? number(own) : select(i.lt(dim), number(own), 0))
    }
  }
}

/** Where the row's token is kept. */
function spotOf(to: Fragments, { place }: Of<"storeKv">): Omit<Spot, "head"> {
  const slot = to.region({ name: "slots", group: place.group }).load(to.token)
  return { block: to.k.let(slot.div(BLOCK)), position: to.k.let(slot.rem(BLOCK)) }
}

function storeFloats(
  to: Fragments,
  step: Of<"storeKv">,
  layout: KvLayout,
  both: readonly Stored[],
): void {
  const { k } = to
  const spot = spotOf(to, step)
  const stores = (x: Value) => (layout.kv === "bf16" ? nearestBrain(k, x) : x)
  for (const stored of both) {
    const store = storing(to, step, layout, spot, stored)
    to.eachColumn(layout.kvHeads * stored.width, (number) =>
      store(k.let(number.div(stored.width)), k.let(number.rem(stored.width)), stores),
    )
  }
}

const THREADS_OF_HEAD = 16

/** As `quantize` does, a head at a time. */
function storeCodes(
  to: Fragments,
  step: Of<"storeKv">,
  layout: KvLayout,
  both: readonly Stored[],
): void {
  const { k } = to
  const { kvHeads } = layout
  const [number, thread] = [k.let(k.lane.div(THREADS_OF_HEAD)), k.let(k.lane.rem(THREADS_OF_HEAD))]
  const turnsOf = (count: number) => ({ count, step: THREADS_OF_HEAD, most: COLUMNS_AT_ONCE })
  const sizes = both.map(({ of }) => k.shared(`sizes of ${of}`, "u32", k.threads))
  const some = (first: Operable) => {
    const head = k.let(number.add(first))
    for (const [at, { view, dim }] of both.entries()) {
      const begin = k.let(head.min(kvHeads - 1).mul(dim))
      const largest = k.variable(u32(0))
      to.ifThere(() =>
        inTurns(k, thread, turnsOf(dim), (numbers) => {
          const x = to.cells(view)
          const loaded = numbers.map((i) => x.load(begin.add(i)))
          for (const each of loaded) largest.set(largest.now.max(sizeBits(each)))
        }),
      )
      sizes[at]!.store(k.lane, largest.now)
    }
    k.barrier()
    const all = k.let(number.mul(THREADS_OF_HEAD))
    const codings = sizes.map((size) => {
      const each = Array.from({ length: THREADS_OF_HEAD }, (_, i) => size.load(all.add(i)))
      return coding(k, k.let(each.reduce((a, b) => a.max(b))))
    })
    const store = () => {
      const spot = spotOf(to, step)
      for (const [at, stored] of both.entries()) {
        const { scale, code, isSound } = codings[at]!
        const store = storing(to, step, layout, spot, stored)
        const codeOf = (x: Value) => select(isSound, code(x).bits("i32"), 0)
        inTurns(k, thread, turnsOf(stored.width), (numbers) => {
          for (const each of numbers.map((i) => store(head, i, codeOf))) each()
        })
        const place = scaleIndex(layout, stored.of, { ...spot, head })
        k.if(thread.eq(0), () => to.kv(step.place, "f32").store(place, scale))
      }
    }
    to.ifThere(() => k.if(head.lt(kvHeads), store))
  }
  const atOnce = k.threads / THREADS_OF_HEAD
  if (kvHeads <= atOnce) some(0)
  else
    k.for(0, kvHeads, atOnce, (first) => {
      some(first)
      k.barrier()
    })
}
