// Steps as tests write them: sequences with their blocks, and which rows are wanted. For any Program.

import { expect } from "vitest"
import { usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import type { Arithmetic } from "../../src/compiler/targets/reference/machine.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import type { KvShape } from "../../src/runtime/manifest.ts"
import {
  BLOCK,
  type Program,
  type ProgramLimits,
  type SamplingRows,
  type StepDone,
  type StepInput,
  TOLD,
  UNMASKED,
} from "../../src/runtime/program.ts"
import type { GoldenPrompt } from "./golden.ts"

/** How the cpu target computes attention over keys and values of 16 bits, and products of such weights, on this processor. */
export const arithmeticHere: Arithmetic = usableLevels(
  process.arch,
  processorFeatures(),
)[0].features.includes("amx_bf16")
  ? "matrix unit"
  : "vectors"

/** Some tokens of one sequence. */
export interface Part {
  tokens: ArrayLike<number>
  from: number // position of the first
  blocks: readonly number[]
  visibleFrom?: number
  /** Which of the tokens want logits, counted from 0; absent: the last one. */
  logits?: readonly number[]
  hidden?: readonly number[]
}

/** A batch of parts, each row sampled greedily. */
export function batch(parts: readonly Part[]): StepInput {
  const starts = sums(parts.map(({ tokens }) => tokens.length))
  const rowsOf = (pick: (part: Part) => readonly number[]) =>
    parts.flatMap((part, s) => pick(part).map((row) => starts[s]! + row))
  const logitRows = rowsOf(({ logits, tokens }) => logits ?? [tokens.length - 1])
  const rows = logitRows.length
  return {
    tokens: Int32Array.from(parts.flatMap(({ tokens }) => Array.from(tokens))),
    starts: Int32Array.from(starts),
    positions: Int32Array.from(
      parts.flatMap(({ tokens, from }) => Array.from(tokens, (_, i) => from + i)),
    ),
    blocks: Int32Array.from(parts.flatMap(({ blocks }) => blocks)),
    blockStarts: Int32Array.from(sums(parts.map(({ blocks }) => blocks.length))),
    visibleFrom: Int32Array.from(parts, ({ visibleFrom }) => visibleFrom ?? 0),
    logitRows: Int32Array.from(logitRows),
    hiddenRows: Int32Array.from(rowsOf(({ hidden }) => hidden ?? [])),
    wantLogits: true,
    sampling: {
      temperature: new Float32Array(rows),
      topK: new Int32Array(rows),
      topP: new Float32Array(rows).fill(1),
      minP: new Float32Array(rows),
      presence: new Float32Array(rows),
      frequency: new Float32Array(rows),
      repetition: new Float32Array(rows).fill(1),
      countStarts: new Int32Array(rows + 1),
      countTokens: new Int32Array(0),
      counts: new Int32Array(0),
      biasStarts: new Int32Array(rows + 1),
      biasTokens: new Int32Array(0),
      biases: new Float32Array(0),
      masks: new Uint32Array(0),
      maskRow: new Int32Array(rows).fill(UNMASKED),
      seed: new BigUint64Array(rows),
      choice: new Int32Array(rows),
      position: Int32Array.from(logitRows),
      topLogprobs: new Int32Array(rows),
    },
  }
}

/** A token of each of some sequences, drawn with noise; `tokens` are theirs, or rows of the step before where `isDrawn` says so. */
function nextStep(
  sequences: readonly number[],
  { position, tokens, isDrawn }: { position: number; tokens: Int32Array; isDrawn: boolean[] },
): StepInput {
  const input = batch(
    sequences.map((sequence, i) => ({
      tokens: [isDrawn[i] ? 0 : tokens[i]!],
      from: position,
      blocks: [2 * sequence, 2 * sequence + 1],
    })),
  )
  const drawnBy = tokens.map((row, i) => (isDrawn[i] ? row : TOLD))
  Object.assign(input.sampling, {
    temperature: new Float32Array(sequences.length).fill(1),
    seed: BigUint64Array.from(sequences, BigInt),
    position: Int32Array.from(sequences, () => position + 1),
  } satisfies Partial<SamplingRows>)
  return { ...input, wantLogits: false, ...(isDrawn.includes(true) && { drawnBy }) }
}

/**
 * That steps which are handed over one behind the other draw what they draw when each is told its tokens: of sequences in
 * another order in each step, some of which leave, and some whose tokens are told all the same.
 */
export async function expectChained(program: Program, vocabulary: number): Promise<void> {
  expect(program.chains).toBe(true)
  const steps = [
    [0, 1, 2, 3, 4],
    [3, 1, 4, 0, 2],
    [2, 4, 3, 0],
    [0, 2, 3, 4],
    [4, 0, 3],
    [0, 4],
  ]
  const first = Int32Array.from(steps[0]!, (sequence) => (sequence * 17 + 5) % vocabulary)
  const told: StepDone[] = []
  for (const [position, sequences] of steps.entries()) {
    const before = told.at(-1)
    const tokens = before
      ? Int32Array.from(sequences, (each) => before.tokens[steps[position - 1]!.indexOf(each)]!)
      : first
    const isDrawn = sequences.map(() => false)
    told.push(await take(program, nextStep(sequences, { position, tokens, isDrawn })))
  }
  const outputs: Promise<StepDone>[] = []
  for (const [position, sequences] of steps.entries()) {
    await outputs.at(-2) // two are at work
    const rows = Int32Array.from(sequences, (each) =>
      position > 0 ? steps[position - 1]!.indexOf(each) : 0,
    )
    const isDrawn = sequences.map((sequence) => position > 0 && sequence + position !== 5)
    const tokens = sequences.map((_, i) =>
      isDrawn[i] ? rows[i]! : position > 0 ? told[position - 1]!.tokens[rows[i]!]! : first[i]!,
    )
    const input = nextStep(sequences, { position, tokens: Int32Array.from(tokens), isDrawn })
    outputs.push(take(program, input))
  }
  expect(await Promise.all(outputs)).toEqual(told)
  expect(new Set(told.flatMap(({ tokens }) => [...tokens])).size).toBeGreaterThan(5)
}

export const notCancelled = () => new Int32Array(new SharedArrayBuffer(4))

type Groups = readonly Pick<KvShape, "state">[]

/** `blocks` for each KV group of what is opened, and a state for each of their positions. */
export function limitsFor(
  { groups }: { groups: Groups },
  { blocks, ...limits }: Omit<ProgramLimits, "blocks"> & { blocks: number },
): ProgramLimits {
  return { ...limits, blocks: groups.map(({ state }) => (state ? blocks * BLOCK : blocks)) }
}

/** The step with the same blocks in each KV group; the state behind a position has the number of the position's place. */
function inGroups(input: StepInput, groups: Groups): StepInput {
  const { blocks, blockStarts, visibleFrom, starts, positions } = input
  const sequences = [...visibleFrom.keys()]
  const place = (s: number, position: number) =>
    blocks[blockStarts[s]! + Math.floor(position / BLOCK)]! * BLOCK + (position % BLOCK)
  const lists = groups.flatMap(({ state }) =>
    sequences.map((s) => {
      if (!state) return blocks.subarray(blockStarts[s], blockStarts[s + 1])
      const [first, last] = [positions[starts[s]!]!, positions[starts[s + 1]! - 1]!]
      return Int32Array.of(place(s, Math.max(0, first - 1)), place(s, last))
    }),
  )
  return {
    ...input,
    blocks: Int32Array.from(lists.flatMap((list) => [...list])),
    blockStarts: Int32Array.from(sums(lists.map(({ length }) => length))),
    visibleFrom: Int32Array.from(groups.flatMap(() => [...visibleFrom])),
  }
}

export async function take(program: Program, input: StepInput): Promise<StepDone> {
  const output = await program.step(inGroups(input, program.manifest.kv.groups), notCancelled())
  if (output.kind !== "done") throw new Error("the step was cancelled")
  return output
}

/** As many blocks as `tokens` positions need, from `first` on. */
export function blocksFor(tokens: number, first = 0): number[] {
  return Array.from({ length: Math.ceil(tokens / BLOCK) }, (_, i) => first + i)
}

/** A prompt in chunks of `chunk`, with the logits of every position from `firstRow` on. */
export async function prefill(
  program: Program,
  tokens: Int32Array,
  blocks: readonly number[],
  { chunk = tokens.length, firstRow = 0 } = {},
): Promise<Float32Array> {
  const logits: number[][] = []
  for (let from = 0; from < tokens.length; from += chunk) {
    const part = tokens.subarray(from, from + chunk)
    const wanted = [...part.keys()].filter((i) => from + i >= firstRow)
    const done = await take(program, batch([{ tokens: part, from, blocks, logits: wanted }]))
    logits.push(Array.from(done.logits!))
  }
  return Float32Array.from(logits.flat())
}

/** Greedy tokens after a prompt whose first token is drawn already. */
export async function continueGreedily(
  program: Program,
  first: number,
  position: number,
  count: number,
  blocks: readonly number[],
): Promise<number[]> {
  const tokens = [first]
  while (tokens.length < count) {
    const from = position + tokens.length - 1
    const done = await take(program, batch([{ tokens: [tokens.at(-1)!], from, blocks }]))
    tokens.push(done.tokens[0]!)
  }
  return tokens
}

/**
 * Holds a program to a golden prompt: logits of the rows that are known within `distance`, and the greedy tokens behind them.
 * @returns its logits
 */
export async function expectGolden(
  program: Program,
  { tokens, firstRow, logits, greedy }: GoldenPrompt,
  blocks: readonly number[],
  distance: number,
): Promise<Float32Array> {
  const ours = await prefill(program, tokens, blocks, { firstRow })
  expectNear(ours, logits, { distance, arithmetic: arithmeticOf(program) })
  const last = ours.subarray(-ours.length / (tokens.length - firstRow))
  expect(last.indexOf(Math.max(...last))).toBe(greedy[0])
  const drawn = await continueGreedily(program, greedy[0]!, tokens.length, greedy.length, blocks)
  expect(drawn).toEqual([...greedy])
  return ours
}

export function worstDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY
  let worst = 0
  for (let i = 0; i < a.length; i++) worst = Math.max(worst, Math.abs(a[i]! - b[i]!))
  return worst
}

/** How a program computes products of floats: those of other targets know no matrix unit. */
export const arithmeticOf = ({ manifest }: Program): Arithmetic =>
  manifest.target === "cpu" ? arithmeticHere : "vectors"

/**
 * Holds numbers to those of another program, which keeps all bits of its floats. A matrix unit takes 16 bits of a row that meets weights
 * of 16 (docs/determinism.md); what that leaves out may come to an f16's last bit of the largest number.
 */
export function expectNear(
  made: ArrayLike<number>,
  golden: ArrayLike<number>,
  { distance, arithmetic }: { distance: number; arithmetic: Arithmetic },
): void {
  const largest = Array.from(golden).reduce((most, x) => Math.max(most, Math.abs(x)), 0)
  const ofUnit = arithmetic === "matrix unit" ? largest * 2 ** -11 : 0
  expect(worstDifference(made, golden)).toBeLessThan(Math.max(distance, ofUnit))
}

function sums(counts: readonly number[]): number[] {
  let sum = 0
  return [0, ...counts.map((count) => (sum += count))]
}
