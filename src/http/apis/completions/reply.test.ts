import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, test } from "vitest"
import type { ChatReply, ReplyEvent } from "../../../chat/conversation.ts"
import { sideBySide, wholeText } from "./reply.ts"

const MIB = 2 ** 20

test("beside 127 replies that are silent a long one leaves nothing in memory", async () => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const reply = (read: () => AsyncGenerator<ReplyEvent>): ChatReply => ({
    promptTokens: 1,
    prompt: Int32Array.of(1),
    names: { text: () => "", bytes: () => new Uint8Array(0), isSilent: () => false },
    events: read(),
  })
  const long = reply(async function* () {
    for (;;) yield { kind: "content", choice: 0, text: "x", logprobs: [] }
  })
  const silent = Array.from({ length: 127 }, () => {
    return reply(async function* () {
      yield await new Promise<never>(() => {})
    })
  })
  const events = sideBySide([long, ...silent], 1)
  for (let i = 0; i < 100; i++) await events.next()
  const before = used()
  for (let i = 0; i < 10_000; i++) await events.next()
  expect(used() - before).toBeLessThan(4 * MIB) // a reaction on each for every event: more than 60 MB
})

test("of tokens that go by one name the likeliest is told", async () => {
  const texts = ["E", "E", "x"]
  const names = {
    text: (token: number) => texts[token]!,
    bytes: () => new Uint8Array(0),
    isSilent: () => false,
  }
  const token = (id: number, logprob: number) => ({ token: id, logprob })
  const told = async (drawn: { token: number; logprob: number }) => {
    const top = [token(0, -1), token(2, -2), token(1, -5)]
    const logprob = { ...drawn, shows: true, offset: 0, top }
    async function* events(): AsyncGenerator<ReplyEvent> {
      yield { kind: "content", choice: 0, text: "E", logprobs: [logprob] }
      yield { kind: "finish", choice: 0, reason: "stop" }
      yield {
        kind: "usage",
        usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1, reasoningTokens: 0 },
      }
    }
    const envelope = { id: "", object: "", created: 0, model: "", system_fingerprint: "" }
    const pieces = wholeText(events(), envelope, {
      names,
      logprobs: true,
      promptOf: undefined,
      usage: false,
    })
    let text = ""
    for await (const piece of pieces) text += piece
    return JSON.parse(text).choices[0].logprobs
  }
  for (const id of [0, 1]) {
    const { top_logprobs, token_logprobs } = await told(token(id, id === 0 ? -1 : -5))
    expect(top_logprobs).toEqual([{ E: -1, x: -2 }])
    expect(token_logprobs).toEqual([id === 0 ? -1 : -5])
  }
})
