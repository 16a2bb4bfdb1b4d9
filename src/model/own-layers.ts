// The layer of a model's own that guesses ahead, where its files hold one: it has no folder and no configuration of its own.

import { join } from "node:path"
import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import { problem } from "../errors.ts"
import { type FormatName, isMixed } from "../runtime/format.ts"
import { withLowRank } from "./adapters/low-rank.ts"
import { type AheadNames, mtp } from "./architectures/mtp.ts"
import type { ArchitectureName } from "./architectures.ts"
import type { Block } from "./block.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { readTensors } from "./graph-weights.ts"
import { EMBEDDING, HEAD } from "./layers.ts"
import { MLC } from "./mlc-config.ts"
import type { Model } from "./model.ts"
import { withOrders } from "./packed/orders.ts"
import { orWhy } from "./sense.ts"
import { storedFormat } from "./stored-format.ts"

interface Place {
  names: (model: Model) => AheadNames
  /** What the layer is; absent: the model's last with attention. */
  blocks?: (model: Model) => readonly Block[]
}

/** Models of other architectures may have such layers, too, which are left out. */
const places: Partial<Record<ArchitectureName, Place>> = {
  bailing_moe: { names: behind },
  deepseek_v3: { names: behind },
  deepseek_v32: { names: behind },
  ernie4_5_moe: { names: ernie, blocks: first },
  exaone4: { names: beside, blocks: first },
  exaone_moe: { names: beside, blocks: exaoneMoe },
  glm4: { names: behind },
  glm4_moe: { names: behind },
  glm4_moe_lite: { names: behind },
  glm_moe_dsa: { names: behind, blocks: choosing },
  hy_v3: { names: behind },
  nemotron_h: { names: nemotron, blocks: attentionAndExperts },
  qwen3_5_moe_text: { names: beside },
  qwen3_5_text: { names: beside },
  qwen3_next: { names: beside },
}

/** Behind its last layer, as it always is in GGUF files. */
function behind(model: Model): AheadNames {
  const { config, weights } = model
  const index = config.shapes.layers
  const layer = `model.layers.${index}`
  const held = (name: string) => weights.holds?.(`${layer}.${name}.weight`)
  const ownOr = (own: string, shared: string) => (held(own) ? `${layer}.${own}.weight` : shared)
  const tables = tablesOf(model)
  return {
    ...{ prefix: "model.", index },
    ...{ token: `${layer}.enorm`, row: `${layer}.hnorm`, join: `${layer}.eh_proj` },
    norm: `${layer}.${held("final_layernorm") ? "final_layernorm" : "shared_head.norm"}`,
    embedding: ownOr("embed_tokens", tables.embedding),
    head: ownOr("shared_head.head", tables.head),
  }
}

/** Beside the model. */
function beside(model: Model): AheadNames {
  return {
    ...{ prefix: "mtp.", index: 0 },
    ...{ token: "mtp.pre_fc_norm_embedding", row: "mtp.pre_fc_norm_hidden", join: "mtp.fc" },
    norm: "mtp.norm",
    ...tablesOf(model),
  }
}

/** Attention and experts are numbered each by itself. */
function nemotron(model: Model): AheadNames {
  const [one, last] = ["mtp.layers.0", "mtp.layers.1"]
  return {
    ...{ prefix: "mtp.", index: 0 },
    ...{ token: `${one}.enorm`, row: `${one}.hnorm`, join: `${one}.eh_proj` },
    norm: `${last}.final_layernorm`,
    ...tablesOf(model),
  }
}

/** It ends with its model's own last norm: ernie4_5_mtp.py of FastDeploy, who made both. vLLM and SGLang read logits without one. */
function ernie(model: Model): AheadNames {
  return {
    ...{ prefix: "model.", index: model.config.shapes.layers },
    ...{ token: "model.mtp_emb_norm.0", row: "model.mtp_hidden_norm.0" },
    join: "model.mtp_linear_proj.0",
    norm: "model.norm",
    ...tablesOf(model),
  }
}

const tablesOf = ({ config: { head } }: Model) => ({
  embedding: EMBEDDING,
  head: head.tied ? EMBEDDING : HEAD,
})

function last({ config: { blocks } }: Model): readonly Block[] {
  return [blocks.findLast(({ delta }) => !delta)!]
}

function first({ config: { blocks } }: Model): readonly Block[] {
  return [blocks[0]!]
}

