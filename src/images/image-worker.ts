// What runs in the process of images.ts: decodes and cuts an image, keeps its tiles, and hands their rows over.

import { oneByOne, serve } from "../worker/serve.ts"
import { cut } from "./cut.ts"
import { decode } from "./decode.ts"
import type { ImageProcessing, Picture, Size } from "./image.ts"
import type { Answer, Order } from "./images.ts"
import { layoutOf, pixelsOf } from "./patches.ts"

let processing: ImageProcessing
let tiles: readonly Picture[] = []

serve({
  open(opening: ImageProcessing): void {
    processing = opening
  },
  answer: oneByOne(answerTo), // the tiles are those of the last
})

async function answerTo(order: Order): Promise<Answer> {
  if (order.kind === "rows") {
    const tile = tiles[order.tile]
    if (!tile) throw new Error("internal: rows of a tile that is not there")
    return { pixels: pixelsOf(tile, layoutOf(processing, tile), order.from, order.to) }
  }
  tiles = []
  const picture = await decode(order.bytes)
  if ("refusal" in picture) return picture
  const parts = cut(picture, processing)
  if ("refusal" in parts) return parts
  tiles = parts.tiles
  return { grid: parts.grid, tiles: tiles.map(sizeOf), picture: sizeOf(picture) }
}

const sizeOf = ({ width, height }: Picture): Size => ({ width, height })
