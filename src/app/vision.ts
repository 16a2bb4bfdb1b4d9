// What a model sees with: its tower, a program of its own on its model's device, and the images that are made ready for it
// (src/images). Rows of images that were seen last are kept, since a conversation brings its images again with each turn.

import type { ChatVision, PreparedImage } from "../chat/vision.ts"
import { openWhole } from "../closing.ts"
import { type ProgramWish, parameterCount, prepareProgram } from "../compiler/targets/prepare.ts"
import type { PlanTraits, Prepared } from "../compiler/targets/target.ts"
import type { Overrides } from "../engine/limits.ts"
import { createTower, type Tower, towerLimits } from "../engine/tower.ts"
import { type Images, openImages } from "../images/images.ts"
import { mostRows } from "../images/patches.ts"
import type { Log } from "../log.ts"
import type { Model } from "../model/model.ts"
import type { WeightSource } from "../model/packed-copy.ts"
import type { Sight } from "../model/vision/open-vision.ts"
import type { LoadableProgram, ProgramLimits } from "../runtime/program.ts"
import { planOf } from "./plan.ts"

export interface Opening {
  signal: AbortSignal
  /** @returns the hash of the weights */
  load: (from: WeightSource, program: LoadableProgram) => Promise<string>
  log: Log
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

/** @param wish what the model's own program was prepared with */
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
  const millions = (parameterCount(plan) / 1e6).toFixed(0)
  return {
    vision,
    program,
    limits,
    bytes: program.weightBytes + program.bufferBytes(limits) + kept,
    title: `${plan.architecture}, ${millions} M parameters, ${vision.format}, ${program.origin}`,
  }
}

export interface OpenVision extends ChatVision {
  /** Of its weights. */
  hash: string
  /** Of its program. */
  fingerprint: string
  close(): Promise<void>
}

/** @param load reads the weights into the program */
export async function openVision(
  { vision, program: prepared, limits }: PreparedVision,
  model: Pick<Model, "path" | "name" | "configuration">,
  { signal, load, log }: Opening,
): Promise<OpenVision> {
  return openWhole(async (closing) => {
    const program = closing.add(await prepared.open(limits, signal))
    const { format, weights } = vision
    const { path, name, configuration } = model
    const hash = await load({ path, name, configuration, format, weights, part: TOWER }, program)
    const tower = closing.add(createTower(program))
    const images = closing.add(openImages(vision.images, log))
    const { mark, soft } = vision.images
    return {
      mark,
      soft: { text: soft, id: vision.config.softToken },
      prepare: preparing(images, tower),
      hash,
      fingerprint: program.manifest.fingerprint,
      close: () => closing.close(),
    }
  })
}

/** Copies of a model's weights on the shelf have another number. */
const TOWER = 1000

/** An image that was seen, and what came of it. */
interface Seen extends Omit<PreparedImage, "encode"> {
  features: Float32Array
}

function preparing(images: Images, tower: Tower): ChatVision["prepare"] {
  const kept = new KeptRows()
  return async (bytes, field, signal) => {
    const hash = hex(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>))
    const known = kept.get(hash)
    if (known) return { ...known, encode: async () => known.features }
    const { tiles, ...told } = await images.see(bytes, field, signal)
    return {
      hash,
      ...told,
      async encode(signal) {
        const seen = kept.get(hash)
        if (seen) return seen.features
        const features = await tower.read(tiles, { client: "", signal })
        kept.put({ hash, ...told, features })
        return features
      },
    }
  }
}

const hex = (bytes: ArrayBuffer) => Buffer.from(bytes).toString("hex")

const MAX_KEPT = 64 * 2 ** 20 // bytes; a tile of 256 rows of 4,096 columns has 4 MiB

/** Rows of the images that were seen last. */
class KeptRows {
  readonly #seen = new Map<string, Seen>() // the last one used comes last
  #bytes = 0

  get(hash: string): Seen | undefined {
    const seen = this.#seen.get(hash)
    if (!seen) return undefined
    this.#seen.delete(hash)
    this.#seen.set(hash, seen)
    return seen
  }

  put(seen: Seen): void {
    if (this.#seen.has(seen.hash)) return
    this.#seen.set(seen.hash, seen)
    this.#bytes += seen.features.byteLength
    for (const [hash, { features }] of this.#seen) {
      if (this.#bytes <= MAX_KEPT) return
      this.#seen.delete(hash)
      this.#bytes -= features.byteLength
    }
  }
}
