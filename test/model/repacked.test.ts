// Models that no golden folder holds, made of one that does: the same weights, as another architecture keeps them, give its logits.

import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { planOf } from "../../src/app/plan.ts"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import type { Json } from "../../src/model/folder.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { float8Values } from "../../src/runtime/dtype.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { type GoldenPrompt, goldenFolder, readGolden } from "./golden.ts"
import { arithmeticHere, blocksFor, limitsFor, prefill, worstDifference } from "./steps.ts"
import { read, type Tensor, type Tensors, whole, write } from "./tensor-file.ts"

const limits = { blocks: 12, tokens: 150, sequences: 1, rows: 150 }
const scratch = mkdtempSync(join(tmpdir(), "sinter-repacked-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const bare = (name: string) => /^(.+)\.mlp\.gate_proj\.weight$/.exec(name)?.[1]

/** Experts that are all the MLP, and a shared one that gives nothing. */
function withExperts(tensors: Tensors): void {
  for (const layer of [...tensors.keys()].flatMap((name) => bare(name) ?? [])) {
    const take = (name: string) => {
      const key = `${layer}.mlp.${name}_proj.weight`
      const tensor = tensors.get(key)!
      tensors.delete(key)
      return tensor
    }
    const [gate, up, down] = [take("gate"), take("up"), take("down")]
    const [intermediate, hidden] = gate.shape as [number, number]
    const stack = (rows: Buffer[], columns: number): Tensor => ({
      shape: [3, rows.length, columns],
      rows: [rows, rows, rows].flat(),
    })
    tensors.set(`${layer}.mlp.experts.gate_up_proj`, stack([...gate.rows, ...up.rows], hidden))
    tensors.set(`${layer}.mlp.experts.down_proj`, stack(down.rows, intermediate))
    tensors.set(`${layer}.mlp.gate.weight`, whole(gate.rows.slice(0, 3), hidden))
    tensors.set(`${layer}.mlp.shared_expert_gate.weight`, whole(gate.rows.slice(0, 1), hidden))
    tensors.set(`${layer}.mlp.shared_expert.gate_proj.weight`, gate)
    tensors.set(`${layer}.mlp.shared_expert.up_proj.weight`, up)
    const nothing = down.rows.map(({ length }) => Buffer.alloc(length))
    tensors.set(`${layer}.mlp.shared_expert.down_proj.weight`, whole(nothing, intermediate))
  }
}

/** Stacked experts, each with tensors of its own. */
function oneByOne(tensors: Tensors): void {
  for (const name of [...tensors.keys()]) {
    const [, at, kind] = /^(.+\.mlp\.experts)\.(gate_up|down)_proj$/.exec(name) ?? []
    if (at === undefined) continue
    const { shape, rows } = tensors.get(name)!
    tensors.delete(name)
    const [count, each, columns] = shape as [number, number, number]
    for (let expert = 0; expert < count; expert++) {
      const own = rows.slice(expert * each, (expert + 1) * each)
      const parts =
        kind === "down" ? { down: own } : { gate: own.slice(0, each / 2), up: own.slice(each / 2) }
      for (const [part, matrix] of Object.entries(parts))
        tensors.set(`${at}.${expert}.${part}_proj.weight`, whole(matrix, columns))
    }
  }
}

/** The projections of the delta rule, key head by key head. */
function byKeyHead(tensors: Tensors): void {
  const [keyHeads, valueHeads, keyDim, valueDim] = [2, 4, 8, 6]
  for (const layer of [...tensors.keys()].flatMap((n) => /^(.+)in_proj_z/.exec(n)?.[1] ?? [])) {
    const take = (name: string) => {
      const key = `${layer}in_proj_${name}.weight`
      const { rows } = tensors.get(key)!
      tensors.delete(key)
      return rows
    }
    const [qkv, z, a, b] = [take("qkv"), take("z"), take("a"), take("b")]
    const keys = keyHeads * keyDim
    const slices = (width: number) => (rows: Buffer[], head: number) =>
      rows.slice(head * width, (head + 1) * width)
    const [ofKey, ofValues] = [slices(keyDim), slices((valueHeads / keyHeads) * valueDim)]
    const ofHeads = slices(valueHeads / keyHeads)
    const heads = Array.from({ length: keyHeads }, (_, head) => head)
    const columns = qkv[0]!.length / 2
    const qkvz = heads.flatMap((head) => [
      ...ofKey(qkv, head),
      ...ofKey(qkv.slice(keys), head),
      ...ofValues(qkv.slice(2 * keys), head),
      ...ofValues(z, head),
    ])
    tensors.set(`${layer}in_proj_qkvz.weight`, whole(qkvz, columns))
    const ba = heads.flatMap((head) => [...ofHeads(b, head), ...ofHeads(a, head)])
    tensors.set(`${layer}in_proj_ba.weight`, whole(ba, columns))
  }
}

const experts = { num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 40 }

test.each([
  ["qwen3_5_moe_text", { ...experts, shared_expert_intermediate_size: 40 }, withExperts],
  [
    "qwen3_5_moe_text",
    { ...experts, shared_expert_intermediate_size: 40 },
    (tensors: Tensors) => {
      withExperts(tensors)
      oneByOne(tensors)
    },
  ],
  ["qwen3_next", { ...experts, mlp_only_layers: [0, 1, 2, 3] }, byKeyHead],
  [
    "qwen3_next",
    { ...experts, shared_expert_intermediate_size: 40 },
    (tensors: Tensors) => {
      byKeyHead(tensors)
      withExperts(tensors)
      oneByOne(tensors)
    },
  ],
] as const)("%s", async (model_type, fields, repack) => {
  const golden = goldenFolder("models", "qwen3-5")
  const tensors = read(join(golden, "model.safetensors"))
  repack(tensors)
  const folder = folderOf(golden, { ...fields, model_type }, tensors)
  const prompts = readGolden(golden)
  const { architecture, logits } = await run(folder, prompts)
  expect(architecture).toBe(model_type)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

/** Experts of each layer in one tensor, maybe turned around. */
function stacked(tensors: Tensors, { turned = false } = {}): void {
  const layers = [...tensors.keys()].flatMap((name) => /^(.+)\.0\.gate_proj/.exec(name)?.[1] ?? [])
  for (const experts of layers) {
    const matrices = (name: string) =>
      Array.from({ length: 8 }, (_, expert) => {
        const key = `${experts}.${expert}.${name}_proj.weight`
        const { rows } = tensors.get(key)!
        tensors.delete(key)
        return rows
      })
    const stack = (all: Buffer[][]): Tensor => {
      const [count, columns] = [all[0]!.length, all[0]![0]!.length / 2]
      if (!turned) return { shape: [all.length, count, columns], rows: all.flat() }
      const byColumns = all.flatMap((rows) =>
        Array.from({ length: columns }, (_, k) =>
          Buffer.concat(rows.map((row) => row.subarray(2 * k, 2 * k + 2))),
        ),
      )
      return { shape: [all.length, columns, count], rows: byColumns }
    }
    const [gate, up, down] = ["gate", "up", "down"].map(matrices) as [
      Buffer[][],
      Buffer[][],
      Buffer[][],
    ]
    const both = gate.map((rows, expert) => [...rows, ...up[expert]!])
    tensors.set(`${experts}.gate_up_proj`, stack(both))
    tensors.set(`${experts}.down_proj`, stack(down))
  }
}

/** One tensor of several that lie one behind the other, and a stack of such. */
const stackOf = (matrices: readonly Tensor[]): Tensor => ({
  shape: [matrices.length, ...matrices[0]!.shape],
  rows: matrices.flatMap(({ rows }) => rows),
})

/** As MLX's converter keeps them: sanitize of the models of mlx-lm. */
function asMlx(tensors: Tensors, { model_type, ...config }: Json): void {
  const take = (name: string) => {
    const tensor = tensors.get(name)!
    tensors.delete(name)
    return tensor
  }
  const stacks = new Map<string, Tensor[]>()
  const projections: Record<string, string> = { w1: "gate_proj", w3: "up_proj", w2: "down_proj" }
  for (const name of [...tensors.keys()]) {
    const [, place, projection] = /^(.+)\.experts\.\d+\.(\w+)\.weight$/.exec(name) ?? []
    const [, dense, of] = /^(.+\.feed_forward)\.(w\d)\.weight$/.exec(name) ?? []
    if (place !== undefined) {
      const key = `${place}.switch_mlp.${projections[projection!] ?? projection}.weight`
      stacks.set(key, [...(stacks.get(key) ?? []), take(name)])
    } else if (dense !== undefined && model_type === "lfm2_moe") {
      tensors.set(`${dense}.${projections[of!]}.weight`, take(name))
    } else if (name.endsWith("moe.input_linear.weight")) {
      const stacked = take(name)
      const [count, both, columns] = stacked.shape as [number, number, number]
      const half = both / 2
      const bytes = Buffer.concat(stacked.rows)
      const rows = Array.from({ length: count * both }, (_, row) =>
        bytes.subarray(2 * row * columns, 2 * (row + 1) * columns),
      )
      for (const [i, projection] of ["gate_proj", "up_proj"].entries()) {
        const own = Array.from({ length: count }, (_, expert) =>
          whole(rows.slice(expert * both + i * half, expert * both + (i + 1) * half), columns),
        )
        const stem = name.replace("input_linear", `switch_mlp.${projection}`)
        tensors.set(stem, stackOf(own))
      }
    } else if (name.endsWith("mlp.gate.weight") && model_type === "laguna") {
      tensors.set(name.replace("gate.weight", "gate.proj.weight"), take(name))
    } else if (name.endsWith("experts.e_score_correction_bias")) {
      tensors.set(name.replace("experts", "gate"), take(name))
    } else if (/act_fn\.alpha_[np]$/.test(name)) {
      tensors.set(name, { ...take(name), shape: [] })
    } else if (name.endsWith("moe.output_linear.weight")) {
      tensors.set(name.replace("output_linear", "switch_mlp.down_proj"), take(name))
    } else if (/conv1?d?\.weight$/.test(name)) {
      const { shape, rows } = tensors.get(name)!
      tensors.set(name, { shape: [shape[0]!, shape[2]!, 1], rows })
    } else if (name.endsWith("kv_b_proj.weight")) {
      const [heads, straight, values] = [
        config.num_attention_heads,
        config.qk_nope_head_dim,
        config.v_head_dim,
      ] as [number, number, number]
      const { rows, shape } = take(name)
      const each = straight + values
      const ofHead = (from: number, count: number) => (_: unknown, head: number) =>
        whole(rows.slice(head * each + from, head * each + from + count), shape[1]!)
      const perHead = { length: heads }
      const keys = Array.from(perHead, ofHead(0, straight)).map((head) => turned(head))
      const stem = name.replace("kv_b_proj.weight", "")
      tensors.set(`${stem}embed_q.weight`, stackOf(keys))
      tensors.set(
        `${stem}unembed_out.weight`,
        stackOf(Array.from(perHead, ofHead(straight, values))),
      )
    } else if (/norm\.weight$/.test(name) && !name.includes("linear_attn")) {
      if (!String(model_type).startsWith("qwen3_5")) continue
      const { shape, rows } = take(name)
      const more = Buffer.concat(rows)
      const floats = Float32Array.from({ length: more.length / 2 }, (_, i) => floatOf(more, i) + 1)
      tensors.set(name, { dtype: "F32", shape, rows: [Buffer.from(floats.buffer)] })
    }
  }
  for (const [name, matrices] of stacks) tensors.set(name, stackOf(matrices))
}

function turned({ shape, rows }: Tensor): Tensor {
  const columns = shape[1]!
  const at = (k: number) => Buffer.concat(rows.map((row) => row.subarray(2 * k, 2 * k + 2)))
  return whole(
    Array.from({ length: columns }, (_, k) => at(k)),
    rows.length,
  )
}

test.each([
  ["qwen3-moe"],
  ["mixtral"],
  ["lfm2-moe"],
  ["granitemoe"],
  ["granite-hybrid"],
  ["deepseek-v3"],
  ["lfm2"],
  ["qwen3-5"],
  ["laguna"],
  ["apertus"],
])("%s as MLX keeps it", async (name) => {
  const golden = goldenFolder("models", name)
  const tensors = read(join(golden, "model.safetensors"))
  const before = [...tensors.keys()].join() + [...tensors.values()].map(({ shape }) => shape)
  asMlx(tensors, JSON.parse(readFileSync(join(golden, "config.json"), "utf8")))
  expect([...tensors.keys()].join() + [...tensors.values()].map(({ shape }) => shape)).not.toBe(
    before,
  )
  const prompts = readGolden(golden).filter(({ tokens }) => tokens.length <= limits.tokens)
  const { logits } = await run(folderOf(golden, {}, tensors), prompts)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-3)
})

test("what MLX's converter multiplies into weights is refused", async () => {
  const golden = goldenFolder("models", "falcon-h1")
  const tensors = read(join(golden, "model.safetensors"))
  asMlx(tensors, { model_type: "falcon_h1" })
  await expect(openModel(folderOf(golden, {}, tensors))).rejects.toThrow(
    /tensor model\.layers\.0\.mamba\.conv1d\.weight has shape \[80, 4, 1\]/,
  )
})

const renamed = (name: (old: string) => string) => (tensors: Tensors) => {
  for (const [old, tensor] of [...tensors]) {
    tensors.delete(old)
    tensors.set(name(old), tensor)
  }
}
const inside = (model_type: string) => (config: Json) => ({
  text_config: { ...config, model_type },
})
const older = renamed((name) => `language_model.${name}`)
const newer = renamed((name) => name.replace(/^model\./, "model.language_model."))
const beside = renamed((name) => name.replace(/^model\./, "model.text_model."))

// As folders are published: https://huggingface.co/mistralai/Mistral-Small-3.1-24B-Instruct-2503, Ministral-3-3B-Instruct-2512,
// Qwen/Qwen2-VL-2B-Instruct, Qwen3-VL-4B-Instruct, Qwen3-VL-30B-A3B-Instruct; and as later versions of transformers save them. The
// others as transformers 5.24 saves them, or renames what earlier ones did (conversion_mapping.py).
test.each<[string, string, (config: Json) => object, (tensors: Tensors) => void]>([
  ["aya_vision", "cohere2", inside("cohere2"), older],
  ["cohere2_vision", "cohere2", inside("cohere2"), newer],
  ["glm4v", "glm4", inside("glm4v_text"), newer],
  ["glm4v_moe", "glm4-moe", inside("glm4v_moe_text"), newer],
  ["granite_speech", "granite", inside("granite"), older],
  ["idefics3", "llama-tied", inside("llama"), beside],
  ["internvl", "qwen3", inside("qwen3"), newer],
  ["internvl", "qwen2", inside("qwen2"), older],
  ["internvl", "qwen3-moe", inside("qwen3_moe"), newer],
  ["internvl", "gpt-oss-bf16", inside("gpt_oss"), newer],
  ["lfm2_vl", "lfm2", inside("lfm2"), newer],
  ["llava", "llama-tied", inside("llama"), older],
  ["llava_next", "mistral-swa", inside("mistral"), older],
  ["llava_onevision", "qwen2", inside("qwen2"), newer],
  ["smolvlm", "llama-tied", inside("llama"), beside],
  ["mistral3", "mistral-swa", inside("mistral"), older],
  ["mistral3", "ministral3", inside("ministral3"), older],
  ["mistral3", "ministral3", inside("ministral3"), newer],
  [
    "qwen2_vl",
    "qwen2",
    (config) => ({ ...config, rope_scaling: { type: "mrope", mrope_section: [2, 3, 3] } }),
    () => {},
  ],
  ["qwen2_5_vl", "qwen2", inside("qwen2_5_vl_text"), newer],
  ["qwen3_vl", "qwen3", inside("qwen3_vl_text"), newer],
  [
    "qwen3_vl_moe",
    "qwen3-moe",
    (config) => inside("qwen3_vl_moe_text")({ ...config, norm_topk_prob: undefined }),
    (tensors) => {
      stacked(tensors, { turned: true })
      newer(tensors)
    },
  ],
  [
    "qwen3_vl_moe",
    "qwen3-moe",
    (config) => inside("qwen3_vl_moe_text")({ ...config, norm_topk_prob: undefined }),
    (tensors) => {
      stacked(tensors)
      newer(tensors)
    },
  ],
])("%s is the text model that is inside of it, %s", async (model_type, name, wrap, rename) => {
  const golden = goldenFolder("models", name)
  const tensors = read(join(golden, "model.safetensors"))
  rename(tensors)
  tensors.set("model.visual.blocks.0.attn.qkv.weight", whole([Buffer.alloc(8)], 4))
  const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
  const vision_config = { hidden_size: 4, model_type }
  const folder = folderOf(golden, {}, tensors)
  const wrapped = { ...wrap(config), model_type, vision_config }
  writeFileSync(join(folder, "config.json"), JSON.stringify(wrapped))
  const prompts = readGolden(golden).filter(({ tokens }) => tokens.length <= limits.tokens)
  const { architecture, logits } = await run(folder, prompts)
  expect(architecture).toBe(config.model_type)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

test("Seed OSS is llama with biases on queries, keys and values, as Qwen 2 has them", async () => {
  const golden = goldenFolder("models", "qwen2")
  const { head_dim, hidden_size, num_attention_heads } = JSON.parse(
    readFileSync(join(golden, "config.json"), "utf8"),
  )
  const own = { model_type: "seed_oss", head_dim: head_dim ?? hidden_size / num_attention_heads }
  const folder = folderOf(golden, own, read(join(golden, "model.safetensors")))
  const prompts = readGolden(golden).filter(({ tokens }) => tokens.length <= limits.tokens)
  const { architecture, logits } = await run(folder, prompts)
  expect(architecture).toBe("seed_oss")
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

test("Gemma 4's heads layer by layer, as transformers 5 saves them", async () => {
  const golden = goldenFolder("models", "gemma4-experts")
  const folder = folderOf(golden, {}, read(join(golden, "model.safetensors")))
  const { global_head_dim, num_global_key_value_heads, ...config } = JSON.parse(
    readFileSync(join(golden, "config.json"), "utf8"),
  )
  const own = { head_dim: global_head_dim, num_key_value_heads: num_global_key_value_heads }
  const full = (config.layer_types as string[]).flatMap((type, layer) =>
    type === "full_attention" ? [[`0${layer}`, own]] : [],
  )
  const per_layer_config = Object.fromEntries(full)
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, per_layer_config }))
  const prompts = readGolden(golden)
  const { logits } = await run(folder, prompts)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

test("StarCoder with a head of keys for each of queries, whose three lie side by side", async () => {
  const golden = goldenFolder("models", "gpt-bigcode")
  const tensors = read(join(golden, "model.safetensors"))
  const [heads, each] = [4, 10]
  for (const [name, { shape, rows }] of tensors) {
    if (!name.includes("attn.c_attn")) continue
    const ofHead = (head: number) => rows.slice(head * each, (head + 1) * each)
    const [keys, values] = [ofHead(heads), ofHead(heads + 1)]
    const all = [0, 1, 2, 3].flatMap((head) => [...ofHead(head), ...keys, ...values])
    tensors.set(name, { shape: [all.length, ...shape.slice(1)], rows: all })
  }
  const prompts = readGolden(golden).filter(({ tokens }) => tokens.length <= limits.tokens)
  const { logits } = await run(folderOf(golden, { multi_query: false }, tensors), prompts)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

test("Gemma 3n inside of what sees and hears, whose embedding has rows that are no tokens of text", async () => {
  const golden = goldenFolder("models", "gemma3n")
  const tensors = read(join(golden, "model.safetensors"))
  const table = tensors.get("model.embed_tokens.weight")!
  const behind = table.rows.slice(7, 15)
  tensors.set("model.embed_tokens.weight", whole([...table.rows, ...behind], table.shape[1]!))
  for (const [name, tensor] of [...tensors]) {
    tensors.delete(name)
    tensors.set(name.replace("model.", "model.language_model."), tensor)
  }
  const folder = folderOf(golden, {}, tensors)
  const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
  const text_config = { ...config, vocab_size: 328 }
  writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type: "gemma3n", text_config }))
  const prompts = readGolden(golden)
  const { logits } = await run(folder, prompts)
  for (const [i, prompt] of prompts.entries())
    expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
})

// As tie_weights of modeling_utils.py in transformers 5, which writes the first for Qwen 3 VL's mixtures.
test.each<[string, (config: Json) => object, (tensors: Tensors) => void]>([
  [
    "inside of one that sees",
    (config) => ({
      model_type: "mistral3",
      text_config: { ...config, tie_word_embeddings: true },
      tie_word_embeddings: false,
    }),
    older,
  ],
  ["alone", (config) => ({ ...config, tie_word_embeddings: true }), () => {}],
])(
  "a stored head that differs from the embedding is the head, whatever the configuration says: %s",
  async (_, wrap, rename) => {
    const golden = goldenFolder("models", "mistral-swa")
    const tensors = read(join(golden, "model.safetensors"))
    rename(tensors)
    const folder = folderOf(golden, {}, tensors)
    const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
    writeFileSync(join(folder, "config.json"), JSON.stringify(wrap(config)))
    const prompts = readGolden(golden).filter(({ tokens }) => tokens.length <= limits.tokens)
    const { logits } = await run(folder, prompts)
    for (const [i, prompt] of prompts.entries())
      expect(worstDifference(logits[i]!, prompt.logits)).toBeLessThan(1e-4)
  },
)

// As the configurations of transformers 5 (models/*/configuration_*.py): what stands outside holds, which for some is true where
// nothing does, and what stands inside of Qwen 2's, where it was written before.
test.each<[string, string, boolean | undefined, boolean | undefined, boolean]>([
  ["mistral3", "mistral-swa", undefined, undefined, true],
  ["mistral3", "mistral-swa", undefined, false, true],
  ["mistral3", "mistral-swa", true, false, true],
  ["mistral3", "mistral-swa", false, undefined, false],
  ["mistral3", "mistral-swa", false, false, false],
  ["gemma3", "gemma3", undefined, false, true],
  ["gemma3", "gemma3", true, false, true],
  ["gemma4", "gemma4-experts", undefined, false, true],
  ["qwen2_vl", "qwen2", false, true, true],
  ["qwen2_5_vl", "qwen2", undefined, true, true],
  ["qwen2_5_vl", "qwen2", undefined, undefined, false],
  ["qwen3_vl", "qwen3", true, false, true],
  ["qwen3_vl", "qwen3", undefined, undefined, false],
  ["qwen3_vl_moe", "qwen3-moe", true, undefined, true],
])(
  "whether the head of %s (%s) is its embedding: %s outside, %s inside",
  async (model_type, name, outside, inside, tied) => {
    const golden = goldenFolder("models", name)
    const tensors = read(join(golden, "model.safetensors"))
    const head = tensors.get("lm_head.weight") ?? tensors.get("model.embed_tokens.weight")!
    if (tied) tensors.delete("lm_head.weight")
    else tensors.set("lm_head.weight", head)
    const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
    const text_config = { ...config, tie_word_embeddings: inside }
    const wrapped = { model_type, text_config, tie_word_embeddings: outside }
    const folder = folderOf(golden, {}, tensors)
    writeFileSync(join(folder, "config.json"), JSON.stringify(wrapped))
    const model = await openModel(folder)
    expect(model.config.head.tied).toBe(tied)
    await model.close()
  },
)

test("a stored head that is the embedding once more is not kept twice", async () => {
  const golden = goldenFolder("models", "llama-tied")
  const tensors = read(join(golden, "model.safetensors"))
  tensors.set("lm_head.weight", tensors.get("model.embed_tokens.weight")!)
  const model = await openModel(folderOf(golden, {}, tensors))
  expect(model.config.head.tied).toBe(true)
  await model.close()
})

test("a text model that is not known inside of one that sees is refused by name", async () => {
  const golden = goldenFolder("models", "ministral3")
  const changes = { model_type: "mistral3", text_config: { model_type: "mistral5" } }
  const folder = folderOf(golden, changes, read(join(golden, "model.safetensors")))
  await expect(openModel(folder)).rejects.toThrow(
    'text_config.model_type is "mistral5"; known: mistral, ministral3',
  )
})

const floatOf = (bits: Buffer, i: number) => {
  const wide = Buffer.alloc(4)
  bits.copy(wide, 2, 2 * i, 2 * i + 2)
  return wide.readFloatLE()
}

/** What is above in bfloat16, which holds it exactly. */
const upperHalf = (value: number) => {
  const wide = Buffer.alloc(4)
  wide.writeFloatLE(value)
  return wide.subarray(2)
}

/** A golden model whose heads' keys and values are made by floats of 8 bits in blocks, and by the floats that they stand for. */
function latentInFloats8() {
  const golden = goldenFolder("models", "deepseek-v3")
  const [packed, floats] = [0, 0].map(() => read(join(golden, "model.safetensors"))) as [
    Tensors,
    Tensors,
  ]
  const tall = 8 // the heads' 12 rows of keys and 10 of values lie across the blocks
  for (const name of [...packed.keys()].filter((name) => name.includes("kv_b_proj"))) {
    const { shape, rows } = packed.get(name)!
    const scaleOf = (row: number) => 2 ** ((Math.floor(row / tall) % 3) - 6)
    const codes = rows.map((row, r) =>
      Buffer.from(Array.from({ length: shape[1]! }, (_, k) => code(floatOf(row, k) / scaleOf(r)))),
    )
    packed.set(name, { dtype: "F8_E4M3", shape, rows: codes })
    const scales = Array.from({ length: Math.ceil(rows.length / tall) }, (_, block) =>
      upperHalf(scaleOf(block * tall)),
    )
    packed.set(`${name}_scale_inv`, whole(scales, 1))
    const values = codes.map((row, r) =>
      Buffer.concat([...row].map((byte) => upperHalf(float8Values[byte]! * scaleOf(r)))),
    )
    floats.set(name, { shape, rows: values })
  }
  const quantization_config = { quant_method: "fp8", weight_block_size: [tall, 128] }
  return {
    prompts: readGolden(golden),
    packed: folderOf(golden, { quantization_config }, packed),
    floats: folderOf(golden, {}, floats),
  }
}

test("latent attention by floats of 8 bits in blocks computes what those stand for", async () => {
  const { prompts, packed, floats } = latentInFloats8()
  const [ours, wanted] = [await run(packed, prompts), await run(floats, prompts)]
  expect(ours.logits).toEqual(wanted.logits)
})

const compiler = await findCompiler()
test.skipIf(!compiler)(
  `compiled kernels compute the same of latent attention by floats of 8 bits${compiler ? "" : ": no C compiler on this machine"}`,
  async () => {
    const { prompts, packed } = latentInFloats8()
    const model = await openModel(packed)
    const plan = planOf(model, model.format, {}, traitsOf("cpu"))
    const { path } = await shelvedCpu(plan, "cpu")
    const { tokens, firstRow } = prompts.at(-1)!
    const logits: Float32Array[] = []
    for (const program of [
      openReference(plan, limitsFor(plan, limits), arithmeticHere),
      await openLibrary(path, limitsFor(plan, limits)),
    ]) {
      await loadParameters(model.weights, program.manifest, program)
      logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
      await program.close()
    }
    await model.close()
    expect(logits[1]).toEqual(logits[0])
  },
  240_000,
)

/** The code of the float of 8 bits that is nearest. */
function code(value: number): number {
  let best = 0
  for (let byte = 0; byte < 256; byte++)
    if (Math.abs(float8Values[byte]! - value) < Math.abs(float8Values[best]! - value)) best = byte
  return best
}

/** The golden's texts, and its configuration changed, with these tensors. */
function folderOf(golden: string, changes: object, tensors: Tensors): string {
  const folder = mkdtempSync(join(scratch, "model-"))
  for (const name of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(golden, name), join(folder, name))
  const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, ...changes }))
  write(join(folder, "model.safetensors"), tensors)
  return folder
}

/** By the reference: logits of each prompt's last rows. */
async function run(folder: string, prompts: readonly GoldenPrompt[]) {
  const model = await openModel(folder)
  const { architecture, graph, format, codecOf } = model
  const options = { format, activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...(codecOf && { codecOf }) })
  const program = openReference(plan, limitsFor(plan, limits))
  await loadParameters(model.weights, program.manifest, program)
  await model.close()
  const logits: Float32Array[] = []
  for (const { tokens, firstRow } of prompts)
    logits.push(await prefill(program, tokens, blocksFor(tokens.length), { firstRow }))
  await program.close()
  return { architecture, logits }
}
