// Layers that remember a state of a sequence: what is left behind a step, found again where a block ends, and computed anew.

import { describe, expect, test } from "vitest"
import { request, setUp } from "../../test/history-engine.ts"
import { collect, expectedReply, VOCABULARY } from "../../test/history-program.ts"
import type { GenerationRequest } from "./generation.ts"

const visible = { context: 1024, hasStates: true } as const

const shape = { ...visible, blocks: 40, tokens: 48, sequences: 4 }

type Engine = ReturnType<typeof setUp>["engine"]

async function says(engine: Engine, asked: GenerationRequest) {
  const generation = engine.generate(asked)
  const { tokens } = await collect(generation.choices[0]!)
  expect(tokens).toEqual(expectedReply(asked, 0, visible).tokens)
  return { tokens, cached: generation.cachedTokens }
}

const begin = Array.from({ length: 100 }, (_, i) => (i * 5) % VOCABULARY)

/** The same hundred tokens, and then others. */
function beginning(salt: number, length: number): GenerationRequest {
  const end = Array.from({ length: length - 100 }, (_, i) => (i * salt + salt) % VOCABULARY)
  return request(length, { prompt: Int32Array.from([...begin, ...end]), maxTokens: 4 })
}

describe("a prefix goes on from a state that was kept", () => {
  test("by whoever asks the same again, at the last block before its last token", async () => {
    const { engine, isClean } = setUp(shape)
    for (const length of [160, 161, 175]) {
      const { prompt } = request(length)
      expect((await says(engine, request(length, { prompt }))).cached).toBe(0)
      const { cached } = await says(engine, request(length, { prompt }))
      expect(cached).toBe(Math.floor((length - 1) / 16) * 16)
    }
    isClean()
  })

  test("by whoever goes on with a conversation, at the end of the reply", async () => {
    const { engine, isClean } = setUp(shape)
    const input = request(200, { maxTokens: 100 })
    const { tokens } = await says(engine, input)
    const prompt = Int32Array.from([...input.prompt, ...tokens, 1, 2, 3])
    const { cached } = await says(engine, request(prompt.length, { prompt }))
    expect(cached).toBe(288)
    isClean()
  })

  test("by whoever begins alike, once a second one has been there", async () => {
    const { engine, isClean } = setUp(shape)
    const cached = []
    for (const salt of [3, 7, 11]) cached.push((await says(engine, beginning(salt, 150))).cached)
    expect(cached).toEqual([0, 0, 96])
    isClean()
  })

  test("by nobody once it was taken for another", async () => {
    const { engine, isClean } = setUp({ ...shape, blocks: 200, sequences: 1, states: 4 })
    const { prompt } = request(150)
    await says(engine, request(150, { prompt }))
    for (const length of [120, 130, 140]) await says(engine, request(length))
    expect((await says(engine, request(150, { prompt }))).cached).toBe(0)
    isClean()
  })
})

describe("where states are all that reaches far back", () => {
  const convolved = { ...visible, window: 4 }
  const replyTo = (asked: GenerationRequest) => expectedReply(asked, 0, convolved).tokens

  test("whoever goes on with a conversation finds its end, in company", async () => {
    const { engine, isClean } = setUp({ ...shape, ...convolved, blocks: 64, states: 20 })
    const inputs = [200, 130, 65].map((length) => request(length, { maxTokens: 100 }))
    const next = inputs.map((input) => {
      const prompt = Int32Array.from([...input.prompt, ...replyTo(input), 1, 2, 3])
      return request(prompt.length, { prompt })
    })
    const cached = []
    for (const turn of [inputs, next]) {
      const generations = turn.map((each) => engine.generate(each))
      const said = await Promise.all(generations.map(({ choices }) => collect(choices[0]!)))
      expect(said.map(({ tokens }) => tokens)).toEqual(turn.map(replyTo))
      cached.push(generations.map(({ cachedTokens }) => cachedTokens))
    }
    expect(cached).toEqual([
      [0, 0, 0],
      [288, 224, 160],
    ])
    isClean()
  })

  test("what is counted are blocks that hold something", async () => {
    const { engine, program } = setUp({ ...shape, ...convolved, blocks: 64, states: 20 })
    await collect(engine.generate(request(200, { maxTokens: 20 })).choices[0]!)
    const { blocks, blocksRemembered } = engine.stats()
    expect(blocks).toBe(program.limits.blocks[0]! + program.limits.blocks[1]!)
    expect(blocksRemembered).toBeGreaterThan(0)
    expect(blocksRemembered).toBeLessThanOrEqual(64)
  })
})

test("a step that was given up is taken again from the same state", async () => {
  const { engine, program, isClean } = setUp({ ...shape, turns: 3 })
  const inputs = [60, 90].map((length) => request(length, { maxTokens: 30 }))
  let failing = 0
  program.before = ({ starts }) => {
    if (starts.length > 2 && failing++ % 5 === 0) throw new Error("planted")
    return undefined
  }
  const said = await Promise.all(inputs.map((each) => collect(engine.generate(each).choices[0]!)))
  expect(failing).toBeGreaterThan(5)
  for (const [i, { tokens }] of said.entries())
    expect(tokens).toEqual(expectedReply(inputs[i]!, 0, visible).tokens)
  isClean()
})

test("choices, chunks, preempted sequences and readers that leave: the tokens of each alone", async () => {
  const { engine, isClean } = setUp({ ...shape, blocks: 24, chunk: 17, states: 12 })
  const inputs = [10, 45, 80, 120, 33].map((length, i) =>
    request(length, { choices: 1 + (i % 3), maxTokens: 100 }),
  )
  const leaving = engine.generate(request(70, { maxTokens: 200 })).choices[0]!
  const generations = inputs.map((each) => engine.generate(each))
  for await (const _ of leaving) break
  for (const [i, { choices }] of generations.entries())
    for (const [choice, { tokens }] of (await Promise.all(choices.map(collect))).entries())
      expect(tokens).toEqual(expectedReply(inputs[i]!, choice, visible).tokens)
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  isClean()
})
