// The families of models that hear: what their `audio_config` says of an encoder, most of them like Whisper's, what stands between it and the text
// model, and how recordings are made ready for it. A family that is not known hears nothing: its model is served as the text model
// inside of it. Of a known one, what would change the mathematics is read or refused.
//
// Sources: configuration_*.py, modeling_*.py and processing_*.py of transformers (audioflamingo3, glmasr, qwen2_audio, qwen2_5_omni,
// qwen3_asr, qwen3_omni_moe, voxtral), feature_extraction_whisper.py; qwen_asr/ of QwenLM/Qwen3-ASR, whose folders have other names; and
// ultravox_model.py and ultravox_processing.py of fixie-ai/ultravox.

import type { AudioProcessing, Cutting } from "../../audio/audio.ts"
import { chunkRows, LEAST } from "../../audio/chunks.ts"
import { WHISPER } from "../architectures/whisper.ts"
import { NORMS, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readActivation, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Json } from "../folder.ts"
import { THINKER, THINKING } from "../seeing.ts"
import type { Projector } from "../vision/tower.ts"
import type { Naming } from "../weights/names.ts"
import { type Chunks, chunkParts } from "./chunks.ts"
import type { HearingConfig } from "./tower.ts"
import { type OpenedTranscription, qwen3Asr, voxtral } from "./transcripts.ts"

interface Family {
  /** Its encoder is described outside of an `audio_config`, and so large where that is not said. */
  outside?: Json
  /** What its `audio_config` is called, first where it is not said. */
  encoders: readonly [string, ...string[]]
  /** Heads are turned, as those of a text model; else rows have learned places. */
  isTurned?: true
  /** It hears a second at a time (chunks.ts), and is so large where that is not said. */
  chunked?: Json
  /** Silence fills half a second, and what lacks of a second's frames counts as there. */
  isFilled?: true
  /** The projector lies in the encoder wherever it was published. */
  isInside?: true
  joined: number
  by: HearingConfig["by"]
  /** Two matrices; else there is one, or none at all. */
  isDeep: boolean | "none"
  /** Columns between the two. */
  inner?: (text: ModelConfig, width: number) => number
  /** Or a gated one, all of it under norms. */
  gated?: (fields: Fields) => Pick<Projector, "norm" | "inner" | "middle" | "last">
  hasBias: (fields: Fields) => boolean
  /** Where it is not said; the name that the configuration has for it. */
  softToken: number
  cutting: Cutting | "chunks"
  isFull?: true
  /** Seconds. */
  most: (files: AudioFiles) => number
  /** The token of a row, which stands in the chat template's text, too. */
  soft: (files: AudioFiles) => string
  before: string
  /** What its processor asks it to do for a transcription, where it is not said, or what its reply begins with. */
  transcription?: string | OpenedTranscription
  parts: Naming["parts"]
}

/** Fields of the files that tell of recordings: of the feature extractor, the processor and the tokenizer. */
export type AudioFiles = Readonly<Record<"extractor" | "processor" | "tokens", Fields>>

const WINDOW = 30 // seconds
const PIECE = 2 // seconds
const RATE = 16_000
const HOP = 160
const FRAMES = RATE / HOP // of a second
const ROWS = (WINDOW * RATE) / HOP / 2

/** A graph may have nodes for each, and is made before any tensor can contradict it. */
const MAX_BANDS = 512

/** Whisper's own names, and those that its kin have. */
const ENCODER = {
  hidden_size: "d_model",
  num_hidden_layers: "encoder_layers",
  num_attention_heads: "encoder_attention_heads",
  intermediate_size: "encoder_ffn_dim",
  hidden_act: "activation_function",
} as const

const ABSENT = {
  hidden_size: 1280,
  num_hidden_layers: 32,
  num_attention_heads: 20,
  intermediate_size: 5120,
  hidden_act: "gelu",
}

/** Of LayerNorms, which no configuration says. */
export const EPSILON = 1e-5

const whisperParts: Naming["parts"] = {
  positions: "embed_positions",
  norm: "layer_norm",
  input_layernorm: "self_attn_layer_norm",
  "self_attn.o_proj": "self_attn.out_proj",
  post_attention_layernorm: "final_layer_norm",
  "mlp.up_proj": "fc1",
  "mlp.down_proj": "fc2",
}

