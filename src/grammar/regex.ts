// ECMA-262 regular expressions as languages: what JSON Schema's `pattern` accepts, searched anywhere in the text, with
// Unicode semantics. Assertions (^ $ \b) hold between two characters, so a state remembers what kind came before; a
// look-ahead is an intersection with the rest of the text. Back references and look-behind are not regular or not read.

import {
  anyChar,
  type CharSet,
  charSet,
  complement,
  digits,
  lineEnds,
  property,
  spaces,
  union,
  wordChars,
} from "./charset.ts"
import { alphabetOf, combine, type Dfa, explore, samples, stateKey, TooLarge } from "./dfa.ts"

/** A pattern that is no regular expression, or says what automata cannot. */
export class PatternFault extends Error {}

/** The texts in which the pattern is found somewhere. @throws PatternFault, TooLarge */
export function patternLanguage(pattern: string): Dfa {
  const known = patterns.get(pattern) ?? language(new Parser(pattern).whole(), anyText)
  patterns.delete(pattern)
  patterns.set(pattern, known) // the last one used is the last one forgotten
  if (patterns.size > mostPatterns) patterns.delete(patterns.keys().next().value!)
  return known
}

// The same patterns come in one schema after the other, and what is known of a language is known by its automaton.
const patterns = new Map<string, Dfa>()
const mostPatterns = 200

/** The texts that the pattern describes from their first to their last character. @throws PatternFault, TooLarge */
export function wholeLanguage(pattern: string): Dfa {
  return language(new Parser(pattern).whole(), { seq: [] })
}

type Assertion = "start" | "end" | "word" | "notWord"

type Re =
  | { chars: CharSet }
  | { seq: Re[] }
  | { alt: Re[] }
  | { repeat: Re; min: number; max: number }
  | { assert: Assertion }
  | { look: Re; negative: boolean }
  | { rest: Dfa } // everything from here to the end of the text

const anyText: Re = { repeat: { chars: anyChar }, min: 0, max: Number.POSITIVE_INFINITY }

function language(body: Re, around: Re): Dfa {
  return determinize(resolveLooks([around, body, around], around))
}

// ---- look-ahead ----

/** `items` reach to the end of the text. A look-ahead and what follows it become one automaton for the rest. */
function resolveLooks(items: Re[], around: Re): Re {
  const at = items.findIndex(hasLook)
  if (at < 0) return { seq: items }
  const before = items.slice(0, at)
  const after = items.slice(at + 1)
  const item = items[at]!
  if ("seq" in item) return resolveLooks([...before, ...item.seq, ...after], around)
  if ("alt" in item) {
    const options = item.alt.map((option) => resolveLooks([option, ...after], around))
    return { seq: [...before, { alt: options }] }
  }
  if ("repeat" in item) {
    if (item.max > 16) throw new PatternFault("a look-ahead inside a repetition")
    const options: Re[] = []
    for (let n = item.min; n <= item.max; n++) {
      options.push(resolveLooks([...Array<Re>(n).fill(item.repeat), ...after], around))
    }
    return { seq: [...before, { alt: options }] }
  }
  if (!("look" in item)) throw new Error("internal: only these hold look-aheads")
  if ([item.look, ...after].some(looksBack)) {
    throw new PatternFault("^ or \\b after a look-ahead")
  }
  const ahead = determinize(resolveLooks([item.look, anyText], around))
  const rest = determinize(resolveLooks(after, around))
  const both = combine([ahead, rest], ([a, r]) => r! && a !== item.negative)
  return { seq: [...before, { rest: both }] }
}

function hasLook(re: Re): boolean {
  if ("look" in re) return true
  if ("seq" in re) return re.seq.some(hasLook)
  if ("alt" in re) return re.alt.some(hasLook)
  return "repeat" in re && hasLook(re.repeat)
}

function looksBack(re: Re): boolean {
  if ("assert" in re) return re.assert !== "end"
  if ("seq" in re) return re.seq.some(looksBack)
  if ("alt" in re) return re.alt.some(looksBack)
  if ("look" in re) return looksBack(re.look)
  return "repeat" in re && looksBack(re.repeat)
}

