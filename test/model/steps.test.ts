// Every field of a step's input does what it says: on a small decoder, interpreted.

import { describe, expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import { hostReference } from "../../src/compiler/targets/reference/hosted.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import {
  type LoadableProgram,
  MAX_TOP_LOGPROBS,
  SEEN,
  type StepInput,
} from "../../src/runtime/program.ts"
import { createSampler } from "../../src/runtime/sampling.ts"
import { loadSmall, type SmallShape, smallGraph, smallWeights } from "./small.ts"
import { batch, blocksFor, limitsFor, notCancelled, type Part, prefill, take } from "./steps.ts"

const limits = { blocks: 40, tokens: 200, sequences: 8, rows: 200 }
const plain: CompileOptions = { format: "q0f32", activations: "float", kv: "f32" }

async function open(shape: SmallShape = {}, options: Partial<CompileOptions> = {}) {
  const plan = compile(smallGraph(shape), { ...plain, ...options })
  const program = openReference(plan, limitsFor(plan, limits))
  await loadSmall(program)
  return program
}

const prompt = (length: number, salt = 1) =>
  Int32Array.from({ length }, (_, i) => (i * 7 + salt * 13 + ((i * i) % 5)) % 70)

/** The logits of the last token of a prompt, alone. */
async function alone(program: LoadableProgram, tokens: Int32Array, blocks: readonly number[]) {
  return (await take(program, batch([{ tokens, from: 0, blocks }]))).logits!
}

describe("tokens, starts, positions", () => {
  test("a sequence computes the same bits alone and in company", async () => {
    const program = await open()
    const lengths = [1, 37, 16, 5]
    const parts = lengths.map(
      (length, s): Part => ({ tokens: prompt(length, s), from: 0, blocks: blocksFor(48, 4 * s) }),
    )
    const together = await take(program, batch(parts))
    for (const [s, length] of lengths.entries()) {
      const own = await alone(program, prompt(length, s), blocksFor(48, 20))
      expect(together.logits!.slice(s * 70, (s + 1) * 70)).toEqual(own)
    }
  })

  test("prefill and decode mix in one step", async () => {
    const program = await open()
    const first = prompt(33, 1)
    await take(program, batch([{ tokens: first.subarray(0, 32), from: 0, blocks: blocksFor(33) }]))
    const done = await take(
      program,
      batch([
        { tokens: first.subarray(32), from: 32, blocks: blocksFor(33) },
        { tokens: prompt(20, 2), from: 0, blocks: blocksFor(20, 10) },
      ]),
    )
    expect(done.logits!.slice(0, 70)).toEqual(await alone(program, first, blocksFor(33, 20)))
    expect(done.logits!.slice(70)).toEqual(await alone(program, prompt(20, 2), blocksFor(20, 30)))
  })
})

describe("blocks", () => {
  test("may lie anywhere", async () => {
    const program = await open()
    const straight = await prefill(program, prompt(50), [0, 1, 2, 3])
    expect(await prefill(program, prompt(50), [39, 7, 21, 0])).toEqual(straight)
  })

  test("copyBlocks copies them in order", async () => {
    const program = await open()
    const tokens = prompt(40)
    await prefill(program, tokens.subarray(0, 32), [0, 1])
    await program.copyBlocks(0, Int32Array.of(0, 1, 10), Int32Array.of(10, 11, 12))
    await prefill(program, prompt(32, 9), [0, 1]) // somebody else moves in
    const part = { tokens: tokens.subarray(32), from: 32 }
    const copied = await take(program, batch([{ ...part, blocks: [10, 11, 2] }]))
    const twice = await take(program, batch([{ ...part, blocks: [12, 11, 3] }]))
    expect(copied.logits).toEqual(await alone(program, tokens, blocksFor(40, 20)))
    expect(twice.logits).toEqual(copied.logits)
  })
})

