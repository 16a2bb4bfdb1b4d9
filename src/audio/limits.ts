// What is refused of a recording whatever its format, as the rest of a sentence that begins with what it is about.

/** Samples a second: less than a telephone's is a mistake, and more than studios' takes long to resample. */
const MIN_RATE = 1000
const MAX_RATE = 384_000

export function rateProblem(rate: number): string | undefined {
  if (rate >= MIN_RATE && rate <= MAX_RATE) return undefined
  return `has ${rate} samples a second; ${MIN_RATE} to ${MAX_RATE} are read; send it with 16000`
}

/** @param most seconds */
export function lengthProblem(seconds: number, most: number): string | undefined {
  if (seconds <= most) return undefined
  return `lasts ${roundedUp(seconds, 100)} seconds; this model hears at most ${most}; send a part of it`
}

/** Where a decoder has stopped as soon as it was too long. */
export function tooLong(most: number): string {
  return `lasts more than ${most} seconds, the most that this model hears; send a part of it`
}

/** @param least samples at `rate` */
export function shortProblem(samples: number, least: number, rate: number): string | undefined {
  if (samples >= least) return undefined
  if (samples === 0) return "holds no sound; send one that does"
  const seconds = roundedUp(least / rate, 1000)
  return `lasts less than ${seconds} seconds, the least that this model hears; send a longer one`
}

/** So that what is over a limit looks it, and what lasts as long as a limit says is heard. */
const roundedUp = (seconds: number, parts: number) => Math.ceil(seconds * parts) / parts
