// Numbers as codes of 8 bits and a scale, as `quantize` of the reference makes them of a group: what rows, keys and values, and
// what lies between the products of experts, are rounded with. And codes of 16 bits, of rows and of floats of 16 bits.

import type { WideCodec } from "../../../../runtime/format.ts"
import { WIDE_BITS, WIDE_MOST } from "../../../plan.ts"
import { type Builder, type Elements, f32, fma, select, u32, type Value } from "../ir/builder.ts"
import { halfOf } from "./numbers.ts"

const MAGIC = 12582912 // as in numbers.ts; what is added stands in the low bits of the sum
const INFINITY = 0x7f800000 // as bits
const NAN = 0x7fc00000

/** The bits of a float's size: in the order of sizes, a NaN's above all others. */
export const sizeBits = (x: Value) => x.bits("u32").and(0x7fffffff)

/** How numbers become codes, by the bits of the largest size among them. */
export function coding(k: Builder, largest: Value, most = 127) {
  const size = k.let(largest.bits("f32"))
  const inverse = k.let(select(largest.ne(0), f32(most).div(size), 0))
  // Codes of what is no number are 0; and of numbers so small that nothing comes of them, though they are not 0.
  const isSound = k.let(largest.lt(INFINITY).and(inverse.bits("u32").lt(INFINITY)))
  return {
    /** It must not come out as a number where there was none. */
    scale: select(largest.lt(INFINITY), size.div(most), u32(NAN).bits("f32")),
    /** In the lowest byte. */
    code: (x: Value) => x.mul(inverse).add(MAGIC).bits("u32"),
    /** In the lower half, 128 more than it is. */
    wideCode: (x: Value) =>
      x
        .mul(inverse)
        .add(MAGIC + 128)
        .bits("u32"),
    isSound,
  }
}

/** A group of numbers: its scale, and so many words of four codes, zeros behind the last number. */
export function codedGroup(
  k: Builder,
  values: readonly Value[],
  words: number,
): { scale: Value; words: Value[] } {
  const largest = values.map(sizeBits).reduce((a, b) => a.max(b))
  const made = coding(k, k.let(largest))
  const wordOf = (word: number) => codedWord(made, values.slice(4 * word, 4 * word + 4))
  return { scale: made.scale, words: Array.from({ length: words }, (_, word) => wordOf(word)) }
}

/** Four numbers, or fewer. */
function codedWord(
  { code, isSound }: Pick<ReturnType<typeof coding>, "code" | "isSound">,
  values: readonly Value[],
): Value {
  const bytes = values.map((x, i) =>
    code(x)
      .and(0xff)
      .shl(8 * i),
  )
  const four = bytes.reduce((a, b) => a.or(b), u32(0))
  return select(isSound, four, 0)
}

/** The word of four codes from number `at` on of a row that lies in shared memory from `first` on. */
export function roundedWord(
  k: Builder,
  numbers: Elements,
  [first, at]: readonly [Value, Value],
  group: number,
): { word: Value; scale: Value } {
  const own = k.let(first.add(at))
  const begin = k.let(first.add(at.div(group).mul(group)))
  const sizes = Array.from({ length: group }, (_, i) => sizeBits(numbers.load(begin.add(i))))
  const made = coding(k, k.let(sizes.reduce((a, b) => k.let(a.max(b)))))
  const four = Array.from({ length: 4 }, (_, i) => numbers.load(own.add(i)))
  return { word: k.let(codedWord(made, four)), scale: made.scale }
}

/** Words of four bytes of codes of 16 bits: 256 times the upper ones, and the lower ones, all with a sign. */
export interface WideWords {
  upper: Value[]
  lower: Value[]
}

/** A group of at most 32 numbers; eight words of either half, zeros behind the last number. */
export function wideGroup(
  k: Builder,
  values: readonly Value[],
): { scale: Value; words: WideWords } {
  const largest = values.map(sizeBits).reduce((a, b) => a.max(b))
  const { scale, wideCode, isSound } = coding(k, k.let(largest), WIDE_MOST)
  const codes = values.map((x) => k.let(select(isSound, wideCode(x), 128)))
  return { scale, words: wideWords(k, codes, 8) }
}

/** Of codes as wideCode makes them, eight for two words. */
export function wideWords(k: Builder, codes: readonly Value[], count: number): WideWords {
  const words: WideWords = { upper: [], lower: [] }
  for (let word = 0; word < count; word++) {
    const four = Array.from({ length: 4 }, (_, i) => codes[4 * word + i] ?? u32(128))
    const [even, odd] = [0, 1].map((i) => k.let(four[i]!.and(0xffff).or(four[i + 2]!.shl(16))))
    const upper = even!.shr(8).and(0x00ff00ff).or(odd!.and(0xff00ff00))
    const lower = even!.and(0x00ff00ff).or(odd!.and(0x00ff00ff).shl(8)).xor(0x80808080)
    words.upper.push(k.let(upper))
    words.lower.push(k.let(lower))
  }
  return words
}

/** Of four words of four bytes: word i has byte i of each. */
export function transposedBytes(k: Builder, words: readonly Value[]): Value[] {
  const [even, odd] = [0x00ff00ff, 0xff00ff00]
  const [[even0, odd0], [even1, odd1]] = [0, 2].map((i) => {
    const [a, b] = [k.let(words[i]!), k.let(words[i + 1]!)]
    return [k.let(a.and(even).or(b.and(even).shl(8))), k.let(a.shr(8).and(even).or(b.and(odd)))]
  }) as [[Value, Value], [Value, Value]]
  const low = (a: Value, b: Value) => k.let(a.and(0xffff).or(b.shl(16)))
  const high = (a: Value, b: Value) => k.let(a.shr(16).or(b.and(0xffff0000)))
  return [low(even0, even1), low(odd0, odd1), high(even0, even1), high(odd0, odd1)]
}

/** How a group of floats of 16 bits, two in a word, become codes of 16 bits. */
export function wideFloats(k: Builder, codec: WideCodec, words: readonly Value[]) {
  const sizes = words.flatMap((word) => [word.and(0x7fff), word.shr(16).and(0x7fff)])
  const largest = k.let(sizes.reduce((a, b) => k.let(a.max(b))))
  const exponent = k.let(halfOf(k, largest, codec).bits("u32").shr(23))
  // Of the float that codes are made with: it multiplies by a power of two, which is exact.
  const raised = k.let(
    u32(254 + WIDE_BITS - 1)
      .sub(exponent)
      .min(253),
  )
  const by = k.let(raised.shl(23).bits("f32"))
  const scale = u32(254).sub(raised).shl(23).bits("f32")
  return {
    scale: select(exponent.eq(255), u32(NAN).bits("f32"), scale),
    /** Of some of the words, an even number of them; anything where the scale is NaN. */
    codes: (words: readonly Value[]) => {
      const floats = words.flatMap((word) => [word, word.shr(16)])
      const codes = floats.map((float) =>
        k.let(fma(halfOf(k, float, codec, true), by, MAGIC + 128).bits("u32")),
      )
      return wideWords(k, codes, words.length / 2)
    },
  }
}
