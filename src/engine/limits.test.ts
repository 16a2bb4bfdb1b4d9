import { expect, test } from "vitest"
import { chooseLimits, type Demand } from "./limits.ts"

const MIB = 2 ** 20

const demand = (changes: Partial<Demand> = {}): Demand => ({
  mode: "local",
  overrides: {},
  manifest: {
    shapes: {
      vocabulary: 1000,
      hidden: 64,
      layers: 2,
      heads: 4,
      kvHeads: 2,
      headDim: 16,
      intermediate: 128,
      context: 4096,
    },
    kv: { dtype: "f32", bytesPerBlock: MIB },
    sinks: 0,
  },
  available: 1000 * MIB,
  weightBytes: 100 * MIB,
  bufferBytes: (limits) => limits.tokens * 1024,
  ...changes,
})

const numbers = (changes?: Partial<Demand>) => {
  const { context, sequences, total, chunk } = chooseLimits(demand(changes))
  return [context.value, sequences.value, total.value, chunk.value]
}

test("local: 4 sequences; total and chunk are the context", () => {
  expect(numbers()).toEqual([4096, 4, 4096, 4096])
})

test("interactive: 1 sequence; total and chunk as in local", () => {
  expect(numbers({ mode: "interactive" })).toEqual([4096, 1, 4096, 4096])
})

test("a sliding window stands for the context in total and chunk, and has room to move", () => {
  const manifest = { ...demand().manifest, window: 1024 }
  expect(numbers({ manifest })).toEqual([4096, 4, 1024, 1024])
  const { program } = chooseLimits(demand({ manifest }))
  expect(program.blocks * 16).toBeGreaterThanOrEqual(1024 + program.tokens)
})

test("server: sequences of full length while memory lasts", () => {
  expect(numbers({ mode: "server", available: 100_000 * MIB })).toEqual([
    4096,
    128,
    128 * 4096,
    4096,
  ])
})

test("server: as much as memory allows, 15 % left free", () => {
  const limits = chooseLimits(demand({ mode: "server" }))
  const { weights, kv, buffers } = limits.memory
  expect(weights + kv + buffers).toBeLessThanOrEqual(850 * MIB)
  expect(weights + kv + buffers).toBeGreaterThan(848 * MIB)
  expect(limits.total.why).toBe("server: what memory allows")
})

test("every override wins over the mode, alone", () => {
  for (const mode of ["local", "interactive", "server"] as const) {
    const plain = numbers({ mode })
    expect(numbers({ mode, overrides: { max_num_sequence: 7 } })[1]).toBe(7)
    expect(numbers({ mode, overrides: { max_total_seq_length: 320 } })).toEqual([
      320,
      plain[1],
      320,
      plain[3],
    ])
    expect(numbers({ mode, overrides: { prefill_chunk_size: 64 } })).toEqual([
      ...plain.slice(0, 3),
      64,
    ])
  }
  expect(numbers({ overrides: { context_window_size: 512 } })).toEqual([512, 4, 512, 512])
})

test("a step is bounded whatever the chunk, and always has room for every sequence", () => {
  const tokens = (overrides: Demand["overrides"]) =>
    chooseLimits(demand({ overrides })).program.tokens
  expect(tokens({})).toBe(512)
  expect(tokens({ prefill_chunk_size: 100_000 })).toBe(512)
  expect(tokens({ prefill_chunk_size: 16 })).toBe(20)
  expect(tokens({ prefill_chunk_size: 16, max_num_sequence: 600 })).toBe(600)
})

test("too little memory for the context: what fits, and the table says so", () => {
  const limits = chooseLimits(demand({ available: 200 * MIB }))
  expect(limits.total.why).toBe("local: what memory allows")
  expect(limits.total.value).toBeLessThan(1600)
  expect(limits.context.value).toBe(limits.total.value)
})

test("what was asked for and does not fit is refused with the figures", () => {
  expect(() => chooseLimits(demand({ overrides: { max_total_seq_length: 16_000 } }))).toThrow(
    /needs 1101 MiB \(weights 100, KV blocks 1000, activations 1, buffers 0\); 1000 MiB are available/,
  )
  expect(() => chooseLimits(demand({ available: 50 * MIB }))).toThrow(/needs 10. MiB/)
})

test("a share of the memory holds in every mode", () => {
  for (const mode of ["local", "interactive", "server"] as const) {
    const { memory } = chooseLimits(demand({ mode, overrides: { gpu_memory_utilization: 0.3 } }))
    expect(memory.available).toBe(300 * MIB)
    expect(memory.weights + memory.kv + memory.activations + memory.buffers).toBeLessThanOrEqual(
      300 * MIB,
    )
  }
  const overrides = { gpu_memory_utilization: 0.5, max_total_seq_length: 8000 }
  expect(() => chooseLimits(demand({ overrides }))).toThrow(/500 MiB are available/)
})

test("a context beyond the model's is refused", () => {
  expect(() => chooseLimits(demand({ overrides: { context_window_size: 4097 } }))).toThrow(
    "--overrides context_window_size: the model was made for at most 4096 tokens",
  )
})
