// What Gemma 3n hears with: a conformer like Gemma 4's, whose convolutions look ahead and are normed by all there has been (cumulative.ts). Of
// its rows one in four comes out, and of every recording as many: behind its own stand those of a token that means nothing, and a last one is
// that of the token that ends it. Tokens of recordings have no rows in the text model's table and are none of its prompts here: all rows stand
// in the place of the token for padding.
//
// Source: configuration_gemma3n.py, modeling_gemma3n.py, feature_extraction_gemma3n.py and processing_gemma3n.py of transformers.

import type { EndedProcessing, Spectrum } from "../../audio/audio.ts"
import { endingRows } from "../../audio/ended.ts"
import { RATE } from "../../audio/features.ts"
import { JOINED, rowsIn } from "../../audio/subsampled.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { textFields } from "../seeing.ts"
import type { Naming } from "../weights/names.ts"
import type { ConformerConfig } from "./conformer.ts"
import type { Cumulative } from "./cumulative.ts"
import type { AudioFiles } from "./families.ts"
import { headsIn, spectrumOf } from "./gemma4.ts"

const GEMMA3N = "gemma3n"
const TOWER = "gemma3n_audio"
const SECONDS = 30 // of which transformers leaves the end out of what is longer

/** Where `audio_config` says nothing. */
const ABSENT = {
  vocab_size: 128,
  vocab_offset: 262272,
  input_feat_size: 128,
  hidden_size: 1536,
  rms_norm_eps: 1e-6,
  gradient_clipping: 1e10,
  conf_attention_chunk_size: 12,
  conf_attention_context_left: 13,
  conf_attention_context_right: 0,
  conf_attention_logit_cap: 50,
  conf_num_attention_heads: 8,
  conf_num_hidden_layers: 12,
  conf_conv_kernel_size: 5,
  conf_reduction_factor: 4,
  conf_residual_weight: 0.5,
  sscp_conv_channel_size: [128, 32],
  sscp_conv_group_norm_eps: 1e-3,
}

/** Whether recordings are read of models of that `model_type`. */
export const isGemma3n = (type: string) => type === GEMMA3N

function audioOf(fields: Fields): Fields | undefined {
  if (!isGemma3n(fields.text("model_type"))) return undefined
  const audio = fields.object("audio_config")
  return audio?.text("model_type", TOWER) === TOWER ? audio.with(ABSENT) : undefined
}

const MAX_LAYERS = 1000
const MAX_TAPS = 64
const MAX_BANDS = 512
const MAX_WINDOW = 256
const MAX_EVERY = 64

/**
 * @param text the model inside
 * @returns nothing where there is no tower, or none that is known
 */
export function readGemma3nHearing(fields: Fields, text: ModelConfig): ConformerConfig | undefined {
  const audio = audioOf(fields)
  if (!audio) return undefined
  const width = audio.count("hidden_size")
  const heads = headsIn(audio, "conf_num_attention_heads", width)
  const bands = bandsOf(audio)
  const channels = channelsOf(audio)
  const epsilon = audio.positive("rms_norm_eps")
  const norm = { kind: "rms", bias: false, epsilon } as const
  const { vocabulary, hidden } = text.shapes
  const taps = audio.count("conf_conv_kernel_size", undefined, 1, MAX_TAPS)
  return {
    architecture: TOWER,
    bands,
    channels,
    rows: rowsIn(SECONDS * RATE, usualSpectrum) + endingRows,
    width,
    layers: audio.count("conf_num_hidden_layers", undefined, 1, MAX_LAYERS),
    heads,
    headDim: width / heads,
    window: windowOf(audio),
    cap: audio.positive("conf_attention_logit_cap"),
    plainKeys: true,
    taps,
    activation: "silu",
    residual: audio.finite("conf_residual_weight"),
    most: audio.positive("gradient_clipping"),
    epsilon,
    cumulative: {
      epsilon: audio.positive("sscp_conv_group_norm_eps"),
      learned: learnedOf(fields, audio),
      norm,
    },
    projector: {
      norm: undefined,
      inner: undefined,
      bias: false,
      last: norm,
      width: hidden,
      factor: 1 / text.embedding.factor, // the text model multiplies the rows of tokens, and not these
    },
    softToken: textFields(fields).count("pad_token_id", 0, 0, vocabulary - 1),
    instead: 0,
    naming: namingOf(channels, taps),
  }
}

/** Halves of frames are halves of bands, too, twice. */
function bandsOf(audio: Fields): number {
  const bands = audio.count("input_feat_size", undefined, 4, MAX_BANDS)
  if (bands % 4 !== 0)
    throw audio.wrong("input_feat_size", `is ${bands}, which is no multiple of 4`)
  return bands
}

/** Of both convolutions, of three frames and bands each, which leave out every other one. */
function channelsOf(audio: Fields): readonly [number, number] {
  for (const [name, is] of Object.entries({ sscp_conv_kernel_size: 3, sscp_conv_stride_size: 2 })) {
    const told = JSON.stringify(audio.json[name])
    const known = JSON.stringify([0, 1].map(() => [is, is]))
    if (audio.has(name) && told !== known)
      throw audio.wrong(name, `is ${told}; only ${known} is known`)
  }
  const channels = audio.counts("sscp_conv_channel_size")
  const [first = 0, second = 0] = channels
  if (channels.length === 2 && first > 0 && second > 0) return [first, second]
  throw audio.wrong("sscp_conv_channel_size", "is not two counts")
}

