// GGUF files against logits, tokens and texts that other programs computed from them: see test/golden/gguf/README.md.

import { createHash } from "node:crypto"
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { planOf } from "../../src/app/plan.ts"
import { byteLevelCharacter } from "../../src/byte-alphabet.ts"
import { foreign, Text } from "../../src/chat/jinja/text.ts"
import { openTokenizer } from "../../src/chat/tokenizer.ts"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { Problem } from "../../src/errors.ts"
import { Folder } from "../../src/model/folder.ts"
import { ggufArchitectures } from "../../src/model/gguf/architectures.ts"
import { unpackBlocks } from "../../src/model/gguf/blocks.ts"
import { readContainer, type Value } from "../../src/model/gguf/container.ts"
import { cuts } from "../../src/model/gguf/cuts.ts"
import { Keys } from "../../src/model/gguf/keys.ts"
import { readTokenizer } from "../../src/model/gguf/tokenizer.ts"
import { type BlockTypeName, blockTypes, codecOfType } from "../../src/model/gguf/types.ts"
import { modelFileIn } from "../../src/model/locate.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import type { TextList } from "../../src/model/text-list.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import {
  codeTables,
  type GroupCodec,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  rowLayout,
} from "../../src/runtime/format.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { unpackedRows } from "../../src/runtime/unpack.ts"
import { allocated } from "../allocated.ts"
import {
  bool,
  bools,
  counted,
  float32,
  float32s,
  type GgufFileParts,
  type GgufTensor,
  longer,
  rewritten,
  string,
  textList,
  uint32,
  uint64,
} from "./gguf-file.ts"
import { type GoldenPrompt, readGolden, readTensors } from "./golden.ts"
import {
  arithmeticHere,
  blocksFor,
  expectGolden,
  limitsFor,
  prefill,
  worstDifference,
} from "./steps.ts"

const root = join(import.meta.dirname, "../golden/gguf")
const names = readdirSync(root).filter((name) => /^(llama|mistral|qwen)/.test(name))
const models = join(root, "../models")
/** Folders of models/ whose weights lie in a GGUF file, too. */
const converted = readdirSync(join(root, "architectures")).flatMap((file) =>
  file.endsWith(".gguf") ? [file.slice(0, -".gguf".length)] : [],
)
const convertedFile = (name: string) => join(root, "architectures", `${name}.gguf`)
const limits = { blocks: [50], tokens: 700, sequences: 2, rows: 700 }

describe.each(names)("%s", (name) => {
  const prompts = readGolden(join(root, name))
  let model: Model
  let program: ReturnType<typeof openReference>

  beforeAll(async () => {
    model = await openModel(join(root, name))
    const { codecOf, format } = model
    const options = { format, activations: "float", kv: "f32" } as const
    program = openReference(
      compile(model.graph, { ...options, ...(codecOf && { codecOf }) }),
      limits,
    )
    await loadParameters(model.weights, program.manifest, program)
  })
  afterAll(async () => {
    await program.close()
    await model.close()
  })

  test("logits are within 1e-3 of the golden ones, greedy tokens are equal", async () => {
    for (const prompt of prompts) {
      const blocks = blocksFor(prompt.tokens.length + prompt.greedy.length)
      await expectGolden(program, prompt, blocks, 1e-3)
    }
  })
})

/** Logits of each prompt's last rows, by the reference. */
async function logitsOf(path: string, prompts: readonly GoldenPrompt[]): Promise<Float32Array[]> {
  const model = await openModel(path)
  const { codecOf, format } = model
  const options = { format, activations: "float", kv: "f32" } as const
  const plan = compile(model.graph, { ...options, ...(codecOf && { codecOf }) })
  const program = openReference(plan, limitsFor(plan, { ...limits, blocks: 50 }))
  await loadParameters(model.weights, program.manifest, program)
  const all: Float32Array[] = []
  for (const { tokens, firstRow } of prompts)
    all.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
  await program.close()
  await model.close()
  return all
}

