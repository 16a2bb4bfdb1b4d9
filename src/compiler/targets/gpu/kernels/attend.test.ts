// Attention on the slow twin, bit for bit what the reference computes. Blocks hold keys and values where a row sees them and
// nothing elsewhere, so whatever is read beyond that is refused.

import { describe, expect, test } from "vitest"
import { batch, type Part } from "../../../../../test/model/steps.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import { narrow, rounding } from "../../../../runtime/dtype.ts"
import {
  AttentionWork,
  WORK,
  type WorkCount,
  work,
} from "../../../../runtime/gpu/attention-work.ts"
import type { KvType } from "../../../../runtime/manifest.ts"
import { BLOCK, type StepInput } from "../../../../runtime/program.ts"
import { StepRows } from "../../../../runtime/step-rows.ts"
import { type Attention, chosenColumns, distancesOf, valueDim } from "../../../graph/graph.ts"
import type { Plan, Step, View } from "../../../plan.ts"
import * as reference from "../../reference/kernels.ts"
import type { RowStep } from "../../runs.ts"
import type { Statement } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Choice, Groups, Launch } from "../launch.ts"
import { attendChoices, attentionOrder } from "./attend.ts"
import { kvLayout } from "./kv.ts"
import { MOST_MERGED } from "./merge.ts"
import { piecesOf, rowChoices } from "./rows.ts"
import type { Units } from "./tiles.ts"

interface Case {
  kv?: KvType
  /** What multiplies codes. */
  units?: Units
  attention?: Partial<Attention>
  span?: number
  rows?: "tokens" | "wanted"
  parts: readonly Part[]
  slots?: number
  /** Of the sequences' positions, so many see each other; the layer is mutual. */
  together?: number
  /** Groups of the first axis, where they are not as many as are asked for. */
  groups?: number
  /** A position of each sequence whose key, or value, is no number. */
  notNumber?: { of: "keys" | "values"; position: number }
  /** Scores have biases by distance, of a context that is so long. */
  biased?: number
  /** These are numbers of so many buckets, and rows have what is added of each. */
  buckets?: number
  /** Of what a row would see, it sees so many of eight positions, which an indexer has chosen. */
  chosen?: number
  /** Of each position; absent: random ones. */
  value?: (position: number) => number
  /** Rows are rounded behind, by the kernel that merges them; or multiplied with others before that. */
  behind?: "rounded" | "gated"
  /** What is made of the launches before they run. */
  planted?: (launches: readonly Launch[]) => readonly Launch[]
}

const plain: Attention = {
  layer: 0,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  scale: 0.31,
  cap: undefined,
  window: undefined,
  sinks: 0,
}
const BLOCKS = 270

const GROUP = 32

/** Those that are done to attention's rows: these times what was asked, and codes of 8 bits. */
function stepsBehind(
  what: Case["behind"],
  rows: "tokens" | "wanted",
  query: View,
  output: View,
): RowStep[] {
  const { columns } = output
  const codes = { codes: 2, scales: 3, columns, group: GROUP, codec: "q4f16_1" } as const
  const gated = { rows, op: "multiply", a: output, b: query, output } as const
  const rounded = { rows, op: "quantize", input: output, output: codes } as const
  return what === undefined ? [] : what === "gated" ? [gated, rounded] : [rounded]
}

/** The step with neighbours, so many from each multiple on, that see each other and nobody else. */
function together(input: StepInput, count: number | undefined): StepInput {
  if (count === undefined) return input
  const { positions, starts } = input
  const lasts = [...starts.subarray(1)].flatMap((end, s) =>
    Array<number>(end - starts[s]!).fill(positions[end - 1]!),
  )
  const seenFrom = positions.map((position) => position - (position % count))
  const seenTo = seenFrom.map((from, token) => Math.min(from + count - 1, lasts[token]!))
  return { ...input, seenFrom, seenTo }
}

