import { expect, test } from "vitest"
import { narrow } from "../../../../runtime/dtype.ts"
import { gumbel as gumbelOf, noiseKey } from "../../../../runtime/noise.ts"
import * as single from "../../../../runtime/single.ts"
import { elementwise } from "../../../graph/elementwise.ts"
import * as arithmetic from "../../reference/arithmetic.ts"
import { type Builder, kernel, type Value } from "../ir/builder.ts"
import { Memory, runKernel } from "../ir/run.ts"
import {
  addWhole,
  exp,
  expSingle,
  gumbel,
  LaneSums,
  logNearOne,
  logSingle,
  nearestBrain,
  nearestEven,
  partOf,
  reaches,
  settled,
  wholeShare,
  widenedBrain,
} from "./numbers.ts"

const THREADS = 64

/** What a function of the kernel language makes of each of some floats. */
function eachOf(
  values: Float32Array,
  of: (k: Builder, x: Value) => Value,
  element: "f32" | "u32" = "f32",
): Float32Array {
  const each = kernel("each", THREADS, (k) => {
    const [input, output] = [k.buffer("input", "f32", "read"), k.buffer("output", element, "write")]
    const count = k.word("count")
    k.each(count, (i) => output.store(i, of(k, input.load(i))))
  })
  const output = new Memory(4 * values.length)
  runKernel(each, [Memory.of(values), output, values.length], [1, 1, 1])
  return output.f32()
}

function expectSame(found: Float32Array, wanted: Float32Array, of: Float32Array): void {
  for (const [i, value] of wanted.entries())
    expect(Object.is(found[i], value), `${found[i]} and not ${value} of ${of[i]}`).toBe(true)
}

/** Numbers of every size, both signs, and those that are special. */
function numbers(): Float32Array {
  const special = [
    0, -0, 1, -1, 0.5, -87, -87.00001, 88, 89, -120, 1e30, -1e30, 3.4028234663852886e38,
  ]
  const odd = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const some = Array.from({ length: 800 }, (_, i) => Math.sin(i * 7.3) * 2 ** ((i % 23) - 14))
  return Float32Array.from([...special, ...odd, ...some])
}

/** Floats from `from` to `to`, both among them. */
function between(from: number, to: number, count = 900): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => from + ((to - from) * i) / (count - 1))
}

const finite = (values: Float32Array) => values.filter((value) => Number.isFinite(value))

test("e^x has the reference's bits", () => {
  for (const x of [numbers(), between(-90, 90)])
    expectSame(eachOf(x, exp), x.map(arithmetic.exp), x)
})

for (const [name, { js, gpu }] of Object.entries(elementwise))
  test(`${name} has the reference's bits`, () => {
    for (const x of [numbers(), between(-12, 12)])
      expectSame(
        eachOf(x, (k, value) => gpu(k, value, 2.7)),
        x.map((value) => js(value, 2.7)),
        x,
      )
  })

test("what sampling is made of has runtime's bits", () => {
  const check = (
    x: Float32Array,
    gpu: (k: Builder, x: Value) => Value,
    js: (x: number) => number,
  ) => expectSame(eachOf(x, gpu), x.map(js), x)
  const tiny = Float32Array.from([2 ** -126, 2 ** -127, -(2 ** -149), 2 ** -125])
  check(numbers(), settled, single.settled)
  check(tiny, settled, single.settled)
  check(
    finite(numbers()).map((x) => -Math.abs(x)),
    expSingle,
    single.expSingle,
  )
  check(between(-90, 0), expSingle, single.expSingle)
  const positive = finite(numbers())
    .map(Math.abs)
    .filter((x) => x > 0)
  check(positive, logSingle, single.logSingle)
  check(between(0.5, 2), logSingle, single.logSingle)
  check(between(Math.SQRT1_2 - 1, Math.SQRT2 - 1), logNearOne, single.logNearOne)
})

test("nearestEven rounds halves to the even number", () => {
  const x = Float32Array.of(0.5, 1.5, 2.5, -0.5, -1.5, 6.4999, 126.5, -126.50001)
  expect([...eachOf(x, (_, value) => nearestEven(value))]).toEqual([0, 2, 2, 0, -2, 6, 126, -127])
})

test("bf16 are rounded as files are, and widened", () => {
  const x = Float32Array.from([...numbers(), 1.00390625, 1.01171875, 3.39e38, -3.4e38])
  const words = new Uint32Array(eachOf(x, nearestBrain, "u32").buffer, 0, x.length)
  const stored = new Uint16Array(narrow(x, "bf16").buffer)
  expect([...words]).toEqual([...stored])
  const wide = Float32Array.from(stored, (word) => arithmetic.fma(1, floatOf(word << 16), 0))
  const found = eachOf(x, (k, value) => widenedBrain(nearestBrain(k, value)))
  for (const [i, value] of wide.entries()) if (value !== 0) expect(found[i]).toBe(value)
})

const floatOf = (word: number) => new Float32Array(Int32Array.of(word).buffer)[0]!

test("noise is that of runtime, for any key", () => {
  const COUNT = 1000
  const noise = kernel("noise", THREADS, (k) => {
    const output = k.buffer("output", "f32", "write")
    const key = { low: k.word("low"), high: k.word("high") }
    k.each(COUNT, (token) => output.store(token, gumbel(k, key, token.mul(7919))))
  })
  for (const seed of [0n, 12345678901234567890n, 2n ** 64n - 1n]) {
    const key = noiseKey(seed, 3, 77)
    const output = new Memory(4 * COUNT)
    runKernel(noise, [output, key.low >>> 0, key.high >>> 0], [1, 1, 1])
    const tokens = Float32Array.from({ length: COUNT }, (_, i) => i * 7919)
    expectSame(
      output.f32(),
      tokens.map((token) => gumbelOf(key, token)),
      tokens,
    )
  }
})

