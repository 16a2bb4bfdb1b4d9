// DeepSeek V3.2 and GLM 5: V3's layers, whose latent attention sees what a "lightning indexer" chooses. That has queries of its own,
// made of the row that those of attention are made of, and one key for each position, under a LayerNorm; the first columns of either are
// turned as attention's are, in V3.2 halves with each other. In GLM 5.2 some layers have none, and see what the one before them saw.
// DeepSeek's own code turns queries and keys once more, by a Hadamard matrix, and rounds them to FP8: products stay what they were but for
// that rounding, which is left out here as transformers leaves it out. Sources: modeling_deepseek_v32.py and modeling_glm_moe_dsa.py
// of transformers; "DeepSeek-V3.2" (arXiv 2512.02556), 2.1.

import { type Indexer, withAttention, withBlocks } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Naming, type Part, withParts } from "../weights/names.ts"
import { deepseekNaming, readLatent, sigmoidRouting } from "./deepseek.ts"

export const readDeepseek32 = (fields: Fields) =>
  readSparse(fields, { queryRank: 1536, heads: 64, neighbours: false })

/** GLM 5, 5.1 and 5.2. */
export const readGlmDsa = (fields: Fields) =>
  readSparse(fields, { queryRank: 2048, heads: 32, neighbours: true })

interface Family {
  queryRank: number
  /** Of the indexer, where a configuration does not say. */
  heads: number
  /** What of its heads turns with each other. */
  neighbours: boolean
}

function readSparse(given: Fields, { queryRank, heads, neighbours }: Family): ModelConfig {
  checkTypes(given)
  const order = "indexer_rope_interleave"
  if (given.flag(order, neighbours) !== neighbours)
    throw given.wrong(order, `is ${!neighbours}; only ${neighbours} is known of this architecture`)
  const fields = given.without("layer_types").without("head_dim")
  const config = readLatent(fields, { queryRank, dense: 3, routing: sigmoidRouting })
  const { latent } = config.blocks[0]!.attention
  if (latent!.queryRank === undefined)
    throw fields.wrong("q_lora_rank", "is null; an indexer makes its queries of so many columns")
  const { layers, context } = config.shapes
  const indexer: Indexer = {
    heads: fields.count("index_n_heads", heads),
    headDim: fields.count("index_head_dim", 128, latent!.turned),
    top: fields.count("index_topk", 2048),
    context,
  }
  const types = readIndexers(fields, layers)
  return withBlocks(config, (block, layer) => {
    const { attention } = block
    const own = types[layer] === "full" ? indexer : "before"
    return withAttention(block, { latent: { ...attention.latent!, indexer: own } })
  })
}

/** That every layer is sparse, where a configuration names what they are. */
function checkTypes(fields: Fields): void {
  const known = ["indexed_attention", "deepseek_sparse_attention"]
  if (!fields.has("layer_types")) return
  const unknown = fields.texts("layer_types").find((type) => !known.includes(type))
  if (unknown !== undefined)
    throw fields.wrong("layer_types", `holds "${unknown}"; known: ${known.join(", ")}`)
}

type IndexerType = "full" | "shared"

/** Which layers have an indexer: each by its name, by letters, or one of so many behind the first ones. */
function readIndexers(fields: Fields, layers: number): IndexerType[] {
  const [list, letters] = ["indexer_types", "index_topk_pattern"]
  const name = fields.has(list) ? list : letters
  if (!fields.has(name)) {
    const every = fields.count("index_topk_freq", 1)
    const first = fields.count("index_skip_topk_offset", 2)
    return Array.from({ length: layers }, (_, layer) =>
      Math.max(0, layer - first + 1) % every === 0 ? "full" : "shared",
    )
  }
  const isText = typeof fields.json[name] === "string"
  const types = isText ? fields.text(name).split("").map(typeOf) : fields.texts(name)
  if (types.length !== layers || !types.every((type) => type === "full" || type === "shared"))
    throw fields.wrong(
      name,
      `does not say of each of ${layers} layers whether it is full or shared`,
    )
  if (types[0] !== "full")
    throw fields.wrong(name, "begins with a layer that shares, with none before it")
  return types
}

const typeOf = (letter: string) => ({ F: "full", S: "shared" })[letter] ?? letter

/** Turned columns are stored as neighbours, and so is what the norm of keys multiplies them with. */
export function glmDsaNaming(config: ModelConfig): Naming {
  const names = { [QUERIES]: QUERIES, [KEYS]: KEYS, [NORM]: NORM }
  return withParts(deepseekNaming(config), neighboursOfIndexer(config, names))
}

const [QUERIES, KEYS, NORM] = ["wq_b", "wk", "k_norm"].map(
  (name) => `self_attn.indexer.${name}`,
) as [string, string, string]

/** @param names what the parts are called where they are stored */
export function neighboursOfIndexer(
  { blocks }: ModelConfig,
  names: Readonly<Record<string, string>>,
): Record<string, Part> {
  const { indexer, turned } = blocks[0]!.attention.latent!
  if (typeof indexer !== "object") return {}
  const neighbours = { headDim: indexer.headDim, turned }
  const parts = [QUERIES, KEYS, NORM].map((part) => [part, { name: names[part]!, neighbours }])
  return Object.fromEntries(parts) as Record<string, Part>
}
