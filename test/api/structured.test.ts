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

test("json_object is an object where its schema names no type", async () => {
  for (const schema of [{}, "{}", { properties: { a: { type: "integer" } } }]) {
    const response_format = { type: "json_object", schema }
    const ask = [{ role: "user", content: "Give me a number" }]
    const body = { messages: ask, response_format, seed: 1, temperature: 1.5, max_tokens: 5 }
    const { choices } = await whole(body, "native")
    expect(choices[0]!.content).toMatch(/^\{/)
  }
})

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

const DATE = "[0-9]{4}-[01][0-9]-[0-3][0-9]"
const GBNF = 'root ::= "(" root ")" | [a-f]{3}'
const LARK = 'start: sum\nsum: NUMBER | sum "+" NUMBER\n%import common.INT -> NUMBER\n%ignore " "'
const COLOURS = ["red", "green", "blue"]
const isNested = (text: string) => /^(\(*)[a-f]{3}(\)*)$/.test(text) && isBalanced(text)
const isBalanced = (text: string) => text.split("(").length === text.split(")").length

// Each with what is always true of its reply; a schema's reply ends with its value.
const languages: [object, (text: string) => boolean][] = [
  [{ regex: DATE }, (text) => new RegExp(`^${DATE}$`).test(text)],
  [{ response_format: { type: "regex", pattern: DATE } }, (text) => /^\d{4}-/.test(text)],
  [{ guided_regex: "(yes|no)" }, (text) => /^(yes|no)$/.test(text)],
  [{ choice: COLOURS }, (text) => COLOURS.includes(text)],
  [{ guided_choice: COLOURS, guided_json: null }, (text) => COLOURS.includes(text)],
  [{ structured_outputs: { choice: COLOURS } }, (text) => COLOURS.includes(text)],
  [{ structured_outputs: { json: schema } }, (text) => isValid(JSON.parse(text))],
  [{ grammar: GBNF }, isNested],
  [{ response_format: { type: "grammar", grammar: GBNF } }, isNested],
  [{ ebnf: GBNF }, isNested],
  [{ guided_grammar: LARK }, (text) => /^ *\d+( *\+ *\d+)* *$/.test(text)],
  [{ json_schema: schema }, (text) => isValid(JSON.parse(text))],
  [{ guided_json: schema }, (text) => isValid(JSON.parse(text))],
]

test.each(languages)("%j holds chats and plain texts", async (fields, holds) => {
  const body = { ...fields, seed: 4, temperature: 1.5, max_tokens: 120 }
  const { choices } = await whole(body)
  expect(choices[0]!.reason === "length" || holds(choices[0]!.content)).toBe(true)
  expect(await streamed(body)).toEqual(choices)
  const plain = await post(running, "/v1/completions", { ...body, prompt: "A word: " })
  const told = (await plain.json()) as { choices: { text: string; finish_reason: string }[] }
  const [choice] = told.choices
  expect(choice!.finish_reason === "length" || holds(choice!.text), choice!.text).toBe(true)
})

// guidance's VLLMModel: "we can send both, and vLLM will ignore the invalid one".
test("what says the same in fields of servers old and new is said once", async () => {
  const grammar = '%llguidance {}\n\nstart: a\na[capture]: A\n\nA: "yes"\n     | "no"\n\n'
  const { choices } = await whole({
    guided_decoding_backend: "guidance",
    guided_grammar: grammar,
    structured_outputs: { grammar },
    max_tokens: 9,
  })
  expect(["yes", "no"]).toContain(choices[0]!.content)
})

test.each([
  [{ regex: "(a" }, "regex", "The pattern in regex is refused: a group that is not closed."],
  [
    { grammar: "root ::= x" },
    "grammar",
    "The grammar in grammar is refused: line 1: x is defined nowhere.",
  ],
  [{ choice: ["a"], regex: "a" }, "choice", "choice and regex cannot both say what the reply is."],
  [
    { guided_regex: "a", regex: "a", guided_choice: ["a"] },
    "guided_choice",
    "guided_choice and regex cannot both say what the reply is.",
  ],
  [
    { structured_outputs: { structural_tag: "x" } },
    "structured_outputs.structural_tag",
    /is not supported/,
  ],
  [{ response_format: { type: "regex" } }, "response_format.pattern", /must be a text/],
  [{ choice: [1] }, "choice[0]", /must be/],
  [
    { min_tokens: 9, max_tokens: 8 },
    "min_tokens",
    "min_tokens must not be above max_tokens, which is 8.",
  ],
  [{ stop_token_ids: [999999] }, "stop_token_ids", /must hold token ids/],
])("%j is refused by name", async (fields, param, message) => {
  const answer = await post(running, path, { messages, ...fields })
  expect(answer.status).toBe(400)
  const told = (await answer.json()) as { message: string; error: { param: string } }
  expect(told.error.param).toBe(param)
  expect(told.message).toMatch(message)
})

test("a reply has its least number of tokens, whatever would have ended it", async () => {
  const body = { max_tokens: 40, temperature: 0 }
  const free = await whole(body)
  expect(free.choices[0]!.reason).toBe("stop")
  const least = free.usage.completion_tokens + 3
  const held = await whole({ ...body, min_tokens: least })
  expect(held.usage.completion_tokens).toBeGreaterThanOrEqual(least)
  expect(held.choices[0]!.content.startsWith(free.choices[0]!.content)).toBe(true)
  const [first = ""] = free.choices[0]!.content
  expect((await whole({ ...body, stop: first })).choices[0]!.content).toBe("")
  const late = await whole({ ...body, stop: first, min_tokens: 1 })
  expect(late.choices[0]!.content.startsWith(first)).toBe(true)
  const yes = await whole({ ...body, choice: ["yes"], min_tokens: 20 })
  expect(yes.choices[0]).toMatchObject({ content: "yes", reason: "stop" })
})

test("a reply ends before a token of stop_token_ids", async () => {
  const body = { max_tokens: 20, temperature: 0 }
  const { choices } = await whole(body)
  const answer = await post(running, "/tokenize", { prompt: choices[0]!.content })
  const { tokens } = (await answer.json()) as { tokens: number[] }
  const cut = await whole({ ...body, stop_token_ids: [tokens[2]!] })
  expect(cut.choices[0]!.reason).toBe("stop")
  expect(choices[0]!.content.startsWith(cut.choices[0]!.content)).toBe(true)
  expect(cut.usage.completion_tokens).toBeLessThan(tokens.length)
})
