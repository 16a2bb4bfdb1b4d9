import { expect, onTestFinished, test, vi } from "vitest"
import { plain, request, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply, type HistoryProgram } from "../../test/history-program.ts"
import { type Problem, problem } from "../errors.ts"
import { ProgramLost } from "../runtime/program.ts"
import type { Constraint } from "./generation.ts"
import { chooseLimits, type Overrides } from "./limits.ts"
import { Trace } from "./trace.ts"

test("a request gets the tokens that its prompt, seed and choice decide, and all its blocks come back", async () => {
  const { engine, isClean } = setUp()
  const input = request(70)
  const generation = engine.generate(input)
  const { tokens, logprobs, end } = await collect(generation.choices[0]!)
  const expected = expectedReply(input, 0)
  expect(tokens).toEqual(expected.tokens)
  expect(logprobs).toEqual(expected.logprobs)
  expect(end).toEqual({ kind: "end", reason: "length" })
  expect(generation.promptTokens).toBe(70)
  isClean()
})

test("a drawn stop token ends the reply and is told in the end", async () => {
  const { engine, isClean } = setUp()
  const stopTokens = new Set(Array.from({ length: 8 }, (_, i) => i * 8))
  const input = request(20, { stopTokens, maxTokens: undefined })
  const { tokens, end } = await collect(engine.generate(input).choices[0]!)
  expect(tokens).toEqual(expectedReply(input, 0).tokens)
  expect(end).toMatchObject({ reason: "stop" })
  expect(stopTokens.has((end as { token: number }).token)).toBe(true)
  isClean()
})

test("the context is the longest a reply reaches; the prompt must leave room for one token", async () => {
  const { engine, isClean } = setUp({ context: 64 })
  const input = request(60, { maxTokens: undefined })
  const { tokens, end } = await collect(engine.generate(input).choices[0]!)
  expect(tokens.length).toBe(4)
  expect(end).toMatchObject({ reason: "length" })
  expect(() => engine.generate(request(64))).toThrow(/has 64 tokens.*at most 63/)
  expect((await collect(engine.generate(request(63)).choices[0]!)).tokens.length).toBe(1)
  isClean()
})

test("a prompt that is too long is told which limit bound it", () => {
  const refusal = (overrides: Overrides, available = 2 ** 30) => {
    const { manifest } = setUp({ context: 128 }).program
    const chosen = chooseLimits({
      mode: "local",
      overrides,
      traits: {
        stepTokens: 512,
        sequences: 128,
        drafts: 64,
      },
      manifest,
      available,
      weightBytes: 0,
      bufferBytes: () => 0,
    })
    const { engine } = setUp({ context: 128, options: { limits: chosen } })
    try {
      engine.generate(request(128))
    } catch (error) {
      return (error as Problem).message
    }
    return ""
  }
  expect(refusal({})).toContain("Shorten it; the model was made for no more.")
  expect(refusal({ context_window_size: 64 })).toMatch(
    /at most 63,.*larger .*"context_window_size=…"/,
  )
  expect(refusal({ max_total_seq_length: 64 })).toMatch(/at most 63,.*"max_total_seq_length=…"/)
  expect(refusal({}, 4 * 64)).toMatch(/at most 63,.*give the server more memory/)
})

test("top logprobs come as many as were asked, best first", async () => {
  const { engine } = setUp()
  const input = request(5, { maxTokens: 1, sampling: { ...plain, topLogprobs: 3 } })
  const first = await engine.generate(input).choices[0]!.next()
  const { top } = first.value as { top: { logprob: number }[] }
  expect(top.length).toBe(3)
  expect(top.map((each) => each.logprob)).toEqual(
    top.map((each) => each.logprob).sort((a, b) => b - a),
  )
})

test("requests that come together share steps, a later one joins the next", async () => {
  const { engine, program, isClean } = setUp({ turns: 1 })
  const first = [request(10), request(10), request(10)]
  const running = first.map((asked) => collect(engine.generate(asked).choices[0]!))
  await turns(20)
  const late = request(10)
  const last = collect(engine.generate(late).choices[0]!)
  const replies = await Promise.all([...running, last])
  for (const [i, asked] of [...first, late].entries()) {
    expect(replies[i]!.tokens).toEqual(expectedReply(asked, 0).tokens)
  }
  expect(program.steps.some(({ rows }) => rows === 4)).toBe(true)
  expect(program.steps.length).toBeLessThan(40)
  isClean()
})

