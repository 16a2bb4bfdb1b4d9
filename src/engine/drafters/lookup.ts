// Proposes what followed the last few tokens when they stood in the prompt or the reply before: answers quote their
// question, code repeats its names. No model, and next to no time. The idea is that of prompt look-up decoding
// (https://github.com/apoorvumang/prompt-lookup-decoding), the index that of LZ77 packers: a table from the hash of a run
// of tokens to where it stood last. A hash finds the place, the tokens are compared.

import { MIN_MATCH } from "../draft-thrift.ts"
import type { Sequence } from "../sequence.ts"
import type { Drafter } from "../speculative.ts"

/** Lengths of the runs that are looked up, the most telling first. */
const RUNS = [4, 3, 2]

export function createLookup(): Drafter {
  const indices = new WeakMap<Sequence, Index>()
  return {
    hidden: "none",
    longest: Number.POSITIVE_INFINITY,
    async propose(step) {
      for (const sequence of step) {
        if (sequence.wish === 0) continue
        const index = indices.get(sequence) ?? new Index(RUNS)
        indices.set(sequence, index)
        index.read(sequence)
        const from = index.find(sequence)
        if (from !== undefined) copyOn(sequence, from)
      }
    },
    async close() {},
  }
}

/** Proposes what a repetition goes on with, and says beforehand how far it has gone. */
export function createRepeater(): Drafter {
  const followers = new WeakMap<Sequence, Follower>()
  return {
    hidden: "none",
    longest: Number.POSITIVE_INFINITY,
    matched(sequence) {
      const follower = followers.get(sequence) ?? new Follower()
      followers.set(sequence, follower)
      return follower.follow(sequence)
    },
    async propose(step) {
      for (const sequence of step) {
        const { from = 0 } = followers.get(sequence) ?? {}
        if (sequence.wish > 0 && from > 0) copyOn(sequence, from)
      }
    },
    async close() {},
  }
}

/** More tokens than that tell nothing more. */
const MAX_MATCH = 64

/** Follows the place that a reply repeats, until it goes on otherwise. */
class Follower {
  readonly #index = new Index([MIN_MATCH])
  /** What stands there comes next, if the repetition goes on; 0: nothing is repeated. */
  from = 0
  #matched = 0
  #length = 0 // of the text when it was looked at last

  /** @returns how many of the last tokens stood before `from`, up to MAX_MATCH */
  follow(sequence: Sequence): number {
    const { tokens, length } = sequence
    for (; this.from > 0 && this.#length < length; this.#length++) {
      const goesOn = tokens[this.from] === tokens[this.#length]
      this.from = goesOn ? this.from + 1 : 0
      this.#matched = Math.min(MAX_MATCH, this.#matched + 1)
    }
    this.#length = length
    this.#index.read(sequence)
    if (this.from === 0) this.#find(sequence)
    return this.from > 0 ? this.#matched : 0
  }

  #find(sequence: Sequence): void {
    const { tokens, length } = sequence
    const from = this.#index.find(sequence)
    if (from === undefined) return
    let matched = MIN_MATCH
    while (matched < Math.min(from, MAX_MATCH)) {
      if (tokens[from - matched - 1] !== tokens[length - matched - 1]) break
      matched++
    }
    this.from = from
    this.#matched = matched
  }
}

/** Where each run of tokens ended last, for every length of runs. */
class Index {
  readonly #runs: readonly number[]
  #read = 0 // tokens whose runs are in the tables, all but the last one's
  #tables: Int32Array[] // by hash, the position after the run; 0: none

  constructor(runs: readonly number[]) {
    this.#runs = runs
    this.#tables = runs.map(() => new Int32Array(0))
  }

  /** Enters the runs that have come since. The run that ends the text is left out: it would find itself. */
  read({ tokens, length }: Sequence): void {
    if (2 * length > this.#tables[0]!.length) {
      const size = 2 ** Math.ceil(Math.log2(4 * length))
      this.#tables = this.#runs.map(() => new Int32Array(size))
      this.#read = 0
    }
    for (const [i, run] of this.#runs.entries()) {
      const table = this.#tables[i]!
      for (let end = Math.max(run, this.#read); end < length; end++) {
        table[hash(tokens, end, run) & (table.length - 1)] = end
      }
    }
    this.#read = length
  }

  /** The position after the latest run of tokens that equals the text's last ones. */
  find({ tokens, length }: Sequence): number | undefined {
    for (const [i, run] of this.#runs.entries()) {
      if (run >= length) continue
      const table = this.#tables[i]!
      const end = table[hash(tokens, length, run) & (table.length - 1)]!
      if (end > 0 && isSame(tokens, end, length, run)) return end
    }
    return undefined
  }
}

/** Of the `run` tokens before `end`. */
function hash(tokens: Int32Array, end: number, run: number): number {
  let mixed = run
  for (let at = end - run; at < end; at++) {
    mixed = Math.imul(mixed ^ tokens[at]!, 0x85ebca6b)
    mixed ^= mixed >>> 15
  }
  return mixed
}

function isSame(tokens: Int32Array, end: number, otherEnd: number, run: number): boolean {
  for (let back = 1; back <= run; back++) {
    if (tokens[end - back] !== tokens[otherEnd - back]) return false
  }
  return true
}

/** Proposes the text from `from` on; at its end what was proposed goes on, so that a short period is followed far. */
function copyOn(sequence: Sequence, from: number): void {
  for (let at = from; sequence.drafts.length < sequence.wish; at++) {
    const token = sequence.tokenAt(at)
    if (sequence.sequenceGroup.request.stopTokens.has(token)) return
    sequence.drafts.push(token)
  }
}
