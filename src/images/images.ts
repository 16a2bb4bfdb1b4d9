// Images as a tower takes them. Decoding, resizing and cutting are done in a process of its own, which begins with the first
// image: the decoders are native code that reads what strangers sent, and whatever they do costs one request. One image after
// the other; its rows come in pieces, so that no piece holds up the event loop.

import { codeRoot } from "../code-root.ts"
import type { Log } from "../log.ts"
import { type Ask, Decoder, type DecodingLimits, refusedFile } from "../worker/decoder.ts"
import type { Caller } from "../worker/lane.ts"
import { framed, packed } from "./arrangement.ts"
import type { Grid } from "./cut.ts"
import { fits, type ImageProcessing, type SeenImage, type Size, type Tile } from "./image.ts"
import {
  gridOf,
  type Layout,
  layoutOf,
  pixelColumns,
  rowsOf,
  takenOf,
  tileOf,
  wantedOf,
} from "./patches.ts"
import { textOf } from "./wording.ts"

export type Order =
  | { kind: "cut"; bytes: Uint8Array }
  /** Of the image that was cut last. */
  | { kind: "rows"; tile: number; from: number; to: number }

export type Answer =
  /** How large each tile is, and the picture was. */
  { grid: Grid; tiles: Size[]; picture: Size } | { refusal: string } | { pixels: Float32Array }

export interface Images {
  /**
   * @param field of the request that holds the image, for sentences
   * @param caller whose turn it is
   * Rejects with `invalid_value` where it is no image or too large, with `queue_full`, with WorkerLost, or with the signal's reason.
   */
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<SeenImage>
  close(): Promise<void>
}

/** Bytes of rows that come at once: one or two milliseconds of the event loop. */
const PIECE = 2 * 2 ** 20

export function openImages(
  processing: ImageProcessing,
  log?: Log,
  limits: Partial<DecodingLimits> = {},
): Images {
  const decoder = new Decoder<Order, Answer>({
    name: "image decoder",
    file: new URL("images/image-worker", codeRoot),
    opening: processing,
    log,
    limits,
    costly: (why) => `is an image that cannot be decoded: ${why}; send it smaller`,
  })

  async function prepare(
    bytes: Uint8Array,
    field: string,
    ask: Ask<Order, Answer>,
  ): Promise<SeenImage> {
    const answer = await ask({ kind: "cut", bytes })
    if ("refusal" in answer) throw refusedFile(field, answer.refusal)
    if (!("grid" in answer)) throw new Error("internal: an image was cut, and no grid came of it")
    const tiles: Tile[] = []
    for (const [number, size] of answer.tiles.entries()) {
      const layout = layoutOf(processing, size)
      tiles.push(tileOf(await pixelsFrom(number, layout, ask), layout))
    }
    return { tiles, ...toldOf(processing, answer) }
  }

  async function pixelsFrom(
    tile: number,
    layout: Layout,
    ask: Ask<Order, Answer>,
  ): Promise<Float32Array> {
    const [taken, columns] = [takenOf(layout), pixelColumns(layout)]
    const rows = rowsOf(layout)
    const pixels = new Float32Array(rows * taken)
    const step = Math.max(1, Math.floor(PIECE / (4 * columns)))
    for (let from = 0; from < rows; from += step) {
      const to = Math.min(from + step, rows)
      const answer = await ask({ kind: "rows", tile, from, to })
      if (!("pixels" in answer)) throw new Error("internal: rows of an image came without pixels")
      for (let row = from; row < to; row++) {
        const own = answer.pixels.subarray((row - from) * columns, (row - from + 1) * columns)
        pixels.set(own, row * taken)
      }
    }
    return pixels
  }

  return {
    prepare: (bytes, field, caller) =>
      decoder.decode(bytes, field, caller, (ask) => prepare(bytes, field, ask)),
    close: () => decoder.close(),
  }
}

/** What is said of an image, by how it was cut. */
function toldOf(
  processing: ImageProcessing,
  { grid, tiles, picture }: Extract<Answer, { grid: Grid }>,
): Omit<SeenImage, "tiles"> {
  const { cutting, mark, soft, isFramed, isPlaced, isInFront, canvas } = processing
  const layout = layoutOf(processing, tiles[0]!)
  const ofTiles = tiles.map((size) => wantedOf(layoutOf(processing, size)).length)
  const [first, last] = [ofTiles[0]!, ofTiles.at(-1)!]
  const [rows, ofWhole] = cutting.kind === "slices" ? [last, first] : [first, last]
  if (cutting.kind === "anyres") {
    const arrangement = packed(picture, grid, Math.sqrt(rows), cutting.most)
    const count = arrangement.from.length / arrangement.taps
    return { text: soft.repeat(count), rows: count, arrangement }
  }
  if (isInFront) return { text: mark, isInFront, rows: first }
  if (isFramed) {
    const { width, height } = gridOf(layout)
    const arrangement = framed({ width, height })
    const count = arrangement.from.length
    const placed = { width: width + 1, height, isFramed }
    return { text: soft.repeat(count), rows: count, arrangement, grid: placed }
  }
  const own = fits(cutting) && cutting.kind !== "slices" ? gridOf(layout) : undefined
  return {
    text: textOf(processing, grid, rows, own?.width, ofWhole),
    rows: ofTiles.reduce((sum, each) => sum + each, 0),
    ...(own && isPlaced && { grid: own }),
    ...(canvas && { canvas: { ...canvas, ...canvasOf(processing, grid, tiles) } }),
  }
}

/** The whole is the first tile; slices of it are of one size. */
function canvasOf(processing: ImageProcessing, { width, height }: Grid, tiles: readonly Size[]) {
  const [whole, ...slices] = tiles.map((size) => gridOf(layoutOf(processing, size)))
  const lying = { columns: width, lines: height, each: slices[0]! }
  return { whole: whole!, ...(slices.length > 0 && { slices: lying }) }
}
