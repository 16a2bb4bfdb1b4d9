// A row of logits becomes a token. This file is the contract in code: every target that samples must give the same tokens
// and the same bits of log-probability (docs/determinism.md says it in words). Numbers are floats, each operation rounded
// by itself; every sum is one of whole numbers, exact in any order, so that vectors, threads and GPUs may compute it.

import { log } from "./elementary.ts"
import { gumbel, MAX_NOISE, noiseKey } from "./noise.ts"
import {
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  type SamplingRows,
  type StepDone,
  UNMASKED,
} from "./program.ts"
import { expSingle, settled } from "./single.ts"

export interface Sampler {
  /** Draws row `row` of `rows` from its raw `logits` [vocabulary] and writes all of the row's results. */
  sample(logits: Float32Array, row: number, rows: SamplingRows, out: StepDone): void
}

/** A sampler and its workspace: for one row at a time. */
export function createSampler(vocabulary: number): Sampler {
  const scores = new Float32Array(vocabulary) // logits as they are changed on the way
  const tokens = new Int32Array(vocabulary) // those still in the race come first

  return {
    sample(logits, row, rows, out) {
      const drawn = draw(logits, row, rows)
      out.finite[row] = drawn === undefined ? 0 : 1
      out.tokens[row] = drawn ?? 0
      out.logprobs[row] = 0
      const wanted = rows.topLogprobs[row]!
      if (drawn !== undefined && wanted !== NO_LOGPROBS)
        writeLogprobs(logits, drawn, row, wanted, out)
    },
  }

  /** @returns nothing when a logit is not finite, or nothing may come. */
  function draw(logits: Float32Array, row: number, rows: SamplingRows): number | undefined {
    if (!areFinite(logits)) return undefined
    for (let token = 0; token < vocabulary; token++) scores[token] = settled(logits[token]!)
    addBias(scores, row, rows)
    penalise(scores, row, rows)
    let left = allowed(row, rows)
    if (left === 0) return undefined
    const temperature = settled(rows.temperature[row]!)
    const topP = settled(rows.topP[row]!)
    const first = likeliest(left)
    if (temperature === 0 || topP === 0) return first

    const inverse = settled(1 / temperature)
    const most = scores[first]!
    const behind = (token: number) => distance(scores[token]!, most, inverse)
    const topK = rows.topK[row]!
    if (topK > 0 && topK < left) left = keepLikeliest(left, new WholeSum().add(topK), () => 1)
    if (topP < 1) {
      const share = (token: number) => shareOf(behind(token))
      const total = new WholeSum()
      for (let i = 0; i < left; i++) total.add(share(tokens[i]!))
      left = keepLikeliest(left, total.part(topP), share)
    }
    return race(left, behind, row, rows)
  }

  /** Lists the tokens that the row's mask allows, and counts them. */
  function allowed(row: number, { masks, maskRow }: SamplingRows): number {
    const from = maskRow[row]! * Math.ceil(vocabulary / 32)
    let left = 0
    for (let token = 0; token < vocabulary; token++)
      if (maskRow[row] === UNMASKED || (masks[from + (token >>> 5)]! >>> (token & 31)) & 1)
        tokens[left++] = token
    return left
  }

  /** The order of everything here: by score, and by id among equals. */
  function before(a: number, b: number): boolean {
    return scores[a]! > scores[b]! || (scores[a] === scores[b] && a < b)
  }

  function likeliest(left: number): number {
    let best = tokens[0]!
    for (let i = 1; i < left; i++) if (before(tokens[i]!, best)) best = tokens[i]!
    return best
  }

  /**
   * Keeps the fewest likeliest tokens whose weights sum to `target` at least, moves them to the front and counts them.
   * Weights are whole numbers, so the order of adding does not matter: quickselect will do.
   */
  function keepLikeliest(
    left: number,
    target: WholeSum,
    weight: (token: number) => number,
  ): number {
    let low = 0
    let high = left
    let sum = new WholeSum() // of the weights before `low`
    while (low < high) {
      const pivot = tokens[(low + high) >>> 1]!
      tokens[(low + high) >>> 1] = tokens[high - 1]!
      tokens[high - 1] = pivot
      let middle = low
      const likelier = sum.copy()
      for (let i = low; i < high - 1; i++) {
        const token = tokens[i]!
        if (!before(token, pivot)) continue
        likelier.add(weight(token))
        tokens[i] = tokens[middle]!
        tokens[middle++] = token
      }
      tokens[high - 1] = tokens[middle]!
      tokens[middle] = pivot
      if (likelier.reaches(target)) {
        high = middle
        continue
      }
      sum = likelier.add(weight(pivot))
      low = middle + 1
      if (sum.reaches(target)) break
    }
    return low
  }

  /** The best of what is left, after min-p, by log p + noise. */
  function race(
    left: number,
    behind: (token: number) => number,
    row: number,
    rows: SamplingRows,
  ): number | undefined {
    const key = noiseKey(rows.seed[row]!, rows.choice[row]!, rows.position[row]!)
    const minP = settled(rows.minP[row]!)
    let best: number | undefined
    let bestScore = Number.NEGATIVE_INFINITY
    for (let i = 0; i < left; i++) {
      const token = tokens[i]!
      const from = behind(token)
      if (from + MAX_NOISE < bestScore) continue // no noise could make up for it
      if (minP > 0 && expSingle(from) < minP) continue
      const score = Math.fround(from + gumbel(key, token))
      if (best === undefined || score > bestScore || (score === bestScore && token < best)) {
        best = token
        bestScore = score
      }
    }
    return best
  }
}