test("every architecture of the table has a file", async () => {
  const encoders = readdirSync(join(root, "encoders")).filter((file) => file.endsWith(".gguf"))
  const files = [
    ...names.map((name) => join(root, name)),
    ...converted.map(convertedFile),
    ...encoders.map((file) => join(root, "encoders", file)), // which embeddings.test.ts judges
  ]
  // Ollama's alone, which ollama-sight.test.ts judges, and two that mmproj.test.ts does.
  const seen = new Set<unknown>(["qwen25vl", "paddleocr", "hunyuan_vl"])
  for (const path of files) {
    const isFile = path.endsWith(".gguf")
    const folder = new Folder(isFile ? dirname(path) : path)
    const { pairs, handle } = await readContainer(
      folder,
      isFile ? basename(path) : modelFileIn(path)!,
    )
    seen.add(pairs.get("general.architecture"))
    await handle.close()
  }
  expect(seen).toEqual(new Set(Object.keys(ggufArchitectures)))
})

test.each(converted)(
  "architectures/%s: logits are within 1e-3 of the golden ones",
  async (name) => {
    const own = join(root, "architectures", name) // where a file cannot say what the folder does
    const [folder = ""] = name.split(".") // MODEL.ARCHITECTURE: the model, written as that
    const prompts = readGolden(existsSync(own) ? own : join(models, folder)).filter(
      ({ tokens }) => tokens.length <= 200,
    )
    const ours = await logitsOf(convertedFile(name), prompts)
    for (const [i, { logits }] of prompts.entries())
      expect(worstDifference(ours[i]!, logits)).toBeLessThan(1e-3)
  },
)

/** The file with its bytes changed, in a folder of its own. */
function changedFile(path: string, change: (bytes: Buffer) => Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), "sinter-gguf-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const changed = join(folder, "model.gguf")
  writeFileSync(changed, change(readFileSync(path)))
  return changed
}

test("gates and ups of experts in one tensor, as llama.cpp joins them on request, are those apart", async () => {
  const joined = changedFile(convertedFile("qwen3-moe"), (bytes) =>
    rewritten(bytes, ({ tensors }) => {
      for (const layer of [1, 2]) {
        const [gate, up] = ["gate", "up"].map((name) => {
          const key = `blk.${layer}.ffn_${name}_exps.weight`
          const tensor = tensors.get(key)!
          tensors.delete(key)
          return tensor
        }) as [GgufTensor, GgufTensor]
        const [columns, rows, experts] = gate.dims as [number, number, number]
        const each = gate.data.length / experts
        const ofExpert = ({ data }: GgufTensor, expert: number) =>
          data.subarray(expert * each, (expert + 1) * each)
        const data = Array.from({ length: experts }, (_, expert) =>
          [gate, up].map((tensor) => ofExpert(tensor, expert)),
        )
        tensors.set(`blk.${layer}.ffn_gate_up_exps.weight`, {
          type: gate.type,
          dims: [columns, 2 * rows, experts],
          data: Buffer.concat(data.flat()),
        })
      }
    }),
  )
  const prompts = readGolden(join(models, "qwen3-moe"))
  const ours = await logitsOf(joined, prompts)
  for (const [i, { logits }] of prompts.entries())
    expect(worstDifference(ours[i]!, logits)).toBeLessThan(1e-3)
})

/** Rows of bf16 as blocks of Q8_0, and the floats that those stand for: https://github.com/ggml-org/llama.cpp, block_q8_0 */
function inQ8({ dims, data }: GgufTensor): Record<"packed" | "floats", GgufTensor> {
  const values = widen(new Uint8Array(data), "bf16")
  const blocks: Uint8Array[] = []
  const floats: number[] = []
  for (let at = 0; at < values.length; at += 32) {
    const block = values.subarray(at, at + 32)
    const scale = narrow(Float32Array.of(Math.max(...block.map(Math.abs)) / 127), "f16")
    const [d] = widen(scale, "f16") as unknown as [number]
    const codes = Int8Array.from(block, (value) => Math.round(value / d))
    blocks.push(scale, new Uint8Array(codes.buffer))
    floats.push(...[...codes].map((code) => code * d))
  }
  return {
    packed: { type: "Q8_0", dims, data: Buffer.concat(blocks) },
    floats: { type: "F32", dims, data: Buffer.from(Float32Array.from(floats).buffer) },
  }
}

