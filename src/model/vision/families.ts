// The families of models that see: which towers they may have (eyes.ts), and what stands between tower and text model. A tower that is
// not known is none: its model is served as the text model inside of it. Of a known one, what would change the mathematics is read
// or refused.
//
// Sources: configuration_*.py and modeling_*.py of transformers (aya_vision, cohere2_vision, deepseek_vl, gemma3, granite4_vision, granite_docling, hunyuan_vl, idefics3, internvl,
// janus, lfm2_vl, lighton_ocr, llama4, llava, llava_next, llava_onevision, minicpm_ocr, minicpmv4_6, minicpmv4_7, mistral3, muse_glimmer, paddleocr_vl, paligemma, qianfan_ocr, smolvlm,
// vipllava).

import { type ModelConfig, readActivation } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"
import { asked, type Eye, type EyeName, eyes } from "./eyes.ts"
import { GEMMA4, readGemma4Tower } from "./gemma4.ts"
import { isGlm4v, readGlm4vTower } from "./glm4v.ts"
import {
  GRANITE_DOCLING,
  GRANITE_DOCLING_MERGING,
  graniteDoclingParts,
  graniteDoclingProjectors,
  graniteDoclingScale,
  graniteDoclingStacked,
} from "./granite-docling.ts"
import { askingParts, GRANITE4, JOINED, readAsking } from "./granite4.ts"
import {
  HUNYUAN,
  HUNYUAN_TOWERS,
  hunyuanAxes,
  hunyuanParts,
  hunyuanVision,
  readHunyuanPatches,
} from "./hunyuan.ts"
import { kimiKernel } from "./kimi.ts"
import { LFM3, readLfm3Tower } from "./lfm3.ts"
import {
  checkMerging,
  MARKS,
  MINICPM,
  mergedOf,
  miniCpmVision,
  readResampler,
  resamplerParts,
} from "./minicpm.ts"
import { MLLAMA, readMllamaTower } from "./mllama.ts"
import {
  MUSE_GLIMMER,
  MUSE_GLIMMER_TOWERS,
  museGlimmerShuffle,
  readMuseGlimmerPatches,
} from "./muse-glimmer.ts"
import { PADDLEOCR, PADDLEOCR_TOWERS, readPaddleOcrPatches } from "./paddleocr.ts"
import { PALIGEMMA } from "./paligemma.ts"
import { axesOf, isQwen, readQwen } from "./qwen.ts"
import { oneSide } from "./sides.ts"
import type { Merge, Projector, TowerConfig } from "./tower.ts"

/** What stands behind it. */
interface Ending {
  layersRead: TowerConfig["layersRead"]
  between?: TowerConfig["between"]
  merge: Merge
  resampler?: TowerConfig["resampler"]
  stacked?: Pick<TowerConfig, "stacked" | "stackedProjector">
  asking?: TowerConfig["asking"]
  projector: Omit<Projector, "width">
  /** What its own parts are called, where the configuration decides that. */
  parts?: Naming["parts"]
}

interface Family {
  /** What its `vision_config` may be; the first where it does not say. */
  towers: readonly [EyeName, ...EyeName[]]
  /** Another of that name. @param fields of the whole */
  eye?(fields: Fields): Eye
  /** @param text the model inside */
  ending(fields: Fields, eye: Eye, text: ModelConfig): Ending
  /** Where it is not said. */
  softToken: number
  newline?: true
  framed?: true
  /** What turns each pair in the text model, where it turns rows by where they lie. */
  axes?(fields: Fields, text: ModelConfig): NonNullable<TowerConfig["axes"]>
  mutual?: NonNullable<TowerConfig["mutual"]>
  /** What may stand before the names of tensors: the tower's, and the projector's. */
  roots: Naming["roots"]
  /** What the projector's parts are called, where these have other names. */
  parts: Naming["parts"]
}

/**
 * @param text the model inside
 * @returns nothing where there is no tower, or none that is known
 */
