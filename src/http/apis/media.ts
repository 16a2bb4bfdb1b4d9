// Images and recordings as clients send them: a data: URL, or Base64 alone. Nothing is fetched, as this server connects to nobody on a request's
// behalf. What the bytes are is looked at where they are decoded, whatever a client calls them.

import type {
  AudioPart,
  ChatMessage,
  ImagePart,
  MediumKind,
  MessagePart,
} from "../../chat/conversation.ts"
import { called, mostBytes, tooManyBytes } from "../../chat/media.ts"
import { type Problem, problem } from "../../errors.ts"
import { cut, fault, mustBe } from "../check.ts"
import type { Json } from "../json.ts"
import type { ModelCard } from "../service.ts"
import type { Work } from "../turns.ts"

/** Whether a model takes images or recordings, of which each API has its own kinds. */
export type Seeing = Pick<ModelCard, "sees" | "hears">

/** What a model takes, for refusals of anything else. */
function taken({ sees, hears }: Seeing): string {
  const kinds = [sees ? "images" : [], hears ? "audio" : []].flat()
  const last = kinds.pop()
  const all = last === undefined ? "text" : `${["text", ...kinds].join(", ")} and ${last}`
  return `the model takes ${all} only`
}

/** Of an image or a recording where a model reads text alone, or of any other part. @param what "is a part of type …" */
export function untaken(path: string, what: string, model: Seeing): Problem {
  return problem("unsupported_value", { problem: `${path} ${what}; ${taken(model)}.` }, path)
}

/** Of an image or a recording that somebody else shows than a user or a tool. */
export function misplaced(path: string, kind: MediumKind = "image"): Problem {
  const where = "which belongs to messages of the user or results of tools"
  return fault(path, `is ${called[kind]}, ${where}`)
}

/** Texts, images and recordings in their order, as a message has them: what its texts say together, and the parts where there are others. */
export function contentOf(parts: readonly MessagePart[]): Pick<ChatMessage, "parts"> & {
  content: string
} {
  const content = parts.map((part) => ("text" in part ? part.text : "")).join("")
  return parts.every((part) => "text" in part) ? { content } : { content, parts }
}

/** The same of images that stand beside a content, which come ahead of it. */
export function withImages(
  images: readonly ImagePart[],
  said: Pick<ChatMessage, "content" | "parts">,
): Pick<ChatMessage, "content" | "parts"> {
  if (images.length === 0) return said
  const { content, parts = content ? [{ text: content }] : [] } = said
  return contentOf([...images, ...parts])
}

const DATA = /^data:([^,;]*)((?:;[^,;]*)*),/i
const MAX_HEADER = 256 // characters of what stands before a data: URL's comma

/** From a data: URL; a program in this process may have the bytes themselves. Yields the characters read. */
export function* readingImage(given: Json | Uint8Array, field: string): Work<ImagePart> {
  return { image: yield* readingUrl(given, field, "image"), field }
}

/** From Base64 alone, as `input_audio` has it, or a data: URL. */
export function* readingAudio(given: Json | Uint8Array, field: string): Work<AudioPart> {
  const isUrl = typeof given !== "string" || /^[a-z]+:/i.test(given)
  const audio = yield* isUrl
    ? readingUrl(given, field, "audio")
    : readingBase64(given, 0, field, "audio")
  return { audio, field }
}

function* readingUrl(given: Json | Uint8Array, field: string, kind: MediumKind): Work<Uint8Array> {
  if (given instanceof Uint8Array) return given
  if (typeof given !== "string") throw mustBe(field, "a data: URL", given)
  if (/^https?:/i.test(given)) {
    const what = { image: "the image", audio: "the recording" }[kind]
    const words = `${field} is an address, and this server connects to nobody on a request's behalf; send ${what} itself, as a data: URL.`
    throw problem("unsupported_value", { problem: words }, field)
  }
  const [header, type, parameters] = DATA.exec(given.slice(0, MAX_HEADER)) ?? []
  if (header === undefined || type === undefined)
    throw mustBe(field, `a data: URL (data:${examples[kind]};base64,…)`, cut(given, 60))
  if (type !== "" && !types[kind].test(type)) {
    const what = `is data of the type ${JSON.stringify(cut(type, 60))}`
    throw fault(field, `${what}, which is no ${kind}`)
  }
  if (!/;base64$/i.test(parameters ?? "")) throw fault(field, "must be in Base64 (;base64)")
  return yield* readingBase64(given, header.length, field, kind)
}

/** A video has a sound track, and programs call the recordings of some formats videos. */
const types = { image: /^image\//i, audio: /^(?:audio|video)\//i } as const
const examples = { image: "image/png", audio: "audio/wav" } as const

/** A list of images beside a text, as Ollama has them. */
export function* readingImages(
  given: Json | undefined,
  field: string,
  model: Seeing,
): Work<ImagePart[]> {
  if (!Array.isArray(given) || given.length === 0) return []
  if (!model.sees) throw untaken(field, "is not supported", model)
  const images: ImagePart[] = []
  for (const [index, image] of given.entries())
    images.push(yield* readingPlainImage(image, `${field}[${index}]`))
  return images
}

/** From Base64 alone, or a data: URL. */
function* readingPlainImage(given: Json, field: string): Work<ImagePart> {
  if (typeof given !== "string") throw mustBe(field, "a string with an image in Base64", given)
  if (/^[a-z]+:/i.test(given)) return yield* readingImage(given, field)
  return { image: yield* readingBase64(given, 0, field, "image"), field }
}

const PIECE = 32 * 1024 // characters read between two turns

/** By RFC 4648, section 4: no character beside the alphabet, and padded. @param from where it begins in the text */
export function* readingBase64(
  given: string,
  from: number,
  field: string,
  kind: MediumKind,
): Work<Uint8Array> {
  const length = given.length - from
  if (length === 0) throw fault(field, "is empty")
  const padding = given.endsWith("==") ? 2 : given.endsWith("=") ? 1 : 0
  const size = Math.floor(length / 4) * 3 - padding
  if (size > mostBytes[kind]) throw tooManyBytes(field, size, kind)
  if (length % 4 !== 0) {
    throw fault(field, `is no Base64: it has ${length} characters, which is no multiple of 4`)
  }
  const read = Buffer.allocUnsafe(size)
  const end = given.length - padding
  for (let at = from, written = 0; at < end; at += PIECE) {
    if (at > from) yield PIECE
    const piece = given.slice(at, Math.min(at + PIECE, end))
    const bytes = read.write(piece, written, "base64")
    if (!isEncoded(piece, bytes)) throw unencoded(piece, at - from, field)
    written += bytes
  }
  return read
}

/** By what Node made of it, in a tenth of the time of a pattern: it leaves out what is not in the alphabet, but for these. */
function isEncoded(piece: string, bytes: number): boolean {
  const isAscii = Buffer.byteLength(piece) === piece.length // else the lower bytes of what is not may count
  const isForUrls = piece.includes("-") || piece.includes("_")
  return bytes === Math.floor((piece.length * 3) / 4) && isAscii && !isForUrls
}

/** @param before characters that stand before the piece */
function unencoded(piece: string, before: number, field: string): Problem {
  const at = piece.search(/[^A-Za-z0-9+/]/)
  const character = JSON.stringify(String.fromCodePoint(piece.codePointAt(at)!))
  return fault(field, `is no Base64: character ${before + at + 1} is ${character}`)
}
