// Two servers behind the proxies of docs/scaling.md, with the very configurations that stand there: both servers are replaced
// under load, one after the other, and no client may notice; and conversations stay with their server.

import OpenAI from "openai"
import { expect, onTestFinished, test } from "vitest"
import { load } from "../bench/load.ts"
import { isLeftOut } from "./left-out.ts"
import { freePort, isHere, proxies, startProxy, staying } from "./proxies.ts"
import { type Serving, serve, serving, start } from "./sinter.ts"

test.for(Object.entries(proxies))(
  "%s: two servers are replaced under load and no request fails",
  async ([name, proxy], { skip }) => {
    if (isLeftOut(isHere(proxy))) skip(`${name} is not on this machine`)
    const ports = [await freePort(), await freePort()]
    const serveOn = (port: number) => serving(start(["serve", "tiny", "--port", String(port)]))
    const servers = await Promise.all(ports.map(serveOn))
    onTestFinished(async () => {
      for (const server of servers) await server.stop()
    })
    const { url, stop } = await startProxy(
      proxy,
      servers.map((server) => server.url),
    )
    onTestFinished(stop)

    let [begun, replaced] = [false, false]
    const told = load({
      url,
      model: "tiny",
      clients: 4,
      seconds: 600, // at most
      isEnough: () => {
        begun = true // questions are prepared before
        return replaced
      },
      warmUp: 0,
      seed: 3,
      // HAProxy sends on what does not fit into its buffer and cannot repeat it: docs/scaling.md says so.
      mix: { stream: 6, whole: 2, cancel: 1, huge: name === "haproxy" ? 0 : 0.2 },
    })
    await expect.poll(() => begun).toBe(true)
    for (const [i, port] of ports.entries()) {
      await twentyMore(servers[i]!)
      expect(await servers[i]!.stop("SIGTERM")).toMatchObject({ code: 0 })
      await twentyMore(servers[1 - i]!) // alone
      servers[i] = await serveOn(port)
      await twentyMore(servers[i]!) // the proxy has seen that it is there
    }
    replaced = true
    const { faults, outcomes } = await told
    expect(faults).toEqual({})
    expect(outcomes.busy).toBe(0)
    expect(outcomes.answered).toBeGreaterThan(60)
  },
)

test("haproxy: a conversation stays with its server, known by its words or by its name", async ({
  skip,
}) => {
  if (isLeftOut(isHere(proxies.haproxy))) skip("haproxy is not on this machine")
  const servers = await Promise.all([1, 2].map(() => serve(["tiny"])))
  onTestFinished(async () => {
    for (const server of servers) await server.stop()
  })
  const urls = servers.map((server) => server.url)
  const { url, stop } = await startProxy(proxies.haproxy, urls, staying)
  onTestFinished(stop)
  const { chat } = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
  const system = {
    role: "system",
    content: "You are a helpful assistant. ".repeat(4),
  } as const
  for (const before of [[], [system]])
    for (let conversation = 0; conversation < 8; conversation++) {
      const messages: OpenAI.ChatCompletionMessageParam[] = [...before]
      const named = conversation % 2 === 0 ? {} : { prompt_cache_key: `c${conversation}` }
      for (let turn = 0; turn < 4; turn++) {
        messages.push({
          role: "user",
          content: `Question ${turn} of ${conversation}: who are you?`,
        })
        const { choices, usage } = await chat.completions.create({
          model: "tiny",
          max_tokens: 24,
          seed: 1,
          messages,
          ...named,
        })
        const { prompt_tokens: prompt, prompt_tokens_details: details } = usage!
        if (turn > 0) expect(details!.cached_tokens).toBeGreaterThan(prompt / 2 - 20)
        messages.push({ role: "assistant", content: choices[0]!.message.content })
      }
    }
  for (const server of servers) expect(answered(server)).toBeGreaterThan(0)
})

async function twentyMore(server: Serving): Promise<void> {
  const before = answered(server)
  await expect.poll(() => answered(server)).toBeGreaterThan(before + 20)
}

const answered = (server: Serving) => server.err().split('"outcome":"answered"').length - 1
