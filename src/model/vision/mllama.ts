// What configurations of Llama 3.2 Vision say of what it sees with: two towers behind one another, in both of which every patch sees those
// of all tiles of its image. Positions are learned of patches, of tiles and of the patches of each tile, for each way in which tiles may
// lie; gates say how much these count, and in the second tower what attention and MLP give. What some layers of the first read stands
// beside the rows of the last, and a matrix makes the text model's rows of it.
//
// Sources: configuration_mllama.py and modeling_mllama.py of transformers; models/llama3/multimodal/model.py of Meta's llama-models, and vLLM
// and Ollama after it, for which rows of the first tower these are: transformers since 4.54 takes what those layers give (its pull request
// 39785).

import { arrangements, tileNumbers } from "../../images/together.ts"
import { readableTokens } from "../../runtime/manifest.ts"
import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { MAX_LAYERS, type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { NamedPart, Naming } from "../weights/names.ts"
import { MAX_TOGETHER } from "./cutting.ts"
import { oneSide } from "./sides.ts"
import type { TowerConfig } from "./tower.ts"

/** The `model_type` of the whole, and of what it sees with. */
export const MLLAMA = "mllama"
export const MLLAMA_TOWER = "mllama_vision_model"

/** Where `vision_config` says nothing. */
const ABSENT = {
  hidden_size: 1280,
  intermediate_size: 5120,
  num_hidden_layers: 32,
  num_global_layers: 8,
  attention_heads: 16,
  image_size: 448,
  patch_size: 14,
  hidden_act: "gelu",
  norm_eps: 1e-5,
  max_num_tiles: 4,
  intermediate_layers_indices: [3, 7, 15, 23, 30],
}

/** Of the norms that are no layer's, which no configuration says. */
const EPSILON = 1e-5

const MAX_PIXELS = 1 << 14

/**
 * @param text the model inside
 * @returns nothing where the tower is not known
 */
export function readMllamaTower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  if (fields.text("model_type") !== MLLAMA) return undefined
  const said = fields.object("vision_config")
  if (said?.text("model_type", MLLAMA_TOWER) !== MLLAMA_TOWER) return undefined
  const vision = said.with(ABSENT)
  const colours = vision.count("num_channels", 3)
  if (colours !== 3) throw vision.wrong("num_channels", `is ${colours}; images have 3 colours`)
  const local = vision.count("num_hidden_layers", undefined, 1, MAX_LAYERS)
  const global = vision.count("num_global_layers", undefined, 1, MAX_LAYERS)
  const config = readDecoder(
    vision.with({ vocab_size: 1, max_position_embeddings: 1 }).over({
      num_hidden_layers: local + global,
      layer_norm_eps: vision.positive("norm_eps"),
    }),
    {
      names: { heads: "attention_heads", kvHeads: "attention_heads" },
      epsilon: "layer_norm_eps",
      norm: { kind: "layer", bias: true },
      rotation: "none",
    },
  )
  const { hidden: width } = config.shapes
  const [patch, tile] = ["patch_size", "image_size"].map((name) =>
    oneSide(vision, name, { most: MAX_PIXELS }),
  ) as [number, number]
  if (tile % patch !== 0)
    throw vision.wrong("patch_size", `is ${patch}, which does not divide tiles of ${tile}`)
  const side = tile / patch
  const most = vision.count("max_num_tiles", undefined, 1, MAX_TOGETHER)
  checkArrangements(vision, most)
  const beside = layersBeside(vision, local)
  const columns = vision.count("vision_output_dim", 7680)
  if (columns !== width * (1 + beside.length))
    throw vision.wrong(
      "vision_output_dim",
      `is ${columns}, and ${1 + beside.length} layers leave ${width * (1 + beside.length)} columns`,
    )
  const { blocks } = withBlocks(config, (block, layer) => ({
    ...withMlp(withAttention(block, { mutual: true, bias: { qkv: false, o: false } }), {
      gated: false,
      bias: true,
    }),
    norms: NORMS.before,
    ...(layer >= local && { gates: true as const }),
  }))
  const norm = { kind: "layer", bias: true, epsilon: EPSILON } as const
  const tiled = { most, local, beside }
  return {
    architecture: MLLAMA_TOWER,
    patch,
    side,
    hasClass: true,
    patchBias: false,
    width,
    blocks,
    firstNorm: norm,
    lastNorm: norm,
    layersRead: undefined,
    tiled,
    merge: { side: 1, by: "columns" },
    projector: {
      norm: undefined,
      inner: undefined,
      bias: true,
      width: text.shapes.hidden,
      factor: 1,
    },
    softToken: softTokenOf(fields, text),
    naming: {
      roots: ["model.", ""].map((root) => ({ root: `${root}vision_model.`, head: root })),
      layers: "transformer.layers.",
      parts: partsOf({ width, side, patch, tiled, blocks }),
    },
  }
}

