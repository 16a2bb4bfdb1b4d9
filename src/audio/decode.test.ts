// Truth is libsndfile's, as librosa and transformers read sound with it: test/golden/audio/make.py.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { decode } from "./decode.ts"

const folder = new URL("../../test/golden/audio/", import.meta.url)
const read = (name: string) => new Uint8Array(readFileSync(new URL(name, folder)))
interface Truth {
  rate: number
  samples: number
  s16?: string
}

const golden = JSON.parse(readFileSync(new URL("golden.json", folder), "utf8")) as {
  files: Record<string, Truth & { sha256: string }>
  recorded: Truth
  recordedMp4: Truth & { every: number }
}
const { files } = golden
const named = (ending: string) => Object.keys(files).filter((name) => name.endsWith(ending))

test.each([...named(".wav"), ...named(".flac")])("%s has libsndfile's samples", async (name) => {
  const sound = await decode(read(name), 60)
  if ("refusal" in sound) throw new Error(sound.refusal)
  const { rate, samples, sha256 } = files[name]!
  expect([sound.rate, sound.samples.length]).toEqual([rate, samples])
  expect(createHash("sha256").update(sound.samples).digest("hex")).toBe(sha256)
})

/** @param most in 16 bits */
async function judge(
  name: string,
  { rate, samples, s16, every = 1 }: Truth & { every?: number },
  most: number,
): Promise<void> {
  const sound = await decode(read(name), 60)
  if ("refusal" in sound) throw new Error(sound.refusal)
  expect([sound.rate, sound.samples.length]).toEqual([rate, samples])
  const truth = new Int16Array(Uint8Array.from(Buffer.from(s16!, "base64")).buffer)
  const far = Array.from(truth, (sample, at) =>
    Math.abs(sound.samples[at * every]! * 32767 - sample),
  )
  expect(Math.max(...far)).toBeLessThan(most)
}

test.each(named(".mp3"))("%s has libsndfile's samples but for the last of 16 bits", (name) =>
  judge(name, files[name]!, 1),
)

test.each(named(".ogg"))("%s has libsndfile's samples but for 2 of 65,536", (name) =>
  judge(name, files[name]!, 2),
)

test("Opus in MP4 has libsndfile's samples of the same in Ogg", () =>
  judge("opus.mp4", files["stereo-opus.ogg"]!, 2))

test.each(["recorded.webm", "recorded.mp4"])(
  "%s has the samples of the browser's that made it",
  (name) => judge(name, name === "recorded.webm" ? golden.recorded : golden.recordedMp4, 2),
)

// FFmpeg's, of its own encoder's files, fdk-aac's, and such as no encoder writes: test/golden/audio/aac.py.
const aac = JSON.parse(readFileSync(new URL("aac.json", folder), "utf8")) as {
  files: Record<
    string,
    { rate: number; samples: number; square: number; every: number; f32: string }
  >
}

test.each(Object.keys(aac.files))("%s has FFmpeg's samples but for a millionth", async (name) => {
  const sound = await decode(read(name), 60)
  if ("refusal" in sound) throw new Error(sound.refusal)
  const { rate, samples, square, every, f32 } = aac.files[name]!
  expect([sound.rate, sound.samples.length]).toEqual([rate, samples])
  const truth = new Float32Array(Uint8Array.from(Buffer.from(f32, "base64")).buffer)
  const far = truth.map((sample, at) => Math.abs(sample - sound.samples[at * every]!))
  expect(Math.max(...far)).toBeLessThan(1e-6)
  const sum = sound.samples.reduce((all, sample) => all + sample ** 2, 0)
  expect(sum / samples / square).toBeCloseTo(1, 5)
})
