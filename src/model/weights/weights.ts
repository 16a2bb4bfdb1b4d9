// Weights as the rest of the house sees them, whatever files they lie in: tensors by their Hugging Face names, checked
// against the shape the architecture wants, read in windows of rows. No tensor is ever whole in memory unless it is small.

import { DirectFiles } from "../../runtime/direct-files.ts"
import { type CodecName, rowLayout } from "../../runtime/format.ts"
import type { Manifest, Parameter } from "../../runtime/manifest.ts"
import type { LoadableProgram } from "../../runtime/program.ts"
import { convert, type StoredRows } from "./convert.ts"
import { Room } from "./room.ts"
import type { WeightsHash } from "./weights-hash.ts"

export interface Weights {
  /** What the files hold, for whoever lists them. */
  readonly entries: readonly Entry[]
  /**
   * A tensor by its Hugging Face name; vectors have one column.
   * @throws `model_broken` when it is missing, or has another shape or a type that cannot be read.
   */
  tensor(name: string, rows: number, columns: number): Tensor
  /** Whether the files hold a tensor of that name, packed or not. Absent: what the configuration says of it is true. */
  holds?(name: string): boolean
  /** Of a matrix that is kept sorted (packed/orders.ts), which of its columns comes where; undefined: as they are. */
  columnOrder?(name: string, rows: number, columns: number): Int32Array | undefined
  /**
   * Of a matrix of codes that adapters change, the rank of what they add; it is read as it is stored from now on, and the factors
   * are tensors beside it (adapters/low-rank.ts). Undefined: nothing is added, or not beside it.
   */
  takeApart?(name: string, rows: number, columns: number): number | undefined
  /**
   * Refuses tensors besides those named, which another mathematics would read. Absent: files may hold more than is read.
   * @throws `model_broken`
   */
  refuseOthers?(names: readonly string[]): void
  /**
   * Compares the files with the checksums that came with them, if any did: reads them once from end to end.
   * @throws `model_broken`
   */
  verify(signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface Entry {
  name: string // as in the file
  file: string
  dtype: string
  shape: readonly number[]
}

export interface Tensor {
  codec: CodecName
  /** Rows firstRow … firstRow + rows - 1. @param room that they may be put in; absent: memory of their own */
  read(firstRow: number, rows: number, room?: Room): Promise<StoredRows>
}

/** Some rows of a parameter, in its own codec. */
export interface ParameterWindow extends StoredRows {
  row: number
}

/** Rows of a small tensor, or of a few of a large one's, as numbers. @param from the first of those that are read */
export async function readFloats(
  weights: Weights,
  name: string,
  rows: number,
  columns: number,
  { from = 0, count = rows }: { from?: number; count?: number } = {},
): Promise<Float32Array> {
  const tensor = weights.tensor(name, rows, columns)
  const { values } = convert(await tensor.read(from, count), columns, tensor.codec, "f32")
  return new Float32Array(values.buffer, values.byteOffset, count * columns)
}

const WINDOW = 8 << 20 // bytes of float32: large enough for disks, small beside everything else

/** A parameter's rows from first to last, its sources joined, converted to the codec it is wanted in. */
export async function* readParameter(
  weights: Weights,
  parameter: Parameter,
): AsyncGenerator<ParameterWindow> {
  for (const { read, converted } of windowsOf(weights, parameter)) yield converted(await read())
}

/** Some rows of a parameter that have not been read. */
interface Unread {
  read: (room?: Room) => Promise<StoredRows>
  converted: (stored: StoredRows) => ParameterWindow
}

function* windowsOf(weights: Weights, parameter: Parameter): Generator<Unread> {
  const { columns, codec } = parameter
  const step = Math.max(1, Math.floor(WINDOW / (4 * columns)))
  let done = 0
  for (const source of parameter.sources) {
    const tensor = weights.tensor(source.tensor, source.rows, columns)
    for (let first = 0; first < source.rows; first += step) {
      const row = done
      const rows = Math.min(step, source.rows - first)
      yield {
        read: (room) => tensor.read(first, rows, room),
        converted: (stored) => ({ row, ...convert(stored, columns, tensor.codec, codec) }),
      }
      done += rows
    }
  }
}

/** Windows that are read at once: a disk is asked for the next ones while blocks of these come apart. */
const READ_AT_ONCE = 2

/** Those, and what is stored, waits to be stored, and is summed. */
const ROOMS = READ_AT_ONCE + 3

interface Feeding {
  /** Hears bytes as the program is given them. */
  progress?: (done: number, total: number) => void
  /** Sums what the program is given. */
  hash?: WeightsHash
}

interface Place {
  room: Room
  /** Resolves when nobody uses what it holds any more. */
  free: Promise<unknown>
}

interface Reading extends Omit<Feed, "read"> {
  place: Place
  stored: Promise<StoredRows>
}

/** Feeds every parameter of a manifest to a program, in order: windows are read, one is converted, one stored and one summed at once. */
export async function loadParameters(
  weights: Weights,
  { parameters }: Pick<Manifest, "parameters">,
  program: Pick<LoadableProgram, "load" | "weightWork">,
  { progress, hash }: Feeding = {},
): Promise<void> {
  const total = bytesOf(parameters)
  const feeds = feedsOf(weights, parameters)
  const { weightWork } = program
  const files = new DirectFiles()
  const newPlace = (): Place => ({ room: new Room({ weightWork, files }), free: Promise.resolve() })
  const places = Array.from({ length: ROOMS }, newPlace)
  const readings: Reading[] = []
  const start = () => {
    const { value: feed } = feeds.next()
    if (!feed) return
    const { read, ...what } = feed
    const place = places.shift()!
    places.push(place)
    const stored = place.free.then(() => {
      place.room.clear()
      return read(place.room)
    })
    readings.push({ ...what, place, stored: heard(stored) })
  }
  let done = 0
  let loaded: Promise<unknown> = Promise.resolve()
  try {
    for (let i = 0; i < READ_AT_ONCE; i++) start()
    for (let next = readings.shift(); next; next = readings.shift()) {
      const { number, converted, place, stored } = next
      const { row, rows, values, scales } = converted(await stored)
      start()
      loaded = heard(loaded.then(() => program.load(number, row, rows, values, scales)))
      place.free = heard(allDone([loaded, hash?.update(values), scales && hash?.update(scales)]))
      done += values.length + (scales?.length ?? 0)
      progress?.(done, total)
    }
    await allDone(places.map(({ free }) => free))
  } finally {
    // Nobody reads, stores or sums when this is over.
    await Promise.allSettled([
      ...readings.map(({ stored }) => stored),
      ...places.map(({ free }) => free),
    ])
    await files.close()
  }
}

/** As a program is fed them. */
export function bytesOf(parameters: readonly Parameter[]): number {
  return parameters.reduce((sum, { rows, columns, codec }) => {
    const { bytes, scaleBytes } = rowLayout(codec, columns)
    return sum + rows * (bytes + scaleBytes)
  }, 0)
}

interface Feed extends Unread {
  number: number // of its parameter
}

function* feedsOf(weights: Weights, parameters: readonly Parameter[]): Generator<Feed, undefined> {
  for (const [number, parameter] of parameters.entries())
    for (const window of windowsOf(weights, parameter)) yield { number, ...window }
}

/** Its failure is met when it is awaited, however much later that is. */
function heard<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

/** All of them, also where one fails. @throws what the first that failed did */
export async function allDone(all: readonly unknown[]): Promise<void> {
  for (const outcome of await Promise.allSettled(all))
    if (outcome.status === "rejected") throw outcome.reason
}
