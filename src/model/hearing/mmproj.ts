// What a GGUF model hears with: the part of an mmproj file that llama.cpp calls its audio encoder. Its keys become the fields of a
// config.json and of a preprocessor_config.json, so that what is known of a family holds here, too; the file says nothing of how
// recordings are prepared but how many bands there are. A projector that is not known is refused by its name: of GLM-ASR's (`glma`)
// llama.cpp has another encoder, without the turned heads of the published one.
//
// Keys and tensors: tools/mtmd/clip-impl.h and conversion/gemma.py, granite.py, ultravox.py and qwen3vl.py of llama.cpp.

import type { AudioProcessing } from "../../audio/audio.ts"
import { openWhole } from "../../closing.ts"
import { Fields } from "../fields.ts"
import { type Beside, type ClipFile, openClip } from "../gguf/clip-file.ts"
import type { Naming, Part } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { chunkParts } from "./chunks.ts"
import type { ConformerConfig } from "./conformer.ts"
import {
  EPSILON,
  encoderOf,
  readAudioProcessing,
  readHearing,
  readTranscription,
} from "./families.ts"
import { readGemma4Audio, readGemma4Hearing } from "./gemma4.ts"
import {
  CONFORMER,
  conformerFields,
  conformerNaming,
  SAMPLES,
  samplesFields,
  samplesNaming,
} from "./gemma4-mmproj.ts"
import { readUnifiedAudio, readUnifiedHearing, type SamplesConfig } from "./gemma4-unified.ts"
import { GRANITE_TRANSCRIPTION, readGraniteAudio, readGraniteHearing } from "./granite.ts"
import { GRANITE, graniteFields, graniteNaming } from "./granite-mmproj.ts"
import type { GraniteConfig } from "./granite-tower.ts"
import type { HearingConfig } from "./tower.ts"
import type { OpenedTranscription } from "./transcripts.ts"

interface Projector {
  /** The `model_type` of the whole. */
  model: "audioflamingo3" | "qwen2_5_omni" | "qwen2_audio" | "qwen3_asr" | "ultravox" | "voxtral"
  /** Tokens that a vocabulary has for recordings, the soft one first. */
  around: readonly string[]
  /** It has none; the first of these that it has is in no prompt otherwise, and so the soft one. */
  spare?: readonly string[]
  /** So many rows side by side become one; absent: the file does not say it. */
  stacked?: number
  /** What stands around a recording, which the templates of such files do not write. */
  written?: { before: string; after: string }
  /** Tensors that nobody reads. */
  unread?: readonly string[]
  parts: Naming["parts"]
  /** The matrix whose rows are as many as the text model's columns. */
  last: string
}

/** Of the first convolution of those in two directions. */
const FILTERS = "a.conv2d.1.weight"

/** Of Ultravox, whose rows are as many as columns between its two. */
const BETWEEN = "mm.a.mlp.1.weight"

const TWO = { linear_1: "mlp.1", linear_2: "mlp.2" }

/** The encoder's norm reads the mean of its rows. */
const MEAN = {
  "projector_norm.weight": { name: "post_ln.weight", apart: true },
  "projector_norm.bias": { name: "post_ln.bias", apart: true },
} as const

const projectors = {
  musicflamingo: {
    model: "audioflamingo3",
    around: ["<sound>"],
    parts: { ...TWO, ...MEAN },
    last: "mm.a.mlp.2.weight",
  },
  "qwen2.5o": {
    model: "qwen2_5_omni",
    around: ["<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"],
    parts: { linear_1: "fc", ...MEAN },
    last: "mm.a.fc.weight",
  },
  qwen2a: {
    model: "qwen2_audio",
    around: ["<|AUDIO|>"],
    parts: { linear_1: "fc", ...MEAN },
    last: "mm.a.fc.weight",
  },
  qwen3a: {
    model: "qwen3_asr",
    around: ["<|audio_pad|>", "<|audio_start|>", "<|audio_end|>", "<asr_text>"],
    written: { before: "<|audio_start|>", after: "<|audio_end|>" },
    unread: ["a.position_embd.weight"], // sines and cosines, which are computed
    parts: TWO,
    last: "mm.a.mlp.2.weight",
  },
  ultravox: {
    model: "ultravox",
    around: [],
    spare: ["<|reserved_special_token_0|>", "<|image_pad|>", "<image_soft_token>"], // Llama 3, Qwen 3, Gemma 3
    stacked: 8,
    parts: {
      linear_1: "mlp.1",
      linear_2: "mlp.2",
      projector_norm: "norm_pre",
      middle_norm: "norm_mid",
    },
    last: "mm.a.mlp.2.weight",
  },
  voxtral: {
    model: "voxtral",
    around: ["[AUDIO]", "[BEGIN_AUDIO]"],
    stacked: 4,
    parts: TWO,
    last: "mm.a.mlp.2.weight",
  },
} as const satisfies Record<string, Projector>

