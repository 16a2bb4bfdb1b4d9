// The door of the room: a folder goes in, a model comes out: its configuration in our words, its graph, its weights as
// tensors to be read in windows, and what it says about text. Every size, offset, type, shape and name has been checked
// when it is returned, and the graph's tensors are all there; no tensor has been read.

import { statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { openWhole } from "../closing.ts"
import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph } from "../compiler/graph/graph.ts"
import { problem } from "../errors.ts"
import { snapshotAround } from "../hub/cache.ts"
import { otherFormat } from "../hub/other-formats.ts"
import { CONSOLIDATED, PARAMS } from "../hub/selection.ts"
import type { FormatName } from "../runtime/format.ts"
import { type Placed, withAdapters } from "./adapters/adapted.ts"
import type { Adapter } from "./adapters/adapter.ts"
import { type Choice, choiceOf } from "./adapters/chosen.ts"
import { withLowRank } from "./adapters/low-rank.ts"
import { openAdapter } from "./adapters/open-adapter.ts"
import { isOfSense, placeAdapter, vocabularyBy } from "./adapters/place.ts"
import { acousticGraph } from "./architectures/parakeet.ts"
import { type ArchitectureName, architectures } from "./architectures.ts"
import { type ModelConfig, readDirection, seesBothWays } from "./config.ts"
import { Fields } from "./fields.ts"
import { Folder, type Json } from "./folder.ts"
import { openWhisperFile } from "./ggml/whisper.ts"
import { type GgufModel, openGguf } from "./gguf/gguf.ts"
import { readTensors } from "./graph-weights.ts"
import { type Hearing, hearingBeside, hearingInside, openHearing } from "./hearing/open-hearing.ts"
import type { SpeechAdvice } from "./hearing/speech.ts"
import { decoder } from "./layers.ts"
import { isWhisperFile, mmprojsIn, modelFilesIn, otherFormatIn, someOf } from "./locate.ts"
import { bringsParams, paramsNaming, readParams } from "./mistral-params.ts"
import { MLC, readMlcConfig } from "./mlc-config.ts"
import { graphOrWhy } from "./narrow.ts"
import { withOwnHead } from "./own-head.ts"
import { withOrders } from "./packed/orders.ts"
import { floatsOf, packingOf } from "./packed/packing.ts"
import { type Pooling, readMatrix, readPooling } from "./pooling.ts"
import { ranks, readRanking } from "./ranking.ts"
import { architectureOf, textFields, wholeFields } from "./seeing.ts"
import { orWhy, type SenseName } from "./sense.ts"
import { storedFormat } from "./stored-format.ts"
import { bringsTokenizer, type ModelTexts, readMlcTexts, readTexts } from "./texts.ts"
import {
  openSight,
  type Sight,
  type Sightedness,
  sightBeside,
  sightInside,
} from "./vision/open-vision.ts"
import { seeingImages } from "./vision/tower.ts"
import { openMlc } from "./weights/mlc.ts"
import { mlcNames } from "./weights/mlc-names.ts"
import { withMlxNames } from "./weights/mlx-names.ts"
import type { Sources } from "./weights/names.ts"
import { holdsWeights, openSafetensors } from "./weights/safetensors.ts"
import type { Weights } from "./weights/weights.ts"

export interface Model {
  path: string // absolute
  name: string // the folder's own
  /** What its weights were changed by. */
  adapters: readonly Pick<Adapter, "path" | "folder" | "files">[]
  /** Of what changes them for those sequences alone that choose it, by its number from 1 on. */
  choices: readonly Pick<Adapter, "path" | "folder" | "files">[]
  architecture: ArchitectureName
  config: ModelConfig
  /** What the configuration was read from, in the words of a config.json. */
  fields: Json
  /** The file in the folder that says all this. */
  configuration: string
  /** That file is GGUF or whisper.cpp's, whatever it is called, and holds everything; it may go on in others. */
  isOneFile: boolean
  /** The format its weights are in. */
  format: FormatName
  graph: Graph
  /** The same, which hands out the rows that these layers read, too. */
  handingOut(layers: readonly number[]): Graph
  /** What each weight is kept in, where the files mix codecs and it is served as it is. */
  codecOf?: CodecOf
  weights: Weights
  texts: ModelTexts
  /** How it embeds a text, which is then all that it was made for; absent: it writes. */
  pooling: Pooling | undefined
  /** Two texts are pooled to one number: how well the second answers the first. */
  ranks: boolean
  /** What reads images, where that was asked for; or why nothing does, though something is there. */
  vision?: Sight
  blind?: string
  /** What hears recordings, likewise. */
  hearing?: Hearing
  deaf?: string
  close(): Promise<void>
}

