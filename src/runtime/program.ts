// What the engine runs. A Program is an opened, compiled model: it holds the weights and the KV blocks and takes steps.
// Its commonest implementation is a shared library behind one narrow C ABI; the reference interpreter and test programs
// implement it directly. A step is one crossing: flat arrays go in, flat arrays come out, and nothing here is per kernel.
//
// Everything is said per token, per sequence or per row, never per batch, because a row's result must not depend on its
// company: the same sequence gives the same bits alone, batched, chunked, or with its prefix computed by somebody else.

import type { FloatType } from "./format.ts"
import { givenColumns, type Manifest, type Shapes } from "./manifest.ts"

/** Positions in one KV block. */
export const BLOCK = 16

export interface Program {
  readonly manifest: Manifest
  readonly limits: ProgramLimits

  /** Draws a token for every row of `sampling`, or hands back `cancelled` once the cancel word is set; then the step's
   *  KV positions hold garbage and may simply be written again. One step at a time; throws when the program fails. */
  step(input: StepInput, cancel: CancelWord): Promise<StepOutput>

  /** Takes a second step while one runs, to run it behind that one: `drawnBy` of a step names tokens of the one before. One that
   *  is behind a step which failed or was cancelled ends as that one did, and has computed nothing. Absent: one at a time. */
  readonly chains?: true

  /** Copies whole KV blocks of a group, `from[i]` to `to[i]`, in order. Not while a step runs. */
  copyBlocks(group: number, from: Int32Array, to: Int32Array): Promise<void>

  close(): Promise<void>
}

/** What a program throws when it can take no step ever again: its device, or the thread it ran in, is gone. */
export class ProgramLost extends Error {}

/**
 * Rows of GGUF's blocks, of the type with that number there, as rows of codes and of scales (model/gguf/blocks.ts). Patterns:
 * the words that codes of IQ1 to IQ3 point to.
 */
export type UnpackBlocks = (
  type: number,
  rows: number,
  columns: number,
  blocks: Uint8Array,
  patterns: Uint32Array,
  codes: Uint8Array,
  scales: Uint8Array,
) => Promise<void>

/**
 * Adds left [rows, rank] times right [rank, columns] to rows of a matrix in place, which are rounded to their type again
 * (model/adapters/adapted.ts).
 */
export type AddProduct = (type: FloatType, ...of: ProductOperands) => Promise<void>

export type ProductOperands = [
  rows: number,
  columns: number,
  rank: number,
  left: Float32Array,
  right: Float32Array,
  values: Uint8Array,
]

/** What is done to weights on their way into a program, off the event loop. */
export interface WeightWork {
  unpackBlocks: UnpackBlocks
  addProduct: AddProduct
}

/** A program before and after its parameters are in. */
export interface LoadableProgram extends Program {
  /**
   * Rows `row` … `row + rows - 1` of the manifest's parameter number `parameter`, as its codec stores them: floats, or words
   * of codes with their scales beside them.
   */
  load(
    parameter: number,
    row: number,
    rows: number,
    values: Uint8Array,
    scales?: Uint8Array,
  ): Promise<void>
  /** Absent: it brings nothing for that. */
  weightWork?: WeightWork
  /**
   * Does what the first steps would have to wait for; nothing else has run. Absent: there is nothing to do.
   * @param progress hears how many of its kernels a device has made ready
   */
  warmUp?(progress: (done: number, total: number) => void, signal: AbortSignal): Promise<void>
  /** Absent where the parameters are kept in pieces. */
  readonly packed?: PackedWeights
  /** Begins what the next start alone gains from. Told behind the first reply; absent: there is nothing. */
  prepareNext?(): void
}

/**
 * The weights as the kernels read them, in one piece: for whoever keeps a copy and puts it back. They need not lie in this
 * process's memory; where they do, windows are the memory itself and nothing is copied. None is touched once the program is
 * closed.
 */
