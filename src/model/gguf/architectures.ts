// Which architectures are read from GGUF files, under the names that llama.cpp gives them: what each is called in a
// config.json, which of its fields llama has not, and where its tensors lie. What converters change:
// convert_hf_to_gguf.py of llama.cpp. Weights of norms that are meant as 1 + weight are written with the 1.

import { exp, log } from "../../runtime/elementary.ts"
import { slopedBiases } from "../architectures/bloom.ts"
import { deepseekNaming, miniCpm3Naming } from "../architectures/deepseek.ts"
import { neighboursOfIndexer } from "../architectures/deepseek-sparse.ts"
import { neighboursOf } from "../architectures/glm4.ts"
import { selectiveProjections } from "../architectures/granite.ts"
import { hrmTextParts } from "../architectures/hrm-text.ts"
import { kimiLinearNaming } from "../architectures/kimi-linear.ts"
import { unitWeights } from "../architectures/llama4.ts"
import { mambaNaming, scanProjections } from "../architectures/mamba.ts"
import { mllamaParts } from "../architectures/mllama.ts"
import { addendParts } from "../architectures/nomic-bert.ts"
import { unitNorms } from "../architectures/olmo.ts"
import {
  gatedQueries,
  joinedProjections,
  projectionsByKeyHead,
  sharesByKeyHead,
} from "../architectures/qwen3-5.ts"
import { XIELU_BETA } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import type { Json } from "../folder.ts"
import {
  joinedRows,
  type NamedPart,
  type Naming,
  type Part,
  stackedExperts,
  unitParts,
} from "../weights/names.ts"
import type { GgufArchitecture, GgufFile, Tensors } from "./config.ts"
import {
  deepseekExperts,
  denseLayers,
  gatingOf,
  lfm2Experts,
  localExperts,
  qwenExperts,
  refuseSoftmax,
  routedExperts,
  SIGMOID,
  sharedExpert,
  sigmoidExperts,
  sigmoidRouted,
} from "./expert-fields.ts"
import { gemmaArchitectures } from "./gemma.ts"

/**
 * Qwen 3.5 and Qwen 3 Next. Value heads of the former's files take turns with those of other key heads. Of the latter's, older
 * files have what the delta rule is given in one tensor, key head by key head, as its folders do; and all have decays and shares so.
 */
const withDelta = {
  turned: "partial_rotary_factor",
  guessesAhead: true,
  varies: true, // Ollama's files list heads of keys layer by layer
  fields: deltaFields,
  parts: ({ has }, config) => {
    const delta = config.blocks.find((block) => block.delta)?.delta
    const some = (name: string) => config.blocks.some((_, i) => has(`blk.${i}.${name}.weight`))
    return {
      post_attention_layernorm: "post_attention_norm",
      ...gatedQueries(config, "attn_q"),
      "self_attn.k_proj": "attn_k",
      "self_attn.v_proj": "attn_v",
      ...(delta && {
        ...(some("ssm_in")
          ? projectionsByKeyHead(delta, "ssm_in")
          : { ...joinedProjections(delta, "attn_qkv"), "linear_attn.z_proj": "attn_gate" }),
        ...(some("ssm_ba")
          ? sharesByKeyHead(delta, "ssm_ba")
          : { "linear_attn.a_proj": "ssm_alpha", "linear_attn.b_proj": "ssm_beta" }),
        "linear_attn.conv": { name: "ssm_conv1d", taps: delta.taps },
      }),
      "linear_attn.decay": { name: "ssm_a", bare: true, exponential: true },
      "linear_attn.decay_bias": {
        name: config.blocks.some((_, i) => has(`blk.${i}.ssm_dt`)) ? "ssm_dt" : "ssm_dt.bias",
        bare: true,
      },
      "linear_attn.norm": "ssm_norm",
      "linear_attn.out_proj": "ssm_out",
    }
  },
} as const satisfies Omit<GgufArchitecture, "model">

/** Layers that are one thing each, by the tensors that they have. */
const nemotronH = {
  model: "nemotron_h",
  turned: "partial_rotary_factor", // which says nothing here: no head is turned
  varies: true,
  guessesAhead: true,
  fields: nemotronHFields,
  parts: (_, config) => ({
    ...stateTensors(config),
    post_attention_layernorm: "attn_norm",
    "mlp.latent_in_proj": "ffn_latent_down",
    "mlp.latent_out_proj": "ffn_latent_up",
  }),
} as const satisfies GgufArchitecture

/** Mamba 1 and Falcon Mamba, whose files do not say what the small norms' epsilon is. Layers have neither heads nor an MLP. */
const withScans = {
  model: (file) => (file.keys.flag(file.key("ssm.dt_b_c_rms"), false) ? "falcon_mamba" : "mamba"),
  fields: (file, usual) => ({
    ...stackedStates(file, usual),
    time_step_rank: file.count("ssm.time_step_rank"),
  }),
  parts: (_, config) => {
    const { parts } = mambaNaming(config)
    const units = Object.entries(parts).filter(([name]) => name.endsWith("_norm"))
    return { ...scanTensors(config), ...Object.fromEntries(units) }
  },
} as const satisfies GgufArchitecture

/** Jamba. Layers without heads of keys have states, and experts are where their tensors are. */
const withScansAndExperts = {
  model: "jamba",
  varies: true,
  fields: (file, { num_hidden_layers }) => {
    const layers = num_hidden_layers as number
    const count = Math.max(1, file.countIfThere("expert_count") ?? 1)
    const hasExperts = (layer: number) => file.tensors.has(`blk.${layer}.ffn_gate_inp.weight`)
    return {
      layers_block_type: file
        .counts("attention.head_count_kv", layers)
        .map((heads) => (heads === 0 ? "mamba" : "attention")),
      num_experts: count,
      num_experts_per_tok: file.countIfThere("expert_used_count") ?? 1,
      layers_num_experts: Array.from({ length: layers }, (_, layer) =>
        hasExperts(layer) ? count : 1,
      ),
      mamba_expand: expansionOf(file),
      mamba_d_state: file.count("ssm.state_size"),
      mamba_d_conv: file.count("ssm.conv_kernel"),
      mamba_dt_rank: file.count("ssm.time_step_rank"),
      mamba_conv_bias: hasInSome(file, layers, "ssm_conv1d.bias"),
    }
  },
  parts: (_, config) => ({
    ...scanTensors(config),
    "mamba.steps_norm": "ssm_dt_norm",
    "mamba.k_norm": "ssm_b_norm",
    "mamba.q_norm": "ssm_c_norm",
  }),
} as const satisfies GgufArchitecture

/** LFM2. Layers without heads of keys have convolutions. */
const withConvolutions = {
  varies: true,
  sees: true,
  fields: (file, { rms_norm_eps, num_hidden_layers: layers }) => ({
    norm_eps: rms_norm_eps,
    block_auto_adjust_ff_dim: false,
    conv_L_cache: file.count("shortconv.l_cache"),
    layer_types: file
      .counts("attention.head_count_kv", layers as number)
      .map((heads) => (heads === 0 ? "conv" : "full_attention")),
  }),
  parts: ({ has }, { blocks }) => ({
    norm: has("token_embd_norm.weight") ? "token_embd_norm" : "output_norm",
    "conv.conv": {
      name: "shortconv.conv",
      taps: blocks.find(({ convolution }) => convolution)?.convolution?.taps ?? 1,
    },
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
  }),
} as const satisfies Omit<GgufArchitecture, "model">

/** Command R's. */
const besideEachOther = {
  neighbours: true,
  epsilon: "layer_norm_eps",
  fields: (file) => ({ logit_scale: file.factor("logit_scale") ?? 1 }),
} as const satisfies Omit<GgufArchitecture, "model">

/** The parts of latent attention, which lie as in folders. */
function latentParts({ parts }: Naming): Naming["parts"] {
  const names: Readonly<Record<string, string>> = {
    "self_attn.q_proj": "attn_q",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_b_proj": "attn_kv_b",
  }
  const renamed = Object.entries(parts).flatMap(([name, part]) => {
    const own = typeof part === "string" ? undefined : names[part.name]
    return own === undefined ? [] : [[name, { ...(part as NamedPart), name: own }] as const]
  })
  return {
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    ...Object.fromEntries(renamed),
  }
}