// ---- to an automaton ----

/** What stands on one side of a position between characters. */
type Side = "edge" | "word" | "other"

interface Nfa {
  /** Moves that read nothing, each perhaps on a condition. */
  free: { to: number; when?: Assertion }[][]
  /** Moves that read a character. */
  moves: { on: CharSet; to: number }[][]
  /** From here every text is accepted. */
  total: Set<number>
  /** Sets of characters, each content once; and which it is of any that came, and of its ranges. */
  sets: CharSet[]
  numbers: Map<CharSet | string, number>
  /** Nodes that are shared, by what they read or lead to: what ends alike is built once. */
  shared: Map<string, number>
}

const maxNfa = 50_000

function determinize(re: Re): Dfa {
  const nfa: Nfa = {
    free: [],
    moves: [],
    total: new Set(),
    sets: [],
    numbers: new Map(),
    shared: new Map(),
  }
  numberOf(nfa, anyChar) // is itself
  const final = node(nfa)
  const first = build(nfa, re, final)
  const sets = new Set<CharSet>()
  for (const moves of nfa.moves) for (const { on } of moves) sets.add(on)
  const bounded = nfa.free.some((list) =>
    list.some((f) => f.when === "word" || f.when === "notWord"),
  )
  if (bounded) sets.add(wordChars)
  const alphabet = alphabetOf(sets)
  const sample = samples(alphabet)
  const classes = Array.from(sample.keys()).slice(1)
  const kinds: Side[] = Array.from(sample, (c) =>
    bounded && isIn(c, wordChars) ? "word" : "other",
  )
  // Which character classes a move reads, tested on one character of each class.
  const reads = new Map(
    Array.from(sets, (on) => [on, classes.filter((c) => isIn(sample[c]!, on))] as const),
  )
  const moves = nfa.moves.map((list) => list.map(({ on, to }) => ({ on: reads.get(on)!, to })))
  const closures = new Closures(nfa)
  markTotal(nfa, final)
  const targets: string[] = Array.from(sample, () => "") // of each class, nodes as characters

  interface Subset {
    before: Side
    nodes: number[]
  }
  const subsets = new Map<string, Subset>()
  const subset = (before: Side, nodes: string): Subset => {
    const key = before + nodes
    const known = subsets.get(key) ?? { before, nodes: distinct(nodes) }
    subsets.set(key, known)
    return known
  }
  const add = ({ before, nodes }: Subset, after: Side, into: (Subset | undefined)[]) => {
    const reached = closures.of(nodes, before, after)
    const total = reached.find((from) => nfa.total.has(from))
    targets.fill("")
    if (total === undefined) {
      for (const from of reached) {
        for (const { on, to } of moves[from]!) {
          const node = String.fromCharCode(to)
          for (const c of on) targets[c]! += node
        }
      }
    }
    for (const c of classes) {
      if (kinds[c] !== after) continue
      if (total !== undefined) into[c] = subset("other", String.fromCharCode(total))
      else if (targets[c] !== "") into[c] = subset(after, targets[c]!)
    }
  }
  return explore<Subset>(
    alphabet,
    { before: "edge", nodes: [first] },
    ({ before, nodes }) => before + stateKey(nodes),
    (from, into) => {
      add(from, "other", into)
      if (bounded) add(from, "word", into)
    },
    ({ before, nodes }) => closures.of(nodes, before, "edge").includes(final),
  )
}

function isIn(codePoint: number, set: CharSet): boolean {
  let low = 0
  let high = set.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if (set[middle * 2 + 1]! < codePoint) low = middle + 1
    else high = middle
  }
  return low * 2 < set.length && set[low * 2]! <= codePoint
}

function distinct(nodes: string): number[] {
  if (nodes.length === 1) return [nodes.charCodeAt(0)]
  return [...new Set(nodes.split(""))].map((node) => node.charCodeAt(0)).sort((a, b) => a - b)
}

function node(nfa: Nfa): number {
  if (nfa.free.length >= maxNfa) throw new TooLarge("the pattern is too long when written out")
  nfa.moves.push([])
  return nfa.free.push([]) - 1
}

