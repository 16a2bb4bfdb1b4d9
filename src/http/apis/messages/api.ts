// Anthropic's way: an error is `{"type":"error","error":{type,message}}`, whose types go by status, with a code in `details`
// where clients act on one, and every event has a name.

import type { Problem } from "../../../errors.ts"
import { type Members, writeJson } from "../../json.ts"
import { Type } from "../../type.ts"
import type { Api, ServerEvent } from "../api.ts"
import { text } from "../fields.ts"

export const messagesApi: Api = {
  idHeader: "request-id",
  errorBody,
  ErrorBody: Type.Object(
    {
      type: Type.Literal("error"),
      error: Type.Object({
        type: text,
        message: text,
        details: Type.Optional(Type.Object({ error_code: text })),
      }),
    },
    { title: "MessagesError" },
  ),
  streamEnd: [],
  streamFailure: (error) => [{ name: "error", data: errorBody(error) }],
}

const TYPES: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  429: "rate_limit_error",
  503: "overloaded_error",
}

function errorBody(problem: Problem): string {
  const { status, code } = problem
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error")
  const details = CODES.has(code) && { details: { error_code: code } }
  return writeJson({ type: "error", error: { type, message: sentenceOf(problem), ...details } })
}

/** Those of Anthropic's own codes that its clients act on. */
const CODES: ReadonlySet<string> = new Set(["thread_not_found"])

const CLAUDE_CODE =
  "Claude Code asks for the models that ANTHROPIC_MODEL and ANTHROPIC_DEFAULT_HAIKU_MODEL name."

/** Claude Code shortens its conversation when it reads that the prompt is too long, and only then. */
function sentenceOf({ code, message, values }: Problem): string {
  switch (code) {
    case "context_length_exceeded":
      return `prompt is too long: ${values.tokens} tokens > ${values.limit} maximum. ${message}`
    case "model_not_found":
      return `${message} ${CLAUDE_CODE}`
    default:
      return message
  }
}

export function messagesEvent(type: string, members: Members = {}) {
  return { name: type, data: writeJson({ type, ...members }) } satisfies ServerEvent
}
