// Gemma's rows of architectures.ts, and what their keys say: thetas, caps and windows, which converters write in several ways. Keys:
// llama-arch.cpp of llama.cpp.

import { streamsParts } from "../architectures/gemma3n.ts"
import type { Json } from "../folder.ts"
import { shareBelow } from "../normal.ts"
import type { Naming } from "../weights/names.ts"
import type { GgufArchitecture, GgufFile } from "./config.ts"
import { isByOllama } from "./keys.ts"

const layerInputParts = {
  embed_tokens_per_layer: "per_layer_token_embd",
  per_layer_model_projection: "per_layer_model_proj",
  per_layer_projection_norm: "per_layer_proj_norm",
  per_layer_input_gate: "inp_gate",
  per_layer_projection: "proj",
  post_per_layer_input_norm: "post_norm",
}

export const gemmaArchitectures: Readonly<Record<string, GgufArchitecture>> = {
  gemma: { model: "gemma" },
  gemma2: { model: "gemma2", fields: (file, usual) => gemmaFields(file, usual, 46) },
  gemma3: { model: "gemma3_text", sees: true, fields: gemma3Fields },
  "gemma-embedding": {
    model: "gemma3_text",
    fields: (file, usual) => {
      file.keys.flag(file.key("attention.causal"), false) // its files may leave it out
      return { ...gemma3Fields(file, usual), use_bidirectional_attention: true }
    },
  },
  gemma3n: {
    model: "gemma3n_text",
    varies: true,
    sees: true,
    fields: gemma3nFields,
    parts: (_, { streams, shapes: { hidden } }) => ({
      ...streamsParts,
      ...layerInputParts,
      ...stackedStreams("altup_projections", "altup_proj", streams!.count - 1, hidden),
      ...stackedStreams(
        "altup_unembed_projections",
        "altup_unembd_proj",
        streams!.count - 1,
        hidden,
      ),
      "altup.correct_output_scale": "altup_correct_scale",
      "altup.correction_coefs": "altup_correct_coef",
      "altup.prediction_coefs": "altup_predict_coef",
      "altup.modality_router": "altup_router",
      "altup.router_norm": "altup_router_norm",
      "laurel.linear_left": "laurel_l",
      "laurel.linear_right": "laurel_r",
      "laurel.post_laurel_norm": "laurel_post_norm",
    }),
  },
  gemma4: {
    model: "gemma4_text",
    varies: true,
    sees: true,
    fields: gemma4Fields,
    parts: ({ has }) => ({
      "self_attn.v_norm": { name: "attn_v_norm", constant: 1 },
      ...layerInputParts,
      "router.scale": { name: "ffn_gate_inp.scale", bare: true },
      "router.per_expert_scale": {
        // Ollama's files may have it beside the router.
        name: has("blk.0.ffn_down_exps.scale")
          ? "ffn_down_exps.scale"
          : "ffn_gate_inp.per_expert_scale",
        bare: true,
      },
      pre_feedforward_layernorm_2: "pre_ffw_norm_2",
      post_feedforward_layernorm_1: "post_ffw_norm_1",
      post_feedforward_layernorm_2: "post_ffw_norm_2",
      layer_scalar: "layer_output_scale",
    }),
  },
}

/** Scores are scaled by the width of a head, in the largest model, which only its layers tell, by that of hidden / heads. */
function gemmaFields(
  file: GgufFile,
  { head_dim, hidden_size, num_attention_heads, num_hidden_layers }: Json,
  largest: number,
): Json {
  const cap = (name: string) => {
    const value = file.numberIfThere(name)
    return value === 0 ? null : value
  }
  return {
    query_pre_attn_scalar:
      num_hidden_layers === largest
        ? (hidden_size as number) / (num_attention_heads as number)
        : head_dim,
    attn_logit_softcapping: cap("attn_logit_softcapping"),
    final_logit_softcapping: cap("final_logit_softcapping"),
  }
}

/**
 * Ollama's converter has thetas under other names, or none where they are usual; beside the former it wrote a cap that the model has
 * not; and it leaves out how models of 128k are stretched (convert/convert_gemma3.go, llama/compat).
 */
function gemma3Fields(file: GgufFile, usual: Json): Json {
  const theta = (...names: string[]) =>
    names.map((name) => file.numberIfThere(`rope.${name}`)).find((value) => value !== undefined)
  const isStretched =
    isByOllama(file.keys) &&
    !file.has("rope.scaling.type") &&
    (usual.max_position_embeddings as number) >= 131072
  return {
    ...gemmaFields(file, usual, 62),
    rope_theta: theta("freq_base", "global.freq_base") ?? 1e6,
    rope_local_base_freq: theta("freq_base_swa", "local.freq_base") ?? 10000,
    ...(file.has("rope.global.freq_base") && { final_logit_softcapping: null }),
    ...(isStretched && { rope_scaling: { rope_type: "linear", factor: 8 } }),
  }
}

