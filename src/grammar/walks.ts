// Walks over a trie, or over the nodes of it that lie between two at the same level: which entries let frames through. Most
// go byte by byte with the frames themselves; strings, names, numbers and free text have tables of their own to walk on.

import { advance, type Frame, type Inside } from "./frames.ts"
import { canEnd, canGoOn, LanguageFrame } from "./language-frame.ts"
import { NameFrame } from "./machine.ts"
import { MemberNameFrame } from "./member-name-frame.ts"
import { TextFrame } from "./parts.ts"
import { NumberFrame, StringFrame } from "./scalars.ts"
import { type StringPlace, unread } from "./strings.ts"
import { goesOn, type Trie, unescaped } from "./vocabulary.ts"

export function insideOf(frame: Frame): Inside | undefined {
  return frame instanceof StringFrame || frame instanceof NameFrame ? frame.inside() : undefined
}

export function passes(frames: readonly Frame[], bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    frames = advance(frames, byte)
    if (frames.length === 0) return false
  }
  return true
}

type Emit = (entry: number) => void

const none: readonly Frame[] = []

/** Emits the entries that the frames let pass; `frames` stand before the first node's byte. */
export function walkFrames(
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
  if (from >= to) return none
  if (frames.length === 1) return walkSpecialFrame(trie, from, to, frames[0]!, emit) ? none : frames
  const left = frames.filter((frame) => !walkSpecialFrame(trie, from, to, frame, emit))
  return left.length < frames.length ? left : frames
}

function walkSpecialFrame(trie: Trie, from: number, to: number, frame: Frame, emit: Emit): boolean {
  if (frame instanceof TextFrame) walkText(trie, from, to, frame, emit)
  else if (frame instanceof LanguageFrame) walkPlain(trie, from, to, frame, emit)
  else if (frame instanceof NumberFrame && frame.isPlain) walkNumber(trie, from, to, frame, emit)
  else if (frame instanceof MemberNameFrame) return walkName(trie, from, to, frame, emit)
  else {
    const inside = insideOf(frame)
    if (!inside) return false
    walkInside(trie, from, to, frame, inside, emit)
  }
  return true
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
    const { isRelated } = relation(inside)
    for (const e of between(trie.escaped, from, to)) {
      if (isRelated(unescaped(trie.texts[e]!.subarray(base)))) doubtful.add(e)
    }
  }
  if (inside.isKept) for (const e of between(trie.repeating, from, to)) doubtful.add(e)
  if (inside.place) {
    const scarce = isScarce(inside)
    const sure = (e: number) => {
      if (scarce && goesOn(trie.texts[e]!)) doubtful.add(e)
      else if (!doubtful.has(e)) emit(e)
    }
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
export function walkLanguage(
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

export function next(place: StringPlace, at: number, byte: number): number {
  const known = place.language.table[at * 256 + byte]!
  return known === unread ? place.language.read(at, byte) : known
}

/** The same for a number whose spelling does not matter: a frame for each byte of it would cost more than all else. */
function walkNumber(trie: Trie, from: number, to: number, frame: NumberFrame, emit: Emit): void {
  const { bytes, depth, skip, entry, twin } = trie
  const base = depth[from]!
  const stack = [frame.node]
  let after: readonly Frame[] | undefined
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const node = stack[level]!
    const next = node.step(bytes[i]!)
    if (next) {
      for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
      stack[level + 1] = next
      i++
      continue
    }
    if (node.canEnd()) {
      after ??= frame.at(node).ended()
      const frames = advance(after, bytes[i]!)
      if (frames.length > 0) {
        for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
        walkFrames(trie, i + 1, skip[i]!, frames, emit)
      }
    }
    i = skip[i]!
  }
}

/** The same for a text of a language, and from wherever in it the text may end for what follows. */
function walkPlain(trie: Trie, from: number, to: number, frame: LanguageFrame, emit: Emit): void {
  const { bytes, depth, skip, entry, twin } = trie
  const { place } = frame
  const base = depth[from]!
  const places = [place.index]
  let after: readonly Frame[] | undefined
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const reached = next(place, places[level]!, bytes[i]!)
    if (reached < 0) {
      i = skip[i]!
      continue
    }
    for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
    const at = place.language.placeAt(reached)
    if (canEnd(at)) {
      after ??= frame.after()
      walkFrames(trie, i + 1, skip[i]!, after, emit)
    }
    places[level + 1] = reached
    i = canGoOn(at) ? i + 1 : skip[i]!
  }
}

/** The same for a name without quotes, while names without end may come of it; false, and nothing emitted, elsewhere. */
function walkName(
  trie: Trie,
  from: number,
  to: number,
  frame: MemberNameFrame,
  emit: Emit,
): boolean {
  const { others, owner } = frame
  if (!others) return false
  const { bytes, depth, skip, entry, twin } = trie
  const base = depth[from]!
  const places = [others.index]
  const path: number[] = []
  for (let i = from; i < to; ) {
    const level = depth[i]! - base
    const reached = next(others, places[level]!, bytes[i]!)
    path[level] = bytes[i]!
    if (reached >= 0) {
      for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
      places[level + 1] = reached
      i++
      continue
    }
    if (bytes[i] === owner.nameEnd) {
      const ended = path.slice(0, level + 1).reduce<readonly Frame[]>(advance, [frame])
      if (ended.length > 0) {
        for (let e = entry[i]!; e >= 0; e = twin[e]!) emit(e)
        walkFrames(trie, i + 1, skip[i]!, ended, emit)
      }
    }
    i = skip[i]!
  }
  return true
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
export function descend(
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

/**
 * True when so few strings remain that a later uniqueness check could exhaust them. Tokens that hold two strings, or continue
 * past a closing quote, are then simulated one by one.
 */
export function isScarce({ isKept, place }: Inside): boolean {
  return isKept && place !== undefined && !place.language.isWide
}

/** Tells whether, after some bytes, so few strings remain that forbidding some of them could leave none. */
export function tightness({ place, length }: Inside): ((bytes: Uint8Array) => boolean) | undefined {
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
export function relation({ place, special }: Inside) {
  const isWide = place?.language.isWide === true
  const byFirst = new Map<string, string[]>()
  for (const { rest } of special) {
    if (rest === "") continue
    const list = byFirst.get(rest.slice(0, 1))
    if (list) list.push(rest)
    else byFirst.set(rest.slice(0, 1), [rest])
  }
  const isRelated = (text: string) => {
    if (text === "") return !isWide && byFirst.size > 0
    const near = byFirst.get(text.slice(0, 1))
    if (!near) return false
    return isWide ? near.includes(text) : near.some((r) => r.startsWith(text) || text.startsWith(r))
  }
  return { firsts: byFirst.keys(), isRelated }
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
