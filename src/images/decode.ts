// Bytes to pixels, by libvips. Runs in a process of its own (image-worker.ts): the decoders are native code that reads what
// strangers sent. Of libvips' many loaders the four that are needed are open, its caches are off.
//
// The pixels are those that transformers' load_image has, which is Pillow's convert("RGB") behind exif_transpose: palettes and
// greys become colours, what is transparent is opaque, colour profiles are not looked at, of 16 bits the upper 8 count. But for
// greys of 16 bits, which Pillow cuts off at 255: almost all of them would be white. And what the first frame of a GIF leaves
// empty is black; Pillow has a colour of the palette there.

import sharp from "sharp"
import { formatOf, withoutTransparency } from "./format.ts"
import type { Picture } from "./image.ts"

/** What is decoded takes three bytes a pixel, and a progressive JPEG six beside them. */
const MAX_PIXELS = 64_000_000
/** A line's: JPEG has no longer ones. */
const MAX_SIDE = 65_535

sharp.cache(false)
sharp.concurrency(1)
sharp.block({ operation: ["VipsForeignLoad"] })
sharp.unblock({
  operation: ["Png", "Jpeg", "Webp", "Nsgif"].map((loader) => `VipsForeignLoad${loader}`),
})

/** @returns its pixels, or why there are none, as the rest of a sentence that begins with what it is about */
export async function decode(bytes: Uint8Array): Promise<Picture | { refusal: string }> {
  const format = formatOf(bytes)
  if (typeof format === "object") return format
  const input = format === "GIF" ? withoutTransparency(bytes) : bytes
  // Bytes that are left over do not matter, bytes that are missing do: Pillow refuses those, too.
  const options = { ignoreIcc: true, failOn: "error", limitInputPixels: false } as const
  const image = sharp(input, options).autoOrient()
  try {
    const { width, height, space } = await image.metadata()
    const refusal = sizeProblem(width, height)
    if (refusal !== undefined) return { refusal }
    const isPrinted = space === "cmyk"
    const decoded = isPrinted
      ? image.pipelineColourspace("cmyk").toColourspace("cmyk")
      : image.removeAlpha().toColourspace("srgb")
    const { data, info } = await decoded
      .raw({ depth: "uchar" })
      .toBuffer({ resolveWithObject: true })
    return { width: info.width, height: info.height, data: isPrinted ? fromPrint(data) : data }
  } catch (error) {
    const why = (error as Error).message.trim().replace(/\s+/g, " ")
    return { refusal: `is a ${format} that cannot be decoded (${why}); send it whole and valid` }
  }
}

function sizeProblem(width: number, height: number): string | undefined {
  if (width <= MAX_SIDE && height <= MAX_SIDE && width * height <= MAX_PIXELS) return undefined
  const most = `at most ${MAX_PIXELS / 1e6} million pixels, and ${MAX_SIDE} to a side, are read`
  return `has ${width} x ${height} pixels; ${most}; send it smaller`
}

/** Pillow's, without a profile: how much of cyan, magenta and yellow is left beside black. */
function fromPrint(inks: Uint8Array): Uint8Array {
  const data = new Uint8Array((inks.length / 4) * 3)
  for (let from = 0, to = 0; from < inks.length; from += 4) {
    const white = 255 - inks[from + 3]!
    for (let ink = 0; ink < 3; ink++) {
      const product = inks[from + ink]! * white + 128
      data[to++] = Math.max(0, white - (((product >> 8) + product) >> 8))
    }
  }
  return data
}
