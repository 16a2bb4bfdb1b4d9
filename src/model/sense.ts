// What a model sees or hears with, its tower: a program beside the text model's, with weights of its own. A model may have one of each.
// It is kept in the floats, or the codes, that it is stored in, whatever becomes of the text model.
//
// A compiled folder has a folder in it for each tower: configuration and processor as they were published, the tower's weights in MLC's
// layout, and libraries in a lib/ of its own.

import { join } from "node:path"
import { openWhole } from "../closing.ts"
import type { CodecOf } from "../compiler/graph/codecs.ts"
import type { Graph, Weight } from "../compiler/graph/graph.ts"
import { Problem } from "../errors.ts"
import { CONSOLIDATED, PARAMS } from "../hub/selection.ts"
import { type FormatName, isMixed } from "../runtime/format.ts"
import type { Adapter } from "./adapters/adapter.ts"
import { changedTower, type TowerAdapters } from "./adapters/place.ts"
import { Fields } from "./fields.ts"
import { Folder, type Json } from "./folder.ts"
import type { Beside } from "./gguf/clip-file.ts"
import { graphOf, readTensors } from "./graph-weights.ts"
import { readParams } from "./mistral-params.ts"
import { MLC } from "./mlc-config.ts"
import { packingOf } from "./packed/packing.ts"
import { textFields, wholeFields } from "./seeing.ts"
import { storedFormat } from "./stored-format.ts"
import { openMlc } from "./weights/mlc.ts"
import type { MlcNames } from "./weights/mlc-names.ts"
import type { Naming } from "./weights/names.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import type { Weights } from "./weights/weights.ts"

export interface Sense {
  /** The folder that its configuration, its processor and its weights are in, and the file that says what it is. */
  path: string
  configuration: string
  graph: Graph
  format: FormatName
  /** What each weight is kept in, where the files mix codecs. */
  codecOf?: CodecOf
  weights: Weights
  /** What these were changed by. */
  adapters?: readonly Pick<Adapter, "folder" | "files">[]
  /** What these are called in MLC's layout. */
  names: MlcNames
  /** What is read beside the graph. */
  beside?: readonly Weight[] | undefined
  /** Of one beside a GGUF model what a folder would have in its files, as far as that can be said. */
  files?: Readonly<Record<string, Json>>
  close(): Promise<void>
}

export type SenseName = "vision" | "hearing"

/** What of a compiled model's tower lies in its folder, libraries in lib/ as the model's own. */
export const senseFolder = (folder: string, name: SenseName) => join(folder, name)

const SENSES: readonly SenseName[] = ["vision", "hearing"]

/** Those that a model has. */
export function sensesOf<Own extends Sense>(
  model: { readonly [Name in SenseName]?: Own | undefined },
): { name: SenseName; sense: Own }[] {
  return SENSES.flatMap((name) => {
    const sense = model[name]
    return sense ? [{ name, sense }] : []
  })
}

/**
 * As it is compiled with a model that is packed: in floats of one kind.
 * @returns nothing where it is in codes, or what is said of it lies in no file
 */
export function inFloats<Own extends Sense>(sense: Own): Own | undefined {
  const { path, configuration, graph, weights, files, codecOf: _, ...own } = sense
  if (configuration === PLAIN) return isMixed(sense.format) ? undefined : sense
  const broken = (what: string) => new Folder(path).broken(configuration, what)
  const { format } = storedFormat(graph, weights, "gguf", broken)
  if (!files || isMixed(format)) return undefined
  return { ...own, path, configuration, graph, weights, files, format } as Own
}

export const PLAIN = "config.json"

/** Files of a folder itself that tell of a tower in it. */
const TELLING = [PLAIN, PARAMS]

export interface Told {
  folder: Folder
  /** The file. */
  told: string
  /** In the words of a config.json. */
  fields: Fields
  /** What is said of images outside of the processor's files. */
  image?: Fields
  /** And of recordings. */
  extractor?: Fields
}

export async function readTold(path: string, told: string): Promise<Told> {
  const folder = new Folder(path)
  if (told === PARAMS) {
    const { whole, ...others } = await readParams(folder)
    return { folder, told, fields: whole, ...others }
  }
  const fields = new Fields(await folder.json(PLAIN), (what) => folder.broken(PLAIN, what))
  return { folder, told, fields: wholeFields(fields) }
}

/** The same of a published folder; nothing where it is none. */
export async function toldIn({ path, configuration }: Place): Promise<Told | undefined> {
  return TELLING.includes(configuration) ? readTold(path, configuration) : undefined
}

