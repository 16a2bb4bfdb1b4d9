// Images and recordings on their way into a prompt. A template writes a mark for each; where the mark stands among the template's own
// characters, and never where somebody's text spells it, the model's processor says what stands there instead, soft tokens among
// it. The rows that take the places of those come from a tower, which is asked once the prompt is known to fit.

import { createHash } from "node:crypto"
import type { GenerationMedia, PromptCoordinates, Sight } from "../engine/generation.ts"
import { type Problem, problem } from "../errors.ts"
import { LruMap } from "../lru.ts"
import type { Caller } from "../worker/lane.ts"
import { type Canvas, layCanvas } from "./canvas.ts"
import type { AudioPart, ChatMessage, ImagePart, MediumKind } from "./conversation.ts"
import { Text, TextBuilder } from "./jinja/text.ts"
import type { Marks } from "./rendering.ts"

/** What chat is given of what a model sees with, or hears with. */
export interface ChatMedium {
  kind: MediumKind
  /** What the model's template writes in the place of an image or a recording. */
  mark: string
  /** The token that stands for each of its rows in the prompt: its text and its id. */
  soft: { text: string; id: number }
  /** All tokens of a prompt that has one see each other. */
  isPromptMutual?: true
  /** Decodes and prepares it. @throws a Problem (`invalid_value`, naming `field`) where it is none, or too large */
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<PreparedMedium>
}

export interface PreparedMedium {
  /** SHA-256 of its bytes, hex: what is equal has equal rows. */
  hash: string
  /** What stands in the prompt in the place of its mark; `{image}` is its number there, from 0. */
  text: string
  /** How many soft tokens the text has, and rows come out of the tower. */
  rows: number
  /** They stand before all tokens, and the text has the mark, which is a token like others. */
  isInFront?: true
  /** How these lie in the image, where the model turns them by height and width: one line after the other. */
  grid?: Grid
  /** The same of a whole and its slices. */
  canvas?: Canvas
  /** The tower's rows [rows, taken]; computed once, kept for a while. */
  encode(caller: Caller): Promise<Float32Array>
}

export interface Grid {
  width: number
  height: number
  /** One more stands before the first line and one behind the last, which are counted as a text's tokens are, and so is what follows. */
  isFramed?: true
}

/** The images and recordings of a prompt, as the engine wants them. */
export interface PromptMedia {
  /** The whole prompt's. */
  tokens: Int32Array
  counted: Readonly<Record<MediumKind, number>>
  placed: Omit<GenerationMedia, "rows">
  /** What is computed at these positions in the place of the soft token's row. */
  encode(caller: Caller): Promise<Float32Array> // [rows of all of them, taken]
}

/** Bytes of an image file; few photographs have half as many. */
export const MAX_IMAGE = 20 * 1024 * 1024

/** Of an audio file, as OpenAI has it: 13 minutes of speech in 16 bits. */
export const MAX_AUDIO = 25 * 1024 * 1024

export const mostBytes = { image: MAX_IMAGE, audio: MAX_AUDIO } as const

const many = { image: "images", audio: "recordings" } as const
/** One of them, in sentences. */
export const called = { image: "an image", audio: "a recording" } as const

/** Of a file that has more than that. */
export function tooManyBytes(field: string, bytes: number, kind: MediumKind): Problem {
  const words = `${field} has ${bytes} bytes; ${called[kind]} may have at most ${mostBytes[kind]}.`
  return problem("invalid_value", { problem: words }, field)
}

/** The bytes of an image or a recording, and which it is. */
export function mediumOf(part: ImagePart | AudioPart): { kind: MediumKind; bytes: Uint8Array } {
  return "image" in part
    ? { kind: "image", bytes: part.image }
    : { kind: "audio", bytes: part.audio }
}

export function mediaIn(messages: readonly ChatMessage[]): (ImagePart | AudioPart)[] {
  return messages.flatMap(({ parts = [] }) =>
    parts.flatMap((part) => ("text" in part ? [] : [part])),
  )
}

