// What of a spectrum counts for each band of a scale: triangles that overlap by half.

/** From which bin on. */
export interface Filter {
  start: number
  weights: Float64Array
}

/**
 * @param corners of the triangles in hertz, in order: the first of one is the middle of the one before
 * @param bins of a spectrum, so many hertz from each other
 * @param height of the triangle from a corner to another; absent: 1
 */
export function melFilters(
  corners: readonly number[],
  { bins, step }: { bins: number; step: number },
  height: (low: number, high: number) => number = () => 1,
): Filter[] {
  return corners.slice(2).map((high, band) => {
    const [low, middle] = corners.slice(band, band + 2) as [number, number]
    const weights = Array.from({ length: bins }, (_, bin) => {
      const hertz = bin * step
      const part = Math.min((hertz - low) / (middle - low), (high - hertz) / (high - middle))
      return Math.max(0, part) * height(low, high)
    })
    const start = Math.max(
      0,
      weights.findIndex((weight) => weight > 0),
    )
    const end = weights.findLastIndex((weight) => weight > 0) + 1
    return { start, weights: Float64Array.from(weights.slice(start, end)) }
  })
}