export function readTower(fields: Fields, text: ModelConfig): TowerConfig | undefined {
  const own =
    readQwen(fields, text) ??
    readGemma4Tower(fields, text) ??
    readGlm4vTower(fields, text) ??
    readLfm3Tower(fields, text) ??
    readMllamaTower(fields, text)
  if (own) return own
  const type = fields.text("model_type")
  const vision = fields.object("vision_config")
  if (!vision || !Object.hasOwn(families, type)) return undefined
  const family: Family = families[type as keyof typeof families]
  const architecture = vision.text("model_type", "") || family.towers[0]
  const name = family.towers.find((tower) => tower === architecture)
  if (!name) return undefined
  const eye = family.eye?.(fields) ?? eyes[name](vision)
  const ending = family.ending(fields, eye, text)
  const { layersRead, between, merge, resampler, asking, stacked, projector, parts } = ending
  const { names, ...its } = eye
  return {
    ...its,
    architecture,
    blocks: layersRead ? its.blocks.slice(0, Math.max(...layersRead)) : its.blocks,
    lastNorm: layersRead ? undefined : its.lastNorm,
    layersRead,
    ...(between && { between }),
    merge,
    ...(resampler && { resampler }),
    ...(asking && { asking }),
    projector: { ...projector, width: text.shapes.hidden },
    ...stacked,
    softToken: softTokenOf(fields, family, text),
    ...(family.newline && { newline: family.newline }),
    ...(family.framed && { framed: family.framed }),
    ...(family.axes && { axes: family.axes(fields, text) }),
    ...(family.mutual && { mutual: family.mutual }),
    naming: {
      roots: family.roots,
      layers: names.layers,
      parts: { ...names.parts, ...family.parts, ...parts },
    },
  }
}

/** Whether images are read of models of that `model_type`. */
export const readsImages = (type: string) =>
  isQwen(type) ||
  type === GEMMA4 ||
  type === LFM3 ||
  type === MLLAMA ||
  isGlm4v(type) ||
  Object.hasOwn(families, type)

/** Under one of the names that configurations have for it. */
function softTokenOf(fields: Fields, { softToken }: Family, { shapes }: ModelConfig): number {
  const names = ["image_token_index", "image_token_id", "media_placeholder_token_id"]
  const name = names.find((each) => fields.has(each)) ?? "image_token_id"
  return fields.count(name, softToken, 0, shapes.vocabulary - 1)
}

const LLAVA = {
  roots: rootsOf(["vision_tower.vision_model.", "vision_tower."], "multi_modal_projector."),
  parts: {},
}

const NEWLINE: Naming["parts"] = { "newline.weight": { name: "image_newline", apart: true } }

const minicpm46: Family = {
  towers: ["minicpmv4_6_vision"],
  ending: mergingEnding,
  softToken: 248056,
  roots: rootsOf(["vision_tower."], "merger.mlp.0."),
  parts: {
    "vit_merger.input_layernorm": "vit_merger.layer_norm1",
    "vit_merger.self_attn.o_proj": "vit_merger.self_attn.out_proj",
    "vit_merger.norm": "vit_merger.pre_norm",
    ...MARKS,
    projector_norm: "pre_norm",
  },
}

const idefics3Family: Family = {
  towers: ["idefics3_vision", "idefics3", "smolvlm_vision", "smolvlm", "siglip_vision_model"],
  ending(fields, eye) {
    const side = fields.count("scale_factor", 2)
    return {
      layersRead: undefined,
      merge: { side: dividing(fields, "scale_factor", side, eye), by: "columns" },
      projector: { norm: undefined, inner: undefined, bias: false, factor: 1 },
    }
  },
  softToken: 128257,
  roots: rootsOf(["vision_model."], "connector."),
  parts: { linear_1: "modality_projection.proj" },
}

