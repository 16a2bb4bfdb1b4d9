// Models that see, whole: their tower's rows in the text model's prompts give the logits and the tokens that transformers computed of
// the same pixels (test/golden/vision), in chunks, in company, in shards, and through the engine with drafts and without.

import { describe, expect, onTestFinished, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEngine, type Engine } from "../../src/engine/engine.ts"
import type { GenerationRequest } from "../../src/engine/generation.ts"
import { chooseLimits } from "../../src/engine/limits.ts"
import type { Speculative } from "../../src/engine/speculative.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { decoder } from "../../src/model/layers.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { openVision } from "../../src/model/vision/open-vision.ts"
import { seeingImages } from "../../src/model/vision/tower.ts"
import { loadParameters, type Weights } from "../../src/model/weights/weights.ts"
import { BLOCK, type LoadableProgram, type ProgramLimits } from "../../src/runtime/program.ts"
import { GPU_MILLISECONDS, lackOf } from "../gpus.ts"
import { goldenFolder } from "./golden.ts"
import { greedily, halfRight, reply } from "./replies.ts"
import {
  arithmeticOf,
  blocksFor,
  continueGreedily,
  expectNear,
  limitsFor,
  take,
  worstDifference,
} from "./steps.ts"
import {
  type GoldenSight,
  readSights,
  runEnd,
  type SeenPart,
  type SeenPrompt,
  seeingModels,
  seeingStep,
  seenPrompt,
  tilesOf,
} from "./vision.ts"

type On = "reference" | "cpu" | "vulkan" | "opencl"

interface Seeing {
  hidden: number
  /** Rows of an image see each other in it. */
  isMutual: boolean
  plan: Plan
  weights: Weights
  softToken: number
  /** What its golden logits are multiplied with here: transformers' classes of Aya and Command leave it out. */
  logitFactor: number
  sights: readonly GoldenSight[]
  /** What the tower makes of them, as the text model takes it. */
  prompts: readonly SeenPrompt[]
}

async function openOn(on: On, plan: Plan, limits: ProgramLimits): Promise<LoadableProgram> {
  if (on === "reference") return openReference(plan, limits)
  return (await targets[on].prepare(plan)).open(limits)
}

type Packed = Pick<Model, "format" | "codecOf">

function planFor(on: On, graph: Model["graph"], { format, codecOf }: Packed): Plan {
  const { sums } = on === "vulkan" || on === "opencl" ? traitsOf(on) : { sums: undefined }
  const options = { format, ...(codecOf && { codecOf }), ...(sums && { sums }) }
  return compile(graph, { ...options, activations: "float", kv: "f32" })
}

/** A golden model with its tower's rows, held to the golden ones. */
async function see(name: string, on: On): Promise<Seeing> {
  const model = await openModel(goldenFolder("vision", name))
  onTestFinished(() => model.close())
  const vision = (await openVision(model))!
  onTestFinished(() => vision.close())
  const { config: eye } = vision
  const plan = planFor(on, vision.graph, vision)
  const limits = towerLimits(plan.groups.length, vision.graph.shapes.context)
  const program = await openOn(on, plan, limits)
  await loadParameters(vision.weights, program.manifest, program)
  const tower = createTower(program)
  const sights = readSights(name)
  const prompts: SeenPrompt[] = []
  const { hidden } = model.config.shapes
  for (const sight of sights) {
    const rows = sight.features.length / hidden
    const features = await tower.read(rows, async () => tilesOf(eye, sight), { client: "" })
    const golden = sight.features.map((feature) => feature * eye.projector.factor)
    expectNear(features, golden, { distance: 1e-4, arithmetic: arithmeticOf(program) })
    prompts.push(seenPrompt(sight, eye.softToken, features))
  }
  await tower.close()
  const graph = decoder(model.architecture, seeingImages(model.config, eye))
  return {
    hidden,
    isMutual: eye.mutual !== undefined,
    plan: planFor(on, graph, model),
    weights: model.weights,
    softToken: eye.softToken,
    logitFactor: /^(aya|cohere2)-/.test(name) ? model.config.head.factor : 1,
    sights,
    prompts,
  }
}

