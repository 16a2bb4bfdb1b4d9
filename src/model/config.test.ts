import { expect, test } from "vitest"
import { type ArchitectureName, architectures } from "./architectures.ts"
import { commonWindow, type ModelConfig, readDirection, seesBothWays } from "./config.ts"
import { Fields } from "./fields.ts"
import type { Json } from "./folder.ts"
import { decoder } from "./layers.ts"
import { fromMlc } from "./mlc-config.ts"
import { architectureOf, textFields } from "./seeing.ts"

const plain = {
  model_type: "llama",
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 160,
  num_hidden_layers: 4,
  num_attention_heads: 8,
  max_position_embeddings: 4096,
}

const fieldsOf = (json: Json) => new Fields(json, (what) => new Error(what) as never)

function read(changes: Json = {}): ModelConfig {
  const fields = fieldsOf({ ...plain, ...changes })
  return architectures[architectureOf(fields)].read(fields)
}

test("what is not said has the defaults of transformers", () => {
  const { shapes, blocks, embedding, norm, head, sinks } = read()
  expect(shapes).toEqual({
    vocabulary: 100,
    hidden: 64,
    layers: 4,
    heads: 8,
    kvHeads: 8,
    headDim: 8,
    intermediate: 160,
    context: 4096,
  })
  expect([embedding, sinks]).toEqual([{ factor: 1, positions: undefined }, 0])
  expect(norm).toEqual({ kind: "rms", epsilon: 1e-6, bias: false })
  expect(head).toEqual({ tied: false, bias: false, factor: 1, cap: undefined })
  expect(blocks).toHaveLength(4)
  expect(blocks[3]).toMatchObject({
    norms: { beforeAttention: true, afterAttention: false, beforeMlp: true, afterMlp: false },
    parallel: false,
    residual: 1,
    attention: { scale: 8 ** -0.5, cap: undefined, window: undefined, norms: undefined },
    mlp: { gated: true, activation: "silu", intermediate: 160, bias: false },
  })
})

// LLaVA over Vicuna 7B and over Mistral 7B, where what configuration_llama.py and configuration_mistral.py of transformers have as
// defaults was not written.
test.each([
  [
    "llava",
    { model_type: "llama", max_position_embeddings: 4096, rms_norm_eps: 1e-5, vocab_size: 32064 },
    { layers: 32, heads: 32, kvHeads: 32, headDim: 128, hidden: 4096, intermediate: 11008 },
  ],
  [
    "llava_next",
    {
      model_type: "mistral",
      intermediate_size: 14336,
      max_position_embeddings: 32768,
      num_key_value_heads: 8,
      rms_norm_eps: 1e-5,
      sliding_window: null,
      vocab_size: 32064,
    },
    { layers: 32, heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, intermediate: 14336 },
  ],
])(
  "sizes that %s leaves out are those of the text model in transformers",
  (model_type, text_config, sizes) => {
    const fields = fieldsOf({ model_type, text_config, tie_word_embeddings: false })
    const { shapes } = architectures[architectureOf(fields)].read(textFields(fields))
    const { max_position_embeddings: context, vocab_size: vocabulary } = text_config
    expect(shapes).toEqual({ ...sizes, context, vocabulary })
  },
)

const rotationOf = (changes: Json) => read(changes).blocks[0]!.attention.rotation!.query
const windowsOf = (changes: Json) => read(changes).blocks.map(({ attention }) => attention.window)

function close(found: readonly number[], wanted: readonly number[]): void {
  expect(found).toHaveLength(wanted.length)
  for (const [i, f] of found.entries()) expect(Math.abs(f / wanted[i]! - 1)).toBeLessThan(1e-13)
}

test("the old and the new spelling of rope say the same", () => {
  const llama3 = {
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 64,
  }
  const [first, ...others] = [
    { rope_theta: 5e5, rope_scaling: { ...llama3, rope_type: "llama3" } },
    { rope_theta: 5e5, rope_scaling: { ...llama3, type: "llama3" } },
    { rope_parameters: { ...llama3, rope_type: "llama3", rope_theta: 5e5 } },
    { rope_theta: 5e5, rope_parameters: { ...llama3, rope_type: "llama3" } },
  ]
  expect(rotationOf(first!)).not.toEqual(rotationOf({ rope_theta: 5e5 }))
  for (const other of others) expect(rotationOf(other)).toEqual(rotationOf(first!))
  expect(rotationOf({ rope_theta: 5e5, rope_scaling: null })).toEqual(
    rotationOf({ rope_theta: 5e5 }),
  )
})

test("GPT-NeoX's theta is read under its old name and where transformers 5 writes it", () => {
  const neox = { model_type: "gpt_neox", rotary_pct: 0.5 }
  const [first, ...others] = [
    { ...neox, rotary_emb_base: 5e4 },
    { ...neox, rope_parameters: { rope_type: "default", rope_theta: 5e4 } },
    { model_type: "gpt_neox", rope_parameters: { rope_theta: 5e4, partial_rotary_factor: 0.5 } },
  ]
  close(rotationOf(first!).frequencies, [1, 5e4 ** -0.5])
  for (const other of others) expect(rotationOf(other)).toEqual(rotationOf(first!))
})

test("Qwen's experts are counted under the name that transformers 5 writes, too", () => {
  const experts = { num_experts_per_tok: 2, moe_intermediate_size: 8 }
  for (const name of ["num_experts", "num_local_experts"]) {
    const { blocks } = read({ model_type: "qwen3_moe", ...experts, [name]: 6 })
    expect(blocks[0]!.experts).toMatchObject({ count: 6, routing: { active: 2 } })
  }
  expect(() => read({ model_type: "qwen3_moe", ...experts })).toThrow("num_experts is missing")
})

// modeling_qwen2_moe.py of transformers asks for it; modeling_qwen2.py has biases always.
test("of Qwen 2 a mixture may have no biases", () => {
  const experts = {
    num_experts: 6,
    num_experts_per_tok: 2,
    moe_intermediate_size: 4,
    shared_expert_intermediate_size: 4,
  }
  const biasOf = (json: Record<string, unknown>) => read(json).blocks[0]!.attention.bias.qkv
  expect(biasOf({ model_type: "qwen2_moe", ...experts })).toBe(true)
  expect(biasOf({ model_type: "qwen2_moe", ...experts, qkv_bias: false })).toBe(false)
  expect(biasOf({ model_type: "qwen2", qkv_bias: false })).toBe(true)
})

test("frequencies: theta^(-2i/d), and what scaling makes of them", () => {
  const frequencies = [1, 0.1, 0.01, 0.001]
  const scaled = (rope_scaling: Json) => rotationOf({ rope_scaling })
  close(rotationOf({}).frequencies, frequencies)
  close(
    scaled({ type: "linear", factor: 4 }).frequencies,
    frequencies.map((f) => f / 4),
  )
  // Of 2000 positions the pairs make 318, 31.8, 3.18 and 0.318 turns: the first two are fast, the last is slow.
  const llama3 = { type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 }
  const blend = (2000 * 0.01) / (2 * Math.PI) / 3 - 1 / 3
  close(scaled({ ...llama3, original_max_position_embeddings: 2000 }).frequencies, [
    1,
    0.1,
    blend * 0.01 + ((1 - blend) * 0.01) / 8,
    0.001 / 8,
  ])
  // YaRN's ramp from the pair that makes 32 turns, 0.997, floored, to the one that makes one, 2.503, ceiled.
  const yarn = scaled({ type: "yarn", factor: 8, original_max_position_embeddings: 2000 })
  const ramp = (f: number, share: number) => (share * f) / 8 + (1 - share) * f
  close(yarn.frequencies, [1, ramp(0.1, 1 / 3), ramp(0.01, 2 / 3), 0.001 / 8])
  close([yarn.factor], [0.1 * Math.log(8) + 1])
  expect(scaled({ type: "yarn", factor: 8, attention_factor: 1.5 }).factor).toBe(1.5)
  expect(scaled({ type: "yarn", factor: 8, attn_factor: 0.5 }).factor).toBe(yarn.factor)
})

test("dynamic without alpha changes nothing within max_position_embeddings, as in transformers", () => {
  const stretched = { rope_scaling: { type: "dynamic", factor: 2 } }
  expect(rotationOf(stretched)).toEqual(rotationOf({}))
  expect(read(stretched).shapes.context).toBe(4096) // the longest sequence
})

test("the names that Phi 3 had for longrope at first mean it, as in transformers' Phi3Config", () => {
  const factors = { short_factor: [1, 1.5, 2, 3], long_factor: [1, 2, 4, 8] }
  const phi3 = { model_type: "phi3", original_max_position_embeddings: 64 }
  const [wanted, ...others] = ["longrope", "su", "yarn"].map((type) =>
    rotationOf({ ...phi3, rope_scaling: { type, ...factors } }),
  )
  close(wanted!.frequencies, [1, 0.1 / 2, 0.01 / 4, 0.001 / 8])
  expect(others).toEqual([wanted, wanted])
})

