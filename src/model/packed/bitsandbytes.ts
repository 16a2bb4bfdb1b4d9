// As bitsandbytes keeps matrices: codes of 4 bits for numbers of a list (NF4 and FP4), the second of two in a byte's lower half, times
// the largest of 64 neighbours, which may itself be a byte for a number of a list. Products there are of the values rounded to
// the model's floats, which is what they are kept in here. Or bytes with a sign, times the largest of a row over 127.
// https://github.com/bitsandbytes-foundation/bitsandbytes

import { narrow } from "../../runtime/dtype.ts"
import type { FloatType } from "../../runtime/format.ts"
import { Fields } from "../fields.ts"
import { isObject } from "../folder.ts"
import type { Tensor } from "../weights/weights.ts"
import { wholeBytes } from "./compressed.ts"
import { groupedTensor, type PackedTensor } from "./groups.ts"
import { type Matrix, type Part, partOf, readFloats, readWhole } from "./matrix.ts"

/** @param dtype the model's floats */
export function bitsandbytesTensor(matrix: Matrix, dtype: FloatType): PackedTensor | undefined {
  if (matrix.part("weight.quant_map")) return ofLists(matrix, dtype)
  return matrix.part("SCB") && ofBytes(matrix)
}

const NAMES: Readonly<Record<FloatType, string>> = {
  f32: "float32",
  f16: "float16",
  bf16: "bfloat16",
}

interface Opened {
  list: Float32Array
  /** Of each block of so many values, which go on from row to row. */
  scales: Float32Array
  block: number
}

function ofLists(matrix: Matrix, dtype: FloatType): Tensor {
  const { rows, columns } = matrix
  const codes = partOf(matrix, "weight", ["U8"], [(rows * columns) / 2, 1])
  const list = partOf(matrix, "weight.quant_map", ["F32"], [16])
  for (const kind of ["weight.absmax", stateKind(matrix)])
    if (!matrix.part(kind)) throw matrix.broken(kind, "is not there")
  let opening: Promise<Opened> | undefined
  return {
    codec: dtype,
    async read(first, count) {
      opening ??= open(matrix, list, dtype)
      const { list: numbers, scales, block } = await opening
      const from = first * columns
      const values = new Float32Array(count * columns)
      const begin = from >> 1
      const packed = await codes.read(begin, ((from + values.length + 1) >> 1) - begin)
      for (let i = 0; i < values.length; i++) {
        const at = from + i
        const byte = packed[(at >> 1) - begin]!
        values[i] = numbers[at & 1 ? byte & 15 : byte >> 4]! * scales[Math.floor(at / block)]!
      }
      return { rows: count, values: narrow(values, dtype) }
    },
  }
}

const STATES = ["weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"]

function stateKind(matrix: Matrix): string {
  return STATES.find((name) => matrix.part(name)) ?? STATES[0]!
}

async function open(matrix: Matrix, list: Part, dtype: FloatType): Promise<Opened> {
  const kind = stateKind(matrix)
  const { shape } = matrix.part(kind) ?? { shape: [] }
  const state = stateOf(matrix, kind, await readWhole(partOf(matrix, kind, ["U8"], shape)))
  const said = state.text("dtype")
  if (said !== NAMES[dtype])
    throw state.wrong("dtype", `is "${said}", and the configuration's is "${NAMES[dtype]}"`)
  const block = state.count("blocksize", 64)
  const blocks = Math.ceil((matrix.rows * matrix.columns) / block)
  const scales = await scalesOf(matrix, state, blocks)
  if (!scales.every(Number.isFinite))
    throw matrix.broken("weight.absmax", "holds what is no number, or stands for one")
  return { list: await readFloats(list), scales, block }
}

function stateOf(matrix: Matrix, kind: string, bytes: Uint8Array): Fields {
  const broken = (what: string) => matrix.broken(kind, `says: ${what}`)
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder().decode(bytes))
  } catch {}
  if (isObject(json)) return new Fields(json, broken)
  throw matrix.broken(kind, "is no object in JSON")
}

async function scalesOf(matrix: Matrix, state: Fields, blocks: number): Promise<Float32Array> {
  const isNested = matrix.part("weight.nested_absmax") !== undefined
  const largest = partOf(matrix, "weight.absmax", [isNested ? "U8" : "F32"], [blocks])
  if (!isNested) return readFloats(largest)
  const block = state.count("nested_blocksize", 256)
  const nested = partOf(matrix, "weight.nested_absmax", ["F32"], [Math.ceil(blocks / block)])
  const list = await readFloats(partOf(matrix, "weight.nested_quant_map", ["F32"], [256]))
  const offset = state.number("nested_offset")
  const [codes, scales] = [await readWhole(largest), await readFloats(nested)]
  return Float32Array.from(
    codes,
    (code, i) => Math.fround(list[code]! * scales[Math.floor(i / block)]!) + offset,
  )
}

function ofBytes(matrix: Matrix): PackedTensor {
  const largest = partOf(matrix, "SCB", ["F32"], [matrix.rows])
  const codes = wholeBytes(matrix)
  return groupedTensor(matrix, {
    bits: codes.bits,
    width: matrix.columns,
    symmetric: true,
    scales: "f32",
    count: 1,
    order: undefined,
    async open() {
      const scales = await readFloats(largest)
      return {
        unpack: await codes.open(),
        scale: (row) => scales[row]! / 127,
        zero: () => 128,
      }
    },
  })
}
