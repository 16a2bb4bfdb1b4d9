// Kinds of visitors, in one table: those who listen to the end, and those whom every public server meets. Each visit
// ends in one word; whatever the server did wrong is a fault with its sentence.

import { once } from "node:events"
import type { IncomingMessage } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { pick, type Question, type Random, sentence, streamed } from "./questions.ts"
import { callsText, type Reply, readStream } from "./reply.ts"
import { CHAT, open, send, start, type Target, textOf } from "./target.ts"

export interface Visit {
  target: Target
  question: Question
  random: Random
}

export interface Tokens {
  prompt: number
  completion: number
}

export type Outcome =
  /** A whole stream, with what it took: times in milliseconds. */
  | { kind: "answered"; tokens: Tokens; first: number; gaps: number[] }
  /** The visitor left, or sent what had to be refused and was. */
  | { kind: "left" | "refused" }
  /** 429 or 503, which an overloaded or draining server may say. */
  | { kind: "busy" }
  /** What worked on it was killed: an answer that only somebody who kills may get. */
  | { kind: "hit" }
  | { kind: "fault"; fault: string }

export type VisitorName = keyof typeof visitors

export const visitors = {
  /** Reads a stream to its end. */
  stream: (visit) => listen(visit),
  /** Takes its time: the server must neither lose a word nor keep others waiting. */
  slow: (visit) => listen(visit, 50 + visit.random() * 200),
  /** Asks for the whole answer at once. */
  whole: async ({ target, question }) => {
    const { response } = await open(target, question.body)
    if (isTurnedAway(response)) return turnedAway(response)
    const body = JSON.parse(await textOf(response))
    const [choice] = body.choices ?? []
    if (!choice) return fault(`status ${response.statusCode}: ${body.message}`)
    return compared(question, {
      text: choice.message.content ?? "",
      calls: callsText(choice.message.tool_calls),
      finish: choice.finish_reason,
      promptTokens: body.usage.prompt_tokens,
      completionTokens: body.usage.completion_tokens,
    })
  },
  /** Stops listening in the middle. */
  cancel: async ({ target, question, random }) => {
    const { response } = await open(target, streamed(lasting(question, random)))
    if (isTurnedAway(response)) return turnedAway(response)
    const most = 1 + Math.floor(random() * 6)
    await readStream(response, { leave: (events) => events >= most })
    return { kind: "left" }
  },
  /** Is gone before the first word, at times in the middle of its own. */
  disconnect: async ({ target, question, random }) => {
    const text = JSON.stringify({ model: target.model, ...streamed(lasting(question, random)) })
    const sent = start(target, CHAT, "POST", { "content-length": Buffer.byteLength(text) })
    if (random() < 0.5) sent.end(text)
    else sent.write(text.slice(0, text.length / 2))
    await sleep(random() * 40)
    sent.destroy()
    return { kind: "left" }
  },
  /** Says what cannot be understood. */
  malformed: ({ target, random }) => {
    const [status, body, path = CHAT, method = "POST"] = pick(nonsense(target.model), random)
    return refused(send(target, body, path, method), [status])
  },
  /** 400 KB of prompt; refused by models that cannot read so much. */
  huge: ({ target, random }) => {
    const messages = [{ role: "user", content: sentence(80_000, random) }]
    const body = JSON.stringify({ model: target.model, messages, max_tokens: 1 })
    return refused(send(target, body), [200, 400])
  },
} as const satisfies Record<string, (visit: Visit) => Promise<Outcome>>

async function listen({ target, question }: Visit, pause = 0): Promise<Outcome> {
  const begun = performance.now()
  const { response } = await open(target, streamed(question.body))
  if (isTurnedAway(response)) return turnedAway(response)
  const reply = await readStream(response, { pause })
  if (reply.fault) return fault(reply.fault)
  const outcome = compared(question, reply)
  const [first = performance.now()] = reply.times
  if (outcome.kind !== "answered" || pause > 0) return outcome // a slow reader's times are its own
  const gaps = reply.times.slice(1).map((time, index) => time - reply.times[index]!)
  return { ...outcome, first: first - begun, gaps }
}

const ENDLESS = { type: "array", items: { type: "integer" }, minItems: 2000, maxItems: 2000 }

/** For who leaves: the same prompt, and a reply so long, at times held to a schema, that it has not ended by then. */
function lasting({ body: { messages, seed } }: Question, random: Random): Question["body"] {
  const json_schema = { name: "endless", schema: ENDLESS }
  const held =
    random() < 0.3
      ? { response_format: { type: "json_schema", json_schema } }
      : { ignore_eos: true as const }
  return { messages, seed, temperature: 1, max_tokens: 3000, ...held }
}

const COMPARED = ["text", "calls", "finish", "promptTokens", "completionTokens"] as const

/** Held against what was said when nobody else was there. */
function compared({ alone }: Question, reply: Pick<Reply, (typeof COMPARED)[number]>): Outcome {
  for (const part of COMPARED) {
    if (reply[part] === alone[part]) continue
    const [got, wanted] = [reply[part], alone[part]].map((value) => JSON.stringify(value))
    return fault(`${part} differs from the answer alone: ${got} instead of ${wanted}`)
  }
  const tokens = { prompt: reply.promptTokens, completion: reply.completionTokens }
  return { kind: "answered", tokens, first: Number.NaN, gaps: [] }
}

async function refused(
  sent: ReturnType<typeof send>,
  expected: readonly number[],
): Promise<Outcome> {
  const [response] = (await once(sent, "response")) as [IncomingMessage]
  if (isTurnedAway(response)) return turnedAway(response)
  const text = await textOf(response)
  const status = response.statusCode!
  if (expected.includes(status)) return { kind: "refused" }
  return fault(`status ${status} instead of ${expected.join(" or ")}: ${text.slice(0, 200)}`)
}

function isTurnedAway({ statusCode }: IncomingMessage): boolean {
  return statusCode === 429 || statusCode === 503 || statusCode === 500
}

async function turnedAway(response: IncomingMessage): Promise<Outcome> {
  const text = await textOf(response)
  if (response.statusCode !== 500) return { kind: "busy" }
  const isHit = /has been replaced/.test(text)
  return isHit ? { kind: "hit" } : fault(`status 500: ${text.slice(0, 200)}`)
}

function fault(words: string): Outcome {
  return { kind: "fault", fault: words }
}

/** Bodies and the status each must get. */
function nonsense(model: string): [status: number, body: string, path?: string, method?: string][] {
  const asking = (fields: object) =>
    JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], ...fields })
  return [
    [400, ""],
    [400, "{"],
    [400, "[]"],
    [400, `${"[".repeat(1000)}${"]".repeat(1000)}`],
    [400, JSON.stringify({ model, messages: [] })],
    [400, asking({ temperature: "warm" })],
    [400, asking({ n: 0 })],
    [400, asking({ seed: 1.5 })],
    [400, asking({ "\n😀": 1, max_tokens: -1 })],
    [404, asking({ model: "no such model" })],
    [404, "{}", "/v1/nothing"],
    [405, "", CHAT, "GET"],
  ]
}