test("windows: mistral's is used when it is there, qwen's when it is switched on", () => {
  const all = (window: number | undefined) => Array(4).fill(window)
  expect(windowsOf({ model_type: "mistral", sliding_window: 24 })).toEqual(all(24))
  expect(windowsOf({ model_type: "mistral", sliding_window: null })).toEqual(all(undefined))
  expect(windowsOf({ sliding_window: 24 })).toEqual(all(undefined)) // llama has none
  // As AutoConfig of transformers takes a mistral with layer_types, Ministral 8B's, for a ministral.
  const some = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
  for (const model_type of ["mistral", "ministral"]) {
    const listed = { model_type, sliding_window: 24, layer_types: some }
    expect(windowsOf(listed)).toEqual([undefined, 24, 24, undefined])
    expect(windowsOf({ model_type, sliding_window: 24 })).toEqual(all(24))
  }
  const qwen = { model_type: "qwen2", sliding_window: 24, max_window_layers: 2 }
  expect(windowsOf({ ...qwen, use_sliding_window: false })).toEqual(all(undefined))
  expect(windowsOf({ ...qwen, use_sliding_window: true })).toEqual([undefined, undefined, 24, 24])
})

test("Gemma's attention has biases where attention_bias says so, as in transformers", () => {
  for (const model_type of ["gemma", "gemma2", "gemma3_text"])
    for (const attention_bias of [true, false])
      expect(read({ model_type, attention_bias }).blocks[0]!.attention.bias).toEqual({
        qkv: attention_bias,
        o: attention_bias,
      })
})

test("EXAONE 4 without windows, as published and as transformers 5 saves it", () => {
  const exaone = { model_type: "exaone4", sliding_window: null }
  const full = Array(4).fill("full_attention")
  for (const sliding_window_pattern of [null, 0]) {
    const { blocks } = read({ ...exaone, sliding_window_pattern, layer_types: full })
    for (const { attention } of blocks) {
      expect(attention.window).toBeUndefined()
      expect(attention.rotation).toBeDefined()
    }
  }
})

test("which layers have a window that is switched on, layer_types says, as in transformers' Qwen2Config and SmolLM3Config", () => {
  const on = { use_sliding_window: true, sliding_window: 24 }
  const listed = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
  const wanted = [24, undefined, undefined, 24]
  for (const model_type of ["qwen2", "qwen3", "smollm3"]) {
    const layer_types = { layer_types: listed }
    expect(windowsOf({ model_type, ...on, max_window_layers: 2, ...layer_types })).toEqual(wanted)
  }
  const no_rope_layers = [0, 1, 1, 0]
  expect(windowsOf({ model_type: "smollm3", ...on, no_rope_layers })).toEqual(wanted)
  expect(windowsOf({ model_type: "smollm3", sliding_window: 24, no_rope_layers })).toEqual(
    Array(4).fill(undefined),
  )
})

test("a window of some layers is no window of the sequence", () => {
  const qwen = { model_type: "qwen2", sliding_window: 24, use_sliding_window: true }
  const graph = (max_window_layers: number) =>
    decoder("qwen2", read({ ...qwen, max_window_layers }))
  const some = graph(2)
  expect(some.window).toBeUndefined()
  const windows = some.nodes.flatMap((node) =>
    node.op === "attention" ? [node.attention.window] : [],
  )
  expect(windows).toEqual([undefined, undefined, 24, 24])
  expect(graph(0).window).toBe(24)
})

test("layer_types must agree with the other fields", () => {
  const full = Array(4).fill("full_attention")
  expect(windowsOf({ layer_types: full })).toEqual(Array(4).fill(undefined))
  expect(() => read({ layer_types: [...full.slice(1), "sliding_attention"] })).toThrow(
    "layer_types says sliding_attention of layer 3, which the other fields do not",
  )
  expect(() => read({ layer_types: full.slice(1) })).toThrow("layer_types names 3 layers of 4")
  const qwen = {
    model_type: "qwen2",
    sliding_window: 24,
    use_sliding_window: true,
    max_window_layers: 4,
  }
  expect(windowsOf({ ...qwen, layer_types: full })).toEqual(Array(4).fill(undefined))
})

const latent = {
  model_type: "deepseek_v3",
  kv_lora_rank: 16,
  qk_nope_head_dim: 10,
  qk_rope_head_dim: 8,
  v_head_dim: 14,
}

const sparse = {
  ...{ ...latent, model_type: "glm_moe_dsa" },
  ...{ index_n_heads: 2, index_head_dim: 16, index_topk: 4 },
}

const mixed = {
  ...latent,
  n_routed_experts: 6,
  n_shared_experts: 1,
  moe_intermediate_size: 8,
  num_experts_per_tok: 2,
}

const hybrid = {
  model_type: "granitemoehybrid",
  num_local_experts: 0,
  layer_types: ["mamba", "attention", "mamba", "mamba"],
  mamba_n_heads: 4,
}

const gemma3n = {
  model_type: "gemma3n_text",
  num_kv_shared_layers: 1,
  vocab_size: undefined,
  intermediate_size: undefined,
  head_dim: undefined,
}

const apertus15 = { model_type: "apertus1p5_text" }

const codegen = { model_type: "codegen", n_embd: 64, n_layer: 2, n_head: 4, n_positions: 128 }

const dory = { model_type: "dory", n_input_layers: 1, n_output_layers: 1 }

const opt = { model_type: "opt", ffn_dim: 160 }

const lara = { model_type: "lara_mini" }

const laguna = {
  model_type: "laguna",
  num_key_value_heads: 2,
  num_experts: 4,
  num_experts_per_tok: 2,
}
const deberta = {
  model_type: "deberta-v2",
  relative_attention: true,
  pos_att_type: ["c2p", "p2c"],
  max_position_embeddings: 128,
}
const mimo = { model_type: "mimo_v2_flash", n_routed_experts: 4, num_experts_per_tok: 2 }
const step = {
  model_type: "step3p5",
  num_key_value_heads: 2,
  layer_types: ["full_attention", "full_attention", "sliding_attention", "sliding_attention"],
  sliding_window: 8,
  swiglu_limits: [0, 0, 7, null],
}
const ling = {
  model_type: "bailing_moe",
  num_experts: 4,
  num_shared_experts: 1,
  num_experts_per_tok: 2,
  moe_intermediate_size: 8,
}
const llama4 = { model_type: "llama4_text", intermediate_size_mlp: 96, num_local_experts: 4 }
const falconH1 = { model_type: "falcon_h1", mamba_d_ssm: 64, mamba_n_heads: 4, mamba_d_head: 16 }

const nemotronH = {
  model_type: "nemotron_h",
  num_hidden_layers: 4,
  hybrid_override_pattern: "M*-E",
  mamba_num_heads: 8,
  n_routed_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 16,
  moe_shared_expert_intermediate_size: 24,
}

