// Opens what a model hears with, which lies in the folder that the model was opened from, or in a file beside a GGUF model.

import { type AudioProcessing, isInPieces } from "../../audio/audio.ts"
import { openWhole } from "../../closing.ts"
import { PARAMS } from "../../hub/selection.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import type { WhisperHearing } from "../ggml/whisper.ts"
import type { Beside } from "../gguf/clip-file.ts"
import { paramsHearingNaming } from "../mistral-params.ts"
import {
  openSense,
  PLAIN,
  type Place,
  placeOfSense,
  type Reading,
  type Sense,
  senseBeside,
  type Told,
} from "../sense.ts"
import { type ConformerConfig, conformer, conformerShapes } from "./conformer.ts"
import { withComputed } from "./conformer-weights.ts"
import {
  type AudioFiles,
  askedOf,
  readAudioProcessing,
  readHearing,
  readTranscription,
} from "./families.ts"
import { readGemma3nAudio, readGemma3nHearing } from "./gemma3n.ts"
import { readGemma4Audio, readGemma4Hearing } from "./gemma4.ts"
import {
  readUnifiedAudio,
  readUnifiedHearing,
  type SamplesConfig,
  samplesProjection,
  samplesShapes,
} from "./gemma4-unified.ts"
import { GRANITE_TRANSCRIPTION, readGraniteAudio, readGraniteHearing } from "./granite.ts"
import { type GraniteConfig, graniteShapes, graniteTower } from "./granite-tower.ts"
import { withGraniteComputed } from "./granite-weights.ts"
import { openHearingMmproj } from "./mmproj.ts"
import {
  type MoonshineConfig,
  moonshineShapes,
  moonshineTower,
  readMoonshineAdvice,
  readMoonshineAudio,
  readMoonshineHearing,
} from "./moonshine.ts"
import { readParakeetAudio, readParakeetHearing } from "./parakeet.ts"
import { type ParakeetConfig, parakeetShapes, parakeetTower } from "./parakeet-tower.ts"
import { withParakeetComputed } from "./parakeet-weights.ts"
import type { PieceAdvice } from "./pieces.ts"
import { readSpeechAdvice, type SpeechAdvice } from "./speech.ts"
import { type HearingConfig, hearingShapes, hearingTower } from "./tower.ts"
import type { OpenedTranscription } from "./transcripts.ts"

export interface Hearing extends Sense {
  config:
    | HearingConfig
    | ConformerConfig
    | SamplesConfig
    | GraniteConfig
    | ParakeetConfig
    | MoonshineConfig
  audio: AudioProcessing
  /** How it is asked for a transcription; absent: its processor knows no words for that. */
  transcription?: string | OpenedTranscription | undefined
  /** Of a Whisper, which does nothing else: what is advised on how it writes. */
  speech?: SpeechAdvice | undefined
  /** Of another whose decoder attends to it, and does nothing else: how it is asked. */
  pieces?: PieceAdvice | undefined
}

/** Whether such a model writes down what it hears, and nothing else. */
export const onlyTranscribes = (hearing: Hearing | undefined): boolean =>
  hearing !== undefined && (hearing.speech !== undefined || isInPieces(hearing.audio))

const EXTRACTOR = "preprocessor_config.json"
const PROCESSOR = "processor_config.json"
const TOKENIZER = "tokenizer_config.json"

/**
 * @returns nothing where the model has no tower that is known, or its folder does not hold it
 * @throws `model_broken`, naming the file and what is wrong with it
 */
export async function openHearing(
  model: Place & { config: ModelConfig },
): Promise<Hearing | undefined> {
  const place = await placeOfSense(model, "hearing")
  const ear = place && earOf(place, model.config)
  if (!ear) return undefined
  return openWhole(async (closing) => {
    const sense = await openSense(place, ear)
    if (!sense) return undefined
    closing.add(sense)
    const { folder, fields } = place
    const read = async (file: string) =>
      new Fields((await folder.jsonIfThere(file)) ?? {}, (what) => folder.broken(file, what))
    const processor = await read(PROCESSOR)
    const told = place.extractor ?? processor.object("feature_extractor")
    const extractor = told ?? (await read(EXTRACTOR))
    const prepared = ear.prepared({ extractor, processor, tokens: await read(TOKENIZER) })
    const files = place.extractor && { [PLAIN]: fields.json, [EXTRACTOR]: extractor.json }
    const isWhisper = "hasPlaces" in ear.config && ear.config.projector === undefined
    const speech = isWhisper && (await readSpeechAdvice(model, fields))
    const hearing = { ...sense, config: ear.config, ...prepared, close: () => closing.close() }
    return { ...hearing, ...(files && { files }), ...(speech && { speech }) }
  })
}

/**
 * What lies beside a GGUF model.
 * @returns nothing where the file has nothing to hear with
 * @throws `model_broken`
 */
