// What kernels of attention have in common, whatever they multiply: what decides how they are written, which positions rows see,
// and how the work of an item is divided among threads.

import { type Builder, type Elements, f32, type Value, type Variable } from "../ir/builder.ts"
import { TILE } from "../ir/ir.ts"
import { type KvLayout, kvReads, type Spot } from "./kv.ts"
import { cap } from "./numbers.ts"

/** Positions whose weights are merged at once: from one multiple of this to the next. */
export const STEP = 64
export const LANES = 16
/** Below every score. */
export const LOWEST = Math.fround(-3.4e38)

/** Threads of a group that computes several rows. */
const ROWS_THREADS = 128
/** Where loads are wide, a thread has the positions of one lane, and there are so many sets of queries. */
const WIDE_PLACES = STEP / LANES
export const WIDE_SETS = ROWS_THREADS / LANES

/** What decides how the kernel is written; all else are words. */
export interface AttendShape {
  layout: KvLayout
  /** Who multiplies: floats, by loads of what a number takes or wide ones, or codes in dots of four or in tiles. */
  products: "floats" | "wide" | "dots" | "tiles"
  /** Numbers of a value. */
  values: number
  span: number
  set: "tokens" | "wanted"
  /** Rows of an item, at most, that are computed together; `alone`: no item has more. */
  rows: number
  alone: boolean
  /** Query heads to a kv head, and how many of them a group takes. */
  ratio: number
  heads: number
  cap: number | undefined
  sinks: boolean
  /** Of what rows would see they see what an indexer has chosen, of which there are so many columns; undefined: all of it. */
  chosen: number | undefined
  /** Heads have scores of what is not there. */
  sunk: boolean
  /** Of each head so many biases by distance; undefined: none. */
  distances: number | undefined
  /**
   * Biases are numbers of so many buckets, the same of all heads, and rows have what is added of each; undefined: they are added. Rows'
   * strides are of the kernel, as operands take 128 bytes at most.
   */
  relative: { buckets: number; strides: Record<"query" | "key", number> } | undefined
  /** Blocks at the beginning of every list that stay there, whatever is given back. */
  sinkBlocks: number
}

/** Positions that a row sees: first … last, and those before `kept`, of the sinks. */
export interface Range {
  first: Value
  last: Value
  kept: Value | undefined
  /** Whether a position is one of those that are chosen; absent: all are. */
  isChosen?: ((p: Value) => Value) | undefined
}

/** That of each row of an item; rows that are not there see nothing. */
export interface Sight {
  first: Elements
  last: Elements
  kept: Elements | undefined
  isChosen?: ((row: Value, p: Value) => Value) | undefined
}

export function sightOf({ first, last, kept, isChosen }: Sight, row: Value): Range {
  return {
    ...{ first: first.load(row), last: last.load(row), kept: kept?.load(row) },
    isChosen: isChosen && ((p) => isChosen(row, p)),
  }
}

export function isIn(p: Value, { first, last, kept, isChosen }: Range): Value {
  const near = p.ge(first).and(p.le(last))
  const within = kept ? near.or(p.lt(kept)) : near
  return isChosen ? within.and(isChosen(p)) : within
}

/** Whether some of `count` positions are in it, or all of them. */
export function overlaps(from: Value, count: number, { first, last, kept }: Range): Value {
  const near = from
    .add(count - 1)
    .ge(first)
    .and(from.le(last))
  return kept ? near.or(from.lt(kept)) : near
}

export function holds(from: Value, count: number, { first, last, kept }: Range): Value {
  const near = from.ge(first).and(from.add(count - 1).le(last))
  return kept ? near.or(from.add(count).le(kept)) : near
}

/** A scaled score as softmax takes it. */
export function finalScore(
  k: Builder,
  { cap: limit }: Pick<AttendShape, "cap">,
  score: Value,
  bias: Value | undefined,
): Value {
  const bent = limit === undefined ? score : cap(k, score, limit)
  return bias ? k.let(bent.add(bias)) : bent
}

/** How the work of an item is divided among threads. */
export interface Tiling {
  threads: number
  /** Tiles have always as many: those behind the last one are nobody's. */
  queries: number
  /** That are computed at once. */
  steps: number
  /** Each thread multiplies the keys of `places` positions, `slots` apart, with the queries of one of so many sets. */
  scores: { slots: number; places: number; sets: number }
  /**
   * Each thread mixes `places` units of columns, `slots` apart, for the queries of one of so many sets, `apart` from each other.
   */
  mixes: {
    holds: number
    units: number
    slots: number
    places: number
    sets: number
    perSet: number
    apart: number
  }
}

