// The order of sums that a plan asks for, against small computations of its own: numbers are chosen so that JavaScript's
// doubles hold every product and every sum before it is rounded.

import { describe, expect, test } from "vitest"
import { loadSmall, smallGraph } from "../../../../test/model/small.ts"
import { batch, blocksFor, limitsFor, prefill, take } from "../../../../test/model/steps.ts"
import { mulberry32 } from "../../../../test/random.ts"
import { quantise } from "../../../model/weights/convert.ts"
import { narrow } from "../../../runtime/dtype.ts"
import { type CompileOptions, compile } from "../../compile.ts"
import { embed, finish, weight } from "../../graph/builder.ts"
import type { Graph } from "../../graph/graph.ts"
import { partEnds, type SumOrder } from "../../plan.ts"
import { emit } from "../cpu/emit.ts"
import { exp } from "./arithmetic.ts"
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

test("processors add without parts and spans, and are given no other plan", () => {
  const of = (sums?: SumOrder) => compile(smallGraph(), { ...plain, ...(sums ? { sums } : {}) })
  expect(() => emit(of())).not.toThrow()
  expect(() => emit(of({ parts: 8, span: undefined }))).toThrow("internal: a product in parts")
  expect(() => emit(of({ parts: 1, span: 128 }))).toThrow("internal: attention in spans")
  expect(() => of({ parts: 1, span: 100 })).toThrow("internal: spans of 100 positions")
})
