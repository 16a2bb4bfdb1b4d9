// The lightning indexer on the slow twin: it chooses what the reference chooses.

import { expect, test } from "vitest"
import { batch, type Part } from "../../../../../test/model/steps.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import { narrow, rounding } from "../../../../runtime/dtype.ts"
import { AttentionWork, type WorkCount } from "../../../../runtime/gpu/attention-work.ts"
import { BLOCK } from "../../../../runtime/program.ts"
import { StepRows } from "../../../../runtime/step-rows.ts"
import { chosenColumns } from "../../../graph/graph.ts"
import type { Plan, Step } from "../../../plan.ts"
import * as reference from "../../reference/kernels.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Choice, Groups } from "../launch.ts"
import { indexerChoices } from "./indexer.ts"
import { kvLayout } from "./kv.ts"

const BLOCKS = 60
const CONTEXT = 600
const TOP = 20

interface Case {
  kv: "f32" | "bf16" | "q8"
  heads: number
  headDim: number
  rows: "tokens" | "wanted"
  /** Of scores: what they are made of. */
  random: () => number
}

const parts: readonly Part[] = [
  { tokens: [1], from: 530, visibleFrom: 15, blocks: Array.from({ length: 34 }, (_, i) => 33 - i) },
  { tokens: new Int32Array(4), from: 18, blocks: [40, 50] }, // of which the last sees more than are chosen
  { tokens: [1, 2], from: 254, blocks: Array.from({ length: 16 }, (_, i) => 41 + i) }, // at the end of a span
]

