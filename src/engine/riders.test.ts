// Steps that are handed over while the one before them runs: what everybody reads is what they would read without, and nobody
// notices but by the time.

import { expect, test } from "vitest"
import { plain, request, type Setting, setUp, turns } from "../../test/history-engine.ts"
import {
  collect,
  expectedReply,
  type HistoryProgram,
  VOCABULARY,
} from "../../test/history-program.ts"
import type { Constraint, GenerationRequest } from "./generation.ts"
import { nobody } from "./speculative.ts"

function setUpChained(setting: Setting = {}) {
  const { hasStates = false, context = 4096 } = setting
  const all = setUp({ chains: "told", turns: 2, ...setting })
  return { ...all, expected: { hasStates, context } }
}

/** Whether a step is told the tokens that it waits for, or has them where they are drawn; and whether there are states. */
const ways = (["told", "drawn"] as const).flatMap((chains) => [
  { name: chains, setting: { chains } },
  { name: `${chains}, with states`, setting: { chains, hasStates: true } },
])

const chained = ({ steps }: HistoryProgram) => steps.filter(({ isChained }) => isChained).length

/** Those of one engine, all at once. */
async function replies(
  { engine, expected: visible }: ReturnType<typeof setUpChained>,
  requests: readonly GenerationRequest[],
): Promise<void> {
  const read = await Promise.all(
    requests.flatMap((asked) => engine.generate(asked).choices.map(collect)),
  )
  const expected = requests.flatMap((asked) =>
    Array.from({ length: asked.choices }, (_, choice) => expectedReply(asked, choice, visible)),
  )
  expect(read.map(({ tokens, logprobs }) => ({ tokens, logprobs }))).toEqual(
    expected.map(({ tokens, logprobs }) => ({ tokens, logprobs })),
  )
}

test.each(ways)(
  "a step behind begins before anybody has read the tokens of the one before, $name",
  async ({ setting }) => {
    const all = setUpChained(setting)
    const log: string[] = []
    all.program.before = () => void log.push("step")
    const asked = request(10, { maxTokens: 12 })
    const choice = all.engine.generate(asked).choices[0]!
    for await (const { kind } of choice) log.push(kind)
    // The prompt's step and the first reply token's are each alone; the last step but one has nobody behind it.
    expect(log.join(" ")).toBe(`step token step ${"step token ".repeat(10)}token end`)
    expect(chained(all.program)).toBe(10)
    all.isClean()
  },
)

test.each(ways)(
  "choices, seeds, log probabilities and company are as without, $name",
  async ({ setting }) => {
    const all = setUpChained({ ...setting, sequences: 6 })
    const sampling = { ...plain, temperature: 0.8, topP: 0.9, topLogprobs: 2, seed: 99n }
    await replies(all, [
      request(33, { choices: 3, maxTokens: 40, sampling }),
      request(9, { maxTokens: 25, sampling: { ...plain, logitBias: new Map([[3, 4]]) } }),
      request(70, { maxTokens: 33 }),
    ])
    expect(chained(all.program)).toBeGreaterThan(20)
    all.isClean()
  },
)

test.each(ways)(
  "a token that ends a reply is seen a step late: what was drawn behind it is nobody's, nor shared, $name",
  async ({ setting }) => {
    const all = setUpChained({ ...setting, sequences: 3 })
    const stopTokens = new Set([3, 17, 29, 40, 55])
    const asked = Array.from({ length: 9 }, () => request(14, { stopTokens, maxTokens: 90 }))
    const before = asked.map((each) => expectedReply(each, 0, all.expected))
    expect(before.filter(({ reason }) => reason === "stop").length).toBeGreaterThan(4)
    await replies(all, asked)
    expect(chained(all.program)).toBeGreaterThan(20)
    const drawn = before.reduce((sum, { tokens }) => sum + tokens.length, 0)
    expect(all.engine.stats()).toMatchObject({ replyTokens: drawn, recomputedTokens: 0 })
    const rows = all.program.steps.reduce((sum, { rows }) => sum + rows, 0)
    expect(rows).toBeGreaterThan(drawn + 4) // a stop token each, and what was drawn behind some
    // Whoever goes on behind what one of them said finds of it what was read, in blocks that hold what they are found by.
    await replies(
      all,
      asked.map((each, i) => {
        const prompt = Int32Array.from([...each.prompt, ...before[i]!.tokens, 1, 2, 3])
        return request(prompt.length, { prompt, maxTokens: 5 })
      }),
    )
    expect(all.engine.stats().cachedTokens).toBeGreaterThan(0)
    all.isClean()
  },
)