test.each<[Json, string | RegExp]>([
  [{ hidden_act: "softplus" }, 'hidden_act is "softplus"; known: silu, swish, gelu'],
  [{ partial_rotary_factor: 0.5 }, "partial_rotary_factor is 0.5; only 1 is known"],
  [{ num_attention_heads: 7 }, "num_attention_heads is 7, which does not divide 64 columns"],
  [{ head_dim: 2e9 }, "head_dim is 2000000000, not between 1 and 65536"],
  [{ hidden_size: 2e9, head_dim: 8 }, "hidden_size is 2000000000, not between 2 and 1048576"],
  [{ model_type: "gemma4_text", global_head_dim: 2e9 }, "global_head_dim is 2000000000, not betw"],
  [
    { model_type: "embedding_gemma2_text", global_head_dim: 2e9 },
    "global_head_dim is 2000000000, not between 1 and 65536",
  ],
  [
    { model_type: "gemma4_text", per_layer_config: { 3: { head_dim: 2e9 } } },
    "per_layer_config.3.head_dim is 2000000000, not between 1 and 65536",
  ],
  [
    { model_type: "cohere2_moe", first_k_dense_replace: 2e9 },
    "first_k_dense_replace is 2000000000, not between 0 and 4",
  ],
  [{ model_type: "lfm3", num_hidden_layers: 2e9 }, "num_hidden_layers is 2000000000, not betw"],
  [
    { model_type: "gemma3n_text", num_kv_shared_layers: 0, altup_num_inputs: 2e9 },
    "altup_num_inputs is 2000000000, not between 1 and 64",
  ],
  [
    { model_type: "mistral4", rope_parameters: { partial_rotary_factor: 0.25 } },
    "qk_rope_head_dim is 64, but partial_rotary_factor turns 32 of 128 columns",
  ],
  [{ model_type: "mistral4", q_lora_rank: 2e9 }, "q_lora_rank is 2000000000, not between 1 and"],
  [{ vocab_size: undefined }, "vocab_size is missing"],
  [{ rms_norm_eps: "tiny" }, 'rms_norm_eps is "tiny", not a number greater than 0'],
  [
    { rope_parameters: { rope_type: "spiral" } },
    'rope_parameters.rope_type is "spiral"; known: default, linear, llama3, yarn, longrope, dynamic',
  ],
  [{ ...latent, attention_bias: true }, "attention_bias is true; only false is known"],
  [{ ...nemotronH, hybrid_override_pattern: "M*X" }, 'holds "X"; known: M, *, -, E'],
  [{ ...nemotronH, hybrid_override_pattern: "M-M-" }, "names no layer of attention"],
  [{ ...nemotronH, num_hidden_layers: 3 }, "hybrid_override_pattern names 4 layers of 3"],
  [{ ...nemotronH, time_step_limit: [0.001, 0.1] }, "time_step_limit is [0.001,0.1]; known"],
  [{ ...nemotronH, n_groups: 3 }, "n_groups is 3, which does not divide 8 heads"],
  [{ ...nemotronH, mamba_hidden_act: "gelu" }, 'mamba_hidden_act is "gelu"; known: silu'],
  [{ ...nemotronH, n_shared_experts: 2 }, "n_shared_experts is 2; known: 1"],
  [{ ...nemotronH, sliding_window: 64 }, "sliding_window is there"],
  [{ ...nemotronH, use_bias: true }, "use_bias is true; known: projections without a bias"],
  [
    { ...nemotronH, moe_latent_size: 12, mlp_bias: true },
    "mlp_bias is true; known: experts of latent columns without a bias",
  ],
  [{ ...llama4, num_experts_per_tok: 2 }, "num_experts_per_tok is 2; known: 1"],
  [{ ...llama4, no_rope_layers: [1, 0] }, "no_rope_layers is about 2 layers of 4"],
  [
    { ...llama4, layer_types: ["chunked_attention", "sliding_attention"] },
    "layer_types is not a list of 4, each chunked_attention or full_attention",
  ],
  [{ ...falconH1, ssm_multipliers: [1, 2] }, "ssm_multipliers has 2 numbers, not 5"],
  [{ ...falconH1, mamba_d_head: 20 }, "mamba_d_head is 20, but 4 heads have 64 columns"],
  [{ ...falconH1, attention_bias: true, attention_in_multiplier: 2 }, "attention_bias is true"],
  [{ ...falconH1, projectors_bias: true }, "projectors_bias is true; known"],
  [{ ...latent, mlp_bias: true }, "mlp_bias is true; only false is known"],
  [
    { model_type: "gpt_oss", num_local_experts: 4, swiglu_alpha: 2 },
    "swiglu_alpha is 2; only 1.702 is known",
  ],
  [{ model_type: "bert", is_decoder: true }, "is_decoder is true; only encoders are known"],
  [
    { model_type: "bert", position_embedding_type: "relative_key" },
    'position_embedding_type is "relative_key"; known: absolute',
  ],
  [{ model_type: "electra", embedding_size: 128 }, "embedding_size is 128, and hidden_size only"],
  [{ model_type: "roberta", max_position_embeddings: 2 }, "leaves no position behind the first 2"],
  [
    { model_type: "mpnet", relative_attention_num_buckets: 64 },
    "relative_attention_num_buckets is 64; only 32 are known",
  ],
  [{ ...deberta, relative_attention: false }, "relative_attention is false; only models whose"],
  [{ ...deberta, pos_att_type: "c2p" }, 'pos_att_type is "c2p"; known: c2p and p2c, both'],
  [{ ...deberta, conv_kernel_size: 3 }, "conv_kernel_size is not 0; known: layers without"],
  [{ ...deberta, attention_head_size: 4 }, "attention_head_size is 4; known: 8"],
  [{ ...deberta, position_buckets: 1 }, "position_buckets is 1, too few for a half"],
  [{ ...deberta, max_position_embeddings: 1e7 }, "is 10000000; 1048576 are the most"],
  [{ ...deberta, position_buckets: 256 }, "position_buckets is 256, too many for 128 distances"],
  [{ model_type: "nomic_bert", causal: true }, "causal is true; only false is known"],
  [{ model_type: "nomic_bert", rotary_scaling_factor: 2 }, "rotary_scaling_factor is given"],
  [
    { model_type: "nomic_bert", moe_every_n_layers: 2, moe_normalize_expert_weights: true },
    "moe_normalize_expert_weights is true; only false is known",
  ],
  [
    { model_type: "bert", position_embedding_type: "alibi", feed_forward_type: "reglu" },
    'feed_forward_type is "reglu"; known: geglu',
  ],
  [{ model_type: "jina_embeddings_v3", type_vocab_size: 2 }, "type_vocab_size is 2; only 1"],
  [{ model_type: "new", logn_attention_scale: true }, "logn_attention_scale is true; only false"],
  [
    { model_type: "gte", position_embedding_type: "absolute" },
    'position_embedding_type is "absolute"; known: rope',
  ],
  [
    { model_type: "new", rope_scaling: { type: "ntk", factor: 2, mixed_b: 0.75 } },
    "rope_scaling.mixed_b is given; only null is known",
  ],
  [{ ...latent, rope_interleave: false }, "rope_interleave is false; only true is known"],
  [{ ...mixed, topk_method: "any" }, 'topk_method is "any"; known: noaux_tc'],
  [
    { ...sparse, indexer_rope_interleave: false },
    "indexer_rope_interleave is false; only true is known of this architecture",
  ],
  [{ ...sparse, q_lora_rank: null }, "q_lora_rank is null; an indexer makes its queries of"],
  [{ ...sparse, index_head_dim: 6 }, "index_head_dim is 6, not between 8 and 2147483647"],
  [
    { ...sparse, layer_types: ["full_attention"] },
    'layer_types holds "full_attention"; known: indexed_attention',
  ],
  [
    { ...sparse, indexer_types: ["full"] },
    "indexer_types does not say of each of 4 layers whether it is full or shared",
  ],
  [{ ...sparse, index_topk_pattern: "FSX" }, "index_topk_pattern does not say of each of 4 layers"],
  [{ ...sparse, index_topk_pattern: "SFFF" }, "index_topk_pattern begins with a layer that shares"],
  [{ ...mixed, n_group: 4 }, "n_group is 4, which does not divide 6 experts"],
  [{ ...mixed, n_group: 3, topk_group: 4 }, "topk_group is 4, but there are 3 groups"],
  [
    { ...mixed, n_group: 3, num_experts_per_tok: 3 },
    "topk_group opens 2 experts, and each token goes to 3",
  ],
  [
    { model_type: "qwen2_moe", use_sliding_window: true, sliding_window: 24 },
    "use_sliding_window is true; known: mixtures that see everything",
  ],
  [
    { per_layer_config: { "03": { intermediate_size: 80 } } },
    "per_layer_config.03.intermediate_size is that layer's alone, which is not known",
  ],
  [{ per_layer_config: { 4: {} } }, "per_layer_config is about layer 4 of 4"],
  [
    { model_type: "gemma4_text", per_layer_config: { 1: { head_dim: 16 } } },
    "per_layer_config gives layer 1 heads that others of sliding_attention do not have",
  ],
  [
    { model_type: "gemma4_text", per_layer_config: { 3: { num_key_value_heads: 3 } } },
    "per_layer_config.3.num_key_value_heads is 3, which does not divide 8 heads",
  ],
  [{ ...hybrid, mamba_proj_bias: true }, "mamba_proj_bias is true; known: projections without"],
  [{ ...hybrid, time_step_limit: [0.1, 1] }, 'time_step_limit is [0.1,1]; known: [0,{"__float__"'],
  [{ ...hybrid, mamba_n_heads: 5 }, "mamba_n_heads is 5, which does not divide 128 columns"],
  [{ ...hybrid, mamba_d_head: 8 }, "mamba_d_head is 8, but 4 heads have 128 columns"],
  [{ ...hybrid, mamba_n_groups: 3 }, "mamba_n_groups is 3, which does not divide 4 heads"],
  [{ ...hybrid, layer_types: ["mamba"] }, "layer_types names 1 layers of 4"],
  [
    { ...hybrid, layer_types: ["mamba", "rwkv", "mamba", "mamba"] },
    'layer_types holds "rwkv"; known: mamba, linear_attention, attention, full_attention',
  ],
  [
    { ...hybrid, layer_types: ["mamba", "mamba", "mamba", "mamba"] },
    "layer_types names no layer of attention",
  ],
  [{ ...hybrid, position_embedding_type: "alibi" }, 'is "alibi"; known: nope, rope'],
  [{ model_type: "olmo", clip_qkv: -8 }, "clip_qkv is -8, not a number greater than 0"],
  [
    { model_type: "bamba", attn_layer_indices: [9] },
    "attn_layer_indices names no layer of attention",
  ],
  [{ model_type: "iquestcoder", clip_qkv: 8 }, "clip_qkv cuts off queries, keys and values"],
  [{ model_type: "iquestcoder", use_sliding_window: true }, "known: layers that see everything"],
  [{ model_type: "hy_v3", mlp_bias: true }, "mlp_bias is true; only false is known"],
  [{ model_type: "afmoe", attention_bias: true }, "attention_bias is true; only false is known"],
  [{ model_type: "afmoe", score_func: "softmax" }, 'score_func is "softmax"; known: sigmoid'],
  [{ ...ling, norm_head: true }, "norm_head is true, which is not known"],
  [{ ...ling, score_function: "sigmoid" }, 'score_function is "sigmoid"; known beside'],
  [
    { ...ling, moe_shared_expert_intermediate_size: 16 },
    "moe_shared_expert_intermediate_size differs from 8",
  ],
  [{ model_type: "apertus", hidden_act: "silu" }, 'hidden_act is "silu"; known: xielu'],
  [{ ...apertus15, output_vocab_size: 101 }, "output_vocab_size is 101, not between 1 and 100"],
  [
    { ...apertus15, output_vocab_size: 90, tie_word_embeddings: true },
    "output_vocab_size is not vocab_size, though the head is the embedding",
  ],
  [{ ...dory, mlp_bias: true }, "mlp_bias is true; only false is known"],
  [{ ...dory, recurrent_kv_cache_mode: "last_loop" }, "known: per_loop"],
  [{ ...dory, n_input_layers: 3 }, "n_recurrent_layers is 0, which 3 layers before and 1 behind"],
  [
    { ...dory, n_recurrent_layers: 3 },
    "n_recurrent_layers is 3, which 1 layers before and 1 behind do not make 4",
  ],
  [
    { ...dory, layer_types: ["full_attention", "mlp", "mlp", "full_attention"] },
    "layer_types holds mlp, but not behind each layer of attention",
  ],
  [{ ...dory, layer_types: ["full_attention", "mlp"] }, "layer_types names 2 layers of 4"],
  [
    { ...dory, layer_types: ["full_attention", "mlp", "full_attention", "mlp"] },
    "n_input_layers is 1, not a multiple of 2, though layer_types holds mlp",
  ],
  [{ ...opt, do_layer_norm_before: false }, "do_layer_norm_before is false; only true is known"],
  [{ ...opt, word_embed_proj_dim: 32 }, "word_embed_proj_dim is 32; known: hidden_size, 64"],
  [{ ...opt, activation_function: "tanh" }, 'activation_function is "tanh"; known: silu'],
  [{ model_type: "hrm_text", attention_bias: true }, "attention_bias is true; only false is known"],
  [{ ...lara, layer_types: ["full_attention"] }, "layer_types names 1 layers of 4"],
  [
    { ...lara, layer_types: Array(4).fill("conv") },
    'layer_types holds "conv"; known: full_attention, linear_attention, sliding_attention',
  ],
  [
    { ...lara, layer_types: Array(4).fill("linear_attention") },
    "layer_types names no layer of attention",
  ],
  [
    { model_type: "muse_glimmer_text", attention_bias: true },
    "attention_bias is true; only false is known",
  ],
  [
    { model_type: "muse_glimmer_text", layer_rope_theta: [0, 1] },
    "layer_rope_theta is about 2 layers of 4",
  ],
  [
    { model_type: "muse_glimmer_text", layer_rope_theta: [0, 1, 0, 0] },
    "layer_rope_theta holds 1; known: 0, and rope_theta, which is 10000",
  ],
  [{ ...codegen, rotary_dim: 8, n_head: 2 }, "n_head is 2, not a multiple of 4"],
  [
    {
      ...{ model_type: "dbrx", d_model: 64, n_layers: 2, n_heads: 4, max_seq_len: 128 },
      ffn_config: { moe_normalize_expert_weights: 2 },
    },
    "ffn_config.moe_normalize_expert_weights is 2; known: 1 and null",
  ],
  [
    {
      ...{ model_type: "dbrx", d_model: 64, n_layers: 2, n_heads: 4, max_seq_len: 128 },
      ...{ attn_config: { kv_n_heads: 3 }, ffn_config: {} },
    },
    /^attn_config.kv_n_heads is 3, which does not divide 4 heads/,
  ],
  [
    { model_type: "phimoe", num_experts_per_tok: 3 },
    "num_experts_per_tok is 3; only 2 is known of this architecture",
  ],
  [
    { model_type: "lfm2", block_ffn_dim_multiplier: 1e-5 },
    "block_ffn_dim_multiplier is 0.00001, which makes 0 columns",
  ],
  [
    { model_type: "lfm2", block_ffn_dim_multiplier: 1e300 },
    "block_ffn_dim_multiplier is 1e+300, which makes ",
  ],
  [{ head_dim: { __float__: "NaN" } }, "head_dim is NaN, not a whole number"],
  [{ model_type: "lfm3", attention_bias: true }, "attention_bias is true; only false is known"],
  [
    { model_type: "lfm3", layer_types: ["conv", "conv", "conv", "linear"] },
    'layer_types holds "linear"; known: full_attention, sliding_attention, conv',
  ],
  [{ ...step, zero_centered: false }, "zero_centered is false; only true is known"],
  [{ ...step, use_rope_layers: [1, 0, 1, 1] }, "use_rope_layers leaves layers out"],
  [{ ...step, swiglu_limits: [0, 7] }, "swiglu_limits is not a list of 4, a limit for each layer"],
  [
    { ...step, swiglu_limits: [0, 0.2, 7, 7] },
    "swiglu_limits holds 0.2; known: 0, and limits from",
  ],
  [{ ...step, moe_layers_enum: "3,x" }, "moe_layers_enum is not a list of layers"],
  [{ ...step, rope_theta: [1e6, 1e4] }, "rope_theta has 2 numbers, and none for layer 2"],
  [
    { ...step, attention_other_setting: { num_attention_heads: 6, num_attention_groups: 4 } },
    "attention_other_setting.num_attention_heads is 6, which 4 heads of keys do not divide",
  ],
  [
    { ...step, per_layer_config: { "2": { num_attention_heads: 6 } } },
    "per_layer_config.2.num_attention_heads is 6, where num_sliding_attention_heads says 8",
  ],
  [{ ...mimo, n_shared_experts: 1 }, "n_shared_experts is there; known: experts alone"],
  [{ ...mimo, layernorm_epsilon: { __float__: "NaN" } }, "layernorm_epsilon is NaN, not a number"],
  [{ ...mimo, layernorm_epsilon: 0 }, "layernorm_epsilon is 0, not a number greater than 0"],
  [{ ...step, moe_top_k: 0 }, "moe_top_k is 0, not between 1"],
  [{ ...mimo, v_head_dim: 256 }, "v_head_dim is 256, not between 1 and 192"],
  [{ ...mimo, swa_v_head_dim: 64 }, "swa_v_head_dim is 64; known: the other layers' 128"],
  [
    { ...mimo, swa_num_key_value_heads: 3 },
    "swa_num_key_value_heads is 3, which does not divide 8",
  ],
  [
    { ...mimo, hybrid_layer_pattern: [0, 2, 1, 1] },
    "hybrid_layer_pattern is not a list of 4, each",
  ],
  [{ ...mimo, moe_layer_freq: [0, 1] }, "moe_layer_freq is not a list of 4, each 0 or 1"],
  [{ ...laguna, gating: "per-layer" }, 'gating is "per-layer"; known: per-head, per-element'],
  [
    { ...laguna, gating_types: ["per_head", "per_element"] },
    'gating_types holds "per_element", and gating says per-head',
  ],
  [
    { ...laguna, num_attention_heads_per_layer: [4, 4] },
    "num_attention_heads_per_layer is about 2 layers of 4",
  ],
  [
    { ...laguna, num_attention_heads_per_layer: [4, 4, 5, 4] },
    "num_attention_heads_per_layer holds 5, which 2 heads of keys do not divide",
  ],
  [{ ...laguna, moe_apply_router_weight_on_input: true }, "is true; only false is known"],
  [{ ...laguna, mlp_layer_types: ["dense"] }, "mlp_layer_types is not a list of 4, each dense or"],
  [{ ...gemma3n, altup_active_idx: 1 }, "altup_active_idx is 1; known: 0"],
  [{ ...gemma3n, intermediate_size: [8, 8] }, "intermediate_size has 2 entries for 4 layers"],
  [
    { ...gemma3n, activation_sparsity_pattern: [0.5] },
    "activation_sparsity_pattern has 1 entries for 4 layers",
  ],
  [{ ...gemma3n, activation_sparsity_pattern: [0, 1, 0, 0] }, "holds 1, which leaves nothing"],
  [
    { ...gemma3n, layer_types: Array(4).fill("sliding_attention").with(3, "full_attention") },
    "num_kv_shared_layers leaves no layer of full_attention",
  ],
  [
    { model_type: "granite_swa", layer_rope_theta: [1, 2] },
    "layer_rope_theta is about 2 layers of 4",
  ],
  [
    { model_type: "granite_swa", layer_rope_theta: [1, -2, 1, 1] },
    "layer_rope_theta is not a list of numbers from 0 on",
  ],
  [
    { model_type: "mllama_text_model", cross_attention_layers: [1, 4] },
    "cross_attention_layers holds 4, which is no layer of 4",
  ],
  [
    { model_type: "mllama_text_model", cross_attention_layers: [0, 1, 2, 3] },
    "cross_attention_layers holds every layer; known: models some of whose layers see tokens",
  ],
  [
    { model_type: "cohere2_moe", expert_selection_fn: "tanh" },
    'expert_selection_fn is "tanh"; known: softmax, sigmoid',
  ],
  [
    { model_type: "cohere2_moe", shared_expert_combination_strategy: "max" },
    'shared_expert_combination_strategy is "max"; known: average, sum',
  ],
  [{ model_type: "ernie4_5_moe", use_bias: true }, "use_bias is true; known: mixtures without"],
  [
    { model_type: "hunyuan_v1_moe", num_experts: [4, 4, 4, 8], moe_topk: 1 },
    "num_experts is a list of several numbers; known: layers that are alike",
  ],
  [
    { model_type: "hunyuan_v1_moe", num_experts: [1e9, 1e9], moe_topk: 1 },
    "num_experts is 1000000000, not between 1 and 1024",
  ],
  [{ ...dory, n_recurrent_loops: 1e9 }, "n_recurrent_loops is 1000000000, not between 1 and 8192"],
  [{ model_type: "hrm_text", H_cycles: 1e9 }, "H_cycles is 1000000000, not between 1 and 2048"],
  [{ model_type: "hrm_text", L_cycles: 1e9 }, "L_cycles is 1000000000, not between 1 and 2048"],
  [{ hidden_size: 1 }, "hidden_size is 1, not between 2 and"],
  [{ intermediate_size: 1 }, "intermediate_size is 1, not between 2 and"],
  [{ model_type: "hunyuan_v1_moe", use_cla: true }, "use_cla is true; only false is known"],
  [{ model_type: "minimax_m2", scoring_func: "softmax" }, 'is "softmax"; known: sigmoid'],
  [{ model_type: "minimax_m2", shared_intermediate_size: 8 }, "known: experts alone"],
  [{ rope_scaling: { type: "longrope", short_factor: [1] } }, "short_factor has 1 numbers for 4"],
  [
    { max_position_embeddings: 1e15 },
    "max_position_embeddings is 1000000000000000, not between 1 and 2147483647",
  ],
])("%j is refused", (changes, words) => {
  expect(() => read(changes)).toThrow(words)
})

