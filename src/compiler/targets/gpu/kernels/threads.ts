// What the threads of a group find together, with shared memory: the best of all, sums of whole numbers, what lies behind each
// of them. All threads come to each of these, and all are told. Barriers stand in them and nowhere else in a sampler's
// kernels, never under a condition: drivers of processors copy whatever follows a barrier that may be skipped.

import { type Builder, type Elements, select, u32, type Value } from "../ir/builder.ts"
import { addWhole, type Whole } from "./numbers.ts"

export const THREADS = 256
/** Threads are told in two steps: each of the first 16 puts 16 neighbours together, and then everybody those. */
const HEADS = 16
const EACH = THREADS / HEADS

/** A token and its key. Tokens are in order by them: the larger key first, and of equals the first token. */
export interface Best {
  key: Value
  token: Value
}

/** A key below all keys. */
export const NOTHING = 0
const ABOVE_ALL = 0xffffffff
const NO_TOKEN = 0xffffffff

export class Threads {
  readonly #k: Builder
  readonly #arrays = new Map<string, Elements>()

  constructor(k: Builder) {
    this.#k = k
  }

  /** For what lies in shared arrays and in buffers. */
  barrier(): void {
    this.#k.barrier()
  }

  /** Of each of these, the best that a thread has. */
  bests(own: readonly Best[]): Best[] {
    const k = this.#k
    const at = (name: string, i: number, length: number) => ({
      keys: this.#array(`${name}Keys${i}`, length),
      tokens: this.#array(`${name}Tokens${i}`, length),
    })
    const all = own.map((_, i) => at("all", i, THREADS))
    const heads = own.map((_, i) => at("head", i, HEADS))
    for (const [i, { keys, tokens }] of all.entries()) {
      keys.store(k.lane, own[i]!.key)
      tokens.store(k.lane, own[i]!.token)
    }
    k.barrier()
    k.if(k.lane.lt(HEADS), () => {
      for (const [i, { keys, tokens }] of heads.entries()) {
        const best = this.#bestOf(all[i]!, k.let(k.lane.mul(EACH)), EACH)
        keys.store(k.lane, best.key)
        tokens.store(k.lane, best.token)
      }
    })
    k.barrier()
    return heads.map((head) => this.#bestOf(head, u32(0), HEADS))
  }

  #bestOf(of: { keys: Elements; tokens: Elements }, from: Value, count: number): Best {
    const k = this.#k
    const best = new BestSoFar(k)
    k.for(from, from.add(count), 1, (i) =>
      best.meet({ key: of.keys.load(i), token: of.tokens.load(i) }),
    )
    return best.now
  }

  /** The first `count` of all that `each` has, in order, found one by one. */
  list(
    count: Value,
    each: (body: (other: Best) => void) => void,
    tell: (i: Value, best: Best) => void,
  ): void {
    const k = this.#k
    const own = new BestSoFar(k)
    const [lastKey, lastToken] = [k.variable(u32(ABOVE_ALL)), k.variable(u32(0))]
    const last = { key: lastKey.now, token: lastToken.now }
    const isTold = k.variable(u32(1)) // what this thread had is in the list
    k.for(0, count, 1, (i) => {
      k.if(isTold.now.ne(0), () => {
        own.forget()
        each((other) => k.if(isBefore(last, other), () => own.meet(other)))
      })
      const best = this.bests([own.now])[0]!
      k.if(k.lane.eq(0), () => tell(i, best))
      lastKey.set(best.key)
      lastToken.set(best.token)
      isTold.set(select(best.token.eq(own.now.token), u32(1), 0))
    })
  }

  /** What one thread knows, if it is `isMine`; it must be for one. */
  tell(isMine: Value, values: readonly Value[]): Value[] {
    const k = this.#k
    const cells = this.#array("cells", CELLS)
    k.if(isMine, () => {
      for (const [i, value] of values.entries()) cells.store(i, value)
    })
    k.barrier()
    return values.map((_, i) => cells.load(i))
  }

  /** Of numbers below 2^56. */
  sum({ low, high }: Whole): Whole {
    const k = this.#k
    const sums = this.#array("sums", CELLS)
    const parts = [low.and(0xffff), low.shr(16), high]
    k.if(k.lane.lt(parts.length), () => sums.store(k.lane, 0))
    k.barrier()
    for (const [i, part] of parts.entries()) sums.atomicAdd(i, part)
    k.barrier()
    return joined(
      k,
      parts.map((_, i) => sums.load(i)),
      16,
    )
  }