// llama.cpp packs the former, and other programs the latter, too.
test("packed gates of states and packed routers are what their blocks stand for", async () => {
  const exact = /\.(ssm_alpha|ssm_beta|ffn_gate_inp)\.weight$/
  const kept = (as: "packed" | "floats") =>
    changedFile(convertedFile("qwen3-5.moe"), (bytes) =>
      rewritten(bytes, ({ tensors }) => {
        const names = [...tensors.keys()].filter((name) => exact.test(name))
        expect(names.length).toBeGreaterThan(8)
        for (const name of names) tensors.set(name, inQ8(tensors.get(name)!)[as])
      }),
    )
  const prompts = readGolden(join(models, "qwen3-5"))
  expect(await logitsOf(kept("packed"), prompts)).toEqual(await logitsOf(kept("floats"), prompts))
})

/** A file whose heads are stretched fourfold, and what the first layer's cosines and sines are multiplied with. */
async function growthOf(keys: Record<string, Buffer>): Promise<number> {
  const path = changedFile(convertedFile("qwen3-moe"), (bytes) =>
    rewritten(bytes, ({ pairs }) => {
      const all = { type: string("yarn"), factor: float32(4), ...keys }
      for (const [key, value] of Object.entries(all))
        pairs.set(`qwen3moe.rope.scaling.${key}`, value)
    }),
  )
  const model = await openModel(path)
  await model.close()
  return model.config.blocks[0]!.attention.rotation!.query.factor
}

// llama-context.cpp and rope_yarn in ggml-cpu/ops.cpp of llama.cpp: attn_factor * (0.1 ln factor + 1), or the quotient of two such
// where there is a log multiplier; yarn_attn_factor is not read there, and transformers takes an attention_factor for all of it.
const usual = 0.1 * Math.log(4) + 1
test.each<[Record<string, number>, number]>([
  [{}, usual],
  [{ attn_factor: 1 }, usual],
  [{ attn_factor: 0.75 }, 0.75 * usual],
  [{ attn_factor: 0.75, yarn_log_multiplier: 0.5 }, (0.75 * usual) / (0.05 * Math.log(4) + 1)],
  [{ yarn_attn_factor: 0.8782488562869419 }, usual], // DeepSeek-R1-0528-Qwen3-8B says attn_factor so
  [{ yarn_attn_factor: 1.25 }, 1.25],
])("yarn with %j grows by %f", async (keys, growth) => {
  const values = Object.entries(keys).map(([key, value]) => [key, float32(value)] as const)
  expect(await growthOf(Object.fromEntries(values))).toBeCloseTo(growth, 6)
})

test("OLMo 3's attn_factor is its configuration's attention_factor, and growth without a stretch is refused", async () => {
  const olmo = changedFile(convertedFile("olmo3"), (bytes) =>
    rewritten(bytes, ({ pairs }) => {
      const key = "olmo2.rope.scaling."
      pairs.set(`${key}attn_factor`, pairs.get(`${key}yarn_attn_factor`)!)
      pairs.delete(`${key}yarn_attn_factor`)
    }),
  )
  const prompts = readGolden(join(models, "olmo3"))
  const ours = await logitsOf(olmo, prompts)
  for (const [i, { logits }] of prompts.entries())
    expect(worstDifference(ours[i]!, logits)).toBeLessThan(1e-3)
  await expect(growthOf({ type: string("linear"), attn_factor: float32(1.5) })).rejects.toThrow(
    "rope.scaling.attn_factor is 1.5, which is known of yarn and of lists of divisors",
  )
})

/** As https://registry.ollama.ai/library/gemma3 has its models of text, 1b, and those that see, 4b and larger. */
const byOllama: Record<string, (parts: GgufFileParts) => void> = {
  "of text": ({ pairs }) => {
    pairs.delete("gemma3.rope.freq_base")
    pairs.set("gemma3.rope.global.freq_base", float32(1e6))
    pairs.set("gemma3.rope.local.freq_base", float32(1e4))
    pairs.set("gemma3.final_logit_softcapping", float32(30))
  },
  "that see": ({ pairs, tensors }) => {
    for (const key of ["freq_base", "scaling.type", "scaling.factor"])
      pairs.delete(`gemma3.rope.${key}`)
    pairs.delete("gemma3.attention.layer_norm_rms_epsilon")
    pairs.set("gemma3.context_length", uint32(131072))
    pairs.set("gemma3.mm.tokens_per_image", uint32(256))
    for (const name of ["v.blk.0.attn_k.bias", "mm.mm_soft_emb_norm.weight"])
      tensors.set(name, { type: "F32", dims: [2], data: Buffer.alloc(8) })
  },
}

