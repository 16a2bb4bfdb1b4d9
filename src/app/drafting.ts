// What proposes tokens: nothing, a look-up, or a model of its own. What was asked for is checked before the port opens,
// and refused in a sentence with both figures where it does not fit.

import { existsSync } from "node:fs"
import { basename } from "node:path"
import { openWhole } from "../closing.ts"
import { type Graph, isCross } from "../compiler/graph/graph.ts"
import { prepareProgram, traitsOf } from "../compiler/targets/prepare.ts"
import type { Prepared } from "../compiler/targets/target.ts"
import type { TargetName } from "../compiler/targets/targets.ts"
import {
  columnsRead,
  createEagle,
  eagleBytes,
  eagleBytesPerBlock,
} from "../engine/drafters/eagle.ts"
import { createLookup, createRepeater } from "../engine/drafters/lookup.ts"
import { createMedusa } from "../engine/drafters/medusa.ts"
import { createSmallDraft } from "../engine/drafters/small-draft.ts"
import type { DraftDemand, Overrides } from "../engine/limits.ts"
import type { Memory } from "../engine/memory.ts"
import {
  type Drafter,
  MAX_DRAFT,
  nobody,
  type Speculative,
  type SpeculativeMode,
} from "../engine/speculative.ts"
import { problem } from "../errors.ts"
import type { HubOptions } from "../hub/hub.ts"
import type { Log } from "../log.ts"
import { type Head, type HeadKind, headDifference, headTitles, openHead } from "../model/head.ts"
import { type Model, openModel } from "../model/model.ts"
import { openOwnLayer, ownLayerFolder } from "../model/own-layers.ts"
import type { WeightSource } from "../model/packed-copy.ts"
import { convertible } from "../model/weights/convert.ts"
import type { Weights } from "../model/weights/weights.ts"
import type { Device } from "../runtime/devices.ts"
import { type FormatName, formats, isMixed, isPacked } from "../runtime/format.ts"
import type { Manifest } from "../runtime/manifest.ts"
import type { LoadableProgram, Program, ProgramLimits } from "../runtime/program.ts"
import { type Found, findModel } from "./find-model.ts"
import { planOf } from "./plan.ts"
import { vocabularyDifference } from "./vocabulary.ts"

export interface DraftingOptions {
  mode: Speculative["mode"]
  /** A model's folder or name, and after a comma a library compiled for it; of several models, as `draftingOfEach` reads it. */
  models?: string | undefined
}

export interface DraftingWish extends DraftingOptions {
  /** The model that draws, and the format it is served in. */
  model: Model
  format: FormatName
  /** That of the model: a draft runs where its model runs. */
  device: Pick<Device, "name" | "id">
  shards?: readonly number[] | undefined
  target: TargetName | "auto"
  trustLibraries?: boolean | undefined
  /** Of the program that draws: whether what the text repeats is proposed unless it is forbidden. */
  repeats?: true | undefined
  overrides: Overrides
  log: Log
  /** Told of its download. */
  onDownload?: HubOptions["onDownload"]
}

/** Those in which a model that is named proposes. */
type ModelMode = Exclude<SpeculativeMode, "auto" | "lookup" | "mtp">

/** A drafter that fits, not opened yet. */
export interface PreparedDrafting {
  mode: Speculative["mode"]
  /** Whether it must cost nothing. */
  thrifty?: true
  length: number
  /** For people: what proposes; absent: nothing does. */
  title?: string
  /** How much may be proposed for a sequence in a step, and what the model that does it takes. */
  demand: { length: number; model?: DraftDemand | undefined }
  /** What that model's program keeps. */
  kv?: Manifest["kv"]
  open(opening: Opening): Promise<(memory: Memory) => Drafter>
  close(): Promise<void>
}

export interface Opening {
  /** Of the program that draws. */
  limits: ProgramLimits
  signal: AbortSignal
  /** Reads weights into a program. */
  load: (from: WeightSource, program: LoadableProgram) => Promise<void>
}

