// GGUF models with the mmproj files beside them (test/golden/gguf/hearing, which llama.cpp's converters wrote) hear what their folders
// hear, and say what those say (test/golden/hearing).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, onTestFinished, test } from "vitest"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import { bool, float32, type GgufFileParts, rewritten, string, uint32 } from "./gguf-file.ts"
import { goldenFolder } from "./golden.ts"
import { answersAsHeard, judge } from "./recordings.ts"

const folderOf = (name: string) => join(goldenFolder("gguf", "hearing"), name)
const modelOf = (name: string) => join(folderOf(name), "model.gguf")
const mmprojOf = (name: string) => join(folderOf(name), "mmproj-model-bf16.gguf")
const names = readdirSync(goldenFolder("gguf", "hearing"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

async function opened(path: string, options: OpenOptions = {}): Promise<Model> {
  const model = await openModel(path, { sees: true, ...options })
  onTestFinished(() => model.close())
  return model
}

const scratch = mkdtempSync(join(tmpdir(), "sinter-hearing-mmproj-"))
afterAll(() => rmSync(scratch, { recursive: true }))

function folderWith(files: Readonly<Record<string, string | Buffer>>): string {
  const folder = mkdtempSync(join(scratch, "model-"))
  for (const [name, file] of Object.entries(files))
    if (typeof file === "string") cpSync(file, join(folder, name))
    else writeFileSync(join(folder, name), file)
  return folder
}

describe.each(names)("%s", (name) => {
  test("hears", () => judge(folderOf(name), name, "cpu"), 120_000)

  // llama.cpp's template of Qwen3-ASR takes texts alone, and those stand on lines of their own; transcripts.test.ts asks without any.
  if (name !== "qwen3-asr")
    describe("answers as transformers does", () => answersAsHeard(name, folderOf(name)))

  if (name !== "ultravox")
    // which has no folder
    test("recordings are prepared as those of its folder", async () => {
      const [file, folder] = [
        await opened(folderOf(name)),
        await opened(goldenFolder("hearing", name)),
      ]
      const around = name === "qwen3-asr" && { before: "<|audio_start|>", after: "<|audio_end|>" }
      expect(file.hearing!.audio).toEqual({ ...folder.hearing!.audio, ...around })
      expect(file.hearing!.transcription).toBe(folder.hearing!.transcription)
      expect(file.hearing!.config.softToken).toBe(folder.hearing!.config.softToken)
    })
})

test("a compiled folder hears what the file hears", async () => {
  const output = join(scratch, "compiled")
  await compileFolder(await opened(folderOf("voxtral")), output, { format: "q4f16_1" })
  await judge(output, "voxtral", "cpu")
}, 120_000)

test("a file is left out where nobody asks, and found elsewhere where it is named", async () => {
  const none = await opened(folderOf("voxtral"), { mmproj: "none" })
  expect([none.hearing, none.deaf, none.blind]).toEqual([undefined, undefined, undefined])
  const alone = folderWith({ "model.gguf": modelOf("voxtral") })
  expect((await opened(alone)).hearing).toBeUndefined()
  expect((await opened(alone, { mmproj: mmprojOf("voxtral") })).hearing).toBeDefined()
})

test.each<[string, string, (parts: GgufFileParts) => void, string]>([
  [
    "another projector",
    "qwen2-audio",
    ({ pairs }) => pairs.set("clip.projector_type", string("glma")),
    'clip.projector_type is "glma"; known of what hears: musicflamingo, qwen2.5o, qwen2a, qwen3a, ultravox, voxtral, gemma4a, gemma4ua, granite_speech',
  ],
  [
    "no projector",
    "qwen2-audio",
    ({ pairs }) => pairs.delete("clip.projector_type"),
    "clip.audio.projector_type is missing; known of what hears",
  ],
  [
    "more rows side by side",
    "voxtral",
    ({ pairs }) => pairs.set("clip.audio.projector.stack_factor", uint32(8)),
    "clip.audio.projector.stack_factor is 8; only 4 is known of it",
  ],
  [
    "as many rows side by side of a model that fills them up",
    "ultravox",
    ({ pairs }) => pairs.set("clip.audio.projector.stack_factor", uint32(4)),
    "clip.audio.projector.stack_factor is 4; only 8 is known of it",
  ],
  [
    "blocks of too many rows",
    "granite-speech",
    ({ pairs }) => pairs.set("clip.audio.chunk_size", uint32(400)),
    "mmproj-f16.gguf: clip.audio.chunk_size is 400, not between 1 and 256",
  ],
  [
    "heads of half a column",
    "granite-speech",
    ({ pairs }) => pairs.set("clip.audio.attention.head_count", uint32(5)),
    "what a.blk.0.attn_q.weight leads to is ",
  ],
  [
    "norms by another number",
    "voxtral",
    ({ pairs }) => pairs.set("clip.audio.attention.layer_norm_epsilon", float32(1e-6)),
    "clip.audio.attention.layer_norm_epsilon is ",
  ],
  [
    "more layers than there are",
    "voxtral",
    ({ pairs }) => pairs.set("clip.audio.block_count", uint32(0xffffffff)),
    "clip.audio.block_count is 4294967295, but the file has 39 tensors in all",
  ],
  [
    "a layer that is not read",
    "voxtral",
    ({ pairs }) => pairs.set("clip.audio.block_count", uint32(1)),
    "it holds tensor a.blk.1.",
  ],
  [
    "biases that nobody reads",
    "voxtral",
    ({ tensors }) =>
      tensors.set("mm.a.mlp.1.bias", { type: "F32", dims: [40], data: Buffer.alloc(160) }),
    "it holds tensor mm.a.mlp.1.bias, which is not known of this architecture",
  ],
  [
    "another width",
    "qwen2-audio",
    ({ tensors }) => {
      const matrix = tensors.get("mm.a.fc.weight")!
      matrix.dims[1] = 20
      matrix.data = matrix.data.subarray(0, matrix.data.length / 2)
    },
    "it makes rows of 20 columns, and those of model.gguf have 40; take the file that belongs to this model",
  ],
])(
  "%s is refused: the model is served without, or not where it was named",
  async (_, name, change, words) => {
    const file = rewritten(readFileSync(mmprojOf(name)), change)
    const folder = folderWith({ "model.gguf": modelOf(name), "mmproj-f16.gguf": file })
    const path = join(folder, "mmproj-f16.gguf")
    const { hearing, deaf, blind } = await opened(folder)
    expect([hearing, blind]).toEqual([undefined, undefined])
    expect(deaf!.slice(0, path.length)).toBe(path)
    expect(deaf).toContain(words)
    await expect(openModel(folder, { sees: true, mmproj: path })).rejects.toMatchObject({
      code: "model_broken",
      message: expect.stringContaining(words),
    })
  },
)

test("of a file that also holds what sees, its own part is read", async () => {
  const both = rewritten(readFileSync(mmprojOf("qwen2-audio")), ({ pairs, tensors }) => {
    pairs.delete("clip.projector_type")
    pairs.set("clip.audio.projector_type", string("qwen2a"))
    pairs.set("clip.has_vision_encoder", bool(true))
    pairs.set("clip.vision.projector_type", string("another"))
    tensors.set("v.post_ln.weight", { type: "F32", dims: [4], data: Buffer.alloc(16) })
  })
  const folder = folderWith({ "model.gguf": modelOf("qwen2-audio"), "mmproj-f16.gguf": both })
  const { hearing, deaf, blind } = await opened(folder)
  expect(deaf).toBeUndefined()
  expect(hearing!.config.softToken).toBe(322)
  expect(blind).toContain('clip.vision.projector_type is "another"')
})

test("Ultravox's recordings stand for a token that prompts do without", async () => {
  const { hearing } = await opened(folderOf("ultravox"))
  expect(hearing!.audio).toMatchObject({
    cutting: "filled",
    joined: 8,
    soft: "<|reserved_special_token_0|>",
    mark: "<|reserved_special_token_0|>",
  })
  expect(hearing!.config.softToken).toBe(322)
  const bare = folderWith({
    "model.gguf": modelOf("qwen2-audio"),
    "mmproj-f16.gguf": mmprojOf("ultravox"),
  })
  expect((await opened(bare)).deaf).toMatch(
    /mmproj-f16\.gguf: model\.gguf has none of the tokens <\|reserved_special_token_0\|>, <\|image_pad\|>, <image_soft_token>, which prompts do without/,
  )
})

test("a folder of Ultravox's is refused, and told how it is served", async () => {
  const config = Buffer.from(JSON.stringify({ model_type: "ultravox" }))
  await expect(openModel(folderWith({ "config.json": config }))).rejects.toMatchObject({
    message: expect.stringContaining(
      "serve the GGUF file of that one with the mmproj file beside it",
    ),
  })
})

test("a model of another kind is known by its tokens", async () => {
  const files = { "model.gguf": modelOf("voxtral"), "mmproj-f16.gguf": mmprojOf("qwen2-audio") }
  expect((await opened(folderWith(files))).deaf).toMatch(
    /mmproj-f16\.gguf: model\.gguf has no token <\|AUDIO\|>, which it reads around recordings/,
  )
})
