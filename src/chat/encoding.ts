// From a text to its tokens: control tokens where the template spells them, plain ones everywhere else. The encoder is the
// Rust `tokenizers` package, opened without the added tokens of its tokenizer.json, so that no text can become a control
// token however it is spelled; those are found here, in the template's own characters only. Runs in a process of its own
// (see encoder.ts), so everything it is given and gives back is plain data.

import { Tokenizer as Encoder } from "tokenizers"
import type { AddedToken } from "./vocabulary.ts"

/** Two texts of a tokenizer.json: what the first segment of a text is encoded with, and what the later ones are. */
export interface EncoderFiles {
  first: string
  /** Absent: the same. */
  later: string | undefined
  controls: readonly AddedToken[]
}

export interface Encodable {
  value: string
  /** Where the template's own characters are: from, to, from, to, … */
  own: Int32Array
}

export interface Encoding {
  /** What stands before a text that is no chat, and behind one that is read for its meaning alone. */
  prefix: readonly number[]
  suffix: readonly number[]
  /** What stands between two that are read together. */
  between: readonly number[]
  encode(text: Encodable): Promise<Int32Array<ArrayBuffer>>
}

/** Throws in the library's words when it cannot read a file. */
export async function openEncoding({ first, later, controls }: EncoderFiles): Promise<Encoding> {
  const encoder = openEncoder(first)
  const continuing = later === undefined ? encoder : openEncoder(later)
  const find = controlFinder(controls)
  return {
    ...(await frameOf(encoder)),
    encode: async (text) => {
      const { segments, between } = split(text, find)
      const tokens = [
        ...(await encodeAll(encoder, segments.slice(0, 1))),
        ...(await encodeAll(continuing, segments.slice(1))),
      ]
      return joined(tokens, between)
    },
  }
}

/** The tokens that the file puts around a text. */
async function frameOf(encoder: Encoder): Promise<Omit<Encoding, "encode">> {
  const ids = async (text: string, addSpecialTokens: boolean) =>
    (await encoder.encode(text, null, { addSpecialTokens })).getIds()
  const [plain, framed] = [await ids("a", false), await ids("a", true)]
  const extra = framed.length - plain.length
  for (let before = 0; before <= extra; before++) {
    if (plain.every((id, at) => framed[before + at] === id)) {
      const suffix = framed.slice(before + plain.length)
      const pair = (await encoder.encode("a", "a", { addSpecialTokens: true })).getIds()
      const between = pair.slice(before + plain.length, pair.length - suffix.length - plain.length)
      return { prefix: framed.slice(0, before), suffix, between }
    }
  }
  return { prefix: await ids("", true), suffix: [], between: [] } // the file changes the text as well
}

/**
 * The library's regular expressions (Oniguruma) give a match up after ten million steps, and end the process over it. The
 * patterns that models are published with look at a run of blanks, or at a word, a few times over: this many characters of
 * one are safe, and take seconds.
 */
export const MAX_RUN = 2 * 2 ** 20

export function hasLongRun(text: string): boolean {
  if (text.length <= MAX_RUN) return false
  for (const [run] of text.matchAll(/\s+|\S+/g)) if (run.length > MAX_RUN) return true
  return false
}

function openEncoder(json: string): Encoder {
  const encoder = Encoder.fromString(json)
  encoder.disableTruncation()
  encoder.disablePadding()
  return encoder
}

// Segments go to the encoder together, as each crossing costs as much as a hundred tokens; what comes back is large.
const CHARACTERS_AT_ONCE = 32 * 1024

async function encodeAll(encoder: Encoder, segments: readonly string[]): Promise<number[][]> {
  const tokens: number[][] = []
  for (let from = 0, to = 0; from < segments.length; from = to) {
    for (let size = 0; to < segments.length && (to === from || size < CHARACTERS_AT_ONCE); to++) {
      size += segments[to]!.length
    }
    const some = segments.slice(from, to)
    const encodings = some.some(Boolean)
      ? await encoder.encodeBatch(some, { addSpecialTokens: false })
      : undefined
    some.forEach((segment, index) => {
      tokens.push(encodings && segment !== "" ? encodings[index]!.getIds() : [])
    })
  }
  return tokens
}

/** The tokens of all segments with the control tokens that stand between them. */
function joined(
  segments: readonly number[][],
  between: readonly number[],
): Int32Array<ArrayBuffer> {
  const total = segments.reduce((sum, { length }) => sum + length, between.length)
  const ids = new Int32Array(total)
  let at = 0
  segments.forEach((tokens, index) => {
    if (index > 0) ids[at++] = between[index - 1]!
    ids.set(tokens, at)
    at += tokens.length
  })
  return ids
}

interface Found {
  from: number
  to: number
  id: number
}

type Finder = (value: string, from: number, to: number) => Generator<Found>

/** Finds control tokens within [from, to): leftmost first, of those that begin together the longest. */
function controlFinder(controls: readonly AddedToken[]): Finder {
  const byContent = new Map(controls.map((token) => [token.content, token]))
  const longestFirst = [...byContent.keys()].sort((a, b) => b.length - a.length)
  if (longestFirst.length === 0) return function* () {}
  const pattern = longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"))
  const expression = new RegExp(pattern.join("|"), "g")
  return function* (value, from, to) {
    for (const match of value.slice(from, to).matchAll(expression)) {
      const token = byContent.get(match[0])!
      const start = from + match.index
      const end = start + match[0].length
      if (token.singleWord && (isWord(value[start - 1]) || isWord(value[end]))) continue
      yield {
        from: token.lstrip ? value.slice(0, start).trimEnd().length : start,
        to: token.rstrip ? value.length - value.slice(end).trimStart().length : end,
        id: token.id,
      }
    }
  }
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_]/u.test(character)
}

/** A text cut at its control tokens: `between[i]` stands after `segments[i]`. */
function split({ value, own }: Encodable, find: Finder): { segments: string[]; between: number[] } {
  const segments: string[] = []
  const between: number[] = []
  let at = 0
  for (let run = 0; run < own.length; run += 2) {
    for (const marker of find(value, own[run]!, own[run + 1]!)) {
      segments.push(value.slice(at, Math.max(at, marker.from)))
      between.push(marker.id)
      at = marker.to
    }
  }
  segments.push(value.slice(at))
  return { segments, between }
}
