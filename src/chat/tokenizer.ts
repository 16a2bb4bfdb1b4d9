// Opens a model's tokenizer.json: what its tokens are, and the thread that turns texts into them. The encoder there gets the
// file without its control tokens, wherever it would find them in plain text: see encoding.ts.

import { problem } from "../errors.ts"
import { EncodeThread } from "./encode-thread.ts"
import type { EncoderFiles } from "./encoding.ts"
import type { Text } from "./jinja/text.ts"
import { readVocabulary, type Vocabulary } from "./vocabulary.ts"

export interface Tokenizer extends Vocabulary {
  /**
   * Control tokens where the template (source 0) spells them, plain tokens everywhere else. Rejects with the signal's
   * reason as soon as its client leaves.
   */
  encode(text: Text, signal?: AbortSignal): Promise<Int32Array>
  /** What stands before a text that is no chat: a begin token, mostly. */
  readonly prefix: readonly number[]
  /** The added token that is spelled so. */
  control(content: string): number | undefined
  /** Ends its thread. */
  close(): Promise<void>
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
  const thread = await openThread(file, {
    first: JSON.stringify(plain),
    later: needsPrefixOnce(plain) ? JSON.stringify(withoutPrefix(plain)) : undefined,
    controls,
  })
  return {
    ...vocabulary,
    prefix: thread.prefix,
    control: (content) => ids.get(content),
    encode: (text, signal) => thread.encode({ value: text.value, own: ownRuns(text) }, signal),
    close: () => thread.close(),
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

async function openThread(file: string, files: EncoderFiles): Promise<EncodeThread> {
  try {
    return await EncodeThread.open(files)
  } catch (error) {
    throw problem("model_broken", { file, problem: (error as Error).message })
  }
}

/** Where the template's own characters are: from, to, from, to, … */
function ownRuns(text: Text): Int32Array {
  const ends: number[] = []
  for (const { from, to, source } of text.runs()) if (source === 0) ends.push(from, to)
  return Int32Array.from(ends)
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