/** The output of attention, by the kernels and by the reference. */
function attended({ kv = "f32", units = "dots", span = 64, rows = "tokens", ...given }: Case) {
  const attention = { ...plain, ...given.attention }
  const { heads, kvHeads, headDim, latent, window, chunked, sinks, bidirectional, mutual } =
    attention
  const begins = { group: 0, window, chunked, mutual }
  const arithmetic = kv === "q8" && latent === undefined ? "codes" : "floats"
  const next = mulberry32(heads * 1000 + headDim)
  const random = () => (next() / 2 ** 32 - 0.5) * 4

  const distances = distancesOf(given.biased ?? 0)
  const { buckets = 0 } = given
  const added = heads * buckets

  const shape = { layers: [0], kvHeads, headDim: storedDims(attention) }
  const [queries, columns] = [heads * headDim, heads * valueDim(attention)]
  const plan = {
    kv,
    sinks,
    groups: [window && !bidirectional ? { ...shape, window } : shape],
    shapes: { context: 16 * BLOCKS },
    buffers: [
      { capacity: "tokens", columns: queries + 7, dtype: "f32" },
      { capacity: "tokens", columns: columns + 2, dtype: "f32" },
      { capacity: "tokens", columns, dtype: "i8" },
      { capacity: "tokens", columns: columns / GROUP, dtype: "scales" },
      { capacity: "tokens", columns: chosenColumns(16 * BLOCKS), dtype: "f32" },
      ...["query", "key"].map(() => ({ capacity: "tokens", columns: added + 3, dtype: "f32" })),
    ],
    steps: [] as Step[],
  } as unknown as Plan
  const query = { buffer: 0, from: 5, columns: queries }
  const output = { buffer: 1, from: 1, columns }
  const behind = stepsBehind(given.behind, rows, query, output)
  const step = {
    op: "attend",
    rows,
    query,
    attention,
    arithmetic,
    sinkLogits: undefined,
    biases: given.biased ? { parameter: 0, distances } : undefined,
    place: { group: 0, layer: 0 },
    ...(buckets > 0 && {
      relative: {
        query: { buffer: 5, from: 2, columns: added },
        key: { buffer: 6, from: 3, columns: added },
      },
    }),
    ...(given.chosen && { chosen: { buffer: 4, from: 0, columns: chosenColumns(16 * BLOCKS) } }),
    span,
    output,
  } satisfies Step as Extract<Step, { op: "attend" }>

  const input = together(batch(given.parts), given.together)
  const limits = { tokens: input.tokens.length, blocks: [BLOCKS] }
  const stepRows = new StepRows(limits, sinks)
  stepRows.take(input)
  const tokens = stepRows.tokensOf(rows)

  // Keys and values, as they are stored, of the positions that are there.
  const width = kvHeads * headDim
  const cache: reference.Cache = {
    keys: new Float32Array(BLOCKS * BLOCK * width),
    values: new Float32Array(BLOCKS * BLOCK * width),
  }
  if (kv === "q8")
    cache.scales = {
      keys: new Float32Array(BLOCKS * BLOCK * kvHeads),
      values: new Float32Array(BLOCKS * BLOCK * kvHeads),
    }
  const isLatent = latent !== undefined
  if (isLatent) cache.values = cache.keys
  if (isLatent && cache.scales) cache.scales.values = cache.scales.keys
  const stored = new Set<number>()
  const head = new Float32Array(headDim)
  for (const [sequence, { from, tokens, visibleFrom = 0 }] of given.parts.entries())
    for (let p = 0; p < from + tokens.length; p++) {
      if (p >= sinks && p < visibleFrom) continue
      const slot = stepRows.slotOf(0, sequence, p)
      if (stored.has(slot)) continue
      stored.add(slot)
      for (const of of isLatent ? (["keys"] as const) : (["keys", "values"] as const))
        for (let h = 0; h < kvHeads; h++) {
          for (let i = 0; i < headDim; i++) head[i] = random()
          if (given.value && of === "values") head.fill(given.value(p))
          if (given.notNumber?.of === of && given.notNumber.position === p) head[1] = Number.NaN
          const at = slot * kvHeads + h
          if (cache.scales)
            cache.scales[of][at] = reference.codeHead(head, 0, headDim, cache[of], at * headDim)
          else cache[of].set(head.map(rounding[kv as "f32"]), at * headDim)
        }
    }
  const x = Float32Array.from({ length: tokens.length * strideOf(queries + 7) }, random)
  const bias = buckets ? () => next() % buckets : random
  const biases = given.biased ? Float32Array.from({ length: heads * distances }, bias) : undefined
  const addedRows = (rows: number, from: number) => {
    const [stride, columns] = [strideOf(added + 3), added]
    return { data: Float32Array.from({ length: rows * stride }, random), stride, from, columns }
  }
  const relative = { query: addedRows(tokens.length, 2), key: addedRows(limits.tokens, 3) }

  const bitsOfBlock = () =>
    Array.from({ length: BLOCK }, (_, i) => (next() % 8 < given.chosen! ? 2 ** i : 0))
  const chosen = {
    data: Float32Array.from(
      { length: given.chosen ? tokens.length * chosenColumns(16 * BLOCKS) : 0 },
      () => bitsOfBlock().reduce((sum, bit) => sum + bit),
    ),
    ...{ stride: chosenColumns(16 * BLOCKS), from: 0, columns: chosenColumns(16 * BLOCKS) },
  }

  // The device's memory.
  const { name, order } = attentionOrder(plan, step, [units])
  const slots = given.slots ?? order.slots
  const laid = new AttentionWork({ ...order, slots }, sinks)
  laid.take(stepRows, input)
  const out = new Memory(4 * tokens.length * strideOf(columns + 2))
  const codes = new Memory(tokens.length * columns)
  const scales = new Memory(4 * tokens.length * strideOf(columns / GROUP))
  const ends = Array.from({ length: laid.items.length / WORK }, (_, i) => {
    const item = laid.items.subarray(i * WORK, (i + 1) * WORK)
    return item[work.slot]! + item[work.rows]!
  })
  const partials = new Memory(4 * Math.max(0, ...ends) * heads * (valueDim(attention) + 2))
  const words = (array: ArrayLike<number>) => Memory.of(Uint32Array.from(array))
  const regions: Record<string, Memory> = {
    positions: words(input.positions),
    lastSeen: words(
      input.positions.map((_, t) => stepRows.lastSeen(t, { window, bidirectional: true })),
    ),
    seenTo: words(input.seenTo ?? input.positions),
    firstSeen: words(input.positions.map((_, t) => stepRows.firstSeen(t, begins))),
    tokensOf: words(tokens),
    blocks: words(input.blocks),
    items: words(laid.items),
    chunkStarts: words(laid.chunkStarts),
    waiting: words(laid.waiting),
    count: words([tokens.length]),
  }
  const blocks = onDevice(kv, attention, cache, stored)
  const { query: byQuery, key: byKey } = relative
  const buffers = [
    ...[Memory.of(x), out, codes, scales, Memory.of(chosen.data)],
    ...[Memory.of(byQuery.data), Memory.of(byKey.data)],
  ]
  const memoryOf = (binding: Launch["operands"][number], chunk: number): Memory | number => {
    if (typeof binding === "number") return binding
    switch (binding.kind) {
      case "buffer":
        return buffers[binding.buffer]!.at(4 * binding.from)
      case "kv":
        return blocks
      case "step":
        return regions[binding.region.name]!
      case "chunk":
        return chunk
      case "scratch":
        return partials
      case "weight":
        return Memory.of(biases!)
    }
  }
  const groupsOf = (groups: Groups) => {
    if (typeof groups === "number") return groups
    if ("rows" in groups) return tokens.length + 1
    const count = laid.count(groups.count.slice(0, groups.count.indexOf(" ")) as WorkCount)
    return count === 0 ? 0 : (given.groups ?? Math.ceil(count / groups.per))
  }
  const pieces = behind.length > 0 ? piecesOf(plan, step, behind, [units]) : undefined
  const [{ launches }] = attendChoices(plan, step, [units], pieces && MOST_MERGED) as [Choice]
  const last = behind.length > 0 ? rowChoices(plan, behind, pieces)[0]!.launches : []
  const made = given.planted?.([...launches, ...last]) ?? [...launches, ...last]
  const run = (launches: readonly Launch[], chunk: number) => {
    for (const { kernel, operands, groups } of launches)
      runKernel(
        kernel,
        operands.map((binding) => memoryOf(binding, chunk)),
        [groupsOf(groups[0]), groupsOf(groups[1]), groupsOf(groups[2])],
        { order: "shuffled" },
      )
  }
  for (let chunk = 0; chunk + 1 < laid.chunkStarts.length; chunk++)
    run(made.slice(0, launches.length), chunk)
  run(made.slice(launches.length), 0)
  const ways = `${chunked ? " chunked" : ""}${bidirectional ? " bidirectional" : mutual ? " mutual" : ""}`
  expect(name).toBe(`${rows} g0 w${window ?? "all"} s${sinks}${ways}`)

  // The same by the reference.
  const all = { data: x, stride: strideOf(queries + 7), from: 5, columns: queries }
  const wanted = {
    data: new Float32Array(tokens.length * columns),
    stride: columns,
    from: 0,
    columns,
  }
  for (const [row, token] of tokens.entries()) {
    const position = input.positions[token]!
    const sequence = stepRows.sequences[token]!
    const first = input.seenFrom?.[token] ?? stepRows.firstSeen(token, begins)
    const end = input.seenTo
      ? input.seenTo[token]!
      : bidirectional
        ? input.positions[input.starts[sequence + 1]! - 1]!
        : position
    const last = window ? Math.min(end, position + window - 1) : end
    const spans: number[][] = Array.from({ length: Math.floor(last / span) + 1 }, () => [])
    for (let p = 0; p <= last; p++)
      if (p >= first || p < sinks) spans[Math.floor(p / span)]!.push(p)
    const seen = spans
      .filter((positions) => positions.length > 0)
      .map((positions) => ({
        positions: Int32Array.from(positions),
        slots: Int32Array.from(positions, (p) => stepRows.slotOf(0, sequence, p)),
      }))
    const own = buckets > 0 ? { ...relative, row, token } : undefined
    const added = biases && { values: biases, distances, from: position, relative: own }
    const visible = given.chosen ? seen.map((each) => reference.chosenOf(each, chosen, row)) : seen
    reference.attend(all, row, { ...attention, arithmetic }, cache, visible, wanted, {
      biases: added,
    })
    if (given.behind === "gated")
      for (let i = 0; i < columns; i++)
        wanted.data[row * columns + i]! *= x[row * strideOf(queries + 7) + 5 + i]!
  }
  const rounded = {
    ...{ codes: new Int8Array(tokens.length * columns), columns, group: GROUP },
    scales: new Float32Array((tokens.length * columns) / GROUP),
  }
  if (behind.length > 0) {
    for (const row of tokens.keys()) reference.quantize(wanted, rounded, row)
    expect(codes.i8()).toEqual(rounded.codes)
    const perRow = columns / GROUP
    for (const row of tokens.keys()) {
      const own = scales.f32().subarray(row * strideOf(perRow), row * strideOf(perRow) + perRow)
      expect(own).toEqual(rounded.scales.subarray(row * perRow, (row + 1) * perRow))
    }
  }
  const found = new Float32Array(wanted.data.length)
  for (const row of tokens.keys()) {
    const from = row * strideOf(columns + 2) + 1
    found.set(out.f32().subarray(from, from + columns), row * columns)
  }
  const groups = pieces?.count
  return { found, wanted: wanted.data, chunks: laid.chunkStarts.length - 1, groups }
}

