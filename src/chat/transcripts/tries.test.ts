// What is tried again, and how; which windows are silent. Bounds are those of decode_with_fallback in OpenAI's whisper (20250625), which
// compares as below.

import { expect, test } from "vitest"
import { plainSampling } from "../../engine/generation.ts"
import { compressionRatio, isDoubtful, isSilent, isUnlikely, triesOf } from "./tries.ts"

const sampling = { ...plainSampling, seed: 9n }

test("the likeliest words have six tries, each with a seed of its own, and others one", () => {
  const tries = triesOf({ ...sampling, temperature: 0 })
  expect(tries.map(({ temperature, seed }) => [temperature, seed])).toEqual(
    [0, 0.2, 0.4, 0.6, 0.8, 1].map((temperature, i) => [temperature, BigInt(i)]),
  )
  const one = { ...sampling, temperature: 0.3 }
  expect(triesOf(one)).toEqual([one])
})

test.each([
  [{ averageLogprob: -1, compressionRatio: 2.4 }, false, false],
  [{ averageLogprob: -1.01, compressionRatio: 1 }, true, true],
  [{ averageLogprob: -0.1, compressionRatio: 2.41 }, false, true],
])("%j", (judged, unlikely, doubtful) => {
  expect([isUnlikely(judged), isDoubtful(judged)]).toEqual([unlikely, doubtful])
})

test("nobody speaks where that is likelier than 0.6", () => {
  expect([isSilent(0.6), isSilent(0.61)]).toEqual([false, true])
})

// Node's zlib finds no repeats of three bytes: of a text it makes a hundredth more than Python's, of a few letters an eighth.
// len(text.strip().encode()) / len(zlib.compress(text.strip().encode())) of Python 3.11
test.each<[string, number]>([
  ["", 0.0],
  [" Hello.", 0.42857142857142855],
  [
    " and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then and then",
    16.318181818181817,
  ],
  [
    " Grüße aus Köln,  Grüße aus Köln,  Grüße aus Köln,  Grüße aus Köln,  Grüße aus Köln,  Grüße aus Köln, ",
    3.6875,
  ],
  [
    "The New York Times from July 21st, 1969. This isn't just newsprint and ink. This is the moment when humanity's oldest dream became front page reality. Men walk on moon declares the bold headline across America's newspaper of record.",
    1.3257142857142856,
  ],
])("%j is compressed to a part", (text, ratio) => {
  const own = compressionRatio(text)
  expect(own).toBeGreaterThanOrEqual(ratio * 0.98)
  expect(own).toBeLessThanOrEqual(ratio * 1.02)
})
