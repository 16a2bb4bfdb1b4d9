// Deterministic automata over code points: the languages of patterns, formats and sets of names. Every state of a finished
// automaton lives (some text leads from it to acceptance), so "not stuck" and "can still match" are one question.
// Characters that no transition tells apart share a class; surrogates belong to class 0, which leads nowhere.

import { anyChar, type CharSet, complement, intersect, lastCodePoint } from "./charset.ts"

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

/** More states than the compiler is willing to build. */
export class TooLarge extends Error {}

const maxStates = 20_000
// 5 million transitions are 20 MB; past that the states are many and the classes are many too.
const maxTransitions = 5_000_000

/** The coarsest alphabet in which every given set is a union of classes. */
export function alphabetOf(sets: Iterable<CharSet>): Alphabet {
  let blocks: CharSet[] = [anyChar]
  for (const set of new Set(sets)) {
    const outside = complement(set)
    const split: CharSet[] = []
    for (const block of blocks) {
      for (const part of [intersect(block, set), intersect(block, outside)]) {
        if (part.length > 0) split.push(part)
      }
    }
    blocks = split
    if (blocks.length > 4096) throw new TooLarge("too many kinds of characters")
  }
  const edges: [number, number][] = [[0xd800, 0]]
  blocks.forEach((block, index) => {
    for (let i = 0; i < block.length; i += 2) edges.push([block[i]!, index + 1])
  })
  edges.sort((a, b) => a[0] - b[0])
  return {
    starts: Uint32Array.from(edges, ([start]) => start),
    classOf: Uint16Array.from(edges, ([, index]) => index),
    classes: blocks.length + 1,
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
  const found = new Set<number>()
  for (let i = intervalAt(alphabet, from); i < alphabet.starts.length; i++) {
    if (alphabet.starts[i]! > to) break
    if (alphabet.classOf[i] !== 0) found.add(alphabet.classOf[i]!)
  }
  return [...found]
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

/** Explores the automaton whose states are `key`ed by anything, then drops what cannot accept and merges what is equal. */
export function explore<S>(
  alphabet: Alphabet,
  start: S,
  key: (state: S) => string | number,
  move: (state: S, sample: number) => S | undefined,
  accepts: (state: S) => boolean,
): Dfa {
  const ids = new Map<string | number, number>([[key(start), 0]])
  const states = [start]
  const next: number[] = []
  const sample = samples(alphabet)
  for (let i = 0; i < states.length; i++) {
    next.push(-1)
    for (let c = 1; c < alphabet.classes; c++) {
      const to = move(states[i]!, sample[c]!)
      if (to === undefined) {
        next.push(-1)
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
  return explore<number[]>(
    alphabet,
    dfas.map((dfa) => dfa.start),
    (states) => states.join(),
    (states, c) => states.map((state, i) => (state < 0 ? -1 : step(dfas[i]!, state, c))),
    (states) => keep(states.map((state, i) => state >= 0 && dfas[i]!.accepts[state] === 1)),
  )
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

/** Exactly these texts. */
export function finite(words: Iterable<string>): Dfa {
  const list = Array.from(words, (word) => Array.from(word, (c) => c.codePointAt(0)!))
  const nodes: Map<number, number>[] = [new Map()]
  const ends = new Set<number>()
  const seen = new Set<number>()
  for (const word of list) {
    let node = 0
    for (const c of word) {
      seen.add(c)
      let to = nodes[node]!.get(c)
      if (to === undefined) {
        to = nodes.push(new Map()) - 1
        nodes[node]!.set(c, to)
        if (to >= maxStates) throw new TooLarge("too many words")
      }
      node = to
    }
    ends.add(node)
  }
  return explore(
    alphabetOf([...seen].map((c) => intersect([c, c], anyChar))),
    0,
    (node) => node,
    (node, c) => nodes[node]!.get(c),
    (node) => ends.has(node),
  )
}

/** Texts of min to max characters. */
export function lengths(min: number, max: number): Dfa {
  const last = max === Number.POSITIVE_INFINITY ? min : max + 1
  if (last >= maxStates) throw new TooLarge("a length bound this large cannot be combined here")
  return explore(
    alphabetOf([]),
    0,
    (n) => n,
    (n) => (n >= max ? undefined : Math.min(n + 1, last)),
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

// Moore's refinement: states are equal until something tells them apart.
function minimize(dfa: Dfa): Dfa {
  const count = dfa.accepts.length
  let block = Int32Array.from(dfa.accepts)
  for (let blocks = 0; ; ) {
    const ids = new Map<string, number>()
    const refined = new Int32Array(count)
    for (let state = 0; state < count; state++) {
      let name = `${block[state]}`
      for (let c = 1; c < dfa.classes; c++) {
        const to = dfa.next[state * dfa.classes + c]!
        name += to < 0 ? ",-" : `,${block[to]}`
      }
      const known = ids.get(name)
      refined[state] = known ?? ids.size
      if (known === undefined) ids.set(name, ids.size)
    }
    block = refined
    // Long chains (a{1,500}) would take a pass for each state; they are minimal as they are.
    if (ids.size === blocks || ids.size === count || count * count * dfa.classes > 2e7) break
    blocks = ids.size
  }
  if (count * count * dfa.classes > 2e7) return dfa
  const first = new Int32Array(count).fill(-1)
  const keep = new Uint8Array(count)
  for (let state = 0; state < count; state++) {
    if (first[block[state]!]! >= 0) continue
    first[block[state]!] = state
    keep[state] = 1
  }
  return renumber(dfa, keep, (state) => first[block[state]!]!)
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
