// What stands in the prompt for an image: its soft tokens, and what the model was trained to read around them. As
// `replace_image_token` of the processors in transformers writes it.

import type { Grid } from "./cut.ts"
import type { ImageProcessing } from "./image.ts"

/**
 * @param rows that come out of the tower for each tile
 * @param across how many of them are a line, where something stands between lines
 * @param ofWhole rows of the tile that holds all of the picture, where there are others
 */
export function textOf(
  { wording, soft, cutting: { kind } }: ImageProcessing,
  { width, height }: Grid,
  rows: number,
  across = rows,
  ofWhole = rows,
): string {
  const { opening, closing, only, part, whole, betweenLines, betweenTiles } = wording
  const { behindTile, behindRow, betweenRows = "", behindWhole = behindTile } = wording
  const { behindOnly = behindWhole } = wording
  const line = soft.repeat(across)
  const inLines = Array<string>(rows / across)
    .fill(line)
    .join(betweenLines)
  if (width * height === 1) return opening + only + inLines + behindOnly + closing
  const tile = inLines + behindTile
  const lines = Array.from({ length: height }, (_, row) => {
    const tiles = Array.from({ length: width }, (_, column) => {
      const counts = { row: row + 1, column: column + 1, number: row * width + column + 1 }
      return (
        part.replace(/\{(row|column|number)\}/g, (_, of: keyof typeof counts) => `${counts[of]}`) +
        tile
      )
    })
    return tiles.join(betweenTiles) + behindRow
  })
  const all = whole + soft.repeat(ofWhole) + behindWhole
  const grid = lines.join(betweenRows)
  return opening + (kind === "slices" ? all + grid : grid + all) + closing
}
