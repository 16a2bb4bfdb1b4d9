// A step's input is checked before anything is computed: an index out of range here would read somebody else's memory in
// a native target, and silently compute nonsense in this one.

import type { Manifest } from "./manifest.ts"
import {
  BLOCK,
  blockIndex,
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  type ProgramLimits,
  type SamplingRows,
  type StepInput,
  UNMASKED,
} from "./program.ts"

/** @throws an internal error that names the array and the value. */
export function checkStep(
  input: StepInput,
  { shapes, sinks }: Pick<Manifest, "shapes" | "sinks">,
  limits: ProgramLimits,
  takesHidden: boolean,
): void {
  const total = input.tokens.length
  const sequences = input.starts.length - 1
  const rows = input.logitRows.length
  require(total <= limits.tokens, `${total} tokens in a step of at most ${limits.tokens}`)
  require(sequences <= limits.sequences, `${sequences} sequences of at most ${limits.sequences}`)
  require(rows <= limits.rows, `${rows} logits rows of at most ${limits.rows}`)
  require(input.hiddenRows.length <= limits.tokens, "more hidden rows than tokens")
  requireLength("positions", input.positions, total)
  const groups = limits.blocks.length
  requireLength("blockStarts", input.blockStarts, groups * sequences + 1)
  requireLength("visibleFrom", input.visibleFrom, groups * sequences)
  requireStarts("starts", input.starts, total)
  requireStarts("blockStarts", input.blockStarts, input.blocks.length)
  requireBelow("tokens", input.tokens, shapes.vocabulary)
  requireBelow("logitRows", input.logitRows, total)
  requireBelow("hiddenRows", input.hiddenRows, total)
  require((input.hiddenIn !== undefined) ===
    takesHidden, `hiddenIn is ${takesHidden ? "missing" : "not taken"}`)
  if (input.hiddenIn) requireLength("hiddenIn", input.hiddenIn, total * shapes.hidden)
  for (let s = 0; s < sequences; s++) checkSequence(input, s, shapes.context)
  for (const [group, blocks] of limits.blocks.entries()) checkBlocks(input, group, blocks, sinks)
  checkSampling(input.sampling, rows, shapes.vocabulary)
}

/** Its positions follow one another. */
function checkSequence(input: StepInput, s: number, context: number): void {
  const [from, to] = [input.starts[s]!, input.starts[s + 1]!]
  require(to > from, `sequence ${s} has no tokens`)
  const first = input.positions[from]!
  for (let i = from; i < to; i++)
    require(input.positions[i] ===
      first + i - from, `positions[${i}] does not follow the one before`)
  const last = first + to - from - 1
  require(first >= 0 && last < context, `positions ${first} … ${last} of a context of ${context}`)
}

/** A block of the group is there for each position. */
function checkBlocks(input: StepInput, group: number, blocks: number, sinks: number): void {
  const { starts, positions, blockStarts, visibleFrom } = input
  const sequences = starts.length - 1
  for (let s = 0; s < sequences; s++) {
    const [first, last] = [positions[starts[s]!]!, positions[starts[s + 1]! - 1]!]
    const list = group * sequences + s
    const visible = visibleFrom[list]!
    require(visible >= 0 &&
      visible <= first, `visibleFrom[${list}] is ${visible}, the step begins at ${first}`)
    const needed = blockIndex(Math.floor(last / BLOCK), visible, sinks) + 1
    const has = blockStarts[list + 1]! - blockStarts[list]!
    require(has >= needed, `sequence ${s} has ${has} blocks and needs ${needed}`)
    requireBelow("blocks", input.blocks.subarray(blockStarts[list], blockStarts[list + 1]), blocks)
  }
}

function checkSampling(sampling: SamplingRows, rows: number, vocabulary: number): void {
  const { countStarts, countTokens, counts, biasStarts, biasTokens, biases, masks, maskRow } =
    sampling
  const perRow = [
    "temperature",
    "topK",
    "topP",
    "minP",
    "presence",
    "frequency",
    "repetition",
    "maskRow",
    "seed",
    "choice",
    "position",
    "topLogprobs",
  ] as const
  for (const name of perRow) requireLength(`sampling.${name}`, sampling[name], rows)
  requireLength("sampling.countStarts", countStarts, rows + 1)
  requireLength("sampling.biasStarts", biasStarts, rows + 1)
  requireStarts("sampling.countStarts", countStarts, countTokens.length)
  requireStarts("sampling.biasStarts", biasStarts, biasTokens.length)
  requireLength("sampling.counts", counts, countTokens.length)
  requireLength("sampling.biases", biases, biasTokens.length)
  requireBelow("sampling.countTokens", countTokens, vocabulary)
  requireBelow("sampling.biasTokens", biasTokens, vocabulary)
  const most = Math.min(MAX_TOP_LOGPROBS, vocabulary)
  for (const count of sampling.topLogprobs)
    require(count >= NO_LOGPROBS && count <= most, `sampling.topLogprobs: ${count} of ${most}`)
  const masked = Math.floor(masks.length / Math.ceil(vocabulary / 32))
  for (const row of maskRow)
    require(row === UNMASKED || (row >= 0 && row < masked), `sampling.maskRow: no mask ${row}`)
}

function requireLength(name: string, array: { length: number }, length: number): void {
  require(array.length === length, `${name} has ${array.length} entries, not ${length}`)
}

/** From 0 to `end`, never falling. */
function requireStarts(name: string, starts: Int32Array, end: number): void {
  const falls = starts.findIndex((start, i) => i > 0 && start < starts[i - 1]!)
  require(falls < 0, `${name}[${falls}] is less than the one before`)
  require(starts[0] === 0 && starts.at(-1) === end, `${name} does not span 0 … ${end}`)
}

function requireBelow(name: string, values: Int32Array, limit: number): void {
  const wrong = values.findIndex((value) => value < 0 || value >= limit)
  require(wrong < 0, `${name}[${wrong}] is ${values[wrong]}, not below ${limit}`)
}

function require(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`internal: step refused: ${what}`)
}
