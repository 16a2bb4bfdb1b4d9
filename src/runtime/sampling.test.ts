import { expect, test } from "vitest"
import { type RowSettings, samplingRows } from "../../test/sampling-rows.ts"
import { gumbel, noiseKey } from "./noise.ts"
import { newStepDone, type StepDone } from "./program.ts"
import { createSampler } from "./sampling.ts"

function sample(logits: number[], settings: RowSettings): StepDone {
  const one = { logitRows: new Int32Array(1), hiddenRows: new Int32Array(0) }
  const out = newStepDone(one, { hidden: 0, vocabulary: logits.length })
  const rows = samplingRows([settings], logits.length)
  createSampler(logits.length).sample(Float32Array.from(logits), 0, rows, out)
  return out
}

const drawn = (logits: number[], settings: RowSettings) => sample(logits, settings).tokens[0]!

/** How often each token is drawn over many positions. */
function frequencies(logits: number[], settings: RowSettings, times = 20_000): number[] {
  const counts = logits.map(() => 0)
  const sampler = createSampler(logits.length)
  const out = sample(logits, settings)
  const rows = samplingRows([settings], logits.length)
  const row = Float32Array.from(logits)
  for (let position = 0; position < times; position++) {
    rows.position[0] = position
    sampler.sample(row, 0, rows, out)
    counts[out.tokens[0]!]! += 1
  }
  return counts.map((count) => count / times)
}

const logOf = (...shares: number[]) => shares.map(Math.log)

test("temperature 0, and top-p 0, take the likeliest token, the lowest id among equals", () => {
  expect(drawn([1, 3, 3, 2], { temperature: 0 })).toBe(1)
  expect(drawn([1, 3, 3, 2], { temperature: 1, topP: 0 })).toBe(1)
  expect(drawn([-5, -3, -4, -3], { temperature: 0 })).toBe(1)
})

test("tokens come as often as their probabilities say", () => {
  const shares = frequencies(logOf(0.5, 0.3, 0.15, 0.05), {})
  for (const [i, share] of [0.5, 0.3, 0.15, 0.05].entries())
    expect(shares[i]).toBeCloseTo(share, 1.7)
})

test("temperature flattens and sharpens", () => {
  const flat = frequencies(logOf(0.8, 0.2), { temperature: 2 })
  expect(flat[0]).toBeCloseTo(2 / 3, 1.7) // 0.8^(1/2) / (0.8^(1/2) + 0.2^(1/2))
  const sharp = frequencies(logOf(0.8, 0.2), { temperature: 0.5 })
  expect(sharp[0]).toBeCloseTo(16 / 17, 1.7)
})

test("a draw is the argmax of log p plus the row's own noise", () => {
  const logits = Array.from({ length: 300 }, (_, i) => Math.sin(i * 7))
  for (let position = 0; position < 50; position++) {
    const key = noiseKey(99n, 3, position)
    const scores = logits.map((logit, token) => Math.fround(logit) + gumbel(key, token))
    const settings = { seed: 99n, choice: 3, position }
    expect(drawn(logits, settings)).toBe(scores.indexOf(Math.max(...scores)))
  }
})

test("top-k keeps exactly k, lower ids first among equals", () => {
  const kept = (topK: number) =>
    frequencies([1, 2, 2, 2, 0], { topK }, 2000).flatMap((share, i) => (share > 0 ? [i] : []))
  expect(kept(1)).toEqual([1])
  expect(kept(2)).toEqual([1, 2])
  expect(kept(3)).toEqual([1, 2, 3])
  expect(kept(4)).toEqual([0, 1, 2, 3])
})

test("top-p keeps the fewest likeliest tokens that reach p", () => {
  const kept = (topP: number, settings: RowSettings = {}) =>
    frequencies(logOf(0.1, 0.4, 0.2, 0.3), { ...settings, topP }, 3000).flatMap((share, i) =>
      share > 0 ? [i] : [],
    )
  expect(kept(0.39)).toEqual([1])
  expect(kept(0.41)).toEqual([1, 3])
  expect(kept(0.71)).toEqual([1, 2, 3])
  expect(kept(0.95)).toEqual([0, 1, 2, 3])
  expect(kept(0.55, { topK: 2 })).toEqual([1]) // of 0.4 and 0.3, the first has 4/7
})

test("top-k and top-p on many tokens agree with sorting them", () => {
  const logits = Array.from({ length: 2000 }, (_, i) => Math.round(Math.sin(i * 12.9898) * 40) / 10)
  const order = logits.map((_, i) => i).sort((a, b) => logits[b]! - logits[a]! || a - b)
  const p = 0.6
  const weights = order.map((token) => Math.exp(Math.fround(logits[token]!)))
  const total = weights.reduce((a, b) => a + b)
  let needed = 0
  for (let sum = 0; sum < p * total; needed++) sum += weights[needed]!
  for (const [settings, count] of [
    [{ topK: 37 }, 37],
    [{ topP: p }, needed],
  ] as const) {
    const survivors = new Set(order.slice(0, count))
    for (let position = 0; position < 300; position++)
      expect(survivors.has(drawn(logits, { ...settings, temperature: 1, position }))).toBe(true)
    // The last survivor is one: with everything else masked away it may still be drawn, its successor may not be the best.
    const best = drawn(logits, { ...settings, bias: { [order[count]!]: -100 } })
    expect(survivors.has(best)).toBe(true)
  }
})

