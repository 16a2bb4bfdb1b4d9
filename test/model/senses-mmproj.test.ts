// What Gemma 4 hears with in a file of llama.cpp's converter (test/golden/gguf/senses) is what its folder has (test/golden/senses, whose
// rows are those of transformers), where that folder says of its tower what published models say and such files do not. What it sees
// with is too small for the usual number of rows; mmproj.test.ts has another.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, onTestFinished, test } from "vitest"
import { printGraph } from "../../src/compiler/graph/graph.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import type { Sense } from "../../src/model/sense.ts"
import { convert } from "../../src/model/weights/convert.ts"
import { widen } from "../../src/runtime/dtype.ts"
import { float32, type GgufFileParts, rewritten, uint32 } from "./gguf-file.ts"
import { goldenFolder } from "./golden.ts"

const pair = join(goldenFolder("gguf", "senses"), "gemma4")
const [modelOf, mmprojOf] = ["model.gguf", "mmproj-model-bf16.gguf"].map((name) => join(pair, name))
const scratch = mkdtempSync(join(tmpdir(), "sinter-senses-mmproj-"))
afterAll(() => rmSync(scratch, { recursive: true }))

async function opened(path: string, options: OpenOptions = {}): Promise<Model> {
  const model = await openModel(path, { sees: true, ...options })
  onTestFinished(() => model.close())
  return model
}

/** Where transformers' Gemma4AudioConfig is not told otherwise, and padding that no such file names. */
const USUAL = {
  residual_weight: 0.5,
  attention_chunk_size: 12,
  attention_context_left: 13,
  attention_logit_cap: 50,
  rms_norm_eps: 1e-6,
  gradient_clipping: 1e10,
}

function published(name: string, usual: Record<string, number>): string {
  const folder = mkdtempSync(join(scratch, "folder-"))
  cpSync(goldenFolder("senses", name), folder, { recursive: true })
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  Object.assign(config.audio_config, usual)
  config.text_config.pad_token_id = 0
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  return folder
}

async function valuesOf({ graph, weights }: Sense): Promise<Map<string, Float32Array>> {
  const values = new Map<string, Float32Array>()
  for (const { sources, columns } of weightsOf(graph))
    for (const { tensor, rows } of sources) {
      const stored = weights.tensor(tensor, rows, columns)
      const read = await stored.read(0, rows)
      const { values: floats } = convert(read, columns, stored.codec, "f32")
      values.set(tensor, widen(floats, "f32"))
    }
  return values
}

test.each([
  { name: "gemma4", usual: USUAL, tokens: [328, 0] },
  { name: "gemma4-unified", usual: { rms_norm_eps: 1e-6 }, tokens: [328, undefined] },
])("what $name hears with in a file is what its folder has", async ({ name, usual, tokens }) => {
  const file = await opened(join(goldenFolder("gguf", "senses"), name))
  const folder = await opened(published(name, usual))
  expect([file.deaf, folder.deaf]).toEqual([undefined, undefined])
  const [own, its] = [file.hearing!, folder.hearing!]
  expect(printGraph(own.graph)).toBe(printGraph(its.graph))
  const [values, truth] = [await valuesOf(own), await valuesOf(its)]
  expect([...values.keys()]).toEqual([...truth.keys()])
  for (const [name, numbers] of truth) {
    const worst = numbers.reduce(
      (most, x, i) => Math.max(most, Math.abs(x - values.get(name)![i]!)),
      0,
    )
    expect(worst, name).toBeLessThan(1e-6) // PyTorch's softplus rounds to floats on its way
  }
  expect(own.audio).toEqual(its.audio)
  const { softToken, instead } = own.config as { softToken: number; instead?: number }
  expect([softToken, instead]).toEqual(tokens)
})

test("a compiled folder has what hears, and its numbers", async () => {
  const model = await opened(pair)
  const output = join(scratch, "compiled")
  await compileFolder(model, output, { format: "q4f16_1" })
  const compiled = await opened(output)
  expect(printGraph(compiled.hearing!.graph)).toBe(printGraph(model.hearing!.graph))
  expect(await valuesOf(compiled.hearing!)).toEqual(await valuesOf(model.hearing!))
  expect(compiled.hearing!.audio).toEqual(model.hearing!.audio)
})

test("how far norms stay from zero is not asked of a file", async () => {
  const wrong = changed(({ pairs }) =>
    pairs.set("clip.audio.attention.layer_norm_epsilon", float32(1e-3)),
  )
  const [own, usual] = [await opened(wrong), await opened(pair)]
  expect(printGraph(own.hearing!.graph)).toBe(printGraph(usual.hearing!.graph))
})

/** The pair with another mmproj file. */
function changed(change: (parts: GgufFileParts) => void): string {
  const folder = mkdtempSync(join(scratch, "changed-"))
  cpSync(modelOf!, join(folder, "model.gguf"))
  writeFileSync(join(folder, "mmproj-f16.gguf"), rewritten(readFileSync(mmprojOf!), change))
  return folder
}

test.each<[string, (parts: GgufFileParts) => void, string]>([
  [
    "other bands than channels",
    ({ pairs }) => pairs.set("clip.audio.num_mel_bins", uint32(128)),
    "clip.audio.num_mel_bins is 128; only 16 is known, as many as channels",
  ],
  [
    "scales of keys",
    ({ tensors }) =>
      tensors.set("a.blk.0.per_dim_k_scale.weight", {
        type: "F32",
        dims: [8],
        data: Buffer.alloc(32),
      }),
    "it holds tensor a.blk.0.per_dim_k_scale.weight, which is not known",
  ],
  [
    "no rows for distances",
    ({ tensors }) => tensors.delete("a.blk.1.attn_k_rel.weight"),
    "there is no tensor a.blk.1.attn_k_rel.weight",
  ],
  [
    "a layer that is not read",
    ({ pairs }) => pairs.set("clip.audio.block_count", uint32(1)),
    "it holds tensor a.blk.1.",
  ],
  [
    "bounds of some matrices",
    ({ tensors }) => tensors.delete("a.blk.1.conv_pw2.output_max"),
    "there is no tensor a.blk.1.conv_pw2.output_max",
  ],
])("with %s it is left out", async (_, change, words) => {
  const { hearing, deaf } = await opened(changed(change))
  expect(hearing).toBeUndefined()
  expect(deaf).toContain(words)
})
