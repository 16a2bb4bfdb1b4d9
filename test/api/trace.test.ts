// The trace of a real server, held against what its clients were told.

import { expect, test } from "vitest"
import type { ChromeTrace } from "../../src/engine/trace.ts"
import { ask, chat, messages, post, server } from "./server.ts"

const traced = server({ tracing: true })
const untraced = server()

const QUESTIONS = [
  { max_tokens: 5 },
  { max_tokens: 30, temperature: 1, seed: 5 },
  { n: 3, max_tokens: 8, temperature: 1.5, seed: 6 },
  { messages: [{ role: "user", content: "Tell me about the sea. ".repeat(40) }], max_tokens: 12 },
  { messages: [...messages, { role: "assistant", content: "I am" }], max_tokens: 9 },
  { n: 2, max_tokens: 40, temperature: 1.2, seed: 7, stop: ["e", "th"] },
  { max_tokens: 40, stop: [" a"] },
]

/** The trace once all requests have ended in it, which is when their connections are done with them. */
async function traceOf(method = "GET", path = "/debug/trace"): Promise<ChromeTrace> {
  const open = async () => {
    const { traceEvents } = await rawTrace()
    const count = (name: string) => traceEvents.filter((event) => event.name === name).length
    return count("received") - count("finished")
  }
  await expect.poll(open).toBe(0)
  return rawTrace(method, path)
}

async function rawTrace(method = "GET", path = "/debug/trace"): Promise<ChromeTrace> {
  const response = await fetch(traced.url + path, { method })
  expect(response.status).toBe(200)
  return (await response.json()) as ChromeTrace
}

test("the tokens of all steps are the usage of all requests", async () => {
  const told = await Promise.all(
    [...QUESTIONS, ...QUESTIONS].map((question) => chat(traced, question)),
  )
  const { traceEvents, otherData } = await traceOf()
  const sum = (name: string, count: string) =>
    traceEvents
      .filter((event) => event.name === name)
      .reduce((total, { args }) => total + Number(args[count]), 0)
  const used = (count: (usage: UsageJson) => number) =>
    told.reduce((total, { usage }) => total + count(usage), 0)

  expect(otherData.dropped).toBe(0)
  expect(sum("step", "prompt") + sum("finished", "cached")).toBe(
    used((usage) => usage.prompt_tokens),
  )
  expect(sum("step", "reply") - sum("reply", "unread") - sum("left", "unread")).toBe(
    used((usage) => usage.completion_tokens),
  )
  expect(sum("finished", "prompt")).toBe(used((usage) => usage.prompt_tokens))
  expect(sum("finished", "completion")).toBe(used((usage) => usage.completion_tokens))
  const cached = used((usage) => usage.prompt_tokens_details.cached_tokens)
  expect(sum("finished", "cached")).toBe(cached)
})

interface UsageJson {
  prompt_tokens: number
  completion_tokens: number
  prompt_tokens_details: { cached_tokens: number }
}

test("a request's line tells its life from first to last, without a word of it", async () => {
  const secret = "xylophone"
  const asked = [{ role: "user", content: `Say ${secret}.` }]
  const headers = { "x-request-id": "told-of" }
  await post(traced, "/v1/chat/completions", { messages: asked, max_tokens: 3 }, headers)
  const told = await traceOf("POST", "/debug/dump_event_trace")
  const line = told.traceEvents.find(({ ph, args }) => ph === "M" && args.name === "told-of")!
  const events = told.traceEvents.filter(
    ({ ph, pid, tid }) => ph !== "M" && pid === line.pid && tid === line.tid,
  )
  const names = events.map(({ name }) => name)
  expect(names.at(0)).toBe("received")
  expect(names.at(-1)).toBe("finished")
  for (const name of ["queued", "admitted", "prompt", "reply"]) expect(names).toContain(name)
  expect(events.at(-1)!.args).toMatchObject({ outcome: "answered", status: 200, completion: 3 })
  expect(JSON.stringify(told)).not.toContain(secret)
})

test("untraced, there is nothing to be had, and the answer says how to have it", async () => {
  const response = await fetch(`${untraced.url}/debug/trace`)
  expect(response.status).toBe(404)
  expect(await response.text()).toContain("--enable-tracing")
  const told = await ask(untraced, "/debug/dump_event_trace", {})
  expect(told.error.code).toBe("tracing_off")
})

// prometheus.io/docs/practices/naming: an accumulating count has `total` as its suffix, and nothing else has it.
test("of all numbers at /metrics, those that only rise end in _total", async () => {
  await chat(untraced, { max_tokens: 2 })
  const page = await (await fetch(`${untraced.url}/metrics`)).text()
  const types = new Map(
    Array.from(page.matchAll(/^# TYPE (\w+) (\w+)$/gm), ([, name, type]) => [name!, type!]),
  )
  for (const [name, type] of types) expect(name.endsWith("_total"), name).toBe(type === "counter")
  for (const level of ["running", "waiting", "blocks", "blocks_used", "blocks_remembered"])
    expect(types.get(`sinter_${level}`)).toBe("gauge")
})
