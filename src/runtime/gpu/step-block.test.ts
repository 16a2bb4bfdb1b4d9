import { describe, expect, test } from "vitest"
import { batch, type Part } from "../../../test/model/steps.ts"
import { mulberry32 } from "../../../test/random.ts"
import { noiseKey } from "../noise.ts"
import { NO_LOGPROBS, newStepDone, type SamplingRows, type StepInput, TOLD } from "../program.ts"
import { POSITION, type Rotation, writeTurns } from "../rotation.ts"
import { createSampler } from "../sampling.ts"
import { StepRows } from "../step-rows.ts"
import { type AttentionOrder, AttentionWork } from "./attention-work.ts"
import {
  NO_MASK,
  RESULT_WORDS,
  type Region,
  resultWord,
  SAMPLING_WORDS,
  samplingWord,
} from "./regions.ts"
import { StepBlock, writeResults } from "./step-block.ts"

const shape = {
  limits: { blocks: [400], tokens: 64, sequences: 8, rows: 32 },
  sinks: 0,
  vocabulary: 70,
  taken: 6,
}
const rotation: Rotation = { frequencies: [1, 0.5, 0.001], factor: 1.25 }
const byAxes: Rotation = {
  frequencies: [1, 0.5, 0.001, 0.25],
  factor: 1.25,
  axes: [2, 0, POSITION, 1],
}
const order: AttentionOrder = {
  set: "tokens",
  visible: { group: 0, window: undefined, sinks: 0, span: 64 },
  height: 4,
  slots: 400,
}

/** Every kind there is, small and large, in no order. */
const regions: readonly Region[] = [
  { name: "hiddenIn" },
  { name: "sampling", array: "masks" },
  { name: "items", of: "tokens g0 wall s0", order },
  { name: "tokens" },
  { name: "count", of: "wanted" },
  { name: "count", of: "chunks tokens g0 wall s0" },
  { name: "positions" },
  { name: "turns", rotation },
  { name: "turns", rotation: byAxes },
  { name: "seenTo" },
  { name: "count", of: "sequences" },
  { name: "sequences" },
  { name: "starts" },
  { name: "states", group: 0 },
  { name: "tokensOf", set: "wanted" },
  { name: "tokensOf", set: "logits" },
  { name: "tokensOf", set: "hidden" },
  { name: "rowsInWanted" },
  { name: "slots", group: 0 },
  { name: "lastSlots", group: 0, count: 3, ahead: 0 },
  { name: "lastSlots", group: 0, count: 4, ahead: 2 },
  { name: "firstSeen", group: 0, window: 20 },
  { name: "firstSeen", group: 0, window: undefined, mutual: true },
  { name: "lastSeen", window: undefined },
  { name: "lastSeen", window: 4 },
  { name: "blocks" },
  { name: "chunkStarts", of: "tokens g0 wall s0" },
  { name: "sampling", array: "rows" },
  { name: "sampling", array: "countTokens" },
  { name: "sampling", array: "counts" },
  { name: "sampling", array: "biasTokens" },
  { name: "sampling", array: "biases" },
  { name: "results" },
  { name: "drawn" },
]

const next = mulberry32(5)
const below = (limit: number) => next() % limit

/** A step of everything, sequences no longer than `longest`. */
function step(longest: number): StepInput {
  const parts = Array.from({ length: 1 + below(5) }, (): Part => {
    const tokens = Int32Array.from({ length: 1 + below(12) }, () => below(shape.vocabulary))
    const from = below(4) === 0 ? 0 : below(longest)
    const blocks = Array.from({ length: 1 + Math.ceil((from + 12) / 16) }, () => below(400))
    const logits = [...tokens.keys()].filter(() => below(3) === 0)
    return { tokens, from, blocks, logits, hidden: [below(tokens.length)] }
  })
  const input = batch(parts)
  const rows = input.logitRows.length
  const counted = below(200)
  const list = <T>(draw: () => T) => Array.from({ length: counted * rows }, draw)
  input.hiddenIn = Float32Array.from(
    { length: input.tokens.length * shape.taken },
    () => below(99) / 7,
  )
  if (below(3) > 0) {
    const total = input.tokens.length
    input.coordinates = Int32Array.from({ length: 3 * total }, () => below(9000))
    input.seenFrom = input.positions.map((position) => position - (position % 7))
    input.seenTo = input.positions.map((position) => position)
  }
  Object.assign(input.sampling, {
    countStarts: Int32Array.from({ length: rows + 1 }, (_, i) => i * counted),
    countTokens: Int32Array.from(list(() => below(shape.vocabulary))),
    counts: Int32Array.from(list(() => below(9))),
    biasStarts: Int32Array.from({ length: rows + 1 }, (_, i) => i * counted),
    biasTokens: Int32Array.from(list(() => below(shape.vocabulary))),
    biases: Float32Array.from(list(() => below(99) / 13)),
    masks: Uint32Array.from({ length: 3 * rows }, next),
  } satisfies Partial<SamplingRows>)
  return input
}

