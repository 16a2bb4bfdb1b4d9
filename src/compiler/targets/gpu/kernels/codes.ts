// Numbers as codes of 8 bits and a scale, as `quantize` of the reference makes them of a group: what rows, keys and values, and
// what lies between the products of experts, are rounded with.

import { type Builder, f32, select, u32, type Value } from "../ir/builder.ts"

const MAGIC = 12582912 // as in numbers.ts; what is added stands in the low bits of the sum
const INFINITY = 0x7f800000 // as bits
const NAN = 0x7fc00000

/** The bits of a float's size: in the order of sizes, a NaN's above all others. */
export const sizeBits = (x: Value) => x.bits("u32").and(0x7fffffff)

/** How numbers become codes, by the bits of the largest size among them. */
export function coding(k: Builder, largest: Value) {
  const size = k.let(largest.bits("f32"))
  const inverse = k.let(select(largest.ne(0), f32(127).div(size), 0))
  // Codes of what is no number are 0; and of numbers so small that nothing comes of them, though they are not 0.
  const isSound = k.let(largest.lt(INFINITY).and(inverse.bits("u32").lt(INFINITY)))
  return {
    /** It must not come out as a number where there was none. */
    scale: select(largest.lt(INFINITY), size.div(127), u32(NAN).bits("f32")),
    /** In the lowest byte. */
    code: (x: Value) => x.mul(inverse).add(MAGIC).bits("u32"),
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
  const { scale, code, isSound } = coding(k, k.let(largest))
  const wordOf = (word: number) => {
    const bytes = values.slice(4 * word, 4 * word + 4).map((x, i) =>
      code(x)
        .and(0xff)
        .shl(8 * i),
    )
    const four = bytes.reduce((a, b) => a.or(b), u32(0))
    return select(isSound, four, 0)
  }
  return { scale, words: Array.from({ length: words }, (_, word) => wordOf(word)) }
}
