// Every field of a request does what it says, seen from outside.

import { expect, onTestFinished, test } from "vitest"
import { eventsOf } from "../parrot.ts"
import { ask, chat, messages, post, server } from "./server.ts"

const running = server()

// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
const text = (answer: any, choice = 0): string => answer.choices[choice].message.content
// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
const tokensOf = (answer: any, choice = 0): any[] => answer.choices[choice].logprobs.content

test("seed: the same one says the same, whole or streamed, alone or in company; others differ", async () => {
  const body = { seed: 11, max_tokens: 24, temperature: 2 }
  const [first, again, other] = await Promise.all([
    chat(running, body),
    chat(running, body),
    chat(running, { ...body, seed: 12 }),
  ])
  expect(text(again)).toBe(text(first))
  expect(text(other)).not.toBe(text(first))
  const streamed = await post(running, "/v1/chat/completions", { messages, ...body, stream: true })
  const pieces = eventsOf(await streamed.text()).map(({ choices }) => choices[0].delta.content)
  expect(pieces.join("")).toBe(text(first))
})

test("seed: 64 bits, of which the lowest counts", async () => {
  const ask = async (seed: string) => {
    const answer = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"model":"models/tiny","messages":[{"role":"user","content":"Hi"}],"temperature":2,"max_tokens":24,"n":16,"ignore_eos":true,"seed":${seed}}`,
    })
    const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] }
    return choices.map(({ message }) => message.content).join("\n")
  }
  const near = await Promise.all(
    ["9223372036854775806", "9223372036854775807", "-1", "18446744073709551615"].map(ask),
  )
  expect(near[0]).not.toBe(near[1])
  expect(near[2]).toBe(near[3])
})

test("without a seed answers differ, and x-seed brings one back", async () => {
  const body = { messages, max_tokens: 24, temperature: 2 }
  const answers = await Promise.all(
    [1, 2, 3].map(() => post(running, "/v1/chat/completions", body)),
  )
  const texts = await Promise.all(answers.map(async (answer) => text(await answer.json())))
  expect(new Set(texts).size).toBeGreaterThan(1)
  const seed = answers[0]!.headers.get("x-seed")!
  const again = await fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: `{"model":"models/tiny","seed":${seed},${JSON.stringify(body).slice(1)}`,
  })
  expect(text(await again.json())).toBe(texts[0])
})

test("n: choices of their own, and choice 0 is what n = 1 says", async () => {
  const body = { seed: 5, temperature: 2, max_tokens: 16 }
  const three = await chat(running, { ...body, n: 3 })
  expect(three.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2])
  expect(new Set([0, 1, 2].map((choice) => text(three, choice))).size).toBeGreaterThan(1)
  expect(text(three)).toBe(text(await chat(running, body)))
})

test("temperature 0, top_p 0 and top_k 1 all take the likeliest token", async () => {
  const greedy = text(await chat(running, { temperature: 0, max_tokens: 20 }))
  for (const body of [{ top_p: 0 }, { top_k: 1 }, { min_p: 1 }]) {
    expect(text(await chat(running, { ...body, max_tokens: 20, seed: 3 }))).toBe(greedy)
  }
})

test("max_tokens cuts with length, and max_completion_tokens wins over it", async () => {
  for (const body of [{ max_tokens: 3 }, { max_tokens: 9, max_completion_tokens: 3 }]) {
    const { choices, usage } = await chat(running, { ...body, temperature: 0 })
    expect([choices[0].finish_reason, usage.completion_tokens]).toEqual(["length", 3])
  }
})

test("stop cuts before the text, in streams too, wherever it begins", async () => {
  const whole = text(await chat(running, { temperature: 0 }))
  for (const at of [1, Math.floor(whole.length / 2), whole.length - 2]) {
    const stop = whole.slice(at, at + 3)
    const cut = await chat(running, { temperature: 0, stop, logprobs: true })
    expect(text(cut)).toBe(whole.slice(0, whole.indexOf(stop)))
    expect(cut.choices[0].finish_reason).toBe("stop")
    const stream = await post(running, "/v1/chat/completions", {
      messages,
      temperature: 0,
      stop: ["never said", stop],
      stream: true,
    })
    const pieces = eventsOf(await stream.text()).map(({ choices }) => choices[0].delta.content)
    expect(pieces.join("")).toBe(text(cut))
  }
})

test("logprobs are probabilities of the raw distribution, whatever the sampling", async () => {
  const plain = await chat(running, {
    temperature: 0,
    max_tokens: 5,
    logprobs: true,
    top_logprobs: 5,
  })
  const first = tokensOf(plain)[0]
  expect(first.logprob).toBeLessThanOrEqual(0)
  expect(first.top_logprobs).toHaveLength(5)
  expect(first.top_logprobs[0].token).toBe(first.token)
  const values = first.top_logprobs.map(({ logprob }: { logprob: number }) => logprob)
  expect(values).toEqual([...values].sort((a, b) => b - a))
  const hot = await chat(running, {
    temperature: 1.7,
    top_p: 0.5,
    presence_penalty: 1,
    seed: 1,
    max_tokens: 1,
    logprobs: true,
    top_logprobs: 5,
  })
  expect(tokensOf(hot)[0].top_logprobs).toEqual(first.top_logprobs)
})

test("every token that is counted is told, control tokens by their names, streamed and whole", async () => {
  const body = {
    seed: 3,
    temperature: 1.2,
    max_tokens: 40,
    ignore_eos: true,
    logit_bias: { 1: 4, 2: 6 }, // the beginning and the end of a turn
  }
  const answer = await chat(running, { ...body, logprobs: true, top_logprobs: 2 })
  const told = tokensOf(answer)
  expect(told.length).toBe(answer.usage.completion_tokens)
  expect(told.length).toBe(40)
  const silent = told.filter(({ token }: { token: string }) => /^<\|im_/.test(token))
  expect(silent.length).toBeGreaterThan(3)
  for (const { bytes } of silent) expect(bytes).toEqual([])
  const bytes = told.flatMap((token: { bytes: number[] }) => token.bytes)
  expect(new TextDecoder().decode(Uint8Array.from(bytes))).toBe(text(answer))

  const stream = { ...body, logprobs: true, top_logprobs: 2, stream: true, messages }
  const events = eventsOf(await (await post(running, "/v1/chat/completions", stream)).text())
  expect(events.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual(told)

  const asked = { ...body, prompt: "Hello", logprobs: 1 }
  const { choices, usage } = await ask(running, "/v1/completions", asked)
  const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0].logprobs
  for (const list of [tokens, token_logprobs, top_logprobs, text_offset]) {
    expect(list.length).toBe(usage.completion_tokens)
  }
  expect(tokens.some((token: string) => /^<\|im_/.test(token))).toBe(true)
})

test("logprobs join to the text, byte by byte", async () => {
  const answer = await chat(running, { seed: 8, temperature: 1.5, logprobs: true, max_tokens: 40 })
  const bytes = tokensOf(answer).flatMap((token) => token.bytes)
  const joined = new TextDecoder().decode(Uint8Array.from(bytes))
  expect(joined.startsWith(text(answer))).toBe(true)
})

test("logit_bias forces a token, and forbids one", async () => {
  const { tokens } = await ask(running, "/tokenize", { prompt: "!" })
  const forced = await chat(running, {
    logit_bias: { [tokens[0]]: 100 },
    max_tokens: 4,
    temperature: 0,
    ignore_eos: true,
  })
  expect(text(forced)).toBe("!!!!")
  const greedy = await chat(running, { temperature: 0, max_tokens: 1, logprobs: true })
  const prompt = tokensOf(greedy)[0].token
  const [likeliest] = (await ask(running, "/tokenize", { prompt })).tokens
  const without = await chat(running, {
    temperature: 0,
    max_tokens: 1,
    logit_bias: { [likeliest]: -100 },
  })
  expect(text(without)).not.toBe(text(greedy))
})

test("penalties keep a token from coming again and again", async () => {
  const { tokens } = await ask(running, "/tokenize", { prompt: "!" })
  const body = { logit_bias: { [tokens[0]]: 30 }, max_tokens: 60, temperature: 0, ignore_eos: true }
  const count = (answer: unknown) => text(answer).split("!").length - 1
  const free = count(await chat(running, body))
  expect(free).toBe(60)
  expect(count(await chat(running, { ...body, frequency_penalty: 2 }))).toBeLessThan(60)
  expect(count(await chat(running, { ...body, repetition_penalty: 10 }))).toBeLessThan(60)
})

test("ignore_eos goes on past the model's own end", async () => {
  const ended = await chat(running, { temperature: 0 })
  const length = ended.usage.completion_tokens + 10
  const on = await chat(running, { temperature: 0, ignore_eos: true, max_tokens: length })
  expect(on.choices[0].finish_reason).toBe("length")
})

test("messages in every form say the same", async () => {
  const forms = [
    [{ role: "system", content: "You are kind." }, messages[0]],
    [{ role: "developer", content: [{ type: "text", text: "You are kind." }] }, messages[0]],
    [{ role: "system", content: [{ text: "You are " }, { text: "kind." }] }, messages[0]],
  ]
  const answers = await Promise.all(
    forms.map((messages) => chat(running, { messages, temperature: 0, max_tokens: 16 })),
  )
  for (const answer of answers) {
    expect(text(answer)).toBe(text(answers[0]))
    expect(answer.usage.prompt_tokens).toBe(answers[0].usage.prompt_tokens)
  }
})

test("a prompt longer than the context is 400, with both counts", async () => {
  const long = [{ role: "user", content: "word ".repeat(20_000) }]
  const { error, code } = await ask(running, "/v1/chat/completions", { messages: long })
  expect(code).toBe(400)
  expect(error.code).toBe("context_length_exceeded")
  expect(error.message).toMatch(/\d{5}.*\d{4}/)
  // What LiteLLM looks for, in small letters, to fall back on a model with a longer context.
  expect(error.message.toLowerCase()).toContain("prompt is too long")
  // Nothing is written behind a text that is embedded, so nothing needs room.
  const input = long[0]!.content
  const embedded = await ask(running, "/v1/embeddings", { input: input.slice(0, 5 * 4096) })
  expect(embedded.error.message).toMatch(/at most 4096, so this prompt is too long\. Shorten/)
})

test("tokenize counts what the reply is billed, and detokenize gives the text back", async () => {
  const asked = await ask(running, "/tokenize", { messages })
  expect(asked.count).toBe((await chat(running, { max_tokens: 1 })).usage.prompt_tokens)
  const weather = { name: "weather", parameters: { type: "object", properties: {} } }
  const tools = [{ type: "function", function: weather }]
  const told = await ask(running, "/tokenize", { messages, tools })
  expect(told.count).toBe((await chat(running, { tools, max_tokens: 1 })).usage.prompt_tokens)
  const hidden = await ask(running, "/tokenize", { messages, tools, tool_choice: "none" })
  expect([told.count > asked.count, hidden.tokens]).toEqual([true, asked.tokens])
  const words = "Grüße, 世界 😀!"
  const { tokens } = await ask(running, "/tokenize", { prompt: words })
  const back = await ask(running, "/detokenize", { tokens })
  expect(back.prompt).toBe(words)
})

test("many at once, of every kind, all end well", async () => {
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, index) =>
      post(running, "/v1/chat/completions", {
        messages,
        max_tokens: 1 + index,
        n: 1 + (index % 3),
        stream: index % 2 === 0,
        seed: index,
      }),
    ),
  )
  for (const answer of answers) {
    expect(answer.status).toBe(200)
    expect(await answer.text()).toMatch(/"finish_reason":"(stop|length)"/)
  }
})

test("many prompts at once are not warned of as a leak", async () => {
  const warnings: string[] = []
  const told = ({ message }: Error) => void warnings.push(message)
  process.on("warning", told)
  onTestFinished(() => void process.off("warning", told))
  const prompt = Array.from({ length: 40 }, (_, i) => `${i}`)
  const { choices } = await ask(running, "/v1/completions", { prompt, max_tokens: 2 })
  expect(choices).toHaveLength(40)
  await new Promise(setImmediate) // warnings come a turn later
  expect(warnings).toEqual([])
})
