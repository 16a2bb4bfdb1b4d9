// Opens the tower of a model that sees, which lies in the folder that the model was opened from, or in a file beside a GGUF model.

import { openWhole } from "../../closing.ts"
import { PARAMS } from "../../hub/selection.ts"
import type { ImageProcessing } from "../../images/image.ts"
import { widen } from "../../runtime/dtype.ts"
import type { ModelConfig } from "../config.ts"
import type { Fields } from "../fields.ts"
import type { Beside } from "../gguf/clip-file.ts"
import { paramsTowerNaming } from "../mistral-params.ts"
import {
  openSense,
  orWhy,
  PLAIN,
  type Place,
  placeOfSense,
  readTold,
  type Sense,
  senseBeside,
  toldIn,
} from "../sense.ts"
import { convert } from "../weights/convert.ts"
import type { Weights } from "../weights/weights.ts"
import { readTower } from "./families.ts"
import { withSoftToken } from "./minicpm.ts"
import { openMmproj } from "./mmproj.ts"
import { IMAGE, readProcessing } from "./processing.ts"
import { towerGraph } from "./tiled.ts"
import { apartOf, type TowerConfig, towerShapes } from "./tower.ts"

export interface Vision extends Sense {
  config: TowerConfig
  /** Rows that no patch makes: what ends a line of an image, and where it is framed what stands before and behind it. */
  apart?: Float32Array // [those, columns]
}

/** What of a model is known before its graph is made. */
interface Seeing extends Place {
  config: ModelConfig
  /** Patches of an image at the most, where somebody says so. */
  mostPatches?: number | undefined
}

/** A tower, and how images are made ready for it. */
export interface Sight extends Vision {
  images: ImageProcessing
}

/**
 * What a model sees with. A model whose tower or whose images are told of in a way that is not known is served without: `blind` says
 * why.
 */
export async function openSight(open: () => Promise<Sightedness>): Promise<Sightedness> {
  const sight = await orWhy(open)
  return "why" in sight ? { blind: sight.why } : sight
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
    const { folder, fields, image } = await readTold(vision.path, vision.configuration)
    const images = await readProcessing(fields, folder, image, model.mostPatches)
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
async function lackIn(model: Seeing): Promise<Sightedness> {
  const place = await toldIn(model)
  if (!place) return {}
  const { folder, told, fields } = place
  const vision = fields.object("vision_config")
  if (!vision) return {}
  if (readTower(fields, model.config))
    return { blind: `${model.path} holds no weights of the tower that ${told} tells of.` }
  const names = [fields, vision].map((each) => `"${each.text("model_type", "")}"`)
  const what = `vision_config is of a tower that is not known: ${names.join(", of type ")}`
  return { blind: folder.broken(told, what).message }
}

/** What lies beside a GGUF model. @throws `model_broken` */
export async function sightBeside(beside: Beside, mostPatches?: number): Promise<Sightedness> {
  return openWhole(async (closing) => {
    const mmproj = await openMmproj(beside, mostPatches)
    if (!mmproj) return {}
    closing.add(mmproj)
    const { fields, image, images } = mmproj
    const config = boundBy(mmproj.config, mostPatches)
    checkTiles(fields, config, images)
    const reading = { ...named(config), layers: layersOf(config), graph: () => towerGraph(config) }
    const sense = senseBeside(beside, mmproj, reading)
    const apart = await readApart(config, sense.weights)
    const files = image && { [PLAIN]: fields.json, [IMAGE]: image.json }
    const sight = { ...sense, ...named(config), config, images, close: () => closing.close() }
    return { vision: { ...sight, ...(apart && { apart }), ...(files && { files }) } }
  })
}

/** Both were read from the same fields, but each has ways of its own. */
function checkTiles(fields: Fields, tower: TowerConfig, images: ImageProcessing): void {
  const { patch, joined, hasClassRow, tile, nearest, places = nearest ?? 0 } = images
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
export async function openVision(model: Seeing): Promise<Vision | undefined> {
  const place = await placeOfSense(model, "vision")
  const told = place && (await withSoftToken(place.fields, place.folder))
  const read = told && readTower(told, model.config)
  if (!read) return undefined
  const config = boundBy(read, model.mostPatches)
  return openWhole(async (closing) => {
    const naming = place!.told === PARAMS ? paramsTowerNaming(config) : config.naming
    const layers = layersOf(config)
    const graph = () => towerGraph(config)
    const sense = await openSense(place, { naming, ...named(config), layers, graph })
    if (!sense) return undefined
    closing.add(sense)
    const apart = await readApart(config, sense.weights)
    const close = () => closing.close()
    return { ...sense, ...named(config), config, ...(apart && { apart }), close }
  })
}

/** Whose images have so many patches at the most. */
function boundBy(config: TowerConfig, rows: number | undefined): TowerConfig {
  return config.fits && rows !== undefined ? { ...config, fits: { ...config.fits, rows } } : config
}

const layersOf = ({ blocks }: TowerConfig) => ({
  count: blocks.length,
  field: "vision_config.num_hidden_layers",
})

async function readApart(config: TowerConfig, weights: Weights): Promise<Float32Array | undefined> {
  const read = async (name: string, rows: number, columns = 1) => {
    const tensor = weights.tensor(name, rows, columns)
    const { values } = convert(await tensor.read(0, rows), columns, tensor.codec, "f32")
    return widen(values, "f32")
  }
  const stored = await Promise.all(
    apartOf(config).map(({ rows, sources }) => read(sources[0]!.tensor, rows)),
  )
  const [newline, ...frame] = stored
  const { behind, last, width, factor } = config.projector
  if (newline && config.asking) return besideStacked(newline, config, factor)
  if (!newline || !behind || !last) return newline
  const [matrix, bias, norm] = await Promise.all([
    read("linear_3.weight", width, behind.columns),
    read("linear_3.bias", width),
    read("last_norm.weight", width),
  ])
  const line = multiplied(newline, { matrix, bias })
  return Float32Array.from([line, ...frame].flatMap((row) => [...evened(row, norm, last.epsilon)]))
}

/** The row that ends lines stands in the place of those of all projectors. */
function besideStacked(newline: Float32Array, { stacked = [] }: TowerConfig, factor: number) {
  return Float32Array.from(
    [newline.map((value) => value * factor), ...stacked.map(() => newline)].flatMap((row) => [
      ...row,
    ]),
  )
}

interface Matrix {
  matrix: Float32Array // [rows, columns]
  bias: Float32Array // [rows]
}

/** As the projector's last matrix makes it of a row. */
function multiplied(row: Float32Array, { matrix, bias }: Matrix): Float32Array {
  return bias.map((start, i) => {
    const own = matrix.subarray(i * row.length, (i + 1) * row.length)
    return own.reduce((sum, value, column) => sum + value * row[column]!, start)
  })
}

/** As the norm behind it, which is of root mean squares. */
function evened(row: Float32Array, weight: Float32Array, epsilon: number): Float32Array {
  const squares = row.reduce((sum, value) => sum + value * value, 0)
  const size = 1 / Math.sqrt(squares / row.length + epsilon)
  return row.map((value, column) => value * size * weight[column]!)
}

/** In MLC's layout nothing of a tower is joined. */
function named(config: TowerConfig): Pick<Sense, "names" | "beside"> {
  const names = { shapes: towerShapes(config), attention: undefined, gated: false }
  return { names, beside: apartOf(config) }
}