/** By the `model_type` of the whole. */
const families = {
  aya_vision: {
    towers: ["siglip_vision_model"],
    ending: ayaEnding,
    softToken: 255036,
    roots: LLAVA.roots,
    parts: { projector_norm: "layernorm" },
  },
  cohere2_vision: {
    towers: ["siglip_vision_model"],
    ending: (fields, eye) => ({
      layersRead: undefined,
      ...gatedEnding(fields, eye, fields.count("alignment_intermediate_size", 36864)),
    }),
    softToken: 255036,
    ...LLAVA,
  },
  deepseek_vl: {
    towers: ["siglip_vision_model"],
    ending: (_, __, { shapes }) => ({
      layersRead: undefined,
      merge: { side: 1, by: "columns" },
      projector: {
        norm: undefined,
        inner: { columns: shapes.hidden, activation: "gelu", gated: false },
        bias: true,
        factor: 1,
      },
    }),
    softToken: 100015,
    roots: rootsOf(["vision_model."], "aligner."),
    parts: { linear_1: "linear1", linear_2: "linear2" },
  },
  gemma3: {
    towers: ["siglip_vision_model"],
    ending: gemma3Ending,
    softToken: 262144,
    mutual: "everywhere",
    roots: LLAVA.roots,
    parts: {
      projector_norm: { name: "mm_soft_emb_norm", plus: 1 },
      "linear_1.weight": { name: "mm_input_projection_weight", transposed: true },
    },
  },
  [GRANITE4]: {
    towers: ["siglip_vision_model"],
    ending: granite4Ending,
    softToken: 32000,
    newline: true,
    roots: rootsOf(["vision_tower.vision_model.", "vision_tower."], ""),
    parts: NEWLINE,
  },
  [GRANITE_DOCLING]: {
    towers: ["granite_docling_vision"],
    ending: graniteDoclingEnding,
    softToken: 100337,
    roots: ["model.vision_model.", "vision_model."].map((root) => ({
      root,
      head: `${root}connector.`,
    })),
    parts: {},
  },
  [HUNYUAN]: {
    towers: HUNYUAN_TOWERS,
    ending: hunyuanEnding,
    framed: true,
    axes: hunyuanAxes,
    softToken: 120120,
    roots: ["vit.", "model.vit."].map((root) => ({ root, head: `${root}perceive.` })),
    parts: {},
  },
  idefics3: idefics3Family,
  internvl: {
    towers: ["internvl_vision"],
    ending: internVlEnding,
    softToken: 151667,
    roots: LLAVA.roots,
    parts: { projector_norm: "layer_norm" },
  },
  janus: {
    towers: ["janus_vision_model"],
    ending: janusEnding,
    softToken: 100581,
    roots: rootsOf(["vision_model."], "aligner."),
    parts: { linear_1: "fc1", linear_2: "hidden_layers.0" },
  },
  kimi_k25: {
    towers: ["kimi_k25_vision"],
    ending: kimiEnding,
    softToken: 163605,
    roots: rootsOf(["vision_tower."], "mm_projector."),
    parts: { merging_norm: "pre_norm", linear_1: "proj.0", linear_2: "proj.2" },
  },
  kimi_vl: {
    towers: ["moonvit"],
    ending: kimiEnding,
    softToken: 163605,
    roots: LLAVA.roots,
    parts: { merging_norm: "pre_norm" },
  },
  lfm2_vl: {
    towers: ["siglip2_vision_model"],
    ending: lfm2Ending,
    softToken: 396,
    roots: LLAVA.roots,
    parts: { projector_norm: "layer_norm" },
  },
  lighton_ocr: {
    towers: ["pixtral"],
    ending: mistral3Ending,
    softToken: 151655,
    roots: rootsOf(["vision_encoder."], "vision_projection."),
    parts: { merging_norm: "norm" },
  },
  llama4: {
    towers: ["llama4_vision_model"],
    ending: llama4Ending,
    softToken: 200092,
    roots: rootsOf(["vision_model."], ""),
    parts: {
      linear_1: "vision_model.vision_adapter.mlp.fc1",
      linear_2: "vision_model.vision_adapter.mlp.fc2",
      linear_3: "multi_modal_projector.linear_1",
    },
  },
  llava: {
    towers: ["clip_vision_model", "siglip_vision_model", "pixtral"],
    ending: llavaEnding,
    softToken: 32000,
    ...LLAVA,
  },
  llava_next: {
    towers: ["clip_vision_model", "siglip_vision_model"],
    ending: llavaEnding,
    softToken: 32000,
    newline: true,
    roots: LLAVA.roots,
    parts: NEWLINE,
  },
  llava_onevision: {
    towers: ["siglip_vision_model"],
    ending: (fields, eye, text) => llavaEnding(fields, eye, text, -1),
    softToken: 151646,
    newline: true,
    roots: LLAVA.roots,
    parts: NEWLINE,
  },
  [MINICPM]: {
    towers: ["siglip_vision_model", "siglip"],
    eye: (fields) => asked(miniCpmVision(fields)),
    ending: miniCpmEnding,
    softToken: 0,
    roots: [{ root: "vpm.", head: "resampler." }],
    parts: {},
  },
  minicpm_ocr: { ...minicpm46, towers: ["minicpm_ocr_vision"] },
  minicpmv4_6: minicpm46,
  minicpmv4_7: {
    ...minicpm46,
    towers: ["minicpmv4_7_vision"],
    axes: (fields, text) => axesOf(fields, { sections: [11, 11, 10], interleaved: true }, text),
  },
  mistral3: {
    towers: ["pixtral"],
    ending: mistral3Ending,
    softToken: 10,
    roots: LLAVA.roots,
    parts: { merging_norm: "norm" },
  },
  [MUSE_GLIMMER]: {
    towers: MUSE_GLIMMER_TOWERS,
    ending: museGlimmerEnding,
    softToken: 200092,
    roots: rootsOf(["vision_tower."], ""),
    parts: { linear_2: "vision_adapter.fc2", linear_3: "vision_projection" },
  },
  [PALIGEMMA]: {
    towers: ["siglip_vision_model"],
    ending: paliGemmaEnding,
    softToken: 256000,
    mutual: "with the prompt",
    roots: LLAVA.roots,
    parts: { linear_1: "linear" },
  },
  qianfan_ocr: {
    towers: ["qianfan_ocr_vision"],
    ending: internVlEnding,
    softToken: 151667,
    roots: [{ root: "vision_model.", head: "mlp1." }],
    parts: { projector_norm: "0", linear_1: "1", linear_2: "3" },
  },
  [PADDLEOCR]: {
    towers: PADDLEOCR_TOWERS,
    ending: paddleOcrEnding,
    axes: (fields, text) => axesOf(fields, { sections: [16, 24, 24], interleaved: false }, text),
    softToken: 100295,
    roots: [
      { root: "model.visual.vision_model.", head: "model.projector." },
      { root: "visual.vision_model.", head: "mlp_AR." },
    ],
    parts: { merging_norm: "pre_norm" },
  },
  smolvlm: idefics3Family,
  vipllava: {
    towers: ["clip_vision_model"],
    ending: vipLlavaEnding,
    softToken: 32000,
    roots: LLAVA.roots,
    parts: { projector_norm: "projector_layernorm" },
  },
} satisfies Record<string, Family>

