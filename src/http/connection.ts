// What never became a request: malformed HTTP, headers that are too large or too late. Answered by hand, for there is
// no request to answer, and the connection ends.

import { randomUUID } from "node:crypto"
import { STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { type Problem, problem } from "../errors.ts"
import type { DialectName } from "./dialects/choose.ts"
import { errorBody } from "./error-body.ts"

export function answerBrokenHttp(
  error: NodeJS.ErrnoException,
  socket: Socket,
  dialect: DialectName,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  const told = brokenHttp(error)
  const body = errorBody(told)
  socket.end(
    [
      `HTTP/1.1 ${told.status} ${STATUS_CODES[told.status]}`,
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
    default:
      return problem("invalid_http", { problem: error.message.replace(/^Parse Error: /, "") })
  }
}
