// The one file that knows every room. It finds and opens a model, chooses what may run at once, makes a program of it,
// feeds it its weights, and wires engine, chat and http. The command line, the tests and whoever embeds the server use it.
//
// What can be known to be wrong from the files' headers is refused before the port opens; only reading the weights comes
// after, while every request is answered 503.

import { createHash } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { appDefaults } from "./app/defaults.ts"
import { type DraftingOptions, type PreparedDrafting, prepareDrafting } from "./app/drafting.ts"
import { fingerprintOf } from "./app/fingerprint.ts"
import { planOf } from "./app/plan.ts"
import { type AppChat, withDefaults } from "./app/requests.ts"
import { openTemplates } from "./app/texts.ts"
import { createChat } from "./chat/chat.ts"
import { Encoder } from "./chat/encoder.ts"
import type { FormatName as ToolFormat } from "./chat/formats/formats.ts"
import { openTokenizer, type Tokenizer } from "./chat/tokenizer.ts"
import {
  parameterCount,
  prepareProgram,
  requestedTarget,
  traitsOf,
} from "./compiler/targets/prepare.ts"
import type { Prepared } from "./compiler/targets/target.ts"
import {
  type TargetName,
  targetOf,
  targets,
  usableDevices,
  whyUnusable,
} from "./compiler/targets/targets.ts"
import { createEngine, type Engine } from "./engine/engine.ts"
import { chooseLimits, type EngineLimits, type Mode, type Overrides } from "./engine/limits.ts"
import type { Speculative } from "./engine/speculative.ts"
import type { EngineStats } from "./engine/stats.ts"
import { Trace } from "./engine/trace.ts"
import type { Problem } from "./errors.ts"
import type { Http } from "./http/http.ts"
import type { Activity } from "./http/running.ts"
import { defaultHttpOptions, type HttpOptions, type Sample } from "./http/service.ts"
import { createLog, type Log } from "./log.ts"
import { checkFormat } from "./model/compile-folder.ts"
import { locateModel } from "./model/locate.ts"
import { type Model, openModel } from "./model/model.ts"
import {
  type Loaded,
  loadWeights,
  type WeightOptions,
  type WeightSource,
} from "./model/packed-copy.ts"
import { chooseDevice, type Device, type DeviceRequest } from "./runtime/devices.ts"
import type { FormatName } from "./runtime/format.ts"
import { type Memory, type MemoryInUse, memoryInUse } from "./runtime/memory.ts"
import { BLOCK, type LoadableProgram } from "./runtime/program.ts"
import { openShelf } from "./runtime/shelf.ts"
import { version } from "./version.ts"

export interface AppOptions {
  /** A model folder, or the name of one. */
  model: string
  device?: DeviceRequest
  /** What to compile for; auto: the processor, or the interpreter where there is no C compiler. */
  target?: TargetName | "auto"
  /** A compiled library that must be used. */
  modelLib?: string | undefined
  /** Whether libraries in model folders are opened though another machine built them. */
  trustLibraries?: boolean
  /** The number format to serve in; absent: the folder's own. */
  quantization?: FormatName | undefined
  mode?: Mode
  overrides?: Overrides
  /** One more name for the model. */
  servedName?: string | undefined
  /** What proposes tokens; absent: nothing does. */
  drafting?: DraftingOptions
  /** How the model writes tool calls; absent: as its template shows. */
  toolFormat?: ToolFormat | undefined
  /** Whose sampling defaults: the API's, or the model folder's. */
  generationDefaults?: "api" | "model"
  /** Requests that may wait. */
  maxQueue?: number
  /** Milliseconds from a request's arrival to its end. */
  requestTimeout?: number | undefined
  /** Bytes that the shelf may hold: libraries and packed weights of all models. */
  shelfSize?: number
  /** Whether what happens to requests and in steps is recorded. */
  tracing?: boolean
  http?: Partial<HttpOptions>
  /** Told when there is something to do, and when there is nothing. */
  activity?: Activity
  log?: Log
  /** Told how far a long part of the start has come. */
  onProgress?: (what: string, done: number, total: number) => void
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
  weightsFrom: Loaded["from"]
  memory: MemoryInUse
}

