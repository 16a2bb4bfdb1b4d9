// Passages of the documents that tell figures, printed from the results' files by `npm run docs`, so that none can say what no
// run has found. Their words are few: what figures mean stands in the documents around them.

import { readFileSync } from "node:fs"
import { median } from "./contenders/api.ts"
import { type Results, ratios } from "./report.ts"
import { CHANCES, type Drafts, gains, type Sequences } from "./speculation-report.ts"

export function readResults<Kind = Results>(name: string): Kind {
  return JSON.parse(readFileSync(new URL(`results/${name}.json`, import.meta.url), "utf8"))
}

/** Of the rounds that have a number. */
export function medianOf(rounds: readonly (number | null)[] = []): number | undefined {
  const values = rounds.filter((value) => value !== null)
  return values.length > 0 ? median(values) : undefined
}

/** What results say of the one that the others are compared with. */
class Found {
  readonly #results: Results
  readonly #ours: string

  constructor(name: string, ours = "sinter") {
    this.#results = readResults(name)
    this.#ours = ours
  }

  get rounds(): number {
    return this.#results.limits.length
  }

  of(row: string, who = this.#ours): (number | null)[] {
    const rounds = this.#results.samples[row]?.[who]
    if (!rounds) throw new Error(`internal: the results have no "${row}" of ${who}`)
    return rounds
  }

  median(row: string, who = this.#ours): number {
    return medianOf(this.of(row, who))!
  }

  /** How many times better than a peer: medians of the rounds' ratios. */
  ratios(rows: readonly string[], peer: string): number[] {
    return rows.map((row) => median(ratios(row, this.of(row), this.of(row, peer))))
  }

  /** The same of one row, round by round. */
  rounded(row: string, peer: string): number[] {
    return ratios(row, this.of(row), this.of(row, peer))
  }