export interface OpenOptions {
  /** Whether weights are compared with the checksums their folder gives, which reads them once; true unless said otherwise. */
  verify?: boolean
  /** Paths of what changes the weights, one after the other. */
  adapters?: readonly string[]
  /** Paths of what sequences choose from. */
  choices?: readonly string[]
  /** What it is called; absent: as its folder or its file. */
  name?: string | undefined
  /** Whether it is to read images, or recordings, where it can. */
  sees?: boolean
  /** The GGUF file that a GGUF model is to see or hear with, or `none`: nothing is seen or heard; absent: what is its own. */
  mmproj?: string | undefined
  /** Its own, where that does not lie in its folder. */
  ownMmproj?: string | undefined
  /** Patches of an image at the most, where its tiles are as large as it is; absent: as many as usual. */
  mostPatches?: number | undefined
}

/** @throws `model_broken`, naming the file and what is wrong with it. */
export async function openModel(
  path: string,
  {
    verify = true,
    adapters: paths = [],
    choices = [],
    name,
    sees = false,
    ...mmproj
  }: OpenOptions = {},
): Promise<Model> {
  return openWhole(async (closing) => {
    const openAll = async (paths: readonly string[]) => {
      const adapters: Adapter[] = []
      for (const path of paths) adapters.push(closing.add(await openAdapter(path)))
      return adapters
    }
    const [adapters, chosen] = [await openAll(paths), await openAll(choices)]
    const { folder, source } = await openSource(resolve(path), adapters)
    const { architecture, fields, configuration } = source
    const isRanker = ranks(fields)
    const pooling = source.pooling ?? (await readPooling(folder)) ?? usualPooling(source.config)
    const stored = closing.add(await source.openWeights())
    const opened = changedBy(adapters, source, stored, sees)
    const alone = pooling ? withoutHead(source.config) : await withOwnHead(source.config, opened)
    checkLayers(fields, alone, opened)
    const within = { config: alone, pooling, adapters }
    const found = sees ? await sensesOf(folder, source, { ...within, ...mmproj }) : {}
    for (const each of [found.vision, found.hearing]) if (each) closing.add(each)
    if (sees && !found.hearing && mustHear(source.config))
      throw folder.broken(configuration, "the folder does not hold what the model hears with")
    const senses = asPublished(found, source, { adapters, chosen })
    const { vision, hearing } = senses
    const changed = sees
      ? changedBy(besidesTowers(adapters, source, senses), source, stored, vision !== undefined)
      : opened
    const { weights, beside } = chosenFrom(chosen, source, changed, vision !== undefined)
    const seeing =
      vision || hearing ? seeingImages(alone, { ...hearing?.config, ...vision?.config }) : alone
    const config = { ...seeing, ...alignedBy(hearing?.speech) }
    const broken = (what: string) => folder.broken(configuration, what)
    const plainGraph = (given?: readonly number[]) =>
      config.acoustic ? acousticGraph(architecture, config) : decoder(architecture, config, given)
    const handingOut = (given?: readonly number[]) =>
      withOrders(beside(withLowRank(plainGraph(given), weights)), weights)
    const graph = graphOrWhy(architecture, fields, () => handingOut())
    const read = readTensors(graph, weights)
    const pooled = isRanker
      ? await readRanking(fields, config, weights)
      : pooling && { ...pooling, dense: await denseOf(source, pooling, weights) }
    weights.refuseOthers?.(read)
    if (verify)
      for (const each of [weights, vision?.weights, hearing?.weights]) await each?.verify()
    const { format, mixture } = source
    return {
      path: folder.path,
      name: name ?? source.name ?? folder.name,
      adapters,
      choices: chosen,
      architecture,
      config,
      fields: fields.json,
      configuration,
      isOneFile: source.ggufSources !== undefined || source.hear !== undefined,
      ...(format === undefined ? storedFormat(graph, weights, mixture, broken) : { format }),
      graph,
      handingOut,
      weights,
      texts: await textsBy(adapters, source),
      pooling: pooled,
      ranks: isRanker,
      ...senses,
      close: () => closing.close(),
    }
  })
}

