// Through the process that does it. What samples and features must be is told in decode.test.ts, resample.test.ts and tiles.test.ts.

import { readFileSync } from "node:fs"
import { afterAll, expect, test } from "vitest"
import { sound } from "../../test/golden/audio/sound.ts"
import type { AudioProcessing } from "./audio.ts"
import { openRecordings } from "./recordings.ts"
import { resampled } from "./resample.ts"
import { mostRows, tileOf, windowsOf } from "./tiles.ts"

const read = (name: string) =>
  new Uint8Array(readFileSync(new URL(`../../test/golden/audio/${name}`, import.meta.url)))

const processing: AudioProcessing = {
  bands: 80,
  cutting: "windows",
  most: 70,
  joined: 2,
  mark: "<audio>",
  soft: "<soft>",
  before: "<|begin|>",
  after: "<|end|>",
}

/** A WAV of floats. */
function wav(samples: Float32Array, rate: number): Uint8Array {
  const head = Buffer.alloc(44)
  head.write("RIFF\0\0\0\0WAVEfmt ", "latin1")
  head.writeUInt32LE(36 + 4 * samples.length, 4)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(3, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(4 * rate, 28)
  head.writeUInt16LE(4, 32)
  head.writeUInt16LE(32, 34)
  head.write("data", 36)
  head.writeUInt32LE(4 * samples.length, 40)
  return Buffer.concat([head, Buffer.from(samples.buffer)])
}

const nobody = { client: "" }
const recordings = openRecordings(processing)
afterAll(() => recordings.close())

/** What `hear` must say of a sound. */
function truth(samples: Float32Array, rate: number) {
  const windows = windowsOf(resampled({ rate, samples }, 16_000), processing)
  return windows.map((window) => tileOf(window, window.frames, processing))
}

test("a recording comes as tiles, text and as many soft tokens as rows come out", async () => {
  const samples = sound(8000 * 31)
  const heard = await recordings.prepare(wav(samples, 8000), "audio", nobody)
  const tiles = truth(samples, 8000)
  expect(heard.tiles.map(({ given }) => given.length)).toEqual([1500 * 401, 50 * 401])
  heard.tiles.forEach((tile, at) => {
    const { given, places, wanted } = tiles[at]!
    expect(Buffer.compare(Buffer.from(tile.given.buffer), Buffer.from(given.buffer))).toBe(0)
    expect(tile.places).toEqual(places)
    expect(tile.wanted).toEqual(wanted)
  })
  expect(mostRows(processing)).toBe(1500)
  expect(heard.rows).toBe(750 + 25)
  expect(heard.text).toBe(`<|begin|>${"<soft>".repeat(775)}<|end|>`)
})

test("what is none is refused by the name of its field, and the next is heard", async () => {
  const bad = recordings.prepare(
    new TextEncoder().encode("FORM1234AIFF"),
    "messages[0].content[1]",
    nobody,
  )
  const good = recordings.prepare(wav(sound(1600), 16_000), "audio", nobody)
  await expect(bad).rejects.toMatchObject({
    code: "invalid_value",
    param: "messages[0].content[1]",
    message: "messages[0].content[1] is AIFF; send WAV, MP3, FLAC, Ogg, WebM, MP4 (M4A) or AAC.",
  })
  expect((await good).rows).toBe(2) // 10 frames, 5 rows
})

test("one is refused that is too long, too short or too large", async () => {
  const said = (samples: number, rate = 16_000) =>
    recordings.prepare(wav(new Float32Array(samples), rate), "audio", nobody)
  const tooLong = "audio lasts 70.01 seconds; this model hears at most 70; send a part of it."
  await expect(said(70_001, 1000)).rejects.toThrow(tooLong)
  expect((await said(70_000, 1000)).rows).toBe(1750)
  await expect(said(320)).rejects.toThrow(
    "audio lasts less than 0.021 seconds, the least that this model hears; send a longer one.",
  )
  expect((await said(321)).rows).toBe(1)
  await expect(said(0)).rejects.toThrow("audio holds no sound; send one that does.")
})

test("a model of one window refuses what transformers would cut off", async () => {
  const short = openRecordings({ ...processing, cutting: "window", most: 3600 })
  const samples = new Float32Array(30_001)
  await expect(short.prepare(wav(samples, 1000), "audio", nobody)).rejects.toThrow(
    "audio lasts 30.01 seconds; this model hears at most 30; send a part of it.",
  )
  await short.close()
})

test("several at once do not get each other's frames, and one whose client leaves gets none", async () => {
  const leaving = new AbortController()
  const left = recordings.prepare(wav(sound(480_000), 16_000), "audio", {
    client: "",
    signal: leaving.signal,
  })
  const parts = [sound(32_000).subarray(0, 16_000).slice(), sound(32_000).slice(16_000)]
  const both = parts.map((each) => recordings.prepare(wav(each, 16_000), "audio", nobody))
  leaving.abort(new Error("left"))
  await expect(left).rejects.toThrow("left")
  for (const [at, heard] of (await Promise.all(both)).entries())
    expect(heard.tiles).toEqual(truth(parts[at]!, 16_000))
})

test("a crowd of one client is one client", async () => {
  const heard: string[] = []
  const hear = async (name: string, client: string) => {
    await recordings.prepare(wav(sound(1600), 16_000), name, { client })
    heard.push(name)
  }
  await Promise.all([hear("a1", "a"), hear("a2", "a"), hear("a3", "a"), hear("b1", "b")])
  expect(heard).toEqual(["a1", "a2", "b1", "a3"])
})

test("one that takes too long is refused, and the next is heard", async () => {
  const slow = openRecordings(processing, undefined, { milliseconds: 1 })
  await expect(slow.prepare(wav(sound(1_000_000), 16_001), "audio", nobody)).rejects.toMatchObject({
    code: "invalid_value",
    param: "audio",
    message:
      "audio is a recording that cannot be decoded: it took more than 0.001 seconds; send a shorter one.",
  })
  await expect(slow.prepare(new Uint8Array(3), "audio", nobody)).rejects.toThrow(
    "audio is no recording that is known",
  )
  await slow.close()
})

test("closed, it refuses whoever waits and whoever comes", async () => {
  const other = openRecordings(processing)
  const waiting = other.prepare(read("s16.flac"), "audio", nobody)
  const refused = expect(waiting).rejects.toMatchObject({ code: "server_closing" })
  await other.close()
  await refused
  await expect(other.prepare(read("s16.flac"), "audio", nobody)).rejects.toMatchObject({
    code: "server_closing",
  })
})
