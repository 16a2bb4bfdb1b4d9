// No body, however malformed, gets a 5xx, a hang or a dropped connection, and the next good request is answered.

import { expect, test } from "vitest"
import { hi, parrot } from "../../test/parrot.ts"
import { ChatCompletionRequest } from "./apis/chat/schema.ts"
import { routes } from "./routes.ts"

/** Numbers that are the same in every run. */
function dice(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const ODD = [
  "null",
  "true",
  "-0",
  "1e308",
  "1e309",
  "99999999999999999999999",
  "0.1",
  '""',
  '"\\u0000"',
  '"\\ud800"',
  '"😀\\n"',
  "[]",
  "{}",
  "[[[[[]]]]]",
  '{"__proto__":{"role":"user"}}',
  '{"constructor":{"prototype":1}}',
  '{"toString":1,"length":-1}',
  '[{"type":"text","text":null}]',
  '[{"role":"assistant","tool_calls":[null]}]',
  '[{"role":"tool","content":[{"a":[1]},{"text":2}]}]',
  `"${"x".repeat(10_000)}"`,
]

const NAMES = [
  ...Object.keys(ChatCompletionRequest.properties),
  "prompt",
  "tokens",
  "__proto__",
  "a\\nb",
]

function oddBody(next: (below: number) => number): string {
  const members = [`"model":"tiny"`, `"messages":[{"role":"user","content":"hi"}]`, `"prompt":"x"`]
  for (let edits = 1 + next(4); edits > 0; edits--) {
    members[next(members.length + 1)] = `"${NAMES[next(NAMES.length)]}":${ODD[next(ODD.length)]}`
  }
  let text = `{${members.filter(Boolean).join(",")}}`
  if (next(4) === 0) {
    const at = next(text.length)
    text = text.slice(0, at) + String.fromCharCode(next(300)) + text.slice(at + next(3))
  }
  return next(8) === 0 ? text.slice(0, next(text.length)) : text
}

test("fifteen hundred odd bodies, over one connection each way", async () => {
  const { port } = parrot()
  const base = `http://127.0.0.1:${await port()}`
  const paths = routes.filter(({ body, takes }) => body && takes !== "form").map(({ path }) => path)
  const next = dice(42)
  const statuses = new Map<number, number>()
  for (let round = 0; round < 1500; round++) {
    const body = oddBody(next)
    const path = paths[next(paths.length)]!
    const answer = await fetch(base + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    })
    const text = await answer.text()
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    expect([200, 400, 404], `${path} ${body} → ${text}`).toContain(answer.status)
    if (answer.status !== 200) {
      const { error, code = answer.status, ...told } = JSON.parse(text)
      const message = typeof error === "string" ? error : error.message
      expect(told.message ?? message, body).toBe(message)
      expect(code).toBe(answer.status)
      expect(message.split("\n"), body).toHaveLength(1)
      expect(message.length, body).toBeLessThan(1000)
    }
  }
  expect(statuses.get(200)).toBeGreaterThan(100)
  expect(statuses.get(400)).toBeGreaterThan(500)
})

test("random bytes are 400, and a good request right after is 200", async () => {
  const { server, post } = parrot()
  const next = dice(7)
  for (let round = 0; round < 300; round++) {
    const payload = Buffer.from(Array.from({ length: next(200) }, () => next(256)))
    const answer = await server.inject({
      method: "POST",
      url: "/v1/chat/completions",
      headers: { "content-type": "application/json" },
      payload,
    })
    expect(answer.statusCode, payload.toString("hex")).toBe(400)
  }
  expect((await post(hi)).statusCode).toBe(200)
})
