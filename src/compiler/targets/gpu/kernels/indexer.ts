// The lightning indexer, bit for bit as reference/kernels.ts has it: which positions a row's attention is to see. Scores first, each
// thread that of a position, span by span of each row, into scratch memory; then a group of threads for each row finds the least that is
// chosen, byte by byte, and says of each block of 16 positions which are.
//
// Work is laid out as attention's is (attention-work.ts), in items of one row, whose scores wait in slots of a span each. Where a row sees
// no more positions than are chosen, all are, and nobody scores them.

import { type AttentionOrder, WORK, work } from "../../../../runtime/gpu/attention-work.ts"
import type { ItemsName, Region } from "../../../../runtime/gpu/regions.ts"
import { BLOCK } from "../../../../runtime/program.ts"
import { chosenColumns } from "../../../graph/graph.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  once,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import type { Binding, Choice, Launch } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { type KvLayout, keyChunkIndex, kvLayout, kvReads, readChunk, scaleIndex } from "./kv.ts"
import { workOf } from "./merge.ts"

type IndexerStep = Step & { op: "indexer" }

/** Positions of a span, and threads of a group. */
const SPAN = 256
/** What scores may take of a device's memory, where one row's are not more. */
const SCORE_BYTES = 16 * 2 ** 20
/** Heads whose products with a key are summed at once. */
const HEADS_AT_ONCE = 8
/** Bytes of a score, and what one may be. */
const [SHIFTS, BYTES] = [[24, 16, 8, 0], 256] as const

export function indexerChoices(plan: Plan, step: IndexerStep): Choice[] {
  const { rows, query, weights, indexer, place, output } = step
  if (rows !== "tokens" && rows !== "wanted")
    throw new Error(`internal: ${rows} rows are not those of tokens`)
  const { heads, headDim, top } = indexer
  const spans = Math.ceil(plan.shapes.context / SPAN)
  const name: ItemsName = `${rows} g${place.group} wall s0 indexed`
  const order: AttentionOrder = {
    set: rows,
    visible: { group: place.group, window: undefined, sinks: 0, span: SPAN },
    height: 1,
    slots: Math.max(spans, SCORE_BYTES / (4 * SPAN)),
    keepsSingles: true,
  }
  const region = (region: Region): Binding => ({ kind: "step", region })
  const buffer = ({ buffer, from }: View): Binding => ({ kind: "buffer", buffer, from })
  const stride = ({ buffer }: View) => strideOf(plan.buffers[buffer]!)
  const scores: Binding = {
    kind: "scratch",
    name: "scores of positions",
    bytes: { fixed: order.slots * SPAN * 4 },
  }
  const work = [
    region({ name: "items", of: name, order }),
    region({ name: "chunkStarts", of: name }),
    { kind: "chunk", of: name } as const,
    region({ name: "positions" }),
    ...(rows === "wanted" ? [region({ name: "tokensOf", set: rows })] : []),
  ]
  const scoring: Launch = {
    kernel: scoresOf({
      layout: kvLayout(plan.kv, plan.groups[place.group]!),
      ...{ heads, headDim, set: rows },
    }),
    operands: [
      ...work,
      region({ name: "firstSeen", group: place.group, window: undefined }),
      region({ name: "blocks" }),
      { kind: "kv", place },
      ...[buffer(query), stride(query)],
      ...[buffer(weights), stride(weights)],
      scores,
      top,
    ],
    groups: [{ count: `singles ${name}`, per: 1 }, 1, 1],
  }
  const choosing: Launch = {
    kernel: choiceOf({ blocks: chosenColumns(plan.shapes.context), set: rows }),
    operands: [...work, scores, buffer(output), stride(output), top],
    groups: [{ count: `merges ${name}`, per: 1 }, 1, 1],
  }
  return [{ most: undefined, repeats: `chunks ${name}`, launches: [scoring, choosing] }]
}

interface Scoring {
  layout: KvLayout
  heads: number
  headDim: number
  set: "tokens" | "wanted"
}

const [scoresOf, choiceOf] = [once(scoreKernel), once(chooseKernel)]

