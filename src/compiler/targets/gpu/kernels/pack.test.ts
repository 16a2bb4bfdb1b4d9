import { expect, test } from "vitest"
import {
  packedWeights,
  randomWeights,
  referenceWeights,
} from "../../../../../test/device-weights.ts"
import {
  type CodecName,
  type FloatType,
  floatBytes,
  groupCodecNames,
} from "../../../../runtime/format.ts"
import { readRow } from "../../reference/parameters.ts"
import { kernel } from "../ir/builder.ts"
import { Memory, runKernel } from "../ir/run.ts"
import { wholeColumns } from "../layout.ts"
import { columnValue, weightBuffers, weightRow } from "./weights.ts"

const floats = Object.keys(floatBytes) as FloatType[]
const codecs: CodecName[] = [...floats, ...groupCodecNames]

/** Every number of a matrix, a row a group. */
const unpack = (codec: CodecName) =>
  kernel(`unpack_${codec}`, 64, (k) => {
    const parts = weightBuffers(k, codec)
    const output = k.buffer("output", "f32", "write")
    const columns = k.word("columns")
    const row = k.group(0)
    const own = weightRow(k, { codec, columns, ...parts }, row)
    k.each(columns, (column) =>
      output.store(row.mul(columns).add(column), columnValue(k, own, column)),
    )
  })

function numbersOf(codec: CodecName, parts: readonly Memory[], rows: number, columns: number) {
  const output = new Memory(rows * columns * 4)
  runKernel(unpack(codec), [...parts, output, columns], [rows, 1, 1])
  return output.f32()
}

/** As bits: -0 is not 0. */
const bitsOf = (values: Float32Array) => new Uint32Array(values.buffer, 0, values.length)

test.each(codecs)("%s is read as it was stored, whatever windows it came in", (codec) => {
  for (const [rows, most] of [
    [70, 329],
    [32, 40],
    [3, 2],
  ] as const) {
    const columns = wholeColumns(codec, most)
    const weights = randomWeights(codec, rows, columns)
    const reference = referenceWeights(weights, "codes")
    const expected = new Float32Array(rows * columns)
    for (let row = 0; row < rows; row++)
      readRow(reference, row, expected.subarray(row * columns, (row + 1) * columns))
    for (const windows of [[rows], rows > 40 ? [5, 30, rows - 36, 1] : [1, rows - 1]]) {
      const parts = packedWeights(weights, windows)
      const numbers = numbersOf(codec, parts, rows, columns)
      expect(bitsOf(numbers)).toEqual(bitsOf(expected))
    }
  }
})

test.each(codecs)("no byte of %s is left as it was, but those between its parts", (codec) => {
  const weights = randomWeights(codec, 33, wholeColumns(codec, 41))
  const ofWindows = [[33], [30, 3]].map((windows) => packedWeights(weights, windows))
  for (const parts of ofWindows)
    expect(parts.map((part) => part.isWritten())).toEqual(parts.map(() => true))
  const [whole, inTwo] = ofWindows.map((parts) => parts.map((part) => part.u8()))
  expect(whole).toEqual(inTwo)
})

test.each(floats)("a vector of %s becomes floats", (codec) => {
  const weights = randomWeights(codec, 611, 1)
  const { values } = referenceWeights(weights, "floats") as { values: Float32Array }
  const [part] = packedWeights(weights, [300, 310, 1])
  const packed = part!.f32()
  expect(bitsOf(packed.slice(0, 611))).toEqual(bitsOf(values))
  expect([...packed.slice(611)]).toEqual([0])
})

const specials = [0, 0x8000, 1, 0x83ff, 0x400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01]

test("every f16 is widened as it is, infinities and what is no number too", () => {
  const words = Uint16Array.from({ length: 1024 }, (_, i) => specials[i] ?? i * 63)
  const parameter = { name: "halves", rows: 32, columns: 32, codec: "f16" as const, sources: [] }
  const weights = { parameter, values: new Uint8Array(words.buffer), scales: undefined }
  const { values } = referenceWeights(weights, "floats") as { values: Float32Array }
  const numbers = numbersOf("f16", packedWeights(weights), 32, 32)
  expect([...numbers]).toEqual([...values])
})

test("products of codes and scales are rounded to f16 as they should be, whatever their size", () => {
  // Scales of all sizes, up to those whose products are beyond the largest f16.
  const weights = randomWeights("q8f16_1", 64, 320)
  const scales = new Uint16Array(weights.scales!.buffer)
  for (const i of scales.keys()) scales[i] = specials[i] ?? (i * 97) % 0x7c00
  const reference = referenceWeights(weights, "codes")
  const numbers = numbersOf("q8f16_1", packedWeights(weights), 64, 320)
  const row = new Float32Array(320)
  for (let r = 0; r < 64; r++) {
    readRow(reference, r, row)
    expect([...numbers.subarray(r * 320, (r + 1) * 320)]).toEqual([...row])
  }
})
