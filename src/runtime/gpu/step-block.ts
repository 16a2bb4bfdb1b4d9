// A step's input as one piece of memory: what kernels are told of a step lies in it as 32-bit words, and what the sampler
// answers. Everything has its fixed place, so that launches that were recorded once find each step's numbers; lists whose
// length nobody knows beforehand come last, and when one has outgrown its room the places of those lists change.
//
// What is here is a copy in this process. Whoever owns the device's takes over the ranges that a step has written. There may be two
// of those, of steps that are handed over one behind the other: nothing is written where results lie, so that a step finds what
// the one before it has drawn in that one's.

import { noiseKey } from "../noise.ts"
import {
  adaptersOf,
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  type ProgramLimits,
  type SamplingRows,
  type StepDone,
  type StepInput,
  TOLD,
  UNMASKED,
} from "../program.ts"
import { axisOf, coordinatesAlong, coordinatesOf, type Rotation, writeTurns } from "../rotation.ts"
import { logOfShares, partOf } from "../sampling.ts"
import { settled } from "../single.ts"
import { type RowSet, rowSets, StepRows } from "../step-rows.ts"
import { AttentionWork, WORK, type WorkCount } from "./attention-work.ts"
import {
  type AskedName,
  type CountName,
  DRAWN,
  MOST_LISTED,
  NO_MASK,
  NO_STATE,
  RESULT_WORDS,
  type Region,
  resultWord,
  SAMPLING_WORDS,
  samplingWord,
} from "./regions.ts"

/** What decides how large things are. */
export interface StepShape {
  limits: ProgramLimits
  sinks: number // the manifest's
  words?: true | undefined // the manifest's
  vocabulary: number
  taken: number // columns of rows that are taken in
}

/** Some bytes of the block. */
export interface Range {
  from: number
  to: number
}

type Words = Int32Array | Uint32Array | Float32Array

/** A region and its place. Lengths are in words. */
interface Part {
  region: Region
  at: number
  capacity: number
  length: number // in this step
  /** What this step has in it, in memory that is used again. */
  take: (input: StepInput) => Words
}

const NOTHING = new Int32Array(0)
const FEW_CHUNKS = 16

/** Parts begin at multiples of 16 bytes. */
const ALIGNED = 4
/** Ranges nearer to each other than this are one: copying what lies between costs less than another call. */
const GAP_BYTES = 16384

export class StepBlock {
  readonly #shape: StepShape
  readonly #rows: StepRows
  #asked: Readonly<Record<AskedName, boolean>> = askedBy(NO_SAMPLING)
  readonly #attention = new Map<string, AttentionWork>()
  readonly #parts: readonly Part[] // of each region
  readonly #fixed: readonly Part[] // as they lie, behind the results
  readonly #lists: readonly Part[] // behind those
  #integers!: Int32Array
  #words!: Uint32Array
  #floats!: Float32Array

  /** @param regions those of a tape */
  constructor(shape: StepShape, regions: readonly Region[]) {
    this.#shape = shape
    this.#rows = new StepRows(shape.limits, shape.sinks, shape.words)
    for (const region of regions)
      if (region.name === "items")
        this.#attention.set(region.of, new AttentionWork(region.order, shape.sinks))
    this.#parts = regions.map((region) => ({ region, at: 0, length: 0, ...this.#contents(region) }))
    const placed = this.#parts.filter(({ region }) => !isOfResults(region))
    this.#lists = placed.filter(({ region }) => isList(region))
    // What is small comes first, so that the words of a short step lie near one another.
    this.#fixed = placed
      .filter(({ region }) => !isList(region))
      .sort((a, b) => a.capacity - b.capacity)
    this.#place()
  }

