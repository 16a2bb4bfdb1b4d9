// Deterministic automata over code points: the languages of patterns, formats and sets of names. Every state of a finished
// automaton lives (some text leads from it to acceptance), so "not stuck" and "can still match" are one question.
// Characters that no transition tells apart share a class; surrogates belong to class 0, which leads nowhere.

import { anyChar, type CharSet, intersect, lastCodePoint } from "./charset.ts"
import { spend, TooLarge } from "./work.ts"

export interface Alphabet {
  /** First code point of each interval; the last interval ends with the last code point. */
  readonly starts: Uint32Array // [intervals]
  readonly classOf: Uint16Array // [intervals]  class of each interval
  readonly classes: number
}

export interface Dfa extends Alphabet {
  /** State after reading a character of a class, or -1. */
  readonly next: Int32Array // [states, classes]
  readonly accepts: Uint8Array // [states]
  readonly start: number // -1 when the language is empty
}

const maxStates = 20_000
const maxFinite = 400_000 // nodes before they are folded
const MAX_LISTED = 60_000 // states of texts that are listed: below 2^16, for stateKey
const TOO_MANY_TEXTS = "the listed texts are too many, or too long"
// 5 million transitions are 20 MB; past that the states are many and the classes are many too.
const maxTransitions = 5_000_000
const maxClasses = 4096

/** The coarsest alphabet in which every given set is a union of classes: one sweep over the edges of all ranges. */
export function alphabetOf(sets: Iterable<CharSet>): Alphabet {
  const edges: [number, number][] = [] // where a set begins or ends, and its number
  let count = 0
  for (const set of new Set(sets)) {
    for (let i = 0; i < set.length; i += 2) edges.push([set[i]!, count], [set[i + 1]! + 1, count])
    count++
  }
  spend(edges.length / 8)
  edges.sort((a, b) => a[0] - b[0])
  const ids = new Map<string, number>()
  const starts: number[] = []
  const classOf: number[] = []
  const inside = new Set<number>()
  const open = (at: number) => {
    const name = [...inside].sort((a, b) => a - b).join()
    const known = ids.get(name) ?? ids.size + 1
    ids.set(name, known)
    if (known === classOf.at(-1)) return
    starts.push(at)
    classOf.push(known)
  }
  let at = 0
  for (const next of [0, 0xd800, 0xe000, lastCodePoint + 1]) {
    for (; edges[at] !== undefined && edges[at]![0] <= next; ) {
      const place = edges[at]![0]
      for (; edges[at]?.[0] === place; at++) {
        const set = edges[at]![1]
        if (!inside.delete(set)) inside.add(set)
      }
      if (place < next) open(place)
    }
    if (next === 0xd800) {
      starts.push(next)
      classOf.push(0)
    } else if (next <= lastCodePoint) open(next)
    if (ids.size > maxClasses) throw new TooLarge("too many kinds of characters")
  }
  return {
    starts: Uint32Array.from(starts),
    classOf: Uint16Array.from(classOf),
    classes: ids.size + 1,
  }
}

export function classAt(alphabet: Alphabet, codePoint: number): number {
  return alphabet.classOf[intervalAt(alphabet, codePoint)]!
}

/** One character of each class. */
export function samples(alphabet: Alphabet): Uint32Array {
  const out = new Uint32Array(alphabet.classes)
  for (let i = alphabet.starts.length - 1; i >= 0; i--) {
    out[alphabet.classOf[i]!] = alphabet.starts[i]!
  }
  return out
}

/** The classes that meet the range [from, to]. */
export function classesIn(alphabet: Alphabet, from: number, to: number): number[] {
  const classes = new Set<number>()
  for (let i = intervalAt(alphabet, from); i < alphabet.starts.length; i++) {
    if (alphabet.starts[i]! > to) break
    if (alphabet.classOf[i] !== 0) classes.add(alphabet.classOf[i]!)
  }
  return [...classes]
}

/** How many characters each class holds. */
export function classSizes(alphabet: Alphabet): Uint32Array {
  const sizes = new Uint32Array(alphabet.classes)
  alphabet.starts.forEach((start, i) => {
    const end = alphabet.starts[i + 1] ?? lastCodePoint + 1
    sizes[alphabet.classOf[i]!]! += end - start
  })
  return sizes
}

