// Weights of Granite Speech's tower that no folder stores as the graph reads them (granite-tower.ts): what of a query stands for distances,
// how columns of heads are put together, and a norm that was trained over many recordings as a factor and a shift. A compiled folder has
// them as they are.

import { widen } from "../../runtime/dtype.ts"
import { convert } from "../weights/convert.ts"
import type { Weights } from "../weights/weights.ts"
import { constantTensor, floats } from "./conformer-weights.ts"
import { turnedRows } from "./distances.ts"
import { askingColumns, type GraniteConfig, turningOf } from "./granite-tower.ts"

const EPSILON = 1e-5 // of PyTorch's norms over a batch

export function withGraniteComputed(stored: Weights, config: GraniteConfig): Weights {
  const { channels, headDim, reach } = config
  const read = async (name: string, rows: number, columns: number) => {
    const tensor = stored.tensor(name, rows, columns)
    const { values } = convert(await tensor.read(0, rows), columns, tensor.codec, "f32")
    return widen(values, "f32")
  }
  return {
    ...stored,
    tensor(name, rows, columns) {
      const [, constant] = /^model\.relative\.(\w+)\.weight$/.exec(name) ?? []
      if (constant) return constantTensor(constant, turningOf(config), columns)
      const [, order] = /^model\.asked\.(\w+)\.weight$/.exec(name) ?? []
      if (order) return floats(async () => orderOf(order, config), columns)
      const from = storedOf(name, config)
      if (name.endsWith(".attn.relative.weight"))
        return floats(async () => {
          const table = await read(from[0]!, 2 * reach + 1, headDim)
          return relative(table, config)
        }, columns)
      if (from.length === 1) return stored.tensor(from[0]!, rows, columns)
      return floats(async () => {
        const [weight, variance, mean, bias] = await Promise.all(
          from.map((each) => read(each, channels, 1)),
        )
        const scale = weight!.map((each, at) => each / Math.sqrt(variance![at]! + EPSILON))
        return mean ? bias!.map((each, at) => each - mean[at]! * scale[at]!) : scale
      }, columns)
    },
    ...(stored.refuseOthers && {
      refuseOthers: (names) =>
        stored.refuseOthers!(
          names
            .filter((name) => !/^model\.(?:relative|asked)\./.test(name))
            .flatMap((name) => storedOf(name, config)),
        ),
    }),
  }
}

/** The stored tensors that it is made of. */
function storedOf(name: string, { folded }: GraniteConfig): readonly string[] {
  if (name.endsWith(".attn.relative.weight"))
    return [name.replace("relative.weight", "rel_pos_emb.weight")]
  const [, before, which] = /^(.*\.conv\.)(scale|shift)\.weight$/.exec(name) ?? []
  if (!which) return [name]
  const norm = (part: string) => `${before}batch_norm.${part}`
  if (folded) return [norm(which === "scale" ? "weight" : "bias")]
  const scale = [norm("weight"), norm("running_var.weight")]
  return which === "scale" ? scale : [...scale, norm("running_mean.weight"), norm("bias")]
}

/** Of a head, which all have the same: of rows of a block, keys as far ahead as they lie back. */
function relative(table: Float32Array, config: GraniteConfig): Float32Array {
  const { block, reach, headDim } = config
  const rows = Array.from({ length: 2 * block - 1 }, (_, at) => {
    const distance = at - (block - 1)
    const from = (distance + reach) * headDim
    return [distance, table.subarray(from, from + headDim)] as const
  })
  return Float32Array.from(turnedRows(rows, turningOf(config).pairs))
}

/**
 * Columns of heads among those of all of them and four that tell spans apart, the last of which is of rows that ask nothing; behind these is
 * one of zeros.
 */
function orderOf(name: string, config: GraniteConfig): Float32Array {
  const { heads } = config.projector
  const { own, wide } = askingColumns(config)
  if (name === "apart")
    return Float32Array.from(
      { length: heads * own },
      (_, at) => Math.floor(at / own) * wide + (at % own),
    )
  const marks = { among: 4, open: 3, values: 0 }[name]
  if (marks === undefined) throw new Error(`internal: no columns are in the order ${name}`)
  const zero = heads * own + 4
  return Float32Array.from({ length: heads * wide }, (_, place) => {
    const [head, at] = [Math.floor(place / wide), place % wide]
    if (at < own) return head * own + at
    return at - own < marks ? heads * own + at - own : zero
  })
}
