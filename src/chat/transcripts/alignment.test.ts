// Where tokens begin, by what transformers makes of the same attention (test/golden/whisper/words.py), alone and in a thread.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { goldenFolder } from "../../../test/model/golden.ts"
import { AlignThread } from "./align-thread.ts"
import { type AlignmentHeads, beginnings, type WindowSaid } from "./alignment.ts"

interface Golden {
  heads: number
  heard: number
  rows: number[][]
  keys: number[][]
  queries: number[][]
  begins: number[]
}

function golden(): { heads: AlignmentHeads; said: WindowSaid; begins: number[] } {
  const file = join(goldenFolder("whisper", "alignment.json"))
  const told = JSON.parse(readFileSync(file, "utf8")) as Golden
  const headDim = told.keys.length / told.heads
  const [rows, keys, queries] = [told.rows, told.keys, told.queries].map(
    (matrix) => new Float32Array(matrix.flat()),
  ) as [Float32Array, Float32Array, Float32Array]
  return {
    heads: { count: told.heads, headDim, scale: headDim ** -0.5, keys, smoothed: 7 },
    said: { rows, heard: told.heard, queries },
    begins: told.begins,
  }
}

test("tokens begin where transformers says", async () => {
  const { heads, said, begins } = golden()
  expect([...beginnings(heads, said)]).toEqual(begins)
  const thread = new AlignThread(heads)
  onTestFinished(() => thread.close())
  expect([...(await thread.begin(said, { client: "" }))]).toEqual(begins)
})

test("one token, and a window of a row: there is one way", () => {
  const { heads, said } = golden()
  const queries = said.queries.subarray(0, heads.count * heads.headDim)
  expect([...beginnings(heads, { ...said, queries })]).toEqual([0])
  expect([...beginnings(heads, { ...said, heard: 1 })]).toEqual(Array(14).fill(0))
})
