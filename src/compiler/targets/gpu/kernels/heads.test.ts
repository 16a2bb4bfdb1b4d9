// Products of heads on the slow twin, bit for bit the reference's.

import { expect, test } from "vitest"
import {
  packedWeights,
  randomWeights,
  referenceWeights,
} from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import type { CodecName } from "../../../../runtime/format.ts"
import { NO_ITEM } from "../../../../runtime/gpu/attention-work.ts"
import type { Attention } from "../../../graph/graph.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import { dotFour, quantize, rope as turnRow } from "../../reference/kernels.ts"
import type { Floats } from "../../reference/parameters.ts"
import { checkKernel } from "../ir/check.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Launch } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { unitsOf } from "../order.ts"
import { attendChoices, waitingOf } from "./attend.ts"
import { headChoices, headCodes, headTurning, mergesHeads } from "./heads.ts"

const HEADS = 3

test.each<[CodecName, number, number, number, ("tokens" | "wanted")?]>([
  ["f32", 19, 70, 0],
  ["f16", 40, 66, 5],
  ["q4f16_1", 45, 7, 130],
  ["e4m3", 45, 7, 130],
  ["f16", 40, 66, 6, "tokens"],
  ["q4f16_1", 45, 7, 130, "wanted"],
])(
  "%s of %i columns, %i of a head and %i kept, turned: %s",
  (codec, columns, outputs, kept, turned) => {
    const weights = randomWeights(codec, HEADS * outputs, columns)
    const [given, made] = [HEADS * (kept + columns), HEADS * (outputs + kept)]
    const buffers = [given + 3, made + 2, kept + 1].map((columns) => ({
      capacity: "tokens",
      columns,
      dtype: "f32",
    })) as Plan["buffers"]
    const step = {
      rows: turned ?? "tokens",
      op: "headMatmul",
      input: { buffer: 0, from: 3, columns: given },
      weight: 0,
      heads: HEADS,
      kept,
      output: { buffer: 1, from: 2, columns: made },
    } satisfies Step
    const turning = {
      ...{ rows: step.rows, op: "rope", view: step.input, headDim: kept + columns },
      ropeTable: { buffer: 2, from: 1, columns: kept },
    } satisfies Step
    const none = { buffer: 1, from: 0, columns: 0 }
    const plan = {
      ...{ parameters: [weights.parameter], buffers, steps: [turning, step] },
      ...{ logits: none, hidden: none },
    } as unknown as Plan
    const rope = turned && headTurning(plan, [turning], step)
    expect(rope).toBe(turned && turning)
    const [from, to, angles] = buffers.map(strideOf) as [number, number, number]
    const matrix = referenceWeights(weights, "floats") as Floats
    const next = mulberry32(columns)
    for (const [choice, count] of [
      [0, 2],
      [1, 6],
    ] as const) {
      const random = (length: number) => Float32Array.from({ length }, () => next() / 2 ** 31 - 1)
      const data = random(count * from)
      // Of rows that are wanted each is a token of its own.
      const tokens = Array.from({ length: count }, (_, row) =>
        turned === "wanted" ? 3 * row : row,
      )
      const table = random((3 * count + 1) * angles)
      const out = new Memory(4 * count * to)
      const { kernel, operands, groups } = headChoices(plan, step, { rope })[choice]!.launches[0]!
      checkKernel(kernel)
      const parts = packedWeights(weights)
      const memory = operands.map((binding) => {
        if (typeof binding === "number") return binding
        if (binding.kind === "step")
          return Memory.of(Uint32Array.from(binding.region.name === "count" ? [count] : tokens))
        if (binding.kind === "weight")
          return parts[["values", "scales", "minimums"].indexOf(binding.part)]!
        if (binding.kind !== "buffer") throw new Error(binding.kind)
        return [Memory.of(data), out, Memory.of(table)][binding.buffer]!.at(4 * binding.from)
      })
      const [x, , heads] = groups as [number, unknown, number]
      runKernel(kernel, memory, [x, 7, heads], { order: "shuffled" }) // more rows than there are
      const found = out.f32()
      if (turned)
        for (const [row, token] of tokens.entries()) {
          const view = { data, stride: from, from: 3, columns: given }
          turnRow(
            view,
            row,
            kept + columns,
            { data: table, stride: angles, from: 1, columns: kept },
            token,
          )
        }
      for (let row = 0; row < count; row++)
        for (let head = 0; head < HEADS; head++) {
          const begin = row * from + 3 + head * (kept + columns)
          const rows = { data, stride: 0, from: begin + kept, columns }
          const own = row * to + 2 + head * (outputs + kept)
          for (let n = 0; n < outputs; n++) {
            const four = new Float64Array(4)
            const at = head * outputs + n
            dotFour(rows, 0, matrix, [at, at, at, at], 0, columns, four)
            expect(found[own + n]).toBe(four[0])
          }
          for (let i = 0; i < kept; i++) expect(found[own + outputs + i]).toBe(data[begin + i])
        }
    }
  },
)

