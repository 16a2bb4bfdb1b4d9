// The order of sums that a plan asks for, against small computations of its own: numbers are chosen so that JavaScript's
// doubles hold every product and every sum before it is rounded.

import { describe, expect, test } from "vitest"
import { loadSmall, smallGraph } from "../../../../test/model/small.ts"
import { batch, blocksFor, limitsFor, prefill, take } from "../../../../test/model/steps.ts"
import { mulberry32 } from "../../../../test/random.ts"
import { quantise } from "../../../model/weights/convert.ts"
import { narrow } from "../../../runtime/dtype.ts"
import type { KvType } from "../../../runtime/manifest.ts"
import { type CompileOptions, compile } from "../../compile.ts"
import { embed, finish, weight } from "../../graph/builder.ts"
import type { Graph } from "../../graph/graph.ts"
import { partEnds, type SumOrder } from "../../plan.ts"
import { emit } from "../cpu/emit.ts"
import { exp, fma } from "./arithmetic.ts"
import { attend } from "./kernels.ts"
import { openReference } from "./reference.ts"

const { fround } = Math
const gpu: SumOrder = { parts: 8, span: 64 }
const limits = { blocks: 40, tokens: 250, sequences: 1, rows: 250 }
const plain: CompileOptions = { format: "q0f32", activations: "float", kv: "f32" }

function openPlan(graph: Graph, options: Partial<CompileOptions>) {
  const plan = compile(graph, { ...plain, ...options })
  return openReference(plan, limitsFor(plan, limits))
}

