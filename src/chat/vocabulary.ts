// What a tokenizer.json says about its tokens: their bytes, which are added and which are special. Two families of spelling
// exist: byte-level (GPT-2's alphabet, one printable character a byte) and SentencePiece's (▁ for a blank, <0x0A> for
// a byte); the file's decoder tells which. A file without one has words for tokens, which blanks keep apart, and WordPiece has
// words and, behind ##, what goes on with one. Everything is checked here, before the file reaches native code; what is wrong is thrown as a plain Error, whose words others complete.

import { byteAlphabet } from "../byte-alphabet.ts"

export interface Vocabulary {
  /** One more than the highest id. */
  readonly size: number
  readonly bytes: TokenBytes
  readonly added: readonly AddedToken[]
  /** Added tokens that the model has no row for: as good as not there. */
  readonly beyond: readonly AddedToken[]
  /** Tokens that are no text and show as nothing. */
  readonly special: ReadonlySet<number>
  /** Whether decoding drops one blank at the very start of a text. */
  readonly stripsLeadingSpace: boolean
}

export interface AddedToken {
  id: number
  content: string
  special: boolean
  /** It takes the white space on its left, or right, into itself. */
  lstrip: boolean
  rstrip: boolean
  /** It counts only where no letter, digit or underscore touches it. */
  singleWord: boolean
}

/** The bytes of all tokens, end to end. */
export class TokenBytes {
  readonly data: Uint8Array
  readonly offsets: Uint32Array // [size + 1]

  constructor(data: Uint8Array, offsets: Uint32Array) {
    this.data = data
    this.offsets = offsets
  }

  /** Empty for an id that no token has. */
  of(token: number): Uint8Array {
    return this.data.subarray(this.offsets[token] ?? 0, this.offsets[token + 1] ?? 0)
  }
}

type Members = Record<string, unknown>

/** Words with their ids, whatever a file has for one. */
interface Words {
  forEach(visit: (word: string, id: unknown) => void): void
}

/**
 * Reads a parsed tokenizer.json. No id of its model's own words may reach `limit`. Added tokens that do are set apart: the
 * embedding was never grown for them, and other programs that run such a model never meet them. Throws what is wrong, in words.
 * @param words of its model, where they are no list of pieces
 */