/**
 * DeepSeek's latent attention. The file has what a head makes of a position's row apart for keys and values, those for
 * keys turned around, as they are multiplied with queries; and one head of keys as wide as that row.
 */
const withLatents = {
  turned: "partial_rotary_factor",
  guessesAhead: true,
  fields: deepseekFields,
  parts: (_, config) => ({
    ...latentParts(deepseekNaming(config)),
    ...keysAndValuesApart(config),
  }),
} as const satisfies Omit<GgufArchitecture, "model">

/** The same with indexers, whose parts have names of their own. Experts are V3's, also where a file does not say how they are chosen. */
const withIndexers = {
  ...withLatents,
  fields: (file, usual) => ({
    ...deepseekFields(file, usual),
    ...sigmoidExperts(file),
    topk_method: null,
    index_n_heads: file.count("attention.indexer.head_count"),
    index_head_dim: file.count("attention.indexer.key_length"),
    index_topk: file.count("attention.indexer.top_k"),
  }),
  parts: (tensors, config) => ({ ...withLatents.parts(tensors, config), ...indexerNames }),
} as const satisfies Omit<GgufArchitecture, "model">

const indexerNames = {
  "self_attn.indexer.wq_b": "indexer.attn_q_b",
  "self_attn.indexer.wk": "indexer.attn_k",
  "self_attn.indexer.k_norm": "indexer.k_norm",
  "self_attn.indexer.weights_proj": "indexer.proj",
} as const

/** GLM 5, 5.1 and 5.2, of which older files do not say which layers share: llama.cpp knows it by the context. */
const withSharedIndexers = {
  ...withIndexers,
  model: "glm_moe_dsa",
  fields: (file, usual) => {
    const own = file.keys.flagsIfThere(file.key("attention.indexer.types"))
    const isLong = file.count("context_length") >= 1 << 20
    const layers = usual.num_hidden_layers as number
    return {
      ...withIndexers.fields(file, usual),
      ...(own && {
        indexer_types: own.slice(0, layers).map((isFull) => (isFull ? "full" : "shared")),
      }),
      ...(!own && isLong && { index_topk_freq: 4, index_skip_topk_offset: 3 }),
    }
  },
  parts: (tensors, config) => ({
    ...withIndexers.parts(tensors, config),
    ...neighboursOfIndexer(config, indexerNames),
  }),
} as const satisfies GgufArchitecture

const keysAndValuesApart = ({ shapes: { heads } }: ModelConfig): Naming["parts"] => ({
  "self_attn.k_up_proj": { name: "attn_k_b", stacked: heads },
  "self_attn.v_up_proj": { name: "attn_v_b", stacked: heads },
})

/** Kimi Linear. Layers without heads of keys have the delta rule, and tensors of its own name what both kinds have alike. */
const withColumnDecays = {
  model: "kimi_linear",
  turned: "partial_rotary_factor", // which says nothing here: no head is turned
  varies: true,
  fields: (file, usual) => {
    const layers = usual.num_hidden_layers as number
    return {
      ...deepseekFields(file, usual),
      ...sigmoidExperts(file),
      norm_topk_prob: true,
      layer_types: file
        .counts("attention.head_count_kv", layers)
        .map((heads) => (heads === 0 ? "linear_attention" : "full_attention")),
      linear_num_heads: usual.num_attention_heads,
      linear_head_dim: file.count("kda.head_dim"),
      linear_conv_kernel_dim: file.count("ssm.conv_kernel"),
    }
  },
  parts: (_, config) => {
    const delta = config.blocks.find((block) => block.delta)?.delta
    const filters = ["q", "k", "v"].map((name) => [
      `linear_attn.${name}_conv`,
      { name: `ssm_conv1d_${name}`, taps: delta?.taps ?? 1 },
    ])
    return {
      ...latentParts(kimiLinearNaming(config)),
      ...keysAndValuesApart(config),
      "linear_attn.q_proj": "attn_q",
      "linear_attn.k_proj": "attn_k",
      "linear_attn.v_proj": "attn_v",
      ...Object.fromEntries(filters),
      "linear_attn.b_proj": "ssm_beta",
      "linear_attn.f_a_proj": "ssm_f_a",
      "linear_attn.f_b_proj": "ssm_f_b",
      "linear_attn.z_a_proj": "ssm_g_a",
      "linear_attn.z_b_proj": "ssm_g_b",
      "linear_attn.rates": { name: "ssm_a", bare: true, repeated: delta?.keyDim ?? 1 },
      "linear_attn.decay_bias": { name: "ssm_dt.bias", bare: true },
      "linear_attn.norm": "ssm_norm",
      "linear_attn.out_proj": "attn_output",
    }
  },
} as const satisfies GgufArchitecture

const qwen3Mixture: GgufArchitecture = {
  model: "qwen3_moe",
  fields: (file, usual) => ({ ...qwenExperts(file, usual), norm_topk_prob: true }),
}

