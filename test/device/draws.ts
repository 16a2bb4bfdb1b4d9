// Rows of logits and how they become tokens, for those that judge a sampler by its definition: numbers at the ends of floats,
// equal scores, everything a row can ask for.

import {
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  type SamplingRows,
  UNMASKED,
} from "../../src/runtime/program.ts"
import { mulberry32 } from "../random.ts"

export interface Draws {
  vocabulary: number
  count: number
  logits: Float32Array // [rows, vocabulary]
  rows: SamplingRows
}

/** `count` rows that together ask for everything, over logits of every kind. */
export function draws(vocabulary: number, count: number, seed: number): Draws {
  const next = mulberry32(seed)
  const below = (limit: number) => next() % limit
  const of = <T>(...choices: T[]) => choices[below(choices.length)]!
  const gaussian = () =>
    Math.sqrt(-2 * Math.log((next() + 0.5) / 2 ** 32)) * Math.cos((next() / 2 ** 32) * 2 * Math.PI)
  const spread: readonly (() => number)[] = [
    () => gaussian() * 3,
    () => gaussian() / 4,
    () => Math.round(gaussian() * 4) / 2, // many equals
    () => of(0, -0, 1e-40, -1e-40, 2 ** -126, gaussian()), // next to zero
    () => of(3.4e38, -3.4e38, 1e38, gaussian() * 1e37), // next to the largest
    () => -gaussian() * gaussian() * 12, // a few far ahead
    () => 1, // all alike
  ]
  const logits = new Float32Array(count * vocabulary)
  for (let row = 0; row < count; row++) {
    const kind = spread[row % spread.length]!
    for (let i = 0; i < vocabulary; i++) logits[row * vocabulary + i] = kind()
    if (below(9) === 0) logits[row * vocabulary + below(vocabulary)] = of(Number.NaN, Infinity)
  }
  const floats = (draw: () => number) => Float32Array.from({ length: count }, draw)
  const integers = (draw: () => number) => Int32Array.from({ length: count }, draw)
  const words = Math.ceil(vocabulary / 32)
  const masks = new Uint32Array(3 * words)
  masks[words + below(words)] = 1 << below(Math.min(32, vocabulary))
  for (let i = 2 * words; i < 3 * words; i++) masks[i] = next()
  // The same token twice among the biases, as many counted as there are places for.
  const each = Math.min(40, vocabulary >> 1)
  const lists = Int32Array.from({ length: count + 1 }, (_, i) => i * each)
  const listed = (stride: number) =>
    Int32Array.from({ length: count * each }, (_, i) => ((i % each) * stride) % vocabulary)
  const rows: SamplingRows = {
    temperature: floats(() => of(0, 0.01, 0.3, 0.7, 1, 1, 1, 2, 1e-39, 1e-38, 3e38)),
    topK: integers(() => of(0, 0, 0, 1, 5, 40, vocabulary >> 1, vocabulary - 1, vocabulary + 9)),
    topP: floats(() => of(1, 1, 0, 0.1, 0.5, 0.9, 0.95, 1 - 2 ** -24, 1e-9, 1e-41)),
    minP: floats(() => of(0, 0, 0.05, 0.5, 1, 1e-30, 1e-41)),
    presence: floats(() => of(0, 0.5, -2, 1e-40)),
    frequency: floats(() => of(0, 0.3, -2, 1e38)),
    repetition: floats(() => of(1, 1, 1.3, 0.5, 2, 1e38)),
    countStarts: lists,
    countTokens: listed(13), // no vocabulary here is a multiple of 13
    counts: Int32Array.from({ length: count * each }, () => of(1, 2, 3, 20_000_001)),
    biasStarts: lists,
    biasTokens: listed(3),
    biases: Float32Array.from({ length: count * each }, () => of(0, 1, -100, 100, 3.4e38, -1e-40)),
    masks,
    maskRow: integers(() => of(UNMASKED, UNMASKED, UNMASKED, 0, 1, 2)),
    seed: BigUint64Array.from({ length: count }, () => (BigInt(next()) << 32n) | BigInt(next())),
    choice: integers(() => below(4)),
    position: integers(() => below(100_000)),
    topLogprobs: integers(() => of(NO_LOGPROBS, 0, 1, 5, MAX_TOP_LOGPROBS)),
  }
  // Half of the rows change nothing.
  for (let row = 0; row < count; row += 2) {
    rows.countStarts = rows.countStarts.map((at, i) => (i > row ? at - each : at))
    rows.biasStarts = rows.biasStarts.map((at, i) => (i > row ? at - each : at))
  }
  return { vocabulary, count, logits, rows }
}

/** As most rows are: nothing but a temperature, so that tokens are passed over by their block's highest score. */
export function plainly(given: Draws): Draws {
  const { vocabulary, count, logits, rows } = given
  for (const [i, logit] of logits.entries())
    if (!Number.isFinite(logit) || Math.abs(logit) > 99) logits[i] = i % 7
  rows.temperature.fill(1)
  rows.topP.fill(1)
  rows.topK.fill(0)
  rows.minP.fill(0)
  rows.maskRow.fill(UNMASKED)
  return { vocabulary, count, logits, rows }
}
