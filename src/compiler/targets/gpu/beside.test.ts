import { describe, expect, test } from "vitest"
import { beside } from "./beside.ts"
import { kernel, u32, type Value } from "./ir/builder.ts"
import { checkKernel } from "./ir/check.ts"
import type { Statement } from "./ir/ir.ts"
import { Memory, runKernel } from "./ir/run.ts"
import type { Binding, Launch } from "./launch.ts"

const THREADS = 8
const ROWS = 3

const buffer = (id: number): Binding => ({ kind: "buffer", buffer: id, from: 0 })

/** Each group turns its columns of a row around, times a word, and adds its number along the third axis where it is not 0. */
function turning(scale: number, to: number, { width = 2, depth = 1 } = {}): Launch {
  const made = kernel(`turned_${to}`, THREADS, (k) => {
    const rows = k.buffer("count", "u32", "read").load(0)
    const input = k.buffer("input", "f32", "read")
    const output = k.buffer("output", "f32", "write")
    const by = k.word("scale", "f32")
    const stride = k.word("stride")
    const turned = k.shared("turned", "f32", THREADS + to) // of other sizes
    const column = (lane: Value) => k.group(0).mul(THREADS).add(lane)
    const isRow = k.let(k.group(1).lt(rows))
    k.if(isRow, () => {
      const value = input.load(k.group(1).mul(stride).add(column(k.lane)))
      turned.store(u32(THREADS - 1).sub(k.lane), value.mul(by))
    })
    k.barrier()
    const at = k.group(2).mul(ROWS).add(k.group(1)).mul(stride).add(column(k.lane))
    k.if(isRow, () => output.store(at, turned.load(k.lane).add(k.group(2).float())))
  })
  const word = new Uint32Array(Float32Array.of(scale).buffer)[0]!
  const stride = width * THREADS
  return {
    kernel: made,
    operands: [
      { kind: "step", region: { name: "count", of: "tokens" } },
      buffer(0),
      buffer(to),
      word,
      stride,
    ],
    groups: [width, { rows: "tokens", per: 1 }, depth],
  }
}

/** What lies in some buffers when launches have run. */
function run(launches: readonly Launch[]): number[][] {
  const input = Memory.of(Float32Array.from({ length: ROWS * 4 * THREADS }, (_, i) => i - 7))
  const outputs = [1, 2].map(() => new Memory(4 * 2 * ROWS * 4 * THREADS))
  for (const { kernel, operands, groups } of launches) {
    checkKernel(kernel)
    const given = operands.map((binding) => {
      if (typeof binding === "number") return binding
      if (binding.kind === "step") return Memory.of(Uint32Array.of(ROWS))
      if (binding.kind !== "buffer") throw new Error(binding.kind)
      return binding.buffer === 0 ? input : outputs[binding.buffer - 1]!
    })
    const [width, , depth] = groups as [number, unknown, number]
    runKernel(kernel, given, [width, ROWS + 1, depth], { order: "shuffled" })
  }
  return outputs.map((memory) => [...memory.f32()])
}

describe("two launches as one", () => {
  test.each([
    [turning(2, 1), turning(0.5, 2)],
    [turning(2, 1, { depth: 2 }), turning(0.5, 2, { width: 4 })],
    [turning(2, 1, { width: 3 }), turning(0.5, 2, { width: 1, depth: 2 })],
  ])("compute what they compute one after the other: %#", (a, b) => {
    const one = beside(a, b)!
    expect(run([one])).toEqual(run([a, b]))
    // The count and the input are named once, words not at all.
    expect(one.operands).toHaveLength(4)
    expect(one.kernel.shared).toHaveLength(1)
    expect(one.kernel.operands.every(({ kind }) => kind === "buffer")).toBe(true)
  })

  test("a barrier less is a race in either", () => {
    const { kernel: made, ...launch } = beside(turning(2, 1), turning(0.5, 2))!
    const without = (part: number): Statement[] =>
      made.body.map((statement, i) =>
        i === part && statement.kind === "for"
          ? { ...statement, body: statement.body.filter(({ kind }) => kind !== "barrier") }
          : statement,
      )
    for (const part of [0, 1])
      expect(() => run([{ ...launch, kernel: { ...made, body: without(part) } }])).toThrow("a race")
  })

  test("of the same two are one kernel, whatever buffers they have", () => {
    const [a, b] = [turning(2, 1), turning(0.5, 2)]
    const others = { ...b, operands: b.operands.with(1, buffer(7)) }
    expect(beside(a, b)!.kernel).toBe(beside(a, b)!.kernel)
    expect(beside(a, others)!.kernel).not.toBe(beside(a, b)!.kernel) // another operand
  })

  test("are not, where they have too many operands, other threads or other rows", () => {
    const many = kernel("many", THREADS, (k) => {
      for (let i = 0; i < 14; i++) k.buffer(`b${i}`, "f32", "write")
    })
    const full: Launch = {
      kernel: many,
      operands: Array.from({ length: 14 }, (_, i) => buffer(i)),
      groups: [1, { rows: "tokens", per: 1 }, 1],
    }
    const own = turning(2, 1)
    expect(beside(own, full)).toBeUndefined()
    const wide: Launch = { ...own, kernel: { ...own.kernel, threads: 2 * THREADS } }
    expect(beside(own, wide)).toBeUndefined()
    expect(beside(own, { ...own, groups: [2, { rows: "wanted", per: 1 }, 1] })).toBeUndefined()
  })
})
