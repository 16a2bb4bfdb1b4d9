import { expect, test } from "vitest"
import { narrow, widen } from "../../runtime/dtype.ts"
import { rowsOf, wovenRows } from "./rows.ts"

// 32 codes of 8 bits, 128 less each, times a scale in f16: 0x3400 is 0.25.
test("a row is added to packed ones in floats", async () => {
  const codes = Uint8Array.from({ length: 64 }, (_, i) => 100 + i)
  const scales = Uint8Array.of(0x00, 0x34, 0x00, 0x3c)
  const stored = {
    codec: "q8_0",
    read: async () => ({ rows: 2, values: codes, scales }),
  } as const
  const addend = Float32Array.from({ length: 32 }, (_, i) => i / 8)
  const added = {
    codec: "f32",
    read: async () => ({ rows: 1, values: new Uint8Array(addend.buffer) }),
  } as const
  const tensor = rowsOf(stored, { tensor: "x" }, 32, added)
  expect(tensor.codec).toBe("f32")
  const sums = widen((await tensor.read(0, 2)).values, "f32")
  const expected = Array.from(codes, (code, i) => (code - 128) * (i < 32 ? 0.25 : 1) + (i % 32) / 8)
  expect(Array.from(sums)).toEqual(expected)
})

/** 12 columns from `first` on in each of two rows. */
const counting = (first: number, codec: "f32" | "f16") => {
  const values = Float32Array.from({ length: 24 }, (_, i) => first + i)
  const read = async (row: number, rows: number) => ({
    rows,
    values: narrow(values.subarray(row * 12, (row + rows) * 12), codec),
  })
  return { codec, read } as const
}

test.each(["f32", "f16"] as const)("rows take turns in their columns, one of %s", async (codec) => {
  const tensor = wovenRows([counting(0, codec), counting(100, "f32")], 24, 4)
  expect(tensor.codec).toBe("f32")
  const four = (first: number) => [first, first + 1, first + 2, first + 3]
  const expected = [12, 112, 16, 116, 20, 120].flatMap(four)
  expect(Array.from(widen((await tensor.read(1, 1)).values, "f32"))).toEqual(expected)
})
