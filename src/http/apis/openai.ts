// OpenAI's way, which the specification's clients read, too: an error has one body for both families of clients, the nested
// one of OpenAI's contract and a flat one.

import type { Problem } from "../../errors.ts"
import { writeJson } from "../json.ts"
import { Type } from "../type.ts"
import type { Api } from "./api.ts"
import { nullable, text } from "./fields.ts"

const DONE = "[DONE]"

export const openaiApi: Api = {
  errorBody,
  ErrorBody: Type.Object(
    {
      error: Type.Object({
        message: text,
        type: text,
        param: nullable(text),
        code: text,
      }),
      object: Type.Literal("error"),
      message: text,
      code: Type.Integer({ description: "The HTTP status." }),
    },
    { title: "ErrorBody" },
  ),
  streamEnd: [DONE],
  streamFailure: (error) => [errorBody(error), DONE],
}

function errorBody(error: Problem): string {
  const { message, type, param = null, code, status } = error
  return writeJson({
    error: { message, type, param, code },
    object: "error",
    message,
    code: status,
  })
}
