// Which steps of a plan a GPU is given together, and in which order: that of the plan, but for steps that nothing between needs or
// disturbs. A run of rows takes in later ones of the same rows, and a product is brought beside another, so that one launch may do
// both (beside.ts). What a step reads and writes are columns of buffers, blocks of a layer, and memory that launches share.

import type { Codes, Plan, ProductInput, Step, View } from "../../plan.ts"
import { isRowStep, joins, type RowStep, runs, viewsRead } from "../runs.ts"
import { routedLaunch, sumsOf } from "./kernels/experts.ts"
import { headCodes, headTurning } from "./kernels/heads.ts"
import { type Makings, readBesideInput } from "./kernels/made.ts"
import { endingOf, type Matmul } from "./kernels/matmul.ts"
import { piecesOf } from "./kernels/rows.ts"

/** What one step of the tape does. */
export interface Unit {
  /** Places in the plan, ascending but for what a run has taken in. */
  run: readonly number[]
  /** The runs before and behind it in the plan. */
  before: readonly Step[]
  behind: readonly Step[]
  /** The product is done beside what comes before it, as far as rows are few. */
  isBeside?: true
}

/** A step is sought among so many. */
const REACH = 12

export function unitsOf(plan: Plan): Unit[] {
  const all = runs(plan.steps)
  const stepsOf = (run: readonly number[] = []) => run.map((i) => plan.steps[i]!)
  const units = all.map(
    (run, i): Unit => ({ run, before: stepsOf(all[i - 1]), behind: stepsOf(all[i + 1]) }),
  )
  // Once more: products that were in a run's way may have gone beside others.
  return widened(plan, paired(plan, widened(plan, units)))
}

// ------------------------------------------------------------------ runs of rows

/** Runs take in later ones. */
function widened(plan: Plan, units: readonly Unit[]): Unit[] {
  const left = [...units]
  for (let i = 0; i < left.length; i++) {
    if (!isFree(plan, left[i]!)) continue
    for (let j = i + 1; j < Math.min(left.length, i + REACH); j++) {
      const [own, other] = [left[i]!, left[j]!]
      if (!isFree(plan, other) || !mayFollow(plan, own, other)) continue
      if (left.slice(i + 1, j).some((between) => disturb(plan, between, other))) continue
      left[i] = { ...own, run: [...own.run, ...other.run] }
      left.splice(j, 1)
      j--
    }
  }
  return left
}

/** Whether it is a run of rows that has nothing to do with the launches before and behind it. */
function isFree(plan: Plan, { run, before: [before], behind: [behind] }: Unit): boolean {
  const steps = run.map((i) => plan.steps[i]!)
  if (!isRowStep(steps[0]!)) return false
  if (before?.op === "attend" && piecesOf(plan, before, steps as RowStep[], [])) return false
  if (before?.op === "matmul" && endingOf(plan, before, steps)) return false
  if (before?.op === "headMatmul" && headCodes(plan, before, steps)) return false
  return !routedLaunch(plan, behind, steps) && !headTurning(plan, steps, behind)
}

function mayFollow({ steps }: Plan, { run }: Unit, other: Unit): boolean {
  const own = run.map((i) => steps[i]!)
  return other.run.every((i) => {
    const isNext = joins(own, steps[i]!)
    own.push(steps[i]!)
    return isNext
  })
}

// ------------------------------------------------------------------ products

/** Products of the same rows come to stand behind one another, with those that round what the first one makes. */
function paired(plan: Plan, units: readonly Unit[]): Unit[] {
  const left = [...units]
  const opOf = (i: number) => {
    const unit = left[i]
    return unit && plan.steps[unit.run[0]!]!.op
  }
  const rowsOf = (i: number) => plan.steps[left[i]!.run[0]!]!.rows
  for (let i = 0; i < left.length; i++) {
    if (opOf(i) !== "matmul" || left[i]!.isBeside) continue
    const end = i + length(plan, left[i]!)
    for (let j = end; j < Math.min(left.length, i + REACH); j++) {
      if (opOf(j) !== "matmul" || left[j]!.isBeside || rowsOf(j) !== rowsOf(i)) continue
      const block = left.slice(j, j + length(plan, left[j]!))
      if (disturbAny(plan, left.slice(i, j), block)) continue
      left.splice(j, block.length)
      left.splice(end, 0, { ...block[0]!, isBeside: true }, ...block.slice(1))
      i = end
      break
    }
  }
  // What shared experts make at last, behind what the others do.
  for (let i = 0; i < left.length; i++) {
    if (opOf(i) !== "experts") continue
    const [before, behind] = [i - 1, i + 1]
    for (let j = behind; j > Math.max(0, before - REACH); j--) {
      if (j === i || opOf(j) !== "matmul" || left[j]!.isBeside || isFirstOfTwo(left, j)) continue
      if (rowsOf(j) !== rowsOf(i) || length(plan, left[j]!) > 1) continue
      const between = j < i ? left.slice(j + 1, i + 1) : [left[i]!]
      if (disturbAny(plan, between, [left[j]!])) continue
      const [own] = left.splice(j, 1)
      left.splice(j < i ? i : behind, 0, { ...own!, isBeside: true })
      break
    }
  }
  return left
}