/** What was opened and what was chosen, for people. */
export interface Summary {
  name: string
  folder: string
  architecture: string
  parameters: number
  format: FormatName
  /** What the folder's weights are in. */
  storedFormat: FormatName
  target: string
  /** Where the program comes from. */
  program: string
  device: Device
  mode: Mode
  /** What proposes tokens, in words; absent: nothing does. */
  drafting?: string | undefined
  limits: EngineLimits
  /** Whose memory bounds them. */
  memoryOf: Memory["limitedBy"]
}

/** @throws the start-up problems: a model, a device, limits that cannot be had. */
export async function createApp(options: AppOptions): Promise<App> {
  const device = await deviceFor(options)
  const folder = locateModel(options.model)
  const encoder = new Encoder(options.log) // what takes longest goes first
  const opened: Opened[] = [encoder]
  try {
    const model = await openModel(folder, { verify: false }) // when it is read
    opened.push(model)
    const { text, file } = model.texts.tokenizer
    const reading = openTokenizer(text, file, model.config.shapes.vocabulary, encoder)
    reading.catch(() => {}) // whoever waits for it is told
    return await openApp(options, device, model, reading, opened)
  } catch (error) {
    for (const each of opened.reverse()) await each.close()
    throw error
  }
}

/** The device comes before the plan, which it brings its traits to; a target or a library that was asked for narrows the choice. */
function deviceFor({ device, target, modelLib }: AppOptions): Promise<Device> {
  const requested = requestedTarget({ target: target ?? appDefaults.target, library: modelLib })
  const usable = requested ? targets[requested].devices : usableDevices
  return chooseDevice(device ?? appDefaults.device, usable, whyUnusable)
}

interface Opened {
  close(): Promise<unknown>
}

/** @param opened what is to be closed when this fails */
async function openApp(
  options: AppOptions,
  device: Device,
  model: Model,
  reading: Promise<Tokenizer>,
  opened: Opened[],
): Promise<App> {
  const { mode = appDefaults.mode, log = createLog("silent", false) } = options
  const serving = import("./http/http.ts") // a third of all modules, and nobody has asked for them before
  const format = options.quantization ?? model.format
  checkFormat(model, format)
  const plan = planOf(model, format, options.overrides ?? {}, traitsOf(device.name))
  const prepared = await prepareProgram(plan, {
    device: device.name,
    target: options.target ?? appDefaults.target,
    library: options.modelLib,
    folder: model.path,
    trustLibraries: options.trustLibraries,
    log,
  })
  const { manifest, weightBytes, bufferBytes } = prepared
  const drafting = await prepareDrafting({
    ...(options.drafting ?? appDefaults.drafting),
    model,
    format,
    device: device.name,
    target: options.target ?? appDefaults.target,
    trustLibraries: options.trustLibraries,
    overrides: options.overrides ?? {},
    log,
  })
  opened.push(drafting)
  const target = targetOf(manifest.target)!
  const { device: pool, host } = target.memory()
  const limits = chooseLimits({
    mode,
    overrides: options.overrides ?? {},
    traits: target.steps,
    manifest,
    available: pool.available,
    host,
    weightBytes,
    bufferBytes,
    drafts: drafting.demand,
  })
  const summary: Summary = {
    name: model.name,
    folder: model.path,
    architecture: model.architecture,
    parameters: parameterCount(plan),
    format,
    storedFormat: model.format,
    target: manifest.target,
    program: prepared.origin,
    device,
    mode,
    drafting: drafting.title && `${drafting.mode}: ${drafting.title}`,
    limits,
    memoryOf: pool.limitedBy,
  }
  const { createHttp } = await serving
  const httpOptions = { ...defaultHttpOptions, ...options.http, version }
  const trace = options.tracing ? new Trace() : undefined
  const http = createHttp(httpOptions, log, { activity: options.activity, trace })
  const closing = new AbortController()
  const { signal } = closing
  let onLost = (_reason: Problem) => {}
  const lost = new Promise<Problem>((resolve) => {
    onLost = (reason) => {
      void http.drain() // health says so at once
      resolve(reason)
    }
  })
  const parts = { options, model, reading, prepared, drafting, summary, http, log, signal, onLost }
  const ready = load({ ...parts, trace })
  ready.catch(() => {}) // whoever waits for it is told; nobody has to
  return {
    ready,
    lost,
    listen: (port) => http.listen(port),
    close: async (patience = 0) => {
      await Promise.race([http.drain(), sleep(patience, undefined, { ref: false })])
      closing.abort()
      await ready.then(({ kept }) => kept).catch(() => {})
      await ready.then(({ engine }) => closeEngine(engine, log)).catch(() => {})
      await ready.then(({ chat }) => chat.close()).catch(() => {}) // after the engine, which asks it for masks
      await reading.then((tokenizer) => tokenizer.close()).catch(() => {}) // when there is no chat
      await http.close()
      await model.close()
      await drafting.close()
    },
  }
}

