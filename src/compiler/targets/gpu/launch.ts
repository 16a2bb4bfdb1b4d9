// What a step of a plan becomes: launches of kernels, whose operands are named by what they are. tape.ts says where each of
// them lies and how often a kernel runs; whoever writes kernels needs neither.

import type { RowSet } from "../../../runtime/step-rows.ts"
import type { BufferId, ParameterId, Place } from "../../plan.ts"
import type { Kernel } from "./ir/ir.ts"

/** One kernel of a step. Steps may need several, one after the other. */
export interface Launch {
  kernel: Kernel
  /** In the order of the kernel's own. */
  operands: readonly Binding[]
  groups: readonly [Groups, Groups, Groups]
}

/**
 * Launches of one arithmetic among which the number of rows chooses: the first whose `most` is not below it. The last has
 * none.
 */
export interface Choice {
  most: number | undefined
  launches: readonly Launch[]
}

/** How many groups there are: a number, or as many as it takes to give each `per` rows of a set. */
export type Groups = number | { rows: RowSet; per: number } | { count: CountName; per: number }

/** What an operand stands for; a number is a word (a float's bits, for a word that is a float: `floatWord`). */
export type Binding =
  | number
  /** A column of a plan's buffer, whose rows lie `strideOf` elements apart: an address of its first row. */
  | { kind: "buffer"; buffer: BufferId; from: number }
  /** A part of a parameter as layout.ts lays it out. */
  | { kind: "weight"; parameter: ParameterId; part: string }
  /** A layer's part of the KV blocks of its group, as kernels/kv.ts lays them out. */
  | { kind: "kv"; place: Place; part: string }
  /** What a step brings or takes away: see step-block.ts. */
  | { kind: "step"; region: Region }
  /** Memory between launches; those of one name share it, as much as the largest of them wants. */
  | { kind: "scratch"; name: string; bytes: ScratchBytes }

/** In all, for each token of the longest step, and for each of its logits rows. */
export interface ScratchBytes {
  fixed?: number
  perToken?: number
  perRow?: number
}

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
  /** [S] of each sequence, where its list of a group's blocks begins in `blocks`. */
  | { name: "listStarts"; group: number }
  /** [S] of each sequence, the first position of a group's that is kept, but for the sinks. */
  | { name: "visibleFrom"; group: number }
  | { name: "blocks" }
  /** [items, 4] the work of attention, as StepRows.attentionItems has it. */
  | { name: "items"; of: ItemsName }
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
export type CountName = `items ${ItemsName}` | `rows ${ItemsName}`

/** The bits of a float, as a word. */
export function floatWord(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!
}
