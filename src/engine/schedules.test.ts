// Hundreds of random schedules, each held to what every sequence would have said alone: prompts that share beginnings,
// too few blocks, too few places, readers that lag or leave, requests that are aborted, chunks and windows of all sizes.

import { expect, test } from "vitest"
import { plain, request, setUp, turns } from "../../test/history-engine.ts"
import { expectedReply, expectedScores, VOCABULARY } from "../../test/history-program.ts"
import { mulberry32 } from "../../test/random.ts"
import type { Generation, GenerationRequest } from "./generation.ts"
import { Trace } from "./trace.ts"

const SCHEDULES = 200

type Random = (below: number) => number

/** A schedule that fails can be run again by its number. */
function random(seed: number): Random {
  const next = mulberry32(seed)
  return (below) => next() % below
}

/** A prompt that begins like others do and goes on in its own way. */
function randomRequest(pick: Random): GenerationRequest {
  const begins = pick(3)
  const shared = pick(60)
  const length = shared + 1 + pick(50)
  const prompt = Int32Array.from({ length }, (_, i) =>
    i < shared ? (i * (begins + 3)) % VOCABULARY : pick(VOCABULARY),
  )
  return request(length, {
    prompt,
    choices: pick(3) === 0 ? 1 + pick(5) : 1,
    maxTokens: 1 + pick(50),
    stopTokens: new Set(pick(2) === 0 ? [pick(VOCABULARY)] : []),
    scorePrompt: pick(4) === 0,
    scope: pick(4) === 0 ? "another" : "",
    sampling: {
      ...plain,
      seed: BigInt(pick(1000)),
      temperature: pick(2),
      frequencyPenalty: pick(2) / 2,
    },
  })
}

const ROWS = 24 // of the largest image
const SOFT = 7

/** Two of three prompts have images, of four that all share; what is read there stands in `told`, the prompt without them. */
function seeing(asked: GenerationRequest, pick: Random) {
  const told = asked.prompt.slice()
  const at: number[] = []
  const keys: number[] = []
  const rows: number[] = []
  for (let from = pick(8); from < told.length - 1 && pick(3) > 0; from += 1 + pick(12)) {
    const image = pick(4)
    const end = Math.min(told.length, from + [1, 5, 16, ROWS][image]!)
    if (end - from < [1, 5, 16, ROWS][image]!) break
    for (let row = 0; from < end; row++, from++) {
      told[from] = (row * 5 + image * 11) % VOCABULARY
      at.push(from)
      keys.push(-1 - 100 * image - row)
      rows.push(told[from]!, end - 1)
    }
  }
  if (at.length === 0) return { input: asked, expected: asked }
  const media = {
    at: Int32Array.from(at),
    keys: Int32Array.from(keys),
    rows: Float32Array.from(rows),
  }
  const prompt = told.map((token, position) => (at.includes(position) ? SOFT : token))
  const expected = { ...asked, prompt: told, scorePrompt: false }
  return { input: { ...expected, prompt, media }, expected }
}

/** Reads a choice like some client would, and holds the tokens it got to the solitary run. */
async function read(
  asked: GenerationRequest,
  generation: Generation,
  choice: number,
  pick: Random,
  visible: Pick<Kinds, "window" | "windows" | "hasStates"> & { sinks?: number; context: number },
): Promise<number> {
  const expected = expectedReply(asked, choice, visible)
  const leavesAfter = pick(6) === 0 ? pick(30) : Number.POSITIVE_INFINITY
  const lags = pick(8) === 0
  const scores = asked.scorePrompt ? expectedScores(asked, visible) : []
  const tokens: number[] = []
  const logprobs: number[] = []
  for await (const event of generation.choices[choice]!) {
    if (tokens.length === 0) expectScores(generation.scores?.logprobs ?? [], scores)
    if (event.kind === "end") {
      expect(event.reason).toBe(expected.reason)
      expect(tokens.length).toBe(expected.tokens.length)
      break
    }
    tokens.push(event.token)
    logprobs.push(event.logprob)
    if (tokens.length > leavesAfter) break
    if (lags) await turns(pick(20))
  }
  if (tokens.length > 0) expectScores(generation.scores?.logprobs ?? [], scores)
  // At once: of a hundred thousand tokens, to expect each takes longer than to compute it.
  expect(tokens).toEqual(expected.tokens.slice(0, tokens.length))
  expect(logprobs).toEqual(expected.logprobs.slice(0, tokens.length))
  return tokens.length
}

function expectScores(logprobs: ArrayLike<number>, scores: readonly number[]): void {
  expect(logprobs.length).toBe(scores.length)
  for (const [i, score] of scores.entries()) expect(logprobs[i]).toBeCloseTo(score, 4)
}

const seeds = Array.from({ length: SCHEDULES }, (_, seed) => seed)

