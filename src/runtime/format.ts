// How weights are packed, in two tables. A codec is what one parameter is stored in: plain floats, or codes in groups, where G
// neighbours along a row share one scale, their codes are packed from the low bits of 32-bit words up, and a group always
// begins a word. A format is what a whole model is stored in: a codec for its matrices and one for the vectors beside them.
// The layouts are those of MLC's converted models, byte for byte, so that folders of either side can be read by the other.

export type FloatType = "f32" | "f16" | "bf16"

export const floatBytes = { f32: 4, f16: 2, bf16: 2 } as const satisfies Record<FloatType, number>

/** Value k of a row is (code - zero) * scale, or where there are minimums code * scale + minimum, rounded to `values`. */
export interface GroupCodec {
  bits: 3 | 4 | 8
  group: number // values under one scale
  perWord: number // codes in a 32-bit word
  zero: number // the code that means 0, or the minimum
  minimums: boolean // one for each group; `zero` is 0 then
  dtype: FloatType // of scales and minimums
  values: FloatType // what an unpacked value is rounded to
  /** Codes below 64 that are stored as bytes. */
  sixBits?: true
  /** A code says which of sixteen numbers stands in its place: a level of IQ1 to IQ4, or a float of 4 bits (e2m1), doubled. */
  table?: keyof typeof codeTables
  /** Codes are floats of 8 bits, e4m3 (dtype.ts), which no product of integers takes. */
  floats?: true
  /** So many groups, one behind the other, whose scales, and whose minimums, are multiples of one f16: by -128 to 127. */
  block?: 8 | 16
  /** Of a block: they are multiples of such a part of it. */
  part?: 2 | 8
}

/** Levels above a zero, and as far below it, as a code's uppermost bit says. */
const signed = (zero: number, levels: readonly number[]) =>
  [1, -1].flatMap((sign) => levels.map((level) => zero + sign * level))

/**
 * Of each code, above a zero: levels, of IQ3_XXS their halves, as all are even; of E2M1 twice the floats, of which two are 0. IQ2
 * has those of IQ1, too, the fourth to the sixth. A least one of 0 keeps the largest small (largest_code of panels.h).
 */
export const codeTables: Readonly<
  Record<"IQ2" | "IQ3_XXS" | "IQ3_S" | "IQ4" | "E2M1", readonly number[]>
> = {
  IQ2: signed(43, [8, 25, 43, 1, 7, 9, 0, 0]),
  IQ3_XXS: signed(31, [2, 6, 10, 14, 18, 22, 26, 31]),
  IQ3_S: signed(15, [1, 3, 5, 7, 9, 11, 13, 15]),
  IQ4: [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241],
  E2M1: [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0],
}

/** MLC's: codes lie in 0 … 2 * zero, and what is unpacked is as coarse as the scales. */
const mlc = (bits: 3 | 4 | 8, dtype: FloatType) => {
  const [group, perWord] = bits === 3 ? [40, 10] : [32, 32 / bits]
  return { bits, group, perWord, zero: 2 ** (bits - 1) - 1, minimums: false, dtype, values: dtype }
}

/** Those of GGUF's blocks, taken apart into groups (model/gguf/blocks.ts); scales of scales are multiplied out, exactly. */
const gguf = (
  bits: 4 | 8,
  zero: number | "minimums",
  { dtype = "f16", group = 32, ...more }: Partial<GroupCodec> = {},
): GroupCodec => {
  const rest = { group, perWord: 32 / bits, dtype, values: "f32", ...more } as const
  return zero === "minimums"
    ? { bits, zero: 0, minimums: true, ...rest }
    : { bits, zero, minimums: false, ...rest }
}

export const groupCodecs = {
  q4f16_1: mlc(4, "f16"),
  q4f32_1: mlc(4, "f32"),
  q8f16_1: mlc(8, "f16"),
  q3f16_1: mlc(3, "f16"),
  q4_0: gguf(4, 8),
  q4_1: gguf(4, "minimums"),
  q5_0: gguf(8, 16, { sixBits: true }),
  q5_1: gguf(8, "minimums", { sixBits: true }),
  q8_0: gguf(8, 128),
  q2_k: gguf(4, "minimums", { dtype: "f32", group: 16, block: 16 }),
  q3_k: gguf(4, 4, { dtype: "f32", group: 16, block: 16 }),
  q4_k: gguf(4, "minimums", { dtype: "f32", block: 8 }),
  q5_k: gguf(8, "minimums", { dtype: "f32", sixBits: true, block: 8 }),
  q6_k: gguf(8, 32, { dtype: "f32", group: 16, sixBits: true, block: 16 }),
  iq4_nl: gguf(4, 128, { table: "IQ4" }),
  iq4_xs: gguf(4, 128, { dtype: "f32", block: 8, table: "IQ4" }),
  iq2: gguf(4, 43, { dtype: "f32", group: 16, block: 16, part: 8, table: "IQ2" }),
  iq3_xxs: gguf(4, 31, { dtype: "f32", block: 8, part: 2, table: "IQ3_XXS" }),
  iq3_s: gguf(4, 15, { dtype: "f32", block: 8, table: "IQ3_S" }),
  mxfp4: gguf(4, 12, { dtype: "bf16", table: "E2M1" }),
  nvfp4: gguf(4, 12, { dtype: "f32", group: 16, table: "E2M1" }),
  // What quantisers publish (model/packed/groups.ts): any scales, and minimums that stand for any zeros.
  q4_zeros: gguf(4, "minimums", { dtype: "f32" }),
  q4_bf16: gguf(4, "minimums", { dtype: "bf16" }),
  q8_zeros: gguf(8, "minimums", { dtype: "f32" }),
  q8_f32: gguf(8, 128, { dtype: "f32" }),
  e4m3: gguf(8, 0, { dtype: "f32", floats: true }),
} satisfies Record<string, GroupCodec>

