// The sampler's kernels against their definition, runtime/sampling.ts, bit for bit, on the slow twin: rows that ask for
// everything at once, and what is told of a step by a step block as a program fills it.

import { describe, expect, test } from "vitest"
import { type Draws, draws } from "../../../../../test/device/draws.ts"
import { batch } from "../../../../../test/model/steps.ts"
import { type CountName, MOST_LISTED, type Region } from "../../../../runtime/gpu/regions.ts"
import { StepBlock, writeResults } from "../../../../runtime/gpu/step-block.ts"
import {
  NO_LOGPROBS,
  newStepDone,
  type SamplingRows,
  type StepDone,
  type StepInput,
} from "../../../../runtime/program.ts"
import { createSampler } from "../../../../runtime/sampling.ts"
import type { Kernel, Statement } from "../ir/ir.ts"
import { Memory, type Order, runKernel } from "../ir/run.ts"
import type { Launch } from "../launch.ts"
import { samplerLaunches } from "./sampler.ts"

const plan = (vocabulary: number) => ({
  logits: { buffer: 0, from: 0, columns: vocabulary },
  buffers: [{ capacity: "logits", columns: vocabulary, dtype: "f32" } as const],
  shapes: {
    vocabulary,
    hidden: 0,
    layers: 1,
    heads: 1,
    kvHeads: 1,
    headDim: 1,
    intermediate: 1,
    context: 9999,
  },
})

/** A step with a row of logits for each of the draws. */
function stepOf({ count, rows }: Draws): StepInput {
  const tokens = new Int32Array(count)
  const logits = [...tokens.keys()]
  const blocks = Array<number>(Math.ceil(count / 16)).fill(0)
  return { ...batch([{ tokens, from: 0, blocks, logits }]), wantLogits: false, sampling: rows }
}

interface Options {
  chunkTokens?: number
  order?: Order
  /** Rows that launches are made for, beyond those that are there. */
  more?: number
  /** Launches instead of the sampler's. */
  launches?: Launch[]
}

/** What the kernels make of it. */
function sampled(given: Draws, { chunkTokens, order, more = 2, launches }: Options = {}): StepDone {
  const { vocabulary, count, logits } = given
  const all = launches ?? samplerLaunches(plan(vocabulary), chunkTokens)
  const regions: Region[] = []
  for (const { operands } of all)
    for (const operand of operands)
      if (typeof operand === "object" && operand.kind === "step") regions.push(operand.region)
  const limits = { blocks: [1], tokens: count, sequences: 1, rows: count }
  const shape = { limits, sinks: 0, vocabulary, taken: 0 }
  const block = new StepBlock(shape, regions)
  const input = stepOf(given)
  block.fill(input)
  const words = new Memory(block.bytes.length)
  for (const { from, to } of block.written()) words.put(from, block.bytes.subarray(from, to))
  const stride = 4 * Math.ceil(vocabulary / 4)
  const rows = new Memory(count * stride * 4)
  for (let row = 0; row < count; row++)
    rows.put(row * stride * 4, logits.subarray(row * vocabulary, (row + 1) * vocabulary))
  const scratch = new Map<string, Memory>()
  let region = 0
  for (const { kernel, operands, groups } of all) {
    const [, chunks, asked] = groups as readonly [unknown, number, { count: CountName }]
    const isLaunched = block.countOf(asked.count) > 0
    const bound = operands.map((operand) => {
      if (typeof operand === "number") return operand
      if (operand.kind === "buffer") return rows
      if (operand.kind === "step") return words.at(block.offsetOf(region++))
      if (operand.kind !== "scratch") throw new Error(`a sampler has no ${operand.kind}`)
      const { name, bytes } = operand
      const memory = scratch.get(name) ?? new Memory(count * bytes.perRow!)
      scratch.set(name, memory)
      return memory
    })
    if (isLaunched)
      runKernel(kernel, bound, [count + more, chunks, 1], { order: order ?? "forward" })
  }
  const done = newStepDone(input, { hidden: 0, vocabulary })
  writeResults(words.u8().slice(0, StepBlock.resultBytes(count)), given.rows, done)
  return done
}

