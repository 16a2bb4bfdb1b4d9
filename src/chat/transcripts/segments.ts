// What a window's tokens say, cut into segments: from a time to the one that ends it; and how far on the next window begins. What is
// said behind the last pair of times was cut off by the window's end, and is heard again in the next one.
//
// Source: _retrieve_segment in generation_whisper.py of transformers, which does what transcribe.py of OpenAI's whisper does.

/** Frames of a time's step, two hundredths of a second. */
const FRAMES_OF_TIME = 2

export interface Cut {
  /** Frames of the recording. */
  start: number
  end: number
  tokens: readonly number[]
  /** How many of the window's tokens stand before these. */
  at: number
}

/**
 * @param from the window's first frame
 * @param frames how many of the recording it has
 * @returns `next`: the first frame of the next one
 */
export function segmentsIn(
  tokens: readonly number[],
  firstTime: number,
  { from, frames }: { from: number; frames: number },
): { segments: Cut[]; next: number } {
  const isTime = (at: number) => tokens[at] !== undefined && tokens[at]! >= firstTime
  const frameOf = (token: number) => from + (token - firstTime) * FRAMES_OF_TIME
  const last = tokens.length - 1
  const endsOnce = isTime(last) && !isTime(last - 1) && last > 0
  const ends = tokens.flatMap((_, at) => (at > 0 && isTime(at - 1) && isTime(at) ? [at] : []))
  if (ends.length === 0) {
    const times = tokens.filter((token) => token > firstTime)
    const end = times.length > 0 ? frameOf(times.at(-1)!) : from + frames
    return { segments: [{ start: from, end, tokens, at: 0 }], next: from + frames }
  }
  if (endsOnce) ends.push(tokens.length)
  const segments = ends.map((end, i): Cut => {
    const at = ends[i - 1] ?? 0
    const own = tokens.slice(at, end)
    return { start: frameOf(own[0]!), end: frameOf(own.at(-1)!), tokens: own, at }
  })
  return { segments, next: endsOnce ? from + frames : segments.at(-1)!.end }
}
