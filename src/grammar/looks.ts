// Patterns that look around. Each way through such a pattern takes along what it has promised about the rest of the text:
// the state of an automaton that reads on, and has to accept in the end, or has not to. What is looked for behind is read
// from the beginning of the text, whatever ways there are. A state is all ways that are open, as without looks.

import { anyChar, type CharSet, wordChars } from "./charset.ts"
import { type Alphabet, alphabetOf, classMaps, type Dfa, explore, samples, stepAll } from "./dfa.ts"
import {
  anyText,
  determinize,
  holds,
  isIn,
  type Look,
  type Nfa,
  nfaOf,
  type Re,
  type Side,
} from "./nfa.ts"
import { spend } from "./work.ts"

/** A pattern that is no regular expression, or says what automata cannot. */
export class PatternFault extends Error {}

export function hasLook(re: Re): boolean {
  return parts(re).some((part) => "look" in part)
}

/** The texts that an expression describes. @throws PatternFault, TooLarge */
export function determinizeLooks(re: Re): Dfa {
  const looks = new Looks(re)
  return looks.determinize(re, "edge", looks.unread)
}

/** Number of an automaton of a look-ahead, and where in it the text is. */
interface Promised {
  dfa: number
  state: number
  negative: boolean
}

interface Way {
  node: number
  promises: readonly Promised[]
  key: string
}

/** What is known between two characters. */
interface Place {
  before: Side
  /** State of each look-behind's automaton. */
  behind: readonly number[]
  ways: readonly Way[]
}

class Looks {
  /** Before anything is read. */
  readonly unread: readonly number[]
  private readonly alphabet: Alphabet
  private readonly sample: Uint32Array
  private readonly kinds: readonly Side[] // of each class
  private readonly behind: readonly Look[]
  private readonly behindDfas: readonly Dfa[]
  private readonly behindMaps: readonly Uint16Array[]
  // A look-ahead means something else after another character or another text.
  private readonly aheads: Dfa[] = []
  private readonly aheadMaps: Uint16Array[] = []
  private readonly aheadIds = new Map<Look, Map<string, number>>()

  constructor(whole: Re) {
    const all = parts(whole)
    const sets = new Set<CharSet>([anyChar])
    for (const part of all) if ("chars" in part) sets.add(part.chars)
    const isBounded = all.some(
      (part) => "assert" in part && (part.assert === "word" || part.assert === "notWord"),
    )
    if (isBounded) sets.add(wordChars)
    this.alphabet = alphabetOf(sets)
    this.sample = samples(this.alphabet)
    this.kinds = Array.from(this.sample, (c) =>
      isBounded && isIn(c, wordChars) ? "word" : "other",
    )
    this.behind = all.filter((part): part is Look => "look" in part && part.behind)
    this.behindDfas = this.behind.map(({ look }) => {
      if (
        parts(look).some((part) => "look" in part || ("assert" in part && part.assert !== "start"))
      ) {
        throw new PatternFault("a look-behind that looks ahead")
      }
      return determinize({ seq: [anyText, look] })
    })
    this.behindMaps = classMaps(this.alphabet, this.behindDfas)
    this.unread = this.behindDfas.map(({ start }) => start)
  }

  determinize(re: Re, before: Side, behind: readonly number[]): Dfa {
    const nfa = nfaOf(re)
    const { sample, alphabet, kinds } = this
    const reads = nfa.moves.map((moves) =>
      moves.map(({ on, to }) => ({
        on: Uint8Array.from(sample, (c) => (isIn(c, on) ? 1 : 0)),
        to,
      })),
    )
    const sides = [...new Set(kinds.slice(1))]
    return explore<Place>(
      alphabet,
      { before, behind, ways: [way(nfa.first, [])] },
      ({ before, behind, ways }) =>
        `${before} ${behind.join()} ${ways.map(({ key }) => key).join(" ")}`,
      (place, into) => {
        for (const after of sides) {
          const ways = this.reached(nfa, place, after)
          for (let c = 1; c < alphabet.classes; c++) {
            if (kinds[c] !== after) continue
            spend(1 + ways.length)
            const next = new Map<string, Way>()
            for (const { node, promises } of ways) {
              if (nfa.total.has(node)) add(next, node, this.kept(promises, c))
              for (const { on, to } of reads[node]!) {
                if (on[c] === 1) add(next, to, this.kept(promises, c))
              }
            }
            if (next.size === 0) continue
            const behind = stepAll(this.behindDfas, this.behindMaps, place.behind, c)
            into[c] = { before: after, behind, ways: withoutWeaker([...next.values()]) }
          }
        }
      },
      (place) =>
        this.reached(nfa, place, "edge").some(
          ({ node, promises }) =>
            (node === nfa.final || nfa.total.has(node)) &&
            promises.every(
              ({ dfa, state, negative }) => (this.aheads[dfa]!.accepts[state] === 1) !== negative,
            ),
        ),
    )
  }

