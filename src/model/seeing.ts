// Of which architecture a configuration is. Of models that also see or hear the text model inside is served: which those may be,
// and how their configuration, which lies within the other, is read. Where the folder keeps its weights names.ts knows.
// Sources: configuration_*.py of transformers. Its outer classes of Aya and Command leave `logit_scale` out, which the text model
// has; here it holds.

import { type ArchitectureName, architectures } from "./architectures.ts"
import type { Fields } from "./fields.ts"
import type { Json } from "./folder.ts"

interface Seeing {
  /** Which published models are of it. */
  models: string
  /** What the text model inside of `text_config` may be: where it is one of several it says which, or is the first. */
  texts: readonly [ArchitectureName, ...ArchitectureName[]]
  /** What holds where it is not said, other than of that architecture by itself. */
  absent?: Json
  /** Of which of them a published version is: such a model has the fields of its text model outside. */
  versions?: Readonly<Record<string, ArchitectureName>>
  /** Under which other names. */
  called?: Readonly<Record<string, ArchitectureName>>
  /** Whether the head is the embedding where that is not said outside. */
  tied?: true
}

const GRANITE_DOCLING = {
  vocab_size: 133800,
  hidden_size: 1024,
  intermediate_size: 2048,
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  max_position_embeddings: 32768,
  rms_norm_eps: 1e-5,
  embedding_multiplier: 12,
  logits_scaling: 4,
  residual_multiplier: 0.263,
  attention_multiplier: 0.015625,
}

const QWEN3_ASR = {
  hidden_size: 2048,
  intermediate_size: 6144,
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  head_dim: 128,
  max_position_embeddings: 65536,
}

const QWEN2_5_OMNI = {
  vocab_size: 152064,
  hidden_size: 3584,
  intermediate_size: 18944,
  num_hidden_layers: 28,
  num_attention_heads: 28,
  num_key_value_heads: 4,
  rope_theta: 1e6,
}

