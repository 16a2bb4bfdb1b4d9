// What is said between the asking side of a worker (worker.ts), what runs it (hosts.ts) and its own side (serve.ts).

import type { Log } from "../log.ts"

export interface WorkerOptions {
  /** What sentences call it: "tokenizer". */
  name: string
  /** Its file, without the ending, which is that of this one. */
  file: URL
  host: "thread" | "process"
  /** How far it stands back where processors are short (setpriority's 0 to 19); absent: not at all. */
  nice?: number
  /**
   * What becomes of the orders behind one that is lost: another worker takes them over (resume); they are lost as well, as
   * they build on what the worker was told before (reset); or they are, and all later ones (end).
   */
  afterLoss: "resume" | "reset" | "end"
  /** It works on all its orders at once; otherwise on the one that was asked first. */
  isParallel?: boolean
  /** What it is opened with, unless `open` says so later. */
  opening?: unknown
  /** For one order; absent: as long as it takes. */
  milliseconds?: number
  /** To start and to be opened: 120,000 unless said otherwise. */
  openingMilliseconds?: number
  /** How long it goes on with an order whose asker has left; absent: to its end. */
  unwantedMilliseconds?: number
  /** Of JavaScript's heap in a thread, of everything in a process. */
  megabytes?: number
  log?: Log | undefined
  /** Told before another one is started: what it changes in the opening holds for that one. */
  onLoss?: (ending: Ending) => void
}

export type ToWorker =
  | { id: number; opening: unknown }
  | { id: number; order: unknown }
  | { tell: unknown }

export type FromWorker = { id: number; value: unknown } | { id: number; failure: string }

/** How a worker came to its end. */
export interface Ending {
  reason: "time" | "memory" | "ended" | "unstartable" | "unwanted"
  /** The same in words: "it …". */
  why: string
  /** What ended it; absent for a thread, and where it went by itself. */
  signal?: NodeJS.Signals | undefined
  /** What it said itself, for the log. */
  words?: string | undefined
}
