// What every target that compiles is judged by: logits that others computed, the reference target, and its own bits in other
// company.

import { expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import type { CodecOf } from "../../src/compiler/graph/codecs.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import type { Arithmetic } from "../../src/compiler/targets/reference/machine.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { type FormatName, formats, groupCodecNames, isWideCodec } from "../../src/runtime/format.ts"
import type { KvType } from "../../src/runtime/manifest.ts"
import {
  type LoadableProgram,
  type ProgramLimits,
  SEEN,
  type StepInput,
} from "../../src/runtime/program.ts"
import { createSampler } from "../../src/runtime/sampling.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import {
  type ExpertCodecs,
  loadInfiniteKey,
  loadSmall,
  type SmallShape,
  smallGraph,
  smallWeights,
  withExpertsIn,
} from "./small.ts"
import {
  batch,
  blocksFor,
  expectChained,
  expectGolden,
  limitsFor,
  notCancelled,
  type Part,
  prefill,
  take,
  worstDifference,
} from "./steps.ts"

export interface Judged {
  open: (plan: Plan, limits: ProgramLimits) => Promise<LoadableProgram>
  /** What its plans have otherwise. */
  traits?: Pick<CompileOptions, "sums">
  /** The reference's, that it is compared with. */
  arithmetic?: Arithmetic
  /** It rounds as the reference does, so that bits are equal. */
  isExact: boolean
  /** It multiplies 16-bit floats by codes of 16 bits. */
  isWide?: boolean
  /** Golden models, each behind its kind. */
  golden: readonly `${"models" | "mlc"}/${string}`[]
  /**
   * Cases of each kind, some of them, or one format alone, for a driver that compiles for longer than it computes; where not all, of one
   * text each.
   */
  breadth?: "all" | "some" | "one"
  /** For a test. */
  milliseconds: number
}

/** The last number: values in the keys, the latter's first 14 columns, or 40, which panels share and end in otherwise. */
const formatCases: [FormatName, CompileOptions["activations"], KvType, number?][] = [
  ["q4f16_1", "int8", "q8"],
  ["q0f16", "float", "f16"],
  ["q4f16_1", "int8", "q8", 14],
  ["q4f32_1", "int8", "bf16"],
  ["q8f16_1", "int8", "f16"],
  ["q3f16_1", "int8", "q8"],
  ["q4f16_1", "float", "bf16"],
  ["q0bf16", "float", "bf16", 40],
]

