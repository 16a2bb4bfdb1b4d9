// A form (multipart/form-data, RFC 7578) as a body: a map of what its parts are called, whose values are bytes where a part is a file
// and else what their schema takes: a form has texts alone, so `0.5` is a number where a number belongs. Parts that are called
// `name[]` are a list. A text that is empty is absent, as forms have no null.
//
// Read in pieces like JSON (turns.ts), and bounded before it costs much: by its boundary's length, its parts, and the size of their
// headers and texts. A file stays where it lies among the body's bytes.

import type { IncomingMessage } from "node:http"
import type { TSchema } from "typebox"
import { type Problem, problem } from "../errors.ts"
import { assertUncompressed, type Body, type BodyKind } from "./body.ts"
import { cut, fault } from "./check.ts"
import type { Json } from "./json.ts"
import type { Work } from "./turns.ts"

export const MAX_PARTS = 128
/** Characters, as RFC 2046 has it. */
const MAX_BOUNDARY = 70
/** Bytes of one part's headers. */
const MAX_HEADERS = 4096
/** Bytes of one part that is no file. */
export const MAX_FORM_TEXT = 64 * 1024

/** Bytes looked at between two turns: some hundredths of a millisecond, whatever a file holds. */
const PIECE = 64 * 1024

/** A body that must be a form, as the schema of its fields types it. */
export function formBody(schema: TSchema): BodyKind {
  return (raw) => {
    const boundary = boundaryOf(raw)
    assertUncompressed(raw)
    return (body) => readingForm(body, boundary, schema)
  }
}

function boundaryOf({ headers }: Pick<IncomingMessage, "headers">): string {
  const given = headers["content-type"] ?? ""
  const [, quoted, plain] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]*)"|([^\s;"]+))/i.exec(given) ?? []
  const boundary = quoted ?? plain
  if (boundary === undefined) {
    const received = given === "" ? "none" : JSON.stringify(cut(given, 100))
    throw problem("unsupported_media_type", {
      problem: `send a form, as multipart/form-data with its boundary (received: ${received}).`,
    })
  }
  if (boundary.length > 0 && boundary.length <= MAX_BOUNDARY) return boundary
  throw problem("unsupported_media_type", {
    problem: `the form's boundary must have 1 to ${MAX_BOUNDARY} characters, not ${boundary.length}.`,
  })
}

/** How many bytes have been looked at since others had their turn. */
interface Pace {
  spent: number
}

function* spend(pace: Pace, bytes: number): Work<void> {
  pace.spent += bytes
  if (pace.spent < PIECE) return
  yield pace.spent
  pace.spent = 0
}

export function* readingForm(body: Body, boundary: string, schema: TSchema): Work<Json> {
  const pace = { spent: 0 }
  const bytes = yield* joined(body, pace)
  return valuesOf(yield* partsIn(bytes, boundary, pace), schema)
}

/** Pieces are let go of one by one. */
function* joined({ pieces, size }: Body, pace: Pace): Work<Buffer> {
  if (pieces.length === 1) return pieces.pop()!
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const [index, piece] of pieces.entries()) {
    piece.copy(bytes, at)
    at += piece.length
    pieces[index] = NOTHING
    yield* spend(pace, piece.length)
  }
  pieces.length = 0
  return bytes
}

const NOTHING = Buffer.alloc(0)

interface Part {
  name: string
  /** Bytes are a file's. */
  value: string | Buffer
}

const LINE = "\r\n"

//  --boundary CRLF headers CRLF CRLF content CRLF --boundary … CRLF --boundary-- whatever
function* partsIn(bytes: Buffer, boundary: string, pace: Pace): Work<Part[]> {
  if (bytes.length === 0) throw broken("it is empty")
  const delimiter = Buffer.from(`${LINE}--${boundary}`, "latin1")
  const first = delimiter.subarray(LINE.length)
  if (!bytes.subarray(0, first.length).equals(first))
    throw broken("it does not begin with the boundary that its Content-Type names")
  const parts: Part[] = []
  for (let at = first.length; ; at += delimiter.length) {
    const next = bytes.toString("latin1", at, at + LINE.length)
    if (next === "--") return parts
    if (next !== LINE) throw broken(at >= bytes.length ? UNENDED : "a boundary ends no line")
    if (parts.length === MAX_PARTS) throw broken(`it has more than ${MAX_PARTS} parts`)
    const end = bytes.subarray(at, at + MAX_HEADERS).indexOf(LINE + LINE)
    if (end < 0)
      throw broken(
        at + MAX_HEADERS > bytes.length
          ? UNENDED
          : `a part has headers of more than ${MAX_HEADERS} bytes`,
      )
    const { name, isFile } = readHeaders(bytes.toString("utf8", at, at + end))
    const from = at + end + 2 * LINE.length
    at = yield* finding(delimiter, bytes, from, pace)
    const content = bytes.subarray(from, at)
    parts.push({ name, value: isFile ? content : readText(content, name) })
    yield* spend(pace, isFile ? end : end + content.length)
  }
}

