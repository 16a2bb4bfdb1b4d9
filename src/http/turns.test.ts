// Whatever one body holds, everybody else is served while it is read: counted in turns of the event loop, not by a clock.

import { expect, test } from "vitest"
import { turnsUntil } from "../../test/loop-turns.ts"
import { hi, LONG_TOKEN, parrot } from "../../test/parrot.ts"
import { atOnce, beginStream, inTurns, type Work } from "./turns.ts"

/** So many pieces; tells of each. */
function* pieces(count: number, tell: () => void): Work<string> {
  for (let piece = 1; piece < count; piece++) {
    tell()
    yield 1
  }
  tell()
  return "done"
}

test("one piece a turn, whoever it belongs to, each in its order", async () => {
  const told: string[] = []
  const work = (name: string) => inTurns(pieces(5, () => told.push(name)))
  const all = Promise.all([work("a"), work("b"), work("c")])
  expect(told).toEqual(["a", "b", "c"]) // the first piece of each waits for nobody
  const turns = await turnsUntil(all)
  expect(told).toEqual(Array(5).fill(["a", "b", "c"]).flat())
  expect(turns).toBeGreaterThanOrEqual(11)
  expect(await all).toEqual(["done", "done", "done"])
})

test("beside a stream work rests as long as it takes, and no longer than the stream lasts", async () => {
  const burn = () => {
    for (const end = performance.now() + 15; performance.now() < end; );
  }
  const end = beginStream()
  expect(await turnsUntil(inTurns(pieces(5, burn)))).toBeGreaterThan(100) // the loop comes round while it rests
  end()
  expect(await turnsUntil(inTurns(pieces(5, burn)))).toBeLessThan(20)
})

test("work that is over within its first piece takes no turn, and a fault ends it", async () => {
  let count = 0
  expect(await turnsUntil(inTurns(pieces(1, () => count++)))).toBeLessThanOrEqual(1)
  expect(count).toBe(1)
  expect(atOnce(pieces(3, () => {}))).toBe("done")
  const failing = function* (): Work<string> {
    yield 1
    throw new Error("no")
  }
  await expect(inTurns(failing())).rejects.toThrow("no")
  expect(await inTurns(pieces(2, () => {}))).toBe("done") // and the next one gets its turn
})

const many = (count: number, text: string) => Array(count).fill(text).join(",")
const chat = "/v1/chat/completions"
const conversation = `"model":"tiny","messages":[{"role":"user","content":"hi"}]`

test.each([
  ["a long text", chat, JSON.stringify({ ...hi, prompt: "", x: "x".repeat(1_900_000) }), 200, 100],
  ["numbers nobody asked for", chat, `{${conversation},"x":[${many(900_000, "0")}]}`, 200, 100],
  [
    "a long number and much text",
    chat,
    `{${conversation},"x":12345678901234567890,"y":"${"y".repeat(1_900_000)}"}`,
    200,
    100,
  ],
  [
    "many messages",
    chat,
    `{"model":"tiny","messages":[${many(15_000, '{"role":"user","content":"hi"}')}]}`,
    200,
    50,
  ],
  [
    "arguments",
    chat,
    JSON.stringify({
      model: "tiny",
      messages: [
        {
          role: "assistant",
          tool_calls: [{ function: { name: "f", arguments: `{"a":[${many(450_000, "0")}]}` } }],
        },
      ],
    }),
    200,
    100,
  ],
  [
    "a map of arguments",
    chat,
    `{"model":"tiny","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":[${many(450_000, "0")}]}}}]}]}`,
    200,
    200,
  ],
  [
    "structured data of a tool",
    chat,
    `{"model":"tiny","messages":[{"role":"tool","content":[{"a":[${many(450_000, "0")}]}]}]}`,
    200,
    200,
  ],
  [
    "a schema as text",
    chat,
    JSON.stringify({
      ...hi,
      response_format: { type: "json_object", schema: `{"enum":[${many(450_000, "0")}]}` },
    }),
    200,
    100,
  ],
  ["token ids", "/v1/completions", `{"model":"tiny","prompt":[${many(450_000, "7")}]}`, 200, 150],
  [
    "lists of token ids",
    "/v1/completions",
    `{"model":"tiny","prompt":[${many(100, `[${many(4500, "7")}]`)}]}`,
    200,
    150,
  ],
  ["token ids to spell", "/detokenize", `{"tokens":[${many(450_000, "72")}]}`, 200, 100],
  ["a text to encode", "/tokenize", JSON.stringify({ prompt: "x".repeat(1_900_000) }), 200, 300],
  ["a schema to check", "/v1/schema/check", `{"enum":[${many(450_000, "0")}]}`, 200, 50],
  [
    "a schema of a tool",
    "/v1/schema/check",
    `{"tools":[{"function":{"name":"f","parameters":{"enum":[${many(450_000, "0")}]}}}]}`,
    200,
    50,
  ],
  [
    "unknown fields",
    chat,
    `{${conversation},${Array.from({ length: 150_000 }, (_, i) => `"k${i}":1`).join()}}`,
    400,
    10,
  ],
  [
    "tools",
    chat,
    `{${conversation},"tools":[${many(60_000, '{"function":{"name":"f"}}')}]}`,
    400,
    50,
  ],
  ["brackets", chat, "[".repeat(2_000_000), 400, 5],
])("%s beside others", async (_, url, body, status, least) => {
  const { post } = parrot()
  const answer = post(body, {}, url)
  expect(await turnsUntil(answer)).toBeGreaterThanOrEqual(least)
  const { statusCode, body: text } = await answer
  expect(statusCode, text.slice(0, 300)).toBe(status)
})

test("as many tools as any model is told of are taken, and one more is not", async () => {
  const { post } = parrot()
  const tools = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ function: { name: `f${i}` } }))
  expect((await post({ ...hi, tools: tools(1024) })).statusCode).toBe(200)
  const answer = await post({ ...hi, tools: tools(1025) })
  expect(answer.json().message).toBe(
    "tools must be a list of at most 1024 objects, not a list of 1025.",
  )
})

test("ids whose text is far longer than themselves are refused", async () => {
  const { post } = parrot()
  const answer = await post({ tokens: Array(17_000).fill(LONG_TOKEN) }, {}, "/detokenize")
  expect(answer.json().message).toBe("tokens spell more than 16777216 characters.")
  const fewer = await post({ tokens: Array(1000).fill(LONG_TOKEN) }, {}, "/detokenize")
  expect(fewer.json().prompt).toHaveLength(1_000_000)
})