const strideOf = (columns: number) => Math.ceil(columns / 4) * 4

/** Numbers of a stored key and of a stored value. */
const storedDims = ({ headDim, latent }: Attention) => ({
  key: headDim,
  value: latent === undefined ? headDim : 0,
})

/** Blocks as kv.ts describes them; what was not stored has never been written. */
function onDevice(
  kv: KvType,
  attention: Attention,
  { keys, values, scales }: reference.Cache,
  stored: ReadonlySet<number>,
): Memory {
  const { kvHeads, headDim, latent } = attention
  const { blockBytes } = kvLayout(kv, { kvHeads, headDim: storedDims(attention) })
  const size = { f32: 4, f16: 2, bf16: 2, q8: 1 }[kv]
  const chunk = 16 / size
  const width = Math.ceil(headDim / chunk) * chunk
  const memory = new Memory(BLOCKS * blockBytes)
  /** From element `at` on, zeros behind the head's columns. */
  const put = (at: number, head: Float32Array, from: number, count: number) => {
    const run = new Float32Array(count)
    run.set(head.subarray(from, from + count))
    memory.put(at * size, kv === "q8" ? Uint8Array.from(run) : narrow(run, kv))
  }
  for (const slot of stored) {
    const [block, position] = [Math.floor(slot / BLOCK), slot % BLOCK]
    for (let head = 0; head < kvHeads; head++) {
      const from = (slot * kvHeads + head) * headDim
      const begin = (block * blockBytes) / size
      const key = keys.subarray(from, from + headDim)
      for (let i = 0; i < width; i += chunk) {
        const piece = (head * width + i) / chunk
        put(begin + (piece * BLOCK + position) * chunk, key, i, chunk)
      }
      if (latent === undefined) {
        const at = begin + kvHeads * BLOCK * width + (head * BLOCK + position) * width
        put(at, values.subarray(from, from + headDim), 0, width)
      }
      if (!scales) continue
      const at = block * blockBytes + kvHeads * BLOCK * width * (latent === undefined ? 2 : 1)
      const bytesOf = (value: number) => new Uint8Array(Float32Array.of(value).buffer)
      memory.put(at + 4 * (head * BLOCK + position), bytesOf(scales.keys[slot * kvHeads + head]!))
      if (latent !== undefined) continue
      memory.put(
        at + 4 * ((kvHeads + head) * BLOCK + position),
        bytesOf(scales.values[slot * kvHeads + head]!),
      )
    }
  }
  return memory
}