test("MiMo's layers are told by what it was published with as by what transformers writes", () => {
  const written = { ...mimo, num_key_value_heads: 2, num_hidden_layers: 7 }
  const full = { rope_type: "default", rope_theta: 5e6, partial_rotary_factor: 0.334 }
  const published = {
    ...written,
    hybrid_layer_pattern: [0, 1, 1, 1, 1, 0, 1],
    moe_layer_freq: [0, 1, 1, 1, 1, 1, 1],
    ...{ rope_theta: 5e6, swa_rope_theta: 1e4, partial_rotary_factor: 0.334 },
    ...{ layernorm_epsilon: 1e-5, sliding_window: 128, sliding_window_size: 128 },
  }
  const { blocks } = read({
    ...written,
    rope_parameters: { full_attention: full, sliding_attention: { ...full, rope_theta: 1e4 } },
  })
  expect(JSON.stringify(read(published).blocks)).toBe(JSON.stringify(blocks))
  const kinds = blocks.map(({ attention: { kvHeads, window, sinkLogits } }) => [
    ...[kvHeads, window, sinkLogits],
  ])
  const [seesAll, slides] = [
    [2, undefined, undefined],
    [4, 129, true],
  ]
  expect(kinds).toEqual([seesAll, slides, slides, slides, slides, seesAll, slides])
  expect(blocks[0]).toMatchObject({ attention: { values: { columns: 128, factor: 707 / 1000 } } })
  expect(blocks[0]!.attention.rotation!.query.frequencies).toHaveLength(32)
})

