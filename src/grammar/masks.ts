// From states to masks. Most frames let few bytes pass: for them the trie is walked with the frames themselves. Inside a
// string nearly everything passes: there a prepared mask is taken and only what follows a quote or a backslash is walked;
// for patterns the walk runs on tables. Masks are kept by the signature of their frames, which is the same for every
// request with the same grammar, up to a bound.

import { advance, type Frame, NameFrame, StringFrame } from "./machine.ts"
import { TextFrame } from "./parts.ts"
import { type StringPlace, unread } from "./strings.ts"
import { set, type Tails, type Trie, type Vocabulary } from "./vocabulary.ts"

const maxBytes = 32 << 20

/** The masks of one grammar over one vocabulary. */
export class Masks {
  private readonly vocabulary: Vocabulary
  private readonly kept = new Map<number, Uint32Array>()

  constructor(vocabulary: Vocabulary) {
    this.vocabulary = vocabulary
  }

  /** The tokens that a frame lets pass. Do not change it. */
  of(frame: Frame): Uint32Array {
    let mask = this.kept.get(frame.signature)
    if (mask) return mask
    mask = this.make(frame)
    if (this.kept.size * mask.byteLength > maxBytes) this.kept.clear()
    this.kept.set(frame.signature, mask)
    return mask
  }

  private make(frame: Frame): Uint32Array {
    const { vocabulary } = this
    const mask = new Uint32Array(vocabulary.words)
    const emit = (token: number) => set(mask, token)
    if (frame instanceof StringFrame) this.string(frame, mask)
    else if (frame instanceof NameFrame && isOpen(frame)) this.openName(frame, mask)
    else if (frame instanceof TextFrame) walkText(vocabulary.trie, frame, emit)
    else walk(vocabulary.trie, 0, vocabulary.trie.bytes.length, [frame], emit)
    if (frame.finishes()) for (const end of vocabulary.ends) set(mask, end)
    return mask
  }

  private string(frame: StringFrame, mask: Uint32Array): void {
    const { vocabulary } = this
    const { language, isBetween } = frame.place
    if (!language.free || !isBetween || frame.kept) {
      const emit = (token: number) => set(mask, token)
      walkString(vocabulary.trie, 0, vocabulary.trie.bytes.length, frame, emit)
      return
    }
    mask.set(vocabulary.plain(language.max - frame.length))
    const closed = closing(frame)
    const { min, max } = language
    const low = min - frame.length
    const high = max - frame.length
    tails(vocabulary.afterQuote, closed, (token, chars) => {
      if (chars >= low && chars <= high) set(mask, token)
    })
    if (low <= 0 && high > vocabulary.mostChars) {
      const { trie, tokens } = vocabulary.fromBackslash
      walkString(trie, 0, trie.bytes.length, frame, (entry) => set(mask, tokens[entry]!))
      return
    }
    // Near a bound each token counts its own characters.
    const { tokens, chars } = vocabulary.fromBackslash
    tokens.forEach((token, entry) => {
      if (chars[entry]! <= high && passes([frame], vocabulary.tokens[token]!)) set(mask, token)
    })
  }

  // All names that the schema does not mention are alike; those that it mentions, or that came before, are looked at
  // token by token.
  private openName(frame: NameFrame, mask: Uint32Array): void {
    const { vocabulary } = this
    const { object, state, place } = frame
    const isOther = place.low >= place.high && !state.others.some((n) => n.startsWith(place.text))
    if (isOther && place.text === otherName) {
      mask.set(vocabulary.plain(vocabulary.mostChars))
      tails(vocabulary.afterQuote, advance([frame], 0x22), (token) => set(mask, token))
      const { trie, tokens } = vocabulary.fromBackslash
      walk(trie, 0, trie.bytes.length, [frame], (entry) => set(mask, tokens[entry]!))
      return
    }
    mask.set(
      this.of(frame.at({ ...object.firstPlace, text: otherName, low: 0, high: 0 }, frame.decoding)),
    )
    if (isOther) return
    const check = (token: number) => {
      mask[token >>> 5]! &= ~(1 << (token & 31))
      if (passes([frame], vocabulary.tokens[token]!)) set(mask, token)
    }
    const names = [...object.names.slice(place.low, place.high), ...state.others]
    for (const name of names) {
      if (!name.startsWith(place.text)) continue
      const rest = Buffer.from(name.slice(place.text.length)).toString("latin1")
      for (const entry of vocabulary.quotedBy.get(rest) ?? [])
        check(vocabulary.afterQuote.tokens[entry]!)
    }
    for (const token of vocabulary.fromBackslash.tokens) {
      if (vocabulary.tokens[token]!.includes(0x22)) check(token)
    }
  }
}

