// The log as an operator reads it: a process of its own, one JSON line for each request on stderr.

import { spawnSync } from "node:child_process"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { isLeftOut } from "./left-out.ts"
import { built, type Serving, serve } from "./sinter.ts"

let server: Serving
beforeAll(async () => {
  server = await serve(["tiny"])
})
afterAll(() => server?.stop())

const secret = "xylophone"
const asked = { model: "tiny", messages: [{ role: "user", content: `Say ${secret}.` }] }

/** Sends a request under this id and gives its line of the log, once it is there. */
async function lineOf(id: string, body: object | string, leave = false) {
  const leaving = new AbortController()
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: typeof body === "string" ? body : JSON.stringify(body),
    signal: leaving.signal,
  })
  if (leave) leaving.abort()
  else await response.text()
  const line = () => server.err().match(new RegExp(`^.*"request":"${id}".*$`, "gm"))
  await expect.poll(line).not.toBeNull()
  expect(line()).toHaveLength(1)
  return JSON.parse(line()![0]!)
}

test.each([true, false])(
  "a finished request: counts, times, outcome (stream %s)",
  async (stream) => {
    const held = { ...asked, stream, max_tokens: 5, ignore_eos: true }
    const line = await lineOf(`finished-${stream}`, held)
    expect(line).toMatchObject({
      status: 200,
      outcome: "answered",
      finish: "length",
      completion: 5,
    })
    expect(line.prompt).toBeGreaterThan(5)
    expect(line.cached).toBeGreaterThanOrEqual(0)
    expect(line.images).toBeUndefined()
    expect(line.queueMs).toBeGreaterThanOrEqual(0)
    expect(line.firstMs).toBeGreaterThanOrEqual(line.preparedMs + line.queueMs - 1) // both are rounded
    expect(line.ms).toBeGreaterThanOrEqual(line.firstMs)
  },
)

test("a request that is refused, and one whose client leaves", async () => {
  expect(await lineOf("refused", "{")).toMatchObject({ status: 400, outcome: "refused" })
  const endless = { ...asked, stream: true, max_tokens: 1500, ignore_eos: true }
  expect(await lineOf("gone", endless, true)).toMatchObject({ status: 499, outcome: "left" })
})

test("probes leave no lines", async () => {
  for (const path of ["health", "live", "metrics"]) {
    expect((await fetch(`${server.url}/${path}`)).status).toBe(200)
  }
  await lineOf("later", { ...asked, max_tokens: 1 })
  expect(server.err()).not.toMatch(/"path":"\/(health|live|metrics)"/)
})

test("no text of prompts or replies, and no query of a URL", async () => {
  await fetch(`${server.url}/v1/models?api_key=${secret}`)
  await fetch(`${server.url}/v1/${"x".repeat(300)}?${secret}`)
  await expect.poll(() => server.err()).toContain('"path":"/v1/xxx')
  expect(server.err()).toContain('"outcome"')
  expect(server.err()).not.toContain(secret)
})

test("what the options open to everybody is said at the start", async () => {
  const told = await serve(["tiny", "--allow-credentials"])
  const { err } = await told.stop()
  expect(err.match(/"level":40/g)).toHaveLength(1)
  expect(err).toContain("--allow-credentials for any origin: ")
  expect(server.err()).not.toMatch(/"level":40.*--/)
})

describe("words that cannot be written cost nothing", () => {
  const { command, folder } = built
  const through = (redirection: string) => ({
    command: ["sh", "-c", `exec "$@" ${redirection}`, "sh", ...command],
    folder,
  })

  async function answers({ url }: Serving): Promise<void> {
    const body = JSON.stringify({ ...asked, max_tokens: 2 })
    const headers = { "content-type": "application/json" }
    for (let times = 0; times < 3; times++) {
      const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })
      expect(response.status).toBe(200)
      await response.text()
    }
  }

  test("whoever read them has left", async () => {
    const told = await serve(["tiny"])
    told.child.stdout.destroy()
    told.child.stderr.destroy()
    await answers(told)
    expect((await told.stop()).code).toBe(0)
  })

  test("the disk is full", async () => {
    const told = await serve(["tiny"], through("2>/dev/full"))
    await answers(told)
    expect((await told.stop()).code).toBe(0)
  })

  // util-linux's `script` has the terminal; the server is in a session of its own, as after `disown`, so that nobody tells it.
  const inTerminal = {
    command: [
      "sh",
      "-c",
      `SERVER="$*" exec script -qfc 'exec setsid -w sh -c "\\$SERVER >&3 & echo pid=\\$! >&3; wait"' /dev/null 3>&1`,
      "sh",
      ...command,
    ],
    folder,
  }
  const isThere = spawnSync("script", ["--version"], { encoding: "utf8" }).stdout
  const without = isLeftOut(isThere?.includes("util-linux"))

  test.skipIf(without)(
    `the terminal is gone${without ? " (skipped: no script of util-linux)" : ""}`,
    async () => {
      const told = await serve(["tiny"], inTerminal)
      await answers(told)
      await expect.poll(told.out).toMatch(/INFO.*: answered/)
      told.child.kill("SIGKILL")
      await answers(told)
      const [, pid] = /pid=(\d+)/.exec(told.out())!
      process.kill(Number(pid), "SIGTERM")
      await told.ended // with whatever code: Node itself aborts at its end, as it cannot reset that terminal
    },
  )
})
