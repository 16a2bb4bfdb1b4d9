// GGUF's blocks taken apart: of each group its codes, its scale and its minimum, nothing rounded that the file has not
// rounded. Where a block has scales of scales they are multiplied out, which single precision holds exactly: 11 bits times
// 8 at most. Layouts: ggml-common.h and ggml-quants.c of llama.cpp. "Planes" of bits: a run of bytes holds as many values in
// its lowest bits, the next as many in those above.
//
// Gigabytes go through here at a model's first start, so four bytes are read and written at once: 3 to 15 times as fast as one.
// Where it can it is done in C (runtime/blocks.c), with the same bits.

import { float8Values, halfValues } from "../../runtime/dtype.ts"
import { floatBytes, type GroupCodecName, groupCodecs, rowLayout } from "../../runtime/format.ts"
import type { StoredRows } from "../weights/convert.ts"
import type { Room } from "../weights/room.ts"
import { patternsOf } from "./patterns.ts"
import type { BlockTypeName } from "./types.ts"
import { blockTypes } from "./types.ts"

/** Rows of blocks as rows of the codec that the type is kept in. @param room that these are put in; absent: memory of their own */
export async function unpackBlocks(
  type: BlockTypeName,
  codec: GroupCodecName,
  bytes: Uint8Array,
  rows: number,
  columns: number,
  room?: Room,
): Promise<StoredRows> {
  const { values: blockValues, bytes: blockBytes } = blockTypes[type]
  const { group, perWord, minimums, dtype } = groupCodecs[codec]
  const { words: rowWords, groups } = rowLayout(codec, columns)
  const perRow = groups * (minimums ? 2 : 1)
  const space = (length: number) => (room ? room.take(length) : new Uint8Array(length))
  const values = space(4 * rows * rowWords)
  const scales = space(floatBytes[dtype] * rows * perRow)
  const patterns = patternsOf(type) ?? NO_PATTERNS
  if (room?.weightWork) {
    const { unpackBlocks } = room.weightWork
    await unpackBlocks(blockTypes[type].id, rows, columns, bytes, patterns, values, scales)
    return { rows, values, scales }
  }
  const block: Block = {
    bytes: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    from: 0,
    words: new Uint32Array(values.buffer),
    to: 0,
    numbers: dtype === "f32" ? new Float32Array(scales.buffer) : new Uint16Array(scales.buffer),
    scale: 0,
    minimum: 0,
    patterns,
  }
  const take: Take = takers[type as keyof typeof takers]
  const blocks = columns / blockValues
  for (let row = 0; row < rows; row++)
    for (let at = 0; at < blocks; at++) {
      block.from = (row * blocks + at) * blockBytes
      block.to = row * rowWords + (at * blockValues) / perWord
      block.scale = row * perRow + (at * blockValues) / group
      block.minimum = block.scale + groups
      take(block)
    }
  return { rows, values, scales }
}

/** One block: where its bytes begin, and where its codes, scales and minimums go. */
interface Block {
  bytes: DataView
  from: number
  words: Uint32Array
  to: number
  /** f16 as they are stored, or floats. */
  numbers: Uint16Array | Float32Array
  scale: number
  minimum: number
  patterns: Uint32Array // words of codes
}

const NO_PATTERNS = new Uint32Array(1)

type Take = (block: Block) => void

const half = ({ bytes, from }: Block, at: number) => halfValues()[bytes.getUint16(from + at, true)]!
const four = ({ bytes, from }: Block, at: number) => bytes.getUint32(from + at, true)

/** An f16 of the block as its scale, and one as its minimum. */
function copyScale({ bytes, from, numbers, scale }: Block): void {
  numbers[scale] = bytes.getUint16(from, true)
}
function copyMinimum({ bytes, from, numbers, minimum }: Block): void {
  numbers[minimum] = bytes.getUint16(from + 2, true)
}

/** The low halves of four bytes, side by side in 16 bits. */
function joined(nibbles: number): number {
  const pairs = (nibbles | (nibbles >>> 4)) & 0x00ff00ff
  return (pairs | (pairs >>> 8)) & 0xffff
}