export { planOf }

/** A block that did not come back is a mistake of ours, and worth a line when it is over. */
async function closeEngine(engine: Engine, log: Log): Promise<void> {
  await engine.close()
  try {
    engine.audit()
  } catch (error) {
    log.error({ err: error }, "blocks were not handed back")
  }
}

interface Loading {
  options: AppOptions
  model: Model
  reading: Promise<Tokenizer>
  prepared: Prepared
  drafting: PreparedDrafting
  summary: Summary
  http: Http
  trace: Trace | undefined
  log: Log
  /** Aborted when the app closes while it loads. */
  signal: AbortSignal
  onLost: (reason: Problem) => void
}

/** `kept`: what must be over before the program closes. */
async function load(loading: Loading): Promise<Ready & { kept: Promise<void> }> {
  const { options, model, reading, drafting, summary, http, trace, log } = loading
  const { texts } = model
  const vocabulary = model.config.shapes.vocabulary
  const now = new Date() // the day the server started: the same request stays the same
  const { template, toolTemplate } = openTemplates(model, now)
  // Both at once, as each has threads of its own; a model that is interpreted is small and has no hurry.
  if (loading.prepared.manifest.target === "reference") await reading
  const opening = openProgram(loading)
  const hash = createHash("sha256").update(texts.tokenizer.text) // which takes its time, too
  const opened = Promise.all([reading, opening]).catch((error) => {
    opening.then(({ program }) => program.close()).catch(() => {})
    throw error
  })
  const [tokenizer, { program, weights }] = await opened
  const speculative = await openDrafter(drafting, loading).catch(async (error) => {
    await program.close()
    throw error
  })
  const engine = createEngine(program, {
    limits: summary.limits,
    maxQueue: options.maxQueue ?? appDefaults.maxQueue,
    ...recycled(options.overrides),
    log,
    ...(trace && { trace }),
    speculative,
    onLost: loading.onLost,
    ...(options.requestTimeout ? { requestTimeout: options.requestTimeout } : {}),
  })
  const defaults = options.generationDefaults === "model" ? texts.sampling : {}
  const context = summary.limits.context.value
  const chat = createChat({
    engine,
    tokenizer,
    vocabulary,
    template,
    toolTemplate,
    endTokens: new Set(texts.endTokens),
    toolFormat: options.toolFormat,
    maxQueue: options.maxQueue,
    log,
  })
  const service = {
    chat,
    model: {
      names: namesOf(options, model),
      created: Math.floor(Date.now() / 1000),
      capabilities: template ? [...OF_TALKERS, ...OF_ALL] : OF_ALL,
      contextLength: context,
      vocabularySize: vocabulary,
      fingerprint: fingerprintOf(hash, {
        program: program.manifest.fingerprint,
        weights: weights.hash,
        templates: [template?.source, toolTemplate?.source],
        now,
        specialTokens: texts.specialTokens,
        endTokens: texts.endTokens,
        context,
        sampling: defaults,
        toolFormat: options.toolFormat,
        reasoning: options.http?.reasoning ?? defaultHttpOptions.reasoning,
      }),
      details: {
        architecture: summary.architecture,
        parameters: summary.parameters,
        format: summary.format,
        device: `${summary.device.name}:${summary.device.id}`,
        target: summary.target,
        max_num_sequence: summary.limits.sequences.value,
        max_total_seq_length: summary.limits.total.value,
      },
    },
    defaults,
    samples: () => samples(engine),
  }
  http.open([service])
  return {
    chat: withDefaults(chat),
    engine,
    summary,
    weightsFrom: weights.from,
    memory: memoryInUse(),
    kept: weights.kept,
  }
}