/** The encoder's norm, which reads the mean of its rows. */
const MEAN_NORM: Naming["parts"] = {
  "projector_norm.weight": { name: "layer_norm.weight", apart: true },
  "projector_norm.bias": { name: "layer_norm.bias", apart: true },
}

const audioToken =
  (otherwise: string): Family["soft"] =>
  ({ processor }) =>
    processor.text("audio_token", otherwise)

/** Of Omni's, whose tokenizers name it. */
const tokenizersToken =
  (otherwise: string): Family["soft"] =>
  ({ tokens }) =>
    tokens.text("audio_token", otherwise)

const qwen25Omni: Family = {
  encoders: ["qwen2_5_omni_audio_encoder"],
  isInside: true,
  joined: 2,
  by: "mean",
  isDeep: false,
  hasBias: () => true,
  softToken: 151646,
  cutting: "pieces",
  most: ({ extractor }) => extractor.count("chunk_length", 300),
  soft: tokenizersToken("<|AUDIO|>"),
  before: "",
  parts: {
    ...whisperParts,
    "positions.weight": { name: "positions", sines: "closed" },
    "projector_norm.weight": { name: "ln_post.weight", apart: true },
    "projector_norm.bias": { name: "ln_post.bias", apart: true },
    linear_1: "proj",
  },
}

/** Of Qwen's towers whose filters look at a second at a time. */
const bySeconds = {
  joined: 1,
  by: "columns",
  isDeep: true,
  inner: (_, width) => width,
  hasBias: () => true,
  cutting: "chunks",
  before: "",
  parts: { ...whisperParts, norm: "ln_post" },
} satisfies Partial<Family>

const qwen3Omni: Family = {
  ...bySeconds,
  encoders: ["qwen3_omni_moe_audio_encoder"],
  isInside: true,
  chunked: ABSENT,
  softToken: 151646,
  most: () => 2400, // what its makers say it hears
  soft: tokenizersToken("<|audio_pad|>"),
}

/** By the `model_type` of the whole. */
const families = {
  audioflamingo3: {
    encoders: ["audioflamingo3_encoder"],
    joined: 2,
    by: "mean",
    isDeep: true,
    hasBias: (fields) => fields.flag("projector_bias", true),
    softToken: 151669,
    cutting: "windows",
    most: ({ processor }) => processor.count("max_audio_len", 600),
    soft: audioToken("<sound>"),
    before: "",
    transcription: "Transcribe the input speech.",
    parts: { ...whisperParts, ...MEAN_NORM },
  },
  glmasr: {
    encoders: ["glmasr_encoder"],
    isTurned: true,
    joined: 4,
    by: "columns",
    isDeep: true,
    inner: ({ shapes }) => 2 * shapes.hidden,
    hasBias: () => true,
    softToken: 59260,
    cutting: "windows",
    isFull: true,
    most: ({ processor }) => processor.count("max_audio_len", 655),
    soft: audioToken("<|pad|>"),
    before: "",
    transcription: "Please transcribe this audio into text",
    parts: { "mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2" },
  },
  qwen2_audio: {
    encoders: ["qwen2_audio_encoder"],
    joined: 2,
    by: "mean",
    isDeep: false,
    hasBias: () => true,
    softToken: 151646,
    cutting: "window",
    most: () => WINDOW,
    soft: audioToken("<|AUDIO|>"),
    before: "",
    parts: { ...whisperParts, ...MEAN_NORM, linear_1: "linear" },
  },
  qwen2_5_omni: qwen25Omni,
  qwen2_5_omni_thinker: qwen25Omni,
  qwen3_omni_moe: qwen3Omni,
  qwen3_omni_moe_thinker: qwen3Omni,
  qwen3_asr: {
    ...bySeconds,
    isFilled: true,
    encoders: ["qwen3_asr_encoder", "qwen3_asr_audio_encoder"],
    chunked: {
      hidden_size: 1024,
      num_hidden_layers: 24,
      num_attention_heads: 16,
      intermediate_size: 4096,
      hidden_act: "gelu",
    },
    softToken: 151676,
    most: () => 1200, // longer ones its makers cut where nobody speaks
    soft: audioToken("<|audio_pad|>"),
    transcription: qwen3Asr,
  },
  whisper: {
    outside: WHISPER,
    encoders: ["whisper"],
    joined: 1,
    by: "columns",
    isDeep: "none",
    hasBias: () => false,
    softToken: 0, // its prompts are not written by a template
    cutting: "sought",
    most: () => 3600, // of frames an hour has 184 MB
    soft: () => "",
    before: "",
    parts: whisperParts,
  },
  ultravox: {
    encoders: ["whisper"],
    joined: 8,
    by: "columns",
    isDeep: true,
    gated: ultravoxProjector,
    hasBias: () => false,
    softToken: 0, // any that prompts have not: its own code writes the end of a turn
    cutting: "filled",
    most: () => 2400,
    soft: () => "",
    before: "",
    parts: whisperParts,
  },
  voxtral: {
    encoders: ["voxtral_encoder"],
    joined: 4,
    by: "columns",
    isDeep: true,
    hasBias: () => false,
    softToken: 24,
    cutting: "padded",
    most: () => 2400,
    soft: () => "[AUDIO]",
    before: "[BEGIN_AUDIO]",
    transcription: voxtral,
    parts: whisperParts,
  },
} satisfies Record<string, Family>

