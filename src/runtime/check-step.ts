// A step's input is checked before anything is computed: an index out of range would read somebody else's memory in a native
// target, and silently compute nonsense in the reference. Every step pays for it, so a sentence is put together only where
// something is wrong.

import { type KvShape, type Manifest, readableTokens, takenColumns } from "./manifest.ts"
import {
  BLOCK,
  blockIndex,
  MAX_TOP_LOGPROBS,
  NO_LOGPROBS,
  type ProgramLimits,
  type SamplingRows,
  SEEN,
  type StepInput,
  UNMASKED,
} from "./program.ts"
import { AXES } from "./rotation.ts"

/** @throws an internal error that names the array and the value. */
export function checkStep(
  input: StepInput,
  {
    shapes,
    sinks,
    takes,
    words,
    joined = 1,
    places,
    adapters = 0,
  }: Pick<Manifest, "shapes" | "sinks" | "takes" | "words" | "joined" | "places" | "adapters">,
  groups: readonly Pick<KvShape, "state">[],
  limits: ProgramLimits,
): void {
  const total = input.tokens.length
  const sequences = input.starts.length - 1
  const rows = input.logitRows.length
  if (total > limits.tokens) refuse(`${total} tokens in a step of at most ${limits.tokens}`)
  if (sequences > limits.sequences) refuse(`${sequences} sequences of at most ${limits.sequences}`)
  if (rows > limits.rows) refuse(`${rows} logits rows of at most ${limits.rows}`)
  if (input.hiddenRows.length > limits.tokens) refuse("more hidden rows than tokens")
  requireLength("positions", input.positions, total)
  requireLength("blockStarts", input.blockStarts, groups.length * sequences + 1)
  requireLength("visibleFrom", input.visibleFrom, groups.length * sequences)
  requireStarts("starts", input.starts, total)
  requireStarts("blockStarts", input.blockStarts, input.blocks.length)
  checkTaken(input, shapes, takes)
  requireBelow("logitRows", input.logitRows, total)
  requireBelow("hiddenRows", input.hiddenRows, total - joined + 1)
  if (input.seenTo) requireLength("seenTo", input.seenTo, total)
  if (input.seenFrom) requireLength("seenFrom", input.seenFrom, total)
  if (input.coordinates) requireLength("coordinates", input.coordinates, AXES * total)
  if (places) requireBelow("coordinates", input.coordinates ?? input.positions, places)
  if (input.adapters) {
    requireLength("adapters", input.adapters, total)
    requireBelow("adapters", input.adapters, adapters + 1)
  }
  const least = words ? "anywhere" : takes === "all" ? "in the step" : "itself"
  for (let s = 0; s < sequences; s++) checkSequence(input, s, shapes.context, least)
  for (const [group, blocks] of limits.blocks.entries())
    if (groups[group]!.state === undefined) checkBlocks(input, group, blocks, sinks)
    else checkStates(input, group, blocks)
  checkSampling(input.sampling, rows, shapes.vocabulary)
}

/** Tokens are of the vocabulary, or name a row that is there. */
function checkTaken(
  { tokens, hiddenIn }: StepInput,
  shapes: Manifest["shapes"],
  takes: Manifest["takes"],
): void {
  const [readable, taken] = [readableTokens(shapes), takenColumns(shapes)]
  if (hiddenIn && !takes) refuse("hiddenIn is not taken")
  if (!hiddenIn && takes === "all") refuse("hiddenIn is missing")
  if (!hiddenIn || takes === "all") requireBelow("tokens", tokens, readable)
  if (!hiddenIn) return
  const rows = hiddenIn.length / taken
  if (takes === "all") requireLength("hiddenIn", hiddenIn, tokens.length * taken)
  else if (!Number.isInteger(rows) || rows > tokens.length)
    refuse(
      `hiddenIn has ${hiddenIn.length} entries, no rows of ${taken} for ${tokens.length} tokens`,
    )
  else
    for (let i = 0; i < tokens.length; i++) {
      const [token, row] = [tokens[i]!, tokens[i]! - SEEN]
      const isThere = row < 0 ? token >= 0 && token < readable : row < rows
      if (!isThere)
        refuse(`tokens[${i}] is ${token}, neither below ${readable} nor one of ${rows} rows`)
    }
}

/** Where what a token sees ends at the least: of a tower a row may see others and not itself, and where images are cross-attention's, nothing of its step. */
type Least = "anywhere" | "in the step" | "itself"

