import { expect, test } from "vitest"
import {
  type CodecName,
  type FloatType,
  floatBytes,
  groupCodecNames,
  groupCodecs,
  rowLayout,
} from "../../../runtime/format.ts"
import { codeFields, unitOf, weightLayout, wholeColumns } from "./layout.ts"

const floats = Object.keys(floatBytes) as FloatType[]
const codecs: CodecName[] = [...floats, ...groupCodecNames]

test.each(codecs)("%s takes no more than as it is stored, where sizes are a model's", (codec) => {
  const stored = rowLayout(codec, 7680) // groups of 32 and of 40
  const { parts, bytes } = weightLayout({ rows: 64, columns: 7680, codec })
  expect(bytes).toBe(64 * (stored.bytes + stored.scaleBytes))
  expect(parts[0]).toEqual({ name: "values", at: 0, bytes: 64 * stored.bytes })
})

test.each(codecs)("parts of %s lie apart and on lines, tails and all", (codec) => {
  for (const [rows, least] of [
    [1, 2],
    [33, 41],
    [70, 300],
  ] as const) {
    const columns = wholeColumns(codec, least)
    const { parts, bytes } = weightLayout({ rows, columns, codec })
    let end = 0
    for (const { at, bytes } of parts) {
      expect(at % 256).toBe(0)
      expect(at).toBeGreaterThanOrEqual(end)
      end = at + bytes
    }
    expect(bytes).toBe(end)
    const { bytes: stored, scaleBytes } = rowLayout(codec, columns)
    expect(bytes).toBeGreaterThanOrEqual(rows * (stored + scaleBytes))
  }
})

test("rows that cannot end within a group are refused where they do", () => {
  expect(() => weightLayout({ rows: 1, columns: 33, codec: "iq4_nl" })).toThrow("no whole groups")
  expect([wholeColumns("iq4_nl", 33), wholeColumns("mxfp4", 33)]).toEqual([64, 33])
})

test("a vector is a float for each row", () => {
  for (const codec of floats) {
    const { parts } = weightLayout({ rows: 7, columns: 1, codec })
    expect(parts).toEqual([{ name: "values", at: 0, bytes: 32 }])
  }
})

test.each(groupCodecNames)("every bit of a code of %s has a place of its own", (codec) => {
  const { bits, perWord } = groupCodecs[codec]
  const taken = new Set<number>()
  for (let i = 0; i < 4 * perWord; i++) {
    const fields = codeFields(codec, i)
    const own = fields.flatMap(({ low, bits }) => Array.from({ length: bits }, (_, b) => low + b))
    expect(own.toSorted((a, b) => a - b)).toEqual(Array.from({ length: bits }, (_, b) => b))
    for (const { word, at, bits } of fields)
      for (let b = at; b < at + bits; b++) {
        expect(Math.floor(b / 8)).toBe(i % 4)
        taken.add(word * 32 + b)
      }
  }
  expect(taken.size).toBe(4 * perWord * bits)
  expect(Math.max(...taken)).toBeLessThan(128)
  const { columns, groups } = unitOf(codec)
  expect(columns % groupCodecs[codec].group).toBe(0)
  expect(columns / groups).toBe(groupCodecs[codec].group)
})
