// Files that strangers sent, decoded in a process of its own, which begins with the first one: whatever a file does there costs one
// request. One file after the other, and clients take turns.

import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { type Caller, Lane } from "./lane.ts"
import { Worker, WorkerLost } from "./worker.ts"

export interface DecodingLimits {
  milliseconds: number // for one file
  megabytes: number // of the process
}

interface DecoderOptions {
  name: string
  /** What runs in the process. */
  file: URL
  /** What it is opened with. */
  opening: unknown
  log: Log | undefined
  limits: Partial<DecodingLimits>
  /** Of a file that took too long or too much, or ended the process: a sentence's rest. */
  costly: (why: string) => string
}

/** The largest image takes 5 to 16 seconds on two busy cores, and a third of the memory. */
const LIMITS: DecodingLimits = { milliseconds: 60_000, megabytes: 2048 }

/** Milliseconds after which a file whose client has left is given up, and the process with it. */
const UNWANTED = 1000

/** Bytes: ten of the largest files, or a photograph or a minute of speech each of fifty clients. */
const MAX_WAITING = 256 * 2 ** 20

/** What the process is asked about a file. */
export type Ask<Order, Answer> = (order: Order) => Promise<Answer>

export class Decoder<Order, Answer> {
  readonly #lane = new Lane({ size: MAX_WAITING })
  readonly #worker: Worker<Order, Answer>
  readonly #costly: DecoderOptions["costly"]

  constructor({ name, file, opening, log, limits, costly }: DecoderOptions) {
    this.#costly = costly
    this.#worker = new Worker<Order, Answer>({
      ...{ name, file, opening, log },
      host: "process",
      nice: 5, // a file is not worth others' next tokens
      afterLoss: "resume",
      ...LIMITS,
      ...limits,
      unwantedMilliseconds: UNWANTED,
    })
  }

  /**
   * What comes of a file, when its turn has come.
   * @param field of the request that holds it, for sentences
   * @param work asks the process about it, as often as it likes
   * Rejects with `invalid_value` where the file costs too much, with `queue_full`, with WorkerLost, and as the work does.
   */
  decode<T>(
    bytes: Uint8Array,
    field: string,
    caller: Caller,
    work: (ask: Ask<Order, Answer>) => Promise<T>,
  ): Promise<T> {
    const { signal } = caller
    const own = () =>
      work((order) => this.#worker.ask(order, { signal })).catch((error: unknown) => {
        const isOwnFault = error instanceof WorkerLost && error.isCost
        throw isOwnFault ? refusedFile(field, this.#costly(error.why)) : error
      })
    return this.#lane.run(own, bytes.length, caller)
  }

  async close(): Promise<void> {
    this.#lane.close()
    await this.#worker.close()
  }
}

/** @param why the rest of the sentence, without its end */
export function refusedFile(field: string, why: string): Problem {
  return problem("invalid_value", { problem: `${field} ${why}.` }, field)
}
