// What a step brings to a GPU's kernels and takes away, by name: a tape says which of these an operand is, and step-block.ts
// where each of them lies.

import type { RowSet } from "../step-rows.ts"
import type { AttentionOrder } from "./attention-work.ts"

/** Of the numbers that a step brings, all 32-bit words. T: tokens, S: sequences, G: groups of KV blocks, L: logits rows. */
export type Region =
  /** u32: how many rows a set has, or what else can be counted. */
  | { name: "count"; of: RowSet | CountName }
  | { name: "tokens" } // [T]
  | { name: "positions" } // [T]
  | { name: "sequences" } // [T] of each token
  /** [rows of the set] of each row, its token. */
  | { name: "tokensOf"; set: Exclude<RowSet, "tokens"> }
  /** [T] of each token, its row among the wanted, or -1. */
  | { name: "rowsInWanted" }
  /** [T] of each token, where its key and value go in a group: block * 16 + the position in it. */
  | { name: "slots"; group: number }
  /** [T] of each token, the first position that it sees in a group with such a window, but for the sinks. */
  | { name: "firstSeen"; group: number; window: number | undefined }
  | { name: "blocks" } // as they are; items of attention say where each list begins
  /** [items, WORK] the work of attention: see attention-work.ts. */
  | { name: "items"; of: ItemsName; order: AttentionOrder }
  /** [chunks + 1] of the work of attention, where each chunk's items begin; chunks that are empty repeat the end. */
  | { name: "chunkStarts"; of: ItemsName }
  /** Rows of floats, [T, hidden]. */
  | { name: "hiddenIn" }
  /** One array of SamplingRows, as it is; `seed` is two words a row, the lower first. */
  | { name: "sampling"; array: SamplingArray }
  /** What the sampler tells the host: see kernels/sampler.ts. */
  | { name: "results"; array: string }

export type SamplingArray =
  | "temperature"
  | "inverseTemperature" // settled(1 / temperature), or 0 where that is 0
  | "topK"
  | "topP"
  | "minP"
  | "presence"
  | "frequency"
  | "repetition"
  | "inverseRepetition" // settled(1 / repetition)
  | "countStarts"
  | "countTokens"
  | "counts"
  | "biasStarts"
  | "biasTokens"
  | "biases"
  | "masks"
  | "maskRow"
  | "seed"
  | "choice"
  | "position"
  | "topLogprobs"

/** Items of attention are counted and listed once for all layers that share them. */
export type ItemsName = `${"tokens" | "wanted"} g${number} w${number | "all"} s${number}`
export type CountName = `items ${ItemsName}` | `chunks ${ItemsName}`
