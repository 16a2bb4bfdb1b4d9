// From states to masks. Most frames let few bytes pass: for them the trie is walked with the frames themselves. Inside
// quotes nearly everything passes, and what passes without closing them depends on the language and the place in it alone:
// that part is made once and shared by all grammars. To it come the tokens that hold a quote, told apart by what stands
// before it and what follows, and the few texts that are special: names that are mentioned or seen, items that may not come
// again. Masks are kept, up to a bound for each vocabulary; the one used longest ago is forgotten first.

import type { Frame, Inside, Special } from "./frames.ts"
import type { StringPlace } from "./strings.ts"
import { type Head, isSet, put, set, type Vocabulary } from "./vocabulary.ts"
import {
  descend,
  insideOf,
  isScarce,
  next,
  passes,
  relation,
  tightness,
  walkFrames,
  walkLanguage,
} from "./walks.ts"

const maxBytes = 64 << 20
const mostKeys = 100_000
const mostFollows = 256

const byVocabulary = new WeakMap<Vocabulary, Masks>()

/** The masks of all grammars over one vocabulary. */
export function masksOf(vocabulary: Vocabulary): Masks {
  const masks = byVocabulary.get(vocabulary) ?? new Masks(vocabulary)
  byVocabulary.set(vocabulary, masks)
  return masks
}

export class Masks {
  private readonly vocabulary: Vocabulary
  /** By signature of a frame, as far as a token reaches; by language and place; and by these and what follows the quote. */
  private readonly kept = new Map<number | string, Uint32Array>()
  /** How many keys lead to each mask: places that let the same pass share one. */
  private readonly uses = new Map<Uint32Array, number>()
  private readonly byContent = new Map<number, Uint32Array>()
  private readonly most: number
  /** What may follow a quote, by the signatures of the frames behind it. */
  private readonly follows = new Map<string, Uint8Array>()

  constructor(vocabulary: Vocabulary) {
    this.vocabulary = vocabulary
    this.most = Math.max(16, Math.floor(maxBytes / (4 * vocabulary.words)))
  }

  /** The tokens that a frame lets pass. Do not change it. */
  of(frame: Frame): Uint32Array {
    return this.known(frame.signature("token"), () => this.make(frame))
  }

  private known(key: number | string, make: () => Uint32Array): Uint32Array {
    const known = this.kept.get(key)
    const mask = known ?? this.shared(make())
    if (known) this.kept.delete(key)
    else this.uses.set(mask, (this.uses.get(mask) ?? 0) + 1)
    this.kept.set(key, mask)
    while (this.uses.size > this.most || this.kept.size > mostKeys) this.forgetOldest()
    return mask
  }

  /** The one with the same content, if there is one. */
  private shared(mask: Uint32Array): Uint32Array {
    const hash = hashOf(mask)
    const known = this.byContent.get(hash)
    if (known && areEqual(known, mask)) return known
    this.byContent.set(hash, mask)
    return mask
  }

  private forgetOldest(): void {
    const [key, mask] = this.kept.entries().next().value!
    this.kept.delete(key)
    const left = this.uses.get(mask)! - 1
    if (left > 0) this.uses.set(mask, left)
    else {
      this.uses.delete(mask)
      const hash = hashOf(mask)
      if (this.byContent.get(hash) === mask) this.byContent.delete(hash)
    }
  }

  private make(frame: Frame): Uint32Array {
    const { trie, ends, words } = this.vocabulary
    const inside = insideOf(frame)
    // Inside a character the next quote may be part of an escape, but few bytes fit.
    if (inside && inside.place?.isBetween !== false) return this.makeInside(frame, inside)
    const mask = new Uint32Array(words)
    walkFrames(trie, 0, trie.bytes.length, [frame], (token) => set(mask, token))
    if (frame.finishes()) for (const end of ends) set(mask, end)
    return mask
  }

