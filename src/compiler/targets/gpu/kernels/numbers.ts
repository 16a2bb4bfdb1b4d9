// The arithmetic of reference/arithmetic.ts and of runtime's single.ts and noise.ts in the kernel language, operation for
// operation, so that a device's bits are theirs; and sums over a row in the order in which processors add, by a group of
// threads. Functions write statements where they are called: an argument may be any expression, a result is used once or
// named.

import {
  type Builder,
  type Elements,
  f32,
  fma,
  larger,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"

const { fround } = Math

const INFINITY = 0x7f800000 // as bits; those of a NaN's size are above it
const SIZE = 0x7fffffff // all bits but the sign
const MAGIC = 12582912 // 1.5 * 2^23: adding it rounds to an integer, halves to even

/** The nearest integer, halves to the even one, of a float below 2^22. */
export function nearestEven(x: Value): Value {
  return x.add(MAGIC).sub(MAGIC)
}

/** 2^n * x, where n stands in the lowest bits of a word and all of this is a normal float. */
function scaledBy(x: Value, n: Value): Value {
  return x.bits("u32").add(n.shl(23)).bits("f32")
}

// ------------------------------------------------------------------ reference/arithmetic.ts

/** e^x within two units of the last place; exactly 0 below -87 and for NaN. */
export function exp(k: Builder, x: Value): Value {
  const own = k.let(x)
  return expWithin(k, own, k.let(select(own.lt(88), own, 88)))
}

/** The same where it is known that x is no larger than 88, or NaN. */
export function expBelow(k: Builder, x: Value): Value {
  const own = k.let(x)
  return expWithin(k, own, own)
}

function expWithin(k: Builder, x: Value, bounded: Value): Value {
  const shifted = k.let(fma(bounded, Math.LOG2E, MAGIC)) // n stands in its low bits
  const n = k.let(shifted.sub(MAGIC))
  const r = k.let(fma(n, 2.1219444e-4, fma(n, -0.693359375, bounded)))
  const p = [1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1].reduce((p, c) => fma(p, r, c), f32(1 / 720))
  return k.let(select(x.ge(-87), scaledBy(p, shifted.bits("u32")), 0))
}

/** 1 + e^-x */
function onePlusExp(k: Builder, x: Value): Value {
  return f32(1).add(exp(k, f32(0).sub(x)))
}

export function silu(k: Builder, x: Value): Value {
  const own = k.let(x)
  return own.div(onePlusExp(k, own))
}

const ERF_P = 0.3275911 * Math.SQRT1_2
const ERF = [-1.453152027, 1.421413741, -0.284496736, 0.254829592]

export function gelu(k: Builder, x: Value): Value {
  const own = k.let(x)
  const size = k.let(own.abs())
  const t = k.let(f32(1).div(fma(size, ERF_P, 1)))
  const p = ERF.reduce((p, a) => fma(p, t, a / 2), f32(1.061405429 / 2))
  const tail = p.mul(t).mul(exp(k, own.mul(own).mul(-0.5)))
  return larger(own, f32(0)).sub(size.mul(tail))
}

const TANH_1 = 2 * Math.sqrt(2 / Math.PI)
const TANH_3 = TANH_1 * 0.044715

export function geluTanh(k: Builder, x: Value): Value {
  const own = k.let(x)
  const z = own.mul(fma(own.mul(own), TANH_3, TANH_1))
  return own.div(onePlusExp(k, z))
}

export function quickGelu(k: Builder, x: Value): Value {
  const own = k.let(x)
  return own.div(onePlusExp(k, own.mul(1.702)))
}

export function relu2(k: Builder, x: Value): Value {
  const own = k.let(x)
  const y = k.let(larger(own, f32(0)))
  return fma(y, y, own.mul(0))
}

export function above(k: Builder, x: Value, by: number): Value {
  const own = k.let(x)
  return larger(own.sub(by), f32(0)).add(own.mul(0))
}

export function clip(k: Builder, x: Value, by: number): Value {
  const own = k.let(x)
  return larger(select(own.lt(by), own, by), f32(-by)).add(own.mul(0))
}

export function expGap(k: Builder, x: Value): Value {
  const own = k.let(x)
  const below = k.let(own.sub(larger(own, f32(0))))
  return exp(k, below).sub(1).sub(below)
}

export function exponential(k: Builder, x: Value): Value {
  const own = k.let(x)
  return exp(k, own).add(own.mul(0))
}

export function sigmoid(k: Builder, x: Value): Value {
  const own = k.let(x)
  return f32(1).div(onePlusExp(k, own)).add(own.mul(0))
}

/** log(1 + e^x) */
export function softplus(k: Builder, x: Value): Value {
  const own = k.let(x)
  const power = k.let(exp(k, own))
  const small = k.let(power.lt(0.4))
  // Both are computed of what is theirs to compute.
  const near = logNearOne(k, select(small, power, 0))
  const far = logSingle(k, power.add(1))
  return k.let(select(own.gt(20), own, select(small, near, far)))
}

/** by * tanh(x / by) */
export function cap(k: Builder, x: Value, by: number): Value {
  const own = k.let(x)
  const bound = fround(by)
  const tanh = f32(1).sub(f32(2).div(exp(k, own.mul(2 / bound)).add(1)))
  return fma(tanh, bound, own.mul(0))
}

/** 1 / sqrt(x + by) */
export function inverseRoot(k: Builder, x: Value, by: number): Value {
  const own = k.let(x)
  return f32(1)
    .div(own.add(fround(by)).sqrt())
    .add(own.mul(0))
}

/** Two elements of a head, turned by an angle: every product is rounded. */
export function turnedPair(a: Value, b: Value, cos: Value, sin: Value): [Value, Value] {
  return [a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))]
}

