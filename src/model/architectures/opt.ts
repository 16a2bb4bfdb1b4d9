// OPT and Galactica: GPT-2's layers under other names, with matrices as they are, and relu where a configuration says nothing; the table
// of positions has two rows before the first. Source: modeling_opt.py of transformers.

import { withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"

/** Of LayerNorms, which no configuration says. */
const EPSILON = 1e-5

/** Rows of the table that the count of positions leaves out. */
const BEFORE = 2

export function readOpt(given: Fields): ModelConfig {
  for (const name of ["do_layer_norm_before", "layer_norm_elementwise_affine"])
    if (!given.flag(name, true))
      throw given.wrong(name, "is false; only true is known of this architecture")
  const hidden = given.count("hidden_size")
  const narrow = given.count("word_embed_proj_dim", hidden)
  if (narrow !== hidden)
    throw given.wrong("word_embed_proj_dim", `is ${narrow}; known: hidden_size, ${hidden}`)
  const isRelu = given.text("activation_function", "relu") === "relu"
  const fields = given.over({
    layer_norm_eps: EPSILON,
    ...(isRelu && { activation_function: undefined }),
  })
  const config = readDecoder(fields, {
    names: { intermediate: "ffn_dim" },
    absent: { tied: true },
    epsilon: "layer_norm_eps",
    norm: { kind: "layer", bias: true },
    activation: { field: "activation_function" },
    rotation: "none",
  })
  const bias = fields.flag("enable_bias", true)
  const isLast = fields.flag("_remove_final_layer_norm", false)
  return {
    ...withBlocks(config, (block) => {
      const own = withAttention(block, { bias: { qkv: bias, o: bias } })
      return withMlp(own, { gated: false, bias, ...(isRelu && { rectified: true }) })
    }),
    norm: isLast ? undefined : config.norm,
    embedding: { factor: 1, positions: { skipped: 0 } },
  }
}

export function optNaming({ shapes: { context } }: ModelConfig): Naming {
  const of = context + BEFORE
  return {
    roots: ["model.decoder.", "decoder."].map((root) => ({ root, head: "" })),
    layers: "layers.",
    parts: {
      embed_positions: {
        name: "embed_positions",
        rows: { of, from: BEFORE, run: context, every: of },
      },
      norm: "final_layer_norm",
      input_layernorm: "self_attn_layer_norm",
      post_attention_layernorm: "final_layer_norm",
      "self_attn.o_proj": "self_attn.out_proj",
      "mlp.up_proj": "fc1",
      "mlp.down_proj": "fc2",
    },
  }
}
