// Which tensors of a model an adapter changes. Published names end alike and begin otherwise: an adapter has its model's names as
// they are in memory, where a model that sees, or another version of transformers, has another root before them.

import type { Json } from "../folder.ts"
import { type Naming, type Sources, sourcesOf } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { type Placed, withAdapters } from "./adapted.ts"
import { type Adapter, isTable } from "./adapter.ts"

export interface Place {
  naming: Naming
  /** Of the model's tensors by their published names, as far as these are known. */
  shapes: ReadonlyMap<string, readonly number[]>
  /** Where its GGUF file has what a graph reads. */
  ggufSources: Sources | undefined
  /** In a layer; undefined: it has none. */
  experts: number | undefined
  /** Layers of which nothing is read. */
  seeing?: ReadonlySet<number> | undefined
}

/** What may stand before names that are of no layer. */
const ROOTS =
  /^(?:(?:model|language_model|text_model|transformer|backbone|gpt_neox|bert|roberta|electra|distilbert|mpnet|new)\.)+/

/** What a model sees and hears with, by what stands in names of its tensors; and what either may have behind it. */
const senses = { vision: /vision|visual|image|\bv(?:pm|it)\b/, hearing: /audio|speech|\bapm\b/ }
const BEHIND = /projector|connector|resampler/

/** Whether a tensor is of that. A model that is a decoder hears with an encoder, whose layers are called alike. */
export function isOfSense(tensor: string, sense: keyof typeof senses, { roots }: Naming): boolean {
  const isDecoder = roots.every(({ root }) => root.endsWith("decoder."))
  const hears = sense === "hearing" && isDecoder && /\bencoder\./.test(tensor)
  return hears || senses[sense].test(tensor) || BEHIND.test(tensor)
}

/** @throws `model_broken` where its names are of another kind of file */
export function placeAdapter(
  adapter: Adapter,
  { naming, shapes, ggufSources, experts, seeing }: Place,
): Placed {
  const sees = (tensor: string) => seeing?.has(Number(/\.(\d+)\./.exec(tensor)?.[1]))
  if (adapter.names === "gguf") {
    const keyOf = (tensor: string) => (sees(tensor) ? undefined : tensor)
    if (ggufSources) return { adapter, sources: ggufSources, keyOf, experts }
    throw adapter.broken("it is an adapter of a GGUF file, and the model is none")
  }
  const layered = ofLayers(naming)
  const keyOf = (tensor: string) => {
    if (isOfSense(tensor, "vision", naming) || isOfSense(tensor, "hearing", naming))
      return undefined
    if (sees(tensor)) return undefined
    if (layered.test(tensor)) return layered.exec(tensor)![1]
    return /\.\d+\./.test(tensor) ? tensor : tensor.replace(ROOTS, "")
  }
  const changed = new Set([...adapter.changes.keys()].map(keyOf))
  const shapeOf = (name: string) => shapes.get(name) ?? (changed.has(keyOf(name)) ? [] : undefined)
  return { adapter, sources: sourcesOf(naming, shapeOf), keyOf, experts }
}

/** What stands behind all roots in names of layers' tensors. */
function ofLayers({ layers, layersBehind }: Naming): RegExp {
  const stacks = [layers, ...(layersBehind ? [layersBehind.layers] : [])]
  const begin = stacks.map((each) => each.replaceAll(".", "\\.")).join("|")
  return new RegExp(`(?:^|\\.)((?:${begin})\\d+\\..+)$`)
}

/** What a model's adapters change of its towers, too. */
export interface TowerAdapters {
  adapters: readonly Adapter[]
  /** Of the model itself. */
  naming: Naming
}

/** What may stand before names of a tower, in its folder or in memory. */
const TOWER_ROOTS = /^(?:(?:model|thinker)\.)+/

/** A tower's weights as those adapters have changed them that change some of it, and these. */
export function changedTower(
  stored: Weights,
  sense: keyof typeof senses,
  naming: Naming,
  { adapters: all, naming: own }: TowerAdapters,
): { weights: Weights; adapters: readonly Adapter[] } {
  const isIts = (tensor: string) => isOfSense(tensor, sense, own)
  const adapters = all.filter(({ changes }) => [...changes.keys()].some(isIts))
  if (adapters.length === 0) return { weights: stored, adapters }
  const base: Weights = { ...stored, refuseOthers: () => {} } // the model lies in the same files
  const shapes = new Map(stored.entries.map(({ name, shape }) => [name, shape]))
  const sources = sourcesOf(naming, (name) => shapes.get(name))
  const layered = ofLayers(naming)
  const keyOf = (tensor: string) =>
    isIts(tensor) ? (layered.exec(tensor)?.[1] ?? tensor.replace(TOWER_ROOTS, "")) : undefined
  const keys = new Set(stored.entries.map(({ name }) => keyOf(name)))
  const holds = (key: string) => keys.has(key) // the last layers of some towers are not read
  const its = { sources, keyOf, experts: undefined, holds }
  const placed = adapters.map((adapter) => ({ adapter, ...its }))
  return { weights: withAdapters(base, placed, { tied: false, floats: undefined }), adapters }
}

/** Of a table of embeddings that an adapter brings, how many tokens it has. */
export function vocabularyBy(adapters: readonly Adapter[]): Json {
  const tables = adapters.flatMap(({ changes }) =>
    [...changes].flatMap(([tensor, { whole }]) => (whole && isTable(tensor) ? whole.shape : [])),
  )
  return tables.length > 0 ? { vocab_size: tables[0] } : {}
}