test("Step's layers are told by what it was published with as by what transformers writes", () => {
  const published = {
    ...step,
    num_nextn_predict_layers: 1,
    layer_types: [...step.layer_types, "full_attention"],
    swiglu_limits: [...step.swiglu_limits, 0],
    attention_other_setting: { num_attention_heads: 6 },
    rope_theta: [5e6, 5e6, 1e4, 1e4, 5e6],
    partial_rotary_factors: [0.5, 0.5, 1, 1, 0.5],
    rope_scaling: { rope_type: "linear", factor: 2 },
    moe_layers_enum: "1,3",
    moe_num_experts: 16,
    moe_top_k: 3,
  }
  const written = {
    ...step,
    num_sliding_attention_heads: 6,
    per_layer_config: { "2": { num_attention_heads: 6 }, "3": { num_attention_heads: 6 } },
    rope_parameters: {
      full_attention: {
        ...{ rope_type: "linear", factor: 2, rope_theta: 5e6 },
        partial_rotary_factor: 0.5,
      },
      sliding_attention: { rope_type: "default", rope_theta: 1e4, partial_rotary_factor: 1 },
    },
    mlp_layer_types: ["dense", "sparse", "dense", "sparse"],
    n_routed_experts: 16,
    num_experts_per_tok: 3,
  }
  const { blocks } = read(published)
  expect(JSON.stringify(read(written).blocks)).toBe(JSON.stringify(blocks))
  const [first, second, third, last] = blocks
  expect(blocks.map(({ attention: { heads } }) => heads)).toEqual([8, 8, 6, 6])
  expect([first!.experts, third!.experts]).toEqual([undefined, undefined])
  expect([second!.experts?.routing.active, second!.experts?.limit]).toEqual([3, undefined])
  expect(last!.experts?.count).toBe(16)
  expect(third!.attention.rotation!.query.frequencies).toHaveLength(64)
  expect(first!.attention.rotation!.query.frequencies[0]).toBe(0.5)
})

test("a list of as many numbers as there are layers is one of them", () => {
  const num_hidden_layers = 32
  const experts = { num_experts: 4, moe_topk: Array<number>(num_hidden_layers).fill(2) }
  const { blocks } = read({ model_type: "hunyuan_v1_moe", num_hidden_layers, ...experts })
  expect(blocks[0]!.experts).toMatchObject({ routing: { active: 2 } })
})

test("younger architectures have what transformers gives them where little is said", () => {
  const attentions = (changes: Json) => read(changes).blocks.map(({ attention }) => attention)
  const slowest = (changes: Json) => attentions(changes)[0]!.rotation!.query.frequencies.at(-1)
  const cwm = { model_type: "cwm" }
  expect(attentions(cwm).map(({ window }) => window)).toEqual([undefined, 8192, 8192, 8192])
  expect(slowest(cwm)).toBeCloseTo(1e6 ** (-126 / 128) / 16, 12)
  expect(slowest({ model_type: "apertus" })).toBeCloseTo(12e6 ** (-6 / 8) / 8, 12)
  expect(slowest({ ...cwm, rope_parameters: { rope_theta: 100 } })).toBeCloseTo(100 ** (-126 / 128))

  const lfm3 = read({ model_type: "lfm3", num_hidden_layers: 8 })
  const kinds = lfm3.blocks.map(({ convolution, attention }) => convolution?.taps ?? attention)
  const [full, slid] = [
    { window: undefined, gated: "heads" },
    { window: 256, gated: "heads" },
  ]
  expect(kinds).toMatchObject([7, 7, full, 7, slid, 7, full, 7])
  expect(lfm3.blocks[2]!.attention.rotation!.query.frequencies.slice(31, 34)).toEqual([
    expect.closeTo(1e6 ** (-62 / 128)),
    0,
    0,
  ])

  const { blocks } = read(laguna)
  expect(blocks.map(({ experts }) => experts?.count)).toEqual([undefined, 4, 4, 4])
  expect(blocks[1]!.attention).toMatchObject({ heads: 8, gated: "heads", gate: "softplus" })
  expect(blocks[1]!.attention.rotation!.query.frequencies).toHaveLength(32)

  const moe = { model_type: "cohere2_moe", first_k_dense_replace: 1, num_shared_experts: 1 }
  const command = read({ ...moe, prefix_dense_intermediate_size: 320, sliding_window_pattern: 3 })
  expect(
    command.blocks.map(({ attention: { window, rotation }, mlp, experts }) => [
      ...[window, rotation !== undefined, mlp.intermediate],
      experts?.routing.factor,
    ]),
  ).toEqual([
    [undefined, true, 320, undefined],
    [4096, true, 160, 0.5],
    [4096, true, 160, 0.5],
    [undefined, false, 160, 0.5],
  ])
  expect(read({ ...moe, rms_norm_eps: 1e-6 }).norm).toMatchObject({ kind: "rms", epsilon: 1e-6 })
})

test("OLMo cuts off what attention reads, of whichever generation it is", () => {
  for (const model_type of ["olmo", "olmoe"]) {
    const clipOf = (clip_qkv: number | null) =>
      read({ model_type, clip_qkv, num_experts: 4, num_experts_per_tok: 2 }).blocks[0]!.attention
        .clip
    expect([clipOf(8), clipOf(null)]).toEqual([8, undefined])
  }
  expect(read({ model_type: "olmo", rms_norm_eps: 1e-6 }).norm?.epsilon).toBe(1e-5)
})

