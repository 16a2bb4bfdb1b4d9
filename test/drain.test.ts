// How a server leaves: SIGTERM lets what runs end, refuses what comes, and a second signal ends it at once.

import { expect, onTestFinished, test } from "vitest"
import { type Serving, serve } from "./sinter.ts"

async function serving(...args: string[]): Promise<Serving> {
  const server = await serve(["tiny", "--log-level", "warn", ...args])
  onTestFinished(() => void server.child.kill("SIGKILL"))
  return server
}

/** A stream that has begun; `text` resolves when it has ended. */
async function streaming({ url }: Serving, tokens: number): Promise<{ text: Promise<string> }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "tiny",
      messages: [{ role: "user", content: "Tell me a story." }],
      stream: true,
      max_tokens: tokens,
      ignore_eos: true,
    }),
  })
  expect(response.status).toBe(200)
  return { text: response.text() }
}

const health = (server: Serving) => async () => (await fetch(`${server.url}/health`)).status

const LONG = 1900 // tokens: seconds

test("SIGTERM: health says so, new requests are refused, running streams end whole, exit code 0", async () => {
  const server = await serving()
  const { text } = await streaming(server, LONG)
  const ended = server.stop("SIGTERM")
  await expect.poll(health(server)).toBe(503)
  expect((await fetch(`${server.url}/live`)).status).toBe(200)
  const refused = await fetch(`${server.url}/v1/models`)
  expect(refused.status).toBe(503)
  expect(refused.headers.get("retry-after")).toBe("1")
  expect(refused.headers.get("connection")).toBe("close")
  const told = await text
  expect(told).toMatch(/"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]\n\n$/)
  expect(await ended).toMatchObject({ code: 0, signal: null, err: "" })
})

test("a stream that outlasts --shutdown-timeout is told so, and the exit code is 0 all the same", async () => {
  const server = await serving("--shutdown-timeout", "1", "--overrides", "max_num_sequence=1")
  const waiting = [await streaming(server, LONG)]
  for (let more = 0; more < 3; more++) waiting.push(await streaming(server, LONG)) // these queue
  const { code, err } = await server.stop("SIGTERM")
  expect({ code, err }).toEqual({ code: 0, err: "" })
  const texts = await Promise.all(waiting.map(({ text }) => text))
  expect(texts.at(-1)).toMatch(
    /data: \{"error":[^\n]*server_closing[^\n]*\}\n\ndata: \[DONE\]\n\n$/,
  )
})

test.each([
  ["SIGTERM", 143], // bash(1): 128 and the signal's number
  ["SIGINT", 130],
  ["SIGHUP", 129],
] as const)(
  "a second signal ends it now, whatever runs: %s behind SIGTERM",
  async (second, code) => {
    const server = await serving()
    const { text } = await streaming(server, LONG)
    const cut = expect(text).rejects.toThrow()
    void server.stop("SIGTERM")
    await expect.poll(health(server)).toBe(503) // two signals at once would be one
    expect(await server.stop(second)).toMatchObject({ code, signal: null, err: "" })
    await cut
  },
)