/** NaNs are all one. */
const bits = (values: Float32Array) =>
  Array.from(
    new Uint32Array(values.map((value) => (Number.isNaN(value) ? Number.NaN : value)).buffer),
  )

function agrees(given: Case) {
  const { found, wanted, chunks } = attended(given)
  expect(wanted.every(Number.isFinite)).toBe(true)
  expect(bits(found)).toEqual(bits(wanted))
  return chunks
}

/** Blocks of a sequence, none of them another's. */
const own = (sequence: number, positions: number) =>
  Array.from({ length: Math.ceil(positions / BLOCK) }, (_, i) => (i * 5 + sequence) % BLOCKS)

const shapes = [
  { heads: 4, kvHeads: 4, headDim: 6 },
  { heads: 8, kvHeads: 2, headDim: 16 },
  { heads: 9, kvHeads: 1, headDim: 20 }, // two groups of threads to a kv head, the second one head short
  { heads: 3, kvHeads: 1, headDim: 80 }, // more columns than threads, but for q8
]

describe("attention has the reference's bits", () => {
  describe.each([
    { kv: "f32", units: "dots" },
    { kv: "f16", units: "dots" },
    { kv: "bf16", units: "dots" },
    { kv: "f32", units: "tiles" },
    { kv: "f16", units: "tiles" },
    { kv: "bf16", units: "tiles" },
    { kv: "q8", units: "dots" },
    { kv: "q8", units: "tiles" },
  ] as const)("of $kv by $units", (how) => {
    test.each(shapes)("$heads heads on $kvHeads of $headDim", (attention) => {
      agrees({ ...how, attention, parts: [{ tokens: [1], from: 150, blocks: own(0, 151) }] })
      const some = new Int32Array(5)
      agrees({ ...how, attention, parts: [{ tokens: some, from: 77, blocks: own(0, 82) }] })
    })

    test("values that are columns of the keys", () => {
      const attention = { heads: 5, kvHeads: 1, headDim: 44, latent: 34 }
      const parts = [
        { tokens: [1], from: 150, blocks: own(0, 151) },
        { tokens: new Int32Array(7), from: 60, blocks: own(1, 67) },
      ]
      agrees({ ...how, attention, parts })
    })

    test("of values that are columns of the keys what is chosen", () => {
      const attention = { heads: 5, kvHeads: 1, headDim: 44, latent: 34, sparse: true } as const
      const parts = [
        { tokens: [1], from: 150, blocks: own(0, 151) },
        { tokens: new Int32Array(7), from: 60, blocks: own(1, 67) },
      ]
      agrees({ ...how, attention, parts, chosen: 2 })
      // What is not chosen is not multiplied by 0, which would show.
      const notNumber = { of: "keys", position: 70 } as const
      agrees({ ...how, attention, parts: parts.slice(0, 1), chosen: 2, notNumber })
    })

    test("several sequences, prompts among them", () => {
      const parts = [
        { tokens: [1], from: 70, blocks: own(0, 71) },
        { tokens: new Int32Array(11), from: 122, blocks: own(1, 133) },
        { tokens: new Int32Array(6), from: 0, blocks: own(2, 6) },
      ]
      agrees({ ...how, parts })
    })

    test("windows with sinks, of which a block has been given back", () => {
      const attention = { window: 50, sinks: 5 }
      const kept = [7, 20, 31, 2, 13]
      const parts = [
        { tokens: new Int32Array(6), from: 140, visibleFrom: 91, blocks: kept },
        { tokens: [1], from: 30, blocks: own(3, 31) },
        { tokens: [1], from: 67, visibleFrom: 18, blocks: own(4, 68) },
      ]
      agrees({ ...how, attention, parts })
    })
  })

  test.each([
    { kv: "f32", units: "dots" },
    { kv: "f16", units: "tiles" },
    { kv: "q8", units: "dots" },
    { kv: "q8", units: "tiles" },
  ] as const)("scores with biases by distance, of $kv by $units", (how) => {
    const parts = [
      { tokens: [1], from: 150, blocks: own(0, 151) },
      { tokens: new Int32Array(11), from: 60, blocks: own(1, 71) },
      { tokens: new Int32Array(6), from: 0, blocks: own(2, 6) },
    ]
    agrees({ ...how, biased: 190, parts })
    agrees({ ...how, biased: 190, parts, attention: { cap: 0.9, window: 50, sinks: 5 } })
    const whole = [{ tokens: new Int32Array(70), from: 0, blocks: own(0, 70) }]
    agrees({ ...how, biased: 70, span: 128, attention: { bidirectional: true }, parts: whole })
    const short = [{ tokens: [1], from: 0, blocks: own(0, 1) }]
    const two = [...short, { tokens: new Int32Array(66), from: 0, blocks: own(1, 66) }]
    const rows = how.units === "tiles" ? "wanted" : "tokens"
    agrees({ ...how, rows, biased: 70, buckets: 5, attention: { bidirectional: true }, parts: two })
    // A span that goes on behind the end of the context, where there are no biases any more.
    agrees({ ...how, biased: 40, span: 128, parts: short })
  })

  describe.each(["dots", "tiles"] as const)("of codes by %s", (units) => {
    const how = { kv: "q8", units } as const

    test("in heads of more columns than threads have at once, the last half a tile's", () => {
      const attention = { heads: 4, kvHeads: 1, headDim: 144 }
      agrees({
        ...how,
        attention,
        parts: [{ tokens: new Int32Array(6), from: 61, blocks: own(0, 67) }],
      })
      const wide = { heads: 8, kvHeads: 1, headDim: 272 }
      agrees({ ...how, attention: wide, parts: [{ tokens: [1, 2], from: 70, blocks: own(0, 72) }] })
    })

    test("a score has all bits of its sum, a weight those of its step", () => {
      // Values that grow from step to step, of which the last position's outweighs all others.
      const value = (position: number) => (position === 80 ? 1e20 : position + 1)
      const parts = [{ tokens: new Int32Array(40), from: 50, blocks: own(0, 90) }]
      agrees({ ...how, value, parts, attention: { scale: 3 } })
      agrees({ ...how, parts, attention: { scale: 1e-3, cap: 0.5 } })
    })

    test("of layers that see both ways, and in windows narrower than a step", () => {
      const parts = [{ tokens: new Int32Array(70), from: 0, blocks: own(0, 70) }]
      agrees({ ...how, attention: { bidirectional: true, window: 9 }, parts })
      const attention = { window: 3, sinks: 1 }
      agrees({
        ...how,
        attention,
        parts: [{ tokens: new Int32Array(9), from: 60, blocks: own(0, 69) }],
      })
    })
  })

  describe("of floats by wide loads", () => {
    const how = { kv: "f16", units: "tiles" } as const

    test.each([
      { heads: 8, kvHeads: 2, headDim: 16 },
      { heads: 1, kvHeads: 1, headDim: 24 }, // a row is a query: there are 48
      { heads: 14, kvHeads: 2, headDim: 40 }, // seven heads, so six rows and queries left over
    ])("more rows than an item has, $heads heads on $kvHeads", (attention) => {
      const parts = [
        { tokens: new Int32Array(53), from: 100, blocks: own(0, 153) },
        { tokens: new Int32Array(2), from: 63, blocks: own(1, 65) },
      ]
      agrees({ ...how, span: 128, attention, parts, groups: 2 })
    })

    test("in heads of which one has fewer values than the threads of a set", () => {
      const parts = [{ tokens: new Int32Array(5), from: 61, blocks: own(0, 66) }]
      agrees({ ...how, attention: { heads: 6, kvHeads: 3, headDim: 96 }, parts })
      agrees({ ...how, attention: { heads: 2, kvHeads: 1, headDim: 256 }, parts })
    })

    test("capped, of layers that see both ways, and in windows narrower than a step", () => {
      const parts = [{ tokens: new Int32Array(70), from: 0, blocks: own(0, 70) }]
      agrees({ ...how, attention: { bidirectional: true, window: 9 }, parts })
      const late = [{ tokens: new Int32Array(20), from: 60, blocks: own(0, 80) }]
      agrees({ ...how, attention: { window: 3, sinks: 1, cap: 0.9 }, parts: late })
    })
  })

  test.each([62, 63, 64, 127, 128])("from position %i on", (from) => {
    agrees({ parts: [{ tokens: [1, 2], from, blocks: own(0, from + 2) }] })
    agrees({ span: 128, parts: [{ tokens: [1, 2], from, blocks: own(0, from + 2) }] })
  })

  test("scores that are capped", () => {
    agrees({ attention: { cap: 0.9 }, parts: [{ tokens: [1], from: 99, blocks: own(0, 100) }] })
  })

  test("a zero is positive, also of one span, which nothing is added to", () => {
    // -1e-45 times a weight below a half is -0.
    const value = (position: number) => (position === 0 ? 0 : -1e-45)
    const parts = [{ tokens: [1], from: 1, blocks: [3] }]
    const { found, wanted } = attended({ value, parts, attention: { scale: 3 } })
    expect(wanted.some((value) => Object.is(value, 0))).toBe(true)
    expect(bits(found)).toEqual(bits(wanted))
  })

  test("chunks, of which one ends within a step, and with sinks before them", () => {
    const parts = [
      { tokens: new Int32Array(20), from: 60, blocks: own(0, 80) },
      { tokens: [1], from: 95, visibleFrom: 48, blocks: [7, 20, 31, 2] },
    ]
    agrees({ attention: { window: 24, chunked: true, sinks: 3 }, parts })
  })

  test("a window that is narrower than a step", () => {
    const attention = { window: 3 }
    agrees({ attention, parts: [{ tokens: new Int32Array(9), from: 60, blocks: own(0, 69) }] })
  })

  test.each([1, 4, 24, 65, 1000])("of layers of which %i see each other", (together) => {
    const attention = { mutual: true } as const
    const parts = [
      { tokens: new Int32Array(150), from: 0, blocks: own(0, 150) },
      { tokens: new Int32Array(70), from: 0, blocks: own(1, 70) },
    ]
    agrees({ attention, together, parts })
    agrees({ kv: "q8", attention, together, parts })
    const some = parts.map((part) => ({ ...part, logits: [0, 23, 24, 69] }))
    agrees({ rows: "wanted", attention, together, parts: some })
  })

  describe("of layers that see both ways", () => {
    const bidirectional = true
    const parts = [
      { tokens: new Int32Array(150), from: 0, blocks: own(0, 150) },
      { tokens: [1], from: 0, blocks: own(1, 1) },
      { tokens: new Int32Array(64), from: 0, blocks: own(2, 64) },
      { tokens: new Int32Array(65), from: 0, blocks: own(3, 65) },
    ]

    test.each(["f32", "q8"] as const)("in %s", (kv) => {
      agrees({ kv, attention: { bidirectional }, parts })
      agrees({ kv, attention: { bidirectional }, span: 128, parts })
    })

    test.each([1, 3, 16, 65, 1000])("in windows of %i to each side", (window) => {
      agrees({ attention: { bidirectional, window }, parts })
    })

    test("of the rows that are wanted alone", () => {
      const [long] = parts
      const some = [
        { ...long!, logits: [0, 1, 62, 70, 149] },
        { tokens: new Int32Array(70), from: 0, blocks: own(1, 70), logits: [] },
        { tokens: new Int32Array(20), from: 0, blocks: own(2, 20), logits: [7] },
      ]
      agrees({ rows: "wanted", attention: { bidirectional }, parts: some })
      agrees({ rows: "wanted", attention: { bidirectional, window: 9 }, parts: some })
    })
  })

  test("of the rows that are wanted alone", () => {
    const parts = [
      { tokens: new Int32Array(70), from: 3, blocks: own(0, 73), logits: [1, 65, 69] },
      { tokens: [1], from: 90, blocks: own(1, 91), logits: [] },
      { tokens: [1], from: 77, blocks: own(2, 78) },
    ]
    agrees({ rows: "wanted", parts })
    agrees({ rows: "wanted", parts, attention: { window: 20, sinks: 2 } })
  })
})