function gemma3nFields(file: GgufFile, usual: Json): Json {
  const layers = usual.num_hidden_layers as number
  const scales = file.keys.numbersIfThere(file.key("activation_sparsity_scale"))
  const { rope_theta, rope_local_base_freq, final_logit_softcapping } = gemma3Fields(file, usual)
  return {
    rope_theta,
    rope_local_base_freq,
    final_logit_softcapping,
    intermediate_size: file.counts("feed_forward_length", layers),
    num_kv_shared_layers: file.countIfThere("attention.shared_kv_layers"),
    hidden_size_per_layer_input: file.countIfThere("embedding_length_per_layer_input"),
    vocab_size_per_layer_input: file.tensors.rowsOf("per_layer_token_embd.weight"),
    laurel_rank: file.tensors.rowsOf("blk.0.laurel_l.weight"),
    altup_num_inputs: file.countIfThere("altup.num_inputs"),
    altup_active_idx: file.countIfThere("altup.active_idx"),
    activation_sparsity_pattern: scales?.map(shareBelow),
  }
}

/** Matrices that lie in one tensor, one behind the other. */
function stackedStreams(
  stem: string,
  name: string,
  count: number,
  hidden: number,
): Naming["parts"] {
  const part = (number: number) => ({
    name: `${name}.weight`,
    stacked: count,
    rows: { of: count * hidden, from: number * hidden, run: hidden, every: hidden },
  })
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => [`${stem}.${i}.weight`, part(i)]),
  )
}

/** The file's widths, turns and heads are those of layers that see everything; with a window they have others. */
function gemma4Fields(file: GgufFile, usual: Json): Json {
  const types = usual.layer_types as readonly string[] | undefined
  const full = types?.indexOf("full_attention") ?? -1
  if (!types || full < 0)
    throw file.wrong("attention.sliding_window_pattern", "names no layer that sees everything")
  const layers = types.length
  const kvHeads = file.counts("attention.head_count_kv", layers)
  const widths = file.counts("feed_forward_length", layers)
  const headDim = file.count("attention.key_length_swa")
  for (const rest of ["attention.value_length_swa", "rope.dimension_count_swa"])
    if ((file.countIfThere(rest) ?? headDim) !== headDim)
      throw file.wrong(rest, `is not ${headDim}, as wide as keys are`)
  const sliding = types.indexOf("sliding_attention")
  return {
    head_dim: headDim,
    global_head_dim: usual.head_dim,
    num_key_value_heads: kvHeads[Math.max(0, sliding)],
    num_global_key_value_heads: kvHeads[full],
    attention_k_eq_v: !file.tensors.has(`blk.${full}.attn_v.weight`),
    num_kv_shared_layers: file.factor("attention.shared_kv_layers") ?? 0,
    intermediate_size: widths[0],
    use_double_wide_mlp: widths.at(-1) !== widths[0],
    rope_scaling: null,
    rope_parameters: {
      sliding_attention: {
        rope_type: "default",
        rope_theta: file.numberIfThere("rope.freq_base_swa") ?? 10000,
      },
      full_attention: {
        rope_type: "proportional",
        rope_theta: usual.rope_theta,
        partial_rotary_factor: turnedShare(file),
      },
    },
    final_logit_softcapping: file.factor("final_logit_softcapping") ?? null,
    hidden_size_per_layer_input: file.factor("embedding_length_per_layer_input") ?? 0,
    vocab_size_per_layer_input: usual.vocab_size,
    ...(file.factor("expert_count")
      ? {
          enable_moe_block: true,
          num_experts: file.count("expert_count"),
          top_k_experts: file.count("expert_used_count"),
          moe_intermediate_size: file.count("expert_feed_forward_length"),
        }
      : {}),
  }
}

/** Of the pairs that see everything: the others have a divisor so large that they stand still. */
function turnedShare(file: GgufFile): number {
  const list = file.tensors.divisors?.long ?? [1]
  const turned = list.filter((divisor) => divisor === 1).length
  if (list.every((divisor, i) => (i < turned ? divisor === 1 : divisor >= 1e30)))
    return turned / list.length
  throw file.wrong("rope_freqs", "divides by more than nothing and everything")
}
