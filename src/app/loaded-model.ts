// A model that answers. It owns its program, what drafts for it, its chat and its engine, and closes them in the order in which
// they need one another; its files and its tokenizer belong to what was prepared (prepared-model.ts).

import { setTimeout as sleep } from "node:timers/promises"
import { createChat, type OpenChat } from "../chat/chat.ts"
import type { Transcripts } from "../chat/conversation.ts"
import type { EmbeddingModel } from "../chat/embedding.ts"
import type { Tokenizer } from "../chat/tokenizer.ts"
import { createAcousticTranscriber } from "../chat/transcripts/acoustic.ts"
import { createPieceWriter } from "../chat/transcripts/piecewise.ts"
import { createTranscriber } from "../chat/transcripts/transcriber.ts"
import { Closing, openWhole } from "../closing.ts"
import { createEngine, type Engine, type EngineOptions } from "../engine/engine.ts"
import { createFrameDecoder, type FrameDecoder } from "../engine/frame-decoder.ts"
import type { Speculative } from "../engine/speculative.ts"
import { allBeside } from "../engine/tower.ts"
import type { Trace } from "../engine/trace.ts"
import { type Problem, problem } from "../errors.ts"
import type { HttpOptions, Service } from "../http/service.ts"
import type { Log } from "../log.ts"
import { readAlignmentHeads } from "../model/hearing/alignment.ts"
import { onlyTranscribes } from "../model/hearing/open-hearing.ts"
import {
  type Loaded,
  loadWeights,
  type WeightOptions,
  type WeightSource,
} from "../model/packed-copy.ts"
import { DriverObstacle } from "../runtime/drivers/driver.ts"
import { bytesOnHugePages } from "../runtime/memory.ts"
import { type LoadableProgram, ProgramLost } from "../runtime/program.ts"
import { openShelf } from "../runtime/shelf.ts"
import { adapterCard, cardOf, fingerprintFor } from "./card.ts"
import type { PreparedModel, Summary } from "./prepared-model.ts"
import { samplesOf } from "./samples.ts"
import { openTemplates, type Templates } from "./texts.ts"
import { type OpenTower, openTower, type PreparedTower } from "./towers.ts"

export interface LoadedModel {
  summary: Summary
  chat: OpenChat
  engine: Engine
  /** As HTTP sees it: the model alone, then with each of the adapters that requests choose. */
  services: readonly [Service, ...Service[]]
  /** Where the weights came from: the model's folder, or the shelf, packed by an earlier start. */
  weightsFrom: Loaded["from"]
  close(): Promise<void>
}

/** What a model shares with the others of its server. */
export interface Surroundings {
  /** When the server started: templates tell the day, and the same request stays the same. */
  now: Date
  reasoning: HttpOptions["reasoning"]
  /** Absent: what happens to requests and in steps is not recorded. */
  trace: Trace | undefined
  /** Told when the model's program is lost. */
  onLost: (reason: Problem) => void
}

/** A model on its way: closing it gives up what is being read. */
export interface LoadingModel {
  loaded: Promise<LoadedModel>
  close(): Promise<void>
}

/** What was prepared stays open until the model is closed. */
export function loadModel(prepared: PreparedModel, surroundings: Surroundings): LoadingModel {
  const ending = new AbortController()
  const loaded = openWhole((closing) => load({ ...prepared, ...surroundings, ending, closing }))
  loaded.catch(() => {}) // whoever waits for it is told; nobody has to
  return {
    loaded,
    close: async () => {
      ending.abort()
      const model = await loaded.catch(() => undefined) // it has closed what it had opened
      await model?.close()
    },
  }
}

interface Loading extends PreparedModel, Surroundings {
  /** Ends what is being read, and what is being written of it. */
  ending: AbortController
  closing: Closing
}

