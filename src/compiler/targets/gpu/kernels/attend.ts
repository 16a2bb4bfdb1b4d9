// Attention, bit for bit as reference/kernels.ts computes it. A group of threads takes one item (some rows of a sequence and
// one span of what they see) and some query heads of one kv head, and makes of each row a softmax of its own: scores by a
// thread for some positions, values by a thread for some columns. Rows that see one span are done then; the others'
// softmaxes wait in scratch memory until merge.ts adds them up in the order that the plan says.
//
// What must not depend on threads does not: within a step of 64 positions, weights are added in sixteen lanes and those as a
// tree, and values are added to the mix position after position. A position that a row does not see takes no part: its
// weight of 0 adds nothing to a lane, and its value is not read, since that may be anything.
//
// Groups take items by turns, so any number of groups is right.
//
// Where there are more threads than work between two barriers, what is kept across them (sums of values) is computed by the
// rest as well and written once; and loops around barriers have bounds instead of conditions. PoCL 3.1 computes wrong sums
// for the last threads of a condition, and after barriers that stand under one in a loop.

import { type AttentionOrder, WORK, work } from "../../../../runtime/gpu/attention-work.ts"
import type { ItemsName, Region } from "../../../../runtime/gpu/regions.ts"
import { BLOCK, sinkBlocks } from "../../../../runtime/program.ts"
import { type Attention, valueDim } from "../../../graph/graph.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  larger,
  type Operable,
  once,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import { type Kernel, ROOMY } from "../ir/ir.ts"
import { type Binding, type Choice, floatWord, type Launch } from "../launch.ts"
import {
  type KvLayout,
  keyChunkIndex,
  kvLayout,
  kvReads,
  readChunk,
  readValue,
  type Spot,
  scaleIndex,
} from "./kv.ts"
import { mergeKernel, partialNumbers } from "./merge.ts"
import { cap, exp } from "./numbers.ts"

export type Attend = Step & { op: "attend" }

/** Positions whose weights are merged at once: from one multiple of this to the next. */
const STEP = 64
const LANES = 16
const LOWEST = Math.fround(-3.4e38)

/** Threads of a group, and so positions of a span, at most; and words of its shared memory. */
const MAX_SPAN = 256
const MAX_SHARED = 4096
/** Heads of one row that are computed together, and queries of several rows: each number of a key is used so often. */
const MAX_HEADS = 8
const MAX_QUERIES = 16
/** Words of shared memory that are no query's. */
const SHARED_APART = 64
/** Threads of a group that computes several rows. */
const ROWS_THREADS = 128
/** Numbers of a key that a thread has under way at once, a multiple of every chunk. */
const READ_AT_ONCE = 16
/** What partial softmaxes may take of a device's memory, where one item's are not more. */
const PARTIAL_BYTES = 16 * 2 ** 20

/** What decides how the kernel is written; all else are words. */
interface AttendShape {
  layout: KvLayout
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
  /** Heads have scores of what is not there. */
  sunk: boolean
  /** Blocks at the beginning of every list that stay there, whatever is given back. */
  sinkBlocks: number
}

/** What a step's attention is called for, and so what the host is to lay out for it. */
export function attentionOrder(
  plan: Plan,
  step: Attend,
): {
  name: ItemsName
  order: AttentionOrder
} {
  const { rows, attention, place, span } = step
  if (rows !== "tokens" && rows !== "wanted")
    throw new Error(`internal: ${rows} rows are not those of tokens`)
  if (span === undefined || span > MAX_SPAN || span % STEP !== 0)
    throw new Error(`internal: attention in spans of ${span}`)
  const { window, sinks, bidirectional } = attention
  const { height } = together(plan, step)
  const most = height * Math.ceil(plan.shapes.context / span)
  const fitting = Math.floor(PARTIAL_BYTES / (attention.heads * partialBytes(attention)))
  return {
    name: `${rows} g${place.group} w${window ?? "all"} s${sinks}${bidirectional ? " bidirectional" : ""}`,
    order: {
      set: rows,
      visible: { group: place.group, window, sinks, span, ...(bidirectional && { bidirectional }) },
      height,
      slots: Math.max(most, fitting),
    },
  }
}