/** The items of a chunk, by turns, and how many positions a row may choose from. */
function itemsOf(k: Builder, set: Scoring["set"]) {
  const items = k.buffer("items", "u32", "read")
  const chunkStarts = k.buffer("chunkStarts", "u32", "read")
  const chunk = k.word("chunk")
  const positions = k.buffer("positions", "u32", "read")
  const tokensOf = set === "wanted" ? k.buffer("tokensOf", "u32", "read") : undefined
  const each = (body: (item: Value) => void) =>
    k.for(
      chunkStarts.load(chunk).add(k.group(0)),
      chunkStarts.load(chunk.add(1)),
      k.groups(0),
      body,
    )
  const tokenOf = (row: Value) => tokensOf?.load(row) ?? row
  const countOf = (row: Value) => k.let(positions.load(tokenOf(row)).add(1))
  return { items, each, tokenOf, countOf }
}

function scoreKernel({ layout, heads, headDim, set }: Scoring): Kernel {
  const { kv, chunk } = layout
  return kernel(`index_scores_${kv}_${heads}x${headDim}_${set}`, SPAN, (k) => {
    const { items, each, tokenOf, countOf } = itemsOf(k, set)
    const firstSeen = k.buffer("firstSeen", "u32", "read")
    const blocks = k.buffer("blocks", "u32", "read")
    const stored = k.buffer("kv", kvReads[kv].element, "read")
    const query = k.buffer("query", "f32", "read")
    const queryStride = k.word("queryStride")
    const weights = k.buffer("weights", "f32", "read")
    const weightStride = k.word("weightStride")
    const scores = k.buffer("scores", "f32", "write")
    const top = k.word("top")
    each((item) => {
      const numberOf = (which: keyof typeof work) => items.load(item.mul(WORK).add(work[which]))
      const row = numberOf("row")
      const count = countOf(row)
      const position = k.let(numberOf("span").mul(SPAN).add(k.lane))
      k.if(count.gt(top).and(position.lt(count)), () => {
        const index = numberOf("list").add(position.div(BLOCK)).sub(numberOf("gap"))
        const block = k.let(blocks.load(index))
        const spot = { block, head: 0, position: k.let(position.rem(BLOCK)) }
        const first = k.let(keyChunkIndex(layout, spot, 0))
        const scale =
          kv === "q8" ? k.let(stored.load(scaleIndex(layout, "keys", spot)).bits("f32")) : undefined
        const score = k.variable(f32(0))
        const add = (head: Value, together: number) => {
          const sums = Array.from({ length: together }, () => k.variable(f32(0)))
          const from = k.let(row.mul(queryStride).add(head.mul(headDim)))
          const addChunk = (number: Value, numbers: number) => {
            const key = readChunk(layout, stored, k.let(first.add(number.mul(BLOCK))), numbers)
            for (const [i, own] of key.map((value) => k.let(value)).entries())
              for (const [h, sum] of sums.entries()) {
                const at = from.add(number.mul(chunk)).add(h * headDim + i)
                sum.set(fma(query.load(at), own, sum.now))
              }
          }
          const whole = Math.floor(headDim / chunk)
          k.for(0, whole, 1, (number) => addChunk(number, chunk))
          if (headDim % chunk > 0) addChunk(u32(whole), headDim % chunk)
          for (const [h, { now }] of sums.entries()) {
            const product = scale ? k.let(now.mul(scale)) : now
            const weight = weights.load(row.mul(weightStride).add(head).add(h))
            score.set(fma(weight, select(product.gt(0), product, 0), score.now))
          }
        }
        const rest = heads % HEADS_AT_ONCE
        k.for(0, heads - rest, HEADS_AT_ONCE, (head) => add(head, HEADS_AT_ONCE))
        if (rest > 0) add(u32(heads - rest), rest)
        // What is not held any more, or never was, is chosen last.
        const isHeld = position.ge(firstSeen.load(tokenOf(row)))
        const kept = select(isHeld, score.now, Number.NEGATIVE_INFINITY)
        scores.store(numberOf("slot").mul(SPAN).add(k.lane), kept)
      })
    })
  })
}

/** Whole numbers in the order of scores; what is no number counts as the least that there is. */
function rankOf(k: Builder, score: Value): Value {
  const bits = k.let(score.bits("u32"))
  const isNumber = bits.and(0x7fffffff).le(0x7f800000)
  const own = k.let(select(isNumber, bits, u32(0xff800000)))
  return k.let(select(own.shr(31).ne(0), own.xor(0xffffffff), own.or(0x80000000)))
}

