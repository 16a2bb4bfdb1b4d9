// One answer as a stream, of server-sent events unless its API frames them otherwise. Each event is one write of `data: `, the JSON
// and a blank line, with its name before it where an API names its events. A client that takes nothing makes the generation behind
// wait (outflow.ts); one that hears nothing for long is sent a sign of life.

import type { Framing, ServerEvent } from "./apis/api.ts"
import type { Exchange } from "./exchange.ts"
import { Outflow } from "./outflow.ts"
import { beginStream } from "./turns.ts"

export class EventStream {
  readonly #outflow: Outflow
  readonly #framing: Framing
  readonly #signOfLife: () => string
  readonly #heartbeat: NodeJS.Timeout

  /** @param signOfLife asked what is sent after `timeouts.keepAlive` of silence: a whole event or a comment */
  constructor(
    exchange: Pick<Exchange, "takeOver" | "options">,
    signOfLife: () => string,
    framing: Framing = SERVER_SENT,
  ) {
    this.#framing = framing
    this.#signOfLife = signOfLife
    // x-accel-buffering: proxies would otherwise hold events back until their buffer is full.
    this.#outflow = new Outflow(exchange, {
      "content-type": framing.type,
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    })
    this.#heartbeat = setTimeout(() => this.#beat(), exchange.options.timeouts.keepAlive)
    const { raw } = this.#outflow
    const endStream = beginStream()
    const close = () => {
      clearTimeout(this.#heartbeat)
      endStream()
    }
    if (raw.destroyed) close()
    else raw.once("close", close)
  }

  /** Sends one event; a promise is for whoever has to wait until the client may be sent another. */
  send(given: ServerEvent): Promise<void> | undefined {
    if (!this.#outflow.raw.destroyed) this.#heartbeat.refresh()
    return this.#outflow.write(this.#framing.write(given))
  }

  end(): void {
    clearTimeout(this.#heartbeat)
    this.#outflow.end()
  }

  #beat(): void {
    const { raw } = this.#outflow
    if (raw.writableLength === 0) raw.write(this.#signOfLife())
    this.#heartbeat.refresh()
  }
}

/** Says nothing; parsers skip it. */
export const COMMENT = ": waiting\n\n"

export function event(given: ServerEvent): string {
  if (typeof given === "string") return `data: ${given}\n\n`
  return `event: ${given.name}\ndata: ${given.data}\n\n`
}

const SERVER_SENT: Framing = { type: "text/event-stream; charset=utf-8", write: event }
