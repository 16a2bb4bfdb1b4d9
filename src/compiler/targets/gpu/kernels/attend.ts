// Attention, bit for bit as reference/kernels.ts computes it. A group of threads takes one item (some rows of a sequence and
// one span of what they see) and some query heads of one kv head, and makes of each row a softmax of its own: scores by a
// thread for some positions, values by a thread for some columns. Rows that see one span are done then; the others'
// softmaxes wait in scratch memory until merge.ts adds them up in the order that the plan says. What is multiplied is the plan's
// as well: floats (attend-floats.ts), or whole numbers (attend-codes.ts) by dots or, 32 threads together, in tiles.
//
// What must not depend on threads does not: within a step of 64 positions, weights are added in sixteen lanes and those as a
// tree, and values are added to the mix position after position, or as one exact sum of whole numbers. A position that a row does not see takes no part: its
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
import { type Builder, f32, kernel, once, select, u32, type Value } from "../ir/builder.ts"
import { type Kernel, ROOMY, TILE } from "../ir/ir.ts"
import { type Binding, type Choice, floatWord, type Launch } from "../launch.ts"
import { codeWords } from "./attend-codes.ts"
import { PartSoftmaxes } from "./attend-parts.ts"
import { tileWords } from "./attend-tiles.ts"
import { readsWide, WideSoftmaxes, wideWords } from "./attend-wide.ts"
import {
  type AttendShape,
  isIn,
  LANES,
  LOWEST,
  overlaps,
  type Range,
  type Sight,
  STEP,
  tilingOf,
  WIDE_SETS,
} from "./attention.ts"
import { type KvLayout, kvLayout, kvReads } from "./kv.ts"
import { mergeKernel, partialNumbers } from "./merge.ts"
import type { Units } from "./tiles.ts"

export type Attend = Step & { op: "attend" }

/** Threads of a group, and so positions of a span, at most; and words of its shared memory. */
const MAX_SPAN = 256
const MAX_SHARED = 4096
/** Heads of one row that are computed together, and queries of several rows: each number of a key is used so often. */
const MAX_HEADS = 8
const MAX_QUERIES = 16
/** Words of shared memory that are no query's; what is kept of a query's step, whatever is multiplied, and of its softmax. */
const SHARED_APART = 64
/** Where loads are wide: words of shared memory, of which a row's sight takes some, and sums that all find a register. */
const MAX_SHARED_WIDE = 12288
const MAX_SUMS_WIDE = 80
const SIGHT_NUMBERS = 3
const STEP_NUMBERS = LANES + 3
const QUERY_NUMBERS = 2
/** What partial softmaxes may take of a device's memory, where one item's are not more. */
const PARTIAL_BYTES = 16 * 2 ** 20
/** The same of CUDA's devices, which have so many groups at once that chunks are to have many items. */
const PARTIAL_BYTES_WIDE = 6 * PARTIAL_BYTES
/** Of an item, rows that a group merges one after the other. */
const MERGED_IN_TURN = 4

/** What a step's attention is called for, and so what the host is to lay out for it. */
export function attentionOrder(
  plan: Plan,
  step: Attend,
  units: readonly Units[],
): {
  name: ItemsName
  order: AttentionOrder
} {
  const { rows, attention, place, span } = step
  if (rows !== "tokens" && rows !== "wanted")
    throw new Error(`internal: ${rows} rows are not those of tokens`)
  if (span === undefined || span > MAX_SPAN || span % STEP !== 0)
    throw new Error(`internal: attention in spans of ${span}`)
  const { window, chunked, sinks, bidirectional, mutual, cross } = attention
  const { height, isWide } = together(plan, step, units)
  const most = height * Math.ceil(plan.shapes.context / span)
  const bytes = isWide ? PARTIAL_BYTES_WIDE : PARTIAL_BYTES
  const fitting = Math.floor(bytes / (attention.heads * partialBytes(attention)))
  return {
    name: `${rows} g${place.group} w${window ?? "all"} s${sinks}${chunked ? " chunked" : ""}${directionOf(attention)}`,
    order: {
      set: rows,
      visible: {
        ...{ group: place.group, window, sinks, span },
        ...(chunked && { chunked }),
        ...(bidirectional && { bidirectional }),
        ...(mutual && { mutual }),
        ...(cross !== undefined && { cross }),
      },
      height,
      slots: Math.max(most, fitting),
    },
  }
}

function directionOf({ bidirectional, mutual, cross }: Attend["attention"]) {
  if (cross !== undefined) return ` cross ${cross}` as const
  return bidirectional ? " bidirectional" : mutual ? " mutual" : ""
}

/** A token of a causal layer sees itself last. */
function lastSeenOf({ mutual, bidirectional, window, cross }: Attend["attention"]): Region {
  if (cross !== undefined) return { name: "crossSeen", cross }
  if (mutual) return { name: "seenTo" }
  return bidirectional ? { name: "lastSeen", window } : { name: "positions" }
}

