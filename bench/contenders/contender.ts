// What can be measured of whoever takes part. A contender does what it can: an engine without a server has no clients, a
// server somewhere else no start. Every call is one sample, short enough to alternate with the others' within seconds.

import type { Level } from "../../src/compiler/targets/cpu/levels.ts"
import type { Device } from "../../src/runtime/devices.ts"

export interface Contender {
  readonly name: string
  /** What it is and how it runs: version, threads, batch sizes, type of keys and values, in its own words where it has any. */
  readonly about: string
  /** Prompt tokens a second, of one prompt that nobody has seen. */
  prefill?: (tokens: number) => Promise<number>
  /** Tokens a second of so many sequences together, each with `depth` tokens before. */
  decode?: (sequences: number, depth: number) => Promise<number>
  /** Tokens a second of one sequence behind a context that was filled with copies, and the bytes that its process then holds. */
  long?: (depth: number) => Promise<{ tokensPerSecond: number; bytes: number }>
  /** Milliseconds of the thread that runs JavaScript, for a step of so many sequences. */
  javascript?: (sequences: number) => Promise<number>
  /** So many clients at once, each with a prompt of its own. */
  crowd?: (clients: number) => Promise<Crowd>
  /** Milliseconds to the first token of a prompt of 2,000 tokens, the first time and again. */
  twice?: () => Promise<{ first: number; again: number }>
  /** One client's stream alone, and while another's prompt of 2,000 tokens is read. */
  disturbed?: () => Promise<Disturbed>
  /** Seconds from starting the process to being ready. */
  start?: () => Promise<number>
  /** The same with nothing left of earlier starts (cold.ts), while everybody who takes part rests. */
  coldStart?: () => Promise<number>
  /** Bytes in memory, once all of the above has run. */
  memory?: () => number
  /** Ends its process, which has files mapped and takes memory, until it is woken. */
  rest?: () => Promise<void>
  wake?: () => Promise<void>
  close: () => Promise<void>
}

export interface Crowd {
  firstToken: number // milliseconds, median of the clients
  betweenTokens: number // milliseconds, median of the clients' means
  tokensPerSecond: number // all clients together, from the first request to the last token
}

/** In milliseconds. */
export interface Disturbed {
  alone: number // between the stream's tokens, 95th percentile
  beside: number // the same while the prompt is read
  longest: number // the longest wait for a token then: of 96, the 95th percentile does not see five
  prompt: number // until the first token of the other, whose prompt it is
}

/** What all contenders are asked for. */
export interface Task {
  shape: string
  /** What our own program runs on; threads are a processor's. */
  device: Device
  threads: number
  /** The instruction set that our kernels are held to; absent: the best one. */
  level?: Level
  /** Most sequences at once, and the longest of them. */
  sequences: number
  context: number
}
