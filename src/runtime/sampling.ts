// A row of logits becomes a token. This file is the contract in code: every target that samples must give the same tokens
// and the same bits of log-probability (docs/determinism.md says it in words). All arithmetic is in double precision; sums
// that decide anything are sums of integers, or have a fixed order, so that vectors and threads may compute them.

import { exp, log } from "./elementary.ts"
import { gumbel, MOST_NOISE, noiseKey } from "./noise.ts"
import {
  MOST_LOGPROBS,
  NO_LOGPROBS,
  type SamplingRows,
  type StepDone,
  UNMASKED,
} from "./program.ts"

export interface Sampler {
  /** Draws row `row` of `rows` from its raw `logits` [vocabulary] and writes all of the row's results. */
  sample(logits: Float32Array, row: number, rows: SamplingRows, out: StepDone): void
}

/** A sampler and its workspace: for one row at a time. */
export function createSampler(vocabulary: number): Sampler {
  const scores = new Float64Array(vocabulary) // logits as they are changed on the way
  const tokens = new Int32Array(vocabulary) // those still in the race come first
  const shares = new Float64Array(vocabulary) // whole numbers: see keepLikeliest

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
    scores.set(logits)
    addBias(scores, row, rows)
    penalise(scores, row, rows)
    let left = allowed(row, rows)
    if (left === 0) return undefined
    const temperature = rows.temperature[row]!
    const topP = rows.topP[row]!
    if (temperature === 0 || topP === 0) return likeliest(left)

    for (let i = 0; i < left; i++) scores[tokens[i]!]! /= temperature
    const most = scores[likeliest(left)]!
    const topK = rows.topK[row]!
    if (topK > 0 && topK < left) left = keepLikeliest(left, topK, () => 1)
    if (topP < 1) {
      const share = (token: number) => Math.floor(exp(scores[token]! - most) * 4294967296)
      let sum = 0
      for (let i = 0; i < left; i++) sum += shares[tokens[i]!] = share(tokens[i]!)
      left = keepLikeliest(left, topP * sum, (token) => shares[token]!)
    }
    return race(left, most, row, rows)
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
   * Weights are whole numbers and their sums stay below 2^53, so the order of adding does not matter: quickselect will do.
   */
  function keepLikeliest(left: number, target: number, weight: (token: number) => number): number {
    let low = 0
    let high = left
    let sum = 0 // of the weights before `low`
    while (low < high) {
      const pivot = tokens[(low + high) >>> 1]!
      tokens[(low + high) >>> 1] = tokens[high - 1]!
      tokens[high - 1] = pivot
      let middle = low
      let likelier = 0
      for (let i = low; i < high - 1; i++) {
        const token = tokens[i]!
        if (!before(token, pivot)) continue
        likelier += weight(token)
        tokens[i] = tokens[middle]!
        tokens[middle++] = token
      }
      tokens[high - 1] = tokens[middle]!
      tokens[middle] = pivot
      if (sum + likelier >= target) {
        high = middle
        continue
      }
      sum += likelier + weight(pivot)
      low = middle + 1
      if (sum >= target) break
    }
    return low
  }

  /** The best of what is left, after min-p, by log p + noise. */
  function race(left: number, most: number, row: number, rows: SamplingRows): number {
    const key = noiseKey(rows.seed[row]!, rows.choice[row]!, rows.position[row]!)
    const minP = rows.minP[row]!
    let best = -1
    let bestScore = Number.NEGATIVE_INFINITY
    for (let i = 0; i < left; i++) {
      const token = tokens[i]!
      const behind = scores[token]! - most
      if (behind + MOST_NOISE < bestScore) continue // no noise could make up for it
      if (minP > 0 && exp(behind) < minP) continue
      const score = behind + gumbel(key, token)
      if (score > bestScore || (score === bestScore && token < best)) {
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

function addBias(scores: Float64Array, row: number, rows: SamplingRows): void {
  for (let i = rows.biasStarts[row]!; i < rows.biasStarts[row + 1]!; i++)
    scores[rows.biasTokens[i]!]! += rows.biases[i]!
}

function penalise(scores: Float64Array, row: number, rows: SamplingRows): void {
  const [repetition, frequency] = [rows.repetition[row]!, rows.frequency[row]!]
  for (let i = rows.countStarts[row]!; i < rows.countStarts[row + 1]!; i++) {
    const token = rows.countTokens[i]!
    const score = scores[token]!
    const repeated = score > 0 ? score / repetition : score * repetition
    scores[token] = repeated - rows.counts[i]! * frequency - rows.presence[row]!
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
  const logprob = (token: number) => logits[token]! - most - logSum
  out.logprobs[row] = logprob(drawn)
  const first = row * MOST_LOGPROBS
  const list = out.topTokens.subarray(first, first + wanted)
  listLikeliest(logits, list)
  for (let i = 0; i < wanted; i++) out.topLogprobs[first + i] = logprob(list[i]!)
}

const LANES = 16

/** The sum has 16 lanes, token t in lane t mod 16, in order of t; then lane i takes lane i + 8, i + 4, i + 2, i + 1. */
function logSumOf(logits: Float32Array): { most: number; logSum: number } {
  let most = Number.NEGATIVE_INFINITY
  for (const logit of logits) if (logit > most) most = logit
  const lanes = new Float64Array(LANES)
  for (let t = 0; t < logits.length; t++) lanes[t % LANES]! += exp(logits[t]! - most)
  for (let width = LANES / 2; width >= 1; width /= 2)
    for (let i = 0; i < width; i++) lanes[i]! += lanes[i + width]!
  return { most, logSum: log(lanes[0]!) }
}

/** Fills `list` with the tokens of the largest logits, best first, the lower id among equals. */
function listLikeliest(logits: Float32Array, list: Int32Array): void {
  let listed = 0
  for (let token = 0; token < logits.length && list.length > 0; token++) {
    const logit = logits[token]!
    if (listed === list.length && logit <= logits[list[listed - 1]!]!) continue
    let at = listed < list.length ? listed++ : listed - 1
    for (; at > 0 && logit > logits[list[at - 1]!]!; at--) list[at] = list[at - 1]!
    list[at] = token
  }
}
