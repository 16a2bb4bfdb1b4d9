// An error becomes an answer: its status, its API's body, and the headers that go with it.

import type { FastifyReply, FastifyRequest } from "fastify"
import { type ErrorCode, problem } from "../errors.ts"
import { prepare } from "./arrival.ts"
import { ClientGone } from "./body.ts"
import { JSON_TYPE, problemOf } from "./exchange.ts"
import { send } from "./handling.ts"
import { apiOf, pathOf } from "./paths.ts"
import type { Room } from "./room.ts"

/** After these the connection is of no use, or of none to us. */
const ENDING = new Set<ErrorCode>(["body_timeout", "invalid_http", "too_many_connections"])

export function fail(room: Room, request: FastifyRequest, reply: FastifyReply, error: unknown) {
  if (!reply.hasHeader("x-request-id")) {
    prepare(room, request, reply) // of what Fastify could not even route
    room.running.add(request, reply)
  }
  if (error instanceof ClientGone || reply.raw.destroyed) {
    reply.hijack()
    reply.raw.destroy()
    return undefined
  }
  const path = pathOf(request)
  const failure = problemOf(ownWords(error), { id: request.id, log: room.log })
  if (failure.status === 429 || failure.status === 503) reply.header("retry-after", "1")
  if (failure.status === 426) reply.headers({ upgrade: "HTTP/1.1", connection: "upgrade, close" })
  if (failure.status === 401) reply.header("www-authenticate", challenge(path))
  if (ENDING.has(failure.code)) reply.header("connection", "close")
  return send(reply, {
    status: failure.status,
    type: JSON_TYPE,
    text: apiOf(path).errorBody(failure),
  })
}

/** Fastify's own complaints, of which two are left, in ours. */
function ownWords(error: unknown): unknown {
  switch (error instanceof Error && "code" in error ? error.code : undefined) {
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return problem("unsupported_media_type", { problem: "its Content-Type is malformed." })
    case "FST_ERR_NOT_FOUND": // what has no route of ours has a handler; this has no method of HTTP's
      return problem("invalid_http", { problem: "its method is none of HTTP's." })
    default:
      return error
  }
}

// A browser that opens the docs page asks its user for the key as a password.
function challenge(path: string): string {
  return path === "/docs" ? 'Basic realm="sinter: the API key is the password"' : "Bearer"
}
