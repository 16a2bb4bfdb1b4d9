// Numbers as they are spelled, digit by digit. A half-written number lives when one of the intervals its completions fill holds
// an allowed one (number-set.ts). Spellings are bounded: 64 digits before the point (more only when a bound has more), 20 after
// it, so that no model can spin in digits.

import { type NumberFacts, NumberSet, power } from "./number-set.ts"

/** Beyond it doubles overflow, and readers would see an infinity. */
const maxExponent = 308
const mostNodes = 20_000

let made = 0

/** The allowed numbers and how they may be spelled. */
export class NumberLanguage extends NumberSet {
  readonly id = ++made
  readonly start: NumberNode
  private readonly interned = new Map<string, NumberNode>()
  private empty: boolean | undefined

  constructor(facts: NumberFacts) {
    super(facts)
    this.start = new NumberNode(this, "start", false, 0n, 0, 0, "")
  }

  isEmpty(): boolean {
    this.empty ??= !this.start.lives()
    return this.empty
  }

  /** One node for each distinct outlook: prefixes of unconstrained numbers share theirs. */
  intern(node: NumberNode): NumberNode {
    const key = node.outlook()
    const known = this.interned.get(key)
    if (known) return known
    if (this.interned.size > mostNodes) this.interned.clear()
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
