// Through HTTP, with every drafter there is: texts, logprobs, finish reasons and usage are those of a server that
// proposes nothing. The draft and the heads are the embedded model's own.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import { createLog } from "../../src/log.ts"
import { writeEagle3 } from "../heads.ts"
import { writeMtpModel } from "../model/golden.ts"
import { ask, type Server, server } from "./server.ts"

/** With random weights. */
const eagle3 = mkdtempSync(join(tmpdir(), "sinter-eagle3-"))
writeEagle3(eagle3)
afterAll(() => rmSync(eagle3, { recursive: true }))

/** `length`: of every draft; 0: as long as pays. */
const drafters = [
  { mode: "lookup", length: 0 },
  { mode: "small_draft", models: "models/tiny-draft", length: 4 },
  { mode: "eagle", models: "models/tiny-eagle", length: 4 },
  { mode: "eagle", models: eagle3, length: 3 },
  { mode: "medusa", models: "models/tiny-medusa", length: 3 },
] as const

const asking = (content: string, wishes: object) => ({
  messages: [{ role: "user", content }],
  ...wishes,
})

const person = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
}
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather at a place",
    parameters: {
      type: "object",
      properties: { location: { type: "string" }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["location"],
    },
  },
}

const bodies: object[] = [
  asking("Hello! Who are you?", { temperature: 0, logprobs: true, top_logprobs: 3 }),
  asking("Tell me a story about a cat.", { seed: 4, n: 3, max_tokens: 60 }),
  asking("Repeat: one two three four five six, one two three four.", {
    seed: 1,
    frequency_penalty: 0.4,
    stop: ["five"],
  }),
  asking("What is the capital of France?", {
    seed: 2,
    temperature: 1.5,
    top_p: 0.9,
    logit_bias: { "300": 3 },
    max_tokens: 9,
  }),
  asking("Anna is 7 years old.", {
    seed: 3,
    max_tokens: 80,
    response_format: { type: "json_schema", json_schema: { name: "person", schema: person } },
  }),
  asking("What is the weather in Paris?", { temperature: 0, tools: [weather], logprobs: true }),
  asking("What is the weather in Oslo, and in Rome?", {
    seed: 5,
    n: 2,
    max_tokens: 70,
    tools: [weather],
    tool_choice: "required",
  }),
]

/** Conversations of which nobody was shown the answers. */
const chats = [
  "Good morning! How are you today?",
  "What is 12 plus 7?",
  "Tell me about the moon.",
  "Write a short poem about the rain.",
  "My name is Lena. What is my name?",
  "What colour is the sky?",
].map((content) => asking(content, { temperature: 0, max_tokens: 48 }))

/** All that a client is told but when, and under which ids. */
async function answers(of: Server, asked: readonly object[]): Promise<unknown[]> {
  const told = await Promise.all(asked.map((body) => ask(of, "/v1/chat/completions", body)))
  return told.map(({ choices, usage, error }) => {
    for (const { message } of choices ?? []) {
      for (const call of message.tool_calls ?? []) delete call.id
    }
    return { choices, usage, error }
  })
}

/** What /metrics says of drafts, by their places. */
async function countsOf({ url }: Server, mode: string) {
  const page = await (await fetch(`${url}/metrics`)).text()
  const counts = (name: string) =>
    [...page.matchAll(new RegExp(`^sinter_${name}_tokens_total\\{(.*)\\} (\\d+)$`, "gm"))].map(
      ([, labels, count], i) => {
        expect(labels).toBe(`mode="${mode}",place="${i + 1}"`)
        return Number(count)
      },
    )
  return { drafted: counts("drafted"), accepted: counts("accepted") }
}

describe("nothing is proposed, or something is", () => {
  const overrides = { prefix_cache_max_num_recycling_seqs: 0 } // what is cached depends on who comes first
  const without = server({ overrides })

  describe.each(drafters)("$mode $models", ({ length, ...drafting }) => {
    const { mode } = drafting
    const complaints: unknown[] = []
    const log = createLog("silent", false)
    log.error = (...said: unknown[]) => void complaints.push(said)
    const beside = server({
      drafting,
      overrides: { ...overrides, spec_draft_length: length },
      log,
    })

    test("the answers are the same", async () => {
      const expected = await answers(without, bodies)
      for (const answer of expected) expect(answer).toMatchObject({ error: undefined })
      expect(await answers(beside, bodies)).toEqual(expected)
    })

    test("a prompt of one token is answered, and the drafter goes on", async () => {
      const body = { prompt: [597], max_tokens: 12, temperature: 0 }
      const completion = async (of: Server) => (await ask(of, "/v1/completions", body)).choices
      expect(await completion(beside)).toEqual(await completion(without))
      expect(complaints).toEqual([])
    })

    test("/metrics tells what was proposed, and what came true", async () => {
      const before = await countsOf(beside, mode)
      expect(await answers(beside, chats)).toEqual(await answers(without, chats))
      const after = await countsOf(beside, mode)
      const [drafted, accepted] = (["drafted", "accepted"] as const).map((kind) =>
        after[kind].map((count, i) => count - before[kind][i]!),
      )
      expect(after.drafted[0]).toBeGreaterThan(0)
      for (const [i, count] of accepted!.entries()) expect(count).toBeLessThanOrEqual(drafted![i]!)
      const places = accepted!.flatMap((count, i) =>
        drafted![i]! > 0 ? `${count} of ${drafted![i]}` : [],
      )
      console.log(
        `${mode} on other chats, by place in the draft: ${places.join(", ") || "nothing"}`,
      )
    })
  })
})

describe("a model with states, and a layer of its own that guesses ahead", () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-mtp-"))
  writeMtpModel("qwen3-5", folder)
  afterAll(() => rmSync(folder, { recursive: true }))
  const overrides = { prefix_cache_max_num_recycling_seqs: 0 }
  const without = server({ model: folder, overrides })
  const beside = server({
    model: folder,
    drafting: { mode: "mtp" },
    overrides: { ...overrides, spec_draft_length: 3 },
  })
  const asked = [
    { prompt: Array.from({ length: 40 }, (_, i) => (i * 37) % 300), temperature: 0, logprobs: 2 },
    { prompt: "Once upon a time", seed: 3, n: 3, temperature: 0.7 },
    { prompt: [5, 6, 7], seed: 4, frequency_penalty: 0.5, logit_bias: { "20": 3 } },
  ].map((body) => ({ model: folder, max_tokens: 40, ...body }))

  test("completions are the same", async () => {
    const told = (of: Server) =>
      Promise.all(
        asked.map(async (body) => {
          const { choices, usage, error } = await ask(of, "/v1/completions", body)
          return { choices, usage, error }
        }),
      )
    const expected = await told(without)
    for (const answer of expected) expect(answer).toMatchObject({ error: undefined })
    expect(await told(beside)).toEqual(expected)
    const { drafted } = await countsOf(beside, "mtp")
    expect(drafted[2]).toBeGreaterThan(20)
  })
})
