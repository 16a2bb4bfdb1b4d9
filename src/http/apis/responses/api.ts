// As OpenAI's other answers, but that a stream has no end marker: its last event holds the whole response.

import { writeJson } from "../../json.ts"
import type { Api } from "../api.ts"
import { openaiApi } from "../openai.ts"

export const responsesApi: Api = {
  ...openaiApi,
  streamEnd: [],
  // What fails within a response is told by its own last events; this is of what fails before there is one.
  streamFailure: ({ message, code, param = null }) => [
    { name: "error", data: writeJson({ type: "error", sequence_number: 0, code, message, param }) },
  ],
}
