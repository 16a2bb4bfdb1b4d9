// A step as a library takes it: struct sinter_step_arrays of abi.h, an array of 64-bit words. The tables here name its fields in
// their order; every library that is built asserts each one's place, so that neither side can change alone.

import { addressOf } from "./ffi.ts"
import type { CancelWord, StepDone, StepInput } from "./program.ts"

export interface StepArrays {
  input: StepInput
  cancel: CancelWord
  out: StepDone
  vocabulary: number
  taken: number // columns of rows that are taken in
}

/** Counts, by their names in C. */
const counts: Record<string, (step: StepArrays) => number> = {
  total: ({ input }) => input.tokens.length,
  sequences: ({ input }) => input.starts.length - 1,
  rows: ({ input }) => input.logitRows.length,
  hidden_rows: ({ input }) => input.hiddenRows.length,
  masked_rows: ({ input, vocabulary }) =>
    Math.floor(input.sampling.masks.length / Math.ceil(vocabulary / 32)),
  want_logits: ({ input }) => (input.wantLogits ? 1 : 0),
  taken_rows: ({ input, taken }) => (input.hiddenIn?.length ?? 0) / taken,
}
const RESERVED = 1 // word behind the counts

/** Arrays, by their names in C; none is a null pointer. */
const arrays: Record<string, (step: StepArrays) => ArrayBufferView | undefined> = {
  cancel: ({ cancel }) => cancel,
  behind: ({ input }) => input.behind,
  tokens: ({ input }) => input.tokens,
  starts: ({ input }) => input.starts,
  positions: ({ input }) => input.positions,
  blocks: ({ input }) => input.blocks,
  block_starts: ({ input }) => input.blockStarts,
  visible_from: ({ input }) => input.visibleFrom,
  logit_rows: ({ input }) => input.logitRows,
  hidden_rows_of: ({ input }) => input.hiddenRows,
  seen_from: ({ input }) => input.seenFrom,
  seen_to: ({ input }) => input.seenTo,
  coordinates: ({ input }) => input.coordinates,
  adapters: ({ input }) => input.adapters,
  hidden_in: ({ input }) => input.hiddenIn,
  temperature: ({ input }) => input.sampling.temperature,
  top_k: ({ input }) => input.sampling.topK,
  top_p: ({ input }) => input.sampling.topP,
  min_p: ({ input }) => input.sampling.minP,
  presence: ({ input }) => input.sampling.presence,
  frequency: ({ input }) => input.sampling.frequency,
  repetition: ({ input }) => input.sampling.repetition,
  count_starts: ({ input }) => input.sampling.countStarts,
  count_tokens: ({ input }) => input.sampling.countTokens,
  counts: ({ input }) => input.sampling.counts,
  bias_starts: ({ input }) => input.sampling.biasStarts,
  bias_tokens: ({ input }) => input.sampling.biasTokens,
  biases: ({ input }) => input.sampling.biases,
  masks: ({ input }) => input.sampling.masks,
  mask_row: ({ input }) => input.sampling.maskRow,
  seed: ({ input }) => input.sampling.seed,
  choice: ({ input }) => input.sampling.choice,
  position: ({ input }) => input.sampling.position,
  top_logprobs: ({ input }) => input.sampling.topLogprobs,
  out_tokens: ({ out }) => out.tokens,
  out_logprobs: ({ out }) => out.logprobs,
  out_top_tokens: ({ out }) => out.topTokens,
  out_top_logprobs: ({ out }) => out.topLogprobs,
  out_finite: ({ out }) => out.finite,
  out_hidden: ({ out }) => out.hidden,
  out_logits: ({ out }) => out.logits,
}

const countsOf = Object.values(counts)
const arraysOf = Object.values(arrays)

const FIRST_ARRAY = countsOf.length + RESERVED
export const STEP_WORDS = FIRST_ARRAY + arraysOf.length

/** The name of each field in C and the word that it is. */
export const stepFields: readonly { name: string; word: number }[] = [
  ...Object.keys(counts).map((name, word) => ({ name, word })),
  ...Object.keys(arrays).map((name, i) => ({ name, word: FIRST_ARRAY + i })),
]

/** @param words [STEP_WORDS] addresses alone: whoever takes the step keeps its arrays alive */
export function writeStepWords(words: BigUint64Array, step: StepArrays): void {
  let at = 0
  for (const count of countsOf) words[at++] = BigInt(count(step))
  at = FIRST_ARRAY
  for (const array of arraysOf) {
    const view = array(step)
    words[at++] = view ? addressOf(view) : 0n
  }
}