test.each(Object.entries(byOllama))(
  "Ollama's own files of Gemma 3 %s are the model that was converted",
  async (_, change) => {
    const path = changedFile(convertedFile("gemma3"), (bytes) =>
      rewritten(bytes, (parts) => {
        const { pairs } = parts
        pairs.set("tokenizer.ggml.add_unknown_token", bool(false))
        const key = "tokenizer.ggml.tokens"
        pairs.set(key, longer(pairs.get(key)!, counted("<image_soft_token>")))
        change(parts)
      }),
    )
    const prompts = readGolden(join(models, "gemma3"))
    const ours = await logitsOf(path, prompts)
    for (const [i, { logits }] of prompts.entries())
      expect(worstDifference(ours[i]!, logits)).toBeLessThan(1e-3)
  },
)

test.each(["gemma3", "gemma4"])(
  "no text of Ollama's files of %s begins with a blank",
  async (architecture) => {
    const folder = join(root, "llama-q4_0") // whose vocabulary says so
    const { pairs, handle } = await readContainer(new Folder(folder), modelFileIn(folder)!)
    await handle.close()
    const { length } = pairs.get("tokenizer.ggml.tokens") as TextList
    const keysOf = (pairs: ReadonlyMap<string, Value>) =>
      new Keys(pairs, (what) => new Folder(root).broken("x.gguf", what))
    const textOf = (pairs: ReadonlyMap<string, Value>) =>
      readTokenizer(keysOf(pairs), length).json.toString()
    const silent = new Map(pairs)
    expect(silent.delete("tokenizer.ggml.add_space_prefix")).toBe(true)
    expect(textOf(silent)).not.toBe(textOf(pairs))
    silent.set("general.architecture", architecture).set("tokenizer.ggml.add_unknown_token", false)
    expect(textOf(silent)).toBe(textOf(pairs))
    const usual = textOf(silent)
    silent.set("tokenizer.ggml.add_bos_token", false)
    expect(textOf(silent) === usual).toBe(architecture === "gemma4") // which llama.cpp begins all the same
  },
)

test("experts of Gemma 4 are read as Ollama's files have them: gates and ups apart, scales beside the router", async () => {
  const path = changedFile(convertedFile("gemma4-experts"), (bytes) =>
    rewritten(bytes, ({ tensors }) => {
      for (const [name, tensor] of [...tensors]) {
        if (name.endsWith("ffn_down_exps.scale")) {
          tensors.delete(name)
          const router = name.replace("ffn_down_exps.scale", "ffn_gate_inp.per_expert_scale")
          tensors.set(router, tensor)
        }
        if (!name.includes("ffn_gate_up_exps")) continue
        const [columns, rows, experts] = tensor.dims as [number, number, number]
        const half = tensor.data.length / experts / 2
        tensors.delete(name)
        for (const [i, part] of ["gate", "up"].entries()) {
          const data = Array.from({ length: experts }, (_, expert) =>
            tensor.data.subarray((2 * expert + i) * half, (2 * expert + i + 1) * half),
          )
          const own = { ...tensor, dims: [columns, rows / 2, experts], data: Buffer.concat(data) }
          tensors.set(name.replace("gate_up", part), own)
        }
      }
    }),
  )
  const prompts = readGolden(join(models, "gemma4-experts"))
  const ours = await logitsOf(path, prompts)
  for (const [i, { logits }] of prompts.entries())
    expect(worstDifference(ours[i]!, logits)).toBeLessThan(1e-3)
})

test("a key that changes the mathematics and is not known of the architecture is refused", async () => {
  const key = "ernie4_5.attention.value_length"
  const path = changedFile(convertedFile("ernie4-5"), (bytes) => {
    bytes.writeUInt32LE(15, bytes.indexOf(key) + key.length + 4) // behind the value's kind
    return bytes
  })
  await expect(openModel(path)).rejects.toThrow(`${key} is 15, which is not known`)
})