/** With and without what transformers 5 puts before all of them. */
function rootsOf(parts: readonly string[], projector: string): Naming["roots"] {
  return parts.flatMap((part) =>
    ["model.", ""].map((root) => ({
      root: root + part,
      head: root + projector,
      apart: root,
    })),
  )
}

/** Where a tower fits images, none of its rows is a class's. */
function llavaEnding(fields: Fields, eye: Eye, text: ModelConfig, last = -2): Ending {
  if (eye.fits) checkStrategy(fields.with({ vision_feature_select_strategy: "default" }), "full")
  return {
    layersRead: readLayers(fields, eye, [last]),
    merge: { side: 1, by: "columns" },
    projector: {
      norm: undefined,
      inner: readInner(fields, text),
      bias: fields.flag("multimodal_projector_bias", true),
      factor: 1,
    },
  }
}

/** Two matrices, told of with the tower, whose activation is theirs, too. */
function janusEnding(fields: Fields, _: Eye, { shapes }: ModelConfig): Ending {
  const vision = fields.object("vision_config")!
  for (const [name, usual, known] of [
    ["projection_dim", 2048, shapes.hidden],
    ["depth", 2, 2],
  ] as const) {
    const is = vision.count(name, usual)
    if (is !== known) throw vision.wrong(name, `is ${is}; known of this model: ${known}`)
  }
  return {
    layersRead: undefined,
    merge: { side: 1, by: "columns" },
    projector: {
      norm: undefined,
      inner: {
        columns: shapes.hidden,
        activation: readActivation(vision, { field: "hidden_act", otherwise: "gelu" }),
        gated: false,
      },
      bias: true,
      factor: 1,
    },
  }
}