/** What pooled rows go through. */
async function denseOf(
  { config, readDense }: Source,
  pooling: Pooling,
  weights: Weights,
): Promise<Pooling["dense"]> {
  const { pooledTo, shapes } = config
  if (pooledTo === undefined) return (await readDense?.(weights)) ?? pooling.dense
  const size = { rows: pooledTo, columns: shapes.hidden, activation: "none" } as const
  const own = { ...size, isBiased: false }
  return [await readMatrix(weights, "model.embedding_projection", own), ...pooling.dense]
}

/** Words are timed by heads of a Whisper's. */
function alignedBy(speech: SpeechAdvice | undefined): Pick<ModelConfig, "aligned"> {
  return speech && "heads" in speech.alignment ? { aligned: speech.alignment.heads } : {}
}

const NONE = "none"

/** The model that a tower is opened for. */
interface Within
  extends Pick<OpenOptions, "mmproj" | "ownMmproj" | "mostPatches">,
    Pick<Model, "config" | "pooling"> {
  adapters: readonly Adapter[]
}

/** A GGUF file that a GGUF model sees or hears with. */
interface Mmproj {
  path: string
  /** It was named, so that what is wrong with it is thrown. */
  isAsked: boolean
}

/** @throws where one was named for a model that can have none */
function mmprojOf(
  folder: Folder,
  { configuration, readTokenIds, tower }: Source,
  { pooling, mmproj, ownMmproj }: Within,
): Mmproj | { why: string } | undefined {
  const asked = mmproj === undefined ? undefined : resolve(mmproj)
  if (asked && (!readTokenIds || pooling))
    throw problem("option_invalid", {
      option: "--mmproj",
      problem: `is for GGUF models that write, and ${join(folder.path, configuration)} is none; leave it out`,
    })
  if (asked) return { path: asked, isAsked: true }
  const own = ownMmproj ?? (tower === "known" ? join(folder.path, configuration) : undefined)
  if (own !== undefined) return { path: own, isAsked: false }
  const [first, ...others] = readTokenIds ? mmprojsOf(folder) : []
  if (first === undefined && tower === "unknown")
    return { why: `${join(folder.path, configuration)} holds a tower that is not known.` }
  if (first === undefined) return undefined
  if (others.length === 0) return { path: first, isAsked: false }
  const names = [first, ...others].map((path) => basename(path)).join(", ")
  return { why: `${folder.path} holds several mmproj files; name one of ${names} with --mmproj.` }
}

/** What a model sees and hears with. @throws the problem of a file that was asked for; `blind` and `deaf` say that of another */
async function sensesOf(
  folder: Folder,
  source: Source,
  within: Within,
): Promise<Sightedness & Hearingness> {
  const { configuration, fields: text, readTokenIds } = source
  const { config, pooling, mmproj, mostPatches, adapters } = within
  if (mmproj === NONE) return {}
  const place = mmprojOf(folder, source, within)
  if (pooling) return {}
  if (source.hear) return asHeard(source.hear())
  if (!readTokenIds) {
    const changedBy = { adapters, naming: namingOf(source) }
    const model = { path: folder.path, configuration, config, mostPatches, changedBy }
    const sight = await openSight(() => sightInside(model))
    const hear = () => openHearing(model)
    return { ...sight, ...(mustHear(config) ? asHeard(await hear()) : await openEars(hear)) }
  }
  if (!place) return {}
  if ("why" in place) return { blind: place.why }
  const [own, file] = [new Folder(dirname(place.path)), basename(place.path)]
  const beside = { folder: own, file, model: configuration, config, text, readTokenIds }
  const see = () => sightBeside(beside, mostPatches)
  const sight = place.isAsked ? await see() : await openSight(see)
  const hear = () => hearingBeside(beside)
  const isAll = place.isAsked && !sight.vision
  return { ...sight, ...(isAll ? asHeard(await hear()) : await openEars(hear)) }
}

/** Whether it reads rows of a recording, without which it writes nothing. */
const mustHear = ({ blocks, acoustic }: ModelConfig) =>
  acoustic !== undefined || blocks.some(({ cross }) => cross)

type Hearingness = Pick<Model, "hearing" | "deaf">