/** @throws `option_invalid` for what does not fit together, and what a model's files are refused with. */
export async function prepareDrafting(wish: DraftingWish): Promise<PreparedDrafting> {
  const { mode, models } = wish
  const { spec_draft_length: length = 0 } = wish.overrides
  checkModels(mode, models)
  if (mode === "eagle" || mode === "mtp") checkRows(wish.model, mode)
  switch (mode) {
    case "disable":
      if (length > 0)
        throw problem("option_invalid", {
          option: "--overrides spec_draft_length",
          problem: `${length} tokens are to be proposed and --speculative-mode is disable, which proposes 0; choose a mode.`,
        })
      return proposesNothing
    case "auto":
      if (length > 0)
        throw problem("option_invalid", {
          option: "--overrides spec_draft_length",
          problem: `${length} tokens are to be proposed and --speculative-mode is auto, which proposes as many as cost nothing; choose a mode.`,
        })
      if (!wish.repeats || hasStates(wish.model)) return proposesNothing
      return {
        ...proposesNothing, // it makes do with the room that tokens have about which a schema leaves no choice
        mode,
        thrifty: true,
        title: "what a repetition goes on with, where it costs nothing",
        open: async () => createRepeater,
      }
    case "lookup":
      return {
        mode,
        length,
        title: "what followed the same tokens before",
        demand: { length: length || MAX_DRAFT },
        open: async () => createLookup,
        close: async () => {},
      }
    case "mtp":
      return prepareModel(wish, async () => ownLayer(wish))
    default: {
      const { path, library } = parseModels(models!)
      const open = async () => openFitting(await findModel(path, wish), mode, wish)
      return prepareModel(wish, open, library)
    }
  }
}

const proposesNothing: PreparedDrafting = {
  mode: "disable",
  length: 0,
  demand: { length: 0 },
  open: async () => () => nobody,
  close: async () => {},
}

const modelsOf = {
  auto: 0,
  disable: 0,
  lookup: 0,
  mtp: 0,
  small_draft: 1,
  eagle: 1,
  medusa: 1,
} as const satisfies Record<DraftingOptions["mode"], number>

function checkModels(mode: DraftingOptions["mode"], models: string | undefined): void {
  const needed = modelsOf[mode]
  const given = models === undefined ? 0 : 1
  if (needed > given)
    throw problem("option_invalid", {
      option: "--speculative-mode",
      problem: `${mode} needs ${needed} additional model and ${given} are given; name it with --additional-models.`,
    })
  if (needed < given)
    throw problem("option_invalid", {
      option: "--additional-models",
      problem: `${given} additional model is given and --speculative-mode ${mode} takes ${needed}; choose small_draft, eagle or medusa, or leave it out.`,
    })
}

/**
 * What drafts for each of several models: `MODEL=PATH` or `MODEL=PATH,LIBRARY`, with semicolons between them. For a model that is
 * not named nothing drafts.
 * @param models as they were asked for; the end of a path names it, too
 * @throws `option_invalid` for an entry that names none of them, or one that has a draft already
 */
export function draftingOfEach(
  { mode, models: drafts }: DraftingOptions,
  models: readonly string[],
): DraftingOptions[] {
  if (models.length === 1 || drafts === undefined)
    return models.map(() => ({ mode, models: drafts }))
  const ends = models.map((model) => basename(model))
  const owners = new Map<number, string>()
  for (const entry of drafts.split(";")) {
    const [, name, draft] = /^([^=]+)=(.+)$/.exec(entry) ?? []
    if (!name || !draft)
      throw misfit(
        `expected MODEL=PATH, as several models are served, got ${JSON.stringify(entry)}`,
      )
    const at = [models.indexOf(name), ends.indexOf(name)].find((index) => index >= 0)
    if (at === undefined)
      throw misfit(`${name} is none of the models that are served: ${models.join(", ")}`)
    if (owners.has(at)) throw misfit(`${name} has two drafts; give one`)
    owners.set(at, draft)
  }
  return models.map((_, at) =>
    owners.has(at) ? { mode, models: owners.get(at) } : { mode: "disable" },
  )
}

/** `PATH` or `PATH,LIBRARY`; a comma may belong to a path that is there. */
function parseModels(models: string): { path: string; library: string | undefined } {
  const [path, library, ...others] = existsSync(models) ? [models] : models.split(",")
  if (others.length > 0 || !path || library === "")
    throw misfit(`expected PATH or PATH,LIBRARY, 1 model in all, got ${JSON.stringify(models)}`)
  return { path, library }
}

function misfit(what: string): Error {
  return problem("option_invalid", { option: "--additional-models", problem: `${what}.` })
}

/** A model or a head that fits, with the format its program is to be in and what drafts with it. */
interface Fitting extends Omit<WeightSource, "weights"> {
  graph: Graph
  /** One for each of its programs. */
  weights: readonly Weights[]
  architecture: string
  /** Tokens it can propose at once. */
  longest: number
  programFormat: FormatName
  /** The folder that brings its libraries, where that is not its own. */
  libraries?: string
  limits: (limits: ProgramLimits) => ProgramLimits
  /** What the drafter itself keeps on the host with each block of its program's. */
  hostBytesPerBlock: number
  /** And beside that. */
  hostBytes?: (limits: ProgramLimits) => number
  draft: (programs: readonly [Program, ...Program[]], memory: Memory) => Drafter
  close(): Promise<void>
}

