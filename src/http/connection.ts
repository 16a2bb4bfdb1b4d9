// What never becomes a request: malformed HTTP, headers that are too large or too late, CONNECT. Answered by hand, for
// there is no response to write into, and the connection ends. The log has a line for it all the same: who wonders why a client
// gets nowhere (a browser with many cookies, http:// where TLS is spoken) looks there.

import { randomUUID } from "node:crypto"
import type { Duplex } from "node:stream"
import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { http } from "../node-http.ts"
import type { DialectName } from "./apis/chat/dialects/choose.ts"
import { openaiApi } from "./apis/openai.ts"
import { cut } from "./check.ts"

interface Answering {
  dialect: DialectName
  log: Log
}

export function answerBrokenHttp(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  answering: Answering,
): void {
  const { code } = error
  if (code === "ECONNRESET" || !socket.writable) {
    // OpenSSL's own word, as ERR_SSL_HTTP_REQUEST or …_UNKNOWN_CA; nobody can be answered in it.
    if (code?.startsWith("ERR_SSL_")) answering.log.info({ code }, "a TLS handshake failed")
    socket.destroy()
    return
  }
  endWith(brokenHttp(error), socket, answering)
}

/** Node hands over the socket alone, and would close it without a word. */
export function answerConnect(target: string, socket: Duplex, answering: Answering): void {
  socket.on("error", () => socket.destroy())
  const values = { method: "CONNECT", path: cut(target, 200), cure: "this server is no proxy" }
  endWith(problem("route_not_found", values), socket, answering)
}

function endWith(failure: Problem, socket: Duplex, { dialect, log }: Answering): void {
  const { status, message } = failure
  const request = randomUUID()
  log.info({ request, status, outcome: "refused", problem: message }, "refused")
  const body = openaiApi.errorBody(failure) // whose API it is nobody knows
  socket.end(
    [
      `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`,
      `x-request-id: ${request}`,
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
