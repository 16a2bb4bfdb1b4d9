// A tokenizer.model, which SentencePiece writes: its pieces, their scores and what it does to a text before, in protocol
// buffers. It is made a tokenizer.json, together with what the folder's other files say of tokens. The field numbers:
// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto

import type { Problem } from "../errors.ts"
import { type Folder, isObject, type Json } from "./folder.ts"
import {
  addedTokens,
  KINDS,
  type Lists,
  longPiece,
  postProcessor,
  scoredMerges,
  sentencePieces,
} from "./sentence-pieces.ts"
import { printTokenizer } from "./tokenizer-json.ts"

export const TOKENIZER_MODEL = "tokenizer.model"

/** A tokenizer.json. `config`: the folder's tokenizer_config.json, or nothing. */
export async function readTokenizerModel(folder: Folder, config: Json): Promise<Buffer> {
  const broken = (what: string) => folder.broken(TOKENIZER_MODEL, what)
  const model = parseModel(await folder.bytes(TOKENIZER_MODEL), broken)
  const long = model.isUnigram ? undefined : longPiece(model)
  if (long !== undefined) throw broken(`it has a piece of ${long} characters`)
  const { lists, added } = await withExtraTokens(folder, config, model)
  const id = (name: "bos_token" | "eos_token", otherwise: number) => {
    const told = config[name]
    const text = isObject(told) ? told.content : told
    const found = typeof text === "string" ? lists.tokens.indexOf(text) : otherwise
    return found >= 0 ? found : undefined
  }
  const special = {
    bos: id("bos_token", model.bos),
    eos: id("eos_token", model.eos),
    unknown: undefined,
    padding: undefined,
  }
  const adds = { begin: config.add_bos_token !== false, end: config.add_eos_token === true }
  return printTokenizer({
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    ...sentencePieces({
      tokens: model.tokens,
      kinds: model.kinds,
      by: model.isUnigram
        ? { scores: model.scores }
        : { merges: scoredMerges(model, model.scores) },
      prefixed: !model.prefixed ? "none" : config.legacy === false ? "first" : "each",
      normalizers: model.normalizers,
    }),
    post_processor: postProcessor(lists, special, adds),
  })
}

const MAX_TOKENS = 1 << 22 // a list is made of them before the embedding can contradict it

/** The lists together with tokens that the folder's other files have added, and all that are not text as a tokenizer.json has them. */
export async function withExtraTokens(
  folder: Folder,
  config: Json,
  own: Lists,
): Promise<{ lists: Lists; added: object[] }> {
  const listed = (await folder.jsonIfThere("added_tokens.json")) ?? {}
  const ids = new Map(own.tokens.map((token, id) => [token, id]))
  const extra = extraTokens(listed, config, ids)
  for (const id of extra.keys())
    if (!Number.isInteger(id) || id < 0 || id >= MAX_TOKENS)
      throw folder.broken(
        "tokenizer_config.json",
        `it or added_tokens.json adds a token of the id ${id}`,
      )
  const lists = withExtra(own, extra)
  const added = addedTokens(lists, { unknown: true }) as { id: number }[]
  return {
    lists,
    added: added
      .filter(({ id }) => lists.tokens[id] !== "")
      .map((token) => ({ ...token, ...extra.get(token.id)?.flags })),
  }
}

interface Extra {
  content: string
  special: boolean
  flags: Json
}

/** Tokens that were added to the model's later, by id; some name one that it has already. */
function extraTokens(
  listed: Json,
  { added_tokens_decoder: described }: Json,
  ids: ReadonlyMap<string, number>,
): Map<number, Extra> {
  const extra = new Map<number, Extra>()
  for (const [content, id] of Object.entries(listed))
    if (typeof id === "number" && !ids.has(content))
      extra.set(id, { content, special: /^<.*>$|^\[.*\]$/.test(content), flags: {} })
  for (const [id, token] of Object.entries(isObject(described) ? described : {})) {
    if (!isObject(token) || typeof token.content !== "string") continue
    const { content, special, lstrip, rstrip, single_word, normalized } = token
    const flags = { lstrip, rstrip, single_word, normalized }
    extra.set(Number(id), { content, special: special === true, flags })
  }
  return extra
}

function withExtra({ tokens, kinds }: Lists, extra: ReadonlyMap<number, Extra>): Lists {
  const size = Math.max(tokens.length, ...Array.from(extra.keys(), (id) => id + 1))
  const all = Array.from({ length: size }, (_, id) => tokens[id] ?? "")
  const its = all.map((_, id) => kinds[id] ?? KINDS.UNUSED)
  for (const [id, { content, special }] of extra) {
    all[id] = content
    if (its[id] !== KINDS.UNKNOWN) its[id] = special ? KINDS.CONTROL : KINDS.USER
  }
  return { tokens: all, kinds: its }
}

