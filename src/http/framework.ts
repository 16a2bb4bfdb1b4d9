// What Fastify does here: it finds a request's route and frames its answer. It neither reads bodies nor shapes answers, has no
// schemas to compile, and says nothing in its own words.

import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { type FastifyInstance, type FastifyServerOptions, fastify } from "fastify"
import { problem } from "../errors.ts"
import { OPENAI_PATH } from "./apis/chat/dialects/choose.ts"
import { arrive } from "./arrival.ts"
import { cut } from "./check.ts"
import { fail } from "./failing.ts"
import { handle } from "./handling.ts"
import { cutUnlessTaken } from "./outflow.ts"
import type { Room } from "./room.ts"
import { routes } from "./routes.ts"
import { closeLater, isOver } from "./unread.ts"

export function newFastify(room: Room): FastifyInstance {
  const server = fastify(settings(room))
  leaveBodiesUnread(server)
  addHooks(server, room)
  addRoutes(server, room)
  return server
}

function settings(room: Room): FastifyServerOptions {
  return {
    genReqId: requestId,
    exposeHeadRoutes: true,
    schemaController: { compilersFactory: noSchemas },
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096 },
    serverFactory: (handler) => room.servers.create(handler),
    clientErrorHandler: () => {}, // the servers' own
    frameworkErrors: (error, request, reply) => {
      void fail(room, request, reply, problem("invalid_http", { problem: cut(error.message, 200) }))
    },
  }
}

/** They are read when a request is handled, with limits and times of their own. */
function leaveBodiesUnread(server: FastifyInstance): void {
  server.removeAllContentTypeParsers()
  server.addContentTypeParser("*", (_request, _payload, done) => done(null))
}

function addHooks(server: FastifyInstance, room: Room): void {
  const { body, write } = room.options.timeouts
  server.addHook("onRequest", (request, reply) => arrive(room, request, reply))
  server.addHook("onSend", async ({ raw }, reply, payload) => {
    if (!(await isOver(raw))) {
      reply.header("connection", "close")
      closeLater(raw, body)
    }
    cutUnlessTaken(reply.raw, write)
    return payload
  })
  server.addHook("onClose", async () => room.running.metrics.close())
  server.setErrorHandler((error, request, reply) => fail(room, request, reply, error))
}

function addRoutes(server: FastifyInstance, room: Room): void {
  for (const route of routes) {
    for (const prefix of route.path.startsWith("/v1/") ? ["", OPENAI_PATH] : [""]) {
      server.route({
        method: route.method,
        url: prefix + route.path.replace(/\{\w+\}$/, "*"),
        handler: (request, reply) => handle(room, route, request, reply),
      })
    }
  }
}

/** Routes give Fastify no schemas; without these words it would load its own compilers of them at every start. */
const noSchemas = { buildValidator: unasked, buildSerializer: unasked }

function unasked(): never {
  throw new Error("internal: a route has a schema for Fastify to compile")
}

function requestId({ headers }: Pick<IncomingMessage, "headers">): string {
  const given = headers["x-request-id"]
  return typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID()
}