async function openEars(open: () => Promise<Hearing | undefined>): Promise<Hearingness> {
  const heard = await orWhy(async () => asHeard(await open()))
  return "why" in heard ? { deaf: heard.why } : heard
}

const asHeard = (hearing: Hearing | undefined): Hearingness => (hearing ? { hearing } : {})

/**
 * Adapters change towers of published folders, for all requests. Where one would change another, or a request would choose what changes
 * it, images or recordings are refused. @throws where the model does nothing but hear
 */
function asPublished(
  { vision, hearing, ...others }: Sightedness & Hearingness,
  source: Source,
  { adapters, chosen }: Record<"adapters" | "chosen", readonly Adapter[]>,
): Sightedness & Hearingness {
  const naming = namingOf(source)
  const changed = (name: SenseName) => {
    const applied = { vision, hearing }[name]?.adapters ?? []
    const others = [...adapters.filter((one) => !applied.includes(one)), ...chosen]
    return others.flatMap(({ changes, broken }) =>
      [...changes.keys()]
        .filter((tensor) => isOfSense(tensor, name, naming))
        .map((tensor) =>
          broken(
            `it changes ${tensor}, and what a model sees or hears with is changed by --lora alone, in the folder that was published`,
          ),
        ),
    )[0]
  }
  const [blind, deaf] = [vision && changed("vision"), hearing && changed("hearing")]
  if (deaf && mustHear(source.config)) throw deaf
  return {
    ...others,
    ...(blind ? { blind: blind.message } : vision && { vision }),
    ...(deaf ? { deaf: deaf.message } : hearing && { hearing }),
  }
}

/** Those that change something beside the towers that they change. */
function besidesTowers(
  adapters: readonly Adapter[],
  source: Source,
  { vision, hearing }: Sightedness & Hearingness,
): readonly Adapter[] {
  const naming = namingOf(source)
  const applied = [vision, hearing].flatMap((sense) => sense?.adapters ?? [])
  const isOfTower = (tensor: string) =>
    isOfSense(tensor, "vision", naming) || isOfSense(tensor, "hearing", naming)
  return adapters.filter(
    (one) => !applied.includes(one) || ![...one.changes.keys()].every(isOfTower),
  )
}

const namingOf = ({ architecture, config }: Source) => architectures[architecture].naming(config)

/** In the model's own folder, or in the outermost of its repository. */
function mmprojsOf({ path }: Folder): string[] {
  const { folder: repository, commit } = snapshotAround(path) ?? {}
  const places = [path, ...(repository ? [join(repository, "snapshots", commit!)] : [])]
  const place = places.find((each) => mmprojsIn(each).length > 0)
  return place === undefined ? [] : mmprojsIn(place).map((name) => join(place, name))
}

/** The weights as adapters have changed them; in layers that attend to images alone, where the model sees some. */
function changedBy(
  adapters: readonly Adapter[],
  source: Source,
  stored: Weights,
  sees: boolean,
): Weights {
  if (adapters.length === 0) return stored
  const { config, fields } = source
  const placed = placedIn(source, stored, adapters, sees)
  return withAdapters(stored, placed, { tied: config.head.tied, floats: floatsOf(fields) })
}

/** The weights with what sequences choose from beside them. */
function chosenFrom(
  choices: readonly Adapter[],
  source: Source,
  weights: Weights,
  sees: boolean,
): Choice {
  if (choices.length === 0) return { weights, beside: (graph) => graph }
  return choiceOf(weights, placedIn(source, weights, choices, sees))
}

function placedIn(
  source: Source,
  stored: Weights,
  adapters: readonly Adapter[],
  sees: boolean,
): Placed[] {
  const { config, ggufSources } = source
  const shapes = new Map(
    source.configuration === PLAIN ? stored.entries.map(({ name, shape }) => [name, shape]) : [],
  )
  const naming = namingOf(source)
  const experts = config.blocks.find((block) => block.experts)?.experts?.count
  const seeing = sees ? undefined : config.seeing
  const [first] = adapters
  if (first && config.blocks.some(({ attention }) => attention.relative))
    throw first.broken(
      "its model's rows of distances go through matrices of queries and keys, too; merge it into the model",
    )
  return adapters.map((adapter) =>
    placeAdapter(adapter, { naming, shapes, ggufSources, experts, seeing }),
  )
}

