// The kernels whose words runtime/gpu/vulkan-tile-probe.ts keeps: a product of two tiles of 16 by 32 and 32 by 16 bytes, each
// of its elements stored where it belongs.

import { type Elements, kernel, type Value } from "../../src/compiler/targets/gpu/ir/builder.ts"
import { type Kernel, MATRIX_THREADS, TILE } from "../../src/compiler/targets/gpu/ir/ir.ts"
import { printSpirv } from "../../src/compiler/targets/gpu/print/spirv.ts"
import { type TileShape, tileShapes } from "../../src/runtime/gpu/tile-shapes.ts"

const DEPTH = 32
const WORDS = DEPTH / 4

function probe(isBytes: boolean): Kernel {
  return kernel("tiles", MATRIX_THREADS, (k) => {
    const given = ["rows", "columns"].map((name) => k.buffer(name, "u32", "read"))
    const product = k.buffer("product", "i32", "write")
    const stride = isBytes ? WORDS + 4 : DEPTH + 8
    const sides = ["own rows", "own columns"].map((name) =>
      k.shared(name, isBytes ? "u32" : "f16", TILE * stride),
    )
    const numbers = k.shared("places", isBytes ? "u32" : "f32", TILE ** 2)
    k.each(TILE ** 2, (i) => numbers.store(i, isBytes ? i : i.float()))
    const put = (to: Elements, at: Value, word: Value) => {
      if (isBytes) to.store(at, word)
      else
        for (let i = 0; i < 4; i++)
          to.store(
            at.add(i),
            word
              .shl(24 - 8 * i)
              .bits("i32")
              .shr(24)
              .float(),
          )
    }
    k.each(TILE * WORDS, (i) => {
      const at = k.let(
        i
          .div(WORDS)
          .mul(stride)
          .add(i.rem(WORDS).mul(isBytes ? 1 : 4)),
      )
      for (const [side, from] of given.entries()) put(sides[side]!, at, from.load(i))
    })
    k.barrier()
    const places = k.tileElements(numbers)
    const [left, right] = sides.map((elements) => ({ elements, from: 0, stride }))
    const sums = k.tileDot(left!, right!, DEPTH)
    for (const [i, sum] of sums.entries())
      product.store(isBytes ? places[i]! : places[i]!.whole().bits("u32"), sum)
  })
}

const probes = { bytes: probe(true), halves: probe(false) }

export const tileProbe = (shape: TileShape): Kernel =>
  probes[shape.startsWith("bytes") ? "bytes" : "halves"]

/** Of all shapes, in order. */
export const probeModules = (): Uint8Array[] =>
  tileShapes.map((shape) => printSpirv(tileProbe(shape), [shape]))
