// Gives memory back when there is nothing to do. V8 collects when it needs room, not when it has time, and the allocator keeps
// what it once had: a gigabyte that large requests took would lie there until others want as much.
//
// A collection takes 10 to 30 ms of a thread that has nothing to do, and machine code made of what is known of objects goes with
// it: for seconds after, everything is slower by half. It is worth that when a good deal has been added that stays. What is
// young does not count: V8 gives that space up to 48 MiB as soon as tokens flow, and takes it back by itself when they do not.

import { setImmediate as breathe } from "node:timers/promises"
import { getHeapSpaceStatistics, type HeapSpaceInfo, setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { isMainThread } from "node:worker_threads"
import { residentSize } from "./resident-size.ts"

const QUIET = 2000 // milliseconds
const WORTH = 8 * 2 ** 20 // bytes

/** Watches whether a thread is idle, and gives back what it has when it is. The main thread does so for the process as well. */
export class GiveBack {
  readonly #quiet: number
  #isBusy = false
  #timer: NodeJS.Timeout | undefined
  /** What was left the last time: of the heap, and of the process. */
  #heap = heapSize()
  #process = processSize() ?? 0

  /** @param quiet milliseconds without work */
  constructor(quiet = QUIET) {
    this.#quiet = quiet
  }

  busy(): void {
    this.#isBusy = true
  }

  /** There is nothing to do, for now. */
  idle(): void {
    this.#isBusy = false
    if (this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (!this.#isBusy) void this.#giveBack()
    }, this.#quiet).unref()
  }

  async #giveBack(): Promise<void> {
    const isProcessLarge = isMainThread && (processSize() ?? 0) - this.#process > WORTH
    if (!isProcessLarge && heapSize() - this.#heap <= WORTH) return
    collect()
    await breathe() // what a library hangs on a handle goes in the next turn
    collect()
    collect() // waits for the pages that the one before emptied
    if (isMainThread) await trim()
    this.#heap = heapSize()
    this.#process = processSize() ?? this.#process
  }
}

let collector: (() => void) | undefined

/** Collects garbage. Native memory behind handles goes with it, of which V8 sees a few bytes. */
export function collect(): void {
  if (!collector) {
    setFlagsFromString("--expose-gc")
    collector = runInNewContext("gc") as () => void
  }
  collector()
}

let release: ((kept: number) => number) | undefined

/** Hands what the C allocator keeps for later to the system; glibc's can. */
async function trim(): Promise<void> {
  try {
    if (!release) {
      const { default: koffi } = await import("koffi") // where nothing was ever large it is not needed
      release = koffi.load(null).func("int malloc_trim(size_t kept)")
    }
    release!(0)
  } catch {
    release = () => 0
  }
}

/** Without the young generation. */
function heapSize(): number {
  return sum(getHeapSpaceStatistics().filter((space) => !isYoung(space)))
}

/** The same of all that the process holds; undefined while nobody can say. */
function processSize(): number | undefined {
  const size = residentSize()
  return size && size - sum(getHeapSpaceStatistics().filter(isYoung))
}

function isYoung({ space_name }: HeapSpaceInfo): boolean {
  return space_name.startsWith("new_")
}

function sum(spaces: readonly HeapSpaceInfo[]): number {
  return spaces.reduce((total, { physical_space_size }) => total + physical_space_size, 0)
}
