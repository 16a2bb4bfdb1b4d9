// The Huffman codebooks of AAC: of each the symbols by the length of their codes, in the order of the codes. These are canonical: each is the
// one before it plus one, with a zero behind it for each bit that it is longer. So nothing else is needed to read them.
//
// ISO/IEC 14496-3, 4.A.1.

import type { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"

type Lengths = Record<number, readonly number[]>

class Codebook {
  readonly #symbols: readonly number[]
  readonly #lengths: readonly number[] // of codes, the shortest first
  readonly #ends: readonly number[] // where the codes of each length end, filled up to the longest
  readonly #firsts: readonly number[] // what makes a code of each length a symbol's place
  readonly #longest: number

  constructor(symbols: Lengths) {
    this.#symbols = Object.values(symbols).flat()
    this.#lengths = Object.keys(symbols).map(Number)
    this.#longest = this.#lengths.at(-1)!
    const ends: number[] = []
    const firsts: number[] = []
    let [end, place] = [0, 0]
    for (const length of this.#lengths) {
      const shift = this.#longest - length
      const count = symbols[length]!.length
      firsts.push(place - (end >> shift))
      end += count << shift
      place += count
      ends.push(end)
    }
    this.#ends = ends
    this.#firsts = firsts
  }

  /** The next symbol. */
  read(bits: Bits): number {
    const next = bits.peek(this.#longest)
    let at = 0
    while (next >= this.#ends[at]!) at++
    const length = this.#lengths[at]!
    bits.drop(length)
    return this.#symbols[this.#firsts[at]! + (next >> (this.#longest - length))]!
  }
}

interface Shape {
  /** Whole numbers of a symbol. */
  numbers: number
  /** Different ones: from 0 on where their signs stand behind the symbol, else around it. */
  steps: number
  hasSigns?: true
  /** The number behind which a larger one stands. */
  escapes?: number
}

class SpectralCodebook {
  readonly #codebook: Codebook
  readonly #numbers: number // of a symbol
  readonly #values: Int8Array // [symbols, numbers]
  readonly #hasSigns: true | undefined
  readonly #escapes: number | undefined

  constructor({ numbers, steps, hasSigns, escapes }: Shape, symbols: Lengths) {
    this.#codebook = new Codebook(symbols)
    this.#numbers = numbers
    this.#hasSigns = hasSigns
    this.#escapes = escapes
    const least = hasSigns ? 0 : -(steps - 1) / 2
    this.#values = Int8Array.from({ length: steps ** numbers * numbers }, (_, at) => {
      const digit = numbers - 1 - (at % numbers)
      return (Math.floor(Math.floor(at / numbers) / steps ** digit) % steps) + least
    })
  }

  /** Reads what stands between two places of a spectrum. */
  read(bits: Bits, to: Float64Array, from: number, end: number): void {
    for (let at = from; at < end; at += this.#numbers) {
      const symbol = this.#codebook.read(bits) * this.#numbers
      for (let number = 0; number < this.#numbers; number++) {
        const value = this.#values[symbol + number]!
        to[at + number] = this.#hasSigns && value !== 0 && bits.read(1) ? -value : value
      }
      if (this.#escapes === undefined) continue
      for (let number = 0; number < this.#numbers; number++)
        if (Math.abs(to[at + number]!) === this.#escapes)
          to[at + number] = Math.sign(to[at + number]!) * escaped(bits)
    }
  }
}

/** A number of 16 and more: as many ones as it has bits beyond four, a zero, and all its bits but the first. */
function escaped(bits: Bits): number {
  let length = 4
  while (bits.read(1)) length++
  if (length > MAX_ESCAPED) throw new Broken("a number of its spectrum is too large")
  return 2 ** length + bits.read(length)
}

const MAX_ESCAPED = 12 // bits

/** The largest number of a spectrum. */
export const MAX_NUMBER = 2 ** (MAX_ESCAPED + 1) - 1

/** What a band differs by from the one before it, and 60. */
export const DIFFERENCES = new Codebook({
  1: [60],
  3: [59],
  4: [61, 58, 62],
  5: [57, 63],
  6: [56, 64, 55, 65],
  7: [66, 54, 67],
  8: [53, 68, 52, 69, 51],
  9: [70, 50, 49, 71],
  10: [72, 48, 73, 47, 74, 46],
  11: [76, 75, 77, 78, 45, 43],
  12: [44, 79, 42, 41, 80, 40],
  13: [81, 39, 82, 38, 83],
  14: [37, 35, 85, 33, 36, 34, 84, 32],
  15: [87, 89, 30, 31],
  16: [86, 29, 26, 27, 28, 24, 88],
  17: [25, 22, 23],
  18: [90, 21, 19, 3, 1, 2, 0],
  19: [
    98, 99, 100, 101, 102, 117, 97, 91, 92, 93, 94, 95, 96, 104, 111, 112, 113, 114, 115, 116, 110,
    105, 106, 107, 108, 109, 118, 6, 8, 9, 10, 5, 103, 120, 119, 4, 7, 15, 16, 18, 20, 17, 11, 12,
    14, 13,
  ],
})

const FOURS: Shape = { numbers: 4, steps: 3 }
const FOURS_WITH_SIGNS: Shape = { numbers: 4, steps: 3, hasSigns: true }
const PAIRS: Shape = { numbers: 2, steps: 9 }
const PAIRS_TO_7: Shape = { numbers: 2, steps: 8, hasSigns: true }
const PAIRS_TO_12: Shape = { numbers: 2, steps: 13, hasSigns: true }
const PAIRS_TO_ALL: Shape = { numbers: 2, steps: 17, hasSigns: true, escapes: 16 }

/** What spectra are written with. Codebook 1 is the first. */
export const SPECTRAL: readonly SpectralCodebook[] = [
  new SpectralCodebook(FOURS, {
    1: [40],
    5: [67, 13, 39, 49, 41, 37, 43, 31],
    7: [
      58, 22, 38, 46, 34, 42, 76, 36, 4, 28, 64, 48, 16, 44, 70, 32, 52, 50, 10, 68, 12, 66, 14, 30,
    ],
    9: [
      73, 19, 61, 51, 47, 35, 33, 55, 65, 45, 25, 15, 7, 29, 59, 57, 21, 1, 27, 53, 69, 77, 23, 79,
    ],
    10: [5, 9, 75, 63, 11, 3, 17, 71],
    11: [60, 20, 24, 56, 80, 8, 72, 6, 0, 74, 62, 26, 18, 2, 54, 78],
  }),
  new SpectralCodebook(FOURS, {
    3: [40],
    4: [67],
    5: [13, 41, 37, 39, 31, 43, 49],
    6: [
      34, 22, 46, 42, 48, 38, 12, 58, 64, 4, 36, 70, 68, 32, 16, 50, 28, 14, 30, 10, 76, 52, 44, 66,
    ],
    7: [47, 65, 19, 33, 61, 75, 71, 25, 29, 79, 15, 1, 11, 55, 73],
    8: [59, 21, 7, 17, 5, 3, 27, 69, 63, 45, 53, 23, 9, 51, 57, 35, 77, 60, 20],
    9: [56, 0, 24, 26, 80, 6, 62, 18, 8, 72, 54, 2, 74, 78],
  }),
  new SpectralCodebook(FOURS_WITH_SIGNS, {
    1: [0],
    4: [27, 1, 9, 3],
    5: [36, 4],
    6: [12, 10, 30, 13, 28, 39],
    7: [40, 31, 37],
    8: [54, 2, 5, 63, 48],
    9: [7, 16, 45, 14, 66, 6, 21, 15, 18, 11, 57, 49, 22, 42, 43],
    10: [46, 33, 34, 19, 67, 41, 64, 32, 8, 17, 75, 51, 29, 55, 25],
    11: [72, 52, 38, 58, 44, 76, 24, 23],
    12: [35, 73, 69, 78, 26, 79, 70, 50, 53],
    13: [20, 60, 47],
    14: [61, 68, 65],
    15: [80, 77, 71, 59, 56],
    16: [74, 62],
  }),
  new SpectralCodebook(FOURS_WITH_SIGNS, {
    4: [40, 13, 37, 39, 31, 27, 36, 0, 4, 30],
    5: [28, 12, 1, 10, 3, 9],
    7: [67, 43, 49, 41, 66, 64, 48, 58, 16],
    8: [14, 42, 22, 32, 46, 38, 34, 63, 57, 45, 55, 11, 21, 5, 15, 19, 29, 7, 33, 54, 2],
    9: [18, 6, 52, 76, 70, 44, 50, 68],
    10: [51, 75, 69, 25, 17, 73, 23, 61, 35, 79, 47, 59, 65, 53],
    11: [71, 77, 24, 72, 8, 60, 20, 56, 80, 26, 78],
    12: [74, 62],
  }),
  new SpectralCodebook(PAIRS, {
    1: [40],
    4: [31, 49, 41, 39],
    5: [48, 32, 30, 50],
    7: [22, 42, 58, 38],
    8: [21, 59, 29, 51, 23, 57, 33, 47, 13, 67, 37, 43],
    9: [12, 52, 68, 28, 14, 66, 46, 34, 24, 60, 20, 56],
    10: [11, 65, 25, 55, 69, 61, 15, 19, 36, 4, 77, 76],
    11: [3, 44, 75, 27, 53, 35, 5, 45, 64, 10, 16, 26, 2, 78, 54, 62, 70, 6],
    12: [18, 74, 63, 1, 7, 71, 17, 79, 73, 9],
    13: [72, 8, 80, 0],
  }),
  new SpectralCodebook(PAIRS, {
    4: [40, 49, 39, 41, 31, 50, 32, 48, 30],
    6: [57, 59, 23, 21, 22, 33, 58, 47, 51, 38, 29, 42, 56, 24, 20, 60],
    7: [14, 68, 66, 34, 12, 52, 46, 28, 67, 13, 37, 43, 69],
    8: [11, 25, 61, 65, 55, 19, 15, 70],
    9: [64, 10, 16, 45, 27, 77, 5, 3, 53, 75, 35, 36, 6, 2, 62, 18, 4, 78, 74, 26, 76, 54, 44],
    10: [9, 17, 63, 73, 71, 79, 7, 1],
    11: [80, 8, 0, 72],
  }),
  new SpectralCodebook(PAIRS_TO_7, {
    1: [0],
    3: [8, 1],
    4: [9],
    6: [17, 10, 16, 2],
    7: [25, 11, 18, 24, 3],
    8: [19, 26, 12, 33, 13, 41, 27, 20, 4, 32],
    9: [34, 21, 42, 5, 49, 40, 14, 35, 29, 28, 43, 22, 50, 15],
    10: [30, 6, 48, 36, 57, 37, 58, 44, 51, 23, 59, 52, 45, 38, 31],
    11: [56, 7, 53, 46, 60, 39, 47, 61],
    12: [62, 54, 55, 63],
  }),
  new SpectralCodebook(PAIRS_TO_7, {
    3: [9],
    4: [17, 8, 10, 1, 18],
    5: [0, 16, 2, 25, 11, 26, 19],
    6: [27, 33, 12, 34, 20, 24, 3, 35, 28, 42],
    7: [41, 21, 13, 43, 29, 36, 44, 4, 37, 32, 22, 50, 49, 14],
    8: [30, 51, 45, 40, 52, 5, 38, 57, 58, 23, 53, 59, 15, 46, 31],
    9: [54, 60, 48, 39, 6, 61, 62, 55],
    10: [47, 56, 7, 63],
  }),
  new SpectralCodebook(PAIRS_TO_12, {
    1: [0],
    3: [13, 1],
    4: [14],
    6: [27, 15, 26, 2],
    7: [40, 28, 16],
    8: [39, 3, 29, 41, 17, 53, 30, 18],
    9: [54, 42, 4, 52, 66, 31, 19, 43, 67, 79, 55],
    10: [5, 32, 65, 20, 44, 21, 105, 56, 68, 80, 92, 6, 106, 34, 45, 33, 57, 118, 22, 93],
    11: [
      78, 69, 81, 107, 7, 119, 47, 58, 46, 8, 131, 82, 35, 70, 104, 91, 94, 132, 120, 108, 23, 95,
      83, 71, 60, 59, 48, 144, 73, 117, 109,
    ],
    12: [
      133, 36, 9, 145, 121, 84, 157, 61, 110, 24, 122, 134, 72, 96, 37, 25, 158, 146, 49, 74, 85,
      111, 147, 10, 97, 159, 130, 135, 62, 86, 38, 123, 124, 63, 143, 87, 50, 75,
    ],
    13: [
      112, 99, 161, 51, 148, 98, 160, 149, 136, 64, 100, 76, 11, 162, 88, 156, 137, 77, 101, 125,
      12, 150, 113, 126, 138, 102, 163, 89, 115, 151, 103, 90,
    ],
    14: [114, 139, 116, 127, 128, 129, 141, 165, 140, 152, 164, 153, 166, 167],
    15: [142, 154, 155, 168],
  }),
  new SpectralCodebook(PAIRS_TO_12, {
    4: [14, 15, 27],
    5: [28, 13, 1, 16, 41, 40, 29, 42],
    6: [26, 2, 30, 54, 17, 53, 0, 55, 43, 39, 3, 56, 31, 67],
    7: [18, 66, 68, 44, 69, 57, 80, 32, 81, 52, 79, 4, 19, 45, 70, 82, 58],
    8: [
      83, 93, 46, 33, 71, 106, 94, 65, 92, 5, 105, 20, 107, 95, 59, 34, 84, 96, 21, 47, 108, 60, 72,
      109, 73,
    ],
    9: [
      97, 85, 119, 78, 86, 120, 48, 118, 35, 6, 110, 121, 61, 132, 22, 98, 111, 122, 99, 133, 74,
      134, 36, 131, 49, 123, 87, 104, 62, 91, 145,
    ],
    10: [
      100, 146, 136, 23, 144, 124, 7, 112, 135, 50, 75, 113, 148, 8, 147, 37, 101, 88, 137, 63, 24,
      158, 125, 159, 149, 76, 160, 150, 161, 51, 89, 117, 138, 130, 157, 9, 64, 126, 162, 38, 114,
    ],
    11: [
      127, 25, 151, 163, 102, 77, 90, 139, 115, 164, 10, 103, 143, 140, 152, 153, 11, 154, 128, 141,
      156, 116,
    ],
    12: [165, 142, 129, 155, 167, 12, 166, 168],
  }),
  new SpectralCodebook(PAIRS_TO_ALL, {
    4: [0, 18],
    5: [288, 17, 1, 35, 19, 36],
    6: [20, 52, 53, 34, 37, 2, 54],
    7: [69, 21, 70, 38, 71, 55, 51, 3, 86, 87, 39, 72, 22, 88, 56, 89],
    8: [
      73, 104, 40, 103, 105, 57, 23, 84, 67, 277, 275, 276, 106, 278, 68, 74, 4, 50, 90, 101, 279,
      274, 280, 41, 121, 58, 107, 91, 118, 282, 122, 120, 281, 135, 33, 24, 75, 283, 123, 284, 152,
      273, 108, 169, 42, 92, 186, 285, 139, 138, 59, 85, 286, 203, 124, 76, 109, 125, 5,
    ],
    9: [
      140, 287, 220, 25, 137, 254, 93, 237, 60, 141, 126, 43, 142, 155, 156, 271, 77, 110, 102, 157,
      94, 143, 127, 26, 173, 6, 172, 154, 158, 78, 44, 159, 61, 111, 174, 144, 175, 160, 190, 27,
      119, 176, 128, 62, 95, 171, 79, 189, 223, 112, 224, 45, 272, 96, 192,
    ],
    10: [
      191, 161, 129, 145, 16, 81, 7, 64, 193, 222, 225, 207, 47, 226, 146, 113, 178, 177, 240, 208,
      28, 80, 188, 63, 30, 206, 130, 65, 97, 98, 242, 82, 194, 241, 209, 227, 210, 136, 195, 46,
      162, 243, 115, 180, 257, 147, 163, 244, 179, 99, 196, 239, 48, 114, 29, 229, 8, 228, 131, 211,
      132, 258, 205, 116, 49, 260, 259, 31, 164, 83, 245, 149, 230, 148, 100, 66, 181, 197, 212,
      261, 262, 150, 256, 133, 153, 9, 166, 165, 213, 246, 183, 247, 214, 117, 134,
    ],
    11: [
      167, 263, 198, 201, 32, 182, 184, 232, 231, 200, 199, 151, 249, 233, 217, 264, 248, 170, 215,
      168, 10, 216, 187, 218, 185, 234, 13, 250, 265, 266, 202, 251, 221, 11, 235, 267, 268, 219,
      238, 252, 236, 204, 253,
    ],
    12: [14, 12, 269, 255, 15, 270],
  }),
]
