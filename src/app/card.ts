// What clients may learn of a model: its names, what can be asked of it, and the fingerprint of all that decides a text.

import type { Hash } from "node:crypto"
import type { ModelCard } from "../http/service.ts"
import { type Deciding, fingerprintOf } from "./fingerprint.ts"
import type { PreparedModel } from "./prepared-model.ts"
import type { Templates } from "./texts.ts"

/** What decides a text beside what was prepared. */
export interface CardDetails
  extends Pick<Deciding, "program" | "weights" | "now" | "sampling" | "reasoning"> {
  /** A hash that tokenizer.json went into already. */
  tokenizer: Hash
  templates: Templates
}

export function cardOf(prepared: PreparedModel, details: CardDetails): ModelCard {
  const { files, summary } = prepared
  const { limits, device } = summary
  return {
    names: namesOf(prepared),
    created: Math.floor(Date.now() / 1000),
    capabilities: details.templates.template ? [...OF_TALKERS, ...OF_ALL] : OF_ALL,
    contextLength: limits.context.value,
    vocabularySize: files.config.shapes.vocabulary,
    fingerprint: fingerprint(prepared, details),
    details: {
      architecture: summary.architecture,
      parameters: summary.parameters,
      format: summary.format,
      device: `${device.name}:${device.id}`,
      target: summary.target,
      max_num_sequence: limits.sequences.value,
      max_total_seq_length: limits.total.value,
    },
  }
}

const OF_ALL = ["completion", "logprobs"]
const OF_TALKERS = ["chat", "tools", "json_schema"]

/** The names a request may ask for: the model as it was typed, its folder's name, one more. */
function namesOf({ settings, files }: PreparedModel): string[] {
  const { model: typed, servedName } = settings
  return [...new Set([typed, files.name, ...(servedName ? [servedName] : [])])]
}

function fingerprint({ files, settings, summary }: PreparedModel, details: CardDetails): string {
  const { tokenizer, templates, ...deciding } = details
  const { specialTokens, endTokens } = files.texts
  return fingerprintOf(tokenizer, {
    ...deciding,
    templates: [templates.template?.source, templates.toolTemplate?.source],
    specialTokens,
    endTokens,
    context: summary.limits.context.value,
    toolFormat: settings.toolFormat,
  })
}
