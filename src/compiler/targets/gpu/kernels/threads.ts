// What the threads of a group find together, with shared memory: the best of all, sums of whole numbers in any order, what lies
// behind each of them. All threads come to each of these, and all are told.

import { type Builder, type Elements, select, u32, type Value } from "../ir/builder.ts"
import { addWhole, type Whole } from "./numbers.ts"

export const THREADS = 256
export const THREAD_BITS = 8
/** One for each thread. */
export const BINS = THREADS

/** A token and its key, by which tokens are in order: the larger key first, and of equals the first token. */
export interface Best {
  key: Value
  token: Value
}

/** A key below all keys. */
export const NOTHING = 0
const ABOVE_ALL = 0xffffffff
const NO_TOKEN = 0xffffffff

const isBefore = (a: Best, b: Best) => a.key.gt(b.key).or(a.key.eq(b.key).and(a.token.lt(b.token)))

export class Threads {
  readonly #k: Builder
  readonly #arrays = new Map<string, Elements>()

  constructor(k: Builder) {
    this.#k = k
  }

  /** The largest key of all threads, and of equals the first token. */
  best(own: Best): Best {
    const k = this.#k
    const [keys, tokens] = [this.#array("keys", THREADS), this.#array("tokens", THREADS)]
    k.barrier()
    keys.store(k.lane, own.key)
    tokens.store(k.lane, own.token)
    k.for(0, THREAD_BITS, 1, (i) => {
      const half = k.let(u32(THREADS / 2).shr(i))
      k.barrier()
      k.if(k.lane.lt(half), () => {
        const mine = { key: keys.load(k.lane), token: tokens.load(k.lane) }
        const other = k.lane.add(half)
        const theirs = { key: keys.load(other), token: tokens.load(other) }
        k.if(isBefore(theirs, mine), () => {
          keys.store(k.lane, theirs.key)
          tokens.store(k.lane, theirs.token)
        })
      })
    })
    k.barrier()
    return { key: keys.load(0), token: tokens.load(0) }
  }

  /** The first `count` of all that `each` has, in order, found one by one. */
  list(
    count: Value,
    each: (body: (key: Value, token: Value) => void) => void,
    tell: (i: Value, best: Best) => void,
  ): void {
    const k = this.#k
    const [key, token] = [k.variable(u32(NOTHING)), k.variable(u32(0))]
    const own = { key: key.now, token: token.now }
    const [lastKey, lastToken] = [k.variable(u32(ABOVE_ALL)), k.variable(u32(0))]
    const last = { key: lastKey.now, token: lastToken.now }
    const isTold = k.variable(u32(1))
    k.for(0, count, 1, (i) => {
      k.if(isTold.now.ne(0), () => {
        key.set(NOTHING)
        token.set(NO_TOKEN)
        each((otherKey, otherToken) => {
          const other = { key: otherKey, token: otherToken }
          k.if(isBefore(last, other).and(isBefore(other, own)), () => {
            key.set(other.key)
            token.set(other.token)
          })
        })
      })
      const best = this.best(own)
      k.if(k.lane.eq(0), () => tell(i, best))
      lastKey.set(best.key)
      lastToken.set(best.token)
      isTold.set(select(best.token.eq(token.now), u32(1), 0))
    })
  }

  /** What one thread knows. */
  tell(isMine: Value, values: readonly Value[]): Value[] {
    const k = this.#k
    const cells = this.#array("cells", CELLS)
    k.barrier()
    k.if(isMine, () => {
      for (const [i, value] of values.entries()) cells.store(i, value)
    })
    k.barrier()
    return values.map((_, i) => cells.load(i))
  }

  sums(values: readonly Value[]): Value[] {
    const k = this.#k
    const cells = this.#array("cells", CELLS)
    k.barrier()
    k.if(k.lane.lt(values.length), () => cells.store(k.lane, 0))
    k.barrier()
    for (const [i, value] of values.entries()) cells.atomicAdd(i, value)
    k.barrier()
    return values.map((_, i) => cells.load(i))
  }

  sum({ low, high }: Whole): Whole {
    const parts = [low.and(0xffff), low.shr(16), high.and(0xffff), high.shr(16)]
    return joined(this.#k, this.sums(parts), 16)
  }

  /** Of all threads' numbers the sums: of all, of mine and those of later threads, and of those without mine. */
  fromTheEnd(mine: Whole): { all: Whole; own: Whole; larger: Whole } {
    const k = this.#k
    const lows = this.#array("lows", 2 * THREADS) // the second half is 0
    const highs = this.#array("highs", 2 * THREADS)
    const [low, high] = [k.variable(mine.low), k.variable(mine.high)]
    const own = { low: low.now, high: high.now }
    const at = (lane: Value | number) => ({ low: lows.load(lane), high: highs.load(lane) })
    k.barrier()
    lows.store(k.lane.add(THREADS), 0)
    highs.store(k.lane.add(THREADS), 0)
    k.for(0, THREAD_BITS, 1, (i) => {
      k.barrier()
      lows.store(k.lane, own.low)
      highs.store(k.lane, own.high)
      k.barrier()
      const sum = addWhole(k, own, at(k.let(k.lane.add(u32(1).shl(i)))))
      low.set(sum.low)
      high.set(sum.high)
    })
    k.barrier()
    lows.store(k.lane, own.low)
    highs.store(k.lane, own.high)
    k.barrier()
    return { all: at(0), own, larger: at(k.lane.add(1)) }
  }

  /** Counts and sums of shares by bin, a bin for each thread. */
  clearBins(): Bins {
    const k = this.#k
    const arrays = ["counts", "shares0", "shares1", "shares2"].map((name) =>
      this.#array(name, BINS),
    )
    const [counts, ...shares] = arrays as [Elements, ...Elements[]]
    k.barrier()
    for (const array of arrays) array.store(k.lane, 0)
    k.barrier()
    return {
      count: (bin) => counts.atomicAdd(bin, 1),
      addShare: (bin, { low, high }) => {
        const parts = [low.and(0x3fff), low.shr(14).and(0x3fff), low.shr(28).or(high.shl(4))]
        for (const [i, part] of parts.entries()) shares[i]!.atomicAdd(bin, part)
      },
      ofLane: () => ({
        count: counts.load(k.lane),
        share: joined(
          k,
          shares.map((share) => share.load(k.lane)),
          14,
        ),
      }),
    }
  }

  #array(name: string, length: number): Elements {
    const known = this.#arrays.get(name)
    if (known) return known
    const array = this.#k.shared(name, "u32", length)
    this.#arrays.set(name, array)
    return array
  }
}

/** For `tell` and `sums`. */
const CELLS = 4

interface Bins {
  count(bin: Value): void
  /** Of 41 bits; of a chunk's there may be 2^18. */
  addShare(bin: Value, share: Whole): void
  ofLane(): { count: Value; share: Whole }
}

/** Words that count in units of 1, 2^bits, 2^(2 * bits) … as one number. */
function joined(k: Builder, parts: readonly Value[], bits: number): Whole {
  const whole = (part: Value, shift: number): Whole => {
    if (shift === 0) return { low: part, high: u32(0) }
    if (shift === 32) return { low: u32(0), high: part }
    if (shift > 32) return { low: u32(0), high: part.shl(shift - 32) }
    return { low: part.shl(shift), high: part.shr(32 - shift) }
  }
  return parts
    .map((part, i) => whole(part, i * bits))
    .reduce((sum, part) => addWhole(k, sum, { low: k.let(part.low), high: part.high }))
}
