// Softmaxes of an item's rows, a part of the span after the other, with scores, weights and sums of lanes in shared memory: whoever
// multiplies (`Products`) brings the scores there.

import { type Builder, type Elements, f32, larger, select, type Value } from "../ir/builder.ts"
import { DotProducts } from "./attend-dots.ts"
import { FloatProducts } from "./attend-floats.ts"
import { TileProducts } from "./attend-tiles.ts"
import {
  type AttendShape,
  finalScore,
  isIn,
  LANES,
  LOWEST,
  type Mixing,
  type Products,
  STEP,
  sightOf,
  type Taken,
  tilingOf,
  treeOf,
} from "./attention.ts"
import { scaleIndex } from "./kv.ts"
import { exp } from "./numbers.ts"

const productsBy = { floats: FloatProducts, dots: DotProducts, tiles: TileProducts } as const

export class PartSoftmaxes {
  readonly #k: Builder
  readonly #shape: AttendShape
  readonly #products: Products
  readonly #lanes: Elements
  readonly #largest: Elements // of a step's scores
  readonly #corrections: Elements
  readonly #totals: Elements // of a step's weights

  constructor(k: Builder, shape: AttendShape, products: keyof typeof productsBy) {
    const { queries, steps } = tilingOf(shape)
    this.#k = k
    this.#shape = shape
    this.#products = new productsBy[products](k, shape)
    this.#lanes = k.shared("lanes", "f32", queries * steps * LANES)
    this.#largest = k.shared("largest", "f32", queries * steps)
    this.#corrections = k.shared("corrections", "f32", queries * steps)
    this.#totals = k.shared("totals", "f32", queries * steps)
  }

  bringQueries(...how: Parameters<Products["bringQueries"]>): void {
    this.#products.bringQueries(...how)
  }

  mixes() {
    const mixes = this.#products.mixes()
    return {
      add: (taken: Taken) => this.#add(mixes, taken),
      each: (body: Parameters<Mixing["each"]>[0]) => {
        this.#k.barrier()
        mixes.each(body)
      },
    }
  }

  #add(mixes: Mixing, taken: Taken): void {
    const k = this.#k
    const shape = this.#shape
    const { layout, heads, span, products } = shape
    const { stored, scale, biasOf, from, sight, spotAt, spotOf, most, sums } = taken
    const { queries: count, steps } = tilingOf(shape)
    const isRounded = products !== "floats"
    const part = { stored, spotOf, scale, biasOf }
    for (const { q, isOwn, within, score } of this.#products.scores(part)) {
      const store = () =>
        this.#products.storeWeight(q, within, finalScore(k, shape, score, biasOf?.(q, within)))
      if (isOwn) k.if(isOwn, store)
      else store()
    }
    k.barrier()

    // The largest score of each step, first of each of its this.#lanes.
    const eachLane = (body: (i: Value, q: Value, withinAt: (j: number) => Value) => void) =>
      k.each(count * steps * LANES, (i) => {
        const q = k.let(i.div(steps * LANES))
        const at = k.let(i.div(LANES).rem(steps).mul(STEP).add(i.rem(LANES)))
        body(i, q, (j) => at.add(j * LANES))
      })
    eachLane((i, q, withinAt) => {
      const range = sightOf(sight, q.div(heads))
      let own = f32(LOWEST)
      for (let j = 0; j < STEP / LANES; j++) {
        const score = this.#products.loadWeight(q, withinAt(j))
        const isLarger = isIn(from.add(withinAt(j)), range).and(score.gt(own))
        own = k.let(select(isLarger, score, own))
      }
      this.#lanes.store(i, own)
    })
    k.barrier()
    k.each(count * steps, (i) => {
      let own = f32(LOWEST)
      for (let lane = 0; lane < LANES; lane++)
        own = k.let(larger(this.#lanes.load(i.mul(LANES).add(lane)), own))
      this.#largest.store(i, own)
    })
    k.barrier()

    // Weights, and their sums in each lane.
    eachLane((i, q, withinAt) => {
      const range = sightOf(sight, q.div(heads))
      const step = k.let(i.div(LANES).rem(steps))
      const before = k.variable(most.load(q))
      k.for(0, step, 1, (s) =>
        before.set(larger(this.#largest.load(q.mul(steps).add(s)), before.now)),
      )
      const now = k.let(larger(this.#largest.load(i.div(LANES)), before.now))
      k.if(i.rem(LANES).eq(0), () =>
        this.#corrections.store(i.div(LANES), exp(k, before.now.sub(now))),
      )
      let sum = f32(0)
      const own: Value[] = []
      for (let j = 0; j < STEP / LANES; j++) {
        const at = k.let(withinAt(j))
        const weight = k.variable(f32(0))
        // What is no number, or infinite, has a weight of none: in the sum it must show.
        const shown = k.variable(f32(0))
        k.if(isIn(from.add(withinAt(j)), range), () => {
          const score = this.#products.loadWeight(q, at)
          const power = exp(k, score.sub(now))
          shown.set(power.add(score.mul(0)))
          if (layout.kv === "q8") {
            const by = stored.load(scaleIndex(layout, "values", spotAt(withinAt(j)))).bits("f32")
            weight.set(power.mul(by))
          } else weight.set(power)
        })
        sum = k.let(sum.add(shown.now))
        this.#products.storeWeight(q, at, weight.now)
        own.push(weight.now)
      }
      this.#lanes.store(i, sum)
      this.#products.storeLargest(i, own)
    })
    k.barrier()
    k.each(count * steps, (i) => {
      const own = Array.from({ length: LANES }, (_, lane) =>
        this.#lanes.load(i.mul(LANES).add(lane)),
      )
      this.#totals.store(i, treeOf(k, own))
    })
    if (isRounded) {
      this.#products.roundWeights()
      k.barrier()
    }
    mixes.add({ ...taken, corrections: this.#corrections })
    // Totals have been waited for where weights are rounded; then no part but the next one overwrites what is mixed.
    if (!isRounded || steps * STEP < span) k.barrier()
    k.each(count, (q) => {
      const [sum, now] = [k.variable(sums.load(q)), k.variable(most.load(q))]
      for (let s = 0; s < steps; s++) {
        const at = q.mul(steps).add(s)
        sum.set(sum.now.mul(this.#corrections.load(at)).add(this.#totals.load(at)))
        now.set(larger(this.#largest.load(at), now.now))
      }
      sums.store(q, sum.now)
      most.store(q, now.now)
    })
  }
}
