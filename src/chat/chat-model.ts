// What a chat needs to know of its model: its tokenizer, its templates, how it marks thinking and how it writes calls.

import { type FormatName, formatOf } from "./formats/formats.ts"
import type { Markers } from "./markers.ts"
import { markersOf } from "./reasoning.ts"
import type { Template } from "./template.ts"
import type { Tokenizer } from "./tokenizer.ts"

/** As its folder and its operator describe it. */
export interface ModelTexts {
  tokenizer: Tokenizer
  /** Absent for models that were never taught to talk. */
  template: Template | undefined
  /** A template of its own for conversations with tools, which some models have. */
  toolTemplate?: Template | undefined
  /** Tokens that end an answer. */
  endTokens: ReadonlySet<number>
  /** How the model writes calls; undefined: as its template shows. */
  toolFormat?: FormatName | undefined
}

export interface ChatModel extends ModelTexts {
  /** For conversations with tools: one for all, where the model has no other. */
  toolTemplate: Template | undefined
  toolFormat: FormatName
  /** How thinking is marked; undefined: the model does not think. */
  markers: Markers | undefined
}

export function chatModelOf({ tokenizer, template, endTokens, ...texts }: ModelTexts): ChatModel {
  const markers = template && markersOf(template, tokenizer)
  return { tokenizer, template, endTokens, markers, ...toolsOf(template, texts) }
}

/** How tools are shown and calls are written. A format nobody here reads is of no use: then both are done in plain words. */
function toolsOf(
  template: Template | undefined,
  { toolTemplate = template, toolFormat }: Pick<ModelTexts, "toolTemplate" | "toolFormat">,
): Pick<ChatModel, "toolTemplate" | "toolFormat"> {
  const name = toolFormat ?? (toolTemplate && formatOf(toolTemplate))
  if (name) return { toolTemplate, toolFormat: name }
  const plain = template && { ...template, knowsTools: false, knowsCalls: false }
  return { toolTemplate: plain, toolFormat: "json" }
}
