// The front door of the room. `createHttp` gives a server that can listen at once and answers 503 until `open` hands it
// a model; every request then takes one way: guards, body, dialect, handler, answer. Fastify routes and frames; it
// neither reads bodies nor shapes answers here.

import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { Account } from "./account.ts"
import { ClientGone, readBody } from "./body.ts"
import { cut } from "./check.ts"
import { answerBrokenHttp, answerConnect } from "./connection.ts"
import { corsHeaders, isPreflight, preflight } from "./cors.ts"
import { chooseDialect, type DialectName, OPENAI_PATH } from "./dialects/choose.ts"
import { errorBody, problemOf } from "./error-body.ts"
import type { Answer, State } from "./exchange.ts"
import { assertHost, readScope } from "./guards.ts"
import type { Json } from "./json.ts"
import { Metrics } from "./metrics.ts"
import type { Route } from "./route.ts"
import { routes } from "./routes.ts"
import type { HttpOptions, Service } from "./service.ts"
import { cutUnlessTaken } from "./sse.ts"

export interface Http {
  /** Listens, and takes injected requests in tests. */
  server: FastifyInstance
  /** From now on requests are answered. */
  open: (service: Service) => void
  /** From now on new requests are refused; resolves when those that run have ended. */
  drain: () => Promise<void>
}

/** @param service when the model is loaded already. */
export function createHttp(options: HttpOptions, log: Log, service?: Service): Http {
  const state: State = { service, draining: false }
  const running = new Map<FastifyRequest, Account>()
  const metrics = new Metrics(
    () => running.size,
    () => state.service?.samples?.() ?? [],
  )
  let whenIdle = () => {}

  const { header, body, idle } = options.timeouts
  const server = fastify({
    genReqId: requestId,
    exposeHeadRoutes: true,
    schemaController: { compilersFactory: noSchemas },
    return503OnClosing: false,
    keepAliveTimeout: idle + IDLE_GRACE,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096 },
    http: {
      headersTimeout: header,
      requestTimeout: header + body + IDLE_GRACE, // the body's own timer comes first
      connectionsCheckingInterval: 1000,
      requireHostHeader: false, // refused below, in our own body
      keepAlive: true, // finds clients that vanished without a word
      keepAliveInitialDelay: 30_000,
    },
    clientErrorHandler: (error, socket) => answerBrokenHttp(error, socket, dialectOf("")),
    frameworkErrors: (error, request, reply) => {
      prepare(request, reply)
      void fail(request, reply, problem("invalid_http", { problem: cut(error.message, 200) }))
    },
  })
  server.server.on("connect", ({ url = "" }, socket) => {
    answerConnect(url, socket, dialectOf(""))
  })
  // An expectation nobody knows may be left unmet; Node's own answer would be a bare 417.
  server.server.on("checkExpectation", (request, response) => {
    server.server.emit("request", request, response)
  })
  // Bodies are read by the handlers' wrapper below, with its own limits and times.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser("*", (_request, _payload, done) => done(null))

  server.addHook("onRequest", async (request, reply) => {
    const account = new Account()
    prepare(request, reply)
    running.set(request, account)
    reply.raw.once("close", () => {
      running.delete(request)
      if (running.size === 0) whenIdle()
      recordEnd(request, reply, account)
    })
    assertHost(options, request.raw)
    setDialect(request, reply, undefined)
    if (options.cors && isPreflight(request.method, request.headers)) {
      const { status, text, headers } = preflight(options.cors, request.headers)
      return reply.code(status).headers(headers).type("text/plain; charset=utf-8").send(text)
    }
    if (request.is404) return answerUnrouted(request, reply) // before anything of it is read
  })
  server.addHook("onClose", async () => metrics.close())
  server.addHook("onSend", async (_request, reply, payload) => {
    cutUnlessTaken(reply.raw, options.timeouts.write)
    return payload
  })
  server.setErrorHandler((error, request, reply) => fail(request, reply, error))
  for (const route of routes) {
    for (const prefix of route.path.startsWith("/v1/") ? ["", OPENAI_PATH] : [""]) {
      server.route({
        method: route.method,
        url: prefix + route.path.replace(/\{\w+\}$/, "*"),
        handler: (request, reply) => handle(route, request, reply),
      })
    }
  }

  /** The headers that every answer has, whatever becomes of the request. */
  function prepare(request: FastifyRequest, reply: FastifyReply): void {
    reply.header("x-request-id", request.id)
    reply.header("x-content-type-options", "nosniff")
    if (options.cors) reply.headers(corsHeaders(options.cors, request.headers))
    reply.header("keep-alive", `timeout=${Math.floor(idle / 1000)}`)
    if (state.draining) reply.header("connection", "close")
    reply.header("x-api-dialect", dialectOf(pathOf(request))) // of answers to requests that were not read further
  }

  function dialectOf(path: string): DialectName {
    return chooseDialect(path, {}, options.dialect, undefined)
  }

  function setDialect(request: FastifyRequest, reply: FastifyReply, given: Json | undefined) {
    const dialect = chooseDialect(pathOf(request), request.headers, options.dialect, given)
    reply.header("x-api-dialect", dialect)
    return dialect
  }

  function answerUnrouted(request: FastifyRequest, reply: FastifyReply) {
    const { method } = request
    const path = pathOf(request)
    const allowed = allowedMethods(path).join(", ")
    readScope(options.apiKeys, request.headers)
    if (allowed === "") throw problem("route_not_found", { method, path: cut(path, 200) })
    reply.header("allow", allowed)
    if (method === "OPTIONS") return reply.code(204).send()
    throw problem("method_not_allowed", { method, path: cut(path, 200), allowed })
  }

  async function handle(route: Route, request: FastifyRequest, reply: FastifyReply) {
    const scope = route.open ? "" : readScope(options.apiKeys, request.headers)
    if (!route.early) assertReady(state)
    if (route.body) state.service?.trace?.mark(request.id, "received")
    const leaving = leavingSignal(reply)
    const given = route.body
      ? await readBody(request.raw, options.maxBody ?? bodyLimit(state), body)
      : null
    const answer = await route.handle({
      id: request.id,
      parameter: (request.params as { "*"?: string })["*"] ?? "",
      body: given,
      dialect: setDialect(request, reply, given),
      scope,
      options,
      state,
      log,
      metrics,
      account: running.get(request)!,
      signal: leaving,
      setHeader: (name, value) => void reply.header(name, value),
      takeOver: () => {
        reply.hijack()
        return { raw: reply.raw, headers: reply.getHeaders() }
      },
    })
    if (answer === "sent") return
    return send(reply, answer)
  }

  /** One line for each request; no text of prompts or replies. */
  function recordEnd(request: FastifyRequest, { raw }: FastifyReply, account: Account): void {
    const { id, method, url } = request
    const status = raw.writableEnded ? raw.statusCode : CLIENT_LEFT
    const told = account.tell(status)
    const [route] = routesOf(pathOf(request))
    const level = route?.probe ? "debug" : "info"
    log[level]({ request: id, method, path: cut(url, 200), status, ...told }, told.outcome)
    if (route?.body) state.service?.trace?.mark(id, "finished", { status, ...told })
    metrics.requestEnded(route?.path ?? "other", status, account)
  }

  function fail(request: FastifyRequest, reply: FastifyReply, error: unknown) {
    if (error instanceof ClientGone || reply.raw.destroyed) {
      reply.hijack()
      reply.raw.destroy()
      return
    }
    const told = problemOf(ownWords(error), { id: request.id, log })
    if (told.status === 429 || told.status === 503) reply.header("retry-after", "1")
    if (told.status === 401) reply.header("www-authenticate", challenge(pathOf(request)))
    if (told.status === 408) reply.header("connection", "close")
    return send(reply, { status: told.status, type: JSON_TYPE, text: errorBody(told) })
  }

  return {
    server,
    open: (opened) => {
      state.service = opened
    },
    drain: () => {
      state.draining = true
      if (running.size === 0) return Promise.resolve()
      return new Promise((resolve) => {
        whenIdle = resolve
      })
    },
  }
}

