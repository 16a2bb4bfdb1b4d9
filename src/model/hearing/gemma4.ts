// What Gemma 4 hears with, of E2B and E4B: a conformer over the loudness of bands, a row for every four hundredths of a second. Whether the rows
// of an image see each other or not, those of a recording see what is before them.
//
// Source: configuration_gemma4.py, modeling_gemma4.py, feature_extraction_gemma4.py and processing_gemma4.py of transformers.

import type { AudioProcessing, Spectrum } from "../../audio/audio.ts"
import { RATE } from "../../audio/features.ts"
import { rowsIn } from "../../audio/subsampled.ts"
import { type ModelConfig, readActivation } from "../config.ts"
import type { Fields } from "../fields.ts"
import { textFields } from "../seeing.ts"
import { boundParts, GEMMA4 } from "../vision/gemma4.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { ConformerConfig } from "./conformer.ts"

const TOWER = "gemma4_audio"
const SECONDS = 30 // of which transformers leaves the end out of what is longer

/** Where `audio_config` says nothing. */
const ABSENT = {
  hidden_size: 1024,
  num_hidden_layers: 12,
  num_attention_heads: 8,
  conv_kernel_size: 5,
  residual_weight: 0.5,
  attention_chunk_size: 12,
  attention_context_left: 13,
  attention_logit_cap: 50,
  attention_invalid_logits_value: -1e9,
  rms_norm_eps: 1e-6,
  gradient_clipping: 1e10,
  output_proj_dims: 1536,
  subsampling_conv_channels: [128, 32],
}

/** Whether recordings are read of models of that `model_type`. */
export const isGemma4 = (type: string) => type === GEMMA4

function audioOf(fields: Fields): Fields | undefined {
  if (!isGemma4(fields.text("model_type"))) return undefined
  const audio = fields.object("audio_config")
  return audio?.text("model_type", TOWER) === TOWER ? audio.with(ABSENT) : undefined
}

const MAX_LAYERS = 1000
const MAX_TAPS = 64
const MAX_WINDOW = 256

/** Heads whose columns are pairs. */
export function headsIn(audio: Fields, name: string, width: number): number {
  const heads = audio.count(name)
  if (width % (2 * heads) === 0) return heads
  throw audio.wrong(name, `is ${heads}, which does not divide ${width} in pairs`)
}

/**
 * @param text the model inside
 * @returns nothing where there is no tower, or none that is known
 */
export function readGemma4Hearing(fields: Fields, text: ModelConfig): ConformerConfig | undefined {
  const audio = audioOf(fields)
  if (!audio) return undefined
  const width = audio.count("hidden_size")
  const heads = headsIn(audio, "num_attention_heads", width)
  const [bands, channels] = channelsOf(audio)
  const bounded = audio.flag("use_clipped_linears", true)
  const epsilon = audio.positive("rms_norm_eps")
  const { vocabulary, hidden } = text.shapes
  const inner = textFields(fields)
  return {
    architecture: TOWER,
    bands,
    channels: [bands, channels],
    rows: rowsIn(SECONDS * RATE, usualSpectrum),
    width,
    layers: audio.count("num_hidden_layers", undefined, 1, MAX_LAYERS),
    heads,
    headDim: width / heads,
    window: windowOf(audio),
    cap: audio.positive("attention_logit_cap"),
    taps: audio.count("conv_kernel_size", undefined, 1, MAX_TAPS),
    activation: readActivation(audio, { otherwise: "silu" }),
    residual: audio.finite("residual_weight"),
    most: audio.positive("gradient_clipping"),
    ...(bounded && { bounded }),
    epsilon,
    given: audio.count("output_proj_dims"),
    projector: {
      norm: { kind: "rms", bias: false, epsilon },
      inner: undefined,
      bias: false,
      width: hidden,
      factor: 1 / text.embedding.factor, // the text model multiplies the rows of tokens, and not these
    },
    softToken: fields.count("audio_token_id", 258881, 0, vocabulary - 1),
    instead: inner.count("pad_token_id", 0, 0, vocabulary - 1),
    naming: namingOf(bands, channels, audio.count("conv_kernel_size"), bounded),
  }
}

/** Of both convolutions. Their first has as many as there are bands: transformers counts what comes out of both by that. */
function channelsOf(audio: Fields): readonly [number, number] {
  const name = "subsampling_conv_channels"
  const channels = audio.counts(name)
  const [bands = 0, second = 0] = channels
  if (channels.length === 2 && bands > 0 && bands % 4 === 0 && second > 0) return [bands, second]
  throw audio.wrong(name, "is not a multiple of 4, which is that of bands, and another count")
}

/** Rows are cut in chunks that see as far as their first row does: whatever a chunk is, a row sees so many. */
function windowOf(audio: Fields): number {
  const window = audio.count("attention_context_left", undefined, 2, MAX_WINDOW) - 1
  const chunk = audio.count("attention_chunk_size")
  if (chunk !== window)
    throw audio.wrong(
      "attention_chunk_size",
      `is ${chunk}; only attention_context_left - 1 is known`,
    )
  const right = audio.count("attention_context_right", 0, 0)
  if (right > 0) throw audio.wrong("attention_context_right", `is ${right}; only 0 is known`)
  const unseen = audio.finite("attention_invalid_logits_value")
  if (unseen > -1e6)
    throw audio.wrong("attention_invalid_logits_value", `is ${unseen}, which hides nothing`)
  return window
}

