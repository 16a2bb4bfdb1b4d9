// The heads that words are timed by in OpenAI's models, which their files in whisper.cpp's format do not name. A model is known by its
// figures. Those of large-v1 and large-v2 are the same, so that their files cannot be told apart.
//
// Source: _ALIGNMENT_HEADS in whisper/__init__.py of OpenAI's whisper, as whisper.cpp has them in src/whisper.cpp (g_aheads_…).

import type { CrossHead } from "../block.ts"
import { type AlignmentAdvice, SMOOTHED } from "../hearing/speech.ts"
import type { WhisperFile } from "./container.ts"

/** Of a layer the heads. */
type Heads = Readonly<Record<number, readonly number[]>>

interface Known {
  layers: number // of the decoder
  width: number
  vocabulary: number
  heads: Heads
}

const ENGLISH = 51864
const ALL = 51865
const CANTONESE = 51866 // and all others

const MODELS: readonly Known[] = [
  {
    ...{ layers: 4, width: 384, vocabulary: ENGLISH },
    heads: { 1: [0], 2: [0, 5], 3: [0, 1, 2, 3, 4] },
  },
  { layers: 4, width: 384, vocabulary: ALL, heads: { 2: [2], 3: [0, 2, 3, 4, 5] } },
  { layers: 6, width: 512, vocabulary: ENGLISH, heads: { 3: [3], 4: [7], 5: [1, 5, 7] } },
  { layers: 6, width: 512, vocabulary: ALL, heads: { 3: [1], 4: [2, 3, 7], 5: [1, 2, 4, 6] } },
  {
    ...{ layers: 12, width: 768, vocabulary: ENGLISH },
    heads: {
      ...{ 6: [6], 7: [0, 3, 8], 8: [2, 5, 7], 9: [0, 4, 8, 10] },
      ...{ 10: [0, 1, 2, 3, 6, 11], 11: [2, 4] },
    },
  },
  {
    ...{ layers: 12, width: 768, vocabulary: ALL },
    heads: { 5: [3, 9], 8: [0, 4, 7, 8], 9: [0, 7, 9], 10: [5] },
  },
  {
    ...{ layers: 24, width: 1024, vocabulary: ENGLISH },
    heads: {
      ...{ 11: [4], 14: [1, 12, 14], 15: [4], 16: [0, 4, 9], 17: [12, 14], 18: [7, 10, 15] },
      ...{ 20: [0, 3, 9, 14], 21: [12] },
    },
  },
  {
    ...{ layers: 24, width: 1024, vocabulary: ALL },
    heads: { 13: [15], 15: [4, 15], 16: [1], 20: [0], 23: [4] },
  },
  {
    ...{ layers: 32, width: 1280, vocabulary: CANTONESE },
    heads: {
      ...{ 7: [0], 10: [17], 12: [18], 13: [12], 16: [1] },
      ...{ 17: [14], 19: [11], 21: [4], 24: [1], 25: [6] },
    },
  },
  { layers: 4, width: 1280, vocabulary: CANTONESE, heads: { 2: [4, 11], 3: [3, 6, 11, 14] } },
]

const HEAD_DIM = 64

export function alignmentOf({
  n_text_layer: layers,
  n_text_state: width,
  n_text_head: count,
  n_vocab: vocabulary,
}: WhisperFile["numbers"]): AlignmentAdvice | { why: string } {
  const known = MODELS.find(
    (model) =>
      model.layers === layers &&
      model.width === width &&
      model.width === HEAD_DIM * count &&
      model.vocabulary === vocabulary,
  )
  if (!known)
    return {
      why: `its file names no alignment heads, and a model of ${layers} layers of ${width} columns with ${vocabulary} tokens is none whose heads are known`,
    }
  const heads = Object.entries(known.heads).flatMap(([layer, heads]) =>
    heads.map((head): CrossHead => ({ layer: Number(layer), head })),
  )
  return { heads, smoothed: SMOOTHED }
}