describe("parts", () => {
  test("have whole groups, and the shares of a half, a quarter or an eighth are parts of its own", () => {
    expect(partEnds(512, "f32", 8)).toEqual([64, 128, 192, 256, 320, 384, 448, 512])
    expect(partEnds(300, "f32", 8)).toEqual([32, 64, 96, 160, 192, 224, 256, 300]) // 10 groups, the last of 12
    expect(partEnds(60, "q4f16_1", 8)).toEqual([0, 0, 0, 32, 32, 32, 32, 60])
    expect(partEnds(400, "q3f16_1", 8)).toEqual([40, 80, 120, 200, 240, 280, 320, 400]) // groups of 40
    for (const columns of [256, 512, 1024, 11008])
      for (const shards of [2, 4, 8]) {
        const whole = partEnds(columns, "q4f16_1", 8)
        const own = partEnds(columns / shards, "q4f16_1", 8 / shards)
        for (let shard = 0; shard < shards; shard++)
          expect(own.map((end) => end + (shard * columns) / shards)).toEqual(
            whole.slice((shard * 8) / shards, ((shard + 1) * 8) / shards),
          )
      }
  })

  /** Logits of one token: the product of its embedding with the head's rows. */
  async function product(x: Float32Array, head: Float32Array, rows: number, options: Options) {
    const columns = x.length
    const shapes = { ...smallGraph().shapes, vocabulary: rows, hidden: columns, layers: 0 }
    const graph = finish(
      { architecture: "product", shapes, window: undefined, sinks: 0 },
      embed(weight("embed", "embed", rows, columns)),
      weight("head", "head", rows, columns),
    )
    const { codec, ...rest } = options
    const codecOf = ({ name }: { name: string }) => (name === "head" ? codec : ("f32" as const))
    const program = openPlan(graph, { ...rest, codecOf })
    for (const [id, { name }] of program.manifest.parameters.entries()) {
      if (name === "embed") await program.load(id, 0, 1, narrow(x, "f32"))
      else if (codec === "f32") await program.load(id, 0, rows, narrow(head, "f32"))
      else {
        const packed = quantise(head, rows, columns, codec)
        await program.load(id, 0, rows, packed.values, packed.scales)
      }
    }
    const done = await take(program, batch([{ tokens: [0], from: 0, blocks: [0] }]))
    return done.logits!
  }

  interface Options extends Partial<CompileOptions> {
    codec: "f32" | "q4f16_1"
  }

  const tree = (sums: readonly number[]): number =>
    sums.length === 1
      ? sums[0]!
      : fround(tree(sums.slice(0, sums.length / 2)) + tree(sums.slice(sums.length / 2)))

  const next = mulberry32(3)
  const integer = (most: number) => (next() % (2 * most + 1)) - most

  /** Numbers whose products and sums need 40 bits: 53 hold them. */
  function numbers(rows: number, columns: number) {
    const x = Float32Array.from({ length: columns }, (_, k) => (k % 32 === 5 ? 127 : integer(127)))
    const scales = Float32Array.from(
      { length: rows * Math.ceil(columns / 32) },
      () => (1 + (next() % 31)) * 2 ** -(next() % 12),
    )
    const scale = (row: number, k: number) =>
      scales[row * Math.ceil(columns / 32) + Math.floor(k / 32)]!
    const codes = Int8Array.from({ length: rows * columns }, (_, i) =>
      (i % columns) % 32 === 9 ? 7 : integer(6),
    )
    const head = Float32Array.from(
      codes,
      (code, i) => code * scale(Math.floor(i / columns), i % columns),
    )
    return { x, head, scale }
  }

  test.each([512, 300, 60])(
    "of %i float products are summed as a tree of eight",
    async (columns) => {
      const rows = 7
      const { head } = numbers(rows, columns)
      const x = Float32Array.from({ length: columns }, () => integer(4000))
      const ends = partEnds(columns, "f32", 8)
      const expected = Array.from({ length: rows }, (_, row) =>
        tree(
          ends.map((end, part) => {
            let sum = 0
            for (let k = ends[part - 1] ?? 0; k < end; k++)
              sum = fround(x[k]! * head[row * columns + k]! + sum)
            return sum
          }),
        ),
      )
      const inParts = await product(x, head, rows, { codec: "f32", sums: gpu })
      expect([...inParts]).toEqual(expected)
      const inOne = await product(x, head, rows, { codec: "f32" })
      if (columns > 60) expect(inOne).not.toEqual(inParts)
      for (const [row, logit] of inOne.entries())
        expect(Math.abs(logit - expected[row]!)).toBeLessThan(2e-6 * columns * 4000)
    },
  )

  test.each([512, 300])("of %i products of codes likewise, group by group", async (columns) => {
    const rows = 7
    const { x, head, scale } = numbers(rows, columns)
    const ends = partEnds(columns, "q4f16_1", 8)
    const expected = Array.from({ length: rows }, (_, row) =>
      tree(
        ends.map((end, part) => {
          let sum = 0
          for (let group = ends[part - 1] ?? 0; group < end; group += 32) {
            let whole = 0
            for (let k = group; k < Math.min(end, group + 32); k++)
              whole += x[k]! * (head[row * columns + k]! / scale(row, k))
            sum = fround(whole * scale(row, group) + sum)
          }
          return sum
        }),
      ),
    )
    const options = { codec: "q4f16_1", activations: "int8", sums: gpu } as const
    expect([...(await product(x, head, rows, options))]).toEqual(expected)
  })

  test("an eighth of the columns alone computes what the tree begins with", async () => {
    const [rows, columns] = [5, 512]
    const { head } = numbers(rows, columns)
    const x = Float32Array.from({ length: columns }, () => integer(4000))
    const eighths: Float32Array[] = []
    for (let from = 0; from < columns; from += columns / 8) {
      const rowsOfIt = Array.from({ length: rows }, (_, row) =>
        Array.from(head.subarray(row * columns + from, row * columns + from + columns / 8)),
      )
      const part = x.subarray(from, from + columns / 8)
      eighths.push(await product(part, Float32Array.from(rowsOfIt.flat()), rows, { codec: "f32" }))
    }
    const whole = await product(x, head, rows, { codec: "f32", sums: gpu })
    expect([...whole]).toEqual(
      Array.from(whole, (_, row) => tree(eighths.map((eighth) => eighth[row]!))),
    )
  })
})

