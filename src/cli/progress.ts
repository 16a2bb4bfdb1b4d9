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

const QUIETLY_EVERY = 5000 // milliseconds between two lines where nothing can be drawn over

/** The same of a download, with its rate and the time that is left; a line every few seconds where there is no terminal. */
export function downloadProgress(
  terminal: WriteStream,
): (what: string, done: number, total: number) => void {
  let begun: { at: number; done: number } | undefined
  let next = 0
  let drawn = false
  return (what, done, total) => {
    const now = performance.now()
    begun ??= { at: now, done }
    const isDone = done >= total
    if (isDone ? !drawn : now < next) return
    next = now + (terminal.isTTY ? EVERY : QUIETLY_EVERY)
    drawn = true
    const line = downloadLine(what, done, total, (done - begun.done) / ((now - begun.at) / 1000))
    terminal.write(terminal.isTTY ? `\r${line}\x1b[K${isDone ? "\n" : ""}` : `${line}\n`)
    if (isDone) drawn = false
  }
}

/** @param rate bytes a second; of the first bytes there is none yet */
export function downloadLine(what: string, done: number, total: number, rate: number): string {
  const so = `${what}: ${size(done)} of ${size(total)}`
  if (!(rate > 0) || !Number.isFinite(rate)) return so
  const left = Math.ceil((total - done) / rate)
  return `${so}, ${size(rate)}/s${left > 0 ? `, ${duration(left)} left` : ""}`
}

export function size(bytes: number): string {
  const [unit, name] =
    bytes < 2 ** 20 ? [2 ** 10, "KiB"] : bytes < 2 ** 30 ? [2 ** 20, "MiB"] : [2 ** 30, "GiB"]
  return `${(bytes / Number(unit)).toFixed(1)} ${name}`
}

function duration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
