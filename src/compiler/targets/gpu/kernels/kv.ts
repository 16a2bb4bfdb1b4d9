// How the KV blocks of a group lie on a device. Each layer of the group has a region of its own, blocks one after the other,
// and in a block
//
//   keys          [kv heads][chunks of 16 bytes of a head][16 positions][16 bytes]
//   values        [kv heads][16 positions][a head, rounded up to 16 bytes]
//   scales, q8    [kv heads][16 positions] of the keys, then of the values
//
// Threads that take neighbouring positions so read neighbouring chunks of keys, and threads that take neighbouring columns
// neighbouring values. A block is one piece of a multiple of 16 bytes, so that it can be copied without a look at what it
// holds.
//
// Heads of any length fit: what is behind a head's last number in its last 16 bytes is 0. Whoever stores writes it
// (`keyWidth`, `valueWidth`), since whole chunks are read.

import type { KvShape, KvType } from "../../../../runtime/manifest.ts"
import { BLOCK } from "../../../../runtime/program.ts"
import type { Operable, Value } from "../ir/builder.ts"
import { u32 } from "../ir/builder.ts"
import { type Element, elementBytes } from "../ir/ir.ts"

/** As what keys and values are stored: bf16 is the upper half of a float's bits, q8 a code. */
export const kvElements = {
  f32: "f32",
  f16: "f16",
  bf16: "u16",
  q8: "i8",
} as const satisfies Record<KvType, Element>

const CHUNK_BYTES = 16

/** Distances are in elements of `kvElements`, but those of scales, which are floats. */
export interface KvLayout {
  kv: KvType
  kvHeads: number
  headDim: KvShape["headDim"]
  /** Elements of a chunk. */
  chunk: number
  /** Elements that a head takes, the zeros behind it included. */
  keyWidth: number
  valueWidth: number
  /** Of a block, where its values begin. */
  values: number
  /** Of a block, where the scales of keys and those of values begin. */
  scales: { keys: number; values: number }
  blockBytes: number
}

export function kvLayout(
  kv: KvType,
  { kvHeads, headDim }: Pick<KvShape, "kvHeads" | "headDim">,
): KvLayout {
  const bytes = elementBytes[kvElements[kv]]
  const chunk = CHUNK_BYTES / bytes
  const widthOf = (dim: number) => Math.ceil(dim / chunk) * chunk
  const [keyWidth, valueWidth] = [widthOf(headDim.key), widthOf(headDim.value)]
  const values = kvHeads * BLOCK * keyWidth
  const codeBytes = (values + kvHeads * BLOCK * valueWidth) * bytes
  const heads = kvHeads * BLOCK
  const keyScales = codeBytes / 4
  return {
    kv,
    kvHeads,
    headDim,
    chunk,
    keyWidth,
    valueWidth,
    values,
    scales: { keys: keyScales, values: keyScales + heads },
    blockBytes: codeBytes + (kv === "q8" ? 2 * heads * 4 : 0),
  }
}

/** What a block of a group takes, in all of the group's layers: the manifest's `bytesPerBlock`. */
export function bytesPerBlock(kv: KvType, shape: KvShape): number {
  return shape.layers.length * kvLayout(kv, shape).blockBytes
}

/** A number of a kv head's key or value: of which block, and at which position in it. */
export interface Spot {
  block: Value
  head: Operable
  position: Operable
}

/** Where number `i` of a key lies, in elements; with `i` below `keyWidth`. */
export function keyIndex(layout: KvLayout, { block, head, position }: Spot, i: Operable): Value {
  const { chunk, keyWidth } = layout
  const [whole, rest] =
    typeof i === "number"
      ? [Math.floor(i / chunk) * chunk * BLOCK, i % chunk]
      : [i.div(chunk).mul(chunk * BLOCK), i.rem(chunk)]
  return blockIndex(layout, block)
    .add(times(head, BLOCK * keyWidth))
    .add(whole)
    .add(times(position, chunk))
    .add(rest)
}

/** Where number `i` of a value lies, in elements; with `i` below `valueWidth`. */
export function valueIndex(layout: KvLayout, { block, head, position }: Spot, i: Operable): Value {
  const { values, valueWidth } = layout
  return blockIndex(layout, block)
    .add(values)
    .add(times(head, BLOCK * valueWidth))
    .add(times(position, valueWidth))
    .add(i)
}

/** Where the scale of a head's codes lies, in floats. Of q8 alone. */
export function scaleIndex(
  { blockBytes, scales }: KvLayout,
  of: "keys" | "values",
  { block, head, position }: Spot,
): Value {
  return block
    .mul(blockBytes / 4)
    .add(scales[of])
    .add(times(head, BLOCK))
    .add(position)
}

function blockIndex({ kv, blockBytes }: KvLayout, block: Value): Value {
  return block.mul(blockBytes / elementBytes[kvElements[kv]])
}

function times(a: Operable, b: number): Value {
  return typeof a === "number" ? u32(a * b) : a.mul(b)
}
