// Layers that look less far back than others: their blocks are given back and found again by themselves.

import { expect, test } from "vitest"
import { plain, request, setUp } from "../../test/history-engine.ts"
import { collect, expectedReply, VOCABULARY } from "../../test/history-program.ts"
import { BLOCK } from "../runtime/program.ts"
import type { GenerationRequest } from "./generation.ts"
import { Memory } from "./memory.ts"
import { Outbox } from "./outbox.ts"
import { Sequence, SequenceGroup } from "./sequence.ts"

const windows = [undefined, 40]
const visible = { context: 1024, windows }

/** 40 blocks where all is kept; 10, of 160 positions, where windows of 40 are. */
const shape = { ...visible, blocks: 40, otherBlocks: [10], tokens: 48, sequences: 4 }

async function says(engine: ReturnType<typeof setUp>["engine"], asked: GenerationRequest) {
  const generation = engine.generate(asked)
  const { tokens } = await collect(generation.choices[0]!)
  expect(tokens).toEqual(expectedReply(asked, 0, visible).tokens)
  return { tokens, cached: generation.cachedTokens }
}

test("a long conversation holds a window of the layers that look no further", async () => {
  const { engine, program, isClean } = setUp(shape)
  const held: number[] = []
  program.before = ({ starts, blockStarts }) => {
    const sequences = starts.length - 1
    held.push(blockStarts[2 * sequences]! - blockStarts[sequences]!)
    return undefined
  }
  await says(engine, request(300, { maxTokens: 300 }))
  expect(Math.max(...held)).toBeLessThanOrEqual(Math.ceil((40 + 48) / 16) + 1)
  expect(held.at(-1)).toBeLessThanOrEqual(4)
  expect(engine.stats().preemptions).toBe(0)
  isClean()
})

test("whoever goes on with a conversation finds all of it, though most has slid away", async () => {
  const { engine, isClean } = setUp(shape)
  const input = request(200, { maxTokens: 100 })
  const { tokens } = await says(engine, input)
  const prompt = Int32Array.from([...input.prompt, ...tokens, 1, 2, 3])
  const { cached } = await says(engine, request(prompt.length, { prompt }))
  expect(cached).toBe(288) // the last token was drawn and never computed
  isClean()
})

test("a prompt that begins alike is found where a window's blocks are still there, and no further", async () => {
  const { engine, isClean } = setUp({ ...shape, blocks: 80 })
  const begin = Array.from({ length: 96 }, (_, i) => (i * 5) % VOCABULARY)
  const ask = (salt: number, length: number) => {
    const end = Array.from({ length: length - 96 }, (_, i) => (i * salt) % VOCABULARY)
    return request(length, { prompt: Int32Array.from([...begin, ...end]), maxTokens: 4 })
  }
  // Its blocks slid away before a row was drawn, and nobody has taken them.
  await says(engine, ask(3, 150))
  expect((await says(engine, ask(7, 140))).cached).toBe(96)
  // 300 positions in 10 blocks: those of the beginning are somebody else's by now.
  await says(engine, request(300, { maxTokens: 4 }))
  expect((await says(engine, ask(11, 140))).cached).toBe(0)
  isClean()
  // Who takes its own blocks again leaves nothing of its beginning.
  const another = setUp({ ...shape, blocks: 80 })
  await says(another.engine, ask(5, 300))
  expect((await says(another.engine, ask(7, 140))).cached).toBe(0)
  another.isClean()
})

test("choices share a prompt in every group, and those that come late find what has slid away", async () => {
  const { engine, isClean } = setUp({ ...shape, sequences: 2 })
  const input = request(120, { choices: 4, maxTokens: 60 })
  const generation = engine.generate(input)
  const said = await Promise.all(generation.choices.map(collect))
  for (const [choice, { tokens }] of said.entries())
    expect(tokens).toEqual(expectedReply(input, choice, visible).tokens)
  isClean()
})

test("where a group runs out somebody is put back, whatever the others have left", async () => {
  const wider = [undefined, 150]
  const { engine, isClean } = setUp({ ...shape, windows: wider, blocks: 400, otherBlocks: [24] })
  const inputs = [10, 12, 14, 16].map((length) => request(length, { maxTokens: 250 }))
  const said = await Promise.all(inputs.map((each) => collect(engine.generate(each).choices[0]!)))
  for (const [i, { tokens }] of said.entries())
    expect(tokens).toEqual(expectedReply(inputs[i]!, 0, { ...visible, windows: wider }).tokens)
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  isClean()
})

