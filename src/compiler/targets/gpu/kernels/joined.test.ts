// A run that keeps a row, convolves it and makes the units of the delta rule in one kernel: on the slow twin, bit for bit what the
// kernels by themselves do, which golden tests hold to the reference.

import { expect, test } from "vitest"
import { mulberry32 } from "../../../../../test/random.ts"
import { BLOCK } from "../../../../runtime/program.ts"
import type { Plan } from "../../../plan.ts"
import type { RowStep } from "../../runs.ts"
import { checkKernel } from "../ir/check.ts"
import type { Kernel, Statement } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Launch } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { type DeltaStep, deltaLaunches } from "./delta.ts"
import { blockBytesOf } from "./kv.ts"
import { rowLaunches, wholeLaunch } from "./rows.ts"

const delta = { layer: 0, keyHeads: 2, valueHeads: 6, keyDim: 20, valueDim: 10 }
const WIDTH = 2 * delta.keyHeads * delta.keyDim + delta.valueHeads * delta.valueDim
const TAPS = 4
const BLOCKS = 3
/** Where the row is kept, and what comes before it: the sequence has begun two tokens ago. */
const SLOTS = [-1, BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1]

const tokens = { rows: "tokens" } as const
const view = (buffer: number, columns: number, from = 0) => ({ buffer, from, columns })
const place = { group: 0, layer: 0 }
const keep: RowStep[] = [
  { ...tokens, op: "storeKv", key: view(0, WIDTH), value: undefined, place },
  {
    ...{ ...tokens, op: "apply", function: "sigmoid", by: undefined },
    ...{ input: view(3, delta.valueHeads, 6), output: view(4, delta.valueHeads) },
  },
]
const convolve: RowStep[] = [
  {
    ...tokens,
    op: "convolve",
    taps: 0,
    bias: undefined,
    count: TAPS,
    ahead: 0,
    place,
    output: view(1, WIDTH),
  },
  {
    ...{ ...tokens, op: "apply", function: "silu", by: undefined },
    ...{ input: view(1, WIDTH), output: view(2, WIDTH) },
  },
]
const rule: DeltaStep = {
  ...{ ...tokens, op: "delta", input: view(2, WIDTH), delta, place: { group: 1, layer: 0 } },
  ...{
    decays: view(3, delta.valueHeads),
    shares: view(4, delta.valueHeads),
    keys: undefined,
    decay: 1,
    bias: 2,
    skip: undefined,
  },
  output: view(5, delta.valueHeads * delta.valueDim),
}

function planOf(kv: Plan["kv"]): Plan {
  const widths = [WIDTH, WIDTH, WIDTH, 12, 6, 60]
  const vector = (rows: number) => ({ name: "", rows, columns: 1, codec: "f32", sources: [] })
  return {
    kv,
    buffers: widths.map((columns) => ({ capacity: "tokens", columns, dtype: "f32" })),
    parameters: [WIDTH * TAPS, delta.valueHeads, delta.valueHeads].map(vector),
    groups: [{ layers: [0], kvHeads: 2, headDim: { key: WIDTH / 2, value: 0 } }],
    steps: [...keep, ...convolve, rule],
  } as unknown as Plan
}

/** What one token's launches leave: buffers, keys and values, and units. */
class World {
  readonly #rows: Memory[]
  readonly #vectors: Memory[]
  readonly #kept: Memory
  readonly #units = new Memory(1 << 12)

  constructor(plan: Plan) {
    const next = mulberry32(7)
    const floats = (length: number) =>
      Memory.of(Float32Array.from({ length }, () => (next() / 2 ** 31 - 1) * 2 ** (next() % 5)))
    this.#rows = plan.buffers.map((buffer) => floats(strideOf(buffer)))
    this.#vectors = plan.parameters.map(({ rows }) => floats(rows))
    const words = (BLOCKS * blockBytesOf(plan.kv, plan.groups[0]!)) / 4
    // Two halves of which neither is a NaN.
    this.#kept = Memory.of(Uint32Array.from({ length: words }, () => next() & 0xbbffbbff))
  }

  launch({ operands, groups }: Launch, kernel: Kernel): void {
    checkKernel(kernel)
    const [x] = groups.map((each) => (typeof each === "number" ? each : 2)) // one more than there is
    runKernel(
      kernel,
      operands.map((of) => this.#operand(of)),
      [x!, 1, 1],
      { order: "shuffled" },
    )
  }

  #operand(of: Binding): Memory | number {
    if (typeof of === "number") return of
    if (of.kind === "buffer") return this.#rows[of.buffer]!.at(4 * of.from)
    if (of.kind === "weight") return this.#vectors[of.parameter]!
    if (of.kind === "kv") return this.#kept
    if (of.kind === "scratch") return this.#units
    if (of.kind !== "step") throw new Error(of.kind)
    const { name } = of.region
    if (name === "count") return Memory.of(Uint32Array.of(1))
    if (name === "slots") return Memory.of(Int32Array.of(SLOTS.at(-1)!))
    if (name === "lastSlots") return Memory.of(Int32Array.from(SLOTS))
    throw new Error(name)
  }

  get left(): Uint8Array[] {
    return [...this.#rows, this.#kept, this.#units].map((memory) => memory.u8())
  }
}

/** A kernel without one of its barriers. */
function without(kernel: Kernel, missing: number): Kernel {
  let number = 0
  const block = (body: readonly Statement[]): Statement[] =>
    body.flatMap((statement): Statement[] => {
      if (statement.kind === "barrier" && number++ === missing) return []
      if (statement.kind === "for") return [{ ...statement, body: block(statement.body) }]
      return [statement]
    })
  return { ...kernel, body: block(kernel.body) }
}

test.each(["f32", "f16"] as const)("as the kernels by themselves, over keys of %s", (kv) => {
  const plan = planOf(kv)
  const apart = new World(plan)
  const [units] = deltaLaunches(plan, rule)
  for (const launch of [...rowLaunches(plan, keep), ...rowLaunches(plan, convolve), units!])
    apart.launch(launch, launch.kernel)
  const half = new World(plan)
  for (const launch of [rowLaunches(plan, keep)[0]!, wholeLaunch(plan, convolve, rule)!])
    half.launch(launch, launch.kernel)
  expect(half.left).toEqual(apart.left)
  const one = wholeLaunch(plan, [...keep, ...convolve], rule)!
  const joined = new World(plan)
  joined.launch(one, one.kernel)
  expect(joined.left).toEqual(apart.left)
})

test("every barrier is missed", () => {
  const plan = planOf("f16")
  const { kernel, ...launch } = wholeLaunch(plan, [...keep, ...convolve], rule)!
  const barriers = JSON.stringify(kernel.body).split('"kind":"barrier"').length - 1
  expect(barriers).toBeGreaterThan(2)
  for (let missing = 0; missing < barriers; missing++)
    expect(
      () => new World(plan).launch({ kernel, ...launch }, without(kernel, missing)),
      `barrier ${missing} of ${barriers}`,
    ).toThrow(/a race/)
})

test("what is read as other elements than it is kept as is not read in the same kernel", () => {
  for (const kv of ["bf16", "q8"] as const)
    expect(wholeLaunch(planOf(kv), [...keep, ...convolve], rule)).toBeUndefined()
})
