// What /metrics tells, in Prometheus' text form: requests, tokens and times as this room sees them, the process, and
// the gauges that the rooms below hand over.

import { monitorEventLoopDelay } from "node:perf_hooks"
import { Counter, Gauge, Histogram, Registry } from "prom-client"
import type { ReplyEvent } from "../chat/conversation.ts"
import type { Gauge as HandedGauge } from "./service.ts"

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
const SECONDS_A_TOKEN = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

export class Metrics {
  private readonly registry = new Registry()
  private readonly loopDelay = monitorEventLoopDelay({ resolution: 10 })
  private readonly handed: () => readonly HandedGauge[]

  private readonly requests = new Counter({
    name: "sinter_http_requests_total",
    help: "Requests that have ended; status 499: the client left.",
    labelNames: ["route", "status"],
    registers: [this.registry],
  })
  private readonly requestSeconds = new Histogram({
    name: "sinter_http_request_seconds",
    help: "From the first byte of a request to the last of its answer.",
    labelNames: ["route"],
    buckets: SECONDS,
    registers: [this.registry],
  })
  private readonly tokens = new Counter({
    name: "sinter_tokens_total",
    help: "Tokens of finished replies: prompt (cached among them) and completion.",
    labelNames: ["kind"],
    registers: [this.registry],
  })
  private readonly firstToken = new Histogram({
    name: "sinter_time_to_first_token_seconds",
    help: "From admission to the first piece of a reply.",
    buckets: SECONDS,
    registers: [this.registry],
  })
  private readonly tokenSeconds = new Histogram({
    name: "sinter_seconds_per_token",
    help: "A reply's time after its first piece, over its tokens.",
    buckets: SECONDS_A_TOKEN,
    registers: [this.registry],
  })

  /** @param handed what the rooms below tell, read at each scrape. */
  constructor(running: () => number, handed: () => readonly HandedGauge[]) {
    this.handed = handed
    this.loopDelay.enable()
    this.gauge("sinter_http_requests_running", "Requests that are being answered.", running)
    this.gauge("sinter_event_loop_delay_p99_seconds", "Since the last scrape.", () => {
      const seconds = this.loopDelay.percentile(99) / 1e9
      this.loopDelay.reset()
      return seconds
    })
    this.gauge("process_resident_memory_bytes", "Memory that the process holds.", () =>
      process.memoryUsage.rss(),
    )
    const start = Date.now() / 1000 - process.uptime()
    this.gauge("process_start_time_seconds", "Unix time.", () => start)
  }

  /** @param route a path of the routes table; anything else would let clients make up labels. */
  requestEnded(route: string, status: number, milliseconds: number): void {
    this.requests.inc({ route, status })
    this.requestSeconds.observe({ route }, milliseconds / 1000)
  }

  /** Passes a reply's events on and takes their times. */
  async *watch(events: AsyncIterable<ReplyEvent>): AsyncGenerator<ReplyEvent> {
    const admitted = performance.now()
    let first: number | undefined
    for await (const event of events) {
      if (event.kind === "usage") this.replyEnded(event.usage, first)
      else if (first === undefined) {
        first = performance.now()
        this.firstToken.observe((first - admitted) / 1000)
      }
      yield event
    }
  }

  /** The whole page. */
  async print(): Promise<string> {
    const own = await this.registry.metrics()
    const handed = this.handed().map(
      ({ name, help, value }) => `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name} ${value}\n`,
    )
    return [own, ...handed].join("\n")
  }

  close(): void {
    this.loopDelay.disable()
  }

  private replyEnded(usage: Extract<ReplyEvent, { kind: "usage" }>["usage"], first?: number) {
    this.tokens.inc({ kind: "prompt" }, usage.promptTokens)
    this.tokens.inc({ kind: "cached" }, usage.cachedTokens)
    this.tokens.inc({ kind: "completion" }, usage.completionTokens)
    if (first === undefined || usage.completionTokens < 2) return
    const seconds = (performance.now() - first) / 1000
    this.tokenSeconds.observe(seconds / (usage.completionTokens - 1))
  }

  private gauge(name: string, help: string, read: () => number): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [this.registry],
      collect: () => gauge.set(read()),
    })
  }
}

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE
