// What runs in the process of recordings.ts: decodes and resamples a recording, computes its windows, and hands their frames over.

import { oneByOne, serve } from "../worker/serve.ts"
import type { AudioProcessing } from "./audio.ts"
import { decode } from "./decode.ts"
import { RATE } from "./features.ts"
import { shortProblem } from "./limits.ts"
import type { Answer, Order } from "./recordings.ts"
import { resampled } from "./resample.ts"
import { leastSamples, mostSeconds, type Window, windowsOf } from "./tiles.ts"

let processing: AudioProcessing
let windows: readonly Window[] = []

serve({
  open(opening: AudioProcessing): void {
    processing = opening
  },
  answer: oneByOne(answerTo), // the windows are those of the last
})

async function answerTo(order: Order): Promise<Answer> {
  if (order.kind === "frames") {
    const window = windows[order.window]
    if (!window) throw new Error("internal: frames of a window that is not there")
    return { frames: window.frames }
  }
  windows = []
  const sound = await decode(order.bytes, mostSeconds(processing))
  if ("refusal" in sound) return sound
  const samples = resampled(sound, RATE)
  const refusal = shortProblem(samples.length, leastSamples(processing), RATE)
  if (refusal !== undefined) return { refusal }
  windows = windowsOf(samples, processing)
  return { windows: windows.map(({ rows, own }) => ({ rows, own })), samples: samples.length }
}