/** Adds what reads `re` and then goes to `to`; its first node. */
function build(nfa: Nfa, re: Re, to: number): number {
  if ("seq" in re) return re.seq.reduceRight((after, item) => build(nfa, item, after), to)
  if ("chars" in re) return reader(nfa, re.chars, to)
  if ("alt" in re) {
    return fork(
      nfa,
      re.alt.map((option) => build(nfa, option, to)),
    )
  }
  if ("repeat" in re) {
    let after = to
    if (re.max === Number.POSITIVE_INFINITY) {
      after = node(nfa)
      nfa.free[after]!.push({ to: build(nfa, re.repeat, after) }, { to })
    } else {
      for (let i = re.min; i < re.max; i++) after = fork(nfa, [build(nfa, re.repeat, after), to])
    }
    for (let i = 0; i < re.min; i++) after = build(nfa, re.repeat, after)
    return after
  }
  const from = node(nfa)
  if ("assert" in re) nfa.free[from]!.push({ to, when: re.assert })
  else if ("rest" in re) nfa.free[from]!.push(...embed(nfa, re.rest, to))
  else throw new Error("internal: look-aheads are resolved before")
  return from
}

/** The node that reads one of the characters. */
function reader(nfa: Nfa, chars: CharSet, to: number): number {
  const set = numberOf(nfa, chars)
  return shared(nfa, `${set} ${to}`, (from) => nfa.moves[from]!.push({ on: nfa.sets[set]!, to }))
}

function numberOf({ sets, numbers }: Nfa, chars: CharSet): number {
  let number = numbers.get(chars)
  if (number !== undefined) return number
  const ranges = chars.join()
  number = numbers.get(ranges) ?? sets.push(chars) - 1
  numbers.set(chars, number).set(ranges, number)
  return number
}

/** The node from which it goes on at any of some others. */
function fork(nfa: Nfa, targets: readonly number[]): number {
  return shared(nfa, targets.join("|"), (from) => {
    for (const to of new Set(targets)) nfa.free[from]!.push({ to })
  })
}

function shared(nfa: Nfa, name: string, fill: (node: number) => void): number {
  const known = nfa.shared.get(name)
  if (known !== undefined) return known
  const made = node(nfa)
  nfa.shared.set(name, made)
  fill(made)
  return made
}

function embed(nfa: Nfa, dfa: Dfa, to: number): { to: number }[] {
  if (dfa.start < 0) return []
  const sets: number[][] = Array.from({ length: dfa.classes }, () => [])
  dfa.starts.forEach((start, i) => {
    sets[dfa.classOf[i]!]!.push(start, (dfa.starts[i + 1] ?? 0x110000) - 1)
  })
  const base = nfa.free.length
  for (let state = 0; state < dfa.accepts.length; state++) node(nfa)
  for (let state = 0; state < dfa.accepts.length; state++) {
    if (dfa.accepts[state]) nfa.free[base + state]!.push({ to, when: "end" })
    for (let c = 1; c < dfa.classes; c++) {
      const target = dfa.next[state * dfa.classes + c]!
      if (target >= 0) nfa.moves[base + state]!.push({ on: sets[c]!, to: base + target })
    }
  }
  return [{ to: base + dfa.start }]
}

// A loop over any character that may always leave for the end accepts whatever comes: stop looking there.
function markTotal(nfa: Nfa, final: number): void {
  for (let from = 0; from < nfa.free.length; from++) {
    const leaves = nfa.free[from]!.some(({ to, when }) => to === final && when === undefined)
    const loops = nfa.free[from]!.some(
      ({ to, when }) =>
        when === undefined &&
        nfa.moves[to]!.some((move) => move.on === anyChar && move.to === from),
    )
    if (leaves && loops) nfa.total.add(from)
  }
}

/** What is reached without reading a character, found out once for each node and what stands on its two sides. */
class Closures {
  private readonly nfa: Nfa
  private readonly known = new Map<string, Int32Array[]>()
  private readonly stamps: Int32Array
  private stamp = 0

  constructor(nfa: Nfa) {
    this.nfa = nfa
    this.stamps = new Int32Array(nfa.free.length)
  }

