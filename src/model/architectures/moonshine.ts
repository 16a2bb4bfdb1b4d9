// Moonshine's decoder: rows of a piece of a recording stand before all tokens, as many as there are, and behind attention over tokens there is one over
// rows (`Cross`). Neighbours of most of a head are turned with each other, by how far tokens are apart: where the first one stands does not matter.
//
// Source: modeling_moonshine.py of transformers.

import { RATE } from "../../audio/features.ts"
import { stridedRows } from "../../audio/strided.ts"
import { withBlocks, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { joinedRows, type Naming } from "../weights/names.ts"
import { neighboursOf } from "./glm4.ts"

/** Of a piece that is heard at once: models are trained on as much. */
export const PIECE_SECONDS = 30
export const PIECE_ROWS = stridedRows(PIECE_SECONDS * RATE)

/** What configurations leave out, since transformers takes it for granted. */
const MOONSHINE = {
  vocab_size: 32768,
  hidden_size: 288,
  intermediate_size: 1152,
  encoder_num_hidden_layers: 6,
  decoder_num_hidden_layers: 6,
  encoder_num_attention_heads: 8,
  decoder_num_attention_heads: 8,
  max_position_embeddings: 512,
}

const EPSILON = 1e-5 // of LayerNorms, which no configuration says
const PART = 0.9 // of a head

/** Layers of the encoder, or of the decoder. */
export function readMoonshineLayers(
  given: Fields,
  part: "encoder" | "decoder",
  context: number,
): ModelConfig {
  const fields = given.with(MOONSHINE)
  const [heads, kvHeads] = ["attention", "key_value"].map((what) => `${part}_num_${what}_heads`)
  if (fields.flag("attention_bias", false))
    throw fields.wrong("attention_bias", "is true; only false is known of this architecture")
  const known = fields.count(heads!)
  for (const name of [kvHeads!, "decoder_num_attention_heads"])
    if (fields.count(name, known) !== known)
      throw fields.wrong(name, `is ${fields.count(name)}; only ${known}, ${heads}, is known`)
  const differences: Differences = {
    names: { layers: `${part}_num_hidden_layers`, heads: heads!, kvHeads: kvHeads! },
    absent: { tied: true },
    epsilon: "layer_norm_eps",
    norm: { kind: "layer", bias: false },
    activation: {
      field: `${part}_hidden_act`,
      otherwise: part === "encoder" ? "gelu" : "silu",
    },
    rotation: { part: PART },
  }
  const own = { max_position_embeddings: context, layer_norm_eps: EPSILON }
  const config = readDecoder(fields.over(own), differences)
  return withBlocks(config, (block) => withMlp(block, { gated: part === "decoder", bias: true }))
}

/** Tokens of a piece, with the one that asks for them. */
export const readMoonshineTokens = (fields: Fields) =>
  fields.count("max_position_embeddings", MOONSHINE.max_position_embeddings, 2)

/** The one that asks. */
export const readMoonshineBegin = (fields: Fields) =>
  fields.count("decoder_start_token_id", 1, 0, fields.count("vocab_size", MOONSHINE.vocab_size) - 1)

export function readMoonshine(fields: Fields): ModelConfig {
  const config = readMoonshineLayers(fields, "decoder", PIECE_ROWS + readMoonshineTokens(fields))
  return {
    ...withBlocks(config, (block) => {
      const { heads, headDim, scale } = block.attention
      return { ...block, cross: { heads, headDim, scale } }
    }),
    embedding: { ...config.embedding, sees: true },
  }
}

export function moonshineNaming(config: ModelConfig): Naming {
  const { intermediate } = config.shapes
  const { up, gate } = joinedRows({ up: intermediate, gate: intermediate })
  const neighbours = neighboursOf(config)
  const unbiased = ["q", "k", "v", "o"].map((name) => `cross_attn.${name}_proj.bias`)
  return {
    roots: ["model.decoder.", "decoder."].map((root) => ({ root, head: "" })),
    layers: "layers.",
    parts: {
      lm_head: "proj_out",
      "self_attn.q_proj": { name: "self_attn.q_proj", neighbours },
      "self_attn.k_proj": { name: "self_attn.k_proj", neighbours },
      cross_layernorm: "post_attention_layernorm",
      ...Object.fromEntries(unbiased.map((name) => [name, { name, constant: 0 }])),
      ...Object.fromEntries(
        ["q", "k", "v", "o"].map((name) => [
          `cross_attn.${name}_proj`,
          `encoder_attn.${name}_proj`,
        ]),
      ),
      post_attention_layernorm: "final_layernorm",
      "mlp.up_proj": { name: "mlp.fc1", rows: up },
      "mlp.gate_proj": { name: "mlp.fc1", rows: gate },
      "mlp.down_proj": "mlp.fc2",
    },
  }
}
