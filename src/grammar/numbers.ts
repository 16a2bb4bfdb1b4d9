// Numbers as they are spelled, digit by digit. All arithmetic is on a grid of 10^-scale, in whole steps, so bounds,
// multiples and excluded values are integers and nothing is rounded. A half-written number lives when one of the
// intervals its completions fill holds an allowed step. Spellings are bounded: 64 digits before the point (more only when
// a bound has more), 20 after it, so that no model can spin in digits. Most readers keep doubles: next to an open bound, and
// for multiples, a number has to be right as a double too.

import { type Decimal, decimal, decimalText } from "./json.ts"
import type { Bound } from "./schema.ts"

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
/** Beyond it doubles overflow, and readers would see an infinity. */
const maxExponent = 308
// ajv, for one, loses count of multiples where doubles are printed with an exponent.
const mostTimes = 10n ** 21n
const mostExact = 10n ** 15n
// How many steps are tried when some of them are excluded; what is not found by then counts as absent.
const maxTries = 2000

let made = 0

/** The allowed numbers and how they may be spelled. */
export class NumberLanguage {
  readonly id = ++made
  readonly start: NumberNode
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
  private readonly interned = new Map<string, NumberNode>()
  private empty: boolean | undefined

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
    this.start = new NumberNode(this, "start", false, 0n, 0, 0, "")
  }

  get isListed(): boolean {
    return this.only !== undefined
  }

  isEmpty(): boolean {
    this.empty ??= !this.start.lives()
    return this.empty
  }

  has(value: Decimal): boolean {
    const onGrid = this.gridValue(value.digits, -value.scale)
    return onGrid !== undefined && this.exists(onGrid, onGrid)
  }

  /** All allowed numbers when they are at most `limit`; undefined otherwise. */
  values(limit: number): Decimal[] | undefined {
    if (this.only) {
      const found = this.only.filter((value) => this.exists(value, value))
      return found.length > limit ? undefined : found.map((value) => decimal(value, this.scale))
    }
    if (this.low === undefined || this.high === undefined) return undefined
    const most = BigInt(limit + this.excluded.size) * (this.nots.length > 0 ? 4n : 1n)
    if ((this.high - this.low) / this.step > most) return undefined
    const found: Decimal[] = []
    for (let k = -floorDivide(-this.low, this.step); k * this.step <= this.high; k++) {
      const value = k * this.step
      if (this.allowed(value)) found.push(decimal(value, this.scale))
    }
    return found.length > limit ? undefined : found
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

  /** One node for each distinct outlook: prefixes of unconstrained numbers share theirs. */
  intern(node: NumberNode): NumberNode {
    const key = node.outlook()
    const known = this.interned.get(key)
    if (known) return known
    if (this.interned.size > 20_000) this.interned.clear()
    this.interned.set(key, node)
    return node
  }
}

type Phase = "start" | "minus" | "zero" | "whole" | "point" | "fraction" | "e" | "sign" | "exponent"

/** A half-written number. */
export class NumberNode {
  readonly language: NumberLanguage
  readonly phase: Phase
  readonly negative: boolean
  /** Whatever digits follow, the number is allowed: only the spelling still counts. */
  private readonly easy: boolean
  /** All digits so far, the point left out. */
  private readonly digits: bigint
  private readonly whole: number // digits before the point
  private readonly fraction: number // digits after it
  private readonly exponent: string
  private readonly next: (NumberNode | null | undefined)[] = []
  private exponents: Exponents | undefined
  private ends: boolean | undefined

  constructor(
    language: NumberLanguage,
    phase: Phase,
    negative: boolean,
    digits: bigint,
    whole: number,
    fraction: number,
    exponent: string,
    easy = false,
  ) {
    this.language = language
    this.phase = phase
    this.negative = negative
    this.digits = digits
    this.whole = whole
    this.fraction = fraction
    this.exponent = exponent
    this.easy = language.free || (easy && isDigits(phase)) || this.isInside()
  }

  /** What follows a byte; null when no allowed number continues so. */
  step(byte: number): NumberNode | null {
    if (byte < 0x2b || byte > 0x65) return null
    const known = this.next[byte]
    if (known !== undefined) return known
    const node = this.after(byte)
    const result = node?.lives() ? this.language.intern(node) : null
    this.next[byte] = result
    return result
  }

