// A tokenizer's tokens as the grammar sees them: bytes in a trie, flat, in the order of a walk that goes down first. For
// the inside of strings, where nearly every token is allowed, the answer is prepared once: which tokens are plain
// characters and how many, and what follows the quote or backslash in those that are not.

/** Byte strings in preorder: the nodes below node i are i + 1 up to, not including, skip[i]. */
export class Trie {
  readonly bytes: Uint8Array // [nodes]
  readonly depth: Uint16Array // [nodes]  1 for the first byte
  readonly skip: Int32Array // [nodes]
  /** First entry that ends at a node, or -1; `twin` leads to the next one with equal bytes. */
  readonly entry: Int32Array // [nodes]
  readonly twin: Int32Array // [entries]
  /** Entries without bytes. */
  readonly empty: number[] = []

  constructor(entries: readonly Uint8Array[]) {
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
    entries.forEach((own, i) => {
      if (own.length === 0) this.empty.push(i)
    })
    this.bytes = bytes.slice(0, count)
    this.depth = depth.slice(0, count)
    this.skip = skip.slice(0, count)
    this.entry = entry.slice(0, count)
  }
}

/** A token's part from its first quote or backslash on, and how many characters stand before it. */
export interface Tails {
  readonly trie: Trie
  readonly tokens: Int32Array // [entries]
  readonly chars: Int32Array // [entries]
}

export class Vocabulary {
  readonly size: number
  /** Words in a mask: bit i & 31 of word i >>> 5 is token i. */
  readonly words: number
  readonly ends: readonly number[]
  readonly tokens: readonly Uint8Array[]
  readonly trie: Trie
  /** What follows the first quote (exclusive), for tokens with no backslash before it. */
  readonly afterQuote: Tails
  /** What follows from the first backslash on (inclusive), for tokens with no quote before it. */
  readonly fromBackslash: Tails
  /** The most characters a plain token has. */
  readonly mostChars: number
  /** Entries of afterQuote by the bytes before the quote, as Latin-1. */
  readonly quotedBy = new Map<string, number[]>()
  private readonly plainByChars: number[][] = []
  private readonly plainMasks: Uint32Array[] = []

  /**
   * @param tokens the bytes of each id; empty for ids that are no text and may never be generated
   * @param ends ids that end a generation
   */
  constructor(tokens: readonly Uint8Array[], ends: readonly number[]) {
    this.size = tokens.length
    this.words = (tokens.length + 31) >>> 5
    this.ends = ends
    const isEnd = new Set(ends)
    this.tokens = tokens.map((bytes, id) => (isEnd.has(id) ? new Uint8Array() : bytes))
    this.trie = new Trie(this.tokens)
    const quoted = new TailList()
    const escaped = new TailList()
    this.tokens.forEach((bytes, id) => {
      if (bytes.length === 0) return
      const { chars, end, plain } = readPlain(bytes)
      if (plain) {
        this.plainByChars[chars] ??= []
        this.plainByChars[chars].push(id)
      } else if (bytes[end] === 0x22) {
        const key = Buffer.from(bytes.subarray(0, end)).toString("latin1")
        const entry = quoted.add(id, bytes.subarray(end + 1), chars)
        const list = this.quotedBy.get(key)
        if (list) list.push(entry)
        else this.quotedBy.set(key, [entry])
      } else if (bytes[end] === 0x5c) escaped.add(id, bytes.subarray(end), chars)
    })
    this.afterQuote = quoted.tails()
    this.fromBackslash = escaped.tails()
    this.mostChars = Math.max(0, this.plainByChars.length - 1)
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

export function set(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! |= 1 << (token & 31)
}

class TailList {
  private readonly tokens: number[] = []
  private readonly bytes: Uint8Array[] = []
  private readonly chars: number[] = []

  add(token: number, bytes: Uint8Array, chars: number): number {
    this.bytes.push(bytes)
    this.chars.push(chars)
    return this.tokens.push(token) - 1
  }

  tails(): Tails {
    return {
      trie: new Trie(this.bytes),
      tokens: Int32Array.from(this.tokens),
      chars: Int32Array.from(this.chars),
    }
  }
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
