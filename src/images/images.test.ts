// Through the process that does it. What the pixels must be is told in resample.test.ts, decode.test.ts and, with the
// processors of transformers, in model/vision/processing.test.ts.

import { readFileSync } from "node:fs"
import { afterAll, expect, test } from "vitest"
import { cut } from "./cut.ts"
import { decode } from "./decode.ts"
import type { ImageProcessing } from "./image.ts"
import { openImages } from "./images.ts"
import { pixelsOf, placesOf, rowsOf, wantedOf } from "./patches.ts"

const read = (name: string) =>
  readFileSync(new URL(`../../test/golden/images/${name}`, import.meta.url))

const processing: ImageProcessing = {
  cutting: { kind: "grid", choice: "ratio", least: 1, most: 12 },
  filter: "bicubic",
  rescale: 1 / 255,
  mean: [0.5, 0.5, 0.5],
  std: [0.25, 0.25, 0.25],
  tile: { width: 448, height: 448 },
  patch: 14,
  joined: 2,
  hasClassRow: true,
  skipped: 1,
  mark: "<image>",
  soft: "<soft>",
  wording: {
    opening: "<img>",
    closing: "</img>",
    only: "",
    part: "",
    whole: "",
    betweenLines: "",
    betweenTiles: "",
    behindTile: "",
    behindRow: "",
  },
}

const nobody = { client: "" }
const images = openImages(processing)
afterAll(() => images.close())

test("an image comes as tiles, text and as many soft tokens as rows come out", async () => {
  const seen = await images.prepare(read("rgb.jpg"), "image", nobody)
  const picture = await decode(read("rgb.jpg"))
  if ("refusal" in picture) throw new Error(picture.refusal)
  const parts = cut(picture, processing)
  if ("refusal" in parts) throw new Error(parts.refusal)
  const { tiles } = parts
  expect(seen.tiles).toHaveLength(tiles.length)
  seen.tiles.forEach((tile, i) => {
    expect(tile.places).toEqual(placesOf(processing))
    expect(tile.wanted).toEqual(wantedOf(processing))
    const pixels = pixelsOf(tiles[i]!, processing, 0, rowsOf(processing)) // 2.3 MB, which come in pieces
    expect(Buffer.compare(Buffer.from(tile.given.buffer), Buffer.from(pixels.buffer))).toBe(0)
  })
  expect(seen.rows).toBe(256 * tiles.length)
  expect(seen.text).toBe(`<img>${"<soft>".repeat(seen.rows)}</img>`)
})

test("what is none is refused by the name of its field, and the next is seen", async () => {
  const bad = images.prepare(new TextEncoder().encode("<svg/>"), "messages[0].content[1]", nobody)
  const good = images.prepare(read("one.png"), "image", nobody)
  await expect(bad).rejects.toMatchObject({
    code: "invalid_value",
    param: "messages[0].content[1]",
    message: "messages[0].content[1] is SVG; send PNG, JPEG, WebP or GIF.",
  })
  expect((await good).tiles).toHaveLength(1)
})

test("several at once do not get each other's rows, and one whose client leaves gets none", async () => {
  const leaving = new AbortController()
  const left = images.prepare(read("large.jpg"), "image", { client: "", signal: leaving.signal })
  const [wide, tall] = [read("rgb.png"), read("tall.png")]
  const both = [images.prepare(wide, "image", nobody), images.prepare(tall, "image", nobody)]
  leaving.abort(new Error("left"))
  await expect(left).rejects.toThrow("left")
  const [first, second] = await Promise.all(both)
  const alone = [
    await images.prepare(wide, "image", nobody),
    await images.prepare(tall, "image", nobody),
  ]
  expect(first!.tiles.map(({ given }) => hash(given))).toEqual(
    alone[0]!.tiles.map(({ given }) => hash(given)),
  )
  expect(second!.tiles.map(({ given }) => hash(given))).toEqual(
    alone[1]!.tiles.map(({ given }) => hash(given)),
  )
})

test("a crowd of one client is one client", async () => {
  const seen: string[] = []
  const see = async (name: string, client: string) => {
    await images.prepare(read("one.png"), name, { client })
    seen.push(name)
  }
  await Promise.all([see("a1", "a"), see("a2", "a"), see("a3", "a"), see("b1", "b")])
  expect(seen).toEqual(["a1", "a2", "b1", "a3"])
})

test("photographs of several clients wait for each other", async () => {
  const files = Array.from({ length: 5 }, () => Buffer.alloc(12 * 2 ** 20, "none"))
  const all = files.map((bytes, at) => images.prepare(bytes, `image ${at}`, { client: `${at}` }))
  for (const [at, one] of all.entries())
    await expect(one).rejects.toThrow(`image ${at} is no image that is known`)
})

test("one that takes too long is refused, and the next is seen", async () => {
  const endless = { width: 4096, height: 4096 }
  const slow = openImages(
    { ...processing, cutting: { kind: "stretch" }, filter: "lanczos", tile: endless },
    undefined,
    { milliseconds: 1 },
  )
  await expect(slow.prepare(read("rgb.png"), "image", nobody)).rejects.toMatchObject({
    code: "invalid_value",
    param: "image",
    message:
      "image is an image that cannot be decoded: it took more than 0.001 seconds; send it smaller.",
  })
  const none = slow.prepare(new Uint8Array(3), "image", nobody)
  await expect(none).rejects.toThrow("image is no image that is known")
  await slow.close()
})

test("closed, it refuses whoever waits and whoever comes", async () => {
  const other = openImages(processing)
  const waiting = other.prepare(read("rgb.png"), "image", nobody)
  const refused = expect(waiting).rejects.toMatchObject({ code: "server_closing" })
  await other.close()
  await refused
  await expect(other.prepare(read("rgb.png"), "image", nobody)).rejects.toMatchObject({
    code: "server_closing",
  })
})

/** FNV-1a of the numbers' bits. */
function hash(pixels: Float32Array): number {
  let value = 0x811c9dc5
  for (const bits of new Int32Array(pixels.buffer)) value = Math.imul(value ^ bits, 0x01000193)
  return value >>> 0
}
