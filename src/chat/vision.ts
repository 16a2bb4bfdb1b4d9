// Images on their way into a prompt. A template writes a mark for each; where the mark stands among the template's own
// characters, and never where somebody's text spells it, the model's processor says what stands there instead, soft tokens among
// it. The rows that take the places of those come from a tower, which is asked once the prompt is known to fit.

import type { GenerationImages, PromptCoordinates } from "../engine/generation.ts"
import { type Problem, problem } from "../errors.ts"
import { LruMap } from "../lru.ts"
import type { Caller } from "../worker/lane.ts"
import type { ChatMessage, ImagePart } from "./conversation.ts"
import { Text, TextBuilder } from "./jinja/text.ts"

/** What chat is given of a model that sees. */
export interface ChatVision {
  /** What the model's template writes in the place of an image. */
  mark: string
  /** The token that stands for each of an image's rows in the prompt: its text and its id. */
  soft: { text: string; id: number }
  /** Decodes and prepares an image. @throws a Problem (`invalid_value`, naming `field`) where it is none, or too large */
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<PreparedImage>
}

export interface PreparedImage {
  /** SHA-256 of its bytes, hex: equal images have equal rows. */
  hash: string
  /** What stands in the prompt in the place of its mark. */
  text: string
  /** How many soft tokens the text has, and rows come out of the tower. */
  rows: number
  /** How these lie in the image, where the model turns them by height and width: one line after the other. */
  grid?: Grid
  /** The tower's rows [rows, taken]; computed once, kept for a while. */
  encode(caller: Caller): Promise<Float32Array>
}

export interface Grid {
  width: number
  height: number
}

/** The images of a prompt, as the engine wants them. */
export interface PromptImages {
  count: number
  placed: Omit<GenerationImages, "rows">
  /** What is computed at these positions in the place of the soft token's row. */
  encode(caller: Caller): Promise<Float32Array> // [rows of all images, taken]
}

/** Bytes of an image file; few photographs have half as many. */
export const MAX_IMAGE = 20 * 1024 * 1024

/** Of an image file that has more than that. */
export function tooManyBytes(field: string, bytes: number): Problem {
  const words = `${field} has ${bytes} bytes; an image may have at most ${MAX_IMAGE}.`
  return problem("invalid_value", { problem: words }, field)
}

export function imagesIn(messages: readonly ChatMessage[]): ImagePart[] {
  return messages.flatMap(({ parts = [] }) => parts.filter((part) => "image" in part))
}

const WHERE = "messages"

/** Throws the Problem that refuses so many tokens or more; absent: there is room for any number. */
type AssertRoom = ((tokens: number, field: string) => void) | undefined

/** What a model's images are known by in its prefix cache. */
export interface KeyedVision extends ChatVision {
  keys: ImageKeys
}

const MAX_KEYED = 10_000 // images
const MAX_KEY = 2 ** 31

/**
 * Numbers of images' rows: negative, so that none is a token's id, and given to one image alone, as a hash of 31 bits would not be. An
 * image that is forgotten gets others, which costs it its prefix; and some million images later they begin again.
 */
export class ImageKeys {
  readonly #firsts = new LruMap<{ key: number }>(MAX_KEYED)
  #next = 1

