// From states to masks. Most frames let few bytes pass: for them the trie is walked with the frames themselves. Inside
// quotes nearly everything passes, and what passes without closing them depends on the language and the place in it alone:
// that part is made once and shared by all grammars. To it come the tokens that hold a quote, told apart by what stands
// before it and what follows, and the few texts that are special: names that are mentioned or seen, items that may not come
// again. Masks are kept, up to a bound for each vocabulary; the one used longest ago is forgotten first.

import { advance, type Frame, type Inside } from "./frames.ts"
import { NameFrame } from "./machine.ts"
import { TextFrame } from "./parts.ts"
import { StringFrame } from "./scalars.ts"
import { type StringPlace, unread } from "./strings.ts"
import { type Head, set, type Trie, unescaped, type Vocabulary } from "./vocabulary.ts"

const maxBytes = 64 << 20

const byVocabulary = new WeakMap<Vocabulary, Masks>()

/** The masks of all grammars over one vocabulary. */
export function masksOf(vocabulary: Vocabulary): Masks {
  const masks = byVocabulary.get(vocabulary) ?? new Masks(vocabulary)
  byVocabulary.set(vocabulary, masks)
  return masks
}

export class Masks {
  private readonly vocabulary: Vocabulary
  /** By signature of a frame, or by language and place. */
  private readonly kept = new Map<number | string, Uint32Array>()
  private readonly most: number

  constructor(vocabulary: Vocabulary) {
    this.vocabulary = vocabulary
    this.most = Math.max(16, Math.floor(maxBytes / (4 * vocabulary.words)))
  }

  /** The tokens that a frame lets pass. Do not change it. */
  of(frame: Frame): Uint32Array {
    return this.known(frame.signature, (mask) => this.make(frame, mask))
  }

  private known(key: number | string, make: (mask: Uint32Array) => void): Uint32Array {
    let mask = this.kept.get(key)
    if (mask) this.kept.delete(key)
    else {
      mask = new Uint32Array(this.vocabulary.words)
      make(mask)
    }
    this.kept.set(key, mask)
    if (this.kept.size > this.most) this.kept.delete(this.kept.keys().next().value!)
    return mask
  }

  private make(frame: Frame, mask: Uint32Array): void {
    const { trie, ends } = this.vocabulary
    const inside = insideOf(frame)
    // Inside a character the next quote may be part of an escape, but few bytes fit.
    if (inside && inside.place?.isBetween !== false) this.makeInside(frame, inside, mask)
    else walkFrames(trie, 0, trie.bytes.length, [frame], (token) => set(mask, token))
    if (frame.finishes()) for (const end of ends) set(mask, end)
  }

  private makeInside(frame: Frame, inside: Inside, mask: Uint32Array): void {
    const { vocabulary } = this
    const emit = (token: number) => set(mask, token)
    const special = new Map(inside.special.map((one) => [utf8(one.rest), one]))
    if (inside.place) {
      mask.set(this.unclosed(inside.place, inside.length))
      this.addClosing(inside, inside.place, special, emit)
    }
    const doubtful = new Set<number>()
    for (const [rest, one] of special) {
      const head = vocabulary.heads.get(rest)
      const closed = head ? one.closed() : []
      head?.tokens.forEach((token, i) => {
        const tail = head.tails[i]!
        const fits = tail < 0 ? closed.length > 0 : passes(closed, vocabulary.tails.texts[tail]!)
        if (fits) set(mask, token)
      })
      const { trie } = vocabulary
      const isTight = tightness(inside)
      const path = Buffer.from(rest, "latin1")
      descend(trie, 0, trie.bytes.length, path, (node, depth) => {
        for (let e = trie.entry[node]!; e >= 0; e = trie.twin[e]!) {
          if (one.leads) set(mask, e)
          else if (isTight?.(path.subarray(0, depth))) doubtful.add(e)
        }
      })
    }
    if (inside.isKept) for (const token of vocabulary.trie.repeating.entries) doubtful.add(token)
    const isRelated = relation(inside)
    for (const [token, text] of vocabulary.unescaped) if (isRelated(text)) doubtful.add(token)
    for (const token of doubtful) {
      mask[token >>> 5]! &= ~(1 << (token & 31))
      if (passes([frame], vocabulary.tokens[token]!)) set(mask, token)
    }
  }