/** The words that a region must hold, by the definitions. */
function expected(region: Region, input: StepInput): number[] | undefined {
  const rows = new StepRows(shape.limits, shape.sinks)
  rows.take(input)
  const work = new AttentionWork(order, shape.sinks)
  work.take(rows, input)
  switch (region.name) {
    case "count":
      if (region.of === "sequences") return [input.starts.length - 1]
      return [region.of === "wanted" ? rows.tokensOf("wanted").length : work.chunkStarts.length - 1]
    case "tokens":
    case "positions":
    case "blocks":
      return [...input[region.name]]
    case "sequences":
      return [...rows.sequences]
    case "starts":
      return [...input.starts]
    case "states":
      return Array.from(input.starts.subarray(1), (_, sequence) => {
        const [from, to] = input.blocks.subarray(input.blockStarts[sequence]!)
        return [input.positions[input.starts[sequence]!] === 0 ? -1 : from!, to!]
      }).flat()
    case "tokensOf":
      return [...rows.tokensOf(region.set)]
    case "rowsInWanted":
      return [...rows.rowsIn("wanted")]
    case "slots":
      return [...rows.slotsIn(0)]
    case "lastSlots":
      return Array.from(input.positions, (position, token) => {
        const sequence = rows.sequences[token]!
        const last = input.positions[input.starts[sequence + 1]! - 1]!
        const all = Array.from({ length: region.count }, (_, i) => {
          return position + region.ahead - region.count + 1 + i
        })
        return all.map((p) => (p < 0 || p > last ? -1 : rows.slotOf(0, sequence, p)))
      }).flat()
    case "firstSeen":
      return Array.from(input.tokens, (_, token) => rows.firstSeen(token, region))
    case "seenTo":
      return [...(input.seenTo ?? input.positions)]
    case "lastSeen": {
      const { window = Number.POSITIVE_INFINITY } = region
      return Array.from(input.positions, (position, token) => {
        const next = input.starts[rows.sequences[token]! + 1]!
        return Math.min(input.positions[next - 1]!, position + window - 1)
      })
    }
    case "items":
      return [...work.items]
    case "chunkStarts": {
      const end = work.chunkStarts.at(-1)!
      return [...work.chunkStarts, end, end, end]
    }
    case "turns": {
      const columns = 2 * region.rotation.frequencies.length
      const turns = new Float32Array(input.tokens.length * columns)
      const { tokens, coordinates } = input
      for (const [i, position] of input.positions.entries()) {
        const own = [0, 1, 2].map((axis) => coordinates?.[axis * tokens.length + i] ?? position)
        writeTurns(position, region.rotation, turns, i * columns, own)
      }
      return [...new Int32Array(turns.buffer)]
    }
    case "hiddenIn":
      return [...new Int32Array(input.hiddenIn!.buffer)]
    case "sampling":
      return region.array === "rows"
        ? undefined
        : [...new Int32Array(input.sampling[region.array].buffer)]
    case "results":
    case "drawn":
      return undefined
  }
}

const wordsAt = (bytes: Uint8Array, offset: number, length: number) => [
  ...new Int32Array(bytes.buffer, offset, length),
]

/** The device's memory: only what is told to be written comes over. */
function device() {
  let bytes = new Uint8Array(0)
  return {
    take(block: StepBlock, hasGrown: boolean): Uint8Array {
      if (hasGrown) bytes = new Uint8Array(block.bytes.length).fill(0xee)
      for (const { from, to } of block.written()) bytes.set(block.bytes.subarray(from, to), from)
      return bytes
    },
  }
}