test("one more than there are places waits until one leaves", async () => {
  const { engine, program, isClean } = setUp({ sequences: 1 })
  const inputs = [request(10), request(10)]
  const generations = inputs.map((each) => engine.generate(each))
  await generations[0]!.choices[0]!.next()
  expect(engine.stats()).toMatchObject({ running: 1, waiting: 1 })
  const replies = await Promise.all(generations.map(({ choices }) => collect(choices[0]!)))
  expect(replies[1]!.tokens).toEqual(expectedReply(inputs[1]!, 0).tokens)
  expect(program.steps.every(({ sequences }) => sequences === 1)).toBe(true)
  isClean()
})

test("choices share one prefill and the prompt's blocks, each with noise of its own", async () => {
  const { engine, program, isClean } = setUp()
  const input = request(40, { choices: 3 })
  const generation = engine.generate(input)
  const replies = await Promise.all(generation.choices.map(collect))
  for (const [choice, reply] of replies.entries()) {
    expect(reply.tokens).toEqual(expectedReply(input, choice).tokens)
  }
  expect(new Set(replies.map(({ tokens }) => tokens.join())).size).toBe(3)
  expect(engine.stats()).toMatchObject({ promptTokens: 40, replyTokens: 60, recomputedTokens: 2 })
  expect(program.copies).toBe(2) // the last block is half full: copied for all but one
  expect(generation.cachedTokens).toBe(0)
  isClean()
})

test("more choices than places are served in turns", async () => {
  const { engine, isClean } = setUp({ sequences: 2 })
  const input = request(33, { choices: 7 })
  const replies = await Promise.all(engine.generate(input).choices.map(collect))
  for (const [choice, reply] of replies.entries()) {
    expect(reply.tokens).toEqual(expectedReply(input, choice).tokens)
  }
  isClean()
})

test("leaving a choice frees its blocks within one step and leaves its siblings alone", async () => {
  const { engine, isClean } = setUp()
  const input = request(40, { choices: 2 })
  const [left, kept] = engine.generate(input).choices
  await left!.next()
  await left!.return!()
  expect((await left!.next()).done).toBe(true)
  expect((await collect(kept!)).tokens).toEqual(expectedReply(input, 1).tokens)
  isClean()
})

test("a step that has nobody left is cancelled", async () => {
  const { engine, program, isClean } = setUp({ turns: 1000 })
  const controller = new AbortController()
  const { choices } = engine.generate(request(60), controller.signal)
  const next = choices[0]!.next()
  await turns(5)
  expect(program.steps.length).toBe(1)
  controller.abort()
  expect((await next).done).toBe(true)
  await turns(5)
  expect(program.steps[0]!.cancelled).toBe(true)
  isClean()
})

test("who leaves a step that others share is gone when it ends, and costs them nothing", async () => {
  const { engine, program, isClean } = setUp({ turns: 10 })
  const input = request(10)
  const stays = collect(engine.generate(input).choices[0]!)
  const leaves = engine.generate(request(10)).choices[0]!
  await leaves.next()
  await turns(3) // within a step
  await leaves.return!()
  expect((await stays).tokens).toEqual(expectedReply(input, 0).tokens)
  expect(program.steps.some(({ cancelled }) => cancelled)).toBe(false)
  isClean()
})

test("a signal ends requests that wait, and one that is aborted before it starts", async () => {
  const { engine, isClean } = setUp({ sequences: 1 })
  const controller = new AbortController()
  const running = collect(engine.generate(request(10)).choices[0]!)
  const waiting = engine.generate(request(10), controller.signal).choices[0]!.next()
  controller.abort()
  expect((await waiting).done).toBe(true)
  expect(() => engine.generate(request(10), controller.signal)).toThrow(/abort/)
  await running
  isClean()
})

