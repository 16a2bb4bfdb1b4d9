// A row of logits becomes a token on the device: runtime/sampling.ts, bit for bit. Every sum is one of whole numbers, so a
// row's tokens may be dealt out to several groups of threads, each with a chunk of them; what a group found lies in scratch
// memory until the next kernel reads all of it.
//
//   score     logits become scores (bias, penalties), and scores keys that sort as they do; 0 is a token that may not come
//   select    eight passes, if a row asks for them: four find the cut of top-k, four that of top-p, a byte of the key each.
//             A pass counts, or weighs, the tokens whose key begins as the cut does, by their key's next byte; the next pass
//             finds that byte. Among equals the cut is at an id.
//   race      the best of what is left by score + noise
//   describe  what log-probabilities need, for the rows that want them
//   tell      chunks are put together: the row's results
//
// Where all rows that are drawn keep few tokens by top-k, two kernels do all of this:
//
//   list      scores as well, and then the first of each chunk's tokens, as many as the row keeps
//   settle    one group has what chunks list: both cuts, the race, the results
//
// What no row of a step asks for is not launched. Rows that want nothing of a kernel, or are not there, pass its barriers and do nothing.

import {
  type AskedName,
  MOST_LISTED,
  NO_MASK,
  RESULT_WORDS,
  resultWord,
  SAMPLING_WORDS,
  type SamplingArray,
  samplingWord,
} from "../../../../runtime/gpu/regions.ts"
import { NO_LOGPROBS } from "../../../../runtime/program.ts"
import type { Plan } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  kernel,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import type { Binding, Launch } from "../launch.ts"
import {
  addWhole,
  expSingle,
  gumbel,
  partOf,
  reaches,
  settled,
  type Whole,
  wholeShare,
} from "./numbers.ts"
import { type Best, BestSoFar, BINS, NOTHING, named, THREADS, Threads } from "./threads.ts"

/** Tokens of a chunk. Sums of a chunk's shares are kept in three words of 14 bits and what they carry: see `addShare`. */
const CHUNK = 8192

const PASSES = 8
const DIGITS = 4 // of a key, in either half of the passes

/** What groups leave to one another of a row: words of scratch memory, first those of the row, then those of each chunk. */
const STATE = 8 // of each pass: what it was told to look for
const STATE_WORDS = 5
const ROW_WORDS = PASSES * STATE
const chunkWord = {
  bestKey: 0, // UNSOUND if a logit is not finite
  bestToken: 1,
  most: 2, // the largest logit, as a key
  raceKey: 3,
  raceToken: 4,
  sumLow: 5, // of the logits' shares
  sumHigh: 6,
  tops: 8, // [MAX_TOP_LOGPROBS, 2] keys of logits and their tokens
  bins: 48, // [2, 3, BINS] of this pass and the last: how many, and the two words of what they weigh
  listed: 48, // [MOST_LISTED, 2] in their place: keys and tokens by these, and NOTHING behind the last one
} as const
type ChunkWord = Exclude<keyof typeof chunkWord, "tops" | "bins" | "listed">
const BINS_WORDS = 3 * BINS
const CHUNK_WORDS = chunkWord.bins + Math.max(2 * BINS_WORDS, 2 * MOST_LISTED)

const UNSOUND = 0xffffffff // a key above all keys
const NO_END = 0xffffffff
const ALL = 2 ** 24 // of topPart

/** Where the kept tokens end: those of larger keys, and of this key those before `end`. */
interface Cut {
  key: Value
  end: Value
}

/** What of a row decides which tokens may be drawn. The first three are 1 or 0. */
interface Limits {
  isDrawn: Value
  isCounted: Value // top-k
  isWeighed: Value // top-p
  topK: Value
  topPart: Value
  inverseTemperature: Value
}

/** Some tokens in the order of their ids, by numbers from one to another. */
interface Tokens {
  from: Value
  to: Value
  load: (i: Value) => Best
}

/** How the tokens that are in question are known after some passes. */
interface Found {
  prefix: Value // the first bytes of their keys
  above: Whole // what those of larger prefixes weigh
  target: Whole // what is to be reached
}

/** What a kernel of the sampler is given, by name, in the order in which it first asks. */
const buffers = {
  count: { element: "u32", access: "read" },
  logits: { element: "f32", access: "read" },
  scores: { element: "u32", access: "readwrite" }, // [rows, vocabulary] scores' bits, then keys
  found: { element: "u32", access: "readwrite" }, // [rows] as ROW_WORDS and CHUNK_WORDS say
  rows: { element: "u32", access: "read" },
  countTokens: { element: "u32", access: "read" },
  counts: { element: "i32", access: "read" },
  biasTokens: { element: "u32", access: "read" },
  biases: { element: "f32", access: "read" },
  masks: { element: "u32", access: "read" },
  results: { element: "u32", access: "write" },
} as const
const words = ["vocabulary", "stride", "chunkTokens", "chunks", "firstPass", "lastPass"] as const
type BufferName = keyof typeof buffers
type WordName = (typeof words)[number]

/** A row of logits as one group of threads meets it. */
class Draw {
  readonly operands: (BufferName | WordName)[] = []
  readonly #k: Builder
  readonly #threads: Threads
  readonly #buffers = new Map<BufferName, Elements>()
  readonly #words = new Map<WordName, Value>()
  readonly #row: Value
  readonly #chunk: Value
  /** Launches are made for more rows than there may be. */
  readonly #isThere: Value

