// Models changed by adapters, against what PEFT and MLX compute of the same: see test/golden/adapters/README.md.

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { blocksFor, expectGolden, limitsFor } from "./steps.ts"

const root = goldenFolder("adapters", ".")
const names = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const baseOf = (folder: string): string =>
  goldenFolder(".", JSON.parse(readFileSync(join(folder, "golden.json"), "utf8")).base)

test.each(names)("%s", async (name) => {
  const folder = join(root, name)
  const model = await openModel(baseOf(folder), { adapters: [folder] })
  const { graph, format, codecOf } = model
  const plan = compile(graph, {
    format,
    ...(codecOf && { codecOf }),
    activations: "float",
    kv: "f32",
  })
  const program = openReference(
    plan,
    limitsFor(plan, { blocks: 50, tokens: 700, sequences: 2, rows: 700 }),
  )
  await loadParameters(model.weights, program.manifest, program)
  for (const prompt of readGolden(folder)) {
    const blocks = blocksFor(prompt.tokens.length + prompt.greedy.length)
    await expectGolden(program, prompt, blocks, 1e-4)
  }
  await program.close()
  await model.close()
})
