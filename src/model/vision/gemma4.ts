// Gemma 4's tower. It takes images of any proportions, as large as a number of rows of the prompt allows; a patch has a learned row for
// its height and one for its width, and half of each head turns by either. Layers are as the text model's; in some models what each
// matrix reads and gives is cut off at stored numbers. What comes out is the mean of a square of patches, in some models less its usual
// value and over how much that varies.
//
// Where the text model's configuration says so, the rows of an image see each other, in the layers that have windows alone. Where it
// gives layers columns of the token's own, an image's rows have the padding's.
//
// Source: configuration_gemma4.py and modeling_gemma4.py of transformers.

import { NORMS, withAttention, withBlocks } from "../block.ts"
import { type ModelConfig, readDecoder, seeingBothWays } from "../config.ts"
import type { Fields } from "../fields.ts"
import { textFields } from "../seeing.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { TowerConfig } from "./tower.ts"
import { turnedBySides } from "./turns.ts"

/** The `model_type` of the whole. */
export const GEMMA4 = "gemma4"
const TOWER = "gemma4_vision"

/** How many rows of the prompt an image becomes at most: what `max_soft_tokens` of a processor may be. */
export const GEMMA4_ROWS: readonly number[] = [70, 140, 280, 560, 1120]
const MOST_ROWS = 1120

/** Where `vision_config` says nothing. */
const ABSENT = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 16,
  num_attention_heads: 12,
  num_key_value_heads: 12,
  head_dim: 64,
  pooling_kernel_size: 3,
  patch_size: 16,
  position_embedding_size: 10240,
}

/** What of the tower decides how images are cut into patches, too. */
export interface Gemma4Patches {
  patch: number
  /** Patches a side that become one row. */
  joined: number
  /** Heights and widths that have a learned row. */
  lines: number
}

function visionOf(fields: Fields): Fields | undefined {
  if (fields.text("model_type") !== GEMMA4) return undefined
  const vision = fields.object("vision_config")
  return vision?.text("model_type", TOWER) === TOWER ? vision.with(ABSENT) : undefined
}

/** @returns nothing where the tower is not known */
export function readGemma4Patches(fields: Fields): Gemma4Patches | undefined {
  const vision = visionOf(fields)
  if (!vision) return undefined
  const joined = vision.count("pooling_kernel_size", undefined, 1, MAX_JOINED)
  return {
    patch: vision.count("patch_size", undefined, 1, MAX_PATCH),
    joined,
    lines: Math.min(vision.count("position_embedding_size"), MOST_ROWS * joined),
  }
}

const MAX_PATCH = 1 << 10
const MAX_JOINED = 1 << 5

/**
 * @param text the model inside
 * @returns nothing where the tower is not known
 */
export function readGemma4Tower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const [vision, patches] = [visionOf(fields), readGemma4Patches(fields)]
  if (!vision || !patches) return undefined
  const { patch, joined, lines } = patches
  const config = readDecoder(vision.with({ vocab_size: 1, max_position_embeddings: 1 }), {
    activation: { field: "hidden_activation", otherwise: "gelu_pytorch_tanh" },
    rotation: "none",
  })
  const { hidden: width, heads, headDim } = config.shapes
  const bounded = vision.flag("use_clipped_linears", false)
  const bias = vision.flag("attention_bias", false)
  if (bias) throw vision.wrong("attention_bias", "is true, which is not known of this tower")
  const { blocks } = seeingBothWays(withLayers(vision, config, bounded))
  if (heads * headDim !== width)
    throw vision.wrong(
      "head_dim",
      `is ${headDim} of ${heads} heads; only as many columns as hidden_size, ${width}, are known`,
    )
  const inner = textFields(fields)
  const { epsilon } = config.norm!
  return {
    architecture: TOWER,
    patch,
    side: 0,
    fits: { rows: MOST_ROWS * joined * joined, frames: 1, lines },
    hasClass: false,
    patchBias: false,
    width,
    blocks,
    firstNorm: undefined,
    lastNorm: undefined,
    layersRead: undefined,
    merge: {
      side: joined,
      by: "mean",
      factor: Math.sqrt(width),
      ...(vision.flag("standardize", false) && { standardized: true }),
    },
    projector: {
      norm: { kind: "rms", bias: false, epsilon },
      inner: undefined,
      bias: false,
      width: text.shapes.hidden,
      // The text model multiplies the rows of tokens, and not these; ours multiplies all.
      factor: 1 / text.embedding.factor,
    },
    softToken: fields.count("image_token_id", 258880, 0, text.shapes.vocabulary - 1),
    ...(inner.json.use_bidirectional_attention === "vision" && { mutual: "in windows" }),
    instead: inner.count("pad_token_id", 0, 0, text.shapes.vocabulary - 1),
    naming: namingOf(vision, config, patches, bounded),
  }
}

