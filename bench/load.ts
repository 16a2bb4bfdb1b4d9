// A load on a running server that looks at every answer. Clients that read, cancel, vanish, dawdle and talk nonsense come
// at once; each reply is held against what the same request was told alone. Closed loop: so many clients, each asking again
// when it has been answered. Open loop: arrivals at a rate, whether or not the server keeps up. Both may go on at once. At the
// end, the tokens that the server has counted are those that clients were told of: who leaves asks for what cannot have ended.
//
//   npm run load -- --url http://127.0.0.1:8000 --clients 8 --seconds 600
//
// Exit code 1 when a stream was incomplete, an answer differed, a token was not told of or something was left behind.

import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { pick, prepareQuestions, type Question, type Random, randomFrom } from "./load/questions.ts"
import { scrape, type Target, targetAt } from "./load/target.ts"
import { type Outcome, type Tokens, type VisitorName, visitors } from "./load/visitors.ts"

export interface LoadOptions {
  url: string
  model: string
  apiKey?: string | undefined
  /** Clients of the closed loop. */
  clients: number
  /** Arrivals a second of the open loop; absent: there is none. */
  rate?: number | undefined
  seconds: number
  /** Asked now and then: whether it may end before. */
  isEnough?: () => boolean
  /** Seconds at first that are not measured. */
  warmUp: number
  /** That time again until there have been so many visits. */
  warmUpVisits?: number
  /** Has the server collect its garbage; absent: its memory is watched (growthOf). */
  collect?: () => Promise<void>
  seed: number
  /** How often each kind of visitor comes, relative to the others. */
  mix: Readonly<Partial<Record<VisitorName, number>>>
}

export const usualMix: Readonly<Record<VisitorName, number>> = {
  stream: 10,
  whole: 3,
  slow: 1,
  cancel: 3,
  disconnect: 2,
  malformed: 3,
  huge: 0.25,
}

export interface LoadReport extends Report {
  /** Bytes that the server's memory grew by while measured, its garbage apart. */
  growth: number
}

export interface Report {
  seconds: number
  outcomes: Record<Outcome["kind"], number>
  /** What the server did wrong, each sentence once, with how often. */
  faults: Record<string, number>
  /** What the server counted less what clients were told, in tokens. */
  unbalanced: Tokens
  tokensPerSecond: number
  /** Milliseconds. */
  firstToken: Quantiles
  betweenTokens: Quantiles
  loopDelayP99: number
  /** Bytes at the end. */
  resident: number
  /** What is still held when everybody has gone: all zero, or something leaks. */
  left: Record<(typeof HELD)[number], number>
}

export interface Quantiles {
  p50: number
  p95: number
  p99: number
}

const HELD = ["sinter_running", "sinter_waiting", "sinter_blocks_used"] as const

export async function load(options: LoadOptions): Promise<LoadReport> {
  const crowd = await gather(options)
  try {
    const { warmUp, warmUpVisits = 0 } = options
    let visits = 0
    let { seed } = options
    do visits += (await crowd.arrive({ ...options, seconds: warmUp, seed: ++seed })).length
    while (warmUp > 0 && visits < warmUpVisits)
    const before = await crowd.atRest()
    const { collect } = options
    const least = collect && (await collect().then(crowd.resident))
    const begun = performance.now()
    const memory = watch(crowd.resident)
    const outcomes = await crowd.arrive(options)
    const seconds = (performance.now() - begun) / 1000
    const watched = growthOf(await memory.end())
    const after = await crowd.atRest()
    const growth = collect ? (await collect().then(crowd.resident)) - least! : watched
    return { ...report(outcomes, seconds, before, after), growth }
  } finally {
    crowd.leave()
  }
}

/** Visitors of one server, who know its answers. */
export interface Crowd {
  /** Sends visitors for so many seconds and waits for the last of them. */
  arrive(options: Arrival): Promise<Outcome[]>
  /** Bytes of the server's memory now. */
  resident(): Promise<number>
  /** The server's numbers once nobody is served any more, or as they are after ten seconds. */
  atRest(): Promise<ReadonlyMap<string, number>>
  leave(): void
}

