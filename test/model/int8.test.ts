// What rounding activations to 8 bits costs, against the golden logits of float activations: a mean divergence of a hundredth
// of a nat at most, and the same likeliest token wherever it leads by more than half a logit.

import { expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { blocksFor, prefill } from "./steps.ts"

test.each([
  "llama-wide-q3f16_1",
  "llama-wide-q4f16_1",
  "llama-odd-q4f16_1",
  "qwen2-q4f32_1",
  "qwen3-q3f16_1",
  "qwen3-q8f16_1",
])("%s", async (name) => {
  const folder = goldenFolder("mlc", name)
  const model = await openModel(folder)
  const plan = compile(model.graph, { format: model.format, activations: "int8", kv: "f32" })
  const program = openReference(plan, { blocks: 50, tokens: 700, sequences: 1, rows: 700 })
  await loadParameters(model.weights, program.manifest, program)
  await model.close()
  const { vocabulary } = plan.shapes
  const divergences: number[] = []
  for (const { tokens, firstRow, logits } of readGolden(folder)) {
    const ours = await prefill(program, tokens, blocksFor(tokens.length), { firstRow })
    for (let at = 0; at < ours.length; at += vocabulary) {
      const exact = logits.subarray(at, at + vocabulary)
      const rounded = ours.subarray(at, at + vocabulary)
      divergences.push(divergence(exact, rounded))
      const [best, second] = exact.toSorted((a, b) => b - a)
      if (best! - second! > 0.5)
        expect(rounded.indexOf(Math.max(...rounded))).toBe(exact.indexOf(best!))
    }
  }
  expect(divergences.reduce((a, b) => a + b) / divergences.length).toBeLessThan(0.01)
})

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
