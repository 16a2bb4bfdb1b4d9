// Every answer, whole and streamed, in both dialects, against descriptions that are not ours, and against what
// /openapi.json promises: there no member may come that it does not name.

import { Ajv } from "ajv"
import { describe, expect, test } from "vitest"
import {
  ChatCompletionResponse,
  ChatCompletionStreamResponse,
} from "../../src/http/apis/chat/schema.ts"
import { CompletionResponse } from "../../src/http/apis/completions/schema.ts"
import { eventsOf } from "../parrot.ts"
import { messages, post, server } from "./server.ts"
import { error, modelList, native, openai, textCompletion } from "./shapes.ts"

const running = server()
const ajv = new Ajv({ strict: false, allErrors: true })

function assertShape(schema: object, value: unknown): void {
  const validate = ajv.compile(schema)
  expect(validate(value), `${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`).toBe(
    true,
  )
}

const promised = {
  whole: closed(ChatCompletionResponse),
  chunk: closed(ChatCompletionStreamResponse),
  text: closed(CompletionResponse),
}

/** The schema with no room for what it does not name. */
function closed<T>(schema: T): T & object {
  if (Array.isArray(schema)) return schema.map(closed) as T & object
  if (typeof schema !== "object" || schema === null) return schema as T & object
  const inner = Object.entries(schema).map(([key, value]) => [key, closed(value)])
  return {
    ...Object.fromEntries(inner),
    ...("properties" in schema && { additionalProperties: false }),
  }
}

const tool = { type: "function", function: { name: "f", parameters: { type: "object" } } }

const bodies = [
  { max_tokens: 12 },
  { max_tokens: 4, n: 3, seed: 1 },
  { max_tokens: 6, logprobs: true, top_logprobs: 4 },
  { max_tokens: 6, stop: ["e"], logprobs: true },
  { tools: [tool], tool_choice: "required", temperature: 0, max_tokens: 300 },
  { response_format: { type: "json_object" }, temperature: 0, max_tokens: 300 },
]

describe.each([
  ["native", "/v1", native],
  ["openai", "/openai/v1", openai],
] as const)("%s", (dialect, base, shapes) => {
  test.each(bodies)("%j", async (body) => {
    const path = `${base}/chat/completions`
    const headers = { "x-api-dialect": dialect } // stream_options alone would ask for OpenAI's shapes
    const whole = await (await post(running, path, { messages, ...body }, headers)).json()
    assertShape(shapes.whole, whole)
    assertShape(promised.whole, whole)
    const asked = { messages, ...body, stream: true }
    for (const options of [{}, { stream_options: { include_usage: true } }]) {
      const stream = await post(running, path, { ...asked, ...options }, headers)
      const events = eventsOf(await stream.text())
      for (const event of events) {
        assertShape(shapes.chunk, event)
        assertShape(promised.chunk, event)
      }
    }
  })

  test("plain completions", async () => {
    const path = `${base}/completions`
    const body = { prompt: "Hello", max_tokens: 5, logprobs: 2 }
    const whole = await (await post(running, path, body)).json()
    assertShape(textCompletion, whole)
    assertShape(promised.text, whole)
    const stream = await post(running, path, { ...body, stream: true })
    for (const event of eventsOf(await stream.text())) {
      assertShape(textCompletion, event)
      assertShape(promised.text, event)
    }
  })

  test("the ids of tokens stand where they are promised, beside what others describe", async () => {
    const asked = { max_tokens: 4, n: 2, return_token_ids: true }
    const headers = { "x-api-dialect": dialect }
    for (const [path, body, schema, chunk] of [
      ["/chat/completions", { messages }, promised.whole, promised.chunk],
      ["/completions", { prompt: "Hello" }, promised.text, promised.text],
    ] as const) {
      const ask = (more: object) =>
        post(running, base + path, { ...asked, ...body, ...more }, headers)
      assertShape(schema, await (await ask({})).json())
      const events = eventsOf(await (await ask({ stream: true })).text())
      for (const event of events) assertShape(chunk, event)
    }
  })

  test("models and errors", async () => {
    assertShape(modelList, await (await fetch(`${running.url}${base}/models`)).json())
    for (const body of [{}, { messages, n: 0 }, { messages, model: "x" }]) {
      const answer = await post(running, `${base}/chat/completions`, body)
      expect(answer.status).toBeGreaterThanOrEqual(400)
      assertShape(error, await answer.json())
    }
    assertShape(error, await (await fetch(`${running.url}${base}/nothing`)).json())
  })
})
