// A product of few columns within a run: on the slow twin, bit for bit what the runs and the product leave by themselves, which
// matmul.test.ts holds to the reference.

import { expect, test } from "vitest"
import { packedWeights, randomWeights } from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import type { RowStep } from "../../runs.ts"
import { checkKernel } from "../ir/check.ts"
import type { Kernel, Statement } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Launch } from "../launch.ts"
import { PANEL, strideOf } from "../layout.ts"
import { matmulChoices } from "./matmul.ts"
import { isNarrow, rowLaunches, wholeLaunch } from "./rows.ts"

type Matmul = Extract<Step, { op: "matmul" }>

const COLUMNS = 300 // parts of a group and of two, the last of which ends early
const [INPUT, SCALED, PRODUCT, BOUND, BEHIND, LAST] = [0, 1, 2, 3, 4, 5]
const rows = "tokens"

interface Shape {
  outputs: number
  from: number
  parts: Matmul["parts"]
  bias: boolean
}

function planOf({ outputs, from, parts, bias }: Shape) {
  const weights = [
    ...[randomWeights("f32", outputs, COLUMNS), randomWeights("f32", outputs, 1)],
    ...[randomWeights("f32", outputs, outputs)],
  ]
  const view = (buffer: number, columns: number, from = 0) => ({ buffer, from, columns })
  const scale = (input: View, output: View): Step => ({
    ...{ rows, op: "apply", function: "scale", by: 0.3, input, output },
  })
  const product = (weight: number, input: View, output: View): Matmul => ({
    ...{ rows, op: "matmul", input: { kind: "float", view: input }, weight, parts, output },
    ...{ bias: bias ? 1 : undefined, epilogue: { kind: "store" } },
  })
  const scaled = view(SCALED, COLUMNS, from)
  const [made, bound, behind] = [PRODUCT, BOUND, BEHIND].map((id) => view(id, outputs)) as [
    ...[View, View, View],
  ]
  const steps = [
    scale(view(INPUT, COLUMNS), scaled),
    product(0, scaled, made),
    scale(made, bound),
    product(2, bound, behind),
    scale(behind, view(LAST, outputs)),
  ]
  const widths = [COLUMNS, from + COLUMNS, outputs, outputs, outputs, outputs]
  const plan = {
    buffers: widths.map((columns) => ({ capacity: "tokens", columns, dtype: "f32" })),
    parameters: weights.map(({ parameter }) => parameter),
    ...{ steps, logits: view(-1, 0), hidden: view(-1, 0) },
  } as unknown as Plan
  return { plan, weights, steps }
}

/** All rows that launches leave. */
function left(
  { plan, weights }: ReturnType<typeof planOf>,
  launches: readonly Launch[],
  count: number,
): Uint32Array[] {
  const next = mulberry32(5)
  const packed = weights.map((each) => packedWeights(each))
  const buffers = plan.buffers.map((buffer) =>
    Memory.of(Float32Array.from({ length: count * strideOf(buffer) }, () => next() / 2 ** 31 - 1)),
  )
  const operandOf = (binding: Binding) => {
    if (typeof binding === "number") return binding
    if (binding.kind === "buffer") return buffers[binding.buffer]!.at(4 * binding.from)
    if (binding.kind === "weight") return packed[binding.parameter]![0]!
    return Memory.of(Uint32Array.of(count))
  }
  for (const { kernel, operands, groups } of launches) {
    checkKernel(kernel)
    const all = groups.map((of) => (typeof of === "number" ? of : count + 1)) // more than there are
    runKernel(kernel, operands.map(operandOf), all as [number, number, number], {
      order: "shuffled",
    })
  }
  return buffers.map((memory) => memory.u32())
}

test.each<Shape>([
  { outputs: 4, from: 0, parts: 8, bias: false },
  { outputs: PANEL, from: 3, parts: 8, bias: true },
  { outputs: 1, from: 0, parts: 2, bias: true },
])("as by themselves: %o", (shape) => {
  const made = planOf(shape)
  const { plan, steps } = made
  const apart = steps.flatMap((step) =>
    step.op === "matmul"
      ? matmulChoices(plan, step, ["dots"])[0]!.launches
      : rowLaunches(plan, [step as RowStep]),
  )
  const whole = wholeLaunch(plan, steps as RowStep[])!
  for (const count of [1, 3]) expect(left(made, [whole], count)).toEqual(left(made, apart, count))
})

test("every barrier is missed", () => {
  const made = planOf({ outputs: 4, from: 0, parts: 8, bias: false })
  const whole = wholeLaunch(made.plan, made.steps as RowStep[])!
  const barriers = whole.kernel.body.filter(({ kind }) => kind === "barrier").length
  expect(barriers).toBeGreaterThan(3)
  const without = (missing: number): Kernel => {
    let number = 0
    const isKept = ({ kind }: Statement) => kind !== "barrier" || number++ !== missing
    return { ...whole.kernel, body: whole.kernel.body.filter(isKept) }
  }
  for (let missing = 0; missing < barriers; missing++)
    expect(
      () => left(made, [{ ...whole, kernel: without(missing) }], 1),
      `barrier ${missing} of ${barriers}`,
    ).toThrow(/a race/)
})

test("only products of floats that one group of threads has", () => {
  const isIn = (shape: Partial<Shape>) => {
    const { plan, steps } = planOf({ outputs: 4, from: 0, parts: 8, bias: false, ...shape })
    return isNarrow(plan, steps[1]!)
  }
  expect([isIn({}), isIn({ outputs: PANEL }), isIn({ outputs: PANEL + 1 })]).toEqual([
    true,
    true,
    false,
  ])
})
