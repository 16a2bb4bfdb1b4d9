// Which numbers are allowed. All arithmetic is on a grid of 10^-scale, in whole steps, so bounds, multiples and excluded values
// are integers and nothing is rounded. Most readers keep doubles: next to an open bound, and for multiples, a number has to be
// right as a double too.

import { type Decimal, decimal, decimalText } from "./json.ts"
import type { Bound } from "./schema-node.ts"

export interface NumberFacts {
  integer: boolean
  fractional: boolean // not an integer
  minimum: Bound | undefined
  maximum: Bound | undefined
  multiples: readonly Decimal[]
  notMultiples: readonly Decimal[]
  excluded: readonly Decimal[]
  only: Decimal[] | undefined
  /** Integers are written as digits alone: without a fraction of zeros and without an exponent. */
  plainIntegers: boolean
}

const wholeDigits = 64
const fractionDigits = 20
// Where being an integer, or a certain value, is forbidden: more digits would be lost in a double.
const roughDigits = 6
// ajv, for one, loses count of multiples where doubles are printed with an exponent.
const mostTimes = 10n ** 21n
const mostExact = 10n ** 15n
// How many steps are tried when some of them are excluded; what is not found by then counts as absent.
const maxTries = 2000

/** The allowed numbers. */
export class NumberSet {
  readonly scale: number
  private readonly low: bigint | undefined
  private readonly high: bigint | undefined
  private readonly step: bigint
  private readonly nots: bigint[]
  private readonly excluded: Set<bigint>
  private readonly excludedDoubles: Set<number>
  private readonly fractional: boolean
  private readonly only: bigint[] | undefined
  private readonly multiples: number[]
  private readonly notMultiples: number[]
  /** No constraint but perhaps "integer": nothing has to be looked at but the spelling. */
  readonly free: boolean
  /** No constraint but bounds. */
  readonly onlyBounded: boolean
  /** Nothing but digits is written: all numbers are integers, and plain ones are wanted. */
  readonly onlyDigits: boolean
  readonly mostWhole: number
  readonly mostFraction: number

