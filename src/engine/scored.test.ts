// Prompts whose own log probabilities are told.

import { expect, test } from "vitest"
import { plain, request, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply, expectedScores } from "../../test/history-program.ts"
import type { Engine } from "./engine.ts"
import type { GenerationEvent, GenerationRequest } from "./generation.ts"

/** What is told of the prompt's tokens, read when the choice is over. */
async function toldOf(asked: GenerationRequest, engine: Engine) {
  const generation = engine.generate(asked)
  const reply = await collect(generation.choices[0]!)
  return { ...reply, scored: [...generation.scores!.logprobs] }
}

const scored = (length: number, changes = {}) => request(length, { scorePrompt: true, ...changes })

test("every token but the first is told once, before the reply, whatever the chunks and rows", async () => {
  const input = scored(70, { sampling: { ...plain, topLogprobs: 2 } })
  const expected = expectedScores(input)
  const results = []
  for (const [chunk, sequences] of [
    [64, 4],
    [64, 1],
    [5, 3],
  ] as const) {
    const { engine, isClean } = setUp({ chunk, sequences })
    const reply = await toldOf(input, engine)
    expect(reply.scored.length).toBe(expected.length)
    for (const [i, logprob] of reply.scored.entries()) expect(logprob).toBeCloseTo(expected[i]!, 4)
    expect(reply.tokens).toEqual(expectedReply(input, 0).tokens)
    results.push(reply.scored)
    isClean()
  }
  expect(results[1]).toEqual(results[0])
  expect(results[2]).toEqual(results[0])
})

test("bias, penalties and temperature do not reach what is told of the prompt", async () => {
  const { engine } = setUp()
  const input = scored(20)
  const odd = {
    ...plain,
    temperature: 2,
    topK: 1,
    repetitionPenalty: 2,
    logitBias: new Map([[input.prompt[3]!, -100]]),
  }
  const replies = [input, { ...input, sampling: odd }].map((each) => toldOf(each, engine))
  const [usual, biased] = await Promise.all(replies)
  expect(biased!.scored).toEqual(usual!.scored)
})

test("a prefix that is known is computed once more where it must be scored, and not where it need not", async () => {
  const { engine, isClean } = setUp()
  const input = request(60)
  await collect(engine.generate(input).choices[0]!)
  const again = engine.generate({ ...input, scorePrompt: true })
  await collect(again.choices[0]!)
  expect(again.scores!.logprobs.length).toBe(59)
  expect(again.cachedTokens).toBe(0)
  const third = engine.generate(input)
  await collect(third.choices[0]!)
  expect(third.cachedTokens).toBe(48)
  isClean()
})

test("all choices share what is told, though one of them computes it, and goes before it is done", async () => {
  const { engine, isClean } = setUp({ chunk: 7, sequences: 2 })
  const input = scored(40, { choices: 3 })
  const generation = engine.generate(input)
  const [first, ...others] = generation.choices
  const next = first!.next()
  await turns(3)
  await first!.return?.()
  await next
  for (const [i, reply] of (await Promise.all(others.map(collect))).entries()) {
    expect(reply.tokens).toEqual(expectedReply(input, i + 1).tokens)
  }
  const expected = expectedScores(input)
  for (const [i, told] of generation.scores!.logprobs.entries())
    expect(told).toBeCloseTo(expected[i]!, 4)
  isClean()
})

test("alternatives are told of the prompt as they are of a reply, and cost the same for 1 choice and 128", async () => {
  const { engine, isClean } = setUp({ sequences: 3 })
  const sampling = { ...plain, temperature: 0, topLogprobs: 4 }
  const short = request(20, { sampling, maxTokens: 6 })
  const reply: GenerationEvent[] = []
  for await (const event of engine.generate(short).choices[0]!) reply.push(event)
  const written = reply.flatMap((event) => (event.kind === "token" ? [event] : []))
  const prompt = Int32Array.of(...short.prompt, ...written.map(({ token }) => token))
  for (const choices of [1, 128]) {
    const input = { ...short, prompt, choices, maxTokens: 0, scorePrompt: true }
    const generation = engine.generate(input)
    const events = await Promise.all(generation.choices.map(eventsOf))
    expect(new Set(events.map(({ length }) => length))).toEqual(new Set([1]))
    const { top, logprobs, topTokens, topLogprobs } = generation.scores!
    const bytes = logprobs.byteLength + topTokens.byteLength + topLogprobs.byteLength
    expect(bytes).toBe((prompt.length - 1) * (1 + 2 * 4) * 4)
    for (const [i, event] of written.entries()) {
      const at = short.prompt.length - 1 + i
      expect(logprobs[at]).toBe(event.logprob)
      const tokens = event.top.map(({ token }) => token)
      expect([...topTokens.subarray(at * top, (at + 1) * top)]).toEqual(tokens)
      const values = event.top.map(({ logprob }) => logprob)
      expect([...topLogprobs.subarray(at * top, (at + 1) * top)]).toEqual(values)
    }
  }
  isClean()
})

async function eventsOf(choice: AsyncIterable<GenerationEvent>): Promise<GenerationEvent[]> {
  const events: GenerationEvent[] = []
  for await (const event of choice) events.push(event)
  return events
}

test("with room for no reply the prompt is only read, up to the whole context", async () => {
  const { engine, isClean } = setUp({ context: 64 })
  const { scored: told, tokens, end } = await toldOf(scored(64, { maxTokens: 0 }), engine)
  expect(told.length).toBe(63)
  expect(tokens).toEqual([])
  expect(end).toMatchObject({ kind: "end", reason: "length" })
  expect(() => engine.generate(scored(65, { maxTokens: 0 }))).toThrow(/at most 64/)
  isClean()
})

test("a prompt that is scored leaves the others in the step their rows", async () => {
  const { engine, program, isClean } = setUp({ sequences: 3 })
  const inputs = [request(10), scored(50), scored(30)]
  const generations = inputs.map((each) => engine.generate(each))
  await Promise.all(generations.map(({ choices }) => collect(choices[0]!)))
  expect(generations.map(({ scores }) => scores?.logprobs.length)).toEqual([undefined, 49, 29])
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
