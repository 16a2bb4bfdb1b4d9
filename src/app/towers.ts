// What a model sees or hears with: a tower for either, a program of its own on its model's device, and what is made ready for it
// (src/images, src/audio). Rows of images and recordings that came last are kept, since a conversation brings them again with each turn.

import { availableParallelism } from "node:os"
import { isInPieces } from "../audio/audio.ts"
import { openRecordings, type Recordings } from "../audio/recordings.ts"
import { mostRecordingRows, mostRows as mostWindowRows } from "../audio/tiles.ts"
import type { ChatMedium } from "../chat/media.ts"
import type { PieceListener } from "../chat/transcripts/acoustic.ts"
import type { Listener } from "../chat/transcripts/transcriber.ts"
import { openWhole } from "../closing.ts"
import { type ProgramWish, parameterCount, prepareProgram } from "../compiler/targets/prepare.ts"
import type { PlanTraits, Prepared } from "../compiler/targets/target.ts"
import type { Overrides } from "../engine/limits.ts"
import { type Beside, createTower, type Tower, towerLimits } from "../engine/tower.ts"
import { type Problem, problem } from "../errors.ts"
import { arranged } from "../images/arrangement.ts"
import type { ImageProcessing, SeenImage } from "../images/image.ts"
import { openImages } from "../images/images.ts"
import { mostImageRows, mostRows } from "../images/patches.ts"
import type { Log } from "../log.ts"
import { LruMap } from "../lru.ts"
import type { Hearing } from "../model/hearing/open-hearing.ts"
import type { Model } from "../model/model.ts"
import type { WeightSource } from "../model/packed-copy.ts"
import type { Sight } from "../model/vision/open-vision.ts"
import { bufferBytes, type Manifest, takenColumns } from "../runtime/manifest.ts"
import type { LoadableProgram, ProgramLimits } from "../runtime/program.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { towerPlanOf } from "./plan.ts"

export interface Opening {
  signal: AbortSignal
  /** @returns the hash of the weights */
  load: (from: WeightSource, program: LoadableProgram) => Promise<string>
  log: Log
  /** Told once when its program is lost. */
  onLost: (reason: Problem) => void
}

/** A tower that fits, not opened yet. */
export interface PreparedTower {
  medium: Medium
  program: Prepared
  limits: ProgramLimits
  /** What its program takes, keys and values of a tile included. */
  bytes: number
  /** For people. */
  title: string
}

/** What a model sees or hears with, and what it is asked with. */
interface Medium extends Pick<ChatMedium, "kind" | "mark" | "isPromptMutual"> {
  sense: Sight | Hearing
  /** Of the copy of its weights on the shelf: its model's own has none. */
  part: number
  /** The text of its soft token. */
  soft: string
  /** Of the largest tile. */
  tileRows: number
  /** That come of one image or recording at the most. */
  mostRows: number
  open(log: Log): Preparing
}

/** Makes images or recordings ready for the tower. */
export interface Preparing {
  seek?: Recordings["seek"]
  cut?: Recordings["cut"]
  prepare(bytes: Uint8Array, field: string, caller: Caller): Promise<SeenImage>
  close(): Promise<void>
}

function mediumOf(sense: Sight | Hearing): Medium {
  if ("images" in sense) {
    const { images } = sense
    return {
      sense,
      part: 1000,
      kind: "image",
      mark: images.mark,
      soft: images.soft,
      ...(sense.config.mutual === "with the prompt" && { isPromptMutual: true }),
      tileRows: mostRows(images),
      mostRows: mostImageRows(images),
      open: (log) => openImages(images, log),
    }
  }
  const { audio } = sense
  return {
    sense,
    part: 1001,
    kind: "audio",
    mark: audio.mark,
    soft: audio.soft,
    tileRows: mostWindowRows(audio),
    mostRows: mostRecordingRows(audio),
    open: (log) => openRecordings(audio, log),
  }
}

