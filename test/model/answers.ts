// What a server answers to golden prompts that have images or recordings among their texts.

import { afterAll, beforeAll, expect, test } from "vitest"
import { type App, createApp } from "../../src/app.ts"
import type { TargetName } from "../../src/compiler/targets/targets.ts"
import type { Overrides } from "../../src/engine/limits.ts"

interface Asked {
  /** Texts, and what its medium is called in the place of each of `bytes`. */
  parts: readonly string[]
  bytes: readonly Buffer[]
  ids: readonly number[]
  greedy: readonly number[]
}

interface Serving {
  model: string
  overrides: Overrides
  target?: TargetName
  prompts: readonly Asked[]
  media: readonly string[]
  /** As a client sends one. */
  sent: (bytes: Buffer) => object
}

interface Answer {
  usage: { prompt_tokens_details: { cached_tokens: number } }
}

/** A test: all prompts at once, then the second again behind what is remembered of it. */
export function answersWith({ model, prompts, media, sent, ...settings }: Serving): void {
  const name = "golden"
  let app: App
  let url: string
  beforeAll(async () => {
    app = await createApp({ model, servedName: name, ...settings })
    url = `http://127.0.0.1:${await app.listen(0)}`
    await app.ready
  }, 240_000)
  afterAll(() => app.close())

  async function ask({ parts, bytes, greedy }: Asked) {
    let at = 0
    const content = parts.map((part) =>
      media.includes(part) ? sent(bytes[at++]!) : { type: "text", text: part },
    )
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: name,
        messages: [{ role: "user", content }],
        temperature: 0,
        max_tokens: greedy.length,
        return_token_ids: true,
      }),
    })
    return (await response.json()) as Answer
  }

  test(`${media.join(", ")} and texts, alone and together`, async () => {
    const replies = await Promise.all(prompts.map(ask))
    replies.push(await ask(prompts[1]!))
    for (const [i, { ids, greedy }] of [...prompts, prompts[1]!].entries()) {
      expect(replies[i]).toMatchObject({
        prompt_token_ids: ids,
        choices: [{ token_ids: greedy }],
      })
    }
    expect(replies.at(-1)!.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(16)
  }, 240_000)
}