async function load(loading: Loading): Promise<LoadedModel> {
  const { settings, files, summary, reasoning, now, closing } = loading
  const templates = closing.add(openTemplates(files, now))
  const [tokenizer, running] = await openBoth(loading)
  const { engine, weights, program, towers } = closing.add(running)
  const endTokens = endsOf(files, tokenizer)
  const chat = closing.add(chatOver({ engine, towers }, tokenizer, templates, endTokens, loading))
  const transcripts = await transcriberOver(running, tokenizer, loading, endTokens)
  if (transcripts) closing.add(transcripts)
  closing.add(running) // before the chat, which it asks for masks
  const defaults = settings.generationDefaults === "model" ? files.texts.sampling : {}
  const { hash, prefix } = tokenizer
  const texts = { tokenizer: hash, prefix, endTokens, templates, now }
  const told = towers.flatMap((tower) => [tower.fingerprint, tower.hash])
  const senses = told.length > 0 ? told : undefined
  const decided = { program, weights: weights.hash, senses, sampling: defaults, reasoning }
  const fingerprint = fingerprintFor(loading, { ...decided, ...texts })
  running.finish()
  const model = cardOf(loading, Math.floor(now.getTime() / 1000))
  return {
    summary,
    chat,
    engine,
    services: [
      {
        ...{ chat, model, fingerprint, defaults },
        ...(transcripts && { transcripts }),
        samples: () => samplesOf(engine, towers),
      },
      ...summary.choices.map(({ name }, i) => ({
        ...{ chat: chat.choosing(i + 1), model: adapterCard(model, name), fingerprint, defaults },
      })),
    ],
    weightsFrom: weights.from,
    close: () => closing.close(),
  }
}

/** Who teaches a model to talk changes the tokenizer's end, and often leaves the numbers of the model it was made from. */
function endsOf({ texts }: PreparedModel["files"], tokenizer: Tokenizer): ReadonlySet<number> {
  const own = texts.endSpelling === undefined ? undefined : tokenizer.control(texts.endSpelling)
  return new Set(own === undefined ? texts.endTokens : [...texts.endTokens, own])
}

/** Both at once, as each has threads of its own; a model that is interpreted is small and has no hurry. */
async function openBoth(loading: Loading): Promise<[Tokenizer, Running]> {
  const { tokenizer, program, ending } = loading
  if (program.manifest.target === "reference") await tokenizer
  const opening = openEngine(loading)
  return Promise.all([tokenizer, opening]).catch(async (error) => {
    ending.abort()
    const running = await opening.catch(() => undefined)
    await running?.close()
    throw error
  })
}

/** An engine with its program, the weights in. */
interface Running {
  engine: Engine
  weights: Loaded
  /** Its program's fingerprint. */
  program: string
  towers: readonly OpenTower[]
  /** Of a model that names tokens for rows of a recording: it takes the program's steps, and the engine none. */
  frames: FrameDecoder | undefined
  /** Begins what replies need not wait for. */
  finish(): void
  close(): Promise<void>
}

async function openEngine(loading: Loading): Promise<Running> {
  const { files, program: prepared, summary, settings, ending } = loading
  const opening = openWhole(async (closing) => {
    const { onProgress } = settings
    const built = (done: number, total: number) => onProgress("building", done, total)
    const program = closing.add(await prepared.open(summary.limits.program, ending.signal, built))
    const weights = await loadWeights(files, program, weightOptions(loading))
    const finishing = new Finishing(weights, loading)
    finishing.programs.push(program)
    closing.add(finishing)
    await warmUp(program, loading)
    const towers: OpenTower[] = []
    for (const tower of loading.towers)
      towers.push(closing.add(await openSense(tower, loading, finishing)))
    const engine = createEngine(program, {
      ...engineOptions(loading),
      ...(towers.length > 0 && { beside: allBeside(towers.map(({ beside }) => beside)) }),
      speculative: await openDrafter(loading, finishing),
    })
    const running = new Closing() // the program is the engine's from here on
    for (const tower of towers) running.add(tower)
    running.add({ close: () => endEngine(engine, settings.log) })
    const { acoustic } = files.config
    const told = { log: settings.log, onLost: loading.onLost }
    const frames = acoustic && createFrameDecoder(program, acoustic, told)
    if (frames) running.add(frames)
    running.add(finishing)
    const { fingerprint } = program.manifest
    const close = () => running.close()
    const finish = () => finishing.begin(engine)
    return { engine, weights, program: fingerprint, towers, frames, finish, close }
  })
  return opening.catch((error: unknown) => {
    if (!(error instanceof ProgramLost || error instanceof DriverObstacle)) throw error
    const { name, id } = summary.device
    throw problem("device_failed", { device: `${name}:${id}`, problem: error.message })
  })
}