function lfm2Ending(fields: Fields): Ending {
  const activation = readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" })
  const isNormed = fields.flag("projector_use_layernorm", true)
  return {
    layersRead: undefined,
    merge: { side: fields.count("downsample_factor", 2, 1, MAX_JOINED), by: "columns" },
    projector: {
      norm: isNormed ? { kind: "layer", bias: true, epsilon: 1e-5 } : undefined,
      inner: { columns: fields.count("projector_hidden_size", 2560), activation, gated: false },
      bias: fields.flag("projector_bias", true),
      factor: 1,
    },
  }
}

/** Two matrices without biases, each activated, belong to the tower, whose sizes they have; one more leads to the text model. */
function llama4Ending(fields: Fields, eye: Eye): Ending {
  const vision = fields.object("vision_config")!
  const shuffled = 1 / vision.positive("pixel_shuffle_ratio", 0.5)
  const inner = vision.count("projector_input_dim", 4096)
  for (const [name, usual] of [
    ["projector_output_dim", 4096],
    ["vision_output_dim", 7680],
  ] as const) {
    const is = vision.count(name, usual)
    if (is !== inner) throw vision.wrong(name, `is ${is}, but projector_input_dim is ${inner}`)
  }
  if (vision.flag("multi_modal_projector_bias", false))
    throw vision.wrong("multi_modal_projector_bias", "is true, which is not known of this tower")
  checkStrategy(vision, "default")
  return {
    layersRead: undefined,
    merge: { side: dividing(vision, "pixel_shuffle_ratio", shuffled, eye), by: "columns" },
    projector: {
      norm: undefined,
      inner: { columns: inner, activation: "gelu", gated: false, twice: true },
      bias: false,
      factor: 1,
    },
  }
}

/** Patches are normed one by one. */
function kimiEnding(fields: Fields, eye: Eye): Ending {
  const vision = fields.object("vision_config")!
  const said = fields.has("projection_layer_norm_eps") ? fields : vision
  const name = said === fields ? "projection_layer_norm_eps" : "projector_ln_eps"
  const side = kimiKernel(vision)
  return {
    layersRead: undefined,
    merge: {
      side,
      by: "columns",
      norm: { kind: "layer", bias: true, epsilon: said.positive(name, 1e-5) },
    },
    projector: {
      norm: undefined,
      inner: { columns: eye.width * side * side, activation: "gelu", gated: false },
      bias: true,
      factor: 1,
    },
  }
}

/** What queries have seen is normed and multiplied with a matrix. */
function miniCpmEnding(fields: Fields, _: Eye, text: ModelConfig): Ending {
  const resampler = readResampler(fields, text)
  return {
    layersRead: undefined,
    merge: { side: 1, by: "columns" },
    resampler,
    parts: resamplerParts(resampler.columns),
    // Where the text model multiplies rows of tokens, converters have divided that matrix.
    projector: { norm: resampler.norm, inner: undefined, bias: false, factor: 1 },
  }
}

