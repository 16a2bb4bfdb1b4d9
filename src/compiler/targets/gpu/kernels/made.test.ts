// Products that make the row which they read: on the slow twin, bit for bit what the run before them and the products leave by
// themselves, which matmul.test.ts and golden tests hold to the reference.

import { expect, test } from "vitest"
import { packedWeights, randomWeights } from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import type { Codes, Plan, Step, View } from "../../../plan.ts"
import type { RowStep } from "../../runs.ts"
import { beside } from "../beside.ts"
import { checkKernel } from "../ir/check.ts"
import type { Kernel, Statement } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Launch } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import { mayMake } from "../order.ts"
import { makingLaunch, makingsOf } from "./made.ts"
import { type Matmul, matmulChoices } from "./matmul.ts"
import { rowLaunches, rowsBeside } from "./rows.ts"

const COLUMNS = 320 // whole groups, and not all vectors of a sum are full
const ROUTED = 5
const OUTPUTS = PANEL + 8
const rows = "tokens"

const view = (buffer: number, columns = COLUMNS): View => ({ buffer, from: 0, columns })
const [X, Y, NORMED, SUM, AGAIN, CODES, SCALES, ROUTER, GATED, GATES, OTHER, LATER, LAST, TURNS] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
]
const codes: Codes = { codes: CODES, scales: SCALES, columns: COLUMNS, group: 32, codec: "q4f16_1" }
const weights = [
  ...[randomWeights("f32", COLUMNS, 1), randomWeights("f32", COLUMNS, 1)],
  ...[randomWeights("f32", ROUTED, COLUMNS), randomWeights("q4f16_1", 2 * OUTPUTS, COLUMNS)],
]
const [VECTOR, BIAS, ROUTES, GATE_UP] = [0, 1, 2, 3]

const norm = (kind: "rms" | "layer", input: number, output: number): RowStep => ({
  ...{ rows, op: "norm", kind, input: view(input), weight: VECTOR, epsilon: 1e-5 },
  ...{ bias: kind === "layer" ? BIAS : undefined, width: COLUMNS, output: view(output) },
})
const product = (weight: number, input: Matmul["input"], output: View): Matmul => ({
  ...{ rows, op: "matmul", input, weight, bias: undefined, parts: 8, output },
  epilogue: weight === ROUTES ? { kind: "store" } : { kind: "gated", activation: "silu" },
})
const run: RowStep[] = [
  norm("rms", Y, NORMED),
  { rows, op: "add", a: view(X), b: view(NORMED), output: view(SUM) },
  norm("layer", SUM, AGAIN),
  { rows, op: "rope", view: view(AGAIN), headDim: COLUMNS / 4, ropeTable: view(TURNS, 24) },
  { rows, op: "quantize", input: view(AGAIN), output: codes },
  {
    ...{ rows, op: "apply", function: "silu", by: undefined },
    ...{ input: view(GATES, 8), output: view(OTHER, 8) },
  },
]
const router = product(ROUTES, { kind: "float", view: view(AGAIN) }, view(ROUTER, ROUTED))
const gated = product(GATE_UP, { kind: "int8", codes }, view(GATED, OUTPUTS))
/** They read what is made, too. */
const later: Step[] = [
  { rows, op: "add", a: view(SUM), b: view(X), output: view(LAST) },
  product(GATE_UP, { kind: "int8", codes }, view(LATER, OUTPUTS)),
]

function planOf(before: readonly Step[] = run, behind: readonly Step[] = later): Plan {
  const buffer = (columns: number, dtype = "f32") => ({ capacity: "tokens", columns, dtype })
  const floats = (...widths: number[]) => widths.map((columns) => buffer(columns))
  return {
    buffers: [
      ...floats(COLUMNS, COLUMNS, COLUMNS, COLUMNS, COLUMNS),
      ...[buffer(COLUMNS, "i8"), buffer(COLUMNS / 32, "scales")],
      ...floats(ROUTED, OUTPUTS, 8, 8, OUTPUTS, COLUMNS, 24),
    ],
    parameters: weights.map(({ parameter }) => parameter),
    steps: [...before, router, gated, ...behind],
    ...{ logits: view(-1, 0), hidden: view(-1, 0) },
  } as unknown as Plan
}

const packed = weights.map((each) => packedWeights(each))

/** What launches leave of each buffer, of one row and of none. */
function left(plan: Plan, launches: readonly Launch[], count = 1): Uint32Array[] {
  const next = mulberry32(5)
  const buffers = plan.buffers.map((buffer) =>
    Memory.of(Float32Array.from({ length: strideOf(buffer) }, () => next() / 2 ** 31 - 1)),
  )
  const operandOf = (binding: Binding) => {
    if (typeof binding === "number") return binding
    if (binding.kind === "buffer") return buffers[binding.buffer]!.at(4 * binding.from)
    if (binding.kind !== "weight") return Memory.of(Uint32Array.of(count))
    const names = ["values", "scales", "minimums"]
    return packed[binding.parameter]![names.indexOf(binding.part)]!
  }
  for (const { kernel, operands, groups } of launches) {
    checkKernel(kernel)
    const all = groups.map((of) => (typeof of === "number" ? of : 2)) // one more than there is
    runKernel(kernel, operands.map(operandOf), all as [number, number, number], {
      order: "shuffled",
    })
  }
  return buffers.map((memory) => memory.u32())
}

function launchesOf(plan: Plan): { first: Launch; second: Launch; others: Launch } {
  const products = [router, gated]
  const { of, others } = makingsOf(plan, run, products)!
  const [first, second] = products.map((each, i) => makingLaunch(plan, each, of[i]!, undefined))
  return { first: first!, second: second!, others: rowsBeside(plan, others) }
}

