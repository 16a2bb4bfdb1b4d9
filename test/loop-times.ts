// Preloaded into a server under test: how much of the processor's time its event loop takes in one turn. Delays grow with
// everything else that the machine does; this does not. Linux counts it for each thread, elsewhere nothing is told.
// SIGUSR2 begins anew; at the end the quantiles go into the file that LOOP_TIMES names, as JSON. SIGWINCH collects garbage, which
// does not count.

import { closeSync, existsSync, openSync, readSync, writeFileSync } from "node:fs"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { isMainThread } from "node:worker_threads"

export interface LoopTimes {
  turns: number
  /** Milliseconds of processor time. */
  p99: number
  p999: number
  most: number
}

const COUNTER = `/proc/self/task/${process.pid}/schedstat`
const FILE = process.env.LOOP_TIMES

if (FILE && isMainThread && existsSync(COUNTER)) watch(FILE)

function watch(file: string): void {
  const counter = openSync(COUNTER, "r")
  const bytes = Buffer.alloc(64)
  let times: number[] = []
  let before = now()
  const timer = setInterval(() => {
    const after = now()
    times.push(after - before)
    before = after
  }, 1)
  timer.unref()
  process.on("SIGUSR2", () => {
    times = []
  })
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  process.on("SIGWINCH", () => {
    collect()
    before = now()
  })
  process.on("exit", () => {
    closeSync(counter)
    times.sort((a, b) => a - b)
    const at = (share: number) => times[Math.floor(share * times.length)] ?? 0
    const told: LoopTimes = {
      turns: times.length,
      p99: at(0.99),
      p999: at(0.999),
      most: times.at(-1) ?? 0,
    }
    writeFileSync(file, JSON.stringify(told))
  })

  /** The thread's time on a processor; the first number of the line, in nanoseconds. */
  function now(): number {
    return (
      Number.parseInt(bytes.toString("latin1", 0, readSync(counter, bytes, 0, 64, 0)), 10) / 1e6
    )
  }
}
