// Which dialect a request gets: its path says, else its header, else the server's option, else what gives an OpenAI
// client away. Most of those that nobody lists send a key, wanted or not; the specification knows of none. The answer's
// `x-api-dialect` header reports the choice.

import type { IncomingHttpHeaders } from "node:http"
import { problem } from "../../../../errors.ts"
import { show } from "../../../check.ts"
import { isMembers, type Json, type Members } from "../../../json.ts"
import type { Dialect } from "./dialect.ts"
import { native } from "./native.ts"
import { openai } from "./openai.ts"

export const dialects = { native, openai } satisfies Record<string, Dialect>
export type DialectName = keyof typeof dialects

/** Under this path everything is `openai`. */
export const OPENAI_PATH = "/openai"

/**
 * What the user agents of clients hold that speak nothing else. The AI SDK's begins with `ai/`, and says the rest later. Chat
 * pages and kits that give no name of their own have their HTTP library's: Go's (go-openai), aiohttp (Open WebUI), reqwest
 * (async-openai), Java's own, OkHttp and Apache's (LangChain4j, Spring AI, openai-java).
 */
export const CLIENTS = [
  ...["OpenAI/", "ai-sdk", "langchain", "litellm", "async-openai"],
  ...[
    "Go-http-client/",
    "aiohttp/",
    "reqwest/",
    "Java-http-client/",
    "okhttp/",
    "Apache-HttpClient/",
  ],
]

/** @param body undefined before it has been read, and where there is none. */
export function chooseDialect(
  path: string,
  headers: IncomingHttpHeaders,
  option: "auto" | DialectName,
  body: Json | undefined,
): DialectName {
  if (path.startsWith(`${OPENAI_PATH}/`)) return "openai"
  const header = headers["x-api-dialect"]
  if (header !== undefined) return readName(String(header))
  if (option !== "auto") return option
  return isOpenaiClient(headers) || (isMembers(body) && isOpenaiBody(body)) ? "openai" : "native"
}

function readName(asked: string): DialectName {
  const name = asked.trim().toLowerCase()
  if (name === "native" || name === "openai") return name
  const what = `The header x-api-dialect must be native or openai, not ${show(asked)}.`
  throw problem("invalid_value", { problem: what }, "x-api-dialect")
}

function isOpenaiClient(headers: IncomingHttpHeaders): boolean {
  const agent = (headers["user-agent"] ?? "").toLowerCase()
  return (
    headers.authorization !== undefined ||
    headers["x-stainless-lang"] !== undefined ||
    CLIENTS.some((client) => agent.includes(client.toLowerCase()))
  )
}

/** Whether the body uses what only OpenAI's contract has. */
function isOpenaiBody(body: Members): boolean {
  const { messages, tools, response_format: format } = body
  return (
    isGiven(body.stream_options) ||
    isGiven(body.max_completion_tokens) ||
    isGiven(body.parallel_tool_calls) ||
    (isMembers(format) && isGiven(format.json_schema)) ||
    items(tools).some((tool) => isMembers(tool.function) && isGiven(tool.function.strict)) ||
    items(messages).some((message) => items(message.tool_calls).some(hasTextArguments))
  )
}

function hasTextArguments(call: Members): boolean {
  return isMembers(call.function) && typeof call.function.arguments === "string"
}

function isGiven(value: Json | undefined): boolean {
  return value !== undefined && value !== null
}

function items(value: Json | undefined): Members[] {
  return Array.isArray(value) ? (value as readonly Json[]).filter(isMembers) : []
}