/** What the projector type of a file that hears may be. */
export const hearingMmprojNames = [
  ...(Object.keys(projectors) as (keyof typeof projectors)[]),
  CONFORMER,
  SAMPLES,
  GRANITE,
] as const

function projectorOf(
  file: ClipFile,
): Projector | typeof CONFORMER | typeof SAMPLES | typeof GRANITE {
  const { key, name } = file.projector()
  if (name === CONFORMER || name === SAMPLES || name === GRANITE) return name
  if (name !== undefined && Object.hasOwn(projectors, name))
    return projectors[name as keyof typeof projectors]
  const known = hearingMmprojNames.join(", ")
  const is = name === undefined ? "is missing" : `is "${name}"`
  throw file.keys.wrong(key, `${is}; known of what hears: ${known}`)
}

interface Read {
  fields: Fields
  /** Of a preprocessor_config.json; absent: no folder could say what stands around a recording. */
  extractor: Fields | undefined
  config: HearingConfig | ConformerConfig | SamplesConfig | GraniteConfig
  audio: AudioProcessing
  transcription: string | OpenedTranscription | undefined
}

export interface HearingMmproj extends Read {
  weights: Weights
  close(): Promise<void>
}

/**
 * @returns nothing where the file has nothing to hear with
 * @throws `model_broken`
 */
export async function openHearingMmproj(beside: Beside): Promise<HearingMmproj | undefined> {
  return openWhole(async (closing) => {
    const { audio: file } = await openClip(beside, closing)
    if (!file) {
      await closing.close()
      return undefined
    }
    const projector = projectorOf(file)
    const read = readBy(projector, file, beside)
    const unread = typeof projector === "string" ? [] : projector.unread
    const close = () => closing.close()
    return { ...read, weights: file.weights(read.config.naming, close, unread), close }
  })
}

function readBy(projector: ReturnType<typeof projectorOf>, file: ClipFile, beside: Beside): Read {
  if (projector === CONFORMER) return readConformer(file, beside)
  if (projector === GRANITE) return readGranite(file, beside)
  return projector === SAMPLES ? readSamples(file, beside) : readEncoder(file, projector, beside)
}

function readEncoder(file: ClipFile, projector: Projector, beside: Beside): Read {
  file.checkTokens(projector.around, "recordings", beside)
  const soft = softOf(file, projector, beside)
  const fields = wordsOf(file, projector, { ...beside, soft })
  const config = readHearing(fields, beside.config)!
  file.checkWidth({ tensor: projector.last, dim: 1 }, beside)
  const extractor = new Fields({ feature_size: config.bands }, file.broken)
  const processor = new Fields({}, file.broken)
  const audio = readAudioProcessing(fields, { extractor, processor, tokens: processor })
  return {
    fields,
    extractor: projector.written || projector.spare ? undefined : extractor,
    config: { ...config, naming: namingOf(file, config, projector) },
    audio: { ...audio, ...(projector.spare && { mark: soft, soft }), ...projector.written },
    transcription: readTranscription(fields, processor),
  }
}

function readConformer(file: ClipFile, beside: Beside): Read {
  const fields = conformerFields(file, beside)
  const config = readGemma4Hearing(fields, beside.config)!
  const extractor = new Fields({ feature_size: config.bands }, file.broken)
  return {
    fields,
    extractor,
    config: { ...config, naming: conformerNaming(config) },
    audio: readGemma4Audio(fields, extractor, new Fields({}, file.broken)),
    transcription: undefined,
  }
}

function readGranite(file: ClipFile, beside: Beside): Read {
  const fields = graniteFields(file, beside)
  const config = readGraniteHearing(fields, beside.config)!
  const extractor = new Fields({ feature_size: config.bands / 2 }, file.broken)
  const nothing = new Fields({}, file.broken)
  return {
    fields,
    extractor,
    config: { ...config, folded: true, naming: graniteNaming(file, config) },
    audio: readGraniteAudio(fields, { extractor, processor: nothing, tokens: nothing }),
    transcription: GRANITE_TRANSCRIPTION,
  }
}

