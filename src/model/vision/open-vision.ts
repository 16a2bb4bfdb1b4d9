// Opens the tower of a model that sees, which lies in the folder that the model was opened from: a graph of its own, and weights by
// the tower's names. It is kept in the floats, or the codes, that it is stored in, whatever becomes of the text model.

import { openWhole } from "../../closing.ts"
import type { CodecOf } from "../../compiler/graph/codecs.ts"
import type { Graph } from "../../compiler/graph/graph.ts"
import { Problem } from "../../errors.ts"
import type { ImageProcessing } from "../../images/image.ts"
import type { FormatName } from "../../runtime/format.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { Folder } from "../folder.ts"
import { readTensors } from "../graph-weights.ts"
import { packingOf } from "../packed/packing.ts"
import { textFields } from "../seeing.ts"
import { storedFormat } from "../stored-format.ts"
import { openSafetensors } from "../weights/safetensors.ts"
import type { Weights } from "../weights/weights.ts"
import { readTower } from "./families.ts"
import { readProcessing } from "./processing.ts"
import { type TowerConfig, tower } from "./tower.ts"

export interface Vision {
  config: TowerConfig
  graph: Graph
  format: FormatName
  /** What each weight is kept in, where the files mix codecs. */
  codecOf?: CodecOf
  weights: Weights
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
}

const PLAIN = "config.json"

/**
 * What a model sees with. A model whose tower or whose images are told of in a way that is not known is served without: `blind` says
 * why.
 */
export async function openSight(model: Seeing): Promise<{ vision?: Sight; blind?: string }> {
  try {
    return await openWhole(async (closing) => {
      const vision = await openVision(model)
      if (!vision) return {}
      closing.add(vision)
      const folder = new Folder(model.path)
      const fields = new Fields(await folder.json(PLAIN), (what) => folder.broken(PLAIN, what))
      const images = await readProcessing(fields, folder)
      if (!images) {
        await closing.close()
        return { blind: `${model.path} does not say how images are prepared.` }
      }
      checkTiles(fields, vision.config, images)
      return { vision: { ...vision, images } }
    })
  } catch (error) {
    if (error instanceof Problem && error.code === "model_broken") return { blind: error.message }
    throw error
  }
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
export async function openVision(model: Seeing): Promise<Vision | undefined> {
  if (model.configuration !== PLAIN) return undefined
  const folder = new Folder(model.path)
  const broken = (what: string) => folder.broken(PLAIN, what)
  const fields = new Fields(await folder.json(PLAIN), broken)
  const config = readTower(fields, model.config)
  if (!config) return undefined
  const packing = await packingOf(folder, [fields, textFields(fields)])
  return openWhole(async (closing) => {
    const weights = closing.add(await openSafetensors(folder, config.naming, packing))
    if (!weights.holds?.("model.embed_tokens.weight")) {
      await closing.close()
      return undefined
    }
    checkLayers(fields, config, weights)
    const graph = tower(config)
    readTensors(graph, weights)
    const stored = storedFormat(graph, weights, packing?.method ?? "q0f32", broken)
    return { config, graph, ...stored, weights, close: () => closing.close() }
  })
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(fields: Fields, { blocks }: TowerConfig, { entries }: Weights): void {
  if (blocks.length > entries.length)
    throw fields.wrong(
      "vision_config.num_hidden_layers",
      `makes ${blocks.length} layers, but the weights are ${entries.length} tensors in all`,
    )
}