test("whole numbers of two words are exact", () => {
  const words = kernel("wholes", THREADS, (k) => {
    const [input, output] = [k.buffer("input", "f32", "read"), k.buffer("output", "u32", "write")]
    const [low, high, part] = [k.word("low"), k.word("high"), k.word("part")]
    k.each(512, (i) => {
      const share = wholeShare(k, input.load(i))
      const sum = addWhole(k, share, { low, high })
      const some = partOf(k, sum, part)
      for (const [at, value] of [share, sum, some]
        .flatMap(({ low, high }) => [low, high])
        .entries())
        output.store(i.mul(7).add(at), value)
      k.if(
        reaches(k, sum, some),
        () => output.store(i.mul(7).add(6), 1),
        () => output.store(i.mul(7).add(6), 0),
      )
    })
  })
  const shares = Float32Array.from({ length: 512 }, (_, i) =>
    i < 4 ? [1, 0, 2 ** -40, 1 - 2 ** -24][i]! : single.expSingle(-i / 17),
  )
  const base = 0x0123_4567_ffff_f123n
  for (const part of [0, 1, 123457, 2 ** 24 - 1, 2 ** 24]) {
    const output = new Memory(4 * 7 * 512)
    const operands = [
      Memory.of(shares),
      output,
      Number(base & 0xffffffffn),
      Number(base >> 32n),
      part,
    ]
    runKernel(words, operands, [1, 1, 1])
    const found = new Uint32Array(output.f32().buffer, 0, 7 * 512)
    for (const [i, share] of shares.entries()) {
      const whole = BigInt(Math.floor(share * 2 ** 40))
      const sum = whole + base
      const some = (sum * BigInt(part) + 16777215n) >> 24n
      const at = (j: number) => BigInt(found[7 * i + j]!)
      expect([at(0) + (at(1) << 32n), at(2) + (at(3) << 32n), at(4) + (at(5) << 32n)]).toEqual([
        whole,
        sum,
        some,
      ])
      expect(at(6)).toBe(sum >= some ? 1n : 0n)
    }
  }
})

/** One group: the sums, and the sums of squares, of `count` pieces of `width` numbers. */
function sumsOf(threads: number, count: number, width: number, values: Float32Array) {
  const several = kernel("sums", threads, (k) => {
    const [input, output] = [k.buffer("input", "f32", "read"), k.buffer("output", "f32", "write")]
    const sums = new LaneSums(k)
    if (count === 1) {
      const sum = sums.sum(width, (i) => {
        const x = input.load(i)
        return (before) => before.add(x)
      })
      const mean = k.let(sum.div(width))
      const square = sums.sum(width, (i) => {
        const x = k.let(input.load(i).sub(mean))
        return (before) => before.add(x.mul(x))
      })
      k.if(k.lane.eq(threads - 1), () => {
        output.store(0, sum)
        output.store(1, square)
      })
      return
    }
    const atOnce = threads / LaneSums.threads(width)
    sums.enterLoop()
    k.for(0, count, atOnce, (first) => {
      const number = k.let(first.add(k.lane.div(LaneSums.threads(width))))
      const bounded = k.let(number.min(count - 1))
      const from = k.let(bounded.mul(width))
      const sum = sums.sums(width, (i) => {
        const x = input.load(from.add(i))
        return (before) => before.add(x)
      })
      k.if(number.lt(count).and(k.lane.rem(LaneSums.threads(width)).eq(3)), () =>
        output.store(number, sum),
      )
    })
  })
  const output = new Memory(4 * Math.max(2, count))
  runKernel(several, [Memory.of(values), output], [1, 1, 1], { order: "backward" })
  return output.f32()
}

test("a group's sum of a row is added in the order of a processor's lanes", () => {
  for (const threads of [64, 128, 256])
    for (const width of [1, 5, 12, 15, 16, 17, 32, 63, 64, 65, 80, 96, 127, 128, 200, 1000, 1037]) {
      const values = Float32Array.from(
        { length: width },
        (_, i) => Math.sin(i * 3.7) * 2 ** (i % 9),
      )
      const [sum, square] = sumsOf(threads, 1, width, values)
      const wanted = Math.fround(arithmetic.sumOf(values, 0, width))
      expect(sum).toBe(wanted)
      const mean = Math.fround(wanted / width)
      const squares = values.map((x) => Math.fround(Math.fround(x - mean) * Math.fround(x - mean)))
      expect(square).toBe(Math.fround(arithmetic.sumOf(squares, 0, width)))
    }
})

test("sums of several heads of a row are made at once", () => {
  for (const [threads, count, width] of [
    [64, 4, 6],
    [64, 5, 16],
    [256, 40, 12],
    [256, 7, 80],
    [128, 9, 32],
    [256, 33, 64],
    [64, 3, 130],
  ] as const) {
    const values = Float32Array.from(
      { length: count * width },
      (_, i) => Math.cos(i * 1.7) * (i % 5),
    )
    const found = sumsOf(threads, count, width, values)
    for (let head = 0; head < count; head++)
      expect(found[head]).toBe(Math.fround(arithmetic.sumOf(values, head * width, width)))
  }
})