test("the last token of a reply has no step behind it", async () => {
  const all = setUpChained()
  await replies(all, [request(10, { maxTokens: 20 }), request(10, { maxTokens: 7 })])
  const rows = all.program.steps.reduce((sum, { rows }) => sum + rows, 0)
  expect(rows).toBe(27)
  all.isClean()
})

test("a reader's 256 unread tokens are 256", async () => {
  const all = setUpChained()
  const choice = all.engine.generate(request(5, { maxTokens: 1000 })).choices[0]!
  await turns(3000)
  expect(all.engine.stats()).toMatchObject({ running: 0, replyTokens: 256 })
  await choice.return!()
  all.isClean()
})

test.each<[string, Partial<GenerationRequest>]>([
  ["penalties", { sampling: { ...plain, repetitionPenalty: 1.2 } }],
  [
    "a constraint",
    { constraint: () => ({ mask: (into) => void into.fill(0xffffffff), accept: () => {} }) },
  ],
])("where one of them has %s nobody rides", async (_, changes) => {
  const all = setUpChained()
  const asked = [request(10, { maxTokens: 15 }), request(10, { maxTokens: 15, ...changes })]
  const read = await Promise.all(
    asked.map((each) => collect(all.engine.generate(each).choices[0]!)),
  )
  expect(read.map(({ tokens }) => tokens)).toEqual(
    asked.map((each) => expectedReply(each, 0).tokens),
  )
  expect(chained(all.program)).toBe(0)
  all.isClean()
})

test("who is held to the same tokens throughout rides, and all of them need one mask", async () => {
  const all = setUpChained({ chains: "drawn" })
  const always = new Uint32Array(3).fill(0xffff_ffff)
  always[0] = 0xffff_fff0 // none of the first four tokens
  const mask = (into: Uint32Array) => into.set(always)
  const masks: number[] = []
  all.program.before = ({ sampling }) => void masks.push(sampling.masks.length)
  const held = (changes: object) => ({ mask, accept: () => {}, ...changes })
  const replyOf = async (constraint: () => Constraint) => {
    const asked = [12, 9, 7].map((length) => {
      const prompt = Int32Array.from({ length }, (_, i) => (i * 31 + length) % VOCABULARY)
      return request(0, { prompt, maxTokens: 30, constraint })
    })
    const read = await Promise.all(
      asked.map((each) => collect(all.engine.generate(each).choices[0]!)),
    )
    return read.map(({ tokens }) => tokens)
  }
  const alone = await replyOf(() => held({}))
  expect(chained(all.program)).toBe(0)
  expect(Math.max(...masks.splice(0))).toBe(9)
  expect(await replyOf(() => held({ always }))).toEqual(alone)
  expect(chained(all.program)).toBeGreaterThan(20)
  expect(Math.max(...masks)).toBe(3)
  all.isClean()
})

test("nor where somebody drafts", async () => {
  const speculative = {
    mode: "lookup" as const,
    drafter: () => nobody,
    length: 0,
    room: 4,
  }
  const { engine, program, isClean } = setUpChained({ options: { speculative } })
  await collect(engine.generate(request(10)).choices[0]!)
  expect(program.steps.length).toBeGreaterThan(19)
  expect(chained(program)).toBe(0)
  isClean()
})

test("who comes joins the step behind the one that was handed over", async () => {
  const all = setUpChained()
  const long = collect(all.engine.generate(request(10, { maxTokens: 100 })).choices[0]!)
  await turns(60)
  const at = all.program.steps.length
  expect(all.program.steps.at(-1)!.isChained).toBe(true)
  const asked = request(10, { maxTokens: 5 })
  const { tokens } = await collect(all.engine.generate(asked).choices[0]!)
  expect(tokens).toEqual(expectedReply(asked, 0).tokens)
  expect(all.program.steps.slice(at).findIndex(({ sequences }) => sequences === 2)).toBeLessThan(2)
  await long
  all.isClean()
})

test("a step behind has nobody whom it would take a block from", async () => {
  const all = setUpChained({ blocks: 13, context: 200, sequences: 4 })
  await replies(
    all,
    Array.from({ length: 4 }, () => request(30, { maxTokens: 90 })),
  )
  expect(all.engine.stats().preemptions).toBeGreaterThan(0)
  expect(chained(all.program)).toBeGreaterThan(50)
  all.isClean()
})

test("nor a state", async () => {
  const all = setUpChained({ hasStates: true, states: 6, sequences: 2 })
  await replies(all, [request(20, { maxTokens: 60 }), request(26, { maxTokens: 90 })])
  // Each may keep what it left where a block ended, so that two do not ride, and one does.
  const ridden = all.program.steps.filter(({ isChained }) => isChained)
  expect(ridden.every(({ sequences }) => sequences === 1)).toBe(true)
  expect(ridden.length).toBeGreaterThan(20)
  expect(all.engine.stats()).toMatchObject({ preemptions: 0, recomputedTokens: 0 })
  expect(all.program.steps.reduce((sum, { rows }) => sum + rows, 0)).toBe(150) // none is taken again
  all.isClean()
})

