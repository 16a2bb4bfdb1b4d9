// Reads a request's body: the right kind, at most so many bytes, within a time, as UTF-8, as JSON. What is too large is
// refused at once and the rest flows into nothing, so that the client can read the answer before its pipe breaks.

import type { IncomingMessage } from "node:http"
import { problem } from "../errors.ts"
import { cut } from "./check.ts"
import { type Json, readJson } from "./json.ts"

/** The client left before its request was complete: nobody is there to be answered. */
export class ClientGone extends Error {}

/** @param most bytes. @param timeout milliseconds for the whole body. */
export async function readBody(raw: IncomingMessage, most: number, timeout: number): Promise<Json> {
  assertJsonKind(raw)
  if (Number(raw.headers["content-length"]) > most) throw problem("body_too_large", { most })
  const bytes = await collect(raw, most, timeout)
  return readJson(decode(bytes))
}

// A web page may send text/plain and forms anywhere without asking first; JSON needs the browser's leave (CORS).
function assertJsonKind({ headers }: IncomingMessage): void {
  const [kind = "", ...parameters] = (headers["content-type"] ?? "")
    .split(";")
    .map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  if (!/^application\/([\w.-]+\+)?json$/.test(kind) || !isUtf8) {
    const given = kind === "" ? "none" : JSON.stringify(cut(headers["content-type"]!, 100))
    throw problem("unsupported_media_type", {
      problem: `send the body as Content-Type: application/json in UTF-8 (received: ${given}).`,
    })
  }
  const coding = headers["content-encoding"]
  if (coding !== undefined && coding.toLowerCase() !== "identity") {
    throw problem("unsupported_media_type", { problem: "send the body without Content-Encoding." })
  }
}

function collect(raw: IncomingMessage, most: number, timeout: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let size = 0
    const settle = (then: () => void) => {
      clearTimeout(timer)
      raw.off("data", take).off("end", end).off("close", gone).off("error", gone)
      raw.on("error", () => {}) // a client may still break off while the rest flows away
      then()
    }
    const take = (piece: Buffer) => {
      size += piece.length
      if (size <= most) {
        pieces.push(piece)
        return
      }
      settle(() => {
        raw.resume()
        reject(problem("body_too_large", { most }))
      })
    }
    const end = () => settle(() => resolve(Buffer.concat(pieces, size)))
    const gone = () => settle(() => reject(new ClientGone()))
    const late = () => reject(problem("body_timeout", { seconds: timeout / 1000 }))
    const timer = setTimeout(() => settle(late), timeout)
    raw.on("data", take).on("end", end).on("close", gone).on("error", gone)
  })
}

function decode(bytes: Buffer): string {
  if (bytes.length === 0) throw problem("invalid_json", { problem: "it is empty." })
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    throw problem("invalid_json", { problem: "it is not UTF-8." })
  }
}
