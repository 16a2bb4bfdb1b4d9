// A tekken.json, which Mistral's folders have, many of them instead of a tokenizer.json: tokens of bytes by rank, how texts are cut, and
// the tokens that no text has, whose ids come first. Which conversation a model was taught its version says (tekken-template.ts).
// Source: tekken.py of mistral-common.

import type { Problem } from "../errors.ts"
import { byteLevelToken, mergesOf } from "./byte-ranks.ts"
import { Fields } from "./fields.ts"
import { type Folder, isObject } from "./folder.ts"
import { byteLevel } from "./gguf/cuts.ts"
import { addedTokens, KINDS, postProcessor } from "./sentence-pieces.ts"
import { tekkenTemplate, type Version, versions } from "./tekken-template.ts"
import { printTokenizer, Words } from "./tokenizer-json.ts"

export const TEKKEN = "tekken.json"

/** Those of files that list none. */
const UNLISTED = [
  ...["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"],
  ...["[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"],
  ...["[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"],
  "[TOOL_CONTENT]",
]

const NAMED = { bos_token: "<s>", eos_token: "</s>", unk_token: "<unk>", pad_token: "<pad>" }

export interface Tekken {
  json: Buffer // a tokenizer.json
  /** By transformers' names. */
  specialTokens: Readonly<Record<string, string>>
  /** @throws `model_broken` where it is of a version whose conversation is not known */
  template(): string
}

/** @throws `model_broken`, naming the field and what is wrong with it */
export async function readTekken(folder: Folder): Promise<Tekken> {
  const broken = (what: string) => folder.broken(TEKKEN, what)
  const file = new Fields(await folder.json(TEKKEN), broken)
  const config = file.object("config")
  if (!config) throw file.wrong("config", "is missing")
  const special = readSpecial(file, config)
  const size = config.count("default_vocab_size") - special.length
  const { vocab } = file.json
  if (!Array.isArray(vocab) || vocab.length < size)
    throw file.wrong("vocab", `does not list ${size} tokens`)
  const ranked = readRanks(vocab.slice(0, size), broken)
  const tokens = [...special, ...ranked]
  const kinds = tokens.map((_, id) => (id < special.length ? KINDS.CONTROL : KINDS.NORMAL))
  const lists = { tokens, kinds }
  const bos = special.indexOf(NAMED.bos_token)
  if (bos < 0) throw file.wrong("special_tokens", `has no ${NAMED.bos_token}`)
  const ids = { bos, eos: undefined, unknown: undefined, padding: undefined }
  const vocabulary = new Words(tokens, (id) => id >= special.length)
  const whole = { composes: false, wholeWords: true } // tiktoken's order, in which it was made
  const json = printTokenizer({
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(lists, { unknown: false }),
    ...byteLevel([config.text("pattern")], vocabulary, mergesOf(ranked, broken), whole),
    post_processor: postProcessor(lists, ids, { begin: true, end: false }),
  })
  const own = Object.entries(NAMED).filter(([, spelling]) => special.includes(spelling))
  return {
    json,
    specialTokens: Object.fromEntries(own),
    template: () => templateOf(config, special),
  }
}

/** By id: those that are listed, and so many more that no text or template spells. */
function readSpecial(file: Fields, config: Fields): string[] {
  const count = config.count("default_num_special_tokens")
  const { special_tokens: listed } = file.json
  const wrong = (what: string) => file.wrong("special_tokens", what)
  if ((listed ?? null) !== null && !Array.isArray(listed)) throw wrong("is not a list")
  const tokens = ((listed ?? undefined) as unknown[] | undefined)?.map((token, id) => {
    if (isObject(token) && typeof token.token_str === "string" && token.rank === id)
      return token.token_str
    throw wrong(`has no token_str of rank ${id} at that place`)
  })
  const own = tokens ?? UNLISTED
  if (own.length > count) throw wrong(`has ${own.length} tokens, of which there are ${count}`)
  const others = Array.from({ length: count - own.length }, (_, i) => `<SPECIAL_${own.length + i}>`)
  const all = [...own, ...others]
  if (new Set(all).size < all.length || all.includes("")) throw wrong("has one spelling twice")
  return all
}

/** Each token by its rank, a character a byte; the first are the bytes themselves. */
function readRanks(vocab: readonly unknown[], broken: (what: string) => Problem): string[] {
  const tokens = vocab.map((entry, rank) => {
    const { rank: its, token_bytes: base64 } = isObject(entry) ? entry : {}
    const token = typeof base64 === "string" && its === rank ? byteLevelToken(base64) : undefined
    if (token !== undefined) return token
    throw broken(`vocab has no token_bytes in base64 of rank ${rank} at that place`)
  })
  const bytes = Array.from({ length: 256 }, (_, byte) => byteLevelToken(base64Of(byte)))
  const other = bytes.findIndex((byte, rank) => tokens[rank] !== byte)
  if (other >= 0) throw broken(`vocab has not byte ${other} as its token of rank ${other}`)
  if (new Set(tokens).size < tokens.length) throw broken("vocab has one token twice")
  return tokens
}

const base64Of = (byte: number) => Buffer.from([byte]).toString("base64")

function templateOf(config: Fields, special: readonly string[]): string {
  const version = config.text("version")
  if (!Object.hasOwn(versions, version))
    throw config.wrong(
      "version",
      `is "${version}", whose conversation is not known (known: ${Object.keys(versions).join(", ")}); put its chat template beside it, as chat_template.jinja`,
    )
  const { template, marks } = tekkenTemplate(version as Version, special.includes("[/THINK]"))
  const lost = marks.find((mark) => !special.includes(mark))
  if (lost === undefined) return template
  throw config.wrong("version", `is "${version}", and special_tokens has no ${lost}`)
}
