// What never becomes a request: malformed HTTP, headers that are too large or too late, CONNECT. Answered by hand, for
// there is no response to write into, and the connection ends.

import { randomUUID } from "node:crypto"
import type { Duplex } from "node:stream"
import { type Problem, problem } from "../errors.ts"
import { http } from "../node-http.ts"
import type { DialectName } from "./apis/chat/dialects/choose.ts"
import { openaiApi } from "./apis/openai.ts"
import { cut } from "./check.ts"

export function answerBrokenHttp(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  dialect: DialectName,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  endWith(brokenHttp(error), socket, dialect)
}

/** Node hands over the socket alone, and would close it without a word. */
export function answerConnect(target: string, socket: Duplex, dialect: DialectName): void {
  socket.on("error", () => socket.destroy())
  const values = { method: "CONNECT", path: cut(target, 200) }
  endWith(problem("route_not_found", values), socket, dialect)
}

function endWith(failure: Problem, socket: Duplex, dialect: DialectName): void {
  const body = openaiApi.errorBody(failure) // whose API it is nobody knows
  socket.end(
    [
      `HTTP/1.1 ${failure.status} ${http.STATUS_CODES[failure.status]}`,
      `x-request-id: ${randomUUID()}`,
      `x-api-dialect: ${dialect}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
      "",
      body,
    ].join("\r\n"),
  )
}

function brokenHttp(error: NodeJS.ErrnoException): Problem {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return problem("headers_too_large", {})
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return problem("header_timeout", {})
    case "HPE_INVALID_EOF_STATE":
      return problem("invalid_http", { problem: "it ended before it was whole." })
    default:
      return problem("invalid_http", { problem: error.message.replace(/^Parse Error: /, "") })
  }
}