test("which of GLM 5's layers share what an indexer chooses is said in three ways", () => {
  const own = { ...sparse, num_hidden_layers: 7, num_key_value_heads: 8 }
  const letters = (fields: Json) =>
    read({ ...own, ...fields })
      .blocks.map(({ attention }) => (attention.latent!.indexer === "before" ? "S" : "F"))
      .join("")
  expect(letters({})).toBe("FFFFFFF")
  // As llama.cpp knows it of GLM 5.2.
  expect(letters({ index_topk_freq: 4, index_skip_topk_offset: 3 })).toBe("FFFSSSF")
  expect(letters({ index_topk_pattern: "FSSFSSS" })).toBe("FSSFSSS")
  const indexer_types = ["full", "shared", "full", "full", "shared", "full", "full"]
  expect(letters({ indexer_types, index_topk_pattern: "FFFFFFF" })).toBe("FSFFSFF")
})

test("Kimi K2 is DeepSeek V3 by another name", () => {
  const fields = { kv_lora_rank: 8, qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8 }
  const routed = { n_routed_experts: 4, n_shared_experts: 1, num_experts_per_tok: 2 }
  const given = { ...fields, ...routed, moe_intermediate_size: 8, num_key_value_heads: 8 }
  const [kimi, deepseek] = ["kimi_k2", "deepseek_v3"].map((model_type) =>
    read({ ...given, model_type }),
  )
  expect(kimi).toEqual(deepseek)
})

test("a theta that is null says of OLMo Hybrid that nothing is turned; else its attention is", () => {
  const hybrid = { model_type: "olmo_hybrid", linear_num_key_heads: 2, linear_key_head_dim: 4 }
  const turned = (fields: Json) =>
    read({ ...hybrid, ...fields }).blocks.map(({ attention }) => attention.rotation !== undefined)
  const rope_parameters = { rope_theta: null, rope_type: "default" }
  expect(turned({ rope_theta: undefined, rope_parameters })).not.toContain(true)
  expect(turned({ rope_theta: undefined, rope_parameters: null })).not.toContain(false)
})

test("Kimi Linear's layers are of the kind that either list of them says, each once", () => {
  const fields = { kv_lora_rank: 8, qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8 }
  const own = { num_heads: 2, head_dim: 8, short_conv_kernel_size: 3 }
  const kimi = (full_attn_layers: number[], kda_layers: number[], others: Json = {}) =>
    read({
      ...{ ...fields, model_type: "kimi_linear", num_hidden_layers: 3, num_key_value_heads: 8 },
      linear_attn_config: { ...own, full_attn_layers, kda_layers },
      ...others,
    })
  const { blocks } = kimi([2], [1, 3])
  expect(blocks.map(({ delta }) => delta?.byColumn)).toEqual([{ rank: 8 }, undefined, { rank: 8 }])
  expect(blocks[1]!.attention.rotation).toBeUndefined()
  expect(() => kimi([2], [1, 2])).toThrow(/kda_layers and full_attn_layers do not name each of 3/)
  expect(() => kimi([2], [1])).toThrow(/do not name each of 3 layers once/)
  expect(() => kimi([], [1, 2, 3])).toThrow(/no layer of full_attention/)
  expect(() => kimi([2], [1, 3], { mla_use_nope: false })).toThrow(/mla_use_nope is false/)
  expect(() => kimi([2], [1, 3], { linear_attn_config: null })).toThrow(/linear_attn_config is not/)
})

test("Llama Nemotron's layers are what each of them says", () => {
  const nas = (...block_configs: unknown[]) =>
    read({
      ...{ model_type: "nemotron-nas", num_hidden_layers: block_configs.length },
      ...{ num_key_value_heads: null, intermediate_size: null, block_configs },
    })
  const own = (attention: Json, ffn: Json) => ({ attention, ffn })
  const plain = own(
    { n_heads_in_group: 4, window_length: null },
    { ffn_mult: 5.25, sparsify: null },
  )
  const { blocks, shapes } = nas(
    plain,
    own({ n_heads_in_group: null, no_op: true }, { ffn_mult: 1 }),
    own({ replace_with_linear: true }, { ffn_mult: 1 }),
    own({ n_heads_in_group: 1 }, { ffn_mult: null, no_op: true }),
    own({ no_op: true }, { no_op: true }),
  )
  expect(blocks.map(({ only, isPlain }) => only ?? isPlain)).toEqual([
    ...[undefined, "mlp", true, "attention", "nothing"],
  ])
  expect(blocks.map(({ mlp }) => mlp.intermediate)).toEqual([256, 256, 256, 0, 0])
  expect(blocks[0]!.attention.kvHeads).toBe(2)
  expect([shapes.kvHeads, shapes.intermediate]).toEqual([8, 256])
  const refused: [unknown[], RegExp][] = [
    [[plain, "attention"], /block_configs\[1\] is "attention", not an object/],
    [[own({ n_heads_in_group: 3 }, { ffn_mult: 1 })], /attention.n_heads_in_group is 3/],
    [
      [own({ n_heads_in_group: 4, window_length: 9 }, { ffn_mult: 1 })],
      /window_length is 9; known/,
    ],
    [
      [own({ n_heads_in_group: 4 }, { replace_with_linear: true })],
      /ffn.replace_with_linear is true/,
    ],
    [[own({ no_op: true }, { ffn_mult: 1 })], /names no layer with attention/],
    [[{ ffn: { ffn_mult: 1 } }], /block_configs\[0\].attention is missing/],
  ]
  for (const [given, sentence] of refused) expect(() => nas(...given)).toThrow(sentence)
})

test("Mamba's layers are states alone, whose width has to be what it expands to", () => {
  const own = { intermediate_size: 128, state_size: 5, max_position_embeddings: undefined }
  const mamba = (changes: Json = {}) => read({ ...own, model_type: "mamba", ...changes })
  const { blocks, norm, head, shapes } = mamba()
  const scan = { columns: 128, stateDim: 5, rank: 4, taps: 4, bias: true }
  expect(blocks.map((block) => [block.only, block.scan])).toEqual(
    blocks.map(() => ["attention", scan]),
  )
  expect([norm?.epsilon, head.tied, shapes.context]).toEqual([1e-5, true, 1 << 20])
  const falcon = mamba({ model_type: "falcon_mamba", time_step_rank: 7 }).blocks[0]!.scan
  expect(falcon).toEqual({ ...scan, rank: 7, normed: { epsilon: 1e-6 } })
  expect(() => mamba({ intermediate_size: 96 })).toThrow(
    /intermediate_size is 96, but expand makes 128/,
  )
  expect(() => mamba({ hidden_act: "gelu" })).toThrow(/hidden_act is "gelu"; known: silu/)
  expect(() => mamba({ rms_norm: false })).toThrow(/rms_norm is false/)
  expect(() => mamba({ use_bias: true })).toThrow(/use_bias is true/)
  const second = { model_type: "mamba2", num_heads: 8, head_dim: 16, n_groups: 2 }
  expect(mamba(second).blocks[0]!.selective).toMatchObject({ groups: 2, heads: 8, headDim: 16 })
  expect(() => mamba({ ...second, num_heads: 4 })).toThrow(/num_heads is 4, of 16 columns each/)
})

