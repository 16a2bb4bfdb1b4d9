// Llama 3.2 Vision's text model: Llama, and between its layers others that attend to images alone, whose keys and values are made of rows
// of the image and of nothing else. Where there is no image such a layer leaves what it reads, attention, MLP and all; images are not
// read yet, so it always does, and its weights stay unread. The table has rows more than the vocabulary, of which the first is
// the token that stands for an image and none can be drawn. Source: modeling_mllama.py of transformers.

import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, storedTable, withParts } from "../weights/names.ts"

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
    blocks: config.blocks.map((block, i) =>
      seeing.has(i) ? { ...block, only: "nothing" } : block,
    ),
    seeing,
    embedding: { ...config.embedding, stored: vocabulary + BEHIND },
  }
}

export const mllamaNaming = (config: ModelConfig): Naming =>
  withParts(llamaNaming, mllamaTable(config))

/** @param name of the table in a file */
export function mllamaTable({ shapes }: ModelConfig, name?: string): Naming["parts"] {
  const { vocabulary } = shapes
  return storedTable({ stored: vocabulary + BEHIND, vocabulary }, name)
}
