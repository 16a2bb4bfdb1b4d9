// Division, root and fused multiply-add as a kernel's own statements, for devices that round them wrongly or have none: counted
// out in whole numbers of 32 bits, every bit that is rounded away known. What is asked of the device is an instruction that
// comes within 5 units of the last place of quotients and roots of numbers next to 1, as Vulkan promises.

import { type Builder, i32, select, u32, type Value } from "../ir/builder.ts"

const SIGN = 0x80000000
const INFINITE = 0x7f800000
const NOT_A_NUMBER = 0x7fc00000
const LEADING = 0x800000
const FRACTION = 0x7fffff
const BIAS = 127

/** A positive number as fraction * 2^(exponent - 150), the fraction of 24 bits and the upper one set; of 0 it is something. */
function parts(k: Builder, bits: Value): { fraction: Value; exponent: Value } {
  // Below the normal numbers the bits are the fraction, and as a float of their own they are normal.
  const small = k.let(bits.bits("i32").float().bits("u32"))
  const isSmall = bits.lt(LEADING)
  const from = k.let(select(isSmall, small, bits))
  const exponent = from.shr(23).bits("i32")
  return {
    fraction: k.let(from.and(FRACTION).or(LEADING)),
    exponent: k.let(select(isSmall, exponent.sub(149), exponent)),
  }
}

/**
 * The bits of the float next to fraction * 2^(exponent - 150 - lead + 23), halves to even.
 * @param fraction below 2^31, its leading bit is number `lead`, at least 24; its lowest stands for all below it
 */
function nearest(k: Builder, fraction: Value, lead: Value, exponent: Value): Value {
  // Below the normal numbers there are fewer bits, and from some point on none is left.
  const missing = i32(1).sub(exponent).max(0)
  const off = k.let(lead.sub(23).add(missing).min(31).bits("u32"))
  const kept = k.let(fraction.shr(off))
  const rest = k.let(fraction.sub(kept.shl(off)))
  const half = k.let(u32(1).shl(off.sub(1)))
  const isUp = rest.gt(half).or(rest.eq(half).and(kept.and(1).eq(1)))
  const upper = exponent.max(1).sub(1).bits("u32").shl(23)
  const bits = upper.add(kept).add(select(isUp, u32(1), 0))
  return k.let(select(exponent.gt(254), u32(INFINITE), bits))
}

/** A number from 1 to below 2 with such a fraction. */
const nextToOne = (fraction: Value) =>
  fraction
    .and(FRACTION)
    .or(BIAS << 23)
    .bits("f32")

export function divide(k: Builder, a: Value, b: Value): Value {
  const [x, y] = [k.let(a.bits("u32").and(SIGN - 1)), k.let(b.bits("u32").and(SIGN - 1))]
  const sign = k.let(a.bits("u32").xor(b.bits("u32")).and(SIGN))
  const [above, below] = [parts(k, x), parts(k, y)]
  const estimate = nextToOne(above.fraction).div(nextToOne(below.fraction))
  // The quotient times 2^25, too small by at most 32: what remains of the dividend is less than 2^29, so that its lower word is
  // all of it.
  let quotient = k.let(
    estimate
      .mul(2 ** 25)
      .whole()
      .bits("u32")
      .sub(16),
  )
  let rest = k.let(above.fraction.shl(25).sub(quotient.mul(below.fraction)))
  for (const step of [16, 8, 4, 2, 1]) {
    const part = k.let(below.fraction.mul(step))
    const fits = k.let(rest.ge(part))
    quotient = k.let(select(fits, quotient.add(step), quotient))
    rest = k.let(select(fits, rest.sub(part), rest))
  }
  const isLess = k.let(above.fraction.lt(below.fraction))
  const bits = nearest(
    k,
    quotient.shl(1).or(select(rest.ne(0), u32(1), 0)),
    select(isLess, i32(25), 26),
    k.let(above.exponent.sub(below.exponent).add(select(isLess, i32(BIAS - 1), BIAS))),
  )
  const isNothing = x.eq(0).or(y.eq(INFINITE))
  const isInfinite = x.eq(INFINITE).or(y.eq(0))
  const isNotANumber = x.gt(INFINITE).or(y.gt(INFINITE)).or(isNothing.and(isInfinite))
  const magnitude = select(isNothing, u32(0), select(isInfinite, u32(INFINITE), bits))
  return k.let(select(isNotANumber, u32(NOT_A_NUMBER), magnitude.or(sign)).bits("f32"))
}

