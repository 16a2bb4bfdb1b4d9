// What clients may learn of a model: its names and what can be asked of it, before it is loaded; once it is, the fingerprint of all
// that decides a text.

import { hasInfill } from "../chat/infill.ts"
import { showsThinking } from "../chat/reasoning.ts"
import type { ModelCard } from "../http/service.ts"
import { onlyTranscribes } from "../model/hearing/open-hearing.ts"
import type { Model } from "../model/model.ts"
import { type Deciding, fingerprintOf } from "./fingerprint.ts"
import type { PreparedModel } from "./prepared-model.ts"
import type { Templates } from "./texts.ts"

/** What decides a text beside what was prepared. */
export interface Decided
  extends Omit<Deciding, "templates" | "specialTokens" | "context" | "toolFormat"> {
  templates: Templates
}

/** @param created unix seconds; when the server started, so that loading a model again changes nothing */
export function cardOf(prepared: PreparedModel, created: number): ModelCard {
  const { files, summary } = prepared
  const { limits, device } = summary
  return {
    names: namesOf(prepared),
    created,
    capabilities: capabilitiesOf(files),
    sees: files.vision !== undefined,
    hears: files.hearing !== undefined,
    transcription: files.hearing?.transcription,
    ...(onlyTranscribes(files.hearing) && { onlyTranscribes: true }),
    contextLength: limits.context.value,
    vocabularySize: files.config.shapes.vocabulary,
    template: files.texts.templates.get("default")?.text,
    details: {
      architecture: summary.architecture,
      parameters: summary.parameters,
      embedding_length: files.config.shapes.hidden,
      format: summary.format,
      device: `${device.name}:${device.id}`,
      target: summary.target,
      max_num_sequence: limits.sequences.value,
      max_total_seq_length: limits.total.value,
    },
  }
}

/** Of an adapter that requests choose by its name. */
export function adapterCard(card: ModelCard, name: string): ModelCard {
  return { ...card, names: [name], parent: card.names[0]! }
}

const OF_RANKERS = ["rerank"]
const OF_WRITERS = ["transcription"]
const OF_EMBEDDERS = ["embedding"]
const OF_ALL = ["completion", "logprobs", ...OF_EMBEDDERS]
const OF_TALKERS = ["chat", "tools", "json_schema", ...OF_ALL]

/** Also those that Ollama's clients know: thinking, and insert for what stands between two texts. */
export function capabilitiesOf({
  ranks,
  pooling,
  hearing,
  texts: { templates, tokenizer },
}: Pick<Model, "ranks" | "pooling" | "texts" | "hearing">): readonly string[] {
  if (ranks) return OF_RANKERS
  if (pooling) return OF_EMBEDDERS
  if (onlyTranscribes(hearing)) return OF_WRITERS
  const template = templates.get("default")
  return [
    ...(template ? OF_TALKERS : OF_ALL),
    ...(template && showsThinking(template.text) ? ["thinking"] : []),
    ...(hasInfill(tokenizer.json) ? ["insert"] : []),
  ]
}

/** The names a request may ask for: the model as it was typed, its folder's name, one more. */
function namesOf({ settings, files }: PreparedModel): string[] {
  const { model: typed, servedName } = settings
  return [...new Set([typed, files.name, ...(servedName ? [servedName] : [])])]
}

export function fingerprintFor(
  { files, settings, summary }: PreparedModel,
  { templates, ...deciding }: Decided,
): string {
  const { specialTokens } = files.texts
  return fingerprintOf({
    ...deciding,
    templates: [templates.template?.source, templates.toolTemplate?.source],
    specialTokens,
    context: summary.limits.context.value,
    toolFormat: settings.toolFormat,
  })
}