/** @param wish what the model's own program was prepared with, but for its library and its shards */
export async function prepareTower(
  sense: Sight | Hearing,
  wish: ProgramWish,
  overrides: Overrides,
  traits: PlanTraits,
): Promise<PreparedTower> {
  const plan = towerPlanOf(sense, overrides, traits)
  const program = await prepareProgram(plan, wish)
  const { groups } = program.manifest.kv
  const medium = mediumOf(sense)
  const limits = towerLimits(groups.length, medium.tileRows)
  const bytes = program.weightBytes + program.bufferBytes(limits) + keptBytes(groups, limits)
  const millions = (parameterCount(plan) / 1e6).toFixed(1)
  return {
    medium,
    program,
    limits,
    bytes,
    title: `${plan.architecture}, ${millions} M parameters, ${sense.format}, ${mib(bytes)}, ${program.origin}${besideOf(sense)}`,
  }
}

const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`

/** Of keys and values. */
const keptBytes = (groups: Manifest["kv"]["groups"], { blocks }: ProgramLimits) =>
  groups.reduce((sum, { bytesPerBlock }, i) => sum + bytesPerBlock * blocks[i]!, 0)

/** What a tower takes beside its weights, for the largest tile. */
export function tileBytes({ kv: { groups }, bytes }: Manifest, images: ImageProcessing): number {
  const limits = towerLimits(groups.length, mostRows(images))
  return bufferBytes(bytes, limits, availableParallelism()) + keptBytes(groups, limits)
}

/**
 * Patches of an image that somebody allows count where its tile is as large as it is, and its model's files say how large by an area or an edge.
 * @throws `option_invalid` where images are cut in another way, or not at all
 */
export function checkImagePatches(
  { vision, blind = "the model sees no images." }: Pick<Model, "vision" | "blind">,
  { max_image_patches: most }: Overrides,
): void {
  if (most === undefined) return
  const cutting = vision?.images.cutting
  const isBound =
    cutting?.kind === "within" ||
    cutting?.kind === "shrink" ||
    (cutting?.kind === "fit" && !cutting.tiles)
  if (isBound) return
  throw problem("option_invalid", {
    option: "--overrides max_image_patches",
    problem: cutting
      ? "the model's own files say how many patches a tile has; leave it out."
      : blind,
  })
}

/** Of several files that might have been meant, people want to know which it was. */
function besideOf({ configuration }: Sight | Hearing): string {
  return configuration.endsWith(".json") ? "" : `, of ${configuration}`
}

export interface OpenTower extends ChatMedium, Pick<Tower, "stats"> {
  /** Of a Whisper's: what it hears is no part of a conversation. */
  listener?: Listener
  /** Likewise of one that is heard piece by piece. */
  pieces?: PieceListener
  /** Stands back behind the model's steps. */
  beside: Beside
  /** Of its weights. */
  hash: string
  /** Of its program. */
  fingerprint: string
  close(): Promise<void>
}

/** @param load reads the weights into the program */
export async function openTower(
  { medium, program: prepared, limits }: PreparedTower,
  { name, graph }: Pick<Model, "name" | "graph">,
  { signal, load, log, onLost }: Opening,
): Promise<OpenTower> {
  return openWhole(async (closing) => {
    const program = closing.add(await prepared.open(limits, signal))
    const { sense, part, kind, mark, soft, isPromptMutual, mostRows } = medium
    const { path, configuration, format, weights, adapters } = sense
    const own = { path, name, configuration, format, weights, part }
    const hash = await load({ ...own, ...(adapters && { adapters }) }, program)
    const tower = closing.add(createTower(program, { log, onLost }))
    const source = closing.add(medium.open(log))
    const { hidden } = program.manifest.shapes
    const { seek, cut } = source
    return {
      ...("speech" in sense && seek && { listener: listening({ seek }, tower, medium.tileRows) }),
      ...("audio" in sense &&
        isInPieces(sense.audio) &&
        cut && { pieces: inPieces({ cut }, tower) }),
      kind,
      mark,
      soft: { text: soft, id: sense.config.softToken },
      ...(isPromptMutual && { isPromptMutual }),
      prepare: preparing(source, tower, {
        ...("apart" in sense && sense.apart && { apart: sense.apart }),
        largest: mostRows * hidden * 4,
        wider: { from: hidden, to: takenColumns(graph.shapes) },
      }),
      beside: tower,
      stats: () => tower.stats(),
      hash,
      fingerprint: program.manifest.fingerprint,
      close: () => closing.close(),
    }
  })
}

/** An image or a recording that was read by the tower, and what came of it. */
interface Read extends Omit<SeenImage, "tiles"> {
  features: Float32Array
}

/** Rows as wide as those that the text model takes in, zeros behind what they have: recordings bring nothing that layers leave. */
function widened(rows: Float32Array, { from, to }: Wider): Float32Array {
  if (from === to) return rows
  const count = rows.length / from
  const wider = new Float32Array(count * to)
  for (let row = 0; row < count; row++)
    wider.set(rows.subarray(row * from, (row + 1) * from), row * to)
  return wider
}

interface Wider {
  from: number // columns
  to: number // columns
}

/**
 * All that a request brings is prepared before the first of it is read. Tiles are kept until then as far as there is room, and those
 * that are gone are cut once more. Of equal images or recordings one is worked on at a time, and the others find what came of it.
 * @param apart rows of images that no patch makes, the first of which ends a line
 * @param largest bytes that come of one at the most
 * @param wider what the tower's rows have, and what the text model takes in; absent: the same
 */
export function preparing(
  source: Pick<Preparing, "prepare">,
  tower: Tower,
  {
    apart = new Float32Array(0),
    largest = 0,
    wider = { from: 1, to: 1 },
  }: { apart?: Float32Array; largest?: number; wider?: Wider } = {},
): ChatMedium["prepare"] {
  const cut = new LruMap<SeenImage>(MAX_TILES, bytesOf)
  const most = Math.max(MIN_KEPT, KEPT * largest)
  const known = new LruMap<Read>(most, ({ features }) => features.byteLength)
  const alone = oneOfEach()
  return async (bytes, field, caller) => {
    const hash = await hashOf(bytes)
    const ready = known.get(hash)
    if (ready) return { hash, ...ready, encode: async () => widened(ready.features, wider) }
    const see = async (caller: Caller) => cut.put(hash, await source.prepare(bytes, field, caller))
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
        const features = arrangement ? await arranged(coming, arrangement, apart, signal) : coming
        return known.put(hash, { ...told, features }).features
      })
    const { text, rows, isInFront, grid, canvas, arrangement } = await alone(
      hash,
      caller,
      async () => known.get(hash) ?? cut.get(hash) ?? (await see(caller)),
    )
    const placed = { ...(grid && { grid }), ...(canvas && { canvas }) }
    const image = { text, rows, ...(isInFront && { isInFront }), ...placed }
    const told = { ...image, ...(arrangement && { arrangement }) }
    return { hash, ...image, encode: async (caller) => widened(await encode(caller), wider) }
  }
}

/** Windows are computed as they are sought, and not kept: whoever asked for one holds it. */
function listening(source: Pick<Recordings, "seek">, tower: Tower, rows: number): Listener {
  return {
    rows,
    listen: async (bytes, field, caller) => {
      const hash = await hashOf(bytes)
      const { samples, frames, windowAt } = await source.seek(bytes, field, caller)
      const rowsAt = (frame: number, caller: Caller) =>
        tower.read(rows, async () => [windowAt(frame)], caller)
      return { hash, samples, frames, rowsAt }
    },
  }
}

/** A piece is computed when it is asked for, and not kept. */
function inPieces(source: Pick<Recordings, "cut">, tower: Tower): PieceListener {
  return {
    listen: async (bytes, field, caller) => {
      const hash = await hashOf(bytes)
      const { samples, pieces } = await source.cut(bytes, field, caller)
      const reading = pieces.map(({ rows, tile }) => ({
        rows,
        read: (caller: Caller) => tower.read(rows, async () => [tile()], caller),
      }))
      return { hash, samples, pieces: reading }
    },
  }
}

const hashOf = async (bytes: Uint8Array) =>
  hex(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>))

const hex = (bytes: ArrayBuffer) => Buffer.from(bytes).toString("hex")

const bytesOf = ({ tiles }: SeenImage) =>
  tiles.reduce((sum, { given }) => sum + given.byteLength, 0)

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