test("Granite Swash's layers are turned where the file says so", async () => {
  const turnedOf = async (pattern: boolean[]) => {
    const path = changedFile(convertedFile("granitemoe-swa"), (bytes) =>
      rewritten(bytes, ({ pairs }) => {
        pairs.set("granite_swa.attention.rope_pattern", bools(pattern))
      }),
    )
    const model = await openModel(path)
    await model.close()
    return model.config.blocks.map(({ attention }) => attention.rotation?.query.frequencies[1])
  }
  const frequency = expect.closeTo(1e4 ** -0.2)
  expect(await turnedOf([false, true])).toEqual([undefined, frequency])
  await expect(turnedOf([true])).rejects.toThrow("is about 1 layers of 2")
})

test.each<[string, string, Buffer, string]>([
  ["hy-v3", "hy_v3.expert_gating_func", uint32(1), "expert_gating_func is 1; known: 2, a sigmoid"],
  [
    "hy-v3",
    "hy_v3.expert_shared_feed_forward_length",
    uint32(17),
    "is 17, no multiple of an expert's 16",
  ],
  ["cohere2-moe", "cohere2moe.expert_gating_func", uint32(3), "is 3; known: 1, a softmax, and 2"],
  ["laguna", "laguna.expert_weights_norm", bool(false), "known: shares that are normalised"],
  ["mellum", "mellum.rope.scaling.factor", float32(4), "which layers a file does not say"],
  ["apertus", "xielu.alpha_p", float32s([1]), "xielu.alpha_p has 1 numbers for 2 layers"],
  ["arcee", "arcee.embedding_scale", uint64(2n ** 63n), "scale is 9223372036854775808, which"],
  ["arcee", "arcee.logit_scale", float32s([1]), "logit_scale is a list, which is not known"],
  ["arcee", "arcee.rope.freq_base", float32(0), "in transformers' words, rope_theta is 0, not a"],
  ["arcee", "general.alignment", string("x"), 'general.alignment is "x", no power of two'],
  ["apertus", "xielu.beta", float32s([0.5, 0.75]), "xielu.beta is 0.75; only 0.5 is known"],
])("%s with another %s is refused", async (name, key, value, words) => {
  const path = changedFile(convertedFile(name), (bytes) =>
    rewritten(bytes, ({ pairs }) => {
      pairs.set(key, value)
    }),
  )
  await expect(openModel(path)).rejects.toThrow(words)
})

test("a tensor that the architecture does not read is refused", async () => {
  const path = changedFile(join(root, "qwen3-q8_0", "qwen3-q8_0.gguf"), (bytes) =>
    Buffer.from(bytes.toString("latin1").replaceAll("qwen3", "llama"), "latin1"),
  )
  await expect(openModel(path)).rejects.toThrow(/tensor blk\.\d\.attn_[qk]_norm\.weight, which is/)
})

test("a type that is not read is refused with what to take instead", async () => {
  const name = "blk.0.attn_q.weight"
  const path = changedFile(join(root, "mistral-f16", "mistral-f16.gguf"), (bytes) => {
    const at = bytes.indexOf(name) + name.length + 4 + 2 * 8 // behind the number of dimensions, and two of them
    expect(bytes.readUInt32LE(at)).toBe(blockTypes.F16.id)
    bytes.writeUInt32LE(blockTypes.I16.id, at) // as many bytes
    return bytes
  })
  await expect(openModel(path)).rejects.toThrow(
    `tensor ${name} is of type I16, which is not read; take another file of the model, as Q4_K_M`,
  )
})

const compiler = await findCompiler()
describe.skipIf(!compiler)(`compiled${compiler ? "" : ": no C compiler on this machine"}`, () => {
  // Every codec is judged in one small model; here whole files are, of mixed codecs.
  // And here what only files have: value heads that take turns.
  test.each([
    ["llama-q4_k_m", join(root, "llama-q4_k_m"), join(root, "llama-q4_k_m")],
    ["qwen3-low-bits", join(root, "qwen3-low-bits"), join(root, "qwen3-low-bits")],
    ["qwen2-q2_k", join(root, "qwen2-q2_k"), join(root, "qwen2-q2_k")],
    ["qwen3-mixed-experts", join(root, "qwen3-mixed-experts"), join(root, "qwen3-mixed-experts")],
    ["qwen3-5", convertedFile("qwen3-5"), join(models, "qwen3-5")],
  ])(
    "%s with activations in 8 bits computes the reference's bits",
    async (_, path, golden) => {
      const model = await openModel(path)
      const plan = planOf(model, model.format, {}, traitsOf("cpu"))
      const { tokens, firstRow } = readGolden(golden).at(-1)!
      const room = limitsFor(plan, { ...limits, blocks: 50 })
      const library = await shelvedCpu(plan, "cpu")
      const logits: Float32Array[] = []
      for (const program of [
        openReference(plan, room, arithmeticHere),
        await openLibrary(library.path, room),
      ]) {
        await loadParameters(model.weights, program.manifest, program)
        logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
        await program.close()
      }
      expect(logits[1]).toEqual(logits[0])
      await model.close()
    },
    240_000,
  )
})

