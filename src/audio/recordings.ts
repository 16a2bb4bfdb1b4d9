// Recordings as a tower takes them. Decoding, resampling and features are done in a process of its own, which begins with the first
// recording: decoders read what strangers sent, a few bytes may stand for hours, and whatever that costs, it costs one
// request. One recording after the other; its windows come one by one, so that none holds up the event loop.

import { codeRoot } from "../code-root.ts"
import type { Log } from "../log.ts"
import { type Ask, Decoder, type DecodingLimits, refusedFile } from "../worker/decoder.ts"
import type { Caller } from "../worker/lane.ts"
import type {
  AudioProcessing,
  CutRecording,
  HeardRecording,
  SoughtRecording,
  Tile,
} from "./audio.ts"
import { type Span, soughtFrames, soughtTile, tileOf } from "./tiles.ts"

export type Order =
  | { kind: "hear"; bytes: Uint8Array }
  /** Of the recording that was heard last: a few megabytes at most. */
  | { kind: "frames"; window: number }

/** `samples`: how many it has at 16 kHz. */
export type Answer =
  | { windows: Span[]; samples: number }
  | { refusal: string }
  | { frames: Float32Array }

export interface Recordings {
  /**
   * @param field of the request that holds the recording, for sentences
   * @param caller whose turn it is
   * Rejects with `invalid_value` where it is no recording, too long or too short, with `queue_full`, with WorkerLost, or with the
   * signal's reason.
   */
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<HeardRecording>
  /** The same of a tower whose windows are sought, of which every frame is kept. */
  seek(bytes: Uint8Array, field: string, caller: Caller): Promise<SoughtRecording>
  /** The same piece by piece, of which every frame is kept until it is asked for. */
  cut(bytes: Uint8Array, field: string, caller: Caller): Promise<CutRecording>
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

  async function hear(bytes: Uint8Array, field: string, ask: Ask<Order, Answer>) {
    const answer = await ask({ kind: "hear", bytes })
    if ("refusal" in answer) throw refusedFile(field, answer.refusal)
    if (!("windows" in answer)) throw new Error("internal: a recording was heard without windows")
    return answer
  }

  async function framesOf(window: number, ask: Ask<Order, Answer>): Promise<Float32Array> {
    const answer = await ask({ kind: "frames", window })
    if (!("frames" in answer)) throw new Error("internal: a window came without frames")
    return answer.frames
  }

  async function seek(
    bytes: Uint8Array,
    field: string,
    ask: Ask<Order, Answer>,
  ): Promise<SoughtRecording> {
    if (processing.cutting !== "sought") throw new Error("internal: no windows are sought")
    const { windows, samples } = await hear(bytes, field, ask)
    const pieces: Float32Array[] = []
    for (const window of windows.keys()) pieces.push(await framesOf(window, ask))
    const frames = soughtFrames(samples)
    const windowAt = (first: number) => soughtTile(pieces, { first, frames }, processing)
    return { samples, frames, windowAt }
  }

  async function prepare(
    bytes: Uint8Array,
    field: string,
    ask: Ask<Order, Answer>,
  ): Promise<HeardRecording> {
    const { windows } = await hear(bytes, field, ask)
    const tiles: Tile[] = []
    for (const [window, span] of windows.entries())
      tiles.push(tileOf(span, await framesOf(window, ask), processing))
    const rows = tiles.reduce((sum, { wanted }) => sum + wanted.length, 0)
    const { soft, before, after } = processing
    return { tiles, text: before + soft.repeat(rows) + after, rows }
  }

  async function cut(
    bytes: Uint8Array,
    field: string,
    ask: Ask<Order, Answer>,
  ): Promise<CutRecording> {
    const { windows, samples } = await hear(bytes, field, ask)
    const pieces: { rows: number; tile: () => Tile }[] = []
    for (const [window, span] of windows.entries()) {
      const frames = await framesOf(window, ask)
      pieces.push({ rows: span.rows, tile: () => tileOf(span, frames, processing) })
    }
    return { samples, pieces }
  }

  return {
    prepare: (bytes, field, caller) =>
      decoder.decode(bytes, field, caller, (ask) => prepare(bytes, field, ask)),
    seek: (bytes, field, caller) =>
      decoder.decode(bytes, field, caller, (ask) => seek(bytes, field, ask)),
    cut: (bytes, field, caller) =>
      decoder.decode(bytes, field, caller, (ask) => cut(bytes, field, ask)),
    close: () => decoder.close(),
  }
}
