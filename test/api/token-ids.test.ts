// Tokens by their ids, as vLLM tells them: return_token_ids beside the texts, return_tokens_as_token_ids in place of them. What
// trains on replies reads them, since texts do not always encode to the tokens that they came from. The shapes are those of
// vLLM's protocol and of its own tests of both fields.

import { describe, expect, test } from "vitest"
import { eventsOf } from "../parrot.ts"
import { ask, chat, messages, post, server } from "./server.ts"

const tiny = server()
const END = 2 // the end of a turn
const TEXT = "Hello! Où est le 🦊? How can I help you?"

const complete = (body: object) => ask(tiny, "/v1/completions", { temperature: 0, ...body })
const idsOf = async (prompt: string | { messages: object }): Promise<number[]> => {
  const body = typeof prompt === "string" ? { prompt } : prompt
  return (await ask(tiny, "/tokenize", body)).tokens
}
const textOf = async (tokens: number[]): Promise<string> =>
  (await ask(tiny, "/detokenize", { tokens })).prompt

// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
async function streamed(path: string, body: object, headers = {}): Promise<any[]> {
  const answer = await post(tiny, path, { ...body, stream: true }, headers)
  return eventsOf(await answer.text())
}

/** What the chunks of a stream tell of each choice. */
// biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
function joined(chunks: any[], choices: number): number[][] {
  const parts = chunks.flatMap((chunk) => chunk.choices)
  return Array.from({ length: choices }, (_, index) =>
    parts.flatMap((part) => (part.index === index ? part.token_ids : [])),
  )
}

const toldIds = ({ token_ids }: { token_ids: number[] }) => token_ids
const numbered = (ids: readonly number[]) => ids.map((id) => `token_id:${id}`)

