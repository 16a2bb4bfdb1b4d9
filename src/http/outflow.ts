// An answer that is written as it comes. What the client has not taken yet is bounded: beyond 256 KiB the next write waits
// for it, so whatever makes the text waits too, and a client that takes nothing within the write timeout is cut.

import type { OutgoingHttpHeaders, ServerResponse } from "node:http"
import type { Exchange } from "./exchange.ts"
import { nextTurn } from "./turns.ts"

const MAX_UNSENT = 256 * 1024 // bytes
const PIECE = 16 * 1024 // characters

export class Outflow {
  readonly raw: ServerResponse
  readonly #timeout: number
  #piece = 0 // characters since others had their turn

  /** Sends the head of an answer 200, with the exchange's own headers and these. */
  constructor(
    { takeOver, options }: Pick<Exchange, "takeOver" | "options">,
    own: OutgoingHttpHeaders,
  ) {
    const { raw, headers } = takeOver()
    this.raw = raw
    this.#timeout = options.timeouts.write
    const all = Object.entries({ ...headers, ...own }).filter(([, value]) => value !== undefined)
    raw.writeHead(200, Object.fromEntries(all))
    raw.flushHeaders()
  }

  /**
   * A promise is for whoever has to wait, until the client may be sent more and others had their turn. There mostly is none: a
   * stream writes hundreds of times a second, and a promise each time is felt by everybody.
   */
  write(text: string): Promise<void> | undefined {
    if (this.raw.destroyed) return undefined
    this.raw.write(text)
    this.#piece += text.length
    const isFull = this.raw.writableLength > MAX_UNSENT
    return isFull || this.#piece >= PIECE ? this.#wait(isFull) : undefined
  }

  async #wait(isFull: boolean): Promise<void> {
    if (isFull) await this.#drained()
    if (this.#piece < PIECE) return
    this.#piece = 0
    await nextTurn()
  }

  end(): void {
    cutUnlessTaken(this.raw, this.#timeout)
    this.raw.end()
  }

  /** Ends the connection in the middle, as the only way to say that the answer is not whole. */
  cut(): void {
    this.raw.destroy()
  }

  #drained(): Promise<void> {
    const { raw } = this
    return new Promise((resolve) => {
      const cut = setTimeout(() => raw.destroy(), this.#timeout)
      const done = () => {
        clearTimeout(cut)
        raw.off("drain", done).off("close", done)
        resolve()
      }
      raw.on("drain", done).on("close", done)
    })
  }
}

/** Ends the connection when an answer that has been handed over is not taken within the time. */
export function cutUnlessTaken(raw: ServerResponse, milliseconds: number): void {
  if (raw.destroyed) return // its close has come already, and the timer would keep the process
  const cut = setTimeout(() => raw.destroy(), milliseconds)
  const done = () => clearTimeout(cut)
  raw.once("finish", done).once("close", done)
}
