// Weights of a conformer that no folder stores as the graph reads them (conformer.ts): convolutions over bands as matrices, what of a query
// stands for distances, how columns of heads are put together, and what means of all rows so far are made with (cumulative.ts). A compiled folder has them as they are.

import { narrow, widen } from "../../runtime/dtype.ts"
import { type FloatType, floatBytes, isGroupCodec } from "../../runtime/format.ts"
import { convert } from "../weights/convert.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import { type ConformerConfig, convolutionOf, scalesOf, turningOf } from "./conformer.ts"
import { constantOfDistances, type Turning, turnedRows } from "./distances.ts"

export function withComputed(stored: Weights, config: ConformerConfig): Weights {
  return {
    ...stored,
    tensor(name, rows, columns) {
      const { kind, from, frame, layer } = computedFrom(name)
      if (kind === "spread") {
        const index = Number(layer) as 0 | 1
        return spread(stored, config, { index, frames: frame ? [Number(frame)] : ALL, from })
      }
      if (kind === "relative") return relativeKeys(stored, config, from)
      if (kind === "scales") return scales(stored, config, from)
      if (kind === "learned") return learned(stored, config)
      if (kind === "factor")
        return factor(stored, from, { channels: config.channels[Number(layer)]!, rows })
      if (kind === "same") return same(rows * columns, columns)
      if (kind === "stored") return stored.tensor(name, rows, columns)
      return constantTensor(from, turningOf(config), columns)
    },
    ...(stored.refuseOthers && {
      refuseOthers: (names) => stored.refuseOthers!(names.map((name) => computedFrom(name).from)),
    }),
  }
}

interface Computed {
  kind: "spread" | "relative" | "scales" | "constant" | "learned" | "factor" | "same" | "stored"
  /** The stored tensor that it is made of; of a constant, what it is called. */
  from: string
  /** Of a convolution. */
  layer?: string
  frame?: string
}

function computedFrom(name: string): Computed {
  const [, layer, frame] = /\.layer([01])\.spread([0-2]?)\.weight$/.exec(name) ?? []
  if (layer !== undefined)
    return { kind: "spread", from: name.replace(/spread\d?/, "conv"), layer, frame: frame! }
  if (/^model\.layers\.\d+\.self_attn\.relative\.weight$/.test(name))
    return { kind: "relative", from: name.replace("relative", "relative_k_proj") }
  if (name.endsWith(".self_attn.scales.weight"))
    return { kind: "scales", from: name.replace("scales", "per_dim_scale") }
  if (name === LEARNED) return { kind: "learned", from: name }
  const [, index, even] = /\.layer([01])\.(factor|means|everywhere)\.weight$/.exec(name) ?? []
  if (even === "factor")
    return { kind: "factor", from: name.replace("factor", "norm"), layer: index! }
  if (even !== undefined) return { kind: "same", from: even }
  const [, constant] = /^model\.relative\.(\w+)\.weight$/.exec(name) ?? []
  return constant === undefined
    ? { kind: "stored", from: name }
    : { kind: "constant", from: constant }
}

/** One that is the same in all layers. */
export function constantTensor(name: string, turning: Turning, columns: number): Tensor {
  const values = constantOfDistances(name, turning)
  if (!values) throw new Error(`internal: no weights of a conformer are called ${name}`)
  return floats(async () => values, columns)
}

/** One that is made whole, and is small. */
export function floats(make: () => Promise<Float32Array>, columns: number): Tensor {
  return {
    codec: "f32",
    async read(first, rows) {
      const values = (await make()).subarray(first * columns, (first + rows) * columns)
      return { rows, values: narrow(values, "f32") }
    },
  }
}

const TAPS = 3 // over frames, and over bands
const ALL = [0, 1, 2]

/**
 * Filters [channels, channels in, frames, bands] as a matrix: rows are bands of channels; columns are those frames of bands of channels. A
 * band sees the one at twice its place and those beside it, of which the first has one alone.
 */
