// Temporal noise shaping: a filter over a spectrum shapes in time what rounding added to it. Each runs over some bands of one window,
// upwards or downwards.
//
// ISO/IEC 14496-3, 4.4.2.7 (tns_data) and 4.6.9.

import type { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import { SHORT, type Windows } from "./windows.ts"

export interface Filter {
  /** In the spectra of all windows. */
  from: number
  end: number
  isDownward: boolean
  /** Of the numbers before one, the nearest first. */
  coefficients: Float64Array
}

const MAX_ORDER = 12

export function filtersIn(bits: Bits, windows: Windows): Filter[] {
  const { sequence, starts } = windows
  const isShort = sequence === SHORT
  const reached = Math.min(windows.shaped, windows.written)
  const filters: Filter[] = []
  for (let window = 0; window < (isShort ? 8 : 1); window++) {
    const count = bits.read(isShort ? 1 : 2)
    const resolution = count > 0 ? 3 + bits.read(1) : 0 // bits
    const place = (band: number) => window * starts.at(-1)! + starts[Math.min(band, reached)]!
    let top = starts.length - 1
    for (let filter = 0; filter < count; filter++) {
      const bottom = Math.max(0, top - bits.read(isShort ? 4 : 6))
      const order = bits.read(isShort ? 3 : 5)
      if (order > MAX_ORDER)
        throw new Broken(`a filter of it has an order of ${order}, and AAC LC has at most 12`)
      if (order > 0) {
        const isDownward = bits.read(1) === 1
        const coefficients = coefficientsIn(bits, order, resolution)
        filters.push({ from: place(bottom), end: place(top), isDownward, coefficients })
      }
      top = bottom
    }
  }
  return filters
}

/** They are written as sines of what a lattice reflects, and become those of a polynomial (Levinson). */
function coefficientsIn(bits: Bits, order: number, resolution: number): Float64Array {
  const width = resolution - bits.read(1) // the upper bit may be left out of all
  const steps = 2 ** (resolution - 1)
  const coefficients = new Float64Array(order)
  for (let count = 0; count < order; count++) {
    const value = bits.signed(width)
    const reflected = Math.sin((value / (value < 0 ? steps + 0.5 : steps - 0.5)) * (Math.PI / 2))
    for (let [low, high] = [0, count - 1]; low <= high; low++, high--) {
      const [one, other] = [coefficients[low]!, coefficients[high]!]
      coefficients[low] = one + reflected * other
      coefficients[high] = other + reflected * one
    }
    coefficients[count] = reflected
  }
  return coefficients
}

export function shape(spectrum: Float64Array, filters: readonly Filter[]): void {
  for (const { from, end, isDownward, coefficients } of filters) {
    const step = isDownward ? -1 : 1
    const first = isDownward ? end - 1 : from
    for (let count = 0; count < end - from; count++) {
      const at = first + count * step
      const order = Math.min(count, coefficients.length)
      let sum = spectrum[at]!
      for (let back = 1; back <= order; back++)
        sum -= coefficients[back - 1]! * spectrum[at - back * step]!
      spectrum[at] = sum
    }
  }
}