export function root(k: Builder, a: Value): Value {
  const bits = k.let(a.bits("u32"))
  const x = k.let(bits.and(SIGN - 1))
  const { fraction, exponent } = parts(k, x)
  // fraction * 2^even * 2^odd power: what is before the odd power has 49 or 50 bits with 2^25, and its root has 25.
  const isEven = exponent.and(1).eq(0)
  const square = k.let(select(isEven, fraction.shl(1), fraction))
  const estimate = square.bits("i32").float().mul(2).sqrt()
  let found = k.let(
    estimate
      .mul(2 ** 12)
      .whole()
      .bits("u32")
      .sub(16),
  )
  let rest = k.let(square.shl(25).sub(found.mul(found)))
  for (const step of [16, 8, 4, 2, 1]) {
    const part = k.let(found.mul(2 * step).add(step * step))
    const fits = k.let(rest.ge(part))
    found = k.let(select(fits, found.add(step), found))
    rest = k.let(select(fits, rest.sub(part), rest))
  }
  const result = nearest(
    k,
    found.shl(1).or(select(rest.ne(0), u32(1), 0)),
    i32(25),
    k.let(
      exponent
        .sub(select(isEven, i32(1), 0))
        .sub(BIAS)
        .shr(1)
        .add(BIAS),
    ),
  )
  const isItself = x.eq(0).or(bits.eq(INFINITE))
  const isNotANumber = bits.gt(INFINITE)
  const other = select(isNotANumber, u32(NOT_A_NUMBER), result)
  return k.let(select(isItself, bits, other).bits("f32"))
}

/** Two words, the upper one first. */
type Pair = readonly [Value, Value]

/**
 * a * b + c, rounded once. Product and addend are pairs of words with the leading bit at 60 or 61, and the one of the lower power
 * is shifted until both have the same. The 14 zeros below keep what cancels exact.
 */
export function multiplyAdd(k: Builder, a: Value, b: Value, c: Value): Value {
  const [x, y, z] = [a, b, c].map((each) => k.let(each.bits("u32").and(SIGN - 1))) as [
    Value,
    Value,
    Value,
  ]
  const productSign = k.let(a.bits("u32").xor(b.bits("u32")).and(SIGN))
  const sign = k.let(c.bits("u32").and(SIGN))
  const [first, second, third] = [parts(k, x), parts(k, y), parts(k, z)]
  const isNoProduct = k.let(x.eq(0).or(y.eq(0)))
  const isNone = k.let(z.eq(0))
  const low = k.let(first.fraction.mul(second.fraction))
  const high = k.let(first.fraction.mulHigh(second.fraction))
  const product: Pair = [
    k.let(select(isNoProduct, u32(0), high.shl(14).or(low.shr(18)))),
    k.let(select(isNoProduct, u32(0), low.shl(14))),
  ]
  const addend: Pair = [k.let(select(isNone, u32(0), third.fraction.shl(6))), u32(0)]
  // What is 0 has whichever power the other has.
  const ownPower = k.let(first.exponent.add(second.exponent).sub(300 + 14))
  const addendPower = k.let(third.exponent.sub(150 + 38))
  const power = k.let(
    select(isNoProduct, addendPower, select(isNone, ownPower, ownPower.max(addendPower))),
  )
  const productIsUpper = k.let(isNoProduct.not().and(ownPower.eq(power)))
  const upper = choose(k, productIsUpper, product, addend)
  const lower = choose(k, productIsUpper, addend, product)
  const distance = k.let(
    select(isNoProduct.or(isNone), i32(0), power.sub(ownPower.min(addendPower))),
  )
  const shifted = shiftRight(k, lower, k.let(distance.min(63).bits("u32")))
  const isSum = k.let(productSign.eq(sign))
  const isUpperLess = k.let(isLess(upper, shifted))
  const total = choose(
    k,
    isSum,
    sum(k, upper, shifted),
    difference(k, choose(k, isUpperLess, shifted, upper), choose(k, isUpperLess, upper, shifted)),
  )
  const isNothing = total[0].or(total[1]).eq(0)
  const hasProductsSign = isUpperLess.xor(productIsUpper)
  const ownSign = select(hasProductsSign, productSign, sign)
  const totalSign = k.let(select(isNothing.and(isSum.not()), u32(0), ownSign))
  const lead = k.let(leadOf(total))
  const [top, below] = shiftLeft(k, total, k.let(i32(62).sub(lead).bits("u32")))
  const fraction = top
    .shr(1)
    .or(top.and(1))
    .or(select(below.ne(0), u32(1), 0))
  const bits = nearest(k, k.let(fraction), i32(29), k.let(power.add(lead).add(BIAS)))
  const finite = totalSign.or(select(isNothing, u32(0), bits))

  const isInfinite = k.let(x.eq(INFINITE).or(y.eq(INFINITE)))
  const isAddendInfinite = z.eq(INFINITE)
  const infinite = select(isInfinite, productSign, sign).or(INFINITE)
  const isNotANumber = x
    .gt(INFINITE)
    .or(y.gt(INFINITE))
    .or(z.gt(INFINITE))
    .or(isInfinite.and(isNoProduct.or(isAddendInfinite.and(isSum.not()))))
  const number = select(isInfinite.or(isAddendInfinite), infinite, finite)
  return k.let(select(isNotANumber, u32(NOT_A_NUMBER), number).bits("f32"))
}

