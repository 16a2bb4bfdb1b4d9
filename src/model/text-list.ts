// Texts that stay bytes in the header of a file, where each stands behind its length: a vocabulary with its merges has half a
// million of them, of which a few are looked at and all the others go into a tokenizer.json as they are. Making strings of them takes
// ten times as long.

import type { JsonBytes } from "./json-bytes.ts"

/** Texts by number, as a list has them. */
export interface Texts {
  readonly length: number
  at(index: number): string | undefined
}

export class TextList implements Texts {
  readonly length: number
  readonly #bytes: Buffer
  /** Where each begins. It ends where the length of the next one begins. */
  readonly #starts: Uint32Array

  /** @param starts of each text and, at the end, where one more would begin */
  constructor(bytes: Buffer, starts: Uint32Array) {
    this.#bytes = bytes
    this.#starts = starts
    this.length = starts.length - 1
  }

  at(index: number): string | undefined {
    return index < this.length ? this.#text(index) : undefined
  }

  /** The number of the first that is this one, or -1. */
  indexOf(text: string): number {
    const wanted = Buffer.from(text)
    for (let i = 0; i < this.length; i++) {
      const from = this.#starts[i]!
      const to = this.#end(i)
      if (to - from === wanted.length && wanted.equals(this.#bytes.subarray(from, to))) return i
    }
    return -1
  }

  /** The first ones. */
  first(count: number): TextList {
    return new TextList(this.#bytes, this.#starts.subarray(0, Math.min(count, this.length) + 1))
  }

  all(): string[] {
    return Array.from({ length: this.length }, (_, i) => this.#text(i))
  }

  /** Whether the bytes of the text begin and end with these, of a byte each. */
  isBetween(index: number, begin: number, end: number): boolean {
    const [from, to] = [this.#starts[index]!, this.#end(index)]
    return this.#bytes[from] === begin && this.#bytes[to - 1] === end
  }

  /** Whether each is two words with one blank between them. */
  areAllPairs(): boolean {
    for (let i = 0; i < this.length; i++) if (!this.#isPair(i)) return false
    return true
  }

  /** An array of them. */
  putArray(json: JsonBytes): void {
    json.put("[")
    for (let i = 0; i < this.length; i++)
      json.putText(this.#bytes, this.#starts[i]!, this.#end(i), ",")
    json.close("]")
  }

  /** An object of those of which `isMember` says so, with their numbers. */
  putMembers(json: JsonBytes, isMember: (index: number) => boolean): void {
    json.put("{")
    for (let i = 0; i < this.length; i++)
      if (isMember(i)) json.putText(this.#bytes, this.#starts[i]!, this.#end(i), `:${i},`)
    json.close("}")
  }

  #isPair(index: number): boolean {
    const end = this.#end(index)
    const from = this.#starts[index]!
    const bytes = this.#bytes
    let blank = -1
    for (let at = from; at < end; at++) {
      if (bytes[at] !== BLANK) continue
      if (blank >= 0) return false
      blank = at
    }
    return blank > from && blank < end - 1
  }

  #text(index: number): string {
    return this.#bytes.toString("utf8", this.#starts[index], this.#end(index))
  }

  #end(index: number): number {
    return this.#starts[index + 1]! - LENGTH_BYTES
  }
}

/** Of the length before each text. */
export const LENGTH_BYTES = 8

const BLANK = 0x20