test("a step that throws fails the sequences in it and nobody after", async () => {
  const { engine, program, isClean } = setUp()
  program.before = () => {
    if (program.steps.length === 2) throw new Error("the device is gone")
    return undefined
  }
  const failed = await Promise.all(
    engine.generate(request(10, { choices: 2 })).choices.map(collect),
  )
  for (const { end } of failed) {
    expect(end).toMatchObject({ reason: "error", problem: { code: "generation_failed" } })
    expect((end as { problem: Problem }).problem.message).toMatch(/the device is gone/)
  }
  program.before = () => undefined
  const input = request(10)
  expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(
    expectedReply(input, 0).tokens,
  )
  isClean()
})

test("a step that finds no memory fails its sequences in words for clients, though they are those of a start", async () => {
  const { engine, program } = setUp()
  program.before = () => {
    throw problem("memory_refused", { what: "12 MiB on a GPU" })
  }
  const { end } = await collect(engine.generate(request(10)).choices[0]!)
  const told = { code: "generation_failed", status: 500 }
  expect(end).toMatchObject({ reason: "error", problem: told })
  expect((end as { problem: Problem }).problem.message).toMatch(/no memory for 12 MiB on a GPU/)
})

test("of a step that throws only the sequence to blame fails", async () => {
  const { engine, program, isClean } = setUp()
  const bad = request(30, { maxTokens: 50 })
  const poison = bad.prompt[29]!
  let thrown = 0
  program.before = ({ tokens, positions }) => {
    if (!tokens.some((token, i) => positions[i] === 29 && token === poison)) return undefined
    thrown++
    throw new Error("this one hurts")
  }
  const good = [request(20), request(64), request(10, { choices: 2 })]
  const replies = good.flatMap((each) => engine.generate(each).choices.map(collect))
  const failed = await collect(engine.generate(bad).choices[0]!)
  expect(failed.end).toMatchObject({ reason: "error", problem: { code: "generation_failed" } })
  const [first, second, ...third] = await Promise.all(replies)
  expect(first!.tokens).toEqual(expectedReply(good[0]!, 0).tokens)
  expect(second!.tokens).toEqual(expectedReply(good[1]!, 0).tokens)
  for (const [choice, { tokens }] of third.entries()) {
    expect(tokens).toEqual(expectedReply(good[2]!, choice).tokens)
  }
  expect(thrown).toBe(2) // in company, and alone
  expect(engine.stats().failures).toBe(1)
  isClean()
})

test("an empty prompt is refused, and one that is nothing but its only token is not", async () => {
  const { engine, isClean } = setUp()
  expect(() => engine.generate(request(0))).toThrow("prompt must hold at least one token.")
  expect((await collect(engine.generate(request(1)).choices[0]!)).tokens.length).toBe(20)
  isClean()
})

test("numbers that are not finite fail their own sequence and never enter the cache", async () => {
  const { engine, program, isClean } = setUp()
  const inputs = [request(40), request(40)]
  program.before = (input) => {
    const row = input.logitRows.findIndex(
      (at) => input.positions[at] === 39 && input.tokens[at] === inputs[0]!.prompt[39],
    )
    return row < 0 ? undefined : new Set([row])
  }
  const replies = await Promise.all(
    inputs.map((each) => collect(engine.generate(each).choices[0]!)),
  )
  expect(replies[0]!.end).toMatchObject({ problem: { code: "generation_failed" } })
  expect(replies[1]!.tokens).toEqual(expectedReply(inputs[1]!, 0).tokens)
  program.before = () => undefined
  const again = engine.generate(inputs[0]!)
  expect((await collect(again.choices[0]!)).tokens).toEqual(expectedReply(inputs[0]!, 0).tokens)
  expect(again.cachedTokens).toBe(0)
  isClean()
})

/** Allows even and odd tokens in turns. */
function alternating(): Constraint {
  let odd = 0
  return {
    mask(into) {
      into.fill(odd ? 0xaaaaaaaa : 0x55555555)
    },
    accept(token) {
      if (token % 2 !== odd) throw new Error(`${token} was not allowed`)
      odd = 1 - odd
    },
  }
}

