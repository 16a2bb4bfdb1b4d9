// Truth is torchvision's and Pillow's: test/golden/images/make.py.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import type { Filter, Picture } from "./image.ts"
import { resize } from "./resample.ts"

const folder = new URL("../../test/golden/images/", import.meta.url)
const { resized } = JSON.parse(readFileSync(new URL("golden.json", folder), "utf8")) as {
  resized: Resized[]
}

interface Resized {
  from: [number, number] // width and height
  to: [number, number]
  filter: Filter
  sha256: string
  /** Where Pillow's bytes lie in resized.bin, and how many. */
  pillow?: [number, number]
}

/** The formula of make.py. */
function picture([width, height]: [number, number]): Picture {
  const data = new Uint8Array(width * height * 3)
  let state = 1
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    const slope = Math.floor((i * 7) / (width * 3)) % 200
    data[i] = Math.floor((state >> 23) / 4) + slope
  }
  return { width, height, data }
}

const sha256 = (data: Uint8Array) => createHash("sha256").update(data).digest("hex")
const sizeOf = ([width, height]: [number, number]) => ({ width, height })

test.each(resized)("$filter from $from to $to has torchvision's bytes", (each) => {
  const { data, width, height } = resize(picture(each.from), sizeOf(each.to), each.filter)
  expect([width, height]).toEqual(each.to)
  expect(sha256(data)).toBe(each.sha256)
})

test("Pillow's bytes differ by one step in less than one of a hundred", () => {
  const kept = readFileSync(new URL("resized.bin", folder))
  const cases = resized.filter(({ pillow }) => pillow)
  expect(cases.map(({ filter }) => filter)).toEqual(["bilinear", "bicubic", "lanczos"])
  for (const { from, to, filter, pillow } of cases) {
    const { data } = resize(picture(from), sizeOf(to), filter)
    const bytes = kept.subarray(pillow![0], pillow![0] + pillow![1])
    const steps = Array.from(data, (byte, i) => Math.abs(byte - bytes[i]!))
    expect(Math.max(...steps)).toBe(1)
    expect(steps.filter((step) => step > 0).length).toBeLessThan(data.length / 100)
  }
})

test.each(["bilinear", "bicubic", "lanczos"] as const)("a window of %s is that part", (filter) => {
  const from = picture([41, 37])
  const whole = resize(from, { width: 90, height: 70 }, filter)
  const window = { left: 31, top: 22, width: 40, height: 30 }
  const { data } = resize(from, { width: 90, height: 70 }, filter, window)
  for (let y = 0; y < window.height; y++) {
    const at = ((window.top + y) * whole.width + window.left) * 3
    const line = data.subarray(y * window.width * 3, (y + 1) * window.width * 3)
    expect(line).toEqual(whole.data.subarray(at, at + window.width * 3))
  }
})

test("a size that it has already changes nothing", () => {
  const from = picture([12, 9])
  expect(resize(from, { width: 12, height: 9 }, "lanczos")).toBe(from)
})