/** How many heads of one kv head a group computes together, and how many rows. */
function together(
  plan: Plan,
  { attention: { heads, kvHeads }, place, span = MAX_SPAN }: Attend,
): { heads: number; height: number } {
  const { headDim } = plan.groups[place.group]!
  const steps = span / STEP
  // Of a query: itself, its scores, what is kept of a step, and its softmax.
  const sharedOf = (steps: number) => headDim.key + steps * (STEP + LANES + 3) + 2
  const fitting = (steps: number, most: number) =>
    Math.min(most, Math.floor((MAX_SHARED - SHARED_APART) / sharedOf(steps)))
  const ratio = heads / kvHeads
  const tiles = Math.ceil(ratio / fitting(steps, MAX_HEADS))
  const each = Math.ceil(ratio / tiles)
  return { heads: each, height: Math.max(1, Math.floor(fitting(1, MAX_QUERIES) / each)) }
}

function partialBytes(attention: Attention): number {
  return 4 * partialNumbers(valueDim(attention))
}

/** The softmaxes that a step leaves to be merged, and by what it is known which these are. */
export interface Waiting {
  of: ItemsName
  items: Binding
  partials: Binding
  heads: number
  values: number
}

export function waitingOf(plan: Plan, step: Attend): Waiting {
  const { attention } = step
  const { heads } = attention
  const { name: of, order } = attentionOrder(plan, step)
  return {
    of,
    items: { kind: "step", region: { name: "items", of, order } },
    partials: {
      kind: "scratch",
      name: "partials",
      bytes: { fixed: order.slots * heads * partialBytes(attention) },
    },
    heads,
    values: valueDim(attention),
  }
}

/**
 * What a step is computed by, once for each chunk of its work.
 * @param mostMerged up to so many rows, the next kernel merges softmaxes that have all had room at once
 */
export function attendChoices(plan: Plan, step: Attend, mostMerged: number | undefined): Choice[] {
  const repeats = `chunks ${attentionOrder(plan, step).name}` as const
  const choice = (most: number | undefined, isMergedBehind: boolean): Choice => ({
    most,
    repeats,
    launches: launchesOf(plan, step, isMergedBehind),
  })
  const all = choice(undefined, false)
  return mostMerged === undefined ? [all] : [choice(mostMerged, true), all]
}

function launchesOf(plan: Plan, step: Attend, isMergedBehind: boolean): readonly Launch[] {
  const { rows, query, attention, place, output } = step
  const { name, order } = attentionOrder(plan, step)
  const { heads, kvHeads, window, sinks, bidirectional } = attention
  const layout = kvLayout(plan.kv, plan.groups[place.group]!)
  const each = together(plan, step).heads
  const ratio = heads / kvHeads
  const region = (region: Region): Binding => ({ kind: "step", region })
  const { items, partials } = waitingOf(plan, step)
  const work = [items, region({ name: "chunkStarts", of: name })]
  const buffer = ({ buffer, from }: View): Binding => ({ kind: "buffer", buffer, from })
  const chunk: Binding = { kind: "chunk", of: name }
  const kernelOf = (height: number) =>
    attend({
      layout,
      values: valueDim(attention),
      span: order.visible.span,
      set: order.set,
      rows: height,
      alone: order.height === 1,
      ratio,
      heads: each,
      cap: attention.cap,
      sinks: sinks > 0,
      sunk: step.sinkLogits !== undefined,
      sinkBlocks: sinkBlocks(plan.sinks),
    })
  const operands = [
    buffer(query),
    { kind: "kv", place } as const,
    ...work,
    // A token of a causal layer sees itself last.
    region(bidirectional ? { name: "lastSeen", window } : { name: "positions" }),
    region({ name: "firstSeen", group: place.group, window }),
    ...(rows === "wanted" ? [region({ name: "tokensOf", set: "wanted" })] : []),
    region({ name: "blocks" }),
    ...(step.sinkLogits === undefined
      ? []
      : [{ kind: "weight", parameter: step.sinkLogits, part: "values" } as const]),
    partials,
    buffer(output),
    chunk,
    strideOf(plan, query),
    strideOf(plan, output),
    heads,
    floatWord(attention.scale),
    ...(sinks > 0 ? [sinks] : []),
  ]
  const tiles = kvHeads * Math.ceil(ratio / each)
  const single: Launch = {
    kernel: kernelOf(1),
    operands,
    groups: [{ count: `singles ${name}`, per: 1 }, tiles, 1],
  }
  const several: Launch = {
    kernel: kernelOf(order.height),
    operands,
    groups: [{ count: `multiples ${name}`, per: 1 }, tiles, 1],
  }
  const merge: Launch = {
    kernel: merging(valueDim(attention)),
    operands: [...work, partials, buffer(output), chunk, strideOf(plan, output)],
    groups: [{ count: `${isMergedBehind ? "chunkMerges" : "merges"} ${name}`, per: 1 }, heads, 1],
  }
  return order.height === 1 ? [single, merge] : [single, several, merge]
}