test("every block type gives the values that others unpack", async () => {
  const values = readTensors(join(root, "blocks", "blocks.safetensors"))
  const { tensors, handle } = await readContainer(new Folder(join(root, "blocks")), "blocks.gguf")
  const read: BlockTypeName[] = []
  for (const { name, type, dims, position } of tensors) {
    const codec = codecOfType(type)
    if (!codec || !isGroupCodec(codec)) continue
    read.push(type)
    const [columns, rows = 1] = dims as [number, number?]
    const row = blockTypes[type]
    const bytes = Buffer.alloc((rows * columns * row.bytes) / row.values)
    await handle.read(bytes, 0, bytes.length, position)
    const theirs = new Float32Array(values(name))
    const ours = await unpackBlocks(type, codec, bytes, rows, columns)
    const { bits, group, zero, minimums, dtype, table }: GroupCodec = groupCodecs[codec]
    const { groups } = rowLayout(codec, columns)
    const numbers = widen(ours.scales!, dtype)
    const perRow = groups * (minimums ? 2 : 1)
    for (let i = 0; i < theirs.length; i++) {
      const [r, k] = [Math.floor(i / columns), i % columns]
      const code = bits === 8 ? ours.values[i]! : (ours.values[i >> 1]! >> (4 * (i & 1))) & 15
      const number = table ? codeTables[table][code]! : code
      const at = r * perRow + Math.floor(k / group)
      const product = Math.fround((number - zero) * numbers[at]!)
      const value = minimums ? Math.fround(product + numbers[at + groups]!) : product
      const size = Math.abs(product) + Math.abs(theirs[i]!) + 1e-30
      expect(Math.abs(value - theirs[i]!) / size).toBeLessThan(2e-7)
    }
  }
  await handle.close()
  expect(read.length).toBe(23)
})

const hashes: Record<string, string> = JSON.parse(
  readFileSync(join(root, "blocks", "codes.json"), "utf8"),
)
/** Where a block's own number lies, if not in its first bytes. */
const numberAt: Partial<Record<BlockTypeName, number>> = { TQ1_0: 52, TQ2_0: 64 }

// How the blocks are made, and by whom they are unpacked: make_codes.py beside them.
test.each(Object.entries(hashes) as [BlockTypeName, string][])(
  "every code of %s stands for what it does elsewhere",
  async (type, hash) => {
    const { bytes: size, values } = blockTypes[type]
    const [codec, rows] = [codecOfType(type) as GroupCodecName, 2048]
    let x = 1
    const bytes = Uint8Array.from({ length: rows * size }, () => {
      x = (Math.imul(1103515245, x) + 12345) & 0x7fffffff
      return x >> 16
    })
    for (let at = 0; at < bytes.length; at += size)
      if (type === "IQ1_M")
        for (const [i, digit] of [0, 0, 12, 3].entries())
          bytes[at + 49 + 2 * i] = (bytes[at + 49 + 2 * i]! & 15) | (digit << 4)
      else bytes.set([0, 0x3c], at + (numberAt[type] ?? 0))
    const ours = await unpackBlocks(type, codec, bytes, rows, values)
    const floats = unpackedRows(ours, values, codec).map((value) => value + 0) // no zero below zero
    expect(createHash("sha256").update(floats).digest("hex")).toBe(hash)
  },
)

const broken: { folder: string; expect: string }[] = JSON.parse(
  readFileSync(join(root, "broken", "index.json"), "utf8"),
)

