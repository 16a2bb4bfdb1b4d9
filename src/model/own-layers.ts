// The layer of a model's own that guesses ahead, where its files hold one: it has no folder and no configuration of its own.

import { join } from "node:path"
import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import { problem } from "../errors.ts"
import { type FormatName, isMixed } from "../runtime/format.ts"
import { withLowRank } from "./adapters/low-rank.ts"
import { type AheadNames, mtp } from "./architectures/mtp.ts"
import type { ArchitectureName } from "./architectures.ts"
import { Folder } from "./folder.ts"
import { readTensors } from "./graph-weights.ts"
import { EMBEDDING, HEAD } from "./layers.ts"
import { MLC } from "./mlc-config.ts"
import type { Model } from "./model.ts"
import { withOrders } from "./packed/orders.ts"
import { storedFormat } from "./stored-format.ts"

/** Beside the model, or behind its last layer, as it always is in GGUF files. Models of other architectures may have such layers, too, which are left out. */
const places: Partial<Record<ArchitectureName, (model: Model) => AheadNames>> = {
  deepseek_v3: behind,
  glm4_moe: behind,
  glm4_moe_lite: behind,
  qwen3_5_moe_text: beside,
  qwen3_5_text: beside,
  qwen3_next: beside,
}

/** There may be several: then the first goes on with what it has guessed itself. */
function behind({ config: { shapes, head }, weights }: Model): AheadNames {
  const index = shapes.layers
  const layer = `model.layers.${index}`
  const ownOr = (own: string, shared: string) =>
    weights.holds?.(`${layer}.${own}.weight`) ? `${layer}.${own}.weight` : shared
  return {
    ...{ prefix: "model.", index },
    ...{ token: `${layer}.enorm`, row: `${layer}.hnorm`, join: `${layer}.eh_proj` },
    norm: `${layer}.shared_head.norm`,
    embedding: ownOr("embed_tokens", EMBEDDING),
    head: ownOr("shared_head.head", head.tied ? EMBEDDING : HEAD),
  }
}

function beside({ config: { head } }: Model): AheadNames {
  return {
    ...{ prefix: "mtp.", index: 0 },
    ...{ token: "mtp.pre_fc_norm_embedding", row: "mtp.pre_fc_norm_hidden", join: "mtp.fc" },
    norm: "mtp.norm",
    embedding: EMBEDDING,
    head: head.tied ? EMBEDDING : HEAD,
  }
}

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
 * @param served the format that the model is served in
 * @returns nothing where the model has none that is known
 */
export function findOwnLayer(model: Model, served: FormatName): OwnLayer | undefined {
  const { config, weights } = model
  const names = namesIn(model)
  if (!names) return undefined
  const block = config.blocks.findLast(({ delta }) => !delta)!
  const plain = mtp(config, block, names)
  const graph = withOrders(withLowRank(plain, weights), weights)
  readTensors(graph, weights)
  const layer = { architecture: "mtp", graph } as const
  if (!isMixed(served)) return { ...layer, format: served }
  const broken = (what: string) => new Folder(model.path).broken(model.configuration, what)
  return { ...layer, ...storedFormat(graph, weights, served, broken) }
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
  const layer = findOwnLayer(model, served)
  if (layer) return layer
  if (configuration !== MLC) throw lacking("holds none", "choose another mode")
  throw lacking(
    "was compiled without one",
    "compile its original again, if that has one, or choose another mode",
  )
}

/** Of a folder that was compiled from a GGUF file the layer is where the file had it. */
function namesIn(model: Model): AheadNames | undefined {
  const namesOf = places[model.architecture]
  if (!namesOf) return undefined
  return [namesOf(model), behind(model)].find(({ join }) => model.weights.holds?.(`${join}.weight`))
}
