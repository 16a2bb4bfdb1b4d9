import { expect, test } from "vitest"
import type { KvType, Manifest } from "../../../runtime/manifest.ts"
import { mostBlocks } from "./most-blocks.ts"

const GIB = 2 ** 30

/** Groups of so many layers, whose blocks take so many bytes each layer. */
function kvOf(dtype: KvType, ...groups: [layers: number, bytes: number][]): Manifest["kv"] {
  return {
    dtype,
    groups: groups.map(([layers, bytes]) => ({
      layers: Array.from({ length: layers }, (_, i) => i),
      kvHeads: 1,
      headDim: { key: 16, value: 16 },
      bytesPerBlock: layers * bytes,
    })),
  }
}

test("the largest layer of all programs that share blocks has to fit into one allocation", () => {
  const device = { name: "cuda", largestAllocation: 2 * GIB - 1 } as const
  const small = kvOf("f16", [30, 2 ** 14])
  expect(mostBlocks(device, [small]).value).toBe(2 ** 17 - 1)
  expect(mostBlocks(device, [kvOf("f16", [30, 2 ** 14], [2, 2 ** 15])]).value).toBe(2 ** 16 - 1)
  expect(mostBlocks(device, [small, kvOf("f32", [1, 2 ** 16])]).value).toBe(2 ** 15 - 1)
  expect(mostBlocks(device, [small]).why).toMatch(/allocation/)
})

// SPIR-V, OpAccessChain: "each index … is treated as signed". The languages of the others have pointers, to which a uint is added.
test.each([
  ["vulkan", 31],
  ["cuda", 32],
  ["rocm", 32],
  ["metal", 32],
  ["opencl", 32],
] as const)(
  "kernels of %s count a layer's numbers in %i bits, however large an allocation may be",
  (name, bits) => {
    for (const largestAllocation of [undefined, 64 * GIB])
      for (const [dtype, bytes] of [
        ["f32", 4],
        ["f16", 2],
        ["bf16", 2],
        ["q8", 1],
      ] as const) {
        const device = { name, ...(largestAllocation && { largestAllocation }) }
        const { value, why } = mostBlocks(device, [kvOf(dtype, [8, 2 ** 12])])
        expect(value).toBe((2 ** bits * bytes) / 2 ** 12)
        expect(why).toMatch(/kernels/)
      }
  },
)