const isFirstOfTwo = (units: readonly Unit[], i: number) =>
  units[i + 1]?.isBeside || units[i + 2]?.isBeside

/** Of a product with the run that rounds what it makes; of few rows that has no launch. */
function length(plan: Plan, { run, behind }: Unit): number {
  const [step] = run.map((i) => plan.steps[i]!)
  return step?.op === "matmul" && endingOf(plan, step, behind) ? 2 : 1
}

// ------------------------------------------------------------------ what steps read and write

/** Some columns of something. */
interface Piece {
  of: string
  from: number
  columns: number
}

const pieceOf = ({ buffer, from, columns }: View): Piece => ({ of: `b${buffer}`, from, columns })

const piecesOfCodes = ({ codes, scales }: Pick<Codes, "codes" | "scales">) =>
  [codes, scales].map((buffer) => whole(`b${buffer}`))

const whole = (of: string): Piece => ({ of, from: 0, columns: Number.POSITIVE_INFINITY })

interface Touched {
  reads: Piece[]
  writes: Piece[]
}

function touchesOf(step: Step): Touched {
  const reads = viewsRead(step).map(pieceOf)
  const writes: Piece[] = []
  const given = (input: ProductInput) => {
    if (input.kind !== "float") reads.push(...piecesOfCodes(input.codes))
  }
  if ("output" in step) {
    if ("codes" in step.output) writes.push(...piecesOfCodes(step.output))
    else writes.push(pieceOf(step.output))
  }
  if ("place" in step) {
    const blocks = whole(`kv ${step.place.group} ${step.place.layer}`)
    if (step.op === "storeKv" || step.op === "delta") writes.push(blocks)
    reads.push(blocks)
  }
  switch (step.op) {
    case "matmul":
      given(step.input)
      break
    case "rope":
      writes.push(pieceOf(step.view))
      break
    case "route":
    case "expertSums":
      writes.push(whole("scratch of experts"))
      break
    case "experts":
    case "expertRows":
      given(step.input)
      if (step.experts.up) given(step.experts.up.input)
      writes.push(whole("scratch of experts"))
      break
    case "attend":
      writes.push(whole("partials"))
      break
    case "indexer":
      writes.push(whole("scores of positions"))
      break
    case "delta":
      writes.push(whole("scratch of the delta rule"))
      break
    case "gather":
      writes.push(whole("where shards meet"))
      break
  }
  return { reads, writes }
}

const touched = new WeakMap<Unit, Touched>()

function touchesOfUnit(plan: Plan, unit: Unit): Touched {
  const known = touched.get(unit)
  if (known) return known
  const steps = unit.run.map((i) => plan.steps[i]!)
  const all = steps.map(touchesOf)
  const scratch = [
    ...(isRowStep(steps[0]!) && sumsOf(plan, steps) ? [whole("scratch of experts")] : []),
    ...(unit.before[0]?.op === "attend" ? [whole("partials")] : []),
  ]
  const own = {
    reads: all.flatMap(({ reads }) => reads),
    writes: [...all.flatMap(({ writes }) => writes), ...scratch],
  }
  touched.set(unit, own)
  return own
}

/** Whether one of the two writes what the other reads or writes. */
function disturb(plan: Plan, a: Unit, b: Unit): boolean {
  const [first, second] = [touchesOfUnit(plan, a), touchesOfUnit(plan, b)]
  return meet(first.writes, [...second.reads, ...second.writes]) || meet(second.writes, first.reads)
}

const meet = (some: readonly Piece[], others: readonly Piece[]) =>
  some.some((x) =>
    others.some((y) => x.of === y.of && x.from < y.from + y.columns && y.from < x.from + x.columns),
  )

/**
 * Whether products that make their rows, and what is done beside them, are in nobody's way: groups of one launch begin and end in
 * any order.
 * @param ends steps that the products do as well
 */
export function mayMake(
  { of, others }: Makings,
  products: readonly Matmul[],
  ends: readonly Step[],
): boolean {
  const given = of.flatMap((each) => each.given).map(pieceOf)
  const kept = of
    .flatMap((each) => each.kept)
    .flatMap((each) => ("codes" in each ? piecesOfCodes(each) : [pieceOf(each)]))
  const done = [...products, ...ends].map(touchesOf)
  const reads = [
    ...products.flatMap((step, i) =>
      of[i]!.steps.length > 0 ? readBesideInput(step).map(pieceOf) : touchesOf(step).reads,
    ),
    ...ends.flatMap((step) => touchesOf(step).reads),
  ]
  const writes = [...kept, ...done.flatMap((each) => each.writes)]
  const beside = others.map(touchesOf)
  const othersRead = beside.flatMap((each) => each.reads)
  const othersWrite = beside.flatMap((each) => each.writes)
  return (
    !meet(given, writes) &&
    !meet(kept, reads) &&
    !meet(othersWrite, [...given, ...reads, ...writes]) &&
    !meet(othersRead, writes)
  )
}

const disturbAny = (plan: Plan, some: readonly Unit[], others: readonly Unit[]) =>
  some.some((a) => others.some((b) => disturb(plan, a, b)))
