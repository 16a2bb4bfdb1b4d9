// What operations do to the lanes of a group, a loop for each: run.ts keeps a column of numbers for every value, one a lane,
// and an operation reads columns and fills another. A column of floats rounds what is put into it, and one of whole numbers
// wraps it, which is all that most operations need: a sum, product, quotient or root of two floats is exact enough in a
// double for the second rounding to be the only one (Figueroa, When is double rounding innocuous?).

import { fma } from "../../reference/arithmetic.ts"
import type { Binary, LookUp, Type, Unary } from "./ir.ts"

/** One number of a type for each lane; a bool is 0 or 1. */
export type Column = Float32Array | Int32Array | Uint32Array | Uint8Array

/** The lanes that take part, in the order in which they come. */
export interface Lanes {
  readonly list: Int32Array
  count: number
}

export function newColumn(type: Type, lanes: number): Column {
  if (type === "f32") return new Float32Array(lanes)
  if (type === "i32") return new Int32Array(lanes)
  return type === "u32" ? new Uint32Array(lanes) : new Uint8Array(lanes)
}

/** The same bits as numbers of another type; the column stays the same memory. */
export function sameBits(column: Column, type: Type): Column {
  if (type === "f32") return new Float32Array(column.buffer)
  return type === "i32" ? new Int32Array(column.buffer) : new Uint32Array(column.buffer)
}

type OfTwo = (out: Column, a: Column, b: Column, lanes: Lanes) => void
type OfOne = (out: Column, a: Column, lanes: Lanes) => void

const comparisons: Partial<Record<Binary, OfTwo>> = {
  eq(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!] === b[list[k]!] ? 1 : 0
  },
  ne(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!] !== b[list[k]!] ? 1 : 0
  },
  lt(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! < b[list[k]!]! ? 1 : 0
  },
  le(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! <= b[list[k]!]! ? 1 : 0
  },
}

const ofFloats: Partial<Record<Binary, OfTwo>> = {
  ...comparisons,
  add(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! + b[list[k]!]!
  },
  sub(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! - b[list[k]!]!
  },
  mul(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! * b[list[k]!]!
  },
  div(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! / b[list[k]!]!
  },
}

const ofBits: Partial<Record<Binary, OfTwo>> = {
  and(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! & b[list[k]!]!
  },
  or(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! | b[list[k]!]!
  },
  xor(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! ^ b[list[k]!]!
  },
}

const ofWholeNumbers: Partial<Record<Binary, OfTwo>> = {
  ...comparisons,
  ...ofBits,
  add(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = (a[list[k]!]! + b[list[k]!]!) | 0
  },
  sub(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = (a[list[k]!]! - b[list[k]!]!) | 0
  },
  mul(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = Math.imul(a[list[k]!]!, b[list[k]!]!)
  },
  min(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = Math.min(a[list[k]!]!, b[list[k]!]!)
  },
  max(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = Math.max(a[list[k]!]!, b[list[k]!]!)
  },
  shl(out, a, b, { list, count }) {
    for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! << b[list[k]!]!
  },
}

/** Of whole numbers by zero, and shifts by 32 and more, are refused before they come here. */
export const binaries: Record<Type, Partial<Record<Binary, OfTwo>>> = {
  f32: ofFloats,
  i32: {
    ...ofWholeNumbers,
    shr(out, a, b, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! >> b[list[k]!]!
    },
  },
  u32: {
    ...ofWholeNumbers,
    shr(out, a, b, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! >>> b[list[k]!]!
    },
    // The column cuts what is behind the point; a quotient of two 32-bit numbers is never rounded up to a whole one.
    div(out, a, b, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! / b[list[k]!]!
    },
    rem(out, a, b, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]! % b[list[k]!]!
    },
    mulHigh(out, a, b, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = upperWord(a[list[k]!]!, b[list[k]!]!)
    },
  },
  bool: ofBits,
}

/** In steps that a double holds exactly. */
function upperWord(a: number, b: number): number {
  const [low, high] = [b & 0xffff, b >>> 16]
  const [aLow, aHigh] = [a & 0xffff, a >>> 16]
  const middle = aHigh * low + ((aLow * low) >>> 16)
  const other = aLow * high + (middle & 0xffff)
  return aHigh * high + (middle >>> 16) + (other >>> 16)
}

