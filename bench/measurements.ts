// What is measured, in one table: the rows of the results. A measurement takes one sample of one contender; undefined where
// the contender cannot do it.

import type { Contender } from "./contenders/contender.ts"

type Sample = Record<string, number> | undefined

interface Measurement {
  /** Names a group of rows, and one of them: `--only prefill,decode 4`. */
  group: string
  name?: string
  /** Tokens that a sequence holds, where that is more than others ask for. */
  depth?: number
  /** Everybody rests meanwhile, as whoever runs has the files mapped that a start reads. */
  isAlone?: boolean
  /** What a reader of its row must know. */
  note?: string
  sample: (contender: Contender) => Promise<Sample>
}

/** A row's unit tells which way is better. */
export const units = {
  "tok/s": { better: "higher" },
  ms: { better: "lower" },
  s: { better: "lower" },
  MiB: { better: "lower" },
} as const

/** Rows are named by what they are, and their unit behind a comma. */
export const unitOf = (row: string) => row.split(", ").at(-1) as keyof typeof units

const prefill = (tokens: number): Measurement => ({
  group: "prefill",
  name: `prefill ${tokens}`,
  sample: async ({ prefill }) => prefill && { [`prefill ${tokens}, tok/s`]: await prefill(tokens) },
})

const decode = (sequences: number, depth: number): Measurement => ({
  group: depth ? "deep" : "decode",
  name: `${depth ? "deep" : "decode"} ${sequences}`,
  sample: async ({ decode }) => {
    const where = depth ? ` at depth ${depth}` : ""
    return (
      decode && { [`decode ${sequences} together${where}, tok/s`]: await decode(sequences, depth) }
    )
  },
})

/** One sequence behind a context of which 512 tokens were read, and copied until it is full: only engines can do that. */
const long = (depth: number): Measurement => ({
  group: "long",
  name: `long ${depth}`,
  depth,
  note: "Behind 32,768 tokens and more, a context is the keys and values of 512, copied until it is full: reading one would take hours. Memory is what the sample's process has resident at the end: weights, keys and values, and what it works with.",
  sample: async ({ long }) => {
    if (!long) return undefined
    const { tokensPerSecond, bytes } = await long(depth)
    return {
      [`one sequence at depth ${depth}: between tokens, ms`]: 1000 / tokensPerSecond,
      [`one sequence at depth ${depth}: memory, MiB`]: bytes / 2 ** 20,
    }
  },
})

const javascript = (sequences: number): Measurement => ({
  group: "javascript",
  note: "JavaScript is what its thread takes of a processor for a step of the engine: what comes before and after the device or the kernels, and not the wait for them.",
  sample: async ({ javascript }) =>
    javascript && { [`javascript of ${sequences} together, ms`]: await javascript(sequences) },
})

const crowd = (clients: number): Measurement => ({
  group: "crowd",
  name: `crowd ${clients}`,
  sample: async ({ crowd }) => {
    if (!crowd) return undefined
    const sample = await crowd(clients)
    const name = clients === 1 ? "1 client" : `${clients} clients`
    return {
      [`${name}: first token, ms`]: sample.firstToken,
      [`${name}: between tokens, ms`]: sample.betweenTokens,
      [`${name}: output, tok/s`]: sample.tokensPerSecond,
    }
  },
})

export const measurements: readonly Measurement[] = [
  ...[128, 512, 2048, 4096].map(prefill),
  ...[1, 2, 4, 8, 16].map((sequences) => decode(sequences, 0)),
  decode(1, 4096),
  javascript(16),
  ...[1, 2, 4, 8, 16].map(crowd),
  {
    group: "prefix",
    sample: async ({ twice }) => {
      if (!twice) return undefined
      const { first, again } = await twice()
      return {
        "prompt of 2000, unseen: first token, ms": first,
        "prompt of 2000, seen: first token, ms": again,
      }
    },
  },
  {
    group: "disturbed",
    note: "Beside a prompt of 2000: a stream of 96 tokens, of which the other's prompt arrives with the eighth. The 95th percentile leaves out the five longest waits, so the longest stands beside it, and when the other has its first token.",
    sample: async ({ disturbed }) => {
      if (!disturbed) return undefined
      const { alone, beside, longest, prompt } = await disturbed()
      return {
        "between tokens p95, alone, ms": alone,
        "between tokens p95, beside a prompt of 2000, ms": beside,
        "between tokens at most, beside a prompt of 2000, ms": longest,
        "prompt of 2000, beside a stream: first token, ms": prompt,
      }
    },
  },
  { group: "start", sample: async ({ start }) => start && { "start to ready, s": await start() } },
  ...[32_768, 131_072].map(long),
  {
    group: "memory",
    note: "Memory in use is what is resident after a round. Keys and values count once they have been written: where a program reserves them and writes them as requests come, it grows from round to round up to its reserve.",
    sample: async ({ memory }) => memory && { "memory in use, MiB": memory() / 2 ** 20 },
  },
  {
    group: "cold",
    isAlone: true,
    note: "A cold start finds an empty cache folder, and the files of program and model on the disk alone. Where a program compiles for the model before it serves, that is part of it.",
    sample: async ({ coldStart }) => coldStart && { "cold start to ready, s": await coldStart() },
  },
]

export const groups = [...new Set(measurements.map(({ group }) => group))]
/** Contexts so long ask for gigabytes of keys and values: they are measured when they are named. */
export const usualGroups = groups.filter((group) => group !== "long")
