// Image files that somebody names, as parts of what they say. Whether a file is an image shows where it is decoded.

import { readFileSync, statSync } from "node:fs"
import type { ChatMessage, ImagePart } from "../chat/conversation.ts"
import { MAX_IMAGE, tooManyBytes } from "../chat/vision.ts"
import { Problem, unreadable } from "../errors.ts"
import { quoted, refuse } from "./values.ts"

/** @param where what names the file, for refusals. @throws `option_invalid`, and `invalid_value` where it is too large */
export function imageOf(file: string, where: string): ImagePart {
  try {
    const { size } = statSync(file)
    if (size <= MAX_IMAGE) return { image: readFileSync(file), field: file }
    throw tooManyBytes(file, size)
  } catch (error) {
    if (error instanceof Problem) throw error
    return refuse(where, `${unreadable(quoted(file), error)}.`)
  }
}

/** Images ahead of a text, where there are some. */
export function userMessage(content: string, images: readonly ImagePart[]): ChatMessage {
  if (images.length === 0) return { role: "user", content }
  const text = content.trim() === "" ? [] : [{ text: content }]
  return { role: "user", content, parts: [...images, ...text] }
}

const KINDS: readonly (readonly [type: string, begins: RegExp])[] = [
  ["image/png", /^\x89PNG/],
  ["image/jpeg", /^\xff\xd8/],
  ["image/gif", /^GIF8/],
  ["image/webp", /^RIFF....WEBP/s],
]

/** As an API's clients send it. */
export function dataUrl(image: Uint8Array): string {
  const bytes = Buffer.from(image.buffer, image.byteOffset, image.length)
  const begin = bytes.toString("latin1", 0, 12)
  const type = KINDS.find(([, begins]) => begins.test(begin))?.[0] ?? ""
  return `data:${type};base64,${bytes.toString("base64")}`
}
