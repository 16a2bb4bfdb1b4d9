// What Gemma 4 hears with, as llama.cpp's converter writes it, in the words of a config.json: a conformer (`gemma4a`), or of 12B a matrix
// over samples (`gemma4ua`). Most sizes are those of tensors. What such a file does not say is as it was published: how many rows a row
// sees, where scores and rows are cut off, what halves of MLPs are multiplied with. What norms add, some files say wrongly
// (tools/mtmd/clip.cpp there), and so nobody asks them.

import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import type { Beside, ClipFile } from "../gguf/clip-file.ts"
import { boundParts, GEMMA4 } from "../vision/gemma4.ts"
import type { Naming } from "../weights/names.ts"
import type { ConformerConfig } from "./conformer.ts"
import { GEMMA4_UNIFIED } from "./gemma4-unified.ts"

/** What the projector type of such files is. */
export const CONFORMER = "gemma4a"
export const SAMPLES = "gemma4ua"

/** Tokens that the vocabulary has, the soft one first. */
const AROUND = ["<|audio|>", "<|audio>", "<audio|>"] as const

const LAST = "mm.a.input_projection.weight"

/** @throws where it belongs to another model */
function wholeOf(
  file: ClipFile,
  beside: Beside,
  own: { model_type: string; audio_config: Json },
): Fields {
  file.checkTokens(AROUND, "recordings", beside)
  file.checkWidth({ tensor: LAST, dim: 1 }, beside)
  const audio_token_id = beside.readTokenIds()(AROUND[0])
  return file.words({ ...own, audio_token_id, text_config: { model_type: "gemma4_text" } })
}

/** @throws where it belongs to another model, or is broken */
export const samplesFields = (file: ClipFile, beside: Beside): Fields =>
  wholeOf(file, beside, {
    model_type: GEMMA4_UNIFIED,
    audio_config: { audio_embed_dim: file.made(LAST, file.dims(LAST)[0]) },
  })

export const samplesNaming: Naming = {
  roots: [{ root: "mm.a.", head: "mm.a." }],
  layers: "blk.",
  parts: {
    linear_1: "input_projection",
    projector_norm: { name: "projector_norm", constant: 1 },
  },
}

/** Tensors by whose shapes sizes are known. */
const CHANNELS = "a.conv1d.0.weight"
const TAPS = "a.blk.0.conv_dw.weight"
const OUTPUT = "a.pre_encode.out.weight"

/** @throws where it belongs to another model, or is broken */
export function conformerFields(file: ClipFile, beside: Beside): Fields {
  const channels = [0, 1].map((index) => file.dims(`a.conv1d.${index}.weight`)[3] ?? 0)
  const bands = file.countIfThere("num_mel_bins") ?? channels[0]!
  if (bands !== channels[0])
    throw file.wrong(
      "num_mel_bins",
      `is ${bands}; only ${channels[0]} is known, as many as channels`,
    )
  const audio_config = {
    hidden_size: file.counted("embedding_length"),
    num_hidden_layers: file.said("block_count", file.layers()),
    num_attention_heads: file.counted("attention.head_count"),
    subsampling_conv_channels: file.made(CHANNELS, channels),
    conv_kernel_size: file.made(TAPS, file.dims(TAPS)[0]),
    output_proj_dims: file.made(OUTPUT, file.dims(OUTPUT)[1]),
    use_clipped_linears: file.has("a.blk.0.attn_q.input_max"),
  }
  return wholeOf(file, beside, { model_type: GEMMA4, audio_config })
}

const MATRICES = {
  "feed_forward1.ffw_layer_1": "ffn_up",
  "feed_forward1.ffw_layer_2": "ffn_down",
  "feed_forward2.ffw_layer_1": "ffn_up_1",
  "feed_forward2.ffw_layer_2": "ffn_down_1",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.post": "attn_out",
  "lconv1d.linear_start": "conv_pw1",
  "lconv1d.linear_end": "conv_pw2",
}

export function conformerNaming({ channels, taps, bounded }: ConformerConfig): Naming {
  const [first, second] = channels
  const subsampling = "subsample_conv_projection"
  return {
    roots: [{ root: "a.", head: "mm.a." }],
    layers: "blk.",
    parts: {
      ...MATRICES,
      ...(bounded && boundParts(MATRICES)),
      [`${subsampling}.layer0.conv`]: { name: "conv1d.0", shape: [first, 1, 3, 3] },
      [`${subsampling}.layer0.norm`]: "conv1d.0.norm",
      [`${subsampling}.layer1.conv`]: { name: "conv1d.1", shape: [second, first, 3, 3] },
      [`${subsampling}.layer1.norm`]: "conv1d.1.norm",
      [`${subsampling}.input_proj_linear`]: "input_projection",
      output_proj: "pre_encode.out",
      "feed_forward1.pre_layer_norm": "ffn_norm",
      "feed_forward1.post_layer_norm": "ffn_post_norm",
      "feed_forward2.pre_layer_norm": "ffn_norm_1",
      "feed_forward2.post_layer_norm": "ffn_post_norm_1",
      norm_pre_attn: "attn_pre_norm",
      norm_post_attn: "attn_post_norm",
      norm_out: "ln2",
      "self_attn.relative_k_proj": "attn_k_rel",
      "self_attn.per_dim_scale": "per_dim_scale", // its softplus is stored
      "lconv1d.pre_layer_norm": "conv_norm", // the two are named for each other's place
      "lconv1d.conv_norm": "norm_conv",
      "lconv1d.depthwise_conv1d": { name: "conv_dw", taps },
      linear_1: "input_projection",
      projector_norm: { name: "projector_norm", constant: 1 },
    },
  }
}
