import { expect, test } from "vitest"
import { limitsOf, plain, request, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply, historyProgram, VOCABULARY } from "../../test/history-program.ts"
import { createSmallDraft } from "./drafters/small-draft.ts"
import type { Constraint, GenerationRequest, PromptCoordinates } from "./generation.ts"
import type { Memory } from "./memory.ts"
import type { Drafter } from "./speculative.ts"

const HIDDEN = 2

/** A prompt of 60 tokens, of which those from the 10th to the 49th are rows of an image; and what is read there. */
function seeing(
  image: number,
  changes: Partial<GenerationRequest> = {},
  coordinates?: PromptCoordinates,
) {
  const at = Int32Array.from({ length: 40 }, (_, row) => 10 + row)
  const read = at.map((position) => (position * 5 + image * 11) % VOCABULARY)
  const prompt = Int32Array.from({ length: 60 }, (_, i) => (i >= 10 && i < 50 ? 7 : i % VOCABULARY))
  const media = {
    at,
    keys: at.map((_, row) => -1 - 100 * image - row),
    rows: Float32Array.from({ length: 40 * HIDDEN }, (_, i) =>
      i % HIDDEN ? 49 : read[i / HIDDEN]!,
    ),
    ...(coordinates && { coordinates }),
  }
  const input = request(0, { prompt, media, ...changes })
  const told = prompt.slice()
  for (const [row, position] of at.entries()) told[position] = read[row]!
  const asTold = { ...input, prompt: told }
  return { input, told: asTold, expected: expectedReply(asTold, 0).tokens }
}

test("rows of images are read in the place of their tokens, in chunks, beside others", async () => {
  const { engine, isClean } = setUp({ sees: true, chunk: 7 })
  const [one, two] = [seeing(1), seeing(2)]
  const text = request(33)
  const replies = [one.input, text, two.input].map((each) =>
    collect(engine.generate(each).choices[0]!),
  )
  const tokens = (await Promise.all(replies)).map((reply) => reply.tokens)
  expect(tokens).toEqual([one.expected, expectedReply(text, 0).tokens, two.expected])
  expect(one.expected).not.toEqual(two.expected)
  isClean()
})

test("a prefix is taken over with its image, and never with another one", async () => {
  const { engine, isClean } = setUp({ sees: true })
  const ask = async (image: number) => {
    const { input, expected } = seeing(image, { maxTokens: 40 })
    const generation = engine.generate(input)
    expect((await collect(generation.choices[0]!)).tokens).toEqual(expected)
    return generation.cachedTokens
  }
  expect(await ask(1)).toBe(0)
  expect(await ask(2)).toBe(0) // the first block holds six rows of the image
  expect(await ask(1)).toBe(48)
  expect(await ask(2)).toBe(48)

  // What was written behind an image is found behind it again.
  const { input, expected } = seeing(1, { maxTokens: 40 })
  const prompt = Int32Array.from([...input.prompt, ...expected, 3, 4])
  const next = engine.generate({ ...input, prompt })
  await collect(next.choices[0]!)
  expect(next.cachedTokens).toBe(96)
  isClean()
})

test("who was preempted reads its images again", async () => {
  const { engine, isClean } = setUp({ sees: true, blocks: 12, sequences: 3 })
  const all = [1, 2, 3].map((image) => seeing(image, { maxTokens: 60 }))
  const replies = await Promise.all(
    all.map(({ input }) => collect(engine.generate(input).choices[0]!)),
  )
  expect(replies.map(({ tokens }) => tokens)).toEqual(all.map(({ expected }) => expected))
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  isClean()
})

