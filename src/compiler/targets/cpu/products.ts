// Products as a generic library has them: one for each way in which codecs differ inside a tile. Shapes, strides, how sums
// end and which code means zero are told when the product is run.

import {
  type CodecName,
  floatBytes,
  groupCodecNames,
  isIntegerCodec,
} from "../../../runtime/format.ts"
import { codecFields } from "./kinds.ts"
import { defines, initialiser, longInitialiser, type StructFields } from "./literals.ts"

interface GenericProduct {
  name: string
  codec: CodecName
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
    codec,
    weights: weightsText(codec),
    isRounded: isIntegerCodec(codec),
  }))
  .filter(({ weights }, i, all) => all.findIndex((other) => other.weights === weights) === i)

/** Which of them multiplies with weights in this codec. */
export function productNumber(codec: CodecName): number {
  const weights = weightsText(codec)
  return products.findIndex((product) => product.weights === weights)
}

export const genericProducts = products.map(({ name, codec, weights, isRounded }) => ({
  name,
  unit: productUnit(codec, {
    quantized: isRounded ? 1 : 0,
    far: "loop->far",
    in_stride: "loop->in_stride",
    weights,
  }),
}))

/** A function that is compiled in a file of its own. */
export interface Unit {
  /** What its headers are told before: see PRODUCT_CODES of panels.h. */
  known?: StructFields
  /** Lines, with NAME for its name. */
  body: readonly string[]
}

/** The text of its file. */
export function unitText({ known = {}, body }: Unit, name: string): string {
  const lines = [...defines(known), '#include "driver_types.h"', "", ...body, ""]
  return lines.join("\n").replaceAll("NAME", name)
}

/** A struct product_kind. */
interface ProductKind extends StructFields {
  quantized: number
  far: number | "loop->far"
  in_stride: number | string
  weights: string
}

/** Products of weights in a codec. Where sums go and how they end is told when the function is run. */
export function productUnit(codec: CodecName, kind: ProductKind): Unit {
  const { codes, block } = { codes: 0, block: 0, ...codecFields(codec) }
  return {
    known: {
      PRODUCT_CODES: codes,
      PRODUCT_IN_BLOCKS: block ? 1 : 0,
      PRODUCT_QUANTIZED: kind.quantized,
      PRODUCT_FAR: kind.far === "loop->far" ? undefined : kind.far,
    },
    body: [
      "void NAME(void *context, int64_t index, int32_t thread) {",
      "  const struct product_loop *loop = context;",
      `  const struct product_kind kind = ${longInitialiser(kind, "  ")};`,
      "  product_item(loop, kind, index);",
      "}",
    ],
  }
}
