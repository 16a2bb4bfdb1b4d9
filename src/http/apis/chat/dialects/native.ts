// The specification's own shapes: every delta is a whole message, with a role and a text, and what is absent is null.
// Calls are maps in whole answers. In streams they are a text that lists them once all are known, and after it the same
// calls as OpenAI's clients read them, so that neither family of clients misses one.

import { writeCallList } from "../../../../chat/formats/call-list.ts"
import { type Json, JsonText, readJson } from "../../../json.ts"
import type { ToolText } from "../../../service.ts"
import { type Call, callJson, type Dialect } from "./dialect.ts"

export const native: Dialect = {
  message: ({ content, reasoning, calls }) => {
    const whole = calls.filter(isWhole)
    const text = content + textOfCut(calls)
    return {
      ...message(text === "" && whole.length > 0 ? null : text, reasoning),
      ...(whole.length > 0 && {
        tool_calls: whole.map((call) => callJson(call, new JsonText(call.arguments))),
      }),
    }
  },
  unreadable: "error",
  begin: (toolText) => {
    const calls: Call[] = []
    return {
      take: (event) => {
        switch (event.kind) {
          case "content":
            return [message(event.text)]
          case "reasoning":
            return [message("", event.text)]
          case "call":
            calls[event.index] = { id: event.id, name: event.name, arguments: "" }
            return []
          case "arguments":
            calls[event.index]!.arguments += event.text
            return []
        }
      },
      end: () => (calls.length > 0 ? [...callDeltas(calls, toolText), message("")] : [message("")]),
    }
  },
  signOfLife: "chunk",
}

function message(content: string | null, reasoning?: string) {
  return {
    role: "assistant",
    content,
    name: null,
    tool_calls: null,
    tool_call_id: null,
    ...(reasoning && { reasoning_content: reasoning }),
  }
}

function callDeltas(calls: readonly Call[], toolText: ToolText): Json[] {
  const whole = calls.filter(isWhole)
  const listed = whole.length > 0 ? [message(writeCallList(whole, toolText))] : []
  const structured = calls.map((call, index) => ({ index, ...callJson(call, call.arguments) }))
  return [...listed, { ...message(""), tool_calls: structured }]
}

/** A call that the reply's end cut off has no map: its text is passed on. */
function textOfCut(calls: readonly Call[]): string {
  const cut = calls.find((call) => !isWhole(call))
  return cut ? `${cut.name}(${cut.arguments}` : ""
}

function isWhole(call: Call): boolean {
  try {
    readJson(call.arguments)
    return true
  } catch {
    return false
  }
}
