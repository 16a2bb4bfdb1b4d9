// A tokenizer's tokens as the grammar sees them: bytes in a trie, flat, in the order of a walk that goes down first. For
// the inside of strings, where nearly every token is allowed, the answer is prepared once: which tokens are plain
// characters and how many, and what stands before and after the quote in those that close one. For 100,000 tokens all of
// it takes 25 MiB.

import type { Quotes } from "./frames.ts"
import { between, decode } from "./strings.ts"

/** Byte strings in preorder: the nodes below node i are i + 1 up to, not including, skip[i]. */
export class Trie {
  readonly bytes: Uint8Array // [nodes]
  readonly depth: Uint16Array // [nodes]  1 for the first byte
  readonly skip: Int32Array // [nodes]
  /** First entry that ends at a node, or -1; `twin` leads to the next one with equal bytes. */
  readonly entry: Int32Array // [nodes]
  readonly twin: Int32Array // [entries]
  /** The entries' bytes. */
  readonly texts: readonly Uint8Array[]
  /** The most bytes an entry has. */
  readonly mostDepth: number
  /** Entries with a backslash, with something behind a quote, and with three quotes and more, in the order of their nodes. */
  readonly escaped: EntryList
  readonly goingOn: EntryList
  readonly repeating: EntryList
  /** The nodes of first bytes, or -1: there are many of them, and every search begins there. */
  private readonly roots = new Int32Array(256).fill(-1)

  constructor(entries: readonly Uint8Array[]) {
    this.texts = entries
    const order = [...entries.keys()].filter((i) => entries[i]!.length > 0)
    // As Latin-1 texts, which sort as the bytes do and far faster than calls to Buffer.compare.
    const keys = entries.map((own) => Buffer.from(own).toString("latin1"))
    order.sort((a, b) => (keys[a]! < keys[b]! ? -1 : keys[a]! > keys[b]! ? 1 : a - b))
    const total = entries.reduce((sum, bytes) => sum + bytes.length, 0)
    const bytes = new Uint8Array(total)
    const depth = new Uint16Array(total)
    const skip = new Int32Array(total)
    const entry = new Int32Array(total).fill(-1)
    this.twin = new Int32Array(entries.length).fill(-1)
    const path: number[] = []
    let count = 0
    let before: Uint8Array = new Uint8Array()
    for (const i of order) {
      const own = entries[i]!
      let shared = 0
      while (shared < before.length && shared < own.length && before[shared] === own[shared])
        shared++
      while (path.length > shared) skip[path.pop()!] = count
      for (let at = shared; at < own.length; at++) {
        bytes[count] = own[at]!
        depth[count] = at + 1
        path.push(count++)
      }
      const node = path.at(-1)!
      this.twin[i] = entry[node]!
      entry[node] = i
      before = own
    }
    while (path.length > 0) skip[path.pop()!] = count
    this.bytes = bytes.slice(0, count)
    this.depth = depth.slice(0, count)
    this.skip = skip.slice(0, count)
    this.entry = entry.slice(0, count)
    for (let node = 0; node < count; node = skip[node]!) this.roots[bytes[node]!] = node
    this.mostDepth = this.depth.reduce((most, n) => Math.max(most, n), 0)
    this.escaped = this.listed((i) => keys[i]!.includes("\\"))
    this.goingOn = this.listed((i) => goesOn(entries[i]!))
    this.repeating = this.listed((i) => keys[i]!.split('"').length > 3)
  }

  /** Of the nodes from `from` up to, not including, `to`, all at one level: the one of a byte, or -1. */
  child(from: number, to: number, byte: number): number {
    if (from === 0 && to === this.bytes.length) return this.roots[byte]!
    let node = from
    while (node < to && this.bytes[node]! < byte) node = this.skip[node]!
    return node < to && this.bytes[node] === byte ? node : -1
  }