export function judge({
  open,
  traits = {},
  arithmetic = "vectors",
  isExact,
  isWide = false,
  golden,
  breadth = "all",
  milliseconds,
}: Judged): void {
  const few = <Case>(cases: readonly Case[], some = 1) =>
    breadth === "all" ? cases : cases.slice(0, breadth === "some" ? some : 1)

  judgeGolden({ open, traits, golden, milliseconds })

  const limits = { blocks: 60, tokens: 200, sequences: 16, rows: 200 }
  const prompt = (length: number, salt = 1) =>
    Int32Array.from({ length }, (_, i) => (i * 7 + salt * 13 + ((i * i) % 5)) % 70)

  async function both(shape: SmallShape, options: Partial<CompileOptions>) {
    const plan = compile(smallGraph(shape), {
      format: "q0f32",
      activations: "float",
      kv: "f32",
      ...traits,
      ...options,
    })
    const [program, reference] = [
      await open(plan, limitsFor(plan, limits)),
      openReference(plan, limitsFor(plan, limits), arithmetic),
    ]
    await loadSmall(program)
    await loadSmall(reference)
    return { program, reference }
  }

  const ownCases = formatCases.map(([format, activations, ...kv]): (typeof formatCases)[number] => {
    const isRounded = isWide && isWideCodec(formats[format].matrix)
    return [format, isRounded ? "int16" : activations, ...kv]
  })
  test.each(few(ownCases, 3))(
    "%s with activations in %s, keys and values in %s, computes what the reference computes, the same in any company and chained",
    async (format, activations, kv, latent) => {
      const shape = {
        ...{ hidden: 72, intermediate: 100, hasOrder: true },
        ...(latent ? { latent, hasStates: true } : {}),
      }
      const { program, reference } = await both(shape, { format, activations, kv })
      for (const salt of breadth === "all" ? [1, 2, 3] : [1]) {
        const tokens = prompt(100, salt)
        const ours = await prefill(program, tokens, blocksFor(100))
        const theirs = await prefill(reference, tokens, blocksFor(100))
        if (isExact) expect(ours).toEqual(theirs)
        else expect(relativeError(ours, theirs)).toBeLessThan(5e-2) // rounds twice where they round once
        for (const chunk of [1, 17, 64])
          expect(await prefill(program, tokens, blocksFor(100, 9), { chunk })).toEqual(ours)
      }
      if (program.chains) await expectChained(program, 70)
      await program.close()
    },
    milliseconds,
  )

  test.each(breadth === "one" ? [] : ["several codecs"])(
    "weights of %s in one model compute what the reference computes",
    async () => {
      const codecOf: CodecOf = ({ name, columns }) => {
        if (columns === 1) return "f32"
        if (/\.(v|down)$/.test(name)) return "q8f16_1"
        return /\.o$|head/.test(name) ? "bf16" : "q4f16_1"
      }
      const shape = { hidden: 72, intermediate: 100 }
      const { program, reference } = await both(shape, { activations: "int8", codecOf })
      const ours = await prefill(program, prompt(100), blocksFor(100))
      const theirs = await prefill(reference, prompt(100), blocksFor(100))
      if (isExact) expect(ours).toEqual(theirs)
      else expect(relativeError(ours, theirs)).toBeLessThan(5e-2)
      await program.close()
    },
    milliseconds,
  )

  // A driver or a compiler makes kernels for each of them, half a minute where it is slow; the kernels are judged one by one
  // elsewhere, those for activations that are floats as well.
  test.each(breadth === "all" ? (["int8"] as const) : [])(
    "the codecs of GGUF's blocks, all in one model, activations in %s, in any company",
    async (activations) => {
      // Files of the others are judged by their logits (gguf.test.ts).
      const codecs = groupCodecNames.filter((name, i) => !/f(16|32)_1$/.test(name) && i % 2 === 0)
      const codecOf: CodecOf = ({ name, columns }) => {
        const which = ["embed", "q", "k", "v", "o", "gate", "up", "down", "head"].indexOf(
          name.replace(/^.*\./, ""),
        )
        const layer = Number(/\d+/.exec(name)?.[0] ?? 0)
        return columns === 1 ? "f32" : codecs[(which + 5 * layer) % codecs.length]!
      }
      const shape = { hidden: 72, intermediate: 100, layers: 3 }
      const { program, reference } = await both(shape, { activations, codecOf, kv: "f16" })
      expect(new Set(program.manifest.parameters.map(({ codec }) => codec)).size).toBe(
        codecs.length + 1,
      )
      const ours = await prefill(program, prompt(100), blocksFor(100))
      const theirs = await prefill(reference, prompt(100), blocksFor(100))
      if (isExact) expect(ours).toEqual(theirs)
      else expect(relativeError(ours, theirs)).toBeLessThan(5e-2)
      for (const chunk of [1, 17, 64])
        expect(await prefill(program, prompt(100), blocksFor(100, 9), { chunk })).toEqual(ours)
      await program.close()
    },
    milliseconds,
  )

  const judgeCompanies = async (program: LoadableProgram, reference: LoadableProgram) => {
    const ours = await prefill(program, prompt(100), blocksFor(100))
    const theirs = await prefill(reference, prompt(100), blocksFor(100))
    if (isExact) expect(ours).toEqual(theirs)
    else expect(relativeError(ours, theirs)).toBeLessThan(5e-2)
    for (const chunk of [1, 3, 17])
      expect(await prefill(program, prompt(100), blocksFor(100, 9), { chunk })).toEqual(ours)
    await program.close()
    await reference.close()
  }

  const mixtures = [
    ["q4f16_1", "int8", "q8"],
    ["q0bf16", "float", "bf16"],
  ] as const
  test.each(breadth === "one" ? [] : few(mixtures))(
    "experts in %s with activations in %s, keys and values in %s: what the reference computes, the same however many rows share an expert",
    async (format, activations, kv) => {
      const shape = { hidden: 72, intermediate: 50, hasExperts: true }
      const { program, reference } = await both(shape, { format, activations, kv })
      await judgeCompanies(program, reference)
    },
    milliseconds,
  )

  test.each(breadth === "one" ? [] : few(["f16", "q8"] as const))(
    "scores with biases by distance, keys and values in %s: what the reference computes, in any company",
    async (kv) => {
      const { program, reference } = await both({ hasBiases: true }, { kv })
      await judgeCompanies(program, reference)
    },
    milliseconds,
  )

  // Of each layer the codecs of gates, of what they are multiplied with, and of what reads both; one after the other in both ways.
  const apart: [CompileOptions["activations"], ...ExpertCodecs[]][] = [
    ["int8", ["q4_k", "q6_k", "q5_1"], ["q8_0", "bf16", "f16"]],
    ["int8", ["f16", "q5_k", "q8_0"], ["q3_k", "q2_k", "mxfp4"]],
    ["float", ["bf16", "f16", "f32"], ["f16", "bf16", "bf16"]],
  ]
  test.each(breadth === "one" ? [] : few(apart))(
    "experts whose gates are in other codecs than what they are multiplied with, activations in %s: what the reference computes, in any company",
    async (activations, ...layers) => {
      const codecOf = withExpertsIn(layers)
      const shape = { hidden: 72, intermediate: 50, hasExperts: true }
      const { program, reference } = await both(shape, { activations, codecOf })
      const names = program.manifest.parameters.map(({ name }) => name)
      expect(names).toEqual(
        expect.arrayContaining(["layers.0.experts_gate", "layers.1.experts_up"]),
      )
      await judgeCompanies(program, reference)
    },
    milliseconds,
  )

  test.each(breadth === "one" ? [] : few(["f32", "q8"] as const))(
    "windows and chunks, sinks, blocks given back, rows of all kinds, companies of 1 to 16, keys and values in %s",
    async (kv) => {
      const { program, reference } = await both({ window: 20, chunked: true, sinks: 3 }, { kv })
      const tokens = prompt(100)
      for (const each of [program, reference])
        await prefill(each, tokens.subarray(0, 98), blocksFor(100, 10))
      const slid: Part = {
        tokens: tokens.subarray(98),
        from: 98,
        blocks: [10, 14, 15, 16], // block 0 for the sinks, then those of positions 64 …
        visibleFrom: 70,
        logits: [1, 0, 1],
        hidden: [0],
      }
      const ours = await take(program, batch([slid]))
      const theirs = await take(reference, batch([slid]))
      expect(worstDifference(ours.logits!, theirs.logits!)).toBeLessThan(isExact ? 1e-30 : 1e-4)
      expect(worstDifference(ours.hidden, theirs.hidden)).toBeLessThan(isExact ? 1e-30 : 1e-4)
      for (const sequences of [2, 7, 16]) {
        const others = Array.from(
          { length: sequences - 1 },
          (_, i): Part => ({
            tokens: prompt(1 + ((i * 5) % 12), i),
            from: 0,
            blocks: [20 + i],
          }),
        )
        const together = await take(program, batch([...others, slid]))
        expect(together.logits!.slice(-3 * 70)).toEqual(ours.logits)
        expect(together.hidden).toEqual(ours.hidden)
      }
      await program.copyBlocks(0, Int32Array.of(10, 14, 15, 16), Int32Array.of(40, 41, 42, 43))
      const copied = await take(program, batch([{ ...slid, blocks: [40, 41, 42, 43] }]))
      expect(copied.logits).toEqual(ours.logits)

      // What leads elsewhere is refused, a cancelled step gives up, and the program goes on.
      const sound = batch([{ tokens: prompt(20), from: 0, blocks: [0, 1] }])
      const faults: Partial<StepInput>[] = [
        { tokens: sound.tokens.map(() => 70) },
        { tokens: sound.tokens.map(() => -1) },
        { blocks: Int32Array.of(0, 60) },
        { blocks: Int32Array.of(0, -1) },
        { blocks: Int32Array.of(0), blockStarts: Int32Array.of(0, 1) },
        { starts: Int32Array.of(0, 19) },
        { positions: sound.positions.map((p) => 2 * p) },
        { positions: sound.positions.map((p) => p + 500) },
        { logitRows: Int32Array.of(20) },
        { hiddenRows: Int32Array.of(-1) },
        { visibleFrom: Int32Array.of(1) },
        { sampling: { ...sound.sampling, maskRow: Int32Array.of(0) } },
        { sampling: { ...sound.sampling, topLogprobs: Int32Array.of(21) } },
      ]
      for (const fault of faults)
        await expect(program.step({ ...sound, ...fault }, notCancelled())).rejects.toThrow(
          /refused/,
        )
      const word = notCancelled()
      word[0] = 1
      expect(await program.step(sound, word)).toEqual({ kind: "cancelled" })
      await expect(program.copyBlocks(0, Int32Array.of(0), Int32Array.of(60))).rejects.toThrow(
        /refuses|no block/,
      )
      expect((await take(program, sound)).finite[0]).toBe(1)

      // A key that is no number shows in the rows that see it, from 5 to 24, and in those that see them a layer above, whose chunks
      // end before 40: no others.
      const broken = Int32Array.from({ length: 60 }, (_, i) => (i === 5 ? 69 : i))
      for (const each of [program, reference]) {
        await loadInfiniteKey(each, 69)
        const logits = await prefill(each, broken, blocksFor(60), { chunk: 1 })
        for (const at of broken.keys())
          expect(Number.isNaN(logits[at * 70])).toBe(at >= 5 && at < 40)
      }
      await program.close()
    },
    milliseconds,
  )

  test.each(few(["f32", "q8"] as const))(
    "texts that are read both ways, windows in every other layer, companies of 1 to 7, keys and values in %s",
    async (kv) => {
      const windows = [undefined, 20]
      const shape = { bidirectional: true, windows, layers: 4, isRelative: true } as const
      const { program, reference } = await both(shape, { kv })
      const text = (length: number, salt: number, first: number) => ({
        tokens: prompt(length, salt),
        from: 0,
        blocks: blocksFor(length, first),
        hidden: [...Array(length).keys()],
      })
      const own = text(90, 1, 0)
      const ours = await take(program, batch([own]))
      const theirs = await take(reference, batch([own]))
      if (isExact) expect(ours.hidden).toEqual(theirs.hidden)
      else expect(worstDifference(ours.hidden, theirs.hidden)).toBeLessThan(1e-4)
      for (const others of [[1], [16, 17, 3], [20, 1, 2, 33, 15, 19]]) {
        const parts = others.map((length, i) => text(length, 2 + i, 10 + 4 * i))
        const { hidden } = await take(program, batch([...parts, own, text(10, 9, 50)]))
        const before = others.reduce((sum, length) => sum + length, 0)
        expect(hidden.subarray(before * 20, (before + 90) * 20)).toEqual(ours.hidden)
      }
      const one = await take(program, batch([{ ...own, hidden: [0] }]))
      expect(one.hidden).toEqual(ours.hidden.subarray(0, 20))

      // What comes last is seen by all.
      const changed = { ...own, tokens: own.tokens.map((token, i) => (i === 89 ? 3 : token)) }
      const { hidden: others } = await take(program, batch([changed]))
      expect(others.subarray(0, 20)).not.toEqual(ours.hidden.subarray(0, 20))
      await program.close()
      await reference.close()
    },
    milliseconds,
  )

  test(
    "rows that are taken in in the place of tokens, in chunks and in company",
    async () => {
      const { program, reference } = await both({ sees: true }, {})
      const tokens = prompt(40).map((token, i) => (i >= 10 && i < 33 ? SEEN + i - 10 : token))
      const rows = smallWeights("seen", 23 * 20)
      const own = { tokens, from: 0, blocks: [0, 1, 2], logits: [9, 10, 32, 33, 39] }
      const seen = { ...batch([own]), hiddenIn: rows }
      const [ours, theirs] = [await take(program, seen), await take(reference, seen)]
      if (isExact) expect(ours.logits).toEqual(theirs.logits)
      else expect(worstDifference(ours.logits!, theirs.logits!)).toBeLessThan(1e-4)

      const first = { ...own, tokens: tokens.slice(0, 20), logits: [9, 10] }
      await take(program, { ...batch([first]), hiddenIn: rows.slice(0, 10 * 20) })
      const others = { tokens: prompt(30, 2), from: 0, blocks: [7, 8] }
      const rest = tokens.slice(20).map((token) => (token < SEEN ? token : token - 10))
      const last = { ...own, tokens: rest, from: 20, logits: [12, 13, 19] }
      const together = { ...batch([others, last]), hiddenIn: rows.slice(10 * 20) }
      const { logits } = await take(program, together)
      expect(logits!.subarray(70)).toEqual(ours.logits!.subarray(2 * 70))
      const words = { tokens: prompt(30, 2), from: 0, blocks: [4, 5] }
      const alone = await take(program, batch([words])) // nothing is taken in
      expect(alone.logits).toEqual(logits!.subarray(0, 70))
      await program.close()
      await reference.close()
    },
    milliseconds,
  )

  test.each(few(["q0f32", "q0f16"] as const))(
    "pixels of several tiles become rows, four joined to one, in %s",
    async (format) => {
      const tower = { taken: 12, joined: 4 }
      const activations = isWide && isWideCodec(formats[format].matrix) ? "int16" : "float"
      const { program, reference } = await both(
        { tower, bidirectional: true },
        { format, activations },
      )
      const tile = (blocks: readonly number[]) => ({
        tokens: prompt(64),
        from: 0,
        blocks,
        logits: [],
        hidden: Array.from({ length: 16 }, (_, i) => 4 * i),
      })
      const pixels = smallWeights("tiles", 2 * 64 * 12)
      const [one, two] = [tile([0, 1, 2, 3]), tile([5, 6, 7, 8])]
      const step = { ...batch([one, two]), hiddenIn: pixels }
      const [ours, theirs] = [await take(program, step), await take(reference, step)]
      if (isExact) expect(ours.hidden).toEqual(theirs.hidden)
      else expect(worstDifference(ours.hidden, theirs.hidden)).toBeLessThan(1e-4)
      const alone = { ...batch([two]), hiddenIn: pixels.slice(64 * 12) }
      expect((await take(program, alone)).hidden).toEqual(ours.hidden.subarray(16 * 20))
      await program.close()
      await reference.close()
    },
    milliseconds,
  )

  test(
    "every row is drawn as the sampler of this process would draw it, bit for bit",
    async () => {
      const { program } = await both({ takesHidden: true, layers: 0 }, {})
      const draws = 300
      let random = 1
      const any = (below: number) => {
        random = (Math.imul(random, 1103515245) + 12345) & 0x7fffffff
        return (random >> 8) % below
      }
      for (let round = 0; round < draws; round += 10) {
        const isFew = round % 20 !== 0 // then all rows may be drawn from few tokens
        const tokens = Int32Array.from({ length: 10 }, () => any(70))
        const input = batch([{ tokens, from: 0, blocks: [0], logits: [...tokens.keys()] }])
        const hiddenIn = Float32Array.from({ length: 200 }, () => any(2000) / 1000 - 1)
        const s = input.sampling
        for (let row = 0; row < 10; row++) {
          s.temperature[row] = [0, 0.3, 1, 1, 2][any(5)]!
          s.topK[row] = (isFew ? [2, 40, 1, 5, 69] : [0, 0, 1, 5, 69])[any(5)]!
          s.topP[row] = [1, 1, 0, 0.5, 0.95][any(5)]!
          s.minP[row] = [0, 0, 0.05, 0.5][any(4)]!
          s.presence[row] = any(3) / 2
          s.frequency[row] = any(3) / 2
          s.repetition[row] = 1 + any(3) / 4
          s.seed[row] = BigInt(any(1 << 20)) << BigInt(any(40))
          s.choice[row] = any(4)
          s.topLogprobs[row] = any(22) - 1
          s.maskRow[row] = any(4) - 1
        }
        s.masks = Uint32Array.from({ length: 3 * 3 }, () => any(1 << 22) * 1021)
        s.masks.fill(0, 0, any(2) * 3)
        s.countStarts = Int32Array.from({ length: 11 }, (_, i) => 2 * i)
        s.countTokens = Int32Array.from({ length: 20 }, (_, i) => (any(35) << 1) | (i & 1))
        s.counts = Int32Array.from({ length: 20 }, () => 1 + any(4))
        s.biasStarts = Int32Array.from({ length: 11 }, (_, i) => i)
        s.biasTokens = Int32Array.from({ length: 10 }, () => any(70))
        s.biases = Float32Array.from({ length: 10 }, () => any(9) - 4)
        const done = await take(program, { ...input, hiddenIn })
        const again = {
          ...done,
          tokens: new Int32Array(10),
          logprobs: new Float32Array(10),
          topTokens: new Int32Array(200),
          topLogprobs: new Float32Array(200),
          finite: new Uint8Array(10),
        }
        const sampler = createSampler(70)
        for (let row = 0; row < 10; row++)
          sampler.sample(done.logits!.subarray(row * 70, row * 70 + 70), row, s, again)
        expect(done).toEqual(again)
      }
      const embed = program.manifest.parameters.findIndex(({ name }) => name === "embed")
      const row = new Float32Array(20).fill(Number.NaN)
      await program.load(embed, 5, 1, new Uint8Array(row.buffer))
      const input = batch([
        { tokens: [5], from: 0, blocks: [0] },
        { tokens: [6], from: 0, blocks: [1] },
      ])
      const { finite } = await take(program, { ...input, hiddenIn: new Float32Array(40) })
      expect([...finite]).toEqual([0, 1])
      await program.close()
    },
    milliseconds,
  )
}