/** Logits of a prompt that is read in chunks, of every position from `firstRow` on. An image whose rows see each other is in one. */
async function prefill(
  program: LoadableProgram,
  seeing: Pick<Seeing, "hidden" | "isMutual">,
  prompt: SeenPrompt,
  { chunk, blocks, firstRow }: { chunk: number; blocks: readonly number[]; firstRow: number },
): Promise<Float32Array> {
  const logits: number[] = []
  const { length } = prompt.tokens
  for (let from = 0, to = 0; from < length; from = to) {
    to = Math.min(length, from + chunk)
    if (seeing.isMutual && prompt.rowAt[to - 1]! >= 0) to = runEnd(prompt, to)
    const wanted = Array.from({ length: to - from }, (_, i) => i).filter(
      (i) => from + i >= firstRow,
    )
    const part = { prompt, from, to, blocks, logits: wanted }
    const done = await take(program, seeingStep([part], seeing))
    logits.push(...(done.logits ?? []))
  }
  return Float32Array.from(logits)
}

const words = (length: number, salt: number): SeenPrompt => ({
  tokens: Int32Array.from({ length }, (_, i) => (i * 7 + salt * 13) % 300),
  rowAt: new Int32Array(length).fill(-1),
  features: new Float32Array(0),
})

async function judge(name: string, on: On): Promise<void> {
  const seeing = await see(name, on)
  const { plan, weights, sights, prompts, logitFactor } = seeing
  const limits = limitsFor(plan, { blocks: 40, tokens: 200, sequences: 5, rows: 200 })
  const program = await openOn(on, plan, limits)
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  const whole: Float32Array[] = []
  for (const [i, { tokens, firstRow, logits, greedy }] of sights.entries()) {
    const prompt = prompts[i]!
    const blocks = blocksFor(tokens.length + greedy.length, 7 * i).reverse()
    const read = { chunk: tokens.length, blocks, firstRow }
    const ours = await prefill(program, seeing, prompt, read)
    const golden = logits.map((logit) => logit * logitFactor)
    expect(worstDifference(ours, golden)).toBeLessThan(1e-3)
    whole.push(ours)
    const { length } = greedy
    const first = greedy[0]!
    const drawn = await continueGreedily(program, first, tokens.length, length, blocks)
    expect(drawn).toEqual([...greedy])
    for (const chunk of [1, 3, 16])
      expect(await prefill(program, seeing, prompt, { ...read, chunk })).toEqual(ours)
  }

  // All at once, beside texts.
  const [before, behind] = [words(20, 1), words(33, 2)]
  const company = [before, ...prompts, behind].map((prompt, i): SeenPart => {
    const { length } = prompt.tokens
    const firstRow = sights[i - 1]?.firstRow ?? length - 1
    const logits = Array.from({ length: length - firstRow }, (_, row) => firstRow + row)
    return { prompt, from: 0, to: length, blocks: blocksFor(length, 5 * i), logits }
  })
  const { logits } = await take(program, seeingStep(company, seeing))
  const { vocabulary } = plan.shapes
  const seen = whole.flatMap((rows) => [...rows])
  expect(logits!.subarray(vocabulary, vocabulary + seen.length)).toEqual(Float32Array.from(seen))
  for (const [part, at] of [
    [company[0]!, 0],
    [company.at(-1)!, vocabulary + seen.length],
  ] as const) {
    const alone = await take(program, seeingStep([part], seeing))
    expect(alone.logits).toEqual(logits!.subarray(at, at + vocabulary))
  }
}

const GOLDEN =
  "logits within 1e-3 of the golden ones, greedy tokens equal, chunks and company equal in bits"

test.each(seeingModels)(`%s on reference: ${GOLDEN}`, (name) => judge(name, "reference"))