/** What the definition makes of it. */
function defined(given: Draws): StepDone {
  const { vocabulary, count, logits, rows } = given
  const done = newStepDone(stepOf(given), plan(vocabulary).shapes)
  const sampler = createSampler(vocabulary)
  for (let row = 0; row < count; row++)
    sampler.sample(logits.subarray(row * vocabulary, (row + 1) * vocabulary), row, rows, done)
  return done
}

/** As many likeliest tokens as there are, at most. */
function some(vocabulary: number, count: number, seed: number): Draws {
  const given = draws(vocabulary, count, seed)
  const { topLogprobs } = given.rows
  for (const [row, wanted] of topLogprobs.entries()) topLogprobs[row] = Math.min(wanted, vocabulary)
  return given
}

/** The same, but that whatever is drawn keeps few tokens by top-k. */
function few(given: Draws): Draws {
  const { topK } = given.rows
  for (const [row, kept] of topK.entries())
    if (kept <= 0 || kept > MOST_LISTED) topK[row] = row % 3 === 0 ? MOST_LISTED : 1 + row
  return given
}

function greedy(given: Draws): Draws {
  given.rows.temperature.fill(0)
  return given
}

function expectSame(given: Draws, options: Options = {}): void {
  expect(sampled(given, options)).toEqual(defined(given))
}

describe("rows are drawn as the definition draws them", () => {
  test.each<[string, Draws, Options]>([
    ["one token", some(1, 20, 1), {}],
    ["33 tokens, more groups than rows", some(33, 40, 2), { more: 14, order: "backward" }],
    ["70 tokens", some(70, 80, 3), { order: "shuffled" }],
    ["70 tokens in chunks of 32", some(70, 40, 4), { chunkTokens: 32, order: "shuffled" }],
    ["1,000 tokens in chunks of 300", some(1000, 30, 5), { chunkTokens: 300 }],
    ["2,560 tokens", some(2560, 40, 6), {}],
    ["9,000 tokens, two chunks", some(9000, 12, 7), {}],
    ["70 tokens, greedy", greedy(some(70, 8, 5)), {}],
    ["one token, few of which are kept", few(some(1, 6, 1)), {}],
    ["70 tokens, few", few(some(70, 20, 8)), { more: 14, order: "shuffled" }],
    [
      "70 tokens in chunks of 32, few",
      few(some(70, 16, 4)),
      { chunkTokens: 32, order: "backward" },
    ],
    ["1,000 tokens in chunks of 300, few", few(some(1000, 12, 5)), { chunkTokens: 300 }],
    ["9,000 tokens, two chunks, few", few(some(9000, 6, 7)), {}],
  ])("%s", (_, given, options) => expectSame(given, options))
})

/** Two rows that ask for everything, of logits many of which are equal; the second has biases and counts. */
function demanding(vocabulary: number): Draws {
  const given = some(vocabulary, 2, 9)
  const { logits, rows } = given
  for (const [i, logit] of logits.entries()) logits[i] = Math.round(Math.tanh(logit) * 8) / 4
  rows.temperature.fill(0.9)
  rows.topK.fill(vocabulary - 9)
  rows.topP.fill(0.7)
  rows.minP.fill(0.01)
  rows.maskRow.fill(2)
  rows.topLogprobs.fill(7)
  return given
}

test("likeliest tokens that are equal are listed by their ids, whichever threads have them", () => {
  const given = some(1000, 1, 3)
  for (let token = 0; token < 1000; token++) given.logits[token] = token % 256 < 3 ? 2 : 1
  given.rows.topLogprobs.fill(20)
  expectSame(given)
  expect([...defined(given).topTokens.subarray(0, 4)]).toEqual([0, 1, 2, 256])
})

test("a row of which nothing is left has no token", () => {
  const given = demanding(70)
  given.rows.minP.fill(1.5)
  expectSame(given)
  expect([...defined(given).finite]).toEqual([0, 0])
})

/** A kernel without its barrier number `nth`, and nothing if it has no such barrier. */
function withoutBarrier(kernel: Kernel, nth: number): Kernel | undefined {
  let met = 0
  const without = (body: readonly Statement[]): Statement[] =>
    body.flatMap((statement): Statement[] => {
      if (statement.kind === "barrier") return met++ === nth ? [] : [statement]
      return statement.kind === "for"
        ? [{ ...statement, body: without(statement.body) }]
        : [statement]
    })
  const body = without(kernel.body)
  return met > nth ? { ...kernel, body } : undefined
}