test("one launch leaves what the run and its products do, but for what nobody reads", () => {
  const plan = planOf()
  const { first, second, others } = launchesOf(plan)
  const one = beside(beside(first, others)!, second)!
  const products = [router, gated].flatMap(
    (step) => matmulChoices(plan, step, ["dots"])[0]!.launches,
  )
  const apart = left(plan, [...rowLaunches(plan, run), ...products])
  const joined = left(plan, [one])
  const untouched = left(plan, [one], 0)
  for (const buffer of plan.buffers.keys()) {
    const isUnread = buffer === NORMED || buffer === AGAIN
    expect(joined[buffer], `b${buffer}`).toEqual((isUnread ? untouched : apart)[buffer])
  }
  expect(untouched).toEqual(left(plan, []))
})

test("every barrier is missed", () => {
  const plan = planOf()
  const { second } = launchesOf(plan)
  const barriers = second.kernel.body.filter(({ kind }) => kind === "barrier").length
  expect(barriers).toBeGreaterThan(6)
  const without = (missing: number): Kernel => {
    let number = 0
    const isKept = ({ kind }: Statement) => kind !== "barrier" || number++ !== missing
    return { ...second.kernel, body: second.kernel.body.filter(isKept) }
  }
  for (let missing = 0; missing < barriers; missing++)
    expect(
      () => left(plan, [{ ...second, kernel: without(missing) }]),
      `barrier ${missing} of ${barriers}`,
    ).toThrow(/a race/)
})

test("what others read later is kept, once, and nothing else", () => {
  const kept = (behind: readonly Step[]) =>
    makingsOf(planOf(run, behind), run, [router, gated])!.of.map((each) => each.kept)
  expect(kept(later)).toEqual([[view(SUM)], [codes]])
  expect(kept([])).toEqual([[], []])
  const normed: Step = { rows, op: "copy", input: view(AGAIN), output: view(LAST) }
  expect(kept([normed])).toEqual([[view(AGAIN)], []])
  // Written over before it is read, at once and in pieces.
  expect(kept([norm("rms", X, AGAIN), normed])).toEqual([[], []])
  const pieces = [0, COLUMNS / 2].map((from): Step => {
    const half = { columns: COLUMNS / 2, from }
    return { rows, op: "copy", input: { buffer: X, ...half }, output: { buffer: AGAIN, ...half } }
  })
  expect(kept([...pieces, normed])).toEqual([[], []])
  expect(kept([pieces[0]!, normed])).toEqual([[view(AGAIN)], []])
})

test("no row is made where a launch writes what one of its groups may still read", () => {
  const may = (steps: RowStep[], products = [router, gated]) => {
    const makings = makingsOf(planOf(steps), steps, products)
    return makings && mayMake(makings, products, [])
  }
  const [first, , ...others] = run as [RowStep, ...RowStep[]]
  const sum = (output: View): RowStep => ({
    ...{ rows, op: "add", a: view(X), b: view(NORMED), output },
  })
  expect(may(run)).toBe(true)
  // The sum goes where a row lies that it is made of; a product goes there; what is done beside it does; or reads what is made.
  const inPlace = [first, sum(view(Y)), norm("layer", Y, AGAIN), ...others.slice(1)]
  const summedLater = planOf(inPlace, [{ rows, op: "copy", input: view(Y), output: view(LAST) }])
  const makings = makingsOf(summedLater, inPlace, [router, gated])!
  expect(mayMake(makings, [router, gated], [])).toBe(false)
  expect(may(run, [router, { ...gated, output: view(X, OUTPUTS) }])).toBe(false)
  const beside = (input: View, output: View): RowStep => ({ rows, op: "copy", input, output })
  expect(may([...run, beside(view(GATES, 8), view(Y, 8))])).toBe(false)
  // Nobody leaves the sum for it, and a product that adds to it would have to wait.
  expect(may([...run, beside(view(SUM), view(LAST))])).toBeUndefined()
  const adds = { ...router, epilogue: { kind: "add", to: view(SUM, ROUTED) } } as const
  const whole = { ...planOf(run), steps: [...run, adds, gated, ...later] }
  expect(mayMake(makingsOf(whole, run, [adds, gated])!, [adds, gated], [])).toBe(false)
  expect(may([...run, beside(view(GATES, 8), view(LAST, 8))])).toBe(true)
})

test("no row is made of too many others, of part of one, or where that would cost more than a launch", () => {
  const isMade = (steps: RowStep[], products = [gated]) =>
    makingsOf(planOf(steps), steps, products) !== undefined
  const plain = run.filter(({ op }) => op !== "rope")
  const [first, ...others] = plain as [RowStep, ...RowStep[]]
  expect(isMade(plain)).toBe(true)
  const turned = run.map(
    (step): RowStep => (step.op === "rope" ? { ...step, rows: "wanted" } : step),
  )
  expect(isMade(turned)).toBe(false)
  const heads = { ...first, width: COLUMNS / 2 } as RowStep
  expect(isMade([heads, ...others])).toBe(false)
  const add = (a: number, b: number, output: number): RowStep => ({
    ...{ rows, op: "add", a: view(a), b: view(b), output: view(output) },
  })
  expect(isMade([add(X, LAST, Y), ...plain])).toBe(true)
  const sums = [add(X, LAST, Y), add(Y, LATER, Y), add(Y, ROUTER, Y)]
  expect(isMade([...sums, ...plain])).toBe(true)
  expect(isMade([...sums, add(Y, OTHER, Y), ...plain])).toBe(false)
  expect(isMade(plain, [{ ...gated, output: view(GATED, 1024 * PANEL) }])).toBe(true)
  expect(isMade(plain, [{ ...gated, output: view(GATED, 1025 * PANEL) }])).toBe(false)
})
