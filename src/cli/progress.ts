// One line that says how far a long job has come, on terminals only; logs and pipes get nothing.

import type { WriteStream } from "node:tty"

const WIDTH = 30
const EVERY = 100 // milliseconds between two drawings

export function progressBar(
  terminal: WriteStream,
): (what: string, done: number, total: number) => void {
  let drawn = performance.now() // what is over at once is not drawn
  return (what, done, total) => {
    if (!terminal.isTTY) return
    const over = done >= total
    if (!over && performance.now() - drawn < EVERY) return
    drawn = performance.now()
    const full = Math.round((WIDTH * done) / total)
    const bar = "█".repeat(full) + "░".repeat(WIDTH - full)
    const line = `${what} ${bar} ${Math.round((100 * done) / total)} %`
    terminal.write(over ? "\r\x1b[K" : `\r${line}\x1b[K`)
  }
}