/** What takes this long is worth a line. */
const PATIENCE = 1000 // milliseconds

async function warmUp(
  program: LoadableProgram,
  { settings: { onProgress, log }, ending }: Loading,
): Promise<void> {
  const what = "making kernels"
  let [made, all] = [0, 0]
  const say = () => log.info(`The device's driver makes the kernels: ${made} of ${all} are ready.`)
  const patience = setTimeout(say, PATIENCE)
  try {
    await program.warmUp?.((done, total) => {
      ;[made, all] = [done, total]
      onProgress(what, done, total)
    }, ending.signal)
  } finally {
    clearTimeout(patience)
  }
}

/** What is done behind the first replies. Until that is over or given up, the model's program must stay open. */
class Finishing {
  /** The model's, and its draft's. */
  readonly programs: LoadableProgram[] = []
  readonly #weights: Loaded
  readonly #ending: AbortController
  readonly #log: Log
  #finished: Promise<void> | undefined

  constructor(weights: Loaded, { ending, settings: { log } }: Loading) {
    this.#weights = weights
    this.#ending = ending
    this.#log = log
  }

  begin(engine: Engine): void {
    this.#finished = this.#finish()
    void this.#prepareNext(engine)
  }

  async #prepareNext(engine: Engine): Promise<void> {
    const { signal } = this.#ending
    const quiet = sleep(QUIET, undefined, { signal, ref: false }).catch(() => {})
    await behindFirst(engine, quiet)
    if (!signal.aborted) for (const program of this.programs) program.prepareNext?.()
  }

  async #finish(): Promise<void> {
    await this.#weights.finish()
    if (this.#ending.signal.aborted || !this.#log.isLevelEnabled("debug")) return
    const bytes = bytesOnHugePages()
    if (bytes !== undefined)
      this.#log.debug(`${(bytes / 2 ** 20).toFixed(0)} MiB are on large pages.`)
  }

  async close(): Promise<void> {
    this.#ending.abort()
    await (this.#finished ?? this.#weights.finish()) // which then only gives up what it holds
  }
}

const QUIET = 3000 // milliseconds

/**
 * Waits for the first reply's end, or until it is `quiet` and nobody asks for one: a compiler takes a processor from whoever replies,
 * however far it stands back.
 */
export async function behindFirst(
  engine: Pick<Engine, "answered" | "stats">,
  quiet: Promise<void>,
): Promise<void> {
  await Promise.race([engine.answered, quiet])
  const { running, waiting } = engine.stats()
  if (running + waiting > 0) await engine.answered
}

/** A block that did not come back is a mistake of ours, and worth a line when it is over. */
async function endEngine(engine: Engine, log: Log): Promise<void> {
  await engine.close()
  try {
    engine.audit()
  } catch (error) {
    log.error({ err: error }, "blocks were not handed back")
  }
}

function engineOptions({ settings, summary, trace, onLost }: Loading): EngineOptions {
  const { maxQueue, requestTimeout, overrides, log } = settings
  const { prefix_cache_max_num_recycling_seqs: recycledSequences = -1 } = overrides
  return {
    limits: summary.limits,
    maxQueue,
    log,
    onLost,
    ...(trace && { trace }),
    ...(requestTimeout ? { requestTimeout } : {}),
    ...(recycledSequences >= 0 ? { recycledSequences } : {}),
  }
}

function weightOptions({ settings, ending }: Loading): WeightOptions {
  const { shelfSize, log, onProgress: progress } = settings
  return { shelf: openShelf(), shelfSize, log, progress, signal: ending.signal }
}

