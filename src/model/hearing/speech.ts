// What a Whisper's generation_config.json advises on how it writes: tokens that it is kept from, and where its first segment begins. Where
// there is none, config.json may, as older folders have it. Which heads words are timed by it says, too: they were found by hand for each of
// OpenAI's models, and of others there are none, or those of the model that one was made from.
// Languages and tasks are read from its tokenizer, where fine-tunes have them, too, whose files say nothing else.

import { join } from "node:path"
import type { CrossHead } from "../block.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { Folder, type Json } from "../folder.ts"

export interface SpeechAdvice {
  /** Which says it. */
  file: string
  /** Tokens that never come. */
  suppressed: readonly number[]
  /** And those that do not come first. */
  suppressedFirst: readonly number[]
  /** How far behind a window's beginning its first segment may begin, in steps of two hundredths of a second; undefined: anywhere. */
  mostInitial: number | undefined
  /** Undefined: its tokens say. */
  isMultilingual: boolean | undefined
  alignment: AlignmentAdvice | { why: string }
}

/** What words are timed by. */
export interface AlignmentAdvice {
  /** Those that look at the sound of the token that they read. */
  heads: readonly CrossHead[]
  /** Rows of a recording that the median is taken of. */
  smoothed: number
}

/** Of all of OpenAI's. */
export const SMOOTHED = 7

const FILE = "generation_config.json"

/** @throws `model_broken`, naming what in the file is wrong */
export async function readSpeechAdvice(
  { path, config }: { path: string; config: ModelConfig },
  described: Fields,
): Promise<SpeechAdvice> {
  const folder = new Folder(path)
  const json = await folder.jsonIfThere(FILE)
  const fields = json ? new Fields(json, (what) => folder.broken(FILE, what)) : described
  const { vocabulary } = config.shapes
  const most = "max_initial_timestamp_index"
  return {
    file: join(path, json ? FILE : "config.json"),
    suppressed: fields.tokens("suppress_tokens", vocabulary),
    suppressedFirst: fields.tokens("begin_suppress_tokens", vocabulary),
    mostInitial: fields.has(most) ? fields.count(most, undefined, 0) : undefined,
    isMultilingual: fields.has("is_multilingual")
      ? fields.flag("is_multilingual", true)
      : undefined,
    alignment: readAlignment(fields, config, described),
  }
}

const HEADS = "alignment_heads"

function readAlignment(
  { json }: Fields,
  { blocks }: ModelConfig,
  described: Fields,
): SpeechAdvice["alignment"] {
  const listed = json[HEADS]
  if (listed === undefined || listed === null) return { why: `${FILE} has no ${HEADS}` }
  if (!Array.isArray(listed) || listed.length === 0 || !listed.every(isPair))
    return { why: `${HEADS} in ${FILE} is no list of layers and heads` }
  const heads = listed.map(([layer, head]): CrossHead => ({ layer, head }))
  const absent = heads.find(({ layer, head }) => !(head < (blocks[layer]?.cross?.heads ?? 0)))
  if (absent) {
    const { layer, head } = absent
    return {
      why: `${HEADS} in ${FILE} names head ${head} of layer ${layer}, which it does not have`,
    }
  }
  const width = "median_filter_width"
  const smoothed = described.count(width, SMOOTHED)
  if (smoothed % 2 === 0) throw described.wrong(width, `is ${smoothed}, and has to be odd`)
  return { heads, smoothed }
}

function isPair(value: unknown): value is [number, number] {
  const isPlace = (n: unknown) => Number.isInteger(n) && (n as number) >= 0
  return Array.isArray(value) && value.length === 2 && value.every(isPlace)
}

/** The same in the words of such a file. */
export function speechFields(advice: SpeechAdvice): Json {
  const { suppressed, suppressedFirst, mostInitial, isMultilingual, alignment } = advice
  return {
    suppress_tokens: suppressed,
    begin_suppress_tokens: suppressedFirst,
    max_initial_timestamp_index: mostInitial ?? null,
    is_multilingual: isMultilingual ?? null,
    [HEADS]: "heads" in alignment ? alignment.heads.map(({ layer, head }) => [layer, head]) : null,
  }
}
