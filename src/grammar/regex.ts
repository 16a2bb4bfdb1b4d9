// ECMA-262 regular expressions as languages: what JSON Schema's `pattern` accepts, searched anywhere in the text, with
// Unicode semantics. Here is their syntax; nfa.ts and looks.ts make automata of them. Back references are not regular.

import { LruMap } from "../lru.ts"
import {
  anyChar,
  type CharSet,
  charSet,
  complement,
  digits,
  inBothCases,
  intersect,
  lineEnds,
  property,
  spaces,
  union,
  wordChars,
} from "./charset.ts"
import { combine, type Dfa } from "./dfa.ts"
import { determinizeLooks, hasLook, PatternFault } from "./looks.ts"
import { type Assertion, anyText, determinize, isIn, type Re } from "./nfa.ts"
import { type Priced, priced } from "./work.ts"

export { PatternFault } from "./looks.ts"

/** The texts in which the pattern is found somewhere. @throws PatternFault, TooLarge */
export function patternLanguage(pattern: string): Dfa {
  return kept(pattern, () => language(withoutMore(new Parser(pattern).whole()), anyText))
}

/** Texts of a language, so many characters long. */
export interface Counted {
  language: Dfa
  min: number
  max: number
  /** Those that may have one character more. */
  longer?: Dfa
}

/**
 * What counts a whole text's characters. An automaton would count with a state for each, times its other states, and each state
 * would have masks of its own. Undefined when the pattern says anything else. @throws PatternFault, TooLarge
 */
export function countedPattern(pattern: string): Counted | undefined {
  const [start, ...items] = itemsOf(new Parser(pattern).whole())
  if (!start || !isAssertion(start, "start")) return undefined
  return countedRepeat(items) ?? countedAhead(pattern, [start, ...items])
}

/** `^[a-z]{1,40}$` and its like: characters of one kind, and how many. */
function countedRepeat([repeat, end, ...more]: readonly Re[]): Counted | undefined {
  if (!repeat || !end || more.length > 0 || !isAssertion(end, "end")) return undefined
  const counts = countsOf(repeat)
  return counts && { language: repeated(counts.chars), min: counts.min, max: counts.max }
}

/** `^(?=.{1,253}\.?$)[a-z.]+$` and its like: a count of all characters, perhaps and one more, before what else is asked of them. */
function countedAhead(pattern: string, [start, ahead, ...rest]: readonly Re[]) {
  if (!ahead || !("look" in ahead) || ahead.behind || ahead.negative) return undefined
  const [repeat, ...after] = itemsOf(ahead.look)
  const end = after.pop()
  const counts = repeat && countsOf(repeat)
  if (!counts || !end || !isAssertion(end, "end") || after.length > 1) return undefined
  const [more] = after
  const last = more && "repeat" in more && more.min === 0 && more.max === 1 && charsOf(more.repeat)
  if (more && !(last && isSubset(last, counts.chars))) return undefined
  const { min, max, chars } = counts
  const text = kept(`${pattern} uncounted`, () =>
    combine(
      [language(withoutMore({ seq: [start!, ...rest] }), anyText), repeated(chars)],
      (accepted) => !accepted.includes(false),
    ),
  )
  const counted = { language: text, min, max }
  if (!last) return counted
  const longer = kept(`${last.join()} at the end`, () =>
    language({ seq: [{ chars: last }, end] }, anyText),
  )
  return { ...counted, longer }
}

/** A repetition of characters of one kind that is worth counting. */
function countsOf(re: Re): { chars: CharSet; min: number; max: number } | undefined {
  if (!("repeat" in re)) return undefined
  const { repeat, min, max } = re
  const chars = charsOf(repeat)
  if (!chars || (Number.isFinite(max) ? max : min) < worthCounting) return undefined
  return { chars, min, max }
}

function charsOf(re: Re): CharSet | undefined {
  const [each, ...others] = itemsOf(re)
  return each && "chars" in each && others.length === 0 ? each.chars : undefined
}

function isSubset(set: CharSet, of: CharSet): boolean {
  return intersect(set, of).join() === set.join()
}

