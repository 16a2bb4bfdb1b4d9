// Whole numbers in attention, where keys and values are codes of 8 bits: plan.ts says which (`AttentionArithmetic`). Queries, and
// weights step by step, become codes of 16 bits in shared memory, whose bytes are multiplied with those of the cache: by dots of
// four (attend-dots.ts) or in tiles (attend-tiles.ts). All of a sum is exact, so both have the same bits.

import { WIDE_MOST } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  type Operable,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import {
  type AttendShape,
  LANES,
  type Mixing,
  type Part,
  type Products,
  type Score,
  STEP,
  tilingOf,
} from "./attention.ts"
import { coding, sizeBits, wideWords } from "./codes.ts"

/** Words of a chunk, and of its codes' upper bytes in a query. */
export const CHUNK_WORDS = 4
const STEP_WORDS = STEP / 4

/** How codes lie in shared memory, in words from one query to the next: tiles are read by rows, which belong into different banks. */
function codeStrides({ layout, products }: Pick<AttendShape, "layout" | "products">) {
  const isTiles = products === "tiles"
  const chunks = layout.keyWidth / layout.chunk
  const words = CHUNK_WORDS * (isTiles ? 2 * Math.ceil(chunks / 2) : chunks)
  return { words, query: 2 * words + (isTiles ? 4 : 0), step: STEP + (isTiles ? 1 : 0) }
}

/** Words of shared memory that a query takes for its codes, and for its weights in so many steps. */
export function codeWords(shape: Pick<AttendShape, "layout" | "products">, steps: number): number {
  const { query, step } = codeStrides(shape)
  return query + 1 + steps * (step + LANES + 1)
}

/** Queries and weights of a group of threads. */
export abstract class CodeProducts implements Products {
  protected readonly k: Builder
  protected readonly shape: AttendShape
  readonly #columns: number
  readonly #count: number
  readonly #steps: number
  readonly #sizes: Elements // [queries, steps, lanes] the bits of the largest size in each
  /** Words of either half of a query. */
  readonly words: number
  /** [queries, halves, words], `queryStride` apart: all upper bytes, then all lower ones. */
  readonly queries: Elements
  readonly queryStride: number
  /** [queries] With the attention's own. */
  readonly queryScales: Elements
  /**
   * [queries, steps, positions], steps `stepStride` apart: scores, and then weights, as bits of floats. Of four weights that have
   * become codes, the first place has the upper bytes and the second the lower ones.
   */
  readonly #weights: Elements
  readonly stepStride: number
  readonly weightScales: Elements // [queries, steps]

  constructor(k: Builder, shape: AttendShape) {
    const { queries: count, steps } = tilingOf(shape)
    const { words, query, step } = codeStrides(shape)
    this.k = k
    this.shape = shape
    this.#columns = shape.layout.headDim.key
    this.#count = count
    this.#steps = steps
    this.#sizes = k.shared("sizes", "u32", count * steps * LANES)
    this.words = words
    this.queries = k.shared("queries", "u32", count * query)
    this.queryStride = query
    this.queryScales = k.shared("queryScales", "f32", count)
    this.#weights = k.shared("weights", "u32", count * steps * step)
    this.stepStride = step
    this.weightScales = k.shared("weightScales", "f32", count * steps)
  }

  bringQueries(
    isThere: (q: Value) => Value,
    columnOf: (q: Value, column: Value) => Value,
    scale: Value,
  ): void {
    const k = this.k
    const columns = this.#columns
    // In place of a query that is not there, another is read, and made 0.
    const number = (q: Value, column: Value) => {
      const isIn = k.let(isThere(q))
      return select(isIn, columnOf(select(isIn, q, 0), column), 0)
    }
    k.each(this.#count * LANES, (i) => {
      const q = k.let(i.div(LANES))
      const own = k.variable(u32(0))
      k.for(i.rem(LANES), columns, LANES, (column) =>
        own.set(own.now.max(sizeBits(number(q, column)))),
      )
      this.#sizes.store(i, own.now)
    })
    k.barrier()
    k.each(this.#count * this.words, (i) => {
      const [q, word] = [k.let(i.div(this.words)), k.let(i.rem(this.words))]
      const four = [0, 1, 2, 3].map((j) => {
        const column = k.let(word.mul(4).add(j))
        if (4 * this.words === columns) return k.let(number(q, column))
        return k.let(select(column.lt(columns), number(q, column.min(columns - 1)), 0))
      })
      const made = this.#coded(q, four)
      const at = k.let(q.mul(this.queryStride).add(word))
      this.queries.store(at, made.upper)
      this.queries.store(at.add(this.words), made.lower)
      k.if(word.eq(0), () => this.queryScales.store(q, made.scale.mul(scale)))
    })
  }

  loadWeight(q: Value, within: Value): Value {
    return this.#weights.load(this.#at(q, within)).bits("f32")
  }

  storeWeight(q: Value, within: Value, value: Value): void {
    this.#weights.store(this.#at(q, within), value.bits("u32"))
  }

  storeLargest(i: Value, weights: readonly Value[]): void {
    this.#sizes.store(
      i,
      weights.map(sizeBits).reduce((a, b) => a.max(b)),
    )
  }

  /** Weights of the part become codes, each four where they were. */
  roundWeights(): void {
    const k = this.k
    k.each(this.#count * this.#steps * STEP_WORDS, (i) => {
      const [step, word] = [k.let(i.div(STEP_WORDS)), k.let(i.rem(STEP_WORDS))]
      const at = k.let(step.mul(this.stepStride).add(word.mul(4)))
      const four = Array.from({ length: 4 }, (_, j) => this.#weights.load(at.add(j)).bits("f32"))
      const made = this.#coded(step, four)
      this.#weights.store(at, made.upper)
      this.#weights.store(at.add(1), made.lower)
      k.if(word.eq(0), () => this.weightScales.store(step, made.scale))
    })
  }

  abstract scores(part: Part): Score[]

  abstract mixes(): Mixing

  /** Codes of the weights of four positions, the first of them `within` the step: upper or lower bytes. */
  loadCodes(step: Value, within: Operable, half: 0 | 1): Value {
    return this.#weights.load(step.mul(this.stepStride).add(within).add(half))
  }

  #at(q: Value, within: Value): Value {
    return q.mul(this.#steps * this.stepStride).add(within)
  }

  /** @param number of the query, or of its step, whose lanes know the largest */
  #coded(number: Value, four: readonly Value[]): { upper: Value; lower: Value; scale: Value } {
    const k = this.k
    let largest = u32(0)
    for (let lane = 0; lane < LANES; lane++)
      largest = k.let(largest.max(this.#sizes.load(number.mul(LANES).add(lane))))
    const { scale, wideCode, isSound } = coding(k, largest, WIDE_MOST)
    const codes = four.map((x) => k.let(select(isSound, wideCode(x), 128)))
    const { upper, lower } = wideWords(k, codes, 1)
    return { upper: upper[0]!, lower: lower[0]!, scale }
  }
}

/** What upper and lower bytes come to together, exactly; then the nearest float. */
export const sumOfHalves = (upper: Value, lower: Value) => upper.shl(8).add(lower).float()
