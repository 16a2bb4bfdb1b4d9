// Plans that round their activations to 8 bits, over every golden model that is packed. What that costs, against the golden
// logits of float activations: a mean divergence of a hundredth of a nat at most, and the same likeliest token wherever it
// leads by more than half a logit. And what this processor computes of them: the bits of the reference.

import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { isLeftOut } from "../left-out.ts"
import { type GoldenPrompt, goldenFolder, readGolden } from "./golden.ts"
import { arithmeticHere, blocksFor, expectGolden, limitsFor, prefill } from "./steps.ts"

const BUILD = 240_000 // ms: a build takes seconds, on a busy machine many
const limits = { blocks: 50, tokens: 700, sequences: 1, rows: 700 }

const compiler = await findCompiler()
const isPlain = usableLevels(process.arch, processorFeatures())[0].name === "plain"
const why = isPlain ? "this processor has no fused multiply-add" : "no C compiler on this machine"
const isSkipped = isPlain || isLeftOut(compiler)

async function openCpu(plan: Plan) {
  const { path } = await shelvedCpu(plan)
  return openLibrary(path, limitsFor(plan, limits))
}

describe.each<[string, Plan["kv"]]>([
  ["llama-wide-q3f16_1", "f32"],
  ["llama-wide-q4f16_1", "bf16"],
  ["llama-odd-q4f16_1", "f16"],
  ["qwen2-q4f32_1", "f32"],
  ["qwen3-q8f16_1", "q8"],
])("%s, keys and values in %s", (name, kv) => {
  const folder = goldenFolder("mlc", name)
  const prompts = readGolden(folder)
  let model: Model
  let plan: Plan
  let reference: Float32Array[] // of each prompt, logits from its first row on

  async function logitsOf(open: typeof openReference | typeof openCpu): Promise<Float32Array[]> {
    const program = await open(plan, limitsFor(plan, limits), arithmeticHere)
    await loadParameters(model.weights, program.manifest, program)
    const logits: Float32Array[] = []
    for (const { tokens, firstRow } of prompts)
      logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
    await program.close()
    return logits
  }

  beforeAll(async () => {
    model = await openModel(folder)
    plan = compile(model.graph, { format: model.format, activations: "int8", kv })
    reference = await logitsOf(openReference)
  }, BUILD)
  afterAll(() => model.close())

  test("says nearly what it says with activations that are not rounded", () => {
    const { vocabulary } = plan.shapes
    const divergences = prompts.flatMap(({ logits }, i) => {
      const rows: number[] = []
      for (let at = 0; at < logits.length; at += vocabulary) {
        const exact = logits.subarray(at, at + vocabulary)
        const rounded = reference[i]!.subarray(at, at + vocabulary)
        rows.push(divergence(exact, rounded))
        const [best, second] = exact.toSorted((a, b) => b - a)
        if (best! - second! > 0.5)
          expect(rounded.indexOf(Math.max(...rounded))).toBe(exact.indexOf(best!))
      }
      return rows
    })
    expect(divergences.reduce((a, b) => a + b) / divergences.length).toBeLessThan(0.01)
  })

  test.skipIf(isSkipped)(
    `the cpu target computes the reference's bits${isSkipped ? ` (skipped: ${why})` : ""}`,
    async () => {
      expect(await logitsOf(openCpu)).toEqual(reference)
    },
    BUILD,
  )
})

// What a GPU's plan rounds to 16 bits moves a logit by thousandths, which is a ten-millionth of a nat, and no token of forty.
test.each(["llama-tied-q0f16", "llama-tied-q0bf16"])(
  "%s says with activations of 16 bits what it says with floats",
  async (name) => {
    const model = await openModel(goldenFolder("mlc", name))
    const options = { ...traitsOf("vulkan"), format: model.format, kv: "f32" } as const
    const plan = compile(model.graph, options)
    expect(plan.steps.some((step) => step.op === "quantize")).toBe(true)
    const { vocabulary } = plan.shapes
    const program = openReference(plan, limitsFor(plan, limits))
    await loadParameters(model.weights, program.manifest, program)
    const divergences: number[] = []
    const prompts = readGolden(model.path).filter(({ tokens }) => tokens.length <= 40)
    for (const prompt of prompts) {
      const { tokens, logits, greedy } = prompt
      const blocks = blocksFor(tokens.length + greedy.length)
      const ours = await expectGolden(program, prompt, blocks, 5e-3)
      for (let at = 0; at < logits.length; at += vocabulary) {
        const row = (of: Float32Array) => of.subarray(at, at + vocabulary)
        divergences.push(divergence(row(logits), row(ours)))
      }
    }
    expect(divergences.reduce((a, b) => a + b) / divergences.length).toBeLessThan(2e-7)
    await program.close()
    await model.close()
  },
)

// Other norms, activations and places than MLC's goldens have, packed on the way in.
describe.skipIf(isSkipped)(`packed on the way in${isSkipped ? ` (skipped: ${why})` : ""}`, () => {
  test.each<[string, Plan["kv"]]>([
    ["gemma3", "q8"],
    ["nemotron", "f32"],
  ])(
    "%s, keys and values in %s: the cpu target computes the reference's bits",
    async (name, kv) => {
      const model = await openModel(goldenFolder("models", name))
      const plan = compile(model.graph, { format: "q4f16_1", activations: "int8", kv })
      const [{ tokens, firstRow }] = readGolden(model.path).slice(-1) as [GoldenPrompt]
      const logits: Float32Array[] = []
      for (const open of [openReference, openCpu] as const) {
        const program = await open(plan, limitsFor(plan, limits), arithmeticHere)
        await loadParameters(model.weights, program.manifest, program)
        logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
        await program.close()
      }
      expect(logits[1]).toEqual(logits[0])
      await model.close()
    },
    BUILD,
  )
})

// A GPU's sums are in another order, and the reference adds in that one then.
const vulkan = lackOf("vulkan")
test.skipIf(vulkan.isSkipped)(
  `llama-odd-q4f16_1, keys and values in q8: vulkan computes the reference's bits${vulkan.why}`,
  async () => {
    const model = await openModel(goldenFolder("mlc", "llama-odd-q4f16_1"))
    const { sums } = traitsOf("vulkan")
    const options = { format: model.format, activations: "int8", kv: "q8" } as const
    const plan = compile(model.graph, { ...options, ...(sums && { sums }) })
    const { tokens, firstRow } = readGolden(model.path).find(({ tokens }) => tokens.length === 40)!
    const logits: Float32Array[] = []
    for (const program of [
      openReference(plan, limitsFor(plan, limits)),
      await (await targets.vulkan.prepare(plan)).open(limitsFor(plan, limits)),
    ]) {
      await loadParameters(model.weights, program.manifest, program)
      logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
      await program.close()
    }
    expect(logits[1]).toEqual(logits[0])
    await model.close()
  },
  GPU_MILLISECONDS,
)

/** Kullback-Leibler divergence in nats of what two rows of logits say. */
function divergence(p: Float32Array, q: Float32Array): number {
  const [logP, logQ] = [logSoftmax(p), logSoftmax(q)]
  return logP.reduce((sum, log, i) => sum + Math.exp(log) * (log - logQ[i]!), 0)
}

function logSoftmax(logits: Float32Array): number[] {
  const most = Math.max(...logits)
  const sum = logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0)
  return Array.from(logits, (logit) => logit - most - Math.log(sum))
}