async function prepareModel(
  wish: DraftingWish,
  openModelToDraft: () => Promise<Fitting>,
  library?: string,
): Promise<PreparedDrafting> {
  const { mode, model, device, shards, target, trustLibraries, overrides, log } = wish
  return openWhole(async (closing) => {
    const fitting = closing.add(await openModelToDraft())
    const { name, architecture, programFormat, longest } = fitting
    const { spec_draft_length: length = 0 } = overrides
    checkLength(length, fitting)
    checkSinks(fitting, model)
    checkStates(fitting)
    const plan = planOf(fitting, programFormat, overrides, traitsOf(device.name))
    const prepared = await prepareProgram(plan, {
      device,
      shards,
      target,
      library,
      folder: fitting.libraries ?? fitting.path,
      trustLibraries,
      log,
    })
    const { kv } = prepared.manifest
    return {
      mode,
      length,
      title: `${name}: ${architecture}, ${programFormat}, ${prepared.origin}`,
      demand: {
        length: length || Math.min(longest, MAX_DRAFT),
        model: {
          weightBytes: prepared.weightBytes * fitting.weights.length,
          bytesPerBlock: kv.groups.reduce((sum, group) => sum + group.bytesPerBlock, 0),
          hostBytesPerBlock: fitting.hostBytesPerBlock,
          ...(fitting.hostBytes && { hostBytes: fitting.hostBytes }),
          bufferBytes: (limits) =>
            prepared.bufferBytes(limitsOf(fitting, prepared, limits)) * fitting.weights.length,
        },
      },
      kv,
      open: (opening) => openPrograms(fitting, prepared, opening),
      close: () => closing.close(),
    }
  })
}

/** All that it keeps lies under the numbers of the blocks that its model holds longest. */
function limitsOf(fitting: Fitting, { manifest }: Prepared, limits: ProgramLimits): ProgramLimits {
  return { ...fitting.limits(limits), blocks: manifest.kv.groups.map(() => limits.blocks[0]!) }
}

/** They belong to the drafter, once there is one. */
function openPrograms(fitting: Fitting, prepared: Prepared, { limits, signal, load }: Opening) {
  return openWhole(async (closing) => {
    const programs: LoadableProgram[] = []
    for (const [part, weights] of fitting.weights.entries()) {
      const program = closing.add(await prepared.open(limitsOf(fitting, prepared, limits), signal))
      programs.push(program)
      await load({ ...fitting, weights, part }, program)
    }
    const [first, ...others] = programs
    return (memory: Memory) => fitting.draft([first!, ...others], memory)
  })
}

/** One row a sequence: only the last token of each is drawn from. */
const oneRow = (limits: ProgramLimits): ProgramLimits => ({ ...limits, rows: limits.sequences })

/** Medusa looks at the last token alone. */
const oneToken = ({ blocks, sequences }: ProgramLimits): ProgramLimits => ({
  blocks,
  tokens: sequences,
  sequences,
  rows: sequences,
})

/** What is the model's stays open when its layer is closed. */
function ownLayer({ model, format }: DraftingWish): Fitting {
  const { format: programFormat, ...layer } = openOwnLayer(model, format)
  return {
    ...model,
    codecOf: undefined,
    ...layer,
    libraries: ownLayerFolder(model.path),
    weights: [model.weights],
    programFormat,
    ...ofEagle(layer.graph),
    close: async () => {},
  }
}

/** What an EAGLE head or a layer like it is drafted with. */
function ofEagle({ shapes }: Graph) {
  const read = columnsRead(shapes)
  return {
    longest: Number.POSITIVE_INFINITY,
    limits: oneRow,
    hostBytesPerBlock: eagleBytesPerBlock(read),
    hostBytes: eagleBytes(read),
    draft: ([program]: readonly [Program, ...Program[]], memory: Memory) =>
      createEagle(program, memory),
  }
}

async function openFitting(
  found: Found,
  mode: ModelMode,
  { model, format }: DraftingWish,
): Promise<Fitting> {
  const head = await openHead(found.path, model)
  if (head.kind === "plain") {
    if (mode !== "small_draft")
      throw misfit(
        `${head.name} is a whole model and --speculative-mode ${mode} takes ${titles[mode]}; choose small_draft`,
      )
    return openDraft(found, model)
  }
  return openWhole(async (closing) => {
    closing.add(head)
    if (modeOf[head.kind] !== mode)
      throw misfit(
        `${head.name} holds ${headTitles[head.kind]} and --speculative-mode ${mode} takes ${titles[mode]}; choose ${modeOf[head.kind]}`,
      )
    const difference = headDifference(head, model)
    if (difference) throw misfit(difference)
    const programFormat = headFormat(head, model, format)
    const kind = { ...head, architecture: head.kind, programFormat }
    if (head.kind === "medusa")
      return { ...kind, limits: oneToken, hostBytesPerBlock: 0, draft: createMedusa }
    return { ...kind, ...(head.borrows && { borrowed: model }), ...ofEagle(head.graph) }
  })
}

