// The sampler in C against its definition, src/runtime/sampling.ts, bit for bit, for every instruction set and for small and
// large vocabularies: numbers at the ends of floats, equal scores, everything a row can ask for.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import {
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  newStepDone,
  type SamplingRows,
  UNMASKED,
} from "../../src/runtime/program.ts"
import { createSampler } from "../../src/runtime/sampling.ts"
import { mulberry32 } from "../random.ts"
import { build, run, ways } from "./ways.ts"

interface Draws {
  vocabulary: number
  count: number
  logits: Float32Array // [rows, vocabulary]
  rows: SamplingRows
}

/** `count` rows that together ask for everything, over logits of every kind. */
function draws(vocabulary: number, count: number, seed: number): Draws {
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
    countTokens: listed(1),
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
function plainly(given: Draws): Draws {
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

function written({ vocabulary, count, logits, rows }: Draws): Uint8Array {
  const length = (bytes: number) => new Uint8Array(BigInt64Array.of(BigInt(bytes)).buffer)
  const array = (a: ArrayBufferView) => [
    length(a.byteLength),
    new Uint8Array(a.buffer, a.byteOffset, a.byteLength),
  ]
  const fields = [
    rows.temperature,
    rows.topK,
    rows.topP,
    rows.minP,
    rows.presence,
    rows.frequency,
    rows.repetition,
    rows.countStarts,
    rows.countTokens,
    rows.counts,
    rows.biasStarts,
    rows.biasTokens,
    rows.biases,
    rows.masks,
    rows.maskRow,
    rows.seed,
    rows.choice,
    rows.position,
    rows.topLogprobs,
  ]
  return Buffer.concat(
    [length(vocabulary), length(count), array(logits), fields.map(array)].flat(2),
  )
}

/** What the definition makes of it. */
function defined({ vocabulary, count, logits, rows }: Draws): Buffer {
  const logitRows = new Int32Array(count)
  const out = newStepDone({ logitRows, hiddenRows: new Int32Array(0) }, { hidden: 0, vocabulary })
  const sampler = createSampler(vocabulary)
  for (let row = 0; row < count; row++)
    sampler.sample(logits.subarray(row * vocabulary, (row + 1) * vocabulary), row, rows, out)
  const arrays = [out.tokens, out.logprobs, out.topTokens, out.topLogprobs, out.finite]
  return Buffer.concat(arrays.map((a) => new Uint8Array(a.buffer)))
}

const cases = [
  draws(1, 40, 1),
  draws(33, 200, 2),
  draws(70, 1000, 3),
  draws(2560, 300, 4),
  draws(128_256, 24, 5),
  plainly(draws(2560, 800, 6)),
].map((given) => ({
  vocabulary: given.vocabulary,
  input: written(given),
  expected: defined(given),
}))

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-sampler-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(ways)("$name", ({ name, isSkipped, note, way }) => {
  test.skipIf(isSkipped)(`draws what the definition draws${note}`, () => {
    const program = join(folder, name)
    build(way(), [join(import.meta.dirname, "sampler.c")], program)
    for (const { vocabulary, input, expected } of cases) {
      const drawn = run(way(), program, input)
      expect(drawn.length).toBe(expected.length)
      const at = drawn.findIndex((byte, i) => byte !== expected[i])
      expect(at, `${vocabulary} tokens: the first byte that differs`).toBe(-1)
    }
  })
})
