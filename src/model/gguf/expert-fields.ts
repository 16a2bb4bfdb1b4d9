// What the keys of a GGUF file say of experts, as the fields of a config.json that their architectures read. Keys: llama-arch.cpp of
// llama.cpp.

import type { Json } from "../folder.ts"
import type { GgufFile } from "./config.ts"

export const SIGMOID = 2 // an `expert_gating_func`

export function gatingOf(file: GgufFile): "softmax" | "sigmoid" {
  const gating = file.countIfThere("expert_gating_func") ?? SIGMOID
  if (gating === 1) return "softmax"
  if (gating === SIGMOID || gating === 0) return "sigmoid"
  throw file.wrong("expert_gating_func", `is ${gating}; known: 1, a softmax, and 2, a sigmoid`)
}

export function refuseSoftmax(file: GgufFile): void {
  const gating = file.countIfThere("expert_gating_func") ?? 0
  if (gating !== SIGMOID && gating !== 0)
    throw file.wrong("expert_gating_func", `is ${gating}; known: ${SIGMOID}, a sigmoid`)
}

export function localExperts(file: GgufFile): Json {
  return {
    num_local_experts: file.factor("expert_count"),
    num_experts_per_tok: file.factor("expert_used_count"),
  }
}

export function deepseekExperts(file: GgufFile): Json {
  if (file.countIfThere("expert_gating_func") === SIGMOID) return sigmoidExperts(file)
  const groups = file.factor("expert_group_count") ?? 1
  return {
    ...routedExperts(file),
    ...denseLayers(file),
    topk_method: groups > 1 ? "group_limited_greedy" : "greedy",
  }
}

/** As DeepSeek V3 has them: chosen by a sigmoid and a bias, behind the first layers, which are dense. */
export function sigmoidExperts(file: GgufFile): Json {
  return { ...sigmoidRouted(file), ...denseLayers(file) }
}

export function sigmoidRouted(file: GgufFile): Json {
  refuseSoftmax(file)
  return {
    ...routedExperts(file),
    norm_topk_prob: file.keys.flag(file.key("expert_weights_norm"), false),
  }
}

export const denseLayers = (file: GgufFile): Json => ({
  first_k_dense_replace: file.count("leading_dense_block_count"),
})

/** Beside an MLP as wide as so many of them. */
export function routedExperts(file: GgufFile): Json {
  return {
    n_routed_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    n_shared_experts: file.count("expert_shared_count"),
    routed_scaling_factor: file.factor("expert_weights_scale") ?? 1,
    n_group: file.factor("expert_group_count") ?? 1,
    topk_group: file.factor("expert_group_used_count") ?? 1,
  }
}

export function lfm2Experts(file: GgufFile): Json {
  const gating = file.countIfThere("expert_gating_func") ?? SIGMOID
  if (gating !== SIGMOID)
    throw file.wrong("expert_gating_func", `is ${gating}; known: ${SIGMOID}, a sigmoid`)
  const dense = file.count("leading_dense_block_count")
  return {
    num_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    num_dense_layers: dense,
    use_expert_bias: file.tensors.has(`blk.${dense}.exp_probs_b.bias`),
    norm_topk_prob: true,
    routed_scaling_factor: file.factor("expert_weights_scale") ?? 1,
  }
}

/** Layers without a router are dense. */
export function qwenExperts(file: GgufFile, { num_hidden_layers: layers }: Json): Json {
  const numbers = Array.from({ length: layers as number }, (_, layer) => layer)
  return {
    num_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    mlp_only_layers: numbers.filter(
      (layer) => !file.tensors.has(`blk.${layer}.ffn_gate_inp.weight`),
    ),
  }
}

export function sharedExpert(file: GgufFile): Json {
  return { shared_expert_intermediate_size: file.count("expert_shared_feed_forward_length") }
}
