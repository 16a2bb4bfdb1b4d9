// A GGUF file's tokenizer as the text of a tokenizer.json, which the chat room reads. Two kinds: byte-level BPE by merges,
// whose cuts the file only names (cuts.ts), and SentencePiece's BPE, by merges or by scores.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer

import type { Json } from "../folder.ts"
import {
  addedTokens,
  bpe,
  KINDS,
  type Lists,
  longPiece,
  postProcessor,
  type SpecialIds,
  scoredMerges,
  sentencePieces,
} from "../sentence-pieces.ts"
import { composed, cuts, wholeWords } from "./cuts.ts"
import type { Keys } from "./keys.ts"

const { NORMAL, CONTROL, USER, UNUSED } = KINDS

export interface TokenizerTexts {
  json: string // a tokenizer.json
  specialTokens: Record<string, string>
  endTokens: number[]
  beginToken: number | undefined
}

/** @throws `model_broken` for a tokenizer that is not known, and for lists that do not fit */
export function readTokenizer(keys: Keys, vocabulary: number): TokenizerTexts {
  const lists = readLists(keys, vocabulary)
  const kind = keys.text("tokenizer.ggml.model")
  const model = kind === "gemma4" ? "llama" : kind // the same pieces, by merges
  if (model !== "gpt2" && model !== "llama")
    throw keys.wrong("tokenizer.ggml.model", `is "${kind}"; known: gpt2, llama, gemma4`)
  const pre = model === "gpt2" ? keys.textIfThere("tokenizer.ggml.pre") : undefined
  const ids = specialIds(keys, model, lists)
  const adds = {
    begin: keys.flag(
      "tokenizer.ggml.add_bos_token",
      model === "llama" || wholeWords.has(pre ?? ""),
    ),
    end: keys.flag("tokenizer.ggml.add_eos_token", false),
  }
  const parts = model === "gpt2" ? bytePairs(keys, lists, pre) : piecesOf(keys, lists)
  const json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(lists, { unknown: model === "llama" }),
    ...parts,
    post_processor: postProcessor(lists, ids, adds),
  }
  const spelled = (id: number | undefined) => (id === undefined ? undefined : lists.tokens[id])
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
    json: JSON.stringify(json),
    specialTokens: Object.fromEntries(specialTokens),
    endTokens: endTokens(keys, lists, ids.eos),
    beginToken: ids.bos,
  }
}

function readLists(keys: Keys, vocabulary: number): Lists {
  const tokens = keys.texts("tokenizer.ggml.tokens")
  if (tokens.length !== vocabulary)
    throw keys.wrong(
      "tokenizer.ggml.tokens",
      `has ${tokens.length} entries, and the embedding ${vocabulary} rows`,
    )
  const kinds = keys.numbersIfThere("tokenizer.ggml.token_type") ?? tokens.map(() => NORMAL)
  if (kinds.length < tokens.length)
    throw keys.wrong(
      "tokenizer.ggml.token_type",
      `has ${kinds.length} entries for ${tokens.length} tokens`,
    )
  return {
    tokens,
    kinds: kinds.map((kind, id) => (looksSpecial(tokens[id]!, kind) ? CONTROL : kind)),
  }
}

/** Kinds are not reliable: what is written between bars is no text. */
function looksSpecial(token: string, kind: number | undefined): boolean {
  return kind !== CONTROL && kind !== UNUSED && /^<\|[^|<>\s]+\|>$/.test(token)
}

/** What is outside of the vocabulary is as good as not there. */
function specialIds(keys: Keys, model: "gpt2" | "llama", { tokens }: Lists): SpecialIds {
  const usual = model === "llama" ? { bos: 1, eos: 2, unknown: 0 } : {}
  const read = (name: string, otherwise?: number) => {
    const id = keys.countIfThere(`tokenizer.ggml.${name}_token_id`) ?? otherwise
    return id !== undefined && id < tokens.length ? id : undefined
  }
  return {
    bos: read("bos", usual.bos),
    eos: read("eos", usual.eos),
    unknown: read("unknown", usual.unknown),
    padding: read("padding"),
  }
}

function bytePairs(keys: Keys, { tokens, kinds }: Lists, pre: string | undefined): Json {
  const row = cuts.find(({ names }) => names.includes(pre ?? "default"))
  if (!row)
    throw keys.wrong(
      "tokenizer.ggml.pre",
      `is "${pre}", by which texts would be cut in a way that is not known`,
    )
  const vocab = Object.fromEntries(
    tokens.flatMap((token, id) =>
      kinds[id] === NORMAL || kinds[id] === USER || kinds[id] === CONTROL ? [[token, id]] : [],
    ),
  )
  const merges = keys.texts("tokenizer.ggml.merges").map((merge) => splitMerge(keys, merge))
  const isolated = row.patterns.map((pattern) => ({
    type: "Split",
    pattern: { Regex: pattern },
    behavior: "Isolated",
    invert: false,
  }))
  const bytes = {
    type: "ByteLevel",
    add_prefix_space: false,
    trim_offsets: false,
    use_regex: false,
  }
  return {
    normalizer: composed.has(pre ?? "") ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...isolated, bytes] },
    decoder: { ...bytes, add_prefix_space: true, use_regex: true },
    model: {
      ...bpe(vocab, merges),
      unk_token: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: wholeWords.has(pre ?? ""),
    },
  }
}

/** "left right": at the first blank behind the first character. */
function splitMerge(keys: Keys, merge: string): [string, string] {
  const at = merge.indexOf(" ", 1)
  if (at < 0)
    throw keys.wrong("tokenizer.ggml.merges", `holds ${JSON.stringify(merge)}, which is no pair`)
  return [merge.slice(0, at), merge.slice(at + 1)]
}

function piecesOf(keys: Keys, lists: Lists): Json {
  const listed = keys.textsIfThere("tokenizer.ggml.merges")
  const long = listed ? undefined : longPiece(lists)
  if (long !== undefined)
    throw keys.wrong("tokenizer.ggml.tokens", `holds one of ${long} characters`)
  const merges = listed
    ? listed.map((merge) => splitMerge(keys, merge))
    : scoredMerges(lists, scoresOf(keys, lists))
  const prefixed = keys.flag("tokenizer.ggml.add_space_prefix", true) ? "each" : "none"
  return sentencePieces({ ...lists, by: { merges }, prefixed, normalizers: [] })
}

function scoresOf(keys: Keys, { tokens }: Lists): readonly number[] {
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

function endTokens(keys: Keys, { tokens, kinds }: Lists, eos: number | undefined): number[] {
  const named = ["eot", "eom", "fim_pad", "fim_rep", "fim_sep"].flatMap(
    (name) => keys.countIfThere(`tokenizer.ggml.${name}_token_id`) ?? [],
  )
  const spelled = tokens.flatMap((token, id) =>
    ENDS.has(token) && kinds[id] !== NORMAL ? [id] : [],
  )
  const has = (...names: string[]) => names.some((name) => tokens.includes(name))
  const goesOn = new Set<string>()
  if (has("<|return|>") && has("<|call|>", "<|calls|>", "<|flush|>")) goesOn.add("<|end|>")
  if (has("<|tool_response>")) goesOn.add("</s>")
  const all = [...(eos === undefined ? [] : [eos]), ...named, ...spelled]
  return [...new Set(all)].filter((id) => id < tokens.length && !goesOn.has(tokens[id]!))
}
