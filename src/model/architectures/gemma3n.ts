// Gemma 3n: heads as Gemma 4 has them, turned as Gemma 3's; four rows of a token go through the layers, each of which computes one;
// layers are given columns of the token's own, the last ones read what earlier ones remember; what attention reads is added to what it
// gives by way of a few columns, too; of the gates of the first layers only the highest count. Source: modeling_gemma3n.py of
// transformers. Tokens behind the table of layers' own columns stand for pictures and sounds, and are none here.

import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder, readLayerTypes } from "../config.ts"
import type { Fields } from "../fields.ts"
import { numberAbove } from "../normal.ts"
import type { Streams } from "../streams.ts"
import { llamaNaming, type Naming, storedTable, unitParts, withParts } from "../weights/names.ts"
import {
  activationOf,
  capOf,
  readLocalRotation,
  scaledEmbedding,
  windowOf,
  withLogitCap,
} from "./gemma.ts"
import { lastAlike } from "./gemma4.ts"

export function readGemma3n(fields: Fields): ModelConfig {
  const widths = Array.isArray(fields.json.intermediate_size)
    ? fields.counts("intermediate_size")
    : [fields.count("intermediate_size", 16384)]
  const config = scaledEmbedding(
    readDecoder(fields.without("intermediate_size"), {
      absent: {
        ...{ vocabulary: 262400, context: 32768, heads: 8, kvHeads: 2, headDim: 256 },
        intermediate: Math.max(...widths),
        tied: true,
      },
      activation: activationOf(fields),
      rotation: { theta: 1e6, layers: "full_attention" },
    }),
  )
  const { layers, headDim, context, vocabulary } = config.shapes
  if (widths.length > 1 && widths.length !== layers)
    throw fields.wrong("intermediate_size", `has ${widths.length} entries for ${layers} layers`)
  const types = readLayerTypes(fields, layers, 5)
  const window = fields.count("sliding_window", 512)
  const own = layers - fields.count("num_kv_shared_layers", 15, 0, layers - 1)
  const local = readLocalRotation(fields, { headDim, context })
  const bias = fields.flag("attention_bias", false)
  const highest = readHighest(fields, layers)
  const laurel = { rank: fields.count("laurel_rank", 64) }
  const blocks = withBlocks(config, (block, i) => {
    const slides = types[i] === "sliding_attention"
    const attended = withAttention(block, {
      scale: 1,
      window: windowOf(types, i, window),
      rotation: slides ? { query: local, key: local } : block.attention.rotation,
      norms: { ...block.norm, over: "every head", place: "before" },
      normsValues: true,
      bias: { qkv: bias, o: bias },
      reads: i < own ? undefined : lastAlike(fields, types, own, i),
    })
    const intermediate = widths[i] ?? widths[0]!
    return { ...withMlp(attended, { intermediate, above: highest[i] }), norms: NORMS.both, laurel }
  })
  const capped = withLogitCap(blocks, capOf(fields, "final_logit_softcapping", 30))
  const { epsilon } = config.norm!
  return {
    ...capped,
    shapes: {
      ...config.shapes,
      vocabulary: Math.min(vocabulary, fields.count("vocab_size_per_layer_input", 262144)),
    },
    embedding: { ...config.embedding, stored: vocabulary },
    layerInputs: { width: fields.count("hidden_size_per_layer_input", 256), epsilon },
    streams: readStreams(fields, epsilon),
  }
}

const MAX_STREAMS = 64 // each is nodes of the graph

function readStreams(fields: Fields, epsilon: number): Streams {
  const first = fields.count("altup_active_idx", 0, 0)
  if (first !== 0) throw fields.wrong("altup_active_idx", `is ${first}; known: 0`)
  return {
    count: fields.count("altup_num_inputs", 4, 1, MAX_STREAMS),
    epsilon,
    scaled: fields.flag("altup_correct_scale", true),
  }
}

/** Of each layer, above how many deviations from the mean gates count: as many as leave out the share that is listed; undefined: all do. */
function readHighest(fields: Fields, layers: number): (number | undefined)[] {
  const name = "activation_sparsity_pattern"
  const sparse = layers > 10 ? 10 : 0
  const usual = Array.from({ length: layers }, (_, i) => (i < sparse ? 0.95 : 0))
  const shares = fields.has(name) ? fields.numbers(name) : usual
  if (shares.length !== layers)
    throw fields.wrong(name, `has ${shares.length} entries for ${layers} layers`)
  const wrong = shares.find((share) => share >= 1)
  if (wrong !== undefined) throw fields.wrong(name, `holds ${wrong}, which leaves nothing`)
  return shares.map((share) => (share === 0 ? undefined : numberAbove(share)))
}

export const streamsParts = unitParts(
  ...["altup_sum", "altup_ones", "altup.ones"],
  ...["mlp.gate_sum", "mlp.gate_norm", "self_attn.v_norm"],
)

export function gemma3nNaming({ shapes: { vocabulary }, embedding }: ModelConfig): Naming {
  const { stored = vocabulary } = embedding
  return withParts(llamaNaming, {
    ...storedTable({ stored, vocabulary }),
    "self_attn.output_norm": "post_attention_layernorm",
    post_attention_layernorm: "pre_feedforward_layernorm",
    "mlp.output_norm": "post_feedforward_layernorm",
    "altup.correct_output_scale": { name: "altup.correct_output_scale", bare: true },
    ...streamsParts,
  })
}
