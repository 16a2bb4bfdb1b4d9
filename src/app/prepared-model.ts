// A model that is known to fit: found, its headers read, compiled for the device, its limits chosen. Nothing has been read of
// its weights, and no program is open. Whatever can be known to be wrong is refused here, before the port opens.

import { mostRows } from "../audio/tiles.ts"
import { Encoder, tokenizersIn } from "../chat/encoder.ts"
import { openTokenizer, type Tokenizer } from "../chat/tokenizer.ts"
import { openWhole } from "../closing.ts"
import {
  parameterCount,
  prepareProgram,
  requestedTarget,
  traitsOf,
} from "../compiler/targets/prepare.ts"
import type { Prepared } from "../compiler/targets/target.ts"
import { lackFor, type TargetName, targetOf, targets } from "../compiler/targets/targets.ts"
import { chooseLimits, type EngineLimits, type Mode, type Overrides } from "../engine/limits.ts"
import { Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { checkFormat } from "../model/compile-folder.ts"
import { type Hearing, onlyTranscribes } from "../model/hearing/open-hearing.ts"
import { type Model, openModel } from "../model/model.ts"
import { type SenseName, senseFolder, sensesOf } from "../model/sense.ts"
import type { Sight } from "../model/vision/open-vision.ts"
import {
  chooseDevice,
  type Device,
  type DeviceName,
  deviceNames,
  devicesFrom,
} from "../runtime/devices.ts"
import type { FormatName } from "../runtime/format.ts"
import { readableTokens } from "../runtime/manifest.ts"
import type { Budget, Memory } from "../runtime/memory.ts"
import { graphFor, type PreparedDrafting, prepareDrafting } from "./drafting.ts"
import { findAdapter, findMmproj, findModel } from "./find-model.ts"
import { type ModelOptions, type ModelSettings, type NamedAdapter, settingsOf } from "./options.ts"
import { planOf } from "./plan.ts"
import { checkImagePatches, type PreparedTower, prepareTower } from "./towers.ts"

/** What was opened and what was chosen, for people. */
export interface Summary {
  name: string
  folder: string
  /** Of what changed its weights the paths. */
  adapters: readonly string[]
  /** What requests choose from, as it was named. */
  choices: readonly NamedAdapter[]
  architecture: string
  parameters: number
  format: FormatName
  /** What the folder's weights are in. */
  storedFormat: FormatName
  target: string
  /** Where the program comes from. */
  program: string
  device: Device
  /** Of each shard; the first is `device`, and the only one where the model is not divided. */
  shards: readonly Device[]
  mode: Mode
  /** What proposes tokens, in words; absent: nothing does. */
  drafting?: string | undefined
  /** What reads images or recordings, in words; absent: nothing does. */
  vision?: string | undefined
  hearing?: string | undefined
  limits: EngineLimits
  /** Whose memory bounds them. */
  memoryOf: Memory["limitedBy"]
}

/** What a model runs on and what it may take there: decided once, and the same however often it is loaded. */
export interface Place {
  device: Device
  /** Of each shard; the first is `device`. */
  shards: readonly Device[]
  budget: Budget
}

/** Open, and to be closed with `close`. */
export interface PreparedModel {
  settings: ModelSettings
  files: Model
  /** Being read. */
  tokenizer: Promise<Tokenizer>
  program: Prepared
  drafting: PreparedDrafting
  /** Of what it sees with and what it hears with; none: it takes text alone. */
  towers: readonly PreparedTower[]
  summary: Summary
  place: Place
  close(): Promise<void>
}

/**
 * @param room the place that it was given before, or how many models share the free memory
 * @throws the start-up problems: a model, a device, limits that cannot be had
 */
export async function prepareModel(
  options: ModelOptions,
  room: Place | { sharers: number } = { sharers: 1 },
): Promise<PreparedModel> {
  const settings = settingsOf(options)
  const shards = "shards" in room ? room.shards : await devicesFor(settings)
  const device = shards[0]!
  const { onDownload } = settings
  const hub = { onDownload, log: settings.log }
  const mmproj = settings.mmproj && (await findMmproj(settings.mmproj, hub)) // the smaller download
  const { path, ...changes } = await findModel(settings.model, hub, settings.lora)
  const choices: string[] = []
  for (const { adapter } of settings.choices ?? []) choices.push(await findAdapter(adapter, hub))
  return openWhole(async (closing) => {
    const { target, trustLibraries, overrides, log } = settings
    const encoder = closing.add(new Encoder(log)) // what takes longest goes first
    const [likely] = tokenizersIn([...changes.adapters, path])
    if (likely) encoder.readAhead(likely) // which need not wait until the others are read
    const sight = { sees: true, mmproj, mostPatches: overrides.max_image_patches }
    const how = { verify: false, choices, ...sight, ...changes } // its checksums are compared when it is read
    const files = closing.add(await openModel(path, how))
    checkChoices(files)
    checkImagePatches(files, overrides)
    if (files.blind) log.warn(`Images are refused: ${files.blind}`)
    if (files.deaf) log.warn(`Audio is refused: ${files.deaf}`)
    const tokenizer = readTokenizer(files, encoder, log)
    const format = settings.quantization ?? files.format
    checkFormat(files, format)
    const traits = traitsOf(device.name)
    const draft = { ...settings.drafting, model: files, log, onDownload }
    const graph = await graphFor(draft)
    const plan = planOf({ ...files, graph }, format, overrides, traits)
    const alone = { device, target, library: undefined, trustLibraries, log }
    const wish = { device, shards: shards.map(({ id }) => id), target, trustLibraries, log }
    const own = { library: settings.modelLib, folder: files.path }
    const program = await prepareProgram(plan, { ...wish, ...own })
    const { repeats } = targetOf(program.manifest.target)!.steps
    const drafts = { ...draft, format, repeats, overrides }
    const drafting = closing.add(await prepareDrafting({ ...wish, ...drafts }))
    const towers: PreparedTower[] = []
    const titles: Partial<Record<SenseName, string>> = {}
    for (const { name, sense } of sensesOf<Sight | Hearing>(files)) {
      const wish = { ...alone, folder: senseFolder(files.path, name) }
      const tower = await prepareTower(sense, wish, overrides, traits)
      towers.push(tower)
      titles[name] = tower.title
    }
    const budget = "budget" in room ? room.budget : budgetFor(program, shards, room.sharers)
    const place = { device, shards, budget }
    const chosen = chooseWithin(settings, place, program, { drafting, towers })
    checkSpeech(files, chosen.limits)
    const parameters = parameterCount(plan)
    return {
      settings,
      files,
      tokenizer,
      program,
      drafting,
      towers,
      summary: {
        ...describe(files, settings, format),
        ...chosen,
        parameters,
        target: program.manifest.target,
        program: program.origin,
        device,
        shards,
        mode: settings.mode,
        drafting: drafting.title && `${drafting.mode}: ${drafting.title}`,
        ...titles,
      },
      place,
      close: () => closing.close(),
    }
  })
}

/** The device comes before the plan, which it brings its traits to; a target or a library that was asked for narrows the choice. */
async function deviceFor({ device, target, modelLib, log }: ModelSettings): Promise<Device> {
  const requested = requestedTarget({ target, library: modelLib }, device.name)
  let usable: readonly DeviceName[] = requested ? targets[requested].devices : deviceNames
  for (;;) {
    const chosen = await chooseDevice(device, usable).catch((error) => {
      throw requested && device.name === "auto" ? asTyped(error, requested, modelLib) : error
    })
    if (requested || device.name !== "auto") return chosen
    const lack = await lackFor(chosen.name)
    if (!lack) return chosen
    log.warn(`${chosen.name}:${chosen.id} is passed over: ${lack.problem}; ${lack.cure}.`)
    usable = usable.filter((name) => name !== chosen.name)
  }
}

/** Where no device was named, but what needs one. */
function asTyped(error: unknown, target: TargetName, library: string | undefined): unknown {
  if (!(error instanceof Problem) || error.code !== "device_missing") return error
  const { why } = error.values
  return problem(error.code, {
    ...error.values,
    asked: library ? `--model-lib ${library}` : `--target ${target}`,
    why: `runs on ${targets[target].devices.join(", ")}, which ${why}`,
  })
}

/** As many as are to share the model. A device that has none beside it runs it alone. */
async function devicesFor(settings: ModelSettings): Promise<readonly Device[]> {
  const { tensor_parallel_shards: shards = 1 } = settings.overrides
  const device = await deviceFor(settings)
  return device.memory ? devicesFrom(device, shards) : Array.from({ length: shards }, () => device)
}

function readTokenizer({ texts, config }: Model, encoder: Encoder, log: Log): Promise<Tokenizer> {
  const { json, file, place: path, around, beside, doubt } = texts.tokenizer
  if (doubt) log.warn(`${file}: ${doubt}`)
  const rows = readableTokens(config.shapes)
  const tokenizer = openTokenizer({ json, path, around, beside }, file, rows, encoder)
  const warn = ({ beyond }: Tokenizer) => {
    if (beyond.length > 0)
      log.warn(`${file} adds ${listed(beyond)} to a model of ${rows} tokens; they are left out.`)
  }
  tokenizer.then(warn, () => {}) // whoever waits for it is told
  return tokenizer
}

const MAX_LISTED = 3

function listed(tokens: Tokenizer["beyond"]): string {
  const names = tokens.map(({ content, id }) => `${JSON.stringify(content)} (${id})`)
  const some = names.slice(0, MAX_LISTED).join(", ")
  return names.length > MAX_LISTED ? `${some} and ${names.length - MAX_LISTED} more` : some
}

/** An equal part of what is free for each, on the device that has least. */
function budgetFor({ manifest }: Prepared, shards: readonly Device[], sharers: number): Budget {
  const target = targetOf(manifest.target)!
  const { device, host } = shards
    .map((on) => target.memory(on))
    .reduce((least, each) => (each.device.available < least.device.available ? each : least))
  const part = (memory: Memory) => ({ ...memory, available: memory.available / sharers })
  return { device: part(device), ...(host && { host: part(host) }) }
}

/** What may run at once. */
function chooseWithin(
  { mode, overrides }: ModelSettings,
  { shards, budget: { device, host } }: Place,
  { manifest, weightBytes, bufferBytes }: Prepared,
  { drafting, towers }: Pick<PreparedModel, "drafting" | "towers">,
): Pick<Summary, "limits" | "memoryOf"> {
  const target = targetOf(manifest.target)!
  const { demand: drafts, kv } = drafting
  const kvs = kv ? [manifest.kv, kv] : [manifest.kv]
  const [mostBlocks] = shards
    .flatMap((on) => target.mostBlocks?.(on, kvs) ?? [])
    .sort((a, b) => a.value - b.value)
  const traits = { ...target.steps, ...(mostBlocks && { mostBlocks }) }
  const room = { mode, overrides, traits, available: device.available, host }
  const fixed = towers.reduce((sum, { bytes }) => sum + bytes, weightBytes)
  checkRoom(towers, overrides, { weightBytes, available: device.available })
  const uncut = towers.find(({ medium }) => medium.isPromptMutual)?.medium.mostRows
  const limits = chooseLimits({ ...room, manifest, weightBytes: fixed, bufferBytes, drafts, uncut })
  return { limits, memoryOf: device.limitedBy }
}

/** Whoever allows images of so many patches is told what these take, and not that the model does. */
function checkRoom(
  towers: readonly PreparedTower[],
  { max_image_patches: most }: Overrides,
  { weightBytes, available }: { weightBytes: number; available: number },
): void {
  const tower = towers.find(({ medium }) => medium.kind === "image")
  if (most === undefined || !tower || weightBytes + tower.bytes <= available) return
  const [taken, weights, left] = [tower.bytes, weightBytes, available].map((bytes) =>
    (bytes / 2 ** 20).toFixed(0),
  )
  throw problem("option_invalid", {
    option: "--overrides max_image_patches",
    problem: `an image of ${most} patches takes the tower ${taken} MiB, and beside ${weights} MiB of weights ${left} MiB may be taken of all; allow fewer.`,
  })
}

/** Tokens that ask a Whisper: to begin, the language, the task, no times. */
const ASKING = 4

/** Prompts begin with all rows of a Whisper's window, or of a piece: with less room long recordings would be refused, or all. */
function checkSpeech(
  { config, hearing }: Model,
  { context: { value, bound } }: EngineLimits,
): void {
  const rows = config.embedding.positions?.heard ?? (hearing?.pieces && mostRows(hearing.audio))
  if (!rows || bound === "model" || bound === "memory") return
  const least = rows + ASKING + 1
  if (value >= least) return
  throw problem("option_invalid", {
    option: `--overrides ${bound}`,
    problem: `a window of a recording takes ${rows} tokens, and ${least} are the least with a word behind them, not ${value}.`,
  })
}

/** What transcribes has prompts of its own, and no names for what they choose. */
function checkChoices({ choices, hearing, path }: Model): void {
  if (choices.length === 0 || !onlyTranscribes(hearing)) return
  const words = `is for models that write or embed, and ${path} transcribes; --lora changes it for all requests.`
  throw problem("option_invalid", { option: "--lora-modules", problem: words })
}

function describe(
  { name, path: folder, adapters: changes, architecture, format: storedFormat }: Model,
  { choices = [] }: ModelSettings,
  format: FormatName,
) {
  const adapters = changes.map(({ path }) => path)
  return { name, folder, adapters, choices, architecture, format, storedFormat }
}