export function step(dfa: Dfa, state: number, codePoint: number): number {
  return dfa.next[state * dfa.classes + classAt(dfa, codePoint)]!
}

export function matches(dfa: Dfa, text: string): boolean {
  let state = dfa.start
  for (const character of text) {
    if (state < 0) return false
    state = step(dfa, state, character.codePointAt(0)!)
  }
  return state >= 0 && dfa.accepts[state] === 1
}

/**
 * Explores the automaton whose states are `key`ed by anything, then drops what cannot accept and merges what is equal.
 * @param row fills in where each class leads from a state; it is given undefined for all of them
 */
export function explore<S>(
  alphabet: Alphabet,
  start: S,
  key: (state: S) => string | number,
  row: (state: S, into: (S | undefined)[]) => void,
  accepts: (state: S) => boolean,
): Dfa {
  const ids = new Map<string | number, number>([[key(start), 0]])
  const states = [start]
  const next: number[] = []
  const into: (S | undefined)[] = Array.from({ length: alphabet.classes })
  for (let i = 0; i < states.length; i++) {
    spend(1 + alphabet.classes / 8)
    row(states[i]!, into.fill(undefined))
    next.push(-1)
    for (let c = 1; c < alphabet.classes; c++) {
      const to = into[c]
      if (to === undefined || to === into[c - 1]) {
        next.push(to === undefined ? -1 : next.at(-1)!)
        continue
      }
      const name = key(to)
      let id = ids.get(name)
      if (id === undefined) {
        id = states.push(to) - 1
        ids.set(name, id)
        if (id >= maxStates || id * alphabet.classes > maxTransitions) {
          throw new TooLarge("the automaton grows too large")
        }
      }
      next.push(id)
    }
  }
  const flags = Uint8Array.from(states, (state) => (accepts(state) ? 1 : 0))
  return minimize(trim({ ...alphabet, next: Int32Array.from(next), accepts: flags, start: 0 }))
}

/** The texts for which `keep` says yes, told whether each automaton accepts them. */
export function combine(dfas: readonly Dfa[], keep: (accepted: boolean[]) => boolean): Dfa {
  const alphabet = commonAlphabet(dfas)
  const maps = classMaps(alphabet, dfas)
  return explore<number[]>(
    alphabet,
    dfas.map((dfa) => dfa.start),
    stateKey,
    (states, into) => {
      spend((alphabet.classes * dfas.length) / 16)
      for (let c = 1; c < alphabet.classes; c++) into[c] = stepAll(dfas, maps, states, c)
    },
    (states) => keep(states.map((state, i) => state >= 0 && dfas[i]!.accepts[state] === 1)),
  )
}

/** Which class of each automaton a class of their common alphabet lies in. */
export function classMaps(alphabet: Alphabet, dfas: readonly Dfa[]): Uint16Array[] {
  const sample = samples(alphabet)
  return dfas.map((dfa) => Uint16Array.from(sample, (c, i) => (i === 0 ? 0 : classAt(dfa, c))))
}

/** States of several automata after a class of their common alphabet. */
export function stepAll(
  dfas: readonly Dfa[],
  maps: readonly Uint16Array[],
  states: readonly number[],
  c: number,
): number[] {
  return states.map((state, i) => {
    const { next, classes } = dfas[i]!
    return state < 0 ? -1 : next[state * classes + maps[i]![c]!]!
  })
}

/** Equal lists of states, or of anything else below 2^16 - 1, have equal keys. */
export function stateKey(states: readonly number[]): string {
  let key = ""
  for (const state of states) key += String.fromCharCode(state + 1)
  return key
}

export function commonAlphabet(dfas: readonly Dfa[]): Alphabet {
  const sets: CharSet[] = []
  for (const dfa of dfas) {
    const byClass: number[][] = Array.from({ length: dfa.classes }, () => [])
    dfa.starts.forEach((start, i) => {
      byClass[dfa.classOf[i]!]!.push(start, (dfa.starts[i + 1] ?? lastCodePoint + 1) - 1)
    })
    sets.push(...byClass.slice(1))
  }
  return alphabetOf(sets)
}

