// POST /v1/schema/check over the embedded model: the schema is found wherever a request may have one.

import { expect, test } from "vitest"
import { ask, post, server } from "./server.ts"

const running = server()
const path = "/v1/schema/check"

const good = { type: "object", properties: { id: { const: 5 } }, required: ["id"] }
const back = { type: "string", pattern: "(a)\\1" }
const odd = { type: "object", properties: { "a/b": back, c: { anyOf: [back, { type: "null" }] } } }
const faults = [
  { tool: null, pointer: "/properties/a~1b", keyword: "pattern", reason: expect.any(String) },
  { tool: null, pointer: "/properties/c/anyOf/0", keyword: "pattern", reason: expect.any(String) },
]

function spellings(schema: object): object[] {
  const text = JSON.stringify(schema)
  return [
    schema,
    { schema },
    { schema: text },
    { type: "json_object", schema },
    { type: "json_schema", schema: text },
    { type: "json_schema", json_schema: schema },
    { type: "json_schema", json_schema: text },
    { type: "json_schema", json_schema: { name: "x", strict: true, schema } },
    { json_schema: { name: "x", schema: text } },
    { response_format: { type: "json_schema", json_schema: { name: "x", schema } } },
  ]
}

test("what can be enforced is, in every spelling", async () => {
  for (const body of spellings(good)) {
    expect(await ask(running, path, body)).toEqual({
      object: "schema.check",
      enforceable: true,
      unsatisfiable: false,
      unenforced: [],
    })
  }
})

test("every keyword that cannot be enforced is named, in every spelling", async () => {
  for (const body of spellings(odd)) {
    const told = await ask(running, path, body)
    expect(told).toMatchObject({ enforceable: false, unsatisfiable: false })
    expect(told.unenforced).toEqual(expect.arrayContaining(faults))
    expect(told.unenforced).toHaveLength(2)
  }
})

test("tools are told apart by their names", async () => {
  const f = { type: "function", function: { name: "f", parameters: odd } }
  const g = { type: "function", function: { name: "g" } }
  const named = faults.map((fault) => ({ ...fault, tool: "f" }))
  for (const body of [f, { tools: [f, g] }, { tools: [g, f], response_format: { type: "text" } }]) {
    const { unenforced } = await ask(running, path, body)
    expect(unenforced).toEqual(expect.arrayContaining(named))
    expect(unenforced).toHaveLength(2)
  }
  expect(await ask(running, path, g)).toMatchObject({ enforceable: true })
})

test("no value satisfies it", async () => {
  const body = { allOf: [{ type: "string" }, { type: "integer" }] }
  const told = await ask(running, path, body)
  expect(told).toMatchObject({ enforceable: false, unsatisfiable: true })
  expect(told.unenforced).toEqual([
    { tool: null, pointer: "", keyword: "", reason: expect.stringContaining("no value") },
  ])
})

test("schemas that are no object are schemas too", async () => {
  const posted = async (text: string) => {
    const headers = { "content-type": "application/json" }
    const answer = await fetch(running.url + path, { method: "POST", headers, body: text })
    return [answer.status, await answer.json()] as unknown[]
  }
  expect(await posted("true")).toMatchObject([200, { enforceable: true }])
  expect(await posted("false")).toMatchObject([200, { unsatisfiable: true }])
  expect(await posted(JSON.stringify(JSON.stringify(good)))).toMatchObject([
    200,
    { enforceable: true },
  ])
  expect(await posted('"{"')).toMatchObject([400, { error: { code: "invalid_value" } }])
  expect(await posted("[]")).toMatchObject([400, { error: { code: "invalid_value" } }])
})

test("what holds no schema, or is no tool, is refused with its place", async () => {
  const refused = async (body: object) => {
    const answer = await post(running, path, body)
    expect(answer.status).toBe(400)
    return ((await answer.json()) as { error: { param: unknown } }).error.param
  }
  expect(await refused({ type: "text" })).toBe(null)
  expect(await refused({ tools: [] })).toBe(null)
  expect(await refused({ type: "json_schema" })).toBe("response_format.json_schema")
  expect(await refused({ tools: [{ function: {} }] })).toBe("tools[0].function.name")
  expect(await refused({ tools: [{ function: { name: "a b" } }] })).toBe("tools[0].function.name")
})
