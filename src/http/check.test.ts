import { Ajv } from "ajv"
import { type TSchema, Type } from "typebox"
import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { ChatCompletionRequest } from "./apis/chat/schema.ts"
import { assertKnownKeywords, check } from "./check.ts"
import { type Json, readJson, writeJson } from "./json.ts"
import { routes } from "./routes.ts"

const base = { model: "m", messages: [{ role: "user", content: "hi" }] }

test.each([
  [
    { logit_bias: { "a\nb": "x" } },
    'logit_bias["a\\nb"]',
    /^logit_bias\["a\\nb"\] must be a number/,
  ],
  [{ temperature: 3 }, "temperature", "temperature must be a number from 0 to 2, not 3."],
  [{ temperature: "hot" }, "temperature", 'temperature must be a number from 0 to 2, not "hot".'],
  [{ stream: "true" }, "stream", 'stream must be true or false, not "true".'],
  [{ n: 0 }, "n", "n must be an integer from 1 to 128, not 0."],
  [{ n: 1.5 }, "n", "n must be an integer from 1 to 128, not 1.5."],
  [{ n: "2" }, "n", 'n must be an integer from 1 to 128, not "2".'],
  [{ n: { toString: 1 } }, "n", "n must be an integer from 1 to 128, not an object."],
  [{ max_tokens: 0 }, "max_tokens", "max_tokens must be an integer of at least 1, not 0."],
  [
    { max_tokens: 2 ** 60 },
    "max_tokens",
    /^max_tokens must be an integer of at least 1 and below 2\^53, not 1152/,
  ],
  [{ stop: "" }, "stop", "stop must be a string that is not empty, not an empty string."],
  [
    { stop: ["a", ""] },
    "stop[1]",
    "stop[1] must be a string that is not empty, not an empty string.",
  ],
  [{ stop: [1] }, "stop[0]", "stop[0] must be a string that is not empty, not 1."],
  [{ logit_bias: { 5: 101 } }, "logit_bias.5", /from -100 to 100, not 101/],
  [
    { messages: [] },
    "messages",
    "messages must be a list of objects that is not empty, not an empty list.",
  ],
  [{ messages: "hi" }, "messages", /^messages must be a list/],
  [{ messages: [{ content: "hi" }] }, "messages[0].role", "messages[0].role is required."],
  [
    { messages: [{ role: "robot", content: "hi" }] },
    "messages[0].role",
    'messages[0].role must be one of "system", "developer", "user", "assistant", "tool", not "robot".',
  ],
  [
    { messages: [{ role: "user", content: 5 }] },
    "messages[0].content",
    /content must be a string or/,
  ],
  [
    { tools: [{ type: "custom", custom: { name: "f" } }] },
    "tools[0].type",
    'tools[0].type must be "function", not "custom".',
  ],
  [{ model: null }, "model", "model must be a string, not null."],
  [
    { seed: 1.5 },
    "seed",
    /^seed must be an integer from -9223372036854775808 to 18446744073709551615/,
  ],
  [{ repetition_penalty: 0 }, "repetition_penalty", /from 0.01 to 10, not 0/],
  [{ store: true }, "store", "store must be false, not true: nothing is stored."],
] as const)("%j is refused in one sentence", (fields, param, sentence) => {
  const fault = faultOf(ChatCompletionRequest, { ...base, ...fields } as unknown as Json)
  expect(fault?.param).toBe(param)
  expect(fault?.message).toMatch(sentence)
  expect(fault?.message.match(/\.$/)).toBeTruthy()
})

test("the whole 64 bits of a seed are taken, and one more is not", () => {
  const seed = (text: string) =>
    faultOf(ChatCompletionRequest, { ...base, seed: readJson(text) } as Json)
  expect(seed("18446744073709551615")).toBeUndefined()
  expect(seed("-9223372036854775808")).toBeUndefined()
  expect(seed("18446744073709551616")?.param).toBe("seed")
  expect(seed("-9223372036854775809")?.param).toBe("seed")
  expect(seed("1e19")?.param).toBe("seed")
})

test("null stands for absent in every optional field", () => {
  const nulls = Object.fromEntries(
    Object.keys(ChatCompletionRequest.properties).map((name) => [name, null]),
  )
  expect(faultOf(ChatCompletionRequest, { ...nulls, ...base } as Json)).toBeUndefined()
})

test("no schema of a request uses a keyword that the check would skip", () => {
  for (const { body } of routes) if (body) assertKnownKeywords(body)
  expect(() => assertKnownKeywords(Type.String({ pattern: "x" }))).toThrow(/pattern/)
})

// ajv is an independent reader of the same schemas: they must agree on every body, wherever it was damaged.
test("agrees with ajv", () => {
  const ajv = new Ajv({
    strict: false,
    allowUnionTypes: true,
    formats: { int64: true, binary: () => false },
  })
  const judges = routes
    .filter(({ body }) => body && "properties" in body) // others take any JSON
    .map(
      ({ body }) =>
        [body!, ajv.compile(JSON.parse(writeJson(body as unknown as Json)) as object)] as const,
    )
  const values = [
    null,
    true,
    0,
    1,
    -3,
    2.5,
    1e9,
    "",
    "x",
    "assistant",
    [],
    {},
    ["a"],
    [[1]],
    { a: 1 },
  ]
  let random = 11
  const next = (below: number) => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0
    return Math.floor((random / 2 ** 32) * below)
  }
  let refused = 0
  for (let round = 0; round < 6000; round++) {
    const [schema, validate] = judges[next(judges.length)]!
    const body = bodyFor(schema, () => values[next(values.length)], next)
    const fault = faultOf(schema, body as Json)
    expect(fault === undefined, `${JSON.stringify(body)}: ${fault?.message}`).toBe(validate(body))
    if (fault) refused++
  }
  expect(refused).toBeGreaterThan(1000)
})

function bodyFor(schema: TSchema, value: () => unknown, next: (below: number) => number) {
  const names = Object.keys((schema as unknown as { properties: object }).properties)
  const body: Record<string, unknown> = { ...base, prompt: "x", tokens: [1] }
  for (let edits = next(3); edits > 0; edits--) body[names[next(names.length)]!] = value()
  if (next(3) === 0) {
    const message: Record<string, unknown> = { role: "user", content: "x" }
    const fields = ["role", "content", "name", "tool_calls", "tool_call_id"]
    message[fields[next(fields.length)]!] = value()
    body.messages = [message, value()].slice(0, 1 + next(2))
  }
  if (next(20) === 0) delete body.model
  return body
}

function faultOf(schema: TSchema, body: Json): Problem | undefined {
  try {
    check(schema, body)
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
  return undefined
}
