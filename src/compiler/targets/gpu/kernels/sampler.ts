// A row of logits becomes a token on the device: runtime/sampling.ts, bit for bit. Every sum is one of whole numbers, so a
// row's tokens may be dealt out to several groups of threads, each with a chunk of them; what a group found lies in scratch
// memory until the next phase reads all of it. A small vocabulary is one chunk, and all phases are one kernel.
//
//   score   logits become scores (bias, penalties), and scores keys that sort as they do; 0 is a token that may not come
//   select  eight passes, if a row asks for them: four find the cut of top-k, four that of top-p, a byte of the key each.
//           A pass counts, or weighs, the tokens whose key begins as the cut does, by their key's next byte; the next pass
//           finds that byte. Among equals the cut is at an id.
//   race    the best of what is left by score + noise; what log-probabilities need, for the rows that want them
//   tell    chunks are put together: the row's results
//
// Groups of rows that want nothing of a phase leave at once.

import {
  NO_MASK,
  RESULT_WORDS,
  resultWord,
  SAMPLING_WORDS,
  type SamplingArray,
  samplingWord,
} from "../../../../runtime/gpu/regions.ts"
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
import { type Best, BINS, NOTHING, THREAD_BITS, THREADS, Threads } from "./threads.ts"

/** Tokens of a chunk. Sums of a chunk's shares are kept in three words of 14 bits and what they carry: see `addShare`. */
const CHUNK = 8192

const PASSES = 8
const DIGITS = 4 // of a key, in either half of the passes

/** What groups leave to one another of a row: words of scratch memory, first those of the row, then those of each chunk. */
const STATE = 8 // of each pass
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
} as const
const BINS_WORDS = 3 * BINS
const CHUNK_WORDS = chunkWord.bins + 2 * BINS_WORDS

const UNSOUND = 0xffffffff // a key above all keys
const NO_END = 0xffffffff
const ALL = 2 ** 24 // of topPart

/** Where the kept tokens end: those of larger keys, and of this key those before `end`. */
interface Cut {
  key: Value
  end: Value
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
const words = ["vocabulary", "stride", "chunkTokens", "chunks", "pass"] as const
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

  constructor(k: Builder) {
    this.#k = k
    this.#threads = new Threads(k)
    this.#row = k.group(0)
    this.#chunk = k.group(1)
  }

  /** Launches are made for more rows than there may be. */
  ifThere(body: () => void): void {
    this.#k.if(this.#row.lt(this.#buffer("count").load(0)), body)
  }

  // ---------------------------------------------------------------- score

