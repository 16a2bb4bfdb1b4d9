// The embedded model's golden transcripts through the whole server: template, tokenizer, packed weights, tool calls. Its
// activations are rounded there and PyTorch's were not, so only those count where no token was nearly another.

import { expect, test } from "vitest"
import { cases } from "../model/tiny.ts"
import { chat, server } from "./server.ts"

const running = server()
const clear = cases.filter(({ lead }) => lead > 0.5)

test("there are enough of them", () => expect(clear.length).toBeGreaterThanOrEqual(8))

test.each(clear)("$prompt", async ({ messages, tools, prompt_ids, text }) => {
  const body = { messages, ...(tools.length > 0 && { tools }), temperature: 0, max_tokens: 96 }
  const { choices, usage } = await chat(running, body)
  const { content, tool_calls } = choices[0].message
  expect(usage.prompt_tokens).toBe(prompt_ids.length)
  const call = /^<tool_call>\n(.*)\n<\/tool_call>$/.exec(text)
  if (call) expect(tool_calls[0].function).toEqual(JSON.parse(call[1]!))
  else expect(content).toBe(text)
})
