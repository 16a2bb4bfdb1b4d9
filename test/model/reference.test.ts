// The reference target against logits and tokens computed by others: see the READMEs of test/golden/models and test/golden/mlc.

import { readdirSync } from "node:fs"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram } from "../../src/runtime/program.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { blocksFor, expectGolden, limitsFor, prefill } from "./steps.ts"

const folders = (["models", "mlc"] as const).flatMap((kind) =>
  readdirSync(goldenFolder(kind, "."), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => [`${kind}/${name}`, goldenFolder(kind, name)] as const),
)

describe.each(folders)("%s", (_, folder) => {
  const prompts = readGolden(folder)
  let model: Model
  let plan: Plan
  let program: LoadableProgram

  beforeAll(async () => {
    model = await openModel(folder)
    const { graph, format, codecOf } = model
    plan = compile(graph, { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" })
    program = openReference(
      plan,
      limitsFor(plan, { blocks: 50, tokens: 700, sequences: 2, rows: 700 }),
    )
    await loadParameters(model.weights, program.manifest, program)
  })
  afterAll(async () => {
    await program.close()
    await model.close()
  })

  test("logits of whole prompts are within 1e-4, greedy tokens are equal", async () => {
    for (const prompt of prompts) {
      const blocks = blocksFor(prompt.tokens.length + prompt.greedy.length).reverse()
      await expectGolden(program, prompt, blocks, 1e-4)
    }
  })

  test("chunks give the bits of the whole", async () => {
    const { tokens, firstRow } = prompts.find((prompt) => prompt.tokens.length === 150)!
    const blocks = blocksFor(tokens.length, 7)
    const whole = await prefill(program, tokens, blocks, { firstRow })
    for (const chunk of chunksOf(plan))
      expect(await prefill(program, tokens, blocks, { firstRow, chunk })).toEqual(whole)
  })
})

/** Chunks of 17 begin anywhere in a block and leave a row over that attends alone; where layers look back a window, ends move too. */
function chunksOf({ groups }: Plan): readonly number[] {
  return groups.some(({ window }) => window) ? [1, 16, 17, 64] : [17]
}
