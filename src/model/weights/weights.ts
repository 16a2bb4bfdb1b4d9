// Weights as the rest of the house sees them, whatever files they lie in: tensors by their Hugging Face names, checked
// against the shape the architecture wants, read in windows of rows. No tensor is ever whole in memory unless it is small.

import { type CodecName, rowLayout } from "../../runtime/format.ts"
import type { Manifest, Parameter } from "../../runtime/manifest.ts"
import type { LoadableProgram } from "../../runtime/program.ts"
import { convert, type StoredRows } from "./convert.ts"

export interface Weights {
  /** What the files hold, for whoever lists them. */
  readonly entries: readonly Entry[]
  /**
   * A tensor by its Hugging Face name; vectors have one column.
   * @throws `model_broken` when it is missing, or has another shape or a type that cannot be read.
   */
  tensor(name: string, rows: number, columns: number): Tensor
  /** Of a matrix that is kept sorted (packed/orders.ts), which of its columns comes where; undefined: as they are. */
  columnOrder?(name: string, rows: number, columns: number): Int32Array | undefined
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
  /** Rows firstRow … firstRow + rows - 1. */
  read(firstRow: number, rows: number): Promise<StoredRows>
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
  const { columns, codec } = parameter
  const step = Math.max(1, Math.floor(WINDOW / (4 * columns)))
  let row = 0
  for (const source of parameter.sources) {
    const tensor = weights.tensor(source.tensor, source.rows, columns)
    for (let first = 0; first < source.rows; first += step) {
      const rows = Math.min(step, source.rows - first)
      const stored = await tensor.read(first, rows)
      yield { row, ...convert(stored, columns, tensor.codec, codec) }
      row += rows
    }
  }
}

/** Feeds every parameter of a manifest to a program. `progress` hears bytes as they are stored. */
export async function loadParameters(
  weights: Weights,
  { parameters }: Pick<Manifest, "parameters">,
  program: Pick<LoadableProgram, "load">,
  progress: (done: number, total: number) => void = () => {},
): Promise<void> {
  const total = parameters.reduce((sum, { rows, columns, codec }) => {
    const { bytes, scaleBytes } = rowLayout(codec, columns)
    return sum + rows * (bytes + scaleBytes)
  }, 0)
  let done = 0
  for (const [number, parameter] of parameters.entries()) {
    for await (const { row, rows, values, scales } of readParameter(weights, parameter)) {
      await program.load(number, row, rows, values, scales)
      done += values.length + (scales?.length ?? 0)
      progress(done, total)
    }
  }
}