test("min-p drops what is less likely than its share of the best", () => {
  const kept = frequencies(logOf(0.5, 0.26, 0.24), { minP: 0.5 }, 3000)
  expect(kept.map((share) => share > 0)).toEqual([true, true, false])
})

test("min-p at 1 leaves the likeliest, and whatever is as likely", () => {
  const kept = (logits: number[], temperature = 1) =>
    frequencies(logits, { minP: 1, temperature }, 500).map((share) => share > 0)
  expect(kept([1, 3, 2.99, 0])).toEqual([false, true, false, false])
  expect(kept([3, 1, 3, 2.99])).toEqual([true, false, true, false])
  expect(kept([-7, -7.01], 0.3)).toEqual([true, false])
})

test("bias, then penalties, then the mask", () => {
  expect(drawn([1, 0, 0], { temperature: 0, bias: { 2: 5 } })).toBe(2)
  expect(drawn([2, 1, 0], { temperature: 0, counts: { 0: 1 }, presence: 1.5 })).toBe(1)
  expect(drawn([2, 1, 0], { temperature: 0, counts: { 0: 3 }, frequency: 0.5 })).toBe(1)
  expect(drawn([2, 1.5], { temperature: 0, counts: { 0: 1 }, repetition: 2 })).toBe(1)
  expect(drawn([-2, -3], { temperature: 0, counts: { 0: 9 }, repetition: 2 })).toBe(1)
  expect(drawn([9, 1, 2, 0], { temperature: 0, bias: { 0: 50 }, allowed: [1, 3] })).toBe(1)
  const many = Array.from({ length: 100 }, (_, i) => -i)
  expect(drawn(many, { allowed: [70], temperature: 2 })).toBe(70)
})

/** The score of a token that is alone but for a rival: the least that the rival, behind it among equals, must have to win. */
function scoreOf(logit: number, settings: RowSettings): number {
  let [low, high] = [-100, 100]
  for (let i = 0; i < 40; i++) {
    const rival = (low + high) / 2
    const bias = { ...settings.bias, 1: rival }
    const wins = drawn([logit, 0], { ...settings, bias, temperature: 0 }) === 1
    if (wins) high = rival
    else low = rival
  }
  return high
}

test("a score is the logit and its bias, then the repetition, then the others", () => {
  const penalties = { counts: { 0: 3 }, repetition: 1.25, frequency: 0.5, presence: 0.75 }
  expect(scoreOf(4, {})).toBeCloseTo(4, 4)
  expect(scoreOf(4, { bias: { 0: -1.5 } })).toBeCloseTo(2.5, 4)
  expect(scoreOf(4, penalties)).toBeCloseTo(4 / 1.25 - 3 * 0.5 - 0.75, 4)
  expect(scoreOf(-4, penalties)).toBeCloseTo(-4 * 1.25 - 3 * 0.5 - 0.75, 4)
  expect(scoreOf(4, { ...penalties, repetition: 0.5 })).toBeCloseTo(8 - 3 * 0.5 - 0.75, 4)
  expect(scoreOf(-4, { ...penalties, repetition: 0.5 })).toBeCloseTo(-2 - 3 * 0.5 - 0.75, 4)
  // The sign that decides is that after the bias and before the other penalties.
  expect(scoreOf(4, { ...penalties, bias: { 0: -6 } })).toBeCloseTo(-2 * 1.25 - 2.25, 4)
  expect(scoreOf(-4, { ...penalties, bias: { 0: 5 } })).toBeCloseTo(1 / 1.25 - 2.25, 4)
  expect(scoreOf(1, { ...penalties, counts: {} })).toBeCloseTo(1, 4)
})

test("log-probabilities are those of the raw logits, whatever else is asked", () => {
  const logits = logOf(0.5, 0.25, 0.125, 0.125)
  const out = sample(logits, { temperature: 0, bias: { 3: 10 }, topLogprobs: 4 })
  expect(out.tokens[0]).toBe(3)
  expect(out.logprobs[0]).toBeCloseTo(Math.log(0.125), 6)
  expect([...out.topTokens.slice(0, 4)]).toEqual([0, 1, 2, 3])
  expect(out.topLogprobs[0]).toBeCloseTo(Math.log(0.5), 6)
  expect(out.topLogprobs[3]).toBeCloseTo(Math.log(0.125), 6)
})

test("a row with NaN or infinity is marked, and so is one in which nothing may come", () => {
  expect(sample([1, Number.NaN, 2], {}).finite[0]).toBe(0)
  expect(sample([1, Number.POSITIVE_INFINITY, 2], {}).finite[0]).toBe(0)
  expect(sample([1, Number.NEGATIVE_INFINITY, 2], {}).finite[0]).toBe(0)
  expect(sample([1, 2], { allowed: [] }).finite[0]).toBe(0)
  expect(sample([1, 2], {}).finite[0]).toBe(1)
})

test("huge logits and tiny temperatures stay exact", () => {
  expect(drawn([3e38, -3e38, 2.9e38], { temperature: 1e-5 })).toBe(0)
  expect(sample([3e38, -3e38], { topP: 0.5 }).finite[0]).toBe(1)
})
