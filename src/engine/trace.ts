// What happened when: the last events of all requests and steps, as Chrome trace JSON that Perfetto opens. Names, times and
// counts alone: no text and no tokens ever come here. Whoever has no trace writes nothing, so that it costs nothing when off.
//
// Events are whole in themselves (a stretch is written when it ends), so a ring may drop the oldest without breaking others.
// The tokens of all steps sum to those of all requests: prompt = prompt of steps + cached of requests; replies = reply of
// steps - unread of requests (those that ended before their reader left tell it in `left`).

/** Events kept; about 20 MB when all are there. */
const KEPT = 100_000

/** What an event tells, by name. */
type Args = Readonly<Record<string, number | string>>

interface TraceEvent {
  name: string
  /** Whose line it stands on: a request's id; absent: the engine's own. */
  request: string | undefined
  at: number // milliseconds
  lasted: number | undefined // milliseconds; a moment has none
  args: Args
}

export interface ChromeTrace {
  displayTimeUnit: "ms"
  otherData: { dropped: number }
  traceEvents: ChromeEvent[]
}

/** https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
export interface ChromeEvent {
  name: string
  ph: "X" | "i" | "M"
  pid: number
  tid: number
  ts?: number // microseconds
  dur?: number // microseconds
  s?: "t"
  args: Args
}

const ENGINE = 1
const REQUESTS = 2

export class Trace {
  /** The clock that all its times are on, in milliseconds. */
  readonly now: () => number
  readonly #kept: number
  readonly #events: TraceEvent[] = [] // a ring once it is full
  #written = 0

  constructor(now: () => number = () => performance.now(), kept = KEPT) {
    this.now = now
    this.#kept = kept
  }

  /** A moment in the life of a request. */
  mark(request: string, name: string, args: Args = {}): void {
    this.#write({ name, request, at: this.now(), lasted: undefined, args })
  }

  /** A stretch of time, from `at` to now, of a request or of the engine. */
  span(request: string | undefined, name: string, at: number, args: Args): void {
    this.#write({ name, request, at, lasted: this.now() - at, args })
  }

  /** Everything kept, the oldest first, one line for each request. */
  toJSON(): ChromeTrace {
    const oldest = this.#written > this.#kept ? this.#written % this.#kept : 0
    const events = [...this.#events.slice(oldest), ...this.#events.slice(0, oldest)]
    const lines = new Map<string, number>()
    for (const { request } of events) {
      if (request !== undefined && !lines.has(request)) lines.set(request, lines.size + 1)
    }
    return {
      displayTimeUnit: "ms",
      otherData: { dropped: this.#written - events.length },
      traceEvents: [
        named("process_name", ENGINE, 0, "engine"),
        named("process_name", REQUESTS, 0, "requests"),
        ...[...lines].map(([request, line]) => named("thread_name", REQUESTS, line, request)),
        ...events.map((event) => chromeEvent(event, lines)),
      ],
    }
  }

  #write(event: TraceEvent): void {
    this.#events[this.#written++ % this.#kept] = event
  }
}

function named(what: string, pid: number, tid: number, name: string): ChromeEvent {
  return { name: what, ph: "M", pid, tid, args: { name } }
}

function chromeEvent(event: TraceEvent, lines: ReadonlyMap<string, number>): ChromeEvent {
  const { name, request, at, lasted, args } = event
  const line =
    request === undefined ? { pid: ENGINE, tid: 0 } : { pid: REQUESTS, tid: lines.get(request)! }
  const ts = Math.round(at * 1000)
  if (lasted === undefined) return { name, ph: "i", s: "t", ts, ...line, args }
  return { name, ph: "X", ts, dur: Math.round(lasted * 1000), ...line, args }
}
