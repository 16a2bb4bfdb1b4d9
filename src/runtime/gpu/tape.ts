// What a GPU library holds: kernels, and a tape that says which of them run, how often and on what. It is data: program.ts
// plays it, and no shape is computed from anything else. The bytes of kernels are the target's own (SPIR-V, text).
//
//   | modules, one after the other | tape, JSON | length of the tape, 4 LE |     and all of that sealed as library.ts says

import type { Slice } from "../slices.ts"
import type { RowSet } from "../step-rows.ts"
import type { GpuTraits, KernelCode } from "./device.ts"
import type { CountName, Region } from "./regions.ts"
import { type TileShape, tileShapes } from "./tile-shapes.ts"

export interface Tape {
  /** The same kernels in other words; a device takes the first that is for it. The last is for all. */
  profiles: readonly Profile[]
  kernels: readonly KernelCode[]
  places: readonly PlaceSize[]
  /** What the parameters of a shard are of the manifest's; absent: those themselves, of one device. */
  slices?: readonly Slice[]
  /** How each of its own parameters comes to its place. */
  packs: readonly (readonly TapeLaunch[])[]
  /** Of each KV group, how blocks are copied. */
  copies: readonly (readonly TapeLaunch[])[]
  /** What a step brings. */
  regions: readonly Region[]
  /** What is counted of a step: with the counts, rounded up, launches are the same. */
  counts: readonly (RowSet | CountName)[]
  steps: readonly TapeStep[]
  /** Rows of floats that a step leaves behind. */
  logits: TapeRows
  hidden: TapeRows
}

export interface Profile {
  needs: readonly Need[]
  /** The modules are code of this architecture, in the words of its maker: "sm_90a", "gfx1100". Absent: whatever the kind takes. */
  architecture?: string
  /** Where the modules lie in the file. */
  modules: readonly { at: number; bytes: number }[]
}

/** What a device may have that makes kernels faster, never what they compute. */
export type Need = "dot4" | "fma" | "division" | "float64" | "matrix" | "overlap" | TileShape

/** The bytes of a place: so many at all, for each token, for each row of logits, and for each block of a KV group. */
export interface PlaceSize {
  name: string
  fixed: number
  perToken: number
  perRow: number
  perBlock?: { group: number; bytes: number }
}

/** One step of the plan, or several that became one, or the draw. */
export interface TapeStep {
  /** For people: the plan's lines. */
  text: readonly string[]
  /** The rows whose number chooses. */
  rows: RowSet
  /** Steps of how many tokens it is part of; absent: of all. Up to one it is "one token". */
  only?: "one token" | "more tokens"
  choices: readonly TapeChoice[]
  /**
   * Of a step without launches: where shards meet. Each row's columns of all of them, side by side, become the output; where
   * they are several equal pieces, each piece of all of them by itself.
   */
  gather?: { part: TapeRows; columns: number; pieces?: number; output: TapeRows }
}

export interface TapeChoice {
  /** Absent: any number of rows. */
  most?: number
  /** What is counted to say how often the launches come again, one after the other; absent: once. */
  repeats?: CountName
  launches: readonly TapeLaunch[]
}

export interface TapeLaunch {
  kernel: number
  operands: readonly TapeOperand[]
  groups: readonly [TapeGroups, TapeGroups, TapeGroups]
}

export type TapeOperand =
  | number
  | { place: number; at: number }
  | { region: number }
  /** Of a window of weights, or of pairs of blocks: what is handed over, and numbers that go with it. */
  | { given: "values" | "scales" | "pairs" }
  /** `chunk`: how often the launch has come before, in this step. */
  | { number: "row" | "rows" | "count" | "chunk" }

/** A number, or as many as it takes to give each `per` of something that is counted. */
export type TapeGroups =
  | number
  | { rows: RowSet; per: number }
  | { count: CountName; per: number }
  | { number: "rows" | "count"; per: number }

export interface TapeRows {
  place: number
  /** Bytes: of the first row, and from one to the next. */
  at: number
  stride: number
}

/**
 * The launches of a step, in order.
 * @param countOf how many of what the tape counts there are
 */
export function stepLaunches(
  steps: readonly TapeStep[],
  countOf: (of: RowSet | CountName) => number,
): { launch: TapeLaunch; chunk: number }[] {
  const tokens = countOf("tokens") > 1 ? "more tokens" : "one token"
  return steps.flatMap(({ rows, only = tokens, choices }) => {
    if (only !== tokens) return []
    const count = countOf(rows)
    const { launches, repeats } = choices.find(({ most }) => most === undefined || count <= most)!
    const times = repeats === undefined ? 1 : countOf(repeats)
    return Array.from({ length: times }, (_, chunk) =>
      launches.map((launch) => ({ launch, chunk })),
    ).flat()
  })
}

/** Of steps, in all their choices, of parameters' windows and of blocks' copies. */
export function everyLaunch({ steps, packs, copies }: Tape): TapeLaunch[] {
  const ofSteps = steps.flatMap(({ choices }) => choices.flatMap(({ launches }) => launches))
  return [...packs, ...copies].flat().concat(ofSteps)
}

/** How many groups a launch has along each axis; where one of them is 0, there is nothing to do. */
export function groupsOf(
  { groups }: TapeLaunch,
  countOf: (of: RowSet | CountName) => number,
  numbers: Partial<Record<"rows" | "count", number>> = {},
): [number, number, number] {
  const [x, y, z] = groups.map((each) => {
    if (typeof each === "number") return each
    if ("number" in each) return Math.ceil(numbers[each.number]! / each.per)
    return Math.ceil(countOf("rows" in each ? each.rows : each.count) / each.per)
  })
  return [x!, y!, z!]
}

/** The bytes of a library that is not sealed yet. */
export function writeTape(modules: readonly Uint8Array[], tape: Tape): Buffer {
  const json = Buffer.from(JSON.stringify(tape))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(json.length)
  return Buffer.concat([...modules, json, length])
}

/** The first profile whose needs a device meets, and whose code it runs. */
export function profileFor({ profiles }: Tape, traits: GpuTraits): Profile {
  const runs = ({ needs, architecture }: Profile) =>
    meets(traits, needs) &&
    (architecture === undefined || traits.architectures?.includes(architecture))
  return profiles.find(runs) ?? profiles.at(-1)!
}

export const meets = (traits: GpuTraits, needs: readonly Need[]) =>
  needs.every((need) => (isTileShape(need) ? traits.tiles.includes(need) : traits[need]))

export const isTileShape = (need: Need): need is TileShape =>
  (tileShapes as readonly Need[]).includes(need)