  /**
   * Of all threads' numbers the sums: of all, of mine and those of later threads, and of those without mine. Whoever asks
   * again must have come to a barrier in between.
   */
  fromTheEnd(mine: Whole): { all: Whole; own: Whole; later: Whole } {
    const k = this.#k
    const of = (name: string, length: number) => ({
      lows: this.#array(`${name}Lows`, length),
      highs: this.#array(`${name}Highs`, length),
    })
    const [all, heads] = [of("all", THREADS), of("head", HEADS)]
    all.lows.store(k.lane, mine.low)
    all.highs.store(k.lane, mine.high)
    k.barrier()
    const sumOf = (of: typeof all, from: Value, count: number, behind?: Value) => {
      const [low, high] = [k.variable(u32(0)), k.variable(u32(0))]
      k.for(from, from.add(count), 1, (i) => {
        const isIn = behind ? i.gt(behind) : i.ge(from)
        const part = { low: of.lows.load(i), high: of.highs.load(i) }
        const counted = { low: select(isIn, part.low, 0), high: select(isIn, part.high, 0) }
        const sum = addWhole(k, { low: low.now, high: high.now }, named(k, counted))
        low.set(sum.low)
        high.set(sum.high)
      })
      return { low: low.now, high: high.now }
    }
    k.if(k.lane.lt(HEADS), () => {
      const sum = sumOf(all, k.let(k.lane.mul(EACH)), EACH)
      heads.lows.store(k.lane, sum.low)
      heads.highs.store(k.lane, sum.high)
    })
    k.barrier()
    const head = k.let(k.lane.div(EACH))
    const neighbours = sumOf(all, k.let(head.mul(EACH)), EACH, k.lane)
    const later = named(k, addWhole(k, sumOf(heads, u32(0), HEADS, head), neighbours))
    return {
      all: sumOf(heads, u32(0), HEADS),
      own: named(k, addWhole(k, later, mine)),
      later,
    }
  }

  /** Counts and sums of shares by bin, a bin for each thread. */
  clearBins(): Bins {
    const k = this.#k
    const array = (name: string) => this.#array(name, BINS)
    const counts = array("counts")
    const shares = [array("shares0"), array("shares1"), array("shares2")]
    for (const array of [counts, ...shares]) array.store(k.lane, 0)
    k.barrier()
    return {
      count: (bin) => counts.atomicAdd(bin, 1),
      addShare: (bin, { low, high }) => {
        const parts = [low.and(0x3fff), low.shr(14).and(0x3fff), low.shr(28).or(high.shl(4))]
        for (const [i, part] of parts.entries()) shares[i]!.atomicAdd(bin, part)
      },
      ofLane: () => {
        k.barrier()
        const parts = shares.map((share) => share.load(k.lane))
        return { count: counts.load(k.lane), share: joined(k, parts, 14) }
      },
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

const CELLS = 4

/** One for each thread, and for each byte. */
export const BINS = 256

interface Bins {
  count(bin: Value): void
  /** Of 41 bits; there may be 2^18 of them. */
  addShare(bin: Value, share: Whole): void
  /** Of the bin with this thread's number. */
  ofLane(): { count: Value; share: Whole }
}

/** The best that a thread has met, NOTHING at first. */
export class BestSoFar {
  readonly #k: Builder
  readonly #key
  readonly #token

  constructor(k: Builder) {
    this.#k = k
    this.#key = k.variable(u32(NOTHING))
    this.#token = k.variable(u32(NO_TOKEN))
  }

  get now(): Best {
    return { key: this.#key.now, token: this.#token.now }
  }

  meet(other: Best): void {
    this.#k.if(isBefore(other, this.now), () => {
      this.#key.set(other.key)
      this.#token.set(other.token)
    })
  }

  forget(): void {
    this.#key.set(NOTHING)
    this.#token.set(NO_TOKEN)
  }
}

const isBefore = (a: Best, b: Best) => a.key.gt(b.key).or(a.key.eq(b.key).and(a.token.lt(b.token)))

export const named = (k: Builder, { low, high }: Whole): Whole => ({
  low: k.let(low),
  high: k.let(high),
})

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
    .reduce((sum, part) => addWhole(k, sum, named(k, part)))
}
