import { createHash } from "node:crypto"
import { setImmediate } from "node:timers/promises"
import { expect, test } from "vitest"
import { widen } from "../../runtime/dtype.ts"
import type { Parameter } from "../../runtime/manifest.ts"
import type { LoadableProgram } from "../../runtime/program.ts"
import { Room } from "./room.ts"
import { loadParameters, type ParameterWindow, readParameter, type Weights } from "./weights.ts"
import { newWeightsHash } from "./weights-hash.ts"

const COLUMNS = 1024

/** Tensors in which every value is its row's number, and `a` has its values negative. */
const counting: Weights = {
  entries: [],
  tensor: (name) => ({
    codec: "f32",
    async read(firstRow, rows, room = new Room()) {
      const values = room.take(4 * rows * COLUMNS)
      const floats = new Float32Array(values.buffer)
      for (let r = 0; r < rows; r++)
        floats.fill((firstRow + r) * (name === "a" ? -1 : 1), r * COLUMNS, (r + 1) * COLUMNS)
      return { rows, values }
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
    { progress: (...of) => told.push(of) },
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

/** A turn of the event loop, and then some: a read that had begun is over. */
const later = async () => {
  for (let turn = 0; turn < 5; turn++) await setImmediate()
}

/** Windows of one length, which share memory as soon as they may. */
const even: Parameter = {
  ...joined,
  codec: "f32",
  rows: 8 * 2048,
  sources: [{ tensor: "b", rows: 8 * 2048 }],
}

test("windows share memory, and a window is the program's until it is stored", async () => {
  const buffers = new Set<ArrayBufferLike>()
  const rows: number[] = []
  await loadParameters(
    counting,
    { parameters: [even] },
    {
      async load(_, row, count, values) {
        buffers.add(values.buffer)
        await later() // others are read and converted
        rows.push(row)
        const floats = widen(values, "f32")
        for (const r of [0, 1, count - 1]) expect(floats[r * COLUMNS]).toBe(row + r)
      },
    },
  )
  expect(rows).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((window) => window * 2048))
  expect(buffers.size).toBe(5)
})

test.each([1, 64 << 20])("what a program is fed is summed, of %i bytes", async (size) => {
  const parameters: Parameter[] = [even, { ...joined, codec: "q4f16_1" }]
  const expected = createHash("sha256")
  for (const parameter of parameters)
    for await (const { values, scales } of readParameter(counting, parameter)) {
      expected.update(values)
      if (scales) expected.update(scales)
    }
  const hash = newWeightsHash(size)
  try {
    await loadParameters(counting, { parameters }, { load: async () => {} }, { hash })
    expect(await hash.digest()).toBe(expected.digest("hex"))
  } finally {
    await hash.close()
  }
})

test("a failure is told when nothing is read or stored any more", async () => {
  let running = 0
  const during = async <T>(work: () => Promise<T>): Promise<T> => {
    running++
    await later()
    return work().finally(() => running--)
  }
  const slow = (breaks: number): Weights => ({
    ...counting,
    tensor(...of) {
      const tensor = counting.tensor(...of)
      return {
        ...tensor,
        async read(first, ...rest) {
          if (first === breaks) throw new Error("cannot be read")
          return during(async () => {
            await later() // longer than storing
            return tensor.read(first, ...rest)
          })
        },
      }
    },
  })
  const storing = (breaks: number) => ({
    load: (_: number, row: number) =>
      during(async () => {
        if (row === breaks) throw new Error("cannot be stored")
      }),
  })
  const load = (weights: Weights, program: Pick<LoadableProgram, "load">) =>
    loadParameters(weights, { parameters: [even] }, program)
  await expect(load(slow(2 * 2048), storing(-1))).rejects.toThrow("cannot be read")
  expect(running).toBe(0)
  await expect(load(slow(-1), storing(2 * 2048))).rejects.toThrow("cannot be stored")
  expect(running).toBe(0)
})