/** Any number of characters. */
function repeated(chars: CharSet): Dfa {
  const all: Re = { repeat: { chars }, min: 0, max: Number.POSITIVE_INFINITY }
  return kept(`all of ${chars.join()}`, () => language(all, { seq: [] }))
}

const worthCounting = 16

function kept(key: string, make: () => Dfa): Dfa {
  return patterns.put(key, priced(patterns.get(key), make)).value
}

// The same patterns come in one schema after the other, and what is known of a language is known by its automaton.
const patterns = new LruMap<Priced<Dfa>>(200)

/** The texts that the pattern describes from their first to their last character. @throws PatternFault, TooLarge */
export function wholeLanguage(pattern: string): Dfa {
  return language(new Parser(pattern).whole(), { seq: [] })
}

export interface PatternOptions {
  /** Letters stand for themselves in capitals and small, as with ECMA-262's flag i. */
  anyCase?: boolean
  /** `.` is a line's end, too. */
  dotAll?: boolean
}

/** What a pattern says, to be a part of something larger. @throws PatternFault */
export function parsePattern(pattern: string, options: PatternOptions = {}): Re {
  return new Parser(pattern, options).whole()
}

/** Where anything may stand around it, a repetition at an edge is found as soon as its least is. */
function withoutMore(body: Re): Re {
  if ("alt" in body) return { alt: body.alt.map(withoutMore) }
  const items = itemsOf(body)
  const isEdge = (at: number) => at === 0 || at === items.length - 1
  const seq = items.map((item, at) =>
    isEdge(at) && "repeat" in item ? { ...item, max: item.min } : item,
  )
  return { seq }
}

function itemsOf(re: Re): Re[] {
  return "seq" in re ? re.seq.flatMap(itemsOf) : [re]
}

function isAssertion(re: Re, assertion: Assertion): boolean {
  return "assert" in re && re.assert === assertion
}

function language(body: Re, around: Re): Dfa {
  const whole: Re = { seq: [around, body, around] }
  return hasLook(body) ? determinizeLooks(whole) : determinize(whole)
}

// ---- the syntax ----

const classEscapes: Record<string, CharSet> = {
  d: digits,
  D: complement(digits),
  w: wordChars,
  W: complement(wordChars),
  s: spaces,
  S: complement(spaces),
}
const controlEscapes: Record<string, number> = { f: 12, n: 10, r: 13, t: 9, v: 11 }

class Parser {
  readonly source: string[]
  private at = 0
  private depth = 0
  /** To other programs a ] in the first place of a class is a character: which class was meant cannot be told. */
  private hasEmptyClass = false
  private readonly options: PatternOptions

  constructor(pattern: string, options: PatternOptions = {}) {
    this.source = Array.from(pattern)
    this.options = options
  }

  whole(): Re {
    const re = this.alternatives()
    if (this.at < this.source.length) throw new PatternFault("a ) that closes nothing")
    return re
  }

  private alternatives(): Re {
    if (++this.depth > 100) throw new PatternFault("groups nested too deep")
    const options: Re[] = []
    do {
      const items: Re[] = []
      while (this.at < this.source.length && !this.sees("|") && !this.sees(")")) {
        items.push(this.quantified())
      }
      options.push({ seq: items })
    } while (this.take("|"))
    this.depth--
    return options.length === 1 ? options[0]! : { alt: options }
  }

  private quantified(): Re {
    const re = this.atom()
    const bounds = this.quantifier()
    if (!bounds) return re
    this.take("?") // lazy or greedy, the language is the same
    if (bounds[0] > bounds[1]) throw new PatternFault("a repetition whose bounds are out of order")
    if ("assert" in re) throw new PatternFault("a repeated assertion")
    return { repeat: re, min: bounds[0], max: bounds[1] }
  }

  private quantifier(): [number, number] | undefined {
    if (this.take("*")) return [0, Number.POSITIVE_INFINITY]
    if (this.take("+")) return [1, Number.POSITIVE_INFINITY]
    if (this.take("?")) return [0, 1]
    return this.sees("{") ? this.counts() : undefined
  }

