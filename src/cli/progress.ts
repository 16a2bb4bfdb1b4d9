// One line that says how far a long job has come, on terminals only; logs and pipes get nothing.

import type { WriteStream } from "node:tty"

const WIDTH = 30
const PATIENCE = 300 // milliseconds: a job that is over by then is not drawn
const EVERY = 100 // milliseconds between two drawings

export function progressBar(
  terminal: WriteStream,
): (what: string, done: number, total: number) => void {
  let job = ""
  let next = 0
  let drawn = false
  return (what, done, total) => {
    const now = performance.now()
    if (what !== job) {
      job = what
      next = now + PATIENCE
    }
    if (done >= total && drawn) {
      terminal.write("\r\x1b[K")
      drawn = false
    }
    if (!terminal.isTTY || done >= total || now < next) return
    next = now + EVERY
    drawn = true
    const full = Math.round((WIDTH * done) / total)
    const bar = "█".repeat(full) + "░".repeat(WIDTH - full)
    terminal.write(`\r${what} ${bar} ${Math.round((100 * done) / total)} %\x1b[K`)
  }
}