/** That a target computes golden models. */
export function judgeGolden({
  open,
  traits = {},
  golden,
  milliseconds,
}: Pick<Judged, "open" | "traits" | "golden" | "milliseconds">): void {
  async function openGolden(folder: string) {
    const model = await openModel(folder)
    const { graph, format, codecOf } = model
    const plan = compile(graph, {
      format,
      ...(codecOf && { codecOf }),
      activations: "float",
      kv: "f32",
      ...traits,
    })
    const limits = limitsFor(plan, { blocks: 60, tokens: 700, sequences: 4, rows: 700 })
    const program = await open(plan, limits)
    await loadParameters(model.weights, program.manifest, program)
    await model.close()
    return program
  }

  test.each(golden)(
    "%s: logits within 1e-3 of the golden ones, greedy tokens equal, chunks equal in bits",
    async (path) => {
      const [kind, name] = path.split("/") as ["models" | "mlc", string]
      const folder = goldenFolder(kind, name)
      const program = await openGolden(folder)
      for (const prompt of readGolden(folder)) {
        const { tokens, firstRow, greedy } = prompt
        const blocks = blocksFor(tokens.length + greedy.length).reverse()
        const ours = await expectGolden(program, prompt, blocks, 1e-3)
        for (const chunk of tokens.length === 150 ? [1, 16, 17, 64] : [])
          expect(await prefill(program, tokens, blocks, { firstRow, chunk })).toEqual(ours)
      }
      await program.close()
    },
    milliseconds,
  )
}

function relativeError(ours: Float32Array, theirs: Float32Array): number {
  let [error, size] = [0, 0]
  for (let i = 0; i < ours.length; i++) {
    error += (ours[i]! - theirs[i]!) ** 2
    size += theirs[i]! ** 2
  }
  return Math.sqrt(error / size)
}
