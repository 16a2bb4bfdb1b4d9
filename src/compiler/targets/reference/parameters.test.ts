import { expect, test } from "vitest"
import { smallGraph } from "../../../../test/model/small.ts"
import type { GroupCodecName } from "../../../runtime/format.ts"
import { rowLayout } from "../../../runtime/format.ts"
import type { Parameter } from "../../../runtime/manifest.ts"
import { compile } from "../../compile.ts"
import { allocateParameters, readRow, storeRows } from "./parameters.ts"

// docs/determinism.md: a row of the embedding is rounded to the type of the scales. 7 times the f16 after 1 lies between two
// f16, whose distance is 2^-8 there.
const SCALE = 1 + 2 ** -10
const exact = 7 * SCALE

test.each<[GroupCodecName, number]>([
  ["q4f16_1", 7 + 2 ** -7],
  ["q4f32_1", exact],
])("an embedding row of %s", (codec, expected) => {
  const plan = compile(smallGraph({}), { format: "q4f16_1", activations: "int8", kv: "f16" })
  const { columns } = plan.parameters[0]!
  const table: Parameter = { ...plan.parameters[0]!, rows: 1, codec, sources: [] }
  const { words, groups } = rowLayout(codec, columns)
  const codes = new Uint32Array(words).fill(0xeeee_eeee) // 14 less the zero, 7
  const scales =
    codec === "q4f16_1"
      ? new Uint16Array(groups).fill(0x3c01)
      : new Float32Array(groups).fill(SCALE)
  const bytes = ({ buffer }: Uint32Array | Uint16Array | Float32Array) => new Uint8Array(buffer)
  const [asFloats] = allocateParameters({ ...plan, steps: [], parameters: [table] })
  const multiplied = plan.steps.find((step) => step.op === "matmul" && step.input.kind === "int8")!
  const [asCodes] = allocateParameters({
    ...plan,
    steps: [{ ...multiplied, weight: 0 } as typeof multiplied],
    parameters: [table],
  })
  expect([asFloats!.kind, asCodes!.kind]).toEqual(["floats", "codes"])
  for (const stored of [asFloats!, asCodes!]) {
    storeRows(stored, table, 0, 1, bytes(codes), bytes(scales))
    const row = new Float32Array(columns)
    readRow(stored, 0, row)
    expect([...row]).toEqual(new Array(columns).fill(Math.fround(expected)))
  }
})
