// The server inside one's own process, here for a test suite: a free port, quiet, the same words every time, gone at the end.
// While the model loads the port answers 503; `ready` says when it answers.
//
//   npx tsx examples/embedded.ts

import assert from "node:assert/strict"
import { createApp } from "sinter"

const app = await createApp({ model: "tiny", mode: "server", maxQueue: 16 })
try {
  const port = await app.listen(0)
  const { summary } = await app.ready
  process.stdout.write(`${(summary.parameters / 1e6).toFixed(1)} M parameters on port ${port}\n`)

  const ask = async (content: string): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "tiny",
        messages: [{ role: "user", content }],
        seed: 7,
        max_tokens: 32,
      }),
    })
    assert.equal(answer.status, 200)
    const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] }
    return choices[0]!.message.content
  }
  const alone = await ask("Tell me a story about a fox.")
  const crowd = await Promise.all(
    Array.from({ length: 4 }, () => ask("Tell me a story about a fox.")),
  )
  assert.deepEqual(new Set(crowd), new Set([alone]))
  process.stdout.write(`${alone}\n`)
} finally {
  await app.close()
}
