// EAGLE 3: a head of one or a few llama or Qwen 3 layers that reads, beside a token, rows that some layers of its model read at the
// token before it, joined to one by `fc`; behind its own guess it reads the row that it has left there. Attention of the first layer
// reads token and row, each under a norm of its own. It guesses among a part of the vocabulary. Sources: model/cnets.py of
// SafeAILab/EAGLE, models/eagle3 of vllm-project/speculators, and where they differ llama_eagle3.py of vLLM.
//
// Which layers is counted in two ways: by what a layer reads (vLLM, and so speculators), and by what one has left (`eagle_config`, of
// SGLang, SpecForge and ModelOpt). Here, and in the fields of a compiled head, it is the former.

import {
  add,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  reorder,
  select,
  slice,
  weight,
} from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import { withBlocks } from "../block.ts"
import { type ModelConfig, widestWindow } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { decoderLayer } from "../layers.ts"
import { named, normed } from "../tensors.ts"
import { refuseUnknown } from "./eagle.ts"
import { readLlama } from "./llama.ts"
import { readQwen3 } from "./qwen.ts"

/** Of each token of the model, which of those that the head knows it is, or -1. Not in its files as such. */
export const PLACES = "draft_places"

export interface Eagle3Config extends ModelConfig {
  /** The layers of its model whose rows it reads. */
  reads: readonly number[]
  /** Columns of such a row. */
  columns: number
  /** How many tokens it knows. */
  known: number
  /** Rows are normed before they are joined: all as one, or each by itself. */
  rowNorms: "one" | "each" | undefined
  /** The first layer adds to the row as it is normed. */
  addsToNormed: boolean
  /** It goes on with the row that it has left as that is normed. */
  leavesNormed: boolean
}

/** What a head belongs to. */
export interface Eagle3Base {
  name: string
  layers: number
  vocabulary: number
}

const TITLE = "EAGLE 3 heads"

const LAYERS = "eagle_aux_hidden_state_layer_ids"

/** Either way of publishing a head, in the words of the compiled one. */
export function eagle3Fields(fields: Fields): Fields {
  if (fields.has("layer_rows")) return fields
  refuseUnknown(fields, TITLE)
  if (fields.has("speculators_model_type")) return ofSpeculators(fields)
  const { [LAYERS]: left = [], norm_before_fc } = ofEagleConfig(fields)
  const behind = left.map((layer) => layer + 1)
  return fields.over({
    layer_rows: fields.has(LAYERS) ? fields.counts(LAYERS) : behind,
    layer_kind: fields.text("model_type", "llama"),
    ...(norm_before_fc !== undefined && { norm_before_fc }),
  })
}

function ofSpeculators(fields: Fields): Fields {
  const kind = fields.text("speculators_model_type")
  if (kind !== "eagle3") throw fields.wrong("speculators_model_type", `is "${kind}"; known: eagle3`)
  const layer = fields.object("transformer_layer_config")
  if (!layer) throw fields.wrong("transformer_layer_config", "is missing")
  refuseUnknown(layer, TITLE)
  // Where it is absent, vLLM and speculators disagree.
  if (!fields.has("norm_before_residual")) throw fields.wrong("norm_before_residual", "is missing")
  return fields
    .without("transformer_layer_config")
    .without("speculators_model_type")
    .over({
      ...layer.json,
      layer_rows: fields.has(LAYERS) ? fields.counts(LAYERS) : [],
      layer_kind: layer.text("model_type", "qwen3"),
    })
}

/** The same in `eagle_config`; ModelOpt writes all of them. */
const NEUTRAL_EAGLE: Json = {
  next_layer_regular: true,
  parallel_draft_heads_num_layers: 1,
  parallel_draft_step: 1,
  use_aux_hidden_state: true,
  use_input_layernorm_in_first_layer: true,
  use_last_layernorm: true,
  use_mtp_layernorm: false,
}

interface OfEagleConfig {
  [LAYERS]?: readonly number[]
  norm_before_fc?: boolean
}

function ofEagleConfig(fields: Fields): OfEagleConfig {
  const own = fields.object("eagle_config")
  if (!own) return {}
  refuseUnknown(own, TITLE, NEUTRAL_EAGLE)
  const [ids, norm] = [LAYERS, "norm_before_fc"] as const
  const other = Object.keys(own.json).find(
    (key) => ![...Object.keys(NEUTRAL_EAGLE), ids, norm].includes(key),
  )
  if (other !== undefined) throw own.wrong(other, "is not known of EAGLE 3 heads")
  return {
    ...(own.has(ids) && { [ids]: own.counts(ids) }),
    ...(own.has(norm) && { [norm]: own.flag(norm, false) }),
  }
}