function choose(k: Builder, condition: Value, yes: Pair, no: Pair): Pair {
  return [k.let(select(condition, yes[0], no[0])), k.let(select(condition, yes[1], no[1]))]
}

const isLess = (a: Pair, b: Pair) => a[0].lt(b[0]).or(a[0].eq(b[0]).and(a[1].lt(b[1])))

function sum(k: Builder, a: Pair, b: Pair): Pair {
  const low = k.let(a[1].add(b[1]))
  return [k.let(a[0].add(b[0]).add(select(low.lt(a[1]), u32(1), 0))), low]
}

function difference(k: Builder, a: Pair, b: Pair): Pair {
  const borrow = select(a[1].lt(b[1]), u32(1), 0)
  return [k.let(a[0].sub(b[0]).sub(borrow)), k.let(a[1].sub(b[1]))]
}

/** By less than 64; the lowest bit stands for all that went beyond it as well. */
function shiftRight(k: Builder, [high, low]: Pair, by: Value): Pair {
  const isFar = k.let(by.ge(32))
  const [upper, lower] = choose(k, isFar, [u32(0), high], [high, low])
  const near = k.let(by.and(31))
  const isNone = k.let(near.eq(0))
  const back = k.let(u32(32).sub(near).and(31))
  const lost = select(isFar, low, u32(0)).or(select(isNone, u32(0), lower.shl(back)))
  const moved = lower.shr(near).or(select(isNone, u32(0), upper.shl(back)))
  return [k.let(upper.shr(near)), k.let(moved.or(select(lost.ne(0), u32(1), 0)))]
}

function shiftLeft(k: Builder, [high, low]: Pair, by: Value): Pair {
  const [upper, lower] = choose(k, k.let(by.ge(32)), [low, u32(0)], [high, low])
  const near = k.let(by.and(31))
  const back = k.let(u32(32).sub(near).and(31))
  const moved = select(near.eq(0), u32(0), lower.shr(back))
  return [k.let(upper.shl(near).or(moved)), k.let(lower.shl(near))]
}

/** The number of the highest bit that is set: the exponent of the word as a float, which is not rounded up without the next bit. */
function leadOf([high, low]: Pair): Value {
  const isHigh = high.ne(0)
  const word = select(isHigh, high, low)
  const alone = word.and(word.shr(1).xor(0xffffffff))
  const exponent = alone.float().bits("u32").shr(23).bits("i32").sub(BIAS)
  return exponent.add(select(isHigh, i32(32), 0))
}
