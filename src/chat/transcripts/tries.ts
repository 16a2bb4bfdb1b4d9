// Whether what a Whisper has written of a window is believed. Words that were unlikely, or that repeat themselves, are tried again, each
// time with more chance in them; where they were unlikely and most likely nobody speaks, nobody does. Only where words are to be the
// likeliest is a window tried again: whoever names a temperature has one try.
//
// Source: decode_with_fallback in transcribe.py of OpenAI's whisper, but for its beams and its best of five.

import { deflateSync } from "node:zlib"
import type { SamplingParams } from "../../engine/generation.ts"

export interface Judged {
  /** Of the tokens that were drawn, the end included, among those that might have come. */
  averageLogprob: number
  /** How many times as long the text is as what zlib makes of it. */
  compressionRatio: number
}

const TEMPERATURES = [0, 0.2, 0.4, 0.6, 0.8, 1]
const LEAST_LOGPROB = -1
const MOST_COMPRESSED = 2.4
const MOST_SILENT = 0.6

/** How tokens are drawn in each try. Seeds are those of the tries: what is asked again is answered alike. */
export function triesOf(sampling: SamplingParams): SamplingParams[] {
  if (sampling.temperature > 0) return [sampling]
  return TEMPERATURES.map((temperature, i) => ({ ...sampling, temperature, seed: BigInt(i) }))
}

export const isUnlikely = ({ averageLogprob }: Judged) => averageLogprob < LEAST_LOGPROB

export const isDoubtful = (judged: Judged) =>
  isUnlikely(judged) || judged.compressionRatio > MOST_COMPRESSED

/** @param nobody how likely it is that nobody speaks where words were unlikely */
export const isSilent = (nobody: number) => nobody > MOST_SILENT

export function compressionRatio(text: string): number {
  const bytes = Buffer.from(text.trim())
  return bytes.length / deflateSync(bytes).length
}
