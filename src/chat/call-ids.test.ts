import { expect, test } from "vitest"
import { withOwnIds } from "./call-ids.ts"
import type { ChatMessage } from "./conversation.ts"
import { formats } from "./formats/formats.ts"

const { callId } = formats.kimi_k2
const user = (content: string): ChatMessage => ({ role: "user", content })
const calls = (...named: [string, string][]): ChatMessage => ({
  role: "assistant",
  content: "",
  toolCalls: named.map(([id, name]) => ({ id, name, arguments: "{}" })),
})
const result = (toolCallId?: string): ChatMessage => ({
  role: "tool",
  content: "x",
  ...(toolCallId !== undefined && { toolCallId }),
})

test.each([
  ["of the same id", "call_0"],
  ["without one", undefined],
  ["with an empty one", ""],
])("a result %s is that of the latest call, not of one that nobody answered", (_, id) => {
  const messages = [calls(["call_0", "a"]), user("?"), calls(["call_0", "b"]), result(id)]
  expect(withOwnIds(messages, callId).at(-1)).toMatchObject({
    toolCallId: "functions.b:1",
    name: "b",
  })
})

test("results of one message are its calls' in their order, and of earlier ones when these have theirs", () => {
  const messages = [calls(["x", "a"], ["y", "b"]), calls(["z", "c"]), result(), result(), result()]
  const ids = withOwnIds(messages, callId).slice(2)
  expect(ids.map(({ toolCallId }) => toolCallId)).toEqual([
    "functions.c:2",
    "functions.a:0",
    "functions.b:1",
  ])
})

test.each(["kimi_k2", "solar_open"] as const)(
  "%s writes a call under the id that it has",
  (name) => {
    const call = { id: "its-own", name: "a", arguments: "{}" }
    expect(formats[name].written([call])).toContain("its-own")
  },
)