  private listed(isWanted: (entry: number) => boolean): EntryList {
    const nodes: number[] = []
    const entries: number[] = []
    for (let node = 0; node < this.entry.length; node++) {
      for (let e = this.entry[node]!; e >= 0; e = this.twin[e]!) {
        if (!isWanted(e)) continue
        nodes.push(node)
        entries.push(e)
      }
    }
    return { nodes: Int32Array.from(nodes), entries: Int32Array.from(entries) }
  }
}

/** Whether something stands behind a quote. */
export function goesOn(bytes: Uint8Array): boolean {
  const quote = bytes.indexOf(0x22)
  return quote >= 0 && quote < bytes.length - 1
}

/** Entries and the nodes they end at, in the order of the nodes. */
export interface EntryList {
  readonly nodes: Int32Array
  readonly entries: Int32Array
}

/** Tokens that have the same characters before their first quote, and what follows it in each. */
export interface Head {
  readonly bytes: Uint8Array
  readonly chars: number
  readonly tokens: number[]
  readonly tails: number[] // entries of the trie of tails; -1 when nothing follows
}

export class Vocabulary {
  readonly size: number
  /** Words in a mask: bit i & 31 of word i >>> 5 is token i. */
  readonly words: number
  readonly ends: readonly number[]
  /** Tokens that mark something, which their spelling does not. */
  readonly marks: ReadonlySet<number>
  readonly tokens: readonly Uint8Array[]
  readonly trie: Trie
  /** Tokens with a quote after plain characters, by these, as Latin-1. */
  readonly heads = new Map<string, Head>()
  /** What follows the first quote in them, each once. */
  readonly tails: Trie
  /** Tokens with a backslash: those without a quote, and those with one behind it. */
  readonly escaped: TokenTrie
  readonly escapedQuoted: TokenTrie
  /**
   * The characters that each token with a backslash stands for, up to a quote, as far as they are finished; by the first
   * of them, or nothing.
   */
  readonly unescaped = new Map<string, { token: number; text: string }[]>()
  readonly quotes: Quotes
  /** The most characters a plain token has. */
  readonly mostChars: number
  private readonly plainByChars: number[][] = []
  private readonly plainMasks: Uint32Array[] = []

  /**
   * @param tokens the bytes of each id; empty for ids that are no text and may never be generated
   * @param ends ids that end a generation
   * @param marks ids that mark something
   */
  constructor(
    tokens: readonly Uint8Array[],
    ends: readonly number[],
    marks: ReadonlySet<number> = new Set(),
  ) {
    this.size = tokens.length
    this.words = (tokens.length + 31) >>> 5
    this.ends = ends
    this.marks = marks
    const isEnd = new Set(ends)
    this.tokens = tokens.map((bytes, id) => (isEnd.has(id) ? new Uint8Array() : bytes))
    this.trie = new Trie(this.tokens)
    const tails = new Map<string, number>()
    const escaped: number[] = []
    const escapedQuoted: number[] = []
    this.tokens.forEach((bytes, id) => {
      if (bytes.length === 0) return
      const { chars, end, plain } = readPlain(bytes)
      if (plain) {
        this.plainByChars[chars] ??= []
        this.plainByChars[chars].push(id)
      } else if (bytes[end] === 0x22) this.addHead(id, bytes, end, chars, tails)
      else if (bytes[end] === 0x5c) {
        this.addUnescaped(id, unescaped(bytes))
        ;(bytes.includes(0x22) ? escapedQuoted : escaped).push(id)
      }
    })
    this.quotes = quotesIn(this.tokens)
    this.tails = new Trie([...tails.keys()].map((tail) => Buffer.from(tail, "latin1")))
    this.escaped = tokenTrie(escaped, this.tokens)
    this.escapedQuoted = tokenTrie(escapedQuoted, this.tokens)
    this.mostChars = Math.max(0, this.plainByChars.length - 1)
  }

  private addUnescaped(token: number, text: string): void {
    const first = text.slice(0, 1)
    const list = this.unescaped.get(first)
    if (list) list.push({ token, text })
    else this.unescaped.set(first, [{ token, text }])
  }

