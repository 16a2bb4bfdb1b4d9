// Products of floats in attention: of queries with keys, and of weights with values, position after position. Whatever a cache
// holds becomes floats on its way.

import { BLOCK } from "../../../../runtime/program.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  type Operable,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import {
  type AttendShape,
  ColumnSums,
  holds,
  isIn,
  type Mixed,
  type Mixing,
  overlaps,
  type Part,
  type Products,
  type Score,
  STEP,
  sightOf,
  squareOf,
  tilingOf,
} from "./attention.ts"
import { type KvLayout, keyChunkIndex, readChunk, readValue, type Spot, scaleIndex } from "./kv.ts"

/** Numbers of a key that a thread has under way at once, a multiple of every chunk. */
const READ_AT_ONCE = 32

export class FloatProducts implements Products {
  readonly #k: Builder
  readonly #shape: AttendShape
  readonly #queries: Elements // [queries, columns]
  readonly #weights: Elements // [queries, positions of a part]

  constructor(k: Builder, shape: AttendShape) {
    const { queries, steps } = tilingOf(shape)
    this.#k = k
    this.#shape = shape
    this.#queries = k.shared("queries", "f32", queries * shape.layout.headDim.key)
    this.#weights = k.shared("weights", "f32", queries * steps * STEP)
  }

  bringQueries(isThere: (q: Value) => Value, columnOf: (q: Value, column: Value) => Value): void {
    const k = this.#k
    const columns = this.#shape.layout.headDim.key
    k.each(tilingOf(this.#shape).queries * columns, (i) => {
      const q = k.let(i.div(columns))
      k.if(
        isThere(q),
        () => this.#queries.store(i, columnOf(q, i.rem(columns))),
        () => this.#queries.store(i, 0),
      )
    })
  }