function areFinite(logits: Float32Array): boolean {
  for (const logit of logits) if (logit - logit !== 0) return false
  return true
}

function addBias(scores: Float32Array, row: number, rows: SamplingRows): void {
  for (let i = rows.biasStarts[row]!; i < rows.biasStarts[row + 1]!; i++) {
    const token = rows.biasTokens[i]!
    scores[token] = settled(scores[token]! + settled(rows.biases[i]!))
  }
}

function penalise(scores: Float32Array, row: number, rows: SamplingRows): void {
  const repetition = settled(rows.repetition[row]!)
  const inverse = settled(1 / repetition)
  const frequency = settled(rows.frequency[row]!)
  const presence = settled(rows.presence[row]!)
  for (let i = rows.countStarts[row]!; i < rows.countStarts[row + 1]!; i++) {
    const token = rows.countTokens[i]!
    const score = scores[token]!
    const repeated = settled(score * (score > 0 ? inverse : repetition))
    const counted = settled(Math.fround(rows.counts[i]!) * frequency)
    scores[token] = settled(settled(repeated - counted) - presence)
  }
}

/** How far a score lies behind the highest, in units of the temperature: log p but for a constant. */
function distance(score: number, most: number, inverse: number): number {
  return settled(settled(score - most) * inverse)
}

/** e^behind in units of 2^-40: a whole number of at most 41 bits. */
function shareOf(behind: number): number {
  return Math.floor(expSingle(behind) * 1099511627776)
}

/** Of p, a float below 1, the part that 24 bits hold, up to the next: in units of 2^-24. */
export function partOf(p: number): number {
  return Math.ceil(p * 16777216)
}

const CARRY = 2 ** 50

/** A sum of whole numbers below 2^50, exact beyond 2^53. */
class WholeSum {
  #high = 0 // in units of CARRY
  #low = 0

  add(term: number): this {
    this.#low += term
    if (this.#low >= CARRY) {
      this.#low -= CARRY
      this.#high += 1
    }
    return this
  }

  copy(): WholeSum {
    const copy = new WholeSum()
    copy.#high = this.#high
    copy.#low = this.#low
    return copy
  }

  reaches(target: WholeSum): boolean {
    return this.#high > target.#high || (this.#high === target.#high && this.#low >= target.#low)
  }

  /** The part `p` of it, up to a whole number. */
  part(p: number): WholeSum {
    const whole = (BigInt(this.#high) << 50n) + BigInt(this.#low)
    const product = whole * BigInt(partOf(p))
    const part = (product + 16777215n) >> 24n
    const result = new WholeSum()
    result.#high = Number(part >> 50n)
    result.#low = Number(part & (2n ** 50n - 1n))
    return result
  }

  /** The nearest double. */
  valueOf(): number {
    return this.#high * CARRY + this.#low
  }
}

/** Log-softmax of the raw logits, at the drawn token and at the likeliest ones. */
function writeLogprobs(
  logits: Float32Array,
  drawn: number,
  row: number,
  wanted: number,
  out: StepDone,
): void {
  const { most, logSum } = logSumOf(logits)
  const logprob = (token: number) => settled(logits[token]!) - most - logSum
  out.logprobs[row] = logprob(drawn)
  const first = row * MAX_TOP_LOGPROBS
  const list = out.topTokens.subarray(first, first + wanted)
  listLikeliest(logits, list)
  for (let i = 0; i < wanted; i++) out.topLogprobs[first + i] = logprob(list[i]!)
}

/** The logarithm is a double's, of the sum of all shares: the one number here that a GPU leaves to its host. */
function logSumOf(logits: Float32Array): { most: number; logSum: number } {
  let most = Number.NEGATIVE_INFINITY
  for (const logit of logits) most = Math.max(most, settled(logit))
  const sum = new WholeSum()
  for (const logit of logits) sum.add(shareOf(distance(settled(logit), most, 1)))
  return { most, logSum: logOfShares(sum.valueOf()) }
}

/** The logarithm of a sum of shares. */
export function logOfShares(sum: number): number {
  return log(sum / 1099511627776)
}

/** Fills `list` with the tokens of the largest logits, best first, the lower id among equals. */
function listLikeliest(logits: Float32Array, list: Int32Array): void {
  let listed = 0
  for (let token = 0; token < logits.length && list.length > 0; token++) {
    const logit = settled(logits[token]!)
    if (listed === list.length && logit <= settled(logits[list[listed - 1]!]!)) continue
    let at = listed < list.length ? listed++ : listed - 1
    for (; at > 0 && logit > settled(logits[list[at - 1]!]!); at--) list[at] = list[at - 1]!
    list[at] = token
  }
}
