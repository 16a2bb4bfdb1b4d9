// The tokens that a Whisper is asked with, and those of its reply that are no words. They are found by their names, since fine-tunes have
// them, too, whose files say nothing else.

import { problem } from "../../errors.ts"
import { languageCode, languages } from "../../languages.ts"
import type { Tokenizer } from "../tokenizer.ts"
import type { SpeechTokens } from "./rules.ts"

/** What the model's generation_config.json says, as far as it does. */
export interface SpeechAdvice {
  /** Which says it. */
  file: string
  suppressed: readonly number[]
  suppressedFirst: readonly number[]
  mostInitial: number | undefined
  /** Undefined: its tokens say. */
  isMultilingual: boolean | undefined
}

const TIMES = 1501

export interface Tokens extends SpeechTokens {
  start: number
  previous: number | undefined
  nobody: number | undefined
  transcribe: number | undefined
  translate: number | undefined
  /** By their codes; none: it knows English alone. */
  languages: ReadonlyMap<string, number>
}

export function knownLanguage(asked: string, { languages: known }: Tokens): string | undefined {
  const code = languageCode(asked)
  if (known.has(code) || (known.size === 0 && code === "en"))
    return known.size === 0 ? undefined : code
  const all = known.size === 0 ? "en" : [...known.keys()].join(", ")
  const words = `language must be one that this model knows: ${all}.`
  throw problem("invalid_value", { problem: words }, "language")
}

/** Times are the last of the model's rows. @throws `model_broken` */
export function tokensOf(
  {
    tokenizer,
    advice,
    vocabulary,
  }: { tokenizer: Tokenizer; advice: SpeechAdvice; vocabulary: number },
  file: string,
): Tokens {
  const control = (name: string) => tokenizer.control(`<|${name}|>`)
  const needed = (name: string) => {
    const token = control(name)
    if (token !== undefined) return token
    const words = `it has no token <|${name}|>, which a Whisper is asked with`
    throw problem("model_broken", { file, problem: words })
  }
  const spoken = [...languages.keys()].flatMap((code) => {
    const token = control(code)
    return token === undefined ? [] : [[code, token] as const]
  })
  const [transcribe, translate] = [control("transcribe"), control("translate")]
  const noTimes = needed("notimestamps")
  const firstTime = noTimes + 1
  if (firstTime + TIMES > vocabulary)
    throw problem("model_broken", {
      file,
      problem: `behind <|notimestamps|>, number ${noTimes}, there is no room for ${TIMES} times among ${vocabulary} tokens`,
    })
  const end = needed("endoftext")
  requireLeft(advice, { end, firstTime })
  const isMultilingual = advice.isMultilingual ?? spoken.length > 1
  return {
    ...advice,
    vocabulary: firstTime + TIMES,
    start: needed("startoftranscript"),
    end,
    noTimes,
    firstTime,
    previous: control("startofprev"),
    nobody: control("nospeech") ?? control("nocaptions"),
    transcribe,
    translate: isMultilingual ? translate : undefined,
    languages: new Map(isMultilingual ? spoken : []),
  }
}

/** Something may come first, with times and without them, and what comes may end. @throws `model_broken` */
function requireLeft(
  { suppressed, suppressedFirst, mostInitial = TIMES - 1, file }: SpeechAdvice,
  { end, firstTime }: { end: number; firstTime: number },
): void {
  const broken = (words: string) => problem("model_broken", { file, problem: words })
  if (suppressed.includes(end))
    throw broken(`suppress_tokens holds ${end}, <|endoftext|>, with which every text ends`)
  const out = new Set([...suppressed, ...suppressedFirst])
  const isLeft = (from: number, to: number) => {
    for (let token = from; token < to; token++) if (!out.has(token)) return true
    return false
  }
  const lastInitial = firstTime + Math.min(mostInitial, TIMES - 1)
  if (!isLeft(0, firstTime) || !isLeft(firstTime, lastInitial + 1))
    throw broken("suppress_tokens and begin_suppress_tokens leave no token that may come first")
}
