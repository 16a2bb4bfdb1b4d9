// Nemotron-H, Nemotron Nano 2 and 3: layers that are nothing but a selective state space, attention, an MLP or a mixture of experts,
// each behind a norm; nothing is turned, and neither MLPs nor experts have a gate. Source: modeling_nemotron_h.py of transformers, but
// for its lower bound on a state's steps, which it has while it reads a prompt and the published models' own code has not.

import { withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"
import { readMixture } from "./deepseek.ts"
import { readGroups, refuseStates, selectiveParts } from "./granite.ts"
import { withBiases } from "./llama.ts"

type LayerKind = "states" | "attention" | "mlp" | "experts"

/** What layers are, by the letters of `hybrid_override_pattern` and by the names of lists, newer and older. */
const letters: Readonly<Record<string, LayerKind>> = {
  M: "states",
  "*": "attention",
  "-": "mlp",
  E: "experts",
}
const names: Readonly<Record<string, LayerKind>> = {
  linear_attention: "states",
  mamba: "states",
  full_attention: "attention",
  attention: "attention",
  mlp: "mlp",
  moe: "experts",
}

export function readNemotronH(fields: Fields): ModelConfig {
  const kinds = readKinds(fields)
  const own = fields.with({ num_hidden_layers: kinds.length })
  const usual = readDecoder(own, {
    epsilon: "layer_norm_epsilon",
    absent: { epsilon: 1e-5, headDim: 128, kvHeads: 8 },
    activation: { field: "mlp_hidden_act", otherwise: "relu2" },
    rotation: "none",
  })
  if (fields.has("sliding_window"))
    throw fields.wrong("sliding_window", "is there; known: attention that sees everything")
  const config = withBiases(fields, usual)
  const selective = kinds.includes("states") ? readStates(fields) : undefined
  const experts = kinds.includes("experts") ? readExperts(fields) : undefined
  return withBlocks(config, (block, layer) => {
    const kind = kinds[layer]!
    if (kind === "states") return { ...block, only: "attention", selective: selective! }
    if (kind === "attention") return { ...block, only: "attention" }
    if (kind === "mlp") return { ...withMlp(block, { gated: false }), only: "mlp" }
    const { intermediate, ...own } = experts!
    return { ...withMlp(block, { gated: false, intermediate }), only: "mlp", experts: own }
  })
}

function readKinds(fields: Fields): LayerKind[] {
  const listed = ["layers_block_type", "layer_types"].find((name) => fields.has(name))
  const field = listed ?? "hybrid_override_pattern"
  const all = listed ? fields.texts(field) : fields.text(field).split("")
  const known = listed ? names : letters
  const kinds = all.map((name) => {
    if (Object.hasOwn(known, name)) return known[name]!
    throw fields.wrong(field, `holds "${name}"; known: ${Object.keys(known).join(", ")}`)
  })
  if (fields.has("num_hidden_layers") && fields.count("num_hidden_layers") !== kinds.length)
    throw fields.wrong(
      field,
      `names ${kinds.length} layers of ${fields.count("num_hidden_layers")}`,
    )
  if (!kinds.includes("attention"))
    throw fields.wrong(field, "names no layer of attention; known: models that have one")
  return kinds
}

function readStates(fields: Fields) {
  refuseStates(fields, "use_bias", "mamba_proj_bias")
  const activation = fields.text("mamba_hidden_act", "silu")
  if (activation !== "silu")
    throw fields.wrong("mamba_hidden_act", `is "${activation}"; known: silu`)
  const heads = fields.count("mamba_num_heads", 128)
  return {
    groups: readGroups(fields, "n_groups", heads, 8),
    heads,
    headDim: fields.count("mamba_head_dim", 64),
    stateDim: fields.count("ssm_state_size", 128),
    taps: fields.count("conv_kernel", 4),
    bias: fields.flag("use_conv_bias", true),
  }
}

function readExperts(fields: Fields) {
  if (fields.count("n_shared_experts", 1) !== 1)
    throw fields.wrong("n_shared_experts", `is ${fields.count("n_shared_experts")}; known: 1`)
  const latent = fields.has("moe_latent_size") ? fields.count("moe_latent_size") : undefined
  if (latent !== undefined && fields.flag("mlp_bias", false))
    throw fields.wrong("mlp_bias", "is true; known: experts of latent columns without a bias")
  return {
    ...readMixture(fields),
    intermediate: fields.count("moe_intermediate_size"),
    latent,
    shared: { intermediate: fields.count("moe_shared_expert_intermediate_size"), gated: false },
  }
}

export function nemotronHNaming({ blocks }: ModelConfig): Naming {
  const selective = blocks.find((block) => block.selective)?.selective
  const same = ["q_proj", "k_proj", "v_proj", "o_proj"].map((name) => [
    `self_attn.${name}`,
    `mixer.${name}`,
  ])
  return {
    roots: [
      { root: "backbone.", head: "" },
      { root: "model.", head: "" },
    ],
    layers: "layers.",
    parts: {
      embed_tokens: "embeddings",
      norm: "norm_f",
      input_layernorm: "norm",
      post_attention_layernorm: "norm",
      ...Object.fromEntries(same),
      ...(selective && selectiveParts(selective, "mixer.")),
      "mlp.up_proj": "mixer.up_proj",
      "mlp.down_proj": "mixer.down_proj",
      "mlp.gate": "mixer.gate",
      "mlp.experts.*.up_proj": "mixer.experts.*.up_proj",
      "mlp.experts.*.down_proj": "mixer.experts.*.down_proj",
      "mlp.shared_expert.up_proj": "mixer.shared_experts.up_proj",
      "mlp.shared_expert.down_proj": "mixer.shared_experts.down_proj",
      "mlp.latent_in_proj": "mixer.fc1_latent_proj",
      "mlp.latent_out_proj": "mixer.fc2_latent_proj",
    },
  }
}