export function scale(_: Builder, x: Value, by: number): Value {
  return x.mul(by)
}

// ------------------------------------------------------------------ 16-bit floats

/** The float whose upper half is a bf16, in a word. */
export function widenedBrain(word: Value): Value {
  return word.shl(16).bits("f32")
}

/**
 * The 16-bit float in a word's lower half.
 * @param isNumber whether it does not matter what an infinity or a NaN becomes
 */
export function halfOf(k: Builder, word: Value, dtype: "f16" | "bf16", isNumber = false): Value {
  return dtype === "bf16" ? widenedBrain(word) : widenedHalf(k, word, isNumber)
}

/** The float of the f16 in a word's lower half. Made of its bits: no number on the way is too small for any device. */
function widenedHalf(k: Builder, word: Value, isNumber: boolean): Value {
  const size = k.let(word.and(0x7fff).shl(13))
  const moved = k.let(size.add((127 - 15) << 23))
  const exponent = k.let(size.and(0x7c00 << 13))
  // Infinities and NaNs have the last exponent here and there; of those without a leading bit, it is added and taken away.
  const isLast = exponent.eq(0x7c00 << 13)
  const last = isNumber ? moved : select(isLast, moved.add((128 - 16) << 23), moved)
  const small = moved
    .add(1 << 23)
    .bits("f32")
    .sub(f32(2 ** -14))
    .bits("u32")
  const own = select(exponent.eq(0), small, last)
  return own.or(word.and(0x8000).shl(16)).bits("f32")
}

/** The bf16 nearest to a float, halves to even, in a word; beyond the largest nothing is rounded up: see runtime/dtype.ts. */
export function nearestBrain(k: Builder, x: Value): Value {
  const bits = k.let(x.bits("u32"))
  const size = k.let(bits.and(SIZE))
  const cut = k.let(bits.shr(16))
  const rounded = bits.add(0x7fff).add(cut.and(1)).shr(16)
  const large = select(size.gt(INFINITY), cut.or(0x40), cut) // NaN stays NaN
  return k.let(select(size.ge(0x7f7f0000), large, rounded))
}

// ------------------------------------------------------------------ runtime/single.ts

