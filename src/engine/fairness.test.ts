import { expect, test } from "vitest"
import { request, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply } from "../../test/history-program.ts"

test("a hundred choices of one client give way to the first of another", async () => {
  const { engine, program, isClean } = setUp({ sequences: 4, blocks: 400 })
  const greedy = engine.generate(request(20, { choices: 100, maxTokens: 100 }))
  const all = Promise.all(greedy.choices.map(collect))
  await turns(12)
  const begun = program.steps.length
  const modest = request(20, { maxTokens: 10 })
  expect((await collect(engine.generate(modest).choices[0]!)).tokens).toEqual(
    expectedReply(modest, 0).tokens,
  )
  expect(program.steps.length - begun).toBeLessThan(14)
  expect((await all).every(({ tokens }) => tokens.length === 100)).toBe(true)
  isClean()
})

test("so it is when blocks are short instead of places", async () => {
  const { engine, program, isClean } = setUp({ sequences: 16, blocks: 40, tokens: 64 })
  const input = request(20, { choices: 16, maxTokens: 100 })
  const greedy = engine.generate(input)
  const all = Promise.all(greedy.choices.map(collect))
  await turns(12)
  const begun = program.steps.length
  const modest = request(200, { maxTokens: 10 })
  expect((await collect(engine.generate(modest).choices[0]!)).tokens).toEqual(
    expectedReply(modest, 0).tokens,
  )
  expect(program.steps.length - begun).toBeLessThan(24)
  for (const [choice, reply] of (await all).entries()) {
    expect(reply.tokens).toEqual(expectedReply(input, choice).tokens)
  }
  isClean()
})

test.each([
  ["clients of their own", undefined, undefined],
  ["one client", "crowd", undefined],
  ["the same client", "all", "all"],
])(
  "behind forty requests of 64 choices, by %s, a short one is served at once",
  async (_, crowd, single) => {
    const { engine, program, isClean } = setUp({ sequences: 4, blocks: 400 })
    const leaving = new AbortController()
    const many = { choices: 64, maxTokens: 300, ...(crowd && { client: crowd }) }
    const own = () => AbortSignal.any([leaving.signal]) // as each request has one
    const all = Array.from({ length: 40 }, () => engine.generate(request(20, many), own()))
    const read = all.flatMap(({ choices }) => choices.map(collect))
    await turns(12)
    for (let i = 0; i < 3; i++) {
      const begun = program.steps.length
      const modest = request(20, { maxTokens: 10, ...(single && { client: single }) })
      expect((await collect(engine.generate(modest).choices[0]!)).tokens).toEqual(
        expectedReply(modest, 0).tokens,
      )
      expect(program.steps.length - begun).toBeLessThan(14)
    }
    leaving.abort()
    await Promise.all(read)
    isClean()
  },
)

test("a client with many requests leaves others their places, and gets all that nobody wants", async () => {
  const { engine, program, isClean } = setUp({ sequences: 4, blocks: 400 })
  const many = Array.from({ length: 12 }, () => request(20, { client: "a", maxTokens: 60 }))
  const replies = many.map((each) => collect(engine.generate(each).choices[0]!))
  await turns(20)
  expect(program.steps.at(-1)!.sequences).toBe(4)
  const begun = program.steps.length
  const few = Array.from({ length: 2 }, () => request(20, { client: "b", maxTokens: 30 }))
  await Promise.all(few.map((each) => collect(engine.generate(each).choices[0]!)))
  expect(program.steps.length - begun).toBeLessThan(36) // two places of four, at once
  for (const [i, { tokens }] of (await Promise.all(replies)).entries()) {
    expect(tokens).toEqual(expectedReply(many[i]!, 0).tokens)
  }
  isClean()
})

test.each([1, 2])(
  "small requests without end pass a crowd over, but not for ever: %i places",
  async (sequences) => {
    const { engine, isClean } = setUp({ sequences, blocks: 400 })
    const crowd = request(20, { choices: 40, maxTokens: 5 })
    const leaving = new AbortController()
    const waiting = engine.generate(crowd, leaving.signal).choices.map(collect)
    let served = 0
    let ended = 0
    for (const choice of waiting)
      void choice.then(({ tokens }) => (ended += tokens.length > 0 ? 1 : 0))
    const small = async () => {
      for (; ended < 3 && served < 200; served++) {
        await collect(engine.generate(request(10, { maxTokens: 8 })).choices[0]!)
      }
    }
    await Promise.all(Array.from({ length: sequences + 1 }, small))
    expect(served).toBeGreaterThan(16)
    expect(served).toBeLessThan(3 * 16 + 10)
    leaving.abort()
    await Promise.all(waiting)
    isClean()
  },
)

