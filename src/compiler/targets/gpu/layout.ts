// How parameters lie on a device, the same for every kernel that reads them: a table may be embedding and head at once. A
// matrix lies in panels of 32 rows. A row is cut into chunks of 16 bytes, and a chunk of all 32 rows comes before the next one,
// so that 32 threads, one a row, read 512 bytes side by side; beside them, scales and minimums:
//
//   values      [panels][chunks][32 rows][16 bytes]
//   scales      [panels][groups][32 rows]            as the codec has them, f32, f16 or bf16
//   minimums    the same
//
// Rows are padded to whole panels and columns to whole chunks and groups, with zeros: of codes, those that stand for 0. Floats
// stay as they are stored. Codes are stored as whole numbers around 0 where their codec has a zero, and lie in a chunk so that
// few masks and shifts make words of four bytes of them (`codeFields`); those that say which number of a table it is stay what
// they are. A vector, one column, is f32 whatever it was.
//
// Panels lie one after the other, so a parameter larger than a device's largest allocation can be cut between any two of them,
// and each piece is laid out as a parameter with fewer rows.

import {
  type CodecName,
  codeTables,
  floatBytes,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
} from "../../../runtime/format.ts"
import type { Parameter } from "../../../runtime/manifest.ts"
import type { Buffer } from "../../plan.ts"
import type { Four } from "./ir/ir.ts"

/** Rows of a panel. */
export const PANEL = 32
const CHUNK_BYTES = 16
/** Words of a chunk. */
export const CHUNK_WORDS = CHUNK_BYTES / 4
/** Parts begin at a multiple of this many bytes: a line of any device. */
const PART_ALIGNMENT = 256

export type PartName = "values" | "scales" | "minimums"

export interface WeightPart {
  name: PartName
  /** Bytes from where the parameter begins, and how many. */
  at: number
  bytes: number
}

/** The parts of a parameter, in the order in which kernels name them (`weightBuffers`), and the bytes of all. */
export function weightLayout({
  rows,
  columns,
  codec,
}: Pick<Parameter, "rows" | "columns" | "codec">): { parts: WeightPart[]; bytes: number } {
  if (columns === 1) {
    const bytes = upTo(rows * 4, CHUNK_BYTES)
    return { parts: [{ name: "values", at: 0, bytes }], bytes }
  }
  if (columns !== wholeColumns(codec, columns))
    throw new Error(`internal: rows of ${codec} have ${columns} columns, which are no whole groups`)
  const padded = upTo(rows, PANEL)
  const { columns: width, chunks, groups } = unitOf(codec)
  const units = Math.ceil(columns / width)
  const sizes: [PartName, number][] = [["values", padded * units * chunks * CHUNK_BYTES]]
  if (isGroupCodec(codec)) {
    const { dtype, minimums } = groupCodecs[codec]
    const bytes = padded * units * groups * floatBytes[dtype]
    sizes.push(["scales", bytes])
    if (minimums) sizes.push(["minimums", bytes])
  }
  let end = 0
  const parts = sizes.map(([name, bytes]) => {
    const at = upTo(end, PART_ALIGNMENT)
    end = at + bytes
    return { name, at, bytes }
  })
  return { parts, bytes: end }
}

/**
 * The least of a row that is whole chunks and whole groups. A row has as many chunks and groups as its units have: kernels
 * reckon with that.
 */
export interface Unit {
  columns: number
  chunks: number
  /** 0 of floats. */
  groups: number
}

export function unitOf(codec: CodecName): Unit {
  if (!isGroupCodec(codec))
    return { columns: CHUNK_BYTES / floatBytes[codec], chunks: 1, groups: 0 }
  const { group, perWord } = groupCodecs[codec]
  const chunk = CHUNK_WORDS * perWord
  const columns = Math.max(chunk, group)
  return { columns, chunks: columns / chunk, groups: columns / group }
}

/**
 * How a code is stored: as it is where there are minimums and it is below 128, else as a whole number with a sign, in as many
 * bits.
 */
export interface Coding {
  bits: number
  signed: boolean
  /**
   * It is stored as zero - code, not as code - zero. Of codes around 7 (or 127) that is what fits, whichever of 16 (or 256) it
   * is. Other zeros are GGUF's, and what its blocks hold fits the other way.
   */
  negated: boolean
  /** What is stored is so much less than the number it stands for: where a byte with a minimum may be anything, 128. */
  less: 0 | 128
  /** The numbers that codes stand for, as signed bytes in words. */
  table?: Four<number>
}

export function codingOf(codec: GroupCodecName): Coding {
  const { bits, zero, minimums, sixBits, table }: GroupCodec = groupCodecs[codec]
  const isWholeByte = minimums && bits === 8 && !sixBits
  if (table) {
    const words = new Uint32Array(Int8Array.from(codeTables[table], (code) => code - zero).buffer)
    return {
      bits,
      signed: true,
      negated: false,
      less: 0,
      table: [words[0]!, words[1]!, words[2]!, words[3]!],
    }
  }
  return {
    bits,
    signed: !minimums || isWholeByte,
    negated: zero === 2 ** (bits - 1) - 1,
    less: isWholeByte ? 128 : 0,
  }
}

/** So many columns, or as many more as make whole groups where no code stands for 0: a row cannot end within one. */
export function wholeColumns(codec: CodecName, columns: number): number {
  if (!isGroupCodec(codec)) return columns
  const { group, zero, table }: GroupCodec = groupCodecs[codec]
  return table && !codeTables[table].includes(zero) ? upTo(columns, group) : columns
}

/** Some bits of a code, from bit `low` up, and where they lie in the chunk: in which word, from which bit up. */
export interface Field {
  low: number
  bits: number
  word: number
  at: number
}

/**
 * Where code `i` of a chunk lies. Column i is in byte i mod 4 of some word, as it is in words of bytes: those of 8 bits as
 * they are; of 4 bits, a word has two such words in the lower and upper halves of its bytes. Of 3 bits, eight words of four lie
 * in bits 0 to 2 and 3 to 5 of the bytes of four words; the upper two bits of the ninth and the tenth in bits 6 and 7 of the
 * first and the second word, their lowest in bits 6 and 7 of the third.
 */
export function codeFields(codec: GroupCodecName, i: number): Field[] {
  const { bits } = groupCodecs[codec]
  const byte = 8 * (i % 4)
  const four = Math.floor(i / 4) // of which word of bytes
  if (bits === 8) return [{ low: 0, bits, word: four, at: byte }]
  if (four < 8) return [{ low: 0, bits, word: Math.floor(four / 2), at: byte + bits * (four % 2) }]
  return [
    { low: 1, bits: 2, word: four - 8, at: byte + 6 },
    { low: 0, bits: 1, word: 2, at: byte + four - 2 },
  ]
}

/** Elements from one row of a plan's buffer to the next: rows of floats and rows of codes begin at multiples of 16 bytes. */
export function strideOf({ columns, dtype }: Pick<Buffer, "columns" | "dtype">): number {
  return upTo(columns, dtype === "i8" ? 16 : 4)
}

function upTo(n: number, multiple: number): number {
  return Math.ceil(n / multiple) * multiple
}
