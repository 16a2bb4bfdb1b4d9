// Groups of threads that choose experts and weigh them for themselves: on the slow twin, bit for bit what is left by the kernels that
// choose, weigh and find pairs before them.

import { expect, test } from "vitest"
import { packedWeights, randomWeights } from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import type { Plan, Step } from "../../../plan.ts"
import type { RowStep } from "../../runs.ts"
import { checkKernel } from "../ir/check.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Launch } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { expertsChoices, MOST_ROUTED } from "./experts.ts"
import { rowLaunches } from "./rows.ts"

const [EXPERTS, ACTIVE, COLUMNS, INTERMEDIATE] = [6, 2, 64, 32]
const [LOGITS, CHOSEN, WEIGHED, INPUT, OUTPUT, CAPPED] = [0, 1, 2, 3, 4, 5]
const [GATE_UP, DOWN, FACTORS] = [0, 1, 2]

const rows = "tokens"
const view = (buffer: number, columns: number) => ({ buffer, from: 0, columns })

/** @param capped whether logits are first */
function planOf(factors: number, capped = false) {
  const weights = [
    randomWeights("f16", EXPERTS * 2 * INTERMEDIATE, COLUMNS),
    randomWeights("f16", EXPERTS * COLUMNS, INTERMEDIATE),
    randomWeights("f32", factors, 1),
  ]
  const cap: RowStep = {
    ...{ rows, op: "apply", function: "cap", by: 0.3 },
    ...{ input: view(LOGITS, EXPERTS), output: view(CAPPED, EXPERTS) },
  }
  const run: RowStep[] = [
    ...(capped ? [cap] : []),
    {
      ...{ rows, op: "route", input: view(capped ? CAPPED : LOGITS, EXPERTS), bias: undefined },
      ...{ routing: { active: ACTIVE, score: "softmax", normalized: true, factor: 1 } as never },
      output: view(CHOSEN, EXPERTS),
    },
    {
      ...{ rows, op: "weigh", input: view(CHOSEN, EXPERTS), weight: FACTORS },
      output: view(WEIGHED, EXPERTS),
    },
  ]
  const experts: Step & { op: "experts" } = {
    ...{ rows, op: "experts", weights: view(WEIGHED, EXPERTS), output: view(OUTPUT, COLUMNS) },
    input: { kind: "float", view: view(INPUT, COLUMNS) },
    experts: {
      ...{ count: EXPERTS, active: ACTIVE, intermediate: INTERMEDIATE, gated: true },
      ...{ gateUp: GATE_UP, up: undefined, down: DOWN, biases: undefined, parts: 8 },
      ...{ activation: "silu", limit: undefined, rounded: undefined },
    },
  }
  const widths = [EXPERTS, EXPERTS, EXPERTS, COLUMNS, COLUMNS, EXPERTS]
  const plan = {
    buffers: widths.map((columns) => ({ capacity: "tokens", columns, dtype: "f32" })),
    parameters: weights.map(({ parameter }) => parameter),
    steps: [...run, experts],
    ...{ logits: view(-1, 0), hidden: view(-1, 0) },
  } as unknown as Plan
  return { plan, weights, run, experts }
}

/** What launches leave between them and behind them, by its name; of codes and lists there are none. */
function left(
  { plan, weights }: ReturnType<typeof planOf>,
  launches: readonly Launch[],
  count: number,
) {
  const next = mulberry32(3)
  const packed = weights.map((each) => packedWeights(each))
  const buffers = plan.buffers.map((buffer) =>
    Memory.of(Float32Array.from({ length: count * strideOf(buffer) }, () => next() / 2 ** 31 - 1)),
  )
  const scratch = new Map<string, Memory>()
  const operandOf = (binding: Binding): Memory | number => {
    if (typeof binding === "number") return binding
    switch (binding.kind) {
      case "buffer":
        return buffers[binding.buffer]!.at(4 * binding.from)
      case "weight":
        return packed[binding.parameter]![["values", "scales"].indexOf(binding.part)]!
      case "scratch": {
        const known = scratch.get(binding.name) ?? new Memory(count * binding.bytes.perToken!)
        scratch.set(binding.name, known)
        return known
      }
      default:
        return Memory.of(Uint32Array.of(count))
    }
  }
  for (const { kernel, operands, groups } of launches) {
    checkKernel(kernel)
    const all = groups.map((of) => (typeof of === "number" ? of : count + 1)) // more than there are
    runKernel(kernel, operands.map(operandOf), all as [number, number, number])
  }
  const names = ["numbers", "shares", "results"]
  return names.map((name) => Array.from(scratch.get(`experts' ${name}`)!.u32()))
}

test.each([
  ["each expert by its own number", EXPERTS, false],
  ["all by one, of capped logits", 1, true],
])("experts are weighed once more, %s", (_, factors, capped) => {
  const made = planOf(factors, capped)
  const { plan, run, experts } = made
  const [routed, apart] = expertsChoices(plan, experts, run)
  expect(routed!.most).toBe(MOST_ROUTED)
  expect(routed!.launches.length).toBe(apart!.launches.length - 1)
  for (const count of [1, 3])
    expect(left(made, routed!.launches, count)).toEqual(
      left(made, [...rowLaunches(plan, run), ...apart!.launches], count),
    )
})

test("but not where somebody else reads what has been chosen, or capped", () => {
  const { plan, run, experts } = planOf(EXPERTS, true)
  for (const read of [CHOSEN, CAPPED]) {
    const other = { rows, op: "copy", input: view(read, EXPERTS), output: view(LOGITS, EXPERTS) }
    const steps = [...plan.steps, other as Step]
    expect(expertsChoices({ ...plan, steps }, experts, run)[0]!.most).not.toBe(MOST_ROUTED)
  }
})
