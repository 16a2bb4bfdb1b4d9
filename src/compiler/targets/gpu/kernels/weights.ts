// How kernels read parameters that lie as layout.ts says: a number here and there (`columnValue`, an embedding), or the codes
// of whole groups as words of four bytes, for products.

import {
  type CodecName,
  type FloatType,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
} from "../../../../runtime/format.ts"
import { type ParameterId, type Plan, WIDE_GROUP } from "../../../plan.ts"
import { type Builder, type Elements, f32, lookUp, select, u32, type Value } from "../ir/builder.ts"
import type { Element } from "../ir/ir.ts"
import type { Binding } from "../launch.ts"
import { CHUNK_WORDS, codingOf, PANEL, unitOf, weightLayout } from "../layout.ts"
import { halfOf } from "./numbers.ts"

/** A matrix among a kernel's operands. */
export interface Weight extends WeightParts {
  codec: CodecName
  /** Of a row. */
  columns: Value
}

export interface WeightParts {
  values: Elements // u32
  scales?: Elements
  minimums?: Elements
}

const scaleElements = { f32: "f32", f16: "f16", bf16: "u16" } as const satisfies Record<
  FloatType,
  Element
>

/** Names the parts of a matrix as operands; `weightBindings` are what they stand for. */
export function weightBuffers(k: Builder, codec: CodecName, name = "weight"): WeightParts {
  const values = k.buffer(name, "u32", "read")
  if (!isGroupCodec(codec)) return { values }
  const { dtype, minimums } = groupCodecs[codec]
  const part = (part: string) => k.buffer(`${name} ${part}`, scaleElements[dtype], "read")
  const scales = part("scales")
  return minimums ? { values, scales, minimums: part("minimums") } : { values, scales }
}

export function weightBindings({ parameters }: Plan, parameter: ParameterId): Binding[] {
  return weightLayout(parameters[parameter]!).parts.map(({ name }) => ({
    kind: "weight",
    parameter,
    part: name,
  }))
}

/** Where the chunks and the groups of a row lie: chunks in steps of 16 bytes, groups in elements of scales. */
export interface WeightRow {
  weight: Weight
  chunkAt: (chunk: Value) => Value
  groupAt: (group: Value) => Value
}

export function weightRow(k: Builder, weight: Weight, row: Value): WeightRow {
  const { columns, chunks, groups } = unitOf(weight.codec)
  const units = k.let(unitsOf(weight.columns, columns))
  const place = k.let(row.and(PANEL - 1))
  const panel = k.let(row.div(PANEL).mul(units).mul(PANEL))
  const first = k.let(panel.mul(chunks).add(place))
  const firstGroup = groups > 0 ? k.let(panel.mul(groups).add(place)) : first
  return {
    weight,
    chunkAt: (chunk) => first.add(chunk.mul(PANEL)),
    groupAt: (group) => firstGroup.add(group.mul(PANEL)),
  }
}

/** How many units (or groups) a row of so many columns has. */
export function unitsOf(columns: Value, width: number): Value {
  return columns.add(width - 1).div(width)
}

/** One number of a row, as the codec's type of values has it. */
export function columnValue(k: Builder, row: WeightRow, column: Value): Value {
  const { codec, values } = row.weight
  const unit = unitOf(codec)
  const width = unit.columns / unit.chunks
  const own = k.let(column)
  const first = k.let(row.chunkAt(own.div(width)).mul(CHUNK_WORDS))
  const i = k.let(own.rem(width))
  const word = (index: Value) => values.load(first.add(index))
  if (!isGroupCodec(codec)) {
    if (codec === "f32") return word(i).bits("f32")
    return halfOf(k, word(i.div(2)).shr(i.and(1).mul(16)), codec)
  }
  const byte = i.and(3).mul(8)
  const field = () => {
    const { bits } = groupCodecs[codec]
    if (bits === 8) return word(i.div(4)).shr(byte)
    if (bits === 4) return word(i.div(8)).shr(byte.add(i.and(4)))
    // As codeFields has it: four by four, those from the ninth on in what the others leave.
    const four = k.let(i.div(4))
    const isWhole = four.lt(8)
    const [own, lowest] = [word(select(isWhole, four.div(2), four.sub(8))), word(u32(2))]
    const upper = own.shr(byte.add(6)).and(3).mul(2)
    const pieces = upper.or(lowest.shr(byte.add(four).sub(2).and(31)).and(1))
    return select(isWhole, own.shr(byte.add(four.and(1).mul(3))), pieces)
  }
  const number = isIntegerCodec(codec)
    ? k.let(wholeCode(codec, field())).float()
    : widenedFloat8(k, field())
  return unpacked(k, row, own.div(groupCodecs[codec].group), codec, number)
}