  constructor(facts: NumberFacts) {
    const constants = [...facts.multiples, ...facts.notMultiples, ...facts.excluded]
    for (const bound of [facts.minimum, facts.maximum]) if (bound) constants.push(bound.value)
    constants.push(...(facts.only ?? []))
    let scale = Math.max(0, ...constants.map((c) => c.scale))
    const rough = facts.fractional || facts.excluded.length + facts.notMultiples.length > 0
    if (!facts.integer && !facts.only) {
      const isFar = [facts.minimum, facts.maximum].some(
        (bound) => width(bound?.value.digits ?? 0n) > 9,
      )
      scale = Math.max(scale + 1, rough ? (isFar ? 1 : roughDigits) : fractionDigits)
    }
    let unit = 10n ** BigInt(scale)
    const on = (value: Decimal) => value.digits * 10n ** BigInt(scale - value.scale)
    let step = facts.multiples.reduce((all, m) => lcm(all, on(m)), facts.integer ? unit : 1n)
    let low = facts.minimum && on(facts.minimum.value)
    if (low !== undefined && facts.minimum!.open) {
      low = largest(low + 1n, -floorDivide(-nextDouble(facts.minimum!.value, 1) * unit, tiny))
    }
    let high = facts.maximum && on(facts.maximum.value)
    if (high !== undefined && facts.maximum!.open) {
      high = -largest(1n - high, -floorDivide(nextDouble(facts.maximum!.value, -1) * unit, tiny))
    }
    const ends = facts.multiples.map((m) => mostTimes * on(m))
    // Where a double no longer tells it, search is in vain; it stops before, unless only such numbers are asked for.
    const vague = facts.notMultiples.map((m) =>
      m.scale === 0 ? 2n ** 53n * unit : 2n ** 50n * on(m),
    )
    if (facts.fractional) vague.push(10n ** 12n * unit, 2n ** 52n * unit)
    ends.push(...vague.filter((end) => (low ?? 0n) < end && (high ?? 0n) > -end))
    for (const end of ends) {
      if (high === undefined || high >= end) high = end - 1n
      if (low === undefined || low <= -end) low = 1n - end
    }
    this.multiples = facts.multiples.map((m) => Number(decimalText(m)))
    this.notMultiples = facts.notMultiples.map((m) => Number(decimalText(m)))
    let nots = facts.notMultiples.map(on)
    if (facts.fractional) nots.push(unit)
    let excluded = facts.excluded.map(on)
    let only = facts.only?.map(on)
    if (step % unit === 0n && scale > 0) {
      // Integers only: count in ones, so that the numbers stay small.
      step /= unit
      low = low === undefined ? undefined : -floorDivide(-low, unit)
      high = high === undefined ? undefined : floorDivide(high, unit)
      nots = nots.map((n) => lcm(n, unit) / unit)
      excluded = excluded.filter((value) => value % unit === 0n).map((value) => value / unit)
      only = only?.filter((value) => value % unit === 0n).map((value) => value / unit)
      scale = 0
      unit = 1n
    }
    this.scale = scale
    this.onlyDigits = facts.plainIntegers && scale === 0
    this.step = step
    this.low = low
    this.high = high
    this.nots = nots
    this.excluded = new Set(excluded)
    this.excludedDoubles = new Set(excluded.map((value) => this.doubleOf(value)))
    this.fractional = facts.fractional
    this.only = only
    this.free =
      low === undefined && high === undefined && step === 1n && nots.length + excluded.length === 0
    this.free &&= only === undefined && facts.multiples.length === 0
    const widest = [low, high, step, ...nots, ...(only ?? [])].map((value) => width(value ?? 0n))
    this.onlyBounded = step === 1n && nots.length + excluded.length + facts.multiples.length === 0
    this.onlyBounded &&= only === undefined
    this.mostWhole = Math.max(wholeDigits, ...widest.map((w) => w - scale + 2))
    this.mostFraction = Math.max(scale, 3)
  }

  get isListed(): boolean {
    return this.only !== undefined
  }

  has(value: Decimal): boolean {
    const onGrid = this.gridValue(value.digits, -value.scale)
    return onGrid !== undefined && this.exists(onGrid, onGrid)
  }

  /** All allowed numbers when they are at most `limit`; undefined otherwise. */
  values(limit: number): Decimal[] | undefined {
    if (this.only) {
      const values = this.only.filter((value) => this.exists(value, value))
      return values.length > limit ? undefined : values.map((value) => decimal(value, this.scale))
    }
    if (this.low === undefined || this.high === undefined) return undefined
    const most = BigInt(limit + this.excluded.size) * (this.nots.length > 0 ? 4n : 1n)
    if ((this.high - this.low) / this.step > most) return undefined
    const values: Decimal[] = []
    for (let k = -floorDivide(-this.low, this.step); k * this.step <= this.high; k++) {
      const value = k * this.step
      if (this.allowed(value)) values.push(decimal(value, this.scale))
    }
    return values.length > limit ? undefined : values
  }

  /** digits · 10^exponent in grid steps; undefined when it lies between them. */
  gridValue(digits: bigint, exponent: number): bigint | undefined {
    const shift = exponent + this.scale
    if (shift >= 0) return digits * power(shift)
    const divisor = power(-shift)
    return digits % divisor === 0n ? digits / divisor : undefined
  }

  /** Whether an allowed value lies in [from, to]. */
  exists(from: bigint, to: bigint): boolean {
    if (this.low !== undefined && this.low > from) from = this.low
    if (this.high !== undefined && this.high < to) to = this.high
    if (from > to) return false
    if (this.only) {
      return this.only.some((value) => value >= from && value <= to && this.allowed(value))
    }
    // Small magnitudes first: among very large numbers few are right as doubles.
    if (to <= 0n) return this.findsFrom(floorDivide(to, this.step), -1n, from, to)
    if (from >= 0n) return this.findsFrom(-floorDivide(-from, this.step), 1n, from, to)
    return this.findsFrom(0n, 1n, from, to) || this.findsFrom(-1n, -1n, from, to)
  }

