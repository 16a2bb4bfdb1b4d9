// One request on its way to its answer: what handlers see of HTTP.

import type { ServerResponse } from "node:http"
import type { Static, TSchema } from "typebox"
import type { Trace } from "../engine/trace.ts"
import { Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Account } from "./account.ts"
import type { Api } from "./apis/api.ts"
import type { DialectName } from "./apis/chat/dialects/choose.ts"
import type { ResponseStore } from "./apis/responses/store.ts"
import { checking, cut, fault } from "./check.ts"
import type { Json } from "./json.ts"
import type { Metrics } from "./metrics.ts"
import type { HttpOptions, ServedModel, Service } from "./service.ts"
import { inTurns } from "./turns.ts"

export interface Exchange {
  id: string // x-request-id
  api: Api
  /** The last path parameter. */
  parameter: string
  /** What stands behind the path's question mark; a list where a name stands twice. */
  query: Readonly<Record<string, string | readonly string[]>>
  body: Json // null where there is none
  dialect: DialectName
  scope: string
  /** Who it shares turns with: its API key, or its connection where there are no keys. */
  client: string
  options: HttpOptions
  state: State
  responses: ResponseStore
  log: Log
  metrics: Metrics
  /** What happens to requests is recorded here, and read from here; absent: it is not. */
  trace: Trace | undefined
  /** Where what becomes of the request is kept, for its line in the log. */
  account: Account
  /** Aborted when the client leaves. */
  signal: AbortSignal
  /** Calls it when the request has been answered, or has failed. */
  onEnd: (release: () => void) => void
  /** Sets a header of the answer. */
  setHeader: (name: string, value: string) => void
  /** Takes the raw response over, with the headers set so far; the handler then returns "sent". */
  takeOver: () => {
    raw: ServerResponse
    headers: Record<string, string | number | string[] | undefined>
  }
}

/** How the server stands. Without a model it is still starting. */
export interface State {
  models: readonly ServedModel[]
  draining: boolean
  /** The address that is bound, which --host may name in many ways; until one is, what --host says. */
  address: string
}

/** The body of an answer 200 unless it says otherwise; "sent" when the handler has written it itself. */
export type Answer = { status?: number; type: string; text: string } | "sent"

export const JSON_TYPE = "application/json; charset=utf-8"

export function json(text: string, status = 200): Answer {
  return { status, type: JSON_TYPE, text }
}

/**
 * The request's body, as its schema says.
 * @throws `invalid_value`; where no model is named, with the names of those that are served
 */
export async function bodyOf<T extends TSchema>(exchange: Exchange, schema: T): Promise<Static<T>> {
  try {
    return await inTurns(checking(schema, exchange.body))
  } catch (error) {
    const isOfModel = error instanceof Problem && error.param === "model"
    const isNamed = !isOfModel || Object.hasOwn(exchange.body as object, "model")
    throw isNamed ? error : unnamed(exchange.state)
  }
}

/** Of a request that names no model where it must. */
export function unnamed(state: State): Problem {
  return fault("model", `is required; served: ${namesOf(state)}`)
}

/**
 * The model that answers to a name, loaded until the request has been answered; where a request need not say one, the first.
 * @throws `model_not_found`, and why it cannot be loaded
 */
export async function serviceOf(exchange: Exchange, name?: string | null): Promise<Service> {
  const { service, release } = await modelOf(exchange, name).lease(exchange.signal)
  exchange.onEnd(release)
  return service
}

/**
 * The model that answers to a name, loaded or not. Routes that are not `early` are only reached when there is one.
 * @throws `model_not_found`
 */
export function modelOf({ state }: Pick<Exchange, "state">, name?: string | null): ServedModel {
  const [first] = state.models
  if (!first) throw new Error("internal: no model behind a route that needs one")
  if (typeof name !== "string") return first
  // Ollama's clients write a name with a tag where they found it so, on other paths as well.
  const called = (own: string) => state.models.find(({ card }) => card.names.includes(own))
  const named = called(name) ?? called(name.replace(/:latest$/, ""))
  if (named) return named
  const model = JSON.stringify(cut(name, 100))
  throw problem("model_not_found", { model, served: namesOf(state) }, "model")
}

function namesOf({ models }: State): string {
  return models.flatMap(({ card }) => card.names).join(", ")
}

/** What a client is told of an error: a problem's own words, or that the fault is ours, whose details the log has. */
export function problemOf(error: unknown, { id, log }: Pick<Exchange, "id" | "log">): Problem {
  if (error instanceof Problem && error.status > 0) return error
  log.error({ err: error, request: id }, "internal error")
  return problem("internal_error", { request: id })
}
