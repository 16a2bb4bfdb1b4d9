// Whisper's decoder. The rows that its encoder makes of a window of 30 seconds are the first positions of every prompt, and the decoder's
// tokens stand behind them. A layer has two attentions, each with keys and values of its own: one over the tokens and one over the rows.
//
// The first sees from the last multiple of a window on (`chunked`), and the window is so chosen that rows end where one begins and all
// tokens fit into the one behind: so tokens see tokens alone, and their KV group keeps no more than a window. What layers make of the
// rows themselves nobody reads. Source: modeling_whisper.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

/** Of LayerNorms, which no configuration says. */
const EPSILON = 1e-5

/** What configurations leave out, since transformers takes it for granted. */
export const WHISPER = {
  vocab_size: 51865,
  num_mel_bins: 80,
  d_model: 384,
  encoder_layers: 4,
  encoder_attention_heads: 6,
  encoder_ffn_dim: 1536,
  decoder_layers: 4,
  decoder_attention_heads: 6,
  decoder_ffn_dim: 1536,
}

export function readWhisper(given: Fields): ModelConfig {
  const fields = given.with(WHISPER)
  if (fields.flag("scale_embedding", false))
    throw fields.wrong("scale_embedding", "is true; only false is known")
  const rows = fields.count("max_source_positions", 1500)
  const tokens = fields.count("max_target_positions", 448)
  const config = readDecoder(
    fields.over({ max_position_embeddings: rows + tokens, layer_norm_eps: EPSILON }),
    {
      names: {
        hidden: "d_model",
        layers: "decoder_layers",
        heads: "decoder_attention_heads",
        kvHeads: "decoder_attention_heads",
        intermediate: "decoder_ffn_dim",
      },
      absent: { tied: true },
      epsilon: "layer_norm_eps",
      norm: { kind: "layer", bias: true },
      activation: { field: "activation_function", otherwise: "gelu" },
      rotation: "none",
    },
  )
  const window = windowBehind(rows, tokens)
  if (window === undefined)
    throw fields.wrong(
      "max_target_positions",
      `is ${tokens}; at most ${rows} are known, as many as rows`,
    )
  return {
    ...withBlocks(config, (block) => {
      const { heads, headDim, scale } = block.attention
      const bias = { qkv: true, o: true }
      const own = withAttention(block, { bias, window, chunked: true })
      return {
        ...withMlp(own, { gated: false, bias: true }),
        cross: { heads, headDim, scale, rows },
      }
    }),
    embedding: { factor: 1, positions: { skipped: 0, heard: rows }, sees: true },
  }
}

/** The least that divides the rows and that all tokens fit into. */
function windowBehind(rows: number, tokens: number): number | undefined {
  for (let window = tokens; window <= rows; window++) if (rows % window === 0) return window
  return undefined
}

export const whisperNaming: Naming = {
  roots: [
    { root: "model.decoder.", head: "" },
    { root: "decoder.", head: "" },
  ],
  layers: "layers.",
  parts: {
    heard_positions: { name: "heard_positions", constant: 0 },
    lm_head: "proj_out",
    norm: "layer_norm",
    input_layernorm: "self_attn_layer_norm",
    "self_attn.k_proj.bias": { name: "self_attn.k_proj.bias", constant: 0 },
    "self_attn.o_proj": "self_attn.out_proj",
    cross_layernorm: "encoder_attn_layer_norm",
    "cross_attn.q_proj": "encoder_attn.q_proj",
    "cross_attn.k_proj": "encoder_attn.k_proj",
    "cross_attn.k_proj.bias": { name: "encoder_attn.k_proj.bias", constant: 0 },
    "cross_attn.v_proj": "encoder_attn.v_proj",
    "cross_attn.o_proj": "encoder_attn.out_proj",
    post_attention_layernorm: "final_layer_norm",
    "mlp.up_proj": "fc1",
    "mlp.down_proj": "fc2",
  },
}