/** Exactly these texts: their tree of prefixes, folded from the leaves up wherever the same may follow. */
export function finite(words: Iterable<string>): Dfa {
  const nodes: Map<number, number>[] = [new Map()]
  const ends = new Set<number>()
  const seen = new Set<number>()
  for (const word of words) {
    spend(1 + word.length / 2)
    let node = 0
    for (const character of word) {
      const c = character.codePointAt(0)!
      seen.add(c)
      let to = nodes[node]!.get(c)
      if (to === undefined) {
        to = nodes.push(new Map()) - 1
        nodes[node]!.set(c, to)
        if (to >= maxFinite) throw new TooLarge(TOO_MANY_TEXTS)
      }
      node = to
    }
    ends.add(node)
  }
  const alphabet = alphabetOf(Array.from(seen, (c) => intersect([c, c], anyChar)))
  const ids = new Map<string, number>()
  const rows: [number, number][][] = [] // [states] class and where it leads
  const accepts: number[] = []
  const stateOf = new Int32Array(nodes.length)
  // Children stand behind their parents.
  for (let node = nodes.length - 1; node >= 0; node--) {
    const row: [number, number][] = []
    for (const [c, to] of nodes[node]!) {
      const of = classAt(alphabet, c)
      if (of !== 0 && stateOf[to]! >= 0) row.push([of, stateOf[to]!])
    }
    row.sort(([a], [b]) => a - b)
    const isEnd = ends.has(node)
    const key = `${isEnd} ${row.join(" ")}`
    const lives = isEnd || row.length > 0
    const known = lives ? (ids.get(key) ?? rows.length) : -1
    stateOf[node] = known
    if (known < rows.length) continue
    ids.set(key, known)
    rows.push(row)
    accepts.push(isEnd ? 1 : 0)
    if (rows.length >= MAX_LISTED || rows.length * alphabet.classes > maxTransitions) {
      throw new TooLarge(TOO_MANY_TEXTS)
    }
  }
  const next = new Int32Array(rows.length * alphabet.classes).fill(-1)
  rows.forEach((row, state) => {
    for (const [c, to] of row) next[state * alphabet.classes + c] = to
  })
  return { ...alphabet, next, accepts: Uint8Array.from(accepts), start: stateOf[0]! }
}

/** Texts of min to max characters. */
export function lengths(min: number, max: number): Dfa {
  const last = max === Number.POSITIVE_INFINITY ? min : max + 1
  if (last >= maxStates) throw new TooLarge("a length bound this large cannot be combined here")
  return explore(
    alphabetOf([]),
    0,
    (n) => n,
    (n, into) => {
      if (n < max) into.fill(Math.min(n + 1, last), 1)
    },
    (n) => n >= min,
  )
}

export const anything: Dfa = lengths(0, Number.POSITIVE_INFINITY)

function intervalAt({ starts }: Alphabet, codePoint: number): number {
  let low = 0
  let high = starts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (starts[middle]! <= codePoint) low = middle
    else high = middle - 1
  }
  return low
}

function trim(dfa: Dfa): Dfa {
  const count = dfa.accepts.length
  const into: number[][] = Array.from({ length: count }, () => [])
  for (let i = 0; i < dfa.next.length; i++) {
    if (dfa.next[i]! >= 0) into[dfa.next[i]!]!.push(Math.floor(i / dfa.classes))
  }
  const lives = Uint8Array.from(dfa.accepts)
  const queue: number[] = []
  lives.forEach((live, state) => {
    if (live) queue.push(state)
  })
  for (let state = queue.pop(); state !== undefined; state = queue.pop()) {
    for (const from of into[state]!) {
      if (lives[from]) continue
      lives[from] = 1
      queue.push(from)
    }
  }
  return renumber(dfa, lives, (state) => state)
}

/** Merges states that nothing tells apart. */
function minimize(dfa: Dfa): Dfa {
  const { blockOf, blocks } = refine(dfa)
  const count = dfa.accepts.length
  if (blocks === count) return dfa
  const first = new Int32Array(blocks).fill(-1)
  const keep = new Uint8Array(count)
  for (let state = 0; state < count; state++) {
    if (first[blockOf[state]!]! >= 0) continue
    first[blockOf[state]!] = state
    keep[state] = 1
  }
  return renumber(dfa, keep, (state) => first[blockOf[state]!]!)
}

