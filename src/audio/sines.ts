// Places of rows as sines and cosines of lower and lower pitch, which encoders like Whisper's are told or have learned from.
// Source: `sinusoids` in modeling_whisper.py of transformers.

const TIMESCALE = 10_000

/** Sines, and behind them cosines. */
export function sinesOf(place: number, width: number): Float32Array {
  const half = width / 2
  const step = Math.log(TIMESCALE) / (half - 1)
  return Float32Array.from({ length: width }, (_, column) => {
    const angle = place * Math.exp(-step * (column % half))
    return column < half ? Math.sin(angle) : Math.cos(angle)
  })
}
