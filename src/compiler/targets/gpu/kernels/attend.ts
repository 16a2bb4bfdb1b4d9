// Attention, bit for bit as reference/kernels.ts computes it. A group of threads takes one item (some rows of a sequence and
// one span of what they see) and some query heads of one kv head, and makes of each row a softmax of its own: scores by a
// thread for each position, values by a thread for each column. Rows that see one span are done then; the others' softmaxes
// wait in scratch memory until `merge` adds them up in the order that the plan says.
//
// What must not depend on threads does not: within a step of 64 positions, weights are added in sixteen lanes and those as a
// tree, and values are added to the mix position after position. A position that a row does not see takes no part: its
// weight of 0 adds nothing to a lane, and its value is not read, since that may be anything.
//
// Groups take items by turns, so any number of groups is right.

import { type AttentionOrder, WORK, work } from "../../../../runtime/gpu/attention-work.ts"
import type { ItemsName, Region } from "../../../../runtime/gpu/regions.ts"
import { BLOCK, sinkBlocks } from "../../../../runtime/program.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  larger,
  type Operable,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import { type Binding, floatWord, type Launch } from "../launch.ts"
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
import { cap, exp } from "./numbers.ts"

type Attend = Step & { op: "attend" }

/** Positions whose weights are merged at once: from one multiple of this to the next. */
const STEP = 64
const LANES = 16
const LOWEST = Math.fround(-3.4e38)

/** Rows of an item. Beyond these, fewer items would be left than there are places to compute them. */
const HEIGHT = 4
/** Threads of a group, and so positions of a span, at most; and bytes of its shared memory. */
const MAX_SPAN = 256
const MAX_SHARED_BYTES = 16384
/** Heads that are computed together: each number of a key is used so often. */
const MAX_HEADS = 8
/** Numbers of a key that a thread has under way at once, a multiple of every chunk. */
const READ_AT_ONCE = 16
/** What partial softmaxes may take of a device's memory, where one item's are not more. */
const PARTIAL_BYTES = 16 * 2 ** 20

/** What decides how the kernel is written; all else are words. */
interface AttendShape {
  layout: KvLayout
  span: number
  set: "tokens" | "wanted"
  /** Query heads to a kv head, and how many of them a group takes. */
  ratio: number
  heads: number
  cap: number | undefined
  sinks: boolean
  /** Blocks at the beginning of every list that stay there, whatever is given back. */
  sinkBlocks: number
}

/** What a step's attention is called for, and so what the host is to lay out for it. */
export function attentionOrder(
  plan: Plan,
  { rows, attention, place, span }: Attend,
): {
  name: ItemsName
  order: AttentionOrder
} {
  if (rows !== "tokens" && rows !== "wanted")
    throw new Error(`internal: ${rows} rows are not those of tokens`)
  if (span === undefined || span > MAX_SPAN || span % STEP !== 0)
    throw new Error(`internal: attention in spans of ${span}`)
  const { window, sinks } = attention
  const most = HEIGHT * Math.ceil(plan.shapes.context / span)
  const fitting = Math.floor(PARTIAL_BYTES / (attention.heads * partialBytes(plan, place.group)))
  return {
    name: `${rows} g${place.group} w${window ?? "all"} s${sinks}`,
    order: {
      set: rows,
      visible: { group: place.group, window, sinks, span },
      height: HEIGHT,
      slots: Math.max(most, fitting),
    },
  }
}

/** The values' mix of one head of one row, its largest score and the sum of its weights. */
const partialNumbers = (values: number) => values + 2
function partialBytes(plan: Plan, group: number): number {
  return 4 * partialNumbers(plan.groups[group]!.headDim.value)
}