/** An image's rows are not multiplied as those of tokens are. */
function granite4Ending(fields: Fields, eye: Eye, { shapes, embedding }: ModelConfig): Ending {
  checkStrategy(fields.with({ vision_feature_select_strategy: "default" }), "full")
  const asking = readAsking(fields, eye, shapes.layers)
  const { questions } = asking
  const stacked = questions
    .slice(1)
    .map(({ layer, to }, number) => ({ layer, number, behind: to - 1 }))
  return {
    layersRead: [Math.max(...questions.map(({ layer }) => layer))],
    merge: { side: JOINED, by: "columns" },
    asking,
    stacked: { stacked },
    projector: { norm: undefined, inner: undefined, bias: true, factor: 1 / embedding.factor },
    parts: askingParts(asking, eye.width),
  }
}

function graniteDoclingEnding(fields: Fields, eye: Eye, { shapes }: ModelConfig): Ending {
  const vision = fields.object("vision_config")!
  const width = shapes.hidden
  const out = vision.count("out_hidden_size", 1024)
  if (out !== width)
    throw vision.wrong("out_hidden_size", `is ${out}, and rows of the text model have ${width}`)
  if (width % 4 !== 0)
    throw vision.wrong(
      "out_hidden_size",
      `is ${width}, no multiple of 4, as sines of two sides are`,
    )
  const side = dividing(vision, "scale_factor", graniteDoclingScale(fields), eye)
  const stacked = graniteDoclingStacked(vision, eye.blocks.length)
  if (stacked.length > shapes.layers)
    throw vision.wrong(
      "deepstack_visual_indexes",
      `names ${stacked.length} layers, for ${shapes.layers}`,
    )
  const projectors = graniteDoclingProjectors(width)
  return {
    layersRead: undefined,
    merge: { side, by: "columns", norm: GRANITE_DOCLING_MERGING },
    stacked: { stacked, stackedProjector: projectors.stacked },
    projector: projectors.main,
    parts: graniteDoclingParts(stacked),
  }
}

/** Patches are normed one by one, and what comes of them is, too. */
function hunyuanEnding(fields: Fields, eye: Eye): Ending {
  const { joined: side } = readHunyuanPatches(fields)!
  const { width } = eye
  const vision = hunyuanVision(fields.object("vision_config")!)
  const norm = { kind: "rms", bias: false, epsilon: vision.positive("rms_norm_eps") } as const
  return {
    layersRead: undefined,
    merge: { side, by: "columns", norm },
    parts: hunyuanParts(eye, side),
    projector: {
      norm: undefined,
      inner: { columns: 2 * width, activation: readActivation(vision, {}), gated: false },
      behind: { columns: 4 * width },
      last: norm,
      bias: true,
      factor: 1,
    },
  }
}

/** Two matrices, each activated, and one that leads to the text model, which norms what comes of it. */
function museGlimmerEnding(fields: Fields, { width }: Eye): Ending {
  const { joined: side } = readMuseGlimmerPatches(fields)!
  const made = width * side * side
  const out = fields.count("out_hidden_size", made)
  if (out !== made)
    throw fields.wrong(
      "out_hidden_size",
      `is ${out}, and ${side ** 2} patches have ${made} columns`,
    )
  return {
    layersRead: undefined,
    merge: { side, by: "columns" },
    parts: museGlimmerShuffle(side, "vision_adapter.fc1"),
    projector: {
      norm: undefined,
      inner: {
        columns: fields.count("projector_hidden_size", 4096),
        activation: readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" }),
        gated: false,
        twice: true,
      },
      bias: false,
      factor: 1,
    },
  }
}

/** Patches are normed one by one, once more. */
function paddleOcrEnding(fields: Fields, { width }: Eye): Ending {
  const { joined: side } = readPaddleOcrPatches(fields)!
  return {
    layersRead: undefined,
    merge: { side, by: "columns", norm: { kind: "layer", bias: true, epsilon: 1e-5 } },
    projector: {
      norm: undefined,
      inner: { columns: width * side * side, activation: "gelu", gated: false },
      bias: true,
      factor: 1,
    },
  }
}