/** Qwen 2's have the fields of their text model outside, as they were published. */
export const seeing: Readonly<Record<string, Seeing>> = {
  aya_vision: { models: "Aya Vision", texts: ["cohere2", "cohere"], tied: true },
  apertus1p5: { models: "Apertus 1.5 8B", texts: ["apertus1p5_text"] },
  audioflamingo3: { models: "Audio Flamingo 3", texts: ["qwen2"] },
  cohere2_vision: { models: "Command A Vision", texts: ["cohere2"], tied: true },
  cohere_compass: { models: "North Micro Vision", texts: ["cohere_compass_text"] },
  deepseek_vl: { models: "DeepSeek VL 1.3B", texts: ["llama"], tied: true },
  deepseek_vl_hybrid: { models: "DeepSeek VL 7B", texts: ["llama"], tied: true },
  embedding_gemma2: { models: "EmbeddingGemma 2", texts: ["embedding_gemma2_text"], tied: true },
  exaone4_5: { models: "EXAONE 4.5", texts: ["exaone4"] },
  fast_vlm: { models: "FastVLM", texts: ["qwen2"] },
  gemma3: { models: "Gemma 3, 4B to 27B", texts: ["gemma3_text"], tied: true },
  gemma3n: { models: "Gemma 3n", texts: ["gemma3n_text"], tied: true },
  gemma4: { models: "Gemma 4", texts: ["gemma4_text"], tied: true },
  gemma4_unified: {
    models: "Gemma 4 12B",
    texts: ["gemma4_text"],
    tied: true,
    absent: {
      hidden_size_per_layer_input: 0,
      sliding_window: 1024,
      max_position_embeddings: 262144,
      use_bidirectional_attention: "vision",
    },
  },
  glm4v: { models: "GLM-4.1V 9B", texts: ["glm4"], absent: { attention_bias: true } },
  glm4v_moe: {
    models: "GLM-4.5V, GLM-4.6V",
    texts: ["glm4_moe"],
    absent: { attention_bias: true },
  },
  glm46v: {
    models: "GLM-4.6V",
    texts: ["glm4", "glm4_moe"],
    called: { glm4v_text: "glm4", glm4v_moe_text: "glm4_moe" },
    absent: { attention_bias: true },
  },
  glm_ocr: {
    models: "GLM-OCR",
    texts: ["glm4"],
    absent: { attention_bias: false, partial_rotary_factor: 1 },
  },
  glmasr: {
    models: "GLM-ASR Nano",
    texts: ["llama"],
    tied: true,
    absent: {
      vocab_size: 59264,
      hidden_size: 2048,
      intermediate_size: 6144,
      num_hidden_layers: 28,
      num_attention_heads: 16,
      num_key_value_heads: 4,
      max_position_embeddings: 8192,
      rms_norm_eps: 1e-5,
    },
  },
  granite4_vision: {
    models: "Granite 4 Vision",
    texts: ["granite"],
    called: { granite4_vision_text: "granite" },
  },
  granite_docling: {
    models: "granite-for-docling 500M",
    texts: ["granite"],
    called: { granite_docling_text: "granite" },
    absent: GRANITE_DOCLING,
    tied: true,
  },
  granite_speech: { models: "Granite Speech", texts: ["granite"], tied: true },
  granite_speech_plus: { models: "Granite Speech Plus", texts: ["granite"], tied: true },
  hunyuan_vl: { models: "HunyuanOCR", texts: ["hunyuan_vl_text"], tied: true },
  idefics3: { models: "Idefics 3", texts: ["llama"] },
  internvl: {
    models: "InternVL 3 and 3.5, as transformers has them (`-hf`)",
    texts: ["qwen2", "qwen3", "qwen3_moe", "gpt_oss"],
    tied: true,
  },
  janus: { models: "Janus Pro", texts: ["llama"], tied: true },
  kimi_k25: { models: "Kimi K2.5", texts: ["deepseek_v3", "kimi_k2"], tied: true },
  kimi_vl: { models: "Kimi VL", texts: ["deepseek_v3"] },
  lfm2_vl: { models: "LFM2-VL and LFM2.5-VL", texts: ["lfm2"], tied: true },
  lfm3_vl: { models: "LFM3-VL", texts: ["lfm3"], tied: true },
  lighton_ocr: { models: "LightOnOCR 1B and 2 1B", texts: ["qwen3"], tied: true },
  llama4: { models: "Llama 4", texts: ["llama4_text"] },
  llava: { models: "LLaVA 1.5, Pixtral 12B", texts: ["llama", "mistral", "qwen2"] },
  llava_next: {
    models: "LLaVA 1.6, Granite Vision 3",
    texts: ["llama", "mistral", "qwen2", "granite"],
  },
  llava_next_video: { models: "LLaVA NeXT Video", texts: ["llama", "mistral", "qwen2"] },
  llava_onevision: { models: "LLaVA OneVision", texts: ["qwen2"] },
  minicpmv: {
    models: "MiniCPM-V 2.6, 4.0 and 4.5",
    texts: ["qwen2", "llama", "qwen3"],
    versions: { "2.6": "qwen2", "4": "llama", "4.5": "qwen3" },
  },
  minicpm_ocr: { models: "MiniCPM-OCR", texts: ["qwen3_5_text"], tied: true },
  minicpmv4_6: { models: "MiniCPM-V 4.6", texts: ["qwen3_5_text"] },
  minicpmv4_7: { models: "MiniCPM-V 4.7", texts: ["qwen3_5_text"] },
  mllama: { models: "Llama 3.2 Vision", texts: ["mllama_text_model"] },
  mistral3: {
    models: "Mistral Small from 3.1 on, Ministral 3",
    texts: ["mistral", "ministral3", "mistral4"],
    tied: true,
  },
  muse_glimmer: { models: "Muse Glimmer 30B", texts: ["muse_glimmer_text"] },
  ovis2: { models: "Ovis 2", texts: ["qwen2"], tied: true },
  paddleocr_vl: { models: "PaddleOCR-VL", texts: ["paddleocr_vl_text"], tied: true },
  paligemma: {
    models: "PaliGemma and PaliGemma 2",
    texts: ["gemma", "gemma2"],
    absent: { max_position_embeddings: 8192 },
    tied: true,
  },
  perception_lm: { models: "Perception LM", texts: ["llama"] },
  qianfan_ocr: { models: "Qianfan-OCR", texts: ["qwen3"] },
  qwen2_audio: { models: "Qwen 2 Audio", texts: ["qwen2"] },
  qwen2_vl: { models: "Qwen 2 VL", texts: ["qwen2"] },
  qwen2_5_vl: { models: "Qwen 2.5 VL", texts: ["qwen2"] },
  qwen2_5_omni: { models: "Qwen 2.5 Omni", texts: ["qwen2"], absent: QWEN2_5_OMNI },
  qwen2_5_omni_thinker: {
    models: "Qwen 2.5 Omni's thinker alone",
    texts: ["qwen2"],
    absent: QWEN2_5_OMNI,
  },
  qwen3_asr: {
    models: "Qwen 3 ASR 0.6B and 1.7B",
    texts: ["qwen3"],
    tied: true,
    absent: QWEN3_ASR,
  },
  qwen3_omni_moe: {
    models: "Qwen 3 Omni 30B-A3B",
    texts: ["qwen3_moe"],
    absent: { norm_topk_prob: true, rope_theta: 1e6 },
  },
  qwen3_omni_moe_thinker: {
    models: "Qwen 3 Omni's thinker alone",
    texts: ["qwen3_moe"],
    absent: { norm_topk_prob: true, rope_theta: 1e6 },
  },
  qwen3_vl: { models: "Qwen 3 VL, dense", texts: ["qwen3"] },
  qwen3_vl_moe: {
    models: "Qwen 3 VL 30B-A3B and 235B-A22B",
    texts: ["qwen3_moe"],
    absent: { norm_topk_prob: true },
  },
  qwen3_5: { models: "Qwen 3.5 and 3.6, dense", texts: ["qwen3_5_text"] },
  qwen3_5_moe: { models: "Qwen 3.5 and 3.6 35B-A3B and larger", texts: ["qwen3_5_moe_text"] },
  step3p7: { models: "Step 3.7 Flash", texts: ["step3p5"] },
  smolvlm: { models: "SmolVLM and SmolVLM2", texts: ["llama"] },
  video_llama_3: { models: "VideoLLaMA 3", texts: ["qwen2"] },
  video_llava: { models: "Video-LLaVA", texts: ["llama"] },
  vipllava: { models: "ViP-LLaVA", texts: ["llama"] },
  voxtral: {
    models: "Voxtral Mini and Small",
    texts: ["llama"],
    absent: {
      vocab_size: 131072,
      hidden_size: 3072,
      intermediate_size: 8192,
      num_hidden_layers: 30,
      num_key_value_heads: 8,
      max_position_embeddings: 131072,
      rms_norm_eps: 1e-5,
      rope_theta: 1e8,
      head_dim: 128,
    },
  },
}

