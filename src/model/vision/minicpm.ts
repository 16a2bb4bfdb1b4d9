// What configurations of MiniCPM-V say of what they see with: SigLIP, whose patches take the nearest of its places. Behind it 2.6, 4.0 and
// 4.5, as they were published, have a resampler, in which learned queries see all patches of a slice; 4.6 merges patches between
// two layers and behind the last one; 4.7 is the same before another text model's positions (chat/canvas.ts). MiniCPM-OCR is 4.6 without the first of these, and either may be told to be the other.
//
// Sources: configuration_minicpm.py, modeling_minicpmv.py, resampler.py, image_processing_minicpmv.py and processing_minicpmv.py, as they
// were published with the models; configuration_*.py and modeling_*.py of transformers (minicpmv4_6, minicpmv4_7, minicpm_ocr); minicpmv-convert-image-encoder-to-gguf.py of llama.cpp.

import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import { type Folder, isObject } from "../folder.ts"
import { joinedRows, type Naming } from "../weights/names.ts"
import { oneSide } from "./sides.ts"
import { MAX_LINES, type Resampler } from "./tower.ts"

/** The `model_type` of the whole. */
export const MINICPM = "minicpmv"

const ABSENT = {
  hidden_size: 1152,
  image_size: 980,
  intermediate_size: 4304,
  num_attention_heads: 16,
  num_hidden_layers: 27,
  patch_size: 14,
}

/** `vision_config` with what holds where it does not say it; without its last layer, where the model drops it. */
export function miniCpmVision(fields: Fields): Fields {
  const vision = fields.object("vision_config")!.with(ABSENT)
  if (!fields.flag("drop_vision_last_layer", false)) return vision
  const layers = vision.count("num_hidden_layers", undefined, 2)
  return vision.over({ num_hidden_layers: layers - 1 })
}

const HEAD = 128 // columns
const MAX_QUERIES = MAX_LINES

export const miniCpmQueries = (fields: Fields) => fields.count("query_num", 64, 1, MAX_QUERIES)

export function readResampler(fields: Fields, { shapes: { hidden } }: ModelConfig): Resampler {
  if (hidden % HEAD !== 0)
    throw fields.wrong("hidden_size", `is ${hidden}, which are no whole heads of ${HEAD} columns`)
  return {
    queries: miniCpmQueries(fields),
    columns: hidden,
    heads: hidden / HEAD,
    norm: { kind: "layer", bias: true, epsilon: 1e-6 },
  }
}

/** What no file stores, or none has to. */
export const RESAMPLER_CONSTANTS: Naming["parts"] = {
  "queries_rest.weight": { name: "queries_rest", constant: 0 },
  "lines.weight": { name: "lines", sines: "open" },
}

/** As it was published; queries, keys and values lie in one matrix. */
export function resamplerParts(columns: number): Naming["parts"] {
  const rows = joinedRows({ q: columns, k: columns, v: columns })
  return {
    ...RESAMPLER_CONSTANTS,
    "queries.weight": { name: "query" },
    ...Object.fromEntries(
      (["q", "k", "v"] as const).flatMap((name) => [
        [`resampler_${name}.weight`, { name: "attn.in_proj_weight", rows: rows[name] }],
        [`resampler_${name}.bias`, { name: "attn.in_proj_bias", rows: rows[name] }],
      ]),
    ),
    resampler_kv: "kv_proj",
    resampler_o: "attn.out_proj",
    query_norm: "ln_q",
    key_norm: "ln_kv",
    projector_norm: "ln_post",
    "linear_1.weight": { name: "proj", transposed: true },
  }
}

/** The image processor's fields in the words of transformers. */
export function miniCpmImage(image: Fields): Fields {
  if (image.text("image_processor_type", "") !== "MiniCPMVImageProcessor") return image
  const soft = image.text("unk", MINICPM_SOFT)
  if (soft !== MINICPM_SOFT) throw image.wrong("unk", `is "${soft}"; known: ${MINICPM_SOFT}`)
  if (!image.flag("slice_mode", true))
    throw image.wrong("slice_mode", "is false; only images in slices are known")
  const renamed = Object.fromEntries(
    [
      ["image_mean", "norm_mean"],
      ["image_std", "norm_std"],
    ].flatMap(([name, published]) =>
      image.has(published!) ? [[name!, image.json[published!]]] : [],
    ),
  )
  return image.over(renamed)
}