const WHERE = "messages"

/** Throws the Problem that refuses so many tokens or more; absent: there is room for any number. */
type AssertRoom = ((tokens: number, field: string) => void) | undefined

/** What a model sees with, what it hears with, or both. */
export class Senses {
  readonly #media: ReadonlyMap<MediumKind, ChatMedium>
  readonly keys = new MediaKeys()

  /** @param media one of a kind at the most */
  constructor(media: readonly ChatMedium[]) {
    this.#media = new Map(media.map((medium) => [medium.kind, medium]))
  }

  get all(): ChatMedium[] {
    return [...this.#media.values()]
  }

  has(kind: MediumKind): boolean {
    return this.#media.has(kind)
  }

  of(kind: MediumKind): ChatMedium {
    const medium = this.#media.get(kind)
    if (!medium) throw new Error(`internal: ${kind} for a model that takes none`)
    return medium
  }
}

const MAX_KEYED = 10_000 // images or recordings
const MAX_KEY = 2 ** 31

/**
 * What images and recordings are known by in a prefix cache. Numbers of rows: negative, so that none is a token's id, and given to one image
 * or recording alone, as a hash of 31 bits would not be. One that is forgotten gets others, which costs it its prefix; and some million
 * images later they begin again.
 */
export class MediaKeys {
  readonly #firsts = new LruMap<{ key: number }>(MAX_KEYED)
  #next = 1

  of({ hash, rows }: Pick<PreparedMedium, "hash" | "rows">): number[] {
    const { key } = this.#firsts.get(hash) ?? this.#firsts.put(hash, { key: this.#take(rows) })
    return Array.from({ length: rows }, (_, row) => -key - row)
  }

  #take(rows: number): number {
    if (this.#next + rows > MAX_KEY) this.#next = 1
    const first = this.#next
    this.#next += rows
    return first
  }
}

/** What of a template's text stands for an image or a recording. */
interface Mark {
  at: number
  medium: ChatMedium
}

/** One that is prepared. */
export interface ShownMedium extends PreparedMedium {
  kind: MediumKind
}

/** The images and the recordings of one conversation. */
export class Media {
  readonly #senses: Senses
  readonly #given: readonly (ImagePart | AudioPart)[]
  readonly #assertRoom: AssertRoom
  readonly #caller: Caller

  /** @param given in the order in which the conversation has them, of kinds that the model takes */
  constructor(
    senses: Senses,
    given: readonly (ImagePart | AudioPart)[],
    assertRoom: AssertRoom,
    caller: Caller = { client: "" },
  ) {
    this.#senses = senses
    this.#given = given
    this.#assertRoom = assertRoom
    this.#caller = caller
  }