export function readVocabulary(json: unknown, words: Words | undefined, limit: number): Vocabulary {
  if (!isObject(json) || !isObject(json.model)) throw new Error("it has no tokenizer model")
  const contents = words ? wordsById(words, limit) : piecesById(json.model.vocab, limit)
  if (contents.length === 0) throw new Error("its model has no vocabulary")
  const given = json.added_tokens ?? []
  if (!Array.isArray(given)) throw new Error("its added tokens are no list")
  const listed = given.map(addedToken)
  const added = listed.filter(({ id }) => id < limit)
  for (const { id, content } of added) contents[id] = content
  const { stripsLeadingSpace, ...writers } = spellingOf(json.decoder)
  return {
    ...tableOf(contents, writers, new Set(added.map(({ id }) => id))),
    added,
    beyond: listed.filter(({ id }) => id >= limit),
    special: new Set(added.filter(({ special }) => special).map(({ id }) => id)),
    stripsLeadingSpace,
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** By id, with holes. */
function wordsById(words: Words, limit: number): string[] {
  const contents: string[] = []
  words.forEach((word, id) => {
    contents[checkedId(word, id, limit)] = word
  })
  return contents
}

/** Of Unigram's list of [content, score]. */
function piecesById(pieces: unknown, limit: number): string[] {
  if (!Array.isArray(pieces)) return []
  return pieces.map((piece, id) => {
    const content = Array.isArray(piece) ? piece[0] : piece
    checkedId(content, id, limit)
    return content
  })
}

function checkedId(content: unknown, id: unknown, limit: number): number {
  const whole = wholeId(content, id)
  if (whole < limit) return whole
  const name = JSON.stringify(content)
  throw new Error(`the token ${name} has the id ${whole}, but the model has ${limit} tokens`)
}

const MOST_IDS = 2 ** 32 // what the encoder's library counts to

function wholeId(content: unknown, id: unknown): number {
  if (typeof content !== "string") throw new Error("a token's content is no text")
  const name = () => `the token ${JSON.stringify(content)}`
  if (typeof id !== "number" || !Number.isInteger(id) || id < 0) {
    throw new Error(`${name()} has no whole number as its id`)
  }
  if (id >= MOST_IDS) throw new Error(`${name()} has the id ${id}, which 32 bits do not hold`)
  return id
}

function addedToken(token: unknown): AddedToken {
  if (!isObject(token)) throw new Error("an added token is no object")
  const id = wholeId(token.content, token.id)
  if (token.content === "") throw new Error(`the added token ${id} is empty`)
  return {
    id,
    content: token.content as string,
    special: token.special === true,
    lstrip: token.lstrip === true,
    rstrip: token.rstrip === true,
    singleWord: token.single_word === true,
  }
}

/** Writes the bytes of a token's content to a place, and gives their number. */
type Write = (content: string, into: Uint8Array, at: number) => number

interface Writers {
  write: Write
  writeAdded: Write
}

interface Spelling extends Writers {
  stripsLeadingSpace: boolean
}

function spellingOf(decoder: unknown): Spelling {
  if ((decoder ?? null) === null) {
    return { write: writeWord, writeAdded: writeWord, stripsLeadingSpace: true }
  }
  const parts = flat(decoder)
  const kinds = parts.map(({ type }) => String(type))
  const only = (...known: string[]) => kinds.every((kind) => known.includes(kind))
  if (kinds.includes("ByteLevel") && only("ByteLevel", "Fuse")) {
    return { write: writeByteLevel, writeAdded: writeText, stripsLeadingSpace: false }
  }
  if (kinds.length > 0 && only("Replace", "ByteFallback", "Fuse", "Strip", "Metaspace")) {
    const metaspace = parts.find(({ type }) => type === "Metaspace")
    const strip = parts.find(({ type }) => type === "Strip")
    const prepends = metaspace?.prepend_scheme !== "never" && metaspace?.add_prefix_space !== false
    const write = sentencePieceWriter(parts)
    return {
      write,
      writeAdded: write, // Gemma's runs of ▁ are added tokens
      stripsLeadingSpace:
        (metaspace !== undefined && prepends) || (strip?.content === " " && strip.start === 1),
    }
  }
  if (kinds.length === 1 && kinds[0] === "WordPiece") {
    const going = textOf(parts[0]!.prefix, "##")
    return {
      write: (content, into, at) =>
        content.startsWith(going)
          ? writeText(content.slice(going.length), into, at)
          : writeWord(content, into, at),
      writeAdded: writeWord,
      stripsLeadingSpace: true,
    }
  }
  throw new Error(`its decoder (${kinds.join(", ") || "empty"}) is not supported`)
}

function flat(decoder: unknown): Members[] {
  if (!isObject(decoder)) return []
  return Array.isArray(decoder.decoders) ? decoder.decoders.flatMap(flat) : [decoder]
}

const UTF8 = new TextEncoder()

function writeText(content: string, into: Uint8Array, at: number): number {
  const { read, written } = UTF8.encodeInto(content, into.subarray(at))
  if (read < content.length) throw new Error("its decoder makes tokens longer than they are")
  return written
}

/** The library's way without a decoder: tokens as they are, a blank between two. */
function writeWord(content: string, into: Uint8Array, at: number): number {
  return writeText(` ${content}`, into, at)
}

const BYTE_OF = new Int16Array(0x144).fill(-1)
for (const [byte, character] of byteAlphabet.entries()) BYTE_OF[character.charCodeAt(0)] = byte

function writeByteLevel(content: string, into: Uint8Array, at: number): number {
  for (let i = 0; i < content.length; i++) {
    const byte = BYTE_OF[content.charCodeAt(i)] ?? -1
    if (byte < 0) return writeText(content, into, at) // not of the alphabet: as it is
    into[at + i] = byte
  }
  return content.length
}

function sentencePieceWriter(parts: readonly Members[]): Write {
  const byteFallback = parts.some(({ type }) => type === "ByteFallback")
  const blanks = parts.flatMap((part): [string, string][] => {
    if (part.type === "Metaspace") return [[textOf(part.replacement, "▁"), " "]]
    if (part.type !== "Replace") return []
    const pattern = isObject(part.pattern) ? textOf(part.pattern.String, "") : ""
    if (pattern === "") throw new Error("its decoder replaces by a regular expression")
    return [[pattern, textOf(part.content, "")]]
  })
  return (content, into, at) => {
    const byte = byteFallback ? /^<0x([0-9A-Fa-f]{2})>$/.exec(content) : null
    if (byte) {
      into[at] = Number.parseInt(byte[1]!, 16)
      return 1
    }
    const text = blanks.reduce((spelled, [from, to]) => spelled.replaceAll(from, to), content)
    return writeText(text, into, at)
  }
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise
}

function tableOf(
  contents: readonly (string | undefined)[],
  { write, writeAdded }: Writers,
  added: ReadonlySet<number>,
): { size: number; bytes: TokenBytes } {
  const size = contents.length
  let most = 0
  for (let id = 0; id < size; id++) most += 1 + (contents[id]?.length ?? 0) * 3 // bytes of a unit of UTF-16 in UTF-8
  const data = new Uint8Array(most)
  const offsets = new Uint32Array(size + 1)
  let at = 0
  for (let id = 0; id < size; id++) {
    const content = contents[id]
    if (content !== undefined) at += (added.has(id) ? writeAdded : write)(content, data, at)
    offsets[id + 1] = at
  }
  return { size, bytes: new TokenBytes(data.slice(0, at), offsets) }
}