  score(): void {
    const k = this.#k
    const logits = this.#logits()
    const scores = this.#scores()
    const allows = this.#allows()
    const biasStart = this.#word("biasStart")
    const biasEnd = this.#word("biasEnd")
    const countStart = this.#word("countStart")
    const countEnd = this.#word("countEnd")
    const isChanged = k.let(biasStart.lt(biasEnd).or(countStart.lt(countEnd)))
    const most = k.variable(u32(NOTHING), "most")
    const key = k.variable(u32(NOTHING), "bestKey")
    const token = k.variable(u32(0), "bestToken")
    const finish = (own: Value, score: Value) => {
      const allowed = k.let(select(allows(own), keyOf(score), NOTHING))
      scores.store(own, allowed)
      k.if(allowed.gt(key.now), () => {
        key.set(allowed)
        token.set(own)
      })
    }
    this.#eachToken((own) => {
      const logit = logits.load(own)
      const score = settled(k, logit)
      const raw = k.let(select(isNumber(logit), keyOf(score), UNSOUND))
      most.set(most.now.max(raw))
      k.if(
        isChanged,
        () => scores.store(own, score.bits("u32")),
        () => finish(own, score),
      )
    })
    k.if(isChanged, () => {
      k.barrier()
      this.#addBiases(biasStart, biasEnd)
      k.barrier()
      this.#penalise(countStart, countEnd)
      k.barrier()
      this.#eachToken((own) => finish(own, k.let(scores.load(own).bits("f32"))))
    })
    const likeliest = this.#threads.best({ key: key.now, token: token.now })
    const largest = this.#threads.best({ key: most.now, token: u32(0) }).key
    k.if(k.lane.eq(0), () => {
      this.#leave("bestKey", select(largest.eq(UNSOUND), largest, likeliest.key))
      this.#leave("bestToken", likeliest.token)
      this.#leave("most", largest)
    })
  }

  /** A token may be listed twice, so one thread does all that is listed of it, in order. */
  #addBiases(start: Value, end: Value): void {
    const k = this.#k
    const scores = this.#scores()
    const [tokens, biases] = [this.#buffer("biasTokens"), this.#buffer("biases")]
    k.for(start, end, 1, (i) => {
      const token = tokens.load(i)
      k.if(this.#isOfChunk(token).and(token.rem(THREADS).eq(k.lane)), () => {
        const score = scores
          .load(token)
          .bits("f32")
          .add(settled(k, biases.load(i)))
        scores.store(token, settled(k, score).bits("u32"))
      })
    })
  }

  /** Each token is listed once. */
  #penalise(start: Value, end: Value): void {
    const k = this.#k
    const scores = this.#scores()
    const [tokens, counts] = [this.#buffer("countTokens"), this.#buffer("counts")]
    const [repetition, inverse] = [this.#float("repetition"), this.#float("inverseRepetition")]
    const [frequency, presence] = [this.#float("frequency"), this.#float("presence")]
    k.for(start.add(k.lane), end, THREADS, (i) => {
      const token = tokens.load(i)
      k.if(this.#isOfChunk(token), () => {
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
    const start = this.#word("maskStart")
    const isMasked = k.let(start.ne(NO_MASK))
    return (token) => {
      const word = k.variable(u32(0xffffffff))
      k.if(isMasked, () => word.set(masks.load(start.add(token.shr(5)))))
      return k.let(word.now.shr(token.and(31)).and(1).ne(0))
    }
  }

  // ---------------------------------------------------------------- select

  /** The pass that a launch of its own is. */
  pass(): Value {
    return this.#wordOf("pass")
  }

  /** @param pass 0 … PASSES - 1 */
  select(pass: Value): void {
    const k = this.#k
    const stage = k.let(pass.div(DIGITS))
    const digit = k.let(pass.rem(DIGITS))
    const { isCounted, isWeighed } = this.#limits()
    const isOwn = stage.eq(0).and(isCounted).or(stage.ne(0).and(isWeighed))
    k.if(isOwn, () => {
      const best = this.#best()
      k.if(isSound(best), () => this.#pass(stage, digit, isCounted, best))
    })
  }

  #pass(stage: Value, digit: Value, isCounted: Value, best: Best): void {
    const k = this.#k
    const scores = this.#scores()
    const prefix = k.variable(u32(0), "prefix")
    const key = k.variable(u32(NOTHING), "cutKey")
    const end = k.variable(u32(NO_END), "cutEnd")
    const isFirst = k.let(digit.eq(0))
    // The first pass of top-p begins with what top-k has left.
    k.if(isFirst.not().or(stage.ne(0).and(isCounted)), () => {
      const before = k.let(select(isFirst, u32(0), stage))
      const found = this.#find(before, k.let(select(isFirst, u32(DIGITS), digit)))
      k.if(
        isFirst,
        () => {
          const cut = this.#cut(before, found, best)
          key.set(cut.key)
          end.set(cut.end)
        },
        () => {
          prefix.set(found.prefix)
          k.if(this.#chunk.eq(0).and(k.lane.eq(0)), () => this.#remember(stage, digit, found))
        },
      )
    })
    const bins = this.#threads.clearBins()
    const above = k.let(u32(31).sub(digit.mul(8))) // bits but one, as a shift is less than 32
    const below = k.let(u32(24).sub(digit.mul(8)))
    const cut = { key: key.now, end: end.now }
    this.#eachToken((token) => {
      const own = scores.load(token)
      const isKept = k.let(keeps(cut, own, token))
      k.if(isKept.not().and(own.ne(NOTHING)), () => scores.store(token, NOTHING))
      k.if(isKept.and(own.shr(1).shr(above).eq(prefix.now)), () => {
        const bin = k.let(own.shr(below).and(BINS - 1))
        bins.count(bin)
        k.if(stage.ne(0), () => bins.addShare(bin, this.#share(own, best)))
      })
    })
    k.barrier()
    const { count, share } = bins.ofLane()
    const to = this.#bins(this.#chunk, stage.mul(DIGITS).add(digit))
    const found = this.#buffer("found")
    found.store(to.add(k.lane), count)
    found.store(to.add(BINS).add(k.lane), select(stage.eq(0), count, share.low))
    found.store(to.add(2 * BINS).add(k.lane), share.high)
  }

  /** What the first `digits` passes of a stage have found, the last of them now. */
  #find(stage: Value, digits: Value): Found {
    const k = this.#k
    const found = this.#buffer("found")
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    const pass = k.let(stage.mul(DIGITS).add(digits).sub(1))
    k.for(0, this.#wordOf("chunks"), 1, (chunk) => {
      const at = k.let(this.#bins(chunk, pass).add(BINS).add(k.lane))
      const weight = { low: found.load(at), high: found.load(at.add(BINS)) }
      const sum = addWhole(k, { low: low.now, high: high.now }, weight)
      low.set(sum.low)
      high.set(sum.high)
    })
    const { all, own, larger } = this.#threads.fromTheEnd({ low: low.now, high: high.now })
    const before = ["prefix", "aboveLow", "aboveHigh", "targetLow", "targetHigh"].map((name) =>
      k.variable(u32(0), name),
    )
    const [prefix, aboveLow, aboveHigh, targetLow, targetHigh] = before as [
      Variable,
      Variable,
      Variable,
      Variable,
      Variable,
    ]
    k.if(
      digits.eq(1),
      () => {
        const share = partOf(k, all, this.#word("topPart"))
        const count = all.low.min(this.#word("topK"))
        targetLow.set(select(stage.eq(0), count, share.low))
        targetHigh.set(select(stage.eq(0), u32(0), share.high))
      },
      () => {
        const at = k.let(this.#state(pass))
        for (const [i, variable] of before.entries()) variable.set(found.load(at.add(i)))
      },
    )
    const target = { low: targetLow.now, high: targetHigh.now }
    const above = { low: aboveLow.now, high: aboveHigh.now }
    const without = addWhole(k, above, larger)
    const isIn = reaches(k, addWhole(k, above, own), target).and(reaches(k, without, target).not())
    const [bin, sumLow, sumHigh] = this.#threads.tell(isIn, [k.lane, without.low, without.high])
    return {
      prefix: k.let(prefix.now.shl(8).or(bin!)),
      above: { low: sumLow!, high: sumHigh! },
      target,
    }
  }

  #remember(stage: Value, digits: Value, { prefix, above, target }: Found): void {
    const at = this.#k.let(this.#state(stage.mul(DIGITS).add(digits)))
    const words = [prefix, above.low, above.high, target.low, target.high]
    for (const [i, word] of words.entries()) this.#buffer("found").store(at.add(i), word)
  }

  /** Of equals, whose key the passes of a stage have found, as many are kept as it takes to reach the target. */
  #cut(stage: Value, { prefix, above, target }: Found, best: Best): Cut {
    const k = this.#k
    const rest = subtractWhole(k, target, above)
    const share = this.#share(prefix, best)
    const weight = {
      low: k.let(select(stage.eq(0), u32(1), share.low)),
      high: k.let(select(stage.eq(0), u32(0), share.high)),
    }
    const kept = k.let(divideWhole(k, rest, weight))
    const pass = k.let(stage.mul(DIGITS).add(DIGITS - 1))
    const countOf = (chunk: Value) =>
      this.#buffer("found").load(this.#bins(chunk, pass).add(prefix.and(BINS - 1)))
    const earlier = k.variable(u32(0))
    k.each(this.#chunk, (chunk) => earlier.set(earlier.now.add(countOf(chunk))))
    const before = this.#threads.sums([earlier.now])[0]!
    const count = countOf(this.#chunk)
    const own = k.let(select(kept.gt(before), kept.sub(before), 0).min(count))
    const end = k.variable(u32(NO_END), "end")
    k.if(own.lt(count), () => {
      end.set(0)
      k.if(own.ne(0), () => end.set(this.#endOf(prefix, own)))
    })
    return { key: prefix, end: end.now }
  }

  /** The token behind the first `count` of this chunk that have a key. There are more. */
  #endOf(key: Value, count: Value): Value {
    const k = this.#k
    const scores = this.#scores()
    // Threads take neighbours, the last thread the first ones: sums are from the end.
    const each = k.let(
      this.#wordOf("chunkTokens")
        .add(THREADS - 1)
        .shr(THREAD_BITS),
    )
    const { from, to } = this.#tokens()
    const first = k.let(
      from.add(
        u32(THREADS - 1)
          .sub(k.lane)
          .mul(each),
      ),
    )
    const last = k.let(first.add(each).min(to))
    const equals = k.variable(u32(0))
    k.for(first, last, 1, (token) => {
      equals.set(equals.now.add(select(scores.load(token).eq(key), u32(1), 0)))
    })
    const { own, larger } = this.#threads.fromTheEnd({ low: equals.now, high: u32(0) })
    const left = k.variable(count.sub(larger.low))
    const end = k.variable(u32(0))
    const isMine = k.let(larger.low.lt(count).and(own.low.ge(count)))
    k.if(isMine, () => {
      k.for(first, last, 1, (token) => {
        k.if(scores.load(token).eq(key).and(left.now.ne(0)), () => {
          left.set(left.now.sub(1))
          end.set(token.add(1))
        })
      })
    })
    return this.#threads.tell(isMine, [end.now])[0]!
  }

  // ---------------------------------------------------------------- race

  race(): void {
    const k = this.#k
    const best = this.#best()
    k.if(isSound(best), () => {
      const isDrawn = this.#word("isGreedy").eq(0)
      k.if(isDrawn, () => this.#race(best))
      const tops = this.#word("topLogprobs")
      k.if(tops.bits("i32").ge(0), () => this.#describe(tops))
    })
  }

  #race(best: Best): void {
    const k = this.#k
    const scores = this.#scores()
    const { isCounted, isWeighed } = this.#limits()
    const key = k.variable(u32(NOTHING), "cutKey")
    const end = k.variable(u32(NO_END), "cutEnd")
    k.if(isCounted.or(isWeighed), () => {
      const stage = k.let(select(isWeighed, u32(1), 0))
      const cut = this.#cut(stage, this.#find(stage, u32(DIGITS)), best)
      key.set(cut.key)
      end.set(cut.end)
    })
    const cut = { key: key.now, end: end.now }
    const minP = this.#float("minP")
    const noiseKey = { low: this.#word("noiseLow"), high: this.#word("noiseHigh") }
    const bestKey = k.variable(u32(NOTHING))
    const bestToken = k.variable(u32(0))
    this.#eachToken((token) => {
      const own = scores.load(token)
      k.if(keeps(cut, own, token), () => {
        const behind = this.#behind(own, best)
        k.if(minP.le(0).or(expSingle(k, behind).ge(minP)), () => {
          const drawn = k.let(keyOf(behind.add(gumbel(k, noiseKey, token))))
          k.if(drawn.gt(bestKey.now), () => {
            bestKey.set(drawn)
            bestToken.set(token)
          })
        })
      })
    })
    const winner = this.#threads.best({ key: bestKey.now, token: bestToken.now })
    k.if(k.lane.eq(0), () => {
      this.#leave("raceKey", winner.key)
      this.#leave("raceToken", winner.token)
    })
  }

  /** The sum of the shares of raw logits, and the likeliest of them. */
  #describe(tops: Value): void {
    const k = this.#k
    const logits = this.#logits()
    const most = k.let(scoreOf(this.#mostKey()))
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    this.#eachToken((token) => {
      const behind = settled(k, settled(k, logits.load(token)).sub(most))
      const share = wholeShare(k, expSingle(k, behind))
      const sum = addWhole(k, { low: low.now, high: high.now }, share)
      low.set(sum.low)
      high.set(sum.high)
    })
    const sum = this.#threads.sum({ low: low.now, high: high.now })
    k.if(k.lane.eq(0), () => {
      this.#leave("sumLow", sum.low)
      this.#leave("sumHigh", sum.high)
    })
    const found = this.#buffer("found")
    const to = k.let(this.#ofChunk(this.#chunk).add(chunkWord.tops))
    this.#threads.list(
      tops,
      (body) =>
        this.#eachToken((token) => body(k.let(keyOf(settled(k, logits.load(token)))), token)),
      (i, { key, token }) => {
        found.store(to.add(i.mul(2)), key)
        found.store(to.add(i.mul(2)).add(1), token)
      },
    )
  }

  // ---------------------------------------------------------------- tell

  /** One group, whatever the chunks. */
  tell(): void {
    const k = this.#k
    const results = this.#buffer("results")
    const at = k.let(this.#row.mul(RESULT_WORDS))
    const best = this.#best()
    const token = k.variable(best.token, "token")
    const isThere = k.variable(select(isSound(best), u32(1), 0), "isThere")
    k.if(isSound(best), () => {
      k.if(this.#word("isGreedy").eq(0), () => {
        const winner = this.#bestOf("raceKey", "raceToken")
        token.set(winner.token)
        k.if(winner.key.eq(NOTHING), () => isThere.set(0))
      })
      const tops = this.#word("topLogprobs")
      k.if(tops.bits("i32").ge(0), () => this.#tellDescription(at, token.now, tops))
    })
    k.if(k.lane.eq(0), () => {
      results.store(at.add(resultWord.token), token.now)
      results.store(at.add(resultWord.isFinite), isThere.now)
    })
  }

  #tellDescription(at: Value, token: Value, tops: Value): void {
    const k = this.#k
    const results = this.#buffer("results")
    const found = this.#buffer("found")
    const chunks = this.#wordOf("chunks")
    const most = this.#mostKey()
    const low = k.variable(u32(0))
    const high = k.variable(u32(0))
    k.each(chunks, (chunk) => {
      const own = k.let(this.#ofChunk(chunk))
      const part = {
        low: found.load(own.add(chunkWord.sumLow)),
        high: found.load(own.add(chunkWord.sumHigh)),
      }
      const sum = addWhole(k, { low: low.now, high: high.now }, part)
      low.set(sum.low)
      high.set(sum.high)
    })
    const sum = this.#threads.sum({ low: low.now, high: high.now })
    k.if(k.lane.eq(0), () => {
      const logit = settled(k, this.#logits().load(token))
      results.store(at.add(resultWord.logit), logit.bits("u32"))
      results.store(at.add(resultWord.most), scoreOf(most).bits("u32"))
      results.store(at.add(resultWord.sumLow), sum.low)
      results.store(at.add(resultWord.sumHigh), sum.high)
    })
    this.#threads.list(
      tops,
      (body) =>
        k.each(chunks.mul(tops), (i) => {
          const chunk = k.let(i.div(tops))
          const own = this.#ofChunk(chunk).add(i.sub(chunk.mul(tops)).mul(2))
          const from = k.let(own.add(chunkWord.tops))
          body(found.load(from), found.load(from.add(1)))
        }),
      (i, { key, token }) => {
        results.store(at.add(resultWord.topTokens).add(i), token)
        results.store(at.add(resultWord.topLogits).add(i), scoreOf(key).bits("u32"))
      },
    )
  }

  // ---------------------------------------------------------------- what a row and a chunk have

  #limits(): { isCounted: Value; isWeighed: Value } {
    const k = this.#k
    const isDrawn = k.let(this.#word("isGreedy").eq(0))
    return {
      isCounted: k.let(isDrawn.and(this.#word("topK").bits("i32").gt(0))),
      isWeighed: k.let(isDrawn.and(this.#word("topPart").lt(ALL))),
    }
  }

  /** The likeliest token of all chunks. */
  #best(): Best {
    return this.#bestOf("bestKey", "bestToken")
  }

  #bestOf(keyWord: "bestKey" | "raceKey", tokenWord: "bestToken" | "raceToken"): Best {
    const k = this.#k
    const found = this.#buffer("found")
    const key = k.variable(u32(NOTHING))
    const token = k.variable(u32(0))
    k.each(this.#wordOf("chunks"), (chunk) => {
      const at = k.let(this.#ofChunk(chunk))
      const own = found.load(at.add(chunkWord[keyWord]))
      k.if(own.gt(key.now), () => {
        key.set(own)
        token.set(found.load(at.add(chunkWord[tokenWord])))
      })
    })
    return this.#threads.best({ key: key.now, token: token.now })
  }

  #mostKey(): Value {
    const k = this.#k
    const key = k.variable(u32(NOTHING))
    k.each(this.#wordOf("chunks"), (chunk) => {
      const at = this.#ofChunk(chunk).add(chunkWord.most)
      key.set(key.now.max(this.#buffer("found").load(at)))
    })
    return this.#threads.best({ key: key.now, token: u32(0) }).key
  }

  /** How far a token's score lies behind the best: runtime/sampling.ts has this and the next. */
  #behind(key: Value, best: Best): Value {
    const k = this.#k
    const apart = settled(k, scoreOf(key).sub(scoreOf(best.key)))
    return settled(k, apart.mul(this.#float("inverseTemperature")))
  }

  #share(key: Value, best: Best): Whole {
    return wholeShare(this.#k, expSingle(this.#k, this.#behind(key, best)))
  }

  /** Each thread takes every 256th of the chunk's tokens. */
  #eachToken(body: (token: Value) => void): void {
    const { from, to } = this.#tokens()
    this.#k.for(from.add(this.#k.lane), to, THREADS, body, "token")
  }

  #tokens(): { from: Value; to: Value } {
    const k = this.#k
    const from = k.let(this.#chunk.mul(this.#wordOf("chunkTokens")))
    const to = from.add(this.#wordOf("chunkTokens")).min(this.#wordOf("vocabulary"))
    return { from, to: k.let(to) }
  }

  #isOfChunk(token: Value): Value {
    const { from, to } = this.#tokens()
    return this.#k.let(token.ge(from).and(token.lt(to)))
  }

  #logits(): Pick<Elements, "load"> {
    const from = this.#k.let(this.#row.mul(this.#wordOf("stride")))
    return { load: (token) => this.#buffer("logits").load(from.add(token)) }
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

  #leave(word: keyof typeof chunkWord, value: Value): void {
    this.#buffer("found").store(this.#ofChunk(this.#chunk).add(chunkWord[word]), value)
  }

  #word(name: keyof typeof samplingWord): Value {
    return this.#buffer("rows").load(this.#row.mul(SAMPLING_WORDS).add(samplingWord[name]))
  }

  #float(name: keyof typeof samplingWord): Value {
    return this.#word(name).bits("f32")
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

interface Phase {
  kernel: Kernel
  operands: readonly (BufferName | WordName)[]
}

function phase(name: string, write: (draw: Draw, k: Builder) => void): Phase {
  let operands: Phase["operands"] = []
  const made = kernel(name, THREADS, (k) => {
    const draw = new Draw(k)
    draw.ifThere(() => write(draw, k))
    operands = draw.operands
  })
  return { kernel: made, operands }
}

const score = phase("sampler_score", (draw) => draw.score())
const narrow = phase("sampler_select", (draw) => draw.select(draw.pass()))
const race = phase("sampler_race", (draw) => draw.race())
const tell = phase("sampler_tell", (draw) => draw.tell())

/** All phases of rows that are one chunk. */
const whole = phase("sampler", (draw, k) => {
  draw.score()
  k.barrier()
  k.for(0, PASSES, 1, (pass) => {
    draw.select(pass)
    k.barrier()
  })
  draw.race()
  k.barrier()
  draw.tell()
})

/** Of the step's rows of logits, the results. */
export function samplerLaunches({ logits, buffers, shapes }: SampledPlan): Launch[] {
  const { vocabulary } = shapes
  const chunks = Math.ceil(vocabulary / CHUNK)
  const stride = 4 * Math.ceil(buffers[logits.buffer]!.columns / 4)
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
    stride,
    chunkTokens: CHUNK,
    chunks,
    pass: 0,
  }
  const launch = ({ kernel, operands }: Phase, groups = chunks, pass = 0): Launch => ({
    kernel,
    operands: operands.map((name) => (name === "pass" ? pass : bindings[name])),
    groups: [{ rows: "logits", per: 1 }, groups, 1],
  })
  if (chunks === 1) return [launch(whole)]
  const passes = Array.from({ length: PASSES }, (_, pass) => launch(narrow, chunks, pass))
  return [launch(score), ...passes, launch(race), launch(tell, 1)]
}

type SampledPlan = Pick<Plan, "logits" | "buffers" | "shapes">