  /** Whether the number may be complete here. */
  canEnd(): boolean {
    this.ends ??= this.complete()
    return this.ends
  }

  outlook(): string {
    const shape = `${this.phase}${this.negative ? "-" : ""}${this.whole}.${this.fraction}`
    return this.easy && this.whole + this.fraction > 1
      ? `${shape}e${this.exponent}`
      : `${shape}:${this.digits}e${this.exponent}`
  }

  lives(): boolean {
    const { language } = this
    const shape = this.whole <= language.mostWhole && this.fraction <= language.mostFraction
    if (!shape) return false
    switch (this.phase) {
      case "start":
        return this.intervalLives(0n, undefined) || this.mirrored().intervalLives(0n, undefined)
      case "minus":
        return language.free || this.intervalLives(0n, undefined)
      case "zero":
        return this.easy || this.intervalLives(0n, this.span(0))
      case "whole":
        return this.easy || this.wholeLives()
      case "point":
      case "fraction":
        return this.easy ? this.fractionFree() : this.fractionLives()
      default:
        return this.exponent === "+"
          ? this.exponentOptions().hasPositive
          : this.exponentOptions().begun.has(this.exponentTail())
    }
  }

  private after(byte: number): NumberNode | null {
    const c = String.fromCharCode(byte)
    const isDigit = byte >= 0x30 && byte <= 0x39
    switch (this.phase) {
      case "start":
        if (c === "-") return this.with("minus", { negative: true })
        return isDigit ? this.firstDigit(c) : null
      case "minus":
        return isDigit ? this.firstDigit(c) : null
      case "zero":
      case "whole":
      case "fraction":
        if (isDigit && this.phase !== "zero") return this.digit(this.phase, c)
        if (this.language.onlyDigits) return null
        if (c === "." && this.phase !== "fraction") return this.with("point", {})
        return (c === "e" || c === "E") && this.mayScale() ? this.with("e", {}) : null
      case "point":
        return isDigit ? this.digit("fraction", c) : null
      case "e":
        if (c === "+" || c === "-") return this.with("sign", { exponent: c })
        return isDigit ? this.with("exponent", { exponent: c }) : null
      case "sign":
      case "exponent":
        return isDigit ? this.with("exponent", { exponent: this.exponent + c }) : null
    }
  }

  // Where anything goes, or after a single digit: what an exponent makes of more digits costs too much to find out. Listed
  // numbers are written as they are.
  private mayScale(): boolean {
    const { language } = this
    return language.free || (!language.isListed && this.whole + this.fraction <= 1)
  }

  private firstDigit(c: string): NumberNode {
    return this.with(c === "0" ? "zero" : "whole", { digits: BigInt(c), whole: 1 })
  }

  private digit(phase: Phase, c: string): NumberNode {
    const digits = this.digits * 10n + BigInt(c)
    const whole = this.whole + (phase === "whole" ? 1 : 0)
    const fraction = this.fraction + (phase === "fraction" ? 1 : 0)
    return this.with(phase, { digits, whole, fraction })
  }

  private with(
    phase: Phase,
    change: {
      negative?: boolean
      digits?: bigint
      whole?: number
      fraction?: number
      exponent?: string
    },
  ): NumberNode {
    const node = new NumberNode(
      this.language,
      phase,
      change.negative ?? this.negative,
      change.digits ?? this.digits,
      change.whole ?? this.whole,
      change.fraction ?? this.fraction,
      change.exponent ?? this.exponent,
      this.easy && isDigits(this.phase),
    )
    node.exponents = this.exponents // of the digits before it, which are the same wherever they are known
    return node
  }

  // All completions, exponents aside, lie within the bounds, and nothing but the bounds is asked.
  private isInside(): boolean {
    const { language } = this
    if (!language.onlyBounded || !isDigits(this.phase)) return false
    if (this.fraction > language.scale) return false
    const from = this.digits * power(language.scale - this.fraction)
    const isOpen = this.phase === "whole"
    return language.contains(
      from,
      isOpen ? undefined : from + this.span(this.fraction),
      this.negative,
    )
  }

