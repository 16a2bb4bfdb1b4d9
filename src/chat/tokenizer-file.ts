// What a tokenizer.json says, read once: its tokens, and the files that the encoder is opened with. Those are without the
// control tokens, wherever the encoder would find them in plain text: see encoding.ts.

import type { EncoderFiles } from "./encoding.ts"
import { longestToken } from "./longest-token.ts"
import { type AddedToken, readVocabulary, type Vocabulary } from "./vocabulary.ts"

export interface TokenizerSource {
  /** The text of a tokenizer.json. */
  json: string
  /** No token's id may reach it. */
  limit: number
}

/** Throws what is wrong with the file, in words. */
export function readTokenizer({ json, limit }: TokenizerSource): {
  vocabulary: Vocabulary
  files: EncoderFiles
  /** Bytes of text that a token stands for at most; undefined where the file leaves it open. */
  longest: number | undefined
} {
  const parsed = parse(json)
  const vocabulary = readVocabulary(parsed, limit)
  checkUnknown(parsed.model)
  const controls = controlsOf(vocabulary)
  const ids = new Map(controls.map(({ content, id }) => [content, id]))
  const plain = {
    ...parsed,
    added_tokens: (parsed.added_tokens ?? []).filter(({ content }) => !ids.has(content)),
    model: withoutControls(parsed.model, ids),
  }
  const files = {
    first: JSON.stringify(plain),
    later: needsPrefixOnce(plain) ? JSON.stringify(withoutPrefix(plain)) : undefined,
    controls,
  }
  return { vocabulary, files, longest: longestToken(parsed, vocabulary) }
}

/** Whoever cuts texts into words has a token for those that it cannot write. The library asks for it when it meets one. */
function checkUnknown({ type, vocab, unk_token: unknown }: EncoderModel): void {
  if (type !== "WordPiece" && type !== "WordLevel") return
  if (typeof unknown !== "string" || Object.hasOwn(vocab, unknown)) return
  throw new Error(`its unknown token ${JSON.stringify(unknown)} is not in its vocabulary`)
}

/** Runs of blanks among the added tokens (phi-2 has them) are text like any other. */
export function controlsOf({ added }: Vocabulary): AddedToken[] {
  return added.filter(({ content }) => content.trim() !== "")
}

interface TokenizerFile {
  model: EncoderModel
  added_tokens?: { content: string }[]
  normalizer?: unknown
  pre_tokenizer?: PreTokenizer | null
  [name: string]: unknown
}

interface EncoderModel {
  type?: string
  vocab: Record<string, number> | [piece: string, score: number][]
  merges?: (string | [string, string])[]
  unk_id?: number | null
  [name: string]: unknown
}

interface PreTokenizer {
  type: string
  prepend_scheme?: string
  pretokenizers?: PreTokenizer[]
}

function parse(json: string): TokenizerFile {
  try {
    return JSON.parse(json) as TokenizerFile
  } catch (error) {
    throw new Error(`it is not JSON: ${(error as Error).message}`)
  }
}

// Control tokens often stand in the model's own vocabulary, too, and some models would find them there in plain text:
// Unigram as the likeliest piece, BPE by a merge, or as a whole word with `ignore_merges`. Their spellings are taken away.
function withoutControls(model: EncoderModel, controls: ReadonlyMap<string, number>): EncoderModel {
  const { vocab, merges } = model
  if (Array.isArray(vocab)) {
    const pieces = vocab.map(([piece, score], id): [string, number] => [
      controls.has(piece) && id !== model.unk_id ? unwritable(id) : piece,
      score,
    ])
    return { ...model, vocab: pieces }
  }
  if (!Array.isArray(merges)) return model
  const shortest = Math.min(...Array.from(controls.keys(), ({ length }) => length))
  const parts = new Set<string>()
  const kept = merges.filter((merge) => {
    const written = typeof merge === "string" ? merge : merge.join(" ")
    if (written.length <= shortest) return true // with its blank: nearly all are too short to hold one
    const pair = typeof merge === "string" ? merge.split(" ") : merge
    if (controls.has(pair.join(""))) return false
    for (const part of pair) if (controls.has(part)) parts.add(part)
    return true
  })
  const hidden = Array.from(controls).filter(
    ([content]) =>
      Object.hasOwn(vocab, content) && content !== model.unk_token && !parts.has(content),
  )
  if (hidden.length === 0) return { ...model, merges: kept }
  const words = { ...vocab }
  for (const [content, id] of hidden) {
    delete words[content]
    words[unwritable(id)] = id
  }
  return { ...model, vocab: words, merges: kept }
}

/** A spelling for a token that no text has: it begins with a character that stands for none. */
function unwritable(id: number): string {
  return `\u{10ffff}${id}`
}

// With prepend_scheme "first" only what begins the whole text gets a blank before it. The encoder is given one segment at a
// time and would take each for the first, so the later ones go to an encoder that never prepends.
function needsPrefixOnce(json: TokenizerFile): boolean {
  return JSON.stringify(json.pre_tokenizer ?? null).includes('"prepend_scheme":"first"')
}

function withoutPrefix(json: TokenizerFile): TokenizerFile {
  const never = (part: PreTokenizer): PreTokenizer => ({
    ...part,
    ...(part.prepend_scheme === "first" && { prepend_scheme: "never" }),
    ...(part.pretokenizers && { pretokenizers: part.pretokenizers.map(never) }),
  })
  return { ...json, pre_tokenizer: json.pre_tokenizer ? never(json.pre_tokenizer) : null }
}
