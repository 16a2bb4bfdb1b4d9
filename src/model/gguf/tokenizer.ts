// A GGUF file's tokenizer as a tokenizer.json, which the chat room reads: byte-level BPE by merges, whose cuts the
// file only names (cuts.ts), SentencePiece's BPE, by merges or by scores, its Unigram, and WordPiece.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer

import type { Json } from "../folder.ts"
import {
  addedTokens,
  KINDS,
  type Lists,
  longPiece,
  type Merges,
  postProcessor,
  type SpecialIds,
  scoredMerges,
  sentencePieces,
} from "../sentence-pieces.ts"
import type { TextList } from "../text-list.ts"
import { printTokenizer, Words } from "../tokenizer-json.ts"
import { begun, bytePairs } from "./cuts.ts"
import { isByOllama, type Keys } from "./keys.ts"

const { NORMAL, UNKNOWN, CONTROL, USER, UNUSED } = KINDS

export interface TokenizerTexts {
  json: Buffer // a tokenizer.json
  /** By whose rule texts are cut, where the file does not say it. */
  guessedPre: string | undefined
  specialTokens: Record<string, string>
  endTokens: number[]
  beginToken: number | undefined
}

type FileLists = Lists<TextList>

interface Kind {
  partsOf: (keys: Keys, lists: FileLists, pre: string) => Json
  /** Ids where a file does not name them. */
  usual: Partial<SpecialIds>
  /** A text may spell the unknown token. */
  unknown: boolean
  /** Every text stands between two tokens, unless the file says otherwise. */
  around?: true
}

const pieces: Kind = { partsOf: piecesOf, usual: { bos: 1, eos: 2, unknown: 0 }, unknown: true }

const kinds: Readonly<Record<string, Kind>> = {
  gpt2: { partsOf: pairsOf, usual: {}, unknown: false },
  llama: pieces,
  gemma4: pieces, // by merges
  bert: {
    partsOf: wordPieces,
    usual: { bos: 101, eos: 102, unknown: 100, padding: 0 },
    unknown: true,
    around: true,
  },
  t5: { partsOf: unigram, usual: { unknown: 2 }, unknown: true, around: true },
}

/** @throws `model_broken` for a tokenizer that is not known, and for lists that do not fit */
export function readTokenizer(keys: Keys, vocabulary: number): TokenizerTexts {
  const lists = readLists(keys, vocabulary)
  const kind = keys.text("tokenizer.ggml.model")
  if (!Object.hasOwn(kinds, kind))
    throw keys.wrong(
      "tokenizer.ggml.model",
      `is "${kind}"; known: ${Object.keys(kinds).join(", ")}`,
    )
  const { partsOf, usual, unknown, around } = kinds[kind]!
  const told = kind === "gpt2" ? toldPre(keys) : ""
  const pre = told ?? guessedPre(keys, lists)
  const ids = specialIds(keys, usual, lists)
  const begins = around ?? (kind !== "gpt2" || begun.has(pre))
  const adds = {
    // Files of Gemma 4 may say false, and the model was taught with it; llama.cpp, too, adds it whatever they say.
    begin:
      keys.flag("tokenizer.ggml.add_bos_token", begins) ||
      (kind !== "gpt2" && isOf(keys, "gemma4")),
    end: keys.flag("tokenizer.ggml.add_eos_token", around ?? false),
  }
  const parts = partsOf(keys, lists, pre)
  const json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(lists, { unknown }),
    ...parts,
    post_processor: postProcessor(lists, ids, adds),
  }
  const spelled = (id: number | undefined) => (id === undefined ? undefined : lists.tokens.at(id))
  const named = {
    bos_token: ids.bos,
    eos_token: ids.eos,
    unk_token: ids.unknown,
    pad_token: ids.padding,
  }
  const specialTokens = Object.entries(named).flatMap(([name, id]) => {
    const text = spelled(id)
    return text === undefined ? [] : [[name, text]]
  })
  return {
    json: printTokenizer(json),
    guessedPre: told === undefined ? pre : undefined,
    specialTokens: Object.fromEntries(specialTokens),
    endTokens: endTokens(keys, lists, ids.eos),
    beginToken: ids.bos,
  }
}

/** The ids of tokens that are added to the words, by their texts. */
export function addedTokensIn(
  keys: Keys,
  vocabulary: number,
): (text: string) => number | undefined {
  const { tokens, kinds: kindsOf } = readLists(keys, vocabulary)
  const { unknown = false } = kinds[keys.text("tokenizer.ggml.model")] ?? {}
  return (text) => {
    const id = tokens.indexOf(text)
    const kind = kindsOf[id]
    return kind === CONTROL || kind === USER || (unknown && kind === UNKNOWN) ? id : undefined
  }
}

const TOKENS_OF_LLAMA_3 = 128_256