/** 0 for what is smaller than a normal float, the largest float for infinity. Made of bits: no device disagrees on those. */
export function settled(k: Builder, x: Value): Value {
  const bits = k.let(x.bits("u32"))
  const size = k.let(bits.and(SIZE))
  const bounded = select(size.eq(INFINITY), bits.sub(1), bits)
  return k.let(select(size.lt(0x00800000), u32(0), bounded).bits("f32"))
}

const LN2_HIGH = 0.693359375
const LN2_LOW = -2.1219444005469057e-4

/** e^x for x <= 0; exactly 1 at 0, 0 below -87. */
export function expSingle(k: Builder, x: Value): Value {
  const own = k.let(x)
  const shifted = k.let(own.mul(Math.LOG2E).add(MAGIC))
  const n = k.let(shifted.sub(MAGIC))
  const r = k.let(own.sub(n.mul(LN2_HIGH)).sub(n.mul(LN2_LOW)))
  const p = [1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1].reduce(
    (p, c) => p.mul(r).add(c),
    f32(1 / 5040),
  )
  return k.let(select(own.lt(-87), f32(0), scaledBy(p, shifted.bits("u32"))))
}

/** A positive normal float as 2^n * (1 + f), 1 + f from sqrt(1/2) to sqrt(2). */
function halved(k: Builder, x: Value): { n: Value; f: Value } {
  const bits = k.let(x.bits("i32"))
  const n = k.let(bits.sub(0x3f3504f3).shr(23))
  return { n: k.let(n.float()), f: k.let(bits.sub(n.shl(23)).bits("f32").sub(1)) }
}

/** log(2^n * (1 + f)) */
function logOf(k: Builder, { n, f }: { n: Value; f: Value }): Value {
  return k.let(n.mul(LN2_HIGH).add(logNearOne(k, f).add(n.mul(LN2_LOW))))
}

/** The natural logarithm of a positive normal float. */
export function logSingle(k: Builder, x: Value): Value {
  return logOf(k, halved(k, x))
}

const THIRD = [
  0.126223192, -0.129981831, 0.142144963, -0.166412815, 0.200010449, -0.25000307, 0.333333313,
]

/** log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1. */
export function logNearOne(k: Builder, f: Value): Value {
  const own = k.let(f)
  const square = k.let(own.mul(own))
  const p = THIRD.reduce((p, c) => p.mul(own).add(c), f32(-0.0790274367))
  return k.let(own.add(own.mul(square).mul(p).sub(square.mul(0.5))))
}

// ------------------------------------------------------------------ runtime/noise.ts

/** Two words: runtime's NoiseKey. */
export interface NoiseKey {
  low: Value
  high: Value
}

const SQRT_HALF = 0xb504f333 // of 2^32

/** Standard Gumbel noise of a token, a u32. */
export function gumbel(k: Builder, key: NoiseKey, token: Value): Value {
  const r = k.let(threefry(k, key, token))
  const isLow = k.let(r.lt(SQRT_HALF))
  const middle = k.let(
    select(isLow, r, r.xor(0xffffffff))
      .float()
      .add(0.5)
      .mul(2 ** -32),
  )
  // Near 1 the logarithm is taken of the distance from 1, which is the other's with an exponent of 0.
  const { n, f } = halved(k, middle)
  const log = logOf(k, {
    n: k.let(select(isLow, n, 0)),
    f: k.let(select(isLow, f, middle.neg())),
  })
  return k.let(logSingle(k, log.neg()).neg())
}

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
] as const

/** The first word of Threefry-2x32 with 20 rounds, of (counter, 0) under a key. */
function threefry(k: Builder, key: NoiseKey, counter: Value): Value {
  const words = [key.low, key.high, k.let(key.low.xor(key.high).xor(0x1bd11bda))]
  let a = k.let(counter.add(key.low))
  let b = key.high
  for (let injection = 1; injection <= 5; injection++) {
    for (const bits of ROTATIONS[(injection - 1) % 2]!) {
      a = k.let(a.add(b))
      b = k.let(
        b
          .shl(bits)
          .or(b.shr(32 - bits))
          .xor(a),
      )
    }
    a = k.let(a.add(words[injection % 3]!))
    b = k.let(b.add(words[(injection + 1) % 3]!).add(injection))
  }
  return a
}

