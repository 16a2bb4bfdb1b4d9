// EAGLE's and Medusa's heads say what PyTorch says from the same weights: their logits, and the tokens that an engine drafts
// with them. Drafts never change a text, so a head that computes something else would only be slow, and nobody would know.

import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Graph } from "../../src/compiler/graph/graph.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEagle } from "../../src/engine/drafters/eagle.ts"
import { createMedusa } from "../../src/engine/drafters/medusa.ts"
import { createEngine } from "../../src/engine/engine.ts"
import type { GenerationRequest, SamplingParams } from "../../src/engine/generation.ts"
import type { Memory } from "../../src/engine/memory.ts"
import type { Drafter } from "../../src/engine/speculative.ts"
import { type Head, openHead } from "../../src/model/head.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters, type Weights } from "../../src/model/weights/weights.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import type { Program } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { plain, request } from "../history-engine.ts"
import { collect } from "../history-program.ts"
import { samplingRows } from "../sampling-rows.ts"
import { type GoldenHeads, readGoldenHeads } from "./golden.ts"
import { batch, blocksFor, limitsFor, take } from "./steps.ts"
import { tinyFolder } from "./tiny.ts"

type Kind = "eagle" | "medusa"

const { isSkipped, why } = lackOf("vulkan")

const golden = readGoldenHeads()
const KEPT = 64 // columns of the logits
const limits = { blocks: 20, tokens: 128, sequences: 1, rows: 128 }

let model: Model
const heads = {} as Record<Kind, Head>

beforeAll(async () => {
  model = await openModel(tinyFolder)
  for (const kind of ["eagle", "medusa"] as const)
    heads[kind] = (await openHead(join(tinyFolder, `../tiny-${kind}`), model)) as Head
})
afterAll(async () => {
  for (const head of Object.values(heads)) await head.close()
  await model.close()
})

type On = "reference" | "vulkan"

async function open(
  made: { graph: Graph; format: FormatName },
  weights: Weights,
  on: On = "reference",
) {
  const { graph, format } = made
  const { sums } = on === "reference" ? { sums: undefined } : traitsOf(on)
  const options = { format, activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...(sums && { sums }) })
  const program =
    on === "reference"
      ? openReference(plan, limitsFor(plan, limits))
      : await (await targets[on].prepare(plan)).open(limitsFor(plan, limits))
  await loadParameters(weights, program.manifest, program)
  return program
}

/** The kept columns of the logits, those of each row after the last row's. */
function kept(logits: Float32Array): number[] {
  const every = model.config.shapes.vocabulary / KEPT
  return [...logits].filter((_, i) => i % every === 0)
}

function expectClose(ours: readonly number[], theirs: Float32Array): void {
  expect(ours.length).toBe(theirs.length)
  for (const [i, logit] of theirs.entries()) expect(ours[i]).toBeCloseTo(logit, 2)
}

describe("logits, from the model's hidden rows", () => {
  test("EAGLE reads a token beside the row of the token before it", async () => {
    const program = await open(heads.eagle, heads.eagle.weights[0]!)
    for (const { prompt, reply, hidden, eagle } of golden) {
      const tokens = [...prompt, ...reply].slice(1)
      const logits = [...tokens.keys()]
      const blocks = blocksFor(tokens.length + 1)
      const step = batch([{ tokens, from: 1, visibleFrom: 1, blocks, logits }])
      const hiddenIn = hidden.subarray(0, tokens.length * model.config.shapes.hidden)
      const done = await take(program, { ...step, hiddenIn })
      expectClose(kept(done.logits!), eagle)
    }
  })

  test("each of Medusa's heads adds what it learnt to the row", async () => {
    for (const [i, weights] of heads.medusa.weights.entries()) {
      const program = await open(heads.medusa, weights)
      for (const { prompt, reply, hidden, medusa } of golden) {
        const tokens = [...prompt, ...reply]
        const [blocks, logits] = [blocksFor(tokens.length), [...tokens.keys()]]
        const step = batch([{ tokens, from: 0, blocks, logits }])
        const done = await take(program, { ...step, hiddenIn: hidden })
        expectClose(kept(done.logits!), medusa[i]!)
      }
    }
  })
})