test.each(seeingModels)(`%s on cpu: ${GOLDEN}`, (name) => judge(name, "cpu"), 240_000)

describe.each([
  ["vulkan", "gemma3"],
  ["opencl", "smolvlm"],
] as const)("on %s", (on, name) => {
  const { isSkipped, why } = lackOf(on)
  test.skipIf(isSkipped)(`${name}${why}: ${GOLDEN}`, () => judge(name, on), GPU_MILLISECONDS)
})

/** A golden prompt as the engine is asked it: its images have keys of their own. */
function asked({ tokens, rowAt, features }: SeenPrompt, count: number): GenerationRequest {
  const at = Int32Array.from([...rowAt.keys()].filter((position) => rowAt[position]! >= 0))
  const keys = at.map((_, row) => -1 - 1000 * tokens.length - row)
  return { ...greedily(tokens, count), media: { at, keys, rows: features } }
}

async function judgeServing(name: string, on: "reference" | "cpu"): Promise<void> {
  const { plan, weights, sights, prompts } = await see(name, on)
  const prepared = await targets[on].prepare(plan)
  const drafts = { length: 4 }
  const limits = chooseLimits({
    mode: "local",
    overrides: { max_num_sequence: 3, max_total_seq_length: 160, prefill_chunk_size: 20 },
    traits: targets[on].steps,
    manifest: prepared.manifest,
    available: 2 ** 30,
    weightBytes: prepared.weightBytes,
    bufferBytes: prepared.bufferBytes,
    drafts,
  })
  const open = async (speculative?: Speculative): Promise<Engine> => {
    const program = await prepared.open(limits.program)
    await loadParameters(weights, program.manifest, program)
    const engine = createEngine(program, {
      limits,
      maxQueue: 9,
      ...(speculative && { speculative }),
    })
    onTestFinished(() => engine.close())
    return engine
  }
  const told = prompts.map((prompt, i) => asked(prompt, sights[i]!.greedy.length))
  const text = greedily(words(21, 1).tokens, 30)
  const engine = await open()
  const all = [...told, text].map((each) => reply(engine.generate(each).choices[0]!))
  const replies = await Promise.all(all)
  const tokens = replies.map((events) => events.map(({ token }) => token))
  const golden = sights.map(({ greedy }) => [...greedy])
  expect(tokens.slice(0, -1)).toEqual(golden)

  // What was computed of an image is found again behind it, and by nobody who sees none.
  const last = told.at(-1)!
  const { media: _, ...blind } = last
  const unseeing = engine.generate(blind)
  expect((await reply(unseeing.choices[0]!)).map(({ token }) => token)).not.toEqual(golden.at(-1))
  expect(unseeing.cachedTokens).toBe(0)
  const again = engine.generate({ ...last, choices: 2 })
  const both = await Promise.all(again.choices.map(reply))
  expect(both).toEqual([replies.at(-2), replies.at(-2)])
  expect(again.cachedTokens).toBe(BLOCK * Math.floor((last.prompt.length - 1) / BLOCK))
  engine.audit()

  const drafting = await open({
    mode: "lookup",
    drafter: () => halfRight([...sights, { tokens: text.prompt, greedy: tokens.at(-1)! }]),
    length: drafts.length,
    room: limits.drafts,
  })
  const drafted = [...told, text].map((each) => reply(drafting.generate(each).choices[0]!))
  expect(await Promise.all(drafted)).toEqual(replies)
  const { accepted, drafted: proposed } = drafting.stats().drafts!
  expect(accepted[0]).toBeGreaterThan(0)
  expect(accepted[0]).toBeLessThan(proposed[0]!)
  drafting.audit()
}

const SERVED = "says the golden tokens, images beside a text, with drafts and without"

test.each(seeingModels)(`%s on reference ${SERVED}`, (name) => judgeServing(name, "reference"))

test.each(["gemma3", "smolvlm"])(
  `%s on cpu ${SERVED}`,
  (name) => judgeServing(name, "cpu"),
  240_000,
)
