// Truth is transformers' and mistral_common's: test/golden/audio/make.py.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { sound } from "../../test/golden/audio/sound.ts"
import type { WhisperProcessing } from "./audio.ts"
import { leastSamples, mostRows, tileOf, windowsOf } from "./tiles.ts"

const golden = JSON.parse(
  readFileSync(new URL("../../test/golden/audio/golden.json", import.meta.url), "utf8"),
) as {
  heard: Record<string, Heard>
  filled: Filled[]
  padded: [samples: number, tokens: number][]
  joined: [frames: number, rows: number, two: number, four: number][]
}

interface Heard {
  samples: number
  bands: number
  tokens: number | null
  windows: { mean: number; square: number; frames: number[]; features: string }[]
}

interface Filled {
  samples: number
  side: "left" | "right"
  tokens: number
  length: number
  square: number
  frames: number[]
  features: string
}

const plain = { most: 3600, mark: "", soft: "", before: "", after: "" }
const kinds: Record<string, Pick<WhisperProcessing, "cutting" | "joined" | "isFull">> = {
  "qwen2-audio": { cutting: "window", joined: 2 },
  "qwen2-audio-whole": { cutting: "window", joined: 2 },
  "qwen2-audio-80": { cutting: "window", joined: 2 },
  voxtral: { cutting: "padded", joined: 4 },
  "audio-flamingo-3": { cutting: "windows", joined: 2 },
  "audio-flamingo-3-rest": { cutting: "windows", joined: 2 },
  "glm-asr": { cutting: "windows", joined: 4, isFull: true },
}

const numbersOf = (base64: string) => {
  const bytes = Uint8Array.from(Buffer.from(base64, "base64"))
  return new Float32Array(bytes.buffer)
}

// numpy's logarithms and ours differ by a few of float32's last digits; its spectra have 24 bits.
const NEAR = 2e-6

test.each(Object.keys(golden.heard))("%s: transformers' features", (name) => {
  const { samples, bands, tokens, windows: truth } = golden.heard[name]!
  const processing = { ...plain, ...kinds[name]!, bands }
  // All of each window, as a tower that sees it would be given.
  const windows = windowsOf(sound(samples), { ...processing, isFull: true })
  const kept = truth.slice(0, windows.length)
  windows.forEach(({ frames }, at) => {
    const { mean, square, frames: shown, features } = kept[at]!
    expect(frames.length).toBe(3000 * bands)
    expect(frames.reduce((sum, each) => sum + each, 0) / frames.length).toBeCloseTo(mean, 6)
    const squares = frames.reduce((sum, each) => sum + each * each, 0)
    expect(squares / frames.length).toBeCloseTo(square, 6)
    const numbers = numbersOf(features)
    shown.forEach((frame, row) => {
      for (let band = 0; band < bands; band++) {
        const far = frames[frame * bands + band]! - numbers[row * bands + band]!
        expect(Math.abs(far)).toBeLessThan(NEAR)
      }
    })
  })
  const out = windows.map((each) => tileOf(each, each.frames, processing).wanted.length)
  const all = out.reduce((sum, each) => sum + each, 0)
  expect(all).toBe(tokens ?? golden.padded.find(([count]) => count === samples)![1])
})

const pieces = { ...plain, cutting: "pieces", window: 2, joined: 2, most: 20 } as const

test.each(golden.filled)(
  "pieces of $samples samples, silence to the $side of which is not heard but at an edge",
  ({ samples, side, tokens, length, square, frames: shown, features }) => {
    const bands = 128
    const processing = { ...pieces, bands, ...(side === "left" && { isLate: true as const }) }
    const windows = windowsOf(sound(samples), processing)
    const frames = windows.flatMap((each) => [...each.frames])
    expect(frames.length).toBe(length * bands)
    const squares = frames.reduce((sum, each) => sum + each * each, 0)
    expect(squares / frames.length).toBeCloseTo(square, 6)
    const numbers = numbersOf(features)
    shown.forEach((frame, row) => {
      for (let band = 0; band < bands; band++) {
        const far = frames[frame * bands + band]! - numbers[row * bands + band]!
        expect(Math.abs(far)).toBeLessThan(NEAR)
      }
    })
    expect(windows.every(({ rows }) => rows <= mostRows(processing))).toBe(true)
    const out = windows.map((each) => tileOf(each, each.frames, processing).wanted.length)
    expect(out.reduce((sum, each) => sum + each, 0)).toBe(tokens)
  },
)

