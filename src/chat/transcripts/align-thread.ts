// Finds when tokens are said away from the event loop, one window after the other, in fair turns: it takes some seconds of a large
// model's. The thread starts with the first window whose words are wanted.

import { codeRoot } from "../../code-root.ts"
import { type Caller, Lane } from "../../worker/lane.ts"
import { Worker } from "../../worker/worker.ts"
import type { AlignmentHeads, WindowSaid } from "./alignment.ts"

export type Order = WindowSaid

export type Answer = Int32Array

const MILLISECONDS = 120_000 // for one window, on a busy machine
const MEGABYTES = 512

/** Milliseconds after which a window whose client has left is given up, and the thread with it. */
const UNWANTED = 1000

/** In its turn every window counts alike. */
const SIZE = 1

export class AlignThread {
  readonly #lane = new Lane()
  readonly #worker: Worker<Order, Answer>

  constructor(heads: AlignmentHeads) {
    this.#worker = new Worker({
      name: "word aligner",
      file: new URL("chat/transcripts/align-worker", codeRoot),
      host: "thread",
      nice: 5, // as for long texts
      milliseconds: MILLISECONDS,
      megabytes: MEGABYTES,
      afterLoss: "resume",
      opening: heads,
      unwantedMilliseconds: UNWANTED,
    })
  }

  /** Of each token the row at which it begins. Rejects with WorkerLost, `server_closing` or the signal's reason. */
  begin(said: WindowSaid, caller: Caller): Promise<Int32Array> {
    const { signal } = caller
    return this.#lane.run(() => this.#worker.ask(said, { signal }), SIZE, caller)
  }

  async close(): Promise<void> {
    this.#lane.close()
    await this.#worker.close()
  }
}
