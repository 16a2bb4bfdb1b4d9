// Truth is a formula: a sine of another rate is the same sine, and what the new rate cannot hold is gone.

import { expect, test } from "vitest"
import { resampled } from "./resample.ts"

const TO = 16_000

const sine = (rate: number, hertz: number, seconds = 0.25) =>
  Float32Array.from({ length: Math.ceil(rate * seconds) }, (_, at) =>
    Math.sin((2 * Math.PI * hertz * at) / rate + 1),
  )

/** Decibels of the difference at its worst, away from the edges, where a sine does not begin or end of itself. */
function error(rate: number, hertz: number, truth: (at: number) => number): number {
  const out = resampled({ rate, samples: sine(rate, hertz) }, TO)
  const margin = Math.ceil((80 * TO) / Math.min(rate, TO))
  let worst = 0
  for (let at = margin; at < out.length - margin; at++)
    worst = Math.max(worst, Math.abs(out[at]! - truth(at)))
  return 20 * Math.log10(worst)
}

const RATES = [7_999, 8_000, 11_025, 22_050, 24_000, 44_100, 48_000, 96_000, 384_000]

test.each(RATES)("of %i samples a second all that is kept is kept", (rate) => {
  const nyquist = Math.min(rate, TO) / 2
  for (const part of [0.01, 0.3, 0.6, 0.91]) {
    const hertz = nyquist * part
    expect(error(rate, hertz, (at) => Math.sin((2 * Math.PI * hertz * at) / TO + 1))).toBeLessThan(
      -80,
    )
  }
})

test.each(RATES.filter((rate) => rate > TO))(
  "of %i samples a second nothing is mirrored",
  (rate) => {
    for (const part of [0, 0.1, 0.5, 0.99]) {
      const hertz = TO / 2 + part * (rate / 2 - TO / 2)
      expect(error(rate, hertz, () => 0)).toBeLessThan(-80)
    }
  },
)

test.each(RATES.filter((rate) => rate < TO))(
  "of %i samples a second no mirror is heard",
  (rate) => {
    // Of a sine near the old Nyquist frequency, whose mirror is near it on the other side.
    const hertz = 0.91 * (rate / 2)
    const out = resampled({ rate, samples: sine(rate, hertz, 1) }, TO)
    const mirror = rate - hertz
    let [real, imaginary] = [0, 0]
    for (let at = 0; at < out.length; at++) {
      const window = 1 - Math.cos((2 * Math.PI * at) / out.length)
      real += out[at]! * window * Math.cos((2 * Math.PI * mirror * at) / TO)
      imaginary += out[at]! * window * Math.sin((2 * Math.PI * mirror * at) / TO)
    }
    expect(20 * Math.log10((2 * Math.hypot(real, imaginary)) / out.length)).toBeLessThan(-80)
  },
)

test("what is steady stays so, and all of the time is there", () => {
  for (const rate of RATES)
    for (const count of [1, 2, 1000, 1001]) {
      const out = resampled({ rate, samples: new Float32Array(count).fill(0.5) }, TO)
      expect(out).toHaveLength(Math.ceil((count * TO) / rate))
      if (count > 1000)
        expect(resampled({ rate, samples: out.fill(0.5) }, TO).every(Number.isFinite)).toBe(true)
    }
  const long = resampled({ rate: 44_100, samples: new Float32Array(44_100).fill(0.5) }, TO)
  expect(Math.abs(long[8000]! - 0.5)).toBeLessThan(1e-7)
  const samples = sine(TO, 440)
  expect(resampled({ rate: TO, samples }, TO)).toBe(samples)
})