/** Of the last adapter that brings a tokenizer; what its model's makers advise, and where they end, is its model's to say. */
async function textsBy(adapters: readonly Adapter[], source: Source): Promise<ModelTexts> {
  const own = await source.readTexts()
  for (const { folder, names } of adapters.toReversed()) {
    if (names === "gguf" || !(await bringsTokenizer(folder))) continue
    const { fields, config, type } = source
    const its = await readTexts(folder, fields, config.shapes.vocabulary, type)
    const { sampling, endTokens, beginToken } = own
    return { ...its, sampling, endTokens, beginToken }
  }
  return own
}

/** Of a model that sees both ways, and so writes nothing, where its folder says nothing of it. */
function usualPooling(config: ModelConfig): Pooling | undefined {
  return seesBothWays(config) ? { mode: "cls", dense: [], prompts: {} } : undefined
}

/** A program has one all the same, whose logits nobody reads: the folder may hold none. */
function withoutHead(config: ModelConfig): ModelConfig {
  return { ...config, head: { ...config.head, tied: true, bias: false } }
}

/** What differs between folders as they are published, compiled ones and files that hold everything. */
interface Source {
  /** The file that the configuration is in. */
  configuration: string
  /** Absent: the folder's. */
  name?: string
  /** Where a GGUF file has the tensors that a graph reads. */
  ggufSources?: Sources
  /** The ids of a GGUF file's tokens that a template writes so, and no user. */
  readTokenIds?: () => (text: string) => number | undefined
  /** What a GGUF file sees with inside. */
  tower?: GgufModel["tower"]
  /** What it hears with, where that lies in a file of whisper.cpp. */
  hear?: () => Hearing
  fields: Fields
  /** Of the whole model, whose text model these fields are; absent: they say it. */
  type?: string
  architecture: ArchitectureName
  config: ModelConfig
  /** Absent: the weights will say. */
  format: FormatName | undefined
  /** What the format is called if matrices are in codes. */
  mixture: FormatName
  /** Absent: the folder may say it. */
  pooling?: Pooling | undefined
  /** The matrices that pooled rows go through, where they lie among the weights. */
  readDense?: (weights: Weights) => Promise<Pooling["dense"]>
  openWeights: () => Promise<Weights>
  readTexts: () => Promise<ModelTexts>
}

/** By what lies there: a file, or a folder that holds a configuration or one GGUF file. */
async function openSource(
  path: string,
  adapters: readonly Adapter[],
): Promise<{ folder: Folder; source: Source }> {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile()) {
    const folder = new Folder(dirname(path))
    return { folder, source: await fileSource(folder, basename(path), adapters) }
  }
  const folder = new Folder(path)
  if (!stats?.isDirectory()) throw folder.broken(".", "there is no such folder")
  if (await folder.has(MLC)) return { folder, source: await mlcSource(folder) }
  const file = await fileOf(folder)
  if (file) return { folder, source: await fileSource(folder, file, adapters) }
  const isPlain = (await folder.has(PLAIN)) && holdsWeights(folder)
  await refuseOthers(folder)
  const source =
    !isPlain && (await bringsParams(folder))
      ? await paramsSource(folder, adapters)
      : await plainSource(folder, adapters)
  return { folder, source }
}

/** @throws what a folder is that has no configuration and holds a model of another program, or is one */
async function refuseOthers(folder: Folder): Promise<void> {
  if ((await folder.has(PLAIN)) || (await folder.has(PARAMS))) return
  const is = otherFormat(folder.path, true)
  if (is) throw folder.broken(".", `it is ${is}`)
  const held = otherFormatIn(folder.path)
  if (held) throw folder.broken(PLAIN, `there is no such file, and ${held}`)
}

/** The file that is a folder's model: downloads bring a configuration along with it, which then describes no weights. */
async function fileOf(folder: Folder): Promise<string | undefined> {
  const files = modelFilesIn(folder.path)
  const [first, ...others] = files
  if (first === undefined || ((await folder.has(PLAIN)) && holdsWeights(folder))) return undefined
  if (others.length === 0) return first
  const names = someOf(files.sort()).join(", ")
  throw folder.broken(".", `it holds ${files.length} models; name one of ${names}`)
}

