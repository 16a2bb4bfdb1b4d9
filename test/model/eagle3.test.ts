// EAGLE 3 heads as SafeAILab and speculators lay them out, over the rows that their model hands out beside its last one: they guess
// what test/golden/eagle3/make.py says, where the model computes its rows and where the engine goes on from a guess.

import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { NOWHERE } from "../../src/compiler/graph/graph.ts"
import { createEagle } from "../../src/engine/drafters/eagle.ts"
import { type Head, openHead } from "../../src/model/head.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { givenColumns } from "../../src/runtime/manifest.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { asking, drafted, type On, opened } from "./drafted.ts"
import { goldenFolder, readGoldenEagle3 } from "./golden.ts"
import { arithmeticHere, batch, blocksFor, expectNear, take } from "./steps.ts"

const LENGTH = 4
const KEPT = 4 // every so many of the tokens that a head knows

let model: Model
beforeAll(async () => {
  model = await openModel(goldenFolder("models", "smollm3"))
})
afterAll(() => model.close())

const { isSkipped, why } = lackOf("vulkan")

describe.each(["midlayer", "speculators", "speculators-llama"])("%s", (name) => {
  const { folder, texts } = readGoldenEagle3(name)
  let head: Head & { kind: "eagle3" }
  let base: Pick<Model, "graph" | "weights" | "format">
  beforeAll(async () => {
    head = (await openHead(folder, model)) as typeof head
    base = { ...model, graph: model.handingOut(head.config.reads) }
  })
  afterAll(() => head.close())

  /** At each token but the first, what the head makes of the row that the model hands out before it. */
  async function logitsOn(on: On, { prompt, reply }: (typeof texts)[number]) {
    const target = await opened(base, model.weights, on)
    const guesser = await opened(head, head.weights[0]!, on)
    const { hidden } = model.config.shapes
    const [given, columns] = [
      givenColumns(target.manifest.shapes),
      head.config.reads.length * hidden,
    ]
    expect(given).toBe(hidden + columns)
    const tokens = [...prompt, ...reply]
    const all = [...tokens.keys()]
    const blocks = blocksFor(tokens.length + 1)
    const rows = (await take(target, batch([{ tokens, from: 0, blocks, hidden: all }]))).hidden
    const taken = columns + head.config.shapes.hidden
    const hiddenIn = new Float32Array((tokens.length - 1) * taken)
    for (let i = 0; i + 1 < tokens.length; i++)
      hiddenIn.set(rows.subarray(i * given + hidden, (i + 1) * given), i * taken)
    const logits = all.slice(0, -1)
    const step = batch([{ tokens: tokens.slice(1), from: 1, visibleFrom: 1, blocks, logits }])
    const made = (await take(guesser, { ...step, hiddenIn })).logits!
    for (const program of [target, guesser]) await program.close()
    return made
  }

  test("logits of the tokens that it knows, from rows of its model; the others are never drawn", async () => {
    for (const text of texts) {
      const made = await logitsOn("reference", text)
      const known = made.filter((logit) => logit !== NOWHERE)
      const kept = known.filter((_, i) => i % KEPT === 0)
      expect(known.length).toBe(KEPT * text.logits.length)
      expectNear(kept, text.logits, { distance: 5e-4, arithmetic: arithmeticHere })
    }
  })

  test("a library makes the same bits of them", async () => {
    expect(await logitsOn("cpu", texts[0]!)).toEqual(await logitsOn("reference", texts[0]!))
  })

  async function judge(on: On) {
    const guesser = await opened(head, head.weights[0]!, on)
    for (const text of texts) {
      const asked = asking(text, { temperature: 0 })
      const drafter = (memory: Parameters<typeof createEagle>[1]) => createEagle(guesser, memory)
      const drafting = { model: base, mode: "eagle", drafter, length: LENGTH, on } as const
      const { made, reply } = await drafted(drafting, asked)
      expect(reply).toEqual(text.reply)
      expect(made.length).toBeGreaterThanOrEqual(Math.floor(reply.length / (LENGTH + 1)))
      for (const { at, proposed } of made) {
        const place = at - text.prompt.length - 1
        const clear = text.leads[place]!.findIndex((lead) => lead < 0.01)
        const wanted = text.drafts[place]!.slice(0, clear < 0 ? LENGTH : clear)
        expect(proposed.slice(0, wanted.length)).toEqual(wanted.slice(0, proposed.length))
      }
    }
    await guesser.close()
  }

  test("what an engine drafts", () => judge("reference"))
  test("the same by a library", () => judge("cpu"))
  test.skipIf(isSkipped)(`the same on vulkan${why}`, () => judge("vulkan"), GPU_MILLISECONDS)
})
