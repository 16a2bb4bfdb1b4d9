// GPTQ and AWQ, which lay a matrix [rows, columns] down by columns: `scales` [groups, rows], and `qzeros` [groups, rows / 8]
// with eight rows to a word (four of 8 bits).
//
//   GPTQ   qweight [columns / 8, rows]: eight columns of a row to a word, the first lowest, as our words are
//   AWQ    qweight [columns, rows / 8]: eight rows of a column to a word, in the order 0, 2, 4, 6, 1, 3, 5, 7; so the zeros
//
// GPTQ's g_idx is the group of each column; it is read when the folder is opened, as it decides the codec.
// https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/casper-hansen/AutoAWQ

import type { Tensor } from "../weights/weights.ts"
import { groupedTensor } from "./groups.ts"
import { floatTypes, type Matrix, type Part, partOf, readFloats, readWords } from "./matrix.ts"
import type { Packing } from "./packing.ts"

const SCALES = Object.keys(floatTypes)

export function gptqTensor(
  matrix: Matrix,
  { group, symmetric, zeroOffset }: Packing & { method: "gptq" },
  order: Int32Array | undefined,
): Tensor {
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
          for (let w = 0; w < columns / perWord; w++)
            for (let row = 0; row < rowCount; row++)
              words[row * stride + w] = codes[w * rows + first + row]!
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
  const perWord = 32 / bits
  return {
    scale: (row: number, g: number) => numbers[g * rows + row]!,
    zero: (row: number, g: number, place: number) =>
      (zeros[(g * rows) / perWord + Math.floor(row / perWord)]! >>> (bits * place)) &
      (2 ** bits - 1),
  }
}

/** In which nibble of a word the row lies that is this far from the word's first. */
const PLACES = [0, 4, 1, 5, 2, 6, 3, 7]

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
          for (let from = 0; from < columns; from += 8)
            for (let i = 0; i < rowCount; i++) {
              const row = first + i
              const shift = 4 * PLACES[row & 7]!
              const at = from * apart + (row >> 3)
              let word = 0
              for (let k = 0; k < 8 && from + k < columns; k++)
                word |= ((codes[at + k * apart]! >>> shift) & 15) << (4 * k)
              words[i * stride + (from >> 3)] = word
            }
        },
        scale,
        zero: (row, g) => zero(row, g, PLACES[row & 7]!),
      }
    },
  })
}