test("a product turns what nobody else reads turned, and all of what it keeps", () => {
  const view = (columns: number, buffer = 0): View => ({ buffer, from: 0, columns })
  const [rows, none] = ["tokens", view(0, 1)] as const
  const turning = { rows, op: "rope", view: view(20), headDim: 10, ropeTable: view(4, 2) } as const
  const product = { rows, op: "headMatmul", input: view(20), weight: 0, heads: 2 } as const
  const step = { ...product, kept: 4, output: view(30, 1) }
  const copy = { rows, op: "copy", input: view(20), output: view(20, 3) } as const
  const turns = (run: readonly Step[], made: Step, behind: readonly Step[] = []) => {
    const plan = { steps: [...run, made, ...behind], logits: none, hidden: none } as unknown as Plan
    return headTurning(plan, run, made) !== undefined
  }
  expect(turns([turning], step)).toBe(true)
  expect(turns([turning], step, [copy])).toBe(false)
  expect(turns([turning, copy], step)).toBe(false)
  expect(turns([turning], { ...step, kept: 6 })).toBe(false)
  expect(turns([turning], { ...step, rows: "wanted" })).toBe(false)
  expect(turns([turning], { ...step, input: view(20, 3) })).toBe(false)
  expect(turns([{ ...turning, headDim: 20 }], step)).toBe(false)
  // And what comes later stays out of a run that is not launched.
  const other = { ...copy, input: view(20, 4), output: view(20, 5) }
  const later = { steps: [turning, step, other], logits: none, hidden: none } as unknown as Plan
  expect(unitsOf(later).map(({ run }) => run)).toEqual([[0], [1], [2]])
})