  of({ hash, rows }: Pick<PreparedImage, "hash" | "rows">): number[] {
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

/** The images of one conversation. */
export class Sight {
  /** What its template writes in the place of an image. */
  readonly mark: string
  readonly #vision: KeyedVision
  readonly #given: readonly ImagePart[]
  readonly #assertRoom: AssertRoom
  readonly #caller: Caller

  /** @param given in the order in which the conversation has them */
  constructor(
    vision: KeyedVision,
    given: readonly ImagePart[],
    assertRoom: AssertRoom,
    caller: Caller = { client: "" },
  ) {
    this.mark = vision.mark
    this.#vision = vision
    this.#given = given
    this.#assertRoom = assertRoom
    this.#caller = caller
  }

  /** @throws `template_failed` where a template has written more or fewer marks than there are images */
  assertShown(rendered: Text): void {
    const written = this.#marksIn(rendered).length
    const { length } = this.#given
    if (written === length) return
    const words = `it writes ${JSON.stringify(this.mark)} ${written} times for ${length} images.`
    throw problem("template_failed", { problem: words }, WHERE)
  }

  /**
   * The text with each mark's place taken by what stands for its image, and its images.
   * @param order whose mark each is: places in the list of images
   * @throws the problem that refuses an image, or that all of them are too long
   */
  async shown(
    rendered: Text,
    order: readonly number[],
  ): Promise<{ text: Text; images: readonly PreparedImage[] }> {
    this.assertShown(rendered)
    const images = await this.#prepared(order)
    const text = new TextBuilder()
    let at = 0
    for (const [index, mark] of this.#marksIn(rendered).entries()) {
      text.add(rendered.slice(at, mark))
      text.add(new Text(images[index]!.text))
      at = mark + this.mark.length
    }
    text.add(rendered.slice(at, rendered.length))
    return { text: text.done(), images }
  }

  /** Where a prompt has its images. @throws `template_failed` where it has other soft tokens beside theirs */
  found(tokens: Int32Array, images: readonly PreparedImage[]): PromptImages {
    const { soft, keys: known } = this.#vision
    const at = tokens.map((token, position) => (token === soft.id ? position : -1))
    const places = at.filter((position) => position >= 0)
    const keys = images.flatMap((image) => known.of(image))
    if (places.length !== keys.length) {
      const words = `it writes ${JSON.stringify(soft.text)}, which stands for rows of images, beside them.`
      throw problem("template_failed", { problem: words }, WHERE)
    }
    const coordinates = coordinatesOf(tokens.length, places, images)
    return {
      count: images.length,
      placed: { at: places, keys: Int32Array.from(keys), ...(coordinates && { coordinates }) },
      encode: (caller) => encoded(images, caller),
    }
  }

  /** One after the other, until they are known not to fit: each takes a processor a while. */
  async #prepared(order: readonly number[]): Promise<PreparedImage[]> {
    const images: PreparedImage[] = []
    let rows = 0
    for (const [index, place] of order.entries()) {
      const { image, field = WHERE } = this.#given[place]!
      if (image.length > MAX_IMAGE) throw tooManyBytes(field, image.length)
      this.#assertRoom?.(rows + order.length - index, WHERE) // each to come has a row at least
      this.#caller.signal?.throwIfAborted()
      const prepared = await this.#vision.prepare(image, field, this.#caller)
      rows += prepared.rows
      images.push(prepared)
    }
    this.#assertRoom?.(rows, WHERE)
    return images
  }

  /** Where the template's own characters spell the mark. */
  #marksIn(rendered: Text): number[] {
    const places: number[] = []
    for (const { from, to, source } of rendered.runs()) {
      if (source !== 0) continue
      const run = rendered.value.slice(from, to)
      for (let at = run.indexOf(this.mark); at >= 0; ) {
        places.push(from + at)
        at = run.indexOf(this.mark, at + this.mark.length)
      }
    }
    return places
  }
}

/**
 * Time, height and width of each token of a prompt, as `get_rope_index` of transformers has them: a text's tokens follow one another
 * in all three; an image's are where they lie in its grid, at one time; and what is behind it goes on from the largest of them.
 * @param at of the soft tokens
 * @returns nothing where no image has a grid
 */
function coordinatesOf(
  length: number,
  at: Int32Array,
  images: readonly PreparedImage[],
): PromptCoordinates | undefined {
  const grids = images.flatMap(({ grid }) => grid ?? [])
  if (grids.length === 0) return undefined
  const ofPrompt = new Int32Array(3 * length)
  const set = (position: number, ...places: readonly [number, number, number]) => {
    for (const [axis, place] of places.entries()) ofPrompt[axis * length + position] = place
  }
  let [position, next, row] = [0, 0, 0]
  const textTo = (end: number) => {
    for (; position < end; position++, next++) set(position, next, next, next)
  }
  for (const { width, height } of grids) {
    textTo(at[row]!)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++) set(position++, next, next + y, next + x)
    next += Math.max(width, height)
    row += width * height
  }
  textTo(length)
  return { ofPrompt, behind: length - next }
}

/** All rows, in the order of the images. The signal ends what is being computed. */
async function encoded(images: readonly PreparedImage[], caller: Caller): Promise<Float32Array> {
  const pieces: Float32Array[] = []
  for (const image of images) {
    caller.signal?.throwIfAborted()
    pieces.push(await image.encode(caller))
  }
  const rows = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    rows.set(piece, at)
    at += piece.length
  }
  return rows
}
