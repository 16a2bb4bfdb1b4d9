// Opens the tower of a model that sees, which lies in the folder that the model was opened from, or in a file beside a GGUF model: a
// graph of its own, and weights by the tower's names. It is kept in the floats, or the codes, that it is stored in, whatever becomes
// of the text model.
//
// A compiled folder has a folder in it for the tower: configuration and processor as they were published, the tower's weights in MLC's
// layout, and libraries in a lib/ of its own.

import { join } from "node:path"
import { openWhole } from "../../closing.ts"
import type { CodecOf } from "../../compiler/graph/codecs.ts"
import type { Graph } from "../../compiler/graph/graph.ts"
import { Problem } from "../../errors.ts"
import { CONSOLIDATED, PARAMS } from "../../hub/selection.ts"
import type { ImageProcessing } from "../../images/image.ts"
import { widen } from "../../runtime/dtype.ts"
import { type FormatName, isMixed } from "../../runtime/format.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { Folder, type Json } from "../folder.ts"
import { readTensors } from "../graph-weights.ts"
import { paramsTowerNaming, readParams } from "../mistral-params.ts"
import { MLC } from "../mlc-config.ts"
import { packingOf } from "../packed/packing.ts"
import { textFields } from "../seeing.ts"
import { storedFormat } from "../stored-format.ts"
import { convert } from "../weights/convert.ts"
import { openMlc } from "../weights/mlc.ts"
import type { MlcNames } from "../weights/mlc-names.ts"
import { openSafetensors } from "../weights/safetensors.ts"
import type { Weights } from "../weights/weights.ts"
import { readTower } from "./families.ts"
import { type Beside, openMmproj } from "./mmproj.ts"
import { IMAGE, readProcessing } from "./processing.ts"
import { newlineOf, type TowerConfig, tower, towerShapes } from "./tower.ts"

export interface Vision {
  /** The folder that its configuration, its processor and its weights are in, and the file that says what it is. */
  path: string
  configuration: string
  config: TowerConfig
  graph: Graph
  format: FormatName
  /** What each weight is kept in, where the files mix codecs. */
  codecOf?: CodecOf
  weights: Weights
  /** The row that ends a line of an image, where lines end so. */
  newline?: Float32Array
  close(): Promise<void>
}

/** What of a model is known before its graph is made. */
interface Seeing {
  path: string
  /** The file that the configuration is in. */
  configuration: string
  config: ModelConfig
}

/** A tower, and how images are made ready for it. */
export interface Sight extends Vision {
  images: ImageProcessing
  /** Of one beside a GGUF model what a folder would have in its files, as far as that can be said. */
  files?: Readonly<Record<string, Json>>
}

const PLAIN = "config.json"
/** Files of a folder itself that tell of a tower in it. */
const TELLING = [PLAIN, PARAMS]

/** What of a compiled model's tower lies in its folder, libraries in lib/ as the model's own. */
export const towerFolder = (folder: string) => join(folder, "vision")

/**
 * What a model sees with. A model whose tower or whose images are told of in a way that is not known is served without: `blind` says
 * why.
 */
export async function openSight(open: () => Promise<Sightedness>): Promise<Sightedness> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof Problem && error.code === "model_broken") return { blind: error.message }
    throw error
  }
}

interface Told {
  folder: Folder
  /** In the words of a config.json. */
  fields: Fields
  /** What is said of images outside of the processor's files. */
  image?: Fields
}

async function readFolder(path: string, configuration: string): Promise<Told> {
  const folder = new Folder(path)
  if (configuration === PARAMS) {
    const { whole, image } = await readParams(folder)
    return { folder, fields: whole, ...(image && { image }) }
  }
  const fields = new Fields(await folder.json(PLAIN), (what) => folder.broken(PLAIN, what))
  return { folder, fields }
}

export interface Sightedness {
  vision?: Sight
  /** Why there is none, where something is there. */
  blind?: string
}

/** What lies in the model's own folder. @throws `model_broken` */
export async function sightInside(model: Seeing): Promise<Sightedness> {
  return openWhole(async (closing) => {
    const vision = await openVision(model)
    if (!vision) return lackIn(model)
    closing.add(vision)
    const { folder, fields, image } = await readFolder(vision.path, vision.configuration)
    const images = await readProcessing(fields, folder, image)
    if (!images) {
      await closing.close()
      return { blind: `${model.path} does not say how images are prepared.` }
    }
    checkTiles(fields, vision.config, images)
    const files = image && { [PLAIN]: fields.json, [IMAGE]: image.json }
    return { vision: { ...vision, images, ...(files && { files }) } }
  })
}

/** Why nothing is seen with, where the configuration tells of a tower; a compiled folder was made without one, or has it. */
async function lackIn({ path, configuration, config }: Seeing): Promise<Sightedness> {
  if (!TELLING.includes(configuration)) return {}
  const { folder, fields } = await readFolder(path, configuration)
  const vision = fields.object("vision_config")
  if (!vision) return {}
  if (readTower(fields, config))
    return { blind: `${path} holds no weights of the tower that ${configuration} tells of.` }
  const names = [fields, vision].map((each) => `"${each.text("model_type", "")}"`)
  const what = `vision_config is of a tower that is not known: ${names.join(", of type ")}`
  return { blind: folder.broken(configuration, what).message }
}

