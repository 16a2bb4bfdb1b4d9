// Reads a request's body: the right kind, at most so many bytes, in pieces worth their while, within a time; as JSON in UTF-8, or
// as a form (form.ts). What is refused is refused at once and the rest flows into nothing, so that the client can read the answer
// before its pipe breaks (unread.ts). Decoding and reading take turns with everybody else (turns.ts).

import type { IncomingMessage } from "node:http"
import { problem } from "../errors.ts"
import { cut } from "./check.ts"
import { isOfPage } from "./guards.ts"
import { type Json, reading } from "./json.ts"
import { inTurns, type Work } from "./turns.ts"

/** The client left before its request was complete: nobody is there to be answered. */
export class ClientGone extends Error {}

// Each piece costs a crossing from the parser and an object: a body in pieces of one byte would take two hundred times its
// size. A client that streams what it writes may begin with small ones.
const MAX_SMALL_PIECES = 4096
const MIN_PIECE = 64 // bytes, on average beyond these

const MAX_HELD = 256 * 1024 * 1024 // bytes

// A request that waits or streams keeps its body. Texts are small beside what they cost; images are not.
const LARGE = 2 * 1024 * 1024 // bytes
const MAX_LARGE = 512 * 1024 * 1024 // bytes

const DECODED_AT_ONCE = 64 * 1024 // bytes

/** Bytes as they came, which reading them may take away. */
export interface Body {
  pieces: Buffer[]
  size: number // bytes
}

/**
 * What a body must be: refuses by its headers, before any of it is read.
 * @returns how it is read
 */
export type BodyKind = (raw: IncomingMessage) => (body: Body) => Work<Json>

export const jsonBody: BodyKind = (raw) => {
  assertJsonKind(raw)
  assertUncompressed(raw)
  return parsing
}

/** The bodies of one server. */
export class Bodies {
  #held = 0 // bytes
  #large = 0 // bytes of large ones whose requests are not answered yet
  readonly #most: number
  readonly #mostLarge: number

  /**
   * @param most bytes that they may take together while they are read, unless one alone may be as large
   * @param mostLarge bytes that large ones may take together until their requests are answered
   */
  constructor(most = MAX_HELD, mostLarge = MAX_LARGE) {
    this.#most = most
    this.#mostLarge = mostLarge
  }

  /**
   * @param kind what it must be
   * @param most bytes
   * @param timeout milliseconds for the whole body
   * @param onEnd calls what it is given when the request has been answered
   */
  async read(
    raw: IncomingMessage,
    kind: BodyKind,
    most: number,
    timeout: number,
    onEnd: (release: () => void) => void,
  ): Promise<Json> {
    const readingBody = kind(raw)
    const declared = Number(raw.headers["content-length"])
    if (declared > most) throw problem("body_too_large", { size: declared, most })
    const body: Body = { pieces: [], size: 0 }
    const take = (piece: Buffer) => {
      body.pieces.push(piece)
      body.size += piece.length
      this.#held += piece.length
      assertWithin(body, most)
      if (this.#held > Math.max(this.#most, most)) {
        throw problem("bodies_full", { held: this.#held - piece.length })
      }
    }
    try {
      await collect(raw, take, timeout)
      if (body.size > LARGE) this.#keep(body.size, onEnd)
      return await inTurns(readingBody(body))
    } finally {
      this.#held -= body.size
    }
  }

  /** One alone may be as large as it is read at all. */
  #keep(size: number, onEnd: (release: () => void) => void): void {
    if (this.#large > 0 && this.#large + size > this.#mostLarge)
      throw problem("bodies_full", { held: this.#large })
    this.#large += size
    onEnd(() => {
      this.#large -= size
    })
  }
}

// A web page may send text/plain and forms anywhere without asking first; JSON needs the browser's leave (CORS). What no
// browser sends is taken for JSON whatever it is called: curl calls it a form, scripts nothing at all.
function assertJsonKind({ headers }: IncomingMessage): void {
  const [kind = "", ...parameters] = (headers["content-type"] ?? "")
    .split(";")
    .map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  const isJson = /^application\/([\w.-]+\+)?json$/.test(kind)
  if (!isUtf8 || (!isJson && isOfPage(headers))) {
    const given = kind === "" ? "none" : JSON.stringify(cut(headers["content-type"]!, 100))
    throw problem("unsupported_media_type", {
      problem: `send the body as Content-Type: application/json in UTF-8 (received: ${given}).`,
    })
  }
}

export function assertUncompressed({ headers }: Pick<IncomingMessage, "headers">): void {
  const coding = headers["content-encoding"]
  if (coding !== undefined && coding.toLowerCase() !== "identity") {
    throw problem("unsupported_media_type", { problem: "send the body without Content-Encoding." })
  }
}

function assertWithin({ pieces, size }: Body, most: number): void {
  if (size > most) throw problem("body_too_large", { size: `more than ${most}`, most })
  if (pieces.length > MAX_SMALL_PIECES + size / MIN_PIECE) {
    const words = `its body comes in pieces of less than ${MIN_PIECE} bytes.`
    throw problem("invalid_http", { problem: words })
  }
}

/** Hands each piece to `take` until the body ends, its client leaves, its time is over, or `take` throws. */
function collect(
  raw: IncomingMessage,
  take: (piece: Buffer) => void,
  timeout: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (then: () => void) => {
      clearTimeout(timer)
      raw.off("data", next).off("end", end).off("close", gone).off("error", gone)
      raw.on("error", () => {}) // a client may still break off while the rest flows away
      then()
    }
    const next = (piece: Buffer) => {
      try {
        take(piece)
      } catch (error) {
        settle(() => reject(error))
        raw.resume()
      }
    }
    const end = () => settle(resolve)
    const gone = () => settle(() => reject(new ClientGone()))
    const late = () => reject(problem("body_timeout", { seconds: timeout / 1000 }))
    const timer = setTimeout(() => settle(late), timeout)
    raw.on("data", next).on("end", end).on("close", gone).on("error", gone)
  })
}

function* parsing(body: Body): Work<Json> {
  if (body.size === 0) throw problem("invalid_json", { problem: "it is empty." })
  const text = yield* decoding(body)
  body.pieces.length = 0
  return yield* reading(text)
}

function* decoding({ pieces }: Body): Work<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  let text = ""
  let since = 0 // bytes
  try {
    for (const piece of pieces) {
      for (let at = 0; at < piece.length; at += DECODED_AT_ONCE) {
        const some = piece.subarray(at, at + DECODED_AT_ONCE)
        if (since + some.length > DECODED_AT_ONCE) {
          yield since
          since = 0
        }
        text += decoder.decode(some, { stream: true })
        since += some.length
      }
    }
    return text + decoder.decode()
  } catch {
    throw problem("invalid_json", { problem: "it is not UTF-8." })
  }
}
