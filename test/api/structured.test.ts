// Response formats and tools over the embedded model, in both dialects: every spelling, streams, several choices, seeds,
// stop strings and cuts. The judge is ajv, which the server does not use.

import { Ajv } from "ajv"
import { expect, test } from "vitest"
import { eventsOf } from "../parrot.ts"
import { post, server } from "./server.ts"

const running = server()
const dialects = ["native", "openai"] as const
type Dialect = (typeof dialects)[number]

const schema = {
  type: "object",
  properties: {
    kind: { enum: ["cat", "dog"] },
    "full name": { type: "string", minLength: 1, maxLength: 20 },
    tags: { type: "array", items: { type: "string", pattern: "^[a-z]{2,6}$" }, maxItems: 3 },
    age: { type: "integer", minimum: 0, maximum: 30 },
  },
  required: ["kind", "full name", "age"],
  additionalProperties: false,
}
const text = JSON.stringify(schema)
const isValid = new Ajv().compile(schema)

const spellings = [
  { type: "json_object", schema },
  { type: "json_object", schema: text },
  { type: "json_schema", schema },
  { type: "json_schema", schema: text },
  { type: "json_schema", json_schema: schema },
  { type: "json_schema", json_schema: text },
  { type: "json_schema", json_schema: { schema } },
  { type: "json_schema", json_schema: { name: "pet", strict: true, schema } },
  { type: "json_schema", json_schema: { name: "pet", schema: text } },
]
const format = spellings[0]!
const messages = [{ role: "user", content: "Tell me of a pet." }]

interface Choice {
  content: string
  calls: { name: string; arguments: string }[]
  reason: string
}

const path = "/v1/chat/completions"

async function whole(body: object, dialect: Dialect = "openai") {
  const answer = await post(running, path, { messages, ...body }, { "x-api-dialect": dialect })
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
  const told: any = await answer.json()
  if (answer.status !== 200) throw new Error(told.message)
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const choices: Choice[] = told.choices.map(({ message, finish_reason }: any) => ({
    content: message.content ?? "",
    // biome-ignore lint/suspicious/noExplicitAny: as above
    calls: (message.tool_calls ?? []).map((call: any) => ({
      name: call.function.name,
      arguments: textOf(call.function.arguments),
    })),
    reason: finish_reason,
  }))
  return { choices, usage: told.usage }
}

/** Native answers have maps; two texts of one value are made one. */
function textOf(given: unknown): string {
  return typeof given === "string" ? given : JSON.stringify(given)
}

async function streamed(body: object, dialect: Dialect = "openai"): Promise<Choice[]> {
  const headers = { "x-api-dialect": dialect }
  const answer = await post(running, path, { messages, ...body, stream: true }, headers)
  const choices: Choice[] = []
  for (const { choices: pieces } of eventsOf(await answer.text())) {
    for (const { index, delta, finish_reason } of pieces) {
      choices[index] ??= { content: "", calls: [], reason: "" }
      const choice = choices[index]
      choice.content += delta.content ?? ""
      for (const call of delta.tool_calls ?? []) {
        choice.calls[call.index] ??= { name: call.function.name, arguments: "" }
        choice.calls[call.index]!.arguments += call.function.arguments ?? ""
      }
      if (finish_reason) choice.reason = finish_reason
    }
  }
  return choices
}

test.each(dialects)(
  "%s: every spelling of a format gives the same valid value",
  async (dialect) => {
    const contents = new Set<string>()
    for (const response_format of spellings) {
      const { choices } = await whole({ response_format, seed: 3, temperature: 1.5 }, dialect)
      expect(choices[0]!.reason).toBe("stop")
      expect(isValid(JSON.parse(choices[0]!.content))).toBe(true)
      contents.add(choices[0]!.content)
    }
    expect(contents.size).toBe(1)
  },
)

test.each(dialects)(
  "%s: streams say what whole answers say, for several choices",
  async (dialect) => {
    for (const seed of [1, 2]) {
      const body = { response_format: format, seed, temperature: 2, n: 3 }
      const { choices } = await whole(body, dialect)
      expect(choices).toHaveLength(3)
      expect(new Set(choices.map(({ content }) => content)).size).toBeGreaterThan(1)
      for (const { content, reason } of choices) {
        expect(reason).toBe("stop")
        expect(isValid(JSON.parse(content)), content).toBe(true)
      }
      expect(await streamed(body, dialect)).toEqual(choices)
      expect((await whole(body, dialect)).choices).toEqual(choices)
    }
  },
)