export const ggufArchitectures: Readonly<Record<string, GgufArchitecture>> = {
  llama: {
    // Mistral's and Mixtral's files say llama; their window, where one is written, and their experts tell them apart. With
    // biases on queries, keys and values and a window in every layer it is what Qwen 2 can be.
    model: (file) => {
      if (file.factor("expert_count")) return "mixtral"
      if (!file.has("attention.sliding_window")) return "llama"
      return file.hasPart("attn_q.bias") ? "qwen2" : "mistral"
    },
    neighbours: true,
    fields: (file) => ({
      ...localExperts(file),
      use_sliding_window: true,
      max_window_layers: 0,
    }),
  },
  llama4: {
    model: "llama4_text",
    neighbours: true,
    sees: true,
    fields: llama4Fields,
    parts: () => unitWeights,
  },
  // Ollama's alone. The head tells how many of the table's rows are tokens'.
  mllama: {
    model: "mllama_text_model",
    neighbours: true,
    sees: true,
    fields: (file) => ({
      vocab_size: file.tensors.rowsOf("output.weight") ?? file.count("vocab_size"),
      cross_attention_layers:
        file.keys.countsIfThere(file.key("attention.cross_attention_layers")) ?? [],
    }),
    parts: () => ({
      ...mllamaParts,
      ...Object.fromEntries(
        ["q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"].map((name) => [
          `cross_attn.${name}`,
          `cross_attn_${name}`,
        ]),
      ),
    }),
  },
  internlm2: { model: "llama", neighbours: true },
  exaone: { model: "llama" },
  seed_oss: {
    model: "llama",
    parts: () => ({ post_attention_layernorm: "post_attention_norm" }),
  },
  mistral3: {
    model: "ministral3",
    neighbours: true,
    sees: true,
    fields: (file, { rope_theta, rope_scaling }) => ({
      rope_parameters: {
        rope_theta,
        ...(rope_scaling as object | null),
        llama_4_scaling_beta:
          file.factor("attention.temperature_scale") ?? file.factor("rope.scaling_beta"), // Ollama's name
      },
    }),
  },
  smollm3: { model: "smollm3", neighbours: true },
  qwen2: { model: "qwen2" },
  qwen3: { model: "qwen3" },
  qwen2moe: {
    model: "qwen2_moe",
    fields: (file, usual) => ({
      ...qwenExperts(file, usual),
      ...sharedExpert(file),
    }),
  },
  qwen3moe: qwen3Mixture,
  // The text models of those that see: a text's tokens have the same position in time, height and width.
  qwen2vl: { model: "qwen2" },
  qwen25vl: { model: "qwen2", sees: true }, // Ollama's name
  qwen3vl: { model: "qwen3", sees: true, fields: stackedFields },
  qwen3vlmoe: {
    ...qwen3Mixture,
    sees: true,
    fields: (file, usual) => ({
      ...qwen3Mixture.fields!(file, usual),
      ...stackedFields(file, usual),
    }),
  },
  qwen35: { model: "qwen3_5_text", ...withDelta, sees: true },
  qwen35moe: {
    model: "qwen3_5_moe_text",
    ...withDelta,
    sees: true,
    fields: (file, usual) => ({
      ...withDelta.fields(file, usual),
      ...qwenExperts(file, usual),
      ...sharedExpert(file),
    }),
  },
  qwen3next: {
    model: "qwen3_next",
    ...withDelta,
    fields: (file, usual) => ({
      ...withDelta.fields(file, usual),
      linear_value_heads_tiled: false,
      ...qwenExperts(file, usual),
      ...sharedExpert(file),
    }),
  },
  ...gemmaArchitectures,
  phi2: { model: "phi", epsilon: "layer_norm_eps", turned: "partial_rotary_factor" },
  phi3: { model: "phi3", turned: "partial_rotary_factor" },
  phimoe: {
    model: "phimoe",
    fields: (file) => ({
      ...localExperts(file),
      lm_head_bias: file.tensors.has("output.bias"),
    }),
  },
  olmo: {
    model: "olmo",
    neighbours: true,
    fields: (file) => ({ clip_qkv: file.factor("attention.clamp_kqv") }),
    parts: () => unitNorms,
  },
  olmo2: {
    model: (file) => (file.has("attention.sliding_window") ? "olmo3" : "olmo2"),
    // Here converters write a configuration's attention_factor, which is all of it, to what llama.cpp multiplies.
    fields: (file, { rope_scaling }) => {
      const attention_factor = file.numberIfThere("rope.scaling.attn_factor")
      if (!rope_scaling || attention_factor === undefined) return {}
      return { rope_scaling: { ...rope_scaling, attention_factor } }
    },
  },
  granite: {
    model: "granite",
    neighbours: true,
    fields: (file, usual) => ({ ...graniteFields(file, usual), ...addedFields(file) }),
  },
  granitemoe: {
    model: "granitemoeshared",
    neighbours: true,
    fields: (file, usual) => ({
      ...graniteFields(file, usual),
      ...localExperts(file),
      shared_intermediate_size: file.countIfThere("expert_shared_feed_forward_length") ?? 0,
    }),
  },
  // Layers without heads of keys have states.
  granitehybrid: {
    model: "granitemoehybrid",
    neighbours: true,
    varies: true,
    fields: graniteHybridFields,
    parts: (_, config) => stateTensors(config),
  },
  // Tensors are written times the multipliers.
  "falcon-h1": {
    model: "falcon_h1",
    fields: (file) => ({
      ...selectiveFields(file),
      mamba_d_ssm: file.count("ssm.inner_size"),
      mamba_rms_norm: file.hasPart("ssm_norm.weight"),
      mamba_norm_before_gate: false, // as llama.cpp has it
    }),
    parts: (_, config) => ({
      ...stateTensors(config),
      post_attention_layernorm: { name: "ffn_norm", bare: true },
    }),
  },
  // Layers whose attention or MLP has no width have none; without heads of keys a matrix stands in attention's place.
  deci: {
    model: "nemotron-nas",
    neighbours: true,
    varies: true,
    fields: (file, { num_hidden_layers: layers }) => {
      const of = (rest: string) => file.counts(rest, layers as number)
      const [heads, keys] = [of("attention.head_count"), of("attention.head_count_kv")]
      return {
        block_configs: of("feed_forward_length").map((width, i) => ({
          attention: searchedAttention(heads[i]!, keys[i]!),
          ffn: width === 0 ? { no_op: true } : { intermediate_size: width },
        })),
      }
    },
    parts: () => ({ "self_attn.plain": "attn_output" }),
  },
  mamba: withScans,
  mamba2: {
    model: "mamba2",
    fields: (file, usual) => {
      const heads = file.count("ssm.time_step_rank")
      return {
        ...stackedStates(file, usual),
        num_heads: heads,
        head_dim: file.count("ssm.inner_size") / heads,
        n_groups: file.count("ssm.group_count"),
      }
    },
    parts: (_, config) => stateTensors(config),
  },
  jamba: withScansAndExperts,
  nemotron_h: nemotronH,
  nemotron_h_moe: nemotronH,
  minicpm: {
    model: "granite",
    neighbours: true,
    // Older files do not say what their time's only models were trained with.
    fields: (file, { head_dim, hidden_size, num_hidden_layers }) => ({
      attention_multiplier: (head_dim as number) ** -0.5,
      embedding_multiplier: file.factor("embedding_scale") ?? 12,
      residual_multiplier:
        file.factor("residual_scale") ?? 1.4 * (num_hidden_layers as number) ** -0.5,
      logits_scaling: file.factor("logit_scale") ?? (hidden_size as number) / 256,
    }),
  },
  // Its files do not say what its only models were trained with.
  "kimi-linear": withColumnDecays,
  minicpm3: {
    model: "minicpm3",
    turned: "partial_rotary_factor",
    fields: (file, { head_dim, hidden_size, num_attention_heads }) => {
      const turned = file.count("rope.dimension_count")
      return {
        partial_rotary_factor: 1,
        q_lora_rank: file.countIfThere("attention.q_lora_rank") ?? null,
        kv_lora_rank: file.count("attention.kv_lora_rank"),
        qk_rope_head_dim: turned,
        qk_nope_head_dim: (head_dim as number) - turned,
        v_head_dim: (hidden_size as number) / (num_attention_heads as number),
      }
    },
    parts: (_, config) => latentParts(miniCpm3Naming(config)),
  },
  arcee: { model: "arcee", neighbours: true },
  chatglm: { model: "glm", neighbours: true, turned: "partial_rotary_factor" },
  // And GLM-OCR, which guesses ahead.
  glm4: { model: "glm4", neighbours: true, turned: "partial_rotary_factor", guessesAhead: true },
  // And GLM-4.7 Flash.
  deepseek2: {
    model: (file) =>
      file.countIfThere("expert_gating_func") === SIGMOID ? "deepseek_v3" : "deepseek_v2",
    ...withLatents,
  },
  deepseek32: { model: "deepseek_v32", ...withIndexers },
  "glm-dsa": withSharedIndexers,
  mistral4: { model: "mistral4", ...withLatents, fields: mistral4Fields },
  glm4moe: {
    model: "glm4_moe",
    turned: "partial_rotary_factor",
    guessesAhead: true,
    fields: (file) => ({
      ...sigmoidExperts(file),
      use_qk_norm: file.hasPart("attn_q_norm.weight"),
    }),
    parts: () => ({ post_attention_layernorm: "post_attention_norm" }),
  },
  lfm2: { model: "lfm2", ...withConvolutions },
  // llama.cpp normalises weights, whatever the file says.
  lfm2moe: {
    model: "lfm2_moe",
    ...withConvolutions,
    fields: (file, usual) => ({
      ...withConvolutions.fields(file, usual),
      ...lfm2Experts(file),
    }),
  },
  exaone4: { model: "exaone4", guessesAhead: true }, // of EXAONE 4.5
  "exaone-moe": {
    model: "exaone_moe",
    guessesAhead: true,
    fields: (file) => {
      const { n_routed_experts, n_shared_experts, ...routed } = sigmoidExperts(file)
      return { ...routed, num_experts: n_routed_experts, num_shared_experts: n_shared_experts }
    },
  },
  ernie4_5: {
    model: "ernie4_5",
    neighbours: true,
    fields: (_, { attention_bias }) => ({ use_bias: attention_bias }),
  },
  paddleocr: {
    model: "paddleocr_vl_text",
    fields: (_, { attention_bias }) => ({ use_bias: attention_bias }),
  },
  "ernie4_5-moe": {
    model: "ernie4_5_moe",
    neighbours: true,
    fields: (file, { attention_bias }) => ({
      use_bias: attention_bias,
      moe_num_experts: file.count("expert_count"),
      moe_k: file.count("expert_used_count"),
      moe_intermediate_size: file.count("expert_feed_forward_length"),
      moe_num_shared_experts: file.factor("expert_shared_count") ?? 0,
      moe_layer_interval: file.countIfThere("interleave_moe_layer_step") ?? 1,
      moe_layer_start_index: file.factor("leading_dense_block_count") ?? 0,
    }),
  },
  "hunyuan-dense": { model: "hunyuan_v1_dense" },
  hunyuan_vl: {
    model: "hunyuan_vl_text",
    fields: (file, { rope_scaling }) => ({
      rope_scaling: {
        ...(rope_scaling as Json | null),
        rope_type: "xdrope",
        alpha: file.numberIfThere("rope.scaling.alpha"),
      },
    }),
  },
  "hunyuan-moe": {
    model: "hunyuan_v1_moe",
    fields: (file) => ({
      num_experts: file.count("expert_count"),
      moe_topk: file.count("expert_used_count"),
      moe_intermediate_size: file.count("expert_feed_forward_length"),
      num_shared_expert: file.count("expert_shared_count"),
    }),
  },
  "command-r": {
    model: "cohere",
    ...besideEachOther,
    fields: (file) => ({
      ...besideEachOther.fields(file),
      use_qk_norm: file.hasPart("attn_q_norm.weight"),
    }),
    parts: (_, config) => {
      const { heads, kvHeads } = config.shapes
      const neighbours = neighboursOf(config)
      return {
        "self_attn.q_norm": { name: "attn_q_norm", stacked: heads, neighbours },
        "self_attn.k_norm": { name: "attn_k_norm", stacked: kvHeads, neighbours },
      }
    },
  },
  cohere2: { model: "cohere2", ...besideEachOther },
  // Shares beside a shared expert are halved, as llama.cpp has it, too.
  cohere2moe: {
    model: "cohere2_moe",
    neighbours: true,
    guessesAhead: true,
    fields: (file, { intermediate_size }) => ({
      ...besideEachOther.fields(file),
      layer_norm_eps: file.numberIfThere("attention.layer_norm_epsilon"),
      num_experts: file.count("expert_count"),
      num_experts_per_tok: file.count("expert_used_count"),
      expert_selection_fn: gatingOf(file),
      norm_topk_prob: file.keys.flag(file.key("expert_weights_norm"), false),
      num_shared_experts: file.countIfThere("expert_shared_count") ?? 0,
      intermediate_size: file.count("expert_feed_forward_length"),
      prefix_dense_intermediate_size: intermediate_size,
      first_k_dense_replace: file.count("leading_dense_block_count"),
    }),
  },
  apertus: {
    model: "apertus",
    fields: () => ({ hidden_act: "xielu" }),
    parts: (_, { shapes: { layers } }, file) => {
      const learned = (name: string, plus = 0) => ({
        name,
        constants: ofEachLayer(file, `xielu.${name}`, layers).map((x) => log(1 + exp(x)) + plus),
      })
      const betas = ofEachLayer(file, "xielu.beta", layers)
      const odd = betas.find((beta) => beta !== XIELU_BETA)
      if (odd !== undefined)
        throw file.keys.wrong("xielu.beta", `is ${odd}; only ${XIELU_BETA} is known`)
      return {
        "mlp.act_fn.alpha_p": learned("alpha_p"),
        "mlp.act_fn.alpha_n": learned("alpha_n", XIELU_BETA),
      }
    },
  },
  jais2: { model: "jais2", epsilon: "layer_norm_eps" },
  granite_swa: {
    model: (file) => (file.factor("expert_count") ? "granitemoe_swa" : "granite_swa"),
    neighbours: true,
    fields: (file, usual) => ({
      ...graniteFields(file, usual),
      ...localExperts(file),
      shared_intermediate_size: file.countIfThere("expert_shared_feed_forward_length") ?? 0,
      layer_rope_theta: file.keys
        .flagsIfThere(file.key("attention.rope_pattern"))
        ?.map((isTurned) => (isTurned ? usual.rope_theta : 0)),
    }),
    parts: (_, { blocks: [block] }) => {
      const width = block!.experts?.shared?.intermediate ?? 0
      const { gate, up } = joinedRows({ gate: width, up: width })
      return {
        "self_attn.sinks": "attn_sinks",
        "mlp.shared_expert.gate_proj": { name: "ffn_up_shexp", rows: gate },
        "mlp.shared_expert.up_proj": { name: "ffn_up_shexp", rows: up },
      }
    },
  },
  mellum: {
    model: "mellum",
    fields: (file, usual) => {
      if (usual.rope_scaling)
        throw file.wrong("rope.scaling.type", "stretches, and which layers a file does not say")
      const theta = usual.rope_theta
      return {
        ...qwenExperts(file, usual),
        norm_topk_prob: true,
        layer_types: usual.layer_types ?? allOf("full_attention", usual),
        rope_parameters: {
          full_attention: { rope_theta: theta },
          sliding_attention: { rope_theta: file.numberIfThere("rope.freq_base_swa") ?? theta },
        },
      }
    },
  },
  afmoe: {
    model: "afmoe",
    fields: (file) => {
      const { n_routed_experts, n_shared_experts, first_k_dense_replace, ...routed } =
        sigmoidExperts(file)
      return {
        num_experts: n_routed_experts,
        num_shared_experts: n_shared_experts,
        num_dense_layers: first_k_dense_replace,
        ...routed,
        mup_enabled: true, // as llama.cpp has it
      }
    },
    parts: () => ({ "self_attn.gate_proj": "attn_gate" }),
  },
  "muse-glimmer": {
    model: "muse_glimmer_text",
    neighbours: true,
    fields: museGlimmerFields,
    parts: () => ({ "self_attn.gate_proj": "attn_gate", ...unitParts("embed_norm") }),
  },
  // The layers of the fast stack, then those of the slow one; `block_count` is how often layers are passed in all.
  hrm_text: {
    model: "hrm_text",
    fields: (file) => ({
      num_layers_per_stack: file.count("hrm.layers_per_stack"),
      H_cycles: file.count("hrm.h_cycles"),
      L_cycles: file.count("hrm.l_cycles"),
      embedding_scale: file.numberIfThere("embedding_scale"),
    }),
    parts: () => ({
      ...hrmTextParts,
      "self_attn.gate_proj": "attn_gate",
      fast_row: { name: "hrm.z_l_init", bare: true },
    }),
  },
  laguna: {
    model: "laguna",
    turned: "partial_rotary_factor",
    varies: true,
    fields: lagunaFields,
    parts: () => ({ "self_attn.gate_proj": "attn_gate" }),
  },
  mimo2: {
    model: "mimo_v2_flash",
    turned: "partial_rotary_factor",
    varies: true,
    guessesAhead: true,
    fields: mimoFields,
    parts: () => ({ "self_attn.sinks": "attn_sinks" }),
  },
  step35: {
    model: "step3p5",
    varies: true,
    guessesAhead: true,
    fields: stepFields,
    parts: () => ({ "self_attn.gate_proj": "attn_gate" }),
  },
  // Layers without a router are dense.
  hy_v3: {
    model: "hy_v3",
    guessesAhead: true,
    fields: hunyuan3Fields,
    parts: () => ({ "mlp.gate.e_score_correction_bias": "exp_probs_b" }),
  },
  olmoe: {
    model: "olmoe",
    fields: (file) => ({
      num_experts: file.count("expert_count"),
      num_experts_per_tok: file.count("expert_used_count"),
    }),
  },
  "minimax-m2": {
    model: "minimax_m2",
    turned: "partial_rotary_factor",
    fields: (file) => ({
      ...localExperts(file),
      intermediate_size: file.count("expert_feed_forward_length"),
    }),
  },
  dots1: { model: "dots1", fields: sigmoidExperts },
  bailingmoe: {
    model: "bailing_moe",
    neighbours: true,
    turned: "partial_rotary_factor",
    fields: (file) => ({
      ...routedExperts(file),
      ...denseLayers(file),
      norm_topk_prob: file.keys.flag(file.key("expert_weights_norm"), false),
    }),
  },
  bailingmoe2: {
    model: "bailing_moe",
    turned: "partial_rotary_factor",
    guessesAhead: true,
    fields: (file) => ({
      ...sigmoidExperts(file),
      moe_router_enable_expert_bias: true,
      moe_shared_expert_intermediate_size: file.count("expert_shared_feed_forward_length"),
      use_qk_norm: true,
    }),
  },
  starcoder2: {
    model: "starcoder2",
    epsilon: "norm_epsilon",
    fields: (_, { attention_bias }) => ({ use_bias: attention_bias }),
  },
  stablelm: {
    model: "stablelm",
    epsilon: "layer_norm_eps",
    turned: "partial_rotary_factor",
    fields: (file, { attention_bias }) => ({
      use_parallel_residual: !file.hasPart("ffn_norm.weight"),
      use_qkv_bias: attention_bias,
      qk_layernorm: file.hasPart("attn_q_norm.weight"),
    }),
  },
  gptneox: {
    model: "gpt_neox",
    epsilon: "layer_norm_eps",
    turned: "rotary_pct",
    fields: (file, { rope_theta }) => ({
      rotary_emb_base: rope_theta,
      use_parallel_residual: file.keys.flag(file.key("use_parallel_residual"), true),
    }),
  },
  "gpt-oss": {
    model: "gpt_oss",
    // A file cannot say how its ramps end; the model's are not rounded.
    fields: (file, { rope_scaling }) => ({
      ...localExperts(file),
      intermediate_size: file.count("expert_feed_forward_length"),
      rope_scaling: rope_scaling && { ...(rope_scaling as object), truncate: false },
    }),
    parts: () => ({
      post_attention_layernorm: "post_attention_norm",
      "self_attn.sinks": "attn_sinks",
    }),
  },
  gpt2: { model: "gpt2", epsilon: "layer_norm_epsilon", fields: (_, usual) => gpt2Fields(usual) },
  starcoder: {
    model: "gpt_bigcode",
    epsilon: "layer_norm_epsilon",
    fields: (_, usual) => ({ ...gpt2Fields(usual), multi_query: usual.num_key_value_heads === 1 }),
  },
  // Scores lose by distance.
  bloom: {
    model: "bloom",
    epsilon: "layer_norm_epsilon",
    fields: (_, usual) => ({
      n_layer: usual.num_hidden_layers,
      n_head: usual.num_attention_heads,
      seq_length: usual.max_position_embeddings,
    }),
    parts: (_, config) => ({ embed_norm: "token_embd_norm", ...slopedBiases(config) }),
  },
  dbrx: {
    model: "dbrx",
    epsilon: "layer_norm_epsilon",
    fields: (file, usual) => ({
      d_model: usual.hidden_size,
      n_layers: usual.num_hidden_layers,
      n_heads: usual.num_attention_heads,
      max_seq_len: usual.max_position_embeddings,
      attn_config: {
        kv_n_heads: usual.num_key_value_heads,
        rope_theta: usual.rope_theta,
        clip_qkv: file.factor("attention.clamp_kqv") ?? null,
      },
      ffn_config: {
        ffn_hidden_size: usual.intermediate_size,
        moe_num_experts: file.count("expert_count"),
        moe_top_k: file.count("expert_used_count"),
      },
    }),
    parts: () => ({ post_attention_layernorm: "attn_output_norm" }),
  },
  mpt: {
    model: "mpt",
    epsilon: "layer_norm_epsilon",
    fields: mptFields,
    parts: (_, config) => slopedBiases(config),
  },
  falcon: {
    model: "falcon",
    epsilon: "layer_norm_epsilon",
    fields: (file, { num_key_value_heads, intermediate_size, attention_bias }) => ({
      new_decoder_architecture: true, // as many heads of keys as the file says
      num_kv_heads: num_key_value_heads,
      num_ln_in_parallel_attn: file.hasPart("attn_norm_2.weight") ? 2 : 1,
      ffn_hidden_size: intermediate_size,
      bias: attention_bias,
    }),
    // With two norms the first one's name is the MLP's.
    parts: ({ has }) =>
      has("blk.0.attn_norm_2.weight")
        ? { input_layernorm: "attn_norm_2", post_attention_layernorm: "attn_norm" }
        : {},
  },
  nemotron: { model: "nemotron", epsilon: "norm_eps", turned: "partial_rotary_factor" },
  // Encoders. RoBERTa's positions are written from the first that a text has, so it is a BERT with other texts.
  bert: {
    model: "bert",
    epsilon: "layer_norm_eps",
    fields: encoderFields,
    parts: sumsParts,
  },
  "nomic-bert": {
    model: "nomic_bert",
    epsilon: "layer_norm_eps",
    fields: encoderFields,
    parts: sumsParts,
  },
  // Converters leave out the row beside what experts make.
  "nomic-bert-moe": {
    model: "nomic_bert",
    epsilon: "layer_norm_eps",
    fields: (file) => ({
      ...encoderFields(file),
      moe_every_n_layers: file.count("moe_every_n_layers"),
      num_experts: file.count("expert_count"),
      moe_top_k: file.count("expert_used_count"),
    }),
    parts: (tensors) => ({
      ...sumsParts(tensors),
      ...addendParts({ name: "experts_row", constant: 0 }),
    }),
  },
  "jina-bert-v2": {
    model: "bert",
    epsilon: "layer_norm_eps",
    fields: (file) => {
      for (const name of ["attn_q_norm.weight", "attn_norm_2.weight"])
        if (file.hasPart(name))
          throw file.wrong("block_count", `counts layers with ${name}, as Jina's for code have`)
      return { ...encoderFields(file), position_embedding_type: "alibi" }
    },
    parts: (tensors, config) => ({ ...sumsParts(tensors), ...slopedBiases(config) }),
  },
  "jina-bert-v3": {
    model: "jina_embeddings_v3",
    epsilon: "layer_norm_eps",
    fields: encoderFields,
    parts: sumsParts,
  },
  eurobert: { model: "eurobert", fields: encoderFields },
  "modern-bert": {
    model: "modernbert",
    epsilon: "norm_eps",
    fields: (file, usual) => ({
      ...encoderFields(file),
      layer_types: undefined, // every n-th layer sees everything, from the first on
      global_attn_every_n_layers: file.countIfThere("attention.sliding_window_pattern") ?? 3,
      local_attention: file.count("attention.sliding_window"),
      global_rope_theta: usual.rope_theta,
      local_rope_theta: file.numberIfThere("rope.freq_base_swa") ?? 10000,
      hidden_activation: file.keys.textIfThere(file.key("hidden_activation")) ?? "gelu",
    }),
    parts: () => ({ embed_norm: "token_embd_norm" }),
  },
}

