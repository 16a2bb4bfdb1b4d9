// Rows of an image whose tiles a tower reads at once, in which every patch sees those of all tiles (Llama 3.2 Vision). A tile is a class's
// row and its patches'; behind each tile the tower has rows that nothing stands in, up to a multiple of eight, and tiles are as many as
// there may be, those that the image lacks without pixels. All of that is seen by the rows of the image, and none of it by its own kind:
// so what is the image's comes first here, and the rest behind it.
//
// Behind a row's pixels stand a one in the column of its tile's number, then whether it is a patch, and whether a class.

import type { Cutting, Size, Tile } from "./image.ts"

export type Together = Extract<Cutting, { kind: "together" }>

/** What is read of a tile, and how many of them may be an image. */
export interface TogetherShape {
  /** Patches a side of a tile. */
  side: number
  most: number
}

const EIGHT = 8

/** Rows of a tile that something stands in: its class's and its patches'. */
const ownRows = ({ side }: TogetherShape) => side * side + 1

const wholeRows = (shape: TogetherShape) => Math.ceil(ownRows(shape) / EIGHT) * EIGHT

/** Of an image, in the tower. */
export const togetherRows = (shape: TogetherShape) => shape.most * wholeRows(shape)

/** Rows that come out of one. */
export const cameOut = (shape: TogetherShape, tiles: number) => tiles * ownRows(shape)

/** How tiles may lie, height first: those of one row come first. */
export function arrangements(most: number): [height: number, width: number][] {
  const all: [number, number][] = []
  for (let height = 1; height <= most; height++)
    for (let width = 1; width * height <= most; width++) all.push([height, width])
  return all
}

/** Numbers of tiles: of each arrangement as many as there may be, and before them those of none. */
export const tileNumbers = (most: number) => (arrangements(most).length + 1) * most

/** Columns behind a row's pixels. */
export const toldColumns = (most: number) => tileNumbers(most) + 2

/** What stands in a row: of the tile of that number a patch, or its class (0, and patches from 1 on); or nothing. */
interface Standing {
  tile: number
  at: number | undefined
}

/** Of each row in the tower. */
function standing(shape: TogetherShape, tiles: number): Standing[] {
  const rows = Array.from({ length: shape.most }, (_, tile) =>
    Array.from({ length: wholeRows(shape) }, (_, at) => ({
      tile,
      at: at < ownRows(shape) ? at : undefined,
    })),
  ).flat()
  const isSeen = ({ tile, at }: Standing) => tile < tiles && at !== undefined
  return [...rows.filter(isSeen), ...rows.filter((row) => !isSeen(row))]
}

/** Of row `row` the patch of the image, tile after tile; undefined where there is none. */
export function patchAt(
  shape: TogetherShape,
  { width, height }: Size,
  row: number,
): { column: number; line: number } | undefined {
  const { side } = shape
  const [tile, at] = [Math.floor(row / ownRows(shape)), row % ownRows(shape)]
  if (tile >= width * height || at === 0) return undefined
  return {
    column: (tile % width) * side + ((at - 1) % side),
    line: Math.floor(tile / width) * side + Math.floor((at - 1) / side),
  }
}

/** @param given rows with their pixels; what stands behind these is written here @param grid of tiles */
export function togetherTile(given: Float32Array, shape: TogetherShape, grid: Size): Tile {
  const { side, most } = shape
  const [tiles, own] = [grid.width * grid.height, ownRows(shape)]
  const rows = standing(shape, tiles)
  const taken = given.length / rows.length
  const told = taken - toldColumns(most)
  const isIts = ([height, width]: [number, number]) =>
    height === grid.height && width === grid.width
  const first = (1 + arrangements(most).findIndex(isIts)) * most
  const places = new Int32Array(rows.length)
  const coordinates = new Int32Array(3 * rows.length)
  for (const [row, { tile, at }] of rows.entries()) {
    const number = first + tile
    given[row * taken + told + number] = 1
    if (at === undefined) continue
    given[row * taken + told + tileNumbers(most) + (at > 0 ? 0 : 1)] = 1
    places[row] = number * (side * side + 1) + at
    coordinates[rows.length + row] = at
  }
  const count = tiles * own
  const seenTo = new Int32Array(rows.length).fill(count - 1).fill(rows.length - 1, 0, count)
  const wanted = Int32Array.from({ length: count }, (_, row) => row)
  return { given, places, wanted, coordinates, seenTo, seenFrom: new Int32Array(rows.length) }
}
