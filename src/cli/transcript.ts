// What `sinter run` prints with a Whisper: what is said in a recording. A prompt is what was said before.

import { randomBytes, randomUUID } from "node:crypto"
import type { AudioPart, ImagePart, Transcripts } from "../chat/conversation.ts"
import { plainSampling } from "../engine/generation.ts"
import { printEvents, type SamplingOptions, samplingOf } from "./answer.ts"
import type { runOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { refuse } from "./values.ts"

/** @throws the problem that refuses or ends it */
export async function printTranscript(
  transcripts: Transcripts,
  { prompt, media }: { prompt: string; media: readonly (ImagePart | AudioPart)[] },
  options: Values<typeof runOptions>,
  signal: AbortSignal,
): Promise<void> {
  const [recording, ...others] = media
  if (!recording || !("audio" in recording) || others.length > 0)
    refuse(
      "--audio",
      "this model writes down what is said in one recording; name one, and no image.",
    )
  for (const option of ["--system", "--max-tokens"] as const)
    if (options[option] !== undefined)
      refuse(option, "this model writes down what is said, all of it; leave it out.")
  const request = {
    ...{ id: randomUUID(), scope: "", audio: recording.audio, field: recording.field ?? "--audio" },
    ...({ task: "transcribe", language: undefined } as const),
    ...{ timed: false, worded: false, streamed: false, judged: false },
    prompt: prompt.trim() || undefined,
    sampling: sampling(options),
  }
  await printEvents(async () => (await transcripts.transcribe(request, signal)).events, signal)
}

/** The likeliest words, where nothing else is said. */
function sampling(options: SamplingOptions) {
  return {
    ...plainSampling,
    temperature: 0,
    seed: randomBytes(8).readBigUInt64LE(),
    ...samplingOf(options),
  }
}
