// Numbers as files and caches hold them. Values are computed as float32; here they are widened from half precisions and
// rounded to them, to the nearest, halves to even. All formats are little-endian, and so must the machine be.

import { type FloatType, floatBytes } from "./format.ts"

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

let halves: Float32Array | undefined // made when it is first asked for

/** Numbers for which a table of 65,536 is not worth making: the vectors of a model, for which a start waits. */
const FEW = 4096

/** Reads numbers of `dtype` from bytes into float32. */
export function widen(bytes: Uint8Array, dtype: FloatType): Float32Array {
  const count = bytes.length / floatBytes[dtype]
  if (dtype === "f32") return new Float32Array(...placeOf(bytes, 4), count)
  const stored = new Uint16Array(...placeOf(bytes, 2), count)
  const values = new Float32Array(count)
  if (dtype === "f16") {
    if (!halves && count < FEW) return values.map((_, i) => fromHalf(stored[i]!))
    const table = halfValues()
    for (let i = 0; i < count; i++) values[i] = table[stored[i]!]!
    return values
  }
  const words = new Uint32Array(values.buffer)
  for (let i = 0; i < count; i++) words[i] = stored[i]! << 16
  return values
}

/** The value of each f16 number, by its 16 bits. */
export function halfValues(): Float32Array {
  halves ??= makeHalves()
  return halves
}

/** In a plain loop, as a start waits for it. */
function makeHalves(): Float32Array {
  const values = new Float32Array(65536)
  for (let word = 0; word < 65536; word++) values[word] = fromHalf(word)
  return values
}

/**
 * The value of each float of 8 bits (e4m3): a sign, 4 bits of exponent, 3 of fraction, nothing infinite.
 * https://arxiv.org/abs/2209.05433
 */
export const float8Values: Float32Array = Float32Array.from({ length: 256 }, (_, byte) => {
  const sign = byte & 128 ? -1 : 1
  const [exponent, fraction] = [(byte >> 3) & 15, byte & 7]
  if (exponent === 15 && fraction === 7) return Number.NaN
  return sign * (exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10))
})

/** The bytes of float32 values as numbers of `dtype`. */
export function narrow(values: Float32Array, dtype: FloatType): Uint8Array {
  if (dtype === "f32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
  const stored = new Uint16Array(values.length)
  const word = dtype === "f16" ? toHalf : toBrain
  for (let i = 0; i < values.length; i++) stored[i] = word(values[i]!)
  return new Uint8Array(stored.buffer)
}

/** Rounds a value to what `dtype` can hold, once, from the double: as an operation whose result has that type does. */
export const rounding = {
  f32: Math.fround,
  f16: roundHalf,
  bf16: (x: number): number => {
    bits[0] = toBrain(x) << 16
    return float[0]!
  },
} as const satisfies Record<FloatType, (x: number) => number>

// By the exponent of a float32, 8 bits: neighbouring f16 numbers are 2^-24 apart below 2^-14, and 2^-10 of the power of two
// below the number from there on. Adding and taking away 1.5 * 2^52 times the distance rounds a double to it.
const halfExponents = Array.from({ length: 256 }, (_, e) => Math.max(e - 127, -14))
const halfMagic = Float64Array.from(halfExponents, (e) => 1.5 * 2 ** (52 + e - 10))
const halfSteps = Float64Array.from(halfExponents, (e) => 2 ** (10 - e))

function roundHalf(x: number): number {
  float[0] = x
  const magic = halfMagic[(bits[0]! >>> 23) & 0xff]!
  const rounded = x + magic - magic
  return Math.abs(rounded) > 65504 ? x * Number.POSITIVE_INFINITY : rounded
}

function toHalf(x: number): number {
  float[0] = x
  const sign = (bits[0]! >>> 16) & 0x8000
  const rounded = roundHalf(x)
  float[0] = rounded
  const exponent = (bits[0]! >>> 23) & 0xff
  if (exponent === 0xff) return sign | (Number.isNaN(x) ? 0x7e00 : 0x7c00)
  // From 2^-14 on, the 1024 steps up to the power of two count as one more of the exponent.
  return sign + Math.abs(rounded) * halfSteps[exponent]! + ((Math.max(exponent, 113) - 113) << 10)
}

function fromHalf(word: number): number {
  const sign = word & 0x8000 ? -1 : 1
  const exponent = (word >>> 10) & 31
  const fraction = word & 1023
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (exponent === 0 ? fraction : fraction + 1024) * 2 ** (Math.max(exponent, 1) - 25)
}

const MAX_BF16 = 0x7f7f0000

/** As MLC writes it: beyond the largest number nothing is rounded up, so that nothing becomes infinite. */
function toBrain(x: number): number {
  float[0] = x
  const word = bits[0]!
  const size = word & 0x7fffffff
  if (size > 0x7f800000) return (word >>> 16) | 0x40 // NaN stays NaN
  if (size >= MAX_BF16) return word >>> 16
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
}

/** The nearest integer, halves to the even one; |x| < 2^51. */
export function nearestEven(x: number): number {
  const big = 6755399441055744 // 1.5 * 2^52: there doubles are integers
  return x + big - big
}

/** The buffer of bytes and where they begin in it, copied when a view of `size` bytes each could not begin there. */
function placeOf(bytes: Uint8Array, size: number): [ArrayBuffer, number] {
  // A Buffer's slice would be no copy.
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  return [buffer as ArrayBuffer, byteOffset]
}