describe("spans", () => {
  /** One head of one column whose scores are the keys; values are whole numbers. */
  function attended(scores: readonly number[], values: readonly number[], span?: number) {
    const one = (x: ArrayLike<number>) => Float32Array.from(x)
    const rows = (data: Float32Array) => ({ data, stride: 1, from: 0, columns: 1 })
    const positions = Int32Array.from(scores.keys())
    const out = rows(new Float32Array(1))
    const shape = { heads: 1, kvHeads: 1, headDim: 1, scale: 1, cap: undefined }
    const cache = { keys: one(scores), values: one(values) }
    const seen = (positions: Int32Array) => ({ positions, slots: positions })
    const spans = span
      ? Array.from({ length: Math.ceil(scores.length / span) }, (_, i) =>
          seen(positions.subarray(i * span, (i + 1) * span)),
        )
      : seen(positions)
    attend(rows(one([1])), 0, shape, cache, spans, out)
    return out.data[0]!
  }

  // Within a span all scores are alike, so that its weights are 1 and its total and its mix are whole numbers.
  const next = mulberry32(4)
  const levels = Array.from({ length: 20 }, () => fround((next() % 1000) / 300))
  const highest = Math.max(...levels)
  const scores = Array.from({ length: 1250 }, (_, p) => levels[Math.floor(p / 64)]!)
  const values = scores.map(() => (next() % 2001) - 900)

  /** The spans' totals and mixes times e^(level - highest), added up in the order given. */
  function mergedIn(order: readonly number[]) {
    const of = (span: number) => values.filter((_, p) => Math.floor(p / 64) === span)
    const added = (whole: (values: number[]) => number) =>
      order.reduce((sum, span) => {
        const factor = exp(fround(levels[span]! - highest))
        return fround(sum + fround(whole(of(span)) * factor))
      }, 0)
    const mix = added((values) => values.reduce((a, b) => a + b))
    return fround(mix * fround(1 / added((values) => values.length)))
  }

  test("are a softmax each, merged in order by the largest score of all", () => {
    const order = [...levels.keys()]
    expect(attended(scores, values, 64)).toBe(mergedIn(order))
    expect(mergedIn(order.toReversed())).not.toBe(mergedIn(order))
    expect(attended(scores, values, 64)).toBeCloseTo(attended(scores, values), 2)
    expect(attended(scores, values, 64)).not.toBe(attended(scores, values))
  })

  test("that hold the whole context change nothing", () => {
    expect(attended(scores, values, 1280)).toBe(attended(scores, values))
  })

  test("a number that is none shows in whichever span it stands", () => {
    for (const position of [3, 70, 1249])
      for (const score of [Number.NaN, Infinity, -Infinity]) {
        const bad = scores.with(position, score)
        expect(attended(bad, values, 64)).toBeNaN()
      }
  })

  test("lie where positions are multiples, whatever window and sinks leave", async () => {
    const open = async (sums: SumOrder, window?: number) => {
      const shape = { layers: 1, sinks: 3, ...(window ? { window } : {}) }
      const program = openPlan(smallGraph(shape), { sums })
      await loadSmall(program)
      return program
    }
    const tokens = Int32Array.from({ length: 250 }, (_, i) => (i * 37) % 70)
    for (const [span, window] of [
      [64, undefined],
      [64, 100],
      [128, undefined],
    ] as const) {
      const program = await open({ ...gpu, span }, window)
      const whole = await prefill(program, tokens, blocksFor(250))
      for (const chunk of [1, 48, 64])
        expect(await prefill(program, tokens, blocksFor(250, 20), { chunk })).toEqual(whole)
      const inOne = await prefill(
        await open({ ...gpu, span: undefined }, window),
        tokens,
        blocksFor(250),
      )
      expect(inOne.subarray(0, 60 * 70)).toEqual(whole.subarray(0, 60 * 70))
      expect(inOne).not.toEqual(whole)
      for (const [i, logit] of inOne.entries()) expect(logit).toBeCloseTo(whole[i]!, 4)
    }
  })
})