export interface PackedWeights {
  readonly bytes: number
  /** Some of them as they are now, to be read. */
  take(from: number, length: number): Promise<Uint8Array>
  /** A window to be filled for `put`. What is in it before is anybody's. */
  blank(from: number, length: number): Uint8Array
  /** Puts a window that `blank` gave for this place there. */
  put(from: number, window: Uint8Array): Promise<void>
  /** Of all of them, as they are now. */
  checksum(): Promise<bigint>
  /**
   * Lets an open file's bytes from `begin` on be read in their place, without reading them before. Who changes the file changes them.
   * Absent, or undefined where it cannot be now: they must be put there.
   */
  show?(file: number, begin: number): ShownFile | undefined
}

/** A file in the place of weights. */
export interface ShownFile {
  /**
   * Gives these bytes, read once more, memory of their own; steps may run.
   * @param from whole huge pages, where there are as many
   * @throws an Error that says why they stay the file's
   */
  own(from: number, length: number): Promise<void>
  /** Zeros in the place of all of it. */
  remove(): void
}

/** What a program was opened for; its buffers are sized by these and by nothing else. */
export interface ProgramLimits {
  blocks: readonly number[] // KV blocks of each of the manifest's groups
  tokens: number // tokens in one step
  sequences: number // sequences in one step
  rows: number // logits rows in one step
}

/** How far it pays, on a device, to open a program and to fill its steps. */
export interface StepTraits {
  stepTokens: number // in one step: longer ones gain nothing and hold everybody else up
  sequences: number // beyond these a step's decode rows leave no room for prompts
  drafts: number // a step over more rows than that is no cheaper for each than one over fewer
  /**
   * What a text repeats is proposed unless that is forbidden: a few rows cost little more than one, and no step begins before the one
   * before it has said its tokens, which a draft would keep it from.
   */
  repeats?: true
  /** Of keys and values, that can be addressed whatever memory there is, and what bounds them; absent: nothing does. */
  mostBlocks?: { value: number; why: string }
}

/** One shared word: a step that finds it non-zero between layers or tiles gives up. */
export type CancelWord = Int32Array // [1], over a SharedArrayBuffer

export interface StepInput {
  tokens: Int32Array // [total]               every sequence's new tokens, end to end; or SEEN and a row of `hiddenIn`
  starts: Int32Array // [sequences + 1]       where each sequence's tokens begin
  drawnBy?: Int32Array // [total]             which row of the step before draws each token, or TOLD; see `Program.chains`
  positions: Int32Array // [total]            position of each token in its sequence
  // Of each KV group a list for each sequence, group after group: that of group g and sequence s is number g * sequences + s.
  // Of a group of states it is two: the one that the sequence goes on from, which is left as it is, and the one that it leaves.
  blocks: Int32Array // [blockStarts.at(-1)]  KV block ids, list after list, in position order: see `blockIndex`
  blockStarts: Int32Array // [groups * sequences + 1]
  visibleFrom: Int32Array // [groups * sequences] no earlier position is read, but the manifest's `sinks` first ones
  seenFrom?: Int32Array // [total]            the first position that a token sees in mutual layers; absent: as in others
  seenTo?: Int32Array // [total]              the last position that a token sees in mutual layers; absent: its own
  coordinates?: Int32Array // [3, total]      what turns a token where a rotation has axes; absent: its position, three times
  adapters?: Int32Array // [total]            which adapter its sequence has chosen, from 1 on; 0: none, as where they are absent
  logitRows: Int32Array // [rows]             indices into tokens whose logits are wanted; several per sequence when drafts are verified
  hiddenRows: Int32Array // [n]               indices into tokens whose last hidden row is handed out, and what is given beside it
  /** Rows taken in: [total, taken] beside the tokens (EAGLE; the pixels of images), or [n, taken] in the place of those that say so. */
  hiddenIn?: Float32Array
  sampling: SamplingRows // one per logits row
  /** While it is not 0 the step stands back: a processor computes others' first. Devices with queues of their own do not look. */
  behind?: CancelWord
  wantLogits?: boolean // also hand out the raw logits: for tests, and for whoever measures
}

/** Of each token of a step. */
export const adaptersOf = ({ adapters, tokens }: Pick<StepInput, "adapters" | "tokens">) =>
  adapters ?? new Int32Array(tokens.length)

/**
 * Where block number `number` (of positions 16 * number …) stands in its sequence's list. The list holds the blocks of the
 * sinks and those from `visibleFrom` on; blocks in between have been given back and leave no gap.
 */
