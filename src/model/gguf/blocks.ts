// GGUF's blocks taken apart: of each group its codes, its scale and its minimum, nothing rounded that the file has not
// rounded. Where a block has scales of scales they are multiplied out, which single precision holds exactly: 11 bits times
// 8 at most. Layouts: ggml-common.h and ggml-quants.c of llama.cpp. "Planes" of bits: a run of bytes holds as many values in
// its lowest bits, the next as many in those above.

import { halfValues, narrow } from "../../runtime/dtype.ts"
import { type GroupCodecName, groupCodecs, rowLayout } from "../../runtime/format.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { BlockTypeName } from "./types.ts"
import { blockTypes } from "./types.ts"

/** Rows of blocks as rows of the codec that the type is kept in. */
export function unpackBlocks(
  type: BlockTypeName,
  codec: GroupCodecName,
  bytes: Uint8Array,
  rows: number,
  columns: number,
): StoredRows {
  const { values, bytes: blockBytes } = blockTypes[type]
  const { bits, group, minimums, dtype } = groupCodecs[codec]
  const layout = rowLayout(codec, columns)
  const perBlock = values / group // groups
  const words = new Uint8Array(rows * layout.bytes)
  const numbers = new Float32Array(rows * layout.groups * (minimums ? 2 : 1))
  const block: Block = {
    codes: new Uint8Array(values),
    scales: new Float32Array(perBlock),
    minimums: new Float32Array(perBlock),
  }
  const take = takers[type as keyof typeof takers]
  const blocks = columns / values
  const perRow = layout.groups * (minimums ? 2 : 1)
  for (let row = 0; row < rows; row++)
    for (let at = 0; at < blocks; at++) {
      const from = (row * blocks + at) * blockBytes
      take(bytes.subarray(from, from + blockBytes), block)
      pack(block.codes, bits, words, row * layout.bytes + (at * values * bits) / 8)
      const to = row * perRow + at * perBlock
      numbers.set(block.scales, to)
      if (minimums) numbers.set(block.minimums, to + layout.groups)
    }
  return { rows, values: words, scales: narrow(numbers, dtype) }
}

/** Codes from the low bits of words up: two to a byte, or one. */
function pack(codes: Uint8Array, bits: 3 | 4 | 8, to: Uint8Array, at: number): void {
  if (bits === 8) {
    to.set(codes, at)
    return
  }
  for (let i = 0; i < codes.length; i += 2) to[at + i / 2] = codes[i]! | (codes[i + 1]! << 4)
}

interface Block {
  codes: Uint8Array
  scales: Float32Array
  minimums: Float32Array
}

type Take = (bytes: Uint8Array, to: Block) => void

const halves = halfValues()
const half = (bytes: Uint8Array, at: number) => halves[bytes[at]! | (bytes[at + 1]! << 8)]!

/** The low halves of `count` bytes, then their high halves. */
function nibbles(bytes: Uint8Array, from: number, count: number, to: Uint8Array, at = 0): void {
  for (let i = 0; i < count; i++) {
    to[at + i] = bytes[from + i]! & 15
    to[at + count + i] = bytes[from + i]! >> 4
  }
}

/** Bit i of four bytes, counted from the lowest of the first. */
const fifth = (bytes: Uint8Array, from: number, i: number) =>
  ((bytes[from + (i >> 3)]! >> (i & 7)) & 1) << 4

/** Levels of IQ4_NL and IQ4_XS, as codes whose zero is 128. */
const LEVELS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113].map(
  (level) => level + 128,
)

/** Twice the numbers of a 4-bit float, as codes whose zero is 12. */
export const FP4 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12].map(
  (twice) => twice + 12,
)