/** What configurations of LLaVA and its kin leave out of `text_config`, since transformers takes it for granted. */
const sizes: Partial<Record<ArchitectureName, Json>> = {
  llama: {
    hidden_size: 4096,
    intermediate_size: 11008,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    vocab_size: 32000,
  },
  mistral: {
    hidden_size: 4096,
    intermediate_size: 14336,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    vocab_size: 32000,
  },
}

/** Where Qwen's makers keep what listens and thinks, beside what might speak, and what stands before its tensors. */
export const THINKER = "thinker_config"
export const THINKING = "thinker."

/** The fields of a config.json; what lies inside of a thinker's stands outside here, too. */
export function wholeFields(fields: Fields): Fields {
  return fields.withThoseOf(THINKER)
}

/** What is published without its text model. */
const halves: Readonly<Record<string, string>> = {
  ultravox:
    'is "ultravox", whose text model lies elsewhere; serve the GGUF file of that one with the mmproj file beside it (docs/audio.md)',
}

/** @throws where `model_type` is not known */
export function architectureOf(fields: Fields): ArchitectureName {
  const name = fields.text("model_type")
  if (Object.hasOwn(architectures, name)) return name as ArchitectureName
  if (Object.hasOwn(seeing, name)) return textOf(fields, seeing[name]!)
  if (Object.hasOwn(halves, name)) throw fields.wrong("model_type", halves[name]!)
  throw fields.wrong(
    "model_type",
    `is "${name}", which is not known; docs/models.md lists the ${Object.keys(architectures).length} that are`,
  )
}

/** Which text model is inside. */
function textOf(fields: Fields, { texts, versions, called = {} }: Seeing): ArchitectureName {
  if (versions) {
    const version = `${fields.positive("version")}`
    if (Object.hasOwn(versions, version)) return versions[version]!
    throw fields.wrong(
      "version",
      `is ${version}; known: ${Object.keys(versions).sort().join(", ")}`,
    )
  }
  const inner = fields.object("text_config")
  if (texts.length === 1 || !inner) return texts[0]
  const given = inner.text("model_type", texts[0])
  const name = Object.hasOwn(called, given) ? called[given] : given
  const known = texts.find((text) => text === name)
  if (known) return known
  throw inner.wrong(
    "model_type",
    `is "${given}"; known: ${[...texts, ...Object.keys(called)].join(", ")}`,
  )
}

const TIE = "tie_word_embeddings"

/** What may stand outside of `text_config` alone. */
const OUTSIDE = ["eos_token_id", "bos_token_id"]

/** The fields of the text model: all there are, or those inside of `text_config`. */
export function textFields(fields: Fields): Fields {
  const inner = fields.object("text_config")
  if (!inner) return fields
  const outside = OUTSIDE.flatMap((name) => (fields.has(name) ? [[name, fields.json[name]]] : []))
  const row = seeing[fields.text("model_type")]
  const unsaid = row && { ...sizes[textOf(fields, row)], ...row.absent }
  return inner
    .without(TIE)
    .with({ ...unsaid, ...tying(fields, inner, row?.tied), ...Object.fromEntries(outside) })
}

/**
 * What is said outside, or its default, holds, as in transformers 5, which reads what is inside of Qwen 2's alone, where it was
 * written before: a head that is there is the head all the same (own-head.ts), and without one only the embedding can be it.
 */
function tying(fields: Fields, inner: Fields, otherwise: boolean | undefined): Json {
  const outside = fields.has(TIE) ? fields.flag(TIE, false) : otherwise
  const isTied = inner.flag(TIE, false) || outside
  return isTied === undefined ? {} : { [TIE]: isTied }
}