/** Its positions follow one another. */
function checkSequence(input: StepInput, s: number, context: number, least: Least): void {
  const from = input.starts[s]!
  const to = input.starts[s + 1]!
  if (to <= from) refuse(`sequence ${s} has no tokens`)
  const first = input.positions[from]!
  for (let i = from; i < to; i++)
    if (input.positions[i] !== first + i - from)
      refuse(`positions[${i}] does not follow the one before`)
  const last = first + to - from - 1
  const seenTo = input.seenTo?.subarray(from, to)
  if (seenTo) checkSeen(seenTo, first, last, least)
  if (input.seenFrom) checkSeenFrom(input.seenFrom.subarray(from, to), first, seenTo)
  if (first < 0 || last >= context)
    refuse(`positions ${first} … ${last} of a context of ${context}`)
}

/** No token sees what is behind the last one. */
function checkSeen(seenTo: Int32Array, first: number, last: number, least: Least): void {
  for (let i = 0; i < seenTo.length; i++) {
    const from = { anywhere: 0, "in the step": first, itself: first + i }[least]
    if (seenTo[i]! < from || seenTo[i]! > last)
      refuse(
        `seenTo[${i}] of a sequence is ${seenTo[i]}, it is at ${first + i} and ends at ${last}`,
      )
  }
}

/** What a token sees begins no later than itself and where it ends. */
function checkSeenFrom(seenFrom: Int32Array, first: number, seenTo: Int32Array | undefined): void {
  for (let i = 0; i < seenFrom.length; i++) {
    const most = Math.min(first + i, seenTo?.[i] ?? first + i)
    if (seenFrom[i]! < 0 || seenFrom[i]! > most)
      refuse(`seenFrom[${i}] of a sequence is ${seenFrom[i]}, it is at ${first + i}`)
  }
}

/** A block of the group is there for each position. */
function checkBlocks(input: StepInput, group: number, blocks: number, sinks: number): void {
  const { starts, positions, blockStarts, visibleFrom } = input
  const sequences = starts.length - 1
  for (let s = 0; s < sequences; s++) {
    const first = positions[starts[s]!]!
    const last = positions[starts[s + 1]! - 1]!
    const list = group * sequences + s
    const visible = visibleFrom[list]!
    if (visible < 0 || visible > first)
      refuse(`visibleFrom[${list}] is ${visible}, the step begins at ${first}`)
    const needed = blockIndex(Math.floor(last / BLOCK), visible, sinks) + 1
    const has = blockStarts[list + 1]! - blockStarts[list]!
    if (has < needed) refuse(`sequence ${s} has ${has} blocks and needs ${needed}`)
    requireBelow("blocks", input.blocks.subarray(blockStarts[list], blockStarts[list + 1]), blocks)
  }
}

/** Nobody's state is written by two, or while another reads it. */
function checkStates(
  { starts, positions, blocks, blockStarts }: StepInput,
  group: number,
  count: number,
) {
  const sequences = starts.length - 1
  const read = new Set<number>()
  const written = new Set<number>()
  for (let s = 0; s < sequences; s++) {
    const list = group * sequences + s
    const states = blocks.subarray(blockStarts[list], blockStarts[list + 1])
    requireLength("states", states, 2)
    requireBelow("states", states, count)
    const [from, to] = states
    if (positions[starts[s]!]! > 0) read.add(from!)
    if (written.has(to!)) refuse(`two sequences leave state ${to}`)
    written.add(to!)
  }
  for (const state of read) if (written.has(state)) refuse(`state ${state} is read and written`)
}

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

function checkSampling(sampling: SamplingRows, rows: number, vocabulary: number): void {
  const { countStarts, countTokens, counts, biasStarts, biasTokens, biases, masks, maskRow } =
    sampling
  for (const name of perRow)
    if (sampling[name].length !== rows)
      refuse(`sampling.${name} has ${sampling[name].length} entries, not ${rows}`)
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
    if (count < NO_LOGPROBS || count > most) refuse(`sampling.topLogprobs: ${count} of ${most}`)
  const masked = Math.floor(masks.length / Math.ceil(vocabulary / 32))
  for (const row of maskRow)
    if (row !== UNMASKED && (row < 0 || row >= masked)) refuse(`sampling.maskRow: no mask ${row}`)
}

function requireLength(name: string, array: { length: number }, length: number): void {
  if (array.length !== length) refuse(`${name} has ${array.length} entries, not ${length}`)
}

/** From 0 to `end`, never falling. */
function requireStarts(name: string, starts: Int32Array, end: number): void {
  for (let i = 1; i < starts.length; i++)
    if (starts[i]! < starts[i - 1]!) refuse(`${name}[${i}] is less than the one before`)
  if (starts[0] !== 0 || starts.at(-1) !== end) refuse(`${name} does not span 0 … ${end}`)
}

function requireBelow(name: string, values: Int32Array, limit: number): void {
  for (let i = 0; i < values.length; i++)
    if (values[i]! < 0 || values[i]! >= limit)
      refuse(`${name}[${i}] is ${values[i]}, not below ${limit}`)
}

function refuse(what: string): never {
  throw new Error(`internal: step refused: ${what}`)
}
