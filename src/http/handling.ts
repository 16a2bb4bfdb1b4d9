// From a request that has a route to its answer: who asks, what the body says, and the handler of the route.

import type { FastifyReply, FastifyRequest } from "fastify"
import { problem } from "../errors.ts"
import { openaiApi } from "./apis/openai.ts"
import { setDialect } from "./arrival.ts"
import { jsonBody } from "./body.ts"
import type { Answer, Exchange, State } from "./exchange.ts"
import { formBody } from "./form.ts"
import { assertFormOrigin, connectionName, readScope } from "./guards.ts"
import type { Room } from "./room.ts"
import type { Route } from "./route.ts"

export async function handle(
  room: Room,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const { options, state, trace } = room
  const isOpen = route.open === true || (route.open === "metrics" && options.openMetrics)
  const scope = isOpen ? "" : readScope(room.keys, request.headers)
  if (!route.early) assertReady(state)
  route.assertUseful?.(state)
  if (route.body) trace?.mark(request.id, "received")
  const signal = leavingSignal(reply)
  const ends: (() => void)[] = []
  const onEnd = (release: () => void) => void ends.push(release)
  try {
    const body = route.body ? await readBody(room, route, request, onEnd) : null
    const answer = await route.handle(
      exchangeOf(room, route, request, reply, { body, scope, signal, onEnd }),
    )
    return answer === "sent" ? undefined : send(reply, answer)
  } finally {
    for (const release of ends) release()
  }
}

type Begun = Pick<Exchange, "body" | "scope" | "signal" | "onEnd">

function exchangeOf(
  { options, state, log, responses, running, trace }: Room,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
  begun: Begun,
): Exchange {
  const { body, scope } = begun
  return {
    ...begun,
    id: request.id,
    api: route.api ?? openaiApi,
    parameter: (request.params as { "*"?: string })["*"] ?? "",
    query: request.query as Exchange["query"],
    dialect: setDialect(options, request, reply, body),
    client: scope || connectionName(request.raw.socket),
    options,
    state,
    responses,
    log,
    metrics: running.metrics,
    trace,
    account: running.accountOf(request),
    setHeader: (name, value) => void reply.header(name, value),
    takeOver: () => {
      reply.hijack()
      return { raw: reply.raw, headers: reply.getHeaders() }
    },
  }
}

export function send(reply: FastifyReply, { status = 200, type, text }: Exclude<Answer, "sent">) {
  return reply.code(status).type(type).send(text)
}

function assertReady({ models, draining }: State): void {
  if (draining) throw problem("not_ready", { state: "shutting down" })
  if (models.length === 0) throw problem("not_ready", { state: "loading its model" })
}

function readBody(
  { options, state, bodies }: Room,
  { takes, body }: Route,
  { raw }: FastifyRequest,
  onEnd: Exchange["onEnd"],
) {
  if (takes === "form") assertFormOrigin(options.cors, raw)
  const kind = takes === "form" ? formBody(body!) : jsonBody
  return bodies.read(raw, kind, options.maxBody ?? bodyLimit(state), options.timeouts.body, onEnd)
}

const MIN_BODY_LIMIT = 2 * 1024 * 1024 // bytes
/** Bytes: an image or a recording of the largest size in Base64, and some beside it. */
const MIN_WITH = { image: 32 * 1024 * 1024, audio: 40 * 1024 * 1024 }
const BYTES_A_TOKEN = 16

/** Which model a body is for stands in the body: the longest context counts, and whether one of them sees or hears. */
function bodyLimit({ models }: State): number {
  const takes = (sense: "sees" | "hears") => models.some(({ card }) => card[sense])
  const least = takes("hears") ? MIN_WITH.audio : takes("sees") ? MIN_WITH.image : MIN_BODY_LIMIT
  const contexts = models.map(({ card }) => BYTES_A_TOKEN * card.contextLength)
  return Math.max(least, ...contexts)
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
