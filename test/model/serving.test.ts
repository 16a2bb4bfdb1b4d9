// The golden models through the engine: all six prompts at once, in chunks, on few blocks. Block tables, windows, prefixes
// and preemption have to fit what each target reads, or a token differs; and with drafts, half of them wrong, no bit does.

import { describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEngine, type Engine } from "../../src/engine/engine.ts"
import type { Generation } from "../../src/engine/generation.ts"
import { chooseLimits } from "../../src/engine/limits.ts"
import type { Speculative } from "../../src/engine/speculative.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { compiledModels, type GoldenPrompt, goldenFolder, readGolden } from "./golden.ts"
import { greedily, halfRight, reply } from "./replies.ts"

/** What differs in blocks, groups and rows remembered; all models are judged by their logits (reference.test.ts). */
const remembering = [
  "deepseek-v2-dense",
  "gemma3",
  "gpt-oss",
  "granite-hybrid",
  "llama-wide",
  "mistral-swa",
  "qwen3-5",
]

describe.each([
  { target: "reference", models: remembering },
  { target: "cpu", models: compiledModels },
  { target: "vulkan", models: ["gemma3", "qwen3-5"] }, // with two groups of blocks, and with states
] as const)("on $target", ({ target, models }) => {
  const { isSkipped, why } = target === "vulkan" ? lackOf(target) : { isSkipped: false, why: "" }
  const title = `%s says the golden tokens, six prompts at once${why}`
  const judge = async (name: string) => {
    const folder = goldenFolder("models", name)
    const prompts = readGolden(folder)
    const model = await openModel(folder)
    const { sums } = targets[target].traits
    const { format, codecOf } = model
    const options = {
      format,
      ...(codecOf && { codecOf }),
      activations: "float",
      kv: "f32",
    } as const
    const plan = compile(model.graph, { ...options, ...(sums && { sums }) })
    const prepared = await targets[target].prepare(plan)
    const drafts = { length: 4 }
    const limits = chooseLimits({
      mode: "local",
      overrides: { max_num_sequence: 6, max_total_seq_length: 800, prefill_chunk_size: 100 },
      traits: targets[target].steps,
      manifest: prepared.manifest,
      available: 2 ** 30,
      weightBytes: prepared.weightBytes,
      bufferBytes: prepared.bufferBytes,
      drafts,
    })
    const open = async (speculative?: Speculative) => {
      const program = await prepared.open(limits.program)
      await loadParameters(model.weights, program.manifest, program)
      return createEngine(program, { limits, maxQueue: 10, ...(speculative && { speculative }) })
    }
    const repliesOf = (engine: Engine) =>
      Promise.all(
        prompts.map(({ tokens, greedy }) =>
          reply(engine.generate(greedily(tokens, greedy.length)).choices[0]!),
        ),
      )
    const engine = await open()
    const drafting = await open({
      mode: "lookup",
      drafter: () => halfRight(prompts),
      length: drafts.length,
      room: limits.drafts,
    })
    try {
      const replies = await repliesOf(engine)
      const golden = prompts.map(({ greedy }) => [...greedy])
      expect(replies.map((each) => each.map(({ token }) => token))).toEqual(golden)
      expect(await repliesOf(drafting)).toEqual(replies)
      drafting.audit()
      const { accepted, drafted } = drafting.stats().drafts!
      expect(accepted[0]).toBeGreaterThan(0)
      expect(accepted[0]).toBeLessThan(drafted[0]!)
      for (const prompt of prompts) {
        const asked = { ...greedily(prompt.tokens, 0), scorePrompt: true }
        expectGolden(await scores(engine.generate(asked)), prompt)
      }
      engine.audit()
    } finally {
      await engine.close()
      await drafting.close()
      await model.close()
    }
  }
  test.skipIf(isSkipped).each(models)(title, judge, GPU_MILLISECONDS)
})

/** What was told of each token but the first, beside the log-softmax of the golden logits before it. */
function expectGolden(told: Float32Array, { tokens, firstRow, logits }: GoldenPrompt): void {
  expect(told.length).toBe(tokens.length - 1)
  const rows = tokens.length - firstRow
  const vocabulary = logits.length / rows
  for (let row = 0; row + 1 < rows; row++) {
    const values = logits.subarray(row * vocabulary, (row + 1) * vocabulary)
    const total = values.reduce((sum, logit) => sum + Math.exp(logit), 0)
    const at = firstRow + row
    expect(told[at]).toBeCloseTo(values[tokens[at + 1]!]! - Math.log(total), 3)
  }
}

async function scores(generation: Generation): Promise<Float32Array> {
  for await (const _ of generation.choices[0]!) {
  }
  return generation.scores!.logprobs
}
