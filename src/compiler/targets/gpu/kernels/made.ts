// Rows that products make for themselves: what a run does to a row before products read it is done by each group of threads of
// these, and the run is no launch of its own. Every column is computed where it is asked for, by the fragments of rows.ts and so
// to the same bits; codes lie in shared memory. What others read later the groups of a product's first panel leave for them.
//
// All groups read what the run begins with, each in its own time, so nothing of the launch may write there. It pays where a product
// has few groups or rows are short: each group does for its 32 columns what one did for all.

import { isWideCodec } from "../../../../runtime/format.ts"
import { MOST_GIVEN } from "../../../lower.ts"
import type { Codes, Plan, Step, View } from "../../../plan.ts"
import { type RowStep, viewsRead } from "../../runs.ts"
import {
  type Builder,
  type Elements,
  f32,
  type Operable,
  select,
  u32,
  Value,
} from "../ir/builder.ts"
import type { Binding, Launch } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import { type Ending, type Matmul, madeKind, madeOperands } from "./matmul.ts"
import { turnedPair } from "./numbers.ts"
import { type MadeRow, madeProduct } from "./products.ts"
import { byColumn, type Cells, Fragments, fragmentOf, reads, type Touch, writes } from "./rows.ts"

/** Columns of a row whose codes find room in shared memory. */
const MOST_COLUMNS = 8192
/** Products of more groups, for each matrix that these read, make rows of up to so many columns alone. */
const FEW_GROUPS = 128
const SHORT = 3072
/** Products of more groups make none. */
const MOST_GROUPS = 1024
/** Floats are made by every thread that multiplies them: of routers, that is little. */
const MOST_OF_FLOATS = 16

/** What a product does of a run. */
export interface Making {
  steps: readonly RowStep[]
  /** What they begin with. */
  given: readonly View[]
  /** What others read later. */
  kept: readonly (View | Codes)[]
}

/** How the products behind a run make what they read of it, and what else the run does, for a launch beside them. */
export interface Makings {
  of: readonly Making[]
  others: readonly RowStep[]
}

/** @returns undefined: one of them cannot, or had better not */
export function makingsOf(
  plan: Plan,
  run: readonly RowStep[],
  products: readonly Matmul[],
): Makings | undefined {
  const found = products.map((product) => stepsFor(run, product))
  const of = found.filter((each) => each !== undefined)
  if (of.length < found.length || of.every(({ steps }) => steps.length === 0)) return undefined
  const made = new Set(of.flatMap(({ steps }) => steps))
  const others = run.filter((step) => !made.has(step))
  if (others.some((step) => readsMade(run, made, step))) return undefined
  const isRead = (step: RowStep) =>
    readersOf(plan, step).some((reader) => {
      if (reader === "host" || made.has(reader as RowStep)) return reader === "host"
      const product = products.find((each) => each === reader)
      return !product || readBesideInput(product).some((view) => meets(view, outputOf(step)!))
    })
  const keepers = new Map<RowStep, number>() // of what is kept, which product does so
  for (const [i, { steps }] of of.entries())
    for (const step of steps) if (!keepers.has(step) && isRead(step)) keepers.set(step, i)
  const keptBy = (product: number) =>
    [...keepers].flatMap(([step, by]) => (by === product ? [outputOf(step)!] : []))
  return { of: of.map((each, i) => ({ ...each, kept: keptBy(i) })), others }
}

/** Whether something that is made is read by a step, for which nobody would leave it. */
function readsMade(run: readonly RowStep[], made: ReadonlySet<RowStep>, step: RowStep): boolean {
  return viewsRead(step).some((view) => {
    let left: (View | Codes)[] = [view] // what nobody has written since
    for (const before of run.slice(0, run.indexOf(step)).reverse()) {
      const output = outputOf(before)
      if (made.has(before) && left.some((each) => meets(output, each))) return true
      if (output) left = left.flatMap((each) => without(each, output))
    }
    return false
  })
}

/** What of it another does not write: codes as a whole, views by their columns. */
function without(of: View | Codes, written: View | Codes): (View | Codes)[] {
  if (isCodes(of) || isCodes(written)) return isSame(of, written) ? [] : [of]
  const { buffer, from } = of
  if (!meets(of, written)) return [of]
  const [end, behind] = [from + of.columns, written.from + written.columns]
  return [
    ...(written.from > from ? [{ buffer, from, columns: written.from - from }] : []),
    ...(behind < end ? [{ buffer, from: behind, columns: end - behind }] : []),
  ]
}

