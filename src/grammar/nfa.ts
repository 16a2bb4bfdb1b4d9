// Regular expressions as automata: an expression becomes moves between nodes, and sets of nodes become the states of a
// deterministic automaton. Assertions (^ $ \b) hold between two characters, so a state remembers what kind came before.
// Looks around are more than a set of nodes can say: looks.ts.

import { anyChar, type CharSet, wordChars } from "./charset.ts"
import { alphabetOf, type Dfa, explore, samples, stateKey } from "./dfa.ts"
import { spend, TooLarge } from "./work.ts"

export type Assertion = "start" | "end" | "word" | "notWord"

/** What has to follow, or with `behind` to stand before; or has not to. */
export interface Look {
  look: Re
  behind: boolean
  negative: boolean
}

export type Re =
  | { chars: CharSet }
  | { seq: Re[] }
  | { alt: Re[] }
  | { repeat: Re; min: number; max: number }
  | { assert: Assertion }
  | Look

export const anyText: Re = { repeat: { chars: anyChar }, min: 0, max: Number.POSITIVE_INFINITY }

/** What stands on one side of a position between characters. */
export type Side = "edge" | "word" | "other"

export interface Nfa {
  first: number
  final: number
  /** Moves that read nothing, each perhaps on a condition. */
  free: { to: number; when?: Assertion | Look }[][]
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

/** An expression as moves between nodes. @throws TooLarge */
export function nfaOf(re: Re): Nfa {
  const nfa: Nfa = {
    first: 0,
    final: 0,
    free: [],
    moves: [],
    total: new Set(),
    sets: [],
    numbers: new Map(),
    shared: new Map(),
  }
  numberOf(nfa, anyChar) // is itself
  nfa.final = node(nfa)
  nfa.first = build(nfa, re, nfa.final)
  markTotal(nfa)
  return nfa
}

/** The texts that an expression without looks describes. @throws TooLarge */
export function determinize(re: Re): Dfa {
  const nfa = nfaOf(re)
  const { first, final } = nfa
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
  const targets: string[] = Array.from(sample, () => "") // of each class, nodes as characters

  interface Subset {
    before: Side
    nodes: readonly number[]
    key: string
  }
  const subsets = new Map<string, Subset>()
  const subset = (before: Side, nodes: string): Subset => {
    const name = before + nodes
    let known = subsets.get(name)
    if (!known) {
      const own = distinct(nodes)
      known = { before, nodes: own, key: before + stateKey(own) }
      subsets.set(name, known)
    }
    return known
  }
  const add = ({ before, nodes }: Subset, after: Side, into: (Subset | undefined)[]) => {
    const reached = closures.of(nodes, before, after)
    spend((reached.length + classes.length) / 8)
    const total = reached.find((from) => nfa.total.has(from))
    targets.fill("")
    if (total === undefined) {
      for (const from of reached) {
        for (const { on, to } of moves[from]!) {
          spend(on.length / 16)
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
    { before: "edge", nodes: [first], key: "edge" },
    ({ key }) => key,
    (from, into) => {
      add(from, "other", into)
      if (bounded) add(from, "word", into)
    },
    ({ before, nodes }) => closures.of(nodes, before, "edge").includes(final),
  )
}

export function isIn(codePoint: number, set: CharSet): boolean {
  let low = 0
  let high = set.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if (set[middle * 2 + 1]! < codePoint) low = middle + 1
    else high = middle
  }
  return low * 2 < set.length && set[low * 2]! <= codePoint
}

function distinct(nodes: string): readonly number[] {
  if (nodes.length === 1) return [nodes.charCodeAt(0)]
  const sorted = new Uint16Array(nodes.length)
  for (let i = 0; i < nodes.length; i++) sorted[i] = nodes.charCodeAt(i)
  sorted.sort()
  const out: number[] = []
  for (const node of sorted) if (node !== out.at(-1)) out.push(node)
  return out
}

function node(nfa: Nfa): number {
  spend(1 / 4)
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
  else nfa.free[from]!.push({ to, when: re })
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

// A loop over any character that may always leave for the end accepts whatever comes: stop looking there.
function markTotal(nfa: Nfa): void {
  const { final } = nfa
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
    for (const node of nodes) known[node] ??= this.find(node, before, after)
    this.stamp++
    const out: number[] = []
    for (const node of nodes) this.addFresh(known[node]!, out)
    return out
  }

  private addFresh(nodes: ArrayLike<number>, out: number[]): void {
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[i]!
      if (this.stamps[node] === this.stamp) continue
      this.stamps[node] = this.stamp
      out.push(node)
    }
  }

  /** Only nodes that read, or end, matter to whoever asks. */
  private find(node: number, before: Side, after: Side): Int32Array {
    this.stamp++
    const reached: number[] = []
    this.addFresh([node], reached)
    for (const from of reached) {
      for (const { to, when } of this.nfa.free[from]!) {
        if (when === undefined || holds(when as Assertion, before, after)) {
          this.addFresh([to], reached)
        }
      }
    }
    const { moves, free, total } = this.nfa
    return Int32Array.from(
      reached.filter((n) => moves[n]!.length > 0 || free[n]!.length === 0 || total.has(n)),
    )
  }
}

export function holds(assertion: Assertion, before: Side, after: Side): boolean {
  switch (assertion) {
    case "start":
      return before === "edge"
    case "end":
      return after === "edge"
    default:
      return ((before === "word") !== (after === "word")) === (assertion === "word")
  }
}