describe("faults are noticed", () => {
  const vocabulary = 70
  const listed = demanding(vocabulary)
  const unlisted = demanding(vocabulary)
  unlisted.rows.topK[1] = 0
  const steps = [
    { given: listed, wanted: defined(listed), asks: ["listed", "described"] },
    {
      ...{ given: unlisted, wanted: defined(unlisted) },
      asks: ["unlisted", "raced", "counted", "weighed", "described"],
    },
  ]
  const inChunks = [vocabulary, 32].map((tokens) => samplerLaunches(plan(vocabulary), tokens))
  /** In a step that takes the launch which is faulty. */
  const isNoticed = (launches: Launch[], faulty?: Launch) =>
    steps.some(({ given, wanted, asks }) => {
      const { count } = (faulty?.groups[2] ?? { count: "" }) as { count: string }
      if (faulty && !asks.includes(count.replace("asked ", ""))) return false
      try {
        expect(sampled(given, { launches })).toEqual(wanted)
        return false
      } catch {
        return true
      }
    })

  test("which are none", () =>
    expect(inChunks.map((each) => isNoticed(each))).toEqual([false, false]))

  const kernels = [...new Set(inChunks[0]!.map(({ kernel }) => kernel))]
  test.each(kernels.map((kernel) => [kernel.name, kernel] as const))(
    "%s: a barrier less",
    (_, kernel) => {
      let faulty = withoutBarrier(kernel, 0)
      for (let nth = 0; faulty; faulty = withoutBarrier(kernel, ++nth)) {
        const planted = faulty
        const isSeen = inChunks.some((launches) =>
          isNoticed(
            launches.map((l) => (l.kernel === kernel ? { ...l, kernel: planted } : l)),
            launches.find((l) => l.kernel === kernel),
          ),
        )
        expect({ nth, isSeen }).toEqual({ nth, isSeen: true })
      }
      expect(withoutBarrier(kernel, 0)).toBeDefined()
    },
  )

  test("a token too many", () => {
    const [launches] = inChunks
    for (const launch of launches!) {
      const operands = launch.operands.map((o) => (o === vocabulary ? vocabulary + 1 : o))
      const hasTokens = operands.some((operand, i) => operand !== launch.operands[i])
      const planted = launches!.map((l) => (l === launch ? { ...l, operands } : l))
      expect(isNoticed(planted, launch)).toBe(hasTokens)
    }
  })
})

test("what a step asks of the sampler", () => {
  const launched = (change: (rows: SamplingRows) => void) => {
    const given = some(9000, 2, 9)
    const { rows } = given
    rows.temperature.fill(1)
    rows.topK.fill(0)
    rows.topP.fill(1)
    rows.topLogprobs.fill(NO_LOGPROBS)
    change(rows)
    const block = new StepBlock(
      {
        limits: { blocks: [1], tokens: 2, sequences: 1, rows: 2 },
        sinks: 0,
        vocabulary: 9000,
        taken: 0,
      },
      [],
    )
    block.fill(stepOf(given))
    return samplerLaunches(plan(9000)).flatMap(({ kernel, groups }) => {
      const { count } = groups[2] as { count: CountName }
      return block.countOf(count) > 0 ? [kernel.name.replace("sampler_", "")] : []
    })
  }
  const four = (name: string) => Array<string>(4).fill(name)
  expect(launched((rows) => rows.temperature.fill(0))).toEqual(["score", "tell"])
  expect(launched((rows) => rows.topP.fill(0))).toEqual(["score", "tell"])
  expect(launched(() => {})).toEqual(["score", "race", "tell"])
  expect(launched((rows) => rows.topK.fill(MOST_LISTED))).toEqual(["list", "settle"])
  expect(launched((rows) => rows.topK.set([1]))).toEqual([
    "score",
    ...four("select"),
    "race",
    "tell",
  ])
  expect(
    launched((rows) => {
      rows.topK.set([1])
      rows.temperature.set([1, 0])
      rows.topLogprobs.fill(0)
    }),
  ).toEqual(["list", "describe", "settle"])
  expect(
    launched((rows) => {
      rows.topK.fill(MOST_LISTED + 1)
      rows.topP.fill(1 - 2 ** -24)
    }),
  ).toEqual(["score", ...four("select"), ...four("select"), "race", "tell"])
})
