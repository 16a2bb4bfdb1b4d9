// Adapters that requests choose by their names, over one model's weights: what mlx-lm makes of one of them (test/golden/adapters) is told
// whoever else asks, and what the model makes alone.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { createApp } from "../../src/app.ts"
import { goldenFolder, readGolden } from "../model/golden.ts"
import { lora, PLAIN, writeAdapter } from "../model/peft-files.ts"
import { ask, server } from "./server.ts"

const base = goldenFolder("models", "llama-untied")
const adapter = goldenFolder("adapters", "mlx")
const scratch = mkdtempSync(join(tmpdir(), "adapters-"))
afterAll(() => rmSync(scratch, { recursive: true }))
const choices = [
  {
    name: "other",
    adapter: writeAdapter(scratch, PLAIN, lora({ "self_attn.o_proj": [48, 96] })),
  },
  { name: "tuned", adapter },
]
const ofDecoder = [...lora({ "self_attn.q_proj": [32, 32] })].flatMap(([name, tensor]) =>
  name.includes("layers.0") // it has no other
    ? [[name.replace("model.layers", "model.decoder.layers"), tensor] as const]
    : [],
)
const ofWhisper = writeAdapter(scratch, PLAIN, new Map(ofDecoder))
const here = server({ model: base, target: "reference", choices, http: { metricsCompat: "vllm" } })

const [longest] = readGolden(adapter).toSorted((a, b) => b.tokens.length - a.tokens.length)
const [plain] = readGolden(base).toSorted((a, b) => b.tokens.length - a.tokens.length)

const written = async (model: string, prompt: Int32Array, count: number): Promise<number[]> => {
  const sampling = { temperature: 0, max_tokens: count, ignore_eos: true, return_token_ids: true }
  const told = await ask(here, "/v1/completions", { model, prompt: [...prompt], ...sampling })
  return told.choices[0].token_ids
}

test("a request has the adapter that it names, also behind the same prompt without it", async () => {
  const { tokens, greedy } = longest!
  expect(tokens.length).toBeGreaterThan(64) // blocks of it are found again
  const without = await written(base, tokens, greedy.length)
  expect(await written("tuned", tokens, greedy.length)).toEqual([...greedy])
  expect(await written(base, tokens, greedy.length)).toEqual(without)
  expect(without).not.toEqual([...greedy])
  expect(await written("llama-untied", plain!.tokens, plain!.greedy.length)).toEqual([
    ...plain!.greedy,
  ])
})

test("those who ask at once get what each of them gets alone", async () => {
  const { tokens, greedy } = longest!
  const names = ["tuned", base, "other", "tuned", "other", base]
  const together = await Promise.all(names.map((name) => written(name, tokens, greedy.length)))
  expect(together[0]).toEqual([...greedy])
  expect(together.slice(3)).toEqual([together[0], together[2], together[1]])
  expect(together[2]).not.toEqual(together[0])
})

test("each is a model of the list, and says whose it is", async () => {
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
  const { data }: any = await (await fetch(`${here.url}/v1/models`)).json()
  const told = data.map(({ id, parent }: { id: string; parent?: string }) => [id, parent])
  expect(told).toEqual([
    [base, undefined],
    ["llama-untied", undefined],
    ["other", base],
    ["tuned", base],
  ])
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
  const { models }: any = await (await fetch(`${here.url}/api/tags`)).json()
  const parents = models.map(
    ({ name, details }: { name: string; details: { parent_model: string } }) => [
      name,
      details.parent_model,
    ],
  )
  expect(parents.slice(-2)).toEqual([
    ["other:latest", `${base}:latest`],
    ["tuned:latest", `${base}:latest`],
  ])
  const page = await (await fetch(`${here.url}/metrics`)).text()
  expect(page).toContain(
    'max_lora="2",running_lora_adapters="other,tuned",waiting_lora_adapters=""',
  )
  expect(page.match(/^sinter_running\b.*$/gm)).toEqual(["sinter_running 0"])
})

test.each([
  [
    "a name of the model's own",
    base,
    [{ name: "llama-untied", adapter }],
    /--lora-modules: llama-untied is the name of two; give another/,
  ],
  [
    "a model that transcribes",
    goldenFolder("whisper", "english"),
    [{ name: "tuned", adapter: ofWhisper }],
    /--lora-modules: is for models that write or embed, and .*english transcribes/,
  ],
] as const)("%s is refused at the start", async (_, model, choices, sentence) => {
  await expect(createApp({ model, target: "reference", choices })).rejects.toThrow(sentence)
})