/** A stored code, which are the lowest bits of a word, as the whole number that a scale is multiplied with: an i32. */
function wholeCode(codec: GroupCodecName, field: Value): Value {
  const { bits, signed, negated, less, table } = codingOf(codec)
  if (!signed) return field.and(2 ** bits - 1).bits("i32")
  const [stored, left] = table ? [lookUp(field, 0, table), 24] : [field, 32 - bits]
  const own = stored.shl(left).bits("i32").shr(left)
  return negated ? own.neg() : less ? own.add(less) : own
}

/** The value of a code, which is `number`: multiplied, moved by a minimum, rounded to the codec's type, each by itself. */
function unpacked(
  k: Builder,
  row: WeightRow,
  group: Value,
  codec: GroupCodecName,
  number: Value,
): Value {
  const { scale, minimum } = groupScales(k, row, group)
  return decoded(k, codec, number, scale, minimum)
}

function decoded(
  k: Builder,
  codec: GroupCodecName,
  number: Value,
  scale: Value,
  minimum: Value | undefined,
): Value {
  const scaled = number.mul(scale)
  const { values } = groupCodecs[codec]
  const value = k.let(minimum ? scaled.add(minimum) : scaled)
  if (values === "bf16") throw new Error(`internal: ${codec} has values of bf16`)
  return values === "f16" ? roundedToHalf(k, value) : value
}

/** What a group's codes are multiplied with, and its minimum where the codec has them. */
export function groupScales(
  k: Builder,
  { weight: { codec, scales, minimums }, groupAt }: WeightRow,
  group: Value,
): { scale: Value; minimum: Value | undefined } {
  const at = k.let(groupAt(group))
  const { dtype }: GroupCodec = groupCodecs[codec as GroupCodecName]
  const load = (numbers: Elements) =>
    dtype === "bf16" ? halfOf(k, numbers.load(at), dtype) : numbers.load(at)
  return { scale: load(scales!), minimum: minimums && load(minimums) }
}

/** The words of a group of codes as they are stored. */
export function groupWords(k: Builder, { weight, chunkAt }: WeightRow, group: Value): Value[] {
  const { chunks, groups } = unitOf(weight.codec)
  if (groups === 2) {
    const first = k.let(chunkAt(group.div(2)).mul(CHUNK_WORDS).add(group.and(1).mul(2)))
    return [weight.values.load(first), weight.values.load(first.add(1))]
  }
  return Array.from({ length: chunks }, (_, i) =>
    weight.values.loadFour(chunkAt(group.mul(chunks).add(i))),
  ).flat()
}

/** The words of a group of 32 floats of 16 bits, two in each; behind the row's last ones, those again. */
export function wideGroupWords(k: Builder, { weight, chunkAt }: WeightRow, group: Value): Value[] {
  const { columns } = unitOf(weight.codec)
  const last = unitsOf(weight.columns, columns).sub(1)
  const perGroup = WIDE_GROUP / columns
  return Array.from({ length: perGroup }, (_, i) => {
    const chunk = k.let(group.mul(perGroup).add(i).min(last))
    return weight.values.loadFour(chunkAt(chunk))
  }).flat()
}

/**
 * A group's codes as bytes, four columns in a word: a few masks and shifts, as codeFields allows, or bytes of a table. Those with
 * a sign end up in the upper bits of their bytes, which are so 2 ** byteShift times as much.
 */
export function groupBytes(k: Builder, codec: GroupCodecName, words: readonly Value[]): Value[] {
  const { bits, signed, table } = codingOf(codec)
  if (table)
    return words.flatMap((word) =>
      ([0, 4] as const).map((from) => k.let(lookUp(word, from, table))),
    )
  const every = (byte: number) => (byte * 0x01010101) >>> 0
  if (bits === 8) return [...words]
  if (bits === 4) {
    const halves = (word: Value) =>
      signed
        ? [word.shl(4).and(every(0xf0)), word.and(every(0xf0))]
        : [word.and(every(0x0f)), word.shr(4).and(every(0x0f))]
    return words.flatMap(halves).map((word) => k.let(word))
  }
  const eight = words.flatMap((word) => [
    word.shl(5).and(every(0xe0)),
    word.shl(2).and(every(0xe0)),
  ])
  const lowest = [1, 2].map((shift) => words[2]!.shr(shift).and(every(0x20)))
  const rest = lowest.map((low, i) => words[i]!.and(every(0xc0)).or(low))
  return [...eight, ...rest].map((word) => k.let(word))
}