test("a full queue drops the last of a crowd for somebody else, and refuses one more of the crowd", async () => {
  const { engine, isClean } = setUp({ sequences: 2, options: { maxQueue: 20 } })
  const one = () => engine.generate(request(5, { client: "many" })).choices.map(collect)
  const replies = Array.from({ length: 22 }, one).flat()
  expect(one).toThrow(/20 requests are waiting/)
  const other = request(5, { client: "other" })
  const reply = await collect(engine.generate(other).choices[0]!)
  expect(reply.tokens).toEqual(expectedReply(other, 0).tokens)
  const ends = (await Promise.all(replies)).map(({ end }) => end)
  expect(ends.at(-1)).toMatchObject({ reason: "error", problem: { code: "queue_full" } })
  expect(ends.slice(0, -1).every((end) => end?.kind === "end" && end.reason === "length")).toBe(
    true,
  )
  isClean()
})

test("single requests are served in the order in which they came", async () => {
  const { engine, isClean } = setUp({ sequences: 2 })
  const order: number[] = []
  const readers = Array.from({ length: 6 }, async (_, i) => {
    for await (const event of engine.generate(request(30)).choices[0]!) {
      if (event.kind === "token" && !order.includes(i)) order.push(i)
    }
  })
  await Promise.all(readers)
  expect(order).toEqual([0, 1, 2, 3, 4, 5])
  isClean()
})

test("in a crowd whose own tokens fill a step prompts are read all the same", async () => {
  const { engine, program, isClean } = setUp({
    sequences: 16,
    blocks: 400,
    tokens: 64,
    cost: ({ tokens }) => 40 + 4 * tokens,
  })
  const inputs = Array.from({ length: 16 }, () => request(16, { maxTokens: 40 }))
  await Promise.all(inputs.map((each) => collect(engine.generate(each).choices[0]!)))
  const everybody = program.steps.findIndex(({ sequences }) => sequences === 16)
  expect(everybody).toBeGreaterThan(0)
  expect(everybody).toBeLessThan(32)
  isClean()
})

test("a short question does not wait for a book", async () => {
  const { engine, program, isClean } = setUp({
    blocks: 400,
    context: 6000,
    tokens: 64,
    cost: ({ tokens }) => tokens,
  })
  const book = collect(engine.generate(request(5000, { maxTokens: 2 })).choices[0]!)
  await collect(engine.generate(request(30, { maxTokens: 1 })).choices[0]!)
  expect(program.steps.length).toBeLessThan(8)
  await book
  isClean()
})

test("shared steps keep to their time at any chunk size, whatever a token costs", async () => {
  for (const milliseconds of [0.05, 0.5, 3]) {
    const { engine, program, isClean } = setUp({
      blocks: 600,
      context: 8000,
      tokens: 4096,
      cost: ({ tokens, rows }) => 5 + 2 * rows + milliseconds * (tokens - rows),
    })
    const reply = collect(engine.generate(request(10, { maxTokens: 2000 })).choices[0]!)
    const took: number[] = []
    let last = program.clock
    program.before = () => {
      took.push(program.clock - last)
      last = program.clock
      return undefined
    }
    await collect(engine.generate(request(4000, { maxTokens: 1 })).choices[0]!)
    // 7 ms without the book; it gets four tokens at least
    const most = Math.max(2.5 * 7, 7 + 4 * milliseconds)
    expect(took.toSorted((a, b) => a - b)[Math.floor(0.98 * took.length)]).toBeLessThanOrEqual(most)
    expect(Math.max(...took)).toBeLessThanOrEqual(120)
    // and the allowance is used: the book is read nearly as fast as the time allows
    const share = Math.min(0.6, (4 * milliseconds) / most)
    expect(program.clock).toBeLessThan((4000 * milliseconds) / (0.8 * share) + 400)
    await reply
    isClean()
  }
})

test("whoever is alone takes long steps, and whole chunks where nobody could join", async () => {
  for (const [sequences, expected] of [
    [1, [1000, 1000, 1000]],
    [2, [384, 480, 480, 480, 480, 480, 216]], // 12 times the 40 tokens that take 80 ms
  ] as const) {
    const { engine, program, isClean } = setUp({
      blocks: 200,
      context: 3200,
      tokens: 1000,
      sequences,
      cost: ({ tokens }) => 2 * tokens,
    })
    await collect(engine.generate(request(3000, { maxTokens: 1 })).choices[0]!)
    expect(program.steps.map(({ tokens }) => tokens)).toEqual(expected)
    isClean()
  }
})

test("who comes waits while those who run need the blocks: nobody is preempted to let it in", async () => {
  // Eight blocks: the first takes one now and five in the end, the second seven. Both begin with room; only one can end.
  const { engine, isClean } = setUp({ blocks: 8, sequences: 2 })
  const first = engine.generate(request(16, { maxTokens: 64 }))
  const reply = collect(first.choices[0]!)
  await turns(6)
  const second = engine.generate(request(64, { maxTokens: 40 }))
  await Promise.all([reply, collect(second.choices[0]!)])
  expect(engine.stats()).toMatchObject({ preemptions: 0, recomputedTokens: 0 })
  isClean()
})
