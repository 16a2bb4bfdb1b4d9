// The limits that a benchmark measures of a GPU: its kernels do as much as is counted of them, and shares are of what was measured.

import { expect, test } from "vitest"
import { dots, matrixProducts, multiplyAdds, reads, tileProducts } from "../bench/device-limits.ts"
import { sharesOf } from "../bench/limit-shares.ts"
import { Memory, runKernel } from "../src/compiler/targets/gpu/ir/run.ts"
import { floatWord } from "../src/compiler/targets/gpu/launch.ts"
import { printers } from "../src/compiler/targets/gpu/printers.ts"
import { mulberry32 } from "./random.ts"

const THREADS = 256

test("a group reads 128 KiB, each word once", () => {
  const next = mulberry32(1)
  const words = Uint32Array.from({ length: 2 * (32 << 10) }, () => next())
  const out = Memory.of(new Uint32Array(2 * THREADS))
  runKernel(reads, [Memory.of(words), out], [2, 1, 1])
  const xor = (numbers: Uint32Array) => numbers.reduce((a, b) => a ^ b, 0) >>> 0
  expect(xor(wordsOf(out))).toBe(xor(words))
})

const wordsOf = (memory: Memory) => {
  const { buffer, byteOffset, byteLength } = memory.u8()
  return new Uint32Array(buffer, byteOffset, byteLength / 4)
}

test("each turn has 64 operations of a thread, none of which can be left out", () => {
  const out = Memory.of(new Uint32Array(THREADS))
  runKernel(dots, [out, 2, 0x01030507], [1, 1, 1])
  const factors = [7, 5, 3, 1] // the lowest byte first
  const chain = (from: number) => {
    let x = from
    for (let i = 0; i < 2 * 8; i++)
      x =
        factors.reduce((sum, factor, byte) => sum + factor * ((x << (24 - 8 * byte)) >> 24), 1) | 0
    return x
  }
  const expected = Uint32Array.from({ length: THREADS }, (_, lane) =>
    Array.from({ length: 8 }, (_, i) => chain(lane + i)).reduce((a, b) => a ^ b),
  )
  expect(wordsOf(out)).toEqual(expected)

  runKernel(multiplyAdds, [out, 2, floatWord(0.5), floatWord(1)], [1, 1, 1])
  // From x to (x - 2) / 2^16 + 2, which floats hold: 8 chains of neighbours.
  const sums = new Float32Array(wordsOf(out).buffer, 0, THREADS)
  for (const [lane, sum] of sums.entries())
    expect(sum).toBeCloseTo(8 * 2 + (8 * (lane - 2) + 28) / 2 ** 16, 4)
})

test.each(Object.entries(printers))("every kernel is said in the words of %s", (_, printer) => {
  const { units, profiles } = printer
  const tiles = units.flatMap((each) =>
    each === "tiles" ? [matrixProducts] : each === "dots" ? [] : [tileProducts[each]],
  )
  for (const kernel of [reads, dots, multiplyAdds])
    for (const needs of profiles)
      expect(printer.print([kernel], needs).kernels[0]!.name).toBe(kernel.name)
  for (const kernel of tiles) {
    const needs = profiles.find(
      (each) =>
        kernel === matrixProducts || each.some((need) => need.startsWith(kernel.name.slice(15))),
    )!
    expect(printer.print([kernel], needs).modules[0]!.length).toBeGreaterThan(0)
  }
})

const engine = {
  weightBytes: 4e9,
  operations: 14e9,
  isMixture: false,
  isCoded: true,
  launches: 320,
}
const gpu = {
  read_gbs: 4000,
  int8_gops: 100e3,
  matrix_gops: 1000e3,
  f32_gflops: 50e3,
  launch_us: 1,
  submission_us: 30,
}

test("shares are of the limits that stand beside them", () => {
  // A step of 2 ms: 1 for reading, 0.35 for launches and submission.
  expect(sharesOf("decode 4 together, tok/s", 2000, engine, gpu)).toEqual({
    "read bandwidth": expect.closeTo(0.5),
    "reading, launches and submission": expect.closeTo(0.675),
  })
  expect(sharesOf("prefill 512, tok/s", 10_000, engine, gpu)).toEqual({
    "dots of four bytes": expect.closeTo(1.4),
    "the matrix units' arithmetic": expect.closeTo(0.14),
  })
  const floats = { ...engine, isCoded: false }
  expect(sharesOf("prefill 512, tok/s", 1000, floats, gpu)).toEqual({
    "multiply-adds": expect.closeTo(0.28),
  })
  const { read_gbs, int8_gops } = gpu
  const processor = { read_gbs, int8_gops, matrix_gops: 0 }
  expect(Object.keys(sharesOf("prefill 512, tok/s", 1, engine, processor))).toEqual([
    "vector arithmetic in 8 bits",
  ])
  expect(sharesOf("decode 4 together, tok/s", 1, { ...engine, isMixture: true }, gpu)).toEqual({})
})
