import { expect, test } from "vitest"
import { narrow, nearestEven, rounding, widen } from "./dtype.ts"

const words = (values: number[], dtype: "f16" | "bf16") =>
  [...new Uint16Array(narrow(Float32Array.from(values), dtype).buffer as ArrayBuffer)].map((word) =>
    word.toString(16).padStart(4, "0"),
  )

test("bf16 rounds as MLC writes it", () => {
  expect(words([1, 0.1, -0.3, Math.PI, 1e-8], "bf16")).toEqual([
    "3f80",
    "3dcd",
    "be9a",
    "4049",
    "322c",
  ])
  expect(words([3.4e38, Number.POSITIVE_INFINITY, -0], "bf16")).toEqual(["7f7f", "7f80", "8000"])
})

test("f16 rounds to the nearest, halves to even, small numbers and large ones too", () => {
  // 1/3; the largest; what rounds up to infinity; the smallest normal, the smallest; half of it is a tie to 0
  const values = [1 / 3, 65504, 65519.9, 65520, 2 ** -14, 2 ** -24, 2 ** -25, 3 * 2 ** -25]
  expect(words(values, "f16")).toEqual([
    "3555",
    "7bff",
    "7bff",
    "7c00",
    "0400",
    "0001",
    "0000",
    "0002",
  ])
  expect(words([2049, 2051, -2049, Number.NaN], "f16")).toEqual(["6800", "6802", "e800", "7e00"])
})

test("every f16 and bf16 number comes back as itself", () => {
  for (const dtype of ["f16", "bf16"] as const) {
    const all = Uint16Array.from({ length: 65536 }, (_, word) => word)
    const values = widen(new Uint8Array(all.buffer), dtype)
    const back = new Uint16Array(narrow(values, dtype).buffer as ArrayBuffer)
    for (let word = 0; word < 65536; word++)
      if (!Number.isNaN(values[word]!)) expect(back[word]).toBe(word)
  }
})

test("f16 rounds from the double, once", () => {
  // 1 + 2^-11 is halfway between 1 and the next f16; a little more must go up, although float32 cannot tell it from halfway.
  expect(rounding.f16(1 + 2 ** -11)).toBe(1)
  expect(rounding.f16(1 + 2 ** -11 + 2 ** -40)).toBe(1 + 2 ** -10)
})

test("bytes that begin at odd places are read as well", () => {
  const bytes = new Uint8Array(9)
  bytes.set(new Uint8Array(Float32Array.of(1.5, -2).buffer), 1)
  expect([...widen(bytes.subarray(1), "f32")]).toEqual([1.5, -2])
})

test("halves go to the even integer", () => {
  expect([0.5, 1.5, 2.5, -0.5, -1.5, 6.4999].map(nearestEven)).toEqual([0, 2, 2, 0, -2, 6])
})