/** Patches are merged behind a layer, or not, and behind the last one. */
function mergingEnding(fields: Fields, { width, blocks, lastNorm }: Eye): Ending {
  const vision = fields.object("vision_config")!
  checkMerging(fields)
  const layer = fields.count("insert_layer_id", 6, 0, blocks.length - 1)
  if (oneSide(vision, "window_kernel_size", { otherwise: 2, most: MAX_JOINED }) !== 2)
    throw vision.wrong("window_kernel_size", "is another than 2, the only one that is known")
  const { inner: side = 1, all } = mergedOf(fields)
  const every = side ** 2
  const between = { layer, side, norm: lastNorm!, columns: every * blocks[0]!.mlp.intermediate }
  return {
    layersRead: undefined,
    ...(every > 1 && { between }),
    merge: { side: all, by: "columns", ...(every > 1 && { every }) },
    projector: {
      norm: { kind: "layer", bias: true, epsilon: 1e-6 },
      inner: { columns: (all / side) ** 2 * width, activation: "gelu", gated: false },
      bias: true,
      factor: 1,
    },
  }
}

/** Patches are normed before a matrix makes one of them. */
function mistral3Ending(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  const layersRead = readLayers(fields, eye, [-1])
  if (layersRead.length > 1)
    throw fields.wrong(
      "vision_feature_layer",
      `names ${layersRead.length} layers; the norm behind them is of one`,
    )
  const side = fields.count("spatial_merge_size", 2, 1, MAX_JOINED)
  const norm = { kind: "rms", bias: false, epsilon: text.norm!.epsilon } as const
  const matrix = { name: "patch_merger.merging_layer.weight", turnedColumns: side * side }
  return {
    layersRead,
    merge: { side, by: "matrix", norm },
    parts: { "merging.weight": matrix },
    projector: {
      norm: undefined,
      inner: readInner(fields, text),
      bias: fields.flag("multimodal_projector_bias", false),
      factor: 1,
    },
  }
}

const MAX_JOINED = 1 << 5

function internVlEnding(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  checkStrategy(fields, "default")
  const last = fields.json.vision_feature_layer ?? -1
  const side = Math.trunc(1 / fields.positive("downsample_ratio", 0.5))
  return {
    layersRead: last === -1 ? undefined : readLayers(fields, eye, [-1]),
    merge: { side: dividing(fields, "downsample_ratio", side, eye), by: "columns" },
    projector: {
      norm: { kind: "layer", bias: true, epsilon: 1e-5 },
      inner: readInner(fields, text),
      bias: true,
      factor: 1,
    },
  }
}

/**
 * The mean of patches, normed and projected. Gemma's text model multiplies the rows of tokens, and not these; ours multiplies
 * all, so these are divided first.
 */
function gemma3Ending(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  const name = "mm_tokens_per_image"
  const across = Math.sqrt(fields.count(name, 256))
  const side = eye.side / across
  if (!Number.isInteger(across) || !Number.isInteger(side))
    throw fields.wrong(name, `is ${across ** 2}, which are no squares of ${eye.side ** 2} patches`)
  return {
    layersRead: undefined,
    merge: { side, by: "mean" },
    projector: {
      norm: { kind: "rms", bias: false, epsilon: eye.lastNorm!.epsilon },
      inner: undefined,
      bias: false,
      factor: 1 / text.embedding.factor,
    },
  }
}

