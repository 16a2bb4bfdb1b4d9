// Prompts whose own log probabilities are told.

import { expect, test } from "vitest"
import { plain, request, setUp } from "../../test/history-engine.ts"
import { collect, expectedReply, expectedScores } from "../../test/history-program.ts"

const scored = (length: number, changes = {}) => request(length, { scorePrompt: true, ...changes })

test("every token but the first is told once, before the reply, whatever the chunks and rows", async () => {
  const asked = scored(70, { sampling: { ...plain, topLogprobs: 2 } })
  const expected = expectedScores(asked)
  const told = []
  for (const [chunk, sequences] of [
    [64, 4],
    [64, 1],
    [5, 3],
  ] as const) {
    const { engine, isClean } = setUp({ chunk, sequences })
    const reply = await collect(engine.generate(asked).choices[0]!)
    expect(reply.scored.map(({ token }) => token)).toEqual([...asked.prompt.subarray(1)])
    for (const [i, { logprob }] of reply.scored.entries())
      expect(logprob).toBeCloseTo(expected[i]!, 4)
    expect(reply.tokens).toEqual(expectedReply(asked, 0).tokens)
    told.push(reply.scored)
    isClean()
  }
  expect(told[1]).toEqual(told[0])
  expect(told[2]).toEqual(told[0])
})

test("bias, penalties and temperature do not reach what is told of the prompt", async () => {
  const { engine } = setUp()
  const asked = scored(20)
  const odd = {
    ...plain,
    temperature: 2,
    topK: 1,
    repetitionPenalty: 2,
    logitBias: new Map([[asked.prompt[3]!, -100]]),
  }
  const replies = [asked, { ...asked, sampling: odd }].map((each) =>
    collect(engine.generate(each).choices[0]!),
  )
  const [usual, biased] = await Promise.all(replies)
  expect(biased!.scored).toEqual(usual!.scored)
})

test("a prefix that is known is computed once more where it must be scored, and not where it need not", async () => {
  const { engine, isClean } = setUp()
  const asked = request(60)
  await collect(engine.generate(asked).choices[0]!)
  const again = engine.generate({ ...asked, scorePrompt: true })
  expect((await collect(again.choices[0]!)).scored.length).toBe(59)
  expect(again.cachedTokens).toBe(0)
  const third = engine.generate(asked)
  await collect(third.choices[0]!)
  expect(third.cachedTokens).toBe(48)
  isClean()
})

test("all choices are told, though one of them computes it, and goes before it is done", async () => {
  const { engine, isClean } = setUp({ chunk: 7, sequences: 2 })
  const asked = scored(40, { choices: 3 })
  const [first, ...others] = engine.generate(asked).choices
  await first!.next()
  await first!.return?.()
  for (const [i, reply] of (await Promise.all(others.map(collect))).entries()) {
    expect(reply.scored.map(({ token }) => token)).toEqual([...asked.prompt.subarray(1)])
    expect(reply.tokens).toEqual(expectedReply(asked, i + 1).tokens)
  }
  isClean()
})

test("with room for no reply the prompt is only read, up to the whole context", async () => {
  const { engine, isClean } = setUp({ context: 64 })
  const {
    scored: told,
    tokens,
    end,
  } = await collect(engine.generate(scored(64, { maxTokens: 0 })).choices[0]!)
  expect(told.length).toBe(63)
  expect(tokens).toEqual([])
  expect(end).toMatchObject({ kind: "end", reason: "length" })
  expect(() => engine.generate(scored(65, { maxTokens: 0 }))).toThrow(/at most 64/)
  isClean()
})

test("a prompt that is scored leaves the others in the step their rows", async () => {
  const { engine, program, isClean } = setUp({ sequences: 3 })
  const asked = [request(10), scored(50), scored(30)]
  const replies = await Promise.all(asked.map((each) => collect(engine.generate(each).choices[0]!)))
  expect(replies.map(({ scored: { length } }) => length)).toEqual([0, 49, 29])
  expect(Math.max(...program.steps.map(({ rows }) => rows))).toBe(3)
  isClean()
})

test("a number that is not finite fails its own sequence", async () => {
  const { engine, program, isClean } = setUp()
  program.before = () => new Set([0])
  const { end } = await collect(engine.generate(scored(20)).choices[0]!)
  expect(end).toMatchObject({ reason: "error", problem: { code: "generation_failed" } })
  isClean()
})
