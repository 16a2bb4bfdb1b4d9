// Jina's encoders. Those of the second generation are BERTs by name: nothing is learned of positions, but scores lose for each position
// between, in both directions (ALiBi), and MLPs are gated. Those of the third and their rerankers are XLM-RoBERTas by name, whose heads
// are turned; what their adapters change for a task, which sentence-transformers leaves out where none is named, is left out. Sources:
// modeling_bert.py of jina-bert-implementation and modeling_xlm_roberta.py of xlm-roberta-flash-implementation, which lie beside
// Jina's weights; modeling_jina_embeddings_v3.py of transformers.

import { withAttention, withMlp } from "../block.ts"
import { type Differences, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { slopesOf } from "../weights/biases.ts"
import { joinedRows, type Naming } from "../weights/names.ts"
import { MOST, slopedBiases } from "./bloom.ts"
import { asEncoder } from "./encoder.ts"

const NORM = { kind: "layer", bias: true } as const
const biased = { bias: { qkv: true, o: true } } as const

export function readJinaBert(fields: Fields): ModelConfig {
  const gates = fields.text("feed_forward_type", "geglu")
  if (gates !== "geglu") throw fields.wrong("feed_forward_type", `is "${gates}"; known: geglu`)
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-12 },
    epsilon: "layer_norm_eps",
    norm: NORM,
    activation: { otherwise: "gelu" },
    rotation: "none",
  })
  const { heads, context: positions } = config.shapes
  const biases = { positions, slopes: slopesOf(heads, MOST) }
  return asEncoder(config, (block) =>
    withMlp(withAttention(block, { ...biased, biases }), { activation: "gelu", bias: "down" }),
  )
}

export function jinaBertNaming(config: ModelConfig): Naming {
  const { intermediate } = config.shapes
  const { gate, up } = joinedRows({ gate: intermediate, up: intermediate })
  return {
    roots: ["", "bert."].map((root) => ({ root, head: "" })),
    layers: "encoder.layer.",
    parts: {
      embed_tokens: {
        name: "embeddings.word_embeddings",
        plusRow: { tensor: "embeddings.token_type_embeddings", row: 0 },
      },
      embed_norm: "embeddings.LayerNorm",
      ...slopedBiases(config),
      "self_attn.q_proj": "attention.self.query",
      "self_attn.k_proj": "attention.self.key",
      "self_attn.v_proj": "attention.self.value",
      "self_attn.o_proj": "attention.output.dense",
      "attention.sum_norm": "attention.output.LayerNorm",
      "mlp.gate_proj": { name: "mlp.gated_layers", rows: gate },
      "mlp.up_proj": { name: "mlp.gated_layers", rows: up },
      "mlp.down_proj": "mlp.wo",
      "mlp.sum_norm": "mlp.layernorm",
    },
  }
}

/** As published, where the field of theta has a name of its own. */
export const readJinaXlm = (fields: Fields) =>
  readTurned(fields, { theta: 10000, thetaField: "rotary_emb_base" })

/** As transformers has it. */
export const readJina3 = (fields: Fields) => readTurned(fields, { theta: 20000 })

function readTurned(fields: Fields, rotation: NonNullable<Differences["rotation"]>): ModelConfig {
  if (fields.count("type_vocab_size", 1) !== 1)
    throw fields.wrong("type_vocab_size", `is ${fields.count("type_vocab_size")}; only 1 is known`)
  const config = readDecoder(fields, {
    absent: { epsilon: 1e-5 },
    epsilon: "layer_norm_eps",
    norm: NORM,
    activation: { otherwise: "gelu" },
    rotation,
  })
  return asEncoder(config, (block) =>
    withMlp(withAttention(block, biased), { gated: false, bias: true }),
  )
}

/** Under a name with this what stands there are a matrix and its adapters. */
const APART = ".parametrizations.weight.original"

export function jinaXlmNaming({ shapes: { hidden } }: ModelConfig): Naming {
  const rows = joinedRows({ q: hidden, k: hidden, v: hidden })
  const projection = (name: keyof typeof rows) => ({ name: "mixer.Wqkv", rows: rows[name] })
  const tables = {
    name: "embeddings.word_embeddings",
    plusRow: { tensor: "embeddings.token_type_embeddings", row: 0 },
  }
  const matrices = {
    "self_attn.q_proj": projection("q"),
    "self_attn.k_proj": projection("k"),
    "self_attn.v_proj": projection("v"),
    "self_attn.o_proj": { name: "mixer.out_proj" },
    "mlp.up_proj": { name: "mlp.fc1" },
    "mlp.down_proj": { name: "mlp.fc2" },
  }
  const apart = Object.entries(matrices).map(([part, { name, ...how }]) => [
    `${part}.weight`,
    { ...how, name: name + APART },
  ])
  return {
    roots: ["roberta.", ""].map((root) => ({ root, head: "" })),
    layers: "encoder.layers.",
    parts: {
      ...matrices,
      embed_tokens: tables,
      embed_norm: "emb_ln",
      "attention.sum_norm": "norm1",
      "mlp.sum_norm": "norm2",
    },
    instead: [
      {
        stored: `0.mixer.Wqkv${APART}`,
        parts: {
          ...Object.fromEntries(apart),
          "embed_tokens.weight": {
            name: tables.name + APART,
            plusRow: { ...tables.plusRow, tensor: tables.plusRow.tensor + APART },
          },
        },
      },
    ],
  }
}