/** One matrix. Its rows are not multiplied as those of tokens are, as Gemma 3's are not. */
function paliGemmaEnding(fields: Fields, { side }: Eye, text: ModelConfig): Ending {
  const { hidden } = text.shapes
  const width = fields.count("projection_dim", hidden)
  if (width !== hidden)
    throw fields.wrong("projection_dim", `is ${width}, and rows of the text model have ${hidden}`)
  const rows = side * side
  const narrow = text.blocks.find(
    ({ attention: { window = rows + AROUND } }) => window < rows + AROUND,
  )
  if (narrow)
    throw fields.wrong(
      "text_config.sliding_window",
      `is ${narrow.attention.window}, and a prompt whose image alone has ${rows} rows is seen whole`,
    )
  return {
    layersRead: undefined,
    merge: { side: 1, by: "columns" },
    projector: { norm: undefined, inner: undefined, bias: true, factor: 1 / text.embedding.factor },
  }
}

/** What the least prompt has beside its image: what begins a text, and the end of its line. */
const AROUND = 2

function ayaEnding(fields: Fields, eye: Eye, { shapes }: ModelConfig): Ending {
  checkStrategy(fields, "full")
  const columns = fields.count("alignment_intermediate_size", shapes.hidden)
  const { merge, projector } = gatedEnding(fields, eye, columns)
  const epsilon = fields.positive("adapter_layer_norm_eps", 1e-6)
  return {
    layersRead: readLayers(fields, eye, [-1]),
    merge,
    projector: { ...projector, norm: { kind: "layer", bias: true, epsilon } },
  }
}

/** @param columns between the matrices */
function gatedEnding(fields: Fields, eye: Eye, columns: number): Omit<Ending, "layersRead"> {
  if (columns % 2 !== 0)
    throw fields.wrong("alignment_intermediate_size", `is ${columns}, of which there are no halves`)
  const name = "downsample_factor"
  return {
    merge: { side: dividing(fields, name, fields.count(name, 2), eye), by: "columns" },
    projector: {
      norm: undefined,
      inner: { columns, activation: "silu", gated: true },
      bias: true,
      factor: 1,
    },
  }
}

/** Rows of five layers, unless others are named. */
function vipLlavaEnding(fields: Fields, eye: Eye, text: ModelConfig): Ending {
  const epsilon = fields.positive("projector_layernorm_eps", 1e-5)
  return {
    layersRead: readLayers(fields, eye, [-2, -5, -8, -11, 6]),
    merge: { side: 1, by: "columns" },
    projector: {
      norm: { kind: "layer", bias: true, epsilon },
      inner: readInner(fields, text),
      bias: true,
      factor: 1,
    },
  }
}

/** As many columns as the text model has. */
function readInner(fields: Fields, { shapes }: ModelConfig): Projector["inner"] {
  const activation = readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" })
  return { columns: shapes.hidden, activation, gated: false }
}

/** Whether a class's row comes out, or the first patch's: "full" has all rows, "default" leaves the first one out. */
function checkStrategy(fields: Fields, known: string): void {
  const name = "vision_feature_select_strategy"
  const strategy = fields.text(name, known)
  if (strategy !== known) throw fields.wrong(name, `is "${strategy}"; known: ${known}`)
}

/** One layer or several, counted from 1; -1 is the last, whose rows are read without the norm behind it. */
function readLayers(fields: Fields, { blocks }: Eye, otherwise: readonly number[]): number[] {
  const name = "vision_feature_layer"
  const given = fields.json[name] ?? otherwise
  const listed: readonly unknown[] = Array.isArray(given) ? given : [given]
  const count = blocks.length
  if (listed.length === 0) throw fields.wrong(name, "names no layer")
  if (listed.length > count)
    throw fields.wrong(name, `names ${listed.length} layers; there are ${count}`)
  return listed.map((layer) => {
    if (typeof layer === "number" && Number.isInteger(layer) && layer !== 0)
      if (Math.abs(layer) <= count) return layer > 0 ? layer : count + 1 + layer
    throw fields.wrong(name, `holds ${JSON.stringify(layer)}, which is none of ${count} layers`)
  })
}

function dividing(fields: Fields, name: string, joined: number, { side }: Eye): number {
  if (joined >= 1 && side % joined === 0) return joined
  throw fields.wrong(name, `joins ${joined} patches a side, which does not divide ${side}`)
}
