// Recordings as a tower takes them. Decoding, resampling and features are done in a process of its own, which begins with the first
// recording: decoders read what strangers sent, a few bytes may stand for hours, and whatever that costs, it costs one
// request. One recording after the other; its windows come one by one, so that none holds up the event loop.

import { codeRoot } from "../code-root.ts"
import type { Log } from "../log.ts"
import { type Ask, Decoder, type DecodingLimits, refusedFile } from "../worker/decoder.ts"
import type { Caller } from "../worker/lane.ts"
import type { AudioProcessing, HeardRecording, Tile } from "./audio.ts"
import { type Span, tileOf } from "./tiles.ts"

export type Order =
  | { kind: "hear"; bytes: Uint8Array }
  /** Of the recording that was heard last: at most 3,000, or 1.5 MB. */
  | { kind: "frames"; window: number }

export type Answer = { windows: Span[] } | { refusal: string } | { frames: Float32Array }

export interface Recordings {
  /**
   * @param field of the request that holds the recording, for sentences
   * @param caller whose turn it is
   * Rejects with `invalid_value` where it is no recording, too long or too short, with `queue_full`, with WorkerLost, or with the
   * signal's reason.
   */
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<HeardRecording>
  close(): Promise<void>
}

export function openRecordings(
  processing: AudioProcessing,
  log?: Log,
  limits: Partial<DecodingLimits> = {},
): Recordings {
  const decoder = new Decoder<Order, Answer>({
    name: "audio decoder",
    file: new URL("audio/audio-worker", codeRoot),
    opening: processing,
    log,
    limits,
    costly: (why) => `is a recording that cannot be decoded: ${why}; send a shorter one`,
  })

  async function prepare(
    bytes: Uint8Array,
    field: string,
    ask: Ask<Order, Answer>,
  ): Promise<HeardRecording> {
    const answer = await ask({ kind: "hear", bytes })
    if ("refusal" in answer) throw refusedFile(field, answer.refusal)
    if (!("windows" in answer)) throw new Error("internal: a recording was heard without windows")
    const tiles: Tile[] = []
    for (const [window, span] of answer.windows.entries()) {
      const answer = await ask({ kind: "frames", window })
      if (!("frames" in answer)) throw new Error("internal: a window came without frames")
      tiles.push(tileOf(span, answer.frames, processing))
    }
    const rows = tiles.reduce((sum, { wanted }) => sum + wanted.length, 0)
    const { soft, before, after } = processing
    return { tiles, text: before + soft.repeat(rows) + after, rows }
  }

  return {
    prepare: (bytes, field, caller) =>
      decoder.decode(bytes, field, caller, (ask) => prepare(bytes, field, ask)),
    close: () => decoder.close(),
  }
}
