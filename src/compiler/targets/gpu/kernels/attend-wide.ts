// Attention of several rows in floats where a group has much shared memory and loads are of 16 bytes: on CUDA. Each thread
// multiplies the keys of four positions with several queries, and mixes 16 bytes of columns for several queries, so that it
// multiplies a dozen times and more for each load. What it holds of a query's scores are just those of a lane (attention.ts), so
// they stay in registers until they are weights; of a step only the largest score and the sum go through shared memory.
//
// Rows in shared arrays are some numbers longer than what they hold: threads that read at once then find it in other banks.

import { BLOCK } from "../../../../runtime/program.ts"
import { type Builder, type Elements, f32, fma, larger, select, type Value } from "../ir/builder.ts"
import {
  type AttendShape,
  ColumnSums,
  finalScore,
  holds,
  isIn,
  LANES,
  LOWEST,
  type Mixing,
  overlaps,
  STEP,
  sightOf,
  squareOf,
  type Taken,
  tilingOf,
  treeOf,
} from "./attention.ts"
import { type KvLayout, keyChunkIndex, readWhole, valueChunkIndex } from "./kv.ts"
import { exp, expBelow } from "./numbers.ts"

/** Positions whose values a thread has under way at once. */
const POSITIONS = 8
/** In place of a score that takes no part: so far below any largest one that its weight is 0. */
const UNSEEN = -(2 - 2 ** -23) * 2 ** 127
/** What shared rows are longer by: a load of 16 bytes. */
const APART = 4

/** Whether keys and values can be read so. */
export function readsWide({ kv, headDim, chunk }: KvLayout): boolean {
  const { key, value } = headDim
  return kv !== "q8" && value > 0 && key >= value && key % chunk === 0 && value % chunk === 0
}

/** Words of shared memory for a query: itself, its weights, what lanes have of a step, and what is known of the step. */
export const wideWords = ({ headDim }: KvLayout) =>
  rowOf(headDim.key) + rowOf(STEP) + 2 * rowOf(LANES) + 2

const rowOf = (numbers: number) => numbers + APART

export class WideSoftmaxes {
  readonly #k: Builder
  readonly #shape: AttendShape
  readonly #count: number
  readonly #queries: Elements // [queries, columns], and at last what is mixed
  readonly #weights: Elements // [queries, positions]
  readonly #tops: Elements // [queries, lanes] the largest score of each lane
  readonly #lanes: Elements // [queries, lanes] sums of weights
  readonly #largest: Elements // of all scores until here
  readonly #corrections: Elements

  constructor(k: Builder, shape: AttendShape) {
    const count = tilingOf(shape).queries
    this.#k = k
    this.#shape = shape
    this.#count = count
    this.#queries = k.shared("queries", "f32", count * rowOf(shape.layout.headDim.key))
    this.#weights = k.shared("weights", "f32", count * rowOf(STEP))
    this.#tops = k.shared("tops", "f32", count * rowOf(LANES))
    this.#lanes = k.shared("lanes", "f32", count * rowOf(LANES))
    this.#largest = k.shared("largest", "f32", count)
    this.#corrections = k.shared("corrections", "f32", count)
  }