/** Whether recordings are read of models of that `model_type`. */
export const readsAudio = (type: string) => Object.hasOwn(families, type)

/** What the `audio_config` of such a model is called. */
export const encoderOf = (type: keyof typeof families) => families[type].encoders[0]

function familyOf(fields: Fields): { family: Family; audio: Fields } | undefined {
  const type = fields.text("model_type")
  if (!readsAudio(type)) return undefined
  const family: Family = families[type as keyof typeof families]
  const audio = family.outside ? fields.with(family.outside) : fields.object("audio_config")
  if (!audio) return undefined
  const encoder = audio.text("model_type", family.encoders[0])
  return family.encoders.includes(encoder) ? { family, audio } : undefined
}

/**
 * @param text the model inside
 * @returns nothing where there is no encoder, or none that is known
 */
export function readHearing(fields: Fields, text: ModelConfig): HearingConfig | undefined {
  const known = familyOf(fields)
  if (!known) return undefined
  const { family, audio } = known
  const { width, blocks } = readEncoder(audio, family)
  const norm = { kind: "layer", bias: true, epsilon: EPSILON } as const
  const isMean = family.by === "mean"
  const bands = audio.count("num_mel_bins", 128, 1, MAX_BANDS)
  const chunks = family.chunked && readChunks(audio, bands)
  const isPiece = family.cutting === "pieces"
  const isFilled = family.cutting === "filled"
  if (isPiece) checkPieces(audio)
  return {
    architecture: family.encoders[0],
    bands,
    rows: chunks ? chunkRows(chunks.window * FRAMES) : isPiece ? (PIECE * FRAMES) / 2 : ROWS,
    width,
    blocks,
    hasPlaces: !(family.isTurned || chunks),
    ...(chunks && { channels: chunks.channels }),
    ...(isPiece && { isPiece }),
    ...(isFilled && { isFilled }),
    lastNorm: isMean ? undefined : norm,
    joined: family.joined,
    by: family.by,
    projector:
      family.isDeep === "none"
        ? undefined
        : { norm: isMean ? norm : undefined, ...readProjector(fields, family, text, width) },
    softToken: softTokenOf(fields, family, text),
    naming: family.outside
      ? { ...whisperNaming(family, bands, width), roots: OUTSIDE }
      : chunks
        ? chunkNaming(fields, family, { bands, width, channels: chunks.channels })
        : whisperNaming(family, bands, width),
  }
}

function checkPieces(audio: Fields): void {
  const half = (PIECE * FRAMES) / 2
  const told = audio.count("n_window", half)
  if (told !== half)
    throw audio.wrong("n_window", `is ${told}; only ${half} is known, of half a piece`)
}

function whisperNaming({ isInside, parts }: Family, bands: number, width: number): Naming {
  return {
    roots: isInside ? INSIDE : rootsOf("model.", ""),
    layers: "layers.",
    parts: {
      embed_tokens: "conv1", // by which the tower is found
      "conv1.weight": { name: "conv1.weight", shape: [width, bands, 3], turnedColumns: 3 },
      "conv2.weight": { name: "conv2.weight", shape: [width, width, 3], turnedColumns: 3 },
      "self_attn.k_proj.bias": { name: "self_attn.k_proj.bias", constant: 0 },
      ...parts,
    },
  }
}