const [attend, merging] = [once(attendKernel), once(mergeKernel)]

const strideOf = (plan: Plan, { buffer }: View) => Math.ceil(plan.buffers[buffer]!.columns / 4) * 4

/**
 * Items of one row, or of several, where `rows` is more than 1: of those a group computes all rows together, step by step, so
 * that a block is read once for all of them. Of one row it computes all steps at once, each thread a position, since there is
 * little else to do at the same time.
 */
function attendKernel(shape: AttendShape): Kernel {
  const { layout, values, span, set, rows: height, ratio, heads, sinkBlocks } = shape
  const { kv, headDim, kvHeads } = layout
  const tiling = tilingOf(shape)
  const { threads, steps, queries: count } = tiling
  const [part, tiles] = [steps * STEP, Math.ceil(ratio / heads)]
  const name = [
    "attend",
    `${kv}_${kvHeads}x${headDim.key}${headDim.key === values ? "" : `+${values}`}`,
    ratio === heads ? `heads${ratio}` : `heads${heads}of${ratio}`,
    ...(height === 1 ? [] : [`rows${height}`]),
    `span${span}`,
    ...(shape.cap === undefined ? [] : [`cap${shape.cap}`]),
    ...(shape.sinks ? ["sinks"] : []),
    ...(shape.sunk ? ["sunk"] : []),
    ...(sinkBlocks === 0 ? [] : [`kept${sinkBlocks}`]),
    set,
  ].join("_")
  return kernel(name, threads, (k) => {
    k.roomFor(ROOMY)
    const query = k.buffer("query", "f32", "read")
    const stored = k.buffer("kv", kvReads[kv].element, "read")
    const items = k.buffer("items", "u32", "read")
    const chunkStarts = k.buffer("chunkStarts", "u32", "read")
    const lastSeen = k.buffer("lastSeen", "u32", "read")
    const firstSeen = k.buffer("firstSeen", "u32", "read")
    const tokensOf = set === "wanted" ? k.buffer("tokensOf", "u32", "read") : undefined
    const blocks = k.buffer("blocks", "u32", "read")
    const sinkLogits = shape.sunk ? k.buffer("sinkLogits", "f32", "read") : undefined
    const partials = k.buffer("partials", "f32", "write")
    const output = k.buffer("output", "f32", "write")
    const chunk = k.word("chunk")
    const queryStride = k.word("queryStride")
    const outputStride = k.word("outputStride")
    const allHeads = k.word("heads")
    const scale = k.word("scale", "f32")
    const sinks = shape.sinks ? k.word("sinks") : undefined

    // A query is a head of a row: number row * heads + head of the group's.
    const queries = k.shared("queries", "f32", count * headDim.key)
    const weights = k.shared("weights", "f32", count * part) // and scores before
    const lanes = k.shared("lanes", "f32", count * steps * LANES)
    const largest = k.shared("largest", "f32", count * steps) // of a step's scores
    const corrections = k.shared("corrections", "f32", count * steps)
    const totals = k.shared("totals", "f32", count * steps) // of a step's weights
    const most = k.shared("most", "f32", count)
    const sums = k.shared("sums", "f32", count)
    const blockAt = k.shared("blockAt", "u32", span / BLOCK)
    const sight: Sight = {
      first: k.shared("first", "u32", height),
      last: k.shared("last", "u32", height),
      kept: sinks && k.shared("kept", "u32", height),
    }

    const kvHead = k.let(k.group(1).div(tiles), "kvHead")
    const tile = k.group(1).rem(tiles)
    const firstHead = k.let(kvHead.mul(ratio).add(tile.mul(heads)), "firstHead")
    const present = k.let(u32(ratio).sub(tile.mul(heads)).min(heads), "present")

    const firstItem = chunkStarts.load(chunk).add(k.group(0))
    const endOfItems = chunkStarts.load(chunk.add(1))
    k.for(firstItem, endOfItems, k.groups(0), (item) => {
      const numberOf = (which: keyof typeof work) => items.load(item.mul(WORK).add(work[which]))
      const rows = numberOf("rows")
      const compute = () => {
        const [row, list, gap] = [numberOf("row"), numberOf("list"), numberOf("gap")]
        const [slot, spans] = [numberOf("slot"), numberOf("spans")]
        const begin = k.let(numberOf("span").mul(span), "begin")
        const tokenOf = (row: Value) => tokensOf?.load(row) ?? row
        const [firstToken, lastToken] = [tokenOf(row), tokenOf(row.add(rows).sub(1))]
        // The later a row, the later begins and ends what it sees, and the more of the sinks lies before that.
        const [nearest, furthest] = [lastSeen.load(firstToken), lastSeen.load(lastToken)]
        const [earliest, latest] = [firstSeen.load(firstToken), firstSeen.load(lastToken)]
        const some: Range = {
          first: earliest,
          last: furthest,
          kept: sinks && k.let(latest.min(sinks)),
        }
        const all: Range = {
          first: latest,
          last: nearest,
          kept: sinks && k.let(earliest.min(sinks)),
        }

        // The first position of the span that is seen.
        const near = begin.max(earliest)
        const seen = k.let(some.kept ? select(begin.lt(some.kept), begin, near) : near, "seen")

        k.each(height, (r) => {
          k.if(
            r.lt(rows),
            () => {
              const token = tokenOf(row.add(r))
              const first = firstSeen.load(token)
              sight.first.store(r, first)
              sight.last.store(r, lastSeen.load(token))
              if (sinks) sight.kept?.store(r, first.min(sinks))
            },
            () => {
              sight.first.store(r, 1)
              sight.last.store(r, 0)
              sight.kept?.store(r, 0)
            },
          )
        })
        k.each(span / BLOCK, (i) => {
          const number = k.let(begin.div(BLOCK).add(i))
          // Where none of the rows sees anything, the list may have no block.
          k.if(
            overlaps(number.mul(BLOCK), BLOCK, some),
            () => {
              const index = number.sub(gap)
              const own = sinkBlocks ? select(number.lt(sinkBlocks), number, index) : index
              blockAt.store(i, blocks.load(list.add(own)))
            },
            () => blockAt.store(i, 0),
          )
        })
        const isThere = (q: Value) => q.div(heads).lt(rows).and(q.rem(heads).lt(present))
        k.each(count * headDim.key, (i) => {
          const q = k.let(i.div(headDim.key))
          k.if(
            isThere(q),
            () => {
              const head = firstHead.add(q.rem(heads))
              const from = row.add(q.div(heads)).mul(queryStride).add(head.mul(headDim.key))
              queries.store(i, query.load(from.add(i.rem(headDim.key))))
            },
            () => queries.store(i, 0),
          )
        })
        k.each(count, (q) => {
          if (!sinkLogits) {
            most.store(q, LOWEST)
            sums.store(q, 0)
            return
          }
          // The first span that a row sees begins with the sink, whoever else is of the item.
          const r = q.div(heads)
          const token = tokenOf(row.add(select(r.lt(rows), r, 0)))
          const first = sinks ? u32(0) : firstSeen.load(token).div(span)
          const isFirst = k.let(first.eq(begin.div(span)))
          const head = firstHead.add(q.rem(heads)).min(allHeads.sub(1))
          const sink = k.let(sinkLogits.load(head))
          most.store(q, select(isFirst, sink, LOWEST))
          sums.store(q, select(isFirst, sink.mul(0).add(1), 0))
        })
        k.barrier()

        const mixes = new Mixes(k, shape)
        const takePart = (number: Value) => {
          const from = k.let(begin.add(number.mul(part)), "from")
          const spotAt = (within: Value) => ({
            block: blockAt.load(within.div(BLOCK)),
            head: kvHead,
            position: k.let(within.rem(BLOCK)),
          })

          const { slots, places, sets } = tiling.scores
          const set = k.let(k.lane.div(slots))
          const perSet = Math.ceil(count / sets)
          const own = Array.from({ length: perSet }, (_, j) => {
            const q = set.mul(perSet).add(j)
            return { q: k.let(count % sets === 0 ? q : q.min(count - 1)), isOwn: q.lt(count) }
          })
          const within = Array.from({ length: places }, (_, i) =>
            k.let(k.lane.rem(slots).add(i * slots)),
          )
          const spots = within.map((within) => {
            const p = k.let(from.add(within))
            // A position that is seen by none has no key. In its place is one that is seen, whose score nobody uses.
            return spotAt(k.let(select(isIn(p, some), p, seen).sub(begin)))
          })
          const products = productsOf(k, layout, {
            stored,
            spots,
            queries,
            from: own.map(({ q }) => k.let(q.mul(headDim.key))),
          })
          for (const [i, spot] of spots.entries()) {
            const by =
              kv === "q8" ? stored.load(scaleIndex(layout, "keys", spot)).bits("f32") : undefined
            for (const [j, { q, isOwn }] of own.entries()) {
              const product = products[i]![j]!.now
              const score = k.let((by ? product.mul(by) : product).mul(scale))
              const store = () =>
                weights.store(
                  q.mul(part).add(within[i]!),
                  shape.cap === undefined ? score : cap(k, score, shape.cap),
                )
              if (count % sets === 0) store()
              else k.if(isOwn, store)
            }
          }
          k.barrier()

          // The largest score of each step, first of each of its lanes.
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
              const score = weights.load(q.mul(part).add(withinAt(j)))
              const isLarger = isIn(from.add(withinAt(j)), range).and(score.gt(own))
              own = k.let(select(isLarger, score, own))
            }
            lanes.store(i, own)
          })
          k.barrier()
          k.each(count * steps, (i) => {
            let own = f32(LOWEST)
            for (let lane = 0; lane < LANES; lane++)
              own = k.let(larger(lanes.load(i.mul(LANES).add(lane)), own))
            largest.store(i, own)
          })
          k.barrier()

          // Weights, and their sums in each lane.
          eachLane((i, q, withinAt) => {
            const range = sightOf(sight, q.div(heads))
            const step = k.let(i.div(LANES).rem(steps))
            const before = k.variable(most.load(q))
            k.for(0, step, 1, (s) =>
              before.set(larger(largest.load(q.mul(steps).add(s)), before.now)),
            )
            const now = k.let(larger(largest.load(i.div(LANES)), before.now))
            k.if(i.rem(LANES).eq(0), () =>
              corrections.store(i.div(LANES), exp(k, before.now.sub(now))),
            )
            let sum = f32(0)
            for (let j = 0; j < STEP / LANES; j++) {
              const at = k.let(q.mul(part).add(withinAt(j)))
              const weight = k.variable(f32(0))
              // What is no number, or infinite, has a weight of none: in the sum it must show.
              const shown = k.variable(f32(0))
              k.if(isIn(from.add(withinAt(j)), range), () => {
                const score = weights.load(at)
                const own = exp(k, score.sub(now))
                shown.set(own.add(score.mul(0)))
                if (kv === "q8") {
                  const spot = spotAt(k.let(from.sub(begin).add(withinAt(j))))
                  const by = stored.load(scaleIndex(layout, "values", spot)).bits("f32")
                  weight.set(own.mul(by))
                } else weight.set(own)
              })
              sum = k.let(sum.add(shown.now))
              weights.store(at, weight.now)
            }
            lanes.store(i, sum)
          })
          k.barrier()
          k.each(count * steps, (i) => {
            const own = Array.from({ length: LANES }, (_, lane) =>
              lanes.load(i.mul(LANES).add(lane)),
            )
            totals.store(i, treeOf(k, own))
          })
          const blockOf = (number: Value) => {
            const first = k.let(from.add(number.mul(BLOCK)))
            return { from: first, spot: spotAt(k.let(first.sub(begin))) }
          }
          mixes.add({ stored, weights, corrections, sight, some, all, blockOf })
          k.barrier()
          k.each(count, (q) => {
            const [sum, now] = [k.variable(sums.load(q)), k.variable(most.load(q))]
            for (let s = 0; s < steps; s++) {
              const at = q.mul(steps).add(s)
              sum.set(sum.now.mul(corrections.load(at)).add(totals.load(at)))
              now.set(larger(largest.load(at), now.now))
            }
            sums.store(q, sum.now)
            most.store(q, now.now)
          })
        }
        if (part === span) takePart(u32(0))
        else {
          const end = k.let(
            furthest
              .sub(begin)
              .div(part)
              .add(1)
              .min(span / part),
          )
          k.for(seen.sub(begin).div(part), end, 1, takePart)
        }
        k.barrier()

        mixes.each((q, column, mixed) => {
          k.if(isThere(q), () => {
            const [head, r] = [k.let(firstHead.add(q.rem(heads))), k.let(row.add(q.div(heads)))]
            const sum = sums.load(q)
            k.if(
              spans.eq(1),
              () => {
                const inverse = k.let(f32(1).div(sum))
                const at = r.mul(outputStride).add(head.mul(values)).add(column)
                // A merge of one adds it to 0, which makes 0 of -0.
                output.store(at, mixed.add(0).mul(inverse))
              },
              () => {
                const partial = slot.add(q.div(heads)).mul(allHeads).add(head)
                const at = k.let(partial.mul(partialNumbers(values)))
                partials.store(at.add(column), mixed)
                k.if(column.eq(0), () => {
                  partials.store(at.add(values), most.load(q))
                  partials.store(at.add(values + 1), sum)
                })
              },
            )
          })
        })
        k.barrier()
      }
      if (shape.alone) compute()
      else onceIf(k, height === 1 ? rows.eq(1) : rows.gt(1), compute)
    })
  })
}

