// How long a thread has worked, wherever a test must say that something is quick: time on a processor does not pass while
// others have it, so a busy machine changes nothing.

import { existsSync, readFileSync } from "node:fs"

const COUNTER = "/proc/thread-self/schedstat"
const isTold = existsSync(COUNTER)

/** Milliseconds that this thread has had a processor; always 0 where the system does not tell (it is Linux that does). */
export function processorTime(): number {
  return isTold ? Number.parseInt(readFileSync(COUNTER, "latin1"), 10) / 1e6 : 0
}
