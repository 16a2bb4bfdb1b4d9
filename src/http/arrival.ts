// A request arrives: its answer gets the headers that every answer has, whoever may not ask is refused, and what needs no
// route is answered, before anything of its body is read.

import type { FastifyReply, FastifyRequest } from "fastify"
import { problem } from "../errors.ts"
import { chooseDialect, type DialectName } from "./apis/chat/dialects/choose.ts"
import { cut } from "./check.ts"
import { corsHeaders, isPreflight, preflight } from "./cors.ts"
import { assertHost, readScope } from "./guards.ts"
import { HEADERS } from "./headers.ts"
import type { Json } from "./json.ts"
import { allowedMethods, apiOf, meantPath, pathOf, routesOf } from "./paths.ts"
import type { Room } from "./room.ts"
import type { HttpOptions } from "./service.ts"

/** Sends the answer where there is one already. */
export async function arrive(room: Room, request: FastifyRequest, reply: FastifyReply) {
  const { options, state, servers, running } = room
  prepare(room, request, reply)
  running.add(request, reply)
  assertHost(state.address, options.allowedHosts, request.raw)
  if (!routesOf(pathOf(request)).some(({ open }) => open)) {
    servers.assertServed(request.raw.socket)
  }
  setDialect(options, request, reply)
  if (options.cors && isPreflight(request.method, request.headers)) {
    const { status, text, headers } = preflight(options.cors, request.headers)
    return reply.code(status).headers(headers).type("text/plain; charset=utf-8").send(text)
  }
  return request.is404 ? answerUnrouted(room, request, reply) : undefined
}

/** The headers that every answer has, whatever becomes of the request. */
export function prepare(
  { options, state }: Pick<Room, "options" | "state">,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  reply.header("x-request-id", request.id)
  const { idHeader } = apiOf(pathOf(request))
  if (idHeader) reply.header(idHeader, request.id)
  reply.header("x-content-type-options", "nosniff")
  if (options.cors) {
    const exposed = HEADERS.map(([name]) => name)
    reply.headers(corsHeaders(options.cors, request.headers, exposed))
  }
  reply.header("keep-alive", `timeout=${Math.floor(options.timeouts.idle / 1000)}`)
  if (state.draining) reply.header("connection", "close")
  reply.header("x-api-dialect", unreadDialect(options, pathOf(request)))
}

/** Of answers to what was not read further than its path. */
export function unreadDialect({ dialect }: HttpOptions, path = ""): DialectName {
  return chooseDialect(path, {}, dialect, undefined)
}

/** @param body where it has been read. */
export function setDialect(
  options: HttpOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  body?: Json,
): DialectName {
  const dialect = chooseDialect(pathOf(request), request.headers, options.dialect, body)
  reply.header("x-api-dialect", dialect)
  return dialect
}

function answerUnrouted({ keys }: Room, request: FastifyRequest, reply: FastifyReply) {
  const { method } = request
  const path = pathOf(request)
  const allowed = allowedMethods(path).join(", ")
  readScope(keys, request.headers)
  if (allowed === "") {
    const meant = meantPath(method, path)
    const hint = meant === undefined ? "" : `there is ${meant}, and `
    const cure = `${hint}GET /docs lists what there is`
    throw problem("route_not_found", { method, path: cut(path, 200), cure })
  }
  reply.header("allow", allowed)
  if (method === "OPTIONS") return reply.code(204).send()
  if (request.headers.upgrade?.toLowerCase() === "websocket") {
    throw problem("websocket_unsupported", { path: cut(path, 200), allowed })
  }
  throw problem("method_not_allowed", { method, path: cut(path, 200), allowed })
}