function readSamples(file: ClipFile, beside: Beside): Read {
  const fields = samplesFields(file, beside)
  const config = readUnifiedHearing(fields, beside.config)!
  const { samples } = config
  const said = { feature_size: samples, audio_samples_per_token: samples }
  const extractor = new Fields(said, file.broken)
  const nothing = new Fields({}, file.broken)
  return {
    fields,
    extractor,
    config: { ...config, naming: samplesNaming },
    audio: readUnifiedAudio(fields, { extractor, processor: nothing, tokens: nothing }),
    transcription: undefined,
  }
}

/** Of what stands for rows. @throws where a vocabulary has no token to spare */
function softOf(file: ClipFile, { around, spare }: Projector, beside: Beside): string {
  if (!spare) return around[0]!
  const tokenOf = beside.readTokenIds()
  const soft = spare.find((text) => tokenOf(text) !== undefined)
  if (soft !== undefined) return soft
  throw file.broken(
    `${beside.model} has none of the tokens ${spare.join(", ")}, which prompts do without and recordings may stand for`,
  )
}

/** What the file says, in the words of a config.json. */
function wordsOf(
  file: ClipFile,
  { model, stacked }: Projector,
  { readTokenIds, text, soft }: Beside & { soft: string },
): Fields {
  const epsilon = file.numberIfThere("attention.layer_norm_epsilon") ?? EPSILON
  if (Math.fround(epsilon) !== Math.fround(EPSILON))
    throw file.wrong("attention.layer_norm_epsilon", `is ${epsilon}; only ${EPSILON} is known`)
  const factor = file.countIfThere("projector.stack_factor")
  if (factor !== undefined && factor !== (stacked ?? 1))
    throw file.wrong("projector.stack_factor", `is ${factor}; only ${stacked ?? 1} is known of it`)
  const audio_config = {
    model_type: encoderOf(model),
    hidden_size: file.counted("embedding_length"),
    intermediate_size: file.counted("feed_forward_length"),
    num_hidden_layers: file.said("block_count", file.layers()),
    num_attention_heads: file.counted("attention.head_count"),
    num_mel_bins: file.counted("num_mel_bins"),
    ...(file.has(FILTERS) && {
      downsample_hidden_size: file.made(FILTERS, file.dims(FILTERS)[3]),
    }),
  }
  const audio_token_id = readTokenIds()(soft)
  const words = { model_type: model, audio_config, audio_token_id, text_config: text.json }
  if (model === "ultravox") {
    const hidden_size = file.made(BETWEEN, file.dims(BETWEEN)[1])
    return file.words({ ...words, hidden_size, projector_ln_mid: true })
  }
  return file.words(words)
}

const PLACES = "position_embd.weight"

/** As many as there are rows in a window; of pieces, files have those of 30 seconds. */
function firstPlaces(file: ClipFile, rows: number): Part {
  const [, of = 0] = file.dims(`a.${PLACES}`)
  return { name: PLACES, rows: { of, from: 0, run: rows, every: of } }
}

/** Which tensors the graph's are. */
function namingOf(
  file: ClipFile,
  { width, bands, rows, channels }: HearingConfig,
  { parts }: Projector,
): Naming {
  const taps = (name: string, channels: number) => ({
    name: `${name}.weight`,
    shape: [width, channels, 3],
    turnedColumns: 3,
  })
  return {
    roots: [{ root: "a.", head: "mm.a.", apart: "a." }],
    layers: "blk.",
    parts: {
      ...(channels
        ? chunkParts({ bands, width, channels }, (number) => `conv2d.${number}`, [channels, 1, 1])
        : {
            conv1: "conv1d.1",
            "conv1.weight": taps("conv1d.1", bands),
            conv2: "conv1d.2",
            "conv2.weight": taps("conv1d.2", width),
          }),
      ...(!channels && { "positions.weight": firstPlaces(file, rows) }),
      norm: "post_ln",
      input_layernorm: "ln1",
      "self_attn.q_proj": "attn_q",
      "self_attn.k_proj": "attn_k",
      ...(!file.has("a.blk.0.attn_k.bias") && {
        "self_attn.k_proj.bias": { name: "attn_k.bias", constant: 0 },
      }),
      "self_attn.v_proj": "attn_v",
      "self_attn.o_proj": "attn_out",
      post_attention_layernorm: "ln2",
      "mlp.up_proj": "ffn_up",
      "mlp.down_proj": "ffn_down",
      ...parts,
    },
  }
}
