// Weights as the rest of the house sees them, whatever files they lie in: tensors by their Hugging Face names, checked
// against the shape the architecture wants, read in windows of rows. No tensor is ever whole in memory unless it is small.

import { DirectFiles } from "../../runtime/direct-files.ts"
import { type CodecName, rowLayout } from "../../runtime/format.ts"
import type { Manifest, Parameter } from "../../runtime/manifest.ts"
import type { LoadableProgram } from "../../runtime/program.ts"
import { convert, type StoredRows } from "./convert.ts"
import { Room } from "./room.ts"

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

/**
 * Feeds every parameter of a manifest to a program, in order: a window is read and the one before it converted while a third is
 * stored. `progress` hears bytes as the program is given them.
 */
export async function loadParameters(
  weights: Weights,
  { parameters }: Pick<Manifest, "parameters">,
  program: Pick<LoadableProgram, "load" | "weightWork">,
  progress: (done: number, total: number) => void = () => {},
): Promise<void> {
  const total = parameters.reduce((sum, { rows, columns, codec }) => {
    const { bytes, scaleBytes } = rowLayout(codec, columns)
    return sum + rows * (bytes + scaleBytes)
  }, 0)
  const feeds = feedsOf(weights, parameters)
  const { weightWork } = program
  const files = new DirectFiles()
  const newRoom = () => new Room({ weightWork, files })
  const rooms = [newRoom(), newRoom(), newRoom()] // of what is read, converted and stored
  const start = () => {
    const { value: feed } = feeds.next()
    const room = rooms.shift()!
    rooms.push(room)
    room.clear()
    return feed && { ...feed, stored: heard(feed.read(room)) }
  }
  let done = 0
  let loading = Promise.resolve()
  let next = start()
  try {
    while (next) {
      const { number, converted, stored } = next
      const window = await stored
      next = start()
      const { row, rows, values, scales } = converted(window)
      await loading
      loading = heard(program.load(number, row, rows, values, scales))
      done += values.length + (scales?.length ?? 0)
      progress(done, total)
    }
    await loading
  } finally {
    await Promise.allSettled([next?.stored, loading]) // nobody reads or stores when this is over
    await files.close()
  }
}

function* feedsOf(weights: Weights, parameters: readonly Parameter[]) {
  for (const [number, parameter] of parameters.entries())
    for (const window of windowsOf(weights, parameter)) yield { number, ...window }
}

/** Its failure is met when it is awaited, however much later that is. */
function heard<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}