function gpt2Fields(usual: Json): Json {
  return {
    n_embd: usual.hidden_size,
    n_layer: usual.num_hidden_layers,
    n_head: usual.num_attention_heads,
    n_positions: usual.max_position_embeddings,
    n_inner: usual.intermediate_size,
  }
}

function mptFields(file: GgufFile, usual: Json): Json {
  for (const name of ["attn_qkv.bias", "attn_q_norm.weight"])
    if (file.hasPart(name))
      throw file.wrong("block_count", `counts layers with ${name}, of which MPT is known without`)
  if (file.tensors.has("position_embd.weight"))
    throw file.wrong("context_length", "is of learned positions, which MPT is known without")
  return {
    d_model: usual.hidden_size,
    n_layers: usual.num_hidden_layers,
    n_heads: usual.num_attention_heads,
    max_seq_len: usual.max_position_embeddings,
    attn_config: {
      alibi: (file.factor("attention.max_alibi_bias") ?? 0) > 0,
      alibi_bias_max: file.factor("attention.max_alibi_bias") ?? null,
      clip_qkv: file.factor("attention.clamp_kqv") ?? null,
    },
  }
}

function encoderFields(file: GgufFile): Json {
  if (file.keys.flag(file.key("attention.causal"), true))
    throw file.wrong("attention.causal", "is true; only encoders are known of this architecture")
  return {}
}

