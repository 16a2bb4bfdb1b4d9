// A tokenizer of SentencePiece as the text of a tokenizer.json, whoever tells its pieces: a GGUF file or a tokenizer.model. BPE
// merges what has the highest score; those merges are listed here: every cut of a piece into two, by the score of the whole,
// then by the ids of the parts. Unigram takes its scores as they are.

import type { Json } from "./folder.ts"
import type { TextList, Texts } from "./text-list.ts"
import { Words } from "./tokenizer-json.ts"

/** Kinds of tokens, in SentencePiece's own numbers. */
export const KINDS = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER: 4, UNUSED: 5, BYTE: 6 } as const

const { NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE } = KINDS

/** By id. */
export interface Lists<Tokens = readonly string[]> {
  tokens: Tokens
  kinds: readonly number[]
}

export interface SpecialIds {
  bos: number | undefined
  eos: number | undefined
  unknown: number | undefined
  padding: number | undefined
}

const BLANK = "▁"
const RUN = new RegExp(`^${BLANK}+$`)

/** What is not text: tokens that are written as they stand, but for runs of blanks, and those that nobody can write. */
export function addedTokens(
  { tokens, kinds }: Lists<Texts>,
  { unknown }: { unknown: boolean },
): object[] {
  const isAdded = (kind: number) =>
    kind === CONTROL || kind === USER || (kind === UNKNOWN && unknown)
  return kinds.flatMap((kind, id) => {
    if (!isAdded(kind)) return []
    const content = tokens.at(id)!
    if (RUN.test(content)) return []
    const special = kind !== USER
    return [
      { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special },
    ]
  })
}

const replace = (pattern: { String: string } | { Regex: string }, content: string) => ({
  type: "Replace",
  pattern,
  content,
})

/** Pairs of words that make another, the first before the others: all as "left right", or all as two texts. */
export type Merges = readonly string[] | readonly [string, string][] | TextList

export interface Pieces extends Lists<Texts> {
  /** How pieces are chosen: by these merges, or by the scores of all. */
  by: { merges: Merges } | { scores: readonly number[] }
  /** Where a blank is put before the text: each stretch between control tokens, the first alone, or none. */
  prefixed: "each" | "first" | "none"
  /** What happens to a text before its blanks are written as ▁. */
  normalizers: readonly Json[]
}

/** Normalizer, cuts, decoder and model. */
export function sentencePieces({ tokens, kinds, by, prefixed, normalizers }: Pieces): Json {
  const unknown = kinds.indexOf(UNKNOWN)
  const rest = { byte_fallback: kinds.includes(BYTE) }
  const prepend = { type: "Prepend", prepend: BLANK }
  const first = {
    type: "Metaspace",
    replacement: BLANK,
    prepend_scheme: "first",
    split: false,
  }
  const blanks =
    prefixed === "first"
      ? []
      : [...(prefixed === "each" ? [prepend] : []), replace({ String: " " }, BLANK)]
  const all = [...normalizers, ...blanks]
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 }
  return {
    normalizer: all.length > 0 ? { type: "Sequence", normalizers: all } : null,
    pre_tokenizer: prefixed === "first" ? first : null,
    decoder: {
      type: "Sequence",
      decoders: [
        replace({ String: BLANK }, " "),
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefixed === "none" ? [] : [strip]),
      ],
    },
    model:
      "scores" in by
        ? {
            type: "Unigram",
            unk_id: unknown < 0 ? null : unknown,
            vocab: scored({ tokens, kinds }, by),
            ...rest,
          }
        : {
            ...bpe(new Words(tokens, (id) => kinds[id] !== UNUSED), by.merges),
            unk_token: unknown < 0 ? null : tokens.at(unknown),
            fuse_unk: true,
            ignore_merges: false,
            ...rest,
          },
  }
}

/** The unknown piece by a spelling that no text has: the library would find its own in one. */
function scored({ tokens, kinds }: Lists<Texts>, { scores }: { scores: readonly number[] }) {
  return kinds.map((kind, id) => [kind === UNKNOWN ? "\u{10ffff}" : tokens.at(id)!, scores[id]!])
}

export const bpe = (vocab: Words, merges: Merges) => ({
  type: "BPE",
  dropout: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  vocab,
  merges,
})

const MAX_PIECE = 1024 // characters, of which every cut is looked at; SentencePiece's own limit is 16, unless told otherwise

/** How long the first piece is that is too long for its merges to be listed. */
export function longPiece({ tokens, kinds }: Lists): number | undefined {
  const lengths = tokens.map((token, id) => (kinds[id] === NORMAL ? Array.from(token).length : 0))
  return lengths.find((length) => length > MAX_PIECE)
}

/**
 * Every cut of a token into two, those of the highest score first; no score is above 0. Runs of blanks that users defined
 * (Gemma's) are taken before all else, as long as they can be: they grow from the left, the longest one first.
 */
export function scoredMerges(
  { tokens, kinds }: Lists,
  scores: readonly number[],
): [string, string][] {
  const ids = new Map<string, number>()
  for (const [id, token] of tokens.entries())
    if (kinds[id] === NORMAL || kinds[id] === USER || kinds[id] === UNUSED) ids.set(token, id)
  const merges: { score: number; left: number; right: number }[] = []
  for (const [id, token] of tokens.entries()) {
    const isRun = kinds[id] === USER && RUN.test(token)
    if (kinds[id] !== NORMAL && !isRun) continue
    for (let at = 1; at < token.length; at++) {
      if (isWithinCharacter(token, at)) continue
      const left = ids.get(token.slice(0, at))
      const right = left === undefined ? undefined : ids.get(token.slice(at))
      if (left !== undefined && right !== undefined)
        merges.push({ score: isRun ? at : scores[id]!, left, right })
    }
  }
  merges.sort((a, b) => b.score - a.score || a.left - b.left || a.right - b.right)
  return merges.map(({ left, right }) => [tokens[left]!, tokens[right]!])
}

/** Of the two units of UTF-16 that write one character, the second is such. */
const isWithinCharacter = (text: string, at: number) => (text.charCodeAt(at) & 0xfc00) === 0xdc00

/** The tokens for beginning and end around a text, where the file wants them. */
export function postProcessor(
  { tokens }: Pick<Lists<Texts>, "tokens">,
  { bos, eos }: SpecialIds,
  adds: { begin: boolean; end: boolean },
): Json | null {
  const begin = adds.begin && bos !== undefined ? [bos] : []
  const end = adds.end && eos !== undefined ? [eos] : []
  if (begin.length + end.length === 0) return null
  const special = (id: number, type: number) => ({
    SpecialToken: { id: tokens.at(id)!, type_id: type },
  })
  const text = (id: "A" | "B", type: number) => ({ Sequence: { id, type_id: type } })
  const around = (id: "A" | "B", type: number) => [
    ...begin.map((token) => special(token, type)),
    text(id, type),
    ...end.map((token) => special(token, type)),
  ]
  return {
    type: "TemplateProcessing",
    single: around("A", 0),
    pair: [...around("A", 0), ...around("B", 1)],
    special_tokens: Object.fromEntries(
      [...begin, ...end].map((id) => {
        const token = tokens.at(id)!
        return [token, { id: token, ids: [id], tokens: [token] }]
      }),
    ),
  }
}