/** Those whose models were all taught with one rule. */
const pres: ReadonlyMap<string, string> = new Map([
  ["qwen2", "qwen2"],
  ["phi2", "gpt-2"],
  ["gpt2", "gpt-2"],
  ["falcon", "falcon"],
  ["starcoder2", "starcoder"],
])

/** Ollama's converter writes "default" of rules that it does not know, though a model's own code there has them. */
function toldPre(keys: Keys): string | undefined {
  const told = keys.textIfThere("tokenizer.ggml.pre")
  const isUnknown = told === "default" && isByOllama(keys)
  return (isUnknown && presByOllama.get(keys.textIfThere("general.architecture") ?? "")) || told
}

const presByOllama: ReadonlyMap<string, string> = new Map([
  ["llama4", "llama4"],
  ["mistral3", "tekken"],
])

/** Files have had the key since May 2024: https://github.com/ggml-org/llama.cpp/pull/6920 */
function guessedPre(keys: Keys, { tokens }: FileLists): string {
  if (tokens.length === TOKENS_OF_LLAMA_3) return "llama-bpe"
  return pres.get(keys.textIfThere("general.architecture") ?? "") ?? "default"
}

const isOf = (keys: Keys, ...architectures: string[]) =>
  architectures.includes(keys.textIfThere("general.architecture") ?? "")

/** Ollama's files of Gemma 3 list tokens of pictures, too, which have no rows, and none says that no text begins with a blank. */
const isGemmaByOllama = (keys: Keys) => isOf(keys, "gemma3", "gemma4") && isByOllama(keys)

function readLists(keys: Keys, vocabulary: number): FileLists {
  const listed = keys.texts("tokenizer.ggml.tokens")
  const tokens = isGemmaByOllama(keys) ? listed.first(vocabulary) : listed
  // Of the rows behind Llama 3.2 Vision's vocabulary the first alone has a name.
  const hasNameless = isOf(keys, "mllama") && tokens.length < vocabulary
  if (tokens.length !== vocabulary && !hasNameless)
    throw keys.wrong(
      "tokenizer.ggml.tokens",
      `has ${tokens.length} entries, and the embedding ${vocabulary} rows`,
    )
  const kinds =
    keys.numbersIfThere("tokenizer.ggml.token_type") ??
    Array.from({ length: tokens.length }, () => NORMAL)
  if (kinds.length < tokens.length)
    throw keys.wrong(
      "tokenizer.ggml.token_type",
      `has ${kinds.length} entries for ${tokens.length} tokens`,
    )
  return {
    tokens,
    kinds: kinds
      .slice(0, tokens.length)
      .map((kind, id) => (looksSpecial(tokens, id, kind) ? CONTROL : kind)),
  }
}

const [LESS, MORE] = [0x3c, 0x3e]

/** Kinds are not reliable: what is written between bars is no text. */
function looksSpecial(tokens: TextList, id: number, kind: number): boolean {
  if (kind === CONTROL || kind === UNUSED || !tokens.isBetween(id, LESS, MORE)) return false
  return /^<\|[^|<>\s]+\|>$/.test(tokens.at(id)!)
}

/** What is outside of the vocabulary is as good as not there. */
function specialIds(keys: Keys, usual: Partial<SpecialIds>, { tokens }: FileLists): SpecialIds {
  const read = (names: readonly string[], otherwise?: number) => {
    const named = names.map((name) => keys.countIfThere(`tokenizer.ggml.${name}_token_id`))
    const id = named.find((id) => id !== undefined) ?? otherwise
    return id !== undefined && id < tokens.length ? id : undefined
  }
  return {
    bos: read(["bos", "cls"], usual.bos),
    eos: read(["eos", "seperator"], usual.eos), // the key is spelled so
    unknown: read(["unknown"], usual.unknown),
    padding: read(["padding"], usual.padding),
  }
}

/** Pieces that begin a word are written with a blank before them, and the others without their ##. */
function wordPieces(keys: Keys, { tokens: listed, kinds }: FileLists): Json {
  const BLANK = "▁"
  const tokens = listed.all()
  const isWord = (id: number) => kinds[id] === NORMAL || kinds[id] === USER
  const spelled = tokens.map((token, id) => {
    if (!isWord(id)) return token
    return token.startsWith(BLANK) ? token.slice(BLANK.length) : `##${token}`
  })
  const unknown = keys.countIfThere("tokenizer.ggml.unknown_token_id") ?? kinds.indexOf(UNKNOWN)
  // No key says whether capitals count: a vocabulary that has any is of a model to which they do.
  const lowercase = !tokens.some((token, id) => isWord(id) && token !== token.toLowerCase())
  return {
    normalizer: {
      type: "BertNormalizer",
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null, // as lowercase
      lowercase,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: tokens[unknown] ?? "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: new Words(spelled, (id) => kinds[id] !== UNUSED),
    },
  }
}