  constructor(k: Builder) {
    this.#k = k
    this.#threads = new Threads(k)
    this.#row = k.group(0)
    this.#chunk = k.group(1)
    this.#isThere = k.let(this.#row.lt(this.#buffer("count").load(0)), "isThere")
  }

  // ---------------------------------------------------------------- score

  /** @param lists the first of the chunk's tokens as well */
  score(lists = false): void {
    const k = this.#k
    const logits = this.#logits()
    const scores = this.#scores()
    const [biasStart, biasEnd] = this.#given("biasStart", "biasEnd")
    const [countStart, countEnd] = this.#given("countStart", "countEnd")
    const allows = this.#allows()
    const isChanged = k.let(biasStart.lt(biasEnd).or(countStart.lt(countEnd)), "isChanged")
    const most = k.variable(u32(NOTHING), "most")
    const best = new BestSoFar(k)
    const finish = (token: Value, score: Value) => {
      const key = k.let(select(allows(token), keyOf(score), NOTHING))
      scores.store(token, key)
      best.meet({ key, token })
    }
    this.#eachToken(this.#isThere, (token) => {
      const logit = logits.load(token)
      const score = settled(k, logit)
      most.set(most.now.max(k.let(select(isNumber(logit), keyOf(score), UNSOUND))))
      k.if(
        isChanged,
        () => scores.store(token, score.bits("u32")),
        () => finish(token, score),
      )
    })
    this.#threads.barrier()
    this.#addBiases(biasStart, biasEnd)
    this.#threads.barrier()
    this.#penalise(countStart, countEnd)
    this.#threads.barrier()
    this.#eachToken(isChanged, (token) => finish(token, k.let(scores.load(token).bits("f32"))))
    if (lists) this.#list()
    const [likeliest, largest] = this.#threads.bests([
      best.now,
      { key: most.now, token: u32(0) },
    ]) as [Best, Best]
    this.#leave({
      bestKey: select(largest.key.eq(UNSOUND), u32(UNSOUND), likeliest.key),
      bestToken: likeliest.token,
      most: largest.key,
      // There may be no race.
      raceKey: u32(NOTHING),
      raceToken: u32(0),
    })
  }

  /** A token may be listed twice, so one thread does all that is listed of it, in order. */
  #addBiases(start: Value, end: Value): void {
    const k = this.#k
    const scores = this.#scores()
    const [tokens, biases] = [this.#buffer("biasTokens"), this.#buffer("biases")]
    const isOfChunk = this.#isOfChunk()
    k.for(start, end, 1, (i) => {
      const token = tokens.load(i)
      k.if(isOfChunk(token).and(token.rem(THREADS).eq(k.lane)), () => {
        const bias = settled(k, biases.load(i))
        const score = settled(k, scores.load(token).bits("f32").add(bias))
        scores.store(token, score.bits("u32"))
      })
    })
  }

  /** Each token is listed once. */
  #penalise(start: Value, end: Value): void {
    const k = this.#k
    const scores = this.#scores()
    const [tokens, counts] = [this.#buffer("countTokens"), this.#buffer("counts")]
    const isOfChunk = this.#isOfChunk()
    const floats = this.#given("repetition", "inverseRepetition", "frequency", "presence")
    const [repetition, inverse, frequency, presence] = floats.map((word) => word.bits("f32")) as [
      Value,
      Value,
      Value,
      Value,
    ]
    k.for(start.add(k.lane), end, THREADS, (i) => {
      const token = tokens.load(i)
      k.if(isOfChunk(token), () => {
        const score = k.let(scores.load(token).bits("f32"))
        const repeated = settled(k, score.mul(select(score.gt(0), inverse, repetition)))
        const counted = settled(k, counts.load(i).float().mul(frequency))
        const penalised = settled(k, settled(k, repeated.sub(counted)).sub(presence))
        scores.store(token, penalised.bits("u32"))
      })
    })
  }

  /** Whether the row's mask allows a token. */
  #allows(): (token: Value) => Value {
    const k = this.#k
    const masks = this.#buffer("masks")
    const [start] = this.#given("maskStart")
    const isMasked = k.let(start.ne(NO_MASK), "isMasked")
    return (token) => {
      const word = k.variable(u32(0xffffffff))
      k.if(isMasked, () => word.set(masks.load(start.add(token.shr(5)))))
      return k.let(word.now.shr(token.and(31)).and(1).ne(0))
    }
  }

  // ---------------------------------------------------------------- select

  /** Of the passes that the launch says, those that the row asks for: all threads agree on them. */
  select(): void {
    const k = this.#k
    const limits = this.#limits()
    const best = this.#best()
    const isSampled = isSound(best)
    const isCounted = k.let(isSampled.and(limits.isCounted.ne(0)))
    const isWeighed = k.let(isSampled.and(limits.isWeighed.ne(0)))
    const first = this.#wordOf("firstPass").max(select(isCounted, u32(0), DIGITS))
    const last = this.#wordOf("lastPass").min(select(isWeighed, u32(PASSES), DIGITS))
    k.for(k.let(first), k.let(last), 1, (pass) => this.#pass(pass, limits, best), "pass")
  }

  #pass(pass: Value, limits: Limits, best: Best): void {
    const k = this.#k
    const scores = this.#scores()
    const stage = k.let(pass.div(DIGITS), "stage")
    const digit = k.let(pass.rem(DIGITS), "digit")
    const isFirst = digit.eq(0)
    // The first pass of top-p weighs what top-k has left, and so says what is to be reached. The next ones need not know of
    // that cut: what lies behind it cannot be reached any more.
    const isAfter = k.let(isFirst.and(stage.ne(0)).and(limits.isCounted.ne(0)))
    const isLater = k.let(isFirst.not())
    const found = this.#find(
      isLater.or(isAfter),
      k.let(select(isAfter, u32(0), stage)),
      k.let(select(isAfter, u32(DIGITS), digit)),
      limits,
    )
    const cut = this.#cut(isAfter, u32(0), found, best, limits)
    k.if(isLater.and(this.#chunk.eq(0)).and(k.lane.eq(0)), () => this.#remember(pass, found))
    const prefix = k.let(select(isLater, found.prefix, 0))
    const above = k.let(u32(31).sub(digit.mul(8))) // bits but one, as a shift is less than 32
    const below = k.let(u32(24).sub(digit.mul(8)))
    const bins = this.#threads.clearBins()
    this.#forTokens((token) => {
      const key = scores.load(token)
      const isKept = keeps(cut, key, token)
      k.if(isKept.and(key.shr(1).shr(above).eq(prefix)), () => {
        const bin = k.let(key.shr(below).and(BINS - 1))
        bins.count(bin)
        k.if(stage.ne(0), () => bins.addShare(bin, this.#share(key, best, limits)))
      })
    })
    const { count, share } = bins.ofLane()
    const to = this.#bins(this.#chunk, pass)
    const buffer = this.#buffer("found")
    buffer.store(to.add(k.lane), count)
    buffer.store(to.add(BINS).add(k.lane), select(stage.eq(0), count, share.low))
    buffer.store(to.add(2 * BINS).add(k.lane), share.high)
  }

  /** What the first `digits` passes of a stage have found, the last of them now. */
  #find(isWanted: Value, stage: Value, digits: Value, { topK, topPart }: Limits): Found {
    const k = this.#k
    const found = this.#buffer("found")
    const pass = k.let(stage.mul(DIGITS).add(digits).sub(1))
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    const add = (chunk: Value) => {
      const at = k.let(this.#bins(chunk, pass).add(BINS).add(k.lane))
      const weight = { low: found.load(at), high: found.load(at.add(BINS)) }
      const sum = addWhole(k, { low: low.now, high: high.now }, weight)
      low.set(sum.low)
      high.set(sum.high)
    }
    k.if(isWanted, () => k.for(0, this.#wordOf("chunks"), 1, add))
    const { all, own, later } = this.#threads.fromTheEnd({ low: low.now, high: high.now })
    const before = Array.from({ length: STATE_WORDS }, () => k.variable(u32(0)))
    const [prefix, aboveLow, aboveHigh, targetLow, targetHigh] = before as [
      Variable,
      Variable,
      Variable,
      Variable,
      Variable,
    ]
    const isFirst = digits.eq(1)
    k.if(isWanted.and(isFirst.not()), () => {
      const at = k.let(this.#state(pass))
      for (const [i, variable] of before.entries()) variable.set(found.load(at.add(i)))
    })
    k.if(isWanted.and(isFirst), () => {
      const share = partOf(k, all, topPart)
      targetLow.set(select(stage.eq(0), all.low.min(topK), share.low))
      targetHigh.set(select(stage.eq(0), u32(0), share.high))
    })
    const target = { low: targetLow.now, high: targetHigh.now }
    const above = { low: aboveLow.now, high: aboveHigh.now }
    const without = addWhole(k, above, later)
    const isIn = reaches(k, addWhole(k, above, own), target).and(reaches(k, without, target).not())
    // Of what nobody wants thread 0 tells something.
    const isTold = isWanted.and(isIn).or(isWanted.not().and(k.lane.eq(0)))
    const told = this.#threads.tell(isTold, [k.lane, without.low, without.high])
    const [bin, sumLow, sumHigh] = told as [Value, Value, Value]
    return {
      prefix: k.let(prefix.now.shl(8).or(bin)),
      above: { low: sumLow, high: sumHigh },
      target,
    }
  }

  #remember(pass: Value, { prefix, above, target }: Found): void {
    const at = this.#k.let(this.#state(pass))
    const words = [prefix, above.low, above.high, target.low, target.high]
    for (const [i, word] of words.entries()) this.#buffer("found").store(at.add(i), word)
  }

  /**
   * Of equals, whose key the passes of a stage have found, as many are kept as it takes to reach the target. All tokens are
   * if nobody wants a cut.
   */
  #cut(isWanted: Value, stage: Value, found: Found, best: Best, limits: Limits): Cut {
    const k = this.#k
    const { prefix, above, target } = found
    const own = k.variable(u32(0)) // of these this chunk keeps as many
    const count = k.variable(u32(0)) // of so many that it has
    k.if(isWanted, () => {
      const share = this.#share(prefix, best, limits)
      const weight = named(k, {
        low: select(stage.eq(0), u32(1), share.low),
        high: select(stage.eq(0), u32(0), share.high),
      })
      const kept = k.let(divideWhole(k, subtractWhole(k, target, above), weight))
      const pass = k.let(stage.mul(DIGITS).add(DIGITS - 1))
      const countOf = (chunk: Value) =>
        this.#buffer("found").load(this.#bins(chunk, pass).add(prefix.and(BINS - 1)))
      const before = k.variable(u32(0))
      k.for(0, this.#chunk, 1, (chunk) => before.set(before.now.add(countOf(chunk))))
      count.set(countOf(this.#chunk))
      own.set(select(kept.gt(before.now), kept.sub(before.now), 0).min(count.now))
    })
    const isTorn = k.let(own.now.ne(0).and(own.now.lt(count.now)))
    const end = this.#endOf(isTorn, prefix, own.now)
    return {
      key: k.let(select(isWanted, prefix, NOTHING)),
      end: k.let(select(isTorn, end, select(own.now.lt(count.now), u32(0), NO_END))),
    }
  }

  /** The token behind the first `count` of some that have a key, in the order of their ids. */
  #endOf(isWanted: Value, key: Value, count: Value, of = this.#ownTokens()): Value {
    const k = this.#k
    const { first, last } = this.#neighbours(of)
    const eachEqual = (body: (token: Value) => void) =>
      k.for(first, last, 1, (i) => {
        const other = of.load(i)
        k.if(other.key.eq(key), () => body(other.token))
      })
    const equals = k.variable(u32(0))
    k.if(isWanted, () => eachEqual(() => equals.set(equals.now.add(1))))
    const { own, later } = this.#threads.fromTheEnd({ low: equals.now, high: u32(0) })
    const isMine = k.let(isWanted.and(later.low.lt(count)).and(own.low.ge(count)))
    const left = k.variable(count.sub(later.low))
    const end = k.variable(u32(0))
    const take = (token: Value) => {
      k.if(left.now.ne(0), () => end.set(token.add(1)))
      left.set(select(left.now.ne(0), left.now.sub(1), 0))
    }
    k.if(isMine, () => eachEqual(take))
    const isTold = isMine.or(isWanted.not().and(k.lane.eq(0)))
    return this.#threads.tell(isTold, [end.now])[0]!
  }

  #ownTokens(): Tokens {
    const scores = this.#scores()
    const { from, to } = this.#tokens()
    return { from, to, load: (token) => ({ key: scores.load(token), token }) }
  }

  /** Threads take neighbours, the last thread the first ones, as sums are from the end. */
  #neighbours({ from, to }: Tokens): { first: Value; last: Value } {
    const k = this.#k
    const each = k.let(
      to
        .sub(from)
        .add(THREADS - 1)
        .div(THREADS),
    )
    const turn = u32(THREADS - 1).sub(k.lane)
    const first = k.let(from.add(turn.mul(each)))
    return { first, last: k.let(first.add(each).min(to)) }
  }

  // ---------------------------------------------------------------- list

  /** Behind the scores, the first tokens of the chunk: no more can be among the row's first ones. */
  #list(): void {
    const k = this.#k
    const { isDrawn, topK } = this.#limits()
    const isWanted = k.let(isDrawn.ne(0))
    const own = this.#ownTokens()
    const count = k.let(select(isWanted, topK, 0))
    const all = (body: (token: Best) => void) => this.#each(isWanted, own, body)
    const { key, above, target } = this.#narrow(all, (all) => ({
      low: all.low.min(count),
      high: u32(0),
    }))
    const equals = k.let(target.low.sub(above.low)) // so many of these are listed
    const { first, last } = this.#neighbours(own)
    const neighbours = (body: (token: Best, isEqual: Value) => void) =>
      k.if(isWanted.and(target.low.ne(0)), () =>
        k.for(first, last, 1, (i) => {
          const token = own.load(i)
          k.if(token.key.ge(key), () => body(token, k.let(token.key.eq(key))))
        }),
      )
    const mine = { low: k.variable(u32(0)), high: k.variable(u32(0)) } // how many equals, and others
    neighbours((_, isEqual) => {
      mine.low.set(mine.low.now.add(select(isEqual, u32(1), 0)))
      mine.high.set(mine.high.now.add(select(isEqual, u32(0), 1)))
    })
    const { later } = this.#threads.fromTheEnd({ low: mine.low.now, high: mine.high.now })
    const met = k.variable(later.low) // equals before
    const place = k.variable(later.high.add(later.low.min(equals)))
    const found = this.#buffer("found")
    const to = k.let(this.#ofChunk(this.#chunk).add(chunkWord.listed))
    neighbours((token, isEqual) => {
      k.if(isEqual.not().or(met.now.lt(equals)), () => {
        const at = k.let(to.add(place.now.mul(2)))
        found.store(at, token.key)
        found.store(at.add(1), token.token)
        place.set(place.now.add(1))
      })
      met.set(met.now.add(select(isEqual, u32(1), 0)))
    })
    k.for(target.low.add(k.lane), count, THREADS, (i) => {
      const at = k.let(to.add(i.mul(2)))
      found.store(at, NOTHING)
      found.store(at.add(1), NOTHING)
    })
  }

  /**
   * The key at which some tokens reach a target, in the order of their keys, within this group: found byte by byte. They are counted,
   * or weighed where there are weights.
   * @param each calls for every token of this thread's
   * @param targetOf of what all have
   */
  #narrow(
    each: (body: (token: Best) => void) => void,
    targetOf: (all: Whole) => Whole,
    weightOf?: (key: Value) => Whole,
  ): { key: Value; above: Whole; target: Whole } {
    const k = this.#k
    const variable = () => ({ low: k.variable(u32(0)), high: k.variable(u32(0)) })
    const nowOf = ({ low, high }: ReturnType<typeof variable>) => ({ low: low.now, high: high.now })
    const prefix = k.variable(u32(0))
    const [above, target] = [variable(), variable()]
    k.for(0, DIGITS, 1, (digit) => {
      const beyond = k.let(u32(31).sub(digit.mul(8))) // bits but one, as a shift is less than 32
      const below = k.let(u32(24).sub(digit.mul(8)))
      const bins = this.#threads.clearBins()
      each(({ key }) =>
        k.if(key.ne(NOTHING).and(key.shr(1).shr(beyond).eq(prefix.now)), () => {
          const bin = k.let(key.shr(below).and(BINS - 1))
          if (weightOf) bins.addShare(bin, weightOf(key))
          else bins.count(bin)
        }),
      )
      const { count, share } = bins.ofLane()
      const { all, own, later } = this.#threads.fromTheEnd(
        weightOf ? share : { low: count, high: u32(0) },
      )
      k.if(digit.eq(0), () => {
        const { low, high } = targetOf(all)
        target.low.set(low)
        target.high.set(high)
      })
      const without = named(k, addWhole(k, nowOf(above), later))
      const isReached = reaches(k, addWhole(k, nowOf(above), own), nowOf(target))
      const isIn = isReached.and(reaches(k, without, nowOf(target)).not())
      // Where there are no tokens, thread 0 tells something.
      const isNone = target.low.now.or(target.high.now).eq(0)
      const isTold = isIn.or(isNone.and(k.lane.eq(0)))
      const told = this.#threads.tell(isTold, [k.lane, without.low, without.high])
      const [bin, low, high] = told as [Value, Value, Value]
      prefix.set(prefix.now.shl(8).or(bin))
      above.low.set(low)
      above.high.set(high)
    })
    return { key: prefix.now, above: nowOf(above), target: nowOf(target) }
  }

  /** Each thread takes every 256th. */
  #each(isWanted: Value, { from, to, load }: Tokens, body: (token: Best) => void): void {
    const k = this.#k
    k.if(isWanted, () =>
      k.for(from.add(k.lane), to, THREADS, (i) => {
        const { key, token } = load(i)
        body({ key: k.let(key), token: k.let(token) })
      }),
    )
  }

  // ---------------------------------------------------------------- settle

  /** One group, whatever the chunks, of what these have listed. */
  settle(): void {
    const k = this.#k
    const limits = this.#limits()
    const [best, largest] = this.#bests(["bestKey", "bestToken"], ["most", undefined])
    const isWanted = k.let(limits.isDrawn.ne(0).and(isSound(best)))
    const listed = this.#listed(k.let(select(isWanted, limits.topK, 0)))
    const isWeighed = k.let(isWanted.and(limits.isWeighed.ne(0)))
    const all = (body: (token: Best) => void) => this.#each(isWanted, listed, body)
    const counted = this.#narrow(all, (all) => ({ low: all.low.min(limits.topK), high: u32(0) }))
    const first: Cut = {
      key: counted.key,
      end: this.#endOf(isWanted, counted.key, counted.target.low.sub(counted.above.low), listed),
    }
    const weight = (key: Value) => this.#share(key, best, limits)
    const kept = (body: (token: Best) => void) =>
      this.#each(isWeighed, listed, (token) =>
        k.if(keeps(first, token.key, token.token), () => body(token)),
      )
    const weighed = this.#narrow(kept, (all) => partOf(k, all, limits.topPart), weight)
    const equals = k.variable(u32(0)) // so many of these are kept
    k.if(isWeighed, () => {
      const rest = subtractWhole(k, weighed.target, weighed.above)
      equals.set(divideWhole(k, rest, named(k, weight(weighed.key))))
    })
    const end = this.#endOf(isWeighed, weighed.key, equals.now, listed)
    const cut: Cut = {
      key: k.let(select(isWeighed, weighed.key, first.key)),
      end: k.let(select(isWeighed, end, first.end)),
    }
    this.#tell(best, largest, this.#winner(limits, best, cut, all))
  }

  /** What all chunks have listed, so many each: by their ids, but for places with NOTHING. */
  #listed(each: Value): Tokens {
    const k = this.#k
    const found = this.#buffer("found")
    return {
      from: u32(0),
      to: k.let(each.mul(this.#wordOf("chunks"))),
      load: (i) => {
        const chunk = k.let(i.div(each))
        const nth = i.sub(chunk.mul(each))
        const from = k.let(this.#ofChunk(chunk).add(chunkWord.listed).add(nth.mul(2)))
        return { key: found.load(from), token: found.load(from.add(1)) }
      },
    }
  }

  // ---------------------------------------------------------------- race

  race(): void {
    const k = this.#k
    const limits = this.#limits()
    const best = this.#best()
    const isCut = limits.isCounted.or(limits.isWeighed).ne(0).and(isSound(best))
    const stage = k.let(limits.isWeighed)
    const found = this.#find(k.let(isCut), stage, u32(DIGITS), limits)
    const cut = this.#cut(k.let(isCut), stage, found, best, limits)
    const isWanted = k.let(limits.isDrawn.ne(0).and(isSound(best)))
    const winner = this.#winner(limits, best, cut, (body) =>
      this.#each(isWanted, this.#ownTokens(), body),
    )
    this.#leave({ raceKey: winner.key, raceToken: winner.token })
  }

  /** The best of the tokens that are kept. @param each calls for every one of this thread's */
  #winner(limits: Limits, best: Best, cut: Cut, each: (body: (token: Best) => void) => void): Best {
    const k = this.#k
    const [minPBits, low, high] = this.#given("minP", "noiseLow", "noiseHigh")
    const minP = minPBits.bits("f32")
    const drawn = new BestSoFar(k)
    each(({ key, token }) =>
      k.if(keeps(cut, key, token), () => {
        const behind = this.#behind(key, best, limits)
        k.if(expSingle(k, behind).ge(minP), () => {
          const score = behind.add(gumbel(k, { low, high }, token))
          drawn.meet({ key: k.let(keyOf(score)), token })
        })
      }),
    )
    return this.#threads.bests([drawn.now])[0]!
  }

  // ---------------------------------------------------------------- describe

  /** The sum of the shares of raw logits, and the likeliest of them. */
  describe(): void {
    const k = this.#k
    const logits = this.#logits()
    const found = this.#buffer("found")
    const [best, largest] = this.#bests(["bestKey", "bestToken"], ["most", undefined])
    const tops = this.#tops(best)
    const most = k.let(scoreOf(largest.key))
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    this.#eachToken(tops.isWanted, (token) => {
      const behind = settled(k, settled(k, logits.load(token)).sub(most))
      const share = wholeShare(k, expSingle(k, behind))
      const sum = addWhole(k, { low: low.now, high: high.now }, share)
      low.set(sum.low)
      high.set(sum.high)
    })
    const sum = this.#threads.sum({ low: low.now, high: high.now })
    this.#leave({ sumLow: sum.low, sumHigh: sum.high })
    const to = k.let(this.#ofChunk(this.#chunk).add(chunkWord.tops))
    this.#threads.list(
      tops.count,
      (meet) =>
        this.#eachToken(tops.isWanted, (token) =>
          meet({ key: k.let(keyOf(settled(k, logits.load(token)))), token }),
        ),
      (i, { key, token }) => {
        found.store(to.add(i.mul(2)), key)
        found.store(to.add(i.mul(2)).add(1), token)
      },
    )
  }

  /** Whether the row wants log-probabilities, and how many likeliest tokens. */
  #tops(best: Best): { isWanted: Value; count: Value } {
    const k = this.#k
    const [count] = this.#given("topLogprobs")
    const isWanted = k.let(isSound(best).and(count.ne(NO_LOGPROBS >>> 0)))
    return { isWanted, count: k.let(select(isWanted, count, 0)) }
  }

  // ---------------------------------------------------------------- tell

  /** One group, whatever the chunks. */
  tell(): void {
    const [best, winner, largest] = this.#bests(
      ["bestKey", "bestToken"],
      ["raceKey", "raceToken"],
      ["most", undefined],
    )
    this.#tell(best, largest, winner)
  }

  #tell(best: Best, largest: Best, winner: Best): void {
    const k = this.#k
    const results = this.#buffer("results")
    const at = k.let(this.#row.mul(RESULT_WORDS))
    const { isDrawn } = this.#limits()
    const tops = this.#tops(best)
    const token = k.let(select(isDrawn.ne(0), winner.token, best.token))
    const hasToken = isSound(best).and(isDrawn.eq(0).or(winner.key.ne(NOTHING)))
    const sum = this.#sumOfChunks(tops.isWanted)
    k.if(this.#isThere.and(k.lane.eq(0)), () => {
      results.store(at.add(resultWord.isFinite), select(hasToken, u32(1), 0))
      results.store(at.add(resultWord.token), token)
      results.store(at.add(resultWord.most), scoreOf(largest.key).bits("u32"))
      results.store(at.add(resultWord.sumLow), sum.low)
      results.store(at.add(resultWord.sumHigh), sum.high)
      k.if(hasToken, () => {
        const logit = settled(k, this.#logits().load(token))
        results.store(at.add(resultWord.logit), logit.bits("u32"))
      })
    })
    const found = this.#buffer("found")
    const candidates = k.let(tops.count.mul(this.#wordOf("chunks")))
    this.#threads.list(
      tops.count,
      (meet) =>
        k.each(candidates, (i) => {
          const chunk = k.let(i.div(tops.count))
          const nth = i.sub(chunk.mul(tops.count))
          const from = k.let(this.#ofChunk(chunk).add(chunkWord.tops).add(nth.mul(2)))
          meet({ key: found.load(from), token: found.load(from.add(1)) })
        }),
      (i, { key, token }) => {
        results.store(at.add(resultWord.topTokens).add(i), token)
        results.store(at.add(resultWord.topLogits).add(i), scoreOf(key).bits("u32"))
      },
    )
  }

  #sumOfChunks(isWanted: Value): Whole {
    const k = this.#k
    const found = this.#buffer("found")
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    const add = (chunk: Value) => {
      const at = k.let(this.#ofChunk(chunk))
      const part = {
        low: found.load(at.add(chunkWord.sumLow)),
        high: found.load(at.add(chunkWord.sumHigh)),
      }
      const sum = addWhole(k, { low: low.now, high: high.now }, part)
      low.set(sum.low)
      high.set(sum.high)
    }
    k.if(isWanted, () => k.for(0, this.#wordOf("chunks"), 1, add))
    return { low: low.now, high: high.now }
  }

  // ---------------------------------------------------------------- what a row and a chunk have

  #limits(): Limits {
    const k = this.#k
    const names = ["isGreedy", "topK", "topPart", "inverseTemperature"] as const
    const [isGreedy, topK, topPart, inverse] = this.#given(...names)
    const isDrawn = k.let(this.#isThere.and(isGreedy.eq(0)))
    const flag = (holds: Value) => k.let(select(holds, u32(1), 0))
    return {
      isDrawn: flag(isDrawn),
      isCounted: flag(isDrawn.and(topK.bits("i32").gt(0))),
      isWeighed: flag(isDrawn.and(topPart.lt(ALL))),
      topK,
      topPart,
      inverseTemperature: k.let(inverse.bits("f32")),
    }
  }

  /** The likeliest token of all chunks. */
  #best(): Best {
    return this.#bests(["bestKey", "bestToken"])[0]
  }

  /** Of each of these words, the best of all chunks. */
  #bests<const Names extends readonly (readonly [ChunkWord, ChunkWord | undefined])[]>(
    ...names: Names
  ): { [i in keyof Names]: Best } {
    const k = this.#k
    const found = this.#buffer("found")
    const own = names.map(() => new BestSoFar(k))
    const meet = (chunk: Value) => {
      const at = k.let(this.#ofChunk(chunk))
      for (const [i, [key, token]] of names.entries())
        own[i]!.meet({
          key: found.load(at.add(chunkWord[key])),
          token: token === undefined ? u32(0) : found.load(at.add(chunkWord[token])),
        })
    }
    k.if(this.#isThere, () => k.each(this.#wordOf("chunks"), meet))
    const bests: readonly Best[] = this.#threads.bests(own.map(({ now }) => now))
    return bests as { [i in keyof Names]: Best }
  }

  /** How far a token's score lies behind the best: runtime/sampling.ts has this and the next. */
  #behind(key: Value, best: Best, { inverseTemperature }: Limits): Value {
    const k = this.#k
    const apart = settled(k, scoreOf(key).sub(scoreOf(best.key)))
    return settled(k, apart.mul(inverseTemperature))
  }

  #share(key: Value, best: Best, limits: Limits): Whole {
    return wholeShare(this.#k, expSingle(this.#k, this.#behind(key, best, limits)))
  }

  /** Each thread takes every 256th of the chunk's tokens. */
  #forTokens(body: (token: Value) => void): void {
    const { from, to } = this.#tokens()
    this.#k.for(from.add(this.#k.lane), to, THREADS, body, "token")
  }

  #eachToken(isWanted: Value, body: (token: Value) => void): void {
    this.#k.if(isWanted, () => this.#forTokens(body))
  }

  #tokens(): { from: Value; to: Value } {
    const k = this.#k
    const from = k.let(this.#chunk.mul(this.#wordOf("chunkTokens")))
    const to = from.add(this.#wordOf("chunkTokens")).min(this.#wordOf("vocabulary"))
    return { from, to: k.let(to) }
  }

  #isOfChunk(): (token: Value) => Value {
    const { from, to } = this.#tokens()
    return (token) => this.#k.let(token.ge(from).and(token.lt(to)))
  }

  #logits(): Pick<Elements, "load"> {
    const logits = this.#buffer("logits")
    const from = this.#k.let(this.#row.mul(this.#wordOf("stride")))
    return { load: (token) => logits.load(from.add(token)) }
  }

  #scores(): Pick<Elements, "load" | "store"> {
    const scores = this.#buffer("scores")
    const from = this.#k.let(this.#row.mul(this.#wordOf("vocabulary")))
    return {
      load: (token) => scores.load(from.add(token)),
      store: (token, value) => scores.store(from.add(token), value),
    }
  }

  /** Where in `found` the words of the row begin. */
  #ofRow(): Value {
    return this.#row.mul(this.#wordOf("chunks").mul(CHUNK_WORDS).add(ROW_WORDS))
  }

  #state(pass: Value): Value {
    return this.#ofRow().add(pass.mul(STATE))
  }

  #ofChunk(chunk: Value): Value {
    return this.#ofRow().add(ROW_WORDS).add(chunk.mul(CHUNK_WORDS))
  }

  /** Passes take turns with two places. */
  #bins(chunk: Value, pass: Value): Value {
    return this.#ofChunk(chunk).add(chunkWord.bins).add(pass.and(1).mul(BINS_WORDS))
  }

  /** What a chunk has found. */
  #leave(words: Partial<Record<ChunkWord, Value>>): void {
    const k = this.#k
    const found = this.#buffer("found")
    k.if(this.#isThere.and(k.lane.eq(0)), () => {
      const at = k.let(this.#ofChunk(this.#chunk))
      for (const [name, value] of Object.entries(words))
        found.store(at.add(chunkWord[name as ChunkWord]), value)
    })
  }

  /** Words of the row's sampling; 0 if it is not there. */
  #given<const Names extends readonly (keyof typeof samplingWord)[]>(
    ...names: Names
  ): { [i in keyof Names]: Value } {
    const k = this.#k
    const rows = this.#buffer("rows")
    const values = names.map((name) => k.variable(u32(0), name))
    k.if(this.#isThere, () => {
      const at = k.let(this.#row.mul(SAMPLING_WORDS))
      for (const [i, name] of names.entries()) values[i]!.set(rows.load(at.add(samplingWord[name])))
    })
    return values.map(({ now }) => now) as { [i in keyof Names]: Value }
  }

  #buffer(name: BufferName): Elements {
    const known = this.#buffers.get(name)
    if (known) return known
    const { element, access } = buffers[name]
    const buffer = this.#k.buffer(name, element, access)
    this.#buffers.set(name, buffer)
    this.operands.push(name)
    return buffer
  }

  #wordOf(name: WordName): Value {
    const known = this.#words.get(name)
    if (known) return known
    const word = this.#k.word(name)
    this.#words.set(name, word)
    this.operands.push(name)
    return word
  }
}

