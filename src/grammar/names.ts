// The patterns on an object's names, all at once: which of them a name matches, and which names can still come of a
// beginning. Names fall into classes, one for each combination of patterns they match. What is known of some patterns is
// shared by all objects that have them.

import { LruMap } from "../lru.ts"
import {
  anything,
  classAt,
  classesIn,
  classMaps,
  classSizes,
  commonAlphabet,
  type Dfa,
  stateKey,
  stepAll,
} from "./dfa.ts"
import { between, StringLanguage, type StringPlace } from "./strings.ts"
import { type Priced, priced, spend, TooLarge } from "./work.ts"

const maxClasses = 30
const maxNameStates = 5000
const maxFewNames = 1000

const products = new LruMap<Priced<NameProduct>>(64)
const numbers = new WeakMap<Dfa, number>()
let numbered = 0

/** Objects whose names have the same patterns share what is known of them. */
export function productOf(languages: readonly Dfa[]): NameProduct {
  for (const language of languages) {
    if (!numbers.has(language)) numbers.set(language, ++numbered)
  }
  const key = languages.map((language) => numbers.get(language)).join()
  const product = priced(products.get(key), () => new NameProduct(languages))
  return products.put(key, product).value
}

/** All patterns on names at once: which of them a name matches, and which names are still possible. */
export class NameProduct {
  /** The languages that the names of each class match. */
  readonly classes: ReadonlySet<Dfa>[] = []
  readonly isTrivial: boolean
  private readonly alphabet: ReturnType<typeof commonAlphabet>
  private readonly next: number[] = [] // [states, character classes]
  private readonly into: number[][] // [states]  where each is reached from
  private readonly classIds: number[] = [] // [states]
  private readonly endless: number[][] = [] // [states]  classes with names without end from there
  private readonly words: ([string, number][] | undefined)[] = []
  private readonly languages = new Map<number, { of: StringLanguage; leads: boolean[] }>()

  constructor(languages: readonly Dfa[]) {
    this.isTrivial = languages.length === 0
    this.alphabet = commonAlphabet(languages)
    const maps = classMaps(this.alphabet, languages)
    const ids = new Map<string, number>()
    const classIds = new Map<string, number>()
    const states: number[][] = []
    const intern = (state: number[]): number => {
      const key = stateKey(state)
      let id = ids.get(key)
      if (id !== undefined) return id
      id = states.push(state) - 1
      ids.set(key, id)
      if (id > maxNameStates) throw new TooLarge("the patterns of names together are too large")
      const matched = languages.filter((l, i) => state[i]! >= 0 && l.accepts[state[i]!] === 1)
      const name = matched.map((language) => languages.indexOf(language)).join()
      let classId = classIds.get(name)
      if (classId === undefined) {
        classId = this.classes.push(new Set(matched)) - 1
        classIds.set(name, classId)
        if (classId >= maxClasses) throw new TooLarge("too many combinations of name patterns")
      }
      this.classIds.push(classId)
      return id
    }
    intern(languages.map((language) => language.start))
    for (let i = 0; i < states.length; i++) {
      spend((this.alphabet.classes * (2 + languages.length)) / 8)
      this.next.push(-1)
      for (let c = 1; c < this.alphabet.classes; c++) {
        this.next.push(intern(stepAll(languages, maps, states[i]!, c)))
      }
    }
    this.into = states.map(() => [])
    this.next.forEach((to, i) => {
      const from = Math.floor(i / this.alphabet.classes)
      if (to >= 0 && this.into[to]!.at(-1) !== from) this.into[to]!.push(from)
    })
    this.findEndless()
  }

  step(state: number, codePoint: number): number {
    return this.next[state * this.alphabet.classes + classAt(this.alphabet, codePoint)]!
  }

  after(state: number, from: number, to: number): number[] {
    const states = classesIn(this.alphabet, from, to).map(
      (c) => this.next[state * this.alphabet.classes + c]!,
    )
    return [...new Set(states)]
  }

  /** The characters of a range that lead from one state to another. */
  between(state: number, next: number, from: number, to: number): Iterable<string> {
    const { starts, classOf, classes } = this.alphabet
    const leads = (i: number) => this.next[state * classes + classOf[i]!] === next
    return {
      *[Symbol.iterator]() {
        for (let i = 0; i < starts.length && starts[i]! <= to; i++) {
          const end = Math.min((starts[i + 1] ?? to + 1) - 1, to)
          if (!leads(i)) continue
          for (let c = Math.max(starts[i]!, from); c <= end; c++) yield String.fromCodePoint(c)
        }
      },
    }
  }

