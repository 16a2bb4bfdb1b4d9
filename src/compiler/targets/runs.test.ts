import { expect, test } from "vitest"
import { smallGraph } from "../../../test/model/small.ts"
import { compile } from "../compile.ts"
import type { Step, View } from "../plan.ts"
import { runs } from "./runs.ts"

const view = (buffer: number): View => ({ buffer, from: 0, columns: 8 })

/** The operations of each run. */
function opsOf(steps: readonly Step[]): string[] {
  return runs(steps).map((run) => run.map((i) => steps[i]!.op).join(" "))
}

test("neighbours that know nothing but their row are done together", () => {
  const { steps } = compile(smallGraph({ layers: 2 }), {
    format: "q4f16_1",
    activations: "int8",
    kv: "f32",
  })
  expect(runs(steps).flat()).toEqual(steps.map((_, i) => i))
  expect(opsOf(steps).slice(0, 8)).toEqual([
    "embed norm quantize",
    "matmul",
    "norm ropeTable rope rope storeKv",
    "attend",
    "quantize",
    "matmul",
    "norm quantize",
    "matmul",
  ])
})

test("rows of another set are another run", () => {
  const copy = (rows: Step["rows"]): Step => ({ rows, op: "copy", input: view(0), output: view(1) })
  expect(runs([copy("tokens"), copy("tokens"), copy("wanted")])).toEqual([[0, 1], [2]])
})

test("nobody writes where another row has still to be read", () => {
  const rows = "wanted"
  const select: Step = { rows, op: "select", input: view(0), from: "tokens", output: view(1) }
  const rope: Step = { rows, op: "rope", view: view(1), headDim: 8, ropeTable: view(3) }
  const copyTo = (buffer: number): Step => ({
    rows,
    op: "copy",
    input: view(1),
    output: view(buffer),
  })
  expect(runs([select, rope, copyTo(2)])).toEqual([[0, 1, 2]])
  expect(runs([select, rope, copyTo(0), copyTo(2)])).toEqual([
    [0, 1],
    [2, 3],
  ])
  expect(runs([select, rope, copyTo(3)])).toEqual([[0, 1], [2]])
  // All tokens have their own row of the table.
  expect(
    runs([
      { ...rope, rows: "tokens" },
      { ...copyTo(3), rows: "tokens" },
    ]),
  ).toEqual([[0, 1]])
})
