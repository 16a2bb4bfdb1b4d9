// Frames of a container to sound: those parts of it that are meant.

import type { Decoded } from "./broken.ts"
import { lengthProblem, rateProblem } from "./limits.ts"

export interface FrameDecoder {
  /** Of the frame behind the last one, the mean of its channels. */
  decode(frame: Uint8Array): Float32Array
}

/** Frames one behind the other, all of one size but the last. */
export interface Framed {
  /** Samples a second, and of a frame. */
  rate: number
  size: number
  frames: readonly Uint8Array[]
  open: () => FrameDecoder
}

/** Samples of what frames hold. */
export interface Span {
  from: number
  end: number
}

/** Frames before a span, which fade into it. An encoder's delay is shorter, so that what is meant behind it is decoded from the first frame on. */
const LEAD = 3

/** @param spans in their order. @param most seconds */
export function decodeSpans(
  { rate, size, frames, open }: Framed,
  spans: readonly Span[],
  most: number,
): Decoded {
  const total = frames.length * size
  const meant = spans
    .map(({ from, end }) => ({ from, end: Math.min(end, total) }))
    .filter(({ from, end }) => from < end)
  const count = meant.reduce((sum, { from, end }) => sum + end - from, 0)
  const refusal = rateProblem(rate) ?? lengthProblem(count / rate, most)
  if (refusal !== undefined) return { refusal }
  const samples = new Float32Array(count)
  let at = 0
  for (const { from, end } of meant) {
    const first = Math.max(0, Math.floor(from / size) - LEAD)
    const decoder = open()
    for (let frame = first; frame * size < end; frame++) {
      const part = decoder.decode(frames[frame]!)
      const start = frame * size
      const wanted = part.subarray(Math.max(0, from - start), Math.max(0, end - start))
      samples.set(wanted, at)
      at += wanted.length
    }
  }
  return { rate, samples: samples.subarray(0, at) }
}