/** What decides how an item is divided. */
export type TilingShape = Pick<
  AttendShape,
  "layout" | "values" | "span" | "rows" | "heads" | "products"
>

export function tilingOf(shape: TilingShape): Tiling {
  const { layout, values, span, rows, heads, products } = shape
  const isWide = products === "wide"
  const [threads, steps, places] =
    rows === 1 ? [span, span / STEP, 1] : [ROWS_THREADS, 1, isWide ? WIDE_PLACES : 2]
  const queries =
    products === "tiles"
      ? TILE
      : isWide
        ? Math.ceil((rows * heads) / WIDE_SETS) * WIDE_SETS
        : rows * heads
  const slots = (steps * STEP) / places
  const holds = isWide ? layout.chunk : kvReads[layout.kv].holds
  const units = Math.ceil(values / holds)
  // About as many columns as queries, so that each number read is used as often as can be.
  const perThread = (queries * units) / threads
  const square = isWide ? 1 : 2 ** Math.floor(Math.log2(Math.max(1, perThread)) / 2)
  const unitPlaces = Math.max(Math.ceil(units / threads), Math.min(square, units))
  const unitSlots = Math.ceil(units / unitPlaces)
  const room = Math.min(queries, Math.floor(threads / unitSlots))
  const sets = isWide ? divisorOf(queries, room) : room
  const perSet = Math.ceil(queries / sets)
  return {
    threads,
    queries,
    steps,
    scores: { slots, places, sets: threads / slots },
    mixes: {
      holds,
      units,
      slots: unitSlots,
      places: unitPlaces,
      sets,
      perSet,
      // Sets of neighbours have nothing to do where rows are few.
      apart: isWide ? 1 : sets,
    },
  }
}

/** The largest up to `most`. */
function divisorOf(number: number, most: number): number {
  return number % most === 0 ? most : divisorOf(number, most - 1)
}

/** What differs by what is multiplied. A kernel's other steps, and its barriers, are attend.ts's. */
export interface Products {
  /** Of an item; there may be a barrier in it. @param columnOf a column of a query that is there */
  bringQueries(
    isThere: (q: Value) => Value,
    columnOf: (q: Value, column: Value) => Value,
    scale: Value,
  ): void
  /** Those of a part that are this thread's. */
  scores(part: Part): Score[]
  /** Scores of a part, by their query and position, and weights in their place. */
  loadWeight(q: Value, within: Value): Value
  storeWeight(q: Value, within: Value, value: Value): void
  /** Of the weights in lane `i` of those of all steps, how large the largest is. */
  storeLargest(i: Value, weights: readonly Value[]): void
  /** Makes of weights what values are multiplied with, where that is no float. */
  roundWeights(): void
  mixes(): Mixing
}

export interface Part {
  stored: Elements
  /** Where a position of the part lies; where none of the rows sees it, one that they see. */
  spotOf: (within: Value) => Spot
  scale: Value
  /** What is added to the score of a query for a position of the part; absent: nothing. */
  biasOf: ((q: Value, within: Value) => Value) | undefined
}

export interface Score {
  q: Value
  /** Whether it is this thread's; absent: it is. */
  isOwn: Value | undefined
  within: Value
  score: Value
}

/**
 * Which of so many slots and sets a thread has. Where loads are wide and these come out even, 32 threads have eight slots of four sets: those have
 * fewer numbers to read than sixteen of two.
 */
function placeOf(k: Builder, { products }: AttendShape, slots: number, sets: number) {
  const isEven = slots * sets === k.threads && slots % 8 === 0 && sets % 4 === 0
  if (products !== "wide" || !isEven) {
    const set = k.lane.div(slots)
    // Where there are more threads than that, some compute what others do.
    const own = slots * sets === k.threads ? set : set.rem(sets)
    return { slot: k.let(k.lane.rem(slots)), set: k.let(own) }
  }
  // Compilers that know how large a number may be add constants behind it in the load itself.
  const lane = k.let(k.lane.rem(k.threads))
  const [warp, across] = [lane.div(32), slots / 8]
  return {
    slot: k.let(warp.rem(across).mul(8).add(lane.rem(8))),
    set: k.let(warp.div(across).mul(4).add(lane.div(8).rem(4))),
  }
}

/** Positions and queries of a thread, where each position meets each query. */
export function squareOf(k: Builder, shape: AttendShape) {
  const { queries: count, scores } = tilingOf(shape)
  const { slots, places, sets } = scores
  const { slot, set } = placeOf(k, shape, slots, sets)
  const perSet = Math.ceil(count / sets)
  const isEven = count % sets === 0
  const queries = Array.from({ length: perSet }, (_, j) => {
    const q = set.mul(perSet).add(j)
    return isEven
      ? { q: k.let(q), isOwn: undefined }
      : { q: k.let(q.min(count - 1)), isOwn: q.lt(count) }
  })
  const withins = Array.from({ length: places }, (_, i) => k.let(slot.add(i * slots)))
  return { queries, withins }
}