/** As their makers published them, the projector lies in the tower. */
function chunkNaming(fields: Fields, { isInside, parts }: Family, chunks: Chunks): Naming {
  const all = { ...chunkParts(chunks, (number) => `conv2d${number}`, [chunks.channels]), ...parts }
  if (!isInside && !fields.has(THINKER))
    return { roots: rootsOf("model.", ""), layers: "layers.", parts: all }
  return {
    roots: INSIDE,
    layers: "layers.",
    parts: { ...all, linear_1: "proj1", linear_2: "proj2" },
  }
}

const INSIDE: Naming["roots"] = [THINKING, "model.", ""].map((place) => {
  const root = `${place}audio_tower.`
  return { root, head: root, apart: root }
})

/** An encoder beside a decoder. */
const OUTSIDE: Naming["roots"] = ["model.", ""].map((place) => {
  const root = `${place}encoder.`
  return { root, head: root, apart: root }
})

const rootsOf = (...roots: readonly string[]): Naming["roots"] =>
  roots.map((root) => ({
    root: `${root}audio_tower.`,
    head: `${root}multi_modal_projector.`,
    apart: `${root}audio_tower.`,
  }))

/** How long its windows are, in seconds, and how many channels its convolutions have. */
function readChunks(audio: Fields, bands: number): { window: number; channels: number } {
  const half = audio.count("n_window", FRAMES / 2)
  if (half !== FRAMES / 2)
    throw audio.wrong("n_window", `is ${half}; only ${FRAMES / 2} is known, of half a second`)
  const window = audio.count("n_window_infer", 8 * FRAMES) / FRAMES
  if (!Number.isInteger(window) || window < 1)
    throw audio.wrong("n_window_infer", `is ${window * FRAMES}, which is no multiple of ${FRAMES}`)
  if (bands % 8 !== 0) throw audio.wrong("num_mel_bins", `is ${bands}, which is no multiple of 8`)
  return { window, channels: audio.count("downsample_hidden_size", 480) }
}

function readProjector(
  fields: Fields,
  { isDeep, inner, gated, hasBias }: Family,
  text: ModelConfig,
  encoder: number,
): Omit<Projector, "norm"> & Partial<Pick<Projector, "norm">> {
  const { hidden } = text.shapes
  const activation = readActivation(fields, { field: "projector_hidden_act", otherwise: "gelu" })
  const columns = inner?.(text, encoder) ?? hidden
  return {
    inner: isDeep ? { columns, activation, gated: false } : undefined,
    bias: hasBias(fields),
    width: hidden,
    factor: 1 / text.embedding.factor, // a text model multiplies the rows of tokens, and not these
    ...gated?.(fields),
  }
}

/** From version 0.5 on there is a norm between its matrices, before behind them. */
function ultravoxProjector(fields: Fields): Pick<Projector, "norm" | "inner" | "middle" | "last"> {
  const norm = { kind: "rms", bias: false, epsilon: 1e-6 } as const
  const columns = fields.count("hidden_size", 4096)
  return {
    norm,
    inner: { columns, activation: "silu", gated: true },
    [fields.flag("projector_ln_mid", false) ? "middle" : "last"]: norm,
  }
}