interface Model {
  tokens: string[]
  kinds: number[]
  scores: number[]
  isUnigram: boolean
  prefixed: boolean
  normalizers: Json[]
  bos: number
  eos: number
}

const PIECE = { text: 1, score: 2, kind: 3 }
const MODEL = { piece: 1, trainer: 2, normalizer: 3 }
const TRAINER = { type: 3, blankBehind: 24, bos: 41, eos: 42 }
const NORMALIZER = { map: 2, prefix: 3, narrow: 4, escape: 5 }
const UNIGRAM = 1
const BPE = 2

function parseModel(bytes: Uint8Array, broken: (what: string) => Problem): Model {
  try {
    const fields = parse(bytes)
    const pieces = all(fields, MODEL.piece).map((piece) => parse(piece))
    const trainer = parse(all(fields, MODEL.trainer)[0] ?? new Uint8Array())
    const normalizer = parse(all(fields, MODEL.normalizer)[0] ?? new Uint8Array())
    if (pieces.length === 0) throw new Malformed("it has no pieces")
    const type = number(trainer, TRAINER.type, UNIGRAM)
    if (type !== UNIGRAM && type !== BPE) throw broken("it splits texts neither by BPE nor Unigram")
    if (number(trainer, TRAINER.blankBehind, 0)) throw broken("it has blanks behind words")
    if (!number(normalizer, NORMALIZER.escape, 1)) throw broken("it keeps blanks as they are")
    return {
      tokens: pieces.map((piece) => text(all(piece, PIECE.text)[0] ?? new Uint8Array())),
      scores: pieces.map((piece) => number(piece, PIECE.score, 0)),
      kinds: pieces.map((piece) => number(piece, PIECE.kind, KINDS.NORMAL)),
      isUnigram: type === UNIGRAM,
      prefixed: number(normalizer, NORMALIZER.prefix, 1) === 1,
      normalizers: normalizersOf(normalizer),
      bos: number(trainer, TRAINER.bos, 1),
      eos: number(trainer, TRAINER.eos, 2),
    }
  } catch (error) {
    if (error instanceof Malformed)
      throw broken(`it is no model of SentencePiece (${error.message})`)
    throw error
  }
}

/** Characters mapped to others; then blanks at both ends of the text away, not of its lines, and several made one. */
function normalizersOf(normalizer: Message): Json[] {
  const [map] = all(normalizer, NORMALIZER.map)
  const replace = (pattern: string, content: string) => ({
    type: "Replace",
    pattern: { Regex: pattern },
    content,
  })
  return [
    ...(map && map.length > 0
      ? [{ type: "Precompiled", precompiled_charsmap: Buffer.from(map).toString("base64") }]
      : []),
    ...(number(normalizer, NORMALIZER.narrow, 1)
      ? [replace("\\A +|[ ▁]+\\z", ""), replace(" {2,}", " ")]
      : []),
  ]
}

class Malformed extends Error {}

/** Of a message in protocol buffers the values of each field: numbers, or bytes. */
type Message = ReadonlyMap<number, (number | Uint8Array)[]>

function parse(bytes: Uint8Array): Message {
  const fields = new Map<number, (number | Uint8Array)[]>()
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  const varint = () => {
    let value = 0
    for (let factor = 1; at < bytes.length; factor *= 128) {
      const byte = bytes[at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
    throw new Malformed("it ends within a number")
  }
  const take = (size: number) => {
    if (at + size > bytes.length) throw new Malformed("it ends within a value")
    at += size
    return at - size
  }
  const read: Record<number, () => number | Uint8Array> = {
    0: varint,
    1: () => view.getFloat64(take(8), true),
    2: () => {
      const size = varint()
      const from = take(size)
      return bytes.subarray(from, from + size)
    },
    5: () => view.getFloat32(take(4), true),
  }
  while (at < bytes.length) {
    const key = varint()
    const value = read[key % 8]
    if (!value) throw new Malformed(`it has a value of kind ${key % 8}`)
    const field = Math.floor(key / 8)
    if (!fields.has(field)) fields.set(field, [])
    fields.get(field)!.push(value())
  }
  return fields
}

/** The last of a field's numbers, as the format wants it. */
function number(message: Message, field: number, otherwise: number): number {
  const value = message.get(field)?.at(-1) ?? otherwise
  if (typeof value === "number") return value
  throw new Malformed(`field ${field} is no number`)
}

function all(message: Message, field: number): Uint8Array[] {
  const values = message.get(field) ?? []
  if (values.every((value) => typeof value !== "number")) return values
  throw new Malformed(`field ${field} is a number`)
}

function text(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Malformed("a piece is not UTF-8 text")
  }
}