  /** In braces; undefined, and no move, where they are characters, as all but the flag u has it. */
  private counts(): [number, number] | undefined {
    let end = this.at + 1
    while (/^[\d,]$/.test(this.source[end] ?? "")) end++
    const between = this.source.slice(this.at + 1, end).join("")
    const [, least, comma, most] = /^(\d*)(,?)(\d*)$/.exec(between) ?? []
    if (this.source[end] !== "}" || least === undefined || between === "") return undefined
    // To Python this begins at 0, to ECMA-262 without the flag u it is five characters.
    if (least === "")
      throw new PatternFault(`{${between}}, which lacks its least (write {0${between}})`)
    this.at = end + 1
    const unbounded = most === "" ? Number.POSITIVE_INFINITY : Number(most)
    return [Number(least), comma === "" ? Number(least) : unbounded]
  }

  private atom(): Re {
    const c = this.source[this.at++]!
    switch (c) {
      case "(":
        return this.group()
      case "[":
        return { chars: this.charClass() }
      case ".":
        return { chars: this.options.dotAll ? anyChar : complement(lineEnds) }
      case "^":
        return { assert: "start" }
      case "$":
        return { assert: "end" }
      case "\\":
        return this.escape()
      case "*":
      case "+":
      case "?":
        throw new PatternFault(`nothing to repeat before ${c}`)
      case "{":
        this.at--
        if (this.counts()) throw new PatternFault("nothing to repeat before {")
        this.at++
        break
      case "]":
        if (this.hasEmptyClass)
          throw new PatternFault("a ] behind [] or [^] (in a class, write \\])")
        break
    }
    return { chars: this.cased(one(c.codePointAt(0)!)) }
  }

  private cased(set: CharSet): CharSet {
    return this.options.anyCase ? inBothCases(set) : set
  }

