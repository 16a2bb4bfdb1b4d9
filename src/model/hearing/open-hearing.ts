// Opens what a model hears with, which lies in the folder that the model was opened from, or in a file beside a GGUF model.

import type { AudioProcessing } from "../../audio/audio.ts"
import { openWhole } from "../../closing.ts"
import { PARAMS } from "../../hub/selection.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import type { Beside } from "../gguf/clip-file.ts"
import { paramsHearingNaming } from "../mistral-params.ts"
import { openSense, PLAIN, placeOfSense, type Sense, senseBeside } from "../sense.ts"
import type { MlcNames } from "../weights/mlc-names.ts"
import { readAudioProcessing, readHearing, readTranscription } from "./families.ts"
import { openHearingMmproj } from "./mmproj.ts"
import { type HearingConfig, hearingShapes, hearingTower } from "./tower.ts"
import type { OpenedTranscription } from "./transcripts.ts"

export interface Hearing extends Sense {
  config: HearingConfig
  audio: AudioProcessing
  /** How it is asked for a transcription; absent: its processor knows no words for that. */
  transcription?: string | OpenedTranscription | undefined
}

const EXTRACTOR = "preprocessor_config.json"
const PROCESSOR = "processor_config.json"

/**
 * @returns nothing where the model has no tower that is known, or its folder does not hold it
 * @throws `model_broken`, naming the file and what is wrong with it
 */
export async function openHearing(
  model: Pick<Sense, "path" | "configuration"> & { config: ModelConfig },
): Promise<Hearing | undefined> {
  const place = await placeOfSense(model, "hearing")
  const config = place && readHearing(place.fields, model.config)
  if (!config) return undefined
  return openWhole(async (closing) => {
    const naming = place.told === PARAMS ? paramsHearingNaming(config) : config.naming
    const sense = await openSense(place, { naming, ...readingOf(config) })
    if (!sense) return undefined
    closing.add(sense)
    const { folder, fields } = place
    const read = async (file: string) =>
      new Fields((await folder.jsonIfThere(file)) ?? {}, (what) => folder.broken(file, what))
    const processor = await read(PROCESSOR)
    const told = place.extractor ?? processor.object("feature_extractor")
    const extractor = told ?? (await read(EXTRACTOR))
    const audio = readAudioProcessing(fields, extractor, processor)
    const transcription = readTranscription(fields, processor)
    const hearing = { ...sense, config, audio, transcription, close: () => closing.close() }
    const files = place.extractor && { [PLAIN]: fields.json, [EXTRACTOR]: extractor.json }
    return { ...hearing, ...(files && { files }) }
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

function readingOf(config: HearingConfig) {
  return {
    names: hearingNames(config),
    layers: { count: config.blocks.length, field: "audio_config.num_hidden_layers" },
    graph: () => hearingTower(config),
  }
}

/** In MLC's layout nothing of a tower is joined. */
function hearingNames(config: HearingConfig): MlcNames {
  return { shapes: hearingShapes(config), attention: undefined, gated: false }
}
