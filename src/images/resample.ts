// Resizes pictures as torchvision does, bit by bit, since transformers' processors do it by that unless told otherwise: weights
// in 16 bits, columns first and bytes in between. Pillow has weights of 22 bits; the two differ by one step in a few pixels.
//
// Source: aten/src/ATen/native/cpu/UpSampleKernel.cpp of PyTorch, which took its filters from Pillow's Resample.c.

import type { Filter, Picture, Size } from "./image.ts"

/** Which part of the resized picture is wanted. */
export interface Window extends Size {
  left: number
  top: number
}

const filters: Record<Filter, { support: number; weight: (x: number) => number }> = {
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, weight: cubic },
  lanczos: { support: 3, weight: (x) => (x > -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
}

/** Keys' cubic with a = -0.5, as Pillow has it. */
function cubic(x: number): number {
  const a = -0.5
  const far = Math.abs(x)
  if (far < 1) return ((a + 2) * far - (a + 3)) * far * far + 1
  return far < 2 ? (((far - 5) * far + 8) * far - 4) * a : 0
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
}

/**
 * @param to the size of all of it, of which `window` is returned
 * @returns a picture of its own, or the same where nothing changes
 */
export function resize(picture: Picture, to: Size, filter: Filter, window?: Window): Picture {
  const { left, top, width, height } = window ?? { left: 0, top: 0, ...to }
  const isWhole = width === picture.width && height === picture.height
  if (isWhole && to.width === width && to.height === height) return picture
  const columns = tapsOf(picture.width, to.width, left, width, filter)
  const rows = tapsOf(picture.height, to.height, top, height, filter)
  return resizeColumns(resizeRows(picture, columns), rows)
}

/** For each pixel of a line that comes out: which of the line before it is made of, and how much each counts. */
interface Taps {
  starts: Int32Array // [out]
  counts: Int32Array // [out]
  weights: Int16Array // [out, most]
  most: number
  /** Weights are multiplied by two to the power of this. */
  bits: number
}

/** @param first of the `count` pixels that are wanted, of the `to` that there are */
function tapsOf(from: number, to: number, first: number, count: number, filter: Filter): Taps {
  const { support: radius, weight } = filters[filter]
  const scale = from / to
  const stretch = Math.max(scale, 1)
  const support = radius * stretch
  const most = Math.ceil(Math.fround(support)) * 2 + 1
  const starts = new Int32Array(count)
  const counts = new Int32Array(count)
  const shares = new Float64Array(count * most)
  const line = new Float64Array(most)
  let largest = Number.NEGATIVE_INFINITY // of all, wanted or not: it decides how they are rounded
  for (let i = 0; i < to; i++) {
    const centre = scale * (i + 0.5)
    const start = Math.max(Math.trunc(centre - support + 0.5), 0)
    const end = Math.min(Math.trunc(centre + support + 0.5), from)
    const taps = Math.max(0, Math.min(end - start, most))
    let total = 0
    for (let k = 0; k < taps; k++) {
      line[k] = weight((k + start - centre + 0.5) * (1 / stretch))
      total += line[k]!
    }
    for (let k = 0; k < taps && total !== 0; k++) {
      line[k] = line[k]! / total
      largest = Math.max(largest, line[k]!)
    }
    const at = i - first
    if (at < 0 || at >= count) continue
    starts[at] = start
    counts[at] = taps
    shares.set(line.subarray(0, taps), at * most)
  }
  const bits = bitsOf(largest)
  const weights = Int16Array.from(shares, (share) => {
    const scaled = share * 2 ** bits
    return scaled < 0 ? scaled - 0.5 : scaled + 0.5 // and cut off
  })
  return { starts, counts, weights, most, bits }
}

/** As many as leave the largest weight below 2^15. */
function bitsOf(largest: number): number {
  let bits = 0
  while (bits < 22 && Math.trunc(0.5 + largest * 2 ** (bits + 1)) < 2 ** 15) bits++
  return bits
}

function resizeRows(picture: Picture, { starts, counts, weights, most, bits }: Taps): Picture {
  const { width: before, height, data: from } = picture
  const width = starts.length
  const data = new Uint8Array(width * height * 3)
  const half = 1 << (bits - 1)
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0; x < width; x++, to += 3) {
      let red = half
      let green = half
      let blue = half
      let at = (y * before + starts[x]!) * 3
      const end = x * most + counts[x]!
      for (let k = x * most; k < end; k++, at += 3) {
        const weight = weights[k]!
        red = (red + weight * from[at]!) | 0
        green = (green + weight * from[at + 1]!) | 0
        blue = (blue + weight * from[at + 2]!) | 0
      }
      data[to] = byteOf(red >> bits)
      data[to + 1] = byteOf(green >> bits)
      data[to + 2] = byteOf(blue >> bits)
    }
  }
  return { width, height, data }
}

function resizeColumns(picture: Picture, { starts, counts, weights, most, bits }: Taps): Picture {
  const { width, data: from } = picture
  const height = starts.length
  const stride = width * 3
  const data = new Uint8Array(stride * height)
  const sums = new Int32Array(stride)
  for (let y = 0; y < height; y++) {
    sums.fill(1 << (bits - 1))
    for (let k = 0; k < counts[y]!; k++) {
      const weight = weights[y * most + k]!
      const row = (starts[y]! + k) * stride
      for (let i = 0; i < stride; i++) sums[i] = sums[i]! + weight * from[row + i]!
    }
    for (let i = 0; i < stride; i++) data[y * stride + i] = byteOf(sums[i]! >> bits)
  }
  return { width, height, data }
}

function byteOf(value: number): number {
  return value < 0 ? 0 : value > 255 ? 255 : value
}
