// Products as a generic library has them: one for each way in which codecs differ inside a tile. Shapes, strides, how sums
// end and which code means zero are told when the product is run.

import {
  type CodecName,
  floatBytes,
  groupCodecNames,
  isIntegerCodec,
} from "../../../runtime/format.ts"
import { codecFields } from "./kinds.ts"
import { initialiser, longInitialiser, type StructFields } from "./literals.ts"

interface GenericProduct {
  name: string
  /** In C, with no name in front. */
  weights: string
  isRounded: boolean
}

export const codecNames = [...(Object.keys(floatBytes) as CodecName[]), ...groupCodecNames]

const weightsText = (codec: CodecName) =>
  initialiser({ columns: "loop->columns", ...codecFields(codec), zero: "loop->zero" })

const products: readonly GenericProduct[] = codecNames
  .map((codec) => ({
    name: `product_${codec}`,
    weights: weightsText(codec),
    isRounded: isIntegerCodec(codec),
  }))
  .filter(({ weights }, i, all) => all.findIndex((other) => other.weights === weights) === i)

/** Which of them multiplies with weights in this codec. */
export function productNumber(codec: CodecName): number {
  const weights = weightsText(codec)
  return products.findIndex((product) => product.weights === weights)
}

export const genericProducts = products.map(({ name, weights, isRounded }) => ({
  name,
  body: productBody({
    quantized: isRounded ? 1 : 0,
    far: "loop->far",
    in_stride: "loop->in_stride",
    weights,
  }),
}))

/** Lines of a function of products, with NAME for its name. Where sums go and how they end is told when it is run. */
export function productBody(kind: StructFields): string[] {
  return [
    "void NAME(void *context, int64_t index, int32_t thread) {",
    "  const struct product_loop *loop = context;",
    `  const struct product_kind kind = ${longInitialiser(kind, "  ")};`,
    "  product_item(loop, kind, index);",
    "}",
  ]
}