function madeFor({ ranks, pooling, hearing }: PreparedModel["files"]): EmbeddingModel["made"] {
  if (onlyTranscribes(hearing)) return "to transcribe"
  return ranks ? "to rank" : pooling ? "to embed" : "to write"
}

/** What reads images or recordings, with its weights in. */
async function openSense(
  tower: PreparedTower,
  loading: Loading,
  { programs }: Finishing,
): Promise<OpenTower> {
  const { files, ending, settings, onLost } = loading
  const load = (from: WeightSource, program: LoadableProgram) =>
    loadWhole(loading, programs, from, program)
  return openTower(tower, files, { load, signal: ending.signal, log: settings.log, onLost })
}

/** Until the copy is on the shelf: what stands beside a model is small, and its program ends with it. @returns the weights' hash */
async function loadWhole(
  loading: Loading,
  programs: LoadableProgram[],
  from: WeightSource,
  program: LoadableProgram,
): Promise<string> {
  const { finish, hash } = await loadWeights(from, program, weightOptions(loading))
  await finish()
  await warmUp(program, loading)
  programs.push(program)
  return hash
}

/** Who proposes, with a model's weights in if there is one. */
async function openDrafter(loading: Loading, { programs }: Finishing): Promise<Speculative> {
  const { drafting, summary, ending } = loading
  const { mode, thrifty = false, length } = drafting
  const { drafts: room, program: limits } = summary.limits
  const load = async (from: WeightSource, program: LoadableProgram) => {
    await loadWhole(loading, programs, from, program)
  }
  const { signal } = ending
  return { mode, thrifty, length, room, drafter: await drafting.open({ limits, signal, load }) }
}

/** Of a model that writes down what it hears and nothing else. */
async function transcriberOver(
  { engine, towers, frames }: Pick<Running, "engine" | "towers" | "frames">,
  tokenizer: Tokenizer,
  { files, summary }: Loading,
  ends: ReadonlySet<number>,
): Promise<Transcripts | undefined> {
  const pieces = towers.find((tower) => tower.pieces)?.pieces
  if (frames && pieces)
    return createAcousticTranscriber({ decoder: frames, tokenizer, listener: pieces })
  const asking = files.hearing?.pieces
  if (asking && pieces) {
    return createPieceWriter({ engine, tokenizer, listener: pieces, ends, ...asking })
  }
  const advice = files.hearing?.speech
  const listener = towers.find((tower) => tower.listener)?.listener
  if (!advice || !listener) return undefined
  const { vocabulary } = files.config.shapes
  const context = summary.limits.context.value
  const { alignment: told } = advice
  const alignment =
    "why" in told
      ? told
      : { ...(await readAlignmentHeads(files, told.heads)), smoothed: told.smoothed }
  const options = { engine, tokenizer, listener, advice, alignment, vocabulary, context }
  return createTranscriber(options, files.texts.tokenizer.file)
}

function chatOver(
  { engine, towers }: Pick<Running, "engine" | "towers">,
  tokenizer: Tokenizer,
  { template, toolTemplate }: Templates,
  endTokens: ReadonlySet<number>,
  { files, settings, summary }: Loading,
): OpenChat {
  const { toolFormat, maxQueue, requestTimeout, log } = settings
  return createChat({
    engine,
    tokenizer,
    media: towers.filter(({ listener, pieces }) => !(listener || pieces)),
    vocabulary: files.config.shapes.vocabulary,
    embedding: {
      made: madeFor(files),
      pairedBy: files.config.embedding.isPaired ? files.config.shapes.vocabulary / 2 : 0,
      hidden: files.config.shapes.hidden,
      context: summary.limits.context.value,
      mode: files.pooling?.mode ?? "lasttoken",
      dense: files.pooling?.dense ?? [],
      prompts: files.pooling?.prompts ?? {},
    },
    template,
    toolTemplate,
    endTokens,
    toolFormat,
    maxQueue,
    requestTimeout,
    log,
  })
}