test("a constraint decides which tokens come; one that breaks costs its own sequence", async () => {
  const { engine, isClean } = setUp()
  const held = engine.generate(request(10, { constraint: alternating }))
  const free = request(10)
  const stuck = () => ({ mask: (into: Uint32Array) => into.fill(0), accept: () => {} })
  const [first, second, third] = await Promise.all([
    collect(held.choices[0]!),
    collect(engine.generate(free).choices[0]!),
    collect(engine.generate(request(10, { constraint: stuck })).choices[0]!),
  ])
  expect(first.tokens.map((token) => token % 2)).toEqual(first.tokens.map((_, i) => i % 2))
  expect(first.tokens.length).toBe(20)
  expect(second.tokens).toEqual(expectedReply(free, 0).tokens)
  expect((third.end as { problem: Problem }).problem.message).toMatch(/allows no token/)
  isClean()
})

test("penalties and biases reach the rows", async () => {
  const { engine, isClean } = setUp()
  const sampling = {
    ...plain,
    presencePenalty: 0.5,
    frequencyPenalty: 1.5,
    repetitionPenalty: 1.2,
    logitBias: new Map([
      [3, 4],
      [9, -100],
    ]),
  }
  const inputs = [request(10, { sampling }), request(11), request(12, { sampling })]
  const replies = await Promise.all(
    inputs.map((each) => collect(engine.generate(each).choices[0]!)),
  )
  for (const [i, each] of inputs.entries()) {
    expect(replies[i]!.tokens).toEqual(expectedReply(each, 0).tokens)
  }
  isClean()
})

test("long prompts come in chunks, and others go on meanwhile", async () => {
  const { engine, program, isClean } = setUp({ tokens: 40, chunk: 24 })
  const short = request(5, { maxTokens: 30 })
  const long = request(300)
  const replies = await Promise.all(
    [short, long].map((each) => collect(engine.generate(each).choices[0]!)),
  )
  expect(replies[0]!.tokens).toEqual(expectedReply(short, 0).tokens)
  expect(replies[1]!.tokens).toEqual(expectedReply(long, 0).tokens)
  expect(program.steps.some(({ chunks }) => chunks.join() === "1,24")).toBe(true)
  expect(Math.max(...program.steps.flatMap(({ chunks }) => chunks))).toBe(24)
  isClean()
})

test("when blocks run out the last to come is put back and computed again: no token is lost", async () => {
  const { engine, isClean } = setUp({ blocks: 24 })
  const inputs = Array.from({ length: 4 }, () => request(30, { maxTokens: 150 }))
  const replies = await Promise.all(
    inputs.map((each) => collect(engine.generate(each).choices[0]!)),
  )
  for (const [i, each] of inputs.entries()) {
    expect(replies[i]!.tokens).toEqual(expectedReply(each, 0).tokens)
  }
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  isClean()
})

test("an older prompt takes the blocks of a younger reply that was to be in the same step", async () => {
  const { engine, program, isClean } = setUp({ blocks: 13, chunk: 1 })
  const inputs = [request(125), request(1, { maxTokens: 150 })]
  const replies = await Promise.all(
    inputs.map((each) => collect(engine.generate(each).choices[0]!)),
  )
  for (const [i, each] of inputs.entries()) {
    expect(replies[i]!.tokens).toEqual(expectedReply(each, 0).tokens)
  }
  expect(engine.stats().preemptions).toBe(1)
  expect(program.steps.every(({ chunks }) => chunks.every((chunk) => chunk === 1))).toBe(true)
  isClean()
})

test("what stands beside a reply's rows is told of each of its tokens that is read, also once more", async () => {
  const setting = { blocks: 24, beside: "given", chains: "drawn" } as const
  const { engine, isClean } = setUp(setting)
  const told = [0, 1, 2, 3].map(() => new Map<number, number[]>())
  const generations = told.map((rows, i) => {
    const readGiven = (given: Float32Array, from: number) => {
      for (let at = 0; at < given.length; at += 2)
        rows.set(from + at / 2, [...given.subarray(at, at + 2)])
    }
    return engine.generate(request(30 + i, { maxTokens: 150, readGiven }))
  })
  const replies = await Promise.all(generations.map(({ choices }) => collect(choices[0]!)))
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  for (const [i, { tokens }] of replies.entries()) {
    const read = tokens.slice(0, -1) // the last is drawn, and not read
    const beside = read.map((token, at) => [30 + i + at, [-1 - (30 + i + at), -1 - token]])
    expect([...told[i]!].sort(([a], [b]) => a - b)).toEqual(beside)
  }
  isClean()
})

