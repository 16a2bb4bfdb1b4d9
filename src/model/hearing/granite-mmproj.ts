// What Granite Speech hears with, as llama.cpp's converter writes it, in the words of a config.json. Sizes are those of keys and tensors; what such
// a file does not say is as it was published: what a projector's MLPs are activated by, exact gelu, and what its norms add.
//
// Keys and tensors: conversion/granite.py and tools/mtmd/clip.cpp of llama.cpp.

import type { Fields } from "../fields.ts"
import type { Beside, ClipFile } from "../gguf/clip-file.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { GraniteConfig } from "./granite-tower.ts"

/** What the projector type of such files is. */
export const GRANITE = "granite_speech"

const SOFT = "<|audio|>"

/** @throws where it belongs to another model, or is broken */
export function graniteFields(file: ClipFile, beside: Beside): Fields {
  file.checkTokens([SOFT], "recordings", beside)
  file.checkWidth({ tensor: "a.proj_linear.weight", dim: 1 }, beside)
  const width = file.count("embedding_length")
  const heads = file.count("attention.head_count")
  const rows = (tensor: string) => file.dims(tensor)[1] ?? 0
  const layers = projectorLayers(file)
  const sees = (layer: number) => file.has(`a.proj_blk.${layer}.cross_attn_q.weight`)
  const next = Array.from({ length: layers }, (_, layer) => layer).find((n) => n > 0 && sees(n))
  const left = file.keys.has(FED)
    ? { cat_hidden_layers: file.said(LEFT, file.keys.numbersIfThere(FED)) }
    : {}
  const shown = (tensor: string, of: (rows: number) => number = (rows) => rows) =>
    file.made(tensor, of(rows(tensor)))
  return file.words({
    model_type: GRANITE,
    encoder_config: {
      input_dim: file.counted("num_mel_bins"),
      num_layers: file.said("block_count", file.layers()),
      hidden_dim: file.said("embedding_length", width),
      feedforward_mult: file.made(WIDER, file.count("feed_forward_length") / width),
      num_heads: file.said("attention.head_count", heads),
      dim_head: shown("a.blk.0.attn_q.weight", (rows) => rows / heads),
      output_dim: shown("a.enc_ctc_out.weight"),
      context_size: file.counted("chunk_size"),
      max_pos_emb: file.counted("max_pos_emb"),
      conv_kernel_size: file.counted("conv_kernel_size"),
      conv_expansion_factor: shown("a.blk.0.conv_dw.weight", (rows) => rows / width),
      ...left,
    },
    projector_config: {
      hidden_size: file.made("a.proj_query", file.dims("a.proj_query")[0]),
      num_hidden_layers: layers,
      num_attention_heads: file.counted("projector.head_count"),
      intermediate_size: shown("a.proj_blk.0.ffn_up.weight"),
      cross_attention_frequency: next ?? layers,
    },
    window_size: file.counted("projector.window_size"),
    downsample_rate: file.counted("projector.downsample_rate"),
    audio_token_id: beside.readTokenIds()(SOFT),
    text_config: beside.text.json,
  })
}

const WIDER = "clip.audio.feed_forward_length"
const LEFT = "feature_layer"
const FED = `clip.audio.${LEFT}`

function projectorLayers(file: ClipFile): number {
  let layers = 0
  while (file.has(`a.proj_blk.${layers}.self_attn_q.weight`)) layers++
  return layers
}

const MATRICES = {
  input_linear: "input_projection",
  embed_tokens: "input_projection",
  out: "enc_ctc_out",
  out_mid: "enc_ctc_out_mid",
  "ff1.pre_norm": "ffn_norm",
  "ff1.up_proj": "ffn_up",
  "ff1.down_proj": "ffn_down",
  "ff2.pre_norm": "ffn_norm_1",
  "ff2.up_proj": "ffn_up_1",
  "ff2.down_proj": "ffn_down_1",
  "attn.pre_norm": "ln1",
  "attn.to_q": "attn_q",
  "attn.to_k": "attn_k",
  "attn.to_v": "attn_v",
  "attn.to_out": "attn_out",
  "conv.norm": "norm_conv",
  "conv.up_conv": "conv_pw1",
  "conv.down_conv": "conv_pw2",
  post_norm: "ln2",
  "qformer.layernorm": "proj_norm",
  linear: "proj_linear",
}

const LAYER = {
  "intermediate_query.dense": "ffn_up",
  "output_query.dense": "ffn_down",
  "output_query.LayerNorm": "ffn_norm",
  ...attentionNames("attention", "self_attn"),
  ...attentionNames("crossattention", "cross_attn"),
}

function attentionNames(from: string, to: string): Record<string, string> {
  return {
    [`${from}.attention.query`]: `${to}_q`,
    [`${from}.attention.key`]: `${to}_k`,
    [`${from}.attention.value`]: `${to}_v`,
    [`${from}.output.dense`]: `${to}_out`,
    [`${from}.output.LayerNorm`]: `${to}_norm`,
  }
}

export function graniteNaming(
  file: ClipFile,
  { taps, asked, projector: { layers, width } }: GraniteConfig,
): Naming {
  const ofLayer = (layer: number): [string, Part][] =>
    Object.entries(LAYER).map(([from, to]) => [
      `qformer.encoder.layer.${layer}.${from}`,
      `proj_blk.${layer}.${to}`,
    ])
  return {
    roots: [{ root: "a.", head: "a." }],
    layers: "blk.",
    parts: {
      ...MATRICES,
      ...Object.fromEntries(Array.from({ length: layers }, (_, layer) => ofLayer(layer)).flat()),
      "attn.rel_pos_emb": { name: "attn_rel_pos_emb", bare: true },
      "conv.depth_conv.conv": { name: "conv_dw", taps },
      // Some converters write a norm's factor under the name of its variance.
      "conv.batch_norm": file.has("a.blk.0.conv_norm.weight") ? "conv_norm" : "conv_norm_var",
      query: { name: "proj_query", bare: true, shape: [1, asked, width] },
    },
  }
}