describe("visibleFrom, window, sinks", () => {
  test("positions before visibleFrom are not read, sinks always are", async () => {
    const program = await open({ layers: 1, sinks: 2 })
    const logitsAfter = async (changed: number) => {
      const tokens = prompt(40)
      tokens[changed] = (tokens[changed]! + 1) % 70
      await prefill(program, tokens.subarray(0, 39), blocksFor(40))
      const part = { tokens: tokens.subarray(39), from: 39, blocks: [0, 1, 2], visibleFrom: 20 }
      return (await take(program, batch([part]))).logits!
    }
    const base = await logitsAfter(5)
    expect(await logitsAfter(19)).toEqual(base)
    expect(await logitsAfter(20)).not.toEqual(base)
    expect(await logitsAfter(1)).not.toEqual(base)
    expect(await logitsAfter(2)).toEqual(base)
  })

  test("blocks between the sinks and the window need not be there", async () => {
    const program = await open({ window: 20, sinks: 3 })
    const tokens = prompt(100)
    const whole = await prefill(program, tokens, blocksFor(100), { firstRow: 99 })
    const first = await prefill(program, tokens.subarray(0, 99), blocksFor(100, 10), {
      firstRow: 98,
    })
    expect(first.length).toBe(70)
    const slid: Part = {
      tokens: tokens.subarray(99),
      from: 99,
      blocks: [10, 15, 16], // block 0 for the sinks, then those of positions 80 …
      visibleFrom: 80,
    }
    expect((await take(program, batch([slid]))).logits).toEqual(whole)
  })

  test("a window sees itself and what its width holds before", async () => {
    const program = await open({ layers: 1, window: 8 })
    const logitsAfter = async (changed: number) => {
      const tokens = prompt(30)
      tokens[changed] = (tokens[changed]! + 1) % 70
      return alone(program, tokens, blocksFor(30))
    }
    const base = await logitsAfter(3)
    expect(await logitsAfter(21)).toEqual(base)
    expect(await logitsAfter(22)).not.toEqual(base)
  })
})

