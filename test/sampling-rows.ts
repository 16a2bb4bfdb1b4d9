// What a step is told about sampling, row by row, as anybody would write it.

import { type SamplingRows, UNMASKED } from "../src/runtime/program.ts"

/** One row's settings; what is absent has no effect. */
export interface RowSettings {
  temperature?: number
  topK?: number
  topP?: number
  minP?: number
  presence?: number
  frequency?: number
  repetition?: number
  /** Token → how often it came. */
  counts?: Record<number, number>
  bias?: Record<number, number>
  /** The tokens that the row's mask allows; absent: it has none. */
  allowed?: readonly number[]
  seed?: bigint
  choice?: number
  position?: number
  topLogprobs?: number
}

export function samplingRows(rows: readonly RowSettings[], vocabulary: number): SamplingRows {
  const floats = (name: "temperature" | "topP" | "minP" | Penalty, usual: number) =>
    Float32Array.from(rows, (row) => row[name] ?? usual)
  const integers = (name: "topK" | "choice" | "position" | "topLogprobs") =>
    Int32Array.from(rows, (row) => row[name] ?? 0)
  const masked = rows.filter(({ allowed }) => allowed)
  const words = Math.ceil(vocabulary / 32)
  const masks = new Uint32Array(masked.length * words)
  for (const [i, { allowed }] of masked.entries())
    for (const token of allowed!) masks[i * words + (token >>> 5)]! |= 1 << (token & 31)
  const counts = listed(rows.map(({ counts }) => counts))
  const biases = listed(rows.map(({ bias }) => bias))
  return {
    temperature: floats("temperature", 1),
    topK: integers("topK"),
    topP: floats("topP", 1),
    minP: floats("minP", 0),
    presence: floats("presence", 0),
    frequency: floats("frequency", 0),
    repetition: floats("repetition", 1),
    countStarts: counts.starts,
    countTokens: counts.tokens,
    counts: Int32Array.from(counts.values),
    biasStarts: biases.starts,
    biasTokens: biases.tokens,
    biases: Float32Array.from(biases.values),
    masks,
    maskRow: Int32Array.from(rows, (row) => (row.allowed ? masked.indexOf(row) : UNMASKED)),
    seed: BigUint64Array.from(rows, ({ seed }) => seed ?? 1n),
    choice: integers("choice"),
    position: integers("position"),
    topLogprobs: integers("topLogprobs"),
  }
}

type Penalty = "presence" | "frequency" | "repetition"

/** The rows' lists end to end, each in the order of its tokens. */
function listed(rows: readonly (Record<number, number> | undefined)[]) {
  const starts = [0]
  const entries: [string, number][] = []
  for (const row of rows) {
    entries.push(...Object.entries(row ?? {}))
    starts.push(entries.length)
  }
  return {
    starts: Int32Array.from(starts),
    tokens: Int32Array.from(entries, ([token]) => Number(token)),
    values: entries.map(([, value]) => value),
  }
}
