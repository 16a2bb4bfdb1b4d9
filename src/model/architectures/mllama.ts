// Llama 3.2 Vision's text model: Llama, and between its layers others that attend to images alone, whose keys and values are made of rows
// of the image and of nothing else. Where there is no image such a layer leaves what it reads, attention, MLP and all; without a tower
// it always does, and its weights stay unread. The table has rows more than the vocabulary, of which the first is the token that a
// template writes where an image is: it is read as a token, and none of them can be drawn.
//
// Sources: modeling_mllama.py of transformers; models/llama3/multimodal/model.py of Meta's llama-models. Where a token sees no image, the
// latter leaves out what attention gives, too; a token of transformers' sees all images then, also what fills up tiles, and leaves out the
// MLP alone (its issue 39379).

import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"

/** What configurations leave out, since transformers takes it for granted. */
const MLLAMA = {
  vocab_size: 128256,
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 40,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-5,
  rope_theta: 500000,
  cross_attention_layers: [3, 8, 13, 18, 23, 28, 33, 38],
}

/** Rows of the table behind the vocabulary's. */
const BEHIND = 8

const CROSS = "cross_attention_layers"

export function readMllama(given: Fields): ModelConfig {
  const fields = given.with(MLLAMA)
  const config = readDecoder(fields)
  const { layers, vocabulary } = config.shapes
  const seeing = new Set(fields.numbers(CROSS))
  for (const layer of seeing)
    if (!Number.isInteger(layer) || layer >= layers)
      throw fields.wrong(CROSS, `holds ${layer}, which is no layer of ${layers}`)
  if (seeing.size === layers)
    throw fields.wrong(CROSS, "holds every layer; known: models some of whose layers see tokens")
  return {
    ...config,
    shapes: { ...config.shapes, readable: vocabulary + BEHIND },
    blocks: config.blocks.map((block, i) =>
      seeing.has(i) ? { ...block, only: "nothing" } : block,
    ),
    seeing,
  }
}

/** In a GGUF file, too. */
export const mllamaParts: Naming["parts"] = {
  "sight.weight": { name: "sight", diagonal: 1 },
  "attention.out_gate.weight": { name: "cross_attn_attn_gate", tanh: "itself" },
  "mlp.out_gate.weight": { name: "cross_attn_mlp_gate", tanh: "itself" },
}

export const mllamaNaming: Naming = withParts(llamaNaming, mllamaParts)
