// Which experts a row goes to, and how much each counts, as `route` of the reference has it (kernels.ts there). An expert is a
// thread's. It is chosen where fewer than `active` others come before it, which each thread counts for itself; sums are
// added in the order of experts, by every thread.

import type { Routing } from "../../../graph/graph.ts"
import {
  type Builder,
  type Elements,
  f32,
  type Operable,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import { exp, sigmoid } from "./numbers.ts"

const LOWEST = Math.fround(-3.4e38)
const INFINITY = 0x7f800000 // as bits
const NAN = 0x7fc00000

/** A row of a group of threads, all of which come to `route`. */
export interface RoutedRow {
  experts: number
  /** The logit of each, and what is added to scores before they are compared. */
  load: (expert: Value) => Value
  bias: ((expert: Value) => Value) | undefined
  /** What an expert's weight is multiplied with once more. */
  factor?: ((expert: Value) => Value) | undefined
  /** Absent: nobody is told weights. */
  store: ((expert: Value, weight: Operable) => void) | undefined
  /** Where its pairs go, if whoever reads them is told of no other weights. */
  pairs: RowPairs | undefined
  /** Writes what is done where there is a row; with no barrier in it. */
  ifThere: (write: () => void) => void
}

/** A row's pairs: as many as it can have. */
export interface RowPairs {
  active: number
  store: (place: Value, expert: Operable, share: Operable) => void
}

/** In place of an expert, where a row has fewer than it can have. */
export const NONE = 0xffffffff

/** Of a row, the experts that count, in their order. */
export function storePairs(
  k: Builder,
  count: number,
  shareOf: (expert: Value) => Value,
  { active, store }: RowPairs,
): void {
  const before = (end: Value) => {
    const chosen = k.variable(u32(0))
    k.for(0, end, 1, (other) => chosen.set(chosen.now.add(select(shareOf(other).ne(0), u32(1), 0))))
    return k.let(chosen.now)
  }
  k.each(count, (expert) => {
    const share = shareOf(expert)
    const place = before(expert)
    k.if(share.ne(0).and(place.lt(active)), () => store(place, expert, share))
  })
  // A row that counts an expert as nothing has fewer.
  k.if(k.lane.eq(0), () => k.for(before(u32(count)), active, 1, (place) => store(place, NONE, 0)))
}

export function route(k: Builder, routing: Routing, row: RoutedRow): void {
  const { experts, ifThere } = row
  const array = (name: string) => k.shared(name, "f32", experts)
  const scores = array("scores")
  // Without a bias logits are compared.
  const logits = array("logits")
  const compared = row.bias ? array("compared") : logits
  ifThere(() => k.each(experts, (i) => logits.store(i, row.load(i))))
  k.barrier()
  scoreRow(k, routing, row, logits, scores)
  k.barrier()
  const { bias } = row
  if (bias) {
    const raised = routing.biased === "logits" ? logits : scores
    ifThere(() => k.each(experts, (i) => compared.store(i, raised.load(i).add(bias(i)))))
    k.barrier()
  }
  const isOpen = openGroups(k, routing, row, compared)
  const chosen = k.shared("chosen", "u32", experts)
  ifThere(() =>
    k.each(experts, (i) => {
      const ahead = aheadOf(k, compared, experts, i, isOpen)
      const isChosen = ahead.lt(routing.active)
      chosen.store(i, select(isOpen ? isOpen(i).and(isChosen) : isChosen, u32(1), 0))
    }),
  )
  k.barrier()
  ifThere(() => {
    const whole = routing.normalized
      ? k.let(sumOf(k, experts, scores, chosen).add(f32(Math.fround(1e-20))))
      : undefined
    k.each(experts, (i) => {
      const score = scores.load(i)
      const weight = (whole ? score.div(whole) : score).mul(Math.fround(routing.factor))
      const chosenWeight = k.let(select(chosen.load(i).ne(0), weight, 0))
      const own = row.factor ? k.let(chosenWeight.mul(row.factor(i))) : chosenWeight
      row.store?.(i, own)
      if (row.pairs) logits.store(i, own) // which have been read
    })
  })
  const { pairs } = row
  if (!pairs) return
  k.barrier()
  ifThere(() => storePairs(k, experts, (i) => logits.load(i), pairs))
}

function scoreRow(
  k: Builder,
  { score, jitter }: Routing,
  { experts, ifThere }: RoutedRow,
  logits: Elements,
  scores: Elements,
): void {
  if (score === "sparsemixer") {
    ifThere(() =>
      k.each(experts, (i) => scores.store(i, sparseMixer(k, logits, experts, i, 2 * jitter!))),
    )
    return
  }
  if (score === "sigmoid") {
    ifThere(() => k.each(experts, (i) => scores.store(i, sigmoid(k, logits.load(i)))))
    return
  }
  const powers = k.shared("powers", "f32", experts)
  ifThere(() => {
    const most = k.variable(f32(LOWEST))
    k.for(0, experts, 1, (i) => {
      const x = logits.load(i)
      most.set(select(x.gt(most.now), x, most.now))
    })
    k.each(experts, (i) => powers.store(i, exp(k, logits.load(i).sub(most.now))))
  })
  k.barrier()
  ifThere(() => {
    const sum = noneOf(k, logits, experts)
    k.for(0, experts, 1, (i) => sum.set(sum.now.add(powers.load(i))))
    k.each(experts, (i) => scores.store(i, powers.load(i).div(sum.now)))
  })
}

/** 0, which what is no number, or infinite, makes no number: it shows in all scores. */
function noneOf(k: Builder, logits: Elements, experts: number): Variable {
  const sum = k.variable(f32(0))
  k.for(0, experts, 1, (i) => {
    const isNumber = logits.load(i).bits("u32").and(INFINITY).ne(INFINITY)
    sum.set(select(isNumber, sum.now, u32(NAN).bits("f32")))
  })
  return sum
}

/** The score of number `i`. @param most of the larger logit, what another may lack */
function sparseMixer(k: Builder, logits: Elements, experts: number, i: Value, most: number): Value {
  const sum = noneOf(k, logits, experts)
  const own = k.let(logits.load(i))
  k.for(0, experts, 1, (j) => {
    const other = k.let(logits.load(j))
    const away = k.let(other.abs())
    const size = select(away.gt(own), away, own)
    const isAhead = isBefore(other, j, own, i)
    const isFar = own.sub(other).gt(size.mul(Math.fround(most)))
    const power = exp(k, other.sub(own))
    sum.set(sum.now.add(select(isAhead.or(isFar), f32(0), power)))
  })
  return f32(1).div(sum.now)
}

/** Of two values with their numbers, whether the first is chosen first. */
const isBefore = (value: Value, number: Value, than: Value, its: Value) =>
  value.gt(than).or(value.eq(than).and(number.lt(its)))

/** The sum of what is chosen. */
function sumOf(k: Builder, count: number, values: Elements, chosen: Elements): Value {
  const sum = k.variable(f32(0))
  k.for(0, count, 1, (i) =>
    sum.set(select(chosen.load(i).ne(0), sum.now.add(values.load(i)), sum.now)),
  )
  return sum.now
}

/** How many come before number `i`: they are greater, or as great and have smaller numbers. */
function aheadOf(
  k: Builder,
  values: Elements,
  count: number,
  i: Value,
  isOpen?: (i: Value) => Value,
): Value {
  const own = values.load(i)
  const ahead = k.variable(u32(0))
  k.for(0, count, 1, (j) => {
    const other = values.load(j)
    const isAhead = isBefore(other, j, own, i)
    ahead.set(ahead.now.add(select(isOpen ? isOpen(j).and(isAhead) : isAhead, u32(1), 0)))
  })
  return ahead.now
}

/** Whether an expert's group can be chosen from; undefined: all can. All threads come here, and can ask where there is a row. */
function openGroups(
  k: Builder,
  { groups }: Routing,
  { experts, ifThere }: RoutedRow,
  compared: Elements,
): ((expert: Value) => Value) | undefined {
  if (!groups) return undefined
  const { count, open, rank } = groups
  const size = experts / count
  const ranks = k.shared("ranks of groups", "f32", count)
  const opened = k.shared("open groups", "u32", count)
  ifThere(() =>
    k.each(count, (group) => {
      const first = k.let(group.mul(size))
      const [most, second] = [k.variable(compared.load(first)), k.variable(f32(-Infinity))]
      k.for(1, size, 1, (i) => {
        const x = compared.load(first.add(i))
        const isMost = x.gt(most.now)
        second.set(select(isMost, most.now, select(x.gt(second.now), x, second.now)))
        most.set(select(x.gt(most.now), x, most.now))
      })
      const sum = rank === "largest" || size === 1 ? most.now : most.now.add(second.now)
      ranks.store(group, sum)
    }),
  )
  k.barrier()
  ifThere(() =>
    k.each(count, (group) => {
      const isOpen = aheadOf(k, ranks, count, group).lt(open)
      opened.store(group, select(isOpen, u32(1), 0))
    }),
  )
  k.barrier()
  return (expert) => opened.load(expert.div(size)).ne(0)
}
