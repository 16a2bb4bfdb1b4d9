// Image and audio files that somebody names, as parts of what they say. Whether a file is one shows where it is decoded.

import { readFileSync, statSync } from "node:fs"
import type { AudioPart, ChatMessage, ImagePart, MediumKind } from "../chat/conversation.ts"
import { mostBytes, tooManyBytes } from "../chat/media.ts"
import { Problem, unreadable } from "../errors.ts"
import { quoted, refuse } from "./values.ts"

/** @param where what names the file, for refusals. @throws `option_invalid`, and `invalid_value` where it is too large */
export function imageOf(file: string, where: string): ImagePart {
  return { image: bytesOf(file, where, "image"), field: file }
}

/** The same of a recording. */
export function audioOf(file: string, where: string): AudioPart {
  return { audio: bytesOf(file, where, "audio"), field: file }
}

function bytesOf(file: string, where: string, kind: MediumKind): Uint8Array {
  try {
    const { size } = statSync(file)
    if (size <= mostBytes[kind]) return readFileSync(file)
    throw tooManyBytes(file, size, kind)
  } catch (error) {
    if (error instanceof Problem) throw error
    return refuse(where, `${unreadable(quoted(file), error)}.`)
  }
}

/** Images and recordings ahead of a text, where there are some. */
export function userMessage(
  content: string,
  media: readonly (ImagePart | AudioPart)[],
): ChatMessage {
  if (media.length === 0) return { role: "user", content }
  const text = content.trim() === "" ? [] : [{ text: content }]
  return { role: "user", content, parts: [...media, ...text] }
}

const KINDS: readonly (readonly [type: string, begins: RegExp])[] = [
  ["image/png", /^\x89PNG/],
  ["image/jpeg", /^\xff\xd8/],
  ["image/gif", /^GIF8/],
  ["image/webp", /^RIFF....WEBP/s],
]

/** As an API's clients send it. */
export function sent(part: ImagePart | AudioPart): Record<string, unknown> {
  if ("image" in part) return { type: "image_url", image_url: { url: dataUrl(part.image) } }
  const format = formatOf(part.audio)
  return {
    type: "input_audio",
    input_audio: { data: Buffer.from(part.audio).toString("base64"), format },
  }
}

function formatOf(audio: Uint8Array): string {
  const begin = Buffer.from(audio.subarray(0, 4)).toString("latin1")
  return { RIFF: "wav", fLaC: "flac" }[begin] ?? "mp3"
}

export function dataUrl(image: Uint8Array): string {
  const bytes = Buffer.from(image.buffer, image.byteOffset, image.length)
  const begin = bytes.toString("latin1", 0, 12)
  const type = KINDS.find(([, begins]) => begins.test(begin))?.[0] ?? ""
  return `data:${type};base64,${bytes.toString("base64")}`
}
