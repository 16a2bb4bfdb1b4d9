// What a frame of AAC is made of, and one of Apple Lossless: elements, each of which begins with its kind.
//
// ISO/IEC 14496-3, 4.4.2.1 (raw_data_block).

import type { Bits } from "./bits.ts"

/** Kinds of elements; the others are single channels. */
export const PAIR = 1
export const COUPLED = 2
export const DATA = 4
export const PROGRAM = 5
export const FILL = 6
export const END = 7

/** What somebody wrote beside the sound. */
export function passData(bits: Bits): void {
  bits.read(4) // its number
  const isAligned = bits.read(1)
  let bytes = bits.read(8)
  if (bytes === 255) bytes += bits.read(8)
  if (isAligned) bits.align()
  for (; bytes > 0; bytes--) bits.read(8)
}

/** Zeros, or what a decoder of HE-AAC makes of the lower half of the spectrum. */
export function passFill(bits: Bits): void {
  let bytes = bits.read(4)
  if (bytes === 15) bytes += bits.read(8) - 1
  for (; bytes > 0; bytes--) bits.read(8)
}
