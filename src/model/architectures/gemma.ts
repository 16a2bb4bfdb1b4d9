// Gemma 1 to 3: norms times 1 + weight, embedding times the root of its width, tied head, tanh-gelu. Gemma 2 and 3 have
// norms before and behind, and windows in some layers; Gemma 2 bends scores and logits, Gemma 3 norms query and key heads
// and turns those of windows by another theta; where it embeds, it sees both ways, and half of a window to either side. Sources:
// modeling_gemma.py, modeling_gemma2.py, modeling_gemma3.py of transformers. What a configuration of Gemma 3 leaves out, most
// of it in the larger ones, has that library's values.

import { type Block, NORMS, withAttention, withBlocks } from "../block.ts"
import {
  type Differences,
  type LayerType,
  type ModelConfig,
  readDecoder,
  readLayerTypes,
  seeingBothWays,
} from "../config.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withBiases } from "./llama.ts"

/** Older configurations say "gelu" under the older name and mean the tanh form. */
export const activationOf = (fields: Fields): Differences["activation"] => ({
  field: fields.has("hidden_activation") ? "hidden_activation" : "hidden_act",
  otherwise: "gelu_pytorch_tanh",
  tanh: true,
})

export function readGemma(fields: Fields): ModelConfig {
  const absent = { headDim: 256, tied: true }
  const config = readDecoder(fields, { absent, activation: activationOf(fields) })
  return scaledEmbedding(withBiases(fields, config))
}

export function readGemma2(fields: Fields): ModelConfig {
  const absent = { heads: 8, kvHeads: 4, headDim: 256, tied: true }
  const plain = readDecoder(fields, { absent, activation: activationOf(fields) })
  const config = scaledEmbedding(withBiases(fields, plain))
  const window = fields.count("sliding_window", 4096)
  const types = readLayerTypes(fields, config.shapes.layers, 2)
  const scale = fields.positive("query_pre_attn_scalar", 256) ** -0.5
  const cap = capOf(fields, "attn_logit_softcapping", 50)
  const blocks = withBlocks(config, (block, i) => ({
    ...withAttention(block, { scale, cap, window: windowOf(types, i, window) }),
    norms: NORMS.both,
  }))
  return withLogitCap(blocks, capOf(fields, "final_logit_softcapping", 30))
}

/** VaultGemma: norms before only. */
export const readVaultGemma = (fields: Fields) =>
  withBlocks(readGemma2(fields), (block) => ({ ...block, norms: NORMS.before }))

export function readGemma3(fields: Fields): ModelConfig {
  const plain = readDecoder(fields, {
    absent: {
      vocabulary: 262208,
      context: 131072,
      heads: 8,
      kvHeads: 4,
      headDim: 256,
      tied: true,
    },
    activation: activationOf(fields),
    rotation: { theta: 1e6, layers: "full_attention" },
  })
  const config = scaledEmbedding(withBiases(fields, plain))
  const { layers, headDim, context } = config.shapes
  const isBidirectional = fields.flag("use_bidirectional_attention", false)
  const width = fields.count("sliding_window", 4096)
  const window = isBidirectional ? Math.floor(width / 2) + 1 : width
  const types = readLayerTypes(fields, layers, fields.count("sliding_window_pattern", 6))
  const local = readLocalRotation(fields, { headDim, context })
  const scale = fields.positive("query_pre_attn_scalar", 256) ** -0.5
  const cap = capOf(fields, "attn_logit_softcapping", undefined)
  const blocks = withBlocks(config, (block, i): Block => {
    const slides = types[i] === "sliding_attention"
    return {
      ...withAttention(block, {
        scale,
        cap,
        window: windowOf(types, i, window),
        rotation: slides ? { query: local, key: local } : block.attention.rotation,
        norms: { ...block.norm, over: "every head", place: "before" },
      }),
      norms: NORMS.both,
    }
  })
  const capped = withLogitCap(blocks, capOf(fields, "final_logit_softcapping", undefined))
  return isBidirectional ? seeingBothWays(capped) : capped
}

/** Of layers with a window: never stretched by what the old spelling says. */
export function readLocalRotation(fields: Fields, head: { headDim: number; context: number }) {
  const perKind = fields.object("rope_parameters")?.has("sliding_attention")
  return perKind
    ? readRotation(fields, { ...head, theta: 1e4, layers: "sliding_attention" })
    : readRotation(fields, {
        ...head,
        theta: 1e4,
        thetaField: "rope_local_base_freq",
        scaled: false,
      })
}

export function scaledEmbedding(config: ModelConfig): ModelConfig {
  return { ...config, embedding: { ...config.embedding, factor: Math.sqrt(config.shapes.hidden) } }
}

export function withLogitCap(config: ModelConfig, cap: number | undefined): ModelConfig {
  return { ...config, head: { ...config.head, cap } }
}

/** null switches it off. */
export function capOf(fields: Fields, name: string, usual: number | undefined): number | undefined {
  if (name in fields.json && fields.json[name] === null) return undefined
  return fields.has(name) ? fields.positive(name) : usual
}

export const windowOf = (types: readonly LayerType[], layer: number, window: number) =>
  types[layer] === "sliding_attention" ? window : undefined

const plusOne = (name: string) => ({ name, plus: 1 })

export const gemmaNaming: Naming = withParts(llamaNaming, {
  norm: plusOne("norm"),
  input_layernorm: plusOne("input_layernorm"),
  post_attention_layernorm: plusOne("post_attention_layernorm"),
})

/** The second of llama's names stands behind the attention here. */
export const gemma2Naming: Naming = withParts(gemmaNaming, {
  "self_attn.output_norm": plusOne("post_attention_layernorm"),
  post_attention_layernorm: plusOne("pre_feedforward_layernorm"),
  "mlp.output_norm": plusOne("post_feedforward_layernorm"),
})

export const vaultGemmaNaming: Naming = withParts(llamaNaming, {
  norm: plusOne("norm"),
  input_layernorm: plusOne("input_layernorm"),
  post_attention_layernorm: plusOne("pre_feedforward_layernorm"),
})

export const gemma3Naming: Naming = withParts(gemma2Naming, {
  "self_attn.q_norm": plusOne("self_attn.q_norm"),
  "self_attn.k_norm": plusOne("self_attn.k_norm"),
})