const takers = {
  Q4_0(bytes, to) {
    to.scales[0] = half(bytes, 0)
    nibbles(bytes, 2, 16, to.codes)
  },
  Q4_1(bytes, to) {
    to.scales[0] = half(bytes, 0)
    to.minimums[0] = half(bytes, 2)
    nibbles(bytes, 4, 16, to.codes)
  },
  Q5_0(bytes, to) {
    to.scales[0] = half(bytes, 0)
    nibbles(bytes, 6, 16, to.codes)
    for (let i = 0; i < 32; i++) to.codes[i]! |= fifth(bytes, 2, i)
  },
  Q5_1(bytes, to) {
    to.scales[0] = half(bytes, 0)
    to.minimums[0] = half(bytes, 2)
    nibbles(bytes, 8, 16, to.codes)
    for (let i = 0; i < 32; i++) to.codes[i]! |= fifth(bytes, 4, i)
  },
  Q8_0(bytes, to) {
    to.scales[0] = half(bytes, 0)
    for (let i = 0; i < 32; i++) to.codes[i] = bytes[2 + i]! ^ 128 // signed, plus 128
  },
  Q2_K(bytes, to) {
    const [scale, low] = [half(bytes, 80), half(bytes, 82)]
    for (let g = 0; g < 16; g++) {
      to.scales[g] = scale * (bytes[g]! & 15)
      to.minimums[g] = -low * (bytes[g]! >> 4)
    }
    twoBits(bytes, 16, to.codes)
  },
  Q3_K(bytes, to) {
    const scale = half(bytes, 108)
    for (let g = 0; g < 16; g++) {
      const low = g < 8 ? bytes[96 + g]! & 15 : bytes[96 + g - 8]! >> 4
      const high = (bytes[104 + (g % 4)]! >> (2 * Math.floor(g / 4))) & 3
      to.scales[g] = scale * ((low | (high << 4)) - 32)
    }
    twoBits(bytes, 32, to.codes)
    for (let i = 0; i < 256; i++) to.codes[i]! |= ((bytes[i % 32]! >> Math.floor(i / 32)) & 1) << 2
  },
  Q4_K(bytes, to) {
    sixBitScales(bytes, to)
    for (let run = 0; run < 4; run++) nibbles(bytes, 16 + 32 * run, 32, to.codes, 64 * run)
  },
  Q5_K(bytes, to) {
    sixBitScales(bytes, to)
    for (let run = 0; run < 4; run++) nibbles(bytes, 48 + 32 * run, 32, to.codes, 64 * run)
    for (let i = 0; i < 256; i++)
      to.codes[i]! |= ((bytes[16 + (i % 32)]! >> Math.floor(i / 32)) & 1) << 4
  },
  Q6_K(bytes, to) {
    const scale = half(bytes, 208)
    for (let g = 0; g < 16; g++) to.scales[g] = scale * ((bytes[192 + g]! << 24) >> 24)
    for (let run = 0; run < 2; run++) nibbles(bytes, 64 * run, 64, to.codes, 128 * run)
    for (let i = 0; i < 256; i++) {
      const byte = bytes[128 + 32 * Math.floor(i / 128) + (i % 32)]!
      to.codes[i]! |= ((byte >> (2 * Math.floor((i % 128) / 32))) & 3) << 4
    }
  },
  IQ4_NL(bytes, to) {
    to.scales[0] = half(bytes, 0)
    nibbles(bytes, 2, 16, to.codes)
    for (let i = 0; i < 32; i++) to.codes[i] = LEVELS[to.codes[i]!]!
  },
  IQ4_XS(bytes, to) {
    const scale = half(bytes, 0)
    const high = bytes[2]! | (bytes[3]! << 8)
    for (let g = 0; g < 8; g++) {
      const low = (bytes[4 + (g >> 1)]! >> (4 * (g & 1))) & 15
      to.scales[g] = scale * ((low | (((high >> (2 * g)) & 3) << 4)) - 32)
      nibbles(bytes, 8 + 16 * g, 16, to.codes, 32 * g)
    }
    for (let i = 0; i < 256; i++) to.codes[i] = LEVELS[to.codes[i]!]!
  },
  MXFP4(bytes, to) {
    to.scales[0] = 2 ** (bytes[0]! - 128) // half of it, as the codes are doubled
    nibbles(bytes, 1, 16, to.codes)
    for (let i = 0; i < 32; i++) to.codes[i] = FP4[to.codes[i]!]!
  },
} as const satisfies Partial<Record<BlockTypeName, Take>>

/** 64 bytes: two runs of 32, four planes of 2 bits each. */
function twoBits(bytes: Uint8Array, from: number, to: Uint8Array): void {
  for (let i = 0; i < 256; i++) {
    const byte = bytes[from + 32 * Math.floor(i / 128) + (i % 32)]!
    to[i] = (byte >> (2 * Math.floor((i % 128) / 32))) & 3
  }
}

/** Of Q4_K and Q5_K: eight scales and minimums of 6 bits in the 12 bytes behind the two they are multiplied with. */
function sixBitScales(bytes: Uint8Array, to: Block): void {
  const [scale, low] = [half(bytes, 0), half(bytes, 2)]
  const b = (i: number) => bytes[4 + i]!
  for (let g = 0; g < 8; g++) {
    const [sc, mn] =
      g < 4
        ? [b(g) & 63, b(g + 4) & 63]
        : [(b(g + 4) & 15) | ((b(g - 4) >> 6) << 4), (b(g + 4) >> 4) | ((b(g) >> 6) << 4)]
    to.scales[g] = scale * sc
    to.minimums[g] = -low * mn
  }
}