test("alone and in company the same seeds give the same values", async () => {
  const bodies = Array.from({ length: 6 }, (_, seed) => ({
    response_format: format,
    seed,
    temperature: 1.5,
  }))
  const alone: Choice[] = []
  for (const body of bodies) alone.push(...(await whole(body)).choices)
  const together = await Promise.all(bodies.map((body) => whole(body)))
  expect(together.flatMap(({ choices }) => choices)).toEqual(alone)
})

test("a stop string cuts a value like any text, in streams too", async () => {
  const body = { response_format: format, seed: 5, temperature: 1 }
  const [full] = (await whole(body)).choices
  for (const stop of ["zzz", '"', '","', ":"]) {
    const { choices } = await whole({ ...body, stop: ["never", stop] })
    const at = full!.content.indexOf(stop)
    const content = at < 0 ? full!.content : full!.content.slice(0, at)
    expect(choices).toEqual([{ ...full, content }])
    expect(await streamed({ ...body, stop: ["never", stop] })).toEqual(choices)
  }
})

test("running out of tokens leaves the beginning of the same value", async () => {
  const body = { response_format: format, seed: 9, temperature: 1 }
  const full = await whole(body)
  for (let max_tokens = 1; max_tokens < full.usage.completion_tokens; max_tokens += 4) {
    const [cut] = (await whole({ ...body, max_tokens })).choices
    expect(cut!.reason).toBe("length")
    expect(full.choices[0]!.content.startsWith(cut!.content)).toBe(true)
  }
})

test("logprobs list the tokens of the value, each allowed", async () => {
  const body = { messages, response_format: format, seed: 4, logprobs: true, top_logprobs: 2 }
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
  const told: any = await (await post(running, path, body)).json()
  const { message, logprobs } = told.choices[0]
  const bytes = logprobs.content.flatMap((each: { bytes: number[] }) => each.bytes)
  expect(Buffer.from(bytes).toString()).toBe(message.content)
})

const parameters = {
  type: "object",
  properties: { city: { type: "string", maxLength: 12 }, days: { type: "integer", minimum: 1 } },
  required: ["city"],
  additionalProperties: false,
}
const areArguments = new Ajv().compile(parameters)
const weather = { type: "function", function: { name: "weather", parameters } }
const clock = { type: "function", function: { name: "now" } }
const tools = [weather, clock]

const choicesOfTools = [
  ["required", 1],
  [{ type: "function", function: { name: "weather" } }, 1],
  ["auto", 0],
  ["none", 0],
] as const

test.each(
  dialects.flatMap((dialect) =>
    choicesOfTools.map(([tool_choice, least]) => ({ dialect, tool_choice, least })),
  ),
)("$dialect: tool_choice $tool_choice, whole and streamed", async (each) => {
  const { dialect, tool_choice, least } = each
  for (const seed of [1, 2, 3]) {
    const body = { tools, tool_choice, seed, temperature: 1.2, max_tokens: 300 }
    const [said] = (await whole(body, dialect)).choices
    const { calls, reason } = said!
    expect(calls.length).toBeGreaterThanOrEqual(reason === "length" ? 0 : least)
    if (tool_choice === "none") expect(calls).toEqual([])
    if (typeof tool_choice === "object") {
      expect(new Set(calls.map(({ name }) => name))).toEqual(new Set(["weather"]))
    }
    if (reason !== "length") expect(reason).toBe(calls.length > 0 ? "tool_calls" : "stop")
    for (const call of calls.slice(0, reason === "length" ? -1 : undefined)) {
      const given = JSON.parse(call.arguments)
      expect(call.name === "weather" ? areArguments(given) : given).toEqual(
        call.name === "weather" ? true : {},
      )
    }
    const [stream] = await streamed(body, dialect)
    expect(stream!.reason).toBe(reason)
    expect(stream!.calls.map(callValue)).toEqual(calls.map(callValue))
    // In native, the stream's content lists the calls as text.
    if (dialect === "openai" || calls.length === 0) expect(stream!.content).toBe(said!.content)
  }
})

function callValue(call: { name: string; arguments: string }) {
  try {
    return { name: call.name, value: JSON.parse(call.arguments) as unknown }
  } catch {
    return { name: call.name, value: call.arguments } // cut off
  }
}

test("parallel_tool_calls: false ends with the first call; a call and a format live together", async () => {
  for (const seed of [1, 2, 3, 4]) {
    const one = { tools, tool_choice: "required", parallel_tool_calls: false, seed }
    expect((await whole({ ...one, temperature: 1.5 })).choices[0]!.calls).toHaveLength(1)
    const both = { tools, response_format: format, seed, temperature: 2 }
    const [said] = (await whole(both)).choices
    if (said!.calls.length === 0) expect(isValid(JSON.parse(said!.content))).toBe(true)
    else expect(said!.reason).toBe("tool_calls")
  }
})
