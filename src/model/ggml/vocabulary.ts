// The tokens of a whisper.cpp file. It has the words alone, in the order of their ranks, by which they are merged as GPT-2's are; control
// tokens stand behind them and are not written: how many there are is counted from the rows of the embedding. What OpenAI's program keeps
// a Whisper from writing is no more in the file, and is found among the words as that program does it.
//
// Sources: whisper_model_load in src/whisper.cpp of whisper.cpp; tokenizer.py (`non_speech_tokens`) and decoding.py of OpenAI's whisper.

import { byteLevelCharacter } from "../../byte-alphabet.ts"
import type { Problem } from "../../errors.ts"
import { languages } from "../../languages.ts"
import { mergesOf, partsOf, ranksOf } from "../byte-ranks.ts"
import { bytePairs } from "../gguf/cuts.ts"
import type { SpeechAdvice } from "../hearing/speech.ts"
import { addedTokens, KINDS } from "../sentence-pieces.ts"
import { printTokenizer, Words } from "../tokenizer-json.ts"

const END = "<|endoftext|>"
const START = "<|startoftranscript|>"

/** Behind the languages. */
const BEHIND = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]

const TIMES = 1501

/** Of the models that know English alone: they have the other languages' tokens all the same. */
const ENGLISH = 51864

export interface Vocabulary {
  /** A tokenizer.json. */
  json: Buffer
  end: number
  start: number
  advice: Omit<SpeechAdvice, "alignment" | "file">
}

/** @param rows of the embedding */
export function readVocabulary(
  listed: readonly string[],
  rows: number,
  broken: (what: string) => Problem,
): Vocabulary {
  const words = wordsOf(listed, rows, broken)
  const end = words.length
  const spoken = rows - end - 2 - BEHIND.length - TIMES
  if (spoken < 0 || spoken > languages.size)
    throw broken(
      `n_vocab is ${rows}, which leaves room for ${spoken} languages behind ${end} words; 0 to ${languages.size} are known`,
    )
  const codes = [...languages.keys()].slice(0, spoken)
  const behind = [...codes, ...BEHIND].map((name) => `<|${name}|>`)
  const tokens = [...words, END, START, ...behind]
  const kinds = tokens.map((token, id) =>
    id >= end ? KINDS.CONTROL : token === "" ? KINDS.UNUSED : KINDS.NORMAL,
  )
  const ids = ranksOf(words)
  const control = (name: string) => tokens.indexOf(`<|${name}|>`)
  return {
    json: printTokenizer({
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens({ tokens, kinds }, { unknown: false }),
      ...bytePairs("gpt-2", new Words(words, (id) => words[id] !== ""), mergesOf(words, broken)),
      post_processor: null,
    }),
    end,
    start: end + 1,
    advice: {
      suppressed: [...silent(ids), end + 1, ...BEHIND.slice(0, -1).map(control)],
      suppressedFirst: [...encoded(" ", ids).slice(0, 1), end],
      mostInitial: 50, // a second
      isMultilingual: spoken > 1 && rows !== ENGLISH,
    },
  }
}

/** Older files of models that know English alone list their end among the words. */
function wordsOf(
  listed: readonly string[],
  rows: number,
  broken: (what: string) => Problem,
): readonly string[] {
  const words = listed.at(-1) === END ? listed.slice(0, -1) : listed
  const usual = rows > ENGLISH ? 50257 : rows === ENGLISH ? 50256 : words.length
  if (words.length < usual)
    throw broken(`it lists ${words.length} words; a Whisper of ${rows} tokens has ${usual}`)
  const own = words.slice(0, usual)
  const seen = new Map<string, number>()
  for (const [id, word] of own.entries()) {
    const before = seen.get(word)
    if (before !== undefined) throw broken(`its words ${before} and ${id} are the same`)
    seen.set(word, id)
  }
  return own
}

const SYMBOLS = [
  ...Array.from('"#()*+/:;<=>@[\\]^_`{|}~「」『』'),
  ...`<< >> <<< >>> -- --- -( -[ (' (" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪`.split(" "),
]
/** Several tokens each, all beginning with one that no text needs. */
const NOTES = Array.from("♩♪♫♬♭♮♯")

/** What is written and not said. Hyphens and quotes stand in words, and so are kept from their beginnings alone. */
function silent(ids: ReadonlyMap<string, number>): number[] {
  const found = new Set([" -", " '"].flatMap((text) => encoded(text, ids).slice(0, 1)))
  for (const symbol of [...SYMBOLS, ...NOTES])
    for (const text of [symbol, ` ${symbol}`]) {
      const tokens = encoded(text, ids)
      if (tokens.length === 1 || NOTES.includes(symbol)) found.add(tokens[0]!)
    }
  return [...found].sort((a, b) => a - b)
}

/** Without cuts, which none of these texts has inside. */
function encoded(text: string, ids: ReadonlyMap<string, number>): number[] {
  const bytes = Array.from(Buffer.from(text), byteLevelCharacter).join("")
  return partsOf(bytes, ids).flatMap((part) => ids.get(part) ?? [])
}