describe("logitRows, hiddenRows, hiddenIn", () => {
  test("several rows of one sequence, in any order", async () => {
    const program = await open()
    const tokens = prompt(20)
    const all = await prefill(program, tokens, blocksFor(20))
    const part = { tokens, from: 0, blocks: blocksFor(20, 5), logits: [19, 3, 4, 3] }
    const done = await take(program, batch([part]))
    for (const [row, token] of [19, 3, 4, 3].entries())
      expect(done.logits!.slice(row * 70, row * 70 + 70)).toEqual(
        all.slice(token * 70, token * 70 + 70),
      )
  })

  test("a step may want no rows at all", async () => {
    const program = await open()
    const part = { tokens: prompt(20), from: 0, blocks: blocksFor(20), logits: [] }
    const done = await take(program, batch([part]))
    expect([done.tokens.length, done.logits!.length, done.hidden.length]).toEqual([0, 0, 0])
  })

  test("hidden rows are what the head reads", async () => {
    const program = await open()
    const part = { tokens: prompt(20), from: 0, blocks: blocksFor(20), logits: [7], hidden: [2, 7] }
    const done = await take(program, batch([part]))
    expect(done.hidden.length).toBe(2 * 20)
    const table = smallWeights("head", 70 * 20)
    const hidden = done.hidden.slice(20)
    for (let token = 0; token < 70; token++) {
      const logit = hidden.reduce((sum, x, i) => sum + x * table[token * 20 + i]!, 0)
      expect(done.logits![token]).toBeCloseTo(logit, 4)
    }
    const again = await take(program, batch([{ ...part, logits: [2], hidden: [] }]))
    expect(again.logits).not.toEqual(done.logits)
  })

  test("a row that is taken in stands in the place of a token that names it", async () => {
    const program = await open({ sees: true, layers: 0 })
    const tokens = [5, SEEN + 1, 6, SEEN]
    const hiddenIn = smallWeights("given", 2 * 20)
    const input = { ...batch([{ tokens, from: 0, blocks: [0], hidden: [0, 1, 2, 3] }]), hiddenIn }
    const { hidden } = await take(program, input)
    const table = smallWeights("embed", 70 * 20)
    const rows = [table.slice(100, 120), hiddenIn.slice(20), table.slice(120, 140), hiddenIn]
    const scale = smallWeights("norm", 20)
    for (const [row, x] of rows.entries()) {
      const size = Math.sqrt(x.slice(0, 20).reduce((sum, v) => sum + v * v, 0) / 20 + 1e-5)
      for (let n = 0; n < 20; n++)
        expect(hidden[row * 20 + n]).toBeCloseTo((x[n]! / size) * scale[n]!, 4)
    }
  })

  test("more columns of a row that is taken in are added behind the first layer, and to no others", async () => {
    const [plainly, stacked] = [
      await open({ sees: true }),
      await open({ sees: true, stacked: true }),
    ]
    const tokens = [5, SEEN + 1, 6, SEEN, 7]
    const rows = smallWeights("given", 2 * 20)
    const more = smallWeights("more", 2 * 20)
    const whole = (second: (i: number) => number) =>
      Float32Array.from({ length: 80 }, (_, i) => {
        const [row, column] = [Math.floor(i / 40), i % 40]
        return column < 20 ? rows[row * 20 + column]! : second(row * 20 + column - 20)
      })
    const hidden = async (program: LoadableProgram, hiddenIn: Float32Array) => {
      const part = { tokens, from: 0, blocks: [0], hidden: [0, 1, 2, 3, 4] }
      return (await take(program, { ...batch([part]), hiddenIn })).hidden
    }
    const zeros = await hidden(
      stacked,
      whole(() => 0),
    )
    expect(zeros).toEqual(await hidden(plainly, rows))
    const added = await hidden(
      stacked,
      whole((i) => more[i]!),
    )
    expect(added.slice(0, 20)).toEqual(zeros.slice(0, 20)) // before the first row
    for (const row of [1, 2, 3, 4])
      expect(added.slice(row * 20, row * 20 + 20)).not.toEqual(zeros.slice(row * 20, row * 20 + 20))
  })

  test("neighbouring rows become one that is handed out", async () => {
    const program = await open({ tower: { taken: 7, joined: 3 }, layers: 0 })
    const tokens = prompt(7)
    const hiddenIn = smallWeights("given", 7 * 7)
    const input = { ...batch([{ tokens, from: 0, blocks: [0], hidden: [1, 4] }]), hiddenIn }
    const { hidden } = await take(program, input)
    const [table, pixels, scale, project] = [
      smallWeights("embed", 70 * 20),
      smallWeights("pixels", 20 * 7),
      smallWeights("norm", 20),
      smallWeights("project", 20 * 60),
    ]
    const normed = Array.from(tokens, (token, row) => {
      const x = Array.from(table.slice(token * 20, token * 20 + 20), (own, n) =>
        Array.from({ length: 7 }, (_, k) => k).reduce(
          (sum, k) => sum + pixels[n * 7 + k]! * hiddenIn[row * 7 + k]!,
          own,
        ),
      )
      const size = Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / 20 + 1e-5)
      return x.map((v, n) => (v / size) * scale[n]!)
    })
    for (const [row, first] of [1, 4].entries()) {
      const joined = normed.slice(first, first + 3).flat()
      for (let n = 0; n < 20; n++)
        expect(hidden[row * 20 + n]).toBeCloseTo(
          joined.reduce((sum, v, k) => sum + v * project[n * 60 + k]!, 0),
          4,
        )
    }
    const beyond = batch([{ tokens, from: 0, blocks: [0], hidden: [5] }])
    await expect(take(program, { ...beyond, hiddenIn })).rejects.toThrow(/hiddenRows\[0\] is 5/)
  })

  test("hidden rows are taken in beside the tokens", async () => {
    const program = await open({ takesHidden: true, layers: 0 })
    const tokens = prompt(3)
    const hiddenIn = smallWeights("given", 3 * 20)
    const input = { ...batch([{ tokens, from: 0, blocks: [0], hidden: [0, 1, 2] }]), hiddenIn }
    const { hidden } = await take(program, input)
    const [table, fc, bias] = [
      smallWeights("embed", 70 * 20),
      smallWeights("fc", 20 * 40),
      smallWeights("fc_bias", 20),
    ]
    for (let row = 0; row < 3; row++) {
      const read = [
        ...table.slice(tokens[row]! * 20, tokens[row]! * 20 + 20),
        ...hiddenIn.slice(row * 20, row * 20 + 20),
      ]
      const x = Array.from(bias, (b, n) => read.reduce((sum, v, k) => sum + v * fc[n * 40 + k]!, b))
      const size = Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / 20 + 1e-5)
      const scale = smallWeights("norm", 20)
      for (let n = 0; n < 20; n++)
        expect(hidden[row * 20 + n]).toBeCloseTo((x[n]! / size) * scale[n]!, 4)
    }
  })
})

