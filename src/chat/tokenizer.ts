// Text to tokens. Encoding is the Rust `tokenizers` package, off the event loop. It is opened without the added tokens of
// its tokenizer.json, so that no text can become a control token however it is spelled; the control tokens are found here,
// in those characters only that a template wrote itself.

import { Tokenizer as Encoder } from "tokenizers"
import { problem } from "../errors.ts"
import type { Text } from "./jinja/text.ts"
import { type AddedToken, readVocabulary, type Vocabulary } from "./vocabulary.ts"

export interface Tokenizer extends Vocabulary {
  /** Control tokens where the template (source 0) spells them, plain tokens everywhere else. */
  encode(text: Text): Promise<Int32Array>
  /** What stands before a text that is no chat: a begin token, mostly. */
  readonly prefix: readonly number[]
  /** The added token that is spelled so. */
  control(content: string): number | undefined
}

/**
 * Opens the text of a tokenizer.json. `limit` is the number of rows of the model's embedding.
 * Throws `model_broken`, naming `file`, when it is not one that can be read exactly.
 */
export async function openTokenizer(json: string, file: string, limit: number): Promise<Tokenizer> {
  const parsed = parse(json, file)
  const vocabulary = readVocabulary(parsed, file, limit)
  // Runs of blanks among the added tokens (phi-2 has them) are text like any other.
  const controls = vocabulary.added.filter(({ content }) => content.trim() !== "")
  const ids = new Map(controls.map(({ content, id }) => [content, id]))
  const plain = {
    ...parsed,
    added_tokens: (parsed.added_tokens ?? []).filter(({ content }) => !ids.has(content)),
    model: withoutControls(parsed.model, ids),
  }
  const encoder = openEncoder(plain, file)
  const later = needsPrefixOnce(plain) ? openEncoder(withoutPrefix(plain), file) : encoder
  const find = controlFinder(controls)
  return {
    ...vocabulary,
    prefix: (await encoder.encode("", null, { addSpecialTokens: true })).getIds(),
    control: (content) => ids.get(content),
    encode: async (text) => {
      const { segments, between } = split(text, find)
      const tokens = [
        ...(await encodeAll(encoder, segments.slice(0, 1))),
        ...(await encodeAll(later, segments.slice(1))),
      ]
      return joined(tokens, between)
    },
  }
}

interface TokenizerFile {
  model: EncoderModel
  added_tokens?: { content: string }[]
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

function parse(json: string, file: string): TokenizerFile {
  try {
    return JSON.parse(json) as TokenizerFile
  } catch (error) {
    throw problem("model_broken", { file, problem: `it is not JSON: ${(error as Error).message}` })
  }
}

function openEncoder(json: TokenizerFile, file: string): Encoder {
  try {
    const encoder = Encoder.fromString(JSON.stringify(json))
    encoder.disableTruncation()
    encoder.disablePadding()
    return encoder
  } catch (error) {
    throw problem("model_broken", { file, problem: (error as Error).message })
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
  const parts = new Set<string>()
  const kept = merges.filter((merge) => {
    const pair = typeof merge === "string" ? merge.split(" ") : merge
    if (controls.has(pair.join(""))) return false
    for (const part of pair) if (controls.has(part)) parts.add(part)
    return true
  })
  const found = Array.from(controls).filter(
    ([content]) =>
      Object.hasOwn(vocab, content) && content !== model.unk_token && !parts.has(content),
  )
  if (found.length === 0) return { ...model, merges: kept }
  const words = { ...vocab }
  for (const [content, id] of found) {
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

// Encoding runs elsewhere, but its result is brought over here, token by token: so much text at a time takes 2 to 3 ms.
const CHARACTERS_AT_ONCE = 32 * 1024

async function encodeAll(encoder: Encoder, segments: readonly string[]): Promise<number[][]> {
  const tokens: number[][] = []
  for (let from = 0, to = 0; from < segments.length; from = to) {
    for (let size = 0; to < segments.length && (to === from || size < CHARACTERS_AT_ONCE); to++) {
      size += segments[to]!.length
    }
    const some = segments.slice(from, to)
    const encodings = some.some(Boolean)
      ? await encoder.encodeBatch(some, { addSpecialTokens: false })
      : undefined
    some.forEach((segment, index) => {
      tokens.push(encodings && segment !== "" ? encodings[index]!.getIds() : [])
    })
  }
  return tokens
}

/** The tokens of all segments with the control tokens that stand between them. */
function joined(segments: readonly number[][], between: readonly number[]): Int32Array {
  const total = segments.reduce((sum, { length }) => sum + length, between.length)
  const ids = new Int32Array(total)
  let at = 0
  segments.forEach((tokens, index) => {
    if (index > 0) ids[at++] = between[index - 1]!
    ids.set(tokens, at)
    at += tokens.length
  })
  return ids
}

interface Found {
  from: number
  to: number
  id: number
}

type Finder = (value: string, from: number, to: number) => Generator<Found>

/** Finds control tokens within [from, to): leftmost first, of those that begin together the longest. */
function controlFinder(controls: readonly AddedToken[]): Finder {
  const byContent = new Map(controls.map((token) => [token.content, token]))
  const longestFirst = [...byContent.keys()].sort((a, b) => b.length - a.length)
  if (longestFirst.length === 0) return function* () {}
  const pattern = longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"))
  const expression = new RegExp(pattern.join("|"), "g")
  return function* (value, from, to) {
    for (const match of value.slice(from, to).matchAll(expression)) {
      const token = byContent.get(match[0])!
      const start = from + match.index
      const end = start + match[0].length
      if (token.singleWord && (isWord(value[start - 1]) || isWord(value[end]))) continue
      yield {
        from: token.lstrip ? value.slice(0, start).trimEnd().length : start,
        to: token.rstrip ? value.length - value.slice(end).trimStart().length : end,
        id: token.id,
      }
    }
  }
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_]/u.test(character)
}

/** A text cut at its control tokens: `between[i]` stands after `segments[i]`. */
function split(text: Text, find: Finder): { segments: string[]; between: number[] } {
  const segments: string[] = []
  const between: number[] = []
  let at = 0
  for (const run of text.runs()) {
    if (run.source !== 0) continue
    for (const found of find(text.value, run.from, run.to)) {
      segments.push(text.value.slice(at, Math.max(at, found.from)))
      between.push(found.id)
      at = found.to
    }
  }
  segments.push(text.value.slice(at))
  return { segments, between }
}