test("where rows of an image see each other, no step cuts one", async () => {
  const { engine, program, isClean } = setUp({ sees: true, mutual: true, chunk: 15, blocks: 24 })
  const all = [1, 2, 3].map((image) => seeing(image, { maxTokens: 50 }))
  const text = request(50)
  const replies = await Promise.all(
    [...all.map(({ input }) => input), text].map((each) =>
      collect(engine.generate(each).choices[0]!),
    ),
  )
  const expected = [...all.map((each) => each.expected), expectedReply(text, 0).tokens]
  expect(replies.map(({ tokens }) => tokens)).toEqual(expected)
  expect(Math.max(...program.steps.map(({ tokens }) => tokens))).toBeGreaterThanOrEqual(40)

  // A prefix may end within one: the rest of it is read in one step.
  const again = seeing(1, { maxTokens: 50 })
  const generation = engine.generate(again.input)
  expect((await collect(generation.choices[0]!)).tokens).toEqual(again.expected)
  isClean()

  const narrow = setUp({ sees: true, mutual: true, tokens: 43 }).engine
  expect(() => narrow.generate(all[0]!.input)).toThrow("an image of more than 39 tokens")
})

test("rows of a recording see what is before them, and are read in pieces, where rows of an image see each other", async () => {
  const { engine, isClean } = setUp({ sees: true, mutual: true, tokens: 43, chunk: 15 })
  const { input, expected } = seeing(1)
  const { at } = input.media!
  const rows = input.media!.rows.map((value, i) => (i % HIDDEN ? at[(i - 1) / HIDDEN]! : value))
  const media = { ...input.media!, rows, heard: new Uint8Array(40).fill(1) }
  const reply = await collect(engine.generate({ ...input, media }).choices[0]!)
  expect(reply.tokens).toEqual(expected)
  isClean()
})

/** The same prompt, which goes on for ten tokens, and all of whose tokens see each other. */
function seenBothWays(image: number, promptKey: number, changes: Partial<GenerationRequest> = {}) {
  const { input, told } = seeing(image, changes)
  const longer = (prompt: Int32Array) => Int32Array.from([...prompt, ...Array(10).keys()])
  const rows = input.media!.rows.map((value, i) => (i % HIDDEN ? 69 : value))
  const media = { ...input.media!, rows, promptKey }
  const asTold = { ...told, prompt: longer(told.prompt) }
  const expected = expectedReply(asTold, 0).tokens
  return { input: { ...input, prompt: longer(input.prompt), media }, told: asTold, expected }
}

const BOTH_WAYS = { sees: true, mutual: true, bothWays: 70, tokens: 90 } as const

test("a prompt that is seen both ways is whole in a step, and is taken over by its like alone", async () => {
  const { engine, isClean } = setUp({ ...BOTH_WAYS, chunk: 15 })
  const ask = async (image: number, key: number) => {
    const { input, told } = seenBothWays(image, key, { maxTokens: 40 })
    const generation = engine.generate({ ...input, choices: 2 })
    const replies = await Promise.all(generation.choices.map((choice) => collect(choice)))
    for (const [choice, { tokens }] of replies.entries())
      expect(tokens).toEqual(expectedReply(told, choice).tokens)
    return generation.cachedTokens
  }
  expect(await ask(1, -5000)).toBe(0)
  expect(await ask(1, -5000)).toBe(64) // what is left of it sees to its end without a row of the image
  expect(await ask(1, -6000)).toBe(0) // one that goes on otherwise begins otherwise
  isClean()
})

test("it is whole again who was preempted, and whose mask comes late", async () => {
  const { engine, isClean } = setUp({ ...BOTH_WAYS, blocks: 14, sequences: 3 })
  const all = [1, 2, 3].map((image) => seenBothWays(image, -5000 - image, { maxTokens: 60 }))
  const replies = await Promise.all(
    all.map(({ input }) => collect(engine.generate(input).choices[0]!)),
  )
  expect(replies.map(({ tokens }) => tokens)).toEqual(all.map(({ expected }) => expected))
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  let pending: Promise<void> | undefined = turns(9).then(() => {
    pending = undefined
  })
  const constraint = (): Constraint => ({
    get pending() {
      return pending
    },
    mask(into) {
      if (pending) throw new Error("asked for a mask that is not there")
      into.fill(-1)
    },
    accept() {},
    close() {},
  })
  const { input, expected } = seenBothWays(4, -5004)
  const late = await collect(engine.generate({ ...input, constraint }).choices[0]!)
  expect(late.tokens).toEqual(expected)
  isClean()
})