/** By how it begins. */
async function fileSource(
  folder: Folder,
  file: string,
  adapters: readonly Adapter[],
): Promise<Source> {
  const other = otherFormat(file)
  if (other) throw folder.broken(file, `it is ${other}`)
  if (!isWhisperFile(join(folder.path, file))) return ggufSource(folder, file)
  if (adapters.length > 0)
    throw problem("option_invalid", {
      option: "--lora",
      problem: `${join(folder.path, file)} is a file of whisper.cpp, which no adapter is made for; serve the model's folder with it`,
    })
  return whisperSource(folder, file)
}

async function whisperSource(folder: Folder, file: string): Promise<Source> {
  return openWhole(async (closing) => {
    const whisper = closing.add(await openWhisperFile(folder, file))
    const { fields } = whisper
    const architecture = architectureOf(fields)
    const config = architectures[architecture].read(fields)
    return {
      configuration: file,
      name: file.replace(/\.bin$/, ""),
      fields,
      architecture,
      config,
      format: undefined,
      mixture: "gguf",
      hear: () => hearingInside({ folder, file }, whisper.readHearing(config)),
      openWeights: async () => whisper.weights(),
      readTexts: async () => whisper.texts,
    }
  })
}

async function ggufSource(folder: Folder, file: string): Promise<Source> {
  return openWhole(async (closing) => {
    const gguf = closing.add(await openGguf(folder, file))
    const { fields } = gguf
    const architecture = architectureOf(fields)
    const config = architectures[architecture].read(fields)
    return {
      configuration: file,
      name: file.replace(/(-00001-of-\d{5})?\.gguf$/, ""),
      fields,
      architecture,
      config,
      format: undefined,
      mixture: "gguf",
      pooling: gguf.pooling,
      readDense: gguf.readDense,
      ggufSources: gguf.sources(config),
      readTokenIds: gguf.readTokenIds,
      tower: gguf.tower,
      openWeights: async () => gguf.weights(config),
      readTexts: async () => gguf.texts(config),
    }
  })
}

const PLAIN = "config.json"

async function plainSource(folder: Folder, adapters: readonly Adapter[]): Promise<Source> {
  const broken = (what: string) => folder.broken(PLAIN, what)
  const whole = wholeFields(new Fields(await folder.json(PLAIN), broken))
  const architecture = architectureOf(whole)
  const fields = textFields(whole).over(vocabularyBy(adapters))
  const packing = await packingOf(folder, [whole, fields])
  const { read, naming } = architectures[architecture]
  const config = readDirection(fields, read(fields))
  const type = whole.text("model_type")
  return {
    configuration: PLAIN,
    type,
    fields,
    architecture,
    config,
    format: undefined,
    mixture: packing?.method ?? "gguf",
    openWeights: () => openSafetensors(folder, withMlxNames(naming(config), config), packing),
    readTexts: () => readTexts(folder, fields, config.shapes.vocabulary, type),
  }
}

async function paramsSource(folder: Folder, adapters: readonly Adapter[]): Promise<Source> {
  const { whole, extractor } = await readParams(folder)
  const architecture = architectureOf(whole)
  const fields = textFields(whole).over(vocabularyBy(adapters))
  const packing = await packingOf(folder, [whole])
  const config = architectures[architecture].read(fields)
  return {
    configuration: PARAMS,
    fields,
    architecture,
    config,
    format: undefined,
    mixture: packing?.method ?? "gguf",
    openWeights: () => {
      const naming = paramsNaming(config, extractor !== undefined)
      return openSafetensors(folder, naming, packing, CONSOLIDATED)
    },
    readTexts: () => readTexts(folder, fields, config.shapes.vocabulary),
  }
}

async function mlcSource(folder: Folder): Promise<Source> {
  const { chat, fields, format } = await readMlcConfig(folder)
  const architecture = architectureOf(fields)
  const { read, mlcAttention: attention } = architectures[architecture]
  const config = readDirection(fields, read(fields))
  return {
    configuration: MLC,
    fields,
    architecture,
    config,
    format,
    mixture: format,
    openWeights: () => openMlc(folder, { format, names: mlcNames(config, attention) }),
    readTexts: () => readMlcTexts(folder, chat, config.shapes.vocabulary),
  }
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(fields: Fields, { shapes }: ModelConfig, { entries }: Weights): void {
  if (shapes.layers > entries.length)
    throw fields.wrong(
      "num_hidden_layers",
      `is ${shapes.layers}, but the weights are ${entries.length} tensors in all`,
    )
}
