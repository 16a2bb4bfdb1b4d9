// The requests that are being answered: what each came to is told when it is over, and a server that drains waits for all.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Trace } from "../engine/trace.ts"
import type { Log } from "../log.ts"
import { Account } from "./account.ts"
import { cut } from "./check.ts"
import type { State } from "./exchange.ts"
import { Metrics } from "./metrics.ts"
import { pathOf, routesOf } from "./paths.ts"
import type { Activity, Sample, ServedModel } from "./service.ts"

const CLIENT_LEFT = 499 // in the log alone, as nginx writes it

export interface Watchers {
  activity?: Activity | undefined
  /** Absent: what happens to requests is not recorded. */
  trace?: Trace | undefined
}

export class Running {
  readonly metrics: Metrics
  readonly #accounts = new Map<FastifyRequest, Account>()
  readonly #log: Log
  readonly #trace: Trace | undefined
  readonly #activity: Activity | undefined
  #whenIdle = () => {}

  constructor(state: State, log: Log, { activity, trace }: Watchers) {
    this.#log = log
    this.#trace = trace
    this.#activity = activity
    this.metrics = new Metrics(
      () => this.#accounts.size,
      () => samplesOf(state.models),
    )
  }

  /** From now until its connection is done with it. */
  add(request: FastifyRequest, reply: FastifyReply): void {
    const account = new Account()
    if (this.#accounts.size === 0) this.#activity?.busy()
    this.#accounts.set(request, account)
    reply.raw.once("close", () => {
      if (!reply.raw.writableEnded) account.left()
      this.#accounts.delete(request)
      if (this.#accounts.size === 0) {
        this.#whenIdle()
        this.#activity?.idle()
      }
      this.#record(request, reply, account)
    })
  }

  accountOf(request: FastifyRequest): Account {
    const account = this.#accounts.get(request)
    if (!account) throw new Error("internal: a request is handled that nobody has received")
    return account
  }

  /** Resolves when none is left. */
  ended(): Promise<void> {
    if (this.#accounts.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#whenIdle = resolve
    })
  }

  /** One line for each request; no text of prompts or replies, and no query, where a key may stand. */
  #record(request: FastifyRequest, { raw }: FastifyReply, account: Account): void {
    const { id, method } = request
    const path = pathOf(request)
    const status = account.hasLeft ? CLIENT_LEFT : raw.statusCode
    const entry = account.tell(status)
    const [route] = routesOf(path)
    const level = route?.probe ? "debug" : "info"
    this.#log[level]({ request: id, method, path: cut(path, 200), status, ...entry }, entry.outcome)
    if (route?.body) this.#trace?.mark(id, "finished", { status, ...entry })
    this.metrics.requestEnded(route?.path ?? "other", status, account)
  }
}

/** Of all models that are loaded; with a label for the model where there are several, those of one name side by side. */
function samplesOf(served: readonly ServedModel[]): readonly Sample[] {
  const models = served.filter(({ card }) => card.parent === undefined)
  const [only, ...others] = models
  if (others.length === 0) return only?.loaded?.samples?.() ?? []
  const byName = new Map<string, Sample[]>()
  for (const { card, loaded } of models) {
    for (const sample of loaded?.samples?.() ?? []) {
      const model = card.names[0]!.replace(/["\\\n]/g, "_")
      const alike = byName.get(sample.name) ?? []
      byName.set(sample.name, [...alike, { ...sample, labels: { model, ...sample.labels } }])
    }
  }
  return [...byName.values()].flat()
}
