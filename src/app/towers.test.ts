// A real decoder and a real tower, of which is counted what they are asked.

import { readFileSync } from "node:fs"
import { expect, onTestFinished, test } from "vitest"
import { openProgram, TAKEN } from "../../test/model/small-tower.ts"
import { createTower } from "../engine/tower.ts"
import type { ImageProcessing } from "../images/image.ts"
import { openImages } from "../images/images.ts"
import { takenOf } from "../images/patches.ts"
import { plain } from "../model/vision/fitting.ts"
import { preparing } from "./towers.ts"

const read = (name: string) =>
  readFileSync(new URL(`../../test/golden/images/${name}`, import.meta.url))

const processing: ImageProcessing = {
  cutting: { kind: "stretch" },
  filter: "bilinear",
  rescale: 1 / 255,
  mean: [0.5, 0.5, 0.5],
  std: [0.5, 0.5, 0.5],
  tile: { width: 16, height: 8 },
  patch: 2,
  joined: 2,
  hasClassRow: false,
  skipped: 0,
  mark: "<image>",
  soft: "<soft>",
  wording: plain,
}

/** Counts the images that were cut and the tiles that were read. */
async function setUp() {
  const images = openImages(processing)
  const program = await openProgram()
  const counts = { cut: 0, read: 0 }
  const tower = createTower({
    ...program,
    step: (input, cancel) => {
      counts.read++
      return program.step(input, cancel)
    },
  })
  onTestFinished(async () => {
    await images.close()
    await tower.close()
  })
  const cut: typeof images.prepare = (...asked) => {
    counts.cut++
    return images.prepare(...asked)
  }
  const prepare = preparing({ prepare: cut }, tower)
  const rowsOf = async (name: string, signal?: AbortSignal) => {
    const image = await prepare(read(name), name, { client: "", signal })
    return image.encode({ client: "", signal })
  }
  return { counts, prepare, rowsOf }
}

test("images that come at once are cut once each, and equal ones are read once", async () => {
  expect(takenOf(processing)).toBe(TAKEN)
  const { counts, rowsOf } = await setUp()
  const names = ["rgb.png", "tall.png", "wide.png"]
  const all = await Promise.all([...names, ...names, ...names].map((name) => rowsOf(name)))
  expect(counts).toEqual({ cut: 3, read: 3 })
  for (const [at, rows] of all.entries()) expect(rows).toEqual(all[at % 3])
  expect(all[0]).not.toEqual(all[1])
  expect(await rowsOf("tall.png")).toEqual(all[1])
  expect(counts).toEqual({ cut: 3, read: 3 })
})

test("to be counted, an image is cut; and whoever is answered then has it", async () => {
  const { counts, prepare, rowsOf } = await setUp()
  const { text, rows } = await prepare(read("rgb.png"), "image", { client: "" })
  expect([text, rows]).toEqual(["<soft>".repeat(8), 8])
  expect(counts).toEqual({ cut: 1, read: 0 })
  await rowsOf("rgb.png")
  expect(counts).toEqual({ cut: 1, read: 1 })
})

test("who leaves takes nobody along who has the same image", async () => {
  const { rowsOf } = await setUp()
  const leaving = new AbortController()
  const left = rowsOf("rgb.png", leaving.signal)
  const stays = rowsOf("rgb.png")
  leaving.abort(new Error("left"))
  await expect(left).rejects.toThrow("left")
  expect(await stays).toHaveLength(8 * 20)
})

test("what is no image is so for everybody who sends it, by each one's own name", async () => {
  const { prepare } = await setUp()
  const bytes = new TextEncoder().encode("hello")
  const both = ["a", "b"].map((field) => prepare(bytes, field, { client: "" }))
  const refusals = (await Promise.allSettled(both)).map((each) => "reason" in each && each.reason)
  expect(refusals.map(({ param }) => param)).toEqual(["a", "b"])
})