/** Norms are of the sums behind attention and MLP, and a token's type is added to the tokens, of which DistilBERT has none. */
function sumsParts({ has }: Pick<Tensors, "has">): Naming["parts"] {
  const typed = has("token_types.weight") && { plusRow: { tensor: "token_types", row: 0 } }
  return {
    embed_tokens: { name: "token_embd", ...typed },
    embed_norm: "token_embd_norm",
    "attention.sum_norm": "attn_output_norm",
    "mlp.sum_norm": "layer_output_norm",
  }
}

/** What llama.cpp takes for granted, too: of 128 experts is the one model without norms on heads. Widths may have Ollama's first names. */
function llama4Fields(file: GgufFile, { intermediate_size, num_hidden_layers }: Json): Json {
  const experts = file.factor("expert_count")
  const seesAll = file.countIfThere("attention.sliding_window") === 0
  const ofAll = (what: unknown) => Array<unknown>(num_hidden_layers as number).fill(what)
  return {
    intermediate_size_mlp: file.countIfThere("intermediate_size") ?? intermediate_size,
    layer_types: undefined, // chunks in those that are turned
    ...(seesAll && { layer_types: ofAll("full_attention"), no_rope_layers: ofAll(1) }),
    interleave_moe_layer_step: file.factor("interleave_moe_layer_step") ?? 0,
    use_qk_norm: file.keys.flag(file.key("use_qk_norm"), experts !== 128), // Ollama's files say it
    ...(experts !== undefined && {
      ...localExperts(file),
      intermediate_size:
        file.countIfThere("intermediate_size_moe") ?? file.count("expert_feed_forward_length"),
    }),
  }
}

