// What Granite 4 Vision sees with: SigLIP's tiles, in grids as LLaVA 1.6's. What some of its layers leave goes to as many layers of the text model, each
// through a projector of its own, which asks as many questions of a window as there are squares of 2 x 2 patches (asking.ts). A question begins
// with what is asked of all windows and the mean of its square, or one of its four corners. An image's tokens begin as zeros in
// transformers, before the first layer: what goes there stands in their place here.
//
// Source: configuration_granite4_vision.py and modeling_granite4_vision.py of transformers.

import { readActivation } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import type { ClipFile } from "../gguf/clip-file.ts"
import type { Naming } from "../weights/names.ts"
import type { Asking, Question } from "./asking.ts"
import type { Eye } from "./eyes.ts"

export const GRANITE4 = "granite4_vision"

/** Where `qformer_config` says nothing. */
const ABSENT = {
  model_type: "blip_2_qformer",
  num_hidden_layers: 1,
  intermediate_size: 3072,
  cross_attention_frequency: 1,
  hidden_act: "gelu",
  layer_norm_eps: 1e-12,
  use_qformer_text_input: false,
}

/** Columns of a head, whatever is said. */
const HEAD = 64

/** Of a window, in patches a side, of which 2 x 2 become one row. */
export function graniteWindow(fields: Fields): number {
  const name = "downsample_rate"
  const rate = fields.text(name)
  const [asked, window] = rate.split("/").map(Number)
  const isKnown = /^\d+\/\d+$/.test(rate) && asked! > 0 && window === JOINED * asked!
  if (!isKnown) throw fields.wrong(name, `is "${rate}"; known: "4/8" and others of that share`)
  return window
}

/** Patches a side that become one row. */
export const JOINED = 2

/** @param layers of the text model */
export function readAsking(fields: Fields, { side, width, blocks }: Eye, layers: number): Asking {
  const window = graniteWindow(fields)
  const squares = (window / JOINED) ** 2
  const own = fields.with({ qformer_config: {} }).object("qformer_config")!.with(ABSENT)
  for (const [name, known] of [
    ["num_hidden_layers", 1],
    ["cross_attention_frequency", 1],
  ] as const) {
    const is = own.count(name)
    if (is !== known) throw own.wrong(name, `is ${is}; known: ${known}`)
  }
  const type = own.text("model_type")
  if (type !== ABSENT.model_type)
    throw own.wrong("model_type", `is "${type}"; known: ${ABSENT.model_type}`)
  if (own.flag("use_qformer_text_input", false))
    throw own.wrong("use_qformer_text_input", "is true; only false is known")
  const heads = Math.floor(width / HEAD)
  if (heads === 0 || width % heads !== 0)
    throw fields.wrong(
      "vision_config.hidden_size",
      `is ${width}, of which there are no heads of ${HEAD} columns`,
    )
  if (side % window !== 0 || squares > width / heads)
    throw fields.wrong(
      "downsample_rate",
      `makes windows of ${window} patches a side, of which there are none in ${side}, or too many squares in one`,
    )
  return {
    window,
    heads,
    intermediate: own.count("intermediate_size"),
    activation: readActivation(own, {}),
    epsilon: own.positive("layer_norm_eps"),
    questions: readQuestions(fields, blocks.length, layers),
  }
}

/** In the order of the text model's layers. */
function readQuestions(fields: Fields, count: number, layers: number): readonly Question[] {
  const map = "deepstack_layer_map"
  const given: unknown = fields.json[map]
  if (!Array.isArray(given)) throw fields.wrong(map, "is no list of pairs of layers")
  const of = (name: string, layer: unknown) => {
    if (typeof layer === "number" && Number.isInteger(layer) && layer !== 0)
      if (layer > 0 ? layer <= count : -layer <= count) return layer > 0 ? layer : count + 1 + layer
    throw fields.wrong(name, `holds ${JSON.stringify(layer)}, which is none of ${count} layers`)
  }
  const to = (name: string, layer: unknown) => {
    if (typeof layer === "number" && Number.isInteger(layer) && layer >= 0 && layer < layers)
      return layer
    throw fields.wrong(name, `leads to layer ${JSON.stringify(layer)} of ${layers}`)
  }
  const means = given.map((pair: unknown, number) => {
    const [layer, target]: readonly unknown[] = Array.isArray(pair) ? pair : []
    return {
      projector: `layerwise_projectors.${number}`,
      layer: of(map, layer),
      to: to(map, target),
    }
  })
  const spatial = fields.json.spatial_vision_layer ?? -1
  const [targets, name] = [
    fields.has("spatial_target_layers") ? fields.counts("spatial_target_layers") : [12, 15, 18, 21],
    "spatial_target_layers",
  ]
  if (targets.length !== CORNERS)
    throw fields.wrong(name, `names ${targets.length} layers for ${CORNERS} corners`)
  const corners = targets.map((target, corner) => ({
    projector: `spatial_projectors.${corner}`,
    layer: of("spatial_vision_layer", spatial),
    to: to(name, target),
    corner,
  }))
  const all = [...means, ...corners].sort((one, other) => one.to - other.to)
  const twice = all.find((each, i) => each.to === all[i + 1]?.to)
  if (twice) throw fields.wrong(map, `leads to layer ${twice.to} once more`)
  if (all[0]!.to !== 0)
    throw fields.wrong(map, "leads to no layer 0, so that an image's tokens would begin as zeros")
  return all
}

