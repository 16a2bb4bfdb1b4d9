// GGUF models with the mmproj files beside them (test/golden/gguf/vision, which llama.cpp's converters wrote) see what their folders
// see, and say what those say (test/golden/vision).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { type LoadableProgram, SEEN } from "../../src/runtime/program.ts"
import { type GgufFileParts, list32, rewritten, string, strings, uint32 } from "./gguf-file.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { batch, blocksFor, continueGreedily, limitsFor, take, worstDifference } from "./steps.ts"
import { goldensOf, judgeTower, type Open } from "./towers.ts"

const names = ["smolvlm", "gemma3", "internvl", "llava-clip"]
const folderOf = (name: string) => join(goldenFolder("gguf", "vision"), name)

async function opened(path: string, options: OpenOptions = {}): Promise<Model> {
  const model = await openModel(path, { sees: true, ...options })
  onTestFinished(() => model.close())
  return model
}

/** Tower and text model, one behind the other. */
async function judge(name: string, open: Open): Promise<void> {
  const model = await opened(folderOf(name))
  const vision = model.vision!
  const rows = await judgeTower(vision, goldensOf(name), open)
  const { graph, format, codecOf, weights } = model
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, options)
  const limits = { blocks: 10, tokens: 64, sequences: 1, rows: 8 }
  const program = await open(plan, limitsFor(plan, limits))
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  const soft = vision.config.softToken
  for (const [i, golden] of readGolden(goldenFolder("vision", name)).entries())
    await expectSeen(program, golden, soft, rows[i]!)
}

/** That the prompt, its soft tokens' places taken by rows, has the golden logits and goes on with the golden tokens. */
async function expectSeen(
  program: LoadableProgram,
  { tokens, firstRow, logits, greedy }: ReturnType<typeof readGolden>[number],
  soft: number,
  hiddenIn: Float32Array,
): Promise<void> {
  let row = 0
  const given = tokens.map((token) => (token === soft ? SEEN + row++ : token))
  const isSoft = (at: number) => tokens[at] === soft
  const seenTo = tokens.map((_, at) => {
    let last = at
    while (isSoft(at) && isSoft(last + 1)) last++
    return last
  })
  const { length } = tokens
  const blocks = blocksFor(length + greedy.length)
  const wanted = Array.from({ length: length - firstRow }, (_, i) => firstRow + i)
  const step = batch([{ tokens: given, from: 0, blocks, logits: wanted }])
  const { mutual } = program.manifest
  const done = await take(program, { ...step, hiddenIn, ...(mutual && { seenTo }) })
  expect(worstDifference(done.logits!, logits)).toBeLessThan(1e-3)
  const first = done.tokens.at(-1)!
  const ours = await continueGreedily(program, first, length, greedy.length, blocks)
  expect(ours).toEqual([...greedy])
}

describe.each(names)("%s", (name) => {
  test("on reference", () => judge(name, openReference))

  test(
    "on cpu",
    () => judge(name, async (plan, limits) => (await targets.cpu.prepare(plan)).open(limits)),
    120_000,
  )

})