test("it is refused where a step has no room for it, or a window is shorter", () => {
  const { input } = seenBothWays(1, -5000)
  const { engine: narrow } = setUp({ ...BOTH_WAYS, tokens: 73 })
  expect(() => narrow.generate(input)).toThrow(
    "have 70 tokens that all see each other, 69 of which a step has room for",
  )
  const { engine: short } = setUp({ ...BOTH_WAYS, windows: [Number.POSITIVE_INFINITY, 48] })
  expect(() => short.generate(input)).toThrow("48 of which this model's layers look back over")
})

test("what computes beside the engine is held while a step runs, and no longer", async () => {
  let isHeld = false
  const beside = {
    isBusy: true,
    hold: () => {
      isHeld = true
    },
    letGo: () => {
      isHeld = false
    },
  }
  const { engine, program, isClean } = setUp({ options: { beside } })
  const held: boolean[] = []
  program.before = () => {
    held.push(isHeld)
    if (held.length === 3) throw new Error("it breaks")
    return undefined
  }
  const replies = [request(70), request(20)].map((each) =>
    collect(engine.generate(each).choices[0]!),
  )
  await Promise.all(replies)
  expect(new Set(held)).toEqual(new Set([true]))
  expect(isHeld).toBe(false)
  isClean()
})

test("a model that drafts reads along, and no token that it does not have", async () => {
  const limits = limitsOf({}, 40)
  const draft = historyProgram({ limits })
  let largest = 0
  const drafter = (memory: Memory) =>
    createSmallDraft(
      {
        ...draft,
        step: (input, cancel) => {
          largest = Math.max(largest, ...input.tokens)
          return draft.step(input, cancel)
        },
      },
      memory,
    )
  const speculative = { mode: "small_draft" as const, drafter, length: 3, room: 40 }
  const { engine, isClean } = setUp({ sees: true, options: { speculative } })
  const { input, expected } = seeing(1)
  const prompt = input.prompt.map((token, i) => (i >= 10 && i < 50 ? VOCABULARY : token))
  expect((await collect(engine.generate({ ...input, prompt }).choices[0]!)).tokens).toEqual(
    expected,
  )
  expect(largest).toBeGreaterThan(0)
  expect(largest).toBeLessThan(VOCABULARY)
  isClean()
})

/** Of the prompt of `seeing`, whose image has five lines of eight rows. */
function inGrid(): PromptCoordinates {
  const ofPrompt = new Int32Array(3 * 60)
  for (let position = 0; position < 60; position++) {
    const row = position - 10
    const isRow = row >= 0 && row < 40
    const start = position < 10 ? position : isRow ? 10 : position - 32
    ofPrompt[position] = start
    ofPrompt[60 + position] = isRow ? start + Math.floor(row / 8) : start
    ofPrompt[120 + position] = isRow ? start + (row % 8) : start
  }
  return { ofPrompt, behind: 32 }
}

test("tokens stand where their coordinates say: preempted, forked, behind what others computed, beside texts", async () => {
  const { engine, isClean } = setUp({ sees: true, blocks: 12, sequences: 4, chunk: 13 })
  const grid = inGrid()
  const one = seeing(1, { maxTokens: 60 }, grid)
  expect(one.expected).not.toEqual(seeing(1, { maxTokens: 60 }).expected)
  const [two, three] = [2, 3].map((image) => seeing(image, { maxTokens: 60 }, grid))
  const text = request(30)
  const all = [one.input, two!.input, text, three!.input]
  const replies = await Promise.all(all.map((input) => collect(engine.generate(input).choices[0]!)))
  const expected = [one, two!, { expected: expectedReply(text, 0).tokens }, three!]
  expect(replies.map(({ tokens }) => tokens)).toEqual(expected.map((each) => each.expected))
  expect(engine.stats().preemptions).toBeGreaterThan(0)
  const again = engine.generate(one.input)
  expect((await collect(again.choices[0]!)).tokens).toEqual(one.expected)
  const forked = seeing(
    4,
    { maxTokens: 20, choices: 2, sampling: { ...plain, temperature: 1 } },
    grid,
  )
  const choices = await Promise.all(
    engine.generate(forked.input).choices.map((each) => collect(each)),
  )
  for (const [choice, { tokens }] of choices.entries())
    expect(tokens).toEqual(expectedReply(forked.told, choice).tokens)
  isClean()
})

