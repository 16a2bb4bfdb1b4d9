// Parameters for tests of kernels: rows as files store them, in any codec, and the same as a device's kernels have packed them.

import { checkKernel } from "../src/compiler/targets/gpu/ir/check.ts"
import { Memory, runKernel } from "../src/compiler/targets/gpu/ir/run.ts"
import { packOf } from "../src/compiler/targets/gpu/kernels/pack.ts"
import { weightLayout } from "../src/compiler/targets/gpu/layout.ts"
import type { Stored } from "../src/compiler/targets/reference/parameters.ts"
import { newWide, storeRows } from "../src/compiler/targets/reference/parameters.ts"
import { narrow } from "../src/runtime/dtype.ts"
import {
  type CodecName,
  floatBytes,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
  rowLayout,
} from "../src/runtime/format.ts"
import type { Parameter } from "../src/runtime/manifest.ts"
import { mulberry32, seedOf } from "./random.ts"

export interface StoredWeights {
  parameter: Parameter
  values: Uint8Array
  scales: Uint8Array | undefined
}

/** How many codes blocks of a GGUF type have, where its codec has room for more. */
const codesOf: Partial<Record<GroupCodecName, number>> = {
  q2_k: 4,
  q3_k: 8,
  q5_0: 32,
  q5_1: 32,
  q5_k: 32,
  q6_k: 64,
}

/** Rows of numbers that look random. What is behind the end of a row in its last group is anything. */
export function randomWeights(codec: CodecName, rows: number, columns: number): StoredWeights {
  const parameter = { name: codec, rows, columns, codec, sources: [] }
  const next = mulberry32(seedOf(`${codec} ${rows} ${columns}`))
  /** Some of them too small to be a normal f16. */
  const float = () => (next() / 2 ** 31 - 1) * 2 ** -(next() % 20)
  const floats = (count: number) => Float32Array.from({ length: count }, float)
  if (!isGroupCodec(codec))
    return { parameter, values: narrow(floats(rows * columns), codec), scales: undefined }
  const { bits, perWord, dtype } = groupCodecs[codec]
  const { words, scaleBytes } = rowLayout(codec, columns)
  const count = codesOf[codec] ?? 2 ** bits
  /** Floats of 8 bits that are numbers. */
  const numbers = codec === "e4m3" ? 0xbfbfbfbf : 0xffffffff
  const values = Uint32Array.from({ length: rows * words }, () => {
    let word = 0
    for (let c = 0; c < perWord; c++) word |= (next() % count) << (c * bits)
    return word & numbers
  })
  const scales = narrow(floats((rows * scaleBytes) / floatBytes[dtype]), dtype)
  return { parameter, values: new Uint8Array(values.buffer), scales }
}

/** As the reference keeps them: for products of integers, or as floats; "wide" ones for both. */
export function referenceWeights(
  { parameter, values, scales }: StoredWeights,
  kind: Stored["kind"] | "wide",
): Stored {
  const { codec, rows, columns } = parameter
  const stored = (): Stored => {
    if (kind !== "codes" || !isIntegerCodec(codec)) {
      const wide = kind === "wide" && { wide: newWide(rows, columns) }
      return { kind: "floats", columns, values: new Float32Array(rows * columns), ...wide }
    }
    const { groups } = rowLayout(codec, columns)
    const { group, values, minimums: has } = groupCodecs[codec]
    const floats = () => new Float32Array(rows * groups)
    const codes = new Int16Array(rows * columns)
    const minimums = has ? floats() : undefined
    return { kind: "codes", columns, group, groups, values, codes, scales: floats(), minimums }
  }
  const own = stored()
  storeRows(own, parameter, 0, rows, values, scales)
  return own
}

/** Packed by kernels, a window for each of `windows`' numbers of rows; the parts in the order in which kernels take them. */
export function packedWeights(
  { parameter, values, scales }: StoredWeights,
  windows: readonly number[] = [parameter.rows],
): Memory[] {
  const { parts } = weightLayout(parameter)
  const places = new Map(parts.map(({ name, bytes }) => [name, new Memory(bytes)]))
  const { kernel, operands, groups } = packOf(parameter)
  const { bytes, scaleBytes } = rowLayout(parameter.codec, parameter.columns)
  checkKernel(kernel)
  let row = 0
  for (const rows of windows) {
    const given = {
      values: values.slice(row * bytes, (row + rows) * bytes),
      scales: scales?.slice(row * scaleBytes, (row + rows) * scaleBytes),
    }
    const numbers = { row, rows }
    const own = operands.map((operand) => {
      if (typeof operand === "number") return operand
      if ("part" in operand) return places.get(operand.part)!
      return "given" in operand ? Memory.of(given[operand.given]!) : numbers[operand.number]
    })
    runKernel(kernel, own, [Math.ceil(rows / groups[0].per), groups[1], groups[2]])
    row += rows
  }
  return parts.map(({ name }) => places.get(name)!)
}
