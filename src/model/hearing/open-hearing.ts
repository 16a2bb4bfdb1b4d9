// Opens what a model hears with, which lies in the folder that the model was opened from.

import type { AudioProcessing } from "../../audio/audio.ts"
import { openWhole } from "../../closing.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { openSense, placeOfSense, type Reading, type Sense } from "../sense.ts"
import { type ConformerConfig, conformer, conformerShapes } from "./conformer.ts"
import { withComputed } from "./conformer-weights.ts"
import { readAudioProcessing, readHearing, readTranscription } from "./families.ts"
import { readGemma4Audio, readGemma4Hearing } from "./gemma4.ts"
import {
  readUnifiedAudio,
  readUnifiedHearing,
  type SamplesConfig,
  samplesProjection,
  samplesShapes,
} from "./gemma4-unified.ts"
import { type HearingConfig, hearingShapes, hearingTower } from "./tower.ts"

export interface Hearing extends Sense {
  config: HearingConfig | ConformerConfig | SamplesConfig
  audio: AudioProcessing
  /** What it is asked for a transcription; absent: its processor knows no words for that. */
  transcription?: string | undefined
}

const EXTRACTOR = "preprocessor_config.json"
const PROCESSOR = "processor_config.json"
const TOKENIZER = "tokenizer_config.json"

/**
 * @returns nothing where the model has no tower that is known, or its folder does not hold it
 * @throws `model_broken`, naming the file and what is wrong with it
 */
export async function openHearing(
  model: Pick<Sense, "path" | "configuration"> & { config: ModelConfig },
): Promise<Hearing | undefined> {
  const place = await placeOfSense(model, "hearing")
  const ear = place && earOf(place.fields, model.config)
  if (!ear) return undefined
  return openWhole(async (closing) => {
    const sense = await openSense(place, ear)
    if (!sense) return undefined
    closing.add(sense)
    const { folder } = place
    const read = async (file: string) =>
      new Fields((await folder.jsonIfThere(file)) ?? {}, (what) => folder.broken(file, what))
    const processor = await read(PROCESSOR)
    const extractor = processor.object("feature_extractor") ?? (await read(EXTRACTOR))
    const told = ear.told({ extractor, processor, tokens: await read(TOKENIZER) })
    return { ...sense, config: ear.config, ...told, close: () => closing.close() }
  })
}

/** A tower that is known, and what it is read by. */
interface Ear extends Reading {
  config: Hearing["config"]
  /** What files of its processor say. */
  told(files: Record<"extractor" | "processor" | "tokens", Fields>): Told
}

type Told = Pick<Hearing, "audio" | "transcription">

/** In MLC's layout nothing of a tower is joined. */
const APART = { attention: undefined, gated: false } as const
const LAYERS = "audio_config.num_hidden_layers"

function earOf(fields: Fields, text: ModelConfig): Ear | undefined {
  const own = readGemma4Hearing(fields, text)
  if (own)
    return {
      config: own,
      naming: own.naming,
      names: { shapes: conformerShapes(own), ...APART },
      layers: { count: own.layers, field: LAYERS },
      graph: () => conformer(own),
      computed: (stored) => withComputed(stored, own),
      told: ({ extractor, tokens }) => ({ audio: readGemma4Audio(fields, extractor, tokens) }),
    }
  const plain = readUnifiedHearing(fields, text)
  if (plain)
    return {
      config: plain,
      naming: plain.naming,
      names: { shapes: samplesShapes(plain), ...APART },
      layers: { count: 0, field: LAYERS },
      graph: () => samplesProjection(plain),
      told: (files) => ({ audio: readUnifiedAudio(fields, files) }),
    }
  const config = readHearing(fields, text)
  return (
    config && {
      config,
      naming: config.naming,
      names: { shapes: hearingShapes(config), ...APART },
      layers: { count: config.blocks.length, field: LAYERS },
      graph: () => hearingTower(config),
      told: ({ extractor, processor }) => ({
        audio: readAudioProcessing(fields, extractor, processor),
        transcription: readTranscription(fields, processor),
      }),
    }
  )
}