describe("a step block", () => {
  test("has every region's words at its place, whatever steps came before", () => {
    const block = new StepBlock(shape, regions)
    const memory = device()
    let [isFirst, grown] = [true, 0]
    for (let round = 0; round < 60; round++) {
      const input = step(round < 30 ? 40 : 900)
      const hasGrown = block.fill(input)
      grown += hasGrown ? 1 : 0
      const bytes = memory.take(block, hasGrown || isFirst)
      isFirst = false
      for (const [i, region] of regions.entries()) {
        const words = expected(region, input)
        if (!words) continue
        const offset = block.offsetOf(i)
        expect(offset % 16).toBe(0)
        expect({ region, words: wordsAt(bytes, offset, words.length) }).toEqual({ region, words })
      }
      expect(block.countOf("tokens")).toBe(input.tokens.length)
      expect(block.countOf("logits")).toBe(input.logitRows.length)
    }
    expect(grown).toBeGreaterThan(1)
    expect(grown).toBeLessThan(15)
  })

  test("grows without moving what is fixed, and keeps room for results before everything", () => {
    const block = new StepBlock(shape, regions)
    const offsets = () => regions.map((_, i) => block.offsetOf(i))
    const before = offsets()
    const input = step(900)
    input.sampling.masks = new Uint32Array(9999)
    expect(block.fill(input)).toBe(true)
    const moved = regions.filter((_, i) => offsets()[i] !== before[i])
    expect(moved.length).toBeGreaterThan(0)
    const lists = ["items", "chunkStarts", "blocks", "sampling"]
    for (const { name } of moved) expect(lists).toContain(name)
    expect(block.fill(input)).toBe(false)
    const results = StepBlock.resultBytes(shape.limits.rows)
    const isOfResults = ({ name }: Region) => name === "results" || name === "drawn"
    for (const [i, offset] of offsets().entries())
      if (isOfResults(regions[i]!)) expect(offset).toBe(0)
      else expect(offset).toBeGreaterThanOrEqual(results)
    expect(Math.min(...block.written().map(({ from }) => from))).toBeGreaterThanOrEqual(results)
  })

  test("writes little of what is large: neighbours together, distant parts apart", () => {
    const large = { ...shape, limits: { ...shape.limits, tokens: 8192 } }
    const block = new StepBlock(large, regions)
    block.fill(step(40))
    const written = block.written()
    const bytes = written.reduce((sum, { from, to }) => sum + to - from, 0)
    expect(bytes).toBeLessThan(block.bytes.length / 3)
    expect(written.length).toBeLessThan(regions.length)
  })

  test("tells of tokens that are not drawn yet the rows that draw them", () => {
    const block = new StepBlock(shape, [{ name: "tokens" }])
    const parts = [5, 0, 0].map((token, i) => ({ tokens: [token], from: 0, blocks: [i] }))
    const input = { ...batch(parts), drawnBy: Int32Array.of(TOLD, 7, 0) }
    expect(block.fill(input)).toBe(false)
    const words = new Uint32Array(block.bytes.buffer, block.offsetOf(0), 3)
    expect([...words]).toEqual([5, 0x80000007, 0x80000000])
  })

  test("turns rows by their positions, also where one takes another's place among those kept", () => {
    const region = { name: "turns", rotation } as const
    const block = new StepBlock(shape, [region])
    for (const from of [5, 5 + 4096, 5]) {
      const blocks = Array<number>(300).fill(1)
      const input = batch([{ tokens: [1, 2], from, blocks }])
      block.fill(input)
      const words = expected(region, input)!
      expect(wordsAt(block.bytes, block.offsetOf(0), words.length)).toEqual(words)
    }
  })

  test("tells a row of sampling in numbers that need no division", () => {
    const block = new StepBlock(shape, [{ name: "sampling", array: "rows" }])
    const input = batch([{ tokens: [1, 2, 3, 4], from: 0, blocks: [0], logits: [0, 1, 2, 3] }])
    Object.assign(input.sampling, {
      temperature: Float32Array.of(0, 0.8, 3e38, 1e-39),
      topP: Float32Array.of(1, 0.9, 1, 0.5),
      topK: Int32Array.of(0, 5, 0, 0),
      repetition: Float32Array.of(1, 1.3, 1, 1),
      maskRow: Int32Array.of(-1, 2, 0, -1),
      masks: new Uint32Array(9),
      seed: BigUint64Array.of(0n, 0xfedcba9876543210n, 0n, 0n),
      choice: Int32Array.of(0, 3, 0, 0),
      position: Int32Array.of(0, 77, 0, 0),
      topLogprobs: Int32Array.of(NO_LOGPROBS, 5, 0, 0),
    } satisfies Partial<SamplingRows>)
    block.fill(input)
    const words = new Uint32Array(block.bytes.buffer, block.offsetOf(0), 4 * SAMPLING_WORDS)
    const floats = new Float32Array(words.buffer, words.byteOffset, words.length)
    const whole = (row: number, name: keyof typeof samplingWord) =>
      words[row * SAMPLING_WORDS + samplingWord[name]]
    const float = (row: number, name: keyof typeof samplingWord) =>
      floats[row * SAMPLING_WORDS + samplingWord[name]]
    expect([0, 1, 2, 3].map((row) => whole(row, "isGreedy"))).toEqual([1, 0, 0, 1])
    expect(float(1, "inverseTemperature")).toBe(Math.fround(1 / Math.fround(0.8)))
    expect(float(2, "inverseTemperature")).toBe(0) // what lies next to zero is zero, and the row is drawn
    expect(whole(0, "topPart")).toBe(2 ** 24)
    expect(whole(1, "topPart")).toBe(Math.ceil(Math.fround(0.9) * 2 ** 24))
    expect(float(1, "inverseRepetition")).toBe(Math.fround(1 / Math.fround(1.3)))
    expect([0, 1, 2, 3].map((row) => whole(row, "maskStart"))).toEqual([NO_MASK, 6, 0, NO_MASK])
    const key = noiseKey(0xfedcba9876543210n, 3, 77)
    expect([whole(1, "noiseLow"), whole(1, "noiseHigh")]).toEqual([key.low >>> 0, key.high >>> 0])
    expect([0, 1].map((row) => whole(row, "topLogprobs"))).toEqual([0xffffffff, 5])
  })
})