test("GPT-J turns pairs of a head's first columns, and a head's alone", () => {
  const gptj = (changes: Json = {}) =>
    read({
      ...{ model_type: "gptj", n_embd: 64, n_layer: 2, n_head: 4, n_positions: 128 },
      ...changes,
    })
  const { blocks, head, shapes } = gptj({ rotary_dim: 6 })
  expect(blocks[0]!.attention.rotation!.query.frequencies).toHaveLength(3)
  expect([head.bias, head.tied, shapes.intermediate]).toEqual([true, false, 256])
  expect(gptj({ rotary_dim: null }).blocks[0]!.attention.rotation!.query.frequencies).toHaveLength(
    8,
  )
  expect(() => gptj({ rotary_dim: 18 })).toThrow(/rotary_dim is 18, not pairs of a head's 16/)
  expect(() => gptj({ rotary_dim: 5 })).toThrow(/rotary_dim is 5, not pairs/)
})

test("BLOOM's scores lose by distance, as do MPT's, which may be cut off", () => {
  const bloom = (changes: Json = {}) =>
    read({ model_type: "bloom", hidden_size: 48, n_layer: 2, n_head: 6, ...changes })
  const { blocks, embedding } = bloom()
  // Of arXiv 2108.12409: powers of a half for a power of 2 of heads, and of those between for more.
  const slopes = [2 ** -2, 2 ** -4, 2 ** -6, 2 ** -8, 2 ** -1, 2 ** -3]
  expect(blocks[0]!.attention.biases).toEqual({ positions: 2048, slopes })
  expect(embedding.norm?.bias).toBe(true)
  expect(() => bloom({ apply_residual_connection_post_layernorm: true })).toThrow(/is true/)
  const mpt = (attn_config: Json = {}, changes: Json = {}) =>
    read({
      ...{ model_type: "mpt", d_model: 48, n_layers: 2, n_heads: 2, max_seq_len: 64 },
      ...{ attn_config, ...changes },
    })
  const own = mpt({ alibi: true, alibi_bias_max: 16, clip_qkv: 6, softmax_scale: 0.5 })
  expect(own.blocks[0]!.attention).toMatchObject({
    ...{ clip: 6, scale: 0.5, bias: { qkv: false, o: false } },
    biases: { positions: 64, slopes: [2 ** -8, 2 ** -16] },
  })
  expect(() => mpt({ alibi: false })).toThrow(/alibi is false; only true is known/)
  expect(() => mpt({ qk_ln: true })).toThrow(/qk_ln is true/)
  expect(() => mpt({}, { no_bias: false })).toThrow(/no_bias is false/)
  expect(() => mpt({}, { norm_type: "rmsnorm" })).toThrow(/norm_type is "rmsnorm"; known/)
  expect(() => mpt({}, { norm_type: "low_precision_layernorm" })).not.toThrow()
  expect(() => mpt({}, { logit_scale: 0.5 })).toThrow(/logit_scale is given/)
})

test("GPT-Neo's layers see everything or a window, as either list says", () => {
  const neo = (changes: Json) =>
    read({ model_type: "gpt_neo", num_layers: 4, num_heads: 4, window_size: 9, ...changes })
  const windows = (changes: Json) => neo(changes).blocks.map(({ attention }) => attention.window)
  const usual = [undefined, 9, undefined, 9]
  expect(windows({ attention_types: [[["global", "local"], 2]] })).toEqual(usual)
  expect(windows({ attention_layers: ["global", "local", "global", "local"] })).toEqual(usual)
  for (const attention_types of [
    [[["global"], 3]],
    [[["global", "any"], 2]],
    "local",
    [[["local"], 1e9]],
  ])
    expect(() => neo({ attention_types })).toThrow(/attention_types does not name 4 layers/)
  expect(() => neo({ attention_layers: ["local"] })).toThrow(/attention_layers does not name 4/)
})

test("Jamba's layers are of the kind that periods or lists say", () => {
  const jamba = (changes: Json = {}) =>
    read({
      ...{ model_type: "jamba", num_hidden_layers: 4, num_experts: 4, num_experts_per_tok: 2 },
      ...{ attn_layer_period: 4, attn_layer_offset: 2, ...changes },
    })
  const kinds = (changes?: Json) =>
    jamba(changes).blocks.map(({ scan, experts }) => [!scan, experts?.count])
  const usual = [
    [false, undefined],
    [false, 4],
    [true, undefined],
    [false, 4],
  ]
  expect(kinds()).toEqual(usual)
  const listed = { layers_block_type: ["mamba", "mamba", "attention", "mamba"] }
  expect(kinds({ ...listed, layers_num_experts: [1, 4, 1, 4] })).toEqual(usual)
  expect(kinds({ num_experts: 1 }).map(([, count]) => count)).toEqual(usual.map(() => undefined))
  expect(() => jamba({ attn_layer_offset: 4 })).toThrow(
    /attn_layer_offset is 4, which is not below/,
  )
  expect(() => jamba({ attn_layer_period: 9, attn_layer_offset: 8 })).toThrow(/none of 4 layers/)
  expect(() => jamba({ layers_num_experts: [1, 3, 1, 4] })).toThrow(/layers_num_experts is not/)
  expect(() => jamba({ layers_block_type: ["mamba", "conv", "attention", "mamba"] })).toThrow(
    /layers_block_type holds "conv"/,
  )
  expect(() => jamba({ mamba_inner_layernorms: false })).toThrow(/mamba_inner_layernorms is false/)
  expect(() => jamba({ mamba_proj_bias: true })).toThrow(/mamba_proj_bias is true/)
})

test("MiniCPM 3's multipliers are its published model's, and null is none", () => {
  const minicpm = { model_type: "minicpm3", head_dim: undefined, kv_lora_rank: 8 }
  const { blocks, embedding, head, shapes } = read(minicpm)
  expect(blocks[0]!.residual).toBe(1.4 / 2)
  expect([embedding.factor, head.factor]).toEqual([12, 256 / shapes.hidden])
  const none = read({ ...minicpm, scale_depth: null, dim_model_base: null })
  expect([none.blocks[0]!.residual, none.head.factor]).toEqual([1, 1])
})

test("Llama 3.2 Vision is what transformers takes for granted where nothing is said, without what attends to images", () => {
  const whole = fieldsOf({ model_type: "mllama", text_config: {}, vision_config: {} })
  const config = architectures[architectureOf(whole)].read(textFields(whole))
  const { shapes, blocks, norm, head } = config
  expect(shapes).toEqual({
    ...{ vocabulary: 128256, readable: 128264, hidden: 4096, layers: 40, heads: 32, kvHeads: 8 },
    ...{ headDim: 128, intermediate: 14336, context: 131072 },
  })
  expect([norm?.epsilon, head.tied]).toEqual([1e-5, false])
  const skipped = blocks.flatMap(({ only }, layer) => (only === "nothing" ? [layer] : []))
  expect(skipped).toEqual([3, 8, 13, 18, 23, 28, 33, 38])
  expect(blocks[0]!.attention.rotation!.query.frequencies[1]).toBeCloseTo(5e5 ** (-1 / 64), 12)
})

test.each([
  [4096, 1.1, 1],
  [8192, 1.3, 1 / 2],
])(
  "Phi 3.5 MoE made for %i positions turns by its own list and growth",
  (context, factor, share) => {
    const pairs = (divisor: number) => Array<number>(4).fill(divisor)
    const rope_scaling = {
      ...{ type: "longrope", short_mscale: 1.1, long_mscale: 1.3 },
      ...{ short_factor: pairs(1), long_factor: pairs(2) },
      original_max_position_embeddings: 4096,
    }
    const own = { model_type: "phimoe", max_position_embeddings: context, rope_scaling }
    expect(rotationOf(own)).toMatchObject({ factor, frequencies: { 0: share } })
  },
)

// The defaults of configuration_embedding_gemma2.py of transformers.
test("EmbeddingGemma 2 is the published model where nothing is said", () => {
  const fields = fieldsOf({ model_type: "embedding_gemma2_text" })
  const config = architectures.embedding_gemma2_text.read(fields)
  const [first, , , , , sixth] = config.blocks
  expect(config.blocks).toHaveLength(24)
  expect(first!.attention).toMatchObject({ window: 513, headDim: 256, kvHeads: 2, scale: 1 })
  expect(sixth!.attention).toMatchObject({ window: undefined, headDim: 512, kvHeads: 1 })
  expect(sixth!.attention.rotation!.query.frequencies[1]).toBeCloseTo(1e6 ** (-1 / 256), 12)
  expect(config).toMatchObject({ layerInputs: { width: 512, projected: true }, pooledTo: 768 })
})

test("Jina Embeddings 3 is the same under both of its names", () => {
  const own = { hidden_act: "gelu" }
  const flash = { ...own, model_type: "xlm-roberta", position_embedding_type: "rotary" }
  const newer = { ...own, model_type: "jina_embeddings_v3" }
  expect(read({ ...flash, rotary_emb_base: 2e4 })).toEqual(read(newer))
  // What configuration_xlm_roberta.py beside its weights has where nothing is said.
  expect(read(flash)).toEqual(read({ ...newer, rope_theta: 1e4 }))
})

// configuration.py of Alibaba-NLP/new-impl; configuration_gte.py of transformers.
test("GTE turns as far as was usual when it was published where nothing is said", () => {
  for (const [model_type, rope_theta] of [
    ["new", 10000],
    ["gte", 160000],
  ])
    expect(read({ model_type })).toEqual(read({ model_type, rope_theta }))
  expect(read({ model_type: "new" })).not.toEqual(read({ model_type: "gte" }))
})

test("GTE adds a row of types where there are any", () => {
  const namesOf = (type_vocab_size: number) => {
    const own = read({ model_type: "gte", type_vocab_size })
    return architectures.gte.naming(own).parts.embed_tokens
  }
  expect([namesOf(1), namesOf(0)]).toMatchObject([{ plusRow: { row: 0 } }, {}])
  expect(namesOf(0)).not.toHaveProperty("plusRow")
})

// As configuration_*.py of transformers has them, of the sizes that are said here.
test("kinds of layers that a configuration does not list are the published model's", () => {
  const six = { num_hidden_layers: 6, moe_intermediate_size: 8, sliding_window: 24 }
  const kinds = (changes: Json) =>
    read({ ...six, ...changes }).blocks.map(({ delta, attention: { window, rotation } }) =>
      delta ? "state" : `${window ?? "all"}${rotation ? " turned" : ""}`,
    )
  const [slides, sees] = ["24 turned", "all"]
  expect(kinds(lara)).toEqual(["state", slides, "state", sees, slides, "state"])
  expect(kinds({ model_type: "kolibri1" })).toEqual([...Array(4).fill(slides), sees, slides])
  expect(kinds({ model_type: "muse_glimmer_text" })).toEqual([
    ...[slides, sees, slides],
    ...[slides, slides, sees],
  ])
  expect(kinds({ model_type: "cohere_compass_text" })).toEqual(Array(6).fill("all turned"))
  const rope_parameters = { full_attention: { rope_theta: 5e5 }, sliding_attention: null }
  const layer_types = ["full_attention", "sliding_attention"]
  const compass = { model_type: "cohere_compass_text", num_hidden_layers: 2, layer_types }
  expect(kinds({ ...compass, rope_parameters })).toEqual(["all turned", "24"])
})

test("Dory's layers are the same, counted as its makers do or as transformers does", () => {
  const counted = (times: number, layer_types?: string[]) =>
    read({
      model_type: "dory",
      num_hidden_layers: 6 * times,
      n_input_layers: 2 * times,
      n_recurrent_layers: 3 * times,
      n_output_layers: times,
      layer_types,
    })
  const once = counted(1)
  const kinds = [...Array(3).fill("sliding_attention"), "full_attention"]
  const six = [...kinds, "sliding_attention", "sliding_attention"]
  expect(once.loop).toEqual({ from: 2, to: 5, times: 2 })
  expect(
    counted(
      2,
      six.flatMap((type) => [type, "mlp"]),
    ),
  ).toEqual(once)
  expect(once.blocks.map(({ attention }) => attention.window !== undefined)).toEqual(
    six.map((type) => type === "sliding_attention"),
  )
})

test("HRM Text's stacks are as many layers each as is said, or as all are where that is not", () => {
  const hrm = (changes: Json) => read({ model_type: "hrm_text", ...changes })
  const { blocks, shapes, cycles, embedding } = hrm({})
  expect([blocks.length, shapes.layers, shapes.kvHeads]).toEqual([8, 4, 8])
  expect([cycles, embedding.factor]).toEqual([{ slow: 2, fast: 3 }, 50])
  const counted = hrm({ num_hidden_layers: 32, num_layers_per_stack: 4, initializer_range: 0.1 })
  expect([counted.blocks.length, counted.embedding.factor]).toEqual([8, 10])
})

test("inside of a configuration that sees the newest text models are found", () => {
  const inside = (model_type: string, text_config: Json) => {
    const fields = fieldsOf({ model_type, text_config: { ...plain, ...text_config } })
    return architectures[architectureOf(fields)].read(textFields(fields))
  }
  const { head, embedding, shapes } = inside("apertus1p5", { output_vocab_size: 90 })
  expect([head.tied, embedding.stored, shapes.vocabulary]).toEqual([false, 100, 90])
  expect(inside("cohere_compass", {}).head.factor).toBe(1)
  expect(inside("muse_glimmer", {}).head).toMatchObject({ factor: 26 ** -0.5, cap: 20 })
})

test("Gemma 3n has what transformers gives it where little is said", () => {
  const layers = { num_hidden_layers: 20, num_kv_shared_layers: undefined }
  const { blocks, shapes, embedding, streams, head, layerInputs } = read({ ...gemma3n, ...layers })
  expect(shapes).toMatchObject({ vocabulary: 262144, intermediate: 16384 })
  expect({ embedding, streams, head, layerInputs }).toMatchObject({
    embedding: { stored: 262400 },
    streams: { count: 4, scaled: true },
    head: { cap: 30, tied: true },
    layerInputs: { width: 256 },
  })
  const seen = (layer: number) => blocks[layer]!.attention.window
  expect([0, 3, 4, 9, 19].map(seen)).toEqual([512, 512, undefined, undefined, undefined])
  expect(blocks.map(({ attention }) => attention.reads)).toEqual([
    ...Array(5).fill(undefined),
    ...[3, 3, 3, 3, 4, 3, 3, 3, 3, 4, 3, 3, 3, 3, 4],
  ])
  expect(blocks.map(({ mlp }) => mlp.above)).toEqual([
    ...Array(10).fill(expect.closeTo(1.6448536269514722, 12)),
    ...Array(10).fill(undefined),
  ])
  expect(blocks[0]!.attention.rotation!.query.frequencies[1]).toBeCloseTo(1e4 ** (-1 / 128), 12)
  expect(blocks[4]!.attention.rotation!.query.frequencies[1]).toBeCloseTo(1e6 ** (-1 / 128), 12)
})

test("Granite 4 has states in the layers that say so, under older and newer names, or in none", () => {
  const kinds = (changes: Json) =>
    read({ ...hybrid, ...changes }).blocks.map(({ selective, attention }) => [
      selective?.headDim,
      attention.rotation !== undefined,
    ])
  const [states, attends] = [
    [32, false],
    [undefined, false],
  ]
  expect(kinds({})).toEqual([states, attends, states, states])
  const newer = {
    layer_types: ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    mamba_d_head: "auto",
    time_step_limit: [0, { __float__: "Infinity" }],
  }
  expect(kinds(newer)).toEqual(kinds({}))
  const layer_types = Array<string>(4).fill("attention")
  expect(kinds({ layer_types, position_embedding_type: "rope" })).toEqual(
    Array(4).fill([undefined, true]),
  )
})

test("layers of Nemotron-H are one thing each, by letters, and by older and newer names", () => {
  const kinds = (changes: Json) =>
    read({ ...nemotronH, ...changes }).blocks.map(({ only, selective, experts, mlp }) =>
      only === "attention"
        ? [only, selective?.heads]
        : [only, experts?.latent ?? experts?.count, mlp.gated, mlp.intermediate],
    )
  const { intermediate } = read(nemotronH).shapes
  const expected = [
    ["attention", 8],
    ["attention", undefined],
    ["mlp", undefined, false, intermediate],
    ["mlp", 4, false, 16],
  ]
  expect(kinds({})).toEqual(expected)
  const listed = { hybrid_override_pattern: undefined }
  const older = ["mamba", "attention", "mlp", "moe"]
  expect(kinds({ ...listed, layers_block_type: older })).toEqual(expected)
  const newer = ["linear_attention", "full_attention", "mlp", "moe"]
  expect(kinds({ ...listed, layer_types: newer })).toEqual(expected)
  expect(kinds({ moe_latent_size: 12 })[3]).toEqual(["mlp", 12, false, 16])
})

test("is_causal false sees both ways, where all layers attend to everything", () => {
  const directed = (changes: Json) => {
    const fields = fieldsOf({ ...plain, is_causal: false, ...changes })
    return readDirection(fields, architectures[architectureOf(fields)].read(fields))
  }
  for (const model_type of ["llama", "mistral", "ministral3", "qwen2", "qwen3"])
    expect(directed({ model_type }).blocks.every(({ attention }) => attention.bidirectional)).toBe(
      true,
    )
  expect(seesBothWays(directed({ is_causal: true }))).toBe(false)
  const refused = "is_causal is false, which is known of layers that attend to everything"
  for (const changes of [{ model_type: "mistral", sliding_window: 24 }, latent])
    expect(() => directed(changes)).toThrow(refused)
  expect(() => directed({ is_causal: "no" })).toThrow('is_causal is "no", not true or false')
})

test("a compiled folder's configuration in the words of a plain one", () => {
  const model_config = { ...plain, position_embedding_base: 5e5, rms_norm_eps: 1e-5 }
  const chat = (changes: Json) =>
    fieldsOf({ model_type: "llama", vocab_size: 100, model_config, ...changes })
  const readMlc = (name: ArchitectureName, changes: Json) =>
    architectures[name].read(fieldsOf(fromMlc(chat(changes))))
  expect(readMlc("llama", { context_window_size: 2048, sliding_window_size: -1 })).toEqual({
    ...read({ rms_norm_eps: 1e-5, rope_theta: 5e5 }),
    shapes: { ...read().shapes, context: 2048 },
  })
  const sliding = { context_window_size: -1, sliding_window_size: 24, attention_sink_size: 4 }
  const slid = readMlc("mistral", sliding)
  expect(slid).toMatchObject({ sinks: 4, shapes: { context: 4096 } })
  expect(commonWindow(slid)).toBe(24)
})

test("Llama 4 turns heads and sees chunks but in every fourth layer, where queries grow", () => {
  const { blocks } = read(llama4)
  const seen = { window: 8192, chunked: true }
  for (const { attention, experts } of blocks.slice(0, 3)) {
    expect(attention).toMatchObject({ ...seen, norms: { place: "after", over: "every head" } })
    expect(experts).toMatchObject({ weighed: "input", shared: { intermediate: 160 } })
  }
  const { window, norms, rotation } = blocks[3]!.attention
  expect({ window, norms, key: rotation!.key }).toEqual({})
  expect(rotation!.query.growth).toEqual({ beta: 0.1, original: 8192, ahead: 1 })
  // MobileLLM R1: everything is seen, no experts.
  const small = read({ ...llama4, attention_chunk_size: null, interleave_moe_layer_step: 0 })
  expect(small.blocks.map(({ attention, experts }) => [attention.window, experts])).toEqual(
    Array(4).fill([undefined, undefined]),
  )
})
