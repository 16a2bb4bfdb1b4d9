// What /metrics tells, in Prometheus' text form: requests, tokens and times as this room sees them, the process, and
// the numbers that the rooms below hand over.

import { monitorEventLoopDelay } from "node:perf_hooks"
import type { ChatReply, MediumKind, ReplyEvent, Usage } from "../chat/conversation.ts"
import { residentSize } from "../worker/resident-size.ts"
import type { Account } from "./account.ts"
import { Families } from "./prometheus.ts"
import type { Sample } from "./service.ts"

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
const SECONDS_A_TOKEN = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

const LOOP_TICK = 10 // milliseconds; the monitor counts them as part of every delay

export class Metrics {
  private readonly families = new Families()
  private readonly loopDelay = monitorEventLoopDelay({ resolution: LOOP_TICK })
  private readonly handed: () => readonly Sample[]

  private readonly requests = this.families.counter(
    "sinter_http_requests_total",
    "Requests that have ended; status 499: the client left.",
  )
  private readonly requestSeconds = this.families.histogram(
    "sinter_http_request_seconds",
    "From the first byte of a request to the last of its answer.",
    SECONDS,
    true,
  )
  private readonly tokens = this.families.counter(
    "sinter_tokens_total",
    "Tokens that clients were told of: prompt (cached among them) and completion; of those who left, none.",
  )
  private readonly images = this.families.counter(
    "sinter_images_total",
    "Images in the prompts that the engine was given.",
  )
  private readonly recordings = this.families.counter(
    "sinter_recordings_total",
    "Recordings in the prompts that the engine was given.",
  )
  private readonly firstToken = this.families.histogram(
    "sinter_time_to_first_token_seconds",
    "From a request's arrival to the first piece of its reply.",
    SECONDS,
  )
  private readonly pieceSeconds = this.families.histogram(
    "sinter_inter_token_seconds",
    "Between two pieces of one reply; nearly every piece is a token.",
    SECONDS_A_TOKEN,
  )
  private readonly replySeconds = this.families.histogram(
    "sinter_reply_seconds",
    "From a request's arrival to the end of its reply, of replies that were finished.",
    SECONDS,
  )
  private readonly replies = this.families.counter(
    "sinter_replies_total",
    "Choices that have ended, by finish_reason.",
  )
  private readonly tokenSeconds = this.families.histogram(
    "sinter_seconds_per_token",
    "A reply's time after its first piece, over its tokens.",
    SECONDS_A_TOKEN,
  )

  /** @param handed what the rooms below tell, read at each scrape. */
  constructor(running: () => number, handed: () => readonly Sample[]) {
    this.handed = handed
    this.loopDelay.enable()
    this.families.gauge(
      "sinter_http_requests_running",
      "Requests that are being answered.",
      running,
    )
    const lateness = "How late the event loop was, 99th percentile since the last scrape."
    this.families.gauge("sinter_event_loop_delay_p99_seconds", lateness, () => {
      const seconds = this.loopDelay.percentile(99) / 1e9 - LOOP_TICK / 1000
      this.loopDelay.reset()
      return Math.max(0, seconds)
    })
    const held = "Memory that the process holds."
    this.families.gauge("process_resident_memory_bytes", held, residentSize)
    const start = Date.now() / 1000 - process.uptime()
    this.families.gauge("process_start_time_seconds", "Unix time.", () => start)
  }

  /** @param route a path of the routes table; anything else would let clients make up labels. */
  requestEnded(route: string, status: number, { age }: Account): void {
    this.requests.add({ route, status })
    this.requestSeconds.observe(age / 1000, { route })
  }

  /** Passes a reply's events on and takes their times, for the metrics and for the request's account. */
  async *watch(
    events: AsyncIterable<ReplyEvent>,
    replies: readonly ChatReply[],
    account: Account,
  ): AsyncGenerator<ReplyEvent> {
    const counted = (kind: MediumKind) =>
      replies.reduce((sum, { media }) => sum + (media?.[kind] ?? 0), 0)
    const media = { image: counted("image"), audio: counted("audio") }
    account.admitted({
      prompt: replies.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
      media,
      prepared: longest(replies.map(({ prepared }) => prepared)),
      queued: () => longest(replies.map(({ queued }) => queued)),
    })
    this.images.add({}, media.image)
    this.recordings.add({}, media.audio)
    let first: number | undefined
    const last: number[] = [] // by choice, when its latest piece came
    for await (const event of events) {
      if (event.kind === "usage") this.replyEnded(event.usage, account, first)
      else {
        const now = performance.now()
        if (first === undefined) {
          first = now
          this.firstToken.observe(account.firstPiece() / 1000)
        }
        if (event.kind === "finish") this.choiceEnded(event, account)
        else {
          const before = last[event.choice]
          if (before !== undefined) this.pieceSeconds.observe((now - before) / 1000)
          last[event.choice] = now
        }
      }
      yield event
    }
  }

  /** Texts were embedded: nothing was written. */
  embedded(promptTokens: number, account: Account): void {
    account.admitted({ prompt: promptTokens })
    const nothing = { cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 }
    this.replyEnded({ promptTokens, ...nothing }, account)
  }

  /** The whole page. */
  print(): string {
    const own = this.families.print()
    const samples = this.handed()
    const handed = samples.map(({ name, help, labels = {}, value }, i) => {
      const type = name.endsWith("_total") ? "counter" : "gauge"
      const head = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
      const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
      const line = `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}\n`
      return samples[i - 1]?.name === name ? line : `${head}${line}`
    })
    return [own, ...handed].join("\n")
  }

  close(): void {
    this.loopDelay.disable()
  }

  private choiceEnded({ reason }: Extract<ReplyEvent, { kind: "finish" }>, account: Account) {
    account.finished(reason)
    this.replies.add({ reason })
  }

  private replyEnded(usage: Usage, account: Account, first?: number) {
    if (account.hasLeft) return // at times the engine ends what it was writing before the loop is left
    account.ended(usage)
    if (account.hasFinished) this.replySeconds.observe(account.age / 1000)
    this.tokens.add({ kind: "prompt" }, usage.promptTokens)
    this.tokens.add({ kind: "cached" }, usage.cachedTokens)
    this.tokens.add({ kind: "completion" }, usage.completionTokens)
    if (first === undefined || usage.completionTokens < 2) return
    const seconds = (performance.now() - first) / 1000
    this.tokenSeconds.observe(seconds / (usage.completionTokens - 1))
  }
}

function longest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length > 0 ? Math.max(...known) : undefined
}
