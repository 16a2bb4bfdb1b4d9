// An answer without HTTP: the model inside one's own process, asked for by a function call.
//
//   npx tsx examples/reply.ts ["a question"]

import { createApp } from "../src/index.ts"

const app = await createApp({ model: "tiny" })
try {
  const { chat } = await app.ready
  const { events } = await chat.reply({
    messages: [{ role: "user", content: process.argv[2] ?? "Hello! Who are you?" }],
    sampling: { temperature: 0 },
  })
  for await (const event of events) if (event.kind === "content") process.stdout.write(event.text)
  process.stdout.write("\n")
} finally {
  await app.close()
}
