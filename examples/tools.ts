// The loop of tools: the model asks for a function, this program runs it and sends the result back, until there is nothing
// left to ask for.
//
//   npx tsx examples/tools.ts ["a question"]

import OpenAI from "openai"
import { createApp } from "sinter"

const functions: Record<string, (given: { city: string }) => unknown> = {
  get_weather: ({ city }) => ({ temperature: city.length * 3, sky: "sunny" }),
}
const tools: OpenAI.ChatCompletionFunctionTool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Get the weather in a city",
      parameters: {
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
      },
    },
  },
]

const app = await createApp({ model: "tiny" })
try {
  const port = await app.listen(0)
  await app.ready

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/openai/v1`, apiKey: "none" })
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: "user", content: process.argv[2] ?? "What is the weather in Rome?" },
  ]
  for (let round = 0; round < 4; round++) {
    const { choices } = await client.chat.completions.create({
      model: "tiny",
      messages,
      tools,
      temperature: 0,
    })
    const answer = choices[0]!.message
    messages.push(answer)
    if (!answer.tool_calls?.length) {
      process.stdout.write(`${answer.content}\n`)
      break
    }
    for (const call of answer.tool_calls) {
      if (call.type !== "function") continue
      const run = functions[call.function.name]
      const result = run ? run(JSON.parse(call.function.arguments)) : { error: "no such function" }
      process.stdout.write(`${call.function.name}(${call.function.arguments})\n`)
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) })
    }
  }
} finally {
  await app.close()
}
