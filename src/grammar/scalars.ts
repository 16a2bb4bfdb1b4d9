// Inside words, numbers and strings: what a value without parts has been read to, and what follows when it ends.

import type { Kept } from "./distinct.ts"
import { type Context, Frame, type Inside, type Reach, type Rest, unmentioned } from "./frames.ts"
import { decimalText, parseDecimal, parseJson } from "./json.ts"
import type { NumberNode } from "./numbers.ts"
import { QUOTE, type StringPlace } from "./strings.ts"

/** A value that is one word, and how that is written. */
export interface Word {
  readonly value: "true" | "false" | "null"
  readonly written: string
}

export class WordFrame extends Frame {
  private readonly word: Word
  private readonly at: number
  private readonly rest: Rest

  constructor(context: Context, word: Word, at: number, rest: Rest) {
    super(context)
    this.word = word
    this.at = at
    this.rest = rest
  }

  step(byte: number, out: Frame[]): void {
    const { value, written } = this.word
    if (written.charCodeAt(this.at) !== byte) return
    if (this.at + 1 === written.length) this.rest.resume(value, out)
    else out.push(new WordFrame(this.context, this.word, this.at + 1, this.rest))
  }

  protected describe(reach: Reach): string {
    return `w${this.word.written}${this.at}|${this.rest.signature(reach)}`
  }
}

export class NumberFrame extends Frame {
  readonly node: NumberNode
  private readonly rest: Rest
  /** The spelling so far, when the value is kept. */
  private readonly raw: string | undefined
  private after: readonly Frame[] | undefined

  constructor(context: Context, node: NumberNode, rest: Rest, raw: string | undefined) {
    super(context)
    this.node = node
    this.rest = rest
    this.raw = raw
  }

  step(byte: number, out: Frame[]): void {
    const next = this.node.step(byte)
    if (next) {
      const raw = this.raw === undefined ? undefined : this.raw + String.fromCharCode(byte)
      out.push(new NumberFrame(this.context, next, this.rest, raw))
    } else for (const frame of this.ended()) frame.step(byte, out)
  }

  override finishes(): boolean {
    return this.ended().some((frame) => frame.finishes())
  }

  /** Whether the spelling does not matter any more: then all that follows the number is the same wherever it ends. */
  get isPlain(): boolean {
    return this.raw === undefined
  }

  /** At another node of the same number. */
  at(node: NumberNode): NumberFrame {
    return new NumberFrame(this.context, node, this.rest, this.raw)
  }

  /** What follows, as a number ends where something else begins. */
  ended(): readonly Frame[] {
    if (this.after) return this.after
    this.after = this.context.apart((frames) => {
      if (!this.node.canEnd()) return
      const value = this.raw === undefined ? undefined : decimalText(parseDecimal(this.raw)!)
      this.rest.resume(value, frames)
    })
    return this.after
  }

  protected describe(reach: Reach): string {
    const at = `${this.node.language.id}:${this.node.outlook()}`
    return `n${at}:${this.raw ?? ""}|${this.rest.signature(reach)}`
  }
}

/** Inside a string's quotes. */
export class StringFrame extends Frame {
  readonly place: StringPlace
  /** Finished characters, as far as they are counted. */
  readonly length: number
  private readonly rest: Rest
  private readonly kept: Kept | undefined
  /** The bytes so far, when the value is kept, and how many of them are finished characters. */
  private readonly raw: string
  private readonly finished: number

  constructor(
    context: Context,
    place: StringPlace,
    length: number,
    rest: Rest,
    kept: Kept | undefined,
    raw: string,
    finished: number,
  ) {
    super(context)
    this.place = place
    this.length = length
    this.rest = rest
    this.kept = kept
    this.raw = raw
    this.finished = finished
  }

  step(byte: number, out: Frame[]): void {
    if (byte === this.place.language.quote && this.place.isBetween) {
      if (!this.place.language.accepts(this.place.state, this.length)) return
      out.push(...this.closed(this.kept ? this.text() : ""))
      return
    }
    const place = this.place.step(byte)
    if (!place) return
    const length = place.language.counted(this.length + (place.isBetween ? 1 : 0))
    if (!place.lives(length)) return
    const same = place === this.place && length === this.length && !this.kept
    const raw = this.kept ? this.raw + String.fromCharCode(byte) : ""
    const finished = place.isBetween ? raw.length : this.finished
    const next = same
      ? this
      : new StringFrame(this.context, place, length, this.rest, this.kept, raw, finished)
    if (next.lives()) out.push(next)
  }

  /** Whether a value that need not be avoided can still come of it. */
  lives(): boolean {
    if (!this.kept || this.kept.avoid.size === 0) return true
    return this.kept.leavesString(this.place, this.length, this.text())
  }

  /** Undefined when it has to be asked byte by byte. */
  inside(): Inside | undefined {
    const { place, length, kept } = this
    if (place.language.quote !== QUOTE) return undefined // what is known of tokens is of those with this one
    const mentions = kept ? [...kept.mentions] : []
    if (mentions.length > 0 && !place.isBetween) return undefined
    const text = mentions.length > 0 ? this.text() : ""
    const special = mentions
      .filter((mention) => mention.startsWith(text))
      .map((mention) => ({
        rest: mention.slice(text.length),
        leads: false,
        closed: () => (place.language.has(mention) ? this.closed(mention) : []),
      }))
    let others: Frame[] | undefined
    const closed = () => {
      others ??= this.closed(unmentioned)
      return others
    }
    const key = this.rest.signature("token")
    return { place, length, closed, special, isKept: kept !== undefined, key }
  }

  /** What follows when the text is closed here. */
  private closed(text: string): Frame[] {
    const out: Frame[] = []
    const value = this.kept && JSON.stringify(text)
    if (value === undefined || !this.kept!.avoid.has(value)) this.rest.resume(value, out)
    return out
  }

  /** The finished characters. */
  private text(): string {
    const bytes = Buffer.from(this.raw.slice(0, this.finished), "latin1")
    return parseJson(`"${bytes.toString("utf8")}"`) as string
  }

  protected describe(reach: Reach): string {
    const { place } = this
    const kept = this.kept ? `${this.raw}!${[...this.kept.avoid].join()}` : ""
    const at = `${place.language.id}:${place.state}:${place.decoding.id}:${this.length}`
    return `s${at}${kept}|${this.rest.signature(reach)}`
  }
}
