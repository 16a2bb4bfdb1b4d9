// The one file that knows every room. It finds and opens a model, chooses what may run at once, makes a program of it,
// feeds it its weights, and wires engine, chat and http. The command line, the tests and whoever embeds the server use it.
//
// What can be known to be wrong from the files' headers is refused before the port opens; only reading the weights comes
// after, while every request is answered 503.

import { createHash, type Hash } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { createChat } from "./chat/chat.ts"
import type { Chat, PlainText } from "./chat/conversation.ts"
import { openTemplate } from "./chat/template.ts"
import { openTokenizer } from "./chat/tokenizer.ts"
import { compile } from "./compiler/compile.ts"
import type { Plan } from "./compiler/plan.ts"
import { findCompiler } from "./compiler/targets/cpu/toolchain.ts"
import {
  type LoadableProgram,
  type Prepared,
  type TargetName,
  targets,
} from "./compiler/targets/targets.ts"
import { createEngine, type Engine } from "./engine/engine.ts"
import { chooseLimits, type EngineLimits, type Mode, type Overrides } from "./engine/limits.ts"
import { problem } from "./errors.ts"
import { createHttp, type Http } from "./http/http.ts"
import { defaultHttpOptions, type Gauge, type HttpOptions } from "./http/service.ts"
import { createLog, type Log } from "./log.ts"
import { locateModel } from "./model/locate.ts"
import { type Model, openModel } from "./model/model.ts"
import { loadParameters } from "./model/weights/weights.ts"
import { chooseDevice, type Device, type DeviceRequest } from "./runtime/devices.ts"
import { formats } from "./runtime/format.ts"
import { readMemory } from "./runtime/memory.ts"
import { version } from "./version.ts"

export interface AppOptions {
  /** A model folder, or the name of one. */
  model: string
  device?: DeviceRequest
  /** What to compile for; auto: the processor, or the interpreter where there is no C compiler. */
  target?: TargetName | "auto"
  mode?: Mode
  overrides?: Overrides
  /** One more name for the model. */
  servedName?: string | undefined
  /** Whose sampling defaults: the API's, or the model folder's. */
  generationDefaults?: "api" | "model"
  /** Requests that may wait. */
  maxQueue?: number
  /** Milliseconds from a request's arrival to its end. */
  requestTimeout?: number | undefined
  http?: Partial<HttpOptions>
  log?: Log
}

export interface App {
  /** The model is loaded and answers; until then the port answers 503. Rejects when it cannot be loaded. */
  readonly ready: Promise<Ready>
  /** @returns the port, which matters when 0 was asked for. */
  listen(port: number): Promise<number>
  /** Refuses new requests, lets running ones go on for at most `patience` milliseconds, then frees what is held. */
  close(patience?: number): Promise<void>
}

export interface Ready {
  chat: Chat & PlainText
  engine: Engine
  summary: Summary
}

/** What was opened and what was chosen, for people. */
export interface Summary {
  name: string
  folder: string
  architecture: string
  parameters: number
  format: string
  target: string
  device: Device
  mode: Mode
  limits: EngineLimits
}

/** @throws the start-up problems: a model, a device, limits that cannot be had. */
export async function createApp(options: AppOptions): Promise<App> {
  const { mode = "local", log = createLog("silent", false) } = options
  const device = chooseDevice(options.device ?? { name: "auto", id: 0 })
  const model = await openModel(locateModel(options.model))
  const plan = makePlan(model)
  const prepared = await targets[await chooseTarget(options.target ?? "auto", plan, log)](plan)
  const { manifest, weightBytes, bufferBytes } = prepared
  const { available } = readMemory()
  const limits = chooseLimits({
    mode,
    overrides: options.overrides ?? {},
    manifest,
    available,
    weightBytes,
    bufferBytes,
  })
  const summary: Summary = {
    name: model.name,
    folder: model.path,
    architecture: model.architecture,
    parameters: parameterCount(plan),
    format: model.format,
    target: manifest.target,
    device,
    mode,
    limits,
  }
  const http = createHttp({ ...defaultHttpOptions, ...options.http, version }, log)
  const closing = new AbortController()
  const ready = load({ options, model, prepared, summary, http, log, signal: closing.signal })
  ready.catch(() => {}) // whoever waits for it is told; nobody has to
  return {
    ready,
    listen: (port) => listen(http, options.http?.host ?? defaultHttpOptions.host, port),
    close: async (patience = 0) => {
      await Promise.race([http.drain(), sleep(patience, undefined, { ref: false })])
      closing.abort()
      await ready.then(({ engine }) => engine.close()).catch(() => {})
      http.server.server.closeAllConnections()
      await http.server.close()
      await model.close()
    },
  }
}

/** Float formats keep keys and values exact, since nothing else is rounded; packed ones halve them. */
function makePlan({ graph, format }: Model): Plan {
  const exact = formats[format].kind === "float"
  return compile(graph, { format, activations: "int8", kv: exact ? "f32" : "f16" })
}

/** The largest model that is served without a C compiler: the interpreter is some hundred times slower. */
const MOST_INTERPRETED = 50e6