/** How many heads of one kv head a group computes together, and how many rows: of several, by wide loads or not. */
function together(
  plan: Plan,
  { attention: { heads, kvHeads, sparse }, arithmetic, place, span = MAX_SPAN }: Attend,
  units: readonly Units[],
): { heads: number; height: number; isWide: boolean } {
  const { headDim } = plan.groups[place.group]!
  const steps = span / STEP
  const layout = kvLayout(plan.kv, plan.groups[place.group]!)
  // Of a query: itself, its scores, what is kept of a step, and its softmax.
  const ofProducts = (steps: number) =>
    arithmetic === "codes"
      ? codeWords({ layout, products: "dots" }, steps)
      : headDim.key + steps * STEP
  const sharedOf = (steps: number) => ofProducts(steps) + steps * STEP_NUMBERS + QUERY_NUMBERS
  const fitting = (steps: number, most: number) =>
    Math.min(most, Math.floor((MAX_SHARED - SHARED_APART) / sharedOf(steps)))
  const ratio = heads / kvHeads
  const tiles = Math.ceil(ratio / fitting(steps, MAX_HEADS))
  const each = Math.ceil(ratio / tiles)
  const mayBeWide = units[0] === "tiles" && arithmetic === "floats" && !sparse && readsWide(layout)
  const wide = mayBeWide ? Math.floor(mostWide(layout) / each) : 0
  const height = Math.max(1, Math.floor(fitting(1, MAX_QUERIES) / each))
  return { heads: each, height: Math.max(wide, height), isWide: wide > height }
}