test.each(["told", "drawn"] as const)(
  "and in steps whose tokens are %s where they are drawn",
  async (chains) => {
    const { engine, program, isClean } = setUp({ sees: true, chains, turns: 1 })
    const all = [1, 2].map((image) => seeing(image, { maxTokens: 40 }, inGrid()))
    const replies = await Promise.all(
      all.map(({ input }) => collect(engine.generate(input).choices[0]!)),
    )
    expect(replies.map(({ tokens }) => tokens)).toEqual(all.map(({ expected }) => expected))
    expect(program.steps.some(({ isChained }) => isChained)).toBe(true)
    isClean()
  },
)

test.each([false, true])(
  "and with drafts of which every third is wrong; states: %s",
  async (hasStates) => {
    const grid = inGrid()
    const all = [1, 2].map((image) => seeing(image, { maxTokens: 40 }, grid))
    const replies = new Map(
      all.map(({ input, told }) => [input.id, expectedReply(told, 0, { hasStates }).tokens]),
    )
    const drafter: Drafter = {
      hidden: "none",
      longest: 12,
      async propose(step) {
        for (const { wish, drafts, replyTokens, sequenceGroup } of step)
          for (let i = 0; i < wish; i++) {
            const said = replies.get(sequenceGroup.request.id)![replyTokens + i] ?? 0
            drafts.push(i % 3 === 2 ? (said + 1) % VOCABULARY : said)
          }
      },
      async close() {},
    }
    const speculative = { mode: "lookup", drafter: () => drafter, length: 5, room: 20 } as const
    const { engine, isClean } = setUp({ sees: true, hasStates, options: { speculative } })
    const told = await Promise.all(
      all.map(({ input }) => collect(engine.generate(input).choices[0]!)),
    )
    expect(told.map(({ tokens }) => tokens)).toEqual([...replies.values()])
    expect(engine.stats().drafts!.accepted.some((count) => count > 0)).toBe(true)
    isClean()
  },
)

test("a model that sees nothing is given no images", () => {
  const { engine } = setUp()
  expect(() => engine.generate(seeing(1).input)).toThrow(
    "rows of media for a model that takes none",
  )
})

test("what waits holds no more rows than there is room for, unless one alone has as many", async () => {
  const { engine, isClean } = setUp({ sees: true, sequences: 1, turns: 5 })
  const large = () => {
    const { input, expected } = seeing(1)
    const rows = new Float32Array(300 * 2 ** 20) // 1.2 GB that nobody touches
    rows.set(input.media!.rows)
    return { input: { ...input, media: { ...input.media!, rows } }, expected }
  }
  const running = engine.generate(request(5)).choices[0]!
  const text = engine.generate(request(5)).choices[0]!
  const { input, expected } = large()
  const first = engine.generate(input).choices[0]!
  expect(() => engine.generate(large().input)).toThrow("3 requests are waiting")
  const small = seeing(2)
  const second = engine.generate(small.input).choices[0]!
  const replies = await Promise.all([first, second, running, text].map(collect))
  expect(replies.slice(0, 2).map(({ tokens }) => tokens)).toEqual([expected, small.expected])
  await collect(engine.generate(large().input).choices[0]!)
  isClean()
})
