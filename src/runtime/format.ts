// How weights are packed, in one table. A format is either plain floats or codes in groups: G neighbours along a row share
// one scale, their codes are packed from the low bits of 32-bit words up, and a group always begins a word. The layouts are
// those of MLC's converted models, byte for byte, so that folders of either side can be read by the other.

export type FloatType = "f32" | "f16" | "bf16"

export const floatBytes = { f32: 4, f16: 2, bf16: 2 } as const satisfies Record<FloatType, number>

export interface FloatFormat {
  kind: "float"
  dtype: FloatType
}

/** Value k of a row is (code - zero) * scale, rounded to `dtype`; codes lie in 0 … 2 * zero. */
export interface GroupFormat {
  kind: "group"
  bits: number
  group: number // values under one scale
  perWord: number // codes in a 32-bit word
  zero: number // the code that means 0
  dtype: FloatType // of scales, of products, and of whatever is not packed: norms, biases
}

export type Format = FloatFormat | GroupFormat

/** What a whole model is stored in, under the names of `--quantization`. */
export const formats = {
  q0f32: { kind: "float", dtype: "f32" },
  q0f16: { kind: "float", dtype: "f16" },
  q0bf16: { kind: "float", dtype: "bf16" },
  q4f16_1: { kind: "group", bits: 4, group: 32, perWord: 8, zero: 7, dtype: "f16" },
  q4f32_1: { kind: "group", bits: 4, group: 32, perWord: 8, zero: 7, dtype: "f32" },
  q8f16_1: { kind: "group", bits: 8, group: 32, perWord: 4, zero: 127, dtype: "f16" },
  q3f16_1: { kind: "group", bits: 3, group: 40, perWord: 10, zero: 3, dtype: "f16" },
} as const satisfies Record<string, Format>

export type FormatName = keyof typeof formats

export const formatNames = Object.keys(formats) as FormatName[]

export function isFormatName(name: string): name is FormatName {
  return Object.hasOwn(formats, name)
}

/** What one parameter is stored in: floats of a type, or the codes of a group format. */
export type ParameterFormat = FloatType | GroupFormatName

export type GroupFormatName = {
  [name in FormatName]: (typeof formats)[name]["kind"] extends "group" ? name : never
}[FormatName]

export function isGroupFormat(format: ParameterFormat): format is GroupFormatName {
  return !Object.hasOwn(floatBytes, format)
}

/** How a model in `format` keeps its matrices, and how the vectors beside them. */
export function parameterFormats(format: FormatName): {
  matrix: ParameterFormat
  vector: FloatType
} {
  const { kind, dtype } = formats[format]
  return { matrix: kind === "group" ? (format as GroupFormatName) : dtype, vector: dtype }
}

/** Sizes of one row of `columns` values: of its floats or words, and of its scales. */
export interface RowLayout {
  bytes: number
  words: number // 32-bit words of codes; 0 for floats
  groups: number // scales; 0 for floats
  scaleBytes: number
}

export function rowLayout(format: ParameterFormat, columns: number): RowLayout {
  if (!isGroupFormat(format))
    return { bytes: columns * floatBytes[format], words: 0, groups: 0, scaleBytes: 0 }
  const { group, perWord, dtype } = formats[format]
  const groups = Math.ceil(columns / group)
  const words = (groups * group) / perWord
  return { bytes: words * 4, words, groups, scaleBytes: groups * floatBytes[dtype] }
}