const LOW = 0x0f0f0f0f

/** Of `count` bytes the low halves, then the high halves, as words of nibbles. */
function nibbles(block: Block, from: number, count: number, at = 0): void {
  const { words, to } = block
  for (let i = 0; i < count / 8; i++) {
    const [first, second] = [four(block, from + 8 * i), four(block, from + 8 * i + 4)]
    words[to + at + i] = joined(first & LOW) | (joined(second & LOW) << 16)
    words[to + at + count / 8 + i] =
      joined((first >>> 4) & LOW) | (joined((second >>> 4) & LOW) << 16)
  }
}

/** Four bits, the lowest first, as the lowest bits of four bytes. */
const spread = (bits: number) => ((bits & 15) * 0x204081) & 0x01010101

/** Of 16 bytes the low halves, then the high halves, with a fifth bit each of the four bytes at `bits`. */
function fiveBits(block: Block, from: number, bits: number): void {
  const { words, to } = block
  const fifth = four(block, bits)
  for (let i = 0; i < 4; i++) {
    const word = four(block, from + 4 * i)
    words[to + i] = (word & LOW) | (spread(fifth >>> (4 * i)) << 4)
    words[to + 4 + i] = ((word >>> 4) & LOW) | (spread(fifth >>> (16 + 4 * i)) << 4)
  }
}

/** The 7 signs of the i-th eight values, and an eighth that makes their number even. */
const seven = (word: number, i: number) => even((word >>> (7 * i)) & 127)
function even(bits: number): number {
  const folded = bits ^ (bits >> 4)
  return bits | (((0x6996 >> (folded & 15)) & 1) << 7)
}

/** Eight signs as the uppermost bits of eight codes. */
function signs(bits: number): number {
  const pairs = (bits | (bits << 12)) & 0x000f000f
  const twos = (pairs | (pairs << 6)) & 0x03030303
  return ((twos | (twos << 3)) & 0x11111111) << 3
}

/** Scale `g` of 32 values, as two of 16. */
function twoScales({ numbers, scale: to }: Block, g: number, scale: number): void {
  numbers[to + 2 * g] = scale
  numbers[to + 2 * g + 1] = scale
}

/** Sixteen scales of four bits in the eight bytes from `at` on: odd multiples of an eighth of the block's number. */
function scalesOfSixteen(block: Block, at: number): void {
  const { bytes, from, numbers, scale: to } = block
  const eighth = half(block, 0) / 8
  for (let g = 0; g < 16; g++) {
    const times = (bytes.getUint8(from + at + (g >> 1)) >> (4 * (g & 1))) & 15
    numbers[to + g] = eighth * (2 * times + 1)
  }
}

/** Eight codes that stand for one less than they are, as those above a zero of 8. */
const LESS_ONE = 0x77777777

/** The f16 at `at` as the scale of all the groups. */
function sameScales({ bytes, from, numbers, scale: to }: Block, at: number, groups: number): void {
  for (let g = 0; g < groups; g++) numbers[to + g] = bytes.getUint16(from + at, true)
}

/** Half of the float of 8 bits without a sign, for codes that are doubled. What is no number is 0, as others have it. */
const halfOfFloat8 = (byte: number) => ((byte & 127) === 127 ? 0 : float8Values[byte & 127]! / 2)

/** Half of the power of two that the exponent of a block of 4-bit floats says, as a bf16: their codes are doubled. */
export function halfOfPower(exponent: number): number {
  return exponent > 1 ? (exponent - 1) << 7 : 32 << exponent // the two least are subnormal
}