  scores({ stored, spotOf, scale }: Part): Score[] {
    const k = this.#k
    const { layout } = this.#shape
    const own = squareOf(k, this.#shape)
    const spots = own.withins.map(spotOf)
    const products = productsOf(k, layout, {
      stored,
      spots,
      queries: this.#queries,
      from: own.queries.map(({ q }) => k.let(q.mul(layout.headDim.key))),
    })
    return spots.flatMap((spot, i) => {
      const by =
        layout.kv === "q8" ? stored.load(scaleIndex(layout, "keys", spot)).bits("f32") : undefined
      return own.queries.map(({ q, isOwn }, j) => {
        const product = products[i]![j]!.now
        const score = k.let((by ? product.mul(by) : product).mul(scale))
        return { q, isOwn, within: own.withins[i]!, score }
      })
    })
  }

  loadWeight(q: Value, within: Value): Value {
    return this.#weights.load(this.#at(q, within))
  }

  storeWeight(q: Value, within: Value, value: Value): void {
    this.#weights.store(this.#at(q, within), value)
  }

  storeLargest(): void {}

  roundWeights(): void {}

  mixes(): Mixing {
    const [k, shape] = [this.#k, this.#shape]
    const own = new ColumnSums(k, shape)
    return {
      add: (mixed) => addSteps(k, shape, own, this.#weights, mixed),
      each: (body) => own.each(body),
    }
  }

  #at(q: Value, within: Value): Value {
    return q.mul(tilingOf(this.#shape).steps * STEP).add(within)
  }
}

/** What keys of some positions are multiplied with: where queries begin in a shared array. */
interface Factors {
  stored: Elements
  spots: readonly Spot[]
  queries: Elements
  from: readonly Value[]
}

/** The products of each position's key with each query: each is one sum, in the order of the columns. */
function productsOf(
  k: Builder,
  layout: KvLayout,
  { stored, spots, queries, from }: Factors,
): Variable[][] {
  const { chunk, headDim } = layout
  const sums = spots.map(() => from.map(() => k.variable(f32(0))))
  const firsts = spots.map((spot) => k.let(keyChunkIndex(layout, spot, 0)))
  const add = (number: Value, counts: readonly number[]) => {
    const keys = firsts.map((first) =>
      counts.map((count, i) =>
        readChunk(layout, stored, k.let(first.add(number.add(i).mul(BLOCK))), count),
      ),
    )
    const column = k.let(number.mul(chunk))
    for (const [i, count] of counts.entries())
      for (let j = 0; j < count; j++) {
        const key = keys.map((chunks) => k.let(chunks[i]![j]!))
        for (const [n, begin] of from.entries()) {
          const q = queries.load(begin.add(column).add(i * chunk + j))
          for (const [s, own] of key.entries()) {
            const sum = sums[s]![n]!
            sum.set(fma(q, own, sum.now))
          }
        }
      }
  }
  // Several loads are under way at a time.
  const atOnce = READ_AT_ONCE / chunk
  const whole = Math.floor(headDim.key / READ_AT_ONCE) * atOnce
  if (whole > 0) k.for(0, whole, atOnce, (number) => add(number, Array<number>(atOnce).fill(chunk)))
  const rest = headDim.key - whole * chunk
  const counts = Array.from({ length: Math.ceil(rest / chunk) }, (_, i) =>
    Math.min(chunk, rest - i * chunk),
  )
  if (rest > 0) add(u32(whole), counts)
  return sums
}

/** Adds steps, position after position. */
function addSteps(
  k: Builder,
  shape: AttendShape,
  own: ColumnSums,
  weights: Elements,
  { stored, corrections, sight, some, all, blockOf }: Mixed,
): void {
  const { layout, rows, heads, chosen } = shape
  const { steps } = tilingOf(shape)
  // What one row sees is then all that some do.
  const isOne = rows === 1 && chosen === undefined
  k.for(0, steps, 1, (step) => {
    for (const { q, sums } of own.queries) {
      const correction = corrections.load(q.mul(steps).add(step))
      for (const sum of sums.flat()) sum.set(sum.now.mul(correction))
    }
    k.for(0, STEP / BLOCK, 1, (blockOfStep) => {
      const number = k.let(step.mul(STEP / BLOCK).add(blockOfStep))
      const { from, spot } = blockOf(number)
      const readAt = (position: Operable) =>
        own.units.map((unit) => readValue(layout, stored, { ...spot, position }, unit))
      const add = (position: Operable, values: readonly Value[][], isAll: boolean) => {
        const read = values.map((numbers) => numbers.map((number) => k.let(number)))
        for (const { q, sums } of own.queries) {
          const weight = weights.load(
            q
              .mul(steps * STEP)
              .add(number.mul(BLOCK))
              .add(position),
          )
          const isSeen = isAll
            ? undefined
            : k.let(isIn(from.add(position), sightOf(sight, q.div(heads))))
          for (const [u, columns] of sums.entries())
            for (const [i, sum] of columns.entries()) {
              const next = fma(weight, read[u]![i]!, sum.now)
              sum.set(isSeen ? select(isSeen, next, sum.now) : next)
            }
        }
      }
      const atOnce = Math.max(1, Math.floor(BLOCK / own.units.length))
      /** Many values are under way before the first of them is waited for. */
      const ahead = (
        place: (i: number) => Operable,
        add: (i: number, values: readonly Value[][]) => void,
      ) => {
        for (let first = 0; first < BLOCK; first += atOnce) {
          const numbers = Array.from(
            { length: Math.min(atOnce, BLOCK - first) },
            (_, i) => first + i,
          )
          const values = numbers.map((i) => readAt(place(i)))
          for (const [i, number] of numbers.entries()) add(number, values[i]!)
        }
      }
      k.if(
        holds(from, BLOCK, all),
        () =>
          ahead(
            (i) => i,
            (i, values) => add(i, values, true),
          ),
        () =>
          k.if(overlaps(from, BLOCK, some), () => {
            // In the place of a value that nobody sees is one that somebody does, and that nobody adds.
            const near = from.max(some.first).sub(from)
            const seen = k.let(some.kept ? select(from.lt(some.kept), u32(0), near) : near)
            const isSeen = (i: number) => isIn(from.add(i), some)
            ahead(
              (i) => k.let(select(isSeen(i), u32(i), seen)),
              (i, values) => k.if(isSeen(i), () => add(i, values, isOne)),
            )
          }),
      )
    })
  })
}
