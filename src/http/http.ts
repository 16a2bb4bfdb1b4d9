// The front door of the room. `createHttp` gives a server that can listen at once and answers 503 until `open` hands it
// a model. Every request takes one way: it arrives (arrival.ts), is handled (handling.ts), and fails in one place
// (failing.ts). Fastify routes and frames; it neither reads bodies nor shapes answers here.

import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { type FastifyInstance, fastify } from "fastify"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { OPENAI_PATH } from "./apis/chat/dialects/choose.ts"
import { arrive, unreadDialect } from "./arrival.ts"
import { Bodies } from "./body.ts"
import { cut } from "./check.ts"
import type { State } from "./exchange.ts"
import { exposures } from "./exposure.ts"
import { fail } from "./failing.ts"
import { handle } from "./handling.ts"
import { cutUnlessTaken } from "./outflow.ts"
import type { Room } from "./room.ts"
import { routes } from "./routes.ts"
import { type Activity, Running } from "./running.ts"
import { Servers } from "./server.ts"
import type { HttpOptions, Service } from "./service.ts"
import { closeLater, isOver } from "./unread.ts"

export interface Http {
  /** Listens, and takes injected requests in tests. */
  server: FastifyInstance
  /** From now on requests are answered. */
  open: (service: Service) => void
  /** From now on new requests are refused; resolves when those that run have ended. */
  drain: () => Promise<void>
}

/** @param service when the model is loaded already. */
export function createHttp(
  options: HttpOptions,
  log: Log,
  service?: Service,
  activity?: Activity,
): Http {
  const room = openRoom(options, log, service, activity)
  const server = newFastify(room)
  server.addHook("onRequest", (request, reply) => arrive(room, request, reply))
  server.addHook("onSend", async ({ raw }, reply, payload) => {
    if (!(await isOver(raw))) {
      reply.header("connection", "close")
      closeLater(raw, options.timeouts.body)
    }
    cutUnlessTaken(reply.raw, options.timeouts.write)
    return payload
  })
  server.addHook("onClose", async () => room.running.metrics.close())
  server.setErrorHandler((error, request, reply) => fail(room, request, reply, error))
  addRoutes(server, room)
  server.server.once("listening", () => {
    for (const sentence of exposures(options)) log.warn(sentence) // not of an address that cannot be had
  })
  return {
    server,
    open: (opened) => {
      room.state.service = opened
    },
    drain: () => {
      room.state.draining = true
      return room.running.ended()
    },
  }
}

function openRoom(
  options: HttpOptions,
  log: Log,
  service: Service | undefined,
  activity: Activity | undefined,
): Room {
  const state: State = { service, draining: false }
  const servers = new Servers(options, unreadDialect(options), () => {
    log.warn({ connections: options.maxConnections }, "no more connections are served")
  })
  const running = new Running(state, log, activity)
  return { options, log, state, servers, bodies: new Bodies(), running }
}

function newFastify(room: Room): FastifyInstance {
  const server = fastify({
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
  })
  // Bodies are read when a request is handled, with limits and times of their own.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser("*", (_request, _payload, done) => done(null))
  return server
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
