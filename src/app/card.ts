// What clients may learn of a model: its names and what can be asked of it, before it is loaded; once it is, the fingerprint of all
// that decides a text.

import type { ModelCard } from "../http/service.ts"
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
    contextLength: limits.context.value,
    vocabularySize: files.config.shapes.vocabulary,
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

const OF_RANKERS = ["rerank"]
const OF_EMBEDDERS = ["embedding"]
const OF_ALL = ["completion", "logprobs", ...OF_EMBEDDERS]
const OF_TALKERS = ["chat", "tools", "json_schema", ...OF_ALL]

function capabilitiesOf({ ranks, pooling, texts }: PreparedModel["files"]): readonly string[] {
  if (ranks) return OF_RANKERS
  if (pooling) return OF_EMBEDDERS
  return texts.templates.has("default") ? OF_TALKERS : OF_ALL
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
