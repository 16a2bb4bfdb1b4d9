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
  })
}

export function writeMedusa(
  folder: string,
  { hidden = 256, vocabulary = 2560, heads = 3 }: HeadShape = {},
) {
  const shapes: Record<string, number[]> = {}
  for (let i = 0; i < heads; i++) {
    shapes[`${i}.0.linear.weight`] = [hidden, hidden]
    shapes[`${i}.0.linear.bias`] = [hidden]
    shapes[`${i}.1.weight`] = [vocabulary, hidden]
  }
  write(folder, { medusa_num_heads: heads, medusa_num_layers: 1 }, shapes)
}

function write(folder: string, config: object, shapes: Record<string, number[]>): void {
  const header: Record<string, object> = {}
  let end = 0
  for (const [name, shape] of Object.entries(shapes)) {
    const bytes = 4 * shape.reduce((product, n) => product * n, 1)
    header[name] = { dtype: "F32", shape, data_offsets: [end, end + bytes] }
    end += bytes
  }
  const json = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeUInt32LE(json.length)
  let state = 7
  const values = Float32Array.from({ length: end / 4 }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 2 ** 33
  })
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  writeFileSync(
    join(folder, "model.safetensors"),
    Buffer.concat([length, json, Buffer.from(values.buffer)]),
  )
}
