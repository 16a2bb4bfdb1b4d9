// Real arithmetic under random company: what a sequence says, and every bit of its logprobs, is what it says alone.
// Too few blocks, chunks of odd sizes, shared prefixes warm and cold, siblings, and neighbours that leave.

import { readdirSync } from "node:fs"
import { describe, expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEngine, type Engine } from "../../src/engine/engine.ts"
import type { GenerationEvent, GenerationRequest } from "../../src/engine/generation.ts"
import { chooseLimits, type Overrides } from "../../src/engine/limits.ts"
import { type Drafter, nobody, type Speculative } from "../../src/engine/speculative.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { KvType } from "../../src/runtime/manifest.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { takesAll } from "../left-out.ts"
import { goldenFolder } from "./golden.ts"

type Row = readonly [model: string, positions: number]
const llama: Row = ["llama-odd", 320]
const narrow: Row = ["llama-odd", 256] // where fewer are asked
const windows: Row = ["mistral-swa", 120] // its sequences hold a window each and never grow into each other
const mixed: Row = ["gemma3", 320] // three layers of four hold a window each, one holds everything
const latent: Row = ["deepseek-v32", 320] // and the keys of indexers beside them
const states: Row = ["qwen3-5", 320] // and convolutions

describe.each([
  { target: "reference", kv_dtype: "f32", models: [mixed] },
  { target: "cpu", kv_dtype: "f32", models: [llama, windows, latent, states] },
  { target: "cpu", kv_dtype: "q8", models: [llama, mixed] },
  { target: "vulkan", kv_dtype: "q8", models: [narrow] },
] as const)("on $target, keys and values in $kv_dtype", ({ target, kv_dtype, models }) => {
  const { isSkipped, why } = target === "vulkan" ? lackOf(target) : { isSkipped: false, why: "" }
  const run = test.skipIf(isSkipped).each(models)
  const title = `%s gives the same bits in any company${why}`
  const judge = async (name: string, max_total_seq_length: number) => {
    const asked = Array.from({ length: target === "vulkan" ? 5 : 8 }, (_, i) => request(i))
    const alone = await opened(name, target, { kv_dtype, max_num_sequence: 1 }, 0)
    const expected: Said[][] = []
    for (const each of asked) expected.push(await replies(alone, each))
    await alone.close()

    const busy = await opened(name, target, {
      kv_dtype,
      max_num_sequence: 6,
      max_total_seq_length,
      context_window_size: 240,
      prefill_chunk_size: 17,
    })
    const leaving = busy.generate(request(2, { choices: 3 })).choices.map(leaveEarly)
    const cold = await Promise.all(asked.map((each) => replies(busy, each)))
    const warm = await Promise.all(asked.map((each) => replies(busy, each)))
    await Promise.all(leaving)
    expect(cold).toEqual(expected)
    expect(warm).toEqual(expected)
    expect(busy.stats().preemptions > 0).toBe(name !== "mistral-swa")
    busy.audit()
    await busy.close()
  }
  run(title, judge, GPU_MILLISECONDS)
})