/** Queries that a group has room for: as many in each of its sets. */
function mostWide(layout: KvLayout): number {
  const words = wideWords(layout) + QUERY_NUMBERS + SIGHT_NUMBERS
  const fitting = Math.floor((MAX_SHARED_WIDE - SHARED_APART) / words)
  const sumsOf = (rows: number) => {
    const shape = { layout, values: layout.headDim.value, span: STEP, rows, heads: 1 }
    const { scores, mixes } = tilingOf({ ...shape, products: "wide" })
    return (rows / scores.sets) * scores.places + mixes.perSet * mixes.places * mixes.holds
  }
  let most = Math.floor(fitting / WIDE_SETS) * WIDE_SETS
  while (most > 0 && sumsOf(most) > MAX_SUMS_WIDE) most -= WIDE_SETS
  return most
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

export function waitingOf(plan: Plan, step: Attend, units: readonly Units[]): Waiting {
  const { attention } = step
  const { heads } = attention
  const { name: of, order } = attentionOrder(plan, step, units)
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
 * @param units what a device may multiply codes with, the best first
 * @param mostMerged up to so many rows, the next kernel merges softmaxes that have all had room at once
 */
export function attendChoices(
  plan: Plan,
  step: Attend,
  units: readonly Units[],
  mostMerged: number | undefined,
): Choice[] {
  const repeats = `chunks ${attentionOrder(plan, step, units).name}` as const
  const choice = (most: number | undefined, isMergedBehind: boolean): Choice => ({
    most,
    repeats,
    launches: launchesOf(plan, step, units, isMergedBehind),
  })
  const all = choice(undefined, false)
  return mostMerged === undefined ? [all] : [choice(mostMerged, true), all]
}

function launchesOf(
  plan: Plan,
  step: Attend,
  units: readonly Units[],
  isMergedBehind: boolean,
): readonly Launch[] {
  const { rows, query, attention, place, output } = step
  const { name, order } = attentionOrder(plan, step, units)
  const { heads, kvHeads, window, chunked, sinks, mutual } = attention
  const { relative } = step
  const layout = kvLayout(plan.kv, plan.groups[place.group]!)
  const { heads: each, isWide } = together(plan, step, units)
  const ratio = heads / kvHeads
  const region = (region: Region): Binding => ({ kind: "step", region })
  const { items, partials } = waitingOf(plan, step, units)
  const work = [items, region({ name: "chunkStarts", of: name })]
  const buffer = ({ buffer, from }: View): Binding => ({ kind: "buffer", buffer, from })
  const chunk: Binding = { kind: "chunk", of: name }
  const productsOf = (height: number): AttendShape["products"] => {
    if (step.arithmetic === "floats") return isWide && height > 1 ? "wide" : "floats"
    const apart = SHARED_APART + TILE * (STEP_NUMBERS + QUERY_NUMBERS)
    const fits = apart + tileWords({ layout }) <= MAX_SHARED
    return height > 1 && units[0] === "tiles" && fits ? "tiles" : "dots"
  }
  const kernelOf = (height: number) =>
    attend({
      layout,
      products: productsOf(height),
      values: valueDim(attention),
      span: order.visible.span,
      set: order.set,
      rows: height,
      alone: order.height === 1,
      ratio,
      heads: each,
      cap: attention.cap,
      sinks: sinks > 0,
      chosen: step.chosen?.columns,
      sunk: step.sinkLogits !== undefined,
      distances: step.biases?.distances,
      relative: relative && {
        buckets: relative.query.columns / heads,
        strides: { query: strideOf(plan, relative.query), key: strideOf(plan, relative.key) },
      },
      sinkBlocks: sinkBlocks(plan.sinks),
    })
  const operands = [
    buffer(query),
    { kind: "kv", place } as const,
    ...work,
    region(lastSeenOf(attention)),
    region({
      ...{ name: "firstSeen", group: place.group, window },
      ...(chunked && { chunked }),
      ...(mutual && { mutual }),
    }),
    ...(rows === "wanted" ? [region({ name: "tokensOf", set: "wanted" })] : []),
    region({ name: "blocks" }),
    ...(step.sinkLogits === undefined
      ? []
      : [{ kind: "weight", parameter: step.sinkLogits, part: "values" } as const]),
    ...(step.biases
      ? [
          { kind: "weight", parameter: step.biases.parameter, part: "values" } as const,
          region({ name: "positions" }),
        ]
      : []),
    ...(relative ? [buffer(relative.query), buffer(relative.key)] : []),
    partials,
    buffer(output),
    chunk,
    strideOf(plan, query),
    strideOf(plan, output),
    ...(relative ? [] : [heads]),
    floatWord(attention.scale),
    ...(sinks > 0 ? [sinks] : []),
    ...(step.chosen ? [buffer(step.chosen), strideOf(plan, step.chosen)] : []),
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
    groups: [
      { count: `${isMergedBehind ? "chunkMerges" : "merges"} ${name}`, per: 1 },
      heads,
      isWide ? Math.ceil(order.height / MERGED_IN_TURN) : 1,
    ],
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
  const { layout, products, values, span, set, rows: height, ratio, heads, sinkBlocks } = shape
  const { relative } = shape
  const { kv, headDim, kvHeads } = layout
  const { threads, steps, queries: count } = tilingOf(shape)
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
    ...(shape.chosen === undefined ? [] : [`chosen${shape.chosen}`]),
    ...(shape.distances === undefined ? [] : [`biased${shape.distances}`]),
    ...(relative
      ? [`buckets${relative.buckets}of${Object.values(relative.strides).join("and")}`]
      : []),
    ...(sinkBlocks === 0 ? [] : [`kept${sinkBlocks}`]),
    ...(products === "floats" ? [] : [products]),
    set,
  ].join("_")
  return kernel(name, threads, (k) => {
    // Floats of 32 bits under way take more registers.
    k.roomFor(products === "wide" && kv === "f32" ? (ROOMY * 3) / 4 : ROOMY)
    const query = k.buffer("query", "f32", "read")
    const stored = k.buffer("kv", kvReads[kv].element, "read")
    const items = k.buffer("items", "u32", "read")
    const chunkStarts = k.buffer("chunkStarts", "u32", "read")
    const lastSeen = k.buffer("lastSeen", "u32", "read")
    const firstSeen = k.buffer("firstSeen", "u32", "read")
    const tokensOf = set === "wanted" ? k.buffer("tokensOf", "u32", "read") : undefined
    const blocks = k.buffer("blocks", "u32", "read")
    const sinkLogits = shape.sunk ? k.buffer("sinkLogits", "f32", "read") : undefined
    const { distances } = shape
    const biases = distances === undefined ? undefined : k.buffer("biases", "f32", "read")
    const positions = biases && k.buffer("positions", "u32", "read")
    const byQuery = relative && k.buffer("byQuery", "f32", "read")
    const byKey = byQuery && k.buffer("byKey", "f32", "read")
    const partials = k.buffer("partials", "f32", "write")
    const output = k.buffer("output", "f32", "write")
    const chunk = k.word("chunk")
    const queryStride = k.word("queryStride")
    const outputStride = k.word("outputStride")
    const allHeads = relative ? u32(kvHeads * ratio) : k.word("heads")
    const scale = k.word("scale", "f32")
    const sinks = shape.sinks ? k.word("sinks") : undefined
    const { chosen: columns } = shape
    const chosen = columns === undefined ? undefined : k.buffer("chosen", "f32", "read")
    const chosenStride = chosen && k.word("chosenStride")

    if (products === "wide") k.forCuda()
    // A query is a head of a row: number row * heads + head of the group's.
    const softmaxes =
      products === "wide" ? new WideSoftmaxes(k, shape) : new PartSoftmaxes(k, shape, products)
    const most = k.shared("most", "f32", count)
    const sums = k.shared("sums", "f32", count)
    const blockAt = k.shared("blockAt", "u32", span / BLOCK)
    const places = Math.ceil(count / heads) // for rows
    const sight: Sight = {
      first: k.shared("first", "u32", places),
      last: k.shared("last", "u32", places),
      kept: sinks && k.shared("kept", "u32", places),
    }
    const standing = biases && k.shared("standing", "u32", places) // positions of rows

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
        // Where rows see what is chosen for each, there is nothing that all see.
        const all: Range = chosen
          ? { first: u32(1), last: u32(0), kept: undefined }
          : { first: latest, last: nearest, kept: sinks && k.let(earliest.min(sinks)) }
        const isChosen =
          chosen && chosenStride && columns !== undefined
            ? (r: Value, p: Value) => {
                const from = row.add(r.min(rows.sub(1))).mul(chosenStride)
                const bits = chosen.load(from.add(p.div(BLOCK).min(columns - 1))).whole()
                return bits.bits("u32").shr(p.rem(BLOCK)).and(1).ne(0)
              }
            : undefined

        // The first position of the span that is seen.
        const near = begin.max(earliest)
        const seen = k.let(some.kept ? select(begin.lt(some.kept), begin, near) : near, "seen")

        k.each(places, (r) => {
          k.if(
            r.lt(rows),
            () => {
              const token = tokenOf(row.add(r))
              const first = firstSeen.load(token)
              sight.first.store(r, first)
              sight.last.store(r, lastSeen.load(token))
              if (sinks) sight.kept?.store(r, first.min(sinks))
              if (positions) standing?.store(r, positions.load(token))
            },
            () => {
              sight.first.store(r, 1)
              sight.last.store(r, 0)
              sight.kept?.store(r, 0)
              standing?.store(r, 0)
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
        const isThere = (q: Value) => q.div(heads).lt(rows).and(q.rem(heads).lt(present))
        const columnOf = (q: Value, column: Value) => {
          const head = firstHead.add(q.rem(heads))
          const from = row.add(q.div(heads)).mul(queryStride).add(head.mul(headDim.key))
          return query.load(from.add(column))
        }
        softmaxes.bringQueries(isThere, columnOf, scale)
        k.barrier()

        const mixes = softmaxes.mixes()
        const takePart = (number: Value) => {
          const from = k.let(begin.add(number.mul(part)), "from")
          const offset = k.let(from.sub(begin))
          const spotIn = (within: Value) => ({
            block: blockAt.load(within.div(BLOCK)),
            head: kvHead,
            position: k.let(within.rem(BLOCK)),
          })
          const spotAt = (within: Value) => spotIn(k.let(offset.add(within)))
          const biasOf =
            biases && distances !== undefined && standing
              ? (q: Value, within: Value) => {
                  const head = firstHead.add(q.rem(heads)).min(allHeads.sub(1))
                  const ahead = from.add(within).add((distances - 1) / 2)
                  // Behind the last position that anybody sees there may be no bias.
                  const at = ahead.sub(standing.load(q.div(heads))).min(distances - 1)
                  return biases.load(head.mul(distances).add(at))
                }
              : undefined
          const sumOf =
            biases && relative && byQuery && byKey && standing && distances !== undefined
              ? (q: Value, within: Value) => {
                  const head = firstHead.add(q.rem(heads)).min(allHeads.sub(1))
                  const first = k.let(head.mul(relative.buckets))
                  // A row that is not there has what the last has, and so has what stands behind the sequence.
                  const r = k.let(q.div(heads).min(rows.sub(1)))
                  const position = k.let(standing.load(r))
                  const p = k.let(from.add(within).min(sight.last.load(r)))
                  const at = p.add((distances - 1) / 2).sub(position)
                  const number = biases
                    .load(at)
                    .whole()
                    .bits("u32")
                    .min(relative.buckets - 1)
                  const bucket = k.let(first.add(number))
                  const token = tokenOf(row.add(r)).add(p).sub(position)
                  const ofKey = byKey.load(token.mul(relative.strides.key).add(bucket))
                  return byQuery.load(row.add(r).mul(relative.strides.query).add(bucket)).add(ofKey)
                }
              : undefined
          // A position that is seen by none has no key. In its place is one that is seen, whose score nobody uses.
          const spotOf = (within: Value) => {
            const p = k.let(from.add(within))
            return spotIn(k.let(select(isIn(p, some), p, seen).sub(begin)))
          }
          const blockOf = (number: Value) => {
            const first = k.let(number.mul(BLOCK))
            return { from: k.let(from.add(first)), spot: spotAt(first) }
          }
          mixes.add({
            ...{ stored, scale, biasOf: sumOf ?? biasOf, from },
            ...{ end: rows.mul(heads), some, all, most, sums },
            sight: { ...sight, isChosen },
            ...{ spotAt, spotOf, blockOf },
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
