// Nomic's BERT, which reads a text both ways: heads that are turned instead of learned positions, a gated MLP, no biases but the
// norms'. Embed Text 2 has biases everywhere and an MLP without a gate, and in every other layer experts, whose weights are not
// normalised, and a learned row beside what they make. As it was first published its fields have GPT-2's names, and others that
// transformers' own do not have; newer saves have BERT's. Sources: modeling_hf_nomic_bert.py beside nomic-ai/nomic-embed-text-v1.5;
// bert_with_rope.py of vLLM.

import { type Block, withAttention, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { flatExperts, joinedRows, type Naming, withParts } from "../weights/names.ts"
import { asEncoder } from "./encoder.ts"
import { readRouting } from "./experts.ts"

/** What would change the mathematics, and the one value that is known. */
const known = {
  prenorm: false,
  causal: false,
  parallel_block: false,
  use_rms_norm: false,
  rotary_emb_interleaved: false,
  rotary_emb_fraction: 1,
} as const
const ofDense = {
  activation_function: "swiglu",
  qkv_proj_bias: false,
  mlp_fc1_bias: false,
  mlp_fc2_bias: false,
} as const
const ofMixtures = {
  activation_function: "gelu",
  qkv_proj_bias: true,
  mlp_fc1_bias: true,
  mlp_fc2_bias: true,
  moe_normalize_expert_weights: false,
  expert_choice_router: false,
  num_shared_experts: 0,
} as const

const older: Differences = {
  names: {
    hidden: "n_embd",
    layers: "n_layer",
    heads: "n_head",
    context: "n_positions",
    intermediate: "n_inner",
  },
  epsilon: "layer_norm_epsilon",
  rotation: { theta: 1000, thetaField: "rotary_emb_base" },
}
const newer: Differences = { epsilon: "layer_norm_eps", rotation: { theta: 1000 } }

export function readNomicBert(fields: Fields): ModelConfig {
  const every = fields.count("moe_every_n_layers", 0, 0)
  const values = { ...known, ...(every > 0 ? ofMixtures : ofDense) }
  for (const [name, value] of Object.entries(values))
    if (fields.has(name) && fields.json[name] !== value)
      throw fields.wrong(name, `is ${JSON.stringify(fields.json[name])}; only ${value} is known`)
  if (fields.has("rotary_scaling_factor"))
    throw fields.wrong("rotary_scaling_factor", "is given; only null is known")
  const config = readDecoder(fields, {
    ...(fields.has("n_embd") ? older : newer),
    norm: { kind: "layer", bias: true },
  })
  return asEncoder(config, every > 0 ? withMixtures(fields, every) : undefined)
}

/** Experts in the second of so many layers, and in each so many behind it. */
function withMixtures(fields: Fields, every: number): (block: Block, layer: number) => Block {
  const names = { count: "num_experts", active: "moe_top_k" }
  const experts = {
    ...readRouting(fields, names, { normalized: false }),
    chosenByBias: false,
    shared: undefined,
    addend: true,
  } as const
  return (block, layer) => {
    const biased = withAttention(block, { bias: { qkv: true, o: true } })
    const plain = withMlp(biased, { gated: false, activation: "gelu", bias: true })
    return layer % every === 1 ? { ...plain, experts } : plain
  }
}

export function nomicBertNaming({ shapes: { hidden }, blocks }: ModelConfig): Naming {
  const { q, k, v } = joinedRows({ q: hidden, k: hidden, v: hidden })
  const naming: Naming = {
    roots: [{ root: "", head: "" }],
    layers: "encoder.layers.",
    parts: {
      embed_tokens: {
        name: "embeddings.word_embeddings",
        plusRow: { tensor: "embeddings.token_type_embeddings", row: 0 },
      },
      embed_norm: "emb_ln",
      "self_attn.q_proj": { name: "attn.Wqkv", rows: q },
      "self_attn.k_proj": { name: "attn.Wqkv", rows: k },
      "self_attn.v_proj": { name: "attn.Wqkv", rows: v },
      "self_attn.o_proj": "attn.out_proj",
      "attention.sum_norm": "norm1",
      "mlp.gate_proj": "mlp.fc12",
      "mlp.up_proj": "mlp.fc11",
      "mlp.down_proj": "mlp.fc2",
      "mlp.sum_norm": "norm2",
    },
  }
  const block = blocks.find(({ experts }) => experts)
  if (!block) return naming
  const sizes = { ...block.mlp, count: block.experts!.count, hidden }
  return withParts(naming, {
    "mlp.up_proj": "mlp.fc1",
    "mlp.gate": "mlp.router.layer",
    ...flatExperts(sizes, { up: "mlp.experts.mlp.w1", down: "mlp.experts.mlp.w2" }),
    ...addendParts({ name: "mlp.experts.bias", bare: true }),
  })
}

/** The row beside what experts make. */
export const addendParts = (row: Naming["parts"][string]): Naming["parts"] => ({
  "mlp.experts_row": row,
  "mlp.experts_zeros": { name: "mlp.experts_zeros", constant: 0 },
})
