// Small models of the families whose layers are divided by other things than heads and hidden columns: graphs that the readers
// of configurations make, as large as eight shards need.

import type { Graph } from "../../src/compiler/graph/graph.ts"
import { type ArchitectureName, architectures } from "../../src/model/architectures.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"

const common = {
  vocab_size: 72,
  hidden_size: 64,
  intermediate_size: 256,
  moe_intermediate_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  head_dim: 32,
  max_position_embeddings: 512,
  hidden_act: "silu",
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  tie_word_embeddings: true,
}

/** Keys of states are fewer than the heads that read them, and rows of convolutions are kept in pieces of one of them. */
const states = {
  num_attention_heads: 8,
  head_dim: 32,
  layer_types: ["linear_attention", "full_attention"],
  linear_conv_kernel_dim: 3,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  linear_num_key_heads: 2,
  linear_num_value_heads: 8,
  rope_parameters: { rope_type: "default", rope_theta: 10_000, partial_rotary_factor: 0.5 },
  attn_output_gate: true,
}

const latents = {
  num_key_value_heads: 8,
  q_lora_rank: 24,
  kv_lora_rank: 16,
  qk_nope_head_dim: 20,
  qk_rope_head_dim: 12,
  v_head_dim: 32,
}

const statesByColumn = {
  ...{ ...latents, q_lora_rank: null },
  linear_attn_config: {
    ...{ full_attn_layers: [2], kda_layers: [1] },
    ...{ num_heads: 8, head_dim: 64, short_conv_kernel_size: 3 },
  },
}

const families = {
  experts: ["qwen3_moe", { num_experts: 6, num_experts_per_tok: 2, norm_topk_prob: true }],
  "experts beside others": [
    "qwen2_moe",
    {
      num_key_value_heads: 8,
      num_experts: 6,
      num_experts_per_tok: 2,
      shared_expert_intermediate_size: 256,
    },
  ],
  latents: [
    "deepseek_v3",
    {
      ...latents,
      moe_intermediate_size: 256,
      n_routed_experts: 8,
      n_shared_experts: 1,
      num_experts_per_tok: 2,
      topk_method: "noaux_tc",
      scoring_func: "sigmoid",
      n_group: 2,
      topk_group: 1,
      routed_scaling_factor: 2.5,
      norm_topk_prob: true,
      first_k_dense_replace: 1,
    },
  ],
  "latents of queries as they are": [
    "deepseek_v2",
    { ...latents, q_lora_rank: null, first_k_dense_replace: 2, n_routed_experts: null },
  ],
  // The second layer sees what the first one's indexer has chosen, whose heads no shard has some of.
  "sparse latents": [
    "glm_moe_dsa",
    {
      ...latents,
      ...{ index_n_heads: 8, index_head_dim: 64, index_topk: 21 },
      indexer_types: ["full", "shared"],
    },
  ],
  "states by column": ["kimi_linear", statesByColumn],
  "several widths": [
    "nemotron-nas",
    {
      num_hidden_layers: 5,
      block_configs: [
        { attention: { n_heads_in_group: 4 }, ffn: { intermediate_size: 512 } },
        { attention: { no_op: true }, ffn: { intermediate_size: 256 } },
        { attention: { replace_with_linear: true }, ffn: { intermediate_size: 256 } },
        { attention: { n_heads_in_group: 2 }, ffn: { no_op: true } },
        { attention: { no_op: true }, ffn: { no_op: true } },
      ],
    },
  ],
  states: ["qwen3_5_text", states],
  // One key for all heads, as wide as a piece of the convolution's rows.
  "selective states": [
    "granitemoehybrid",
    {
      num_key_value_heads: 8,
      num_local_experts: 0,
      shared_intermediate_size: 256,
      layer_types: ["mamba", "attention"],
      mamba_expand: 8,
      mamba_n_heads: 8,
      mamba_n_groups: 1,
      mamba_d_state: 128,
      mamba_d_conv: 3,
    },
  ],
  "selective states beside attention": [
    "falcon_h1",
    {
      num_key_value_heads: 8,
      mamba_d_ssm: 512,
      mamba_n_heads: 8,
      mamba_n_groups: 1,
      mamba_d_state: 128,
      mamba_d_conv: 3,
      ssm_multipliers: [0.5, 0.75, 1.25, 1.5, 2],
    },
  ],
  "states by number": [
    "jamba",
    {
      num_key_value_heads: 8,
      num_experts: 1,
      attn_layer_period: 2,
      attn_layer_offset: 1,
      mamba_expand: 16,
      mamba_d_state: 12,
      mamba_dt_rank: 8,
      mamba_d_conv: 3,
    },
  ],
  "states by number alone": [
    "mamba",
    { expand: 16, intermediate_size: 1024, state_size: 12, time_step_rank: 8, conv_kernel: 3 },
  ],
  // Each behind a norm of its own, of more columns than a row has.
  "experts without gates": [
    "nemotron_h",
    {
      hybrid_override_pattern: "E*",
      n_routed_experts: 6,
      num_experts_per_tok: 2,
      moe_latent_size: 256,
      moe_shared_expert_intermediate_size: 256,
    },
  ],
  "chunks and weighed rows": [
    "llama4_text",
    {
      intermediate_size_mlp: 256,
      interleave_moe_layer_step: 2,
      no_rope_layer_interval: 2,
      attention_chunk_size: 24,
      floor_scale: 16,
      num_local_experts: 6,
      num_experts_per_tok: 1,
    },
  ],
  "rows side by side": [
    "gemma3n_text",
    {
      num_hidden_layers: 3,
      num_key_value_heads: 8,
      layer_types: ["sliding_attention", "full_attention", "full_attention"],
      sliding_window: 24,
      num_kv_shared_layers: 1,
      vocab_size_per_layer_input: 72,
      hidden_size_per_layer_input: 8,
      laurel_rank: 8,
      activation_sparsity_pattern: [0.7, 0, 0],
    },
  ],
  "values narrower than keys": [
    "mimo_v2_flash",
    {
      v_head_dim: 16,
      hybrid_layer_pattern: [0, 1],
      n_routed_experts: 6,
      num_experts_per_tok: 2,
    },
  ],
  "experts with limits": [
    "step3p5",
    {
      layer_types: ["full_attention", "sliding_attention"],
      sliding_window: 24,
      num_sliding_attention_heads: 16,
      moe_layers_enum: [1],
      moe_num_experts: 6,
      moe_top_k: 2,
      share_expert_dim: 64,
      swiglu_limits: [0, 0.5],
      swiglu_limits_shared: [0.5, 0.5],
    },
  ],
  "norms of what is projected back": ["bitnet", { num_key_value_heads: 8 }],
  convolutions: [
    "lfm2",
    {
      hidden_size: 256,
      block_ff_dim: 256,
      block_auto_adjust_ff_dim: false,
      conv_L_cache: 3,
      conv_bias: false,
      layer_types: ["conv", "full_attention"],
      norm_eps: 1e-5,
    },
  ],
} as const satisfies Record<string, readonly [ArchitectureName, object]>

export type FamilyName = keyof typeof families

/** @param changes in its configuration */
export function familyGraph(name: FamilyName, changes: object = {}): Graph {
  const [architecture, own] = families[name]
  const json = { ...common, ...own, ...changes }
  const fields = new Fields(json, (what) => new Error(what) as never)
  return decoder(architecture, architectures[architecture].read(fields))
}