const takers = {
  Q4_0(block) {
    copyScale(block)
    nibbles(block, 2, 16)
  },
  Q4_1(block) {
    copyScale(block)
    copyMinimum(block)
    nibbles(block, 4, 16)
  },
  Q5_0(block) {
    copyScale(block)
    fiveBits(block, 6, 2)
  },
  Q5_1(block) {
    copyScale(block)
    copyMinimum(block)
    fiveBits(block, 8, 4)
  },
  Q8_0(block) {
    copyScale(block)
    const { words, to } = block
    for (let i = 0; i < 8; i++) words[to + i] = four(block, 2 + 4 * i) ^ 0x80808080 // signed, plus 128
  },
  Q2_K(block) {
    const { bytes, from, numbers, scale: to, minimum } = block
    const [scale, low] = [half(block, 80), half(block, 82)]
    for (let g = 0; g < 16; g++) {
      const both = bytes.getUint8(from + g)
      numbers[to + g] = scale * (both & 15)
      numbers[minimum + g] = -low * (both >> 4)
    }
    twoBits(block, 16)
  },
  Q3_K(block) {
    const { bytes, from, numbers, scale: to } = block
    const scale = half(block, 108)
    for (let g = 0; g < 16; g++) {
      const low = (bytes.getUint8(from + 96 + (g & 7)) >> (g & 8 ? 4 : 0)) & 15
      const high = (bytes.getUint8(from + 104 + (g & 3)) >> (2 * (g >> 2))) & 3
      numbers[to + g] = scale * ((low | (high << 4)) - 32)
    }
    twoBits(block, 32)
    thirdBit(block)
  },
  Q4_K(block) {
    sixBitScales(block)
    for (let run = 0; run < 4; run++) nibbles(block, 16 + 32 * run, 32, 8 * run)
  },
  Q5_K(block) {
    sixBitScales(block)
    const { words, to } = block
    for (let i = 0; i < 8; i++) {
      const fifth = four(block, 16 + 4 * i)
      for (let run = 0; run < 4; run++) {
        const word = four(block, 48 + 32 * run + 4 * i)
        const upper = (fifth >>> (2 * run)) & 0x03030303
        words[to + 16 * run + i] = (word & LOW) | ((upper & 0x01010101) << 4)
        words[to + 16 * run + 8 + i] = ((word >>> 4) & LOW) | ((upper & 0x02020202) << 3)
      }
    }
  },
  Q6_K(block) {
    const { bytes, from, words, to, numbers } = block
    const scale = half(block, 208)
    for (let g = 0; g < 16; g++) numbers[block.scale + g] = scale * bytes.getInt8(from + 192 + g)
    for (let run = 0; run < 2; run++)
      for (let i = 0; i < 8; i++) {
        const first = four(block, 64 * run + 4 * i)
        const second = four(block, 64 * run + 32 + 4 * i)
        const upper = four(block, 128 + 32 * run + 4 * i)
        const at = to + 32 * run + i
        words[at] = (first & LOW) | ((upper & 0x03030303) << 4)
        words[at + 8] = (second & LOW) | ((upper & 0x0c0c0c0c) << 2)
        words[at + 16] = ((first >>> 4) & LOW) | (upper & 0x30303030)
        words[at + 24] = ((second >>> 4) & LOW) | ((upper >>> 2) & 0x30303030)
      }
  },
  IQ4_NL(block) {
    copyScale(block)
    nibbles(block, 2, 16)
  },
  IQ4_XS(block) {
    const { bytes, from, numbers, scale: to } = block
    const scale = half(block, 0)
    const high = bytes.getUint16(from + 2, true)
    for (let g = 0; g < 8; g++) {
      const low = (bytes.getUint8(from + 4 + (g >> 1)) >> (4 * (g & 1))) & 15
      numbers[to + g] = scale * ((low | (((high >> (2 * g)) & 3) << 4)) - 32)
      nibbles(block, 8 + 16 * g, 16, 4 * g)
    }
  },
  IQ2_XXS(block) {
    const { words, to, patterns } = block
    const eighth = half(block, 0) / 8
    for (let g = 0; g < 8; g++) {
      const [codes, rest] = [four(block, 2 + 8 * g), four(block, 6 + 8 * g)]
      twoScales(block, g, eighth * (2 * (rest >>> 28) + 1))
      for (let i = 0; i < 4; i++)
        words[to + 4 * g + i] = patterns[(codes >>> (8 * i)) & 255]! | signs(seven(rest, i))
    }
  },
  IQ2_XS(block) {
    const { bytes, from, words, to, patterns } = block
    scalesOfSixteen(block, 66)
    for (let i = 0; i < 32; i++) {
      const code = bytes.getUint16(from + 2 + 2 * i, true)
      words[to + i] = patterns[code & 511]! | signs(even(code >> 9))
    }
  },
  IQ2_S(block) {
    const { bytes, from, words, to, patterns } = block
    scalesOfSixteen(block, 74)
    for (let i = 0; i < 32; i++) {
      const upper = (bytes.getUint8(from + 66 + (i >> 2)) >> (2 * (i & 3))) & 3
      const pattern = patterns[bytes.getUint8(from + 2 + i) | (upper << 8)]!
      words[to + i] = pattern | signs(bytes.getUint8(from + 34 + i))
    }
  },
  IQ3_XXS(block) {
    const { bytes, from, words, to, numbers, scale, patterns } = block
    const halved = half(block, 0) / 2 // so are the levels
    for (let g = 0; g < 8; g++) {
      const rest = four(block, 66 + 4 * g)
      numbers[scale + g] = halved * (2 * (rest >>> 28) + 1)
      for (let i = 0; i < 4; i++) {
        const codes = bytes.getUint16(from + 2 + 8 * g + 2 * i, true)
        const pattern = patterns[codes & 255]! | (patterns[codes >> 8]! << 16)
        words[to + 4 * g + i] = pattern | signs(seven(rest, i))
      }
    }
  },
  IQ3_S(block) {
    const { bytes, from, words, to, numbers, scale, patterns } = block
    const one = half(block, 0)
    for (let g = 0; g < 8; g++) {
      const times = (bytes.getUint8(from + 106 + (g >> 1)) >> (4 * (g & 1))) & 15
      numbers[scale + g] = one * (2 * times + 1)
      const ninth = bytes.getUint8(from + 66 + g)
      for (let i = 0; i < 4; i++) {
        const codes = bytes.getUint16(from + 2 + 8 * g + 2 * i, true)
        const first = patterns[(codes & 255) | (((ninth >> (2 * i)) & 1) << 8)]!
        const second = patterns[(codes >> 8) | (((ninth >> (2 * i + 1)) & 1) << 8)]!
        words[to + 4 * g + i] =
          first | (second << 16) | signs(bytes.getUint8(from + 74 + 4 * g + i))
      }
    }
  },
  IQ1_S(block) {
    const { bytes, from, words, to, patterns } = block
    const eighth = half(block, 0) / 8
    for (let g = 0; g < 8; g++) {
      const rest = bytes.getUint16(from + 34 + 2 * g, true)
      twoScales(block, g, eighth * (2 * ((rest >> 12) & 7) + 1))
      const less = (rest >> 15) << 11
      for (let i = 0; i < 4; i++) {
        const upper = ((rest >> (3 * i)) & 7) << 8
        words[to + 4 * g + i] = patterns[bytes.getUint8(from + 2 + 4 * g + i) | upper | less]!
      }
    }
  },
  IQ1_M(block) {
    const { bytes, from, words, to, numbers, scale, patterns } = block
    const rests = [48, 50, 52, 54].map((at) => bytes.getUint16(from + at, true))
    const bits = rests.reduce((sum, rest, i) => sum | ((rest >> 12) << (4 * i)), 0)
    const eighth = halfValues()[bits]! / 8
    for (let g = 0; g < 16; g++)
      numbers[scale + g] = eighth * (2 * ((rests[g >> 2]! >> (3 * (g & 3))) & 7) + 1)
    for (let i = 0; i < 32; i++) {
      const upper = bytes.getUint8(from + 32 + (i >> 1)) >> (4 * (i & 1))
      words[to + i] = patterns[bytes.getUint8(from + i) | ((upper & 15) << 8)]!
    }
  },
  TQ1_0(block) {
    const { bytes, from, words, to } = block
    sameScales(block, 52, 8)
    // Runs of bytes with five digits of base 3, or four, of which all first ones come first.
    const runs: [at: number, count: number, digits: number][] = [
      [0, 32, 5],
      [32, 16, 5],
      [48, 4, 4],
    ]
    let value = 0
    words.fill(0, to, to + 32)
    for (const [at, count, digits] of runs)
      for (let digit = 0, power = 1; digit < digits; digit++, power *= 3)
        for (let i = 0; i < count; i++, value++) {
          const rest = (bytes.getUint8(from + at + i) * power) & 255
          words[to + (value >> 3)]! |= (((rest * 3) >> 8) + 7) << (4 * (value & 7))
        }
  },
  TQ2_0(block) {
    const { words, to } = block
    sameScales(block, 64, 8)
    twoBits(block, 0)
    for (let i = 0; i < 32; i++) words[to + i]! += LESS_ONE
  },
  Q1_0(block) {
    const { bytes, from, words, to } = block
    sameScales(block, 0, 4)
    for (let i = 0; i < 16; i++)
      words[to + i] = (signs(bytes.getUint8(from + 2 + i)) >>> 2) + LESS_ONE
  },
  Q2_0(block) {
    const { bytes, from, words, to } = block
    sameScales(block, 0, 2)
    for (let i = 0; i < 8; i++) {
      const codes = bytes.getUint16(from + 2 + 2 * i, true)
      const fours = (codes | (codes << 8)) & 0x00ff00ff
      const twos = (fours | (fours << 4)) & 0x0f0f0f0f
      words[to + i] = ((twos | (twos << 2)) & 0x33333333) + LESS_ONE
    }
  },
  MXFP4(block) {
    const { bytes, from, numbers, scale } = block
    numbers[scale] = halfOfPower(bytes.getUint8(from))
    nibbles(block, 1, 16)
  },
  NVFP4(block) {
    const { bytes, from, numbers, scale } = block
    for (let g = 0; g < 4; g++) {
      numbers[scale + g] = halfOfFloat8(bytes.getUint8(from + g))
      nibbles(block, 4 + 8 * g, 8, 2 * g)
    }
  },
} as const satisfies Partial<Record<BlockTypeName, Take>>