  private findsFrom(first: bigint, direction: bigint, from: bigint, to: bigint): boolean {
    let k = first
    for (let tries = 0; tries < maxTries + this.excluded.size; tries++, k += direction) {
      const value = k * this.step
      if (value < from || value > to) return false
      if (this.allowed(value)) return true
    }
    return false
  }

  /** The largest magnitude of an allowed value of one sign; undefined when there is none. */
  reach(negative: boolean): bigint | undefined {
    if (!negative) return this.high
    return this.low === undefined ? undefined : -this.low
  }

  /** Whether all magnitudes from `from` on, to `to` if there is one, are within the bounds. */
  contains(from: bigint, to: bigint | undefined, negative: boolean): boolean {
    const [low, high] = negative ? [this.high, this.low] : [this.low, this.high]
    const sign = negative ? -1n : 1n
    const enters = low === undefined || sign * low <= from
    if (to === undefined) return enters && high === undefined
    return enters && (high === undefined || sign * high >= to)
  }

  private allowed(value: bigint): boolean {
    if (this.low !== undefined && value < this.low) return false
    if (this.high !== undefined && value > this.high) return false
    if (value % this.step !== 0n || this.excluded.has(value)) return false
    return this.nots.every((not) => value % not !== 0n) && this.agreesAsDouble(value)
  }

  private agreesAsDouble(value: bigint): boolean {
    const { multiples, notMultiples, nots } = this
    // No two of them share a double.
    const isExact = value < mostExact && value > -mostExact
    const inOnes = this.scale === 0 || multiples.length + notMultiples.length === 0
    if (isExact && inOnes && [...multiples, ...notMultiples].every(Number.isInteger)) return true
    if (multiples.length + notMultiples.length + nots.length + this.excluded.size === 0) return true
    const double = this.doubleOf(value)
    if (this.excludedDoubles.has(double)) return false
    if (this.fractional && Number.isInteger(double)) return false
    const isMultiple = (of: number) =>
      Number.isInteger(double / of) && Math.abs(double / of) < Number(mostTimes)
    return multiples.every(isMultiple) && !notMultiples.some(isMultiple)
  }

  private doubleOf(value: bigint): number {
    return Number(decimalText(decimal(value, this.scale)))
  }
}

// Doubles as whole multiples of 10^-1100: every one of them is one.
const tinyScale = 1100
const tiny = 10n ** BigInt(tinyScale)

/** The next double above (1) or below (-1) the one that stands for a value, in steps of 10^-1100. */
function nextDouble(value: Decimal, direction: 1 | -1): bigint {
  const double = Number(decimalText(value))
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, double)
  const away = double > 0 === direction > 0 ? 1n : -1n
  if (double === 0) bits.setBigUint64(0, direction > 0 ? 1n : (1n << 63n) | 1n)
  else bits.setBigUint64(0, bits.getBigUint64(0) + away)
  return exact(bits.getBigUint64(0))
}

function exact(bits: bigint): bigint {
  const exponent = (bits >> 52n) & 0x7ffn
  const fraction = bits & ((1n << 52n) - 1n)
  const mantissa = exponent === 0n ? fraction : fraction | (1n << 52n)
  const power = (exponent === 0n ? 1n : exponent) - 1075n
  const magnitude = power >= 0n ? (mantissa << power) * tiny : (mantissa * tiny) >> -power
  return bits >> 63n === 1n ? -magnitude : magnitude
}

function largest(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

const powers: bigint[] = []

/** 10^exponent. */
export function power(exponent: number): bigint {
  powers[exponent] ??= 10n ** BigInt(exponent)
  return powers[exponent]
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient
}

function lcm(a: bigint, b: bigint): bigint {
  let [x, y] = [a, b]
  while (y !== 0n) [x, y] = [y, x % y]
  return (a / x) * b
}

function width(value: bigint): number {
  return (value < 0n ? -value : value).toString().length
}
