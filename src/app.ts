// The one file that knows every room, and the wiring of a server: its models (app/models.ts) and HTTP over them. The command
// line, the tests and whoever embeds the server use it.
//
// What can be known to be wrong from the files' headers is refused before the port opens; only reading the weights comes
// after, while every request is answered 503.

import { setTimeout as sleep } from "node:timers/promises"
import type { LoadedModel } from "./app/loaded-model.ts"
import { type Models, type ModelsOptions, openModels } from "./app/models.ts"
import type { Summary } from "./app/prepared-model.ts"
import { type AppChat, withDefaults } from "./app/requests.ts"
import type { Transcripts } from "./chat/conversation.ts"
import { openWhole } from "./closing.ts"
import type { Engine } from "./engine/engine.ts"
import { Trace } from "./engine/trace.ts"
import type { Problem } from "./errors.ts"
import type { Http } from "./http/http.ts"
import { type Activity, defaultHttpOptions, type HttpOptions } from "./http/service.ts"
import { createLog } from "./log.ts"
import { version } from "./version.ts"

export { planOf, towerPlanOf } from "./app/plan.ts"
export { checkImagePatches, tileBytes } from "./app/towers.ts"
export type { Summary }

export interface AppOptions extends Partial<Omit<ModelsOptions, "models">> {
  /** A model, or several; each a folder or a GGUF file, by its path, by its name, or by that on the hub, which downloads it. */
  model: string | readonly string[]
  http?: Partial<HttpOptions>
  /** Whether what happens to requests and in steps is recorded. */
  tracing?: boolean
  /** Told when there is something to do, and when there is nothing. */
  activity?: Activity
}

export interface App {
  /** As many models as may be loaded at once are, and answer; until then the port answers 503. Rejects when one cannot be. */
  readonly ready: Promise<Ready>
  /** Resolves when the model's program is lost: nothing will be answered again, and all that is left is to close. */
  readonly lost: Promise<Problem>
  /** @returns the port, which matters when 0 was asked for. */
  listen(port: number): Promise<number>
  /** Refuses new requests, lets running ones go on for at most `patience` milliseconds, then frees what is held. */
  close(patience?: number): Promise<void>
}

/** The first model's own, valid until it is unloaded, and what was chosen for each. */
export interface Ready {
  chat: AppChat
  /** Of a Whisper, which writes nothing else. */
  transcripts?: Transcripts | undefined
  engine: Engine
  summary: Summary
  /** Where the weights came from: the model's folder, or the shelf, packed by an earlier start. */
  weightsFrom: LoadedModel["weightsFrom"]
  /** Of all models that are loaded, the first among them. */
  summaries: readonly Summary[]
}

/** @throws the start-up problems: a model, a device, limits that cannot be had. */
export async function createApp(options: AppOptions): Promise<App> {
  const { activity, model, log = createLog("silent", false) } = options
  const names = typeof model === "string" ? [model] : model
  return openWhole(async (closing) => {
    const serving = import("./http/http.ts") // a third of all modules, and nobody has asked for them before
    const httpOptions = { ...defaultHttpOptions, ...options.http, version }
    const trace = options.tracing ? new Trace() : undefined
    const { lost, onLost } = loss()
    const surroundings = { now: new Date(), reasoning: httpOptions.reasoning, trace, onLost }
    const models = await openModels({ ...options, models: names, log }, surroundings)
    const { createHttp } = await serving.catch(async (error) => {
      await models.close()
      throw error
    })
    const http = closing.add(createHttp(httpOptions, log, { activity, trace }))
    closing.add(models) // before http, so that its clients are told
    void lost.then(() => http.drain()) // health says so at once
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

function loss(): { lost: Promise<Problem>; onLost: (reason: Problem) => void } {
  let onLost = (_reason: Problem) => {}
  const lost = new Promise<Problem>((resolve) => {
    onLost = resolve
  })
  return { lost, onLost }
}

/** Requests are answered when as many models as may be loaded at once are; whoever embeds the server is given the first. */
async function opened(http: Http, models: Models): Promise<Ready> {
  const loaded = await models.loaded
  http.open(models.served)
  const { chat, engine, summary, weightsFrom, services } = loaded[0]!
  const [service] = services
  const summaries = loaded.map((each) => each.summary)
  const answering = withDefaults(chat, service.defaults)
  const { transcripts } = service
  return { chat: answering, transcripts, engine, summary, weightsFrom, summaries }
}