/** What a step is computed by, once for each chunk of its work. */
export function attendLaunches(plan: Plan, step: Attend): readonly Launch[] {
  const { rows, query, attention, place, output } = step
  const { name, order } = attentionOrder(plan, step)
  const { heads, window, sinks } = attention
  const shape = shapeOf(plan, step, order)
  const { layout, ratio } = shape
  const tiles = Math.ceil(ratio / shape.heads)
  const region = (region: Region): Binding => ({ kind: "step", region })
  const work = [
    region({ name: "items", of: name, order }),
    region({ name: "chunkStarts", of: name }),
  ]
  const partials: Binding = {
    kind: "scratch",
    name: "partials",
    bytes: { fixed: order.slots * heads * partialBytes(plan, place.group) },
  }
  const [from, to] = [query, output].map(
    ({ buffer, from }): Binding => ({ kind: "buffer", buffer, from }),
  )
  const chunk: Binding = { kind: "chunk", of: name }
  const [fromStride, toStride] = [query, output].map((view) => strideOf(plan, view))
  return [
    {
      kernel: attendKernel(shape),
      operands: [
        from!,
        { kind: "kv", place },
        ...work,
        region({ name: "positions" }),
        region({ name: "firstSeen", group: place.group, window }),
        ...(rows === "wanted" ? [region({ name: "tokensOf", set: "wanted" })] : []),
        region({ name: "blocks" }),
        partials,
        to!,
        chunk,
        fromStride!,
        toStride!,
        heads,
        floatWord(attention.scale),
        ...(shape.sinks ? [sinks] : []),
      ],
      groups: [{ count: `items ${name}`, per: 1 }, layout.kvHeads * tiles, 1],
    },
    {
      kernel: mergeKernel(layout.headDim.value),
      operands: [...work, partials, to!, chunk, toStride!],
      // Of the items of some rows only the first is one to merge at.
      groups: [{ count: `items ${name}`, per: HEIGHT }, heads, 1],
    },
  ]
}

const strideOf = (plan: Plan, { buffer }: View) => Math.ceil(plan.buffers[buffer]!.columns / 4) * 4

function shapeOf(
  plan: Plan,
  { attention, place }: Attend,
  { set, visible: { span } }: AttentionOrder,
): AttendShape {
  const layout = kvLayout(plan.kv, plan.groups[place.group]!)
  const ratio = attention.heads / attention.kvHeads
  const most = Math.floor((MAX_SHARED_BYTES / 4 - BLOCK) / sharedNumbers(layout, span))
  const tiles = Math.ceil(ratio / Math.min(MAX_HEADS, most))
  return {
    layout,
    span,
    set,
    ratio,
    heads: Math.ceil(ratio / tiles),
    cap: attention.cap,
    sinks: attention.sinks > 0,
    sinkBlocks: sinkBlocks(plan.sinks),
  }
}

/** What a head takes of a group's shared memory. */
function sharedNumbers({ headDim }: KvLayout, span: number): number {
  const steps = span / STEP
  return headDim.key + span + steps * (LANES + 3)
}