/** What kernels choose of each row, and what the reference does. */
function chosen({ kv, heads, headDim, rows, random }: Case, parts: readonly Part[]) {
  const columns = chosenColumns(CONTEXT)
  const [queries, strideOf] = [heads * headDim, (columns: number) => Math.ceil(columns / 4) * 4]
  const shape = { layers: [0], kvHeads: 1, headDim: { key: headDim, value: 0 } }
  const plan = {
    ...{ kv, sinks: 0, groups: [shape], shapes: { context: CONTEXT } },
    buffers: [queries + 3, heads, columns].map((columns) => ({
      ...{ capacity: "tokens", columns, dtype: "f32" },
    })),
  } as unknown as Plan
  const step = {
    ...{ op: "indexer", rows, place: { group: 0, layer: 0 } },
    query: { buffer: 0, from: 2, columns: queries },
    weights: { buffer: 1, from: 0, columns: heads },
    indexer: { layer: 0, heads, headDim, top: TOP },
    output: { buffer: 2, from: 0, columns },
  } as const satisfies Step
  const input = batch(parts)
  const stepRows = new StepRows({ tokens: input.tokens.length, blocks: [BLOCKS] }, 0)
  stepRows.take(input)
  const tokens = stepRows.tokensOf(rows)

  const layout = kvLayout(kv, shape)
  const memory = new Memory(BLOCKS * layout.blockBytes)
  const cache: reference.Cache = {
    keys: new Float32Array(BLOCKS * BLOCK * headDim),
    values: new Float32Array(0),
    ...(kv === "q8" && {
      scales: { keys: new Float32Array(BLOCKS * BLOCK), values: new Float32Array(0) },
    }),
  }
  const size = { f32: 4, bf16: 2, q8: 1 }[kv]
  for (const [sequence, { from, tokens }] of parts.entries())
    for (let p = 0; p < from + tokens.length; p++) {
      const slot = stepRows.slotOf(0, sequence, p)
      const head = Float32Array.from({ length: headDim }, random)
      const at = slot * headDim
      if (cache.scales)
        cache.scales.keys[slot] = reference.codeHead(head, 0, headDim, cache.keys, at)
      else cache.keys.set(head.map(rounding[kv as "f32"]), at)
      const key = new Float32Array(layout.keyWidth)
      key.set(cache.keys.subarray(at, at + headDim))
      const [block, position] = [Math.floor(slot / BLOCK), slot % BLOCK]
      const begin = block * layout.blockBytes
      for (let i = 0; i < key.length; i += layout.chunk) {
        const piece = key.subarray(i, i + layout.chunk)
        const bytes = kv === "q8" ? Uint8Array.from(piece) : narrow(piece, kv)
        memory.put(begin + (i * BLOCK + position * layout.chunk) * size, bytes)
      }
      const scale = cache.scales && Float32Array.of(cache.scales.keys[slot]!)
      if (scale)
        memory.put(begin + BLOCK * layout.keyWidth + 4 * position, new Uint8Array(scale.buffer))
    }
  const floats = (columns: number) =>
    Float32Array.from({ length: tokens.length * strideOf(columns) }, random)
  const [x, by] = [floats(queries + 3), floats(heads)]

  const [{ launches }] = indexerChoices(plan, step) as [Choice]
  const order = launches[0]!.operands.flatMap((operand) =>
    typeof operand === "object" && operand.kind === "step" && operand.region.name === "items"
      ? [operand.region.order]
      : [],
  )[0]!
  // Of so few slots, scores of several rows come one after the other.
  const laid = new AttentionWork({ ...order, slots: 3 }, 0)
  laid.take(stepRows, input)
  const words = (array: ArrayLike<number>) => Memory.of(Uint32Array.from(array))
  const firsts = Array.from(input.tokens, (_, token) => stepRows.firstSeen(token, order.visible))
  const regions: Record<string, Memory> = {
    ...{ positions: words(input.positions), tokensOf: words(tokens) },
    ...{ blocks: words(input.blocks), items: words(laid.items) },
    firstSeen: words(firsts),
    chunkStarts: words(laid.chunkStarts),
  }
  const out = new Memory(4 * tokens.length * columns)
  const buffers = [Memory.of(x), Memory.of(by), out]
  const scores = new Memory(3 * order.visible.span * 4)
  const groupsOf = (groups: Groups) =>
    typeof groups === "object" && "count" in groups
      ? laid.count(groups.count.split(" ")[0] as WorkCount)
      : (groups as number)
  for (let chunk = 0; chunk + 1 < laid.chunkStarts.length; chunk++)
    for (const { kernel, operands, groups } of launches) {
      const given = operands.map((operand) => {
        if (typeof operand === "number") return operand
        if (operand.kind === "buffer") return buffers[operand.buffer]!.at(4 * operand.from)
        if (operand.kind === "step") return regions[operand.region.name]!
        if (operand.kind === "chunk") return chunk
        return operand.kind === "kv" ? memory : scores
      })
      const [a, b, c] = groups
      runKernel(kernel, given, [groupsOf(a), groupsOf(b), groupsOf(c)], { order: "shuffled" })
    }

  const wanted = {
    data: new Float32Array(tokens.length * columns),
    stride: columns,
    from: 0,
    columns,
  }
  for (const [row, token] of tokens.entries()) {
    const first = firsts[token]!
    const length = input.positions[token]! + 1 - first
    const positions = Int32Array.from({ length }, (_, p) => first + p)
    const sequence = stepRows.sequences[token]!
    reference.indexer(
      { data: x, stride: strideOf(queries + 3), from: 2, columns: queries },
      { data: by, stride: strideOf(heads), from: 0, columns: heads },
      ...([row, step.indexer, cache] as const),
      { positions, slots: positions.map((p) => stepRows.slotOf(0, sequence, p)) },
      wanted,
    )
  }
  return { found: out.f32(), wanted: wanted.data, chunks: laid.chunkStarts.length - 1 }
}

function numbers(most: number): () => number {
  const next = mulberry32(7)
  return () => Math.round((next() / 2 ** 32 - 0.5) * 2 * most) / 8
}

test.each<Case>([
  { kv: "f32", heads: 8, headDim: 12, rows: "tokens", random: numbers(40) },
  { kv: "bf16", heads: 3, headDim: 9, rows: "wanted", random: numbers(40) },
  { kv: "q8", heads: 11, headDim: 20, rows: "tokens", random: numbers(40) },
  // Most scores are equal.
  { kv: "f32", heads: 2, headDim: 4, rows: "tokens", random: numbers(1.4) },
])("$kv, $heads heads of $headDim, $rows", (given) => {
  const { found, wanted, chunks } = chosen(given, parts)
  expect(chunks).toBeGreaterThan(1)
  expect(found).toEqual(wanted)
  const bits = [...wanted].reduce(
    (sum, word) => sum + word.toString(2).replaceAll("0", "").length,
    0,
  )
  expect(bits).toBe((given.rows === "wanted" ? 3 : 7) * TOP - (given.rows === "wanted" ? 0 : 1))
})

test("what is no number is below every score", () => {
  const random = numbers(40)
  let count = 0
  const given = { kv: "f32", heads: 2, headDim: 4, rows: "tokens" } as const
  const some = () => (++count % 50 === 0 ? Number.NaN : random())
  const { found, wanted } = chosen({ ...given, random: some }, parts.slice(0, 1))
  expect(found).toEqual(wanted)
})
