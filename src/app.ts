// The one file that knows every room, and the wiring of a server: its models (app/prepared-model.ts, app/loaded-model.ts), one
// today, and HTTP over them. The command line, the tests and whoever embeds the server use it.
//
// What can be known to be wrong from the files' headers is refused before the port opens; only reading the weights comes
// after, while every request is answered 503.

import { setTimeout as sleep } from "node:timers/promises"
import { type LoadedModel, type LoadingModel, loadModel } from "./app/loaded-model.ts"
import type { ModelOptions } from "./app/options.ts"
import { prepareModel, type Summary } from "./app/prepared-model.ts"
import { type AppChat, withDefaults } from "./app/requests.ts"
import { openWhole } from "./closing.ts"
import type { Engine } from "./engine/engine.ts"
import { Trace } from "./engine/trace.ts"
import type { Problem } from "./errors.ts"
import type { Http } from "./http/http.ts"
import type { Activity } from "./http/running.ts"
import { defaultHttpOptions, type HttpOptions } from "./http/service.ts"
import { createLog } from "./log.ts"
import { type MemoryInUse, memoryInUse } from "./runtime/memory.ts"
import { version } from "./version.ts"

export { planOf } from "./app/plan.ts"
export type { Summary }

export interface AppOptions extends ModelOptions {
  http?: Partial<HttpOptions>
  /** Whether what happens to requests and in steps is recorded. */
  tracing?: boolean
  /** Told when there is something to do, and when there is nothing. */
  activity?: Activity
}

export interface App {
  /** The model is loaded and answers; until then the port answers 503. Rejects when it cannot be loaded. */
  readonly ready: Promise<Ready>
  /** Resolves when the model's program is lost: nothing will be answered again, and all that is left is to close. */
  readonly lost: Promise<Problem>
  /** @returns the port, which matters when 0 was asked for. */
  listen(port: number): Promise<number>
  /** Refuses new requests, lets running ones go on for at most `patience` milliseconds, then frees what is held. */
  close(patience?: number): Promise<void>
}

export interface Ready {
  chat: AppChat
  engine: Engine
  summary: Summary
  /** Where the weights came from: the model's folder, or the shelf, packed by an earlier start. */
  weightsFrom: LoadedModel["weightsFrom"]
  memory: MemoryInUse
}

/** @throws the start-up problems: a model, a device, limits that cannot be had. */
export async function createApp(options: AppOptions): Promise<App> {
  const { activity, log = createLog("silent", false) } = options
  return openWhole(async (closing) => {
    const serving = import("./http/http.ts") // a third of all modules, and nobody has asked for them before
    const prepared = [closing.add(await prepareModel(options))]
    const { createHttp } = await serving
    const httpOptions = { ...defaultHttpOptions, ...options.http, version }
    const trace = options.tracing ? new Trace() : undefined
    const http = closing.add(createHttp(httpOptions, log, { activity, trace }))
    const { lost, onLost } = lossTo(http)
    const surroundings = { reasoning: httpOptions.reasoning, trace, onLost }
    const models = prepared.map((model) => closing.add(loadModel(model, surroundings)))
    const ready = opened(http, models)
    ready.catch(() => {}) // whoever waits for it is told; nobody has to
    return {
      ready,
      lost,
      listen: (port) => http.listen(port),
      close: async (patience = 0) => {
        await Promise.race([http.drain(), sleep(patience, undefined, { ref: false })])
        await closing.close()
      },
    }
  })
}

/** Health says at once that a model is lost. */
function lossTo(http: Http): { lost: Promise<Problem>; onLost: (reason: Problem) => void } {
  let onLost = (_reason: Problem) => {}
  const lost = new Promise<Problem>((resolve) => {
    onLost = (reason) => {
      void http.drain()
      resolve(reason)
    }
  })
  return { lost, onLost }
}

/** Requests are answered when all models are there; whoever embeds the server is given the first. */
async function opened(http: Http, models: readonly LoadingModel[]): Promise<Ready> {
  const loaded = await Promise.all(models.map((model) => model.loaded))
  http.open(loaded.map(({ service }) => service))
  const { chat, engine, summary, weightsFrom } = loaded[0]!
  return { chat: withDefaults(chat), engine, summary, weightsFrom, memory: memoryInUse() }
}
