// Recordings as a tower takes them. Decoding, resampling and features are done in a process of its own, which begins with the first
// recording: decoders read what strangers sent, a few bytes may stand for hours, and whatever that costs, it costs one
// request. One recording after the other; its windows come one by one, so that none holds up the event loop.

import { codeRoot } from "../code-root.ts"
import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { Worker, WorkerLost } from "../worker/worker.ts"
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

/** Bytes: ten of the largest files, or a minute of speech each of hundreds of clients. */
const MAX_WAITING = 256 * 2 ** 20

interface Limits {
  milliseconds: number // for one recording
  megabytes: number // of the process
}

const LIMITS: Limits = { milliseconds: 60_000, megabytes: 2048 }

/** Milliseconds after which a recording whose client has left is given up, and the process with it. */
const UNWANTED = 1000

export function openRecordings(
  processing: AudioProcessing,
  log?: Log,
  limits: Partial<Limits> = {},
): Recordings {
  const lane = new Lane({ size: MAX_WAITING })
  const worker = new Worker<Order, Answer>({
    name: "audio decoder",
    file: new URL("audio/audio-worker", codeRoot),
    host: "process",
    nice: 5, // a recording is not worth others' next tokens
    afterLoss: "resume",
    opening: processing,
    ...LIMITS,
    ...limits,
    unwantedMilliseconds: UNWANTED,
    log,
  })

  async function prepare(
    bytes: Uint8Array,
    field: string,
    { signal }: Caller,
  ): Promise<HeardRecording> {
    const answer = await worker.ask({ kind: "hear", bytes }, { signal })
    if ("refusal" in answer) throw refused(field, answer.refusal)
    if (!("windows" in answer)) throw new Error("internal: a recording was heard without windows")
    const tiles: Tile[] = []
    for (const [window, span] of answer.windows.entries()) {
      const answer = await worker.ask({ kind: "frames", window }, { signal })
      if (!("frames" in answer)) throw new Error("internal: a window came without frames")
      tiles.push(tileOf(span, answer.frames, processing))
    }
    const rows = tiles.reduce((sum, { wanted }) => sum + wanted.length, 0)
    const { soft, before, after } = processing
    return { tiles, text: before + soft.repeat(rows) + after, rows }
  }

  return {
    prepare(bytes, field, caller) {
      const work = () =>
        prepare(bytes, field, caller).catch((error: unknown) => {
          // What a recording costs is the recording's own fault.
          throw error instanceof WorkerLost && error.isCost ? tooCostly(field, error.why) : error
        })
      return lane.run(work, bytes.length, caller)
    },
    async close() {
      lane.close()
      await worker.close()
    },
  }
}

function refused(field: string, why: string): Problem {
  return problem("invalid_value", { problem: `${field} ${why}.` }, field)
}

function tooCostly(field: string, why: string): Problem {
  return refused(field, `is a recording that cannot be decoded: ${why}; send a shorter one`)
}
