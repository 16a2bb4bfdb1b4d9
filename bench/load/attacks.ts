// Requests that are meant to hurt: each is one that once held a server up, filled its memory or ended it. They come from one
// table; whatever the answer is, it is read and thrown away, or left unread.

import { type IncomingMessage, request } from "node:http"
import { connect } from "node:net"
import type { Random } from "./questions.ts"

/** A request's path and body, made when the storm begins: making them must not cost the machine anything while it rages. */
interface Attack {
  path: string
  body: string
}

const CHAT = "/v1/chat/completions"
const COMPLETIONS = "/v1/completions"

const messages = [{ role: "user", content: "Tell me about the sea." }]
const list = <T>(length: number, make: (i: number) => T) =>
  Array.from({ length }, (_, i) => make(i))

function overlapping(count: number): object {
  const properties = Object.fromEntries(list(20, (i) => [`p${i}`, { type: "string" }]))
  return {
    oneOf: list(count, (i) => ({
      type: "object",
      properties: { ...properties, [`q${i}`]: { type: "integer" } },
      required: [`q${i}`],
    })),
  }
}

/** Name, path and body; text is sent as it stands, anything else as JSON. */
const TABLE: readonly [string, string, object | string][] = [
  ["a crowd", CHAT, { messages, n: 128, max_tokens: 200 }],
  ["a crowd that streams", CHAT, { messages, n: 128, max_tokens: 200, stream: true }],
  [
    "a crowd with scores",
    CHAT,
    { messages, n: 128, max_tokens: 100, logprobs: true, top_logprobs: 20 },
  ],
  ["scores of a long prompt", COMPLETIONS, scores(4000, 128)],
  ["scores of a prompt", COMPLETIONS, scores(1000, 32)],
  ["long stop strings", CHAT, { messages, n: 128, stop: list(4, (i) => `${i}`.repeat(4000)) }],
  [
    "too long stop strings",
    CHAT,
    { messages, n: 128, stop: list(64, (i) => `${i}`.repeat(30_000)) },
  ],
  ["overlapping objects", "/v1/schema/check", { schema: overlapping(60) }],
  [
    "a schema in a reply",
    CHAT,
    { messages, max_tokens: 50, response_format: schema(overlapping(8)) },
  ],
  [
    "many different items",
    "/v1/schema/check",
    { schema: { type: "array", minItems: 100_000, uniqueItems: true } },
  ],
  ["depth", CHAT, `{"model":"tiny","messages":${"[".repeat(2_000_000)}`],
  [
    "many tools",
    CHAT,
    { messages, tools: list(60_000, (i) => ({ type: "function", function: { name: `f${i}` } })) },
  ],
  ["many fields", CHAT, { messages, ...Object.fromEntries(list(150_000, (i) => [`x${i}`, 1])) }],
  ["a long number", CHAT, `{"model":"tiny","messages":[],"seed":${"9".repeat(2_000_000)}}`],
  ["many ids", "/detokenize", { tokens: list(400_000, (i) => 300 + (i % 1000)) }],
  ["a long text", "/tokenize", { prompt: "word ".repeat(84_000) }],
  ["a longer text", "/tokenize", { prompt: "word ".repeat(380_000) }],
  ["a run of blanks", "/tokenize", { prompt: " ".repeat(1_900_000) }],
  [
    "a prompt beyond the context",
    CHAT,
    { messages: [{ role: "user", content: "sea ".repeat(480_000) }] },
  ],
  [
    "many messages",
    CHAT,
    { messages: list(30_000, () => ({ role: "user", content: "hi" })), max_tokens: 4 },
  ],
  [
    "a long conversation",
    CHAT,
    { messages: list(400, () => ({ role: "user", content: "the sea" })), max_tokens: 4 },
  ],
  ["an empty prompt", COMPLETIONS, { prompt: "", max_tokens: 4 }],
  ["many prompts", COMPLETIONS, { prompt: list(128, (i) => `Number ${i}`), max_tokens: 60 }],
  ["a long reply", CHAT, { messages, max_tokens: 2000, ignore_eos: true }],
  ["no JSON", CHAT, "}{".repeat(1000)],
]

function scores(tokens: number, n: number): object {
  return {
    prompt: list(tokens, (i) => 300 + (i % 1000)),
    n,
    max_tokens: 0,
    echo: true,
    logprobs: 20,
  }
}

function schema(of: object): object {
  return { type: "json_schema", json_schema: { name: "it", schema: of } }
}

const attacks: ReadonlyMap<string, Attack> = new Map(
  TABLE.map(([name, path, body]) => [
    name,
    { path, body: typeof body === "string" ? body : JSON.stringify({ model: "tiny", ...body }) },
  ]),
)

/**
 * One attack: mostly it waits for the answer; at times it leaves in the middle, reads nothing, or never ends its body.
 * @returns its name and the status that it got; 0: none, as it left
 */
export async function attack(
  url: URL,
  random: Random,
  only?: string,
): Promise<{ name: string; status: number }> {
  const drawn = [...attacks.keys()][Math.floor(random() * attacks.size)]!
  const name = only ?? drawn
  const { path, body } = attacks.get(name)!
  const manner = random()
  if (manner < 0.05) return { name: "a body without end", status: await neverEnding(url, random) }
  const response = await new Promise<IncomingMessage | undefined>((resolve) => {
    const sent = request(url, {
      method: "POST",
      path,
      headers: { "content-type": "application/json" },
    })
    sent.on("response", resolve).on("error", () => resolve(undefined))
    sent.end(body)
    if (manner < 0.25) setTimeout(() => sent.destroy(), random() * 1000)
  })
  if (!response) return { name, status: 0 }
  await new Promise<void>((resolve) => {
    response.on("close", resolve).on("error", () => {})
    if (manner < 0.3) setTimeout(() => response.destroy(), random() * 3000)
    else response.resume()
  })
  return { name, status: response.statusCode! }
}

/** Sends the head of a body to a path that answers early, and holds the connection. */
function neverEnding({ hostname, port }: URL, random: Random): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    const path = random() < 0.5 ? "/nothing-here" : CHAT
    socket.write(`POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\n`)
    socket.write("content-length: 2000000\r\n\r\n{")
    socket
      .on("error", () => {})
      .on("close", () => resolve(0))
      .resume()
    setTimeout(() => socket.destroy(), 500 + random() * 5000)
  })
}
