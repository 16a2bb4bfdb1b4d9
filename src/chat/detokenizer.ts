// Tokens to text, one at a time: never half a character, never U+FFFD for bytes that may still become one. Special tokens
// are no text. What is complete is never taken back, also where the tokenizer's own decoder would (it turns a whole run of
// bytes into U+FFFD when its last character is cut).

import type { TokenBytes } from "./vocabulary.ts"

export interface TokenTexts {
  readonly bytes: TokenBytes
  readonly special: ReadonlySet<number>
  readonly stripsLeadingSpace: boolean
}

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true })
const NOTHING = new Uint8Array(0)
const NONE: ReadonlySet<number> = new Set()

export class Detokenizer {
  readonly #tokens: TokenTexts
  readonly #visible: ReadonlySet<number>
  #dropBlank: boolean
  #tail = NOTHING // the beginning of a character, at most three bytes
  #broken = 0

  /**
   * `continues`: the text goes on from an earlier one, so a blank at its start belongs to it. `visible`: special tokens that
   * are to be seen.
   */
  constructor(tokens: TokenTexts, continues: boolean, visible: ReadonlySet<number> = NONE) {
    this.#tokens = tokens
    this.#visible = visible
    this.#dropBlank = tokens.stripsLeadingSpace && !continues
  }

  /** Whether the text so far is followed by the beginning of a character. */
  get midCharacter(): boolean {
    return this.#tail.length > 0
  }

  /**
   * How many characters come before the last token's own: U+FFFD for the beginning of a character that it does not go on
   * with. They are counted as soon as that is known, which may be before they are given.
   */
  get broken(): number {
    return this.#broken
  }

  /** The text that is certain once `token` has come. */
  push(token: number): string {
    this.#broken = 0
    if (this.#tokens.special.has(token) && !this.#visible.has(token)) return ""
    let fresh = this.#tokens.bytes.of(token)
    if (this.#dropBlank && fresh.length > 0) {
      if (fresh[0] === 0x20) fresh = fresh.subarray(1)
      this.#dropBlank = false
    }
    if (fresh.length === 0) return ""
    if (this.#tail.length > 0) {
      const whole = new Uint8Array(this.#tail.length + fresh.length)
      whole.set(this.#tail)
      whole.set(fresh, this.#tail.length)
      const before = UTF8.decode(this.#tail)
      if (UTF8.decode(whole) === before + UTF8.decode(fresh)) this.#broken = before.length
      fresh = whole
    }
    const end = fresh.length - unfinished(fresh)
    this.#tail = end === fresh.length ? NOTHING : fresh.slice(end)
    return end === 0 ? "" : UTF8.decode(fresh.subarray(0, end))
  }

  /** What remains when no more tokens come: U+FFFD for the beginning of a character. */
  flush(): string {
    const rest = UTF8.decode(this.#tail)
    this.#tail = NOTHING
    return rest
  }
}

const SPELLED_AT_ONCE = 1024 // tokens: a fraction of a millisecond

/** The text of tokens, piece by piece, special ones included. */
export function* spelled(tokens: Int32Array, texts: TokenTexts): Iterable<string> {
  const text = new Detokenizer(texts, false, texts.special)
  for (let at = 0; at < tokens.length; at += SPELLED_AT_ONCE) {
    const some = tokens.subarray(at, at + SPELLED_AT_ONCE)
    yield Array.from(some, (token) => text.push(token)).join("")
  }
  yield text.flush()
}

/** How many bytes at the end begin a character that they do not finish. */
function unfinished(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if (byte < 0x80) return 0
    if (byte >= 0xc0) return back < lengthOf(byte) ? back : 0
  }
  return 0
}

function lengthOf(lead: number): number {
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2
}
