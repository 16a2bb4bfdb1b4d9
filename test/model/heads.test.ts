// EAGLE's and Medusa's heads say what PyTorch says from the same weights: their logits, and the tokens that an engine drafts
// with them. Drafts never change a text, so a head that computes something else would only be slow, and nobody would know.

import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { createEagle } from "../../src/engine/drafters/eagle.ts"
import { createMedusa } from "../../src/engine/drafters/medusa.ts"
import type { GenerationRequest } from "../../src/engine/generation.ts"
import type { Memory } from "../../src/engine/memory.ts"
import { type Head, openHead } from "../../src/model/head.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import type { Program } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { samplingRows } from "../sampling-rows.ts"
import { asking, drafted, type On, opened } from "./drafted.ts"
import { readGoldenHeads } from "./golden.ts"
import { batch, blocksFor, take } from "./steps.ts"
import { tinyFolder } from "./tiny.ts"

type Kind = "eagle" | "medusa"

const { isSkipped, why } = lackOf("vulkan")

const golden = readGoldenHeads()
const KEPT = 64 // columns of the logits

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
    const program = await opened(heads.eagle, heads.eagle.weights[0]!)
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
      const program = await opened(heads.medusa, weights)
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
    const programs = await openedAll(kind, on)
    for (const text of texts) {
      const asked = asking(text, { temperature: 0 })
      const { made, reply } = await draftedBy(programs, kind, length, asked, on)
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
    const programs = await openedAll("medusa")
    const sampling = { temperature: 1.5, seed: 5n }
    const asked = asking(golden[0]!, sampling)
    const { made, rows } = await draftedBy(programs, "medusa", programs.length, asked)
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

/** Lets the model reply with drafts of `length` tokens by these programs. */
function draftedBy(
  [first, ...others]: readonly Program[],
  mode: Kind,
  length: number,
  asked: GenerationRequest,
  on: On = "reference",
) {
  const drafter = (memory: Memory) =>
    mode === "eagle" ? createEagle(first!, memory) : createMedusa([first!, ...others])
  return drafted({ model, mode, drafter, length, on }, asked)
}

const openedAll = (kind: Kind, on: On = "reference") =>
  Promise.all(heads[kind].weights.map((weights) => opened(heads[kind], weights, on)))
