import { expect, test } from "vitest"
import { narrow, widen } from "../../runtime/dtype.ts"
import { convert, quantise } from "./convert.ts"

// The vectors published with MLC's converter: w[i] = (((37 i) mod 29) - 14) / 16, one row of 40.
const row = Float32Array.from({ length: 40 }, (_, i) => (((37 * i) % 29) - 14) / 16)
const published = [
  {
    format: "q4f16_1",
    words: "ea62c840 2c840b73 51c84ea6 840a62d9 b73ea51c 00000000 00000000 00000000",
    scales: [0.125, 0.1160888671875],
  },
  {
    format: "q3f16_1",
    words: "19d11ad0 168cd885 0467442b 2b3a235a",
    scales: [0.291748046875],
  },
  {
    format: "q8f16_1",
    words: "da914900 f5ac641b 09c87f36",
    scales: [0.00688934326171875, 0.006397247314453125],
  },
] as const

test.each(published)(
  "$format packs the published row byte for byte",
  ({ format, words, scales }) => {
    const packed = quantise(row.slice(), 1, 40, format)
    const hex = [...new Uint32Array(packed.values.buffer as ArrayBuffer)].map((word) =>
      word.toString(16).padStart(8, "0"),
    )
    expect(hex.join(" ").slice(0, words.length)).toBe(words)
    expect([...widen(packed.scales!, "f16")]).toEqual(scales)
  },
)

test("rows are packed one by one, zeros too", () => {
  const two = Float32Array.of(...row, ...new Float32Array(40))
  const packed = quantise(two, 2, 40, "q4f16_1")
  const alone = quantise(row.slice(), 1, 40, "q4f16_1")
  expect(packed.values.subarray(0, 32)).toEqual(alone.values)
  expect(packed.scales!.subarray(0, 4)).toEqual(alone.scales)
  expect([...widen(packed.scales!.slice(4), "f16")]).toEqual([0, 0])
})

test("floats are widened and rounded, codes are taken as they are", () => {
  const stored = { rows: 1, values: narrow(Float32Array.of(0.1, -0.3), "bf16") }
  expect(convert(stored, 2, "bf16", "bf16")).toBe(stored)
  const halves = convert(stored, 2, "bf16", "f16")
  expect([...widen(halves.values, "f16")]).toEqual([0.10009765625, -0.30078125])
  expect(() => convert(stored, 2, "q4f16_1", "f16")).toThrow(/cannot become/)
})

test("codes that are floats become floats: each times the scale of its group", () => {
  const values = new Uint8Array(64)
  values.set([0x38, 0xb8, 0x01, 0x7e])
  values[32] = 0x40
  const stored = { rows: 1, values, scales: narrow(Float32Array.of(2, 3), "f32") }
  const floats = widen(convert(stored, 33, "e4m3", "f32").values, "f32")
  expect([...floats.subarray(0, 4), floats[32]]).toEqual([2, -2, 2 ** -8, 896, 6])
})

test("codes become floats of 32 bits, which hold what they stand for, and no other codec", () => {
  const packed = quantise(row.slice(), 1, 40, "q4f16_1")
  const floats = widen(convert(packed, 40, "q4f16_1", "f32").values, "f32")
  // Of the first group every float is a whole number of the published scale.
  expect([...floats.subarray(0, 32)].map((x) => x / 0.125).every(Number.isInteger)).toBe(true)
  expect(floats[0]).toBe(-0.875)
  expect(() => convert(packed, 40, "q4f16_1", "f16")).toThrow("cannot become")
})
