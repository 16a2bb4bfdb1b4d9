// Passages of the documents that tell figures, printed from the results' files by `npm run docs`, so that none can say what no
// run has found. Their words are few: what figures mean stands in the documents around them.

import { readFileSync } from "node:fs"
import { median } from "./contenders/api.ts"
import { type Results as Copying, gainsOf } from "./copying-report.ts"
import { type Results, ratios } from "./report.ts"
import { CHANCES, type Drafts, gains, type Sequences } from "./speculation-report.ts"

const fileOf = (name: string) => new URL(`results/${name}.json`, import.meta.url)

export function readResults<Kind = Results>(name: string): Kind {
  return JSON.parse(readFileSync(fileOf(name), "utf8"))
}

/** Of the rounds that have a number. */
export function medianOf(rounds: readonly (number | null)[] = []): number | undefined {
  const values = rounds.filter((value) => value !== null)
  return values.length > 0 ? median(values) : undefined
}

/** The results of one run: medians, and ratios in favour of the contender that the others are compared with. */
class Run {
  readonly #results: Results
  readonly #ours: string

  constructor(name: string, ours = "sinter") {
    this.#results = readResults(name)
    this.#ours = ours
  }

  get rounds(): number {
    return this.#results.limits.length
  }

  median(row: string, contender = this.#ours): number {
    return medianOf(this.#rounds(row, contender))!
  }

  /** How many times better than a peer: the median of the rounds' ratios. */
  ratio(row: string, peer: string): number {
    return median(ratios(row, this.#rounds(row, this.#ours), this.#rounds(row, peer)))
  }

  has(row: string, contender: string): boolean {
    return this.#results.samples[row]?.[contender] !== undefined
  }

  share(of: string): number {
    return median(this.#results.shares[of]!)
  }

  #rounds(row: string, contender: string): (number | null)[] {
    const rounds = this.#results.samples[row]?.[contender]
    if (!rounds) throw new Error(`internal: the results have no "${row}" of ${contender}`)
    return rounds
  }
}

const prefill = (tokens: number) => `prefill ${tokens}, tok/s`
const decode = (sequences: number) => `decode ${sequences} together, tok/s`

const PROMPTS = [128, 512, 2048, 4096].map(prefill)
const TOGETHER = [4, 8, 16].map(decode)

/** Rows of the results, and the words for them. */
const engineRows: Record<string, string> = {
  [prefill(128)]: "prompt of 128 tokens",
  [prefill(512)]: "prompt of 512",
  [prefill(2048)]: "prompt of 2,048",
  [prefill(4096)]: "prompt of 4,096",
  [decode(1)]: "one sequence decoded",
  [decode(4)]: "4 together",
  [decode(8)]: "8 together",
  [decode(16)]: "16 together",
  "decode 1 together at depth 4096, tok/s": "one sequence after 4,096 tokens",
}

const crowdRows = ["1 client", ...[2, 4, 8, 16].map((clients) => `${clients} clients`)].flatMap(
  (crowd) => ["first token, ms", "between tokens, ms"].map((row) => `${crowd}: ${row}`),
)

const serverRows: Record<string, string> = {
  ...Object.fromEntries(crowdRows.map((row) => [row, row])),
  "prompt of 2000, unseen: first token, ms": "prompt of 2,000 tokens: first token, ms",
  "prompt of 2000, seen: first token, ms": "the same prompt again: first token, ms",
  "between tokens p95, beside a prompt of 2000, ms":
    "between tokens while another's 2,000 tokens are read, 95th percentile, ms",
  "between tokens at most, beside a prompt of 2000, ms": "the longest wait for a token then, ms",
  "prompt of 2000, beside a stream: first token, ms": "first token of those 2,000, ms",
  "start to ready, s": "start to ready, s",
  "cold start to ready, s": "cold start to ready, s",
  "memory in use, MiB": "memory in use, MiB",
}

const BESIDE = "between tokens p95, beside a prompt of 2000, ms"

/** For docs/performance.md. */
export function besideOthers(): string {
  const packed = new Run("1B-q4f16_1")
  const floats = new Run("1B-q0bf16", "sinter's engine")
  const small = new Run("0.6B-q4f16_1")
  const later = new Run("1B-q4f16_1-amx")
  const bench = "llama-bench"
  const both = (row: string) =>
    [bench, "OpenVINO GenAI"].map((peer) => times(later.ratio(row, peer))).join(" and ")
  const engines = Object.entries(engineRows).map(([row, words]) => [
    words,
    ...[bench, "OpenVINO GenAI", "node-llama-cpp"].map((peer) => times(packed.ratio(row, peer))),
  ])
  const behind = TOGETHER.map((row) => 1 - small.ratio(row, "sinter's engine"))
  const rows = (run: Run, names: readonly string[]) =>
    span(names.map((row) => run.ratio(row, bench)))
  return `${table(["times as fast as", "llama.cpp", "OpenVINO GenAI", "node-llama-cpp"], engines)}

${servers(packed)}

- Decoding one sequence, the engine reads its weights at ${percent(packed.share("decode 1 together: read bandwidth"))} of the rate of a loop that only reads memory. A prompt of
  4,096 tokens is read at ${percent(packed.median(prefill(4096)) / packed.median(prefill(512)))} of the rate of one of 512.
- Later versions of all, on another such Xeon ([results](../bench/results/1B-q4f16_1-amx.md), ${rounds(later)}), beside llama.cpp and OpenVINO: a
  prompt of 512 ${both(prefill(512))} times as fast, one sequence ${both(decode(1))}, 8 together ${both(decode(8))}, 16 together
  ${both(decode(16))}. The pace of tokens beside another's prompt is ${times(later.ratio(BESIDE, "llama-server"))} of llama-server's (95th percentile).
- In bf16 ([results](../bench/results/1B-q0bf16.md)), engines alone, beside llama.cpp: prompts ${rows(floats, [512, 2048].map(prefill))} times as fast, one
  sequence ${times(floats.ratio(decode(1), bench))}, 4 to 16 together ${rows(floats, TOGETHER)}.
- Qwen3-0.6B's shape ([results](../bench/results/0.6B-q4f16_1.md), ${rounds(small)}), beside llama.cpp: prompts ${rows(small, PROMPTS)}, one sequence
  ${times(small.ratio(decode(1), bench))}, 4 to 16 together ${rows(small, TOGETHER)}. There the server is ${percent(Math.min(...behind))} to ${percent(Math.max(...behind))} behind its own engine with many sequences:
  steps are so short that drawing tokens, writing events and the clients on the same two processors count.`
}

const rounds = (run: Run) => (run.rounds === 1 ? "one round" : `${run.rounds} rounds`)

/** What clients of ours and of llama.cpp's notice, as far as a run has asked. */
function servers(run: Run): string {
  const measured = Object.entries(serverRows).filter(([row]) => run.has(row, "sinter"))
  const rows = measured.map(([row, words]) => [
    words,
    ...["sinter", "llama-server"].map((server) => shown(run.median(row, server))),
    times(run.ratio(row, "llama-server")),
  ])
  return table(["server", "sinter", "llama-server", "times better"], rows)
}

const COMPARED = [prefill(512), ...[1, 8, 16].map(decode)]

/** Other files and models, engines alone beside llama.cpp on the same file: results, and the words for them. */
const without: Record<string, string> = {
  "1B-q4f16_1-vnni": "1B, `q4f16_1` and Q4_0",
  "1B-q4f16_1-avx2": "the same, both held to AVX2",
  "1B-q4f16_1-zen3": "the same on a Zen 3, which has no more",
  "1B-q0f16-vnni": "1B in f16 (a Zen 5)",
  "1B-q0bf16-vnni": "1B in bf16 (the same)",
  "1B-q0f16-zen3": "1B in f16, on the Zen 3",
  "1B-iq3_s-zen3": "1B, a GGUF file in IQ3_S, on the Zen 3",
  "1B-iq2_xxs-zen3": "1B, a GGUF file in IQ2_XXS, on the Zen 3",
  "1B-q8_0": "1B, a GGUF file in Q8_0",
  "1B-q4_k_m": "1B, a GGUF file in Q4_K_M",
  "gemma3-1B-q4_0": "Gemma 3 1B, a GGUF file in Q4_0",
  "16B-A2B-q4_0": "half of Qwen3-30B-A3B, a GGUF file in Q4_0",
}

const MIXTURE = "0.6B-of-8-q4f16_1"
const LONG = "1B-q4f16_1-long"
/** Of the third row. */
const PROMPTS_OF_AVX2 = "1B-q4f16_1-zen3-prompts"

/** Servers beside each other: results, and on which processors. */
const crowds: Record<string, string> = {
  "1B-q4f16_1-servers-vnni": "Servers on two processors with AVX-512 VNNI",
  "1B-q4f16_1-beside": "The same, since steps that prompts share are shorter",
  "1B-q4f16_1-servers": "Servers on two slower processors with AVX2",
}

export const runsWithoutMatrixUnit: readonly string[] = [
  ...Object.keys(without),
  ...[MIXTURE, LONG, PROMPTS_OF_AVX2],
  ...Object.keys(crowds),
]

/** For docs/performance.md. */
export function withoutMatrixUnit(): string {
  const rows = Object.entries(without).map(([name, words]) => {
    const run = new Run(name, "sinter's engine")
    const cells = COMPARED.map((row) =>
      run.has(row, "llama-bench") ? times(run.ratio(row, "llama-bench")) : "–",
    )
    return [`[${words}](../bench/results/${name}.md)`, ...cells]
  })
  const [packed, mixture, long, prompts] = [
    Object.keys(without)[0]!,
    MIXTURE,
    LONG,
    PROMPTS_OF_AVX2,
  ].map((name) => new Run(name, "sinter's engine")) as [Run, Run, Run, Run]
  const crowded = Object.entries(crowds).map(([name, words]) => {
    const run = new Run(name)
    return `${words} ([${rounds(run)}](../bench/results/${name}.md)):\n\n${servers(run)}`
  })
  const others = COMPARED.map((row) => times(packed.ratio(row, "OpenVINO GenAI")))
  const behind = (depth: number) =>
    times(long.ratio(`one sequence at depth ${depth}: between tokens, ms`, "llama-bench"))
  const longPrompt = (tokens: number) => times(prompts.ratio(prefill(tokens), "llama-bench"))
  const dense = mixture.ratio(decode(1), "sinter's engine, a dense model of the active bytes")
  return `${table(["times as fast as llama.cpp", "prompt of 512", "one sequence", "8 together", "16 together"], rows)}

The first row beside OpenVINO: ${others.join(", ")}. Its next token behind a context of 32,768 tokens comes ${behind(32_768)} times
as fast as llama.cpp's, behind 131,072 ${behind(131_072)} times ([one round](../bench/results/${LONG}.md)). The Zen 3 reads prompts of 2,048
tokens ${longPrompt(2048)} times as fast as llama.cpp, of 4,096 ${longPrompt(4096)} times ([${rounds(prompts)}](../bench/results/${PROMPTS_OF_AVX2}.md)).

A mixture of which a token meets one expert in eight is decoded ${times(dense)} times as fast as a dense model of the bytes that it reads
([results](../bench/results/${MIXTURE}.md)).

\`llama-server\` reads another's prompt in one step, and a stream waits for all of it; we read it in pieces, and every token comes a
little later.

${crowded.join("\n\n")}

Starts; a cold one finds an empty cache and no file of program and model in memory:

${starts("1B-q4f16_1-start")}

The same with Node 24, which keeps what it compiled of the program's modules, where the first is Node 20:

${starts("1B-q4f16_1-start-node24")}

The same, since windows of weights are read, converted and stored at once, from an MLC folder and from the GGUF file that
\`llama-server\` reads, too:

${starts("1B-q4f16_1-cold")}

${starts("1B-q4_0-cold")}`
}

/** Warm and cold, of everybody who starts. */
function starts(run: string): string {
  const { samples, contenders } = readResults(run)
  const names = Object.keys(contenders)
  const rows = ["start to ready, s", "cold start to ready, s"].map((row) => [
    row,
    ...names.map((name) => {
      const seconds = medianOf(samples[row]?.[name])
      return seconds === undefined ? "–" : shown(seconds)
    }),
  ])
  return table([`[results](../bench/results/${run}.md)`, ...names], rows)
}

const table = (head: readonly string[], rows: readonly string[][]) =>
  [head, head.map((_, i) => (i ? "---:" : "---")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")

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

/** For docs/speculation.md. */
export function copyingGains(): string {
  const { samples } = readResults<Copying>("copying-1B-q4_0")
  const rows = Object.entries(samples).map(([text, row]) => {
    const pace = (server: string) => median(gainsOf(row, server, "wall"))
    const drafting = Object.keys(row).filter((name) => name.startsWith("llama-server, ngram"))
    const best = Math.max(...drafting.map(pace))
    const plain = ["sinter, auto", "sinter, lookup", "llama-server, none"].map(pace)
    return [text, ...[...plain, best].map(times)]
  })
  const head = ["a reply", "`auto`", "`lookup`", "llama-server", "with its best drafts"]
  return table(head, rows)
}

/** Two decimals where one would hide the difference, none where it shows anyhow. */
const times = (ratio: number) =>
  ratio >= 100 ? ratio.toFixed(0) : ratio.toFixed(ratio < 1.25 ? 2 : 1)
const percent = (share: number) => `${(100 * share).toFixed(0)} %`

/** A median in its row's unit, in three digits or so. */
export const shown = (value: number) =>
  value >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(value < 100 ? 2 : 3)

function span(values: readonly number[]): string {
  return `${times(Math.min(...values))} to ${times(Math.max(...values))}`
}