/** A branch that has barriers, which stand under no condition: a loop of one turn, or of none. */
function onceIf(k: Builder, condition: Value, body: () => void): void {
  k.for(0, select(condition, u32(1), 0), 1, body)
}

/** Positions that a row sees: first … last, and those before `kept`, of the sinks. */
interface Range {
  first: Value
  last: Value
  kept: Value | undefined
}

/** That of each row of an item; rows that are not there see nothing. */
interface Sight {
  first: Elements
  last: Elements
  kept: Elements | undefined
}

function sightOf({ first, last, kept }: Sight, row: Value): Range {
  return { first: first.load(row), last: last.load(row), kept: kept?.load(row) }
}

function isIn(p: Value, { first, last, kept }: Range): Value {
  const near = p.ge(first).and(p.le(last))
  return kept ? near.or(p.lt(kept)) : near
}

/** Whether some of `count` positions are in it, or all of them. */
function overlaps(from: Value, count: number, { first, last, kept }: Range): Value {
  const near = from
    .add(count - 1)
    .ge(first)
    .and(from.le(last))
  return kept ? near.or(from.lt(kept)) : near
}

function holds(from: Value, count: number, { first, last, kept }: Range): Value {
  const near = from.ge(first).and(from.add(count - 1).le(last))
  return kept ? near.or(from.add(count).le(kept)) : near
}