  private makeInside(frame: Frame, inside: Inside): Uint32Array {
    const { vocabulary } = this
    const { place, special } = inside
    const unspecial = place && this.unspecial(inside, place)
    const doubtful = new Set<number>()
    if (inside.isKept && unspecial) {
      const { repeating, goingOn } = vocabulary.trie
      for (const token of repeating.entries) doubtful.add(token)
      if (isScarce(inside)) {
        for (const token of goingOn.entries) if (isSet(unspecial, token)) doubtful.add(token)
      }
    }
    if (special.length > 0) {
      const { firsts, isRelated } = relation(inside)
      for (const first of ["", ...firsts]) {
        for (const { token, text } of vocabulary.unescaped.get(first) ?? []) {
          if (isRelated(text)) doubtful.add(token)
        }
      }
    } else if (doubtful.size === 0 && unspecial) return unspecial
    const mask = unspecial?.slice() ?? new Uint32Array(vocabulary.words)
    for (const one of special) this.addSpecial(inside, one, mask, doubtful)
    for (const token of doubtful) {
      put(mask, token, passes([frame], vocabulary.tokens[token]!))
    }
    return mask
  }

  private addSpecial(inside: Inside, one: Special, mask: Uint32Array, doubtful: Set<number>): void {
    const { trie, heads, tails } = this.vocabulary
    const path = Buffer.from(one.rest)
    const head = heads.get(path.toString("latin1"))
    if (head) {
      const closed = one.closed()
      head.tokens.forEach((token, i) => {
        const tail = head.tails[i]!
        put(mask, token, tail < 0 ? closed.length > 0 : passes(closed, tails.texts[tail]!))
      })
    }
    const isTight = tightness(inside)
    if (!one.leads && !isTight) return
    descend(trie, 0, trie.bytes.length, path, (node, depth) => {
      for (let e = trie.entry[node]!; e >= 0; e = trie.twin[e]!) {
        if (one.leads) set(mask, e)
        else if (isTight!(path.subarray(0, depth))) doubtful.add(e)
      }
    })
  }

  /** What passes where no text is special. */
  private unspecial(inside: Inside, place: StringPlace): Uint32Array {
    const { language, index } = place
    const { length, key } = inside
    const { mostChars, words } = this.vocabulary
    const room = length < language.min ? length : language.roomFor(length, mostChars)
    return this.known(`${language.id} ${index} ${room} ${key}`, () => {
      const mask = new Uint32Array(words)
      mask.set(this.unclosed(place, length))
      this.addClosing(inside, place, (token) => set(mask, token))
      return mask
    })
  }

  /** The tokens that stay inside the quotes. */
  private unclosed(place: StringPlace, length: number): Uint32Array {
    const { vocabulary } = this
    const { language } = place
    const room = language.roomFor(length, vocabulary.mostChars)
    return this.known(`${language.id} ${place.index} ${room}`, () => {
      const mask = new Uint32Array(vocabulary.words)
      if (!language.free) {
        const { trie } = vocabulary
        const emit = (token: number) => set(mask, token)
        walkLanguage(trie, 0, trie.bytes.length, place, length, emit, undefined)
        return mask
      }
      mask.set(vocabulary.plain(language.max - length))
      const { trie, tokens } = vocabulary.escaped
      const emit = (entry: number) => set(mask, tokens[entry]!)
      walkLanguage(trie, 0, trie.bytes.length, place, length, emit, undefined)
      return mask
    })
  }

  /** The tokens that close the quotes. */
  private addClosing(inside: Inside, place: StringPlace, emit: (token: number) => void): void {
    const { heads, escapedQuoted } = this.vocabulary
    for (const head of heads.values()) {
      const closed = closedAfter(inside, place, head)
      if (!closed || closed.length === 0) continue
      const allowed = this.following(closed)
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

  /** A flag for each tail that the frames let pass. */
  private following(frames: readonly Frame[]): Uint8Array {
    const key = frames.map((frame) => frame.signature("token")).join()
    let allowed = this.follows.get(key)
    if (!allowed) {
      const { tails } = this.vocabulary
      const flags = new Uint8Array(tails.texts.length)
      walkFrames(tails, 0, tails.bytes.length, frames, (entry) => {
        flags[entry] = 1
      })
      allowed = flags
      this.follows.set(key, allowed)
      if (this.follows.size > mostFollows) {
        this.follows.delete(this.follows.keys().next().value!)
      }
    }
    return allowed
  }
}

// Most masks of a document are alike, and 12 KiB each.
function hashOf(mask: Uint32Array): number {
  let hash = 0
  for (let i = 0; i < mask.length; i++)
    hash = Math.imul(hash ^ mask[i]!, 0x9e3779b1) ^ (hash >>> 15)
  return hash
}

function areEqual(a: Uint32Array, b: Uint32Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
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
