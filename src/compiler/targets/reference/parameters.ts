// Parameters as the reference target keeps them: float32, obvious. Where activations are integers the codes are kept too,
// centred on zero, since a product of integers must not see what rounding a dequantised weight to f16 would do.

import { nearestEven, rounding, widen } from "../../../runtime/dtype.ts"
import { type FloatType, groupCodecs, isGroupCodec, rowLayout } from "../../../runtime/format.ts"
import type { Parameter } from "../../../runtime/manifest.ts"
import { unpackedCodes, unpackedRows, unpackedValue } from "../../../runtime/unpack.ts"
import { type ParameterId, type Plan, WIDE_BITS, WIDE_GROUP } from "../../plan.ts"

export type Stored = Floats | Codes

export interface Floats {
  kind: "floats"
  columns: number
  values: Float32Array // [rows, columns]
  /** As codes of 16 bits, where they are multiplied with such. */
  wide?: WideFloats
}

/** Number k of a row is codes[k] * scales[floor(k / WIDE_GROUP)], rounded. */
export interface WideFloats {
  codes: Int16Array // [rows, columns]
  scales: Float32Array // [rows, groups], powers of two
}

export interface Codes {
  kind: "codes"
  columns: number
  group: number
  groups: number // of a row
  values: FloatType // what an unpacked value is rounded to
  codes: Int16Array // [rows, columns] code - zero
  scales: Float32Array // [rows, groups]
  minimums: Float32Array | undefined // [rows, groups]
}

/** Room for every parameter: as codes where a product reads integers, as floats elsewhere. */
export function allocateParameters(plan: Plan): Stored[] {
  const { parameters } = plan
  const integer = multipliedAsIntegers(plan)
  return parameters.map((parameter, id) => {
    const { rows, columns, codec } = parameter
    if (!integer.has(id) || !isGroupCodec(codec)) {
      const values = new Float32Array(rows * columns)
      return {
        kind: "floats",
        columns,
        values,
        ...(integer.has(id) && { wide: newWide(rows, columns) }),
      }
    }
    const { groups } = rowLayout(codec, columns)
    const { group, values, minimums: has } = groupCodecs[codec]
    const codes = new Int16Array(rows * columns)
    const scales = new Float32Array(rows * groups)
    const minimums = has ? new Float32Array(rows * groups) : undefined
    return { kind: "codes", columns, group, groups, values, codes, scales, minimums }
  })
}

export function newWide(rows: number, columns: number): WideFloats {
  const groups = Math.ceil(columns / WIDE_GROUP)
  return { codes: new Int16Array(rows * columns), scales: new Float32Array(rows * groups) }
}

/** Bytes that `allocateParameters` takes. */
export function storedBytes(plan: Plan): number {
  return allocated(plan).reduce((sum, bytes) => sum + bytes, 0)
}

function multipliedAsIntegers({ steps }: Plan): Set<ParameterId> {
  const weights = new Set<ParameterId>()
  for (const step of steps) {
    if (step.op === "matmul" && step.input.kind !== "float") weights.add(step.weight)
    if (step.op === "experts" || step.op === "expertRows") {
      const { gateUp, up } = step.experts
      if (step.input.kind === "int8") weights.add(gateUp)
      if (up?.input.kind === "int8") weights.add(up.weight)
    }
    if ((step.op === "experts" || step.op === "expertSums") && step.experts.rounded)
      weights.add(step.experts.down)
  }
  return weights
}

function allocated(plan: Plan): number[] {
  const integer = multipliedAsIntegers(plan)
  return plan.parameters.map(({ rows, columns, codec }, id) => {
    if (!integer.has(id)) return rows * columns * 4
    if (!isGroupCodec(codec)) return rows * (columns * 6 + Math.ceil(columns / WIDE_GROUP) * 4)
    const numbers = rowLayout(codec, columns).groups * (groupCodecs[codec].minimums ? 2 : 1)
    return rows * (columns * 2 + numbers * 4)
  })
}

/** Fills rows of a parameter from the bytes that its codec packs them in. */
export function storeRows(
  stored: Stored,
  { name, rows: all, columns, codec }: Parameter,
  row: number,
  rows: number,
  values: Uint8Array,
  scales?: Uint8Array,
): void {
  const layout = rowLayout(codec, columns)
  const fits =
    row >= 0 &&
    row + rows <= all &&
    values.length === rows * layout.bytes &&
    (scales?.length ?? 0) === rows * layout.scaleBytes
  if (!fits) throw new Error(`internal: rows ${row} … of ${name} do not fit`)
  if (!isGroupCodec(codec)) {
    const floats = stored as Floats
    floats.values.set(widen(values, codec), row * columns)
    if (floats.wide) for (let r = row; r < row + rows; r++) widenRow(floats, floats.wide, r)
    return
  }
  if (stored.kind === "floats") {
    stored.values.set(
      unpackedRows({ rows, values, ...(scales && { scales }) }, columns, codec),
      row * columns,
    )
    return
  }
  stored.codes.set(unpackedCodes(values, rows, columns, codec), row * columns)
  const { minimums, dtype } = groupCodecs[codec]
  const numbers = widen(scales!, dtype) // [rows, scales, then minimums]
  const { groups } = layout
  const perRow = groups * (minimums ? 2 : 1)
  for (let r = 0; r < rows; r++) {
    const [from, to] = [r * perRow, (row + r) * groups]
    stored.scales.set(numbers.subarray(from, from + groups), to)
    stored.minimums?.set(numbers.subarray(from + groups, from + perRow), to)
  }
}

/** Codes of 16 bits of a row, as `matmul` of the plan says. */
function widenRow({ values, columns }: Floats, { codes, scales }: WideFloats, row: number): void {
  const groups = Math.ceil(columns / WIDE_GROUP)
  for (let group = 0; group < groups; group++) {
    const from = row * columns + group * WIDE_GROUP
    const own = values.subarray(from, Math.min(from + WIDE_GROUP, (row + 1) * columns))
    const largest = own.reduce((most, x) => Math.max(most, Math.abs(x)), 0)
    // A NaN is no exponent, and neither is an infinity: all that is multiplied with them is NaN.
    const exponent = (new Uint32Array(Float32Array.of(largest).buffer)[0]! >>> 23) & 255
    const bits = Math.max(exponent - 127, -113) - (WIDE_BITS - 1)
    scales[row * groups + group] = exponent === 255 ? Number.NaN : 2 ** bits
    for (const [i, x] of own.entries()) codes[from + i] = nearestEven(x * 2 ** -bits)
  }
}

/** A row as floats: what an embedding reads. */
export function readRow(stored: Stored, row: number, out: Float32Array): void {
  const { columns } = stored
  if (stored.kind === "floats") {
    out.set(stored.values.subarray(row * columns, (row + 1) * columns))
    return
  }
  for (let k = 0; k < columns; k++) {
    const at = row * stored.groups + Math.floor(k / stored.group)
    const value = unpackedValue(
      stored.codes[row * columns + k]!,
      stored.scales[at]!,
      stored.minimums?.[at],
    )
    out[k] = rounding[stored.values](value)
  }
}