export interface Place extends Pick<Sense, "path" | "configuration"> {
  /** Absent: it is as it was published. */
  changedBy?: TowerAdapters
}

/** A tower in its folder. */
interface SensePlace extends Told {
  name: SenseName
  isCompiled: boolean
  changedBy: TowerAdapters | undefined
}

/** Where a folder, published or compiled, has a tower's configuration; nothing where it has none. */
export async function placeOfSense(place: Place, name: SenseName): Promise<SensePlace | undefined> {
  const isCompiled = place.configuration === MLC
  const own = { name, isCompiled, changedBy: place.changedBy }
  if (!isCompiled) {
    const told = await toldIn(place)
    return told && { ...told, ...own }
  }
  const path = senseFolder(place.path, name)
  if (!(await new Folder(path).has(PLAIN))) return undefined
  return { ...(await readTold(path, PLAIN)), ...own }
}

/** What its weights are read by. */
export interface Reading {
  naming: Naming
  names: MlcNames
  /** Its layers, which a configuration counts in that field. */
  layers: { count: number; field: string }
  /** Made once there is a tensor for each layer. */
  graph: () => Graph
  /** With those that are computed of what is stored, which a compiled folder has. */
  computed?: (stored: Weights) => Weights
}

/**
 * @returns nothing where the folder does not hold it
 * @throws `model_broken`, naming the file and what is wrong with it.
 */
export async function openSense(
  { folder, told, fields, name, isCompiled, changedBy }: SensePlace,
  { naming, names, layers, graph: make, computed = (stored) => stored }: Reading,
): Promise<Sense | undefined> {
  const packing = isCompiled ? undefined : await packingOf(folder, [fields, textFields(fields)])
  return openWhole(async (closing) => {
    const stored = closing.add(
      isCompiled
        ? await openMlc(folder, { format: "q0f32", names })
        : await openSafetensors(
            folder,
            naming,
            packing,
            told === PARAMS ? CONSOLIDATED : undefined,
          ),
    )
    if (!isCompiled && stored.holds?.("model.embed_tokens.weight") === false) {
      await closing.close()
      return undefined
    }
    const changed =
      changedBy && !isCompiled
        ? changedTower(stored, name, naming, changedBy)
        : { weights: stored, adapters: [] }
    const weights = isCompiled ? stored : computed(changed.weights)
    checkLayers(fields, layers, weights)
    const broken = (what: string) => folder.broken(told, what)
    const graph = graphOf(make, broken)
    const read = readTensors(graph, weights)
    if (changed.adapters.length > 0) changed.weights.refuseOthers?.(read)
    const format = storedFormat(graph, weights, packing?.method ?? "q0f32", broken)
    const place = { path: folder.path, configuration: told, adapters: changed.adapters }
    return { ...place, graph, ...format, weights, names, close: () => closing.close() }
  })
}

/** The same of a file beside a GGUF model, or of that model's own. */
export function senseBeside(
  { folder, file }: Pick<Beside, "folder" | "file">,
  { fields, weights: stored }: { fields: Fields; weights: Weights },
  {
    names,
    layers,
    beside = [],
    graph: make,
    computed = (stored) => stored,
  }: Omit<Reading, "naming"> & Pick<Sense, "beside">,
): Omit<Sense, "close"> {
  const weights = computed(stored)
  checkLayers(fields, layers, weights)
  const broken = (what: string) => folder.broken(file, what)
  const graph = graphOf(make, broken)
  const tensorsBeside = beside.flatMap(({ sources }) => sources.map(({ tensor }) => tensor))
  weights.refuseOthers?.([...readTensors(graph, weights), ...tensorsBeside])
  const format = storedFormat(graph, weights, "gguf", broken, true) // converters keep some matrices in f32
  return { path: folder.path, configuration: file, graph, ...format, weights, names }
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(
  fields: Fields,
  { count, field }: Reading["layers"],
  { entries }: Weights,
): void {
  if (count > entries.length)
    throw fields.wrong(
      field,
      `makes ${count} layers, but the weights are ${entries.length} tensors in all`,
    )
}

/**
 * What a model sees or hears with. One whose tower, or what is made ready for it, is told of in a way that is not known is served
 * without: the problem's words say why.
 */
export async function orWhy<Value extends object>(
  open: () => Promise<Value>,
): Promise<Value | { why: string }> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof Problem && error.code === "model_broken") return { why: error.message }
    throw error
  }
}