const modeOf = { eagle: "eagle", eagle3: "eagle", medusa: "medusa" } as const satisfies Record<
  HeadKind,
  ModelMode
>

const titles = {
  small_draft: "a whole model",
  eagle: headTitles.eagle,
  medusa: headTitles.medusa,
} as const satisfies Record<ModelMode, string>

/** The graph of a model as its head needs it: an EAGLE 3 head reads rows that lie between layers. */
export async function graphFor(
  wish: Pick<DraftingWish, "mode" | "models" | "model" | "log" | "onDownload">,
): Promise<Graph> {
  const { mode, models, model } = wish
  checkModels(mode, models)
  if (mode !== "eagle") return model.graph
  const { path } = await findModel(parseModels(models!).path, wish)
  const head = await openHead(path, model)
  if (head.kind === "plain") return model.graph // refused when it is prepared
  await head.close()
  const difference = headDifference(head, model)
  if (difference) throw misfit(difference)
  return head.kind === "eagle3" ? model.handingOut(head.config.reads) : model.graph
}

async function openDraft({ path, ...changes }: Found, model: Model): Promise<Fitting> {
  return openWhole(async (closing) => {
    const draft = closing.add(await openModel(path, { verify: false, ...changes }))
    const difference = vocabularyDifference(draft.texts.tokenizer, model.texts.tokenizer)
    if (difference)
      throw misfit(`${draft.name} and ${model.name} have different vocabularies: ${difference}`)
    return {
      ...draft,
      weights: [draft.weights],
      longest: Number.POSITIVE_INFINITY,
      programFormat: draft.format,
      limits: oneRow,
      hostBytesPerBlock: 0,
      draft: ([program], memory) => createSmallDraft(program, memory),
    }
  })
}

/** These read the last rows of all tokens, and of those that cross-attention reads there are none. */
function checkRows({ name, graph }: Pick<Model, "name" | "graph">, mode: SpeculativeMode): void {
  if (!graph.nodes.some(isCross)) return
  throw problem("option_invalid", {
    option: "--speculative-mode",
    problem: `${mode} reads rows of all tokens, and ${name} makes none of an image's or a recording's; choose lookup, small_draft or medusa.`,
  })
}

/** What it has proposed is taken back by the number of positions, and a state has none. */
function checkStates({ name, graph }: Pick<Fitting, "name" | "graph">): void {
  if (!hasStates({ graph })) return
  throw problem("option_invalid", {
    option: "--speculative-mode",
    problem: `${name} remembers a state, from which no step leads back; a model that proposes keeps keys and values in all layers.`,
  })
}

function hasStates({ graph }: Pick<Model, "graph">): boolean {
  return graph.nodes.some(({ op }) => op === "delta")
}

/** What has slid out of the model's window is gone for the draft too. */
function checkSinks({ name, graph }: Fitting, model: Model): void {
  const [has, keeps] = [graph.sinks, model.graph.sinks]
  if (model.graph.window === undefined || has <= keeps) return
  throw misfit(
    `${name} always looks at its first ${has} positions, and ${model.name} keeps ${keeps} of those that slide out of its window`,
  )
}

function checkLength(length: number, { name, longest }: Fitting): void {
  if (length <= longest) return
  throw problem("option_invalid", {
    option: "--overrides spec_draft_length",
    problem: `${length} tokens are to be proposed at once and ${name} has ${longest} heads.`,
  })
}

/** As published, it is packed as the model is served; once compiled it stays as it is, if what it borrows can be had like that. */
function headFormat(head: Head, model: Model, served: FormatName): FormatName {
  if (isMixed(served)) return isPacked(head.format) ? head.format : "q8f16_1"
  if (head.configuration === "config.json") return served
  const { vocabulary, hidden } = model.config.shapes
  const { codec } = model.weights.tensor("model.embed_tokens.weight", vocabulary, hidden)
  if (!head.borrows || convertible(codec, formats[head.format].matrix)) return head.format
  if (!isPacked(head.format)) return served
  throw misfit(
    `${head.name} is packed as ${head.format} and ${model.name}, whose matrices it shares, as ${model.format}; they must be packed alike`,
  )
}
