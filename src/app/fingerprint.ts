// `system_fingerprint`: what a reply's text depends on beside its request. Two servers that say the same one tell the same
// request with the same seed the same text; whatever else differs between them (names, ports, drafts, how many requests run
// at once) changes no text and is not in it.

import { createHash } from "node:crypto"
import type { FormatName as ToolFormat } from "../chat/formats/formats.ts"
import type { HttpOptions, SamplingDefaults } from "../http/service.ts"
import { version } from "../version.ts"

export interface Deciding {
  /** Of the compiled program: plan, target and kernels. */
  program: string
  weights: string
  /** Of what reads images or recordings, program and weights; absent: nothing does. */
  senses: readonly string[] | undefined
  /** Of its file's text. */
  tokenizer: string
  /** Tokens before a text that is no chat: not the tokenizer's file alone decides them. */
  prefix: readonly number[]
  /** As the folder has them, the one for every purpose first. */
  templates: readonly (string | undefined)[]
  /** What `strftime_now` tells. */
  now: Date
  specialTokens: Readonly<Record<string, string>>
  endTokens: ReadonlySet<number>
  /** Tokens in the longest sequence: where a reply ends that nothing else ends. */
  context: number
  /** What requests leave open. */
  sampling: SamplingDefaults
  toolFormat: ToolFormat | undefined
  reasoning: HttpOptions["reasoning"]
}

export function fingerprintOf(deciding: Deciding): string {
  const { templates, now, specialTokens, endTokens, sampling, ...others } = deciding
  const sorted = (fields: object) =>
    Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1))
  const parts = {
    version,
    templates: templates.map((source) => source ?? null),
    told: templates.map((source) => toldBy(source ?? "", now)),
    specialTokens: sorted(specialTokens),
    endTokens: [...endTokens].sort((one, other) => one - other),
    sampling: sorted(sampling),
    others: sorted(others),
  }
  const hash = createHash("sha256").update(JSON.stringify(parts))
  return `fp_${hash.digest("hex").slice(0, 16)}`
}

/** The date that a template writes, to the second where it writes the time of day; nothing where it writes neither. */
function toldBy(source: string, now: Date): string {
  if (!source.includes("strftime_now")) return ""
  return TIME_OF_DAY.test(source) ? now.toString() : now.toDateString()
}

/** Directives of strftime that tell more than the date. */
const TIME_OF_DAY = /%-?[HIMSp]/