test.each(broken.map((entry) => [entry.folder, entry.expect]))(
  "broken/%s: %s",
  async (name, wanted) => {
    const folder = join(root, "broken", name!)
    const first = readdirSync(folder).sort()[0]!
    const memory = allocated()
    const outcome = await openModel(join(folder, first)).then(
      async (model) => {
        await model.close()
        return undefined
      },
      (error: Error) => error,
    )
    expect(allocated() - memory).toBeLessThan(50e6)
    if (wanted === "load") expect(outcome).toBeUndefined()
    if (wanted === "refuse") expect(outcome).toBeInstanceOf(Problem)
    if (!outcome) return
    expect(outcome).toBeInstanceOf(Problem)
    expect(outcome.message.startsWith(folder)).toBe(true)
    expect(outcome.message).not.toMatch(/\n|undefined|\[object/)
  },
)

interface Split {
  pre: string
  same: string[]
  cuts: string[]
  pieces: string[][]
}
const splitting = (file: string) => JSON.parse(readFileSync(join(root, "splitting", file), "utf8"))
const { texts: cutTexts, splits } = splitting("split-golden.json")
const more: { also: Record<string, string[]>; splits: Split[] } = splitting("more-golden.json")
const allSplits: Split[] = [...splits, ...more.splits]

test("each pre-tokenizer's name has the patterns that others cut texts with", () => {
  const theirs = allSplits.map(({ pre, same, cuts }) => ({
    names: [pre, ...same, ...(more.also[pre] ?? [])],
    patterns: cuts,
  }))
  expect(cuts).toEqual(theirs)
})

/** The keys of a vocabulary of byte pairs. */
const bytePairKeys = (
  pre: string | undefined,
  tokens: readonly string[],
  merges: readonly string[],
  architecture = "llama",
) =>
  new Keys(
    new Map<string, Value>([
      ["general.architecture", architecture],
      ["tokenizer.ggml.model", "gpt2"],
      ...(pre === undefined ? [] : [["tokenizer.ggml.pre", pre] as const]),
      ["tokenizer.ggml.tokens", textList(tokens)],
      ["tokenizer.ggml.merges", textList(merges)],
    ]),
    (what) => new Folder(root).broken("x.gguf", what),
  )

// What llama.cpp names them in converters that write the key; Llama 3's vocabulary is nobody else's.
test.each([
  ["llama", 128_256, "llama-bpe"],
  ["qwen2", 128_256, "llama-bpe"],
  ["qwen2", 9, "qwen2"],
  ["phi2", 9, "gpt-2"],
  ["gpt2", 9, "gpt-2"],
  ["falcon", 9, "falcon"],
  ["starcoder2", 9, "starcoder"],
  ["llama", 9, "default"],
  ["constructor", 9, "default"],
])("without a pre-tokenizer's name %s of %i tokens cuts texts by %s", (name, count, pre) => {
  const tokens = Array.from({ length: count }, (_, id) => `t${id}`)
  const named = bytePairKeys(pre, tokens, [])
  const unnamed = bytePairKeys(undefined, tokens, [], name)
  const guessed = readTokenizer(unnamed, count)
  expect(guessed.json).toEqual(readTokenizer(named, count).json)
  expect([guessed, readTokenizer(named, count)]).toMatchObject([
    { guessedPre: pre },
    { guessedPre: undefined },
  ])
})

const byteLevel = (text: string) =>
  [...Buffer.from(text)].map((byte) => byteLevelCharacter(byte)).join("")

// Those of split-golden.json are of the very library that cuts texts here.
test.each(more.splits.map((split) => [split.pre, split] as const))(
  "%s cuts texts as others do",
  async (pre, { pieces }) => {
    // All pieces are tokens and no merge makes them: a text is whole tokens if, and only if, it is cut between them.
    const bytes = Array.from({ length: 256 }, (_, byte) => byteLevelCharacter(byte))
    const tokens = [...new Set([...bytes, ...pieces.flat().map(byteLevel)])]
    const tokenizer = JSON.parse(
      readTokenizer(bytePairKeys(pre, tokens, []), tokens.length).json.toString(),
    )
    tokenizer.normalizer = null // which texts.test.ts is about
    tokenizer.model.ignore_merges = true
    const opened = await openTokenizer(JSON.stringify(tokenizer), "x.gguf", tokens.length)
    for (const [i, text] of (cutTexts as string[]).entries()) {
      const ids = [...(await opened.encode(new Text(text)))]
      expect({ text, pieces: ids.map((id) => tokens[id]) }).toEqual({
        text,
        pieces: pieces[i]!.map(byteLevel),
      })
    }
    await opened.close()
  },
)

// GLM-4's own tokenizer.json ignores merges as well: https://github.com/unslothai/llama.cpp/pull/125
test.each([
  ["glm4", ["abc"]],
  ["chatglm-bpe", ["a", "bc"]],
])("%s: a word that merges do not reach is %j", async (pre, wanted) => {
  const tokens = ["a", "b", "c", "bc", "ab", "abc"]
  const keys = bytePairKeys(pre, tokens, ["b c", "a b", "ab c"])
  const { json } = readTokenizer(keys, tokens.length)
  const opened = await openTokenizer(json, "x.gguf", tokens.length)
  const ids = [...(await opened.encode(new Text("abc")))]
  expect(ids.map((id) => tokens[id])).toEqual(wanted)
  await opened.close()
})

/** Whose texts the golden ids are of. */
test("Gemma 4's tokenizer is one of pieces, whose merges are listed", async () => {
  const file = modelFileIn(join(root, "llama-q4_0"))!
  const { pairs, handle } = await readContainer(new Folder(join(root, "llama-q4_0")), file)
  await handle.close()
  const textOf = (model: string) => {
    const listed = new Map(pairs).set("tokenizer.ggml.merges", textList(["t h", "th e"]))
    const keys = new Keys(listed.set("tokenizer.ggml.model", model), (what) =>
      new Folder(root).broken(file, what),
    )
    return readTokenizer(
      keys,
      (pairs.get("tokenizer.ggml.tokens") as TextList).length,
    ).json.toString()
  }
  expect(textOf("gemma4")).toBe(textOf("llama"))
  expect(textOf("gemma4")).toContain('"merges":["t h","th e"]')
})

const tokenizers: [string, string][] = [
  ["llama-f32", "tokenizers/llama3"],
  ["qwen2-bf16", "tokenizers/qwen"],
  ["mistral-f16", "gguf/mistral-f16"],
  ["llama-q4_0", "gguf/llama-q4_0"],
  ["qwen3-q5_k_m", "gguf/qwen3-q5_k_m"],
]

test.each(tokenizers)("%s splits texts as %s says", async (name, golden) => {
  const model = await openModel(join(root, name))
  const { tokenizer } = model.texts
  const opened = await openTokenizer(tokenizer.json, tokenizer.file, model.config.shapes.vocabulary)
  const path = join(import.meta.dirname, "../golden", golden, "tokenizer-golden.json")
  const { strings } = JSON.parse(readFileSync(path, "utf8"))
  for (const { text, ids, ids_plain = ids } of strings) {
    const own = [...(await opened.encode(new Text(text)))]
    const theirs = [...(await opened.encode(foreign(text, 1)))]
    expect({ text, own, theirs }).toEqual({ text, own: ids, theirs: ids_plain })
  }
  await opened.close()
  await model.close()
})

describe("a folder with a configuration, as a hub's client downloads it", () => {
  const file = "llama-f32.gguf"
  const golden = join(root, "llama-f32", file)

  /** The configuration of the file that it is opened by, or why it is not. */
  async function opened(...others: string[]): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), "sinter-beside-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    copyFileSync(golden, join(folder, file))
    writeFileSync(join(folder, "config.json"), '{"model_type":"llama"}')
    for (const other of others) writeFileSync(join(folder, other), "")
    return openModel(folder).then(
      async (model) => {
        await model.close()
        return model.configuration
      },
      (error: Error) => error.message.replace(folder, ""),
    )
  }

  test("is the one GGUF model in it, whatever lies beside that", async () => {
    for (const others of [[], ["imatrix_unsloth.gguf", "mmproj-F16.gguf", "README.md"]])
      expect(await opened(...others)).toBe(file)
  })

  test("is none where it has weights of its own", async () => {
    for (const own of ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"])
      expect(await opened(own)).toMatch(/^\/config\.json: /)
  })

  test("lists the models that it has", async () => {
    expect(await opened("b.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf")).toBe(
      ": it holds 3 models; name one of b.gguf, c-00001-of-00002.gguf, llama-f32.gguf",
    )
  })
})