/** 64 bytes: two runs of 32, four planes of 2 bits each. */
function twoBits(block: Block, from: number): void {
  const { words, to } = block
  for (let run = 0; run < 2; run++)
    for (let i = 0; i < 4; i++) {
      const first = four(block, from + 32 * run + 8 * i)
      const second = four(block, from + 32 * run + 8 * i + 4)
      const at = to + 16 * run + i
      for (let plane = 0; plane < 4; plane++)
        words[at + 4 * plane] =
          joined((first >>> (2 * plane)) & 0x03030303) |
          (joined((second >>> (2 * plane)) & 0x03030303) << 16)
    }
}

/** A third bit of each nibble: 32 bytes, eight planes. */
function thirdBit(block: Block): void {
  const { words, to } = block
  for (let i = 0; i < 4; i++) {
    const [first, second] = [four(block, 8 * i), four(block, 8 * i + 4)]
    for (let plane = 0; plane < 8; plane++)
      words[to + 4 * plane + i]! |=
        (joined((first >>> plane) & 0x01010101) << 2) |
        (joined((second >>> plane) & 0x01010101) << 18)
  }
}

/** Of Q4_K and Q5_K: eight scales and minimums of 6 bits in the 12 bytes behind the two they are multiplied with. */
function sixBitScales(block: Block): void {
  const { numbers, scale: to, minimum } = block
  const [scale, low] = [half(block, 0), half(block, 2)]
  const [scales, minimums, both] = [four(block, 4), four(block, 8), four(block, 12)]
  for (let g = 0; g < 4; g++) {
    const [a, b, c] = [scales >>> (8 * g), minimums >>> (8 * g), both >>> (8 * g)]
    numbers[to + g] = scale * (a & 63)
    numbers[minimum + g] = -low * (b & 63)
    numbers[to + 4 + g] = scale * ((c & 15) | ((a >> 2) & 48))
    numbers[minimum + 4 + g] = -low * (((c >> 4) & 15) | ((b >> 2) & 48))
  }
}