export function attendKernel(shape: AttendShape): Kernel {
  const { layout, span, set, ratio, heads, sinkBlocks } = shape
  const { kv, headDim, kvHeads } = layout
  const [steps, blocksOfSpan, tiles] = [span / STEP, span / BLOCK, Math.ceil(ratio / heads)]
  const name = [
    "attend",
    `${kv}_${kvHeads}x${headDim.key}${headDim.key === headDim.value ? "" : `+${headDim.value}`}`,
    ratio === heads ? `few${ratio}` : `few${heads}of${ratio}`,
    `span${span}`,
    ...(shape.cap === undefined ? [] : ["capped"]),
    ...(shape.sinks ? ["sinks"] : []),
    set,
  ].join("_")
  return kernel(name, span, (k) => {
    const query = k.buffer("query", "f32", "read")
    const stored = k.buffer("kv", kvReads[kv].element, "read")
    const items = k.buffer("items", "u32", "read")
    const chunkStarts = k.buffer("chunkStarts", "u32", "read")
    const positions = k.buffer("positions", "u32", "read")
    const firstSeen = k.buffer("firstSeen", "u32", "read")
    const tokensOf = set === "wanted" ? k.buffer("tokensOf", "u32", "read") : undefined
    const blocks = k.buffer("blocks", "u32", "read")
    const partials = k.buffer("partials", "f32", "write")
    const output = k.buffer("output", "f32", "write")
    const chunk = k.word("chunk")
    const queryStride = k.word("queryStride")
    const outputStride = k.word("outputStride")
    const allHeads = k.word("heads")
    const scale = k.word("scale", "f32")
    const sinks = shape.sinks ? k.word("sinks") : u32(0)

    const queries = k.shared("queries", "f32", heads * headDim.key)
    const weights = k.shared("weights", "f32", heads * span) // and scores before
    const lanes = k.shared("lanes", "f32", heads * steps * LANES)
    const largest = k.shared("largest", "f32", heads * steps) // of a step's scores
    const corrections = k.shared("corrections", "f32", heads * steps)
    const totals = k.shared("totals", "f32", heads * steps) // of a step's weights
    const blockAt = k.shared("blockAt", "u32", blocksOfSpan)

    const kvHead = k.let(k.group(1).div(tiles), "kvHead")
    const tile = k.group(1).rem(tiles)
    const firstHead = k.let(kvHead.mul(ratio).add(tile.mul(heads)), "firstHead")
    /** Of the heads that a group takes, how many there are; a number where that is always all. */
    const present =
      ratio % heads === 0 ? heads : k.let(u32(ratio).sub(tile.mul(heads)).min(heads), "present")
    const isPresent = (head: Value) => (typeof present === "number" ? undefined : head.lt(present))

    const firstItem = chunkStarts.load(chunk).add(k.group(0))
    const endOfItems = chunkStarts.load(chunk.add(1))
    k.for(firstItem, endOfItems, k.groups(0), (item) => {
      const numberOf = (which: keyof typeof work) => items.load(item.mul(WORK).add(work[which]))
      const [row, rows, list, gap] = [
        numberOf("row"),
        numberOf("rows"),
        numberOf("list"),
        numberOf("gap"),
      ]
      const [slot, spans] = [numberOf("slot"), numberOf("spans")]
      const begin = k.let(numberOf("span").mul(span), "begin")
      const tokenOf = (row: Value) => tokensOf?.load(row) ?? row

      const lastToken = tokenOf(row.add(rows).sub(1))
      const lastPosition = positions.load(lastToken)
      const kept = k.let(firstSeen.load(lastToken).min(sinks), "kept")
      const firstKept = firstSeen.load(tokenOf(row))
      k.each(blocksOfSpan, (i) => {
        // Where none of the rows sees anything, the list may have no block.
        const number = k.let(begin.div(BLOCK).add(i))
        const from = k.let(number.mul(BLOCK))
        const isSeen = from
          .add(BLOCK - 1)
          .ge(firstKept)
          .and(from.le(lastPosition))
        k.if(
          isSeen.or(from.lt(kept)),
          () => {
            const index = sinkBlocks
              ? select(number.lt(sinkBlocks), number, number.sub(gap))
              : number.sub(gap)
            blockAt.store(i, blocks.load(list.add(index)))
          },
          () => blockAt.store(i, 0),
        )
      })

      k.for(0, rows, 1, (r) => {
        const token = tokenOf(row.add(r))
        const [position, first] = [positions.load(token), firstSeen.load(token)]
        const keptOf = k.let(first.min(sinks), "keptOf")
        const sees = (p: Value) => {
          const near = p.ge(first).and(p.le(position))
          return shape.sinks ? near.or(p.lt(keptOf)) : near
        }
        const from = k.let(row.add(r).mul(queryStride).add(firstHead.mul(headDim.key)))
        k.each(heads * headDim.key, (i) => {
          const there = isPresent(i.div(headDim.key))
          if (there === undefined) queries.store(i, query.load(from.add(i)))
          else
            k.if(
              there,
              () => queries.store(i, query.load(from.add(i))),
              () => queries.store(i, 0),
            )
        })
        k.barrier()

        // Scores: a thread for each position.
        k.if(
          sees(begin.add(k.lane)),
          () => {
            const spot = {
              block: blockAt.load(k.lane.div(BLOCK)),
              head: kvHead,
              position: k.let(k.lane.rem(BLOCK)),
            }
            const sums = products(k, layout, stored, queries, spot, heads)
            const by =
              kv === "q8" ? stored.load(scaleIndex(layout, "keys", spot)).bits("f32") : undefined
            for (const [head, sum] of sums.entries()) {
              const own = k.let((by === undefined ? sum.now : sum.now.mul(by)).mul(scale))
              const score = shape.cap === undefined ? own : cap(k, own, shape.cap)
              weights.store(k.lane.add(head * span), score)
            }
          },
          () => {
            for (let head = 0; head < heads; head++) weights.store(k.lane.add(head * span), LOWEST)
          },
        )
        k.barrier()

        // The largest score of each step, first of each lane.
        const eachLane = (body: (i: Value, scoreAt: (j: number) => Value) => void) =>
          k.each(heads * steps * LANES, (i) => {
            const at = k.let(i.div(LANES).mul(STEP).add(i.rem(LANES)))
            body(i, (j) => at.add(j * LANES))
          })
        eachLane((i, scoreAt) => {
          let most = f32(LOWEST)
          for (let j = 0; j < STEP / LANES; j++)
            most = k.let(larger(weights.load(scoreAt(j)), most))
          lanes.store(i, most)
        })
        k.barrier()
        k.each(heads * steps, (i) => {
          let most = f32(LOWEST)
          for (let lane = 0; lane < LANES; lane++)
            most = k.let(larger(lanes.load(i.mul(LANES).add(lane)), most))
          largest.store(i, most)
        })
        k.barrier()

        // Weights, and their sums in each lane.
        eachLane((i, scoreAt) => {
          const [step, lane] = [k.let(i.div(LANES).rem(steps)), k.let(i.rem(LANES))]
          const firstStep = k.let(i.div(LANES * steps).mul(steps))
          const before = k.variable(f32(LOWEST))
          k.for(0, step, 1, (s) => before.set(larger(largest.load(firstStep.add(s)), before.now)))
          const most = k.let(larger(largest.load(firstStep.add(step)), before.now))
          k.if(lane.eq(0), () => corrections.store(i.div(LANES), exp(k, before.now.sub(most))))
          let sum = f32(0)
          for (let j = 0; j < STEP / LANES; j++) {
            const score = weights.load(scoreAt(j))
            const within = k.let(
              step
                .mul(STEP)
                .add(j * LANES)
                .add(lane),
            )
            const weight = k.variable(f32(0))
            // What is no number, or infinite, has a weight of none: in the sum it must show.
            const shown = k.variable(f32(0))
            k.if(sees(begin.add(within)), () => {
              const own = exp(k, score.sub(most))
              shown.set(own.add(score.mul(0)))
              weight.set(own)
              if (kv === "q8") {
                const spot = {
                  block: blockAt.load(within.div(BLOCK)),
                  head: kvHead,
                  position: within.rem(BLOCK),
                }
                const by = stored.load(scaleIndex(layout, "values", spot)).bits("f32")
                weight.set(own.mul(by))
              }
            })
            sum = k.let(sum.add(shown.now))
            weights.store(scoreAt(j), weight.now)
          }
          lanes.store(i, sum)
        })
        k.barrier()
        k.each(heads * steps, (i) => {
          const own = Array.from({ length: LANES }, (_, lane) => lanes.load(i.mul(LANES).add(lane)))
          totals.store(i, treeOf(k, own))
        })
        k.barrier()

        mixValues(k, {
          layout,
          heads,
          span,
          stored,
          kvHead,
          weights,
          corrections,
          blockAt,
          begin,
          first,
          last: position,
          kept: shape.sinks ? keptOf : undefined,
          write: (head, column, mixed) => {
            const write = () => {
              const sum = k.variable(f32(0))
              for (let s = 0; s < steps; s++) {
                const at = head.mul(steps).add(s)
                sum.set(sum.now.mul(corrections.load(at)).add(totals.load(at)))
              }
              k.if(
                spans.eq(1),
                () => {
                  const inverse = k.let(f32(1).div(sum.now))
                  const to = row
                    .add(r)
                    .mul(outputStride)
                    .add(firstHead.add(head).mul(headDim.value))
                  const at = k.let(to.add(column))
                  // A merge of one adds it to 0, which makes 0 of -0.
                  mixed.forEach((value, i) => {
                    k.if(column.add(i).lt(headDim.value), () =>
                      output.store(at.add(i), value.add(0).mul(inverse)),
                    )
                  })
                },
                () => {
                  const partial = slot.add(r).mul(allHeads).add(firstHead).add(head)
                  const at = k.let(partial.mul(partialNumbers(headDim.value)))
                  mixed.forEach((value, i) => {
                    k.if(column.add(i).lt(headDim.value), () =>
                      partials.store(at.add(column).add(i), value),
                    )
                  })
                  k.if(column.eq(0), () => {
                    const most = k.variable(f32(LOWEST))
                    for (let s = 0; s < steps; s++)
                      most.set(larger(largest.load(head.mul(steps).add(s)), most.now))
                    partials.store(at.add(headDim.value), most.now)
                    partials.store(at.add(headDim.value + 1), sum.now)
                  })
                },
              )
            }
            const there = isPresent(head)
            if (there === undefined) write()
            else k.if(there, write)
          },
        })
        k.barrier()
      })
    })
  })
}

