// What a response was asked, as it is kept and shown: each item with its type and an id, texts in parts, as OpenAI's are.

import { fault, mustBe } from "../../check.ts"
import type { Exchange } from "../../exchange.ts"
import type { Json, Members } from "../../json.ts"

const PREFIXES: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
}

/** @param stem what the ids of the response's items have in common */
export function inputItems(input: readonly Json[], stem: string): readonly Json[] {
  return (input as readonly Members[]).map((item, index) => {
    const { type = "message", id, status } = item
    const prefix = PREFIXES[type as string] ?? "item"
    return {
      ...item,
      type,
      id: typeof id === "string" ? id : `${prefix}_${stem}i${index}`,
      status: status ?? "completed",
      ...(type === "message" && { content: partsOf(item) }),
    }
  })
}

function partsOf({ role, content }: Members): Json {
  if (typeof content !== "string") return content ?? []
  if (role !== "assistant") return [{ type: "input_text", text: content }]
  return [{ type: "output_text", text: content, annotations: [], logprobs: [] }]
}

const MAX_LIMIT = 100

/** A page of them: the newest first unless the query says otherwise. */
export function pageOf(items: readonly Json[], query: Exchange["query"]): Json {
  const { limit = "20", order = "desc", after } = query
  const count = /^\d+$/.test(String(limit)) ? Number(limit) : 0
  if (count < 1 || count > MAX_LIMIT)
    throw mustBe("limit", `an integer from 1 to ${MAX_LIMIT}`, limit)
  if (order !== "asc" && order !== "desc") throw mustBe("order", '"asc" or "desc"', order)
  const ordered = (order === "asc" ? items : items.toReversed()) as readonly { id: string }[]
  const begin = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && begin === 0) throw fault("after", "names no item of this response")
  const data = ordered.slice(begin, begin + count)
  return {
    object: "list",
    data: data as readonly Json[],
    has_more: begin + count < ordered.length,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  }
}
