// An error as JSON: one body that both families of clients read, OpenAI's nested one and the flat one.

import { Problem, problem } from "../errors.ts"
import type { Exchange } from "./exchange.ts"
import { writeJson } from "./json.ts"

export function errorBody(error: Problem): string {
  const { message, type, param = null, code, status } = error
  return writeJson({
    error: { message, type, param, code },
    object: "error",
    message,
    code: status,
  })
}

/** What a client is told of an error: a problem's own words, or that the fault is ours, whose details the log has. */
export function problemOf(error: unknown, { id, log }: Pick<Exchange, "id" | "log">): Problem {
  if (error instanceof Problem && error.status > 0) return error
  log.error({ err: error, request: id }, "internal error")
  return problem("internal_error", { request: id })
}