test("of a piece's last row it is told whether the first convolution has a row behind it", () => {
  const processing = { ...pieces, bands: 2 }
  const marksOf = (frames: number) => {
    const rows = Math.floor((frames - 1) / 2) + 1
    const { given } = tileOf({ rows, own: rows }, new Float32Array(2 * frames), processing)
    return Array.from({ length: rows }, (_, row) => [
      ...given.subarray(12 * row + 10, 12 * row + 12),
    ])
  }
  expect(marksOf(5)).toEqual([
    [0, 1],
    [1, 1],
    [1, 0],
  ])
  expect(marksOf(4)).toEqual([
    [0, 1],
    [1, 1],
  ])
})

test("what is too short for a row of pieces is refused", () => {
  const rowsOf = (samples: number, late?: true) => {
    const processing = { ...pieces, bands: 80, ...(late && { isLate: late }) }
    expect(samples < leastSamples(processing)).toBe(
      windowsOf(new Float32Array(samples), processing).length === 0,
    )
  }
  for (const samples of [320, 321]) rowsOf(samples)
  for (const samples of [479, 480]) rowsOf(samples, true)
})

test("seconds that silence does not fill need an edge to reflect", () => {
  const seconds = { ...plain, bands: 8, cutting: "chunks", window: 8, width: 4 } as const
  expect(leastSamples(seconds)).toBe(201)
  expect(leastSamples({ ...seconds, isFilled: true })).toBe(1)
})

test("Voxtral's silence is heard, too: as many rows as mistral_common has tokens", () => {
  const voxtral: WhisperProcessing = { ...plain, ...kinds.voxtral!, bands: 128 }
  for (const [samples, tokens] of golden.padded) {
    const windows = windowsOf(new Float32Array(samples), voxtral)
    const rows = windows.map((each) => tileOf(each, each.frames, voxtral).wanted.length)
    expect(rows.reduce((sum, each) => sum + each, 0)).toBe(tokens)
  }
})

test("as many rows come out of so many frames as in transformers' models", () => {
  const silence = (frames: number) => new Float32Array(frames * 160 - 159)
  for (const [frames, rows, two, four] of golden.joined)
    for (const [joined, out] of [
      [2, two],
      [4, four],
    ] as const) {
      const processing: WhisperProcessing = { ...plain, bands: 80, cutting: "windows", joined }
      const windows = windowsOf(silence(frames), processing)
      expect(windows.map(({ own }) => own)).toEqual(out === 0 ? [] : [rows])
      for (const window of windows)
        expect(tileOf(window, window.frames, processing).wanted).toHaveLength(out)
      expect(silence(frames).length < leastSamples(processing)).toBe(out === 0)
    }
})

test("each row has five frames, zeros where there is none, and whether one is before it", () => {
  const bands = 2
  const frameOf = (place: number) =>
    place < 0 || place > 2999 ? [0, 0] : [place + 1, -(place + 1)]
  const full: WhisperProcessing = { ...plain, bands, cutting: "window", joined: 2, isFull: true }
  const numbers = Float32Array.from(
    Array.from({ length: 3000 }, (_, place) => frameOf(place)).flat(),
  )
  const whole = tileOf({ rows: 1500, own: 7 }, numbers, full)
  const rowOf = (row: number) => [
    ...[-2, -1, 0, 1, 2].flatMap((step) => frameOf(2 * row + step)),
    Math.min(row, 1),
  ]
  for (const row of [0, 1, 2, 749, 1498, 1499])
    expect([...whole.given.subarray(row * 11, (row + 1) * 11)]).toEqual(rowOf(row))
  expect(whole.wanted).toEqual(Int32Array.of(0, 2, 4))
  expect(whole.places).toEqual(Int32Array.from({ length: 1500 }, (_, row) => row))
  const part = tileOf({ rows: 3, own: 3 }, numbers.subarray(0, 7 * bands), full)
  expect(part.given).toEqual(whole.given.subarray(0, 3 * 11))
})

test("a tile has the rows of the recording, unless the tower sees what lies behind it", () => {
  const rows = (kind: Pick<WhisperProcessing, "cutting" | "joined" | "isFull">) =>
    windowsOf(sound(32_000), { ...plain, ...kind, bands: 80 }).map((each) => [each.rows, each.own])
  expect(rows({ cutting: "window", joined: 2 })).toEqual([[100, 100]])
  expect(rows({ cutting: "window", joined: 2, isFull: true })).toEqual([[1500, 100]])
  expect(rows({ cutting: "padded", joined: 4 })).toEqual([[1500, 1500]])
  const most = (kind: Partial<WhisperProcessing>) =>
    mostRows({ ...plain, bands: 80, cutting: "windows", joined: 2, ...kind })
  expect(most({})).toBe(1500)
  expect(most({ most: 2 })).toBe(100)
  expect(most({ most: 2, isFull: true })).toBe(1500)
  expect(most({ most: 2, cutting: "padded" })).toBe(1500)
})