test("items are computed by any number of groups, in as many chunks as it takes", () => {
  const parts = [
    { tokens: new Int32Array(9), from: 190, blocks: own(0, 199) },
    { tokens: [1], from: 3, blocks: own(1, 4) },
    { tokens: [1], from: 100, blocks: own(2, 101) },
  ]
  expect(agrees({ parts, groups: 1 })).toBe(1)
  expect(agrees({ parts, groups: 40 })).toBe(1)
  expect(agrees({ parts, groups: 2, slots: 32 })).toBe(2)
})

describe("softmaxes are merged by the kernel behind, where all have room at once", () => {
  const one = { tokens: [1], from: 130, blocks: own(0, 131) }
  const parts = [
    one,
    { tokens: new Int32Array(3), from: 62, blocks: own(1, 65), logits: [0, 2] },
    { tokens: [1], from: 30, blocks: own(2, 31) },
  ]

  test.each([
    // Two heads at a time, and four at a time of which there are two more.
    { behind: "rounded", attention: { heads: 2, headDim: 16 }, parts, groups: 1 },
    { behind: "rounded", attention: { heads: 6, headDim: 16 }, parts, groups: 1, rows: "wanted" },
    { behind: "gated", attention: { heads: 8, headDim: 128 }, parts: [one], groups: 2 },
    // Of three groups of threads the last has two heads, the others four.
    { behind: "gated", attention: { heads: 10, headDim: 144 }, parts: [one], groups: 3 },
  ] as const)("$behind, $attention", ({ groups, ...given }) => {
    const { found, wanted, ...how } = attended(given)
    expect(bits(found)).toEqual(bits(wanted))
    expect(how).toEqual({ chunks: 1, groups })
  })

  test("and else by their own, chunk by chunk", () => {
    const attention = { heads: 4, headDim: 16 }
    expect(agrees({ behind: "rounded", attention, parts, slots: 6 })).toBe(2)
  })

  test("of more heads than a group has the time for, by their own", () => {
    const attention = { heads: 32, kvHeads: 2, headDim: 33 } // no fewer have whole groups of columns
    const { found, wanted, groups } = attended({ behind: "rounded", attention, parts: [one] })
    expect(bits(found)).toEqual(bits(wanted))
    expect(groups).toBeUndefined()
  })
})

