// Parameters as the reference target keeps them: float32, obvious. Where activations are integers the codes are kept too,
// centred on zero, since a product of integers must not see what rounding a dequantised weight to f16 would do.

import { rounding, widen } from "../../../runtime/dtype.ts"
import {
  type FloatType,
  formats,
  type GroupFormatName,
  isGroupFormat,
  rowLayout,
} from "../../../runtime/format.ts"
import type { Parameter } from "../../../runtime/manifest.ts"
import type { ParameterId, Plan } from "../../plan.ts"

export type Stored = Floats | Codes

export interface Floats {
  kind: "floats"
  columns: number
  values: Float32Array // [rows, columns]
}

export interface Codes {
  kind: "codes"
  columns: number
  group: number
  groups: number // of a row
  dtype: FloatType
  codes: Int16Array // [rows, columns] code - zero
  scales: Float32Array // [rows, groups]
}

/** Room for every parameter: as codes where a product reads integers, as floats elsewhere. */
export function allocateParameters({ parameters, steps }: Plan): Stored[] {
  const integer = new Set<ParameterId>()
  for (const step of steps)
    if (step.op === "matmul" && step.input.kind === "int8") integer.add(step.weight)
  return parameters.map((parameter, id) => {
    const { rows, columns, format } = parameter
    if (!integer.has(id) || !isGroupFormat(format))
      return { kind: "floats", columns, values: new Float32Array(rows * columns) }
    const { groups } = rowLayout(format, columns)
    const { group, dtype } = formats[format]
    const codes = new Int16Array(rows * columns)
    const scales = new Float32Array(rows * groups)
    return { kind: "codes", columns, group, groups, dtype, codes, scales }
  })
}

/** Bytes that `allocateParameters` takes. */
export function storedBytes(plan: Plan): number {
  return allocated(plan).reduce((sum, bytes) => sum + bytes, 0)
}

function allocated({ parameters, steps }: Plan): number[] {
  const integer = steps.some((step) => step.op === "quantize")
  return parameters.map(({ rows, columns, format }) => {
    if (!integer || !isGroupFormat(format)) return rows * columns * 4
    return rows * (columns * 2 + rowLayout(format, columns).groups * 4)
  })
}

/** Fills rows of a parameter from the bytes that its format packs them in. */
export function storeRows(
  stored: Stored,
  { name, rows: all, columns, format }: Parameter,
  row: number,
  rows: number,
  values: Uint8Array,
  scales?: Uint8Array,
): void {
  const layout = rowLayout(format, columns)
  const fits =
    row >= 0 &&
    row + rows <= all &&
    values.length === rows * layout.bytes &&
    (scales?.length ?? 0) === rows * layout.scaleBytes
  if (!fits) throw new Error(`internal: rows ${row} … of ${name} do not fit`)
  if (!isGroupFormat(format)) {
    ;(stored as Floats).values.set(widen(values, format), row * columns)
    return
  }
  const codes = unpack(values, rows, columns, format)
  const factors = widen(scales!, formats[format].dtype)
  if (stored.kind === "codes") {
    stored.codes.set(codes, row * columns)
    stored.scales.set(factors, row * layout.groups)
    return
  }
  const { group, dtype } = formats[format]
  const round = rounding[dtype]
  for (let r = 0; r < rows; r++)
    for (let k = 0; k < columns; k++) {
      const scale = factors[r * layout.groups + Math.floor(k / group)]!
      stored.values[(row + r) * columns + k] = round(codes[r * columns + k]! * scale)
    }
}

/** Codes less the zero code, from words filled from their low bits up. */
function unpack(
  values: Uint8Array,
  rows: number,
  columns: number,
  format: GroupFormatName,
): Int16Array {
  const { bits, perWord, zero } = formats[format]
  const perRow = rowLayout(format, columns).words
  const words = new Uint32Array(values.slice().buffer)
  const codes = new Int16Array(rows * columns)
  const mask = 2 ** bits - 1
  for (let r = 0; r < rows; r++)
    for (let k = 0; k < columns; k++) {
      const word = words[r * perRow + Math.floor(k / perWord)]!
      codes[r * columns + k] = ((word >>> ((k % perWord) * bits)) & mask) - zero
    }
  return codes
}

/** A row as floats: what an embedding reads. */
export function readRow(stored: Stored, row: number, out: Float32Array): void {
  const { columns } = stored
  if (stored.kind === "floats") {
    out.set(stored.values.subarray(row * columns, (row + 1) * columns))
    return
  }
  const round = rounding[stored.dtype]
  for (let k = 0; k < columns; k++) {
    const scale = stored.scales[row * stored.groups + Math.floor(k / stored.group)]!
    out[k] = round(stored.codes[row * columns + k]! * scale)
  }
}