/** As SentencePiece does it: its table of normal characters, single blanks, then the pieces that are likeliest together. */
function unigram(keys: Keys, lists: FileLists): Json {
  const table = keys.numbersIfThere("tokenizer.ggml.precompiled_charsmap")
  const characters = table && Buffer.from(table.map((byte) => byte & 0xff)).toString("base64")
  const single = keys.flag("tokenizer.ggml.remove_extra_whitespaces", true)
  const prefixed = keys.flag("tokenizer.ggml.add_space_prefix", true)
  const normalizers = [
    ...(characters ? [{ type: "Precompiled", precompiled_charsmap: characters }] : []),
    ...(single ? [{ type: "Replace", pattern: { Regex: " {2,}" }, content: " " }] : []),
  ]
  const blanks = {
    type: "Metaspace",
    replacement: "▁",
    prepend_scheme: prefixed ? "always" : "never",
    split: true,
  }
  const pretokenizers = [...(single ? [{ type: "WhitespaceSplit" }] : []), blanks]
  return {
    ...sentencePieces({
      ...lists,
      by: { scores: scoresOf(keys, lists) },
      prefixed: prefixed ? "first" : "none",
      normalizers: [],
    }),
    normalizer: normalizers.length > 0 ? { type: "Sequence", normalizers } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers },
  }
}

function pairsOf(keys: Keys, { tokens, kinds }: FileLists, pre: string): Json {
  const isWord = (id: number) => kinds[id] === NORMAL || kinds[id] === USER || kinds[id] === CONTROL
  const merges = readMerges(keys, keys.texts("tokenizer.ggml.merges"))
  const parts = bytePairs(pre, new Words(tokens, isWord), merges)
  if (parts) return parts
  throw keys.wrong(
    "tokenizer.ggml.pre",
    `is "${pre}", by which texts would be cut in a way that is not known`,
  )
}

/** As they stand, where none has a second blank. */
function readMerges(keys: Keys, merges: TextList): Merges {
  return merges.areAllPairs() ? merges : merges.all().map((merge) => splitMerge(keys, merge))
}

/** "left right": at the first blank behind the first character. */
function splitMerge(keys: Keys, merge: string): [string, string] {
  const at = merge.indexOf(" ", 1)
  if (at < 0)
    throw keys.wrong("tokenizer.ggml.merges", `holds ${JSON.stringify(merge)}, which is no pair`)
  return [merge.slice(0, at), merge.slice(at + 1)]
}

function piecesOf(keys: Keys, lists: FileLists): Json {
  const listed = keys.textsIfThere("tokenizer.ggml.merges")
  const merges = listed ? readMerges(keys, listed) : mergesByScore(keys, lists)
  const prefixed = keys.flag("tokenizer.ggml.add_space_prefix", !isGemmaByOllama(keys))
  return sentencePieces({
    ...lists,
    by: { merges },
    prefixed: prefixed ? "each" : "none",
    normalizers: [],
  })
}

function mergesByScore(keys: Keys, { tokens, kinds }: FileLists): Merges {
  const lists = { tokens: tokens.all(), kinds }
  const long = longPiece(lists)
  if (long === undefined) return scoredMerges(lists, scoresOf(keys, { tokens }))
  throw keys.wrong("tokenizer.ggml.tokens", `holds one of ${long} characters`)
}

function scoresOf(keys: Keys, { tokens }: Pick<FileLists, "tokens">): readonly number[] {
  const scores = keys.numbersIfThere("tokenizer.ggml.scores")
  if (scores && scores.length >= tokens.length) return scores
  throw keys.wrong(
    "tokenizer.ggml.scores",
    `has ${scores?.length ?? 0} entries for ${tokens.length} tokens`,
  )
}

/** Tokens that end an answer under whatever name: one is rarely all. */
const ENDS = new Set([
  ...["<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"],
  ...["<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"],
  ...["<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>"],
  ...["<｜end▁of▁sentence｜>", "[e~["],
])

function endTokens(keys: Keys, { tokens, kinds }: FileLists, eos: number | undefined): number[] {
  const named = ["eot", "eom", "fim_pad", "fim_rep", "fim_sep"].flatMap(
    (name) => keys.countIfThere(`tokenizer.ggml.${name}_token_id`) ?? [],
  )
  const spelled = kinds.flatMap((kind, id) =>
    kind !== NORMAL && ENDS.has(tokens.at(id)!) ? [id] : [],
  )
  const has = (...names: string[]) => names.some((name) => tokens.indexOf(name) >= 0)
  const goesOn = new Set<string>()
  if (has("<|return|>") && has("<|call|>", "<|calls|>", "<|flush|>")) goesOn.add("<|end|>")
  if (has("<|tool_response>")) goesOn.add("</s>")
  const all = [...(eos === undefined ? [] : [eos]), ...named, ...spelled]
  return [...new Set(all)].filter((id) => id < tokens.length && !goesOn.has(tokens.at(id)!))
}