type Marked = "image" | "slice" | "image_id"

/** @param around what begins and ends each @param isCounted images have their number before them */
export function miniCpmWords(around: (what: Marked) => [string, string], isCounted: boolean) {
  const [[whole, behindWhole], [part, behindTile]] = [around("image"), around("slice")]
  const opening = isCounted ? around("image_id").join("{image}") : ""
  return { opening, only: whole, whole, behindWhole, part, behindTile, betweenRows: "\n" }
}

/** As the published image processor's file says it. */
export function publishedWords(image: Fields) {
  const around = (what: Marked): [string, string] => {
    const name = what.replace("image", "im")
    return [image.text(`${name}_start`, `<${what}>`), image.text(`${name}_end`, `</${what}>`)]
  }
  return miniCpmWords(around, image.flag("use_image_id", false))
}

/** Patches to each side that become one row: between layers, where some do, and all that one row behind them is of. */
export interface Merged {
  inner?: number
  all: number
}

/** Of 4.6, where nothing is said. */
export const MERGED = { inner: 2, all: 4 } as const

/** By `downsample_mode`. */
export const modes: Readonly<Record<string, Merged>> = { "4x": { all: 2 }, "16x": MERGED }

/** By the `model_type` of the whole, what `downsample_mode` is where it is not said. */
const MODES = { minicpmv4_6: "16x", minicpmv4_7: "16x", minicpm_ocr: "4x" } as const

/** Tokens that belong to an image of 4.7 where they follow it. */
export function canvasMarks(config: Fields): readonly number[] {
  const marks = ["image_start", "image_end", "slice_start", "slice_end", "newline"]
  return marks.map((name) => config.count(`${name}_id`, undefined, 0))
}

/** @param image the image processor's fields, which repeat it */
export function mergedOf(config: Fields, image?: Fields): Merged {
  const name = "downsample_mode"
  const usual = MODES[config.text("model_type") as keyof typeof MODES]
  const mode = config.text(name, usual)
  const repeated = image?.text(name, usual) ?? mode
  if (repeated !== mode) throw image!.wrong(name, `is "${repeated}", but the tower's is "${mode}"`)
  if (Object.hasOwn(modes, mode)) return modes[mode]!
  throw config.wrong(name, `is "${mode}"; known: ${Object.keys(modes).join(", ")}`)
}

/** That nothing else is said of how patches are merged. */
export function checkMerging(fields: Fields): void {
  const times = fields.count("merger_times", 1)
  if (times !== 1) throw fields.wrong("merger_times", `is ${times}; known: 1`)
  if (oneSide(fields, "merge_kernel_size", { otherwise: 2, most: 1 << 5 }) !== 2)
    throw fields.wrong("merge_kernel_size", "is another than 2, the only one that is known")
}

/** What nobody stores: of patches that become one row the first has its mark in the first column, and so on, four times. */
export const MARKS: Naming["parts"] = {
  "vit_merger.marks.weight": { name: "vit_merger.marks", diagonal: 4 },
}

const TOKENIZER = "tokenizer_config.json"

/** What stands for rows of an image: the token for what a tokenizer does not know. */
export const MINICPM_SOFT = "<unk>"

/** The configuration with the number of that token, which it does not say as it was published: the tokenizer's file has it beside its text. */
export async function withSoftToken(fields: Fields, folder: Folder): Promise<Fields> {
  if (fields.text("model_type") !== MINICPM || fields.has("image_token_id")) return fields
  const { added_tokens_decoder: added } = (await folder.jsonIfThere(TOKENIZER)) ?? {}
  const found = Object.entries(isObject(added) ? added : {}).find(
    ([id, token]) => /^\d+$/.test(id) && isObject(token) && token.content === MINICPM_SOFT,
  )
  if (!found)
    throw folder.broken(
      TOKENIZER,
      `has no ${MINICPM_SOFT} in added_tokens_decoder, which stands for rows of an image`,
    )
  return fields.over({ image_token_id: Number(found[0]) })
}
