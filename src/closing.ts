// What is open and must be closed again: newest first, since what was opened later may need what was opened before it, and one
// after the other. Each is closed once, and one that fails keeps none of the others open; what failed is said at the end.

export interface Closable {
  close(): unknown
}

export class Closing {
  readonly #open: Closable[] = []
  #closed: Promise<void> | undefined

  /** @returns what it was given, which is closed before all that was added earlier */
  add<Opened extends Closable>(opened: Opened): Opened {
    if (this.#closed) throw new Error("internal: what is opened after the end is never closed")
    this.#open.push(opened)
    return opened
  }

  /** Whoever asks again waits for the same end. Rejects with what failed: with all of it, where several did. */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll()
    return this.#closed
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = []
    for (const opened of this.#open.reverse()) {
      try {
        await opened.close()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length === 1) throw failures[0]
    if (failures.length > 1) throw new AggregateError(failures, failures.map(String).join("; "))
  }
}

/**
 * Opens what consists of several parts. When that fails half-way, those that were added are closed again and the caller is told
 * why it failed; what could not be closed besides is that error's cause. Otherwise the parts belong to what is returned.
 */
export async function openWhole<Whole>(open: (closing: Closing) => Promise<Whole>): Promise<Whole> {
  const closing = new Closing()
  try {
    return await open(closing)
  } catch (error) {
    await closing.close().catch((failure: unknown) => {
      if (error instanceof Error) error.cause ??= failure
    })
    throw error
  }
}

let isStuck = false

/** Says that a thread waits for what may never come, and the process for the thread. */
export function leaveThread(): void {
  isStuck = true
}

/** Ends a process that is done and would not end by itself. */
export function exitIfStuck(): void {
  if (isStuck) process.exit()
}