const layerKinds: Readonly<Record<string, (fields: Fields) => ModelConfig>> = {
  llama: readLlama,
  qwen3: readQwen3,
}

/** @param fields as `eagle3Fields` gives them */
export function readEagle3(fields: Fields, base: Eagle3Base): Eagle3Config {
  const kind = fields.text("layer_kind")
  if (!Object.hasOwn(layerKinds, kind))
    throw fields.wrong("model_type", `is "${kind}"; of EAGLE 3 heads, llama and qwen3 are known`)
  const config = withBlocks(layerKinds[kind]!(fields), (block, i) =>
    i > 0 ? block : { ...block, norms: { ...block.norms, beforeAttention: false } },
  )
  const { hidden, vocabulary } = config.shapes
  const [one, each] = [fields.flag("norm_before_fc", false), fields.flag("fc_norm", false)]
  if (one && each) throw fields.wrong("fc_norm", "and norm_before_fc are both true")
  // Lists as long as it are made before anything is compared with the weights.
  if (vocabulary !== base.vocabulary)
    throw fields.wrong("vocab_size", `is ${vocabulary}, and ${base.name} has ${base.vocabulary}`)
  return {
    ...config,
    reads: readLayers(fields, base),
    columns: fields.count("target_hidden_size", hidden),
    known: fields.count("draft_vocab_size", vocabulary, 1, vocabulary),
    rowNorms: one ? "one" : each ? "each" : undefined,
    addsToNormed: fields.flag("norm_before_residual", false),
    leavesNormed: fields.flag("norm_output", false),
  }
}

/** Where none are named, one near the beginning, one in the middle and one near the end. */
function readLayers(fields: Fields, { name, layers }: Eagle3Base): readonly number[] {
  const listed = fields.counts("layer_rows")
  const reads = listed.length > 0 ? listed : [2, Math.floor(layers / 2), layers - 3]
  const isFit = (layer: number) => layer >= 0 && layer <= layers
  if (reads.every(isFit) && new Set(reads).size === reads.length) return reads
  const what = `it reads rows of layers ${reads.join(", ")}, and ${name} has ${layers} of them`
  throw fields.wrong(LAYERS, `does not fit: ${what}`)
}

export function eagle3(config: Eagle3Config): Graph {
  const { shapes, reads, columns, known, sinks, norm } = config
  const { vocabulary, hidden, layers } = shapes
  const top = named("", "")
  const given = reads.length * columns
  // A token has one of the two, and zeros in the place of the other: neither is told apart, and both are one program's.
  const rows = hiddenIn(given + hidden)
  const fc = weight("fc", "fc.weight", hidden, given)
  let x = add(linear(rowsNormed(config, slice(rows, 0, given)), fc), slice(rows, given, hidden))
  const first = named("layers.0.", "layers.0.")
  const token = embed(weight("embed", "embed_tokens.weight", vocabulary, hidden))
  const ofToken = normed(token, norm!, first, "token_norm", "input_layernorm")
  const ofRow = normed(x, norm!, first, "row_norm", "hidden_norm")
  const read = concat(ofToken, ofRow) // [tokens, 2 * hidden]
  if (config.addsToNormed) x = ofRow
  config.blocks.forEach((block, index) => {
    const place = { index, layers, prefix: "", hidden, sinks, ...(index === 0 && { read }) }
    x = decoderLayer(block, x, place)
  })
  const last = normed(x, norm!, top, "norm", "norm")
  const places = weight("places", PLACES, vocabulary)
  return finish(
    {
      architecture: "eagle3",
      shapes: { ...shapes, taken: given + hidden },
      window: widestWindow(config),
      sinks,
    },
    last,
    weight("head", "lm_head.weight", known, hidden),
    {
      shape: (logits) => (known === vocabulary ? logits : reorder(logits, places)),
      hidden: select(config.leavesNormed ? last : x, "hidden"),
    },
  )
}

function rowsNormed({ rowNorms, reads, columns, norm }: Eagle3Config, rows: Node): Node {
  const top = named("", "")
  if (rowNorms === undefined) return rows
  if (rowNorms === "one") return normed(rows, norm!, top, "input_norm", "input_norm")
  return reads
    .map((_, i) => {
      const row = slice(rows, i * columns, columns)
      return normed(row, norm!, top, `fc_norm.${i}`, `fc_norm.${i}`)
    })
    .reduce(concat)
}