describe("drafts, as the engine makes them", () => {
  async function judge(kind: Kind, length: number, on: On, texts = golden) {
    const programs = await opened(kind, on)
    for (const text of texts) {
      const asked = asking(text, { temperature: 0 })
      const { made, reply } = await drafted(programs, kind, length, asked, on)
      expect(reply).toEqual(text.reply)
      // Every round writes its drafts and one token more, at the most.
      expect(made.length).toBeGreaterThanOrEqual(Math.floor(text.reply.length / (length + 1)))
      for (const { at, proposed } of made) {
        const place = at - text.prompt.length - 1
        const clear = text.leads[kind][place]!.findIndex((lead) => lead < 0.05)
        const wanted = text.drafts[kind][place]!.slice(0, clear < 0 ? length : clear)
        expect(proposed.slice(0, wanted.length)).toEqual(wanted.slice(0, proposed.length))
      }
    }
    for (const program of programs) await program.close()
  }

  test.each([
    ["eagle", 4],
    ["medusa", 3],
  ] as const)("%s proposes %i tokens wherever it is asked", (kind, length) =>
    judge(kind, length, "reference"),
  )

  // A program for each head, on the device that the model is on.
  test.skipIf(isSkipped)(
    `medusa proposes 3 tokens on vulkan${why}`,
    () => judge("medusa", 3, "vulkan", golden.slice(0, 1)),
    GPU_MILLISECONDS,
  )

  test("each of Medusa's tokens is drawn with the noise of its own place", async () => {
    const programs = await opened("medusa")
    const sampling = { temperature: 1.5, seed: 5n }
    const asked = asking(golden[0]!, sampling)
    const { made, rows } = await drafted(programs, "medusa", programs.length, asked)
    expect(made.length).toBeGreaterThan(3)
    for (const { at, proposed } of made)
      for (const [i, token] of proposed.entries()) {
        const step = batch([{ tokens: [0], from: 0, blocks: [0] }])
        const place = samplingRows(
          [{ ...sampling, position: at + i }],
          model.config.shapes.vocabulary,
        )
        const told = await take(programs[i]!, { ...step, hiddenIn: rows.get(at)!, sampling: place })
        expect(token).toBe(told.tokens[0])
      }
  })
})

/** A program that drafts, and what it was asked and told while the model replied. */
interface Drafted {
  /** The text's length then, and what was proposed. */
  made: { at: number; proposed: number[] }[]
  /** The row that the text's last token was drawn from, by the text's length. */
  rows: Map<number, Float32Array>
  reply: number[]
}

/** Lets the model reply with drafts of `length` tokens by these programs. */
async function drafted(
  programs: readonly Program[],
  kind: Kind,
  length: number,
  asked: GenerationRequest,
  on: On = "reference",
): Promise<Drafted> {
  const [made, rows]: [Drafted["made"], Drafted["rows"]] = [[], new Map()]
  const { hidden } = model.config.shapes
  const drafter = (memory: Memory): Drafter => {
    const [first, ...others] = programs
    const own = kind === "eagle" ? createEagle(first!, memory) : createMedusa([first!, ...others])
    return {
      ...own,
      async propose(step, cancel) {
        await own.propose(step, cancel)
        for (const { length: at, drafts } of step)
          if (drafts.length > 0) made.push({ at, proposed: [...drafts] })
      },
      observe(sequence, seen, from) {
        own.observe!(sequence, seen, from)
        const at = (sequence.computed - 1 - from) * hidden
        rows.set(sequence.length, seen.slice(at, at + hidden))
      },
      async close() {},
    }
  }
  const chosen = (value: number) => ({ value, why: "test" })
  const engine = createEngine(await open(model, model.weights, on), {
    limits: {
      context: { ...chosen(100), bound: "model" },
      total: chosen(160),
      sequences: chosen(1),
      chunk: chosen(50),
    },
    maxQueue: 1,
    speculative: { mode: kind, drafter, length, room: length },
  })
  const { tokens } = await collect(engine.generate(asked).choices[0]!)
  await engine.close()
  return { made, rows, reply: tokens }
}

function asking({ prompt, reply }: GoldenHeads, changes: Partial<SamplingParams>) {
  const sampling = { ...plain, topLogprobs: undefined, ...changes }
  return request(1, { prompt: Int32Array.from(prompt), maxTokens: reply.length, sampling })
}

const opened = (kind: Kind, on: On = "reference") =>
  Promise.all(heads[kind].weights.map((weights) => open(heads[kind], weights, on)))