/** Rows are cut in chunks, and whatever these are, a row sees so many, itself included. */
function windowOf(audio: Fields): number {
  const right = audio.count("conf_attention_context_right", undefined, 0)
  if (right > 0) throw audio.wrong("conf_attention_context_right", `is ${right}; only 0 is known`)
  return audio.count("conf_attention_context_left", undefined, 2, MAX_WINDOW)
}

/** Tokens of recordings are counted behind those of texts and images; the last of all fills up. */
function learnedOf(fields: Fields, audio: Fields): Cumulative["learned"] {
  const of = audio.count("vocab_size")
  const first = audio.count("vocab_offset", undefined, 0)
  const rowOf = (token: number, holder: Fields, name: string) => {
    if (token >= first && token < first + of) return token - first
    throw holder.wrong(
      name,
      `makes ${token} a token of recordings, for which audio_config has no row`,
    )
  }
  const text = textFields(fields)
  return {
    of,
    filling: rowOf(text.count("vocab_size", 262400) - 1, text, "vocab_size"),
    ending: rowOf(fields.count("eoa_token_id", 262272), fields, "eoa_token_id"),
  }
}

function namingOf([first, second]: readonly [number, number], taps: number): Naming {
  const subsampling = "subsample_conv_projection"
  const filters = (index: number, shape: readonly number[]): Naming["parts"] => ({
    [`${subsampling}.layer${index}.conv`]: { name: `${subsampling}.conv_${index}.conv`, shape },
    [`${subsampling}.layer${index}.norm`]: `${subsampling}.conv_${index}.norm`,
  })
  const half = (own: string, name: string) =>
    ["pre_layer_norm", "ffw_layer_1", "ffw_layer_2", "post_layer_norm"].map((part) => [
      `${own}.${part}`,
      `${name}.${part}`,
    ])
  return {
    roots: ["model.", ""].map((root) => ({
      root: `${root}audio_tower.`,
      head: `${root}embed_audio.`,
    })),
    layers: "conformer.",
    parts: {
      embed_tokens: `${subsampling}.input_proj_linear`, // by which the tower is found
      ...filters(0, [first, 1, 3, 3]),
      ...filters(1, [second, first, 3, 3]),
      ...Object.fromEntries(half("feed_forward1", "ffw_layer_start")),
      ...Object.fromEntries(half("feed_forward2", "ffw_layer_end")),
      norm_pre_attn: "attention.pre_attn_norm",
      norm_post_attn: "attention.post_norm",
      norm_out: "norm",
      ...Object.fromEntries(
        ["q_proj", "k_proj", "v_proj"].map((name) => [
          `self_attn.${name}`,
          `attention.attn.${name}`,
        ]),
      ),
      "self_attn.post": "attention.post",
      "self_attn.relative_k_proj": "attention.attn.relative_position_embedding.pos_proj",
      "self_attn.per_dim_scale": {
        name: "attention.attn.per_dim_scale",
        bare: true,
        softplus: true,
      },
      "lconv1d.depthwise_conv1d": { name: "lconv1d.depthwise_conv1d", taps },
      linear_1: "embedding_projection",
      learned: "embedding",
      learned_norm: "hard_embedding_norm",
      projector_norm: "soft_embedding_norm",
      last_norm: { name: "last_norm", constant: 1 },
    },
  }
}

/** What transformers' extractor does where nothing is said. */
const usualSpectrum: Spectrum = {
  length: 512,
  hop: 160,
  transform: 1024,
  low: 125,
  high: 7600,
  emphasis: { by: 0.97, isHtk: true },
  scale: 1,
  floor: 1e-5,
  isLeast: true,
  filled: 128,
}

export function readGemma3nAudio(
  fields: Fields,
  { extractor, processor, tokens }: AudioFiles,
): EndedProcessing {
  const audio = audioOf(fields)!
  const bands = bandsOf(audio)
  const every = audio.count("conf_reduction_factor", undefined, 1, MAX_EVERY)
  const most = Math.ceil(rowsIn(SECONDS * RATE, usualSpectrum) / every)
  const filled = fields.count("audio_soft_tokens_per_image", 188, 1, most)
  const told = processor.count("audio_seq_length", 188)
  if (told !== filled)
    throw processor.wrong(
      "audio_seq_length",
      `is ${told}; audio_soft_tokens_per_image is ${filled}`,
    )
  if (extractor.text("padding_side", "right") !== "right")
    throw extractor.wrong(
      "padding_side",
      "is another than right, which alone is known of this model",
    )
  return {
    bands,
    cutting: "ended",
    every,
    filled,
    most: Math.min(SECONDS, (filled * every * JOINED * usualSpectrum.hop) / RATE),
    spectrum: spectrumOf(extractor, bands, usualSpectrum),
    mark: tokens.text("audio_token", "<audio_soft_token>"),
    soft: tokens.text("pad_token", "<pad>"),
    before: `\n\n${tokens.text("boa_token", "<start_of_audio>")}`,
    after: "\n\n",
  }
}