// ------------------------------------------------------------------ whole numbers of 64 bits

/** Two words, both u32. */
export interface Whole {
  low: Value
  high: Value
}

/** floor(share * 2^40) of a float from 0 to 1. */
export function wholeShare(k: Builder, share: Value): Whole {
  // 8 bits, 16 and 16, each cut off exactly.
  const first = k.let(share.mul(256))
  const high = k.let(first.whole())
  const second = k.let(first.sub(high.float()).mul(65536))
  const middle = k.let(second.whole())
  const low = second.sub(middle.float()).mul(65536).whole()
  return {
    low: k.let(middle.bits("u32").shl(16).or(low.bits("u32"))),
    high: k.let(high.bits("u32")),
  }
}

export function addWhole(k: Builder, a: Whole, b: Whole): Whole {
  const low = k.let(a.low.add(b.low))
  const carry = select(low.lt(b.low), u32(1), 0)
  return { low, high: k.let(a.high.add(b.high).add(carry)) }
}

/** a >= b */
export function reaches(k: Builder, a: Whole, b: Whole): Value {
  return k.let(a.high.gt(b.high).or(a.high.eq(b.high).and(a.low.ge(b.low))))
}

/** part / 2^24 of it, up to a whole number; `part` is a u32 of at most 2^24. */
export function partOf(k: Builder, { low, high }: Whole, part: Value): Whole {
  const own = k.let(part)
  const lowest = k.let(low.mul(own))
  const first = addWhole(
    k,
    { low: lowest, high: k.let(low.mulHigh(own)) },
    { low: u32(2 ** 24 - 1), high: u32(0) },
  )
  const second = { low: k.let(high.mul(own)), high: k.let(high.mulHigh(own)) }
  const upper = addWhole(k, second, { low: first.high, high: u32(0) })
  return {
    low: k.let(first.low.shr(24).or(upper.low.shl(8))),
    high: k.let(upper.low.shr(24).or(upper.high.shl(8))),
  }
}

// ------------------------------------------------------------------ sums over a row

/**
 * Writes what is done for every `step`-th number below `count` from `first` on, which is below `step`: at most `most` numbers
 * at a time, so that what they load is under way together.
 */
export function inTurns(
  k: Builder,
  first: Value,
  { count, step, most }: { count: number; step: number; most: number },
  some: (numbers: readonly Value[]) => void,
): void {
  const turns = Math.floor(count / step) // that everybody has
  const atOnce = Math.min(most, turns)
  const from = (number: Value, turns: number) =>
    Array.from({ length: turns }, (_, turn) => k.let(number.add(turn * step)))
  const whole = atOnce === 0 ? 0 : Math.floor(turns / atOnce)
  const done = whole * atOnce
  if (whole === 1) some(from(first, atOnce))
  else if (whole > 1)
    k.for(first, done * step, atOnce * step, (number) => some(from(number, atOnce)))
  if (done < turns) some(from(k.let(first.add(done * step)), turns - done))
  if (turns * step < count)
    k.if(first.lt(count % step), () => some([k.let(first.add(turns * step))]))
}

const LANES = 16 // of a processor's vector
const VECTORS = 4 // that it adds up at once

/** What is added up: loads number i, and then says what the sum becomes with it. */
export type Term = (i: Value) => (sum: Value) => Value

/**
 * Sums as sumLanes of reference/arithmetic.ts makes them, which is how processors add: in four vectors of 16 lanes that take
 * turns as long as all four are full; what is left goes to the first. Each lane of each vector is a thread's. One of these
 * serves all sums of a kernel: it has two shared arrays, and remembers whether somebody may still read them.
 *
 * All threads of a group come to its barriers. Where a group has nothing to add up it loads nothing.
 */