/** Under one of the names that transformers has for it. */
function softTokenOf(fields: Fields, { shapes }: ModelConfig): number {
  const name = fields.has("image_token_id") ? "image_token_id" : "image_token_index"
  return fields.count(name, 128256, 0, readableTokens(shapes) - 1)
}

/** Layers of the first tower, from 0 on, by whose rows the last's are joined. */
function layersBeside(vision: Fields, local: number): number[] {
  const name = "intermediate_layers_indices"
  const listed = vision.numbers(name)
  for (const layer of listed)
    if (!Number.isInteger(layer) || layer < 0 || layer >= local)
      throw vision.wrong(name, `holds ${layer}, which is no layer of ${local}`)
  if (listed.length === 0) throw vision.wrong(name, "names no layer")
  return listed
}

/** Ways in which tiles may lie have numbers, which the image processor gives them. */
function checkArrangements(vision: Fields, most: number): void {
  const name = "supported_aspect_ratios"
  const known = JSON.stringify(arrangements(most))
  const said = JSON.stringify(vision.json[name] ?? arrangements(most))
  if (said !== known)
    throw vision.wrong(name, `is ${said}; of ${most} tiles only ${known} is known`)
}

const PRE = "pre_tile_positional_embedding"
const POST = "post_tile_positional_embedding"
const POSITIONS = "gated_positional_embedding"

type Shape = Pick<TowerConfig, "width" | "side" | "patch" | "tiled" | "blocks">

/** Tables that hold rows of all tiles, in each way in which these may lie. @param names of them */
function tileTables(
  { width, side, tiled }: Pick<Shape, "width" | "side" | "tiled">,
  names: Record<"before" | "behind" | "positions", string>,
): Record<"before" | "behind" | "positions", NamedPart> {
  const { most } = tiled!
  const [rows, tiles] = [side * side + 1, tileNumbers(most)]
  const ofTiles = (name: string) => ({
    name,
    shape: [tiles / most, most * width],
    rows: { of: tiles, from: 0, run: tiles, every: tiles },
    turnedRuns: { width },
  })
  return {
    before: ofTiles(names.before),
    behind: ofTiles(names.behind),
    positions: { name: names.positions, shape: [tiles / most, most * rows * width] },
  }
}

const turned = ({ width, tiled }: Pick<Shape, "width" | "tiled">) => ({
  turnedColumns: tiled!.beside.length,
  turnedFrom: width,
})