  /** Names of some classes, a bit for each, as a language whose states are those here; undefined where none is left. */
  namesFrom(state: number, classes: number): StringPlace | undefined {
    let names = this.languages.get(classes)
    if (!names) {
      const { alphabet, classIds } = this
      const isOne = (index: number) => ((classes >> index) & 1) === 1
      const leads = this.reachable(isOne)
      const next = Int32Array.from(this.next, (to) => (to >= 0 && leads[to] ? to : -1))
      const accepts = Uint8Array.from(classIds, (index) => (isOne(index) ? 1 : 0))
      const isAny = this.isTrivial && isOne(0)
      const dfa = isAny ? anything : { ...alphabet, next, accepts, start: 0 }
      names = { of: new StringLanguage(dfa, 0, Number.POSITIVE_INFINITY), leads }
      this.languages.set(classes, names)
    }
    return names.leads[state] ? names.of.place(state, between) : undefined
  }

  classOf(state: number): number {
    return this.classIds[state]!
  }

  endlessFrom(state: number): number[] {
    return this.endless[state]!
  }

  isEndless(index: number): boolean {
    return this.endless[0]!.includes(index)
  }

  /** All names of the classes that have only a few. */
  fewNames(): string[] {
    return this.wordsFrom(0).map(([word]) => word)
  }

  /** How names go on from a state when their class has only a few from there. */
  wordsFrom(state: number): [string, number][] {
    this.words[state] ??= this.findWords(state)
    return this.words[state]
  }

  private findWords(start: number): [string, number][] {
    const out: [string, number][] = []
    const few = (state: number, index: number) => !this.endless[state]!.includes(index)
    const leads = this.classes.map((_, index) => this.reachable((id) => id === index))
    const wanted = this.classes.flatMap((_, index) => (few(start, index) ? [index] : []))
    const characters = charactersByClass(this.alphabet)
    let front: [number, string][] = [[start, ""]]
    while (front.length > 0) {
      const ahead: [number, string][] = []
      for (const [state, text] of front) {
        if (wanted.includes(this.classIds[state]!)) out.push([text, this.classIds[state]!])
        for (let c = 1; c < this.alphabet.classes; c++) {
          const to = this.next[state * this.alphabet.classes + c]!
          if (!wanted.some((index) => leads[index]![to])) continue
          for (const character of characters[c]!) ahead.push([to, text + character])
        }
      }
      front = ahead
    }
    return out
  }

  private reachable(wanted: (index: number) => boolean): boolean[] {
    const flags = this.classIds.map(wanted)
    const queue = [...flags.keys()].filter((state) => flags[state])
    for (const state of queue) {
      for (const from of this.into[state]!) {
        if (flags[from]) continue
        flags[from] = true
        queue.push(from)
      }
    }
    return flags
  }

  // A class has names without end from a state when a cycle of states that still reach the class can be entered from it.
  // Peel off the states without successors: what cannot be peeled enters one; of what can, the names are counted, and more
  // than an object will ever have are as good as endless.
  private findEndless(): void {
    const count = this.classIds.length
    const width = this.alphabet.classes
    const sizes = classSizes(this.alphabet)
    this.endless.push(...Array.from({ length: count }, () => []))
    for (let index = 0; index < this.classes.length; index++) {
      const open = this.reachable((id) => id === index)
      const reaches = [...open]
      const left = new Int32Array(count)
      this.into.forEach((froms, to) => {
        if (reaches[to]) for (const from of froms) left[from]!++
      })
      const names = new Float64Array(count)
      const queue = [...left.keys()].filter((state) => left[state] === 0)
      for (const state of queue) {
        if (reaches[state]) {
          names[state] = this.classIds[state] === index ? 1 : 0
          for (let c = 1; c < width; c++) {
            names[state]! += sizes[c]! * names[this.next[state * width + c]!]!
          }
        }
        open[state] = names[state]! > maxFewNames
        if (!reaches[state]) continue
        for (const from of this.into[state]!) if (--left[from]! === 0) queue.push(from)
      }
      open.forEach((yes, state) => {
        if (yes) this.endless[state]!.push(index)
      })
    }
  }
}

function charactersByClass(alphabet: ReturnType<typeof commonAlphabet>): string[][] {
  const out: string[][] = Array.from({ length: alphabet.classes }, () => [])
  alphabet.starts.forEach((start, i) => {
    const end = alphabet.starts[i + 1] ?? 0x110000
    const list = out[alphabet.classOf[i]!]!
    // A larger class leads nowhere where names are few.
    for (let c = start; c < end && list.length <= maxFewNames; c++)
      list.push(String.fromCodePoint(c))
  })
  return out
}