const CORNERS = JOINED ** 2

/** What a projector's parts are called, behind its own name; of `query` and `image_positions` their rows alone. */
const NAMES = {
  query: "query",
  image_positions: "image_positions",
  norm: "norm",
  even: "qformer.layernorm",
  "among.query": "qformer.encoder.layer.0.attention.attention.query",
  "among.key": "qformer.encoder.layer.0.attention.attention.key",
  "among.value": "qformer.encoder.layer.0.attention.attention.value",
  "among.out": "qformer.encoder.layer.0.attention.output.dense",
  "among.norm": "qformer.encoder.layer.0.attention.output.LayerNorm",
  "open.query": "qformer.encoder.layer.0.crossattention.attention.query",
  "open.key": "qformer.encoder.layer.0.crossattention.attention.key",
  "open.value": "qformer.encoder.layer.0.crossattention.attention.value",
  "open.out": "qformer.encoder.layer.0.crossattention.output.dense",
  "open.norm": "qformer.encoder.layer.0.crossattention.output.LayerNorm",
  up: "qformer.encoder.layer.0.intermediate_query.dense",
  down: "qformer.encoder.layer.0.output_query.dense",
  last_norm: "qformer.encoder.layer.0.output_query.LayerNorm",
  out: "out_linear",
}

interface ProjectorNames {
  names: typeof NAMES
  /** Of a projector. */
  nameOf: (question: Question, number: number) => string
}

/** Rows that nobody stores. */
const ASKING_MARKS: Naming["parts"] = {
  "asking.squares.weight": { name: "asking.squares", diagonal: 1 },
  "asking.corners.weight": { name: "asking.corners", diagonal: 1 },
}

/** In llama.cpp's files, whose projectors have the numbers of ours. */
const GGUF_NAMES: typeof NAMES = {
  query: "query",
  image_positions: "img_pos",
  norm: "norm",
  even: "post_norm",
  "among.query": "self_attn_q",
  "among.key": "self_attn_k",
  "among.value": "self_attn_v",
  "among.out": "self_attn_out",
  "among.norm": "self_attn_norm",
  "open.query": "cross_attn_q",
  "open.key": "cross_attn_k",
  "open.value": "cross_attn_v",
  "open.out": "cross_attn_out",
  "open.norm": "cross_attn_norm",
  up: "ffn_up",
  down: "ffn_down",
  last_norm: "ffn_norm",
  out: "linear",
}

export const askingGgufParts = (asking: Asking, width: number): Naming["parts"] =>
  askingParts(asking, width, { names: GGUF_NAMES, nameOf: (_, number) => `${number}` })

/** What files say of questions, in the words of a configuration. @param text the text model's fields, in our own words */
export function askingFields(file: ClipFile, text: Fields): Json {
  const numbers = (rest: string) => {
    const key = `clip.vision.${rest}`
    const list = file.keys.numbersIfThere(key)
    if (list) return list
    throw file.keys.wrong(key, "is missing")
  }
  const [layers, offsets] = [numbers("feature_layer"), numbers("projector.spatial_offsets")]
  const name = "deepstack_targets"
  const targets = [0, ...(text.has(name) ? text.counts(name) : [])]
  const all = layers.map((layer, number) => ({
    layer: layer + 1,
    to: targets[number],
    offset: offsets[number],
  }))
  const corners = Array.from({ length: CORNERS }, (_, corner) =>
    all.find(({ offset }) => offset === corner),
  )
  return {
    downsample_rate: `${file.count("projector.query_side")}/${file.count("projector.window_side")}`,
    deepstack_layer_map: all
      .filter(({ offset }) => offset === -1)
      .map(({ layer, to }) => [layer, to]),
    spatial_vision_layer: corners[0]?.layer,
    spatial_target_layers: corners.flatMap((each) => each?.to ?? []),
    qformer_config: { intermediate_size: file.dims("v.proj_blk.0.ffn_up.weight")[1] },
  }
}

/** @param width of the tower's rows */
export function askingParts(
  { window, questions }: Asking,
  width: number,
  { names, nameOf }: ProjectorNames = { names: NAMES, nameOf: ({ projector }) => projector },
): Naming["parts"] {
  const tables = { query: (window / JOINED) ** 2, image_positions: window ** 2 }
  const { query, image_positions, ...others } = names
  const own = { query, image_positions }
  const parts = questions.flatMap((question, number) => {
    const [ours, theirs] = [`asking.${number}`, nameOf(question, number)]
    return [
      [`${ours}.query_rest.weight`, { name: `${theirs}.query_rest`, constant: 0 }],
      ...Object.entries(others).map(([name, other]) => [`${ours}.${name}`, `${theirs}.${other}`]),
      ...(["query", "image_positions"] as const).map((name) => [
        `${ours}.${name}.weight`,
        { name: `${theirs}.${own[name]}`, shape: [1, tables[name], width] },
      ]),
    ]
  })
  return { ...ASKING_MARKS, ...Object.fromEntries(parts) }
}