// Hopcroft (1971): a block of states that is known to behave alike splits every other by what leads into it. Of the halves
// of a block that has been used already only the smaller has to be used again.
function refine({ accepts, next, classes }: Dfa): { blockOf: Int32Array; blocks: number } {
  const count = accepts.length
  const { starts: sources, from } = inverse(next, classes, count)
  const members = new Int32Array(count) // the states, block by block
  const place = new Int32Array(count) // of each state in `members`
  const blockOf = new Int32Array(count)
  const begin = new Int32Array(count + 1)
  const size = new Int32Array(count + 1)
  const marked = new Int32Array(count + 1) // how many of a block's first members are marked
  let blocks = 0
  let filled = 0
  for (const flag of [0, 1]) {
    begin[blocks] = filled
    for (let q = 0; q < count; q++) {
      if (accepts[q] !== flag) continue
      place[q] = filled
      members[filled++] = q
      blockOf[q] = blocks
    }
    size[blocks] = filled - begin[blocks]!
    if (size[blocks]! > 0) blocks++
  }
  const waiting = Array.from({ length: blocks }, (_, block) => block)
  const waits = new Uint8Array(count + 1).fill(1, 0, blocks)
  for (let block = waiting.pop(); block !== undefined; block = waiting.pop()) {
    waits[block] = 0
    const splitter = members.slice(begin[block]!, begin[block]! + size[block]!)
    for (let c = 1; c < classes; c++) {
      const touched: number[] = []
      for (const q of splitter) {
        const edge = c * count + q
        for (let i = sources[edge]!; i < sources[edge + 1]!; i++) {
          const p = from[i]!
          const b = blockOf[p]!
          const border = begin[b]! + marked[b]!
          if (place[p]! < border) continue
          if (marked[b]!++ === 0) touched.push(b)
          const other = members[border]!
          members[place[p]!] = other
          place[other] = place[p]!
          members[border] = p
          place[p] = border
        }
      }
      for (const b of touched) {
        const inside = marked[b]!
        marked[b] = 0
        if (inside === size[b]) continue
        // The marked ones leave as a block of their own.
        begin[blocks] = begin[b]!
        size[blocks] = inside
        begin[b]! += inside
        size[b]! -= inside
        for (let i = begin[blocks]!; i < begin[b]!; i++) blockOf[members[i]!] = blocks
        const again = waits[b] || inside <= size[b]! ? blocks : b
        waits[again] = 1
        waiting.push(again)
        blocks++
      }
    }
  }
  return { blockOf, blocks }
}

/** For each class and state, class by class, where it is reached from: from[starts[i]] up to from[starts[i + 1]]. */
function inverse(next: Int32Array, classes: number, count: number) {
  const starts = new Int32Array(classes * count + 2)
  for (let i = 0; i < next.length; i++) {
    if (next[i]! >= 0) starts[(i % classes) * count + next[i]! + 2]!++
  }
  for (let i = 2; i < starts.length; i++) starts[i]! += starts[i - 1]!
  const from = new Int32Array(starts.at(-1)!)
  for (let i = 0; i < next.length; i++) {
    if (next[i]! >= 0) {
      from[starts[(i % classes) * count + next[i]! + 1]!++] = Math.floor(i / classes)
    }
  }
  return { starts, from }
}

function renumber(dfa: Dfa, keep: Uint8Array, stand: (state: number) => number): Dfa {
  const ids = new Int32Array(keep.length).fill(-1)
  const kept: number[] = []
  keep.forEach((yes, state) => {
    if (yes) ids[state] = kept.push(state) - 1
  })
  const next = new Int32Array(kept.length * dfa.classes).fill(-1)
  kept.forEach((state, i) => {
    for (let c = 1; c < dfa.classes; c++) {
      const to = dfa.next[state * dfa.classes + c]!
      if (to >= 0) next[i * dfa.classes + c] = ids[stand(to)]!
    }
  })
  return {
    starts: dfa.starts,
    classOf: dfa.classOf,
    classes: dfa.classes,
    next,
    accepts: Uint8Array.from(kept, (state) => dfa.accepts[state]!),
    start: dfa.start < 0 || kept.length === 0 ? -1 : ids[stand(dfa.start)]!,
  }
}
