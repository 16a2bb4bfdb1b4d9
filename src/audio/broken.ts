// A recording that its format's decoder cannot go on with, and decoders in WebAssembly, which say so to the console and go on.

import type { Sound } from "./audio.ts"

/** Its message says what is wrong, as words in brackets behind what the recording is. */
export class Broken extends Error {}

export type Decoded = Sound | { refusal: string }

/** @param what the recording is, with its article */
export async function orRefusal(
  what: string,
  decode: () => Decoded | Promise<Decoded>,
): Promise<Decoded> {
  try {
    return await decode()
  } catch (error) {
    if (!(error instanceof Broken)) throw error
    return {
      refusal: `is ${what} that cannot be decoded (${error.message}); send it whole and valid`,
    }
  }
}

/** What a decoder does at once. @throws Broken with what it says to the console, or throws */
export function attentively<Result>(decode: () => Result): Result {
  const { error } = console
  console.error = (said: unknown) => {
    throw new Error(String(said))
  }
  try {
    return decode()
  } catch (cause) {
    throw new Broken((cause as Error).message)
  } finally {
    console.error = error
  }
}

/** Of as many channels as there are, sample by sample. */
export function meanOf(channels: readonly Float32Array[]): Float32Array {
  const [first, ...others] = channels
  if (others.length === 0) return first!
  return first!.map(
    (sample, at) => (sample + others.reduce((sum, each) => sum + each[at]!, 0)) / channels.length,
  )
}
