// Heads with random weights, as folders in the layouts in which they are published. They are never right, which is what
// tests of text need: whatever a draft says, the text stays the same.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface HeadShape {
  hidden?: number
  vocabulary?: number
  /** Of EAGLE's attention. */
  headDim?: number
  /** Of Medusa. */
  heads?: number
}

export function writeEagle(
  folder: string,
  { hidden = 256, vocabulary = 2560, headDim = 32 }: HeadShape = {},
  more: Record<string, number[]> = {},
) {
  const kv = 2 * headDim
  const config = {
    model_type: "llama",
    architectures: ["LlamaForCausalLM"],
    hidden_size: hidden,
    intermediate_size: 96,
    num_hidden_layers: 1,
    num_attention_heads: hidden / headDim,
    num_key_value_heads: 2,
    head_dim: headDim,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    vocab_size: vocabulary,
  }
  write(folder, config, {
    "embed_tokens.weight": [vocabulary, hidden],
    "fc.weight": [hidden, 2 * hidden],
    "fc.bias": [hidden],
    "layers.0.self_attn.q_proj.weight": [hidden, hidden],
    "layers.0.self_attn.k_proj.weight": [kv, hidden],
    "layers.0.self_attn.v_proj.weight": [kv, hidden],
    "layers.0.self_attn.o_proj.weight": [hidden, hidden],
    "layers.0.mlp.gate_proj.weight": [96, hidden],
    "layers.0.mlp.up_proj.weight": [96, hidden],
    "layers.0.mlp.down_proj.weight": [hidden, 96],
    "layers.0.post_attention_layernorm.weight": [hidden],
    ...more,
  })
}

/** With a vocabulary of its own: every third token of the model's. */
export function writeEagle3(
  folder: string,
  { hidden = 256, vocabulary = 2560, headDim = 32 }: HeadShape = {},
  more: Record<string, number[]> = {},
) {
  const [kv, own, known] = [2 * headDim, 128, Math.floor(vocabulary / 3)]
  const config = {
    model_type: "llama",
    architectures: ["LlamaForCausalLMEagle3"],
    hidden_size: own,
    target_hidden_size: hidden,
    intermediate_size: 96,
    num_hidden_layers: 1,
    num_attention_heads: own / headDim,
    num_key_value_heads: 2,
    head_dim: headDim,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    vocab_size: vocabulary,
    draft_vocab_size: known,
  }
  const offsets = BigInt64Array.from({ length: known }, (_, i) => BigInt(2 * i))
  const shapes = {
    "embed_tokens.weight": [vocabulary, own],
    "fc.weight": [own, 3 * hidden],
    "midlayer.hidden_norm.weight": [own],
    "midlayer.input_layernorm.weight": [own],
    "midlayer.self_attn.q_proj.weight": [own, 2 * own],
    "midlayer.self_attn.k_proj.weight": [kv, 2 * own],
    "midlayer.self_attn.v_proj.weight": [kv, 2 * own],
    "midlayer.self_attn.o_proj.weight": [own, own],
    "midlayer.post_attention_layernorm.weight": [own],
    "midlayer.mlp.gate_proj.weight": [96, own],
    "midlayer.mlp.up_proj.weight": [96, own],
    "midlayer.mlp.down_proj.weight": [own, 96],
    "norm.weight": [own],
    "lm_head.weight": [known, own],
    ...more,
  }
  write(folder, config, shapes, { d2t: offsets })
}

export function writeMedusa(
  folder: string,
  { hidden = 256, vocabulary = 2560, heads = 3 }: HeadShape = {},
  more: Record<string, number[]> = {},
) {
  const shapes: Record<string, number[]> = { ...more }
  for (let i = 0; i < heads; i++) {
    shapes[`${i}.0.linear.weight`] = [hidden, hidden]
    shapes[`${i}.0.linear.bias`] = [hidden]
    shapes[`${i}.1.weight`] = [vocabulary, hidden]
  }
  write(folder, { medusa_num_heads: heads, medusa_num_layers: 1 }, shapes)
}

function write(
  folder: string,
  config: object,
  shapes: Record<string, number[]>,
  lists: Record<string, BigInt64Array> = {},
): void {
  const header: Record<string, object> = {}
  let end = 0
  const add = (name: string, dtype: string, shape: number[], bytes: number) => {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes] }
    end += bytes
  }
  for (const [name, shape] of Object.entries(shapes))
    add(name, "F32", shape, 4 * shape.reduce((product, n) => product * n, 1))
  const floats = end / 4
  for (const [name, { length, byteLength }] of Object.entries(lists))
    add(name, "I64", [length], byteLength)
  const json = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeUInt32LE(json.length)
  let state = 7
  const values = Float32Array.from({ length: floats }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 2 ** 33
  })
  const data = [values, ...Object.values(lists)].map(({ buffer }) => Buffer.from(buffer))
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  writeFileSync(join(folder, "model.safetensors"), Buffer.concat([length, json, ...data]))
}