function graniteFields(file: GgufFile, { head_dim }: Json): Json {
  return {
    attention_multiplier: file.factor("attention.scale") ?? (head_dim as number) ** -0.5,
    embedding_multiplier: file.factor("embedding_scale"),
    residual_multiplier: file.factor("residual_scale"),
    logits_scaling: file.factor("logit_scale"),
  }
}

/** Of what Granite 4 Vision sees, before which layer each part behind the first is added: words of our own. */
function addedFields(file: GgufFile): Json {
  const all = file.keys.numbersIfThere(file.key("deepstack_mapping"))
  if (!all) return {}
  const parts = all.filter((part) => part >= 0)
  const targets = parts.map((_, number) => all.indexOf(1 + number))
  if (targets.includes(-1))
    throw file.wrong("deepstack_mapping", `is [${all.join(", ")}], which leaves parts out`)
  return { deepstack_targets: targets, deepstack_layers: targets.length }
}

function graniteHybridFields(file: GgufFile, usual: Json): Json {
  const { intermediate_size } = usual
  const layers = file.count("block_count")
  const hasExperts = (file.countIfThere("expert_count") ?? 0) > 0
  return {
    ...graniteFields(file, usual),
    ...(hasExperts ? localExperts(file) : { num_local_experts: 0 }),
    shared_intermediate_size: hasExperts
      ? file.count("expert_shared_feed_forward_length")
      : intermediate_size,
    layer_types: file
      .counts("attention.head_count_kv", layers)
      .map((heads) => (heads === 0 ? "mamba" : "attention")),
    position_embedding_type: file.keys.flag(file.key("rope.scaling.finetuned"), true)
      ? "rope"
      : "nope",
    mamba_expand: expansionOf(file),
    ...selectiveFields(file),
  }
}

/** How many times as wide as a row states are. */
function expansionOf(file: GgufFile): number {
  const [width, hidden] = [file.count("ssm.inner_size"), file.count("embedding_length")]
  if (width % hidden === 0) return width / hidden
  throw file.wrong("ssm.inner_size", `is ${width}, no multiple of ${hidden} columns`)
}

/** Of layers that are nothing but states. */
function stackedStates(file: GgufFile, { num_hidden_layers, rms_norm_eps }: Json): Json {
  return {
    intermediate_size: file.count("ssm.inner_size"),
    expand: expansionOf(file),
    state_size: file.count("ssm.state_size"),
    conv_kernel: file.count("ssm.conv_kernel"),
    use_conv_bias: hasInSome(file, num_hidden_layers as number, "ssm_conv1d.bias"),
    layer_norm_epsilon: rms_norm_eps,
  }
}

/** Where those of states by number lie. */
function scanTensors({ blocks }: ModelConfig): Naming["parts"] {
  const scan = blocks.find((block) => block.scan)?.scan
  if (!scan) return {}
  const { columns, stateDim, taps } = scan
  return {
    ...scanProjections(columns, "ssm_in"),
    "mamba.x_proj": "ssm_x",
    "mamba.steps_proj": "ssm_dt",
    "mamba.conv": { name: "ssm_conv1d", taps },
    "mamba.conv.bias": "ssm_conv1d.bias",
    "mamba.rates": { name: "ssm_a", bare: true, shape: [columns, stateDim] },
    "mamba.skip": { name: "ssm_d", bare: true },
    "mamba.out_proj": "ssm_out",
  }
}

/** Of selective state spaces, by Granite's names. */
function selectiveFields(file: GgufFile): Json {
  return {
    mamba_n_heads: file.count("ssm.time_step_rank"),
    mamba_n_groups: file.count("ssm.group_count"),
    mamba_d_state: file.count("ssm.state_size"),
    mamba_d_conv: file.count("ssm.conv_kernel"),
    mamba_conv_bias: hasInSome(file, file.count("block_count"), "ssm_conv1d.bias"),
  }
}

/** Where those of selective state spaces lie. */
function stateTensors({ blocks }: ModelConfig): Naming["parts"] {
  const selective = blocks.find((block) => block.selective)?.selective
  return {
    ...(selective && {
      ...selectiveProjections(selective, "ssm_in"),
      "mamba.conv": { name: "ssm_conv1d", taps: selective.taps },
    }),
    "mamba.conv.bias": "ssm_conv1d.bias",
    "mamba.decay": { name: "ssm_a", bare: true, exponential: true },
    "mamba.decay_bias": { name: "ssm_dt.bias", bare: true },
    "mamba.skip": { name: "ssm_d", bare: true },
    "mamba.norm": "ssm_norm",
    "mamba.out_proj": "ssm_out",
  }
}

function searchedAttention(heads: number, keys: number): Json {
  if (keys > 0) return { n_heads_in_group: heads / keys }
  return heads > 0 ? { replace_with_linear: true } : { no_op: true }
}

function nemotronHFields(file: GgufFile, { num_hidden_layers, rms_norm_eps }: Json): Json {
  const layers = num_hidden_layers as number
  const hasExperts = (file.countIfThere("expert_count") ?? 0) > 0
  const [heads, width] = [file.count("ssm.time_step_rank"), file.count("ssm.inner_size")]
  if (width % heads !== 0)
    throw file.wrong("ssm.inner_size", `is ${width}, no multiple of ${heads} heads`)
  const some = (name: string) => hasInSome(file, layers, name)
  return {
    layer_norm_epsilon: rms_norm_eps ?? file.numberIfThere("attention.layer_norm_epsilon"),
    layer_types: Array.from({ length: layers }, (_, layer) => {
      const has = (name: string) => file.tensors.has(`blk.${layer}.${name}.weight`)
      if (has("ssm_in")) return "mamba"
      return has("attn_output") ? "attention" : has("ffn_gate_inp") ? "moe" : "mlp"
    }),
    attention_bias: some("attn_q.bias"),
    attention_out_bias: some("attn_output.bias"),
    mlp_bias: some("ffn_down.bias"),
    mamba_num_heads: heads,
    mamba_head_dim: width / heads,
    n_groups: file.count("ssm.group_count"),
    ssm_state_size: file.count("ssm.state_size"),
    conv_kernel: file.count("ssm.conv_kernel"),
    use_conv_bias: some("ssm_conv1d.bias"),
    ...(hasExperts && {
      ...sigmoidRouted(file),
      moe_shared_expert_intermediate_size: file.count("expert_shared_feed_forward_length"),
      moe_latent_size: file.factor("moe_latent_size") ?? null,
    }),
  }
}

/** Whether some layer has the tensor. */
const hasInSome = (file: GgufFile, layers: number, name: string) =>
  Array.from({ length: layers }, (_, layer) => layer).some((layer) =>
    file.tensors.has(`blk.${layer}.${name}`),
  )

