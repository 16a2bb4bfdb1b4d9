// Products of heads on the slow twin, bit for bit the reference's.

import { expect, test } from "vitest"
import {
  packedWeights,
  randomWeights,
  referenceWeights,
} from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import type { CodecName } from "../../../../runtime/format.ts"
import type { Plan, Step } from "../../../plan.ts"
import { dotFour } from "../../reference/kernels.ts"
import type { Floats } from "../../reference/parameters.ts"
import { checkKernel } from "../ir/check.ts"
import { Memory, runKernel } from "../ir/run.ts"
import { strideOf } from "../layout.ts"
import { headChoices } from "./heads.ts"

const HEADS = 3

test.each<[CodecName, number, number, number]>([
  ["f32", 19, 70, 0],
  ["f16", 40, 66, 5],
  ["q4f16_1", 45, 7, 130],
])("%s of %i columns, %i of a head and %i kept", (codec, columns, outputs, kept) => {
  const weights = randomWeights(codec, HEADS * outputs, columns)
  const [given, made] = [HEADS * (kept + columns), HEADS * (outputs + kept)]
  const buffers = [given + 3, made + 2].map((columns) => ({
    capacity: "tokens",
    columns,
    dtype: "f32",
  })) as Plan["buffers"]
  const step = {
    rows: "tokens",
    op: "headMatmul",
    input: { buffer: 0, from: 3, columns: given },
    weight: 0,
    heads: HEADS,
    kept,
    output: { buffer: 1, from: 2, columns: made },
  } satisfies Step
  const plan = { parameters: [weights.parameter], buffers } as unknown as Plan
  const [from, to] = buffers.map(strideOf) as [number, number]
  const matrix = referenceWeights(weights, "floats") as Floats
  const next = mulberry32(columns)
  for (const [choice, count] of [
    [0, 2],
    [1, 6],
  ] as const) {
    const data = Float32Array.from({ length: count * from }, () => next() / 2 ** 31 - 1)
    const out = new Memory(4 * count * to)
    const { kernel, operands, groups } = headChoices(plan, step)[choice]!.launches[0]!
    checkKernel(kernel)
    const parts = packedWeights(weights)
    const memory = operands.map((binding) => {
      if (typeof binding === "number") return binding
      if (binding.kind === "step") return Memory.of(Uint32Array.of(count))
      if (binding.kind === "weight")
        return parts[["values", "scales", "minimums"].indexOf(binding.part)]!
      if (binding.kind !== "buffer") throw new Error(binding.kind)
      return (binding.buffer === 0 ? Memory.of(data) : out).at(4 * binding.from)
    })
    const [x, , heads] = groups as [number, unknown, number]
    runKernel(kernel, memory, [x, 7, heads], { order: "shuffled" }) // more rows than there are
    const found = out.f32()
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
})