export async function hearingBeside(beside: Beside): Promise<Hearing | undefined> {
  return openWhole(async (closing) => {
    const mmproj = await openHearingMmproj(beside)
    if (!mmproj) return undefined
    closing.add(mmproj)
    const { fields, extractor, config, audio, transcription } = mmproj
    const sense = senseBeside(beside, mmproj, readingOf(config))
    const files = extractor && { [PLAIN]: fields.json, [EXTRACTOR]: extractor.json }
    const hearing = { ...sense, config, audio, transcription, close: () => closing.close() }
    return { ...hearing, ...(files && { files }) }
  })
}

/** What lies in the same file as the model that writes down what it hears. */
export function hearingInside(
  { folder, file }: Pick<Beside, "folder" | "file">,
  { fields, extractor, config, audio, weights, speech }: WhisperHearing,
): Hearing {
  const sense = senseBeside({ folder, file }, { fields, weights }, readingOf(config))
  const files = { [PLAIN]: fields.json, [EXTRACTOR]: extractor.json }
  return { ...sense, config, audio, speech, files, close: () => weights.close() }
}

/** A tower that is known, and what it is read by. */
interface Ear extends Reading {
  config: Hearing["config"]
  /** By what files of its processor say. */
  prepared(files: AudioFiles): Pick<Hearing, "audio" | "transcription" | "pieces">
}

/** In MLC's layout nothing of a tower is joined. */
const APART = { attention: undefined, gated: false } as const
const LAYERS = "audio_config.num_hidden_layers"

function earOf({ fields, told }: Told, text: ModelConfig): Ear | undefined {
  const own = readGemma4Hearing(fields, text)
  if (own)
    return {
      config: own,
      naming: own.naming,
      ...conformerReading(own),
      prepared: ({ extractor, tokens }) => ({ audio: readGemma4Audio(fields, extractor, tokens) }),
    }
  const ended = readGemma3nHearing(fields, text)
  if (ended)
    return {
      config: ended,
      naming: ended.naming,
      ...conformerReading(ended),
      prepared: (files) => ({ audio: readGemma3nAudio(fields, files) }),
    }
  const plain = readUnifiedHearing(fields, text)
  if (plain)
    return {
      config: plain,
      naming: plain.naming,
      ...samplesReading(plain),
      prepared: (files) => ({ audio: readUnifiedAudio(fields, files) }),
    }
  const paired = readGraniteHearing(fields, text)
  if (paired)
    return {
      config: paired,
      naming: paired.naming,
      ...graniteReading(paired),
      prepared: (files) => ({
        audio: readGraniteAudio(fields, files),
        transcription: askedOf(files.processor) ?? GRANITE_TRANSCRIPTION,
      }),
    }
  const eighths = readParakeetHearing(fields, text)
  if (eighths)
    return {
      config: eighths,
      naming: eighths.naming,
      ...parakeetReading(eighths),
      prepared: (files) => ({ audio: readParakeetAudio(fields, files) }),
    }
  const strided = readMoonshineHearing(fields)
  if (strided)
    return {
      config: strided,
      naming: strided.naming,
      ...moonshineReading(strided),
      prepared: (files) => ({
        audio: readMoonshineAudio(files),
        pieces: readMoonshineAdvice(fields),
      }),
    }
  const config = readHearing(fields, text)
  return (
    config && {
      config,
      naming: told === PARAMS ? paramsHearingNaming(config) : config.naming,
      ...whisperReading(config),
      prepared: (files) => ({
        audio: readAudioProcessing(fields, files),
        transcription: readTranscription(fields, files.processor),
      }),
    }
  )
}

function readingOf(config: Hearing["config"]): Omit<Reading, "naming"> {
  if ("asked" in config) return graniteReading(config)
  if ("subsampled" in config) return parakeetReading(config)
  if ("taps" in config) return conformerReading(config)
  if ("strided" in config) return moonshineReading(config)
  return "samples" in config ? samplesReading(config) : whisperReading(config)
}

function whisperReading(config: HearingConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: hearingShapes(config), ...APART },
    layers: { count: config.blocks.length, field: LAYERS },
    graph: () => hearingTower(config),
  }
}

function conformerReading(config: ConformerConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: conformerShapes(config), ...APART },
    layers: { count: config.layers, field: LAYERS },
    graph: () => conformer(config),
    computed: (stored) => withComputed(stored, config),
  }
}

function graniteReading(config: GraniteConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: graniteShapes(config), ...APART },
    layers: { count: config.layers, field: "encoder_config.num_layers" },
    graph: () => graniteTower(config),
    computed: (stored) => withGraniteComputed(stored, config),
  }
}

function parakeetReading(config: ParakeetConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: parakeetShapes(config), ...APART },
    layers: { count: config.layers, field: "encoder_config.num_hidden_layers" },
    graph: () => parakeetTower(config),
    computed: (stored) => withParakeetComputed(stored, config),
  }
}

function moonshineReading(config: MoonshineConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: moonshineShapes(config), ...APART },
    layers: { count: config.blocks.length, field: "encoder_num_hidden_layers" },
    graph: () => moonshineTower(config),
  }
}

function samplesReading(config: SamplesConfig): Omit<Reading, "naming"> {
  return {
    names: { shapes: samplesShapes(config), ...APART },
    layers: { count: 0, field: LAYERS },
    graph: () => samplesProjection(config),
  }
}