/** Of `heads` queries with the key at a spot: each is one sum, in the order of the columns. */
function products(
  k: Builder,
  layout: KvLayout,
  stored: Elements,
  queries: Elements,
  spot: Spot,
  heads: number,
): Variable[] {
  const { chunk, headDim } = layout
  const sums = Array.from({ length: heads }, (_, head) => k.variable(f32(0), `score${head}`))
  const first = k.let(keyChunkIndex(layout, spot, 0))
  const add = (number: Value, counts: readonly number[]) => {
    const keys = counts.map((count, i) =>
      readChunk(layout, stored, first.add(number.add(i).mul(BLOCK)), count),
    )
    const column = k.let(number.mul(chunk))
    for (const [i, read] of keys.entries())
      for (const [j, number] of read.entries()) {
        const key = k.let(number)
        for (const [head, sum] of sums.entries()) {
          const q = queries.load(column.add(head * headDim.key + i * chunk + j))
          sum.set(fma(q, key, sum.now))
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

/** What the mix of an item's values is made of. */
interface Mix {
  layout: KvLayout
  heads: number
  span: number
  stored: Elements
  kvHead: Value
  weights: Elements
  corrections: Elements
  blockAt: Elements
  /** The span's first position, and what the row sees of it: the positions first … last, and those before `kept`. */
  begin: Value
  first: Value
  last: Value
  kept: Value | undefined
  /** Some columns of a head's mix, as they are at the end. */
  write: (head: Value, column: Value, mixed: readonly Value[]) => void
}

/** Each thread has some columns of some heads, and goes through the positions in order. */
function mixValues(k: Builder, mix: Mix): void {
  const { layout, heads, span, stored, kvHead, weights, corrections, blockAt } = mix
  const { begin, first, last, kept } = mix
  const { holds } = kvReads[layout.kv]
  const units = Math.ceil(layout.headDim.value / holds)
  const sets = Math.max(1, Math.min(heads, Math.floor(span / units)))
  const perThread = Math.ceil(heads / sets)
  const mixOf = (unit: Value, set: Value) => {
    // Where heads do not come out even, the last are computed twice and written once.
    const taken = Array.from({ length: perThread }, (_, i) => {
      const head = set.add(i * sets)
      return {
        head: k.let(sets * perThread === heads ? head : head.min(heads - 1)),
        isOwn: sets * perThread === heads ? undefined : head.lt(heads),
        mixed: Array.from({ length: holds }, () => k.variable(f32(0))),
      }
    })
    k.for(0, span / STEP, 1, (step) => {
      for (const { head, mixed } of taken) {
        const correction = corrections.load(head.mul(span / STEP).add(step))
        for (const value of mixed) value.set(value.now.mul(correction))
      }
      k.for(0, STEP / BLOCK, 1, (blockOfStep) => {
        const number = k.let(step.mul(STEP / BLOCK).add(blockOfStep))
        const from = k.let(begin.add(number.mul(BLOCK)))
        const block = blockAt.load(number)
        const read = (position: Operable) =>
          readValue(layout, stored, { block, head: kvHead, position }, unit)
        const add = (position: Operable, numbers: readonly Value[]) => {
          const own = numbers.map((value) => k.let(value))
          for (const { head, mixed } of taken) {
            const at = head.mul(span).add(number.mul(BLOCK)).add(position)
            const weight = weights.load(at)
            for (const [i, value] of mixed.entries()) value.set(fma(weight, own[i]!, value.now))
          }
        }
        const isWhole = from.ge(first).and(from.add(BLOCK - 1).le(last))
        k.if(
          kept ? isWhole.or(from.add(BLOCK).le(kept)) : isWhole,
          () => {
            // All loads of the block are under way before the first of them is waited for.
            const values = Array.from({ length: BLOCK }, (_, position) => read(position))
            for (const [position, numbers] of values.entries()) add(position, numbers)
          },
          () => {
            k.for(0, BLOCK, 1, (position) => {
              const p = from.add(position)
              const isNear = p.ge(first).and(p.le(last))
              k.if(kept ? isNear.or(p.lt(kept)) : isNear, () => add(position, read(position)))
            })
          },
        )
      })
    })
    for (const { head, isOwn, mixed } of taken) {
      const write = () =>
        mix.write(
          head,
          k.let(unit.mul(holds)),
          mixed.map((value) => value.now),
        )
      if (isOwn) k.if(isOwn, write)
      else write()
    }
  }
  if (sets === 1) k.each(units, (unit) => mixOf(unit, u32(0)))
  else
    k.if(k.lane.lt(units * sets), () => mixOf(k.let(k.lane.rem(units)), k.let(k.lane.div(units))))
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

/** Threads of a group that merges. */
const MERGE_THREADS = 64

/** The partial softmaxes of an item's rows, one head of them, made to one in the order of the spans. */
export function mergeKernel(columns: number): Kernel {
  return kernel(`merge_${columns}`, MERGE_THREADS, (k) => {
    const items = k.buffer("items", "u32", "read")
    const chunkStarts = k.buffer("chunkStarts", "u32", "read")
    const partials = k.buffer("partials", "f32", "read")
    const output = k.buffer("output", "f32", "write")
    const chunk = k.word("chunk")
    const outputStride = k.word("outputStride")

    const most = k.shared("most", "f32", MERGE_THREADS)
    const factors = k.shared("factors", "f32", MERGE_THREADS)
    const sums = k.shared("sums", "f32", MERGE_THREADS)

    const head = k.group(1)
    const firstItem = chunkStarts.load(chunk).add(k.group(0))
    const endOfItems = chunkStarts.load(chunk.add(1))
    k.for(firstItem, endOfItems, k.groups(0), (item) => {
      const numberOf = (which: keyof typeof work) => items.load(item.mul(WORK).add(work[which]))
      const [spans, nth] = [numberOf("spans"), numberOf("nth")]
      k.if(nth.eq(0).and(spans.gt(1)), () => {
        const [row, rows, slot] = [numberOf("row"), numberOf("rows"), numberOf("slot")]
        k.for(0, rows, 1, (r) => {
          const partialAt = (n: Value) =>
            slot.add(n.mul(rows)).add(r).mul(k.groups(1)).add(head).mul(partialNumbers(columns))
          const own = k.variable(f32(LOWEST))
          k.each(spans, (n) => own.set(larger(partials.load(partialAt(n).add(columns)), own.now)))
          most.store(k.lane, own.now)
          k.barrier()
          const all = k.variable(f32(LOWEST))
          k.for(0, MERGE_THREADS, 1, (i) => all.set(larger(most.load(i), all.now)))
          const sum = k.variable(f32(0))
          const perThread = Math.ceil(columns / MERGE_THREADS)
          const mixed = Array.from({ length: perThread }, () => k.variable(f32(0)))
          const eachColumn = (body: (column: Value, mixed: Variable) => void) => {
            for (const [i, value] of mixed.entries()) {
              const column = k.let(k.lane.add(i * MERGE_THREADS))
              if ((i + 1) * MERGE_THREADS <= columns) body(column, value)
              else k.if(column.lt(columns), () => body(column, value))
            }
          }
          // As many spans at a time as there are threads to make their factors.
          k.for(0, spans, MERGE_THREADS, (from) => {
            const n = k.let(from.add(k.lane))
            k.if(n.lt(spans), () => {
              const at = k.let(partialAt(n).add(columns))
              factors.store(k.lane, exp(k, partials.load(at).sub(all.now)))
              sums.store(k.lane, partials.load(at.add(1)))
            })
            k.barrier()
            k.for(0, spans.sub(from).min(MERGE_THREADS), 1, (i) => {
              const factor = factors.load(i)
              sum.set(sum.now.add(sums.load(i).mul(factor)))
              const at = k.let(partialAt(from.add(i)))
              eachColumn((column, value) =>
                value.set(value.now.add(partials.load(at.add(column)).mul(factor))),
              )
            })
            k.barrier()
          })
          const inverse = k.let(f32(1).div(sum.now))
          const to = k.let(row.add(r).mul(outputStride).add(head.mul(columns)))
          eachColumn((column, value) => output.store(to.add(column), value.now.mul(inverse)))
        })
      })
    })
  })
}
