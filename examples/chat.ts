// A conversation: every request carries all that was said before, and so the model remembers it.
//
//   npx tsx examples/chat.ts

import OpenAI from "openai"
import { createApp } from "sinter"

const app = await createApp({ model: "tiny" })
try {
  const port = await app.listen(0)
  await app.ready

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none" })
  const messages: OpenAI.ChatCompletionMessageParam[] = []
  for (const content of ["Hi, my name is Lena.", "What can you do?", "What is my name?"]) {
    messages.push({ role: "user", content })
    const { choices } = await client.chat.completions.create({
      model: "tiny",
      messages,
      temperature: 0,
    })
    const answer = choices[0]!.message
    messages.push({ role: "assistant", content: answer.content })
    process.stdout.write(`> ${content}\n${answer.content}\n`)
  }
} finally {
  await app.close()
}