  /** The ways that are open before the next character, of which the kind is known. */
  private reached(nfa: Nfa, { before, behind, ways }: Place, after: Side): Way[] {
    const open = new Map(ways.map((each) => [each.key, each]))
    for (const { node, promises } of open.values()) {
      for (const { to, when } of nfa.free[node]!) {
        if (when === undefined) add(open, to, promises)
        else if (typeof when === "string") {
          if (holds(when, before, after)) add(open, to, promises)
        } else if (when.behind) {
          const i = this.behind.indexOf(when)
          const stands = behind[i]! >= 0 && this.behindDfas[i]!.accepts[behind[i]!] === 1
          if (stands !== when.negative) add(open, to, promises)
        } else {
          const promised = this.promised(when, before, behind)
          if (promised) add(open, to, merged([...promises, ...promised]))
        }
      }
    }
    const all = [...open.values()]
    const total = all.find(({ node, promises }) => nfa.total.has(node) && promises.length === 0)
    return total ? [total] : all
  }

  /** What a look-ahead asks of the text from here on; undefined: what cannot be. */
  private promised(look: Look, before: Side, behind: readonly number[]): Promised[] | undefined {
    const byPlace = this.aheadIds.get(look) ?? new Map<string, number>()
    this.aheadIds.set(look, byPlace)
    const place = `${before} ${behind.join()}`
    let dfa = byPlace.get(place)
    if (dfa === undefined) {
      const ahead = this.determinize({ seq: [look.look, anyText] }, before, behind)
      dfa = this.aheads.push(ahead) - 1
      this.aheadMaps.push(...classMaps(this.alphabet, [ahead]))
      byPlace.set(place, dfa)
    }
    return this.settled({ dfa, state: this.aheads[dfa]!.start, negative: look.negative })
  }

  /** The promises after a character; undefined when one is broken. */
  private kept(promises: readonly Promised[], c: number): readonly Promised[] | undefined {
    if (promises.length === 0) return promises
    const out: Promised[] = []
    for (const promise of promises) {
      const { next, classes } = this.aheads[promise.dfa]!
      const state = next[promise.state * classes + this.aheadMaps[promise.dfa]![c]!]!
      const rest = this.settled({ ...promise, state })
      if (!rest) return undefined
      out.push(...rest)
    }
    return merged(out)
  }

  /** Nothing when it is kept whatever follows, undefined when it is broken whatever follows. */
  private settled(promise: Promised): Promised[] | undefined {
    const { dfa, state, negative } = promise
    if (state < 0) return negative ? [] : undefined
    if (!this.acceptsAll(this.aheads[dfa]!, state)) return [promise]
    return negative ? undefined : []
  }

  private acceptsAll({ accepts, next, classes }: Dfa, state: number): boolean {
    const row = next.subarray(state * classes + 1, (state + 1) * classes)
    return accepts[state] === 1 && row.every((to) => to === state)
  }
}

function way(node: number, promises: readonly Promised[]): Way {
  const key = promises.map(({ dfa, state, negative }) => `${dfa}${negative ? "!" : "="}${state}`)
  return { node, promises, key: `${node}:${key.join()}` }
}

function add(to: Map<string, Way>, node: number, promises: readonly Promised[] | undefined): void {
  if (!promises) return
  const each = way(node, promises)
  if (!to.has(each.key)) to.set(each.key, each)
}

/** Each once, in one order. */
function merged(promises: readonly Promised[]): readonly Promised[] {
  if (promises.length < 2) return promises
  const order = (p: Promised) => p.dfa * 2 + (p.negative ? 1 : 0)
  const sorted = [...promises].sort((a, b) => order(a) - order(b) || a.state - b.state)
  return sorted.filter((p, i) => i === 0 || !isSame(p, sorted[i - 1]!))
}

function isSame(a: Promised, b: Promised): boolean {
  return a.dfa === b.dfa && a.state === b.state && a.negative === b.negative
}

/** In one order, without ways that promise more than another one to the same place. */
function withoutWeaker(ways: Way[]): Way[] {
  const byNode = new Map<number, Way[]>()
  for (const each of ways) byNode.set(each.node, [...(byNode.get(each.node) ?? []), each])
  const left = ways.filter((each) => {
    const others = byNode.get(each.node)!
    return !others.some(
      (other) =>
        other.promises.length < each.promises.length &&
        other.promises.every((p) => each.promises.some((q) => isSame(p, q))),
    )
  })
  return left.sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** An expression and all that it is made of. */
function parts(re: Re): Re[] {
  if ("seq" in re) return [re, ...re.seq.flatMap(parts)]
  if ("alt" in re) return [re, ...re.alt.flatMap(parts)]
  if ("repeat" in re) return [re, ...parts(re.repeat)]
  return "look" in re ? [re, ...parts(re.look)] : [re]
}
