// What a step brings to a GPU's kernels and takes away, by name: a tape says which of these an operand is, and step-block.ts
// where each of them lies.

import type { Coordinate, Rotation } from "../rotation.ts"
import type { RowSet } from "../step-rows.ts"
import type { AttentionOrder, WorkCount } from "./attention-work.ts"

/** Of the numbers that a step brings, all 32-bit words. T: tokens, S: sequences, G: groups of KV blocks, L: logits rows. */
export type Region =
  /** u32: how many rows a set has, or what else can be counted. */
  | { name: "count"; of: RowSet | CountName }
  | { name: "tokens" } // [T], or where one is drawn: DRAWN and its row of "drawn"; of a row that is taken in: SEEN and its row
  | { name: "positions" } // [T]
  | { name: "places"; of: Coordinate } // [T] of each token, that coordinate
  | { name: "adapters" } // [T] of each token, which its sequence has chosen
  | { name: "sequences" } // [T] of each token
  | { name: "starts" } // [S + 1] of each sequence, its first token; and behind the last one's
  /** [S, 2] of each sequence, the state in a group that it goes on from, or NO_STATE, and the one that it leaves. */
  | { name: "states"; group: number }
  /** [rows of the set] of each row, its token. */
  | { name: "tokensOf"; set: Exclude<RowSet, "tokens"> }
  /** [T] of each token, its row among the wanted, or -1. */
  | { name: "rowsInWanted" }
  /** [T] of each token, where its key and value go in a group: block * 16 + the position in it. */
  | { name: "slots"; group: number }
  /** [T, count] of each token, where `count` positions lie in a group, those up to so many `ahead` of its own; -1 where there are not so many. */
  | { name: "lastSlots"; group: number; count: number; ahead: number }
  /** [T] of each token, the first position that it sees in a group with such windows or chunks, but for the sinks. */
  | {
      name: "firstSeen"
      group: number
      window: number | undefined
      chunked?: true
      mutual?: true
    }
  /** [T] of each token, the last position that it sees in a bidirectional layer with such a window. */
  | { name: "lastSeen"; window: number | undefined }
  | { name: "crossSeen"; cross: number } // [T] of each token, the last of the first so many positions that it sees
  | { name: "seenTo" } // [T] of each token, the last position that it sees in a mutual layer
  | { name: "blocks" } // as they are; items of attention say where each list begins
  /** [items, WORK] the work of attention: see attention-work.ts. */
  | { name: "items"; of: ItemsName; order: AttentionOrder }
  /** [chunks + 1] of the work of attention, where each chunk's items begin; chunks that are empty repeat the end. */
  | { name: "chunkStarts"; of: ItemsName }
  /** [rows of the set] of that work, of each row whose softmaxes are to be merged, its first item: see attention-work.ts. */
  | { name: "waiting"; of: ItemsName }
  /** Floats, [T, 2 * frequencies] of each token: cosines, then sines. */
  | { name: "turns"; rotation: Rotation }
  /** Rows of floats, [T, taken], or as many as tokens name. */
  | { name: "hiddenIn" }
  /** How rows of logits become tokens. */
  | { name: "sampling"; array: SamplingArray }
  /** [L, RESULT_WORDS] what the sampler tells the host. */
  | { name: "results" }
  /** [L, RESULT_WORDS] what it told of the step before, which may still have been running when this one was handed over. */
  | { name: "drawn" }

/** "rows": [L, SAMPLING_WORDS]. The others are arrays of SamplingRows as they are. */
export type SamplingArray = "rows" | "countTokens" | "counts" | "biasTokens" | "biases" | "masks"

/**
 * Words of a row of sampling. What takes a division or a double has been computed, and floats are `settled`, so that no device
 * meets numbers next to zero.
 */
export const samplingWord = {
  isGreedy: 0, // 1: takes the likeliest token
  inverseTemperature: 1,
  topK: 2,
  topPart: 3, // of 2^24: how much of the sum of shares is kept; 2^24: all
  minP: 4,
  presence: 5,
  frequency: 6,
  repetition: 7,
  inverseRepetition: 8,
  countStart: 9,
  countEnd: 10,
  biasStart: 11,
  biasEnd: 12,
  maskStart: 13, // in `masks`, or NO_MASK
  noiseLow: 14, // the row's NoiseKey
  noiseHigh: 15,
  topLogprobs: 16, // or NO_LOGPROBS
} as const
export const SAMPLING_WORDS = 20
export const NO_MASK = 0xffffffff

/** Words of a row of results. Logits are raw, and `settled`. What nobody asked for is left as it was. */
export const resultWord = {
  token: 0,
  isFinite: 1, // 0: there is no token
  logit: 2, // the token's
  most: 3, // the largest
  sumLow: 4, // of all shares, in units of 2^-40
  sumHigh: 5,
  topTokens: 8, // [MAX_TOP_LOGPROBS]
  topLogits: 28,
} as const
export const RESULT_WORDS = 48

/** Of a token that is not known yet; no vocabulary reaches so far. */
export const DRAWN = 0x80000000

/** Items of attention are counted and listed once for all layers that share them. */
export type ItemsName =
  `${"tokens" | "wanted"} g${number} w${number | "all"} s${number}${"" | " chunked"}${"" | " bidirectional" | " mutual" | " indexed" | ` cross ${number}`}`
/** Of attention's work: see attention-work.ts. */
export type CountName = "sequences" | `asked ${AskedName}` | `${WorkCount} ${ItemsName}`

/**
 * What some row of a step's sampling asks for: 1, else 0.
 *   listed     all rows that are drawn, and there are some, keep no more than MOST_LISTED tokens by top-k
 *   unlisted   they do not, or none is drawn; of what follows, the first three are asked for then alone
 *   raced      a row is drawn
 *   counted    by top-k
 *   weighed    by top-p
 *   described  log-probabilities
 */
export type AskedName = "listed" | "unlisted" | "raced" | "counted" | "weighed" | "described"
export const MOST_LISTED = 128

/** Of a sequence that begins. */
export const NO_STATE = 0xffffffff
