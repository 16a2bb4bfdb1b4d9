// What Granite Speech hears with: a conformer over pairs of frames, whose blocks of rows do not see each other but through convolutions, and a
// projector that asks a few questions of every few rows (granite-tower.ts).
//
// Sources: configuration_, modeling_, feature_extraction_ and processing_granite_speech.py and granite_speech_plus of transformers.

import type { PairedProcessing } from "../../audio/audio.ts"
import { LENGTH, RATE } from "../../audio/features.ts"
import { pairedRows } from "../../audio/paired.ts"
import { MAX_HEAD, type ModelConfig, readActivation } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { AudioFiles } from "./families.ts"
import type { GraniteConfig } from "./granite-tower.ts"

const types = ["granite_speech", "granite_speech_plus"]

/** Whether recordings are read of models of that `model_type`. */
export const isGraniteSpeech = (type: string) => types.includes(type)

const SECONDS = 120 // of which keys and values of a tile, which is all of a recording, have 200 MB

/** Where `encoder_config` says nothing. */
const ENCODER = {
  input_dim: 160,
  num_layers: 10,
  hidden_dim: 1024,
  feedforward_mult: 4,
  num_heads: 8,
  output_dim: 42,
  context_size: 200,
  max_pos_emb: 512,
  conv_kernel_size: 15,
  conv_expansion_factor: 2,
}

/** And `projector_config`, which is one of BLIP-2's. */
const PROJECTOR = {
  model_type: "blip_2_qformer",
  hidden_size: 768,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  intermediate_size: 3072,
  hidden_act: "gelu",
  layer_norm_eps: 1e-12,
  cross_attention_frequency: 2,
  use_qformer_text_input: false,
}

const MAX_LAYERS = 1000
const MAX_HEADS = 1024
const MAX_TAPS = 64
const MAX_BLOCK = 256 // heads are wider by two columns for each row
const MAX_OUTPUTS = 512
const MAX_SPAN = 64

/** Fields of the two parts; nothing where it is another kind of model. */
function partsOf(fields: Fields): { encoder: Fields; projector: Fields } | undefined {
  if (!isGraniteSpeech(fields.text("model_type"))) return undefined
  const part = (name: string, absent: Json) =>
    fields
      .with({ [name]: {} })
      .object(name)!
      .with(absent)
  return {
    encoder: part("encoder_config", ENCODER),
    projector: part("projector_config", PROJECTOR),
  }
}

/** @returns nothing where the model is of another kind */
export function readGraniteHearing(fields: Fields, text: ModelConfig): GraniteConfig | undefined {
  const parts = partsOf(fields)
  if (!parts) return undefined
  const { encoder } = parts
  const width = encoder.count("hidden_dim")
  const heads = encoder.count("num_heads", undefined, 1, MAX_HEADS)
  const layers = encoder.count("num_layers", undefined, 1, MAX_LAYERS)
  const said = encoder.has("dim_head") && encoder.json.dim_head !== null
  if (!said && width % heads !== 0)
    throw encoder.wrong("num_heads", `is ${heads}, which does not divide ${width}`)
  const block = encoder.count("context_size", undefined, 1, MAX_BLOCK)
  const reach = encoder.count("max_pos_emb", undefined, block)
  const spans = readSpans(fields)
  const config = {
    architecture: "granite_speech_encoder",
    bands: encoder.count("input_dim"),
    rows: pairedRows(SECONDS * RATE, spans).rows,
    width,
    layers,
    heads,
    headDim: said ? encoder.count("dim_head", undefined, 1, MAX_HEAD) : width / heads,
    intermediate: width * encoder.count("feedforward_mult"),
    channels: width * encoder.count("conv_expansion_factor"),
    taps: encoder.count("conv_kernel_size", undefined, 1, MAX_TAPS),
    block,
    reach,
    outputs: encoder.count("output_dim", undefined, 2, MAX_OUTPUTS),
    left: readLeft(encoder, layers),
    ...spans,
    projector: readProjector(parts.projector),
    hidden: text.shapes.hidden,
    softToken: fields.count(
      fields.has("audio_token_id") ? "audio_token_id" : "audio_token_index",
      49155,
      0,
      text.shapes.vocabulary - 1,
    ),
  }
  return { ...config, naming: namingOf(config) }
}

/** Of how many rows how many come out. */
function readSpans(fields: Fields): Pick<GraniteConfig, "span" | "asked"> {
  const span = fields.count("window_size", 15, 1, MAX_SPAN)
  const rate = fields.count("downsample_rate", 5)
  if (span % rate !== 0)
    throw fields.wrong("downsample_rate", `is ${rate}, which does not divide ${span}`)
  return { span, asked: span / rate }
}

