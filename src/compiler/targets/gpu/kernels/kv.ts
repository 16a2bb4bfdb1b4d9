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
// Where a group has values of length 0, its values are columns of its keys, and are read there.
//
// Heads of any length fit: what is behind a head's last number in its last 16 bytes is 0. Whoever stores writes it
// (`keyWidth`, `valueWidth`), since whole chunks are read.

import type { KvShape, KvType } from "../../../../runtime/manifest.ts"
import { BLOCK } from "../../../../runtime/program.ts"
import {
  type Builder,
  type Elements,
  type Operable,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import { type Element, elementBytes } from "../ir/ir.ts"

/** As what keys and values are stored: bf16 is the upper half of a float's bits, q8 a code. */
export const kvElements = {
  f32: "f32",
  f16: "f16",
  bf16: "u16",
  q8: "i8",
} as const satisfies Record<KvType, Element>

const CHUNK_BYTES = 16
const CHUNK_NUMBERS = CHUNK_BYTES / 4

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

/** What a block of a layer takes: of floats, where it is a state. */
export function blockBytesOf(
  kv: KvType,
  shape: Pick<KvShape, "kvHeads" | "headDim" | "state">,
): number {
  if (shape.state === undefined) return kvLayout(kv, shape).blockBytes
  return Math.ceil(shape.state / CHUNK_NUMBERS) * CHUNK_BYTES
}

/** What a block of a group takes, in all of the group's layers: the manifest's `bytesPerBlock`. */
export function bytesPerBlock(kv: KvType, shape: KvShape): number {
  return shape.layers.length * blockBytesOf(kv, shape)
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

/** As what keys and values are read, so that there are 32 bits to an element where they can be taken apart. */
export const kvReads = {
  f32: { element: "f32", holds: 1 },
  f16: { element: "f16", holds: 1 },
  bf16: { element: "u32", holds: 2 },
  q8: { element: "u32", holds: 4 },
} as const satisfies Record<KvType, { element: Element; holds: number }>

/** Where chunk `chunk` of a key lies, in chunks; with the numbers from `layout.chunk * chunk` on. */
export function keyChunkIndex(
  { blockBytes, keyWidth, chunk: numbers }: KvLayout,
  { block, head, position }: Spot,
  chunk: Operable,
): Value {
  return block
    .mul(blockBytes / CHUNK_BYTES)
    .add(times(head, (BLOCK * keyWidth) / numbers))
    .add(times(chunk, BLOCK))
    .add(position)
}

/** The first `count` numbers of a chunk. */
export function readChunk(
  { kv, chunk: numbers }: KvLayout,
  blocks: Elements,
  chunk: Value,
  count: number,
): Value[] {
  if (kv === "f16")
    return Array.from({ length: count }, (_, i) => blocks.load(chunk.mul(numbers).add(i)))
  return blocks
    .loadFour(chunk)
    .flatMap((word) => numbersOf(kv, word))
    .slice(0, count)
}

/** All numbers of a chunk, by one load. */
export function readWhole({ kv }: KvLayout, blocks: Elements, chunk: Value): Value[] {
  if (kv === "f16") return blocks.loadEight(chunk)
  return blocks.loadFour(chunk).flatMap((word) => numbersOf(kv, word))
}

/** Number `i` of a key, with its scale where it has one; of elements of `kvReads`. */
export function readKey(
  k: Builder,
  layout: KvLayout,
  blocks: Elements,
  spot: Spot,
  i: Value,
): Value {
  const { kv, chunk } = layout
  const { holds } = kvReads[kv]
  const units = chunk / holds
  const [unit, rest] = [k.let(i.div(holds)), k.let(i.rem(holds))]
  const first = keyChunkIndex(layout, spot, unit.div(units)).mul(units)
  const numbers = numbersOf(kv, k.let(blocks.load(first.add(unit.rem(units)))))
  const own = numbers.reduce((other, number, n) => select(rest.eq(n), number, other))
  if (kv !== "q8") return own
  return own.mul(blocks.load(scaleIndex(layout, "keys", spot)).bits("f32"))
}

/** The numbers of a value that are read together, as many as `kvReads` says: those from `holds * unit` on. */
export function readValue(layout: KvLayout, blocks: Elements, spot: Spot, unit: Value): Value[] {
  return numbersOf(layout.kv, blocks.load(valueUnitIndex(layout, spot, unit)))
}

/** Where they lie, in elements of `kvReads`. */
export function valueUnitIndex(layout: KvLayout, spot: Spot, unit: Value): Value {
  const { kv, values, valueWidth, blockBytes, chunk } = layout
  const { element, holds } = kvReads[kv]
  const block = spot.block.mul(blockBytes / elementBytes[element])
  if (valueWidth === 0) {
    const units = chunk / holds
    const ofChunk = keyChunkIndex(layout, { ...spot, block: u32(0) }, unit.div(units)).mul(units)
    return block.add(ofChunk).add(unit.rem(units))
  }
  return block
    .add(values / holds)
    .add(times(spot.head, (BLOCK * valueWidth) / holds))
    .add(times(spot.position, valueWidth / holds))
    .add(unit)
}

/** Where chunk `chunk` of a value lies, in chunks, where a group has values. */
export function valueChunkIndex(
  { blockBytes, values, valueWidth, chunk: numbers }: KvLayout,
  { block, head, position }: Spot,
  chunk: Value,
): Value {
  return block
    .mul(blockBytes / CHUNK_BYTES)
    .add(values / numbers)
    .add(times(head, (BLOCK * valueWidth) / numbers))
    .add(times(position, valueWidth / numbers))
    .add(chunk)
}

function numbersOf(kv: KvType, read: Value): Value[] {
  if (kv === "bf16") return [read.shl(16).bits("f32"), read.and(0xffff0000).bits("f32")]
  if (kv === "q8") return [24, 16, 8, 0].map((left) => read.bits("i32").shl(left).shr(24).float())
  return [read]
}

/** Where the scale of a head's codes lies, in floats. Of q8 alone. */
export function scaleIndex(
  { blockBytes, scales, valueWidth }: KvLayout,
  of: "keys" | "values",
  { block, head, position }: Spot,
): Value {
  return block
    .mul(blockBytes / 4)
    .add(scales[valueWidth === 0 ? "keys" : of])
    .add(times(head, BLOCK))
    .add(position)
}

function blockIndex({ kv, blockBytes }: KvLayout, block: Value): Value {
  return block.mul(blockBytes / elementBytes[kvElements[kv]])
}

function times(a: Operable, b: number): Value {
  return typeof a === "number" ? u32(a * b) : a.mul(b)
}