test.each(ways)(
  "of two steps the one that fails is taken again, each of its sequences alone, and none behind it, $name",
  async ({ setting }) => {
    const all = setUpChained(setting)
    let calls = 0
    all.program.before = ({ drawnBy }) => {
      if (drawnBy && ++calls % 6 === 5) throw new Error("planted")
      return undefined
    }
    await replies(
      all,
      Array.from({ length: 3 }, () => request(12, { maxTokens: 40 })),
    )
    expect(calls).toBeGreaterThan(10)
    all.isClean()
  },
)

test.each(ways)(
  "who waits for a place comes as soon as a reply is long enough, $name",
  async ({ setting }) => {
    const all = setUpChained({ ...setting, sequences: 2 })
    const lengths = [20, 100, 5]
    const choices = lengths.map(
      (maxTokens) => all.engine.generate(request(10, { maxTokens })).choices[0]!,
    )
    const ended: number[] = []
    await Promise.all(
      choices.map(async (choice, i) => {
        await collect(choice)
        ended.push(i)
      }),
    )
    expect(ended).toEqual([0, 2, 1])
    expect(chained(all.program)).toBeGreaterThan(80)
    all.isClean()
  },
)

test.each(ways)("a row that is not finite costs its own sequence, $name", async ({ setting }) => {
  const all = setUpChained(setting)
  let calls = 0
  all.program.before = ({ drawnBy }) => (drawnBy && ++calls === 6 ? new Set([1]) : undefined)
  const asked = [10, 11, 12].map((length) => request(length, { maxTokens: 30 }))
  const read = await Promise.all(
    asked.map((each) => collect(all.engine.generate(each).choices[0]!)),
  )
  for (const [i, each] of asked.entries())
    if (i !== 1) expect(read[i]!.tokens).toEqual(expectedReply(each, 0, all.expected).tokens)
  expect(read[1]!.end).toMatchObject({ problem: { code: "generation_failed" } })
  expect(read[1]!.tokens.length).toBeLessThan(29)
  all.isClean()
})

test("when everybody has left both steps give up", async () => {
  const all = setUpChained({ turns: 50 })
  const leaving = new AbortController()
  const generation = all.engine.generate(request(10, { maxTokens: 100 }), leaving.signal)
  const choice = generation.choices[0]!
  for (let i = 0; i < 5; i++) await choice.next()
  leaving.abort()
  const before = all.program.steps.length
  await turns(20)
  await all.engine.drain()
  expect(all.program.steps.length - before).toBe(0)
  expect(all.program.steps.at(-1)).toMatchObject({ cancelled: true })
  all.isClean()
})

test.each(ways)(
  "in a storm of clients that leave every reply is what it is alone, $name",
  async ({ setting }) => {
    const all = setUpChained({ ...setting, sequences: 5, blocks: 40, context: 200, turns: 1 })
    let seed = 5
    const pick = (below: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      return (seed >>> 8) % below
    }
    await Promise.all(
      Array.from({ length: 12 }, async (_, client) => {
        for (let i = 0; i < 12; i++) {
          const stopTokens = new Set(pick(2) ? [pick(VOCABULARY)] : [])
          const asked = request(1 + pick(40), {
            maxTokens: 1 + pick(60),
            stopTokens,
            client: `c${client % 5}`,
            choices: 1 + pick(2),
            sampling: { ...plain, seed: BigInt(pick(100)), temperature: pick(2) },
          })
          const leaving = new AbortController()
          const generation = all.engine.generate(asked, leaving.signal)
          const most = pick(3) ? Number.POSITIVE_INFINITY : pick(40)
          await Promise.all(
            generation.choices.map(async (events, choice) => {
              const expected = expectedReply(asked, choice, all.expected)
              let read = 0
              for await (const event of events) {
                if (event.kind === "end") {
                  expect(event.reason).toBe(expected.reason)
                  expect(read).toBe(expected.tokens.length)
                  return
                }
                expect(event.token).toBe(expected.tokens[read])
                expect(event.logprob).toBe(expected.logprobs[read++])
                if (read > most) leaving.abort()
                if (pick(9) === 0) await turns(pick(12))
              }
            }),
          )
          all.engine.audit()
        }
      }),
    )
    await all.engine.drain()
    expect(chained(all.program)).toBeGreaterThan(30)
    all.isClean()
  },
)