/** Without experts, and with the window that the configuration says of it: as the model's first where it says none. */
function exaoneMoe(model: Model): readonly Block[] {
  const [block] = first(model) as [Block]
  const { blocks } = model.config
  const fields = new Fields(model.fields, (what) => broken(model, what))
  const [kind] = fields.has("mtp_layer_types") ? fields.texts("mtp_layer_types") : []
  if (fields.has("mtp_sliding_windows"))
    throw fields.wrong("mtp_sliding_windows", "is there; known: the model's own window")
  if (kind === undefined) return [block]
  const slides = kind === "sliding_attention"
  const alike = blocks.find(({ attention: { window } }) => (window !== undefined) === slides)
  if (!alike || (!slides && kind !== "full_attention"))
    throw fields.wrong("mtp_layer_types", `begins with "${kind}", which no layer of the model is`)
  return [{ ...block, attention: alike.attention }]
}

/** The last that chooses what it sees, as this one does whatever the layers before it share. */
function choosing({ config: { blocks } }: Model): readonly Block[] {
  return [blocks.findLast(({ attention }) => typeof attention.latent?.indexer === "object")!]
}

function attentionAndExperts(model: Model): readonly Block[] {
  const { blocks } = model.config
  const fields = new Fields(model.fields, (what) => broken(model, what))
  const [letters, listed] = ["mtp_hybrid_override_pattern", "mtp_layers_block_type"] as const
  const pattern = fields.text(letters, "*E")
  if (pattern !== "*E") throw fields.wrong(letters, `is "${pattern}"; known: "*E"`)
  const kinds = fields.has(listed) ? fields.texts(listed).join(", ") : "attention, moe"
  if (!/^(full_)?attention, moe$/.test(kinds))
    throw fields.wrong(listed, `is ${kinds}; known: attention, moe`)
  const attention = blocks.find(({ only, selective }) => only === "attention" && !selective)
  const experts = blocks.find((block) => block.experts)
  if (!experts)
    throw fields.wrong(
      "n_routed_experts",
      "is missing: what guesses ahead has experts, and the model none",
    )
  return [attention!, experts]
}

const broken = ({ path, configuration }: Model, what: string) =>
  new Folder(path).broken(configuration, what)

/** Such a layer as a program of its own beside its model's. */
export interface OwnLayer {
  architecture: "mtp"
  graph: Graph
  format: FormatName
  codecOf?: CodecOf
}

/** What of a compiled layer does not lie among its model's weights: libraries, in a lib/ of its own. */
export const ownLayerFolder = (folder: string) => join(folder, "mtp")

/**
 * For whoever does without it where it cannot be read: nobody may ever ask for it.
 * @param served the format that the model is served in
 * @returns the layer, or why it cannot be read; nothing where the model has none that is known
 */
export function findOwnLayer(
  model: Model,
  served: FormatName,
): Promise<{ layer?: OwnLayer; why?: string }> {
  return orWhy(async () => {
    const layer = readOwnLayer(model, served)
    return layer ? { layer } : {}
  })
}

function readOwnLayer(model: Model, served: FormatName): OwnLayer | undefined {
  const { config, weights } = model
  const names = namesIn(model)
  if (!names) return undefined
  const { blocks = last } = places[model.architecture]!
  const plain = mtp(config, blocks(model), names)
  const graph = withOrders(withLowRank(plain, weights), weights)
  readTensors(graph, weights)
  const layer = { architecture: "mtp", graph } as const
  if (!isMixed(served)) return { ...layer, format: served }
  const why = (what: string) => broken(model, what)
  return { ...layer, ...storedFormat(graph, weights, served, why) }
}

/** @throws `option_invalid` where the model has none that is known */
export function openOwnLayer(model: Model, served: FormatName): OwnLayer {
  const { architecture, configuration, name } = model
  const lacking = (what: string, cure: string) =>
    problem("option_invalid", {
      option: "--speculative-mode",
      problem: `mtp takes a layer of the model's own that guesses ahead, and ${name} ${what}; ${cure}.`,
    })
  if (!places[architecture])
    throw lacking(
      `is of architecture ${architecture}; known: ${Object.keys(places).join(", ")}`,
      "choose another mode",
    )
  const layer = readOwnLayer(model, served)
  if (layer) return layer
  if (configuration !== MLC) throw lacking("holds none that is known", "choose another mode")
  throw lacking(
    "was compiled without one",
    "compile its original again, if that has one, or choose another mode",
  )
}

/** Of a folder that was compiled from a GGUF file the layer is where the file had it. */
function namesIn(model: Model): AheadNames | undefined {
  const place = places[model.architecture]
  if (!place) return undefined
  const known = place.names === beside ? [beside, behind] : [place.names]
  return known
    .map((names) => names(model))
    .find(({ join }) => model.weights.holds?.(`${join}.weight`))
}
