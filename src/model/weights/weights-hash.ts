// SHA-256 of what a program is fed, window after window. It takes half as long as reading those from a quick disk, so a thread sums large
// models while the event loop hands on other windows.

import { createHash, type Hash } from "node:crypto"
import { codeRoot } from "../../code-root.ts"
import { addressOf, type Pointer } from "../../runtime/ffi.ts"
import { Worker } from "../../worker/worker.ts"

/** Memory of this process, which is not written before the order is answered; undefined: the sum of all before is asked for. */
export type HashOrder = { address: Pointer; length: number } | undefined

/** Fewer bytes are summed sooner than a thread starts. */
const MIN_BYTES = 8 << 20

export interface WeightsHash {
  /** Until it resolves, `bytes` keep their values. */
  update(bytes: Uint8Array): Promise<unknown>
  /** In hexadecimal digits. */
  digest(): Promise<string>
  close(): Promise<void>
}

/** @param size bytes in all, about */
export function newWeightsHash(size: number): WeightsHash {
  return size < MIN_BYTES ? new OwnHash() : new ThreadHash()
}

class OwnHash implements WeightsHash {
  readonly #hash: Hash = createHash("sha256")

  async update(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes)
  }

  async digest(): Promise<string> {
    return this.#hash.digest("hex")
  }

  async close(): Promise<void> {}
}

class ThreadHash implements WeightsHash {
  readonly #thread = new Worker<HashOrder, string>({
    name: "weights hash",
    file: new URL("model/weights/hash-worker", codeRoot),
    host: "thread",
    afterLoss: "end",
    opening: undefined,
  })

  readonly #read = new Set<Uint8Array>() // none is collected while the thread reads it

  async update(bytes: Uint8Array): Promise<void> {
    this.#read.add(bytes)
    await this.#thread.ask({ address: addressOf(bytes), length: bytes.length })
    this.#read.delete(bytes)
  }

  digest(): Promise<string> {
    return this.#thread.ask(undefined)
  }

  close(): Promise<void> {
    return this.#thread.close()
  }
}
