import { expect, test } from "vitest"
import { plain, request, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply, VOCABULARY } from "../../test/history-program.ts"
import type { GenerationRequest } from "./generation.ts"
import { Trace } from "./trace.ts"

const prompt = (length: number, step = 3) =>
  Int32Array.from({ length }, (_, i) => (i * step + 1) % VOCABULARY)

test("a prompt that was seen before is taken over, all but the token that says what comes next", async () => {
  const { engine, program, isClean } = setUp()
  for (const [length, cached] of [
    [100, [0, 96, 96]], // whole blocks
    [64, [63, 63, 63]], // the last block is copied, its last position computed again
  ] as const) {
    for (const expected of cached) {
      const input = request(length, { prompt: prompt(length) })
      const generation = engine.generate(input)
      program.steps.length = 0
      expect((await collect(generation.choices[0]!)).tokens).toEqual(expectedReply(input, 0).tokens)
      expect(generation.cachedTokens).toBe(expected)
      expect(program.steps[0]!.tokens).toBe(Math.min(64, length - expected))
    }
  }
  isClean()
})

test("the next turn of a chat takes over the reply as well", async () => {
  const { engine, isClean } = setUp()
  const first = request(40, { prompt: prompt(40), maxTokens: 60 })
  const { tokens } = await collect(engine.generate(first).choices[0]!)
  const next = request(0, { prompt: Int32Array.from([...first.prompt, ...tokens, 5, 6, 7]) })
  const generation = engine.generate(next)
  expect((await collect(generation.choices[0]!)).tokens).toEqual(expectedReply(next, 0).tokens)
  expect(generation.cachedTokens).toBe(96)
  isClean()
})

test("a prefix that is taken from a request before it has run does not count as cached", async () => {
  const { engine, isClean } = setUp({ blocks: 10, sequences: 2 })
  const prompt = Int32Array.from({ length: 60 }, (_, at) => at % VOCABULARY)
  await collect(engine.generate(request(0, { prompt, maxTokens: 1 })).choices[0]!)
  const long = engine.generate(request(16, { maxTokens: 140 }))
  const read = collect(long.choices[0]!)
  await turns(60)
  const again = engine.generate(request(0, { prompt, maxTokens: 5 }))
  await Promise.all([read, collect(again.choices[0]!)])
  const { promptTokens, cachedTokens, recomputedTokens } = engine.stats()
  expect(again.cachedTokens).toBe(0)
  expect({ promptTokens, cachedTokens, recomputedTokens }).toEqual({
    promptTokens: 60 + 16 + 60,
    cachedTokens: 0,
    recomputedTokens: 0,
  })
  isClean()
})

test("what was drawn past the token at which a reader left is not kept", async () => {
  const { engine, isClean } = setUp()
  const first = request(32, { prompt: prompt(32), maxTokens: 100 })
  const { choices } = engine.generate(first)
  for (let i = 0; i < 20; i++) await choices[0]!.next()
  await turns(30) // some fifty tokens are drawn
  await choices[0]!.return!()
  const { tokens } = expectedReply(first, 0)
  const next = request(0, { prompt: Int32Array.from([...first.prompt, ...tokens]) })
  const generation = engine.generate(next)
  await collect(generation.choices[0]!)
  expect(generation.cachedTokens).toBe(48) // 32 + 20 tokens make three whole blocks
  isClean()
})

test("requests that run at the same time share what the first has computed", async () => {
  const { engine, isClean } = setUp({ tokens: 32, sequences: 4 })
  const inputs = [1, 2, 3].map((last) =>
    request(0, { prompt: Int32Array.from([...prompt(160), last]) }),
  )
  const generations = inputs.map((each) => engine.generate(each))
  const replies = await Promise.all(generations.map(({ choices }) => collect(choices[0]!)))
  for (const [i, each] of inputs.entries()) {
    expect(replies[i]!.tokens).toEqual(expectedReply(each, 0).tokens)
  }
  expect(generations[2]!.cachedTokens).toBe(160)
  expect(engine.stats().promptTokens).toBeLessThanOrEqual(161 + 32 + 1) // the second began a little early
  isClean()
})

