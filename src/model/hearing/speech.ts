// What a Whisper's generation_config.json advises on how it writes: tokens that it is kept from, and where its first segment begins. Where
// there is none, config.json may, as older folders have it.
// Languages and tasks are read from its tokenizer, where fine-tunes have them, too, whose files say nothing else.

import { Fields } from "../fields.ts"
import { Folder, type Json } from "../folder.ts"

export interface SpeechAdvice {
  /** Tokens that never come. */
  suppressed: readonly number[]
  /** And those that do not come first. */
  suppressedFirst: readonly number[]
  /** How far behind a window's beginning its first segment may begin, in steps of two hundredths of a second; undefined: anywhere. */
  mostInitial: number | undefined
  /** Undefined: its tokens say. */
  isMultilingual: boolean | undefined
}

const FILE = "generation_config.json"

/** @throws `model_broken`, naming what in the file is wrong */
export async function readSpeechAdvice(
  { path, config }: { path: string; config: { shapes: { vocabulary: number } } },
  described: Fields,
): Promise<SpeechAdvice> {
  const folder = new Folder(path)
  const json = await folder.jsonIfThere(FILE)
  const fields = json ? new Fields(json, (what) => folder.broken(FILE, what)) : described
  const { vocabulary } = config.shapes
  const most = "max_initial_timestamp_index"
  return {
    suppressed: fields.tokens("suppress_tokens", vocabulary),
    suppressedFirst: fields.tokens("begin_suppress_tokens", vocabulary),
    mostInitial: fields.has(most) ? fields.count(most, undefined, 0) : undefined,
    isMultilingual: fields.has("is_multilingual")
      ? fields.flag("is_multilingual", true)
      : undefined,
  }
}

/** The same in the words of such a file. */
export function speechFields(advice: SpeechAdvice): Json {
  const { suppressed, suppressedFirst, mostInitial, isMultilingual } = advice
  return {
    suppress_tokens: suppressed,
    begin_suppress_tokens: suppressedFirst,
    max_initial_timestamp_index: mostInitial ?? null,
    is_multilingual: isMultilingual ?? null,
  }
}