/** Asks each question alone. */
export async function gather({ url, model, apiKey, seed, mix }: LoadOptions): Promise<Crowd> {
  const target = targetAt(url, model, apiKey)
  const questions = await prepareQuestions(target, randomFrom(seed))
  const visit = visitMaker(target, questions, mix)
  return {
    arrive: (options) => arrive(options, visit),
    resident: async () => (await scrape(target)).get(RESIDENT)!,
    atRest: () => atRest(target),
    leave: () => target.agent.destroy(),
  }
}

/** Draws who comes and what is asked, and never throws: whatever breaks is a fault. */
function visitMaker(
  target: Target,
  questions: readonly Question[],
  mix: LoadOptions["mix"],
): (random: Random) => Promise<Outcome> {
  const rows = Object.entries(mix) as [VisitorName, number][]
  const all = rows.reduce((sum, [, share]) => sum + share, 0)
  return async (random) => {
    let drawn = random() * all
    const [name] = rows.find(([, share]) => {
      drawn -= share
      return drawn < 0
    })!
    const question = pick(questions, random)
    try {
      return await visitors[name]({ target, question, random })
    } catch (error) {
      return { kind: "fault", fault: `${name}: ${(error as Error).message}` }
    }
  }
}

type Arrival = Pick<LoadOptions, "clients" | "rate" | "seconds" | "seed" | "isEnough">

async function arrive(
  { clients, rate, seconds, seed, isEnough = () => false }: Arrival,
  visit: (random: Random) => Promise<Outcome>,
): Promise<Outcome[]> {
  const until = performance.now() + seconds * 1000
  const outcomes: Outcome[] = []
  const one = async (random: Random) => {
    outcomes.push(await visit(random))
  }
  const random = randomFrom(seed)
  // Rows of numbers whose seeds are neighbours begin alike, so each visitor's seed is drawn.
  const own = () => randomFrom(Math.floor(random() * 2 ** 32))
  const client = async (random: Random) => {
    while (performance.now() < until && !isEnough()) await one(random)
  }
  const visits = Array.from({ length: clients }, () => client(own()))
  while (rate !== undefined && performance.now() < until && !isEnough()) {
    visits.push(one(own()))
    await sleep((-Math.log(1 - random()) / rate) * 1000) // a Poisson process
  }
  await Promise.all(visits)
  return outcomes
}

/** Asks for a number a few times a second, until its end. */
function watch(ask: () => Promise<number>): { end(): Promise<number[]> } {
  const over = new AbortController()
  const asked = (async () => {
    const numbers = [await ask()]
    while (!over.signal.aborted) {
      await sleep(WATCH_MS)
      numbers.push(await ask())
    }
    return numbers
  })()
  return {
    end: () => {
      over.abort()
      return asked
    },
  }
}

const WATCH_MS = 200

/**
 * How far the least memory of the last third lies above the least of the first. What a server has at one moment swings by
 * a hundred MiB with the garbage that is not yet collected; what it falls back to stays, unless something is kept.
 */
export function growthOf(residents: readonly number[]): number {
  const third = Math.ceil(residents.length / 3)
  return Math.min(...residents.slice(-third)) - Math.min(...residents.slice(0, third))
}

const REST_SECONDS = 10

async function atRest(target: Target): Promise<ReadonlyMap<string, number>> {
  for (let tries = 0; ; tries++) {
    const numbers = await scrape(target)
    if (HELD.every((name) => numbers.get(name) === 0) || tries === REST_SECONDS * 10) return numbers
    await sleep(100)
  }
}

