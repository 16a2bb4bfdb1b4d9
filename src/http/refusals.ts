// What this server knows of and is not for, in one table: each row a sentence that names the field. Being asked for one
// of these is an answer 400, never a silent omission.

import { problem } from "../errors.ts"
import type { Json } from "./json.ts"

interface Refusal {
  param: string
  asked: (value: Json, body: Members) => boolean
  because: string
}

type Members = Readonly<Record<string, Json>>

const isFilledList = (value: Json) => Array.isArray(value) && value.length > 0
const isGiven = () => true

export const unsupported: readonly Refusal[] = [
  {
    param: "functions",
    asked: isFilledList,
    because: "functions: this older form of tools is not supported; use tools.",
  },
  {
    param: "function_call",
    asked: (value) => value !== "none" && value !== "auto",
    because: "function_call: this older form is not supported; use tools and tool_choice.",
  },
  {
    param: "suffix",
    asked: (value) => value !== "",
    because: "suffix: filling in between two texts is not supported.",
  },
  {
    param: "best_of",
    asked: (value, { n }) => value !== 1 && value !== n,
    because: "best_of: this server generates exactly the n replies it returns.",
  },
  {
    param: "store",
    asked: (value) => value === true,
    because: "store: this server stores nothing; leave it out or say false.",
  },
  {
    param: "modalities",
    asked: (value) => !Array.isArray(value) || value.some((kind) => kind !== "text"),
    because: "modalities: the model writes text only.",
  },
  { param: "audio", asked: isGiven, because: "audio: the model writes text only." },
]

/** Throws the problem `unsupported_value` for the first field that a row refuses. */
export function refuse(body: Json): void {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return
  for (const { param, asked, because } of unsupported) {
    const value = Object.hasOwn(body, param) ? (body as Members)[param] : undefined
    if (value !== undefined && value !== null && asked(value, body as Members)) {
      throw problem("unsupported_value", { problem: because }, param)
    }
  }
}
