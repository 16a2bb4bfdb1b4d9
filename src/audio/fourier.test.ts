import { expect, test } from "vitest"
import { Fourier } from "./fourier.ts"

/** By the definition. */
function plain(from: Float64Array): Float64Array {
  const length = from.length / 2
  const to = new Float64Array(from.length)
  for (let bin = 0; bin < length; bin++)
    for (let at = 0; at < length; at++) {
      const angle = (-2 * Math.PI * ((bin * at) % length)) / length
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)]
      to[2 * bin]! += from[2 * at]! * cosine - from[2 * at + 1]! * sine
      to[2 * bin + 1]! += from[2 * at]! * sine + from[2 * at + 1]! * cosine
    }
  return to
}

test.each([1, 2, 3, 7, 12, 30, 400])(
  "%i numbers are transformed as by the definition",
  (length) => {
    const from = Float64Array.from({ length: 2 * length }, (_, at) => Math.sin(at * at) + at / 9)
    const to = new Float64Array(2 * length)
    new Fourier(length).transform(from, to)
    const largest = Math.max(...from.map(Math.abs)) * length
    plain(from).forEach((number, at) => {
      expect(Math.abs(to[at]! - number)).toBeLessThan(1e-13 * largest)
    })
  },
)