describe("attention in whole numbers", () => {
  const next = mulberry32(5)
  const random = () => fround((next() / 2 ** 31 - 1) * 3)
  const codes = (count: number) => Float32Array.from({ length: count }, () => (next() % 255) - 127)
  const [heads, headDim, count] = [2, 40, 150]
  const shape = { heads, kvHeads: 1, headDim, scale: 0.11, cap: undefined }
  const query = Float32Array.from({ length: heads * headDim }, random)
  const cache = {
    keys: codes(count * headDim),
    values: codes(count * headDim),
    scales: {
      keys: Float32Array.from({ length: count }, () => fround(Math.abs(random()) / 127)),
      values: Float32Array.from({ length: count }, () => fround(Math.abs(random()) / 127)),
    },
  }
  const rows = (data: Float32Array) => ({
    data,
    stride: data.length,
    from: 0,
    columns: data.length,
  })
  const attended = (arithmetic: "floats" | "codes", seen: readonly number[], own = cache) => {
    const out = rows(new Float32Array(heads * headDim))
    const positions = Int32Array.from(seen)
    attend(rows(query), 0, { ...shape, arithmetic }, own, [{ positions, slots: positions }], out)
    return out.data
  }
  const all = Array.from({ length: count }, (_, p) => p)

  /** Codes of 16 bits as the plan has them, in exact numbers. */
  function coded(x: readonly number[]) {
    const largest = Math.max(...x.map(Math.abs))
    const inverse = fround(32639 / largest)
    const nearest = (x: number) => {
      const [below, rest] = [Math.floor(x), x - Math.floor(x)]
      return rest === 0.5 ? below + (below % 2 === 0 ? 0 : 1) : Math.round(x)
    }
    const made = x.map((value) => BigInt(nearest(fround(value * inverse))))
    return { codes: made, scale: fround(largest / 32639) }
  }
  const dot = (a: readonly bigint[], b: ArrayLike<number>) =>
    fround(Number(a.reduce((sum, code, i) => sum + code * BigInt(b[i]!), 0n)))

  test("is as the plan says, step by step", () => {
    for (let head = 0; head < heads; head++) {
      const own = coded([...query.subarray(head * headDim, (head + 1) * headDim)])
      const scale = fround(own.scale * fround(shape.scale))
      let [most, sum] = [fround(-3.4e38), 0]
      const mix = new Float32Array(headDim)
      for (let from = 0; from < count; from += 64) {
        const step = all.slice(from, from + 64)
        const scores = step.map((p) => {
          const key = cache.keys.subarray(p * headDim, (p + 1) * headDim)
          return fround(fround(dot(own.codes, key) * cache.scales.keys[p]!) * scale)
        })
        const now = Math.max(most, ...scores)
        const correction = exp(fround(most - now))
        const powers = scores.map((score) => exp(fround(score - now)))
        const lanes = new Float32Array(16)
        for (const [i, power] of powers.entries()) lanes[(from + i) % 16]! += power
        sum = fround(fround(sum * correction) + tree16([...lanes]))
        const weights = coded(
          powers.map((power, i) => fround(power * cache.scales.values[step[i]!]!)),
        )
        for (let c = 0; c < headDim; c++) {
          const column = step.map((p) => cache.values[p * headDim + c]!)
          mix[c] = fma(dot(weights.codes, column), weights.scale, fround(mix[c]! * correction))
        }
        most = now
      }
      const inverse = fround(1 / sum)
      const found = attended("codes", all).subarray(head * headDim, (head + 1) * headDim)
      expect([...found]).toEqual(Array.from(mix, (value) => fround(value * inverse)))
    }
  })

  /** Lane i takes i + 8, then i + 4, i + 2, i + 1. */
  const tree16 = (lanes: readonly number[]): number => {
    const half = lanes.length / 2
    return half < 1
      ? lanes[0]!
      : tree16(lanes.slice(0, half).map((lane, i) => fround(lane + lanes[i + half]!)))
  }

  test("is near that in floats, and not the same", () => {
    const [whole, floats] = [attended("codes", all), attended("floats", all)]
    const size = Math.max(...floats.map(Math.abs))
    for (const [i, value] of whole.entries())
      expect(Math.abs(value - floats[i]!)).toBeLessThan(size * 2e-4)
    expect(whole).not.toEqual(floats)
  })

  test("is chosen for codes of 8 bits in spans, and for nothing else", () => {
    const of = (kv: KvType, sums: SumOrder, latent?: number) =>
      compile(smallGraph(latent ? { latent } : {}), { ...plain, kv, sums }).steps.flatMap((step) =>
        step.op === "attend" ? [step.arithmetic] : [],
      )
    const coded = { ...gpu, codes: "codes" } as const
    expect(new Set(of("q8", coded))).toEqual(new Set(["codes"]))
    const others = [
      of("q8", { parts: 1, span: undefined }),
      of("q8", gpu),
      of("q8", coded, 14),
      ...(["f32", "f16", "bf16"] as const).map((kv) => of(kv, coded)),
    ]
    expect(new Set(others.flat())).toEqual(new Set(["floats"]))
  })
})

test("processors add without parts and spans, and are given no other plan", () => {
  const of = (sums?: SumOrder) => compile(smallGraph(), { ...plain, ...(sums ? { sums } : {}) })
  expect(() => emit(of())).not.toThrow()
  expect(() => emit(of({ parts: 8, span: undefined }))).toThrow("internal: a product in parts")
  expect(() => emit(of({ parts: 1, span: 128 }))).toThrow("internal: attention in spans")
  expect(() => of({ parts: 1, span: 100 })).toThrow("internal: spans of 100 positions")
})
