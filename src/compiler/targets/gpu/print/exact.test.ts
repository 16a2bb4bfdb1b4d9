// What is counted out in whole numbers is what doubles say, rounded once, on the twin: for numbers of all kinds, and for those
// at which something changes.

import { expect, test } from "vitest"
import { mulberry32 } from "../../../../../test/random.ts"
import { fma } from "../../reference/arithmetic.ts"
import { type Builder, kernel, type Value } from "../ir/builder.ts"
import { Memory, runKernel } from "../ir/run.ts"
import { divide, multiplyAdd, root } from "./exact.ts"

const COUNT = 30_000
const next = mulberry32(1)

/** Of every size; next to zero; of few digits, whose quotients and sums lie halfway between floats; next to the largest. */
const kinds = [
  () => next(),
  () => next() & 0x80ffffff,
  () => next() & 0xfff80000,
  () => (next() & 0x803fffff) + 0x3f000000,
  () => (next() & 0x80ffffff) + 0x7f000000,
  () => [0, 0x80000000, 1, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0xff800000][next() % 8]!,
]

function numbers(): Float32Array {
  const bits = Uint32Array.from({ length: COUNT }, () => kinds[next() % kinds.length]!())
  return new Float32Array(bits.buffer)
}

/** What a function gives for numbers, lane by lane. */
function results(
  write: (k: Builder, ...parameters: Value[]) => Value,
  inputs: readonly Float32Array[],
): Float32Array {
  const written = kernel("exact", 64, (k) => {
    const buffers = inputs.map((_, i) => k.buffer(`${i}`, "f32", "read"))
    const output = k.buffer("output", "f32", "write")
    k.for(k.group(0).mul(64).add(k.lane), COUNT, k.groups(0).mul(64), (i) =>
      output.store(i, write(k, ...buffers.map((buffer) => buffer.load(i)))),
    )
  })
  const output = new Memory(4 * COUNT)
  runKernel(written, [...inputs.map((input) => Memory.of(input)), output], [4, 1, 1])
  return output.f32()
}

function wrong(found: Float32Array, expected: (i: number) => number, inputs: Float32Array[]) {
  const places = Array.from(found.keys()).filter(
    (i) => !Object.is(found[i], Math.fround(expected(i))),
  )
  const told = places.slice(0, 5)
  return told.map(
    (i) => `${inputs.map((input) => input[i]).join(" ")}: ${found[i]}, not ${expected(i)}`,
  )
}

test("quotients", () => {
  const [a, b] = [numbers(), numbers()]
  for (let i = 0; i < COUNT; i += 3) a[i] = b[i]! * (next() % 4096) // exact, or halfway
  expect(wrong(results(divide, [a, b]), (i) => a[i]! / b[i]!, [a, b])).toEqual([])
})

test("roots", () => {
  const a = numbers()
  for (let i = 0; i < COUNT; i += 3) a[i] = Math.fround(Math.abs(a[i]!)) ** 2
  for (let i = 1; i < COUNT; i += 3) a[i] = Math.abs(a[i]!)
  expect(wrong(results(root, [a]), (i) => Math.sqrt(a[i]!), [a])).toEqual([])
})

test("products and sums in one", () => {
  const [a, b, c] = [numbers(), numbers(), numbers()]
  const unit = 2 ** -23
  for (let i = 0; i < COUNT; i++) {
    const product = a[i]! * b[i]!
    // What is left of a product less itself; sums whose parts are far apart; halfway between floats, and a little beside.
    if (i % 5 === 0) c[i] = -product
    else if (i % 5 === 1) c[i] = Math.fround(product) * 2 ** ((next() % 120) - 60)
    else if (i % 5 === 2) {
      const scale = 2 ** ((next() % 200) - 100)
      a[i] = (1 + (next() % 3) * unit) * scale
      b[i] = (1 - (next() % 3) * unit) * (unit / 2)
      c[i] = (1 + (next() % 8) * unit) * (next() % 2 ? scale : -scale)
    }
  }
  const found = results(multiplyAdd, [a, b, c])
  expect(wrong(found, (i) => fma(a[i]!, b[i]!, c[i]!), [a, b, c])).toEqual([])
})
