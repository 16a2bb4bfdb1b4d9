// The types of GGUF's tensors: how many values a block holds in how many bytes, and what it is kept in here. Without a codec:
// known by name, and not read.

import type { CodecName } from "../../runtime/format.ts"

interface BlockType {
  id: number
  values: number
  bytes: number
  codec?: CodecName
}

export const blockTypes = {
  F32: { id: 0, values: 1, bytes: 4, codec: "f32" },
  F16: { id: 1, values: 1, bytes: 2, codec: "f16" },
  Q4_0: { id: 2, values: 32, bytes: 18, codec: "q4_0" },
  Q4_1: { id: 3, values: 32, bytes: 20, codec: "q4_1" },
  Q5_0: { id: 6, values: 32, bytes: 22, codec: "q5_0" },
  Q5_1: { id: 7, values: 32, bytes: 24, codec: "q5_1" },
  Q8_0: { id: 8, values: 32, bytes: 34, codec: "q8_0" },
  Q2_K: { id: 10, values: 256, bytes: 84, codec: "q2_k" },
  Q3_K: { id: 11, values: 256, bytes: 110, codec: "q3_k" },
  Q4_K: { id: 12, values: 256, bytes: 144, codec: "q4_k" },
  Q5_K: { id: 13, values: 256, bytes: 176, codec: "q5_k" },
  Q6_K: { id: 14, values: 256, bytes: 210, codec: "q6_k" },
  IQ2_XXS: { id: 16, values: 256, bytes: 66, codec: "iq2" },
  IQ2_XS: { id: 17, values: 256, bytes: 74, codec: "iq2" },
  IQ3_XXS: { id: 18, values: 256, bytes: 98, codec: "iq3_xxs" },
  IQ1_S: { id: 19, values: 256, bytes: 50, codec: "iq2" },
  IQ4_NL: { id: 20, values: 32, bytes: 18, codec: "iq4_nl" },
  IQ3_S: { id: 21, values: 256, bytes: 110, codec: "iq3_s" },
  IQ2_S: { id: 22, values: 256, bytes: 82, codec: "iq2" },
  IQ4_XS: { id: 23, values: 256, bytes: 136, codec: "iq4_xs" },
  I8: { id: 24, values: 1, bytes: 1 },
  I16: { id: 25, values: 1, bytes: 2 },
  I32: { id: 26, values: 1, bytes: 4 },
  I64: { id: 27, values: 1, bytes: 8 },
  F64: { id: 28, values: 1, bytes: 8 },
  IQ1_M: { id: 29, values: 256, bytes: 56, codec: "iq2" },
  BF16: { id: 30, values: 1, bytes: 2, codec: "bf16" },
  TQ1_0: { id: 34, values: 256, bytes: 54, codec: "q4_0" },
  TQ2_0: { id: 35, values: 256, bytes: 66, codec: "q4_0" },
  MXFP4: { id: 39, values: 32, bytes: 17, codec: "mxfp4" },
  NVFP4: { id: 40, values: 64, bytes: 36, codec: "nvfp4" },
  Q1_0: { id: 41, values: 128, bytes: 18, codec: "q4_0" },
  Q2_0: { id: 42, values: 64, bytes: 18, codec: "q4_0" },
} as const satisfies Record<string, BlockType>

export type BlockTypeName = keyof typeof blockTypes

export const blockTypeNames = Object.keys(blockTypes) as BlockTypeName[]

/** Types of older files: Q4_2, Q4_3, Q4_0_4_4 and their like. */
export const removedTypes: ReadonlySet<number> = new Set([4, 5, 31, 32, 33, 36, 37, 38])

export function codecOfType(type: BlockTypeName): CodecName | undefined {
  const row: BlockType = blockTypes[type]
  return row.codec
}