const UNENDED = "it ends before its last boundary"

function* finding(wanted: Buffer, bytes: Buffer, from: number, pace: Pace): Work<number> {
  for (let at = from; at < bytes.length; at += PIECE) {
    const place = bytes.subarray(at, at + PIECE + wanted.length - 1).indexOf(wanted)
    if (place >= 0) return at + place
    yield* spend(pace, PIECE)
  }
  throw broken(UNENDED)
}

/** What a part is called. That it has a name of a file, whichever, says that it is one. */
function readHeaders(text: string): { name: string; isFile: boolean } {
  const headerOf = (wanted: RegExp) => text.split(LINE).find((line) => wanted.test(line)) ?? ""
  const coding = /:\s*(.*?)\s*$/.exec(headerOf(/^content-transfer-encoding:/i))?.[1]
  if (coding !== undefined && !/^(7bit|8bit|binary)$/i.test(coding))
    throw broken(`a part has the Content-Transfer-Encoding ${JSON.stringify(cut(coding, 60))}`)
  const disposition = headerOf(/^content-disposition:\s*form-data\s*;/i)
  const [, quoted, plain] = /;\s*name=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(disposition) ?? []
  const name = quoted?.replaceAll(/\\(.)/g, "$1") ?? plain
  if (!name) throw broken("a part has no Content-Disposition: form-data with a name")
  return { name, isFile: /;\s*filename\*?\s*=/i.test(disposition) }
}

function readText(content: Buffer, name: string): string {
  if (content.length > MAX_FORM_TEXT) {
    const words = `is a text of ${content.length} bytes; in a form one may have at most ${MAX_FORM_TEXT}`
    throw fault(shown(name), words)
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content)
  } catch {
    throw fault(shown(name), "is no UTF-8")
  }
}

/** A part may be called anything. */
function shown(name: string): string {
  return /^[\w[\]-]{1,100}$/.test(name) ? name : JSON.stringify(cut(name, 100))
}

function broken(what: string): Problem {
  return problem("invalid_form", { problem: `${what}.` })
}

interface Field {
  type?: string
  anyOf?: readonly Field[]
}

/** Of several parts of one name the values are a list where one belongs, or where they are called so (`name[]`). */
function valuesOf(parts: readonly Part[], schema: TSchema): Json {
  const { properties } = schema as unknown as { properties: Readonly<Record<string, Field>> }
  const given = new Map<string, { values: Part["value"][]; isList: boolean }>()
  for (const { name, value } of parts) {
    if (value === "") continue
    const [, plain = name, index] = /^([^[\]]+)\[([^[\]]*)\]/.exec(name) ?? []
    const known = given.get(plain) ?? { values: [], isList: index !== undefined }
    given.set(plain, known)
    known.values.push(value)
  }
  const entries = [...given].map(([name, { values, isList }]): [string, Json] => {
    const type = Object.hasOwn(properties, name) ? typeOf(properties[name]!) : undefined
    if (isList || type === "array") return [name, values as unknown as Json]
    if (values.length > 1)
      throw fault(shown(name), `stands in the form ${values.length} times; send it once`)
    return [name, typed(values[0]!, type)]
  })
  return Object.fromEntries(entries)
}

function typeOf({ type, anyOf = [] }: Field): string | undefined {
  return type ?? anyOf.map(typeOf).find((each) => each !== "null")
}

/** A text that is none of the type stays one, and the check says so. */
function typed(value: string | Buffer, type: string | undefined): Json {
  if (typeof value !== "string") return value as unknown as Json
  if (type === "boolean" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true"
  const isNumber = type === "number" || type === "integer"
  return isNumber && /^-?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?$/i.test(value)
    ? Number(value)
    : value
}
