import { expect, test } from "vitest"
import { narrow, widen } from "../../runtime/dtype.ts"
import type { Parameter } from "../../runtime/manifest.ts"
import { loadParameters, type ParameterWindow, readParameter, type Weights } from "./weights.ts"

const COLUMNS = 1024

/** Tensors in which every value is its row's number, and `a` has its values negative. */
const counting: Weights = {
  entries: [],
  tensor: (name) => ({
    codec: "f32",
    async read(firstRow, rows) {
      const values = new Float32Array(rows * COLUMNS)
      for (let r = 0; r < rows; r++)
        values.fill((firstRow + r) * (name === "a" ? -1 : 1), r * COLUMNS, (r + 1) * COLUMNS)
      return { rows, values: narrow(values, "f32") }
    },
  }),
  verify: async () => {},
  close: async () => {},
}

const joined: Parameter = {
  name: "a+b",
  rows: 5003,
  columns: COLUMNS,
  codec: "f16",
  sources: [
    { tensor: "a", rows: 3000 },
    { tensor: "b", rows: 2003 },
  ],
}

test("a parameter comes in windows, its sources one after the other", async () => {
  const windows: ParameterWindow[] = []
  for await (const window of readParameter(counting, joined)) windows.push(window)
  expect(windows.map(({ row, rows }) => [row, rows])).toEqual([
    [0, 2048],
    [2048, 952],
    [3000, 2003],
  ])
  for (const { row, rows, values } of windows) {
    expect(values.length).toBe(rows * COLUMNS * 2)
    const floats = widen(values, "f16")
    const source = row < 3000 ? { sign: -1, first: row } : { sign: 1, first: row - 3000 }
    for (const r of [0, 1, rows - 1]) {
      const exact = source.first + r
      const error = floats[r * COLUMNS + 7]! * source.sign - exact
      expect(Math.abs(error)).toBeLessThanOrEqual(exact / 2048) // 11 bits of f16
    }
  }
})

test("a program is fed every parameter, and told how far it is", async () => {
  const loaded: string[] = []
  const told: number[][] = []
  await loadParameters(
    counting,
    { parameters: [joined, { ...joined, name: "again", codec: "q4f16_1" }] },
    {
      async load(parameter, row, rows, values, scales) {
        loaded.push(
          `${parameter} ${row}+${rows} ${values.length / rows} ${(scales?.length ?? 0) / rows}`,
        )
      },
    },
    (...of) => told.push(of),
  )
  expect(loaded).toEqual([
    "0 0+2048 2048 0",
    "0 2048+952 2048 0",
    "0 3000+2003 2048 0",
    "1 0+2048 512 64",
    "1 2048+952 512 64",
    "1 3000+2003 512 64",
  ])
  const all = 5003 * (2048 + 512 + 64)
  expect(told.at(-1)).toEqual([all, all])
})