const every = readdirSync(goldenFolder("models", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** One of all models in which rows meet each other and what is kept in the same way. */
async function oneOfEach(names: readonly string[]): Promise<string[]> {
  const found = new Map<string, string>()
  for (const name of names) {
    const model = await openModel(goldenFolder("models", name))
    const way = meetingsOf(planOf(model, "f32"))
    if (!found.has(way)) found.set(way, name)
    await model.close()
  }
  return [...found.values()]
}

/** Steps that see more than a row by itself, and what is kept for them. */
function meetingsOf({ steps, groups }: Plan): string {
  const ops = ["attend", "convolve", "experts"] as const
  const seen = ops.filter((op) => steps.some((step) => step.op === op))
  const states = steps.flatMap((step) =>
    step.op === "delta"
      ? [step.delta.by ?? (step.delta.selective ? "selective" : step.delta.given ? "given" : "")]
      : [],
  )
  const kept = groups.map(({ window, state, headDim }) => [
    window ? "a window" : "all",
    state ? "a state" : headDim.value > 0 ? "keys and values" : "keys",
  ])
  return JSON.stringify([seen, [...new Set(states)], kept])
}

/** Whose sequences may find room side by side: their blocks are those of a window, or states, of which each has its own. */
const roomy = [
  ...["mistral-swa", "phi3", "starcoder2", "mamba", "falcon-mamba", "mamba2"],
  ...["qwen3-5", "qwen3-5-moe", "qwen3-next", "granite-hybrid", "granite-hybrid-dense"],
  ...["bamba", "falcon-h1", "falcon-h1-normed", "jamba", "kimi-linear", "olmo-hybrid"],
  ...["nemotron-h", "nemotron-h-moe", "lara-mini"],
]

const judged = takesAll ? every : await oneOfEach(every)

test.each(judged)("%s: chunked, cached, preempted and drafted, no bit differs", async (name) => {
  const asked = [0, 1].map((i) => request(i, { maxTokens: 68, choices: 1 + i }))
  const alone = await opened(name, "reference", { kv_dtype: "f32", max_num_sequence: 1 }, 0)
  const expected: Said[][] = []
  for (const each of asked) expected.push(await replies(alone, each))
  await alone.close()

  const tight = {
    kv_dtype: "f32",
    max_num_sequence: 4,
    max_total_seq_length: 256,
    context_window_size: 144,
    prefill_chunk_size: 17,
  } as const
  const speculative = { mode: "lookup", length: 3, room: 3 } as const
  for (const drafts of [undefined, () => mostlyRight(asked, expected)]) {
    const busy = await opened(
      name,
      "reference",
      tight,
      undefined,
      drafts && { ...speculative, drafter: drafts },
    )
    const together = () => Promise.all(asked.map((each) => replies(busy, each)))
    expect(await together()).toEqual(expected)
    if (!drafts) expect(await together()).toEqual(expected)
    const { preemptions, cachedTokens, drafts: made } = busy.stats()
    if (!drafts) {
      if (!roomy.includes(name)) expect(preemptions).toBeGreaterThan(0)
      expect(cachedTokens).toBeGreaterThan(0)
    } else expect(made!.accepted[0]).toBeGreaterThan(0)
    busy.audit()
    await busy.close()
  }
})

/** Knows what will be said, and every third time says something else from some place on. */
function mostlyRight(asked: readonly GenerationRequest[], said: readonly Said[][]): Drafter {
  const texts = asked.flatMap(({ prompt }, i) =>
    said[i]!.map((events) => [
      ...prompt,
      ...events.flatMap((event) => (event.kind === "token" ? [event.token] : [])),
    ]),
  )
  let turns = 0
  return {
    ...nobody,
    longest: 3,
    async propose(step) {
      for (const { wish, drafts, tokens, length } of step) {
        const text = texts.find((one) =>
          one.slice(0, length).every((token, i) => token === tokens[i]),
        )
        const wrongFrom = turns++ % 3 === 0 ? turns % 3 : wish
        for (let i = 0; i < wish; i++) {
          const right = text?.[length + i] ?? 0
          drafts.push(i < wrongFrom ? right : right === 0 ? 1 : right - 1)
        }
      }
    },
  }
}

async function opened(
  name: string,
  target: "reference" | "cpu" | "vulkan",
  overrides: Overrides,
  recycledSequences?: number,
  speculative?: Speculative,
): Promise<Engine> {
  const model = await openModel(goldenFolder("models", name))
  const plan = planOf(model, overrides.kv_dtype!, targets[target].traits.sums)
  const prepared = await targets[target].prepare(plan)
  const { manifest, weightBytes, bufferBytes } = prepared
  const available = 2 ** 30
  const limits = chooseLimits({
    mode: "local",
    overrides,
    traits: targets[target].steps,
    manifest,
    available,
    weightBytes,
    bufferBytes,
    ...(speculative && { drafts: { length: speculative.length } }),
  })
  // In a thread of its own each engine's reference would be compiled anew, which takes longer than it computes.
  const program =
    target === "reference"
      ? openReference(plan, limits.program)
      : await prepared.open(limits.program)
  await loadParameters(model.weights, program.manifest, program)
  await model.close()
  return createEngine(program, {
    limits,
    maxQueue: 10,
    ...(speculative && { speculative: { ...speculative, room: limits.drafts } }),
    ...(recycledSequences === undefined ? {} : { recycledSequences }),
  })
}

function planOf(
  { graph, format, codecOf }: Model,
  kv: KvType,
  sums?: CompileOptions["sums"],
): Plan {
  return compile(graph, {
    ...{ format, activations: "float", kv },
    ...(codecOf && { codecOf }),
    ...(sums && { sums }),
  })
}

/** Prompts that begin alike, three by three, and all end in their own way. */
function request(i: number, changes: Partial<GenerationRequest> = {}): GenerationRequest {
  const length = 50 + 13 * i
  return {
    id: `r${i}`,
    prompt: Int32Array.from({ length }, (_, at) => (at < 40 ? at + (i % 3) : at * (i + 3)) % 97),
    choices: 1 + (i % 3),
    maxTokens: 60 + 4 * i,
    stopTokens: new Set(),
    sampling: {
      temperature: 1,
      topK: 0,
      topP: 0.95,
      minP: 0,
      presencePenalty: 0,
      frequencyPenalty: 0.5,
      repetitionPenalty: 1,
      logitBias: new Map(),
      seed: BigInt(i),
      topLogprobs: 2,
    },
    scope: "",
    ...changes,
  }
}

/** Token, logprob, and the likeliest with theirs. */
type Said = GenerationEvent[]

function replies(engine: Engine, asked: GenerationRequest): Promise<Said[]> {
  return Promise.all(
    engine.generate(asked).choices.map(async (choice) => {
      const said: Said = []
      for await (const event of choice) said.push(event)
      return said
    }),
  )
}

async function leaveEarly(choice: AsyncIterable<GenerationEvent>, index: number): Promise<void> {
  let read = 0
  for await (const _ of choice) if (read++ > 3 * index) return
}