test("where every layer slides a conversation is found, too, and none of its blocks twice", async () => {
  const all = { context: 1024, window: 40 }
  const { engine, program, isClean } = setUp({ ...all, blocks: 16, tokens: 48, sequences: 2 })
  const used: number[] = []
  program.before = () => {
    used.push(engine.stats().blocksUsed)
    return undefined
  }
  const input = request(300, { maxTokens: 100 })
  const first = engine.generate(input)
  const { tokens } = await collect(first.choices[0]!)
  expect(tokens).toEqual(expectedReply(input, 0, all).tokens)
  const prompt = Int32Array.from([...input.prompt, ...tokens, 1, 2, 3])
  const next = request(prompt.length, { prompt })
  const second = engine.generate(next)
  expect((await collect(second.choices[0]!)).tokens).toEqual(expectedReply(next, 0, all).tokens)
  expect([first.cachedTokens, second.cachedTokens]).toEqual([0, 384])
  const { blocks, blocksRemembered } = engine.stats()
  expect(blocks).toBe(16)
  expect(Math.max(...used)).toBeLessThanOrEqual(Math.ceil((40 + 48) / 16) + 1)
  expect(blocksRemembered).toBeLessThanOrEqual(16)
  isClean()
})

function sequenceOf(sequenceGroup: SequenceGroup, { holdings }: Memory): Sequence {
  const outbox = new Outbox(
    () => {},
    () => {},
  )
  return new Sequence(sequenceGroup, 0, outbox, holdings)
}

test("what slid away before it was vouched for is nobody's once somebody took it", () => {
  const groups = [
    { blocks: 20, window: Number.POSITIVE_INFINITY },
    { blocks: 6, window: 20 },
  ]
  const memory = new Memory({
    ...{ groups, trail: 0, spares: 0, sinks: 0 },
    recycled: Number.POSITIVE_INFINITY,
  })
  const { prompt } = request(96)
  const [first, other, late] = [prompt, request(16).prompt, prompt.slice(0, 20)].map((tokens, i) =>
    sequenceOf(new SequenceGroup(request(1, { prompt: tokens }), 100, i, 0, 0), memory),
  )
  memory.grow(first!, 48)
  first!.computed = 48
  memory.slide(first!)
  expect(first!.held[1]!.gone).toBe(1)
  memory.grow(first!, 96)
  memory.grow(other!, 16) // the last free block: the one that slid away
  first!.computed = first!.verified = 96
  memory.publish(first!, 96)
  memory.adopt(late!)
  expect(late!.computed).toBe(0)
  memory.audit([first!, other!, late!])
})

test("the audit looks at every group", () => {
  const groups = [
    { blocks: 8, window: Number.POSITIVE_INFINITY },
    { blocks: 6, window: 20 },
  ]
  const memory = new Memory({ groups, trail: 0, spares: 1, sinks: 0, recycled: 0 })
  const sequences = [40, 30].map((length, i) => {
    const sequenceGroup = new SequenceGroup(request(length, { sampling: plain }), 100, i, 0, 0)
    const sequence = sequenceOf(sequenceGroup, memory)
    memory.grow(sequence, length)
    return sequence
  })
  memory.audit(sequences)
  const [one, other] = sequences.map(({ held }) => held[1]!.blocks)
  const own = other![0]!
  other![0] = one![0]!
  expect(() => memory.audit(sequences)).toThrow(/has 1 owners, 2 hold it/)
  other![0] = own
  memory.audit(sequences)
  sequences[0]!.held[1]!.gone = 1 // given up, and not given back
  expect(() => memory.audit(sequences)).toThrow(/has 1 owners, 0 hold it/)
})

test("of rows before all tokens nobody has blocks but whoever reads them", () => {
  const all = Number.POSITIVE_INFINITY
  const groups = [
    { blocks: 20, window: all },
    { blocks: 9, window: all, isBehindMedia: true },
  ]
  const memory = new Memory({ groups, trail: 0, spares: 0, sinks: 0, recycled: all })
  const [front, tokens] = [40, 56]
  const media = {
    at: Int32Array.from({ length: front }, (_, row) => row),
    keys: Int32Array.from({ length: front }, (_, row) => -1 - row),
    rows: new Float32Array(front),
    sights: [{ at: front + 2, from: 0, to: front - 1 }],
  }
  const { prompt } = request(front + tokens)
  const [one, sibling, other] = [0, 1, 2].map((arrival) => {
    const sequenceGroup = new SequenceGroup(
      request(1, { prompt, media, sampling: plain }),
      200,
      arrival,
      0,
      0,
    )
    return sequenceOf(sequenceGroup, memory)
  })
  expect(memory.reach(one!)).toBe((2 + 9) * BLOCK)
  memory.grow(one!, front + tokens)
  const held = ({ blocks, gone }: Sequence["held"][number]) => blocks.length - gone
  expect(one!.held.map(held)).toEqual([6, 4])
  one!.computed = one!.verified = front + tokens
  expect(memory.fork(sibling!, one!)).toBe(true)
  expect(sibling!.held.map(held)).toEqual([6, 4])
  memory.publish(one!, front + tokens)
  memory.adopt(other!)
  expect([other!.computed, ...other!.held.map(held)]).toEqual([front + tokens - 1, 6, 4])
  memory.audit([one!, sibling!, other!])
  for (const each of [one!, sibling!, other!]) memory.release(each)
  memory.audit([])
  expect(memory.used).toBe(0)
})