export type GroupCodecName = keyof typeof groupCodecs

export const groupCodecNames = Object.keys(groupCodecs) as GroupCodecName[]

/** What one parameter is stored in. */
export type CodecName = FloatType | GroupCodecName

/** What rows are rounded for: matrices of these floats take codes of 16 bits, all others those of 8. */
export type RoundingCodec = GroupCodecName | WideCodec
export type WideCodec = Extract<FloatType, "f16" | "bf16">

export function isWideCodec(codec: CodecName): codec is WideCodec {
  return codec === "f16" || codec === "bf16"
}

export function isGroupCodec(codec: CodecName): codec is GroupCodecName {
  return !Object.hasOwn(floatBytes, codec)
}

/** Whether codes are whole numbers, which products of integers take. */
export function isIntegerCodec(codec: CodecName): codec is GroupCodecName {
  if (!isGroupCodec(codec)) return false
  const { floats }: GroupCodec = groupCodecs[codec]
  return !floats
}

/** The type of a codec's values, once they are unpacked. */
export function dtypeOf(codec: CodecName): FloatType {
  return isGroupCodec(codec) ? groupCodecs[codec].values : codec
}

export interface Format {
  matrix: CodecName
  vector: FloatType
}

/** Each matrix is in a codec of its own, which the opened model tells (codecOf); nothing is converted to this. */
const mixed = { matrix: "q8_0", vector: "f32" } as const

/** What a whole model is stored in, under the names of `--quantization`. */
export const formats = {
  q0f32: { matrix: "f32", vector: "f32" },
  q0f16: { matrix: "f16", vector: "f16" },
  q0bf16: { matrix: "bf16", vector: "bf16" },
  q4f16_1: { matrix: "q4f16_1", vector: "f16" },
  q4f32_1: { matrix: "q4f32_1", vector: "f32" },
  q8f16_1: { matrix: "q8f16_1", vector: "f16" },
  q3f16_1: { matrix: "q3f16_1", vector: "f16" },
  gguf: mixed,
  gptq: mixed,
  awq: mixed,
  "compressed-tensors": mixed,
  mxfp4: mixed,
  fp8: mixed,
  modelopt: mixed,
  mlx: mixed,
  bitsandbytes: mixed,
  bitnet: mixed,
} as const satisfies Record<string, Format>

export type FormatName = keyof typeof formats

/** Those that weights can be converted to. */
export const formatNames = (Object.keys(formats) as FormatName[]).filter((name) => !isMixed(name))

/** Whether its matrices are in the codecs that their files have them in. */
export function isMixed(name: FormatName): boolean {
  return formats[name] === mixed
}

export function isFormatName(name: string): name is FormatName {
  return (formatNames as string[]).includes(name)
}

/** Whether a model in `format` keeps its matrices in codes. */
export function isPacked(format: FormatName): boolean {
  return isGroupCodec(formats[format].matrix)
}

/** What a model in `format` keeps a weight in; vectors have one column. */
export function codecIn(format: FormatName, { columns }: { columns: number }): CodecName {
  const { matrix, vector } = formats[format]
  return columns > 1 ? matrix : vector
}

/** Sizes of one row of `columns` values: of its floats or words, and of its scales. */
export interface RowLayout {
  bytes: number
  words: number // 32-bit words of codes; 0 for floats
  groups: number // 0 for floats
  scaleBytes: number // of all scales, and of all minimums behind them
}

export function rowLayout(codec: CodecName, columns: number): RowLayout {
  if (!isGroupCodec(codec))
    return { bytes: columns * floatBytes[codec], words: 0, groups: 0, scaleBytes: 0 }
  const { group, perWord, minimums, dtype } = groupCodecs[codec]
  const groups = Math.ceil(columns / group)
  const words = (groups * group) / perWord
  const scaleBytes = groups * floatBytes[dtype] * (minimums ? 2 : 1)
  return { bytes: words * 4, words, groups, scaleBytes }
}

/**
 * Bytes of a row where nothing is stored wider than it is, which is about what a file takes and a processor keeps: codes of 6 bits
 * are no bytes, and scales of a block are an f16 and a byte each.
 */
export function denseRowBytes(codec: CodecName, columns: number): number {
  const { bytes, groups, scaleBytes } = rowLayout(codec, columns)
  if (!isGroupCodec(codec)) return bytes
  const { sixBits, block, minimums }: GroupCodec = groupCodecs[codec]
  const codes = sixBits ? bytes * 0.75 : bytes
  if (!block) return codes + scaleBytes
  return codes + Math.ceil(groups / block) * (floatBytes.f16 + block) * (minimums ? 2 : 1)
}