/** Numbers, one for each layer. */
function ofEachLayer({ keys }: GgufFile, key: string, layers: number): readonly number[] {
  const listed = keys.numbersIfThere(key)
  if (listed?.length === layers) return listed
  throw keys.wrong(key, `has ${listed?.length ?? "no"} numbers for ${layers} layers`)
}

const allOf = (what: string, { num_hidden_layers }: Json) =>
  Array<string>(num_hidden_layers as number).fill(what)

/** A dense MLP is where there is no router. */
function hunyuan3Fields(file: GgufFile, { num_hidden_layers: layers }: Json): Json {
  refuseSoftmax(file)
  const intermediate = file.count("expert_feed_forward_length")
  const shared = file.count("expert_shared_feed_forward_length")
  if (shared % intermediate !== 0)
    throw file.wrong(
      "expert_shared_feed_forward_length",
      `is ${shared}, no multiple of an expert's ${intermediate}`,
    )
  return {
    num_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: intermediate,
    num_shared_experts: shared / intermediate,
    router_scaling_factor: file.factor("expert_weights_scale") ?? 1,
    norm_topk_prob: file.keys.flag(file.key("expert_weights_norm"), false),
    mlp_layer_types: Array.from({ length: layers as number }, (_, layer) =>
      file.tensors.has(`blk.${layer}.ffn_gate_inp.weight`) ? "sparse" : "dense",
    ),
  }
}

/** How many rows a gate has says whether it is of heads or of columns. Of four layers three have the window, where there is one. */
function lagunaFields(file: GgufFile, usual: Json): Json {
  refuseSoftmax(file)
  const { num_hidden_layers, head_dim, rope_theta, rope_scaling } = usual
  const layers = num_hidden_layers as number
  const heads = file.counts("attention.head_count", layers)
  const dense = file.count("leading_dense_block_count")
  const slides = (layer: number) => usual.sliding_window !== null && layer % 4 !== 0
  const turned = file.countIfThere("rope.dimension_count_swa") ?? (head_dim as number)
  const ofAll = <T>(of: (layer: number) => T) => Array.from({ length: layers }, (_, i) => of(i))
  if (!file.keys.flag(file.key("expert_weights_norm"), false))
    throw file.wrong("expert_weights_norm", "is false; known: shares that are normalised")
  return {
    gating: file.tensors.rowsOf("blk.0.attn_gate.weight") === heads[0] ? "per-head" : "per-element",
    num_attention_heads_per_layer: heads,
    layer_types:
      usual.layer_types ??
      ofAll((layer) => (slides(layer) ? "sliding_attention" : "full_attention")),
    mlp_layer_types: ofAll((layer) => (layer < dense ? "dense" : "sparse")),
    num_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    ...sharedExpert(file),
    moe_routed_scaling_factor: file.factor("expert_weights_scale") ?? 1,
    rope_scaling: null,
    rope_parameters: {
      full_attention: {
        rope_theta,
        ...(rope_scaling as object | null),
        partial_rotary_factor: usual.partial_rotary_factor,
      },
      sliding_attention: {
        rope_theta: file.numberIfThere("rope.freq_base_swa") ?? rope_theta,
        partial_rotary_factor: Math.min(1, (turned + 0.5) / (head_dim as number)),
      },
    },
  }
}

/**
 * Layers without a router are dense. Of those that see everything a file says how heads are stretched, and that half of each is turned goes
 * without saying; of its divisors, one for each pair of a whole head, the first ones count.
 */
function stepFields(file: GgufFile, usual: Json): Json {
  refuseSoftmax(file)
  const { num_hidden_layers, head_dim, rope_theta, rope_scaling } = usual
  const [layers, headDim] = [num_hidden_layers as number, head_dim as number]
  const types = usual.layer_types as string[] | undefined
  const heads = file.counts("attention.head_count", layers)
  const kvHeads = file.counts("attention.head_count_kv", layers)
  const [full, sliding] = ["full_attention", "sliding_attention"].map((type) =>
    Math.max(0, types?.indexOf(type) ?? 0),
  ) as [number, number]
  const alike = (layer: number) => (types?.[layer] === "sliding_attention" ? sliding : full)
  const odd = heads.findIndex((count, i) => {
    const kind = alike(i)
    return count !== heads[kind] || kvHeads[i] !== kvHeads[kind]
  })
  if (odd >= 0)
    throw file.wrong(
      "attention.head_count",
      `says ${heads[odd]} of layer ${odd}, and ${heads[alike(odd)]} of another that sees as far`,
    )
  const limits = (rest: string) => file.keys.numbersIfThere(file.key(rest))?.slice(0, layers)
  return {
    num_attention_heads: heads[full],
    num_key_value_heads: kvHeads[full],
    attention_other_setting: {
      num_attention_heads: heads[sliding],
      num_attention_groups: kvHeads[sliding],
    },
    use_head_wise_attn_gate: file.hasPart("attn_gate.weight"),
    moe_layers_enum: Array.from({ length: layers }, (_, i) => i).filter((layer) =>
      file.tensors.has(`blk.${layer}.ffn_gate_inp.weight`),
    ),
    n_routed_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    share_expert_dim: file.count("expert_shared_feed_forward_length"),
    norm_expert_weight: file.keys.flag(file.key("expert_weights_norm"), false),
    moe_router_scaling_factor: file.factor("expert_weights_scale") ?? 1,
    use_moe_router_bias: hasInSome(file, layers, "exp_probs_b.bias"),
    swiglu_limits: limits("swiglu_clamp_exp"),
    swiglu_limits_shared: limits("swiglu_clamp_shexp"),
    rope_scaling: null,
    rope_parameters: {
      full_attention: {
        rope_theta,
        ...cutDivisors(rope_scaling as Json | null, Math.floor(headDim / 4)),
        partial_rotary_factor: 0.5,
      },
      sliding_attention: { rope_theta: file.numberIfThere("rope.freq_base_swa") ?? rope_theta },
    },
  }
}

/** The first so many of each list. */
function cutDivisors(scaling: Json | null, pairs: number): Json {
  const cut = Object.entries(scaling ?? {}).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.slice(0, pairs) : value,
  ])
  return Object.fromEntries(cut)
}

/**
 * Layers without a router are dense, and those with sinks are of one kind. A window is written as the configuration has it, whose makers
 * count the positions before a token's own; llama.cpp counts that, too.
 */
function mimoFields(file: GgufFile, usual: Json): Json {
  const layers = usual.num_hidden_layers as number
  const kvHeads = file.counts("attention.head_count_kv", layers)
  const types = usual.layer_types as string[] | undefined
  const [full, sliding] = ["full_attention", "sliding_attention"].map((type) =>
    Math.max(0, types?.indexOf(type) ?? 0),
  ) as [number, number]
  const has = (layer: number, name: string) => file.tensors.has(`blk.${layer}.${name}.weight`)
  const odd = kvHeads.findIndex((count, i) => {
    const alike = types?.[i] === "sliding_attention" ? sliding : full
    return count !== kvHeads[alike] || has(i, "attn_sinks") !== has(alike, "attn_sinks")
  })
  if (odd >= 0)
    throw file.wrong(
      "attention.head_count_kv",
      `says ${kvHeads[odd]} of layer ${odd}, which differs from others that see as far`,
    )
  refuseSoftmax(file)
  return {
    n_routed_experts: file.count("expert_count"),
    num_experts_per_tok: file.count("expert_used_count"),
    moe_intermediate_size: file.count("expert_feed_forward_length"),
    routed_scaling_factor: file.factor("expert_weights_scale") ?? 1,
    n_group: file.factor("expert_group_count") ?? 1,
    topk_group: file.factor("expert_group_used_count") ?? 1,
    num_key_value_heads: kvHeads[full],
    swa_num_key_value_heads: kvHeads[sliding],
    v_head_dim: file.countIfThere("attention.value_length"),
    attention_value_scale: file.factor("attention.value_scale") ?? null,
    add_full_attention_sink_bias: has(full, "attn_sinks"),
    add_swa_attention_sink_bias: has(sliding, "attn_sinks"),
    sliding_window_size: file.countIfThere("attention.sliding_window"),
    swa_rope_theta: file.numberIfThere("rope.freq_base_swa") ?? usual.rope_theta,
    moe_layer_freq: Array.from({ length: layers }, (_, i) => Number(has(i, "ffn_gate_inp"))),
  }
}