// What a product merges and rounds itself is what kernels of their own make of the same.
test.each([1, 6])(
  "%i rows, some of which wait to be merged, and codes of what comes of them",
  (count) => {
    const [columns, outputs, spans] = [70, 80, 3]
    const weights = randomWeights("q4f16_1", HEADS * outputs, columns)
    const [given, made] = [HEADS * columns, HEADS * outputs]
    const codes = { codes: 2, scales: 3, columns: made, group: 16, codec: "q6_k" } as const
    const attention = { heads: HEADS, kvHeads: 1, headDim: 90, latent: columns } as Attention
    const attend = {
      rows: "tokens",
      op: "attend",
      query: { buffer: 4, from: 0, columns: 3 * 90 },
      attention: { ...attention, layer: 0, scale: 1, cap: undefined, window: undefined, sinks: 0 },
      arithmetic: "floats",
      sinkLogits: undefined,
      biases: undefined,
      place: { group: 0, layer: 0 },
      span: 256,
      output: { buffer: 0, from: 0, columns: given },
    } satisfies Step
    const step = {
      ...{ rows: "tokens", op: "headMatmul", weight: 0, heads: HEADS, kept: 0 },
      input: attend.output,
      output: { buffer: 1, from: 0, columns: made },
    } satisfies Step
    const rounding = {
      rows: "tokens",
      op: "quantize",
      input: step.output,
      output: codes,
    } satisfies Step
    const buffers = [given, made].map((columns) => ({ capacity: "tokens", columns, dtype: "f32" }))
    const none = { buffer: 1, from: 0, columns: 0 }
    const plan = {
      parameters: [weights.parameter],
      kv: "f32",
      sinks: 0,
      shapes: { context: 2048 },
      groups: [{ layers: [0], kvHeads: 1, headDim: { key: 90, value: 0 } }],
      buffers: [
        ...buffers,
        { capacity: "tokens", columns: made, dtype: "i8" },
        { capacity: "tokens", columns: made / 16, dtype: "scales" },
        { capacity: "tokens", columns: 270, dtype: "f32" },
      ],
      steps: [attend, step, rounding],
      logits: none,
      hidden: none,
    } as unknown as Plan
    expect(mergesHeads(plan, attend, step)).toBe(true)
    expect(headCodes(plan, step, [rounding])).toEqual(codes)

    // Two rows of one item wait, and one by itself; of the others there is what attention has made.
    const waits = (row: number) => (count === 1 ? row === 0 : row === 1 || row === 2 || row === 4)
    const items = (
      count === 1
        ? [[0, 1]]
        : [
            [1, 2],
            [4, 1],
          ]
    ).map(([row, rows], i) => [row!, rows!, 0, 0, 0, i * 2 * spans, spans, 0])
    const itemOf = (row: number) =>
      waits(row)
        ? items.findIndex(([first, rows]) => row >= first! && row < first! + rows!)
        : NO_ITEM
    const next = mulberry32(count)
    const random = (length: number) => Float32Array.from({ length }, () => next() / 2 ** 30 - 2)
    const partials = Memory.of(
      random(3 * spans * HEADS * (columns + 2)).map((x, i) =>
        i % (columns + 2) === columns + 1 ? Math.abs(x) + 1 : x,
      ),
    )
    const [from, to] = plan.buffers.map(strideOf) as [number, number]
    const data = random(count * from)
    const places = () => [
      Memory.of(data.slice()),
      new Memory(4 * count * to),
      new Memory(count * strideOf(plan.buffers[2]!)),
      new Memory(4 * count * strideOf(plan.buffers[3]!)),
    ]
    const parts = packedWeights(weights)
    const words = (values: readonly number[]) => Memory.of(Uint32Array.from(values))
    const run = (launch: Launch, own: readonly Memory[], rows: number) => {
      checkKernel(launch.kernel)
      const regions: Record<string, Memory> = {
        count: words([count]),
        items: words(items.flat()),
        chunkStarts: words([0, items.length]),
        waiting: words(Array.from({ length: count }, (_, row) => itemOf(row))),
      }
      const memory = launch.operands.map((binding) => {
        if (typeof binding === "number") return binding
        if (binding.kind === "step") return regions[binding.region.name]!
        if (binding.kind === "weight")
          return parts[["values", "scales", "minimums"].indexOf(binding.part)]!
        if (binding.kind === "scratch") return partials
        if (binding.kind === "chunk") return 0
        if (binding.kind !== "buffer") throw new Error(binding.kind)
        return own[binding.buffer]!
      })
      const [x, , z] = launch.groups
      runKernel(launch.kernel, memory, [x as number, rows, z as number], { order: "shuffled" })
    }
    const itself = places()
    const waiting = waitingOf(plan, attend, ["dots"])
    const [choice] = headChoices(plan, step, { waiting, codes }).slice(count === 1 ? 0 : 1)
    run(choice!.launches[0]!, itself, 3) // more rows than there are

    const others = places()
    const merge = attendChoices(plan, attend, ["dots"], undefined)[0]!.launches.at(-1)!
    run({ ...merge, groups: [2, 1, 1] }, others, HEADS)
    run(headChoices(plan, step).at(-1)!.launches[0]!, others, 3)
    const rows = { data: others[1]!.f32(), stride: to, from: 0, columns: made }
    const wanted = {
      codes: new Int8Array(count * made),
      scales: new Float32Array((count * made) / 16),
      columns: made,
      group: 16,
    }
    for (let row = 0; row < count; row++) quantize(rows, wanted, row)
    expect(itself[2]!.i8()).toEqual(wanted.codes)
    expect(itself[3]!.f32().filter((_, i) => i % strideOf(plan.buffers[3]!) < made / 16)).toEqual(
      wanted.scales,
    )
  },
)
