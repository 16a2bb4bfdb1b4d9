// POST /v1/schema/check: whether replies can be held to a schema, without generating. The schema may stand alone or
// wherever a request has one; what was compiled for the answer is ready when the request comes.

import type { ResponseFormat, SchemaVerdict, Tool } from "../../../chat/conversation.ts"
import { problem } from "../../../errors.ts"
import { check, checking } from "../../check.ts"
import { type Answer, type Exchange, json, serviceOf } from "../../exchange.ts"
import { type Json, type Members, writeJson } from "../../json.ts"
import { inTurns, type Work } from "../../turns.ts"
import { ChatCompletionRequest } from "../chat/schema.ts"
import { readDefinitions } from "../chat/tools.ts"
import { readingFormat, readingPlainSchema } from "../format.ts"
import { SchemaCheckRequest } from "./schema.ts"

export async function checkSchema(exchange: Exchange): Promise<Answer> {
  const { chat } = await serviceOf(exchange)
  check(SchemaCheckRequest, exchange.body) // whose kind is all that it says
  const schemas = await inTurns(readingAsked(exchange.body))
  if (schemas.length === 0) {
    throw problem("invalid_value", { problem: "The body holds no schema to check." })
  }
  const unenforced: Json[] = []
  let unsatisfiable = false
  for (const each of schemas) {
    const verdict: SchemaVerdict = await chat.checkSchema(each, exchange)
    const tool = "name" in each ? each.name : null
    unsatisfiable ||= verdict.isUnsatisfiable
    unenforced.push(...verdict.unenforced.map((fault) => ({ tool, ...fault })))
  }
  const enforceable = unenforced.length === 0
  return json(writeJson({ object: "schema.check", enforceable, unsatisfiable, unenforced }))
}

const FORMAT_TYPES: readonly unknown[] = ["text", "json_object", "json_schema", "regex", "grammar"]

// No JSON Schema has keywords of these names, and its `type` is none of a response format's or a tool's.
function* readingAsked(body: Json): Work<readonly (ResponseFormat | Tool)[]> {
  if (typeof body !== "object" || body === null) return [yield* readingPlainSchema(body)]
  const members = body as Members
  const has = (name: string) => Object.hasOwn(members, name) && members[name] !== null
  if (has("response_format") || has("tools")) {
    const { response_format, tools } = yield* checkingFields(members, ["response_format", "tools"])
    const format = yield* readingFormat(response_format)
    return [...(format ? [format] : []), ...readDefinitions(tools ?? [])]
  }
  if (has("function")) {
    const { tools } = yield* checkingFields({ tools: [members] }, ["tools"])
    return readDefinitions(tools ?? [])
  }
  const { type } = members
  const isFormat = FORMAT_TYPES.includes(type)
  if (!isFormat && !has("schema") && !has("json_schema")) return [yield* readingPlainSchema(body)]
  const format = isFormat ? members : { ...members, type: "json_schema" }
  const given = yield* checkingFields({ response_format: format }, ["response_format"])
  return [(yield* readingFormat(given.response_format)) ?? []].flat()
}

/** These fields of a request, held to its own schema. */
function* checkingFields(
  members: Members,
  names: readonly (keyof ChatCompletionRequest)[],
): Work<Partial<ChatCompletionRequest>> {
  const { properties } = ChatCompletionRequest
  for (const name of names) {
    if (members[name] !== undefined) yield* checking(properties[name], members[name]!, name)
  }
  return members as unknown as Partial<ChatCompletionRequest>
}