/** What is to be done to a row before a product reads it, in the run's order; nothing, if the run has nothing to do with it. */
function stepsFor(run: readonly RowStep[], product: Matmul): Omit<Making, "kept"> | undefined {
  const { input, output, epilogue, rows } = product
  const groups = Math.ceil(output.columns / PANEL)
  const matrices = epilogue.kind === "gated" ? 2 : 1
  const columns = input.kind === "float" ? input.view.columns : input.codes.columns
  const most = input.kind === "float" ? MOST_OF_FLOATS : MOST_GROUPS
  if (columns > MOST_COLUMNS || groups > most) return undefined
  if (groups > FEW_GROUPS * matrices && columns > SHORT) return undefined
  if (input.kind === "int16") return undefined
  const steps = new Set<RowStep>()
  const given: View[] = []
  const need = (wanted: View | Codes, end: number): boolean => {
    const at = run.findLastIndex((step, i) => i < end && meets(outputOf(step), wanted))
    const step = run[at]
    if (!step) {
      if ("codes" in wanted) return steps.size === 0
      if (!given.some((each) => isSame(each, wanted))) given.push(wanted)
      return true
    }
    if (!isSame(outputOf(step)!, wanted) || !isMade(step)) return false
    steps.add(step)
    return viewsRead(step).every((view) => need(view, at))
  }
  const isNeeded = need(input.kind === "float" ? input.view : input.codes, run.length)
  if (!isNeeded || run[0]!.rows !== rows || given.length > MOST_GIVEN) return undefined
  return { steps: run.filter((step) => steps.has(step)), given: steps.size > 0 ? given : [] }
}

/** Whether each of its columns can be had by itself, once sums over the row are known. */
function isMade(step: RowStep): boolean {
  if (step.op === "quantize") return !isWideCodec(step.output.codec)
  if (step.op === "ropeTable") return true
  if (step.op === "norm") return step.width === step.output.columns
  if (step.op === "rope") return step.rows === "tokens" // others turn by another row of the table
  if (!byColumn.has(step.op) || !("output" in step) || "codes" in step.output) return false
  const { columns } = step.output
  return viewsRead(step).every((view) => view.columns === columns)
}

function outputOf(step: Step): View | Codes | undefined {
  if (step.op === "rope") return step.view
  return "output" in step ? step.output : undefined
}

const isCodes = (of: View | Codes): of is Codes => "codes" in of

function isSame(a: View | Codes, b: View | Codes): boolean {
  if (isCodes(a) || isCodes(b)) return isCodes(a) && isCodes(b) && a.codes === b.codes
  return a.buffer === b.buffer && a.from === b.from && a.columns === b.columns
}

function meets(a: View | Codes | undefined, b: View | Codes): boolean {
  if (!a) return false
  if (isCodes(a) || isCodes(b))
    return isCodes(a) && isCodes(b) && (a.codes === b.codes || a.scales === b.scales)
  return a.buffer === b.buffer && a.from < b.from + b.columns && b.from < a.from + a.columns
}

/** Columns that a product reads beside the row that it multiplies. */
export function readBesideInput(product: Matmul): View[] {
  const { input } = product
  return viewsRead(product).filter((view) => input.kind !== "float" || view !== input.view)
}

/** Steps behind one that read what it makes, until that is written over. */
function readersOf({ steps, logits, hidden }: Plan, step: RowStep): (Step | "host")[] {
  let left = [outputOf(step)!] // what nobody has written over
  const readers: (Step | "host")[] = []
  for (const later of steps.slice(steps.indexOf(step) + 1)) {
    const isLeft = (of: View | Codes) =>
      left.some((each) => (isCodes(of) ? isSame(of, each) : meets(of, each)))
    if (readBy(later).some(isLeft)) readers.push(later)
    const output = outputOf(later)
    if (output) left = left.flatMap((each) => without(each, output))
    if (left.length === 0) return readers
  }
  const isGiven = [logits, hidden].some((view) => left.some((each) => meets(view, each)))
  return isGiven ? [...readers, "host"] : readers
}

/** Codes and columns. */
function readBy(step: Step): (View | Codes)[] {
  const inputs =
    step.op === "matmul"
      ? [step.input]
      : step.op === "experts" || step.op === "expertRows"
        ? [step.input, ...(step.experts.up ? [step.experts.up.input] : [])]
        : []
  return [
    ...viewsRead(step),
    ...inputs.flatMap((each) => (each.kind === "float" ? [] : [each.codes])),
  ]
}

// ------------------------------------------------------------------ the kernel

/** The launch of a product of one row that makes it. */
export function makingLaunch(
  plan: Plan,
  product: Matmul,
  making: Making,
  ending: Ending | undefined,
): Launch {
  const bindings: Binding[] = []
  const own = madeOperands(plan, product, ending)
  const name = making.steps.map(({ op }) => op).join("_")
  const kernel = madeProduct(madeKind(plan, product, ending), name, (k, row) => {
    const fragments = new MadeFragments(k, plan, making, bindings, row)
    bindings.push(...own)
    return fragments.rowFor(product)
  })
  const groups = [
    Math.ceil(product.output.columns / PANEL),
    { rows: product.rows, per: 1 },
    1,
  ] as const
  return { kernel, operands: bindings, groups }
}

/** Fragments whose columns are computed where they are asked for, and whose codes lie in shared memory. */
class MadeFragments extends Fragments {
  readonly #making: Making
  readonly #made = new Map<string, (column: Value) => Value>()
  readonly #codes = new Map<number, Elements>() // and scales, by their buffers
  /** Of the fragment that is written: what each column becomes, and what it has just stored. */
  #own: ((column: Value) => Value) | undefined
  #stored: Value | undefined

