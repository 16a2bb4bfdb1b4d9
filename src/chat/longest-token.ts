// How much text one token can stand for, so that a text that cannot fit is refused before it is encoded. It is known where
// nothing of a text is lost on its way: what drops, strips or merges characters that it does not know leaves it open.

import { byteLevelCharacter } from "../byte-alphabet.ts"
import type { EncoderModel, Lists } from "./tokenizer-text.ts"
import type { Vocabulary } from "./vocabulary.ts"

/** What of a tokenizer.json says it. */
interface Described {
  model: EncoderModel
  normalizer?: unknown
  pre_tokenizer?: unknown
}

/** Bytes of UTF-8; undefined where the file leaves it open. */
export function longestToken(file: Described, lists: Lists, { bytes, size, added }: Vocabulary) {
  const shrinking = shrinkingOf(file.normalizer)
  const isKept =
    shrinking !== undefined &&
    keeps(file.pre_tokenizer) &&
    knowsAllBytes(file, lists) &&
    !added.some(({ lstrip, rstrip }) => lstrip || rstrip)
  if (!isKept) return undefined
  let longest = 1
  const { offsets } = bytes
  for (let id = 0; id < size; id++) longest = Math.max(longest, offsets[id + 1]! - offsets[id]!)
  return longest * shrinking
}

interface Part {
  type?: unknown
  [name: string]: unknown
}

/** How many times shorter it can make a text. */
function shrinkingOf(normalizer: unknown): number | undefined {
  if ((normalizer ?? null) === null) return 1
  const { type, normalizers, pattern, content } = normalizer as Part
  switch (type) {
    case "Sequence":
      if (!Array.isArray(normalizers)) return undefined
      return normalizers.reduce((product: number | undefined, each) => {
        const shrinking = shrinkingOf(each)
        return product && shrinking && product * shrinking
      }, 1)
    case "NFC":
      return 3 // a syllable of Hangul for its three letters, say
    case "Prepend":
      return 1
    case "Replace":
      return (pattern as { String?: unknown })?.String === " " && content === "▁" ? 1 : undefined
    default:
      return undefined
  }
}

/** Whether what it cuts a text into is the whole text. */
function keeps(preTokenizer: unknown): boolean {
  if ((preTokenizer ?? null) === null) return true
  const { type, pretokenizers, behavior } = preTokenizer as Part
  if (type === "Sequence") return Array.isArray(pretokenizers) && pretokenizers.every(keeps)
  if (type === "Split" || type === "Punctuation") return behavior !== "Removed"
  return type === "ByteLevel" || type === "Metaspace" || type === "Digits"
}

// A model without unknown characters: each byte is a token, in GPT-2's alphabet or by its number.
function knowsAllBytes({ model, pre_tokenizer }: Described, { words }: Lists): boolean {
  const { vocab, type, continuing_subword_prefix: prefix, end_of_word_suffix: suffix } = model
  if ((type !== "BPE" && type !== "Unigram") || prefix || suffix) return false
  const isByteLevel = JSON.stringify(pre_tokenizer ?? null).includes('"type":"ByteLevel"')
  if (!isByteLevel && model.byte_fallback !== true) return false
  const nameOf = isByteLevel ? byteLevelCharacter : byteName
  const bytes = new Set(Array.from({ length: 256 }, (_, byte) => nameOf(byte)))
  if (words) return words.find(bytes).size === bytes.size
  const pieces = new Set(Array.isArray(vocab) ? vocab.map(([piece]) => piece) : [])
  return [...bytes].every((byte) => pieces.has(byte))
}

function byteName(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`
}