test("results become log-probabilities as the sampler's own", () => {
  const vocabulary = 70
  const input = batch([{ tokens: [1, 2, 3], from: 0, blocks: [0], logits: [0, 1, 2] }])
  input.sampling.topLogprobs = Int32Array.of(3, NO_LOGPROBS, 20)
  const logits = Float32Array.from({ length: 3 * vocabulary }, () => below(1e6) / 1e5)
  logits[2 * vocabulary] = Number.NaN
  const wanted = newStepDone(input, { ...shape, hidden: 0 })
  const sampler = createSampler(vocabulary)
  const words = new Uint32Array(3 * RESULT_WORDS).fill(0xdeadbeef) // of another step
  const floats = new Float32Array(words.buffer)
  for (let row = 0; row < 3; row++) {
    const own = logits.subarray(row * vocabulary, (row + 1) * vocabulary)
    sampler.sample(own, row, input.sampling, wanted)
    const at = row * RESULT_WORDS
    words[at + resultWord.isFinite] = wanted.finite[row]!
    if (row > 0) {
      words[at + resultWord.token] = wanted.tokens[row]!
      continue
    }
    // What the definition adds up: floor(e^x * 2^40) of each.
    const most = Math.max(...own)
    const exact = own.map((logit) => logit - most)
    const sum = [...exact].reduce((sum, x) => sum + BigInt(Math.floor(Math.exp(x) * 2 ** 40)), 0n)
    words[at + resultWord.token] = wanted.tokens[row]!
    floats[at + resultWord.logit] = own[wanted.tokens[row]!]!
    floats[at + resultWord.most] = most
    words[at + resultWord.sumLow] = Number(sum & 0xffffffffn)
    words[at + resultWord.sumHigh] = Number(sum >> 32n)
    for (let i = 0; i < 3; i++) {
      words[at + resultWord.topTokens + i] = wanted.topTokens[i]!
      floats[at + resultWord.topLogits + i] = own[wanted.topTokens[i]!]!
    }
  }
  const done = newStepDone(input, { ...shape, hidden: 0 })
  writeResults(new Uint8Array(words.buffer), input.sampling, done)
  expect(done.logprobs[0]).toBeCloseTo(wanted.logprobs[0]!, 5)
  for (let i = 0; i < 20; i++) {
    expect(done.topLogprobs[i]).toBeCloseTo(wanted.topLogprobs[i]!, 5)
  }
  const { logprobs, topLogprobs, ...others } = done
  const { logprobs: _, topLogprobs: __, ...same } = wanted
  expect(others).toEqual(same)
  expect([logprobs[1], logprobs[2]]).toEqual([0, 0])
  expect(topLogprobs.subarray(20).every((x) => x === 0)).toBe(true)
})