describe("return_token_ids", () => {
  test.each(["openai", "native"])("of a conversation, whole and streamed: %s", async (dialect) => {
    const headers = { "x-api-dialect": dialect }
    const body = { messages, n: 2, max_tokens: 12, seed: 3, return_token_ids: true }
    // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
    const whole: any = await (await post(tiny, "/v1/chat/completions", body, headers)).json()
    expect(whole.prompt_token_ids).toEqual(await idsOf({ messages }))
    for (const { token_ids, message, logprobs } of whole.choices) {
      expect(await textOf(token_ids.filter((id: number) => id !== END))).toBe(message.content)
      expect(logprobs).toBeNull()
    }
    const chunks = await streamed("/v1/chat/completions", body, headers)
    expect(chunks.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual([
      whole.prompt_token_ids,
      ...chunks.slice(1).map(() => undefined),
    ])
    expect(joined(chunks, 2)).toEqual(whole.choices.map(toldIds))
  })

  test("the token that ended the reply is the last, of a text and a conversation, once", async () => {
    const ended = { max_tokens: 4, logit_bias: { [END]: 100 }, return_token_ids: true }
    const { choices, usage } = await chat(tiny, ended)
    expect([choices[0].token_ids, usage.completion_tokens]).toEqual([[END], 0])
    const prompt = await idsOf(TEXT)
    for (const more of [{}, { echo: true }, { echo: true, logprobs: 1 }, { logprobs: 1 }]) {
      const [{ token_ids }] = (await complete({ ...ended, ...more, prompt })).choices
      expect(token_ids).toEqual([END])
      const chunks = await streamed("/v1/completions", { ...ended, ...more, prompt })
      expect(joined(chunks, 1)).toEqual([[END]])
    }
  })

  test("those of a call and its marks are told, those behind a stop text are not", async () => {
    const parameters = { type: "object", properties: {}, additionalProperties: false }
    const tools = [{ type: "function", function: { name: "now", parameters } }]
    const told = { temperature: 0, return_token_ids: true, return_tokens_as_token_ids: true }
    const body = { ...told, tools, tool_choice: "required", logprobs: true, max_tokens: 200 }
    const [called] = (await chat(tiny, body)).choices
    const ids = called.token_ids.filter((id: number) => id !== END)
    expect(called.message.tool_calls[0].function.name).toBe("now")
    expect(called.logprobs.content.map(({ token }: { token: string }) => token)).toEqual(
      numbered(ids),
    )
    expect(await textOf(ids)).toContain("now")
    expect(joined(await streamed("/v1/chat/completions", { messages, ...body }), 1)).toEqual([
      called.token_ids,
    ])
    const { choices, usage } = await chat(tiny, { ...told, stop: ["o"], max_tokens: 40 })
    expect([choices[0].finish_reason, choices[0].token_ids.length]).toEqual([
      "stop",
      usage.completion_tokens,
    ])
  })

  test("of texts each choice tells its own prompt, and an echo tells the same tokens", async () => {
    const prompt = await Promise.all([TEXT, "The fox"].map(idsOf))
    const body = { prompt, n: 2, max_tokens: 5, temperature: 0, ignore_eos: true, echo: true }
    const told = { ...body, logprobs: 1, return_token_ids: true, return_tokens_as_token_ids: true }
    const { choices } = await complete(told)
    for (const [i, { prompt_token_ids, token_ids, logprobs }] of choices.entries()) {
      expect(prompt_token_ids).toEqual(prompt[Math.floor(i / 2)])
      expect(token_ids.length).toBe(5)
      expect(logprobs.tokens).toEqual(numbered([...prompt_token_ids, ...token_ids]))
    }
    const bare = await complete({ ...body, return_token_ids: true })
    expect(bare.choices.map(toldIds)).toEqual(choices.map(toldIds))
    const chunks = await streamed("/v1/completions", told)
    expect(joined(chunks, 4)).toEqual(choices.map(toldIds))
    for (const index of choices.keys()) {
      const mine = chunks.flatMap((chunk) => chunk.choices).filter((each) => each.index === index)
      expect(mine.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual([
        choices[index].prompt_token_ids,
        ...mine.slice(1).map(() => undefined),
      ])
    }
  })
})

describe("return_tokens_as_token_ids", () => {
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
  const nameless = (told: any): any => {
    const { token: _, top_logprobs: top, ...rest } = told
    return { ...rest, ...(top && { top_logprobs: top.map(nameless) }) }
  }

  test("names the tokens of a conversation, and changes nothing else of them", async () => {
    const body = { temperature: 0, max_tokens: 8, logprobs: true, top_logprobs: 3 }
    const [plain] = (await chat(tiny, body)).choices
    const asked = { ...body, return_tokens_as_token_ids: true }
    const [named] = (await chat(tiny, { ...asked, return_token_ids: true })).choices
    const { content } = named.logprobs
    expect(content.map(({ token }: { token: string }) => token)).toEqual(
      numbered(named.token_ids.slice(0, content.length)),
    )
    for (const { token, top_logprobs } of content) {
      expect(top_logprobs[0].token).toBe(token)
      for (const each of top_logprobs) expect(each.token).toMatch(/^token_id:\d+$/)
    }
    expect(content.map(nameless)).toEqual(plain.logprobs.content.map(nameless))
    const chunks = await streamed("/v1/chat/completions", { messages, ...asked })
    expect(chunks.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual(content)
  })

  test("names those of a text, and tells apart what goes by one name", async () => {
    const body = { prompt: TEXT, echo: true, max_tokens: 4, logprobs: 5, temperature: 0 }
    const [plain] = (await complete(body)).choices
    const asked = { ...body, return_tokens_as_token_ids: true }
    const [named] = (await complete(asked)).choices
    const { tokens, top_logprobs, token_logprobs, text_offset } = named.logprobs
    expect(tokens.slice(0, (await idsOf(TEXT)).length)).toEqual(numbered(await idsOf(TEXT)))
    expect([named.text, token_logprobs, text_offset]).toEqual([
      plain.text,
      plain.logprobs.token_logprobs,
      plain.logprobs.text_offset,
    ])
    for (const [i, alternatives] of top_logprobs.entries()) {
      if (i === 0) continue
      expect(Object.keys(alternatives).every((name) => /^token_id:\d+$/.test(name))).toBe(true)
      expect(alternatives[tokens[i]]).toBe(token_logprobs[i])
    }
    const chunks = await streamed("/v1/completions", asked)
    const parts = chunks.flatMap(({ choices }) => choices[0].logprobs ?? [])
    for (const list of ["tokens", "top_logprobs"])
      expect(parts.flatMap((part) => part[list])).toEqual(named.logprobs[list])
  })
})

test("what is false, absent, or has nothing to name changes nothing", async () => {
  const body = { temperature: 0, max_tokens: 6 }
  const { choices } = await chat(tiny, body)
  for (const more of [
    { return_token_ids: false, return_tokens_as_token_ids: false },
    { return_token_ids: null, return_tokens_as_token_ids: null },
    { return_tokens_as_token_ids: true },
  ]) {
    const answer = await chat(tiny, { ...body, ...more })
    expect([answer.choices, "prompt_token_ids" in answer]).toEqual([choices, false])
    const [chunk] = await streamed("/v1/chat/completions", { messages, ...body, ...more })
    expect([Object.keys(chunk.choices[0]), "prompt_token_ids" in chunk]).toEqual([
      ["index", "delta", "logprobs", "finish_reason"],
      false,
    ])
    const text = await complete({ ...body, ...more, prompt: "Hi" })
    expect(Object.keys(text.choices[0])).toEqual(["index", "text", "logprobs", "finish_reason"])
  }
})
