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
  { wording, soft }: ImageProcessing,
  { width, height }: Grid,
  rows: number,
  across = rows,
  ofWhole = rows,
): string {
  const { opening, closing, only, part, whole, betweenLines, betweenTiles } = wording
  const { behindTile, behindRow } = wording
  const line = soft.repeat(across)
  const tile =
    Array<string>(rows / across)
      .fill(line)
      .join(betweenLines) + behindTile
  if (width * height === 1) return opening + only + tile + closing
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
  return opening + lines.join("") + whole + soft.repeat(ofWhole) + behindTile + closing
}