/** What lies beside a GGUF model. @throws `model_broken` */
export async function sightBeside(beside: Beside): Promise<Sightedness> {
  return openWhole(async (closing) => {
    const { folder, file } = beside
    const mmproj = closing.add(await openMmproj(beside))
    const { fields, image, config, images, weights } = mmproj
    checkTiles(fields, config, images)
    checkLayers(fields, config, weights)
    const graph = tower(config)
    weights.refuseOthers?.(readTensors(graph, weights))
    const broken = (what: string) => folder.broken(file, what)
    const stored = storedFormat(graph, weights, "gguf", broken, true) // converters keep some matrices in f32
    const place = { path: folder.path, configuration: file }
    const close = () => closing.close()
    const files = image && { [PLAIN]: fields.json, [IMAGE]: image.json }
    const sight = { ...place, config, graph, ...stored, weights, images, close }
    return { vision: { ...sight, ...(files && { files }) } }
  })
}

/**
 * As it is compiled with a model that is packed: in floats of one kind.
 * @returns nothing where it is in codes, or what is said of it lies in no file
 */
export function inFloats(vision: Sight): Sight | undefined {
  const { path, configuration, graph, weights, files, codecOf: _, ...own } = vision
  if (configuration === PLAIN) return isMixed(vision.format) ? undefined : vision
  const broken = (what: string) => new Folder(path).broken(configuration, what)
  const { format } = storedFormat(graph, weights, "gguf", broken)
  if (!files || isMixed(format)) return undefined
  return { ...own, path, configuration, graph, weights, files, format }
}

/** Both were read from the same fields, but each has ways of its own. */
function checkTiles(fields: Fields, tower: TowerConfig, images: ImageProcessing): void {
  const { patch, joined, hasClassRow, tile, places = 0 } = images
  const side = tower.fits ? places : Math.floor(tile.width / patch)
  const isOne =
    patch === tower.patch &&
    joined === tower.merge.side &&
    hasClassRow === tower.hasClass &&
    side === tower.side
  if (!isOne) throw fields.wrong("vision_config", "is of other tiles than images are cut into")
}

/**
 * @returns nothing where the model has no tower, or none that is known, or its folder does not hold it
 * @throws `model_broken`, naming the file and what is wrong with it.
 */
export async function openVision({
  path: whole,
  configuration,
  config: text,
}: Seeing): Promise<Vision | undefined> {
  const isCompiled = configuration === MLC
  const path = isCompiled ? towerFolder(whole) : whole
  const told = isCompiled ? PLAIN : configuration
  if (isCompiled ? !(await new Folder(path).has(PLAIN)) : !TELLING.includes(configuration))
    return undefined
  const { folder, fields } = await readFolder(path, told)
  const config = readTower(fields, text)
  if (!config) return undefined
  const packing = isCompiled ? undefined : await packingOf(folder, [fields, textFields(fields)])
  return openWhole(async (closing) => {
    const weights = closing.add(
      isCompiled
        ? await openMlc(folder, { format: "q0f32", names: towerNames(config) })
        : told === PARAMS
          ? await openSafetensors(folder, paramsTowerNaming(config), packing, CONSOLIDATED)
          : await openSafetensors(folder, config.naming, packing),
    )
    if (weights.holds && !weights.holds("model.embed_tokens.weight")) {
      await closing.close()
      return undefined
    }
    checkLayers(fields, config, weights)
    const graph = tower(config)
    readTensors(graph, weights)
    const broken = (what: string) => folder.broken(told, what)
    const stored = storedFormat(graph, weights, packing?.method ?? "q0f32", broken)
    const newline = await readNewline(config, weights)
    const close = () => closing.close()
    const place = { path, configuration: told }
    return { ...place, config, graph, ...stored, weights, ...(newline && { newline }), close }
  })
}

async function readNewline(config: TowerConfig, weights: Weights) {
  const wanted = newlineOf(config)
  if (!wanted) return undefined
  const { rows, sources } = wanted
  const tensor = weights.tensor(sources[0]!.tensor, rows, 1)
  const { values } = convert(await tensor.read(0, rows), 1, tensor.codec, "f32")
  return widen(values, "f32")
}

/** In MLC's layout nothing of a tower is joined. */
export function towerNames(config: TowerConfig): MlcNames {
  return { shapes: towerShapes(config), attention: undefined, gated: false }
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(fields: Fields, { blocks }: TowerConfig, { entries }: Weights): void {
  if (blocks.length > entries.length)
    throw fields.wrong(
      "vision_config.num_hidden_layers",
      `makes ${blocks.length} layers, but the weights are ${entries.length} tensors in all`,
    )
}