/** Mistral Small 4's queries grow by what a file says nothing of. */
function mistral4Fields(file: GgufFile, usual: Json): Json {
  const { rope_scaling, ...fields } = deepseekFields(file, usual)
  return {
    ...fields,
    ...routedExperts(file),
    ...denseLayers(file),
    norm_topk_prob: file.keys.flag(file.key("expert_weights_norm"), false),
    partial_rotary_factor: null, // the turned columns are
    rope_scaling: null,
    rope_parameters: {
      rope_theta: usual.rope_theta,
      ...(rope_scaling as object | null),
      llama_4_scaling_beta: file.factor("attention.temperature_scale") ?? 0.1,
    },
  }
}

function deepseekFields(file: GgufFile, usual: Json): Json {
  const turned = file.count("rope.dimension_count")
  const width = file.count("attention.key_length_mla")
  const scaling = usual.rope_scaling as Json | null
  const stretch = 10 * (file.factor("rope.scaling.yarn_log_multiplier") ?? 0) // the file has a tenth of it
  file.countIfThere("attention.value_length") // as wide as what is remembered, or a head of what nobody reads
  return {
    num_key_value_heads: usual.num_attention_heads,
    head_dim: width,
    partial_rotary_factor: 1,
    q_lora_rank: file.countIfThere("attention.q_lora_rank") ?? null,
    kv_lora_rank: file.count("attention.kv_lora_rank"),
    qk_nope_head_dim: width - turned,
    qk_rope_head_dim: turned,
    v_head_dim: file.count("attention.value_length_mla"),
    rope_scaling: scaling && { ...scaling, mscale: stretch, mscale_all_dim: stretch },
    ...(file.factor("expert_count") ? deepseekExperts(file) : {}),
  }
}

/**
 * Behind how many of its first layers rows of images are added that layers of the tower left: a word of our own. Ollama's files name
 * those layers, and may leave out which pairs turn by what, as it is the same in all that were published.
 */
function stackedFields(file: GgufFile, { rope_scaling }: Json): Json {
  const layers = file.keys.countsIfThere(file.key("vision.deepstack_visual_indexes"))
  return {
    rope_scaling: {
      rope_type: "default",
      mrope_section: [24, 20, 20],
      ...(rope_scaling as Json | null),
    },
    deepstack_layers: file.countIfThere("n_deepstack_layers") ?? layers?.length,
  }
}

function deltaFields(file: GgufFile, { num_hidden_layers: layers }: Json): Json {
  const listed = file.keys.flagsIfThere(file.key("attention.recurrent_layers"))
  const interval = file.countIfThere("full_attention_interval") ?? 4
  // By Ollama's converter layers that remember have no heads of keys.
  const kvHeads = file.keys.countsIfThere(file.key("attention.head_count_kv"))
  const remembers = (layer: number) =>
    listed?.[layer] ?? (kvHeads ? kvHeads[layer] === 0 : (layer + 1) % interval !== 0)
  const [heads, values] = [file.count("ssm.time_step_rank"), file.count("ssm.inner_size")]
  if (values % heads !== 0)
    throw file.wrong("ssm.inner_size", `is ${values}, no multiple of ${heads} heads`)
  return {
    layer_types: Array.from({ length: layers as number }, (_, layer) =>
      remembers(layer) ? "linear_attention" : "full_attention",
    ),
    linear_conv_kernel_dim: file.count("ssm.conv_kernel"),
    linear_num_key_heads: file.count("ssm.group_count"),
    linear_key_head_dim: file.count("ssm.state_size"),
    linear_num_value_heads: heads,
    linear_value_head_dim: values / heads,
    linear_value_heads_tiled: file.keys.flag(file.key("ssm.v_head_reordered"), true), // Ollama's
  }
}

const parts: Naming["parts"] = {
  embed_tokens: "token_embd",
  embed_positions: "position_embd",
  norm: "output_norm",
  lm_head: "output",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.output_norm": "post_attention_norm",
  "mlp.output_norm": "post_ffw_norm",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "self_attn.o_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "mlp.gate": "ffn_gate_inp",
  "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
  "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
  "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
  "mlp.shared_expert.up_proj": "ffn_up_shexp",
  "mlp.shared_expert.down_proj": "ffn_down_shexp",
}

/** What queries are multiplied with is in their norm's weights; layers that see everything are not turned. */
function museGlimmerFields(file: GgufFile, { rope_theta, layer_types }: Json): Json {
  const theta = file.numberIfThere("rope.freq_base_swa") ?? rope_theta
  const types = layer_types as string[] | undefined
  return {
    qk_scale_factor: 1,
    layer_rope_theta: types?.map((type) => (type === "sliding_attention" ? theta : 0)),
    output_multiplier: file.numberIfThere("logit_scale"),
    final_logit_softcapping: file.numberIfThere("final_logit_softcapping"),
  }
}

/** Each projection of all experts is one tensor. Any architecture's gates and ups may be joined: first an expert's gate. */
function expertParts(
  { blocks, shapes: { hidden } }: ModelConfig,
  { has }: Pick<Tensors, "has">,
): Naming["parts"] {
  const first = blocks.findIndex(({ experts }) => experts)
  if (first < 0) return {}
  const { experts, mlp } = blocks[first]!
  const { count } = experts!
  const { intermediate } = mlp
  const made = experts!.latent ?? hidden
  const names = { gateUp: "ffn_gate_up_exps", down: "ffn_down_exps" }
  if (has(`blk.${first}.${names.gateUp}.weight`))
    return stackedExperts({ count, intermediate, hidden: made }, names)
  const part = (name: string, run: number): Part => ({
    name,
    stacked: count,
    rows: { of: count * run, from: 0, run, every: run },
  })
  return {
    "mlp.experts.*.gate_proj": part("ffn_gate_exps", intermediate),
    "mlp.experts.*.up_proj": part("ffn_up_exps", intermediate),
    "mlp.experts.*.down_proj": part(names.down, made),
  }
}

/** Of a layer behind the last one, which guesses ahead. */
const aheadParts: Naming["parts"] = {
  enorm: "nextn.enorm",
  hnorm: "nextn.hnorm",
  eh_proj: "nextn.eh_proj",
  "shared_head.norm": "nextn.shared_head_norm",
  "shared_head.head": "nextn.shared_head_head",
  final_layernorm: "layer_output_norm",
}

/** Where the tensors lie. Any architecture's queries, keys and values may be joined, and gate and up. */
export function ggufNaming(
  architecture: GgufArchitecture,
  config: ModelConfig,
  file: GgufFile,
): Naming {
  const { tensors } = file
  const { heads, kvHeads, headDim } = config.shapes
  const { gated, intermediate } = config.blocks[0]!.mlp
  const order = architecture.neighbours ? { neighbours: neighboursOf(config) } : {}
  const kv = kvHeads * headDim
  const { q, k, v } = joinedRows({ q: heads * headDim, k: kv, v: kv })
  const joined = tensors.has("blk.0.attn_qkv.weight")
  const projection = (name: string, rows: typeof q): Exclude<Part, string> =>
    joined ? { name: "attn_qkv", rows } : { name }
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  const together =
    gated && tensors.has("blk.0.ffn_up.weight") && !tensors.has("blk.0.ffn_gate.weight")
  return {
    roots: [{ root: "", head: "" }],
    layers: "blk.",
    parts: {
      ...parts,
      "self_attn.q_proj": { ...projection("attn_q", q), ...order },
      "self_attn.k_proj": { ...projection("attn_k", k), ...order },
      "self_attn.v_proj": projection("attn_v", v),
      ...(together
        ? {
            "mlp.gate_proj": { name: "ffn_up", rows: gate },
            "mlp.up_proj": { name: "ffn_up", rows: up },
          }
        : {}),
      ...expertParts(config, tensors),
      ...(architecture.guessesAhead && aheadParts),
      ...architecture.parts?.(tensors, config, file),
    },
  }
}
