// Which format bytes are of, by how they begin and by nothing else: no name, no media type. What is not PNG, JPEG, WebP or GIF
// never reaches a decoder: SVG and PDF are programs, and each further decoder is another way in.

export type ImageFormat = "PNG" | "JPEG" | "WebP" | "GIF"

const READ: Record<ImageFormat, RegExp> = {
  PNG: /^\x89PNG\r\n\x1a\n/,
  JPEG: /^\xff\xd8\xff/,
  WebP: /^RIFF.{4}WEBP/s,
  GIF: /^GIF8[79]a/,
}

/** What else people send, so that they are told what it is. */
const REFUSED: Record<string, RegExp> = {
  SVG: /^(?:\xef\xbb\xbf)?\s*(?:<\?xml|<!--|<!DOCTYPE svg|<svg)/i,
  PDF: /^%PDF/,
  TIFF: /^(?:II[*+]\0|MM\0[*+])/,
  AVIF: /^.{4}ftypavi[fs]/s,
  HEIF: /^.{4}ftyp(?:hei|hev|mif1|msf1)/s,
  "JPEG XL": /^(?:\xff\x0a|\0\0\0\x0cJXL )/,
  "JPEG 2000": /^(?:\0\0\0\x0cjP {2}|\xff\x4f\xff\x51)/,
  BMP: /^BM/,
  ICO: /^\0\0\x01\0/,
  PSD: /^8BPS/,
  "a web page": /^\s*<(?:!doctype html|html)/i,
}

const BEGINNING = 64 // bytes

/** @returns the format, or why it is not read, as the rest of a sentence that begins with what it is about */
export function formatOf(bytes: Uint8Array): ImageFormat | { refusal: string } {
  const beginning = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, BEGINNING))
  const text = beginning.toString("latin1")
  for (const [format, pattern] of Object.entries(READ))
    if (pattern.test(text)) return format as ImageFormat
  const other = Object.keys(REFUSED).find((name) => REFUSED[name]!.test(text))
  const what = bytes.length === 0 ? "is empty" : other ? `is ${other}` : "is no image that is known"
  return { refusal: `${what}; send PNG, JPEG, WebP or GIF` }
}

/**
 * A GIF whose first frame is opaque: Pillow's `convert("RGB")` gives transparent pixels the colour that the palette has for them,
 * where libvips has black. https://www.w3.org/Graphics/GIF/spec-gif89a.txt
 */
export function withoutTransparency(gif: Uint8Array): Uint8Array {
  const EXTENSION = 0x21
  const CONTROL = 0xf9
  const tableSize = (flags: number) => (flags & 0x80 ? 3 << ((flags & 7) + 1) : 0)
  for (let at = 13 + tableSize(gif[10] ?? 0); gif[at] === EXTENSION; ) {
    if (gif[at + 1] === CONTROL && at + 3 < gif.length) {
      const opaque = gif.slice()
      opaque[at + 3]! &= ~1
      return opaque
    }
    at += 2
    while (gif[at]) at += gif[at]! + 1
    at++
  }
  return gif
}