describe("coordinates", () => {
  const tokens = prompt(9)
  const part = { tokens, from: 0, blocks: [0] }
  const logitsOf = async (program: LoadableProgram, coordinates?: readonly number[][]) => {
    const all = coordinates && Int32Array.from(coordinates.flat())
    return (await take(program, { ...batch([part]), ...(all && { coordinates: all }) })).logits!
  }
  const positions = [...tokens.keys()]
  const moved = (by: number) => positions.map((position) => position + by)

  test("turn what positions turn where they are the same", async () => {
    const [plainly, turned] = [await open(), await open({ axes: true })]
    const logits = await logitsOf(plainly)
    expect(await logitsOf(turned)).toEqual(logits)
    expect(await logitsOf(turned, [positions, positions, positions])).toEqual(logits)
    // Who has no axes does not look at them.
    expect(await logitsOf(plainly, [moved(3), positions, moved(5)])).toEqual(logits)
  })

  test("each turns its own pairs, by how far tokens are from one another", async () => {
    const turned = await open({ axes: true })
    const logits = await logitsOf(turned)
    const expectClose = (values: Float32Array) => {
      for (const [i, value] of values.entries()) expect(value).toBeCloseTo(logits[i]!, 4)
    }
    expectClose(await logitsOf(turned, [moved(7), moved(1), moved(4)]))
    const folded = positions.map((position) => Math.floor(position / 2))
    const changed = await Promise.all(
      [0, 1, 2].map((axis) =>
        logitsOf(
          turned,
          [0, 1, 2].map((each) => (each === axis ? folded : positions)),
        ),
      ),
    )
    for (const [i, one] of changed.entries())
      for (const other of [logits, ...changed.slice(i + 1)]) expect(one).not.toEqual(other)
  })
})

describe("seenFrom, seenTo", () => {
  test("rows of a window see each other, and nobody else", async () => {
    const program = await open({ mutual: true })
    const [first, second] = [prompt(7, 1), prompt(5, 2)]
    const both = Int32Array.from([...first, ...second])
    const seenFrom = both.map((_, i) => (i < 7 ? 0 : 7))
    const seenTo = both.map((_, i) => (i < 7 ? 6 : 11))
    const rows = (count: number) => Array.from({ length: count }, (_, row) => row)
    const part = { tokens: both, from: 0, blocks: [0], logits: rows(12) }
    const { logits } = await take(program, { ...batch([part]), seenFrom, seenTo })
    const own = async (tokens: Int32Array) => {
      const input = batch([{ tokens, from: 0, blocks: [1], logits: rows(tokens.length) }])
      const to = tokens.map(() => tokens.length - 1)
      return (await take(program, { ...input, seenTo: to })).logits!
    }
    expect(logits!.slice(0, 7 * 70)).toEqual(await own(first))
    // Farther behind the beginning, and so turned otherwise.
    for (const [i, value] of (await own(second)).entries())
      expect(logits![7 * 70 + i]).toBeCloseTo(value, 4)
  })
})

test("a token of a text sees itself, and what it sees begins before it ends", async () => {
  const program = await open({ mutual: true })
  const part = { tokens: prompt(4, 1), from: 0, blocks: [0], logits: [3] }
  const step = (seen: Pick<StepInput, "seenFrom" | "seenTo">) =>
    take(program, { ...batch([part]), ...seen })
  const [all, before] = [Int32Array.of(3, 3, 3, 3), Int32Array.of(2, 2, 2, 2)]
  await expect(step({ seenTo: before })).rejects.toThrow("seenTo[3] of a sequence is 2")
  await expect(step({ seenTo: Int32Array.of(3, 3, 3, 4) })).rejects.toThrow("seenTo[3]")
  await expect(step({ seenTo: all, seenFrom: Int32Array.of(1, 1, 1, 1) })).rejects.toThrow(
    "seenFrom[0] of a sequence is 1",
  )
})

