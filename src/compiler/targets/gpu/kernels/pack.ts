// Brings windows of parameters, rows as their codec stores them (runtime/format.ts), to where layout.ts wants them. A window
// is any number of whole rows. The one that ends with a parameter's last row also writes the zeros behind it, so that there is
// no byte of a parameter that nobody has written.

import {
  type CodecName,
  type FloatType,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
} from "../../../../runtime/format.ts"
import type { Parameter } from "../../../../runtime/manifest.ts"
import {
  type Builder,
  type Elements,
  kernel,
  once,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import type { Element, Kernel } from "../ir/ir.ts"
import { CHUNK_WORDS, codeFields, codingOf, PANEL, unitOf } from "../layout.ts"
import { unitsOf } from "./weights.ts"

/** What a packing kernel's operands stand for; parts of the parameter by their names in layout.ts. */
export type PackOperand =
  | number
  | { given: "values" | "scales" }
  | { part: "values" | "scales" | "minimums" }
  /** Of the window: the parameter's row that it begins with, and how many it has. */
  | { number: "row" | "rows" }

export interface Pack {
  kernel: Kernel
  operands: readonly PackOperand[]
  groups: readonly [{ number: "rows"; per: number }, number, 1]
}

/** Units of a row that neighbouring threads take: they read what lies side by side. */
const UNITS = 8
const THREADS = PANEL * UNITS

const [vector, floats, codes] = [once(packVector), once(packFloats), once(packCodes)]

/** How windows of a parameter are packed. */
export function packOf({
  rows,
  columns,
  codec,
}: Pick<Parameter, "rows" | "columns" | "codec">): Pack {
  const numbers: PackOperand[] = [{ number: "row" }, { number: "rows" }, rows]
  if (columns === 1) {
    if (isGroupCodec(codec)) throw new Error(`internal: a vector of ${codec}`)
    const operands: PackOperand[] = [{ given: "values" }, { part: "values" }, ...numbers]
    return {
      kernel: vector(codec),
      operands,
      groups: [{ number: "rows", per: THREADS }, 1, 1],
    }
  }
  const units = Math.ceil(columns / unitOf(codec).columns)
  const groups: Pack["groups"] = [{ number: "rows", per: PANEL }, Math.ceil(units / UNITS), 1]
  if (!isGroupCodec(codec)) {
    const operands: PackOperand[] = [{ given: "values" }, { part: "values" }, ...numbers, columns]
    return { kernel: floats(codec), operands, groups }
  }
  const parts: PackOperand[] = [{ part: "values" }, { part: "scales" }]
  if (groupCodecs[codec].minimums) parts.push({ part: "minimums" })
  const operands = [
    { given: "values" },
    { given: "scales" },
    ...parts,
    ...numbers,
    columns,
  ] as const
  return { kernel: codes(codec), operands, groups }
}

/** Floats of a window as they are stored, and as what they go on: their bits. */
const bitElements = { f32: "u32", f16: "u16", bf16: "u16" } as const satisfies Record<
  FloatType,
  Element
>

function packVector(codec: FloatType): Kernel {
  return kernel(`pack_vector_${codec}`, THREADS, (k) => {
    const window = k.buffer("window", codec === "bf16" ? "u16" : codec, "read")
    const values = k.buffer("values", "f32", "write")
    const { row, rows, all } = windowWords(k)
    const i = k.let(k.group(0).mul(THREADS).add(k.lane))
    k.if(i.lt(rows), () => {
      const value = window.load(i)
      values.store(row.add(i), codec === "bf16" ? value.shl(16).bits("f32") : value)
      eachPadding(k, row.add(i), all, CHUNK_WORDS, (padding) => values.store(padding, 0))
    })
  })
}

function packFloats(codec: FloatType): Kernel {
  return kernel(`pack_${codec}`, THREADS, (k) => {
    const window = k.buffer("window", bitElements[codec], "read")
    const values = k.buffer("values", "u32", "write")
    const { row, rows, all } = windowWords(k)
    const columns = k.word("columns")
    const { columns: width } = unitOf(codec)
    eachUnit(k, codec, { row, rows, columns }, ({ i, unit, target, units }) => {
      const bits = Array.from({ length: width }, (_, c) => {
        const column = k.let(unit.mul(width).add(c))
        const at = i.mul(columns).add(column.min(columns.sub(1)))
        return k.let(select(column.lt(columns), window.load(at), 0))
      })
      const words = codec === "f32" ? bits : pairs(bits).map(([a, b]) => k.let(a.or(b.shl(16))))
      storeChunk(values, chunkOf(target, units, unit), words)
      eachPadding(k, target, all, PANEL, (padding) =>
        storeChunk(values, chunkOf(padding, units, unit), zeros),
      )
    })
  })
}

function packCodes(codec: GroupCodecName): Kernel {
  const { bits, perWord, group, zero, dtype, minimums: hasMinimums } = groupCodecs[codec]
  const { signed, negated, less, table } = codingOf(codec)
  const unitLayout = unitOf(codec)
  const element = bitElements[dtype]
  return kernel(`pack_${codec}`, THREADS, (k) => {
    const window = k.buffer("window", "u32", "read")
    const windowScales = k.buffer("window scales", element, "read")
    const values = k.buffer("values", "u32", "write")
    const scales = k.buffer("scales", element, "write")
    const minimums = hasMinimums ? k.buffer("minimums", element, "write") : undefined
    const { row, rows, all } = windowWords(k)
    const columns = k.word("columns")
    eachUnit(k, codec, { row, rows, columns }, ({ i, unit, target, units }) => {
      const groups = k.let(unitsOf(columns, group))
      const words = k.let(groups.mul(group / perWord))

      /** Code `c` of the unit, as it is to be stored, in its lowest bits; 0 behind the row's end. */
      const codeAt = (word: Value, c: number): Value => {
        const stored = word.shr((c % perWord) * bits).and(2 ** bits - 1)
        const moved = negated ? u32(zero).sub(stored) : signed ? stored.sub(zero + less) : stored
        const own = table ? stored : moved
        return k.let(select(unit.mul(unitLayout.columns).add(c).lt(columns), own, 0))
      }
      for (let chunk = 0; chunk < unitLayout.chunks; chunk++) {
        const packed = new Array<Value>(CHUNK_WORDS).fill(u32(0))
        for (let w = 0; w < CHUNK_WORDS; w++) {
          const number = chunk * CHUNK_WORDS + w
          const at = unit.mul(unitLayout.columns / perWord).add(number)
          const word = k.let(window.load(i.mul(words).add(at.min(words.sub(1)))))
          for (let c = 0; c < perWord; c++) {
            const code = codeAt(word, number * perWord + c)
            for (const { low, bits, word: to, at } of codeFields(codec, w * perWord + c)) {
              const field = code
                .shr(low)
                .and(2 ** bits - 1)
                .shl(at)
              packed[to] = k.let(packed[to]!.or(field))
            }
          }
        }
        const to = (row: Value) =>
          chunkOf(row, units.mul(unitLayout.chunks), unit.mul(unitLayout.chunks).add(chunk))
        storeChunk(values, to(target), packed)
        eachPadding(k, target, all, PANEL, (padding) => storeChunk(values, to(padding), zeros))
      }
      const perRow = hasMinimums ? groups.mul(2) : groups
      for (let g = 0; g < unitLayout.groups; g++) {
        const own = k.let(unit.mul(unitLayout.groups).add(g))
        const at = k.let(i.mul(perRow).add(own.min(groups.sub(1))))
        const to = (row: Value) => chunkOf(row, units.mul(unitLayout.groups), own)
        const copy = (part: Elements, from: Value) => {
          const number = windowScales.load(from)
          part.store(to(target), select(own.lt(groups), number, 0))
          eachPadding(k, target, all, PANEL, (padding) => part.store(to(padding), 0))
        }
        copy(scales, at)
        if (minimums) copy(minimums, at.add(groups))
      }
    })
  })
}

const zeros = new Array<Value>(CHUNK_WORDS).fill(u32(0))

function windowWords(k: Builder) {
  return { row: k.word("row"), rows: k.word("rows"), all: k.word("all rows") }
}

interface UnitWork {
  /** The row in the window, and in the parameter. */
  i: Value
  target: Value
  unit: Value
  /** Of a row. */
  units: Value
}

/** Each thread takes a unit of a row of the window. */
function eachUnit(
  k: Builder,
  codec: CodecName,
  { row, rows, columns }: { row: Value; rows: Value; columns: Value },
  body: (work: UnitWork) => void,
): void {
  const i = k.let(k.group(0).mul(PANEL).add(k.lane.div(UNITS)))
  const unit = k.let(k.group(1).mul(UNITS).add(k.lane.rem(UNITS)))
  const units = k.let(unitsOf(columns, unitOf(codec).columns))
  const target = k.let(row.add(i))
  k.if(i.lt(rows).and(unit.lt(units)), () => body({ i, target, unit, units }))
}

/** The parameter's last row brings the rows behind it that fill up to a multiple. */
function eachPadding(
  k: Builder,
  row: Value,
  all: Value,
  multiple: number,
  body: (row: Value) => void,
): void {
  k.if(row.add(1).eq(all), () => k.for(all, unitsOf(all, multiple).mul(multiple), 1, body))
}

/** Where a chunk (or a group's scale) of a row lies, in chunks (or scales), of `each` in a row. */
function chunkOf(row: Value, each: Value, chunk: Value): Value {
  return row
    .div(PANEL)
    .mul(each)
    .add(chunk)
    .mul(PANEL)
    .add(row.and(PANEL - 1))
}

function storeChunk(values: Elements, chunk: Value, words: readonly Value[]): void {
  for (const [w, word] of words.entries()) values.store(chunk.mul(CHUNK_WORDS).add(w), word)
}

function pairs(values: readonly Value[]): [Value, Value][] {
  return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i]!, values[2 * i + 1]!])
}