  of(nodes: readonly number[], before: Side, after: Side): number[] {
    const sides = `${before} ${after}`
    let known = this.known.get(sides)
    if (!known) {
      known = []
      this.known.set(sides, known)
    }
    const lists = nodes.map((node) => (known[node] ??= this.find(node, before, after)))
    this.stamp++
    return lists.flatMap((list) => this.fresh(list))
  }

  private fresh(list: Iterable<number>): number[] {
    const out: number[] = []
    for (const node of list) {
      if (this.stamps[node] === this.stamp) continue
      this.stamps[node] = this.stamp
      out.push(node)
    }
    return out
  }

  /** Only nodes that read, or end, matter to whoever asks. */
  private find(node: number, before: Side, after: Side): Int32Array {
    this.stamp++
    const reached = this.fresh([node])
    for (const from of reached) {
      for (const { to, when } of this.nfa.free[from]!) {
        if (when === undefined || holds(when, before, after)) reached.push(...this.fresh([to]))
      }
    }
    const { moves, free, total } = this.nfa
    return Int32Array.from(
      reached.filter((n) => moves[n]!.length > 0 || free[n]!.length === 0 || total.has(n)),
    )
  }
}

function holds(assertion: Assertion, before: Side, after: Side): boolean {
  switch (assertion) {
    case "start":
      return before === "edge"
    case "end":
      return after === "edge"
    default:
      return ((before === "word") !== (after === "word")) === (assertion === "word")
  }
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

  constructor(pattern: string) {
    this.source = Array.from(pattern)
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
    const rest = this.source.slice(this.at, this.at + 24).join("")
    const match = /^\{(\d+)(,(\d*))?\}/.exec(rest)
    if (!match) return undefined
    this.at += match[0].length
    const min = Number(match[1])
    if (match[2] === undefined) return [min, min]
    return [min, match[3] === "" ? Number.POSITIVE_INFINITY : Number(match[3])]
  }

  private atom(): Re {
    const c = this.source[this.at++]!
    switch (c) {
      case "(":
        return this.group()
      case "[":
        return { chars: this.charClass() }
      case ".":
        return { chars: complement(lineEnds) }
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
      default:
        return { chars: one(c.codePointAt(0)!) }
    }
  }

  private group(): Re {
    let look: { negative: boolean } | undefined
    if (this.take("?")) {
      if (this.take("=")) look = { negative: false }
      else if (this.take("!")) look = { negative: true }
      else if (this.take("<")) {
        if (this.sees("=") || this.sees("!")) throw new PatternFault("a look-behind")
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
    if (c === "p" || c === "P") return this.property(c === "P")
    return one(this.escapedCharacter(c))
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
        const value = Number.parseInt(this.source.slice(this.at, end).join(""), 16)
        if (end < 0 || !(value <= 0x10ffff)) throw new PatternFault("a malformed \\u{…}")
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
    let set: CharSet = []
    while (!this.take("]")) {
      if (this.at >= this.source.length) throw new PatternFault("a [ that is not closed")
      const from = this.member()
      const isRange = this.sees("-") && this.source[this.at + 1] !== "]"
      if (isRange && this.at + 1 < this.source.length) {
        this.at++
        const to = this.member()
        if (typeof from !== "number" || typeof to !== "number" || from > to) {
          throw new PatternFault("a range out of order")
        }
        set = union(set, charSet([from, to]))
      } else set = union(set, typeof from === "number" ? one(from) : from)
    }
    return negated ? complement(set) : set
  }

  private member(): number | CharSet {
    const c = this.source[this.at++]!
    if (c !== "\\") return c.codePointAt(0)!
    const escaped = this.source[this.at]
    if (escaped === undefined) throw new PatternFault("a backslash at the end")
    if (classEscapes[escaped] || escaped === "p" || escaped === "P") return this.escapedSet()
    this.at++
    return escaped === "b" ? 8 : this.escapedCharacter(escaped)
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

function one(codePoint: number): CharSet {
  return isIn(codePoint, anyChar) ? [codePoint, codePoint] : []
}
