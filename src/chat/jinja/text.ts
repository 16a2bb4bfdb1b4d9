// Text that knows which of its characters the template itself did not write. Whatever a template does to a text (joins,
// trims, splits, replaces), every character keeps its source; so after rendering it is certain which control tokens are the
// template's and which are only spelled in somebody's message. Positions are UTF-16 units, as in JavaScript strings.

import { spend, spendOnCharacters, spendOnEach, spendOnSearch, TemplateError } from "./meter.ts"

/** Characters [from, to) came from `source`: a small number above 0. Characters in no span are the template's. */
export interface Span {
  readonly from: number
  readonly to: number
  readonly source: number
}

const NONE: readonly Span[] = []
/** More than any prompt; a template that doubles a text over and over is stopped here. */
const MAX_TEXT = 32 * 1024 * 1024

export class Text {
  readonly value: string
  readonly spans: readonly Span[] // ascending, disjoint, none empty
  /** Jinja's Markup: safe for HTML. Chat templates say `safe` without meaning much by it, but it shows. */
  readonly markup: boolean

  constructor(value: string, spans: readonly Span[] = NONE, markup = false) {
    this.value = value
    this.spans = spans
    this.markup = markup
  }

  marked(): Text {
    return new Text(this.value, this.spans, true)
  }

  get length(): number {
    return this.value.length
  }

  slice(from: number, to: number): Text {
    if (from === 0 && to === this.value.length) return this
    spend(1)
    const value = this.value.slice(from, to)
    if (this.spans.length === 0) return new Text(value)
    const spans: Span[] = []
    for (let at = this.#spanAt(from); at < this.spans.length; at++) {
      const span = this.spans[at]!
      if (span.from >= to) break
      spend(1)
      const start = Math.max(span.from, from)
      const end = Math.min(span.to, to)
      if (start < end) spans.push({ from: start - from, to: end - from, source: span.source })
    }
    return new Text(value, spans)
  }

  /** The first span that ends behind a position. */
  #spanAt(position: number): number {
    let low = 0
    let high = this.spans.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.spans[middle]!.to > position) high = middle
      else low = middle + 1
    }
    return low
  }

  repeated(times: number): Text {
    const length = this.value.length * Math.max(0, times)
    assertLength(length)
    spendOnCharacters(length)
    if (this.spans.length === 0) return new Text(this.value.repeat(Math.max(0, times)))
    const out = new TextBuilder()
    for (let i = 0; i < times; i++) out.add(this)
    return out.done()
  }

  /** Another spelling of this text (upper case, say). Where lengths differ, one foreign character makes all foreign. */
  respelled(change: (value: string) => string): Text {
    spendOnCharacters(this.length)
    const value = change(this.value)
    if (this.spans.length === 0) return new Text(value)
    return value.length === this.value.length
      ? new Text(value, this.spans)
      : foreign(value, this.spans[0]!.source)
  }

  /** This text with each run of one source changed on its own: for changes that look at single characters only. */
  mapRuns(change: (value: string) => string): Text {
    spendOnCharacters(this.length)
    if (this.spans.length === 0) return new Text(change(this.value))
    const joined = new TextBuilder()
    for (const run of this.runs()) {
      joined.add(foreign(change(this.value.slice(run.from, run.to)), run.source))
    }
    return joined.done()
  }

  /** The whole text as runs of one source; 0 is the template. */
  *runs(): Generator<Span> {
    let at = 0
    for (const span of this.spans) {
      if (span.from > at) yield { from: at, to: span.from, source: 0 }
      yield span
      at = span.to
    }
    if (at < this.value.length) yield { from: at, to: this.value.length, source: 0 }
  }
}

export const EMPTY = new Text("")

/** A text that came whole from `source`. */
export function foreign(value: string, source: number): Text {
  if (source === 0 || value === "") return new Text(value)
  return new Text(value, [{ from: 0, to: value.length, source }])
}

export function join(parts: readonly Text[], separator: Text = EMPTY): Text {
  const joined = new TextBuilder()
  parts.forEach((part, index) => {
    if (index > 0) joined.add(separator)
    joined.add(part)
  })
  return joined.done()
}

function assertLength(length: number): void {
  if (length <= MAX_TEXT) return
  throw new TemplateError(`it makes a text of more than ${MAX_TEXT} characters`)
}

// Half of a character beyond 16 bits. Most texts have none, which a pattern tells much faster than a loop.
const SURROGATE = /[\ud800-\udfff]/
const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g

/** How many characters Python counts: code points. */
export function codePointCount(value: string): number {
  spendOnCharacters(value.length)
  let count = value.length
  for (const _ of value.matchAll(PAIR)) {
    spend(1)
    count--
  }
  return count
}

/** Where character `index` begins, in UTF-16 units, counted from the end when negative; undefined outside the text. */
export function positionOf(value: string, index: number): number | undefined {
  const size = Math.abs(index)
  if (size > value.length) return undefined
  spendOnCharacters(size)
  const nearest = index < 0 ? value.slice(value.length - size) : value.slice(0, size)
  if (!SURROGATE.test(nearest)) return index < 0 ? value.length - size : size
  spendOnEach(size)
  let at = index < 0 ? value.length : 0
  for (let i = 0; i < size; i++) {
    if (at === (index < 0 ? 0 : value.length)) return undefined
    at = index < 0 ? previousCodePoint(value, at) : nextCodePoint(value, at)
  }
  return at
}

/** As `value.replace(pattern, change)`, which would look for all matches before the first of them is paid for. */
export function replaceEach(
  value: string,
  pattern: RegExp,
  change: (found: string) => string,
): string {
  const parts: string[] = []
  let at = 0
  for (const { 0: found, index } of value.matchAll(pattern)) {
    spend(2)
    parts.push(value.slice(at, index), change(found))
    at = index + found.length
  }
  return at === 0 ? value : parts.join("") + value.slice(at)
}

export function nextCodePoint(value: string, at: number): number {
  return at + (value.codePointAt(at)! > 0xffff ? 2 : 1)
}

export function previousCodePoint(value: string, at: number): number {
  return at - (at > 1 && value.codePointAt(at - 2)! > 0xffff ? 2 : 1)
}

/** Where `needle` occurs in `text`, left to right, without overlaps. An empty needle occurs nowhere. */
export function* occurrences(text: string, needle: string): Generator<number> {
  if (needle === "") return
  spendOnSearch(text.length, needle.length)
  for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + needle.length)) {
    yield at
  }
}

/** Collects texts; neighbours of one source become one span. */
export class TextBuilder {
  length = 0
  readonly #parts: string[] = []
  readonly #spans: { from: number; to: number; source: number }[] = []

  add(text: Text): void {
    spend(1 + text.spans.length)
    spendOnCharacters(text.length)
    if (text.value === "") return
    assertLength(this.length + text.value.length)
    this.#parts.push(text.value)
    for (const span of text.spans) {
      const from = span.from + this.length
      const to = span.to + this.length
      const last = this.#spans.at(-1)
      if (last && last.to === from && last.source === span.source) last.to = to
      else this.#spans.push({ from, to, source: span.source })
    }
    this.length += text.value.length
  }

  done(): Text {
    if (this.#parts.length === 0) return EMPTY
    return new Text(this.#parts.length === 1 ? this.#parts[0]! : this.#parts.join(""), this.#spans)
  }
}