test("another scope takes over nothing", async () => {
  const { engine, isClean } = setUp()
  for (const [scope, cached] of [
    ["one", 0],
    ["another", 0],
    ["one", 96],
  ] as const) {
    const generation = engine.generate(request(100, { prompt: prompt(100), scope }))
    await collect(generation.choices[0]!)
    expect(generation.cachedTokens).toBe(cached)
  }
  isClean()
})

test("what was used longest ago goes first, and never what is in use", async () => {
  const { engine, isClean } = setUp({ blocks: 13 })
  const ask = async (step: number) => {
    const input: GenerationRequest = request(90, { prompt: prompt(90, step), maxTokens: 5 })
    const generation = engine.generate(input)
    expect((await collect(generation.choices[0]!)).tokens).toEqual(expectedReply(input, 0).tokens)
    return generation.cachedTokens
  }
  await ask(3)
  await ask(5)
  expect(await ask(3)).toBe(80)
  await ask(7) // takes the three blocks that are worth nothing, and three of 5 from its end
  expect(await ask(3)).toBe(80)
  expect(await ask(5)).toBe(32)
  isClean()
})

test("a cancelled step leaves nothing behind for others", async () => {
  const { engine, program, isClean } = setUp({ turns: 50 })
  const input = request(60, { prompt: prompt(60) })
  const leaving = engine.generate(input).choices[0]!
  await turns(5)
  await leaving.return!()
  await turns(3)
  expect(program.steps[0]!.cancelled).toBe(true)
  const generation = engine.generate(input)
  expect((await collect(generation.choices[0]!)).tokens).toEqual(expectedReply(input, 0).tokens)
  expect(generation.cachedTokens).toBe(0)
  isClean()
})

test("nothing is remembered when the cache is off, and siblings still share their prompt", async () => {
  const { engine, isClean } = setUp({ options: { recycledSequences: 0 } })
  const input = request(100, { choices: 2, sampling: { ...plain, seed: 5n } })
  for (let i = 0; i < 2; i++) {
    const generation = engine.generate(input)
    await Promise.all(generation.choices.map(collect))
    expect(generation.cachedTokens).toBe(0)
  }
  expect(engine.stats()).toMatchObject({ promptTokens: 200, recomputedTokens: 2 })
  isClean()
})

test("a miss is explained: where the prompt went another way, or that it was forgotten", async () => {
  const trace = new Trace()
  const { engine, isClean } = setUp({ blocks: 13, options: { trace } })
  const known = prompt(100)
  for (const each of [
    known,
    known.with(70, 0),
    known.with(3, 0),
    prompt(90, 5),
    prompt(90, 7),
    known,
  ]) {
    await collect(engine.generate(request(0, { prompt: each, maxTokens: 1 })).choices[0]!)
  }
  const marks = trace.toJSON().traceEvents.filter(({ name }) => name === "prefix")
  expect(marks.map(({ args: { cached, miss, at } }) => [cached, miss, at])).toEqual([
    [0, "new", undefined],
    [64, "diverged", 70],
    [0, "diverged", 3],
    [0, "diverged", 1],
    [0, "diverged", 1],
    [0, "forgotten", undefined],
  ])
  isClean()
})

test("where only so many sequences are remembered, the oldest is forgotten, but for what others share", async () => {
  const { engine, isClean } = setUp({ options: { recycledSequences: 2 } })
  const ask = async (asked: Int32Array) => {
    const generation = engine.generate(request(0, { prompt: asked, maxTokens: 1 }))
    await collect(generation.choices[0]!)
    return generation.cachedTokens
  }
  const branch = prompt(100).with(50, 0)
  expect(await ask(prompt(100))).toBe(0)
  expect(await ask(branch)).toBe(48)
  expect(await ask(prompt(60, 5))).toBe(0) // the first is forgotten, but for the branch's beginning
  expect(engine.stats().blocksRemembered).toBe(6 + 3)
  expect(await ask(prompt(100))).toBe(48)
  isClean()
})