const OF_ALL = ["completion", "logprobs"]
const OF_TALKERS = ["chat", "tools", "json_schema"]

function recycled({ prefix_cache_max_num_recycling_seqs: most = -1 }: Overrides = {}) {
  return most < 0 ? {} : { recycledSequences: most }
}

/** The names a request may ask for: the model as it was typed, its folder's name, one more. */
function namesOf({ model: typed, servedName }: AppOptions, { name }: Model): string[] {
  return [...new Set([typed, name, ...(servedName ? [servedName] : [])])]
}

/** The program with its weights in, and what became of them. */
async function openProgram({
  model,
  prepared,
  summary,
  options,
  log,
  signal,
}: Loading): Promise<{ program: LoadableProgram; weights: Loaded }> {
  const program = await prepared.open(summary.limits.program, signal)
  try {
    const weights = await loadWeights(model, program, weightOptions(options, log, signal))
    return { program, weights }
  } catch (error) {
    await program.close()
    throw error
  }
}

function weightOptions(options: AppOptions, log: Log, signal: AbortSignal): WeightOptions {
  return {
    shelf: openShelf(),
    shelfSize: options.shelfSize ?? appDefaults.shelfSize,
    log,
    signal,
    progress: options.onProgress ?? (() => {}),
  }
}

/** Who proposes, with a model's weights in if there is one. */
async function openDrafter(
  prepared: PreparedDrafting,
  { summary, options, log, signal }: Loading,
): Promise<Speculative> {
  const { mode, length } = prepared
  const { drafts: room, program: limits } = summary.limits
  const given = weightOptions(options, log, signal)
  /** Until the copy is on the shelf: drafts are small, and their programs end with them. */
  const load = async (from: WeightSource, program: LoadableProgram) => {
    const { kept } = await loadWeights(from, program, given)
    await kept
  }
  return { mode, length, room, drafter: await prepared.open({ limits, signal, load }) }
}

/** What the engine says of now, and what it has counted. */
const levels = {
  running: "Sequences with a place in the steps.",
  waiting: "Requests of which nothing runs yet.",
  blocksUsed: "KV blocks that sequences hold.",
  blocksTotal: "KV blocks in all.",
  blocksRemembered: "KV blocks that the prefix cache knows.",
} as const satisfies Partial<Record<keyof EngineStats, string>>

const counts = {
  steps: "Steps taken.",
  promptTokens: "Prompt tokens computed.",
  cachedTokens: "Prompt tokens taken over from the prefix cache.",
  replyTokens: "Tokens drawn.",
  recomputedTokens: "Tokens computed once more, after blocks were taken.",
  preemptions: "Sequences whose blocks were taken for others.",
  failures: "Sequences that ended in an error.",
  forcedTokens: "Tokens that a schema left no choice about, computed beside the one before them.",
} as const satisfies Record<Exclude<keyof EngineStats, "drafts" | keyof typeof levels>, string>

function samples(engine: Engine): Sample[] {
  const stats = engine.stats()
  const told = <Name extends keyof EngineStats>(help: Record<Name, string>, ending: string) =>
    (Object.keys(help) as Name[]).map((name) => ({
      name: `sinter_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}${ending}`,
      help: help[name],
      value: stats[name] as number,
    }))
  const block = { name: "sinter_block_tokens", help: "Tokens of a KV block.", value: BLOCK }
  return [...told(levels, ""), block, ...told(counts, "_total"), ...draftSamples(stats)]
}

/** One for each place of a draft, the first one's place being 1. */
function draftSamples({ drafts }: EngineStats): Sample[] {
  if (!drafts) return []
  const { mode, drafted, accepted } = drafts
  const places = (name: string, help: string, counts: readonly number[]) =>
    counts.map((value, i) => ({ name, help, labels: { mode, place: String(i + 1) }, value }))
  return [
    ...places(
      "sinter_drafted_tokens_total",
      "Tokens proposed, by their place in the draft.",
      drafted,
    ),
    ...places(
      "sinter_accepted_tokens_total",
      "Tokens proposed that came true, by place.",
      accepted,
    ),
  ]
}
