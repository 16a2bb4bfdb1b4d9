import { expect, test } from "vitest"
import { uniform } from "../../test/random.ts"
import { type KvGroup, reachOf } from "../runtime/manifest.ts"
import { BLOCK } from "../runtime/program.ts"
import { chooseLimits, type Demand, type EngineLimits, trailBlocks } from "./limits.ts"

const MIB = 2 ** 20

const group = (bytesPerBlock: number, window?: number): KvGroup => ({
  layers: [0],
  kvHeads: 2,
  headDim: { key: 16, value: 16 },
  ...(window ? { window } : {}),
  bytesPerBlock,
})

const demand = (changes: Partial<Demand> = {}): Demand => ({
  mode: "local",
  overrides: {},
  traits: {
    stepTokens: 512,
    sequences: 128,
    drafts: 64,
  },
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
    sinks: 0,
    kv: { dtype: "f32", groups: [group(MIB)] },
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

test("a step has room for the largest image, and for words, where a prompt that has one is not cut", () => {
  const tokens = (changes: Partial<Demand>) => chooseLimits(demand(changes)).program.tokens
  expect(tokens({})).toBe(512)
  expect(tokens({ uncut: 1024 })).toBe(1536)
  expect(tokens({ uncut: 1024, overrides: { prefill_chunk_size: 1100 } })).toBe(1104)
})

test("states: three for each sequence and some for prefixes; where they do not fit, fewer sequences run", () => {
  const state: KvGroup = { ...group(10 * MIB), layers: [1, 2], kvHeads: 0, state: 10 }
  const manifest = {
    ...demand().manifest,
    kv: { dtype: "f32", groups: [group(MIB), state] },
  } as const
  const { program, memory, sequences } = chooseLimits(demand({ manifest }))
  expect([program.blocks, sequences.value]).toEqual([[256, 4 * 3 + 8], 4])
  expect(memory.groups).toEqual([
    { layers: 1, window: undefined, bytes: 256 * MIB },
    { layers: 2, window: undefined, isState: true, bytes: 200 * MIB },
  ])
  const server = chooseLimits(demand({ manifest, mode: "server" }))
  const { value } = server.sequences
  expect(value).toBeLessThan(128)
  expect(server.program.blocks[1]).toBe(value * 3 + Math.max(value, 8))
  expect(server.memory.kv + server.memory.weights).toBeLessThan(850 * MIB)
})

test("states and what convolutions look back: a sequence takes as much however long it is", () => {
  const state: KvGroup = { ...group(10 * MIB), kvHeads: 0, state: 10 }
  const kv = { dtype: "f32", groups: [group(2 * MIB, 4), state] } as const
  const manifest = { ...demand().manifest, kv }
  expect(numbers({ manifest })).toEqual([4096, 4, 4096, 4096])
  // Of each of 4 sequences a block of the window, 3 at its ends, 4 for others to come; 32 for a step's 512 tokens.
  expect(chooseLimits(demand({ manifest })).program).toMatchObject({
    blocks: [4 * (1 + 3 + 4) + 32, 4 * 3 + 8],
    tokens: 512,
  })
  const server = { manifest, mode: "server", available: 100_000 * MIB } as const
  expect(numbers(server)).toEqual([4096, 128, 128 * 4096, 4096])
  const limits = chooseLimits(demand(server))
  expect(trailBlocks(manifest, limits) * BLOCK).toBe(128 * 4096)
  // Memory that has no room for that: shorter steps, then fewer sequences.
  const few = chooseLimits(demand({ ...server, available: 1000 * MIB }))
  expect(few.sequences).toMatchObject({ of: 128, why: "what memory allows" })
  expect(few.memory.kv + few.memory.weights).toBeLessThan(850 * MIB)
  expect(() => chooseLimits(demand({ manifest, available: 160 * MIB }))).toThrow("needs at least")
  const mostBlocks = { value: 50, why: "what it can address" }
  const addressed = chooseLimits(demand({ manifest, traits: { ...demand().traits, mostBlocks } }))
  expect(addressed.program.blocks[0]).toBe(4 * (1 + 3 + 4) + 16)
  const overrides = { max_total_seq_length: 1000 }
  const short = chooseLimits(demand({ manifest, overrides }))
  expect(short.context).toMatchObject({ value: 1000, bound: "max_total_seq_length" })
  expect(trailBlocks(manifest, short)).toBe(63)
  // So long that less is remembered than all could hold: of one sequence all.
  for (const context of [2 ** 16, 2 ** 22]) {
    const long = { ...manifest, shapes: { ...manifest.shapes, context } }
    const total = chooseLimits(demand({ ...server, manifest: long })).total
    expect(total).toEqual({
      value: 2 ** Math.max(21, Math.log2(context)),
      why: "server: what is remembered",
    })
  }
})

test("a sliding window stands for the context in total and chunk, and has room to move", () => {
  const manifest = {
    ...demand().manifest,
    kv: { dtype: "f32", groups: [group(MIB, 1024)] },
  } as const
  expect(numbers({ manifest })).toEqual([4096, 4, 1024, 1024])
  const limits = chooseLimits(demand({ manifest }))
  const { program } = limits
  expect(program.blocks[0]! * 16).toBeGreaterThanOrEqual(1024 + program.tokens)
  // Where its tokens are remembered, beyond the window, there is room for every sequence.
  expect(trailBlocks(manifest, limits) * BLOCK).toBe(4 * 4096)
})

test("layers with a window get what windows and a step need, the others the rest", () => {
  const kv = { dtype: "f32", groups: [group(MIB), group(5 * MIB, 512)] } as const
  const of = (changes: Partial<Demand>) =>
    chooseLimits(demand({ manifest: { ...demand().manifest, kv }, ...changes }))
  const large = of({ available: 10_000 * MIB })
  // Of each of 4 sequences 32 blocks of its window, 3 at its ends, 4 for others to come; 32 for a step's 512 tokens.
  expect(large.program.blocks).toEqual([256, 4 * (32 + 3 + 4) + 32])
  expect(large.memory.kv).toBe((256 + 5 * 188) * MIB)
  expect(large.memory.groups).toEqual([
    { layers: 1, window: undefined, bytes: 256 * MIB },
    { layers: 1, window: 512, bytes: 5 * 188 * MIB },
  ])
  // As much for the first as is left: 1000 - 100 - 0.5 = 899 MiB. So much that both have alike would be 149 blocks.
  expect(of({}).program.blocks).toEqual([149, 149])
  const more = of({ available: 1250 * MIB })
  expect(more.program.blocks).toEqual([209, 188])
  expect(of({ overrides: { max_total_seq_length: 320 } }).program.blocks).toEqual([20, 20])
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
  expect(limits.context).toEqual({
    value: limits.total.value,
    of: 4096,
    why: "what memory allows",
    bound: "memory",
  })
  expect(limits.chunk.value).toBe(limits.total.value)
})

test("less memory still: steps get shorter before a step is longer than what is held, then fewer sequences run", () => {
  const chosen = (mib: number, mode: Demand["mode"] = "local") => {
    const bufferBytes: Demand["bufferBytes"] = ({ tokens }) => (tokens * MIB) / 10 + 10 * MIB
    const { sequences, total, program } = chooseLimits(
      demand({ mode, available: (100 + mib) * MIB, bufferBytes }),
    )
    return [sequences.value, program.tokens, total.value]
  }
  expect(chosen(100)).toEqual([4, 512, 608]) // 10 MiB and a step's 51.2: 38 blocks of 1 MiB
  expect(chosen(90)).toEqual([4, 256, 864])
  expect(chosen(17)).toEqual([4, 16, 80])
  expect(chosen(14)).toEqual([2, 16, 32])
  expect(chosen(12.7)).toEqual([1, 16, 16])
  const { sequences } = chooseLimits(demand({ mode: "server", available: 150 * MIB }))
  expect(sequences).toEqual({ value: 16, of: 128, why: "what memory allows" })
})

test("a window that memory has no room for: no sequence is longer than what fits", () => {
  const manifest = {
    ...demand().manifest,
    kv: { dtype: "f32", groups: [group(MIB, 1024)] },
  } as const
  for (const available of [120, 150, 190, 196, 197, 198, 199, 200, 201, 300]) {
    const limits = chooseLimits(demand({ manifest, available: available * MIB }))
    const needed = limits.context.value > 1024 ? 1024 + limits.program.tokens + 2 * BLOCK : 0
    expect(limits.program.blocks[0]! * BLOCK).toBeGreaterThanOrEqual(
      Math.max(needed, Math.min(limits.context.value, 1024)),
    )
    expect(limits.context.value).toBe(available < 199 ? limits.total.value : 4096)
  }
})

test("what was asked for and does not fit is refused with the figures", () => {
  expect(() => chooseLimits(demand({ overrides: { max_total_seq_length: 16_000 } }))).toThrow(
    /needs at least 1101 MiB \(weights 100, KV blocks 1000, activations 1, buffers 0\); 1000 MiB may be taken. Lower --overrides "max_total_seq_length=…", or serve a smaller format/,
  )
  expect(() => chooseLimits(demand({ available: 50 * MIB }))).toThrow(
    /needs at least 10. MiB .* may be taken. Serve a smaller format/,
  )
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
  expect(() => chooseLimits(demand({ overrides }))).toThrow(
    /500 MiB may be taken.*raise --overrides "gpu_memory_utilization=…"/,
  )
})

test("a context beyond the model's is refused", () => {
  expect(() => chooseLimits(demand({ overrides: { context_window_size: 4097 } }))).toThrow(
    "--overrides context_window_size: the model was made for at most 4096 tokens",
  )
})

test("what bound the longest sequence is known", () => {
  const bound = (overrides: Demand["overrides"], available = 1000) =>
    chooseLimits(demand({ overrides, available: available * MIB })).context.bound
  expect(bound({})).toBe("model")
  expect(bound({ context_window_size: 4096 })).toBe("model")
  expect(bound({ context_window_size: 64 })).toBe("context_window_size")
  expect(bound({ max_total_seq_length: 64 })).toBe("max_total_seq_length")
  expect(bound({}, 200)).toBe("memory")
})

test("the cure names what would help", () => {
  const cure = (overrides: Demand["overrides"], bufferBytes: Demand["bufferBytes"] = () => 0) => {
    try {
      chooseLimits(demand({ overrides, bufferBytes }))
    } catch (error) {
      return /may be taken\. (.+)$/.exec((error as Error).message)![1]!
    }
    return ""
  }
  const rows: Demand["bufferBytes"] = (limits) => limits.rows * 100 * MIB
  const both = { max_total_seq_length: 320, max_num_sequence: 64 }
  expect(cure({ ...both, max_total_seq_length: 16_000 })).toMatch(/^Lower --overrides "max_total/)
  expect(cure({ ...both, max_total_seq_length: 16_000 })).not.toContain("max_num_sequence")
  expect(cure(both, rows)).toMatch(/^Lower --overrides "max_num_sequence=…", or serve a smaller/)
  expect(cure({ max_num_sequence: 1 }, rows)).toMatch(/^Serve a smaller format/)
})

test("a context that was asked for and does not fit is refused", () => {
  const overrides = { context_window_size: 4000 }
  expect(() => chooseLimits(demand({ overrides, available: 200 * MIB }))).toThrow(
    /needs at least 351 MiB .* Lower --overrides "context_window_size=…"/,
  )
})

// What a program takes, added up anew from what was chosen.
function taken(of: Demand, { program }: Pick<EngineLimits, "program">): number {
  const draft = of.drafts?.model
  return (
    of.weightBytes +
    of.bufferBytes(program) +
    of.manifest.kv.groups.reduce(
      (sum, { bytesPerBlock }, i) => sum + program.blocks[i]! * bytesPerBlock,
      0,
    ) +
    (draft
      ? draft.weightBytes +
        draft.bufferBytes(program) +
        program.blocks[0]! * (draft.bytesPerBlock + draft.hostBytesPerBlock)
      : 0)
  )
}

/** One sequence, steps of 16 tokens, a block of keys and values; room for drafts as without memory's limit. */
function leastTaken(of: Demand): number {
  const span = Math.min(of.manifest.shapes.context, reachOf(of.manifest.kv.groups[0]!))
  const room = of.drafts ? Math.min(64, Math.max(16, of.drafts.length)) : 0
  const blocks = 1 + Math.min(1, room)
  const tokens = Math.min(16, span + 1) + room
  return taken(of, {
    program: {
      blocks: of.manifest.kv.groups.map(() => blocks),
      tokens,
      sequences: 1,
      rows: 32 + room,
    },
  })
}

test("whatever a mode chooses can be had, down to the least there is", () => {
  const next = uniform(16)
  const between = (least: number, most: number) => Math.floor(least * (most / least) ** next())
  const one = <T>(...choices: T[]) => choices[Math.floor(next() * choices.length)]!
  const bytes = (each: number, once: number): Demand["bufferBytes"] => {
    const logits = between(1, 5e5)
    return ({ tokens, rows }) => once + each * tokens + logits * rows
  }
  let refused = 0
  for (let round = 0; round < 5000; round++) {
    const { manifest } = demand()
    const context = between(8, 10_000_000)
    const perBlock = between(100, 1e7)
    const window = one(undefined, undefined, between(16, 2 * context))
    const narrower = () => group(between(100, 1e7), between(8, window ?? context))
    const others =
      round % 2 === 0 ? [] : round % 3 === 0 ? [group(perBlock, window), narrower()] : [narrower()]
    const share = one(undefined, 0.01, 0.02, 0.03, 0.5, 1)
    const mode = one("local", "interactive", "server")
    const of: Demand = demand({
      mode,
      overrides: share ? { gpu_memory_utilization: share } : {},
      manifest: {
        ...manifest,
        shapes: { ...manifest.shapes, context },
        kv: { dtype: "f16", groups: [group(perBlock, window), ...others] },
      },
      weightBytes: between(1e6, 1e10),
      bufferBytes: bytes(between(1, 1e6), between(1, 1e8)),
      drafts: one(
        undefined,
        { length: between(1, 16) },
        {
          length: between(1, 16),
          model: {
            weightBytes: between(1e5, 1e9),
            bytesPerBlock: one(0, between(100, 1e6)),
            hostBytesPerBlock: one(0, between(100, 1e5)),
            bufferBytes: bytes(between(1, 1e5), between(1, 1e7)),
          },
        },
      ),
    })
    const part = share ?? (mode === "server" ? 0.85 : 1)
    of.available = (leastTaken(of) * one(0.999, 1.001, 1.1, 1.5, 4, 50, 1000)) / part
    if (of.available * part < leastTaken(of)) {
      expect(() => chooseLimits(of)).toThrow("needs at least")
      refused++
      continue
    }
    const limits = chooseLimits(of)
    const { memory, program, total, sequences } = limits
    const sum = memory.weights + memory.kv + memory.activations + memory.buffers + memory.draft
    expect(Math.abs(sum - taken(of, limits))).toBeLessThan(1)
    expect(sum).toBeLessThanOrEqual(of.available * part)
    expect(memory.available).toBe(of.available * part)
    // The engine can run the longest sequence, sliding or not, and every sequence has a place in a step.
    const blocks = program.blocks[0]! - Math.min(sequences.value, limits.drafts)
    const slides = window !== undefined && limits.context.value > window
    const held = slides ? window + program.tokens + 2 * BLOCK : limits.context.value
    expect(blocks * BLOCK).toBeGreaterThanOrEqual(held)
    expect(blocks * BLOCK).toBeGreaterThanOrEqual(total.value)
    for (const [i, { window = Number.POSITIVE_INFINITY }] of of.manifest.kv.groups.entries()) {
      const own = program.blocks[i]! - (program.blocks[0]! - blocks)
      expect(own).toBeLessThanOrEqual(blocks)
      const moves = sequences.value * window + program.tokens + BLOCK
      expect(own * BLOCK).toBeGreaterThanOrEqual(Math.min(blocks * BLOCK, moves))
    }
    expect(program.tokens - limits.drafts).toBeGreaterThanOrEqual(sequences.value)
    expect(Math.min(sequences.value, limits.chunk.value, total.value)).toBeGreaterThan(0)
  }
  expect(refused).toBeGreaterThan(300)
})

test("what sees both ways is read in one step, whose length bounds it", () => {
  const manifest = { ...demand().manifest, bidirectional: true } as const
  const { context, program } = chooseLimits(demand({ manifest }))
  expect([context.value, program.tokens]).toEqual([4096, 4096 + 4])
  const overrides = { prefill_chunk_size: 100 }
  const bound = { value: 100, of: 4096, bound: "prefill_chunk_size" }
  expect(chooseLimits(demand({ manifest, overrides })).context).toMatchObject(bound)
  const bufferBytes = ({ tokens }: { tokens: number }) => tokens * MIB
  const short = chooseLimits(demand({ manifest, bufferBytes }))
  expect(short.context).toMatchObject({ of: 4096, bound: "memory" })
  expect(short.context.value).toBeLessThanOrEqual(short.program.tokens)
})

test("a device says how long its steps are, how many take part, and how many blocks it can address", () => {
  const traits = { stepTokens: 2048, sequences: 200, drafts: 16 }
  const mostBlocks = { value: 300, why: "what it can address" }
  const { program, sequences, drafts, total, context } = chooseLimits(
    demand({ mode: "server", traits: { ...traits, mostBlocks }, drafts: { length: 4 } }),
  )
  expect(sequences).toEqual({ value: 200, why: "server: the most" })
  expect([drafts, program.tokens, program.blocks]).toEqual([16, 2048 + 16, [300]])
  const tokens = (300 - 16) * BLOCK // a draft may need a block beside its sequence's own
  expect(total).toEqual({ value: tokens, why: "server: what it can address" })
  expect(context.value).toBe(4096)
  for (const wider of [undefined, { ...mostBlocks, value: 1e6 }]) {
    const wide = { ...traits, ...(wider && { mostBlocks: wider }) }
    const limits = chooseLimits(demand({ mode: "server", traits: wide }))
    expect(limits.program.blocks[0]).toBeGreaterThan(300)
    expect(limits.total.why).toBe("server: what memory allows")
  }
})

test("a context that a device cannot address is cut, and what was asked for beyond it refused with the figures", () => {
  const mostBlocks = { value: 104, why: "what it can address" }
  const traits = { ...demand().traits, mostBlocks }
  const { context, total } = chooseLimits(demand({ traits }))
  expect(total).toEqual({ value: 104 * BLOCK, why: "local: what it can address" })
  expect(context).toMatchObject({ value: 104 * BLOCK, why: "what it can address", of: 4096 })
  for (const field of ["max_total_seq_length", "context_window_size"])
    expect(() => chooseLimits(demand({ traits, overrides: { [field]: 105 * BLOCK } }))).toThrow(
      `--overrides ${field}: it takes 105 blocks of 16 tokens, and 104 are what it can address.`,
    )
})

// A device with memory of its own: what drafts keeps 2 MiB a block in the host's.
const drafting: NonNullable<Demand["drafts"]> = {
  length: 4,
  model: {
    weightBytes: 10 * MIB,
    bytesPerBlock: MIB,
    hostBytesPerBlock: 2 * MIB,
    bufferBytes: () => 0,
  },
}

test("each memory has its own budget, and the smaller one decides how many blocks there are", () => {
  const blocks = (available: number, host?: number, drafts = drafting) =>
    chooseLimits(
      demand({
        mode: "server",
        overrides: { gpu_memory_utilization: 1, max_num_sequence: 1 },
        available: available * MIB,
        drafts,
        ...(host !== undefined && { host: { available: host * MIB } }),
      }),
    )
  // 110 MiB of weights, half a MiB of buffers, 2 MiB a block on the device.
  const device = blocks(200, 100_000)
  expect(device.program.blocks).toEqual([44])
  expect(device.memory.draft).toBe((10 + 44) * MIB)
  expect(device.memory.host).toEqual({ taken: 88 * MIB, available: 100_000 * MIB })
  const host = blocks(10_000, 50)
  expect(host.program.blocks).toEqual([25])
  expect(host.total.why).toBe("server: what memory allows")
  // What goes with no block is there first.
  const beside = { ...drafting, model: { ...drafting.model!, hostBytes: () => 30 * MIB } }
  const left = blocks(10_000, 50, beside)
  expect(left.program.blocks).toEqual([10])
  expect(left.memory.host).toEqual({ taken: 50 * MIB, available: 50 * MIB })
  expect(blocks(200, undefined, beside).memory.draft).toBe((10 + 30 + 3 * 14) * MIB)
  expect(() => blocks(10_000, 30, beside)).toThrow(/needs at least 34 MiB/)
  // One pool for both: 4 MiB a block, and nothing is counted twice.
  const shared = blocks(200)
  expect(shared.program.blocks).toEqual([22])
  expect(shared.memory.draft).toBe((10 + 22 + 44) * MIB)
  expect(shared.memory.host).toBeUndefined()
})

test("the share that may be taken holds for each memory", () => {
  const { memory, program } = chooseLimits(
    demand({
      mode: "server",
      available: 1000 * MIB,
      host: { available: 100 * MIB },
      drafts: drafting,
    }),
  )
  expect(memory.available).toBe(850 * MIB)
  expect(memory.host!.available).toBe(85 * MIB)
  expect(program.blocks).toEqual([42])
})

test("where the host is short, the sentence says so, and names what takes of it", () => {
  const short = { host: { available: 10 * MIB }, drafts: drafting }
  expect(() =>
    chooseLimits(demand({ ...short, overrides: { max_total_seq_length: 320 } })),
  ).toThrow(
    "What drafts needs at least 42 MiB of the host's memory, beside the device's; 10 MiB may be taken. Lower --overrides \"max_total_seq_length=…\", or leave the draft model out.",
  )
  // A host without room is no matter to who keeps nothing there.
  const without = { available: 200 * MIB, host: { available: 0 } }
  expect(chooseLimits(demand(without)).program).toEqual(
    chooseLimits(demand({ available: 200 * MIB })).program,
  )
})