describe("sampling and results", () => {
  test("each row is drawn by its own settings", async () => {
    const program = await open()
    const parts = [1, 2, 3].map(
      (s): Part => ({ tokens: prompt(9, s), from: 0, blocks: blocksFor(9, s) }),
    )
    const input = batch(parts)
    input.sampling.temperature.set([0, 1.5, 0.7])
    input.sampling.seed.set([0n, 77n, 78n])
    input.sampling.topLogprobs.set([0, 3, 20])
    const done = await take(program, input)
    const again = { ...done, tokens: new Int32Array(3), logprobs: new Float32Array(3) }
    again.topTokens = new Int32Array(3 * MAX_TOP_LOGPROBS)
    for (let row = 0; row < 3; row++)
      createSampler(70).sample(
        done.logits!.subarray(row * 70, row * 70 + 70),
        row,
        input.sampling,
        again,
      )
    expect(again.tokens).toEqual(done.tokens)
    expect(again.logprobs).toEqual(done.logprobs)
    expect(again.topTokens).toEqual(done.topTokens)
  })

  test("logits come out only when they are wanted", async () => {
    const program = await open()
    const input = { ...batch([{ tokens: prompt(3), from: 0, blocks: [0] }]), wantLogits: false }
    expect((await take(program, input)).logits).toBeUndefined()
  })

  test("a row that is not finite is marked and leaves the others alone", async () => {
    const program = await open()
    const embed = program.manifest.parameters.findIndex(({ name }) => name === "embed")
    const row = new Float32Array(20).fill(Number.NaN)
    await program.load(embed, 5, 1, new Uint8Array(row.buffer))
    const done = await take(
      program,
      batch([
        { tokens: [5], from: 0, blocks: [0] },
        { tokens: [6], from: 0, blocks: [1] },
      ]),
    )
    expect([...done.finite]).toEqual([0, 1])
  })
})

describe("formats", () => {
  test.each(["f16", "bf16"] as const)(
    "a cache of %s is read rounded, whatever the chunks",
    async (kv) => {
      const program = await open({}, { kv })
      const tokens = prompt(60)
      const whole = await prefill(program, tokens, blocksFor(60))
      expect(await prefill(program, tokens, blocksFor(60, 5), { chunk: 7 })).toEqual(whole)
      const exact = await prefill(await open(), tokens, blocksFor(60))
      expect(whole).not.toEqual(exact)
      for (const [i, logit] of whole.entries())
        expect(Math.abs(logit - exact[i]!)).toBeLessThan(0.3)
    },
  )

  test.each(["q4f16_1", "q4f32_1", "q8f16_1", "q3f16_1"] as const)(
    "%s with activations in 8 bits is close to floats, and the same in any company",
    async (format) => {
      const shape = { hidden: 72, intermediate: 100 } // no multiples of 32 or 40
      const tokens = prompt(37)
      const floats = await open(shape, { format })
      const integers = await open(shape, { format, activations: "int8" })
      const exact = await prefill(floats, tokens, blocksFor(37))
      const rounded = await prefill(integers, tokens, blocksFor(37))
      expect(await prefill(integers, tokens, blocksFor(37, 9), { chunk: 5 })).toEqual(rounded)
      expect(rounded).not.toEqual(exact)
      const error = rounded.map((logit, i) => (logit - exact[i]!) ** 2).reduce((a, b) => a + b)
      const size = exact.map((logit) => logit ** 2).reduce((a, b) => a + b)
      expect(Math.sqrt(error / size)).toBeLessThan(0.04)
    },
  )
})

describe("cancelling", () => {
  test("a step gives up once the word is set, and may simply be taken again", async () => {
    const program = await open()
    const input = batch([{ tokens: prompt(30), from: 0, blocks: blocksFor(30) }])
    const word = notCancelled()
    word[0] = 1
    expect(await program.step(input, word)).toEqual({ kind: "cancelled" })
    const done = await take(program, input)
    expect(done.logits).toEqual(await alone(program, prompt(30), blocksFor(30, 9)))
  })
})