export function report(
  outcomes: readonly Outcome[],
  seconds: number,
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): Report {
  const counts = { answered: 0, left: 0, refused: 0, busy: 0, hit: 0, fault: 0 }
  const faults: Record<string, number> = {}
  const told: Tokens = { prompt: 0, completion: 0 }
  const firsts: number[] = []
  const gaps: number[] = []
  for (const outcome of outcomes) {
    counts[outcome.kind]++
    if (outcome.kind === "fault") faults[outcome.fault] = (faults[outcome.fault] ?? 0) + 1
    if (outcome.kind !== "answered") continue
    told.prompt += outcome.tokens.prompt
    told.completion += outcome.tokens.completion
    if (!Number.isNaN(outcome.first)) firsts.push(outcome.first)
    gaps.push(...outcome.gaps)
  }
  const counted = (kind: keyof Tokens) => {
    const name = `sinter_tokens_total{kind="${kind}"}`
    return (after.get(name) ?? 0) - (before.get(name) ?? 0)
  }
  return {
    seconds,
    outcomes: counts,
    faults,
    unbalanced: {
      prompt: counted("prompt") - told.prompt,
      completion: counted("completion") - told.completion,
    },
    tokensPerSecond: told.completion / seconds,
    firstToken: quantiles(firsts),
    betweenTokens: quantiles(gaps),
    loopDelayP99: after.get("sinter_event_loop_delay_p99_seconds")! * 1000,
    resident: after.get(RESIDENT)!,
    left: Object.fromEntries(HELD.map((name) => [name, after.get(name)])) as Report["left"],
  }
}

const RESIDENT = "process_resident_memory_bytes"

function quantiles(values: number[]): Quantiles {
  values.sort((a, b) => a - b)
  const at = (share: number) => values[Math.floor(share * (values.length - 1))] ?? Number.NaN
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

export function isSound({ faults, left, outcomes, unbalanced }: Report): boolean {
  return [
    ...Object.values(faults),
    ...Object.values(left),
    ...Object.values(unbalanced),
    outcomes.hit,
  ].every((count) => count === 0)
}

if (process.argv[1]?.endsWith("load.ts")) await main()

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      url: { type: "string", default: "http://127.0.0.1:8000" },
      model: { type: "string", default: "tiny" },
      "api-key": { type: "string" },
      clients: { type: "string" },
      rate: { type: "string" },
      seconds: { type: "string", default: "30" },
      "warm-up": { type: "string", default: "5" },
      seed: { type: "string", default: "1" },
      mix: { type: "string" }, // JSON: {"stream": 10, "cancel": 3}
      json: { type: "boolean", default: false },
    },
  })
  const summary = await load({
    url: values.url,
    model: values.model,
    apiKey: values["api-key"],
    clients: Number(values.clients ?? (values.rate === undefined ? 8 : 0)),
    rate: values.rate === undefined ? undefined : Number(values.rate),
    seconds: Number(values.seconds),
    warmUp: Number(values["warm-up"]),
    seed: Number(values.seed),
    mix: values.mix === undefined ? usualMix : JSON.parse(values.mix),
  })
  console.log(values.json ? JSON.stringify(summary, null, 2) : printed(summary))
  process.exitCode = isSound(summary) ? 0 : 1
}

function printed(told: LoadReport): string {
  const times = ({ p50, p95, p99 }: Quantiles) =>
    `p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`
  const list = (numbers: Record<string, number>) =>
    Object.entries(numbers)
      .map(([name, number]) => `${name} ${number}`)
      .join(", ")
  return [
    `${told.seconds.toFixed(1)} s: ${list(told.outcomes)}`,
    `first token    ${times(told.firstToken)}`,
    `between tokens ${times(told.betweenTokens)}`,
    `throughput     ${told.tokensPerSecond.toFixed(1)} tokens/s`,
    `event loop     p99 ${told.loopDelayP99.toFixed(1)} ms late`,
    `memory         ${mib(told.resident)}, grown by ${mib(told.growth)}`,
    `left behind    ${list(told.left)}`,
    `unbalanced     ${list({ ...told.unbalanced })} tokens`,
    ...Object.entries(told.faults).map(([fault, times]) => `${times} × ${fault}`),
  ].join("\n")
}