function subtractWhole(k: Builder, a: Whole, b: Whole): Whole {
  const borrow = select(a.low.lt(b.low), u32(1), 0)
  return { low: k.let(a.low.sub(b.low)), high: k.let(a.high.sub(b.high).sub(borrow)) }
}

/** The fewest `parts`, at most 2^24, that reach a number which is not 0. */
function divideWhole(k: Builder, whole: Whole, part: Whole): Value {
  const fewer = k.variable(u32(0)) // what does not reach it
  k.for(0, 24, 1, (i) => {
    const more = k.let(fewer.now.or(u32(1 << 23).shr(i)))
    const product = {
      low: k.let(part.low.mul(more)),
      high: k.let(part.low.mulHigh(more).add(part.high.mul(more))),
    }
    fewer.set(select(reaches(k, product, whole), fewer.now, more))
  })
  return fewer.now.add(1)
}

const keeps = (cut: Cut, key: Value, token: Value) =>
  key.ne(NOTHING).and(key.gt(cut.key).or(key.eq(cut.key).and(token.lt(cut.end))))

const isSound = ({ key }: Best) => key.ne(NOTHING).and(key.ne(UNSOUND))

const isNumber = (x: Value) => x.bits("u32").and(0x7f800000).ne(0x7f800000)

/** A word that sorts as a score does, which is no NaN and not -0. */
function keyOf(score: Value): Value {
  const bits = score.bits("u32")
  return bits.xor(u32(0).sub(bits.shr(31)).or(0x80000000))
}

