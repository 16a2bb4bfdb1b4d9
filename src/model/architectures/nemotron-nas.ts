// Llama Nemotron Super, Ultra and 51B, which a search has cut out of Llama 3 layer by layer: heads of keys and an MLP of each layer's own
// width, of which either may be missing, or a plain matrix may stand in attention's place. Sources: modeling_decilm.py and
// block_config.py beside the published models; conversion/deci.py of llama.cpp; "Puzzle" (arXiv 2411.19146).

import { type Block, withAttention, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { withBiases } from "./llama.ts"

export function readNemotronNas(fields: Fields): ModelConfig {
  const layers = fields.count("num_hidden_layers")
  const list = fields.json[BLOCKS]
  if (!Array.isArray(list) || list.length !== layers)
    throw fields.wrong(BLOCKS, `is not a list of ${layers} layers`)
  const own = Array.from(list, (block, i) => {
    const name = `${BLOCKS}[${i}]`
    return required(fields.with({ [name]: block }), name)
  })
  const [hidden, heads] = [fields.count("hidden_size"), fields.count("num_attention_heads")]
  const read = own.map((block) => ({
    attention: readAttention(required(block, "attention"), heads),
    width: readWidth(required(block, "ffn"), hidden),
  }))
  const kvHeads = read.map(({ attention }) => (typeof attention === "number" ? attention : 0))
  if (Math.max(...kvHeads) === 0)
    throw fields.wrong(BLOCKS, "names no layer with attention; known: models that have one")
  const most = {
    num_key_value_heads: Math.max(...kvHeads),
    intermediate_size: Math.max(1, ...read.map(({ width }) => width)),
  }
  const config = withBiases(fields, readDecoder(fields.over(most)))
  const blocks = config.blocks.map((block, i) => ofLayer(block, read[i]!))
  return { ...config, blocks }
}

const BLOCKS = "block_configs"

function required(fields: Fields, name: string): Fields {
  const own = fields.object(name)
  if (own) return own
  throw fields.wrong(name, "is missing")
}

/** How many heads of keys it has, or what stands in its place. */
type Attention = number | "a matrix" | "nothing"

function ofLayer(block: Block, { attention, width }: { attention: Attention; width: number }) {
  const own = withMlp(block, { intermediate: width })
  if (attention === "nothing") return { ...own, only: width === 0 ? "nothing" : "mlp" } as const
  const mixed =
    attention === "a matrix"
      ? { ...own, isPlain: true as const }
      : withAttention(own, { kvHeads: attention })
  return width === 0 ? { ...mixed, only: "attention" as const } : mixed
}

function readAttention(fields: Fields, heads: number): Attention {
  const known = ["no_op", "replace_with_linear", "n_heads_in_group"]
  refuseOthers(fields, known)
  if (fields.flag("no_op", false)) return "nothing"
  if (fields.flag("replace_with_linear", false)) return "a matrix"
  const group = fields.count("n_heads_in_group")
  if (heads % group === 0) return heads / group
  throw fields.wrong("n_heads_in_group", `is ${group}, which does not divide ${heads} heads`)
}

/** Of an MLP, 0 where there is none: whole 256 above two thirds of the hidden columns, times a factor, or the number itself. */
function readWidth(fields: Fields, hidden: number): number {
  refuseOthers(fields, ["no_op", "ffn_mult", "intermediate_size"])
  if (fields.flag("no_op", false)) return 0
  if (fields.has("intermediate_size")) return fields.count("intermediate_size")
  const columns = Math.floor((2 * fields.positive("ffn_mult") * hidden) / 3)
  return Math.ceil(columns / 256) * 256
}

/** Whatever else may be said of a part changes what it computes, unless it is switched off. */
function refuseOthers(fields: Fields, known: readonly string[]): void {
  for (const [name, value] of Object.entries(fields.json))
    if (!known.includes(name) && value !== null && value !== false)
      throw fields.wrong(name, `is ${JSON.stringify(value)}; known: ${known.join(", ")}`)
}

export const nemotronNasNaming: Naming = withParts(llamaNaming, {
  "self_attn.plain": "self_attn.linear_attn",
})