  constructor(k: Builder, plan: Plan, making: Making, operands: Binding[], row: Value) {
    const kept = making.kept.flatMap((each): Touch[] =>
      isCodes(each)
        ? [each.codes, each.scales].map((buffer) => writes({ buffer, from: 0, columns: 1 }))
        : [writes(each)],
    )
    super(k, plan, making.steps, [...making.given.map((view) => reads(view)), ...kept], operands, {
      row,
    })
    this.#making = making
  }

  /** Of a product, what it reads. */
  rowFor({ input }: Matmul): MadeRow {
    const { k, plan } = this
    const write = () => this.#write()
    if (input.kind === "float") {
      const load = (column: Operable) => this.cells(input.view).load(column)
      return { write, input: this.#inputOf(load), scales: undefined, stride: 0 }
    }
    const { codes, scales, columns, group } = input.codes
    const stride = strideOf(plan.buffers[codes]!) / 4
    const words = k.shared("codes", "u32", stride)
    const own = k.shared("scales of codes", "f32", Math.ceil(columns / group))
    this.#codes.set(codes, words).set(scales, own)
    return { write, input: this.#inputOf((index) => words.load(index)), scales: own, stride }
  }

  /** Neighbours are read one by one: only in memory do they lie so that they may be read at once. */
  #inputOf(load: (index: Operable) => Value): MadeRow["input"] {
    const near = (index: Operable, count: number) => {
      const first = this.k.let(numberOf(index).mul(count))
      return Array.from({ length: count }, (_, i) => load(first.add(i)))
    }
    return {
      load,
      loadTwo: (index) => near(index, 2) as [Value, Value],
      loadFour: (index) => near(index, 4) as [Value, Value, Value, Value],
    }
  }

  #write(): void {
    const { k } = this
    for (const step of this.#making.steps) {
      const fragment = fragmentOf(step)
      if (step.op === "quantize") {
        super.ifThere(() => fragment.write(this, step))
        k.barrier()
        this.sums.passBarrier()
        continue
      }
      if (step.op === "rope") this.#own = this.#turned(step)
      else fragment.write(this, step)
      this.#made.set(keyOf(outputOf(step) as View), this.#own!)
    }
    const { kept } = this.#making
    if (kept.length > 0)
      super.ifThere(() =>
        k.if(k.group(0).eq(0), () => {
          for (const each of kept) this.#keep(each)
        }),
      )
  }

  /** Either of a pair, which both are computed for. */
  #turned({
    view,
    headDim,
    ropeTable,
  }: Extract<RowStep, { op: "rope" }>): (column: Value) => Value {
    const { k } = this
    const [x, table] = [this.cells(view), this.cells(ropeTable)]
    const half = ropeTable.columns / 2
    return (column) => {
      const i = k.let(column.rem(headDim))
      const pair = k.let(i.rem(half))
      const first = k.let(column.sub(i).add(pair))
      const [cos, sin] = [table.load(pair), table.load(pair.add(half))]
      const [one, other] = turnedPair(x.load(first), x.load(first.add(half)), cos, sin)
      const turned = select(i.lt(half), one, other)
      return 2 * half === headDim ? turned : select(i.lt(2 * half), turned, x.load(column))
    }
  }

  #keep(made: View | Codes): void {
    if (!isCodes(made)) {
      const [own, out] = [this.cells(made), super.cells(made)]
      super.eachColumn(made.columns, (i) => {
        const value = own.load(i)
        return () => out.store(i, value)
      })
      return
    }
    for (const buffer of [made.codes, made.scales]) {
      const [own, out] = [this.#codes.get(buffer)!, super.cells({ buffer, from: 0, columns: 1 })]
      const count =
        buffer === made.codes
          ? strideOf(this.plan.buffers[buffer]!) / 4
          : Math.ceil(made.columns / made.group)
      this.k.each(count, (i) => out.store(i, own.load(i)))
    }
  }

  /** Nothing of it is a matter of memory. */
  override ifThere(write: () => void): void {
    write()
  }

  override eachColumn(_count: number, load: (column: Value) => () => void): void {
    this.#own = (column) => {
      load(column)()
      return this.#stored!
    }
  }

  override cells(view: View): Cells {
    const array = this.#codes.get(view.buffer)
    if (array) {
      const load = (index: Operable) => array.load(index)
      return { load, loadFours: none, store: (index, value) => array.store(index, value) }
    }
    const made = this.#made.get(keyOf(view))
    const { k } = this
    const given =
      made ??
      (this.#making.given.some((each) => isSame(each, view)) ? super.cells(view).load : none)
    const load = (column: Operable) => given(k.let(numberOf(column)))
    return {
      load,
      loadFours: (column, count) =>
        Array.from({ length: 4 * count }, (_, i) => load(numberOf(column).add(i))),
      store: (_, value) => {
        this.#stored = k.let(value instanceof Value ? value : f32(value))
      },
    }
  }
}

const keyOf = ({ buffer, from, columns }: View) => `${buffer} ${from} ${columns}`

const numberOf = (index: Operable) => (index instanceof Value ? index : u32(index))

function none(): never {
  throw new Error("internal: a row is read that nobody makes")
}