// Stands for every name that is neither mentioned nor repeated; a name may not hold it, as no text is this unlikely.
const otherName = "\u0000\u0000other"

function isOpen(frame: NameFrame): boolean {
  return frame.decoding.kind === "between" && !frame.distinct && frame.object.isOpen(frame.state)
}

function passes(frames: readonly Frame[], bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    frames = advance(frames, byte)
    if (frames.length === 0) return false
  }
  return true
}

function tails(
  tails: Tails,
  frames: readonly Frame[],
  emit: (token: number, chars: number) => void,
) {
  if (frames.length === 0) return
  const each = (entry: number) => emit(tails.tokens[entry]!, tails.chars[entry]!)
  for (const entry of tails.trie.empty) each(entry)
  walk(tails.trie, 0, tails.trie.bytes.length, frames, each)
}

/** Emits the entries between two nodes that the frames let pass; `frames` stand before the first node's byte. */
function walk(
  trie: Trie,
  from: number,
  to: number,
  frames: readonly Frame[],
  emit: (entry: number) => void,
): void {
  if (from >= to) return
  const { bytes, depth, skip, entry, twin } = trie
  const base = depth[from]!
  const stack: (readonly Frame[])[] = [frames]
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const next = advance(stack[level]!, bytes[i]!)
    if (next.length === 0) {
      i = skip[i]!
      continue
    }
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    const only = next.length === 1 ? next[0] : undefined
    if (only instanceof StringFrame && !only.kept) {
      walkString(trie, i + 1, skip[i]!, only, emit)
      i = skip[i]!
    } else {
      stack[level + 1] = next
      i++
    }
  }
}

/** The same for a frame inside a string, on the tables of its language. */
function walkString(
  trie: Trie,
  from: number,
  to: number,
  frame: StringFrame,
  emit: (entry: number) => void,
): void {
  if (frame.kept) {
    walk(trie, from, to, [frame], emit)
    return
  }
  if (from >= to) return
  const { bytes, depth, skip, entry, twin } = trie
  const { language } = frame.place
  const base = depth[from]!
  const places: number[] = [frame.place.index]
  const lengths: number[] = [frame.length]
  const counts = language.min > 0 || language.max !== Number.POSITIVE_INFINITY
  let { table } = language
  let closed: Frame[] | undefined
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const place = places[level]!
    const byte = bytes[i]!
    let next = table[place * 256 + byte]!
    if (next === unread) {
      next = language.read(place, byte)
      table = language.table
    }
    if (next < 0) {
      if (byte === 0x22 && ends(language.placeAt(place), lengths[level]!)) {
        closed ??= closing(frame)
        for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
        walk(trie, i + 1, skip[i]!, closed, emit)
      }
      i = skip[i]!
      continue
    }
    let length = 0
    if (counts) {
      const after = language.placeAt(next)
      length = language.counted(lengths[level]! + (after.isBetween ? 1 : 0))
      if (!after.lives(length)) {
        i = skip[i]!
        continue
      }
    }
    lengths[level + 1] = length
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    places[level + 1] = next
    i++
  }
}

function ends(place: StringPlace, length: number): boolean {
  return place.isBetween && place.language.accepts(place.state, length)
}

function closing(frame: StringFrame): Frame[] {
  const out: Frame[] = []
  frame.close(out)
  return out
}

/** The same for free text, which only its triggers interrupt. */
function walkText(trie: Trie, frame: TextFrame, emit: (entry: number) => void): void {
  const { bytes, depth, skip, entry, twin } = trie
  const stack: number[] = [frame.state]
  const { text } = frame
  for (let i = 0; i < bytes.length; ) {
    const level = depth[i]! - 1
    const next = text.next(stack[level]!, bytes[i]!)
    const opened = text.opens(next)
    if (opened || frame.hasRest) {
      // Something else begins, or may begin, here: from now on with frames.
      const frames = advance([frame.at(stack[level]!)], bytes[i]!)
      for (let e = entry[i]!; frames.length > 0 && e >= 0; e = twin[e]!) emit(e)
      walk(trie, i + 1, skip[i]!, frames, emit)
      i = skip[i]!
      continue
    }
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    stack[level + 1] = next
    i++
  }
}
