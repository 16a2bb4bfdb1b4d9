// Whole numbers under a scale for each group, from whatever order a quantiser packs them in to one of our codecs, nothing
// rounded: (code - zero) * scale. With the zero in the middle and scales in f16 the codec has just that; otherwise it has
// -zero * scale as a minimum, which single precision holds exactly for scales of 16 bits. A group
// wider than the codec's is several, each with its scale.
//
// Where columns were quantised out of order (act-order), neighbours have different scales: such a matrix is kept with its columns
// sorted by group where it is read by itself (orders.ts), and as one of several, as those of experts are, in f32.
// The packed matrix is in memory while it is read, as its rows run across the file.

import { narrow } from "../../runtime/dtype.ts"
import {
  type FloatType,
  floatBytes,
  type GroupCodecName,
  groupCodecs,
  rowLayout,
} from "../../runtime/format.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Tensor } from "../weights/weights.ts"
import type { Matrix } from "./matrix.ts"

export interface Groups {
  bits: 4 | 8
  /** Columns under one scale. */
  width: number
  /** Every zero is in the middle of the codes; checked when they are read. */
  symmetric: boolean
  scales: FloatType
  /** Of a row. */
  count: number
  /** The group of each column, where that is said. */
  order: Int32Array | undefined
  open: () => Promise<Opened>
}

export interface Opened {
  /** Writes the codes of `count` rows from `first` on, from the low bits of words up: `stride` words for a row. */
  unpack: (first: number, count: number, words: Uint32Array, stride: number) => void
  scale: (row: number, group: number) => number
  zero: (row: number, group: number) => number
}

export interface PackedTensor extends Tensor {
  /** The same with its columns in another order: which they are, and in what. */
  sorted?: { order: Int32Array; tensor: Tensor }
}

export function groupedTensor(matrix: Matrix, groups: Groups): PackedTensor {
  const order = outOfOrder(matrix, groups)
  const codec = codecFor(groups)
  const fits = groups.width % groupCodecs[codec].group === 0
  if (!order && !fits && groups.width < matrix.columns)
    throw matrix.broken(
      "weight",
      `has groups of ${groups.width} columns; those of 32, or a multiple of it, are read`,
    )
  let opening: Promise<Opened> | undefined
  const opened = () => {
    opening ??= groups.open()
    return opening
  }
  if (!order)
    return {
      codec,
      read: async (first, count) => grouped(matrix, groups, await opened(), codec, first, count),
    }
  const sorted = fits ? sortedColumns(order, groups) : undefined
  return {
    codec: "f32",
    read: async (first, count) => ordered(matrix, groups, order, await opened(), first, count),
    ...(sorted && {
      sorted: {
        order: sorted,
        tensor: {
          codec,
          read: async (first, count) => {
            const own = inOrder(sorted, groups, await opened())
            return grouped(matrix, groups, own, codec, first, count)
          },
        },
      },
    }),
  }
}

/** The columns by their groups; undefined where these are not equally wide. */
function sortedColumns(order: Int32Array, { width }: Groups): Int32Array | undefined {
  const columns = Int32Array.from(order.keys()).sort((a, b) => order[a]! - order[b]! || a - b)
  const isEven = columns.every((column, k) => order[column] === Math.floor(k / width))
  return isEven ? columns : undefined
}

function inOrder(columns: Int32Array, { bits }: Groups, opened: Opened): Opened {
  const own = Math.ceil((columns.length * bits) / 32)
  const codes = new Uint8Array((own * 32) / bits + 1) // of a row, in its own order; behind them a zero
  const zero = codes.length - 1
  const from = Int32Array.from({ length: zero }, (_, k) => columns[k] ?? zero)
  return {
    ...opened,
    unpack(first, count, to, stride) {
      const words = new Uint32Array(count * own)
      opened.unpack(first, count, words, own)
      for (let row = 0; row < count; row++) {
        const given = new Uint8Array(words.buffer, 4 * row * own, 4 * own)
        const made = new Uint8Array(to.buffer, to.byteOffset + 4 * row * stride, 4 * own)
        if (bits === 8) {
          codes.set(given)
          for (let i = 0; i < made.length; i++) made[i] = codes[from[i]!]!
          continue
        }
        for (let i = 0; i < given.length; i++) {
          codes[2 * i] = given[i]! & 15
          codes[2 * i + 1] = given[i]! >> 4
        }
        for (let i = 0; i < made.length; i++)
          made[i] = codes[from[2 * i]!]! | (codes[from[2 * i + 1]!]! << 4)
      }
    },
  }
}

/** Nothing where every column is in the group that it would be in anyway. */
function outOfOrder(
  { columns, broken }: Matrix,
  { order, count, width }: Groups,
): Int32Array | undefined {
  const isUnset = order?.every((group) => group === -1)
  if (!order || isUnset || order.every((group, k) => group === Math.floor(k / width)))
    return undefined
  if (order.length !== columns)
    throw broken("g_idx", `has ${order.length} entries for ${columns} columns`)
  const outside = order.find((group) => group < 0 || group >= count)
  if (outside === undefined) return order
  throw broken("g_idx", `holds the group ${outside}, and there are ${count}`)
}

function codecFor({ bits, symmetric, scales }: Groups): GroupCodecName {
  if (bits === 4) return symmetric && scales === "f16" ? "q4_0" : "q4_zeros"
  if (!symmetric) return "q8_zeros"
  return scales === "f16" ? "q8_0" : "q8_f32"
}

function grouped(
  { columns, broken }: Matrix,
  { bits, width }: Groups,
  { unpack, scale, zero }: Opened,
  codec: GroupCodecName,
  first: number,
  count: number,
): StoredRows {
  const { group, minimums, dtype, zero: middle } = groupCodecs[codec]
  const { words, groups, scaleBytes } = rowLayout(codec, columns)
  const values = new Uint32Array(count * words)
  unpack(first, count, values, words)
  const perRow = scaleBytes / floatBytes[dtype]
  const numbers = new Float32Array(count * perRow)
  const across = Math.min(groups, width / group) // of the codec's groups under one scale
  for (let row = 0; row < count; row++)
    for (let from = 0, wide = 0; from < groups; from += across, wide++) {
      const its = scale(first + row, wide)
      const off = zero(first + row, wide)
      if (!minimums && off !== middle)
        throw broken("weight", `has the zero ${off}, and is said to be symmetric (${bits} bits)`)
      const to = Math.min(from + across, groups)
      const at = row * perRow
      for (let g = at + from; g < at + to; g++) numbers[g] = its
      if (minimums) for (let g = at + from; g < at + to; g++) numbers[groups + g] = -off * its
    }
  return {
    rows: count,
    values: new Uint8Array(values.buffer),
    scales: narrow(numbers, dtype),
  }
}

function ordered(
  { columns }: Matrix,
  { bits }: Groups,
  order: Int32Array,
  { unpack, scale, zero }: Opened,
  first: number,
  count: number,
): StoredRows {
  const perWord = 32 / bits
  const stride = Math.ceil(columns / perWord)
  const words = new Uint32Array(count * stride)
  unpack(first, count, words, stride)
  const mask = 2 ** bits - 1
  const values = new Float32Array(count * columns)
  for (let row = 0; row < count; row++)
    for (let k = 0; k < columns; k++) {
      const word = words[row * stride + Math.floor(k / perWord)]!
      const code = (word >>> ((k % perWord) * bits)) & mask
      const group = order[k]!
      values[row * columns + k] = (code - zero(first + row, group)) * scale(first + row, group)
    }
  return { rows: count, values: new Uint8Array(values.buffer) }
}
