// Truth is Pillow's, as transformers' load_image asks for it: test/golden/images/make.py.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import sharp from "sharp"
import { expect, test } from "vitest"
import { decode } from "./decode.ts"

const folder = new URL("../../test/golden/images/", import.meta.url)
const { decoded } = JSON.parse(readFileSync(new URL("golden.json", folder), "utf8")) as {
  decoded: Record<string, { width: number; height: number; sha256: string }>
}

const read = (name: string) => readFileSync(new URL(name, folder))

async function refusalOf(bytes: Uint8Array): Promise<string> {
  const answer = await decode(bytes)
  return "refusal" in answer ? answer.refusal : `${answer.width} x ${answer.height}`
}

test.each(Object.keys(decoded))("%s has Pillow's pixels", async (name) => {
  const picture = await decode(read(name))
  if ("refusal" in picture) throw new Error(picture.refusal)
  const { width, height, data } = picture
  const sha256 = createHash("sha256").update(data).digest("hex")
  expect({ width, height, sha256 }).toEqual(decoded[name])
})

test("it is read by its first bytes alone, and what is not read is called by its name", async () => {
  const text = (words: string) => new TextEncoder().encode(words)
  const send = "send PNG, JPEG, WebP or GIF"
  const said = await Promise.all(
    [
      new Uint8Array(),
      text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'),
      text('\n<?xml version="1.0"?><svg/>'),
      text("%PDF-1.7"),
      Uint8Array.of(0x49, 0x49, 0x2a, 0, 8, 0, 0, 0),
      text("\0\0\0\x18ftypheic\0\0\0\0"),
      text("\0\0\0\x1cftypavif\0\0\0\0"),
      text("BM\0\0\0\0"),
      text("<!DOCTYPE html><html>"),
      text("hello"),
    ].map(refusalOf),
  )
  expect(said).toEqual([
    `is empty; ${send}`,
    `is SVG; ${send}`,
    `is SVG; ${send}`,
    `is PDF; ${send}`,
    `is TIFF; ${send}`,
    `is HEIF; ${send}`,
    `is AVIF; ${send}`,
    `is BMP; ${send}`,
    `is a web page; ${send}`,
    `is no image that is known; ${send}`,
  ])
})

test("libvips itself reads no other format any more", async () => {
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
  await expect(sharp(svg).metadata()).rejects.toThrow("unsupported image format")
  expect(await sharp(read("rgb.png")).metadata()).toMatchObject({ width: 83, height: 61 })
})

test("a PNG's header is not taken at its word", async () => {
  const bomb = Buffer.from(read("rgb.png"))
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  bomb.writeUInt32BE(crc(bomb.subarray(12, 29)), 29)
  expect(await refusalOf(bomb)).toBe(
    "has 60000 x 60000 pixels; at most 64 million pixels, and 65535 to a side, are read; send it smaller",
  )
  bomb.writeUInt32BE(70_000, 16)
  bomb.writeUInt32BE(1, 20)
  bomb.writeUInt32BE(crc(bomb.subarray(12, 29)), 29)
  expect(await refusalOf(bomb)).toMatch(/^has 70000 x 1 pixels; /)
})

test.each(["rgb.png", "rgb.jpg", "progressive.jpg", "lossy.webp", "gif.gif"])(
  "half of %s is refused",
  async (name) => {
    const bytes = read(name)
    expect(await refusalOf(bytes.subarray(0, bytes.length / 2))).toMatch(
      /^is a (PNG|JPEG|WebP|GIF) that cannot be decoded \(.+\); send it whole and valid$/,
    )
  },
)

/** Every cut and many changes: an image or a sentence, and this process lives on. */
test.each(["one.png", "palette-clear.png", "turned-6.jpg", "rgba.webp", "clear.gif", "cmyk.jpg"])(
  "whatever becomes of %s, it is an image or a sentence",
  async (name) => {
    const bytes = read(name)
    let state = 1
    const random = (below: number) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
      return (state >> 8) % below
    }
    for (let round = 0; round < 150; round++) {
      const changed = Buffer.from(
        bytes.subarray(0, round % 3 ? bytes.length : random(bytes.length)),
      )
      for (let flips = random(6); flips >= 0 && changed.length > 0; flips--)
        changed[random(changed.length)]! ^= 1 << random(8)
      const answer = await decode(changed)
      if ("refusal" in answer) expect(answer.refusal).toMatch(/^(is|has) [^\n]+; send [^\n]+$/)
      else expect(answer.data.length).toBe(answer.width * answer.height * 3)
    }
  },
  60_000,
)

/** Of a PNG's chunk. */
function crc(bytes: Uint8Array): number {
  let rest = 0xffffffff
  for (const byte of bytes) {
    rest ^= byte
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0)
  }
  return (rest ^ 0xffffffff) >>> 0
}