  share(of: string): number {
    return median(this.#results.shares[of]!)
  }
}

const PROMPTS = [128, 512, 2048, 4096]
const TOGETHER = [4, 8, 16]
const CLIENTS = [1, 4, 8]
const prefill = (tokens: number) => `prefill ${tokens}, tok/s`
const decode = (sequences: number) => `decode ${sequences} together, tok/s`
const firstToken = (clients: number) => `${named(clients)}: first token, ms`
const between = (clients: number) => `${named(clients)}: between tokens, ms`
const named = (clients: number) => (clients === 1 ? "1 client" : `${clients} clients`)

const DEEP = "decode 1 together at depth 4096, tok/s"
const UNSEEN = "prompt of 2000, unseen: first token, ms"
const SEEN = "prompt of 2000, seen: first token, ms"
const BESIDE = "between tokens p95, beside a prompt of 2000, ms"
const START = "start to ready, s"
const MEMORY = "memory in use, MiB"

/** For docs/performance.md. */
export function besideOthers(): string {
  const packed = new Found("1B-q4f16_1")
  const floats = new Found("1B-q0bf16", "sinter's engine")
  const small = new Found("0.6B-q4f16_1")
  const prompts = PROMPTS.map(prefill)
  const together = TOGETHER.map(decode)
  const kept = packed.median(prefill(4096)) / packed.median(prefill(512))
  const [bench, vino, node] = ["llama-bench", "OpenVINO GenAI", "node-llama-cpp"] as const
  const deep = (peer: string) => times(packed.ratios([DEEP], peer)[0]!)
  const behind = small.ratios(together, "sinter's engine").map((ratio) => 1 - ratio)
  return `- **Prompts** of ${list(PROMPTS.map(grouped))} tokens: ${list(packed.ratios(prompts, bench).map(times))} times llama.cpp's rate, ${list(packed.ratios(prompts, vino).map(times))} times
  OpenVINO's. At 4,096 tokens the rate is ${percent(kept)} of that at 512.
- **Decoding**: one sequence ${times(packed.ratios([decode(1)], bench)[0]!)} times \`llama-bench\` (${span(packed.rounded(decode(1), bench))}) and ${times(packed.ratios([decode(1)], vino)[0]!)} times OpenVINO; our engine alone reads
  its weights at ${percent(packed.share("decode 1 together: read bandwidth"))} of the rate of a loop that does nothing else. ${list(TOGETHER.map(String))} together: ${list(packed.ratios(together, bench).map(times))} times llama.cpp,
  ${list(packed.ratios(together, vino).map(times))} times OpenVINO. After 4,096 tokens: ${deep(bench)} times \`llama-bench\`, ${deep(node)} node-llama-cpp, ${deep(vino)} OpenVINO.
- **Servers**, ${list(CLIENTS.map(String))} clients: beside \`llama-server\` the first token comes ${span(packed.ratios(CLIENTS.map(firstToken), "llama-server"))} times sooner, the others ${span(packed.ratios(CLIENTS.map(between), "llama-server"))}
  times faster. A prompt of 2,000 tokens alone has its first token after ${seconds(packed.median(UNSEEN))} s, llama.cpp's after ${seconds(packed.median(UNSEEN, "llama-server"))}; seen before,
  after ${whole(packed.median(SEEN))} ms and ${whole(packed.median(SEEN, "llama-server"))}. While another client's 2,000 tokens are read, 95 of 100 of our tokens come within ${whole(packed.median(BESIDE))} ms of
  each other, and of llama.cpp's within ${whole(packed.median(BESIDE, "llama-server"))}.
- **Start**: ${one(packed.median(START))} s (${span(packed.of(START).map(Number), one)}) beside ${one(packed.median(START, "llama-server"))} of \`llama-server\` and ${one(packed.median(START, vino))} of OpenVINO.
- **Memory**: ${list(packed.of(MEMORY).map((mib) => grouped(Math.round(mib!))))} MiB after the rounds, beside ${grouped(Math.round(packed.median(MEMORY, "llama-server")))} of \`llama-server\`.
- **In bf16** ([results](../bench/results/1B-q0bf16.md)), engines alone: prompts of 512 and 2,048 tokens ${list(floats.ratios([512, 2048].map(prefill), bench).map(times))} times
  llama.cpp's rate; 1, 4, 8 and 16 sequences ${list(floats.ratios([1, ...TOGETHER].map(decode), bench).map(times))} times.
- **The 0.6B shape** ([results](../bench/results/0.6B-q4f16_1.md), ${small.rounds === 1 ? "one round" : `${small.rounds} rounds`}): prompts ${span(small.ratios(prompts, bench))} times llama.cpp's rate and ${span(small.ratios(prompts, vino))} times
  OpenVINO's; one sequence ${times(small.ratios([decode(1)], bench)[0]!)} times \`llama-bench\`, ${list(TOGETHER.map(String))} together ${span(small.ratios(together, bench))} times. There our server is
  ${percent(Math.min(...behind))} to ${percent(Math.max(...behind))} behind our own engine where many decode together.`
}

/** For docs/speculation.md. */
export function draftGains(): string {
  const { rounds, hostile } = readResults<Drafts>("speculation-1B-q4f16_1")
  const row = (words: string, sequences: Sequences, never: string) => {
    const cells = CHANCES.map((chance) => times(median(gains(rounds, sequences, chance).gained)))
    return `| ${[words, ...cells, never].join(" | ")} |`
  }
  const reached = ([1, 4] as const).flatMap((sequences) =>
    CHANCES.map((chance) => gains(rounds, sequences, chance).reached),
  )
  const [least, ...others] = CHANCES
  return `| ${["", `a = ${least}`, ...others, "never right"].join(" | ")} |
|---|${"---:|".repeat(CHANCES.length + 1)}
${row("one request, times as fast", 1, times(median(hostile.map(({ ratio }) => ratio))))}
${row("four requests at once", 4, "–")}

That is ${percent(Math.min(...reached.map(median)))} to ${percent(Math.max(...reached.map(median)))} of what the steps' times, measured beside, allow (medians; single rounds from ${percent(Math.min(...reached.flat()))} on).`
}

/** Two decimals where one would hide the difference. */
const times = (ratio: number) => ratio.toFixed(ratio < 1.25 ? 2 : 1)
const one = (value: number) => value.toFixed(1)
const whole = (value: number) => value.toFixed(0)
const seconds = (ms: number) => (ms / 1000).toFixed(ms < 10_000 ? 1 : 0)
const percent = (share: number) => `${(100 * share).toFixed(0)} %`
const grouped = (value: number) => value.toLocaleString("en-US")

const list = (words: readonly string[]) => `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`

function span(values: readonly number[], written = times): string {
  return `${written(Math.min(...values))} to ${written(Math.max(...values))}`
}
