// GPT-J: attention and an ungated MLP side by side behind one LayerNorm, biases on the MLP and on the head; neighbours of a part of each
// head are turned with each other. CodeGen is the same with queries, values and keys in one tensor, in four parts as it was trained on
// four devices. Sources: modeling_gptj.py and modeling_codegen.py of transformers.

import { NORMS, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, withParts } from "../weights/names.ts"
import { neighboursOf } from "./glm4.ts"

export function readGptj(fields: Fields): ModelConfig {
  const [hidden, heads] = [fields.count("n_embd"), fields.count("n_head")]
  const headDim = hidden / heads
  const turned = fields.count("rotary_dim", headDim)
  if (turned > headDim || turned % 2 !== 0)
    throw fields.wrong("rotary_dim", `is ${turned}, not pairs of a head's ${headDim} columns`)
  const config = readDecoder(fields, {
    names: {
      hidden: "n_embd",
      layers: "n_layer",
      heads: "n_head",
      context: "n_positions",
      intermediate: "n_inner",
    },
    absent: { epsilon: 1e-5, intermediate: 4 * hidden },
    epsilon: "layer_norm_epsilon",
    norm: { kind: "layer", bias: true },
    activation: { field: "activation_function", otherwise: "gelu_new" },
    rotation: { part: turned / headDim },
  })
  return {
    ...withBlocks(config, (block) => ({
      ...withMlp(block, { gated: false, bias: true }),
      norms: NORMS.shared,
      parallel: true,
    })),
    head: { ...config.head, bias: true },
  }
}

export function gptjNaming(config: ModelConfig): Naming {
  const neighbours = neighboursOf(config)
  return {
    roots: [{ root: "transformer.", head: "" }],
    layers: "h.",
    parts: {
      embed_tokens: "wte",
      norm: "ln_f",
      input_layernorm: "ln_1",
      "self_attn.q_proj": { name: "attn.q_proj", neighbours },
      "self_attn.k_proj": { name: "attn.k_proj", neighbours },
      "self_attn.v_proj": "attn.v_proj",
      "self_attn.o_proj": "attn.out_proj",
      "mlp.up_proj": "mlp.fc_in",
      "mlp.down_proj": "mlp.fc_out",
    },
  }
}

const SHARDS = 4

export function readCodegen(given: Fields): ModelConfig {
  const { rotary_dim = 64 } = given.json
  const fields = given.with({ rotary_dim })
  const config = readGptj(fields)
  const { heads } = config.shapes
  if (heads % SHARDS !== 0) throw fields.wrong("n_head", `is ${heads}, not a multiple of ${SHARDS}`)
  return config
}

export function codegenNaming(config: ModelConfig): Naming {
  const neighbours = neighboursOf(config)
  const { hidden } = config.shapes
  const run = hidden / SHARDS
  const rows = (third: number) => ({ of: 3 * hidden, from: third * run, run, every: 3 * run })
  const name = "attn.qkv_proj"
  return withParts(gptjNaming(config), {
    "self_attn.q_proj": { name, rows: rows(0), neighbours },
    "self_attn.v_proj": { name, rows: rows(1) },
    "self_attn.k_proj": { name, rows: rows(2), neighbours },
  })
}
