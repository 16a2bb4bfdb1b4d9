// One answer as server-sent events. Each event is one write of `data: `, the JSON and a blank line. What the client has
// not taken yet is bounded: beyond 256 KiB the next write waits for it, so the generation behind waits too, and a
// client that takes nothing within the write timeout is cut.

import type { ServerResponse } from "node:http"
import type { Timeouts } from "./service.ts"

const MOST_UNSENT = 256 * 1024 // bytes

export class EventStream {
  private readonly raw: ServerResponse
  private readonly timeouts: Timeouts
  private readonly signOfLife: string
  private readonly heartbeat: NodeJS.Timeout

  /** @param signOfLife what is sent after `timeouts.keepAlive` of silence: a whole event or a comment. */
  constructor(
    raw: ServerResponse,
    headers: Record<string, string | number | string[] | undefined>,
    timeouts: Timeouts,
    signOfLife: string,
  ) {
    this.raw = raw
    this.timeouts = timeouts
    this.signOfLife = signOfLife
    // x-accel-buffering: proxies would otherwise hold events back until their buffer is full.
    raw.writeHead(200, {
      ...definedOnly(headers),
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    })
    raw.flushHeaders()
    this.heartbeat = setTimeout(() => this.beat(), timeouts.keepAlive)
    raw.once("close", () => clearTimeout(this.heartbeat))
  }

  /** Sends one event; resolves when the client may be sent another. */
  async send(json: string): Promise<void> {
    if (this.raw.destroyed) return
    this.raw.write(event(json))
    this.heartbeat.refresh()
    if (this.raw.writableLength > MOST_UNSENT) await this.drained()
  }

  end(): void {
    clearTimeout(this.heartbeat)
    cutUnlessTaken(this.raw, this.timeouts.write)
    this.raw.end()
  }

  private beat(): void {
    if (this.raw.writableLength === 0) this.raw.write(this.signOfLife)
    this.heartbeat.refresh()
  }

  private drained(): Promise<void> {
    const { raw } = this
    return new Promise((resolve) => {
      const cut = setTimeout(() => raw.destroy(), this.timeouts.write)
      const done = () => {
        clearTimeout(cut)
        raw.off("drain", done).off("close", done)
        resolve()
      }
      raw.on("drain", done).on("close", done)
    })
  }
}

/** Says nothing; parsers skip it. */
export const COMMENT = ": waiting\n\n"

export function event(json: string): string {
  return `data: ${json}\n\n`
}

/** Ends the connection when an answer that has been handed over is not taken within the time. */
export function cutUnlessTaken(raw: ServerResponse, milliseconds: number): void {
  if (raw.destroyed) return // its close has come already, and the timer would keep the process
  const cut = setTimeout(() => raw.destroy(), milliseconds)
  const done = () => clearTimeout(cut)
  raw.once("finish", done).once("close", done)
}

function definedOnly(headers: Record<string, string | number | string[] | undefined>) {
  const defined: Record<string, string | number | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) defined[name] = value
  }
  return defined
}
