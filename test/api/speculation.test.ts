// Through HTTP, with every drafter there is: texts, logprobs, finish reasons and usage are those of a server that
// proposes nothing. The draft model and Medusa's heads are the embedded model's own; EAGLE's head has random weights.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import { writeEagle } from "../heads.ts"
import { ask, type Server, server } from "./server.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-heads-"))
afterAll(() => rmSync(folder, { recursive: true }))

writeEagle(folder)

const drafters = [
  { mode: "lookup" },
  { mode: "small_draft", models: "models/tiny-draft" },
  { mode: "eagle", models: folder },
  { mode: "medusa", models: "models/tiny-medusa" },
] as const

const bodies: object[] = [
  {
    messages: [{ role: "user", content: "Hello! Who are you?" }],
    temperature: 0,
    logprobs: true,
    top_logprobs: 3,
  },
  {
    messages: [{ role: "user", content: "Tell me a story about a cat." }],
    seed: 4,
    n: 3,
    max_tokens: 60,
  },
  {
    messages: [
      { role: "user", content: "Repeat: one two three four five six, one two three four." },
    ],
    seed: 1,
    frequency_penalty: 0.4,
    stop: ["five"],
  },
  {
    messages: [{ role: "user", content: "What is the capital of France?" }],
    seed: 2,
    temperature: 1.5,
    top_p: 0.9,
    logit_bias: { "300": 3 },
    max_tokens: 9,
  },
  {
    messages: [{ role: "user", content: "Anna is 7 years old." }],
    seed: 3,
    max_tokens: 80,
    response_format: {
      type: "json_schema",
      json_schema: {
        name: "person",
        schema: {
          type: "object",
          properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer" } },
          required: ["name", "age"],
          additionalProperties: false,
        },
      },
    },
  },
]

/** All that a client is told but when, and under which id. */
async function answers(of: Server): Promise<unknown[]> {
  const told = await Promise.all(bodies.map((body) => ask(of, "/v1/chat/completions", body)))
  return told.map(({ choices, usage, error }) => ({ choices, usage, error }))
}

describe("nothing is proposed, or something is", () => {
  const without = server({ overrides: { prefix_cache_max_num_recycling_seqs: 0 } })
  describe.each(drafters)("$mode", (drafting) => {
    const adaptive = server({
      drafting,
      overrides: { prefix_cache_max_num_recycling_seqs: 0 },
    })
    const fixed = server({
      drafting,
      overrides: { spec_draft_length: 3, prefix_cache_max_num_recycling_seqs: 0 },
    })

    test("the answers are the same", async () => {
      const expected = await answers(without)
      expect(expected.every((answer) => (answer as { error?: unknown }).error === undefined)).toBe(
        true,
      )
      expect(await answers(fixed)).toEqual(expected)
      expect(await answers(adaptive)).toEqual(expected)
    })

    test("/metrics tells what was proposed and what came true", async () => {
      await ask(fixed, "/v1/chat/completions", bodies[2]!)
      const page = await (await fetch(`${fixed.url}/metrics`)).text()
      const counts = (name: string) => [
        ...page.matchAll(
          new RegExp(`^sinter_${name}_tokens_total\\{mode="(.*)",place="\\d+"\\} (\\d+)`, "gm"),
        ),
      ]
      expect(new Set(counts("drafted").map(([, mode]) => mode))).toEqual(new Set([drafting.mode]))
      const [drafted, accepted] = ["drafted", "accepted"].map((name) =>
        counts(name).map(([, , count]) => Number(count)),
      )
      expect(drafted![0]).toBeGreaterThan(0)
      for (const [i, count] of accepted!.entries()) expect(count).toBeLessThanOrEqual(drafted![i]!)
      expect(page.match(/# TYPE sinter_drafted_tokens_total/g)!.length).toBe(1)
      const share = (counts: number[]) => counts.reduce((sum, count) => sum + count, 0)
      console.log(`${drafting.mode}: ${share(accepted!)} of ${share(drafted!)} came true`)
    })
  })
})
