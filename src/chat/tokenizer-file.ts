// What a tokenizer.json says, read once: its tokens, and the files that the encoder is opened with. Those are without the
// control tokens, wherever the encoder would find them in plain text (see encoding.ts), and without those that the model has
// no row for.

import { randomUUID } from "node:crypto"
import type { EncoderFiles } from "./encoding.ts"
import { longestToken } from "./longest-token.ts"
import {
  type EncoderModel,
  type Lists,
  type PrintedLists,
  parseTokenizer,
  printTokenizer,
  type TokenizerFile,
} from "./tokenizer-text.ts"
import { isComplete, type TokensBeside, withTokensBeside } from "./tokens-beside.ts"
import { type AddedToken, readVocabulary, type Vocabulary } from "./vocabulary.ts"

export interface TokenizerSource {
  /** The text of a tokenizer.json. */
  json: string
  /** How many rows the model's embedding has. */
  limit: number
  /** What other files say of its added tokens. */
  beside?: TokensBeside | undefined
}

/** Throws what is wrong with the file, in words. */
export function readTokenizer({ json, limit, beside }: TokenizerSource): {
  vocabulary: Vocabulary
  files: EncoderFiles
  /** Bytes of text that a token stands for at most; undefined where the file leaves it open. */
  longest: number | undefined
  /** Whether other files add nothing to it. */
  isAlone: boolean
} {
  const { file: alone, lists } = parse(json)
  const its = readVocabulary(alone, lists.words, limit)
  const isAlone = isComplete(its, beside)
  const file = isAlone ? alone : withTokensBeside(alone, lists, beside!)
  const vocabulary = isAlone ? its : readVocabulary(file, lists.words, limit)
  checkUnknown(file.model, lists)
  const controls = controlsOf(vocabulary)
  const ids = new Map(controls.map(({ content, id }) => [content, id]))
  const own = ownNames(file.model, lists, new Set(ids.keys()))
  const added_tokens = (file.added_tokens ?? []).flatMap((token) => {
    if (token.id < limit && !ids.has(token.content)) return [token]
    return own.has(token.content) ? [] : [placeOf(token)]
  })
  const { model, printed } = withoutControls(file.model, lists, ids, own)
  const plain = { ...file, added_tokens, model }
  const files = {
    first: printTokenizer(plain, printed),
    later: needsPrefixOnce(plain) ? printTokenizer(withoutPrefix(plain), printed) : undefined,
    controls,
  }
  return { vocabulary, files, longest: longestToken(file, lists, vocabulary), isAlone }
}

function parse(json: string): ReturnType<typeof parseTokenizer> {
  try {
    return parseTokenizer(json)
  } catch (error) {
    throw new Error(`it is not JSON: ${(error as Error).message}`)
  }
}

/** Whoever cuts texts into words has a token for those that it cannot write. The library asks for it when it meets one. */
function checkUnknown({ type, unk_token: unknown }: EncoderModel, { words }: Lists): void {
  if (type !== "WordPiece" && type !== "WordLevel") return
  if (typeof unknown !== "string" || words?.find(new Set([unknown])).size === 1) return
  throw new Error(`its unknown token ${JSON.stringify(unknown)} is not in its vocabulary`)
}

const BLANKS = /^[\s▁]*$/
const CHARACTER = /^.$/su

/** Runs of blanks among the added tokens (phi-2 has them, Gemma as ▁▁) and single letters (DeepSeek has ö) are text like any other. */
export function controlsOf({ added }: Vocabulary): AddedToken[] {
  return added.filter(
    ({ content, special }) => !BLANKS.test(content) && (special || !CHARACTER.test(content)),
  )
}

/** Those of these names that are words of the model. */
function ownNames(
  { vocab }: EncoderModel,
  { words }: Lists,
  names: ReadonlySet<string>,
): ReadonlySet<string> {
  if (words) return words.find(names)
  const pieces = Array.isArray(vocab) ? vocab.map(([piece]) => piece) : []
  return new Set(pieces.filter((piece) => names.has(piece)))
}

// The library counts added tokens that are no words of the model, whatever their numbers say: one that is left out would
// move those behind it.
function placeOf({ id }: { id: number }) {
  const content = unwritable(id)
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false }
  return { id, content, special: false, ...flags }
}

// Control tokens often stand in the model's own vocabulary, too, and some models would find them there in plain text:
// Unigram as the likeliest piece, BPE by a merge, or as a whole word with `ignore_merges`. Their spellings are taken away.
function withoutControls(
  model: EncoderModel,
  { words, merges }: Lists,
  controls: ReadonlyMap<string, number>,
  own: ReadonlySet<string>,
): { model: EncoderModel; printed: PrintedLists } {
  const { vocab } = model
  if (Array.isArray(vocab)) {
    const pieces = vocab.map(([piece, score], id): [string, number] => [
      controls.has(piece) && id !== model.unk_id ? unwritable(id) : piece,
      score,
    ])
    return { model: { ...model, vocab: pieces }, printed: { merges: merges?.print() } }
  }
  if (!words || !merges)
    return { model, printed: { words: words?.print(), merges: merges?.print() } }
  const names = new Set(controls.keys())
  const making = merges.making(names)
  const parts = new Set(making.flat())
  const hidden = Array.from(own).filter(
    (content) => content !== model.unk_token && !parts.has(content),
  )
  const spellings = new Map(hidden.map((content) => [content, unwritable(controls.get(content)!)]))
  const printed = {
    words: words.print(spellings),
    merges: making.length > 0 ? merges.printWithout(names) : merges.print(),
  }
  return { model, printed }
}

const SECRET = randomUUID()

/** A spelling for a token that no text has, since nobody can know it. */
function unwritable(id: number): string {
  return `\u{10ffff}${SECRET}${id}`
}

// With prepend_scheme "first" only what begins the whole text gets a blank before it. The encoder is given one segment at a
// time and would take each for the first, so the later ones go to an encoder that never prepends.
function needsPrefixOnce(json: TokenizerFile): boolean {
  return JSON.stringify(json.pre_tokenizer ?? null).includes('"prepend_scheme":"first"')
}

function withoutPrefix({ pre_tokenizer, ...json }: TokenizerFile): TokenizerFile {
  const never = (name: string, value: unknown) =>
    name === "prepend_scheme" && value === "first" ? "never" : value
  return { ...json, pre_tokenizer: JSON.parse(JSON.stringify(pre_tokenizer), never) }
}
