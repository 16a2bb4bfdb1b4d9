// POST /v1/schema/check: whether replies can be held to a schema, without generating. The schema may stand alone or
// wherever a request has one; what was compiled for the answer is ready when the request comes.

import type { ResponseFormat, SchemaVerdict, Tool } from "../../chat/conversation.ts"
import { problem } from "../../errors.ts"
import { check } from "../check.ts"
import { type Answer, type Exchange, json, serviceOf } from "../exchange.ts"
import { type Json, writeJson } from "../json.ts"
import { readPlainSchema, readResponseFormat } from "../response-format.ts"
import { ChatCompletionRequest, SchemaCheckRequest } from "../schemas.ts"
import { readDefinitions } from "../tools.ts"

export async function checkSchema(exchange: Exchange): Promise<Answer> {
  const { chat } = serviceOf(exchange)
  check(SchemaCheckRequest, exchange.body)
  const asked = readAsked(exchange.body)
  if (asked.length === 0) {
    throw problem("invalid_value", { problem: "The body holds no schema to check." })
  }
  const unenforced: Json[] = []
  let unsatisfiable = false
  for (const each of asked) {
    const verdict: SchemaVerdict = await chat.checkSchema(each, exchange.signal)
    const tool = "name" in each ? each.name : null
    unsatisfiable ||= verdict.isUnsatisfiable
    unenforced.push(...verdict.unenforced.map((fault) => ({ tool, ...fault })))
  }
  const enforceable = unenforced.length === 0
  return json(writeJson({ object: "schema.check", enforceable, unsatisfiable, unenforced }))
}

type Members = Readonly<Record<string, Json>>

// No JSON Schema has keywords of these names, and its `type` is none of a response format's or a tool's.
function readAsked(body: Json): readonly (ResponseFormat | Tool)[] {
  if (typeof body !== "object" || body === null) return [readPlainSchema(body)]
  const members = body as Members
  const has = (name: string) => Object.hasOwn(members, name) && members[name] !== null
  if (has("response_format") || has("tools")) {
    const { response_format, tools } = checked(members, ["response_format", "tools"])
    const format = readResponseFormat(response_format)
    return [...(format ? [format] : []), ...readDefinitions(tools ?? [])]
  }
  if (has("function")) {
    return readDefinitions(checked({ tools: [members] }, ["tools"]).tools ?? [])
  }
  const { type } = members
  const isFormat = type === "text" || type === "json_object" || type === "json_schema"
  if (!isFormat && !has("schema") && !has("json_schema")) return [readPlainSchema(body)]
  const format = isFormat ? members : { ...members, type: "json_schema" }
  const given = checked({ response_format: format }, ["response_format"]).response_format
  return [readResponseFormat(given) ?? []].flat()
}

/** These fields of a request, held to its own schema. */
function checked(members: Members, names: readonly (keyof ChatCompletionRequest)[]) {
  const { properties } = ChatCompletionRequest
  for (const name of names) {
    if (members[name] !== undefined) check(properties[name], members[name]!, name)
  }
  return members as unknown as Partial<ChatCompletionRequest>
}