test.each(seeds)("schedule %i", async (seed) => {
  const pick = random(seed)
  const window = pick(4) === 0 ? 20 + pick(60) : undefined
  await run(pick, { ...(window ? { window } : {}) })
})

/** Layers of two or three kinds: some see everything, or further than others. */
test.each(seeds)("schedule %i of several KV groups", async (seed) => {
  const pick = random(seed + SCHEDULES)
  const windows = [pick(3) === 0 ? 80 + pick(40) : undefined, 1 + pick(70)]
  if (pick(3) === 0) windows.splice(1, 0, windows[0])
  await run(pick, { windows })
})

/** Nothing keeps all: states, and what convolutions look back. */
test.each(seeds.slice(0, SCHEDULES / 2))(
  "schedule %i of states and short windows",
  async (seed) => {
    const pick = random(seed + 4 * SCHEDULES)
    await run(pick, { window: 1 + pick(8), hasStates: true })
  },
)

/** Steps are handed over while others run. */
test.each(seeds)("schedule %i, chained", async (seed) => {
  const pick = random(seed + 2 * SCHEDULES)
  const windows = pick(4) === 0 ? [undefined, 20 + pick(60)] : undefined
  await run(pick, { chains: seed % 2 ? "told" : "drawn", ...(windows ? { windows } : {}) })
})

test.each(seeds.slice(0, SCHEDULES / 2))("schedule %i of states, chained", async (seed) => {
  const pick = random(seed + 5 * SCHEDULES)
  const window = pick(3) === 0 ? { window: 1 + pick(8) } : {}
  await run(pick, { chains: seed % 2 ? "told" : "drawn", hasStates: true, ...window })
})

/** Rows of images stand in prompts, and may see each other. */
test.each(seeds.slice(0, SCHEDULES / 2))("schedule %i, with images", async (seed) => {
  const pick = random(seed + 3 * SCHEDULES)
  const windows = pick(3) === 0 ? [pick(2) ? undefined : 80, 20 + pick(60)] : undefined
  const mutual = pick(2) === 0 && ({ mutual: true } as const)
  const chains = pick(3) === 0 && ({ chains: pick(2) ? "told" : "drawn" } as const)
  await run(pick, { sees: true, ...mutual, ...chains, ...(windows ? { windows } : {}) })
})

interface Kinds {
  window?: number
  windows?: (number | undefined)[]
  hasStates?: true
  chains?: "told" | "drawn"
  sees?: true
  mutual?: true
}

async function run(pick: Random, given: Kinds): Promise<void> {
  const { chains, sees, mutual, ...kinds } = given
  const { window, windows } = kinds
  const slides = window ?? windows
  const sinks = slides && pick(2) ? pick(20) : 0
  const context = 200
  const sequences = 1 + pick(6)
  const trace = new Trace()
  const { engine, isClean } = setUp({
    context,
    ...kinds,
    ...(chains && { chains }),
    ...(sees && { sees }),
    ...(mutual && { mutual }),
    sinks,
    blocks: 13 + pick(30),
    ...(windows ? { otherBlocks: windows.slice(1).map(() => 13 + pick(30)) } : {}),
    sequences,
    tokens: Math.max(mutual ? sequences + ROWS : sequences, 4 + pick(60)),
    chunk: 1 + pick(64),
    turns: pick(3),
    cost: ({ tokens }) => 5 + pick(4) * tokens,
    options: { trace, ...(pick(3) === 0 ? { recycledSequences: pick(4) } : {}) },
  })
  const readers: Promise<number>[] = []
  let promptTokens = 0
  let aborts = false
  for (let i = 4 + pick(8); i > 0; i--) {
    const asked = randomRequest(pick)
    const { input, expected } = sees ? seeing(asked, pick) : { input: asked, expected: asked }
    promptTokens += input.prompt.length
    const controller = new AbortController()
    const generation = engine.generate(input, controller.signal)
    for (let choice = 0; choice < input.choices; choice++) {
      const visible = { context, sinks, ...kinds }
      readers.push(read(expected, generation, choice, pick, visible))
    }
    if (pick(8) === 0) {
      aborts = true
      void turns(pick(30)).then(() => controller.abort())
    }
    await turns(pick(10))
    engine.audit()
  }
  const readTokens = (await Promise.all(readers)).reduce((sum, read) => sum + read, 0)
  await engine.drain() // a step may still be computing for somebody who has left
  isClean()
  const { traceEvents } = trace.toJSON()
  const traced = (name: string, count: string) =>
    traceEvents
      .filter((event) => event.name === name)
      .reduce((sum, { args }) => sum + Number(args[count]), 0)
  expect(traced("step", "reply")).toBe(
    readTokens + traced("reply", "unread") + traced("left", "unread"),
  )
  if (!aborts) {
    expect(traced("step", "prompt") + engine.stats().cachedTokens).toBe(promptTokens)
  }
}
