// GPTQ and AWQ, which lay a matrix [rows, columns] down by columns: `scales` [groups, rows], and `qzeros` [groups, rows / 8]
// with eight rows to a word (four of 8 bits).
//
//   GPTQ   qweight [columns / 8, rows]: eight columns of a row to a word, the first lowest, as our words are
//   AWQ    qweight [columns, rows / 8]: eight rows of a column to a word, in the order 0, 2, 4, 6, 1, 3, 5, 7; so the zeros
//
// GPTQ's g_idx is the group of each column; it is read when the folder is opened, as it decides the codec.
// https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/casper-hansen/AutoAWQ

import type { Tensor } from "../weights/weights.ts"
import { groupedTensor, type PackedTensor } from "./groups.ts"
import { floatTypes, type Matrix, type Part, partOf, readFloats, readWords } from "./matrix.ts"
import type { Packing } from "./packing.ts"

const SCALES = Object.keys(floatTypes)

export function gptqTensor(
  matrix: Matrix,
  { group, symmetric, zeroOffset }: Packing & { method: "gptq" },
  order: Int32Array | undefined,
): PackedTensor {
  const { rows, columns } = matrix
  const bits = gptqBits(matrix)
  const perWord = 32 / bits
  const qweight = partOf(matrix, "qweight", ["I32"], [columns / perWord, rows])
  const count = groupsIn(matrix)
  const { scales, qzeros } = scaleParts(matrix, count, perWord)
  return groupedTensor(matrix, {
    bits,
    width: widthOf(matrix, count, group),
    symmetric,
    scales: floatTypes[scales.dtype]!,
    count,
    order,
    async open() {
      const codes = await readWords(qweight)
      const { scale, zero } = await openScales(scales, qzeros, rows, bits)
      return {
        unpack(first, rowCount, words, stride) {
          // Some rows at a time, so that what is read and what is written lies together.
          for (let row = 0; row < rowCount; row += 16)
            for (let w = 0; w < columns / perWord; w++)
              for (let i = row; i < Math.min(row + 16, rowCount); i++)
                words[i * stride + w] = codes[w * rows + first + i]!
        },
        scale,
        zero: (row, g) => (zero(row, g, row % perWord) + zeroOffset) & (2 ** bits - 1),
      }
    },
  })
}

/** By how many words there are for the columns. */
function gptqBits(matrix: Matrix): 4 | 8 {
  const [words = 0] = matrix.part("qweight")?.shape ?? []
  const bits = (words * 32) / matrix.columns
  if (bits === 4 || bits === 8) return bits
  throw matrix.broken("qweight", `has ${bits} bits for a value; 4 and 8 are read`)
}

function groupsIn(matrix: Matrix): number {
  return matrix.part("scales")?.shape[0] ?? 0
}

function scaleParts(matrix: Matrix, count: number, perWord: number) {
  const { rows } = matrix
  return {
    scales: partOf(matrix, "scales", SCALES, [count, rows]),
    qzeros: partOf(matrix, "qzeros", ["I32"], [count, rows / perWord]),
  }
}

/** @param told how wide groups are by the configuration; 0: as the row */
function widthOf(matrix: Matrix, count: number, told: number): number {
  const { columns } = matrix
  if (count === 1) return columns
  if (told > 0 && Math.ceil(columns / told) === count) return told
  if (columns % count === 0) return columns / count
  throw matrix.broken("scales", `has ${count} groups, which do not divide ${columns} columns`)
}

async function openScales(scales: Part, qzeros: Part, rows: number, bits: 4 | 8) {
  const [numbers, zeros] = [await readFloats(scales), await readWords(qzeros)]
  const shift = bits === 4 ? 3 : 2 // eight rows to a word, or four
  const mask = 2 ** bits - 1
  return {
    scale: (row: number, g: number) => numbers[g * rows + row]!,
    zero: (row: number, g: number, place: number) =>
      (zeros[((g * rows) >> shift) + (row >> shift)]! >>> (bits * place)) & mask,
  }
}

/** In which nibble of a word the row lies that is this far from the word's first. */
const PLACES = [0, 4, 1, 5, 2, 6, 3, 7]

/** Eight words of eight nibbles: nibble i of word k becomes nibble k of word i. */
function transpose(square: Uint32Array): void {
  for (let i = 0; i < 4; i++) swap(square, i, i + 4, 16, 0x0000ffff)
  for (let i = 0; i < 4; i++)
    swap(square, (i & 1) + 2 * (i & 2), (i & 1) + 2 * (i & 2) + 2, 8, 0x00ff00ff)
  for (let i = 0; i < 4; i++) swap(square, 2 * i, 2 * i + 1, 4, 0x0f0f0f0f)
}

/** The upper bits of one word and the lower ones of the other, `mask`, change places. */
function swap(square: Uint32Array, one: number, other: number, bits: number, mask: number): void {
  const both = ((square[one]! >>> bits) ^ square[other]!) & mask
  square[other]! ^= both
  square[one]! ^= both << bits
}

export function awqTensor(matrix: Matrix): Tensor {
  const { rows, columns } = matrix
  const qweight = partOf(matrix, "qweight", ["I32"], [columns, rows / 8])
  const count = groupsIn(matrix)
  const { scales, qzeros } = scaleParts(matrix, count, 8)
  return groupedTensor(matrix, {
    bits: 4,
    width: widthOf(matrix, count, 0),
    symmetric: false,
    scales: floatTypes[scales.dtype]!,
    count,
    order: undefined,
    async open() {
      const codes = await readWords(qweight)
      const { scale, zero } = await openScales(scales, qzeros, rows, 4)
      return {
        unpack(first, rowCount, words, stride) {
          const apart = rows / 8 // words from a column to the next
          const last = first + rowCount
          const square = new Uint32Array(8)
          for (let eight = first >> 3; eight * 8 < last; eight++)
            for (let from = 0; from < columns; from += 8) {
              for (let k = 0; k < 8; k++)
                square[k] = from + k < columns ? codes[(from + k) * apart + eight]! : 0
              transpose(square)
              for (let row = Math.max(first, 8 * eight); row < Math.min(last, 8 * eight + 8); row++)
                words[(row - first) * stride + (from >> 3)] = square[PLACES[row & 7]!]!
            }
        },
        scale,
        zero: (row, g) => zero(row, g, PLACES[row & 7]!),
      }
    },
  })
}
