// Weights of a FastConformer that no folder stores as the graph reads them (parakeet-tower.ts): two convolutions as one, what of a query stands for
// distances, a norm that was trained over many recordings as a factor and a shift, orders of columns. A compiled folder has them as they are.

import { widen } from "../../runtime/dtype.ts"
import { convert } from "../weights/convert.ts"
import type { Weights } from "../weights/weights.ts"
import { constantTensor, floats } from "./conformer-weights.ts"
import { orderOfFrames, orderOfRows, type ParakeetConfig, turningOf } from "./parakeet-tower.ts"

const EPSILON = 1e-5 // of PyTorch's norms over a batch
const TAPS = 9
const SIDE = 3

type Read = (name: string, rows: number, columns?: number) => Promise<Float32Array>

interface Made {
  /** The stored tensors that it is made of, behind what stands before them. */
  from: readonly string[]
  make: (read: Read, config: ParakeetConfig) => Promise<ArrayLike<number>>
}

const depthwise = (number: number) => [3 * number - 4, 3 * number - 3] as const // the second is stored as 2 and 3, the third as 5 and 6

function convolution(number: number): Record<"weight" | "edge" | "bias", Made> {
  const [own, over] = depthwise(number).map((layer) => `layers.${layer}`)
  const weights = [`${own}.weight`, `${over}.weight`]
  return {
    weight: { from: weights, make: (read, config) => joined(read, config, weights, 0) },
    edge: { from: weights, make: (read, config) => joined(read, config, weights, 1) },
    bias: {
      from: [`${own}.bias`, `${over}.weight`, `${over}.bias`],
      make: async (read, { subsampled: count }) => {
        const [inner, matrix, outer] = await Promise.all([
          read(`${own}.bias`, count),
          read(`${over}.weight`, count, count),
          read(`${over}.bias`, count),
        ])
        return outer.map((bias, row) =>
          inner.reduce((sum, each, column) => sum + matrix[row * count + column]! * each, bias),
        )
      },
    },
  }
}

/** Of the part that comes first, by name. */
const subsampling: Readonly<Record<string, Made>> = {
  frames: { from: [], make: async (_, config) => orderOfFrames(config) },
  rows: { from: [], make: async (_, config) => orderOfRows(config) },
  conv1: {
    from: ["layers.0.weight", "layers.0.bias"],
    make: async (read, { subsampled }) => {
      const filters = await read("layers.0.weight", subsampled, TAPS)
      const bias = await read("layers.0.bias", subsampled)
      return [...bias].flatMap((each, row) => [
        ...filters.subarray(row * TAPS, (row + 1) * TAPS),
        each,
      ])
    },
  },
  ...Object.fromEntries(
    [2, 3].flatMap((number) => {
      const { weight, edge, bias } = convolution(number)
      const name = `conv${number}`
      return [
        [name, weight],
        [`${name}_edge`, edge],
        [`${name}_bias`, bias],
      ]
    }),
  ),
}

/** Of a layer. */
const layers: Readonly<Record<string, Made>> = {
  "self_attn.relative": {
    from: ["self_attn.relative_k_proj.weight"],
    make: async (read, config) =>
      relative(await read("self_attn.relative_k_proj.weight", config.width, config.width), config),
  },
  "conv.taps": {
    from: ["conv.depthwise_conv.weight", "conv.norm.weight", "conv.norm.running_var.weight"],
    make: async (read, { width, taps }) => {
      const filters = await read("conv.depthwise_conv.weight", width * taps)
      const factors = await factorsOf(read, width)
      return filters.map((tap, at) => tap * factors[Math.floor(at / taps)]!)
    },
  },
  "conv.shift": {
    from: [
      ...["weight", "bias", "running_mean.weight", "running_var.weight"].map(
        (part) => `conv.norm.${part}`,
      ),
    ],
    make: async (read, { width, biases }) => {
      const factors = await factorsOf(read, width)
      const mean = await read("conv.norm.running_mean.weight", width)
      const bias = await read("conv.norm.bias", width)
      const before = biases.convolution ? await read("conv.depthwise_conv.bias", width) : undefined
      return bias.map((each, at) => each + ((before?.[at] ?? 0) - mean[at]!) * factors[at]!)
    },
  },
}

export function withParakeetComputed(stored: Weights, config: ParakeetConfig): Weights {
  return {
    ...stored,
    tensor(name, rows, columns) {
      const [, constant] = /^model\.relative\.(\w+)\.weight$/.exec(name) ?? []
      if (constant) return constantTensor(constant, turningOf(config), columns)
      const [, before, part] =
        /^(model\.(?:subsampling|layers\.\d+)\.)(.+)\.weight$/.exec(name) ?? []
      const made = part && (before === "model.subsampling." ? subsampling : layers)[part]
      if (!made) return stored.tensor(name, rows, columns)
      const read: Read = async (own, rows, columns = 1) => {
        const tensor = stored.tensor(before + own, rows, columns)
        const { values } = convert(await tensor.read(0, rows), columns, tensor.codec, "f32")
        return widen(values, "f32")
      }
      return floats(async () => Float32Array.from(await made.make(read, config)), columns)
    },
  }
}

/** What a norm over a batch multiplies with. */
async function factorsOf(read: Read, width: number): Promise<Float32Array> {
  const variance = await read("conv.norm.running_var.weight", width)
  const weight = await read("conv.norm.weight", width)
  return weight.map((each, at) => each / Math.sqrt(variance[at]! + EPSILON))
}

/**
 * A convolution of each channel, over frames and bands, and then one over channels, as one: columns are bands, of each frames, of each channels.
 * @param first of the bands
 */
async function joined(
  read: Read,
  { subsampled: count }: ParakeetConfig,
  [own, over]: readonly string[],
  first: number,
): Promise<Float64Array> {
  const filters = await read(own!, count, TAPS) // [channels, frames x bands]
  const matrix = await read(over!, count, count)
  const columns = (SIDE - first) * SIDE * count
  return Float64Array.from({ length: count * columns }, (_, at) => {
    const [row, column] = [Math.floor(at / columns), at % columns]
    const channel = column % count
    const frame = Math.floor(column / count) % SIDE
    const band = first + Math.floor(column / (SIDE * count))
    return matrix[row * count + channel]! * filters[channel * TAPS + frame * SIDE + band]!
  })
}

/** Of each head: rows that stand for cosines of a distance, then those for its sines, of which a row's columns are stored by turns. */
function relative(matrix: Float32Array, { heads, headDim, width }: ParakeetConfig): Float32Array {
  const pairs = width / 2
  return Float32Array.from({ length: heads * width * headDim }, (_, at) => {
    const [head, row] = [Math.floor(at / (width * headDim)), Math.floor(at / headDim) % width]
    const stored = matrix.subarray((head * headDim + (at % headDim)) * width)
    return row < pairs ? stored[2 * row + 1]! : -stored[2 * (row - pairs)]!
  })
}
