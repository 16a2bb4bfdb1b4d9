// Places of rows as sines and cosines of lower and lower pitch, which encoders like Whisper's are told or have learned from.
// Sources: `sinusoids` in modeling_whisper.py of transformers; pos_embed.py of MAE, from which the open ones are.

const TIMESCALE = 10_000

/** Sines, and behind them cosines. @param isOpen the lowest pitch is the one before 1 / TIMESCALE, and not that */
export function sinesOf(place: number, width: number, isOpen = false): Float32Array {
  const half = width / 2
  const step = Math.log(TIMESCALE) / (isOpen ? half : half - 1)
  return Float32Array.from({ length: width }, (_, column) => {
    const angle = place * Math.exp(-step * (column % half))
    return column < half ? Math.sin(angle) : Math.cos(angle)
  })
}
