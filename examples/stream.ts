// A server in one's own process, spoken to by the official OpenAI client: an answer as it is written.
//
//   npx tsx examples/stream.ts ["a question"]

import OpenAI from "openai"
import { createApp } from "sinter"

const app = await createApp({ model: "tiny" })
try {
  const port = await app.listen(0)
  await app.ready

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none" })
  const stream = await client.chat.completions.create({
    model: "tiny",
    messages: [{ role: "user", content: process.argv[2] ?? "Hello! Who are you?" }],
    stream: true,
  })
  for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "")
  process.stdout.write("\n")
} finally {
  await app.close()
}