const negate: OfOne = (out, a, { list, count }) => {
  for (let k = 0; k < count; k++) out[list[k]!] = -a[list[k]!]!
}

/** What is done to a type; the same bits as another type take no loop. */
export const unaries: Record<Type, Partial<Record<Unary, OfOne>>> = {
  f32: {
    neg: negate,
    abs(out, a, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = Math.abs(a[list[k]!]!)
    },
    sqrt(out, a, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = Math.sqrt(a[list[k]!]!)
    },
    whole: copyColumn, // a column of whole numbers cuts towards zero
  },
  i32: { neg: negate, float: copyColumn },
  u32: { float: copyColumn },
  bool: {
    not(out, a, { list, count }) {
      for (let k = 0; k < count; k++) out[list[k]!] = 1 - a[list[k]!]!
    },
  },
}

/** Rounds or cuts to what the other column holds. */
export function copyColumn(out: Column, a: Column, { list, count }: Lanes): void {
  for (let k = 0; k < count; k++) out[list[k]!] = a[list[k]!]!
}

export function selectLanes(
  out: Column,
  condition: Column,
  yes: Column,
  no: Column,
  { list, count }: Lanes,
): void {
  for (let k = 0; k < count; k++)
    out[list[k]!] = condition[list[k]!] === 1 ? yes[list[k]!]! : no[list[k]!]!
}

export function fmaLanes(
  out: Column,
  a: Column,
  b: Column,
  c: Column,
  { list, count }: Lanes,
): void {
  for (let k = 0; k < count; k++) out[list[k]!] = fma(a[list[k]!]!, b[list[k]!]!, c[list[k]!]!)
}

export function dotLanes(
  out: Column,
  a: Column,
  b: Column,
  c: Column,
  { list, count }: Lanes,
): void {
  for (let k = 0; k < count; k++) {
    const [x, y] = [a[list[k]!]!, b[list[k]!]!]
    out[list[k]!] =
      c[list[k]!]! +
      ((x << 24) >> 24) * ((y << 24) >> 24) +
      ((x << 16) >> 24) * ((y << 16) >> 24) +
      ((x << 8) >> 24) * ((y << 8) >> 24) +
      (x >> 24) * (y >> 24)
  }
}

export function lookUpLanes(
  out: Column,
  a: Column,
  { from, table }: Pick<LookUp, "from" | "table">,
  { list, count }: Lanes,
): void {
  for (let k = 0; k < count; k++) {
    let found = 0
    for (let byte = 0; byte < 32; byte += 8) {
      const i = (a[list[k]!]! >>> (byte + from)) & 15
      found |= ((table[i >> 2]! >>> (8 * (i & 3))) & 0xff) << byte
    }
    out[list[k]!] = found
  }
}

/**
 * Tiles of bytes, whose pieces lie with 32 lanes from one on as ir.ts says (`matrixDot`), as whole tiles: so every product is
 * that of a row and a column.
 */
export function multiplyTiles(
  outs: readonly Column[],
  a: readonly Column[],
  b: readonly Column[],
  c: readonly Column[],
  from: number,
): void {
  const byteOf = (words: readonly Column[], word: number, lane: number, byte: number) =>
    (words[word]![from + lane]! << (24 - 8 * byte)) >> 24
  /** Element (row, k) of the one and (k, column) of the other: bytes of a word of some lane. */
  const left = (row: number, k: number) =>
    byteOf(a, (row >> 3) + 2 * (k >> 4), 4 * (row & 7) + ((k & 15) >> 2), k & 3)
  const right = (k: number, column: number) =>
    byteOf(b, k >> 4, 4 * column + ((k & 15) >> 2), k & 3)
  for (let row = 0; row < 16; row++)
    for (let column = 0; column < 8; column++) {
      const [place, lane] = [2 * (row >> 3) + (column & 1), 4 * (row & 7) + (column >> 1)]
      let sum = c[place]![from + lane]!
      for (let k = 0; k < 32; k++) sum += left(row, k) * right(k, column)
      outs[place]![from + lane] = sum
    }
}

/** The first lane whose number is not at least `from` and below `to`. */
export function laneOutside(
  column: Column,
  from: number,
  to: number,
  { list, count }: Lanes,
): number | undefined {
  for (let k = 0; k < count; k++) {
    const value = column[list[k]!]!
    if (!(value >= from && value < to)) return list[k]!
  }
  return undefined
}