/** Unscaled scores of normed queries, keys and values. */
function withLayers(vision: Fields, config: ModelConfig, bounded: boolean): ModelConfig {
  const turning = { order: "width first", theta: 100, kinds: ["axial"], heads: "head_dim" } as const
  return withBlocks(turnedBySides(vision, config, turning), (block) => ({
    ...withAttention(block, {
      scale: 1,
      norms: { ...block.norm, over: "every head", place: "before" },
      normsValues: true,
    }),
    norms: NORMS.both,
    ...(bounded && { bounded }),
  }))
}

const MATRICES = [
  ...["q", "k", "v", "o"].map((name) => `self_attn.${name}`),
  ...["gate", "up", "down"].map((name) => `mlp.${name}`),
]

/** Single numbers beside each matrix. @param names of the matrices, by what they are called here */
export const boundParts = (names: Readonly<Record<string, string>>): Naming["parts"] =>
  Object.fromEntries(
    Object.entries(names).flatMap(([name, own]) =>
      ["input_min", "input_max", "output_min", "output_max"].map((end): [string, Part] => [
        `${name}.${end}`,
        { name: `${own}.${end}`, bare: true },
      ]),
    ),
  )

/** What no folder stores: norms without weights. */
export const GEMMA4_CONSTANTS: Naming["parts"] = {
  "self_attn.v_norm": { name: "self_attn.v_norm", constant: 1 },
  projector_norm: { name: "projector_norm", constant: 1 },
}

/** Rows of the two tables of positions, which are one tensor: widths come first. */
export function lineParts(
  name: string,
  lines: number,
  { of, width }: { of: number; width: number },
): Naming["parts"] {
  const table = { name, shape: [2, of, width] }
  const rows = (from: number) => ({ of: 2 * of, from, run: lines, every: 2 * of })
  return {
    "widths.weight": { ...table, rows: rows(0) },
    "heights.weight": { ...table, rows: rows(of) },
  }
}

function namingOf(
  vision: Fields,
  { shapes: { hidden: width, headDim } }: ModelConfig,
  patches: Gemma4Patches,
  bounded: boolean,
): Naming {
  const { patch } = patches
  const neighbours = { headDim, turned: headDim, quarters: true } as const
  const pixels = "patch_embedder.input_proj"
  const linear = Object.fromEntries(
    MATRICES.map((name): [string, Part] => [
      `${name}_proj`,
      { name: `${name}_proj.linear`, ...(/\.[qk]$/.test(name) && { neighbours }) },
    ]),
  )
  return {
    roots: ["model.", ""].map((root) => ({
      root: `${root}vision_tower.`,
      head: `${root}embed_vision.`,
    })),
    layers: "encoder.layers.",
    parts: {
      embed_tokens: pixels, // by which the tower is found
      "patch_embedding.weight": {
        name: `${pixels}.weight`,
        shape: [width, 3 * patch * patch],
        turnedColumns: 3,
      },
      ...lineParts("patch_embedder.position_embedding_table", patches.lines, {
        of: vision.count("position_embedding_size"),
        width,
      }),
      "std_bias.weight": { name: "std_bias", shape: [width] },
      std_scale: { name: "std_scale", bare: true },
      "self_attn.output_norm": "post_attention_layernorm",
      post_attention_layernorm: "pre_feedforward_layernorm",
      "mlp.output_norm": "post_feedforward_layernorm",
      ...linear,
      "self_attn.q_norm": { name: "self_attn.q_norm", neighbours },
      "self_attn.k_norm": { name: "self_attn.k_norm", neighbours },
      ...(bounded &&
        boundParts(Object.fromEntries(MATRICES.map((name) => [`${name}_proj`, `${name}_proj`])))),
      linear_1: "embedding_projection",
      ...GEMMA4_CONSTANTS,
    },
  }
}
