// What a step of a plan becomes: launches of kernels, whose operands are named by what they are. tape.ts says where each of
// them lies and how often a kernel runs; whoever writes kernels needs neither.

import type { CountName, ItemsName, Region } from "../../../runtime/gpu/regions.ts"
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
  /** What is counted to say how often the launches come again; absent: once. */
  repeats?: CountName
  launches: readonly Launch[]
}

/** Bytes of operands that every device takes. */
export const OPERAND_BYTES = 128

/** How many groups there are: a number, or as many as it takes to give each `per` rows of a set. */
export type Groups = number | { rows: RowSet; per: number } | { count: CountName; per: number }

/** What an operand stands for; a number is a word (a float's bits, for a word that is a float: `floatWord`). */
export type Binding =
  | number
  /** A column of a plan's buffer, whose rows lie `strideOf` elements apart: an address of its first row. */
  | { kind: "buffer"; buffer: BufferId; from: number }
  /** A part of a parameter as layout.ts lays it out. */
  | { kind: "weight"; parameter: ParameterId; part: string }
  /** The first of a layer's KV blocks, as kernels/kv.ts lays them out; elements of several types may lie in one. */
  | { kind: "kv"; place: Place }
  /** What a step brings or takes away: see runtime/gpu/step-block.ts. */
  | { kind: "step"; region: Region }
  /** A word: of launches that are repeated for each chunk of attention's work, the chunk's number. */
  | { kind: "chunk"; of: ItemsName }
  /** Memory between launches; those of one name share it, as much as the largest of them wants. */
  | { kind: "scratch"; name: string; bytes: ScratchBytes }

/** In all, for each token of the longest step, and for each of its logits rows. */
export interface ScratchBytes {
  fixed?: number
  perToken?: number
  perRow?: number
}

/** The bits of a float, as a word. */
export function floatWord(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!
}
