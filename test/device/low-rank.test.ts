// What adapters add to weights in C is held to sums in double precision, rounded once, bit for bit, for every type of floats and every
// instruction set.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { runtime } from "../../src/compiler/targets/cpu/toolchain.ts"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import { mulberry32 } from "../random.ts"
import { build, run, type Way, ways } from "./ways.ts"

const types = ["f32", "f16", "bf16"] as const
/** Rows, columns and rank: a tile and what is left of one, one column alone. */
const shapes = [
  [3, 200, 5],
  [2, 64, 16],
  [5, 1, 1],
] as const

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-low-rank-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(ways)("$name", ({ name, isSkipped, note, way }) => {
  test.skipIf(isSkipped)(`products of factors are added and rounded once${note}`, () => {
    const program = join(folder, name)
    const built: Way = way()
    build(built, [join(import.meta.dirname, "low-rank.c"), join(runtime, "low_rank.c")], program)
    for (const [number, type] of types.entries())
      for (const [rows, columns, rank] of shapes) {
        const random = mulberry32(number + columns)
        const floats = (count: number) =>
          Float32Array.from({ length: count }, () => random() / 2 ** 31 - 1)
        const [left, right] = [floats(rows * rank), floats(rank * columns)]
        const stored = narrow(numbers(rows * columns, random), type)
        const wanted = widen(stored.slice(), type).map((value, i) => {
          let sum = 0
          for (let k = 0; k < rank; k++)
            sum += left[Math.floor(i / columns) * rank + k]! * right[k * columns + (i % columns)]!
          return value + Math.fround(sum)
        })
        const head = BigInt64Array.from([number, rows, columns, rank, stored.length], BigInt)
        const parts = [head, left, right, stored].map(
          ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
        )
        const output = run(built, program, Buffer.concat(parts))
        const label = `${type} ${rows} ${columns} ${rank}`
        expect(widen(Uint8Array.from(output), type), label).toEqual(
          widen(narrow(wanted, type), type),
        )
      }
  })
})

/** Of every size that floats have, some so small or large that halves are no longer exact, and what is no number. */
function numbers(count: number, random: () => number): Float32Array {
  const words = Uint32Array.from({ length: count }, random)
  const values = new Float32Array(words.buffer)
  return values.map((value, i) => (i % 3 ? value : (random() / 2 ** 31 - 1) * 2 ** ((i % 60) - 40)))
}
