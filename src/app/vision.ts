// What a model sees with: its tower, a program of its own on its model's device, and the images that are made ready for it
// (src/images). Rows of images that were seen last are kept, since a conversation brings its images again with each turn.

import type { ChatVision } from "../chat/vision.ts"
import { openWhole } from "../closing.ts"
import { type ProgramWish, parameterCount, prepareProgram } from "../compiler/targets/prepare.ts"
import type { PlanTraits, Prepared } from "../compiler/targets/target.ts"
import type { Overrides } from "../engine/limits.ts"
import { type Beside, createTower, type Tower, towerLimits } from "../engine/tower.ts"
import type { Problem } from "../errors.ts"
import { arranged } from "../images/arrangement.ts"
import type { SeenImage } from "../images/image.ts"
import { type Images, openImages } from "../images/images.ts"
import { mostImageRows, mostRows } from "../images/patches.ts"
import type { Log } from "../log.ts"
import { LruMap } from "../lru.ts"
import type { Model } from "../model/model.ts"
import type { WeightSource } from "../model/packed-copy.ts"
import type { Sight } from "../model/vision/open-vision.ts"
import type { LoadableProgram, ProgramLimits } from "../runtime/program.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { planOf } from "./plan.ts"

export interface Opening {
  signal: AbortSignal
  /** @returns the hash of the weights */
  load: (from: WeightSource, program: LoadableProgram) => Promise<string>
  log: Log
  /** Told once when its program is lost. */
  onLost: (reason: Problem) => void
}

/** A tower that fits, not opened yet. */
export interface PreparedVision {
  vision: Sight
  program: Prepared
  limits: ProgramLimits
  /** What its program takes, keys and values of a tile included. */
  bytes: number
  /** For people. */
  title: string
}

/** @param wish what the model's own program was prepared with, but for its library and its shards */
export async function prepareVision(
  vision: Sight,
  wish: ProgramWish,
  overrides: Overrides,
  traits: PlanTraits,
): Promise<PreparedVision> {
  const plan = planOf(vision, vision.format, overrides, traits)
  const program = await prepareProgram(plan, wish)
  const { groups } = program.manifest.kv
  const limits = towerLimits(groups.length, mostRows(vision.images))
  const kept = groups.reduce(
    (sum, { bytesPerBlock }, i) => sum + bytesPerBlock * limits.blocks[i]!,
    0,
  )
  const millions = (parameterCount(plan) / 1e6).toFixed(1)
  return {
    vision,
    program,
    limits,
    bytes: program.weightBytes + program.bufferBytes(limits) + kept,
    title: `${plan.architecture}, ${millions} M parameters, ${vision.format}, ${program.origin}${besideOf(vision)}`,
  }
}

/** Of several files that might have been meant, people want to know which it was. */
function besideOf({ configuration }: Sight): string {
  return configuration.endsWith(".json") ? "" : `, of ${configuration}`
}

export interface OpenVision extends ChatVision, Pick<Tower, "stats"> {
  /** Stands back behind the model's steps. */
  beside: Beside
  /** Of its weights. */
  hash: string
  /** Of its program. */
  fingerprint: string
  close(): Promise<void>
}

/** @param load reads the weights into the program */
export async function openVision(
  { vision, program: prepared, limits }: PreparedVision,
  { name }: Pick<Model, "name">,
  { signal, load, log, onLost }: Opening,
): Promise<OpenVision> {
  return openWhole(async (closing) => {
    const program = closing.add(await prepared.open(limits, signal))
    const { path, configuration, format, weights } = vision
    const hash = await load({ path, name, configuration, format, weights, part: TOWER }, program)
    const tower = closing.add(createTower(program, { log, onLost }))
    const images = closing.add(openImages(vision.images, log))
    const { mark, soft } = vision.images
    return {
      mark,
      soft: { text: soft, id: vision.config.softToken },
      prepare: preparing(images, tower, {
        ...(vision.newline && { newline: vision.newline }),
        largest: mostImageRows(vision.images) * program.manifest.shapes.hidden * 4,
      }),
      beside: tower,
      stats: () => tower.stats(),
      hash,
      fingerprint: program.manifest.fingerprint,
      close: () => closing.close(),
    }
  })
}

/** Copies of a model's weights on the shelf have another number. */
const TOWER = 1000

/** An image that was read by the tower, and what came of it. */
interface Read extends Omit<SeenImage, "tiles"> {
  features: Float32Array
}

/**
 * A request's images are all prepared before the first is read. Their tiles are kept until then as far as there is room, and those
 * that are gone are cut once more. Of equal images one is worked on at a time, and the others find what came of it.
 * @param newline the row that ends a line of an image
 * @param largest bytes that come of an image at the most
 */
export function preparing(
  images: Images,
  tower: Tower,
  { newline = new Float32Array(0), largest = 0 }: { newline?: Float32Array; largest?: number } = {},
): ChatVision["prepare"] {
  const cut = new LruMap<SeenImage>(MAX_TILES, bytesOf)
  const most = Math.max(MIN_KEPT, KEPT * largest)
  const known = new LruMap<Read>(most, ({ features }) => features.byteLength)
  const alone = oneOfEach()
  return async (bytes, field, caller) => {
    const hash = hex(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>))
    const ready = known.get(hash)
    if (ready) return { hash, ...ready, encode: async () => ready.features }
    const see = async (caller: Caller) => cut.put(hash, await images.see(bytes, field, caller))
    const encode = (caller: Caller) =>
      alone(hash, caller, async () => {
        const read = known.get(hash)
        if (read) return read.features
        const tiles = async () => {
          const image = cut.get(hash) ?? (await see(caller))
          cut.delete(hash)
          return image.tiles
        }
        const coming = await tower.read(arrangement?.of ?? rows, tiles, caller)
        const { signal } = caller
        const features = arrangement ? await arranged(coming, arrangement, newline, signal) : coming
        return known.put(hash, { ...told, features }).features
      })
    const { text, rows, grid, arrangement } = await alone(
      hash,
      caller,
      async () => known.get(hash) ?? cut.get(hash) ?? (await see(caller)),
    )
    const image = { text, rows, ...(grid && { grid }) }
    const told = { ...image, ...(arrangement && { arrangement }) }
    return { hash, ...image, encode }
  }
}

const hex = (bytes: ArrayBuffer) => Buffer.from(bytes).toString("hex")

const bytesOf = ({ tiles }: SeenImage) =>
  tiles.reduce((sum, { pixels }) => sum + pixels.byteLength, 0)

/** Of work on equal things one is done at a time. */
function oneOfEach() {
  const lanes = new Map<string, { lane: Lane; count: number }>()
  return async <T>(name: string, caller: Caller, work: () => Promise<T>): Promise<T> => {
    const own = lanes.get(name) ?? { lane: new Lane(), count: 0 }
    lanes.set(name, own)
    own.count++
    try {
      return await own.lane.run(work, 1, caller)
    } finally {
      if (--own.count === 0) lanes.delete(name)
    }
  }
}

const MAX_TILES = 128 * 2 ** 20 // bytes; an image of SmolVLM's has 51 MiB at most, one of LLaVA's 1.3
const MIN_KEPT = 64 * 2 ** 20 // bytes; a tile of 256 rows of 4,096 columns has 4 MiB
const KEPT = 4 // of the largest images: one of LLaVA OneVision's has 100 MiB