test("a reader that lags is paused, gives up its place and, when others need them, its blocks", async () => {
  const { engine, isClean } = setUp({ sequences: 1, blocks: 64 })
  const slow = request(100, { maxTokens: 600 })
  const reply = engine.generate(slow).choices[0]!
  await turns(2000)
  const held = engine.stats()
  expect(held).toMatchObject({ running: 0, replyTokens: 256 })
  expect(held.blocksUsed).toBeGreaterThan(20)
  const big = request(900)
  expect((await collect(engine.generate(big).choices[0]!)).tokens).toEqual(
    expectedReply(big, 0).tokens,
  )
  expect(engine.stats().blocksUsed).toBe(0)
  expect((await collect(reply)).tokens).toEqual(expectedReply(slow, 0).tokens)
  isClean()
})

test("who waits with a prefix in hand does not block who runs", async () => {
  const { engine, program, isClean } = setUp({ sequences: 2, blocks: 40 })
  const old = request(160, { maxTokens: 300 })
  const paused = engine.generate(old).choices[0]!
  await turns(400)
  const young = request(200, { maxTokens: 400 })
  const running = collect(engine.generate(young).choices[0]!)
  await turns(100)
  const resumed = collect(paused) // takes over its prompt again, and lacks blocks for the rest
  expect((await running).tokens).toEqual(expectedReply(young, 0).tokens)
  expect((await resumed).tokens).toEqual(expectedReply(old, 0).tokens)
  expect(program.steps.some(({ sequences }) => sequences === 2)).toBe(false)
  isClean()
})

test("a full queue refuses", async () => {
  const { engine, isClean } = setUp({ sequences: 2, options: { maxQueue: 3 } })
  const replies = Array.from({ length: 5 }, () => collect(engine.generate(request(5)).choices[0]!))
  expect(() => engine.generate(request(5))).toThrow(/3 requests are waiting/)
  await Promise.all(replies)
  replies.push(collect(engine.generate(request(5)).choices[0]!))
  await Promise.all(replies)
  isClean()
})

test("a request that takes too long is told so, running or waiting", async () => {
  const { engine, isClean } = setUp({ sequences: 1, options: { requestTimeout: 10 } })
  const ends = await Promise.all(
    [request(5), request(5)].map((each) => collect(engine.generate(each).choices[0]!)),
  )
  expect(ends[0]!.tokens.length).toBe(10)
  for (const { end } of ends) expect(end).toMatchObject({ problem: { code: "request_timeout" } })
  isClean()
})

test("what a request has waited before is of its time: it may be over before one that came earlier", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  onTestFinished(() => void vi.useRealTimers())
  const setting = { sequences: 1, turns: 1e6, options: { requestTimeout: 10_000 } }
  const { engine, program, isClean } = setUp(setting)
  const first = collect(engine.generate(request(5)).choices[0]!)
  const second = collect(engine.generate({ ...request(5), waited: 9_000 }).choices[0]!)
  await turns(5)
  program.clock = 1_000
  vi.advanceTimersByTime(1_000)
  expect((await second).end).toMatchObject({ problem: { code: "request_timeout" } })
  expect(engine.stats()).toMatchObject({ running: 1 })
  program.clock = 10_000
  vi.advanceTimersByTime(9_000)
  expect((await first).end).toMatchObject({ problem: { code: "request_timeout" } })
  await engine.drain()
  isClean()
})

test("a request that takes too long is told so while a step still runs, and the step gives up", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  onTestFinished(() => void vi.useRealTimers())
  const setting = { sequences: 1, turns: 1e6, options: { requestTimeout: 10_000 } }
  const { engine, program, isClean } = setUp(setting)
  const ends = [request(5), request(5)].map((each) => collect(engine.generate(each).choices[0]!))
  await turns(5)
  program.clock = 10_000
  vi.advanceTimersByTime(10_000)
  for (const { tokens, end } of await Promise.all(ends)) {
    expect(tokens).toEqual([])
    expect(end).toMatchObject({ problem: { code: "request_timeout" } })
  }
  await engine.drain()
  expect(program.steps).toMatchObject([{ cancelled: true }])
  isClean()
})

