// Completions that begin with their prompt, and how likely the model thought it: what evaluation harnesses ask for.

import { expect, test } from "vitest"
import { ask, messages, post, server } from "./server.ts"

const tiny = server()
const complete = (body: object) => ask(tiny, "/v1/completions", { temperature: 0, ...body })
const idsOf = async (prompt: string): Promise<number[]> =>
  (await ask(tiny, "/tokenize", { prompt })).tokens

const TEXT = "Hello! Où est le 🦊? How can I help you?"

test("every token of the prompt is told, the first with nothing, and then those of the reply", async () => {
  const prompt = await idsOf(TEXT)
  const body = { prompt, echo: true, logprobs: 3, max_tokens: 4, ignore_eos: true }
  const [choice] = (await complete(body)).choices
  const { tokens, token_logprobs, top_logprobs, text_offset } = choice.logprobs
  expect(choice.text.startsWith(TEXT)).toBe(true)
  for (const list of [token_logprobs, top_logprobs, text_offset]) {
    expect(list.length).toBe(tokens.length)
  }
  expect(tokens.length).toBe(prompt.length + 4)
  expect([token_logprobs[0], top_logprobs[0], text_offset[0]]).toEqual([null, null, 0])
  for (const [i, alternatives] of top_logprobs.entries()) {
    if (i === 0) continue
    expect(alternatives[tokens[i]]).toBe(token_logprobs[i])
    expect(Object.keys(alternatives).length).toBeGreaterThanOrEqual(3)
    // The likeliest first: but a JavaScript object has names that are numbers before all others.
    const values = Object.entries<number>(alternatives)
      .filter(([token]) => !/^\d+$/.test(token))
      .map(([, value]) => value)
    expect(Math.max(...values)).toBe(values[0])
  }
  const letters = [...choice.text]
  const whole = tokens.map((token: string) => !token.startsWith("bytes:"))
  for (const [i, token] of tokens.slice(0, prompt.length).entries()) {
    const at = text_offset[i]
    if (whole[i]) expect(letters.slice(at, at + [...token].length).join("")).toBe(token)
    else expect(letters[at]).toMatch(/[ù🦊]/u)
  }
})

test("told of a prompt is what is told when the same tokens are the reply", async () => {
  const { tokens: prompt } = await ask(tiny, "/tokenize", { messages })
  const { choices } = await complete({ prompt, logprobs: 5, max_tokens: 5 })
  const reply = choices[0].logprobs
  const ids = (await Promise.all(reply.tokens.map(idsOf))).flat()
  expect(ids.length).toBe(reply.tokens.length)
  const told = await complete({
    prompt: [...prompt, ...ids],
    echo: true,
    logprobs: 5,
    max_tokens: 0,
  })
  const { token_logprobs, top_logprobs } = told.choices[0].logprobs
  expect(token_logprobs.slice(prompt.length)).toEqual(reply.token_logprobs)
  expect(top_logprobs.slice(prompt.length)).toEqual(reply.top_logprobs)
  expect(told.choices[0].finish_reason).toBe("length")
  expect(told.usage.prompt_tokens).toBe(prompt.length + ids.length)
  expect(told.usage.completion_tokens).toBe(0)
})

test("alone, in a crowd, cold or remembered: the same bits", async () => {
  const prompts = await Promise.all([TEXT, `${TEXT} And you?`, "The fox"].map(idsOf))
  const body = { echo: true, logprobs: 1, max_tokens: 1 }
  const alone = []
  for (const prompt of prompts)
    alone.push((await complete({ ...body, prompt })).choices[0].logprobs)
  const together = (await complete({ ...body, prompt: prompts })).choices
  expect(together.map(({ logprobs }: { logprobs: unknown }) => logprobs)).toEqual(alone)
  const twice = await complete({ ...body, prompt: prompts[1], n: 2 })
  for (const { logprobs } of twice.choices) expect(logprobs).toEqual(alone[1])
})

test("the token that ends the reply is told, too, so that a harness finds what it counts on", async () => {
  const { tokens: prompt } = await ask(tiny, "/tokenize", {
    messages: [{ role: "user", content: "Hello!" }],
  })
  const bias = { 2: 100 } // the end of a turn
  const body = { prompt, echo: true, logprobs: 1, max_tokens: 1, logit_bias: bias }
  const [choice] = (await complete(body)).choices
  expect(choice.finish_reason).toBe("stop")
  expect(choice.logprobs.tokens.length).toBe(prompt.length + 1)
  expect(choice.logprobs.tokens.at(-1)).toBe("<|im_end|>")
  expect(choice.logprobs.text_offset.at(-1)).toBe([...choice.text].length)
})

test("streams begin with the whole prompt and add up to the whole answer", async () => {
  const body = { prompt: TEXT, echo: true, logprobs: 2, max_tokens: 6, temperature: 0, n: 2 }
  const whole = await complete(body)
  const events = (await (await post(tiny, "/v1/completions", { ...body, stream: true })).text())
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .flatMap((event) => JSON.parse(event.slice(6)).choices)
  for (const { index, text, logprobs } of whole.choices) {
    const mine = events.filter((each) => each.index === index)
    expect(mine[0].text).toBe(TEXT)
    expect(mine.map((each) => each.text).join("")).toBe(text)
    for (const list of ["tokens", "token_logprobs", "top_logprobs", "text_offset"]) {
      expect(mine.flatMap((each) => each.logprobs?.[list] ?? [])).toEqual(logprobs[list])
    }
  }
})

test("a prompt beyond the context is refused by its name; one that fills it can be told of", async () => {
  const prompt = (tokens: number) => Array.from({ length: tokens }, (_, i) => 300 + (i % 100))
  const { error } = await complete({ prompt: prompt(4096), echo: true, logprobs: 0 })
  expect(error).toMatchObject({ code: "context_length_exceeded", param: "prompt" })
  const told = await complete({ prompt: prompt(4096), echo: true, logprobs: 0, max_tokens: 0 })
  expect(told.choices[0].logprobs.token_logprobs.length).toBe(4096)
})

test("without log probabilities the text alone is repeated, of ids with the control tokens they name", async () => {
  const { choices } = await complete({ prompt: [TEXT, "b"], echo: true, max_tokens: 0 })
  expect(choices.map(({ text }: { text: string }) => text)).toEqual([TEXT, "b"])
  expect(choices[0].logprobs).toBe(null)
  const named = await complete({ prompt: [1, 2], echo: true, logprobs: 0, max_tokens: 0 })
  expect(named.choices[0].text).toBe("<|im_start|><|im_end|>")
  expect(named.choices[0].logprobs.text_offset).toEqual([0, 12])
})