  private mirrored(): NumberNode {
    return this.with(this.phase, { negative: !this.negative })
  }

  /** Grid steps in one unit of the last digit written, less one. */
  private span(fraction: number): bigint {
    return power(this.language.scale - fraction) - 1n
  }

  /** Whether an allowed value has a magnitude in [from, to]; no `to` is as far as spellings go. */
  private intervalLives(from: bigint, to: bigint | undefined): boolean {
    const { scale, mostWhole } = this.language
    const end = to ?? power(scale + mostWhole) - 1n
    return this.negative ? this.language.exists(-end, -from) : this.language.exists(from, end)
  }

  private wholeLives(): boolean {
    const { scale, mostWhole } = this.language
    for (let more = 0; this.whole + more <= mostWhole; more++) {
      const unit = power(scale + more)
      const from = this.digits * unit
      if (this.intervalLives(from, from + unit - 1n)) return true
      const limit = this.language.reach(this.negative)
      if (limit !== undefined && from > limit) return false
    }
    return false
  }

  private fractionFree(): boolean {
    if (this.language.scale > 0) return true
    return this.digits % power(this.fraction) === 0n
  }

  private fractionLives(): boolean {
    const at = this.language.gridValue(this.digits, -this.fraction)
    if (this.fraction > this.language.scale) {
      return at !== undefined && this.intervalLives(at, at)
    }
    return at !== undefined && this.intervalLives(at, at + this.span(this.fraction))
  }

  private complete(): boolean {
    switch (this.phase) {
      case "zero":
      case "whole":
      case "fraction": {
        if (this.easy) return this.phase !== "fraction" || this.fractionFree()
        const at = this.language.gridValue(this.digits, -this.fraction)
        return at !== undefined && this.intervalLives(at, at)
      }
      case "exponent":
        return this.exponentOptions().whole.has(this.exponentTail())
      default:
        return false
    }
  }

  /** What has been written of the exponent, a plus sign left out. */
  private exponentTail(): string {
    return this.exponent.startsWith("+") ? this.exponent.slice(1) : this.exponent
  }

  /** The exponents that make an allowed number of the digits so far. */
  private exponentOptions(): Exponents {
    if (this.exponents) return this.exponents
    const { language } = this
    if (language.free) {
      const least = language.scale === 0 ? 0 : -maxExponent
      const roomy = this.digits <= 1n && this.whole + this.fraction <= 1
      this.exponents = exponentsBetween(least, maxExponent - this.whole + (roomy ? 1 : 0))
      return this.exponents
    }
    const options: number[] = []
    // Of one digit: below the grid there is nothing, and it decides whether doubles hold the largest.
    const last = maxExponent - (this.digits > 1n ? 1 : 0)
    const limit = language.reach(this.negative)
    for (let e = -language.scale; e <= last; e++) {
      const at = language.gridValue(this.digits, e)!
      if (limit !== undefined && at > limit) break
      if (this.intervalLives(at, at)) options.push(e)
    }
    this.exponents = exponents(options)
    return this.exponents
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

/** Exponents as they are written, without sign when positive. */
interface Exponents {
  readonly whole: ReadonlySet<string>
  /** Their beginnings, themselves included. */
  readonly begun: ReadonlySet<string>
  readonly hasPositive: boolean
}

function exponents(values: readonly number[]): Exponents {
  const whole = values.map(String)
  const begun = whole.flatMap((text) => Array.from(text, (_, i) => text.slice(0, i + 1)))
  if (values.length > 0) begun.push("")
  return {
    whole: new Set(whole),
    begun: new Set(begun),
    hasPositive: values.some((value) => value >= 0),
  }
}

const ranges = new Map<string, Exponents>()

function exponentsBetween(from: number, to: number): Exponents {
  const key = `${from} ${to}`
  let range = ranges.get(key)
  if (!range) {
    range = exponents(Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i))
    ranges.set(key, range)
  }
  return range
}

function isDigits(phase: Phase): boolean {
  return phase === "zero" || phase === "whole" || phase === "point" || phase === "fraction"
}

const powers: bigint[] = []

function power(exponent: number): bigint {
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