export class LaneSums {
  readonly #k: Builder
  readonly #isThere: Value | undefined
  readonly #shared = new Map<string, Elements>()
  #mayBeRead = false

  /** @param isThere whether the group has something to add up; absent: it has */
  constructor(k: Builder, isThere?: Value) {
    this.#k = k
    this.#isThere = isThere
  }

  /** How many threads a sum of `count` numbers takes. */
  static threads(count: number): number {
    return count < LANES * VECTORS ? LANES : LANES * VECTORS
  }

  /** Here is a barrier. */
  passBarrier(): void {
    this.#mayBeRead = false
  }

  /** What follows comes again and again. */
  enterLoop(): void {
    this.#mayBeRead = true
  }

  /** One sum of `count` numbers. All threads of the group are told. */
  sum(count: number, term: Term): Value {
    const k = this.#k
    const width = LaneSums.threads(count)
    const takesPart = k.threads > width ? k.let(k.lane.lt(width)) : undefined
    return this.#sum(count, { number: u32(0), thread: k.lane, takesPart }, term)
  }

  /** As many sums as there are threads for: thread t adds to number floor(t / threads(count)), and is told that one. */
  sums(count: number, term: Term): Value {
    const k = this.#k
    const width = LaneSums.threads(count)
    const number = k.let(k.lane.div(width))
    const thread = k.let(k.lane.rem(width))
    return this.#sum(count, { number, thread, takesPart: undefined }, term)
  }

  #sum(
    count: number,
    { number, thread, takesPart }: { number: Value; thread: Value; takesPart: Value | undefined },
    term: Term,
  ): Value {
    const k = this.#k
    const width = LaneSums.threads(count)
    const full = width === LANES ? count : count - (count % width)
    const lanes = this.#array("lanes")
    const parts = width === LANES ? lanes : this.#array("parts")
    if (parts === lanes && this.#mayBeRead) k.barrier()
    const total = k.variable(f32(0))
    const add = (from: number) => (numbers: readonly Value[]) => {
      const loaded = numbers.map((i) => term(from === 0 ? i : k.let(i.add(from))))
      for (const next of loaded) total.set(next(total.now))
    }
    const addUp = () => {
      inTurns(k, thread, { count: full, step: width, most: 16 }, add(0))
      const rest = { count: count - full, step: LANES, most: VECTORS }
      if (rest.count > 0) k.if(thread.lt(LANES), () => inTurns(k, thread, rest, add(full)))
    }
    const store = () => parts.store(number.mul(width).add(thread), total.now)
    ifAll(k, [this.#isThere, takesPart], addUp)
    ifAll(k, [takesPart], store)
    k.barrier()
    const first = k.let(number.mul(LANES))
    if (parts !== lanes) {
      k.if(thread.lt(LANES), () => {
        const begin = k.let(number.mul(width).add(thread))
        const part = (vector: number) => parts.load(begin.add(vector * LANES))
        const [a, b, c, d] = [part(0), part(1), part(2), part(3)]
        lanes.store(first.add(thread), a.add(b).add(c.add(d)))
      })
      k.barrier()
    }
    this.#mayBeRead = true
    let tree = Array.from({ length: LANES }, (_, lane) => lanes.load(first.add(lane)))
    while (tree.length > 1) {
      const half = tree.length / 2
      tree = tree.slice(0, half).map((a, lane) => a.add(tree[lane + half]!))
    }
    return k.let(tree[0]!)
  }

  #array(name: string): Elements {
    const known = this.#shared.get(name)
    if (known) return known
    const array = this.#k.shared(name, "f32", this.#k.threads)
    this.#shared.set(name, array)
    return array
  }
}

/** Where every condition holds that there is. */
function ifAll(k: Builder, conditions: readonly (Value | undefined)[], write: () => void): void {
  const [first, ...others] = conditions.filter((condition) => condition !== undefined)
  if (!first) write()
  else
    k.if(
      others.reduce((a, b) => a.and(b), first),
      write,
    )
}
