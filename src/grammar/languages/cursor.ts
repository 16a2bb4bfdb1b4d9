// A grammar's text, read from its beginning to its end. Faults name the line.

import { spend } from "../work.ts"
import { GrammarFault } from "./rules.ts"

export class Cursor {
  readonly #text: string
  at = 0
  #lines = 1 // up to here
  #counted = 0

  constructor(text: string) {
    spend(text.length / 8)
    this.#text = text
  }

  get isAtEnd(): boolean {
    return this.at >= this.#text.length
  }

  get line(): number {
    if (this.at < this.#counted) [this.#lines, this.#counted] = [1, 0]
    for (; this.#counted < this.at; this.#counted++)
      if (this.#text[this.#counted] === "\n") this.#lines++
    return this.#lines
  }

  sees(text: string): boolean {
    return this.#text.startsWith(text, this.at)
  }

  take(text: string): boolean {
    if (!this.sees(text)) return false
    this.at += text.length
    return true
  }

  /** What a sticky expression finds here; undefined, and no move, when it finds nothing. */
  match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.at
    const found = sticky.exec(this.#text)
    if (!found) return undefined
    this.at += found[0].length
    return found
  }

  /** The next character, which is passed. */
  character(): string {
    if (this.isAtEnd) throw this.fault("it ends too early")
    const character = String.fromCodePoint(this.#text.codePointAt(this.at)!)
    this.at += character.length
    return character
  }

  expect(text: string): void {
    if (!this.take(text)) throw this.fault(`expected ${text}, not ${this.here()}`)
  }

  fault(reason: string): GrammarFault {
    return new GrammarFault(reason, this.line)
  }

  /** What stands here, for faults. */
  here(): string {
    const [line = ""] = this.#text.slice(this.at, this.at + 20).split("\n")
    return line === "" ? "the end of the line" : JSON.stringify(line)
  }
}
