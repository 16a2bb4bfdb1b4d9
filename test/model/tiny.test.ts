// The embedded model says what PyTorch says from the same weights: logits and greedy tokens.

import { afterAll, beforeAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram } from "../../src/runtime/program.ts"
import { blocksFor, continueGreedily, prefill } from "./steps.ts"
import { cases, columns, type TinyCase, tinyFolder } from "./tiny.ts"

const MAX_TOKENS = 24 // tokens of a reply: the interpreter is slow
const named = cases.map((golden): [string, TinyCase] => [golden.messages.at(-1)!.content, golden])
let model: Model
let program: LoadableProgram

beforeAll(async () => {
  model = await openModel(tinyFolder)
  const plan = compile(model.graph, { format: model.format, activations: "float", kv: "f32" })
  program = openReference(plan, { blocks: [50], tokens: 700, sequences: 1, rows: 700 })
  await loadParameters(model.weights, program.manifest, program)
})
afterAll(async () => {
  await program.close()
  await model.close()
})

test.each(named)("%s", async (_, { prompt_ids, greedy_ids, logits }) => {
  const greedy = greedy_ids.slice(0, MAX_TOKENS)
  const blocks = blocksFor(prompt_ids.length + greedy.length)
  const replied = [...prompt_ids, ...greedy_ids.slice(0, logits.length - 1)]
  const firstRow = prompt_ids.length - 1
  const ours = await prefill(program, Int32Array.from(replied), blocks, { firstRow })
  const { vocabulary } = model.config.shapes
  logits.forEach((row, i) => {
    const told = ours.subarray(i * vocabulary, (i + 1) * vocabulary)
    expect(told.indexOf(Math.max(...told))).toBe(greedy_ids[i])
    for (const [at, column] of columns.entries()) expect(told[column]).toBeCloseTo(row[at]!, 3)
  })
  const from = prompt_ids.length
  expect(await continueGreedily(program, greedy[0]!, from, greedy.length, blocks)).toEqual(greedy)
})