export function blockIndex(number: number, visibleFrom: number, sinks: number): number {
  if (number < sinkBlocks(sinks)) return number
  return number - blockGap(visibleFrom, sinks)
}

/** How many blocks the sinks lie in. */
export const sinkBlocks = (sinks: number) => Math.ceil(sinks / BLOCK)

/** How many blocks have been given back between those of the sinks and the others. */
export function blockGap(visibleFrom: number, sinks: number): number {
  return Math.max(0, Math.floor(visibleFrom / BLOCK) - sinkBlocks(sinks))
}

/**
 * How each logits row is turned into a token; all arrays are parallel to `logitRows`.
 * Order: bias, penalties over the counts given, mask, temperature, top-k, top-p, min-p, then the argmax over the
 * survivors of log p + Gumbel noise(seed, choice, position, token). Temperature 0, or top-p 0, takes the likeliest
 * token, the lowest id among equals.
 */
export interface SamplingRows {
  temperature: Float32Array // [rows]
  topK: Int32Array // [rows]         0 = no limit
  topP: Float32Array // [rows]
  minP: Float32Array // [rows]
  presence: Float32Array // [rows]
  frequency: Float32Array // [rows]
  repetition: Float32Array // [rows] 1 = none
  countStarts: Int32Array // [rows + 1]   the tokens generated so far, each once, and how often
  countTokens: Int32Array // [countStarts.at(-1)]
  counts: Int32Array // [countStarts.at(-1)]
  biasStarts: Int32Array // [rows + 1]
  biasTokens: Int32Array // [biasStarts.at(-1)]
  biases: Float32Array // [biasStarts.at(-1)]
  masks: Uint32Array // [masked rows, ceil(vocabulary / 32)]  bit t & 31 of word t >> 5: token t may come
  maskRow: Int32Array // [rows]      which row of `masks`, or UNMASKED
  seed: BigUint64Array // [rows]
  choice: Int32Array // [rows]
  position: Int32Array // [rows]     position that the drawn token will have
  topLogprobs: Int32Array // [rows]  how many likeliest tokens to list, at most 20, or NO_LOGPROBS
}

/** A token that is known: it stands in `tokens`. */
export const TOLD = -1
/** In `tokens`, what is behind it is the row of `hiddenIn` that stands in a token's place; no vocabulary reaches so far. */
export const SEEN = 0x40000000
export const UNMASKED = -1
export const MAX_TOP_LOGPROBS = 20
/** Not even the drawn token's: its place then holds 0. The sum over a large vocabulary takes as long as the rest of a row. */
export const NO_LOGPROBS = -1

export type StepOutput = StepDone | { kind: "cancelled" }

export interface StepDone {
  kind: "done"
  tokens: Int32Array // [rows]                the tokens drawn
  logprobs: Float32Array // [rows]            log-softmax of the raw logits at the drawn token
  topTokens: Int32Array // [rows, 20]         the likeliest tokens of the raw logits, best first; as many as were asked
  topLogprobs: Float32Array // [rows, 20]
  finite: Uint8Array // [rows]                0: a logit was NaN or infinite, and the row's token means nothing
  hidden: Float32Array // [hiddenRows, given]
  logits?: Float32Array // [rows, vocabulary] raw, when wanted
}

/** Room for what a step of `input` hands out, all zeros. */
export function newStepDone(
  input: Pick<StepInput, "logitRows" | "hiddenRows" | "wantLogits">,
  shapes: Pick<Shapes, "hidden" | "given" | "vocabulary">,
): StepDone {
  const rows = input.logitRows.length
  return {
    kind: "done",
    tokens: new Int32Array(rows),
    logprobs: new Float32Array(rows),
    topTokens: new Int32Array(rows * MAX_TOP_LOGPROBS),
    topLogprobs: new Float32Array(rows * MAX_TOP_LOGPROBS),
    finite: new Uint8Array(rows),
    hidden: new Float32Array(input.hiddenRows.length * givenColumns(shapes)),
    ...(input.wantLogits ? { logits: new Float32Array(rows * shapes.vocabulary) } : {}),
  }
}
