import { describe, expect, test } from "vitest"
import { Memory, runKernel } from "../ir/run.ts"
import { type Copy, copiesOf } from "./copy.ts"
import { bytesPerBlock } from "./kv.ts"

const group = { layers: [0, 1, 4], kvHeads: 3, headDim: { key: 20, value: 6 } }

describe.each(["f32", "f16", "bf16", "q8"] as const)("blocks of %s", (kv) => {
  const BLOCKS = 7
  const bytes = bytesPerBlock(kv, group) / 3
  const copies = copiesOf({ kv, groups: [group, group] }, 1)

  test("are copied whole, in each layer, and others are left alone", () => {
    const from = [6, 0, 6]
    const to = [1, 5, 3]
    const pairs = Memory.of(Uint32Array.from(from.flatMap((block, i) => [block, to[i]!])))
    expect(copies.map(({ operands }) => operands[1].place)).toEqual(
      [0, 1, 2].map((layer) => ({ group: 1, layer })),
    )
    const before = Uint8Array.from({ length: BLOCKS * bytes }, (_, i) => (i * 7919) >> 5)
    const after = before.slice()
    for (const [i, block] of from.entries())
      after.copyWithin(to[i]! * bytes, block * bytes, (block + 1) * bytes)
    for (const { kernel, operands, groups } of copies) {
      const memory = Memory.of(before)
      const of = (operand: Copy["operands"][number]) =>
        typeof operand === "number" ? operand : "given" in operand ? pairs : memory
      runKernel(kernel, operands.map(of), [from.length, groups[1], 1], { order: "shuffled" })
      expect(Buffer.compare(memory.u8(), after)).toBe(0)
    }
  })
})