/** How the work of an item is divided among threads. */
interface Tiling {
  threads: number
  queries: number
  /** That are computed at once. */
  steps: number
  /** Each thread multiplies the keys of `places` positions, `slots` apart, with the queries of one of so many sets. */
  scores: { slots: number; places: number; sets: number }
  /** Each thread mixes `places` units of columns, `slots` apart, for the queries of one of so many sets. */
  mixes: { units: number; slots: number; places: number; sets: number; perSet: number }
}

function tilingOf({ layout, values, span, rows, heads }: AttendShape): Tiling {
  const [threads, steps, places] = rows === 1 ? [span, span / STEP, 1] : [ROWS_THREADS, 1, 2]
  const queries = rows * heads
  const slots = (steps * STEP) / places
  const units = Math.ceil(values / kvReads[layout.kv].holds)
  // About as many columns as queries, so that each number read is used as often as can be.
  const perThread = (queries * units) / threads
  const square = 2 ** Math.floor(Math.log2(Math.max(1, perThread)) / 2)
  const unitPlaces = Math.max(Math.ceil(units / threads), Math.min(square, units))
  const unitSlots = Math.ceil(units / unitPlaces)
  const sets = Math.min(queries, Math.floor(threads / unitSlots))
  return {
    threads,
    queries,
    steps,
    scores: { slots, places, sets: threads / slots },
    mixes: {
      units,
      slots: unitSlots,
      places: unitPlaces,
      sets,
      perSet: Math.ceil(queries / sets),
    },
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

/** What is mixed: some blocks of values, and how each position of them weighs in each query. */
interface Mixed {
  stored: Elements
  weights: Elements // [queries, positions of all steps]
  corrections: Elements // [queries, steps]
  sight: Sight
  /** What some of the rows see, and what all of them do. */
  some: Range
  all: Range
  /** The first position of a block, and where that lies. */
  blockOf: (number: Value) => { from: Value; spot: Spot }
}

/** Sums of values times their weights. Each thread keeps those of some columns and queries. */
class Mixes {
  readonly #k: Builder
  readonly #shape: AttendShape
  readonly #tiling: Tiling
  readonly #units: readonly Value[]
  readonly #queries: readonly { q: Value; isOwn: Value | undefined; sums: Variable[][] }[]
  readonly #isOwn: Value | undefined

  constructor(k: Builder, shape: AttendShape) {
    this.#k = k
    this.#shape = shape
    this.#tiling = tilingOf(shape)
    const { queries, threads, mixes } = this.#tiling
    const { units, slots, places, sets, perSet } = mixes
    const { holds } = kvReads[shape.layout.kv]
    // Where threads, columns or queries do not come out even, some are computed more than once, and written once.
    this.#isOwn = slots * sets === threads ? undefined : k.let(k.lane.lt(slots * sets))
    const slot = k.let(k.lane.rem(slots))
    const set = k.let(this.#isOwn ? k.lane.div(slots).rem(sets) : k.lane.div(slots))
    this.#units = Array.from({ length: places }, (_, i) => {
      const unit = slot.add(i * slots)
      return k.let(slots * places === units ? unit : unit.min(units - 1))
    })
    this.#queries = Array.from({ length: perSet }, (_, i) => {
      const q = k.let(set.add(i * sets))
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

  /** Adds steps, position after position. */
  add({ stored, weights, corrections, sight, some, all, blockOf }: Mixed): void {
    const k = this.#k
    const { layout, rows, heads } = this.#shape
    const { steps } = this.#tiling
    k.for(0, steps, 1, (step) => {
      for (const { q, sums } of this.#queries) {
        const correction = corrections.load(q.mul(steps).add(step))
        for (const sum of sums.flat()) sum.set(sum.now.mul(correction))
      }
      k.for(0, STEP / BLOCK, 1, (blockOfStep) => {
        const number = k.let(step.mul(STEP / BLOCK).add(blockOfStep))
        const { from, spot } = blockOf(number)
        const read = (position: Operable) =>
          this.#units.map((unit) => readValue(layout, stored, { ...spot, position }, unit))
        const add = (position: Operable, values: readonly Value[][], isAll: boolean) => {
          const own = values.map((numbers) => numbers.map((number) => k.let(number)))
          for (const { q, sums } of this.#queries) {
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
                const next = fma(weight, own[u]![i]!, sum.now)
                sum.set(isSeen ? select(isSeen, next, sum.now) : next)
              }
          }
        }
        const atOnce = Math.max(1, Math.floor(BLOCK / this.#units.length))
        k.if(
          holds(from, BLOCK, all),
          () => {
            // Many values are under way before the first of them is waited for.
            for (let first = 0; first < BLOCK; first += atOnce) {
              const count = Math.min(atOnce, BLOCK - first)
              const values = Array.from({ length: count }, (_, i) => read(first + i))
              for (const [i, numbers] of values.entries()) add(first + i, numbers, true)
            }
          },
          () =>
            k.for(0, BLOCK, 1, (position) => {
              k.if(isIn(from.add(position), some), () => add(position, read(position), rows === 1))
            }),
        )
      })
    })
  }

  /** Hands out each sum, by its query and its column. */
  each(body: (q: Value, column: Value, sum: Value) => void): void {
    const k = this.#k
    const { values: columns } = this.#shape
    const { holds } = kvReads[this.#shape.layout.kv]
    const { units, slots, places } = this.#tiling.mixes
    const all = () => {
      for (const { q, isOwn, sums } of this.#queries) {
        const write = () => {
          for (const [u, own] of sums.entries())
            for (const [i, sum] of own.entries()) {
              const column = k.let(this.#units[u]!.mul(holds).add(i))
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
function treeOf(k: Builder, lanes: readonly Value[]): Value {
  if (lanes.length === 1) return lanes[0]!
  const half = lanes.length / 2
  return treeOf(
    k,
    lanes.slice(0, half).map((lane, i) => k.let(lane.add(lanes[i + half]!))),
  )
}