  private addHead(
    id: number,
    token: Uint8Array,
    end: number,
    chars: number,
    tails: Map<string, number>,
  ): void {
    const bytes = token.subarray(0, end)
    const key = latin1(bytes)
    let head = this.heads.get(key)
    if (!head) {
      head = { bytes, chars, tokens: [], tails: [] }
      this.heads.set(key, head)
    }
    const tail = latin1(token.subarray(end + 1))
    if (tail !== "" && !tails.has(tail)) tails.set(tail, tails.size)
    head.tokens.push(id)
    head.tails.push(tails.get(tail) ?? -1)
  }

  /** The tokens that are at most so many plain characters. Do not change it. */
  plain(chars: number): Uint32Array {
    const most = Math.min(chars, this.mostChars)
    let mask = this.plainMasks[most]
    if (!mask) {
      mask = new Uint32Array(this.words)
      for (let n = 0; n <= most; n++) for (const id of this.plainByChars[n] ?? []) set(mask, id)
      this.plainMasks[most] = mask
    }
    return mask
  }
}

/** Takes a token into a mask. */
export function set(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! |= 1 << (token & 31)
}

export function put(mask: Uint32Array, token: number, isAllowed: boolean): void {
  if (isAllowed) set(mask, token)
  else mask[token >>> 5]! &= ~(1 << (token & 31))
}

export function isSet(mask: Uint32Array, token: number): boolean {
  return ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1
}

/** A trie of some tokens, and which they are. */
export interface TokenTrie {
  readonly trie: Trie
  readonly tokens: readonly number[] // [entries]
}

function tokenTrie(ids: readonly number[], tokens: readonly Uint8Array[]): TokenTrie {
  return { trie: new Trie(ids.map((id) => tokens[id]!)), tokens: ids }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1")
}

/** The characters that the bytes of a string stand for, up to a quote or what is no character; a cut off one is left out. */
export function unescaped(bytes: Uint8Array): string {
  return readText(bytes).text
}

function readText(bytes: Uint8Array): { text: string; isClosed: boolean } {
  let text = ""
  let at = between
  for (const byte of bytes) {
    if (byte === 0x22 && at === between) return { text, isClosed: true }
    const read = decode(at, byte)
    if (read === -1) break
    if (typeof read === "number") {
      text += String.fromCodePoint(read)
      at = between
    } else at = read
  }
  return { text, isClosed: false }
}

/** Any quote of a token may open a text, and any may be the first that closes one. */
function quotesIn(tokens: readonly Uint8Array[]): Quotes {
  const around = new Set<string>()
  const behind = new Set<string>()
  for (const bytes of tokens) {
    let quote = bytes.indexOf(0x22)
    if (quote < 0) continue
    const before = readText(bytes)
    if (before.isClosed) behind.add(before.text)
    for (; quote >= 0; quote = bytes.indexOf(0x22, quote + 1)) {
      const after = readText(bytes.subarray(quote + 1))
      if (after.isClosed) around.add(after.text)
    }
  }
  return { around, behind }
}

/** Whole characters from the start of a token, a last one perhaps cut off; `end` is where something else begins. */
function readPlain(bytes: Uint8Array): { chars: number; end: number; plain: boolean } {
  let chars = 0
  for (let at = 0; at < bytes.length; chars++) {
    const byte = bytes[at]!
    if (byte < 0x20 || byte === 0x22 || byte === 0x5c) return { chars, end: at, plain: false }
    const length = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
    const low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80
    const high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf
    if (length === 0 || byte > 0xf4) return { chars, end: bytes.length, plain: false }
    for (let i = 1; i < length && at + i < bytes.length; i++) {
      const next = bytes[at + i]!
      if (next < (i === 1 ? low : 0x80) || next > (i === 1 ? high : 0xbf)) {
        return { chars, end: bytes.length, plain: false }
      }
    }
    at += length
  }
  return { chars, end: bytes.length, plain: true }
}