function scoreOf(key: Value): Value {
  return key.xor(key.shr(31).sub(1).or(0x80000000)).bits("f32")
}

/** A kernel, and what its operands are. */
interface Phase {
  kernel: Kernel
  operands: readonly (BufferName | WordName)[]
}

function phase(name: string, write: (draw: Draw) => void): Phase {
  let operands: Phase["operands"] = []
  const made = kernel(`sampler_${name}`, THREADS, (k) => {
    k.roomFor(THREADS)
    const draw = new Draw(k)
    write(draw)
    operands = draw.operands
  })
  return { kernel: made, operands }
}

const score = phase("score", (draw) => draw.score())
const list = phase("list", (draw) => draw.score(true))
const narrow = phase("select", (draw) => draw.select())
const race = phase("race", (draw) => draw.race())
const describe = phase("describe", (draw) => draw.describe())
const tell = phase("tell", (draw) => draw.tell())
const settle = phase("settle", (draw) => draw.settle())

/** Of the step's rows of logits, the results. */
export function samplerLaunches(
  { logits, buffers, shapes: { vocabulary } }: Pick<Plan, "logits" | "buffers" | "shapes">,
  chunkTokens = CHUNK,
): Launch[] {
  const chunks = Math.ceil(vocabulary / chunkTokens)
  const sampling = (array: SamplingArray): Binding => ({
    kind: "step",
    region: { name: "sampling", array },
  })
  const scratch = (name: string, words: number): Binding => ({
    kind: "scratch",
    name: `sampler ${name}`,
    bytes: { perRow: 4 * words },
  })
  const bindings: Record<BufferName | WordName, Binding> = {
    count: { kind: "step", region: { name: "count", of: "logits" } },
    logits: { kind: "buffer", buffer: logits.buffer, from: logits.from },
    scores: scratch("scores", vocabulary),
    found: scratch("found", ROW_WORDS + chunks * CHUNK_WORDS),
    rows: sampling("rows"),
    countTokens: sampling("countTokens"),
    counts: sampling("counts"),
    biasTokens: sampling("biasTokens"),
    biases: sampling("biases"),
    masks: sampling("masks"),
    results: { kind: "step", region: { name: "results" } },
    vocabulary,
    stride: 4 * Math.ceil(buffers[logits.buffer]!.columns / 4),
    chunkTokens,
    chunks,
    firstPass: 0,
    lastPass: PASSES,
  }
  const launch = (
    asked: AskedName,
    { kernel, operands }: Phase,
    groups: number,
    changed = {},
  ): Launch => {
    const all = { ...bindings, ...changed }
    return {
      kernel,
      operands: operands.map((name) => all[name]),
      groups: [{ rows: "logits", per: 1 }, groups, { count: `asked ${asked}`, per: 1 }],
    }
  }
  // A pass needs what all groups have found in the last one.
  const passes = Array.from({ length: PASSES }, (_, firstPass) =>
    launch(firstPass < DIGITS ? "counted" : "weighed", narrow, chunks, {
      firstPass,
      lastPass: firstPass + 1,
    }),
  )
  return [
    launch("unlisted", score, chunks),
    launch("listed", list, chunks),
    ...(chunks === 1 ? [launch("raced", narrow, 1)] : passes),
    launch("raced", race, chunks),
    launch("described", describe, chunks),
    launch("unlisted", tell, 1),
    launch("listed", settle, 1),
  ]
}