const CLIENT_LEFT = 499 // in the log alone, as nginx writes it

/** Fastify's own complaints, of which one is left, in ours. */
function ownWords(error: unknown): unknown {
  const isKind = error instanceof Error && "code" in error
  if (!isKind || error.code !== "FST_ERR_CTP_INVALID_MEDIA_TYPE") return error
  return problem("unsupported_media_type", { problem: "its Content-Type is malformed." })
}

const JSON_TYPE = "application/json; charset=utf-8"

// An idle connection outlives what its Keep-Alive header promised, so that none is closed under a client about to write.
const IDLE_GRACE = 5_000 // milliseconds

/** Routes give Fastify no schemas; without these words it would load its own compilers of them at every start. */
const noSchemas = { buildValidator: unasked, buildSerializer: unasked }

function unasked(): never {
  throw new Error("internal: a route has a schema for Fastify to compile")
}

function requestId({ headers }: Pick<IncomingMessage, "headers">): string {
  const given = headers["x-request-id"]
  return typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID()
}

function pathOf(request: FastifyRequest): string {
  return request.url.replace(/[?#].*$/s, "")
}

function routesOf(path: string): readonly Route[] {
  const plain = path.startsWith(`${OPENAI_PATH}/v1/`) ? path.slice(OPENAI_PATH.length) : path
  return routes.filter((route) => {
    const [start = "", parameter] = route.path.split("{")
    return parameter ? plain.startsWith(start) : plain.replace(/\/$/, "") === start
  })
}

function allowedMethods(path: string): string[] {
  const methods = routesOf(path).flatMap(({ method }) =>
    method === "GET" ? ["GET", "HEAD"] : [method],
  )
  return methods.length > 0 ? [...methods, "OPTIONS"] : []
}

function assertReady({ service, draining }: State): void {
  if (draining) throw problem("not_ready", { state: "shutting down" })
  if (!service) throw problem("not_ready", { state: "loading its model" })
}

const LEAST_BODY_LIMIT = 2 * 1024 * 1024 // bytes
const BYTES_A_TOKEN = 16

function bodyLimit({ service }: State): number {
  return Math.max(LEAST_BODY_LIMIT, BYTES_A_TOKEN * (service?.model.contextLength ?? 0))
}

// Of the request's own signals none is of use: they fire when the body has been read, or never.
function leavingSignal(reply: FastifyReply): AbortSignal {
  const leaving = new AbortController()
  if (reply.raw.destroyed) leaving.abort()
  reply.raw.once("close", () => {
    if (!reply.raw.writableEnded) leaving.abort()
  })
  return leaving.signal
}

// A browser that opens the docs page asks its user for the key as a password.
function challenge(path: string): string {
  return path === "/docs" ? 'Basic realm="sinter: the API key is the password"' : "Bearer"
}

function send(reply: FastifyReply, { status = 200, type, text }: Exclude<Answer, "sent">) {
  return reply.code(status).type(type).send(text)
}