/** Layers of an encoder; Whisper's keys have no bias. */
function readEncoder(
  audio: Fields,
  { isTurned, chunked, cutting }: Family,
): Pick<HearingConfig, "width" | "blocks"> {
  const nameOf = (name: keyof typeof ENCODER) =>
    audio.has(name) || !audio.has(ENCODER[name]) ? name : ENCODER[name]
  const fields = audio.with(chunked ?? ABSENT).with(isTurned ? { partial_rotary_factor: 0.5 } : {})
  if (!isTurned && fields.flag("scale_embedding", false))
    throw fields.wrong("scale_embedding", "is true; only false is known")
  const context = isTurned ? "max_position_embeddings" : "max_source_positions"
  const rows = fields.count(context, ROWS)
  if (!chunked && rows !== ROWS)
    throw fields.wrong(context, `is ${rows}; only ${ROWS} is known, of ${WINDOW} seconds`)
  const config = readDecoder(
    fields.over({ vocab_size: 1, max_position_embeddings: ROWS, layer_norm_eps: EPSILON }),
    {
      names: {
        hidden: nameOf("hidden_size"),
        layers: nameOf("num_hidden_layers"),
        heads: nameOf("num_attention_heads"),
        intermediate: nameOf("intermediate_size"),
      },
      epsilon: "layer_norm_eps",
      norm: { kind: "layer", bias: true },
      activation: { field: nameOf("hidden_act"), otherwise: "gelu" },
      rotation: isTurned ? { part: 0.5 } : "none",
    },
  )
  const seen = cutting === "filled" ? { mutual: true as const } : { bidirectional: true as const }
  const { blocks } = withBlocks(config, (block) => ({
    ...withMlp(withAttention(block, { bias: { qkv: true, o: true }, ...seen }), {
      gated: false,
      bias: true,
    }),
    norms: NORMS.before,
  }))
  return { width: config.shapes.hidden, blocks }
}

/** Under either name that configurations have for it. */
function softTokenOf(fields: Fields, { softToken }: Family, { shapes }: ModelConfig): number {
  const name = fields.has("audio_token_index") ? "audio_token_index" : "audio_token_id"
  return fields.count(name, softToken, 0, shapes.vocabulary - 1)
}

/** How recordings are made ready, of a family that is known. */
export function readAudioProcessing(fields: Fields, files: AudioFiles): AudioProcessing {
  const { family, audio } = familyOf(fields)!
  const { extractor } = files
  const most = family.most(files)
  const bands = audio.count("num_mel_bins", 128, 1, MAX_BANDS)
  for (const [name, { is, otherwise }] of Object.entries({
    feature_size: { is: bands, otherwise: family.isFilled ? 128 : 80 },
    sampling_rate: { is: RATE, otherwise: RATE },
    hop_length: { is: HOP, otherwise: HOP },
    ...(!family.isInside && { chunk_length: { is: WINDOW, otherwise: WINDOW } }), // Omni's fill as many seconds, or none
    n_fft: { is: 400, otherwise: 400 },
    ...(family.isFilled && { n_window: { is: FRAMES / 2, otherwise: FRAMES / 2 } }),
    ...(family.isFilled && { min_length: { is: LEAST, otherwise: LEAST } }),
  })) {
    const told = extractor.count(name, otherwise)
    if (told !== is) throw extractor.wrong(name, `is ${told}; only ${is} is known of this model`)
  }
  for (const name of ["padding_value", "dither"])
    if (extractor.has(name) && extractor.number(name) !== 0)
      throw extractor.wrong(name, `is ${extractor.number(name)}; only 0 is known`)
  if (extractor.flag("do_normalize", false))
    throw extractor.wrong("do_normalize", "is true; only false is known")
  const side = extractor.text("padding_side", "right")
  const isLate = family.cutting === "pieces" && side === "left"
  if (side !== "right" && !isLate)
    throw extractor.wrong("padding_side", `is "${side}"; known of this model: right`)
  const soft = family.soft(files)
  const prepared = { bands, most, mark: soft, soft, before: family.before, after: "" }
  const { cutting } = family
  if (cutting === "chunks") {
    const { width } = readEncoder(audio, family)
    return {
      ...prepared,
      cutting,
      window: readChunks(audio, bands).window,
      ...(family.isFilled && { isFilled: true }),
      width,
    }
  }
  return {
    ...prepared,
    cutting,
    joined: family.joined,
    ...(cutting === "pieces" && { window: PIECE }),
    ...(isLate && { isLate }),
    ...(family.isFull && { isFull: true }),
    ...(family.isTurned && { isTurned: true }),
  }
}

/** How a model is asked to write down what it hears; nothing where its processor knows no words for that. */
export function readTranscription(
  fields: Fields,
  processor: Fields,
): string | OpenedTranscription | undefined {
  return askedOf(processor) ?? familyOf(fields)!.family.transcription
}

/** What a processor says of that. */
export function askedOf(processor: Fields): string | undefined {
  const name = "default_transcription_prompt"
  return processor.has(name) ? processor.text(name) : undefined
}
