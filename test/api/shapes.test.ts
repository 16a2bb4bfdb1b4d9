// Every answer, whole and streamed, in both dialects, against descriptions that are not ours.

import { Ajv } from "ajv"
import { describe, expect, test } from "vitest"
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
] as const)("%s", (_, base, shapes) => {
  test.each(bodies)("%j", async (body) => {
    const path = `${base}/chat/completions`
    const whole = await post(running, path, { messages, ...body })
    assertShape(shapes.whole, await whole.json())
    const asked = { messages, ...body, stream: true }
    for (const options of [{}, { stream_options: { include_usage: true } }]) {
      const stream = await post(running, path, { ...asked, ...options })
      const events = eventsOf(await stream.text())
      for (const event of events) assertShape(shapes.chunk, event)
    }
  })

  test("plain completions", async () => {
    const path = `${base}/completions`
    const body = { prompt: "Hello", max_tokens: 5, logprobs: 2 }
    assertShape(textCompletion, await (await post(running, path, body)).json())
    const stream = await post(running, path, { ...body, stream: true })
    for (const event of eventsOf(await stream.text())) assertShape(textCompletion, event)
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
