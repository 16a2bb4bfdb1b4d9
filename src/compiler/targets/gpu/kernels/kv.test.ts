import { describe, expect, test } from "vitest"
import { BLOCK } from "../../../../runtime/program.ts"
import { kernel, u32, type Value } from "../ir/builder.ts"
import { Memory, runKernel } from "../ir/run.ts"
import {
  bytesPerBlock,
  keyChunkIndex,
  keyIndex,
  kvElements,
  kvLayout,
  kvReads,
  readChunk,
  readValue,
  scaleIndex,
  valueIndex,
} from "./kv.ts"

const shapes = [
  { layers: [0, 3], kvHeads: 3, headDim: { key: 6, value: 20 } },
  { layers: [0], kvHeads: 2, headDim: { key: 16, value: 16 } },
  { layers: [1, 2, 3], kvHeads: 1, headDim: { key: 40, value: 12 } },
]
const cases = (["f32", "f16", "bf16", "q8"] as const).flatMap((kv) =>
  shapes.map((shape) => ({ kv, shape, ...shape })),
)
const BLOCKS = 3

/** What stands for number `i` of a position: neighbours differ, and every type holds it exactly. */
const mark = (i: number, at: number) => ((i + 3 * at) % 251) - 125

describe.each(cases)("$kv, $kvHeads heads of $headDim.key and $headDim.value", ({ kv, shape }) => {
  const layout = kvLayout(kv, shape)
  const { kvHeads, keyWidth, valueWidth, chunk } = layout
  const { key, value } = shape.headDim

  /** Everything of every block, each a mark; a group for each block and position. */
  const store = kernel("store", 1, (k) => {
    const blocks = k.buffer("blocks", kvElements[kv], "write")
    const scales = kv === "q8" ? k.buffer("scales", "f32", "write") : undefined
    const [block, position] = [k.group(0), k.group(1)]
    const at = k.let(block.mul(BLOCK).add(position))
    for (let head = 0; head < kvHeads; head++) {
      const spot = { block, head, position }
      const put = (index: Value, i: number) => {
        const code = k.let(at.mul(3).add(i).rem(251).bits("i32").sub(125))
        if (kv === "q8") blocks.store(index, code)
        else blocks.store(index, kv === "bf16" ? code.float().bits("u32").shr(16) : code.float())
      }
      for (let i = 0; i < keyWidth; i++) put(keyIndex(layout, spot, i), head * 100 + i)
      for (let i = 0; i < valueWidth; i++) put(valueIndex(layout, spot, i), head * 100 + i + 50)
      scales?.store(scaleIndex(layout, "keys", spot), head + 0.5)
      scales?.store(scaleIndex(layout, "values", spot), head + 0.25)
    }
  })

  const memory = new Memory(BLOCKS * layout.blockBytes)
  const operands = kv === "q8" ? [memory, memory] : [memory]
  runKernel(store, operands, [BLOCKS, BLOCK, 1])

  test("fills its blocks, every byte once", () => {
    expect(memory.isWritten()).toBe(true)
    expect(layout.blockBytes % 16).toBe(0)
    expect(bytesPerBlock(kv, shape)).toBe(shape.layers.length * layout.blockBytes)
    const bytes = BLOCK * kvHeads * (keyWidth + valueWidth) * { f32: 4, f16: 2, bf16: 2, q8: 1 }[kv]
    expect(layout.blockBytes).toBe(bytes + (kv === "q8" ? BLOCK * kvHeads * 8 : 0))
  })

  test("is read as it was stored", () => {
    const width = kvHeads * (key + value)
    const read = kernel("read", 1, (k) => {
      const blocks = k.buffer("blocks", kvReads[kv].element, "read")
      const out = k.buffer("out", "f32", "write")
      const [block, position] = [k.group(0), k.group(1)]
      const from = k.let(block.mul(BLOCK).add(position).mul(width))
      for (let head = 0; head < kvHeads; head++) {
        const spot = { block, head, position }
        const keys = Array.from({ length: Math.ceil(key / chunk) }, (_, c) =>
          readChunk(
            layout,
            blocks,
            keyChunkIndex(layout, spot, c),
            Math.min(chunk, key - c * chunk),
          ),
        )
        const { holds } = kvReads[kv]
        const values = Array.from({ length: Math.ceil(value / holds) }, (_, unit) =>
          readValue(layout, blocks, spot, u32(unit)),
        )
        const all = [...keys.flat(), ...values.flat().slice(0, value)]
        for (const [i, number] of all.entries())
          out.store(from.add(head * (key + value) + i), number)
      }
    })
    const out = new Memory(4 * BLOCKS * BLOCK * width)
    runKernel(read, [memory, out], [BLOCKS, BLOCK, 1])
    const row = (at: number) =>
      Array.from({ length: kvHeads }, (_, head) => [
        ...Array.from({ length: key }, (_, i) => mark(head * 100 + i, at)),
        ...Array.from({ length: value }, (_, i) => mark(head * 100 + i + 50, at)),
      ]).flat()
    for (let at = 0; at < BLOCKS * BLOCK; at++)
      expect([...out.f32().subarray(at * width, (at + 1) * width)]).toEqual(row(at))
  })
})
