// The one logger. Everything the server says goes to stderr, so that stdout stays free for what a command prints. A full
// disk, a closed pipe, a terminal that is gone or a reader that sleeps costs lines, never the server: pino's own destination
// would hold it up, and its transport's thread end it.

import { write, writeSync } from "node:fs"
import { createRequire } from "node:module"
import { type Logger, pino } from "pino"

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error" | "child" | "isLevelEnabled">
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent"

const MAX_WAITING = 1 << 20 // characters
const RETRY = 100 // milliseconds

/** @param pretty one readable line per event for terminals; otherwise one JSON object per line. */
export function createLog(level: LogLevel, pretty: boolean): Logger {
  if (level === "silent") return pino({ level })
  standardError ??= new StandardError()
  return pino({ level, base: null }, pretty ? readable(standardError) : standardError)
}

/** Loads what makes lines readable with the first of them: it takes a tenth of a start, and many a command says nothing. */
function readable(destination: StandardError): Pick<StandardError, "write"> {
  let print: ((line: string) => string) | undefined
  return {
    write: (line) => {
      print ??= (require("pino-pretty") as typeof import("pino-pretty")).prettyFactory({})
      destination.write(print(line))
    },
  }
}

const require = createRequire(import.meta.url)

let standardError: StandardError | undefined // one for all loggers of the process: lines follow each other

/** Lines on their way to stderr, written off the event loop. */
class StandardError {
  #waiting = ""
  #writing = false

  constructor() {
    process.once("exit", () => this.#writeLast())
  }

  write(line: string): void {
    if (this.#waiting.length > MAX_WAITING) return
    this.#waiting += line
    if (!this.#writing) this.#begin()
  }

  #begin(): void {
    this.#writing = this.#waiting !== ""
    if (!this.#writing) return
    const bytes = Buffer.from(this.#waiting)
    this.#waiting = ""
    this.#send(bytes)
  }

  #send(bytes: Buffer): void {
    write(2, bytes, (error, written) => {
      if (error?.code === "EAGAIN") setTimeout(() => this.#send(bytes), RETRY)
      else if (error || written === bytes.length) this.#begin()
      else this.#send(bytes.subarray(written))
    })
  }

  #writeLast(): void {
    try {
      writeSync(2, this.#waiting)
    } catch {
      // Nobody can be told.
    }
  }
}