  /** The tokens that stay inside the quotes, nothing being special. */
  private unclosed(place: StringPlace, length: number): Uint32Array {
    const { vocabulary } = this
    const { language } = place
    const room = language.roomFor(length, vocabulary.mostChars)
    return this.known(`${language.id} ${place.index} ${room}`, (mask) => {
      const emit = (token: number) => set(mask, token)
      if (!language.free) {
        const { trie } = vocabulary
        walkLanguage(trie, 0, trie.bytes.length, place, length, emit, undefined)
        return
      }
      mask.set(vocabulary.plain(language.max - length))
      const { trie, tokens } = vocabulary.escaped
      const emitOf = (entry: number) => emit(tokens[entry]!)
      walkLanguage(trie, 0, trie.bytes.length, place, length, emitOf, undefined)
    })
  }

  /** The tokens that close the quotes, after texts that are not special. */
  private addClosing(
    inside: Inside,
    place: StringPlace,
    special: ReadonlyMap<string, unknown>,
    emit: (token: number) => void,
  ): void {
    const { heads, tails, escapedQuoted } = this.vocabulary
    const allowedAfter = new Map<readonly Frame[], Uint8Array>()
    for (const [key, head] of heads) {
      const closed = closedAfter(inside, place, head)
      if (!closed || closed.length === 0 || special.has(key)) continue
      let allowed = allowedAfter.get(closed)
      if (!allowed) {
        const flags = new Uint8Array(tails.texts.length)
        walkFrames(tails, 0, tails.bytes.length, closed, (entry) => {
          flags[entry] = 1
        })
        allowed = flags
        allowedAfter.set(closed, allowed)
      }
      for (let i = 0; i < head.tokens.length; i++) {
        const tail = head.tails[i]!
        if (tail < 0 || allowed[tail] === 1) emit(head.tokens[i]!)
      }
    }
    const { trie, tokens } = escapedQuoted
    const emitOf = (entry: number) => emit(tokens[entry]!)
    const closing = { closed: inside.closed, blocked: new Set<number>() }
    walkLanguage(trie, 0, trie.bytes.length, place, inside.length, emitOf, closing)
  }
}

function insideOf(frame: Frame): Inside | undefined {
  return frame instanceof StringFrame || frame instanceof NameFrame ? frame.inside() : undefined
}

/** The frames after the quote that follows a head; undefined when it cannot stand there. */
function closedAfter(inside: Inside, place: StringPlace, head: Head): readonly Frame[] | undefined {
  const { language } = place
  let at = place.index
  let { length } = inside
  if (language.free) length += head.chars
  else {
    for (const byte of head.bytes) {
      at = next(place, at, byte)
      if (at < 0) return undefined
      if (language.placeAt(at).isBetween) length++
    }
  }
  const end = language.placeAt(at)
  const closes = end.isBetween && language.accepts(end.state, language.counted(length))
  return closes ? inside.closed(end) : undefined
}

function passes(frames: readonly Frame[], bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    frames = advance(frames, byte)
    if (frames.length === 0) return false
  }
  return true
}

// ---- walks over a trie, or over the nodes of it that lie between two at the same level ----

type Emit = (entry: number) => void

/** Emits the entries that the frames let pass; `frames` stand before the first node's byte. */
function walkFrames(
  trie: Trie,
  from: number,
  to: number,
  frames: readonly Frame[],
  emit: Emit,
): void {
  const rest = walkSpecial(trie, from, to, frames, emit)
  if (from >= to || rest.length === 0) return
  const { bytes, depth, skip, entry, twin } = trie
  const base = depth[from]!
  const stack: (readonly Frame[])[] = [rest]
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const reached = advance(stack[level]!, bytes[i]!)
    if (reached.length > 0) for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    const left =
      reached.length > 0 && skip[i]! > i + 1
        ? walkSpecial(trie, i + 1, skip[i]!, reached, emit)
        : reached
    if (left.length === 0) i = skip[i]!
    else {
      stack[level + 1] = left
      i++
    }
  }
}