describe("what is no number", () => {
  const part = { tokens: new Int32Array(3), from: 80, blocks: own(0, 83) }
  const wide = { kv: "f16", units: "tiles" } as const

  test.each(["keys", "values"] as const)("shows in whoever sees it: %s", (of) => {
    for (const how of [{ kv: "f32" }, { kv: "q8" }, { kv: "q8", units: "tiles" }, wide] as const) {
      const { found, wanted } = attended({ ...how, parts: [part], notNumber: { of, position: 81 } })
      expect(bits(found)).toEqual(bits(wanted))
      const rows = [0, 1, 2].map((row) => found.subarray(row * 64, row * 64 + 64))
      expect(rows.map((row) => row.some(Number.isNaN))).toEqual([false, true, true])
      if (of === "keys") expect(rows[1]!.every(Number.isNaN)).toBe(true)
    }
  })

  test("shows in the other spans' merge", () => {
    const { found } = attended({ parts: [part], notNumber: { of: "keys", position: 3 } })
    expect(found.every(Number.isNaN)).toBe(true)
  })
})

describe("a fault that is planted is found", () => {
  /** A kernel whose statements a rule replaces, or leaves out. */
  const changed = (
    body: readonly Statement[],
    rule: (statement: Statement) => Statement | undefined,
  ): Statement[] =>
    body.flatMap((statement): Statement[] => {
      const made = rule(statement)
      if (!made) return []
      if (made.kind === "for") return [{ ...made, body: changed(made.body, rule) }]
      if (made.kind !== "if") return [made]
      return [{ ...made, yes: changed(made.yes, rule), no: changed(made.no, rule) }]
    })

  /** Attention in which launch `which` has the statements that `rule` makes. */
  const planted =
    (which: number, rule: (statement: Statement) => Statement | undefined) =>
    (launches: readonly Launch[]) =>
      launches.map((launch, i) =>
        i === which
          ? { ...launch, kernel: { ...launch.kernel, body: changed(launch.kernel.body, rule) } }
          : launch,
      )

  // One group, so that it goes on to another item; more than one step to a span, and more spans than merge threads.
  const short: Case = {
    span: 128,
    attention: { heads: 2 },
    groups: 1,
    parts: [
      { tokens: new Int32Array(3), from: 140, blocks: own(0, 143) },
      { tokens: [1], from: 130, blocks: own(1, 131) },
    ],
  }
  const coded: Case = { ...short, kv: "q8" }
  const tiled: Case = { ...coded, units: "tiles" }
  const wide: Case = { ...short, kv: "f16", units: "tiles" }
  const manySpans: Case = {
    attention: { heads: 1, kvHeads: 1, headDim: 6 },
    parts: [{ tokens: [1], from: 4200, blocks: own(0, 4201) }],
  }

  // Whose kernel begins as the last one's does; then rows are rounded.
  const rounded: Case = { ...short, behind: "rounded" }

  test.each([
    { launch: 0, barriers: 8, given: short },
    { launch: 1, barriers: 8, given: short },
    { launch: 0, barriers: 9, given: coded },
    { launch: 1, barriers: 10, given: coded },
    { launch: 1, barriers: 10, given: tiled },
    { launch: 1, barriers: 6, given: wide },
    { launch: 2, barriers: 3, given: manySpans },
    { launch: 3, barriers: 4, given: rounded, first: 3 },
  ])(
    "a barrier less in the kernel of launch $launch of $given.kv",
    ({ launch, barriers, given, first = 0 }) => {
      agrees(given)
      for (let nth = first; nth < barriers; nth++) {
        let left = nth
        const rule = (statement: Statement) =>
          statement.kind === "barrier" && left-- === 0 ? undefined : statement
        expect(() => attended({ ...given, planted: planted(launch, rule) })).toThrow("a race")
      }
      let count = 0
      const counted = (statement: Statement) => {
        if (statement.kind === "barrier") count++
        return statement
      }
      attended({ ...given, planted: planted(launch, counted) })
      expect(count).toBe(barriers)
    },
  )

  test("a position too many", () => {
    // What a row sees last is loaded from operand 4, `positions`, and kept in a shared array.
    const loaded = new Set<number>()
    const rule = (statement: Statement): Statement => {
      if (statement.kind === "load" && statement.memory.kind === "buffer")
        if (statement.memory.operand === 4) loaded.add(statement.id)
      if (statement.kind !== "store" || statement.value.kind !== "value") return statement
      if (!loaded.has(statement.value.id)) return statement
      const b = { kind: "constant", type: "u32", value: 1 } as const
      const value = { kind: "binary", type: "u32", name: "add", a: statement.value, b } as const
      return { ...statement, value }
    }
    const parts = [{ tokens: [1], from: 100, blocks: own(0, 101) }]
    const { found, wanted } = attended({ parts, planted: planted(0, rule) })
    expect(bits(found)).not.toEqual(bits(wanted))
  })
})