describe("input that would read elsewhere is refused", () => {
  const sound = () => batch([{ tokens: prompt(20), from: 0, blocks: [0, 1] }])
  const faults: [string, (input: StepInput) => StepInput, RegExp][] = [
    [
      "a token beyond the vocabulary",
      (i) => ({ ...i, tokens: i.tokens.fill(70) }),
      /tokens\[0\] is 70/,
    ],
    ["a token below 0", (i) => ({ ...i, tokens: i.tokens.fill(-1) }), /tokens\[0\] is -1/],
    [
      "a block that is not there",
      (i) => ({ ...i, blocks: Int32Array.of(0, 40) }),
      /blocks\[1\] is 40/,
    ],
    [
      "too few blocks",
      (i) => ({ ...i, blocks: Int32Array.of(0), blockStarts: Int32Array.of(0, 1) }),
      /has 1 blocks and needs 2/,
    ],
    [
      "starts that fall short",
      (i) => ({ ...i, starts: Int32Array.of(0, 19) }),
      /starts does not span/,
    ],
    [
      "a sequence without tokens",
      (i) => ({
        ...i,
        starts: Int32Array.of(0, 20, 20),
        blockStarts: Int32Array.of(0, 2, 2),
        visibleFrom: new Int32Array(2),
      }),
      /sequence 1 has no tokens/,
    ],
    [
      "positions that jump",
      (i) => ({ ...i, positions: i.positions.map((p) => p * 2) }),
      /positions\[1\]/,
    ],
    [
      "positions beyond the context",
      (i) => ({ ...i, positions: i.positions.map((p) => p + 500) }),
      /context of 512/,
    ],
    [
      "too many tokens",
      () => batch([{ tokens: prompt(201), from: 0, blocks: blocksFor(201) }]),
      /201 tokens/,
    ],
    [
      "a row beyond the tokens",
      (i) => ({ ...i, logitRows: Int32Array.of(20) }),
      /logitRows\[0\] is 20/,
    ],
    ["a hidden row below 0", (i) => ({ ...i, hiddenRows: Int32Array.of(-1) }), /hiddenRows\[0\]/],
    [
      "a token that names a row where none is taken in",
      (i) => ({ ...i, tokens: i.tokens.map((token, at) => (at === 3 ? SEEN : token)) }),
      /tokens\[3\] is 1073741824/,
    ],
    [
      "hidden rows nobody takes",
      (i) => ({ ...i, hiddenIn: new Float32Array(400) }),
      /hiddenIn is not taken/,
    ],
    [
      "coordinates of fewer tokens",
      (i) => ({ ...i, coordinates: new Int32Array(20) }),
      /coordinates has 20 entries, not 60/,
    ],
    [
      "a token that does not see itself",
      (i) => ({ ...i, seenFrom: i.positions.map((p) => p + 1) }),
      /seenFrom\[0\] of a sequence is 1, it is at 0/,
    ],
    [
      "visibleFrom behind the step",
      (i) => ({ ...i, visibleFrom: Int32Array.of(1) }),
      /visibleFrom/,
    ],
    [
      "sampling for other rows",
      (i) => ({ ...i, sampling: { ...i.sampling, topK: new Int32Array(2) } }),
      /sampling.topK has 2/,
    ],
    [
      "a bias beyond the vocabulary",
      (i) => ({
        ...i,
        sampling: {
          ...i.sampling,
          biasStarts: Int32Array.of(0, 1),
          biasTokens: Int32Array.of(70),
          biases: Float32Array.of(1),
        },
      }),
      /biasTokens\[0\] is 70/,
    ],
    [
      "a mask that is not there",
      (i) => ({ ...i, sampling: { ...i.sampling, maskRow: Int32Array.of(0) } }),
      /no mask 0/,
    ],
    [
      "too many logprobs",
      (i) => ({ ...i, sampling: { ...i.sampling, topLogprobs: Int32Array.of(21) } }),
      /topLogprobs/,
    ],
  ]
  test.each(faults)("%s", async (_, fault, words) => {
    const program = await open({ layers: 1 })
    await expect(program.step(fault(sound()), notCancelled())).rejects.toThrow(words)
    expect((await take(program, sound())).finite[0]).toBe(1)
  })

  test("blocks to copy that are not there", async () => {
    const program = await open({ layers: 1 })
    await expect(program.copyBlocks(0, Int32Array.of(0), Int32Array.of(40))).rejects.toThrow(
      /no block 40/,
    )
  })
})

describe("in a thread of its own", () => {
  test("the same bits, errors and cancellation as in this one", async () => {
    const plan = compile(smallGraph(), plain)
    const hosted = hostReference(plan, limitsFor(plan, limits))
    try {
      await loadSmall(hosted)
      const input = batch([{ tokens: prompt(50), from: 0, blocks: blocksFor(50) }])
      const here = await take(await open(), input)
      expect(await take(hosted, input)).toEqual(here)
      await expect(
        hosted.step({ ...input, blocks: Int32Array.of(0, 1, 2, 99) }, notCancelled()),
      ).rejects.toThrow(/blocks\[3\] is 99/)
      const word = notCancelled()
      const long = batch([{ tokens: prompt(200), from: 0, blocks: blocksFor(200) }])
      const pending = hosted.step(long, word)
      Atomics.store(word, 0, 1)
      expect(await pending).toEqual({ kind: "cancelled" })
    } finally {
      await hosted.close()
    }
    await expect(hosted.copyBlocks(0, new Int32Array(0), new Int32Array(0))).rejects.toThrow(
      /shutting down/,
    )
  })
})