/** Resolves when no more steps are taken. */
async function untilStill({ steps }: HistoryProgram): Promise<void> {
  for (let before = -1; before !== steps.length; ) {
    before = steps.length
    await turns(20)
  }
}

test("a request whose reader has paused is over in time, too, though no step is taken any more", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  onTestFinished(() => void vi.useRealTimers())
  const { engine, program, isClean } = setUp({ options: { requestTimeout: 10_000 } })
  const generation = engine.generate(request(5, { maxTokens: 1000 }))
  await untilStill(program)
  expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 17 })
  const left = 10_000 - program.clock
  program.clock = 10_000
  vi.advanceTimersByTime(left)
  await turns(5)
  expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 })
  const { tokens, end } = await collect(generation.choices[0]!)
  expect(tokens.length).toBe(256)
  expect(end).toMatchObject({ problem: { code: "request_timeout" } })
  isClean()
})

test("tokens that a reader had no use for count as unread, even if all had been said", async () => {
  const trace = new Trace()
  const { engine, isClean } = setUp({ options: { trace } })
  const [early, late] = engine.generate(request(5, { choices: 2 })).choices
  for (let i = 0; i < 6; i++) await early!.next()
  await early!.return!(4)
  await collect(late!)
  await late!.return!(17)
  const sum = (count: string) =>
    trace
      .toJSON()
      .traceEvents.filter(({ name }) => name === "reply" || name === "left")
      .reduce((total, { args }) => total + Number(args[count] ?? 0), 0)
  expect(sum("reply") - sum("unread")).toBe(4 + 17)
  isClean()
})

test("closing ends what runs, within a step, and closes the program after it", async () => {
  const { engine, program, isClean } = setUp({ turns: 1000 })
  const reply = collect(engine.generate(request(20)).choices[0]!)
  await turns(5)
  await engine.close()
  expect(program.closed).toBe(true)
  expect((await reply).end).toMatchObject({ problem: { code: "server_closing" } })
  expect(() => engine.generate(request(5))).toThrow(/shutting down/)
  isClean()
})

test("draining refuses new requests and waits for the old", async () => {
  const { engine, isClean } = setUp()
  const input = request(5)
  const reply = collect(engine.generate(input).choices[0]!)
  const drained = engine.drain()
  expect(() => engine.generate(request(5))).toThrow(/shutting down/)
  await drained
  expect((await reply).tokens).toEqual(expectedReply(input, 0).tokens)
  await engine.drain()
  isClean()
})

test("the event loop breathes although the program never waits", async () => {
  const { engine, program } = setUp()
  const seen: number[] = [] // breaths before each step
  let breaths = 0
  const breathe = () => {
    breaths++
    next = setImmediate(breathe)
  }
  let next = setImmediate(breathe)
  program.before = () => void seen.push(breaths)
  await collect(engine.generate(request(5, { maxTokens: 400 })).choices[0]!)
  clearImmediate(next)
  expect(seen.length).toBeGreaterThan(300)
  for (const [step, before] of seen.slice(0, -1).entries())
    expect(seen[step + 1]).toBeGreaterThan(before)
})

test("a program that is lost ends everybody with one sentence, and is asked for no other step", async () => {
  const onLost = vi.fn()
  const { engine, program, isClean } = setUp({ sequences: 2, options: { onLost } })
  const all = [request(20), request(30), request(10)].map((each) => engine.generate(each))
  await all[0]!.choices[0]!.next()
  const step = vi.spyOn(program, "step").mockRejectedValue(new ProgramLost("it fell off the bus"))
  for (const { choices } of all) {
    const { end } = await collect(choices[0]!)
    expect(end).toMatchObject({ reason: "error", problem: { code: "program_lost", status: 503 } })
  }
  expect(step).toHaveBeenCalledTimes(1)
  expect(onLost).toHaveBeenCalledTimes(1)
  expect(() => engine.generate(request(5))).toThrow(/lost .*it fell off the bus.*the next one/)
  await engine.drain()
  isClean()
  await engine.close()
})