const HALVES = ["feed_forward1", "feed_forward2"]
const MATRICES = [
  ...HALVES.flatMap((half) => [`${half}.ffw_layer_1`, `${half}.ffw_layer_2`]),
  ...["q_proj", "k_proj", "v_proj", "post"].map((name) => `self_attn.${name}`),
  ...["linear_start", "linear_end"].map((name) => `lconv1d.${name}`),
]

function namingOf(bands: number, channels: number, taps: number, bounded: boolean): Naming {
  const subsampling = "subsample_conv_projection"
  const filters = (index: number, shape: readonly number[]): [string, Part] => [
    `${subsampling}.layer${index}.conv`,
    { name: `${subsampling}.layer${index}.conv`, shape },
  ]
  return {
    roots: ["model.", ""].map((root) => ({
      root: `${root}audio_tower.`,
      head: `${root}embed_audio.`,
    })),
    layers: "layers.",
    parts: {
      embed_tokens: `${subsampling}.input_proj_linear`, // by which the tower is found
      ...Object.fromEntries([filters(0, [bands, 1, 3, 3]), filters(1, [channels, bands, 3, 3])]),
      ...Object.fromEntries(MATRICES.map((name) => [name, `${name}.linear`])),
      ...(bounded && boundParts(Object.fromEntries(MATRICES.map((name) => [name, name])))),
      "self_attn.per_dim_scale": { name: "self_attn.per_dim_scale", bare: true, softplus: true },
      "lconv1d.depthwise_conv1d": { name: "lconv1d.depthwise_conv1d", taps },
      linear_1: "embedding_projection",
      projector_norm: { name: "projector_norm", constant: 1 },
    },
  }
}

/** What transformers' extractor does where nothing is said. */
const usualSpectrum: Spectrum = {
  length: 320,
  hop: 160,
  transform: 512,
  low: 0,
  high: 8000,
  scale: 1,
  floor: 1e-3,
}

/** @param tokens fields of the tokenizer */
export function readGemma4Audio(
  fields: Fields,
  extractor: Fields,
  tokens: Fields,
): AudioProcessing {
  const [bands] = channelsOf(audioOf(fields)!)
  const soft = tokens.text("audio_token", "<|audio|>")
  return {
    bands,
    cutting: "subsampled",
    most: SECONDS,
    spectrum: spectrumOf(extractor, bands, usualSpectrum),
    mark: soft,
    soft,
    before: tokens.text("boa_token", "<|audio>"),
    after: tokens.text("eoa_token", "<audio|>"),
  }
}

/** @param usual what the extractor does where nothing is said */
export function spectrumOf(extractor: Fields, bands: number, usual: Spectrum): Spectrum {
  for (const [name, is] of Object.entries({ feature_size: bands, sampling_rate: RATE })) {
    const told = extractor.count(name, name === "feature_size" ? 128 : is)
    if (told !== is) throw extractor.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  for (const name of ["padding_value", "dither"])
    if (extractor.has(name) && extractor.number(name) !== 0)
      throw extractor.wrong(name, `is ${extractor.number(name)}; only 0 is known`)
  const samples = (name: string, otherwise: number) =>
    Math.round((extractor.positive(name, otherwise) * RATE) / 1000)
  const number = (name: string, otherwise: number) =>
    extractor.has(name) ? extractor.finite(name) : otherwise
  const length = samples("frame_length_ms", (1000 * usual.length) / RATE)
  const hop = samples("hop_length_ms", 10)
  if (length < 2 || length > MAX_LENGTH) throw extractor.wrong("frame_length_ms", "is not known")
  if (hop !== usual.hop)
    throw extractor.wrong("hop_length_ms", "is another than 10, of which rows are counted")
  const doubled = extractor.flag("fft_overdrive", usual.transform >= 2 * usual.length) ? 2 : 1
  const emphasis = number("preemphasis", usual.emphasis?.by ?? 0)
  const [low, high] = [number("min_frequency", usual.low), number("max_frequency", usual.high)]
  if (!(low >= 0 && low < high))
    throw extractor.wrong("max_frequency", `is ${high}, which is not above min_frequency`)
  const floor = extractor.positive("mel_floor", usual.floor)
  const { filled, isLeast } = usual
  return {
    ...(filled && { filled }),
    ...(isLeast && { isLeast }),
    length,
    hop,
    transform: doubled * 2 ** Math.ceil(Math.log2(length)),
    low,
    high,
    ...(emphasis > 0 && {
      emphasis: { by: emphasis, isHtk: extractor.flag("preemphasis_htk_flavor", true) },
    }),
    scale: number("input_scale_factor", 1),
    floor,
    ...perBand(extractor, bands),
  }
}

const MAX_LENGTH = 4096 // samples

function perBand(extractor: Fields, bands: number): Pick<Spectrum, "means" | "deviations"> {
  const list = (name: string) => {
    if (!extractor.has(name)) return undefined
    const numbers = extractor.finites(name)
    if (numbers.length === bands) return numbers
    throw extractor.wrong(name, `has ${numbers.length} numbers for ${bands} bands`)
  }
  const [means, deviations] = [list("per_bin_mean"), list("per_bin_stddev")]
  return { ...(means && { means }), ...(deviations && { deviations }) }
}
