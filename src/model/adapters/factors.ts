// The two factors of what an adapter adds to a matrix, read in rows: as they are stored, turned around, or those of one expert out of the
// factors of all.

import { widen } from "../../runtime/dtype.ts"
import { floatBytes } from "../../runtime/format.ts"
import { floatTypes, type Part, readFloats } from "../packed/matrix.ts"

export interface Factor {
  /** The tensor that it lies in. */
  name: string
  height: number
  width: number
  read(first: number, count: number): Promise<Float32Array>
}

/** A matrix of the file; `turned`: its columns are the factor's rows. */
export function storedFactor(part: Part, turned: boolean): Factor {
  const { name, dtype, shape } = part
  const [height, width] = shape as [number, number]
  if (turned) {
    const read = async () => readFloats(part)
    return turnedFactor({ name, height, width, read })
  }
  const codec = floatTypes[dtype]!
  const bytes = width * floatBytes[codec]
  return {
    name,
    height,
    width,
    read: async (first, count) => widen(await part.read(first * bytes, count * bytes), codec),
  }
}

/** Read once, as a whole. */
export function turnedFactor(stored: Factor): Factor {
  const { name, height, width } = stored
  let whole: Promise<Float32Array> | undefined
  return {
    name,
    height: width,
    width: height,
    async read(first, count) {
      whole ??= stored.read(0, height).then((matrix) => turned(matrix, width))
      return (await whole).slice(first * height, (first + count) * height)
    },
  }
}

/** [height, width] → [width, height] */
export function turned(matrix: Float32Array, width: number): Float32Array {
  const height = matrix.length / width
  const values = new Float32Array(matrix.length)
  for (let row = 0; row < height; row++)
    for (let column = 0; column < width; column++)
      values[column * height + row] = matrix[row * width + column]!
  return values
}

/** Of a right factor of all experts, one behind the other, that of one. */
export function expertRows(all: Factor, experts: number, expert: number): Factor {
  const height = all.height / experts
  return { ...all, height, read: (first, count) => all.read(expert * height + first, count) }
}

/** Of a left factor, whose columns are all experts' first, then all experts' second ones, that of one. */
export function expertColumns(all: Factor, experts: number, expert: number): Factor {
  const width = all.width / experts
  const size = all.height * width
  return {
    ...all,
    width,
    async read(first, count) {
      if (!split.has(all)) split.set(all, splitColumns(all, experts))
      const its = (await split.get(all)!).subarray(expert * size, (expert + 1) * size)
      return its.slice(first * width, (first + count) * width)
    },
  }
}

/** Left factors by experts [experts, rows, rank], since every expert would read all of them. */
const split = new WeakMap<Factor, Promise<Float32Array>>()

async function splitColumns(left: Factor, experts: number): Promise<Float32Array> {
  const { height, width } = left
  const values = await left.read(0, height)
  const sorted = new Float32Array(values.length)
  const [rank, size] = [width / experts, (height * width) / experts]
  for (let row = 0; row < height; row++)
    for (let k = 0; k < rank; k++)
      for (let expert = 0; expert < experts; expert++)
        sorted[expert * size + row * rank + k] = values[row * width + k * experts + expert]!
  return sorted
}