  /** What the model's template writes in the place of each kind. */
  get marks(): Marks {
    return Object.fromEntries(this.#senses.all.map(({ kind, mark }) => [kind, mark]))
  }

  /** @throws `template_failed` where a template has written more or fewer marks than there are */
  assertShown(rendered: Text): void {
    const marks = this.#marksIn(rendered)
    for (const { kind, mark } of this.#senses.all) {
      const written = marks.filter(({ medium }) => medium.kind === kind).length
      const { length } = this.#given.filter((part) => mediumOf(part).kind === kind)
      if (written === length) continue
      const words = `it writes ${JSON.stringify(mark)} ${written} times for ${length} ${many[kind]}.`
      throw problem("template_failed", { problem: words }, WHERE)
    }
  }

  /**
   * The text with each mark's place taken by what stands for it, and the images and recordings.
   * @param order in which a template was shown them: places in the list of what was given
   * @throws the problem that refuses one, or that all of them are too long
   */
  async shown(
    rendered: Text,
    order: readonly number[],
  ): Promise<{ text: Text; media: readonly ShownMedium[] }> {
    this.assertShown(rendered)
    const marks = this.#marksIn(rendered)
    const waiting = order.map((place) => this.#given[place]!)
    const parts = marks.map(({ medium: { kind } }) => {
      const next = waiting.findIndex((part) => mediumOf(part).kind === kind)
      return waiting.splice(next, 1)[0]!
    })
    const media = await this.#prepared(parts)
    const text = new TextBuilder()
    let end = 0
    for (const [index, { at, medium }] of marks.entries()) {
      text.add(rendered.slice(end, at))
      const { text: words, kind } = media[index]!
      const number = media.slice(0, index).filter((other) => other.kind === kind).length
      text.add(new Text(words.replace("{image}", `${number}`)))
      end = at + medium.mark.length
    }
    text.add(rendered.slice(end, rendered.length))
    return { text: text.done(), media }
  }

  /** Where a prompt has them. @throws `template_failed` where it has other soft tokens beside theirs */
  found(given: Int32Array, media: readonly ShownMedium[]): PromptMedia {
    const { all, keys: known } = this.#senses
    const counted = { image: 0, audio: 0 }
    for (const { kind } of media) counted[kind]++
    const marked = media.filter(({ isInFront }) => isInFront)
    const front = marked.reduce((sum, { rows }) => sum + rows, 0)
    const tokens = front > 0 ? withFront(given, front, this.#senses.of("image").soft.id) : given
    for (const { kind, soft } of all) {
      const own = media.filter((medium) => medium.kind === kind)
      const rows = own.reduce((sum, { rows, isInFront }) => sum + rows + Number(isInFront ?? 0), 0)
      if (tokens.reduce((sum, token) => sum + Number(token === soft.id), 0) === rows) continue
      const words = `it writes ${JSON.stringify(soft.text)}, which stands for rows of ${many[kind]}, beside them.`
      throw problem("template_failed", { problem: words }, WHERE)
    }
    const softs = new Set(all.map(({ soft }) => soft.id))
    const at = tokens.map((token, position) => (softs.has(token) ? position : -1))
    const soft = at.filter((position) => position >= 0)
    const places = front > 0 ? soft.subarray(0, front) : soft
    const keys = media.flatMap(({ kind, hash, rows }) => known.of({ hash: kind + hash, rows }))
    const heard = media.flatMap(({ kind, rows }) =>
      Array<number>(rows).fill(Number(kind === "audio")),
    )
    const coordinates = coordinatesOf(tokens, places, media)
    const isWhole = media.some(({ kind }) => this.#senses.of(kind).isPromptMutual)
    return {
      tokens,
      counted,
      placed: {
        at: places,
        keys: Int32Array.from(keys),
        ...(counted.audio > 0 && { heard: Uint8Array.from(heard) }),
        ...(coordinates && { coordinates }),
        ...(isWhole && { promptKey: known.of({ hash: hashOf(tokens, keys), rows: 1 })[0]! }),
        ...(front > 0 && { sights: sightsOf(soft.subarray(front), marked) }),
      },
      encode: (caller) => encoded(media, caller),
    }
  }

  /** One after the other, until they are known not to fit: each takes a processor a while. */
  async #prepared(parts: readonly (ImagePart | AudioPart)[]): Promise<ShownMedium[]> {
    const media: ShownMedium[] = []
    let rows = 0
    for (const [index, part] of parts.entries()) {
      const { field = WHERE } = part
      const { kind, bytes } = mediumOf(part)
      if (bytes.length > mostBytes[kind]) throw tooManyBytes(field, bytes.length, kind)
      this.#assertRoom?.(rows + parts.length - index, WHERE) // each to come has a row at least
      this.#caller.signal?.throwIfAborted()
      const prepared = await this.#senses.of(kind).prepare(bytes, field, this.#caller)
      rows += prepared.rows
      media.push({ ...prepared, kind })
    }
    this.#assertRoom?.(rows, WHERE)
    return media
  }

  /** Where the template's own characters spell marks, in order. */
  #marksIn(rendered: Text): Mark[] {
    const marks: Mark[] = []
    for (const { from, to, source } of rendered.runs()) {
      if (source !== 0) continue
      const run = rendered.value.slice(from, to)
      for (const medium of this.#senses.all) {
        const { mark } = medium
        for (let at = run.indexOf(mark); at >= 0; at = run.indexOf(mark, at + mark.length))
          marks.push({ at: from + at, medium })
      }
    }
    return marks.sort((one, other) => one.at - other.at)
  }
}

/** Of a prompt, by its tokens and by what its rows are known by. */
function hashOf(tokens: Int32Array, keys: readonly number[]): string {
  const hash = createHash("sha256")
  for (const part of [tokens, Int32Array.from(keys)]) hash.update(part).update(":")
  return `prompt${hash.digest("hex")}`
}

/** Rows before the tokens. */
function withFront(tokens: Int32Array, rows: number, soft: number): Int32Array {
  const all = new Int32Array(rows + tokens.length).fill(soft, 0, rows)
  all.set(tokens, rows)
  return all
}

/**
 * From each mark on tokens see its image and no other; where marks follow one another without anything between, from the second on all
 * of them so far (`get_cross_attention_token_mask` of transformers).
 * @param marks where they stand
 */
function sightsOf(marks: Int32Array, media: readonly PreparedMedium[]): Sight[] {
  const sights: Sight[] = []
  let begin = 0
  for (const [index, { rows }] of media.entries()) {
    const before = sights.at(-1)
    const at = marks[index]!
    const from = before?.at === at - 1 ? before.from : begin
    sights.push({ at, from, to: begin + rows - 1 })
    begin += rows
  }
  return sights
}

/**
 * Time, height and width of each token of a prompt, as `get_rope_index` of transformers has them: a text's tokens follow one another
 * in all three, and so do a recording's; an image's are where they lie in its grid, at one time; and what is behind it goes on from
 * the largest of them. Where images are framed, their time is their number, and what is behind one goes on from its position.
 * @param at of the soft tokens
 * @returns nothing where no image has a grid
 */
function coordinatesOf(
  tokens: Int32Array,
  at: Int32Array,
  media: readonly PreparedMedium[],
): PromptCoordinates | undefined {
  if (media.every(({ grid, canvas }) => !grid && !canvas)) return undefined
  const { length } = tokens
  const ofPrompt = new Int32Array(3 * length)
  const set = (position: number, ...places: readonly [number, number, number]) => {
    for (const [axis, place] of places.entries()) ofPrompt[axis * length + position] = place
  }
  let [position, next, row, number] = [0, 0, 0, 0]
  const textTo = (end: number) => {
    for (; position < end; position++, next++) set(position, next, next, next)
  }
  for (const { grid, canvas, rows } of media) {
    if (canvas) {
      textTo(at[row]! - 1)
      const softs = at.subarray(row, row + rows)
      const laid = layCanvas(canvas, { tokens, softs, origin: next, set })
      ;[position, next] = [laid.end, laid.next]
    }
    if (grid) {
      const { width, height, isFramed } = grid
      textTo(at[row]! + Number(isFramed ?? false))
      const [time, from] = isFramed ? [number, 0] : [next, next]
      for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++) set(position++, time, from + y, from + x)
      next += isFramed ? width * height : Math.max(width, height)
      number++
    }
    row += rows
  }
  textTo(length)
  return { ofPrompt, behind: length - next }
}

/** All rows, in order. The signal ends what is being computed. */
async function encoded(media: readonly PreparedMedium[], caller: Caller): Promise<Float32Array> {
  const pieces: Float32Array[] = []
  for (const medium of media) {
    caller.signal?.throwIfAborted()
    pieces.push(await medium.encode(caller))
  }
  const rows = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    rows.set(piece, at)
    at += piece.length
  }
  return rows
}