/** Layers whose rows stand beside the last's, as they leave them; 0: what goes into the first. */
function readLeft(encoder: Fields, layers: number): readonly number[] {
  const name = "cat_hidden_layers"
  if (!encoder.has(name) || encoder.json[name] === null) return []
  const left = encoder.json[name]
  const isLayer = (layer: unknown) => Number.isInteger(layer) && Number(layer) >= 0
  if (Array.isArray(left) && left.every((layer) => isLayer(layer) && layer <= layers))
    return [...new Set(left as number[])].sort((one, other) => one - other)
  throw encoder.wrong(name, `is no list of layers from 0 to ${layers}`)
}

function readProjector(projector: Fields): GraniteConfig["projector"] {
  const type = projector.text("model_type")
  if (type !== PROJECTOR.model_type)
    throw projector.wrong("model_type", `is "${type}"; only "${PROJECTOR.model_type}" is known`)
  if (projector.flag("use_qformer_text_input", false))
    throw projector.wrong("use_qformer_text_input", "is true; only false is known")
  const width = projector.count("hidden_size")
  const heads = projector.count("num_attention_heads")
  if (width % heads !== 0)
    throw projector.wrong("num_attention_heads", `is ${heads}, which does not divide ${width}`)
  return {
    width,
    heads,
    layers: projector.count("num_hidden_layers", undefined, 1, MAX_LAYERS),
    every: projector.count("cross_attention_frequency"),
    intermediate: projector.count("intermediate_size"),
    activation: readActivation(projector, { otherwise: "gelu" }),
    epsilon: projector.positive("layer_norm_eps"),
  }
}

function namingOf(config: Omit<GraniteConfig, "naming">): Naming {
  const { width, heads, headDim, channels, taps, asked, projector } = config
  const inner = heads * headDim
  const pointwise = (name: string, rows: number, columns: number): [string, Part] => [
    `conv.${name}.weight`,
    { name: `conv.${name}.weight`, shape: [rows, columns, 1] },
  ]
  const half = (from: number): Part => ({
    name: "attn.to_kv",
    rows: { of: 2 * inner, from, run: inner, every: 2 * inner },
  })
  return {
    roots: ["model.", ""].map((root) => ({ root: `${root}encoder.`, head: `${root}projector.` })),
    layers: "layers.",
    parts: {
      embed_tokens: "input_linear", // by which the tower is found
      "attn.to_k": half(0),
      "attn.to_v": half(inner),
      ...Object.fromEntries([
        pointwise("up_conv", 2 * channels, width),
        pointwise("down_conv", width, channels),
      ]),
      "conv.depth_conv.conv": { name: "conv.depth_conv.conv", taps },
      ...Object.fromEntries(
        ["running_mean", "running_var"].map((seen) => {
          const name = `conv.batch_norm.${seen}`
          return [name, { name, bare: true as const }]
        }),
      ),
      query: { name: "query", bare: true, shape: [1, asked, projector.width] },
    },
  }
}

/** How recordings are made ready. */
export function readGraniteAudio(
  fields: Fields,
  { extractor: own, processor, tokens }: AudioFiles,
): PairedProcessing {
  const { encoder } = partsOf(fields)!
  const extractor = processor.object("audio_processor") ?? own
  const bands = encoder.count("input_dim")
  const { span, asked } = readSpans(fields)
  const spectrum = extractor.object("melspec_kwargs") ?? extractor
  const mels = extractor.has("feature_size") ? "feature_size" : "n_mels"
  const known = [
    [extractor, "sampling_rate", RATE],
    [extractor, "projector_window_size", span, 15],
    [extractor, "projector_downsample_rate", span / asked, 5],
    [spectrum, "sample_rate", RATE],
    [spectrum, "n_fft", 512],
    [spectrum, "win_length", LENGTH],
    [spectrum, "hop_length", 160],
    [mels === "n_mels" ? spectrum : extractor, mels, bands / 2, 80],
  ] as const
  for (const [of, name, is, otherwise = is] of known) {
    const told = of.count(name, otherwise)
    if (told !== is) throw of.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  for (const name of Object.keys(spectrum === extractor ? {} : spectrum.json))
    if (!known.some(([, own]) => own === name))
      throw spectrum.wrong(name, "is not known of how loudness is computed")
  const soft = tokens.text("audio_token", processor.text("audio_token", "<|audio|>"))
  return {
    bands,
    cutting: "paired",
    most: SECONDS,
    block: encoder.count("context_size"),
    span,
    asked,
    mark: soft,
    soft,
    before: "",
    after: "",
  }
}

/** What its makers ask it (its model card). */
export const GRANITE_TRANSCRIPTION = "can you transcribe the speech into a written format?"