/** @throws `compiler_missing` when there is none and the model is too large for the interpreter. */
async function chooseTarget(
  wanted: TargetName | "auto",
  plan: Plan,
  log: Log,
): Promise<TargetName> {
  if (wanted !== "auto") return wanted
  if (await findCompiler()) return "cpu"
  if (parameterCount(plan) > MOST_INTERPRETED) return "cpu" // whose refusal says what is missing
  log.warn(
    "No C compiler is here: the model runs in the interpreter, which is slow. Install gcc or clang.",
  )
  return "reference"
}

function parameterCount({ parameters }: Plan): number {
  return parameters.reduce((sum, { rows, columns }) => sum + rows * columns, 0)
}

interface Loading {
  options: AppOptions
  model: Model
  prepared: Prepared
  summary: Summary
  http: Http
  log: Log
  signal: AbortSignal
}

async function load({
  options,
  model,
  prepared,
  summary,
  http,
  log,
  signal,
}: Loading): Promise<Ready> {
  const { limits } = summary
  const { texts } = model
  const { vocabulary } = prepared.manifest.shapes
  const tokenizer = await openTokenizer(texts.tokenizer.text, texts.tokenizer.file, vocabulary)
  const source = texts.templates.get("default")
  const template =
    source &&
    openTemplate(source.text, source.file, {
      specialTokens: texts.specialTokens,
      now: new Date(), // the day the server started: the same request stays the same
    })
  const program = await prepared.open(limits.program)
  const hash = createHash("sha256").update(program.manifest.fingerprint)
  hash.update(texts.tokenizer.text).update(source?.text ?? "")
  await loadParameters(model.weights, program.manifest, hashed(program, hash, signal))
  const { maxQueue = 256, requestTimeout } = options
  const engine = createEngine(program, {
    limits,
    maxQueue,
    log,
    ...(requestTimeout ? { requestTimeout } : {}),
  })
  const chat = createChat({
    engine: { generate: async (request, signal) => engine.generate(request, signal) },
    tokenizer,
    template,
    endTokens: new Set(texts.endTokens),
  })
  http.open({
    chat,
    model: {
      names: [
        ...new Set([
          options.model,
          model.name,
          ...(options.servedName ? [options.servedName] : []),
        ]),
      ],
      created: Math.floor(Date.now() / 1000),
      contextLength: limits.context.value,
      vocabularySize: vocabulary,
      fingerprint: `fp_${hash.digest("hex").slice(0, 16)}`,
      details: {
        architecture: summary.architecture,
        parameters: summary.parameters,
        format: summary.format,
        device: `${summary.device.name}:${summary.device.id}`,
        target: summary.target,
        max_num_sequence: limits.sequences.value,
        max_total_seq_length: limits.total.value,
      },
    },
    defaults: options.generationDefaults === "model" ? texts.sampling : {},
    gauges: () => gauges(engine),
  })
  return { chat, engine, summary }
}

/** The program's `load`, with every byte of the weights on its way into the fingerprint. */
function hashed(
  program: LoadableProgram,
  hash: Hash,
  signal: AbortSignal,
): Pick<LoadableProgram, "load"> {
  return {
    load: (parameter, row, rows, values, scales) => {
      signal.throwIfAborted()
      hash.update(values)
      if (scales) hash.update(scales)
      return program.load(parameter, row, rows, values, scales)
    },
  }
}

const gaugeHelp = {
  running: "Sequences with a place in the steps.",
  waiting: "Requests of which nothing runs yet.",
  blocksUsed: "KV blocks that sequences hold.",
  blocksTotal: "KV blocks in all.",
  blocksRemembered: "KV blocks that the prefix cache knows.",
  steps: "Steps taken.",
  promptTokens: "Prompt tokens computed.",
  cachedTokens: "Prompt tokens taken over from the prefix cache.",
  replyTokens: "Tokens drawn.",
  recomputedTokens: "Tokens computed once more, after blocks were taken.",
  preemptions: "Sequences whose blocks were taken for others.",
  failures: "Sequences that ended in an error.",
} as const satisfies Record<keyof ReturnType<Engine["stats"]>, string>

function gauges(engine: Engine): Gauge[] {
  const stats = engine.stats()
  return Object.entries(gaugeHelp).map(([name, help]) => ({
    name: `sinter_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`,
    help,
    value: stats[name as keyof typeof stats],
  }))
}

/** @throws `option_invalid` when the address cannot be had. */
async function listen({ server }: Http, host: string, port: number): Promise<number> {
  try {
    await server.listen({ host, port })
  } catch (error) {
    throw unavailable(error as NodeJS.ErrnoException, host, port)
  }
  const address = server.server.address()
  return typeof address === "object" && address ? address.port : port
}

function unavailable(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const refuse = (option: string, why: string) =>
    problem("option_invalid", { option, problem: why })
  switch (error.code) {
    case "EADDRINUSE":
      return refuse("--port", `${port} on ${host} is in use; choose another, or 0 for a free one.`)
    case "EACCES":
      return refuse(
        "--port",
        `${port} needs rights that this user does not have; choose one above 1023.`,
      )
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return refuse("--host", `${host} is no address of this machine; 0.0.0.0 means all of them.`)
    default:
      return error
  }
}
