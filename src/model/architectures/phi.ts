// Phi-3, 3.5 and 4: llama with queries, keys and values in one tensor, gate and up in another. Phi 1 to 2: attention and an
// ungated MLP side by side behind one LayerNorm, biases everywhere. Both may turn a part of each head only.
// Phi 3.5 MoE: Mixtral with LayerNorms and biases, whose two experts are weighed one by one, each among those that come near it.
// Sources: modeling_phi3.py, modeling_phi.py and modeling_phimoe.py of transformers.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readRouting } from "./experts.ts"
import { withWindow } from "./mistral.ts"

export function readPhi3(fields: Fields): ModelConfig {
  return withWindow(fields, readDecoder(fields, { rotation: { part: 1 } }))
}

export function phi3Naming({ shapes }: ModelConfig): Naming {
  const { heads, kvHeads, headDim, intermediate } = shapes
  const kv = kvHeads * headDim
  const { q, k, v } = joinedRows({ q: heads * headDim, k: kv, v: kv })
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  const qkv = "self_attn.qkv_proj"
  return withParts(llamaNaming, {
    "self_attn.q_proj": { name: qkv, rows: q },
    "self_attn.k_proj": { name: qkv, rows: k },
    "self_attn.v_proj": { name: qkv, rows: v },
    "mlp.gate_proj": { name: "mlp.gate_up_proj", rows: gate },
    "mlp.up_proj": { name: "mlp.gate_up_proj", rows: up },
  })
}

export function readPhi(fields: Fields): ModelConfig {
  if (fields.flag("qk_layernorm", false))
    throw fields.wrong("qk_layernorm", "is true, which is not known of this architecture")
  const config = readDecoder(fields, {
    epsilon: "layer_norm_eps",
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    activation: { otherwise: "gelu_new" },
    rotation: { part: 0.5 },
  })
  return {
    ...withBlocks(config, (block) => ({
      ...withMlp(withAttention(block, { bias: { qkv: true, o: true } }), {
        gated: false,
        bias: true,
      }),
      norms: NORMS.shared,
      parallel: true,
    })),
    head: { ...config.head, bias: true },
  }
}

export const phiNaming: Naming = withParts(llamaNaming, {
  norm: "final_layernorm",
  "self_attn.o_proj": "self_attn.dense",
  "mlp.up_proj": "mlp.fc1",
  "mlp.down_proj": "mlp.fc2",
})

export function readPhimoe(given: Fields): ModelConfig {
  const fields = withGrownTurns(given)
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    norm: { kind: "layer", bias: true },
    rotation: { theta: 1e6 },
  })
  const names = { count: "num_local_experts", active: "num_experts_per_tok" }
  const routed = readRouting(
    fields.with({ num_local_experts: 16, num_experts_per_tok: 2 }),
    names,
    {
      score: "sparsemixer",
      jitter: fields.positive("router_jitter_noise", 0.01),
      normalized: false,
    },
  )
  const { active } = routed.routing
  if (active !== 2)
    throw fields.wrong(names.active, `is ${active}; only 2 is known of this architecture`)
  const biased = fields.flag("attention_bias", false)
  const bias = { qkv: biased, o: biased }
  const experts = { ...routed, chosenByBias: false, shared: undefined }
  return {
    ...withBlocks(withWindow(fields, config), (block) => ({
      ...withAttention(block, { bias }),
      experts,
    })),
    head: { ...config.head, bias: fields.flag("lm_head_bias", false) },
  }
}

/** What cosines and sines are multiplied with is said for either list of divisors, under names of its own. */
function withGrownTurns(fields: Fields): Fields {
  const name = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling"
  const scaling = fields.object(name)
  if (!scaling?.has("long_mscale")) return fields
  const original = "original_max_position_embeddings"
  const isLong =
    fields.count("max_position_embeddings") >
    (scaling.has(original) ? scaling : fields).count(original)
  const attention_factor = scaling.positive(isLong ? "long_mscale" : "short_mscale")
  return fields.over({ [name]: { ...scaling.json, attention_factor } })
}
