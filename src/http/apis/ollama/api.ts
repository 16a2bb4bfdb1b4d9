// Ollama's way: an error is a text, and a stream is lines of JSON.

import type { Problem } from "../../../errors.ts"
import { writeJson } from "../../json.ts"
import { Type } from "../../type.ts"
import type { Api } from "../api.ts"
import { text } from "../fields.ts"

export const ollamaApi: Api = {
  root: "/api",
  errorBody,
  ErrorBody: Type.Object({ error: text }, { title: "OllamaError" }),
  framing: {
    type: "application/x-ndjson",
    write: (line) => `${typeof line === "string" ? line : line.data}\n`,
  },
  streamEnd: [],
  streamFailure: (error) => [errorBody(error)],
}

function errorBody({ message }: Problem): string {
  return writeJson({ error: message })
}