  /** All of it, to be written to the device's. Another array once `fill` said so. */
  get bytes(): Uint8Array {
    return new Uint8Array(this.#words.buffer)
  }

  /** Where a region begins, in bytes, by its number. Lists move when the block grows. */
  offsetOf(region: number): number {
    return this.#parts[region]!.at * 4
  }

  /**
   * Takes a step's input that has been checked. Tokens that the step before draws are told as its rows of results.
   * @returns whether the block has grown: then the device's must be made anew, and what was recorded with its places
   */
  fill(input: StepInput): boolean {
    this.#rows.take(input)
    this.#asked = askedBy(input.sampling)
    for (const work of this.#attention.values()) work.take(this.#rows, input)
    const hasGrown = !this.#write(this.#lists, input)
    if (hasGrown) {
      this.#place()
      this.#write(this.#lists, input)
    }
    this.#write(this.#fixed, input)
    return hasGrown
  }

  /** What the last `fill` has written. */
  written(): Range[] {
    const ranges: Range[] = []
    for (const parts of [this.#fixed, this.#lists])
      for (const { at, length } of parts) {
        if (length === 0) continue
        const [from, to] = [at * 4, (at + length) * 4]
        const last = ranges.at(-1)
        if (last && from - last.to < GAP_BYTES) last.to = to
        else ranges.push({ from, to })
      }
    return ranges
  }

  /** Of the step that was filled in: what decides how many groups its kernels need, and how often they run. */
  countOf(of: RowSet | CountName): number {
    return this.counter(of)()
  }

  /** `countOf`, of each step anew: to be asked for once, since names are taken apart here. */
  counter(of: RowSet | CountName): () => number {
    if (isRowSet(of)) return () => this.#rows.tokensOf(of).length
    if (of === "sequences") return () => this.#rows.sequenceCount
    const space = of.indexOf(" ")
    if (of.startsWith("asked ")) {
      const name = of.slice(space + 1) as AskedName
      return () => (this.#asked[name] ? 1 : 0)
    }
    const work = this.#workOf(of.slice(space + 1))
    const count = of.slice(0, space) as WorkCount
    return () => work.count(count)
  }

  /** Bytes that the results of so many logits rows take, from the block's beginning. */
  static resultBytes(rows: number): number {
    return rows * RESULT_WORDS * 4
  }

  #workOf(items: string): AttentionWork {
    const work = this.#attention.get(items)
    if (!work) throw new Error(`internal: a step has no items ${items}`)
    return work
  }

  /** Where everything lies, by the capacities. */
  #place(): void {
    let end = this.#shape.limits.rows * RESULT_WORDS
    for (const parts of [this.#fixed, this.#lists])
      for (const part of parts) {
        part.at = Math.ceil(end / ALIGNED) * ALIGNED
        end = part.at + part.capacity
      }
    const buffer = new ArrayBuffer(end * 4)
    this.#integers = new Int32Array(buffer)
    this.#words = new Uint32Array(buffer)
    this.#floats = new Float32Array(buffer)
  }

  /** @returns whether there was room for all of them; there is, once they have been placed again */
  #write(parts: readonly Part[], input: StepInput): boolean {
    let fits = true
    for (const part of parts) {
      const words = part.take(input)
      part.length = words.length
      while (part.capacity < words.length) {
        part.capacity *= 2
        fits = false
      }
      if (!fits) continue
      if (words instanceof Int32Array) this.#integers.set(words, part.at)
      else if (words instanceof Uint32Array) this.#words.set(words, part.at)
      else this.#floats.set(words, part.at)
    }
    return fits
  }

  /** How much room a region has, at first if it is a list, and how a step's words of it are had. */
  #contents(region: Region): { capacity: number; take: Part["take"] } {
    const { limits, vocabulary, taken } = this.#shape
    const { tokens, sequences } = limits
    const rows = this.#rows
    switch (region.name) {
      case "count": {
        const count = new Int32Array(1)
        const counter = this.counter(region.of)
        return {
          capacity: 1,
          take: () => {
            count[0] = counter()
            return count
          },
        }
      }
      case "tokens":
        return { capacity: tokens, take: toldOrDrawn(tokens) }
      case "positions":
        return { capacity: tokens, take: (input) => input.positions }
      case "sequences":
        return { capacity: tokens, take: () => rows.sequences }
      case "starts":
        return { capacity: sequences + 1, take: (input) => input.starts }
      case "states": {
        const states = new Int32Array(2 * sequences)
        return { capacity: states.length, take: (input) => statesOf(input, region.group, states) }
      }
      case "places": {
        const axis = axisOf[region.of]
        return { capacity: tokens, take: (input) => coordinatesAlong(axis, input) }
      }
      case "adapters":
        return { capacity: tokens, take: adaptersOf }
      case "tokensOf":
        return {
          capacity: region.set === "logits" ? limits.rows : tokens,
          take: () => rows.tokensOf(region.set),
        }
      case "rowsInWanted":
        return { capacity: tokens, take: () => rows.rowsIn("wanted") }
      case "slots":
        return { capacity: tokens, take: () => rows.slotsIn(region.group) }
      case "lastSlots": {
        const { group, count, ahead } = region
        const slots = new Int32Array(tokens * count)
        return {
          capacity: slots.length,
          take: (input) => rows.lastSlots(group, { count, ahead }, input, slots),
        }
      }
      case "firstSeen":
        return {
          capacity: tokens,
          take: ofTokens(rows, tokens, (token) => rows.firstSeen(token, region)),
        }
      case "lastSeen": {
        const visible = { window: region.window, bidirectional: true } as const
        return {
          capacity: tokens,
          take: ofTokens(rows, tokens, (token) => rows.lastSeen(token, visible)),
        }
      }
      case "crossSeen": {
        const { cross } = region
        return {
          capacity: tokens,
          take: ofTokens(rows, tokens, (token) => rows.lastSeen(token, { cross })),
        }
      }
      case "seenTo":
        return { capacity: tokens, take: ({ seenTo, positions }) => seenTo ?? positions }
      case "blocks":
        return { capacity: 16 * sequences, take: (input) => input.blocks }
      case "items": {
        const work = this.#workOf(region.of)
        return { capacity: 4 * WORK * sequences, take: () => work.items }
      }
      case "chunkStarts": {
        const work = this.#workOf(region.of)
        return { capacity: FEW_CHUNKS, take: () => padded(work.chunkStarts) }
      }
      case "waiting": {
        const work = this.#workOf(region.of)
        return { capacity: tokens, take: () => work.waiting }
      }
      case "turns": {
        const turns = new Turns(region.rotation, tokens)
        return { capacity: tokens * turns.columns, take: (input) => turns.of(input) }
      }
      case "hiddenIn":
        return { capacity: tokens * taken, take: ({ hiddenIn }) => hiddenIn ?? NOTHING }
      case "sampling": {
        if (region.array === "rows") {
          const words = new SamplingWords(limits.rows, vocabulary)
          return {
            capacity: limits.rows * SAMPLING_WORDS,
            take: ({ sampling }) => words.of(sampling),
          }
        }
        const { array } = region
        const capacity = array === "masks" ? 4 * Math.ceil(vocabulary / 32) : 1024
        return { capacity, take: ({ sampling }) => sampling[array] }
      }
      case "results":
      case "drawn":
        return { capacity: 0, take: () => NOTHING }
    }
  }
}

function isRowSet(of: RowSet | CountName): of is RowSet {
  return rowSets.some((set) => set === of)
}

/** Where results lie, in this step's block or in that of the one before. */
const isOfResults = ({ name }: Region) => name === "results" || name === "drawn"

/** Whether nobody knows beforehand how long it can be. */
function isList(region: Region): boolean {
  if (region.name === "sampling") return region.array !== "rows"
  return region.name === "blocks" || region.name === "items" || region.name === "chunkStarts"
}

/** @param most in a step */
function toldOrDrawn(most: number): Part["take"] {
  const words = new Int32Array(most)
  return ({ tokens, drawnBy }) => {
    if (!drawnBy) return tokens
    for (const [i, row] of drawnBy.entries()) words[i] = row === TOLD ? tokens[i]! : DRAWN | row
    return words.subarray(0, tokens.length)
  }
}

function statesOf(
  { starts, positions, blocks, blockStarts }: StepInput,
  group: number,
  states: Int32Array,
): Int32Array {
  const sequences = starts.length - 1
  for (let s = 0; s < sequences; s++) {
    const list = blockStarts[group * sequences + s]!
    states[2 * s] = positions[starts[s]!]! > 0 ? blocks[list]! : NO_STATE
    states[2 * s + 1] = blocks[list + 1]!
  }
  return states.subarray(0, 2 * sequences)
}

/** A number of each token of a step. */
function ofTokens(
  rows: StepRows,
  tokens: number,
  numberOf: (token: number) => number,
): () => Int32Array {
  const numbers = new Int32Array(tokens)
  return () => {
    const { length } = rows.sequences
    for (let token = 0; token < length; token++) numbers[token] = numberOf(token)
    return numbers.subarray(0, length)
  }
}

/**
 * Twice as many chunks as there are, and at least a few, so that kernels may be launched for a rounded number of them: those
 * that are not there begin and end where the last one ends.
 */
function padded(starts: readonly number[]): Int32Array {
  const all = new Int32Array(Math.max(FEW_CHUNKS, 2 * starts.length)).fill(starts.at(-1)!)
  all.set(starts)
  return all
}

/** Positions whose turns are kept: those of prompts come again, and a prompt's are those of another. */
const KEPT_POSITIONS = 4096

/** The turns of a step's tokens; computing a row takes some microseconds, so those of positions met before are kept. */
class Turns {
  readonly columns: number
  readonly #rotation: Rotation
  readonly #kept: Float32Array // [KEPT_POSITIONS, columns] at the position's number, less its multiples of the first
  readonly #positions = new Int32Array(KEPT_POSITIONS).fill(-1)
  readonly #rows: Float32Array // [tokens, columns]

  constructor(rotation: Rotation, tokens: number) {
    this.columns = 2 * rotation.frequencies.length
    this.#rotation = rotation
    this.#kept = new Float32Array(KEPT_POSITIONS * this.columns)
    this.#rows = new Float32Array(tokens * this.columns)
  }

  of({ positions, coordinates }: StepInput): Float32Array {
    const { columns } = this
    const { axes } = this.#rotation
    for (let token = 0; token < positions.length; token++) {
      const position = positions[token]!
      const places =
        axes && coordinates ? [...coordinatesOf(coordinates, token), position] : [position]
      this.#rows.set(this.#turnsAt(places[0]!), token * columns)
      for (let axis = 1; axis < places.length; axis++)
        if (places[axis] !== places[0]) this.#turnAxis(axis, places[axis]!, token * columns)
    }
    return this.#rows.subarray(0, positions.length * columns)
  }

  /** Overwrites the pairs that this axis turns: each is what it is at that position, whatever the other axes say. */
  #turnAxis(axis: number, position: number, at: number): void {
    const turns = this.#turnsAt(position)
    const pairs = this.columns / 2
    for (let i = 0; i < pairs; i++) {
      if (this.#rotation.axes![i] !== axis) continue
      this.#rows[at + i] = turns[i]!
      this.#rows[at + pairs + i] = turns[pairs + i]!
    }
  }

  /** Good until the next call. */
  #turnsAt(position: number): Float32Array {
    const { columns } = this
    const slot = position % KEPT_POSITIONS
    if (this.#positions[slot] !== position) {
      writeTurns(position, this.#rotation, this.#kept, slot * columns)
      this.#positions[slot] = position
    }
    return this.#kept.subarray(slot * columns, (slot + 1) * columns)
  }
}

type Asking = Pick<SamplingRows, "temperature" | "topP" | "topK" | "topLogprobs">

const NO_SAMPLING: Asking = {
  temperature: new Float32Array(),
  topP: new Float32Array(),
  topK: new Int32Array(),
  topLogprobs: new Int32Array(),
}

function askedBy({ temperature, topP, topK, topLogprobs }: Asking): Record<AskedName, boolean> {
  const asked = { raced: false, counted: false, weighed: false, described: false }
  let listed = true
  for (const row of temperature.keys()) {
    if (topLogprobs[row] !== NO_LOGPROBS) asked.described = true
    if (isGreedyRow(temperature[row]!, topP[row]!)) continue
    asked.raced = true
    if (topK[row]! > 0) asked.counted = true
    if (partOf(Math.min(settled(topP[row]!), 1)) < partOf(1)) asked.weighed = true
    if (topK[row]! <= 0 || topK[row]! > MOST_LISTED) listed = false
  }
  if (!listed || !asked.raced) return { ...asked, listed: false, unlisted: true }
  const { described } = asked
  return { described, raced: false, counted: false, weighed: false, listed, unlisted: false }
}

const isGreedyRow = (temperature: number, topP: number) =>
  settled(temperature) === 0 || settled(topP) === 0

/** Rows of sampling, as `samplingWord` says. */
class SamplingWords {
  readonly #words: Uint32Array
  readonly #floats: Float32Array
  readonly #maskWords: number

  constructor(rows: number, vocabulary: number) {
    this.#words = new Uint32Array(rows * SAMPLING_WORDS)
    this.#floats = new Float32Array(this.#words.buffer)
    this.#maskWords = Math.ceil(vocabulary / 32)
  }

  of(rows: SamplingRows): Uint32Array {
    const count = rows.temperature.length
    for (let row = 0; row < count; row++) this.#write(row, rows)
    return this.#words.subarray(0, count * SAMPLING_WORDS)
  }

  #write(row: number, rows: SamplingRows): void {
    const words = this.#words
    const floats = this.#floats
    const at = row * SAMPLING_WORDS
    const temperature = settled(rows.temperature[row]!)
    const topP = settled(rows.topP[row]!)
    const repetition = settled(rows.repetition[row]!)
    const isGreedy = isGreedyRow(temperature, topP)
    words[at + samplingWord.isGreedy] = isGreedy ? 1 : 0
    floats[at + samplingWord.inverseTemperature] = isGreedy ? 0 : settled(1 / temperature)
    words[at + samplingWord.topK] = rows.topK[row]!
    words[at + samplingWord.topPart] = partOf(Math.min(topP, 1))
    floats[at + samplingWord.minP] = settled(rows.minP[row]!)
    floats[at + samplingWord.presence] = settled(rows.presence[row]!)
    floats[at + samplingWord.frequency] = settled(rows.frequency[row]!)
    floats[at + samplingWord.repetition] = repetition
    floats[at + samplingWord.inverseRepetition] = settled(1 / repetition)
    words[at + samplingWord.countStart] = rows.countStarts[row]!
    words[at + samplingWord.countEnd] = rows.countStarts[row + 1]!
    words[at + samplingWord.biasStart] = rows.biasStarts[row]!
    words[at + samplingWord.biasEnd] = rows.biasStarts[row + 1]!
    const mask = rows.maskRow[row]!
    words[at + samplingWord.maskStart] = mask === UNMASKED ? NO_MASK : mask * this.#maskWords
    const key = noiseKey(rows.seed[row]!, rows.choice[row]!, rows.position[row]!)
    words[at + samplingWord.noiseLow] = key.low
    words[at + samplingWord.noiseHigh] = key.high
    words[at + samplingWord.topLogprobs] = rows.topLogprobs[row]!
  }
}

/**
 * Writes what the sampler found: logarithms are the host's, as runtime/sampling.ts has them.
 * @param bytes the first `resultBytes` of the block
 */
export function writeResults(bytes: Uint8Array, rows: SamplingRows, out: StepDone): void {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  const floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  for (let row = 0; row < out.tokens.length; row++) {
    const at = row * RESULT_WORDS
    if (words[at + resultWord.isFinite] === 0) continue // all of the row stays 0
    out.finite[row] = 1
    out.tokens[row] = words[at + resultWord.token]!
    const wanted = rows.topLogprobs[row]!
    if (wanted === NO_LOGPROBS) continue
    const most = floats[at + resultWord.most]!
    const logSum = logOfShares(
      words[at + resultWord.sumHigh]! * 2 ** 32 + words[at + resultWord.sumLow]!,
    )
    out.logprobs[row] = floats[at + resultWord.logit]! - most - logSum
    const first = row * MAX_TOP_LOGPROBS
    for (let i = 0; i < wanted; i++) {
      out.topTokens[first + i] = words[at + resultWord.topTokens + i]!
      out.topLogprobs[first + i] = floats[at + resultWord.topLogits + i]! - most - logSum
    }
  }
}