/** Walks with those frames that have a shorter way than byte by byte; the others are returned. */
function walkSpecial(
  trie: Trie,
  from: number,
  to: number,
  frames: readonly Frame[],
  emit: Emit,
): readonly Frame[] {
  if (from >= to) return []
  return frames.filter((frame) => {
    if (frame instanceof TextFrame) walkText(trie, from, to, frame, emit)
    else {
      const inside = insideOf(frame)
      if (!inside) return true
      walkInside(trie, from, to, frame, inside, emit)
    }
    return false
  })
}

function walkInside(
  trie: Trie,
  from: number,
  to: number,
  frame: Frame,
  inside: Inside,
  emit: Emit,
): void {
  const base = trie.depth[from]! - 1
  const blocked = new Set<number>() // quotes after special texts
  const doubtful = new Set<number>()
  const isTight = tightness(inside)
  for (const one of inside.special) {
    const path = Buffer.from(one.rest)
    const end = descend(trie, from, to, path, (node, depth) => {
      for (let e = trie.entry[node]!; e >= 0; e = trie.twin[e]!) {
        if (one.leads) emit(e)
        else if (isTight?.(path.subarray(0, depth))) doubtful.add(e)
      }
    })
    const quote = end ? trie.child(end.from, end.to, 0x22) : -1
    if (quote < 0) continue
    blocked.add(quote)
    const closed = one.closed()
    if (closed.length === 0) continue
    for (let e = trie.entry[quote]!; e >= 0; e = trie.twin[e]!) emit(e)
    walkFrames(trie, quote + 1, trie.skip[quote]!, closed, emit)
  }
  if (inside.special.length > 0) {
    const isRelated = relation(inside)
    for (const e of between(trie.escaped, from, to)) {
      if (isRelated(unescaped(trie.texts[e]!.subarray(base)))) doubtful.add(e)
    }
  }
  if (inside.isKept) for (const e of between(trie.repeating, from, to)) doubtful.add(e)
  if (inside.place) {
    const sure = doubtful.size === 0 ? emit : (e: number) => doubtful.has(e) || emit(e)
    const closing = { closed: inside.closed, blocked }
    walkLanguage(trie, from, to, inside.place, inside.length, sure, closing)
  }
  for (const e of doubtful) if (passes([frame], trie.texts[e]!.subarray(base))) emit(e)
}

interface Closing {
  closed: Inside["closed"]
  /** Nodes that are passed over: the quotes after special texts. */
  blocked: ReadonlySet<number>
}

/** The same for a place in a language, on its tables; without `closing`, entries that hold a quote are left out. */
function walkLanguage(
  trie: Trie,
  from: number,
  to: number,
  place: StringPlace,
  length: number,
  emit: Emit,
  closing: Closing | undefined,
): void {
  if (from >= to) return
  const { bytes, depth, skip, entry, twin } = trie
  const { language } = place
  const { min, max } = language
  const base = depth[from]!
  const places = [place.index]
  const lengths = [length]
  const counts = length < min || language.roomFor(length, trie.mostDepth) !== undefined
  let { table, least, whole } = language
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const at = places[level]!
    const byte = bytes[i]!
    let reached = table[at * 256 + byte]!
    if (reached === unread) {
      reached = language.read(at, byte)
      ;({ table, least, whole } = language)
    }
    if (reached < 0) {
      const isEnd = byte === 0x22 && closing !== undefined && !closing.blocked.has(i)
      const end = isEnd ? language.placeAt(at) : undefined
      if (closing && end?.isBetween && language.accepts(end.state, lengths[level]!)) {
        const closed = closing.closed(end)
        if (closed.length > 0) {
          for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
          walkFrames(trie, i + 1, skip[i]!, closed, emit)
        }
      }
      i = skip[i]!
      continue
    }
    if (counts) {
      const far = language.counted(lengths[level]! + whole[reached]!)
      const isDead = far + least[reached]! > max
      if (isDead || (far < min && !language.placeAt(reached).lives(far))) {
        i = skip[i]!
        continue
      }
      lengths[level + 1] = far
    } else lengths[level + 1] = length
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    places[level + 1] = reached
    i++
  }
}