function partsOf(shape: Shape): Naming["parts"] {
  const { width, patch } = shape
  const tables = tileTables(shape, {
    before: `${PRE}.embedding.weight`,
    behind: `${POST}.embedding.weight`,
    positions: `${POSITIONS}.tile_embedding.weight`,
  })
  const gate = (name: string) => ({ name: `${name}.gate`, tanh: "itself" as const })
  return {
    embed_tokens: "patch_embedding", // by which the tower is found
    "patch_embedding.weight": { name: "patch_embedding.weight", shape: [width, 3, patch, patch] },
    "class.weight": { name: "class_embedding" },
    ...ONES,
    "tiles_before.weight": tables.before,
    "tiles_behind.weight": tables.behind,
    "before_gate.weight": gate(PRE),
    "behind_gate.weight": gate(POST),
    "positions.weight": { name: `${POSITIONS}.embedding` },
    "positions_gate.weight": { name: `${POSITIONS}.gate`, tanh: "what is left" },
    "tile_positions.weight": tables.positions,
    "tile_positions_gate.weight": gate(POSITIONS),
    embed_norm: "layernorm_pre",
    norm: "layernorm_post",
    ...MLP,
    linear_1: "multi_modal_projector",
    "linear_1.weight": { name: "multi_modal_projector.weight", ...turned(shape) },
    ...globalParts(shape, {
      layers: "global_transformer.layers.",
      names: { ...sameNames, ...MLP },
      gates: { attention: "gate_attn", mlp: "gate_ffn" },
      tanh: "itself",
    }),
  }
}

/**
 * Gates are stored as what is multiplied with.
 * @param isSwapped matrices of the second tower's MLPs have each other's names
 */
export function mllamaGgufParts(shape: Shape, isSwapped: boolean): Naming["parts"] {
  const { width, patch } = shape
  const [up, down] = isSwapped ? ["ffn_down", "ffn_up"] : ["ffn_up", "ffn_down"]
  const tables = tileTables(shape, {
    before: "pre_tile_position_embd.weight",
    behind: "post_tile_position_embd.weight",
    positions: "tile_position_embd.weight",
  })
  return {
    "patch_embedding.weight": { name: "patch_embd.weight", shape: [width, 3, patch, patch] },
    "class.weight": { name: "class_embd" },
    ...ONES,
    "tiles_before.weight": tables.before,
    "tiles_behind.weight": tables.behind,
    "before_gate.weight": { name: "pre_tile_position_embd.gate" },
    "behind_gate.weight": { name: "post_tile_position_embd.gate" },
    "positions.weight": { name: "position_embd.weight" },
    "positions_gate.weight": { name: "position_embd.gate" },
    "tile_positions.weight": tables.positions,
    "tile_positions_gate.weight": { name: "tile_position_embd.gate" },
    linear_1: "0",
    "linear_1.weight": { name: "0.weight", ...turned(shape) },
    ...globalParts(shape, {
      layers: "global.blk.",
      names: {
        input_layernorm: "ln1",
        post_attention_layernorm: "ln2",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_out",
        "mlp.up_proj": up!,
        "mlp.down_proj": down!,
      },
      gates: { attention: "attn_gate", mlp: "ffn_gate" },
    }),
  }
}

/** By which a row's one number becomes as many as it has columns. */
const ONES: Naming["parts"] = { "ones.weight": { name: "ones", constant: 1 } }

const MLP = { "mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2" }

const sameNames = Object.fromEntries(
  [
    ...["input_layernorm", "post_attention_layernorm"],
    ...["q", "k", "v", "o"].map((name) => `self_attn.${name}_proj`),
  ].map((name) => [name, name]),
)

interface GlobalNames {
  layers: string
  names: Readonly<Record<string, string>>
  gates: Record<"attention" | "mlp", string>
  tanh?: NamedPart["tanh"]
}

/** Layers of the second tower, which are counted behind those of the first here. */
function globalParts(
  { blocks, tiled }: Pick<Shape, "blocks" | "tiled">,
  { layers, names, gates, tanh }: GlobalNames,
): Naming["parts"] {
  const { local } = tiled!
  const parts = blocks.slice(local).flatMap((_, layer) => {
    const own = `global.layers.${local + layer}.`
    const stored = `${layers}${layer}.`
    return [
      ...Object.entries(names).map(([name, as]) => [own + name, stored + as] as const),
      ...Object.entries(gates).map(([name, as]) => {
        const gate = { name: stored + as, ...(tanh && { tanh }) }
        return [`${own}${name}.out_gate.weight`, gate] as const
      }),
    ]
  })
  return Object.fromEntries(parts)
}