  private group(): Re {
    let look: { behind: boolean; negative: boolean } | undefined
    if (this.take("?")) {
      const behind = this.sees("<") && /^[=!]$/.test(this.source[this.at + 1] ?? "")
      if (behind) this.at++
      if (this.take("=")) look = { behind, negative: false }
      else if (this.take("!")) look = { behind, negative: true }
      else if (this.take("<")) {
        const name = []
        while (this.at < this.source.length && !this.sees(">")) name.push(this.source[this.at++])
        if (!this.take(">") || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name.join(""))) {
          throw new PatternFault("a malformed group name")
        }
      } else if (!this.take(":")) throw new PatternFault("a group of a kind that is not read")
    }
    const inner = this.alternatives()
    if (!this.take(")")) throw new PatternFault("a group that is not closed")
    return look ? { look: inner, ...look } : inner
  }

  private escape(): Re {
    const c = this.source[this.at]
    if (c === "b" || c === "B") {
      this.at++
      return { assert: c === "b" ? "word" : "notWord" }
    }
    if (c === "k" || (c !== undefined && c >= "1" && c <= "9")) {
      throw new PatternFault("a back reference")
    }
    return { chars: this.escapedSet() }
  }

  /** After a backslash, inside or outside brackets. */
  private escapedSet(): CharSet {
    const c = this.source[this.at++]
    if (c === undefined) throw new PatternFault("a backslash at the end")
    if (classEscapes[c]) return classEscapes[c]
    if (c === "p" || c === "P") return this.cased(this.property(c === "P"))
    return this.cased(one(this.escapedCharacter(c)))
  }

  private property(negated: boolean): CharSet {
    const name: string[] = []
    if (!this.take("{")) throw new PatternFault("\\p without {name}")
    while (this.at < this.source.length && !this.sees("}")) name.push(this.source[this.at++]!)
    this.at++
    const set = property(name.join("")) ?? loosely(name.join(""))
    if (set === undefined) throw new PatternFault(`the unknown property ${name.join("")}`)
    return negated ? complement(set) : set
  }

  private escapedCharacter(c: string): number {
    if (controlEscapes[c] !== undefined) return controlEscapes[c]
    if (c === "0" && !/\d/.test(this.source[this.at] ?? "")) return 0
    if (c === "c") {
      const letter = this.source[this.at++] ?? ""
      if (/^[A-Za-z]$/.test(letter)) return letter.charCodeAt(0) % 32
      throw new PatternFault("\\c without a letter")
    }
    if (c === "x") return this.hex(2)
    if (c === "u") {
      if (this.take("{")) {
        const end = this.source.indexOf("}", this.at)
        const text = this.source.slice(this.at, end).join("")
        const value = Number.parseInt(text, 16)
        const isRead = end > 0 && /^[0-9a-fA-F]+$/.test(text) && value <= 0x10ffff
        if (!isRead) throw new PatternFault("a malformed \\u{…}")
        this.at = end + 1
        return value
      }
      const unit = this.hex(4)
      const pairs =
        unit >= 0xd800 && unit <= 0xdbff && this.sees("\\") && this.source[this.at + 1] === "u"
      if (!pairs) return unit
      const back = this.at
      this.at += 2
      const low = this.hex(4)
      if (low >= 0xdc00 && low <= 0xdfff) return 0x10000 + (unit - 0xd800) * 0x400 + low - 0xdc00
      this.at = back
      return unit
    }
    if (/^[A-Za-z0-9]$/.test(c)) throw new PatternFault(`the unknown escape \\${c}`)
    return c.codePointAt(0)!
  }

  private hex(length: number): number {
    const text = this.source.slice(this.at, this.at + length).join("")
    if (!/^[0-9a-fA-F]+$/.test(text) || text.length !== length) {
      throw new PatternFault("a malformed hexadecimal escape")
    }
    this.at += length
    return Number.parseInt(text, 16)
  }

  private charClass(): CharSet {
    const negated = this.take("^")
    this.hasEmptyClass ||= this.sees("]")
    let set: CharSet = []
    while (!this.take("]")) {
      if (this.at >= this.source.length) throw new PatternFault("a [ that is not closed")
      const from = this.member()
      const isRange = this.sees("-") && this.source[this.at + 1] !== "]"
      if (isRange && this.at + 1 < this.source.length) {
        this.at++
        const to = this.member()
        if (typeof from === "number" && typeof to === "number") {
          if (from > to) throw new PatternFault("a range out of order")
          set = union(set, this.cased(charSet([from, to])))
          // As in [\w-.]: no range can be meant.
        } else for (const each of [from, to, HYPHEN]) set = union(set, this.setOf(each))
      } else set = union(set, this.setOf(from))
    }
    return negated ? complement(set) : set
  }

  private member(): number | CharSet {
    const c = this.source[this.at++]!
    if (c === "[" && this.sees(":")) this.refusePosix()
    if (c !== "\\") return c.codePointAt(0)!
    const escaped = this.source[this.at]
    if (escaped === undefined) throw new PatternFault("a backslash at the end")
    if (classEscapes[escaped] || escaped === "p" || escaped === "P") return this.escapedSet()
    this.at++
    return escaped === "b" ? 8 : this.escapedCharacter(escaped)
  }

  /** `[[:alpha:]]` would be one of these characters and a ]. */
  private refusePosix(): void {
    const [name] = /^:\^?[a-z]+:\]/.exec(this.source.slice(this.at, this.at + 16).join("")) ?? []
    if (name)
      throw new PatternFault(`[${name}, which ECMA-262 does not know (write its characters)`)
  }

  private setOf(member: number | CharSet): CharSet {
    return typeof member === "number" ? this.cased(one(member)) : member
  }

  private sees(c: string): boolean {
    return this.source[this.at] === c
  }

  private take(c: string): boolean {
    if (!this.sees(c)) return false
    this.at++
    return true
  }
}

/** `\p{digit}` and its like: names that ECMA-262 spells otherwise but many patterns use. */
function loosely(name: string): CharSet | undefined {
  const known: Record<string, string> = { digit: "Nd", letter: "L", alpha: "Alphabetic" }
  const meant = known[name.toLowerCase()]
  return meant === undefined ? undefined : property(meant)
}

const HYPHEN = 0x2d

function one(codePoint: number): CharSet {
  return isIn(codePoint, anyChar) ? [codePoint, codePoint] : []
}