export function byteShift(codec: GroupCodecName): number {
  const { bits, signed, table } = codingOf(codec)
  return signed && !table ? 8 - bits : 0
}

/** Numbers of a row that lie side by side: the floats of `columns` of them. */
export interface Numbers {
  /** How many there are at a time. */
  columns: number
  /** Reads those from column `index * columns` on, which must all be there. */
  load: (row: WeightRow, index: Value) => () => Value[]
}

/**
 * Floats are read eight at a time, packed ones a group, or the part of one that 16 bytes hold: numbers of more would not all
 * find a register. What has been read becomes numbers when the result is called.
 */
export function numbersOf(k: Builder, codec: CodecName): Numbers {
  if (isGroupCodec(codec)) {
    const { chunks: pieces } = unitOf(codec)
    const columns = groupCodecs[codec].group / pieces
    const load = (row: WeightRow, index: Value) => {
      const words =
        pieces === 1 ? groupWords(k, row, index) : row.weight.values.loadFour(row.chunkAt(index))
      const { scale, minimum } = groupScales(k, row, index.div(pieces))
      return () => {
        const bytes = groupBytes(k, codec, words)
        return Array.from({ length: columns }, (_, i) => {
          const number = byteOf(k, codec, bytes[Math.floor(i / 4)]!, i % 4)
          return decoded(k, codec, number, scale, minimum)
        })
      }
    }
    return { columns, load }
  }
  const chunks = codec === "f32" ? 2 : 1
  const load = ({ weight, chunkAt }: WeightRow, index: Value) => {
    const words = Array.from({ length: chunks }, (_, i) =>
      weight.values.loadFour(chunkAt(index.mul(chunks).add(i))),
    ).flat()
    return () =>
      codec === "f32"
        ? words.map((word) => word.bits("f32"))
        : words.flatMap((word) => [word, word.shr(16)].map((bits) => halfOf(k, bits, codec)))
  }
  return { columns: 8, load }
}

/** Byte `i` of a word that groupBytes made, as the number it stands for. */
function byteOf(k: Builder, codec: GroupCodecName, word: Value, i: number): Value {
  if (!isIntegerCodec(codec)) return widenedFloat8(k, word.shr(8 * i))
  const { signed, negated, less } = codingOf(codec)
  if (!signed)
    return word
      .shr(8 * i)
      .and(0xff)
      .bits("i32")
      .float()
  const own = word
    .shl(24 - 8 * i)
    .bits("i32")
    .shr(24 + byteShift(codec))
  return (negated ? own.neg() : less ? own.add(less) : own).float()
}

/** The float of the e4m3 in a word's lowest byte, made as that of an f16 is; nobody stores its NaNs. */
function widenedFloat8(k: Builder, word: Value): Value {
  const size = k.let(word.and(0x7f).shl(20))
  const moved = k.let(size.add((127 - 7) << 23))
  const small = moved
    .add(1 << 23)
    .bits("f32")
    .sub(f32(2 ** -6))
    .bits("u32")
  const own = select(size.lt(1 << 23), small, moved)
  return k.let(own.or(word.and(0x80).shl(24)).bits("f32"))
}

/** A float rounded to what an f16 can hold, as runtime/dtype.ts does: halves to even, and what becomes 0 has no sign. */
function roundedToHalf(k: Builder, value: Value): Value {
  const bits = k.let(value.bits("u32"))
  const size = k.let(bits.and(0x7fffffff))
  const odd = size.shr(13).and(1)
  const rounded = k.let(
    size
      .add(odd)
      .add(0xfff)
      .and(~0x1fff >>> 0),
  )
  const bounded = select(rounded.gt(floatBits(65504)), u32(INFINITY), rounded)
  const normal = bounded.or(bits.and(0x80000000)).bits("f32")
  // Below 2^-14 f16 are 2^-24 apart, as floats are from 0.5 to 1.
  const small = value.add(0.75).sub(0.75)
  const own = select(size.lt(floatBits(2 ** -14)), small, normal)
  return k.let(select(size.gt(INFINITY), value, own))
}

const INFINITY = 0x7f800000
const floatBits = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]!