function spread(
  stored: Weights,
  config: ConformerConfig,
  { index, frames, from }: { index: 0 | 1; frames: readonly number[]; from: string },
): Tensor {
  const { bandsIn, channelsIn, channels } = convolutionOf(config, index)
  const filter = channelsIn * TAPS * TAPS
  const filters = stored.tensor(from, channels, filter)
  const codec: FloatType = isGroupCodec(filters.codec) ? "f32" : (filters.codec as FloatType)
  const size = floatBytes[codec]
  return {
    codec,
    async read(first, rows) {
      const own = convert(await filters.read(0, channels), filter, filters.codec, codec).values
      const columns = frames.length * bandsIn * channelsIn
      const values = new Uint8Array(rows * columns * size)
      for (let row = 0; row < rows; row++) {
        const [band, channel] = [Math.floor((first + row) / channels), (first + row) % channels]
        for (const [at, frame] of frames.entries())
          for (let tap = 0; tap < TAPS; tap++) {
            const bandIn = 2 * band + tap - 1
            if (bandIn < 0 || bandIn >= bandsIn) continue
            for (let channelIn = 0; channelIn < channelsIn; channelIn++) {
              const element = channel * filter + (channelIn * TAPS + frame) * TAPS + tap
              const to = row * columns + (at * bandsIn + bandIn) * channelsIn + channelIn
              values.set(own.subarray(element * size, (element + 1) * size), to * size)
            }
          }
      }
      return { rows, values }
    },
  }
}

/** Of a query's columns: each head has the same. */
const scales = (stored: Weights, { heads, headDim }: ConformerConfig, from: string): Tensor =>
  repeated(stored, from, { of: headDim, length: heads * headDim })

/** Of channels, the same for each band. */
const factor = (
  stored: Weights,
  from: string,
  { channels, rows }: Record<"channels" | "rows", number>,
): Tensor => repeated(stored, from, { of: channels, length: rows })

function repeated(
  stored: Weights,
  from: string,
  { of, length }: Record<"of" | "length", number>,
): Tensor {
  const vector = stored.tensor(from, of, 1)
  return floats(async () => {
    const { values } = convert(await vector.read(0, of), 1, vector.codec, "f32")
    const own = widen(values, "f32")
    return Float32Array.from({ length }, (_, column) => own[column % of]!)
  }, 1)
}

/** What makes a mean of a row; or of vectors zeros, the place of a row's first column. */
function same(length: number, columns: number): Tensor {
  const value = columns === 1 ? 0 : 1 / columns
  return floats(async () => new Float32Array(length).fill(value), columns)
}

const LEARNED = "learned.weight"

/** None, what fills up, and what ends. */
function learned(stored: Weights, { width, cumulative }: ConformerConfig): Tensor {
  const { of, filling, ending } = cumulative!.learned
  const table = stored.tensor(LEARNED, of, width)
  return floats(async () => {
    const rows = new Float32Array(3 * width)
    for (const [at, row] of [filling, ending].entries()) {
      const { values } = convert(await table.read(row, 1), width, table.codec, "f32")
      rows.set(widen(values, "f32"), (at + 1) * width)
    }
    return rows
  }, width)
}

/** What of a head's query stands for distances. */
function relativeKeys(stored: Weights, config: ConformerConfig, from: string): Tensor {
  const { heads, headDim, width, window } = config
  const { pairs } = turningOf(config)
  const matrix = stored.tensor(from, width, width)
  return floats(async () => {
    const all = convert(await matrix.read(0, width), width, matrix.codec, "f32")
    const rows = distanceRows(widen(all.values, "f32"), width, window) // [window, width]
    const { key: scale } = scalesOf(config)
    const keys = new Float32Array(heads * 2 * pairs * headDim)
    for (let head = 0; head < heads; head++) {
      const own = Array.from({ length: window }, (_, distance) => {
        const from = distance * width + head * headDim
        return [distance, rows.subarray(from, from + headDim).map((r) => r / scale)] as const
      })
      keys.set(turnedRows(own, pairs), head * 2 * pairs * headDim)
    }
    return keys
  }, headDim)
}

/** Sines, then cosines, of a distance in steps of as many lengths as there are pairs of columns; and what the matrix makes of them. */
function distanceRows(matrix: Float32Array, width: number, window: number): Float64Array {
  const half = width / 2
  const step = Math.log(10_000) / Math.max(half - 1, 1)
  const rows = new Float64Array(window * width)
  for (let distance = 0; distance < window; distance++) {
    const wave = Float64Array.from({ length: width }, (_, column) => {
      const angle = distance * Math.exp(-step * (column % half))
      return column < half ? Math.sin(angle) : Math.cos(angle)
    })
    for (let row = 0; row < width; row++) {
      let sum = 0
      for (let column = 0; column < width; column++)
        sum += matrix[row * width + column]! * wave[column]!
      rows[distance * width + row] = sum
    }
  }
  return rows
}
