// Layers of a model's own that guess ahead: they guess what test/golden/mtp/make.py says, beside attention of all kinds and states.

import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { createEagle } from "../../src/engine/drafters/eagle.ts"
import type { Memory } from "../../src/engine/memory.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { type OwnLayer, openOwnLayer } from "../../src/model/own-layers.ts"
import { readParameter, type Weights } from "../../src/model/weights/weights.ts"
import type { Parameter } from "../../src/runtime/manifest.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { asking, drafted, type On, opened } from "./drafted.ts"
import { mtpModels, readGoldenMtp, writeMtpModel } from "./golden.ts"
import { mtpFiles, writeMtpGguf } from "./mtp-gguf.ts"
import { arithmeticHere, batch, blocksFor, expectNear, take } from "./steps.ts"

const LENGTH = 3
const KEPT = 16 // every so many columns of the logits

/** In the floats that it is published in. */
async function writeCompiled(name: (typeof mtpModels)[number], folder: string): Promise<void> {
  const source = mkdtempSync(join(tmpdir(), "sinter-mtp-"))
  writeMtpModel(name, source)
  const model = await openModel(source)
  await compileFolder(model, folder, { format: "q0bf16" })
  await model.close()
  rmSync(source, { recursive: true })
}

/** Tried however they are stored, and on Vulkan: the others' layers have no kernels that these have not. */
const isWhole: ReadonlySet<string> = new Set(["qwen3-5", "qwen3-5-moe", "deepseek-v3", "glm4-moe"])
/** Whose libraries are others' of this list. */
const isAsOthers: ReadonlySet<string> = new Set(["glm-moe-dsa"])
const { isSkipped, why } = lackOf("vulkan")

describe.each([
  ...mtpModels.map((name) => [name, "a folder", writeMtpModel] as const),
  ...mtpFiles.map((name) => [name, "a GGUF file", writeMtpGguf] as const),
  ...(["qwen3-5-moe", "glm4-moe"] as const).map(
    (name) => [name, "a compiled folder", writeCompiled] as const,
  ),
])("%s, %s", (name, _, write) => {
  const texts = readGoldenMtp(name)
  const folder = mkdtempSync(join(tmpdir(), "sinter-mtp-"))
  let model: Model
  let layer: OwnLayer
  beforeAll(async () => {
    await write(name, folder)
    model = await openModel(folder)
    layer = openOwnLayer(model, model.format)
  })
  afterAll(async () => {
    await model.close()
    rmSync(folder, { recursive: true })
  })

  test("logits, from the model's last rows", async () => {
    const [target, guesser] = [
      await opened(model, model.weights),
      await opened(layer, model.weights),
    ]
    for (const { prompt, reply, logits: golden } of texts) {
      const tokens = [...prompt, ...reply]
      const all = [...tokens.keys()]
      const blocks = blocksFor(tokens.length + 1)
      const read = batch([{ tokens, from: 0, blocks, hidden: all }])
      const { hidden } = await take(target, read)
      const logits = all.slice(0, -1)
      const step = batch([{ tokens: tokens.slice(1), from: 1, visibleFrom: 1, blocks, logits }])
      const { vocabulary, hidden: columns } = model.config.shapes
      const hiddenIn = hidden.subarray(0, logits.length * columns)
      const made = (await take(guesser, { ...step, hiddenIn })).logits!
      const kept = made.filter((_, i) => (i % vocabulary) % KEPT === 0)
      expect(kept.length).toBe(golden.length)
      expectNear(kept, golden, { distance: 5e-4, arithmetic: arithmeticHere })
    }
  })

  // What drafts is the same however a layer was stored.
  if (write !== writeMtpModel && !isWhole.has(name)) return

  async function judge(on: On) {
    const guesser = await opened(layer, model.weights, on)
    for (const text of texts) {
      const drafter = (memory: Memory) => createEagle(guesser, memory)
      const drafting = { model, mode: "mtp", drafter, length: LENGTH, on } as const
      const { made, reply } = await drafted(drafting, asking(text, { temperature: 0 }))
      expect(reply).toEqual(text.reply)
      expect(made.length).toBeGreaterThanOrEqual(Math.floor(reply.length / (LENGTH + 1)))
      for (const { at, proposed } of made) {
        const place = at - text.prompt.length
        const clear = text.leads[place]!.findIndex((lead) => lead < 0.01)
        const wanted = text.drafts[place]!.slice(0, clear < 0 ? LENGTH : clear)
        expect(proposed.slice(0, wanted.length)).toEqual(wanted.slice(0, proposed.length))
      }
    }
    await guesser.close()
  }

  test("what an engine drafts", () => judge("reference"))
  if (!isAsOthers.has(name)) test("the same by a library", () => judge("cpu"))
  if (isWhole.has(name) && write !== writeCompiled)
    test.skipIf(isSkipped)(`the same on vulkan${why}`, () => judge("vulkan"), GPU_MILLISECONDS)
})

test.each([
  ["deepseek-v3", writeMtpModel],
  ["qwen3-5-moe", writeMtpModel],
  ["glm4-moe", writeMtpGguf],
] as const)(
  "a folder that %s was compiled into holds its layer, packed as at a start",
  async (name, write) => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-mtp-"))
    const [source, output] = [join(folder, "source"), join(folder, "output")]
    mkdirSync(source)
    write(name, source)
    const format = "q4f16_1"
    const original = await openModel(source)
    await compileFolder(original, output, { format })
    const compiled = await openModel(output)
    const [before, after] = [original, compiled].map((model) => openOwnLayer(model, format))
    const { parameters } = compile(before!.graph, { format, activations: "float", kv: "f32" })
    const kept = compile(after!.graph, { format, activations: "float", kv: "f32" }).parameters
    expect(kept).toEqual(parameters)
    for (const parameter of parameters)
      expect(await bytesOf(compiled.weights, parameter)).toEqual(
        await bytesOf(original.weights, parameter),
      )
    await Promise.all([original.close(), compiled.close()])
    rmSync(folder, { recursive: true })
  },
)

/** A hash of all that a program is given. */
async function bytesOf(weights: Weights, parameter: Parameter): Promise<string> {
  const sum = createHash("sha256")
  for await (const { values, scales } of readParameter(weights, parameter)) {
    sum.update(values)
    if (scales) sum.update(scales)
  }
  return sum.digest("hex")
}