/** What values are mixed with, and how steps change what was there. */
export interface Mixed extends Pick<Part, "stored" | "spotOf"> {
  corrections: Elements // [queries, steps]
  sight: Sight
  /** What some of the rows see, and what all of them do. */
  some: Range
  all: Range
  /** The first position of a block, and where that lies. */
  blockOf: (number: Value) => { from: Value; spot: Spot }
}

/** A part of a span, for whoever makes softmaxes of all of it. */
export interface Taken extends Part, Omit<Mixed, "corrections"> {
  /** The part's first position. */
  from: Value
  /** Up to which query there are rows. */
  end: Value
  /** Where a position of the part lies that somebody sees. */
  spotAt: (within: Value) => Spot
  /** [queries] the largest score until here, and the sum of the weights. */
  most: Elements
  sums: Elements
}

/** Sums of values times their weights, which threads keep from part to part. */
export interface Mixing {
  add(mixed: Mixed): void
  /** Hands out each sum, by its query and its column. */
  each(body: (q: Value, column: Value, sum: Value) => void): void
}

/** Sums of values times their weights, which a thread keeps from part to part: of some columns, in units as they are read, and queries. */
export class ColumnSums {
  readonly #k: Builder
  readonly #shape: AttendShape
  readonly #tiling: Tiling
  readonly units: readonly Value[]
  readonly queries: readonly { q: Value; isOwn: Value | undefined; sums: Variable[][] }[]
  readonly #isOwn: Value | undefined

  constructor(k: Builder, shape: AttendShape) {
    this.#k = k
    this.#shape = shape
    this.#tiling = tilingOf(shape)
    const { queries, threads, mixes } = this.#tiling
    const { holds, units, slots, places, sets, perSet, apart } = mixes
    // Where threads, columns or queries do not come out even, some are computed more than once, and written once.
    this.#isOwn = slots * sets === threads ? undefined : k.let(k.lane.lt(slots * sets))
    const { slot, set } = placeOf(k, shape, slots, sets)
    this.units = Array.from({ length: places }, (_, i) => {
      const unit = slot.add(i * slots)
      return k.let(slots * places === units ? unit : unit.min(units - 1))
    })
    this.queries = Array.from({ length: perSet }, (_, i) => {
      const q = k.let(set.mul(apart === 1 ? perSet : 1).add(i * apart))
      const isEven = sets * perSet === queries
      return {
        q: isEven ? q : k.let(q.min(queries - 1)),
        isOwn: isEven ? undefined : q.lt(queries),
        sums: Array.from({ length: places }, () =>
          Array.from({ length: holds }, () => k.variable(f32(0))),
        ),
      }
    })
  }

  /** Hands out each sum, by its query and its column. */
  each(body: (q: Value, column: Value, sum: Value) => void): void {
    const k = this.#k
    const { values: columns } = this.#shape
    const { holds, units, slots, places } = this.#tiling.mixes
    const all = () => {
      for (const { q, isOwn, sums } of this.queries) {
        const write = () => {
          for (const [u, own] of sums.entries())
            for (const [i, sum] of own.entries()) {
              const column = k.let(this.units[u]!.mul(holds).add(i))
              const isOnce =
                slots * places === units
                  ? undefined
                  : k.lane
                      .rem(slots)
                      .add(u * slots)
                      .lt(units)
              const isThere = units * holds === columns ? undefined : column.lt(columns)
              const conditions = [isOnce, isThere].filter((condition) => condition !== undefined)
              if (conditions.length === 0) body(q, column, sum.now)
              else
                k.if(
                  conditions.reduce((a, b) => a.and(b)),
                  () => body(q, column, sum.now),
                )
            }
        }
        if (isOwn) k.if(isOwn, write)
        else write()
      }
    }
    if (this.#isOwn) k.if(this.#isOwn, all)
    else all()
  }
}

/** The sum of sixteen lanes: lane i takes i + 8, then i + 4, i + 2, i + 1. */
export function treeOf(k: Builder, lanes: readonly Value[]): Value {
  if (lanes.length === 1) return lanes[0]!
  const half = lanes.length / 2
  return treeOf(
    k,
    lanes.slice(0, half).map((lane, i) => k.let(lane.add(lanes[i + half]!))),
  )
}
