// Proposes what followed the last few tokens when they stood in the prompt or the reply before: answers quote their
// question, code repeats its names. No model, and next to no time. The idea is that of prompt look-up decoding
// (https://github.com/apoorvumang/prompt-lookup-decoding), the index that of LZ77 packers: a table from the hash of a run
// of tokens to where it stood last. A hash finds the place, the tokens are compared.

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
        const index = indices.get(sequence) ?? new Index()
        indices.set(sequence, index)
        index.read(sequence)
        const from = index.find(sequence)
        if (from !== undefined) copyOn(sequence, from)
      }
    },
    async close() {},
  }
}

/** Where each run of tokens ended last, for every length of runs. */
class Index {
  #read = 0 // tokens whose runs are in the tables, all but the last one's
  #tables = RUNS.map(() => new Int32Array(0)) // by hash, the position after the run; 0: none

  /** Enters the runs that have come since. The run that ends the text is left out: it would find itself. */
  read({ tokens, length }: Sequence): void {
    if (2 * length > this.#tables[0]!.length) {
      const size = 2 ** Math.ceil(Math.log2(4 * length))
      this.#tables = RUNS.map(() => new Int32Array(size))
      this.#read = 0
    }
    for (const [i, run] of RUNS.entries()) {
      const table = this.#tables[i]!
      for (let end = Math.max(run, this.#read); end < length; end++) {
        table[hash(tokens, end, run) & (table.length - 1)] = end
      }
    }
    this.#read = length
  }

  /** The position after the latest run of tokens that equals the text's last ones. */
  find({ tokens, length }: Sequence): number | undefined {
    for (const [i, run] of RUNS.entries()) {
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