function chooseKernel({ blocks, set }: { blocks: number; set: Scoring["set"] }): Kernel {
  return kernel(`index_choice_${blocks}_${set}`, SPAN, (k) => {
    const { items, each, countOf } = itemsOf(k, set)
    const scores = k.buffer("scores", "f32", "read")
    const output = k.buffer("output", "f32", "write")
    const outputStride = k.word("outputStride")
    const top = k.word("top")
    const counts = k.shared("counts", "u32", BYTES)
    const found = k.shared("found", "u32", 2) // the byte, and how many of those that have it are chosen
    const equals = k.shared("equals", "u32", k.threads)
    each((item) => {
      const { row, slot, nth } = workOf(items, item)
      // A row is chosen for once: see onceIf of attend.ts.
      k.for(0, select(nth.eq(0), u32(1), 0), 1, () => {
        const count = countOf(row)
        const isAll = k.let(count.le(top))
        const scored = k.let(select(isAll, u32(0), count)) // positions that have scores
        const rankAt = (position: Value) => rankOf(k, scores.load(slot.mul(SPAN).add(position)))
        const [least, left] = [k.variable(u32(0)), k.variable(top)]
        for (const shift of SHIFTS) {
          k.each(BYTES, (i) => counts.store(i, 0))
          k.barrier()
          k.each(scored, (position) => {
            const rank = rankAt(position)
            // Shifts of all 32 bits are no shifts everywhere.
            const isOpen =
              shift === 24
                ? undefined
                : rank
                    .xor(least.now)
                    .shr(shift + 8)
                    .eq(0)
            const add = () => counts.atomicAdd(rank.shr(shift).and(BYTES - 1), 1)
            if (isOpen) k.if(isOpen, add)
            else add()
          })
          k.barrier()
          k.if(k.lane.eq(0), () => findByte(k, counts, left.now, found))
          k.barrier()
          least.set(least.now.or(found.load(0).shl(shift)))
          left.set(found.load(1))
        }

        // Neighbouring blocks are a thread's, so that it knows how many of the equal ones lie before them.
        const each = Math.ceil(blocks / k.threads)
        const [from, to] = [k.let(k.lane.mul(each)), k.let(k.lane.add(1).mul(each).min(blocks))]
        const own = k.variable(u32(0))
        k.for(from.mul(BLOCK).min(scored), to.mul(BLOCK).min(scored), 1, (position) =>
          own.set(own.now.add(select(rankAt(position).eq(least.now), u32(1), 0))),
        )
        equals.store(k.lane, own.now)
        k.barrier()
        const before = k.variable(u32(0))
        k.for(0, k.lane, 1, (thread) => before.set(before.now.add(equals.load(thread))))
        k.for(from, to, 1, (block) => {
          const first = k.let(block.mul(BLOCK))
          const bits = k.variable(u32(0))
          k.for(first.min(scored), first.add(BLOCK).min(scored), 1, (position) => {
            const rank = rankAt(position)
            const isEqual = k.let(rank.eq(least.now))
            const isChosen = rank.gt(least.now).or(isEqual.and(before.now.lt(left.now)))
            bits.set(bits.now.or(select(isChosen, u32(1), 0).shl(position.sub(first))))
            before.set(before.now.add(select(isEqual, u32(1), 0)))
          })
          const seen = k.let(count.sub(first.min(count)).min(BLOCK)) // of the block
          const all = u32(1).shl(seen).sub(1)
          const chosen = select(isAll, all, bits.now)
          output.store(row.mul(outputStride).add(block), chosen.bits("i32").float())
        })
        k.barrier()
      })
    })
  })
}

/** The byte of the least that is chosen, and how many with it are: of those counted the `left` highest. */
function findByte(k: Builder, counts: Elements, left: Value, found: Elements): void {
  const [byte, rest] = [k.variable(u32(0)), k.variable(left)]
  const isFound = k.variable(u32(0))
  k.for(0, BYTES, 1, (i) => {
    const other = k.let(u32(BYTES - 1).sub(i))
    const count = k.let(counts.load(other))
    const isHere = k.let(isFound.now.eq(0).and(count.ge(rest.now)))
    const isOver = k.let(isFound.now.eq(0).and(count.lt(rest.now)))
    byte.set(select(isHere, other, byte.now))
    rest.set(select(isOver, rest.now.sub(count), rest.now))
    isFound.set(select(isHere, u32(1), isFound.now))
  })
  found.store(0, byte.now)
  found.store(1, rest.now)
}