function next(place: StringPlace, at: number, byte: number): number {
  const known = place.language.table[at * 256 + byte]!
  return known === unread ? place.language.read(at, byte) : known
}

/** The same for free text, which only its triggers interrupt. */
function walkText(trie: Trie, from: number, to: number, frame: TextFrame, emit: Emit): void {
  const { bytes, depth, skip, entry, twin } = trie
  const { text, hasRest } = frame
  const { table } = text
  const base = depth[from]!
  const stack = [frame.state]
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const reached = table[stack[level]! * 256 + bytes[i]!]!
    if (hasRest || text.opens(reached)) {
      // Something else begins, or may begin, here: from now on with frames.
      const frames = advance([frame.at(stack[level]!)], bytes[i]!)
      if (frames.length > 0) for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
      walkFrames(trie, i + 1, skip[i]!, frames, emit)
      i = skip[i]!
      continue
    }
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    stack[level + 1] = reached
    i++
  }
}

// ---- special texts ----

/**
 * Goes down along bytes, as far as the trie goes; the children of the last node when it went all the way. What can only be
 * written as an escape is not gone through: those tokens are looked at one by one.
 */
function descend(
  trie: Trie,
  from: number,
  to: number,
  bytes: Uint8Array,
  visit: (node: number, depth: number) => void,
): { from: number; to: number } | undefined {
  for (let depth = 0; depth < bytes.length; depth++) {
    const byte = bytes[depth]!
    const isEscaped = byte < 0x20 || byte === 0x22 || byte === 0x5c
    const node = isEscaped ? -1 : trie.child(from, to, byte)
    if (node < 0) return undefined
    visit(node, depth + 1)
    from = node + 1
    to = trie.skip[node]!
  }
  return { from, to }
}

/** Tells whether, after some bytes, so few texts are left that it matters which of them are forbidden. */
function tightness({ place, length }: Inside): ((bytes: Uint8Array) => boolean) | undefined {
  if (!place || place.language.isWide) return undefined
  const { language } = place
  return (bytes) => {
    let at = place.index
    let far = length
    for (const byte of bytes) {
      at = next(place, at, byte)
      if (at < 0) return false
      if (language.placeAt(at).isBetween) far++
    }
    const end = language.placeAt(at)
    return !end.targets.every((state) => language.isEndless(state, far + 1))
  }
}

/**
 * Tells whether an escaped beginning has to be looked at, because it may be, or become, a special text. Where texts never
 * run out it matters only when it is one.
 */
function relation({ place, special }: Inside): (text: string) => boolean {
  const isWide = place?.language.isWide === true
  const byFirst = new Map<string, string[]>()
  for (const { rest } of special) {
    if (rest === "") continue
    const list = byFirst.get(rest.slice(0, 1))
    if (list) list.push(rest)
    else byFirst.set(rest.slice(0, 1), [rest])
  }
  return (text) => {
    if (text === "") return !isWide && byFirst.size > 0
    const near = byFirst.get(text.slice(0, 1))
    if (!near) return false
    return isWide ? near.includes(text) : near.some((r) => r.startsWith(text) || text.startsWith(r))
  }
}

/** Entries at nodes from `from` up to, not including, `to`. */
function between({ nodes, entries }: Trie["escaped"], from: number, to: number): Int32Array {
  return entries.subarray(firstAt(nodes, from), firstAt(nodes, to))
}

function firstAt(nodes: Int32Array, from: number): number {
  let low = 0
  let high = nodes.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (nodes[middle]! < from) low = middle + 1
    else high = middle
  }
  return low
}

function utf8(text: string): string {
  return Buffer.from(text).toString("latin1")
}