  bringQueries(isThere: (q: Value) => Value, columnOf: (q: Value, column: Value) => Value): void {
    const k = this.#k
    const columns = this.#shape.layout.headDim.key
    k.each(this.#count * columns, (i) => {
      const [q, column] = [k.let(i.div(columns)), k.let(i.rem(columns))]
      const at = k.let(q.mul(rowOf(columns)).add(column))
      k.if(
        isThere(q),
        () => this.#queries.store(at, columnOf(q, column)),
        () => this.#queries.store(at, 0),
      )
    })
  }

  mixes() {
    const columns = new ColumnSums(this.#k, this.#shape)
    return {
      add: (step: Taken) => this.#addStep(columns, step),
      each: (body: Parameters<Mixing["each"]>[0]) => this.#each(columns, body),
    }
  }

  /** With three barriers in it, it needs none before or behind it. */
  #addStep(columns: ColumnSums, step: Taken): void {
    const k = this.#k
    const { sight, from, most, sums } = step
    const { queries, withins } = squareOf(k, this.#shape)
    const [first, lane] = [queries[0]!.q, withins[0]!]
    // Where they lie of the thread's first query; the others are so many rows on.
    const ownLanes = k.let(first.mul(rowOf(LANES)).add(lane))
    const ownWeights = k.let(first.mul(rowOf(STEP)).add(lane))
    const positions = withins.map((within) => k.let(from.add(within)))
    const scores = this.#scores(
      queries.map(({ q }) => q),
      withins,
      step,
    )

    const shown = queries.map(({ q }, n) => {
      const range = sightOf(sight, q.div(this.#shape.heads))
      let own = f32(LOWEST)
      const ofQuery = positions.map((position, i) => {
        const score = k.let(select(isIn(position, range), scores[i]![n]!, UNSEEN))
        own = k.let(larger(score, own))
        return score
      })
      this.#tops.store(ownLanes.add(n * rowOf(LANES)), own)
      return ofQuery
    })
    k.barrier()
    k.each(this.#count, (q) => {
      let own = f32(LOWEST)
      for (const top of this.#lanesOf(this.#tops, q)) own = k.let(larger(top, own))
      const before = most.load(q)
      const now = k.let(larger(own, before))
      most.store(q, now)
      this.#largest.store(q, now)
      this.#corrections.store(q, exp(k, before.sub(now)))
    })
    k.barrier()

    for (const [n, scores] of shown.entries()) {
      const now = this.#largest.load(first.add(n))
      let sum = f32(0)
      for (const [i, score] of scores.entries()) {
        const power = expBelow(k, score.sub(now))
        // What is no number, or infinite, has a weight of none: in the sum it must show.
        sum = k.let(sum.add(fma(score, 0, power)))
        this.#weights.store(ownWeights.add(n * rowOf(STEP) + i * LANES), power)
      }
      this.#lanes.store(ownLanes.add(n * rowOf(LANES)), sum)
    }
    k.barrier()
    k.each(this.#count, (q) => {
      const total = treeOf(k, this.#lanesOf(this.#lanes, q))
      sums.store(q, sums.load(q).mul(this.#corrections.load(q)).add(total))
    })
    this.#addValues(columns, step)
  }

  /** Hands out what is mixed, neighbours to neighbouring threads. */
  #each(columns: ColumnSums, body: Parameters<Mixing["each"]>[0]): void {
    const k = this.#k
    const { values, layout } = this.#shape
    const stride = rowOf(layout.headDim.key)
    columns.each((q, column, sum) => this.#queries.store(q.mul(stride).add(column), sum))
    k.barrier()
    k.each(this.#count * values, (i) => {
      const [q, column] = [k.let(i.div(values)), k.let(i.rem(values))]
      body(q, column, this.#queries.load(q.mul(stride).add(column)))
    })
  }

  #lanesOf(lanes: Elements, q: Value): Value[] {
    return this.#rowsOf(lanes, q.mul(rowOf(LANES)), rowOf(LANES))(0, LANES)
  }

  /** Neighbours in row after row of a shared array, all these numbers multiples of four. One address does for all of them. */
  #rowsOf(elements: Elements, from: Value, stride: number) {
    const four = this.#k.let(from.div(4))
    return (row: number, count: number): Value[] =>
      Array.from({ length: count / 4 }, (_, i) =>
        elements.loadFour(four.add((row * stride) / 4 + i)),
      ).flat()
  }

  /** [positions][queries] each is one sum, in the order of the columns. */
  #scores(
    queries: readonly Value[],
    withins: readonly Value[],
    { stored, spotOf, scale, biasOf, end }: Taken,
  ): Value[][] {
    const k = this.#k
    const { layout } = this.#shape
    const { chunk, headDim } = layout
    const sums = withins.map(() => queries.map(() => k.variable(f32(0))))
    const firsts = withins.map((within) => k.let(keyChunkIndex(layout, spotOf(within), 0)))
    const stride = rowOf(headDim.key)
    const begin = k.let(queries[0]!.mul(stride))
    const add = (number: Value) => {
      const keys = firsts.map((first) =>
        readWhole(layout, stored, first.add(number.mul(BLOCK))).map((key) => k.let(key)),
      )
      const rows = this.#rowsOf(this.#queries, begin.add(number.mul(chunk)), stride)
      for (const n of queries.keys())
        for (const [i, query] of rows(n, chunk).entries())
          for (const [s, key] of keys.entries()) {
            const sum = sums[s]![n]!
            sum.set(fma(query, key[i]!, sum.now))
          }
    }
    k.if(queries[0]!.lt(end), () => k.for(0, headDim.key / chunk, 1, add))
    return sums.map((ofPosition, i) =>
      ofPosition.map((sum, n) => {
        const score = k.let(sum.now.mul(scale))
        return finalScore(k, this.#shape, score, biasOf?.(queries[n]!, withins[i]!))
      }),
    )
  }

  /** Position after position. */
  #addValues(own: ColumnSums, { stored, sight, some, all, blockOf, end }: Taken): void {
    const k = this.#k
    const { layout, heads } = this.#shape
    for (const { q, sums } of own.queries) {
      const correction = this.#corrections.load(q)
      for (const sum of sums.flat()) sum.set(sum.now.mul(correction))
    }
    const firstQuery = own.queries[0]!.q
    const addBlock = (number: Value) => {
      const { from, spot } = blockOf(number)
      const valuesAt = (position: Value) =>
        own.units.map((unit) =>
          readWhole(layout, stored, valueChunkIndex(layout, { ...spot, position }, unit)).map(
            (value) => k.let(value),
          ),
        )
      const weightFrom = (q: Value, position: Value) =>
        q.mul(rowOf(STEP)).add(number.mul(BLOCK)).add(position)
      k.if(
        holds(from, BLOCK, all),
        () =>
          k.for(0, BLOCK, POSITIONS, (first) => {
            const positions = Array.from({ length: POSITIONS }, (_, i) => first.add(i))
            const values = positions.map(valuesAt)
            const rows = this.#rowsOf(this.#weights, weightFrom(firstQuery, first), rowOf(STEP))
            for (const [n, { sums }] of own.queries.entries()) {
              for (const [p, weight] of rows(n, POSITIONS).entries())
                for (const [u, columns] of sums.entries())
                  for (const [i, sum] of columns.entries())
                    sum.set(fma(weight, values[p]![u]![i]!, sum.now))
            }
          }),
        () =>
          k.if(overlaps(from, BLOCK, some), () =>
            k.for(0, BLOCK, 1, (within) => {
              const position = k.let(from.add(within))
              k.if(isIn(position, some), () => {
                const values = valuesAt(within)
                for (const { q, sums } of own.queries) {
                  const weight = this.#weights.load(weightFrom(q, within))
                  const isSeen = k.let(isIn(position, sightOf(sight, q.div(heads))))
                  for (const [u, columns] of sums.entries())
                    for (const [i, sum] of columns.entries())
                      sum.set(select(isSeen, fma(weight, values[u]![i]!, sum.now), sum.now))
                }
              })
            }),
          ),
      )
    }
    k.if(firstQuery.lt(end), () => k.for(0, STEP / BLOCK, 1, addBlock))
  }
}
