// Drafts change speed and never text: hundreds of random mixtures of requests are held to what an engine without drafts
// says, event by event. The drafters are the real look-up, and stand-ins that are right as often as is wanted.

import { describe, expect, test } from "vitest"
import { limitsOf, plain, request, type Setting, setUp, turns } from "../../test/history-engine.ts"
import { collect, expectedReply, historyProgram, VOCABULARY } from "../../test/history-program.ts"
import { mulberry32 } from "../../test/random.ts"
import { createEagle } from "./drafters/eagle.ts"
import { createLookup, createRepeater } from "./drafters/lookup.ts"
import { createMedusa } from "./drafters/medusa.ts"
import { createSmallDraft } from "./drafters/small-draft.ts"
import type { Constraint, GenerationEvent, GenerationRequest } from "./generation.ts"
import type { Memory } from "./memory.ts"
import type { Sequence } from "./sequence.ts"
import { type Drafter, MAX_DRAFT, nobody, type Speculative } from "./speculative.ts"
import { Trace } from "./trace.ts"

type Random = (below: number) => number

/** A mixture that fails can be run again by its number. */
function random(seed: number): Random {
  const next = mulberry32(seed)
  return (below) => next() % below
}

/** Knows what will be said, and says something else now and then. */
function standIn(replies: ReadonlyMap<string, number[]>, isRight: () => boolean): Drafter {
  return {
    hidden: "none",
    longest: 12,
    async propose(step) {
      await turns(1)
      for (const sequence of step) {
        const said = replies.get(keyOf(sequence)) ?? []
        for (let i = 0; i < sequence.wish; i++) {
          const right = said[sequence.replyTokens + i] ?? 0
          sequence.drafts.push(isRight() ? right : (right + 1) % VOCABULARY)
        }
      }
    },
    async close() {},
  }
}

const keyOf = ({ sequenceGroup, choice }: Sequence) => `${sequenceGroup.request.id} ${choice}`

function speculative(drafter: Drafter, length: number, room = 40): Speculative {
  return { mode: "lookup", drafter: () => drafter, length, room }
}

/** Allows some tokens, or just one, by what was accepted; its masks may come a while after they are asked for. */
class Moody implements Constraint {
  readonly #seed: number
  readonly #delay: number
  readonly #accepted: number[] = []
  #ahead: readonly number[]
  pending: Promise<void> | undefined

  constructor(seed: number, delay: number) {
    this.#seed = seed
    this.#delay = delay
    this.#ahead = this.#findForced()
    this.#wait()
  }

  mask(into: Uint32Array, after = 0): void {
    if (this.pending) throw new Error("asked for a mask that is not there")
    if (after > this.#ahead.length) throw new Error("asked for a mask beyond the draft")
    into.fill(0)
    for (let token = 0; token < VOCABULARY; token++) {
      if (this.#allows(token, after)) into[token >> 5]! |= 1 << (token & 31)
    }
  }

  accept(token: number): void {
    if (!this.#allows(token, 0)) throw new Error(`${token} was not allowed`)
    this.#accepted.push(token)
    if (this.#ahead[0] === token) this.#ahead = this.#ahead.slice(1)
    else {
      this.#ahead = this.#findForced()
      this.#wait()
    }
  }

  draft(tokens: readonly number[]): void {
    this.#ahead = []
    for (const [i, token] of tokens.entries()) {
      if (!this.#allows(token, i)) break
      this.#ahead = tokens.slice(0, i + 1)
    }
    this.#wait()
  }

  get drafted(): number {
    return this.pending ? 0 : this.#ahead.length
  }

  get forced(): readonly number[] {
    return this.pending ? [] : this.#findForced()
  }

  #findForced(): number[] {
    const run: number[] = []
    for (let only = this.#only(run); only !== undefined; only = this.#only(run)) {
      run.push(only)
      if (run.length === 20) break
    }
    return run
  }

  /** The token that has to come after these, if only one may. */
  #only(ahead: readonly number[]): number | undefined {
    const state = this.#state(ahead)
    return ((state >>> 9) & 3) === 0 ? undefined : (state >>> 11) % VOCABULARY
  }

  #state(ahead: readonly number[]): number {
    const seen = [...this.#accepted, ...ahead]
    return seen.reduce((mixed, each) => Math.imul(mixed ^ each, 0x85ebca6b), this.#seed)
  }

  #allows(token: number, after: number): boolean {
    const ahead = this.#ahead.slice(0, after)
    const only = this.#only(ahead)
    if (only !== undefined) return token === only
    const state = this.#state(ahead)
    return token === 5 || ((Math.imul(state ^ token, 0xc2b2ae35) >>> 13) & 3) !== 0
  }

  #wait(): void {
    if (this.#delay === 0) return
    const done = turns(this.#delay).then(() => {
      if (this.pending === done) this.pending = undefined
    })
    this.pending = done
  }
}

function randomRequest(pick: Random, at: number): GenerationRequest {
  const begins = pick(3)
  const shared = pick(60)
  const length = shared + 1 + pick(40)
  const prompt = Int32Array.from({ length }, (_, i) =>
    i < shared ? (i * (begins + 3)) % VOCABULARY : pick(4) === 0 ? pick(VOCABULARY) : i % 5,
  )
  const [seed, delay] = [pick(1000), pick(3) === 0 ? pick(40) : 0]
  return request(length, {
    id: `m${at}`,
    prompt,
    choices: pick(3) === 0 ? 1 + pick(4) : 1,
    maxTokens: pick(8) === 0 ? undefined : 1 + pick(60),
    stopTokens: new Set(pick(3) === 0 ? [pick(VOCABULARY), pick(VOCABULARY)] : []),
    scope: pick(4) === 0 ? "another" : "",
    ...(pick(3) === 0 ? { constraint: () => new Moody(seed, delay) } : {}),
    ...(pick(6) === 0 ? { scorePrompt: true } : {}),
    sampling: {
      temperature: [0, 0.3, 1, 1.7][pick(4)]!,
      topK: pick(3) === 0 ? 1 + pick(20) : 0,
      topP: pick(3) === 0 ? 0.5 : 1,
      minP: pick(4) === 0 ? 0.1 : 0,
      presencePenalty: pick(3) - 1,
      frequencyPenalty: pick(3) === 0 ? 0.7 : 0,
      repetitionPenalty: pick(3) === 0 ? 1.4 : 1,
      logitBias: new Map(pick(3) === 0 ? [[pick(VOCABULARY), 4]] : []),
      seed: BigInt(pick(1000)),
      topLogprobs: pick(3) === 0 ? pick(4) : undefined,
    },
  })
}

/** The same, with a token that comes nearly always: a reply that repeats itself, and not for ever. */
function repeating(input: GenerationRequest, token: number): GenerationRequest {
  return { ...input, sampling: { ...input.sampling, logitBias: new Map([[token, 7]]) } }
}

/** All that a choice is told, or as much as somebody reads who leaves. */
async function read(
  choice: AsyncIterable<GenerationEvent>,
  most = Number.POSITIVE_INFINITY,
  pause = 0,
): Promise<GenerationEvent[]> {
  const events: GenerationEvent[] = []
  for await (const event of choice) {
    events.push(event)
    if (pause > 0) await turns(pause)
    if (events.length >= most) break
  }
  return events
}

const drafters = [
  "nobody",
  "lookup",
  "what is repeated, where it costs nothing",
  "a model",
  "an EAGLE head",
  "Medusa",
  "right",
  "half right",
  "wrong",
] as const

describe.each(drafters)("a drafter: %s", (kind) => {
  const seeds = Array.from({ length: kind === "half right" ? 70 : 30 }, (_, seed) => seed)
  test.each(seeds)("mixture %i says what is said without", async (seed) => {
    const pick = random(seed * 7 + 1)
    const window = pick(4) === 0 ? 20 + pick(60) : undefined
    const sinks = window && pick(2) ? pick(20) : 0
    const sequences = 1 + pick(6)
    // A third have layers that look less far back than the others, and half of their drafts have so too.
    const windows = !window && seed % 3 === 0 ? [undefined, 1 + ((7 * seed) % 50)] : undefined
    const draftWindows = windows && seed % 2 === 0 ? [undefined, 40] : [window]
    const hasStates = seed % 4 === 1 // from which no step leads back
    const setting: Setting = {
      context: 160,
      hasStates,
      ...(window ? { window, sinks } : {}),
      ...(windows && { windows }),
      sequences,
      turns: pick(3),
      blocks: 11 + pick(30),
      tokens: Math.max(sequences, 4 + pick(60)),
      chunk: 1 + pick(64),
    }
    const isThrifty = kind === "what is repeated, where it costs nothing"
    const inputs = Array.from({ length: 3 + pick(6) }, (_, at) => {
      const input = randomRequest(pick, at)
      return isThrifty && at % 2 === 0 ? repeating(input, at) : input
    })

    const without = setUp({ ...setting, blocks: 200, turns: 0 })
    const expected: GenerationEvent[][][] = []
    const replies = new Map<string, number[]>()
    for (const each of inputs) {
      const said = await Promise.all(without.engine.generate(each).choices.map((one) => read(one)))
      expected.push(said)
      for (const [choice, events] of said.entries()) {
        const tokens = events.flatMap((event) => (event.kind === "token" ? [event.token] : []))
        replies.set(`${each.id} ${choice}`, tokens)
      }
    }
    without.isClean()

    const chance = kind === "right" ? 100 : kind === "half right" ? 50 : 0
    const room = 1 + pick(50)
    const draft = historyProgram({
      ...(window ? { sinks } : {}),
      windows: draftWindows,
      context: 130, // it cannot follow to the end
      limits: {
        ...limitsOf({ ...setting, hasStates: false, windows: draftWindows }, room),
        rows: sequences,
      },
    })
    const drafter = (memory: Memory) => {
      if (kind === "nobody") return nobody
      if (kind === "lookup") return createLookup()
      if (isThrifty) return createRepeater()
      if (kind === "a model") return createSmallDraft(draft, memory)
      if (kind === "an EAGLE head") return createEagle(draft, memory)
      if (kind === "Medusa") return createMedusa([draft, draft, draft])
      return standIn(replies, () => pick(100) < chance)
    }
    const trace = new Trace()
    const length = isThrifty ? 0 : pick(2) * (1 + pick(8))
    const given = { mode: "lookup", thrifty: isThrifty, drafter, length, room } as const
    const options = { trace, speculative: given }
    const { engine, program, isClean } = setUp({ ...setting, options })
    const readers: Promise<void>[] = []
    let readTokens = 0
    for (const [i, each] of inputs.entries()) {
      const generation = engine.generate(each)
      for (const [choice, one] of generation.choices.entries()) {
        const most = pick(6) === 0 ? 1 + pick(30) : Number.POSITIVE_INFINITY
        const pause = pick(6) === 0 ? pick(10) : 0
        readers.push(
          read(one, most, pause).then((events) => {
            expect(events).toEqual(expected[i]![choice]!.slice(0, events.length))
            expect(events.length).toBe(Math.min(most, expected[i]![choice]!.length))
            readTokens += events.filter((event) => event.kind === "token").length
          }),
        )
      }
      await turns(pick(10))
      engine.audit()
    }
    await Promise.all(readers)
    await engine.drain()
    isClean()
    expect(program.faults).toEqual([])
    // In a window a draft sees less when it lags, and a head sees nothing but its row.
    if (!window && kind !== "Medusa") expect(draft.faults).toEqual([])
    const { traceEvents } = trace.toJSON()
    const traced = (name: string, count: string) =>
      traceEvents
        .filter((event) => event.name === name)
        .reduce((sum, { args }) => sum + Number(args[count]), 0)
    expect(traced("step", "reply")).toBe(
      readTokens + traced("reply", "unread") + traced("left", "unread"),
    )
  })
})

test("a right draft of four is five tokens a step", async () => {
  const input = request(20, { maxTokens: 40 })
  const { tokens } = expectedReply(input, 0)
  const drafter = standIn(new Map([[`${input.id} 0`, tokens]]), () => true)
  const { engine, program, isClean } = setUp({ options: { speculative: speculative(drafter, 4) } })
  const before = engine.stats()
  const said = await collect(engine.generate(input).choices[0]!)
  expect(said.tokens).toEqual(tokens)
  expect(before.drafts!.accepted[0]).toBe(0) // what was told stays as it was
  expect(engine.stats().drafts!.accepted.slice(0, 5)).toEqual([8, 8, 8, 7, 0])
  expect(program.steps.map(({ rows }) => rows)).toEqual([1, 5, 5, 5, 5, 5, 5, 5, 4])
  expect(engine.stats().replyTokens).toBe(40)
  isClean()
})

test("a model that draws as the program does is always right, and reads every token once", async () => {
  const setting = { tokens: 24, chunk: 20, sequences: 3 }
  const limits = { ...limitsOf(setting, 12), rows: 3 }
  const draft = historyProgram({ limits, context: 1024 })
  const drafter = (memory: Memory) => createSmallDraft(draft, memory)
  const given = { mode: "small_draft", drafter, length: 4, room: 12 } as const
  const { engine, program, isClean } = setUp({ ...setting, options: { speculative: given } })
  const inputs = [70, 33, 50].map((length) => request(length, { maxTokens: 50 }))
  const said = await Promise.all(inputs.map((each) => collect(engine.generate(each).choices[0]!)))
  for (const [i, each] of inputs.entries()) {
    expect(said[i]!.tokens).toEqual(expectedReply(each, 0).tokens)
  }
  const { drafts } = engine.stats()
  expect(drafts!.accepted).toEqual(drafts!.drafted)
  expect(drafts!.drafted.slice(0, 4).every((count) => count >= 27)).toBe(true)
  expect(program.faults).toEqual([])
  expect(draft.faults).toEqual([])
  const read = draft.steps.reduce((sum, { tokens }) => sum + tokens, 0)
  expect(read).toBeLessThan(70 + 33 + 50 + 3 * 50)
  isClean()
})

/** Allows whatever there is, along any draft; as those of threads do, it looks at the draft when it is asked for what is left of it. */
function lenient(changes: Partial<Constraint> = {}): Constraint {
  let ahead: readonly number[] = []
  return {
    mask: (into) => void into.fill(0xffff_ffff),
    accept: () => {
      ahead = []
    },
    draft: (tokens) => {
      ahead = tokens
    },
    get drafted() {
      return ahead.length
    },
    ...changes,
  }
}

test("a drafter of fewer rows that no mask fits costs nobody's reply", async () => {
  const limits = { ...limitsOf({}, 12), rows: 4 }
  const { manifest, ...whole } = historyProgram({ limits, context: 1024 })
  const shapes = { ...manifest.shapes, vocabulary: 64 }
  const draft = { ...whole, manifest: { ...manifest, shapes } }
  const drafter = (memory: Memory) => createSmallDraft(draft, memory)
  const given = { mode: "small_draft", drafter, length: 4, room: 12 } as const
  const { engine, isClean } = setUp({ options: { speculative: given } })
  const words = Math.ceil(VOCABULARY / 32)
  const constraint = lenient({
    mask: (into) => into.set(new Uint32Array(words).fill(0xffff_ffff)),
  })
  const input = request(20, { maxTokens: 40, constraint: () => constraint })
  const said = await collect(engine.generate(input).choices[0]!)
  expect(said.tokens).toEqual(expectedReply(input, 0).tokens)
  expect(engine.stats().drafts!.drafted[0]).toBeGreaterThan(5)
  isClean()
})

test("tokens that a drafter alone has are not tried, and what follows them neither", async () => {
  const input = request(20, { maxTokens: 40 })
  const { tokens } = expectedReply(input, 0)
  const own = standIn(new Map([[`${input.id} 0`, tokens]]), () => true)
  const drafter: Drafter = {
    ...own,
    async propose(step, cancel) {
      await own.propose(step, cancel)
      for (const { drafts } of step) if (drafts.length > 2) drafts[2] = VOCABULARY + 3
    },
  }
  const { engine, program, isClean } = setUp({ options: { speculative: speculative(drafter, 4) } })
  expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(tokens)
  expect(Math.max(...program.steps.map(({ rows }) => rows))).toBe(3)
  isClean()
})

test("a draft whose masks come late is tried in the step behind", async () => {
  let pending: Promise<void> | undefined
  const inner = lenient()
  const constraint: Constraint = {
    mask: (into, after) => inner.mask(into, after),
    accept: (token) => inner.accept(token),
    draft(tokens) {
      inner.draft!(tokens)
      pending = turns(40).then(() => {
        pending = undefined
      })
    },
    get drafted() {
      return pending ? 0 : inner.drafted!
    },
    get pending() {
      return pending
    },
  }
  const input = request(20, { maxTokens: 40, constraint: () => constraint })
  const { tokens } = expectedReply(input, 0)
  const drafter = standIn(new Map([[`${input.id} 0`, tokens]]), () => true)
  const { engine, isClean } = setUp({ options: { speculative: speculative(drafter, 4) } })
  expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(tokens)
  const { drafted, accepted } = engine.stats().drafts!
  expect(accepted[0]).toBeGreaterThan(5)
  expect(accepted).toEqual(drafted)
  isClean()
})

test("a mask that fails behind a draft which does not come true costs nothing", async () => {
  const input = (constraint: Constraint) =>
    request(20, { maxTokens: 40, constraint: () => constraint })
  const constraint = lenient({
    mask(into, after = 0) {
      if (after > 0) throw new Error("planted")
      into.fill(0xffff_ffff)
    },
  })
  for (const isRight of [false, true]) {
    const asked = input(constraint)
    const { tokens } = expectedReply(asked, 0)
    const drafter = standIn(new Map([[`${asked.id} 0`, tokens]]), () => isRight)
    const options = { speculative: speculative(drafter, 4) }
    const { engine, isClean } = setUp({ options })
    const said = await collect(engine.generate(asked).choices[0]!)
    expect(said.tokens.length).toBe(isRight ? 2 : 40)
    expect(said.tokens).toEqual(tokens.slice(0, said.tokens.length))
    isClean()
  }
})

/** EAGLE 3's reads what is handed out behind the hidden row, and then its own. */
const eagles = [
  ["an EAGLE head", {}, {}],
  ["an EAGLE 3 head", { beside: "given" }, { beside: "taken" }],
] as const

test.each(eagles)(
  "%s follows chunks, choices, and prefixes that were taken over",
  async (_, gives, takes) => {
    const setting = { tokens: 24, chunk: 20, sequences: 3, ...gives }
    const limits = { ...limitsOf(setting, 6), rows: 3 }
    const draft = historyProgram({ limits, context: 1024, ...takes })
    const drafter = (memory: Memory) => createEagle(draft, memory)
    const given = { mode: "eagle", drafter, length: 2, room: 6 } as const
    const { engine, isClean } = setUp({ ...setting, options: { speculative: given } })
    const input = request(70, { maxTokens: 30, choices: 3 })
    for (const cached of [0, 64]) {
      const before = engine.stats().drafts!.drafted[0]!
      const generation = engine.generate(input)
      await Promise.all(generation.choices.map(collect))
      expect(generation.cachedTokens).toBe(cached)
      const { drafted, accepted } = engine.stats().drafts!
      expect(drafted[0]! - before).toBeGreaterThan(3 * 28 - accepted[0]! - accepted[1]! - 3)
    }
    expect(draft.faults).toEqual([])
    isClean()
  },
)

test("what embeds a text beside an EAGLE 3 head reads hidden rows alone", async () => {
  const { engine, isClean } = setUp({ chunk: 20, beside: "given" })
  const read: number[] = []
  const input = request(50, {
    maxTokens: 0,
    readHidden: (rows, from) => {
      expect(from * 2).toBe(read.length)
      read.push(...rows)
    },
  })
  await collect(engine.generate(input).choices[0]!)
  expect(read).toEqual([...input.prompt].flatMap((token, position) => [position, token]))
  isClean()
})

test.each(eagles)(
  "%s that has missed more than is kept begins behind it",
  async (_, gives, takes) => {
    const setting = { tokens: 24, chunk: 20, sequences: 2, ...gives }
    const limits = { ...limitsOf(setting, 6), rows: 2 }
    const draft = historyProgram({ limits, context: 1024, ...takes })
    const drafter = (memory: Memory): Drafter => {
      const eagle = createEagle(draft, memory)
      const isLate = ({ replyTokens }: Sequence) => replyTokens > 5
      return {
        ...eagle,
        propose: (step, cancel) => eagle.propose(step.filter(isLate), cancel),
      }
    }
    const given = { mode: "eagle", drafter, length: 3, room: 6 } as const
    const { engine, isClean } = setUp({ ...setting, options: { speculative: given } })
    const input = request(300, { maxTokens: 60 })
    for (const cached of [0, 288]) {
      const before = engine.stats().drafts!.drafted[2]!
      const generation = engine.generate(input)
      expect((await collect(generation.choices[0]!)).tokens).toEqual(expectedReply(input, 0).tokens)
      expect(generation.cachedTokens).toBe(cached)
      expect(engine.stats().drafts!.drafted[2]! - before).toBeGreaterThan(25)
    }
    expect(draft.faults).toEqual([])
    isClean()
  },
)

test("drafts borrow blocks: the prefix cache and what is cached of later requests are as without", async () => {
  const usage = async (drafted: boolean) => {
    const drafter = standIn(new Map(), () => false)
    const options = drafted ? { speculative: speculative(drafter, MAX_DRAFT) } : {}
    const { engine, isClean } = setUp({ blocks: 14, options })
    const cached: number[] = []
    for (let i = 0; i < 30; i++) {
      const step = [3, 5, 3, 7, 11][i % 5]!
      const prompt = Int32Array.from({ length: 60 + step }, (_, at) => (at * step) % VOCABULARY)
      const generation = engine.generate(request(0, { prompt, maxTokens: 5 + i }))
      await collect(generation.choices[0]!)
      cached.push(generation.cachedTokens)
    }
    isClean()
    return { cached, remembered: engine.stats().blocksRemembered }
  }
  expect(await usage(true)).toEqual(await usage(false))
})

test("a prefix goes on from the states that a reply of drafts has left", async () => {
  const visible = { context: 1024, hasStates: true } as const
  for (const rightInSeven of [0, 3, 7]) {
    const replies = new Map<string, number[]>()
    let drafted = 0
    const options = {
      speculative: speculative(
        standIn(replies, () => drafted++ % 7 < rightInSeven),
        6,
      ),
    }
    const { engine, isClean } = setUp({ ...visible, states: 24, options })
    const says = async (asked: GenerationRequest) => {
      const { tokens } = expectedReply(asked, 0, visible)
      replies.set(`${asked.id} 0`, tokens)
      const generation = engine.generate(asked)
      expect((await collect(generation.choices[0]!)).tokens).toEqual(tokens)
      return { tokens, cached: generation.cachedTokens }
    }
    const input = request(161, { maxTokens: 100 })
    const { tokens } = await says(input)
    expect((await says({ ...input, id: "again" })).cached).toBe(160)
    const prompt = Int32Array.from([...input.prompt, ...tokens, 1, 2, 3])
    expect((await says(request(0, { prompt }))).cached).toBe(256)
    isClean()
  }
})

test("what has to come is computed ahead, whoever proposes", async () => {
  const text = Array.from({ length: 24 }, (_, i) => (i * 7) % VOCABULARY)
  /** The text and nothing else; told in one run, as a look ahead tells it. */
  const only = (): Constraint => {
    let at = 0
    return {
      mask: (into, after = 0) => {
        into.fill(0)
        const token = text[at + after]!
        into[token >> 5] = 1 << (token & 31)
      },
      accept: () => void at++,
      draft: () => {
        throw new Error("there is nothing to look up")
      },
      get drafted() {
        return text.length - at - 1
      },
      get forced() {
        return text.slice(at, -1)
      },
    }
  }
  for (const drafter of [nobody, standIn(new Map(), () => false)]) {
    const options = { speculative: speculative(drafter, 0) }
    const { engine, program, isClean } = setUp({ options })
    const input = request(20, { maxTokens: 24, constraint: only })
    expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(text)
    expect(program.steps.map(({ rows }) => rows)).toEqual([1, 16, 7])
    const { forcedTokens, drafts } = engine.stats()
    expect(forcedTokens).toBe(21)
    expect(drafts!.drafted.every((count) => count === 0)).toBe(true)
    isClean()
  }
})

test("a drafter that fails costs nobody a token", async () => {
  const broken: Drafter = {
    hidden: "none",
    longest: 4,
    propose: () => Promise.reject(new Error("no draft today")),
    async close() {},
  }
  const { engine, isClean } = setUp({ options: { speculative: speculative(broken, 4) } })
  const input = request(20)
  expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(
    expectedReply(input, 0).tokens,
  )
  isClean()
})

test("a drafter that fails for one sequence is left out for that one, and asked for all others", async () => {
  const steps: string[][] = []
  const picky: Drafter = {
    hidden: "none",
    longest: 4,
    async propose(step) {
      steps.push(step.map(({ sequenceGroup }) => sequenceGroup.request.id))
      if (step.some(({ sequenceGroup }) => sequenceGroup.request.id === "bad"))
        throw new Error("not this one")
      for (const { drafts } of step) drafts.push(1)
    },
    async close() {},
  }
  const { engine, isClean } = setUp({ options: { speculative: speculative(picky, 4) } })
  const reply = (id: string) => {
    const request_ = request(20, { id, maxTokens: 12 })
    return collect(engine.generate(request_).choices[0]!).then(({ tokens }) =>
      expect(tokens).toEqual(expectedReply(request_, 0).tokens),
    )
  }
  await Promise.all(["good", "bad", "fine"].map(reply))
  const bad = steps.filter((ids) => ids.includes("bad"))
  expect(bad.at(0)!.length).toBeGreaterThan(1) // with others,
  expect(bad.at(-1)).toEqual(["bad"]) // then once alone
  expect(bad.filter((ids) => ids.length === 1).length).toBe(1)
  const after = steps.slice(steps.indexOf(bad.at(-1)!) + 1)
  expect(after).toContainEqual(["good", "fine"]) // and those who can are asked for together again
  const { drafted } = engine.stats().drafts!
  expect(drafted[0]).toBeGreaterThan(0)
  steps.length = 0
  await reply("later")
  expect(steps.length).toBeGreaterThan(0)
  await reply("bad") // another request, for whose sequence it is tried again
  expect(steps.filter(([id]) => id === "bad").length).toBe(1)
  isClean()
})

test("what follows the same tokens in the prompt is proposed", async () => {
  const drafter = createLookup()
  const sequence = {
    tokens: Int32Array.of(1, 2, 3, 4, 5, 6, 9, 9, 1, 2, 3, 4),
    length: 12,
    wish: 6,
    drafts: [] as number[],
    sequenceGroup: { request: { stopTokens: new Set([9]) } },
    tokenAt(position: number) {
      return position < 12 ? this.tokens[position] : this.drafts[position - 12]
    },
  }
  await drafter.propose([sequence as unknown as Sequence], new Int32Array(1))
  expect(sequence.drafts).toEqual([5, 6]) // a stop token ends it
})

test("a short period is followed beyond its end", async () => {
  const input = request(0, {
    prompt: Int32Array.from({ length: 30 }, (_, i) => i % 2),
    maxTokens: 30,
    sampling: { ...plain, temperature: 0, logitBias: new Map([[7, 100]]) },
  })
  const drafter = createLookup()
  const { engine, program, isClean } = setUp({ options: { speculative: speculative(drafter, 8) } })
  const { tokens } = await collect(engine.generate(input).choices[0]!)
  expect(tokens).toEqual(new Array(30).fill(7))
  expect(program.steps.length).toBeLessThan(10)
  isClean()
})

describe("lengths that adapt", () => {
  /** Steps over few tokens cost little more than over one. */
  const cost = ({ tokens }: { tokens: number }) => 10 + tokens

  test("follow a drafter that is mostly right, and leave one alone that never is", async () => {
    const input = request(20, { maxTokens: 400 })
    const { tokens } = expectedReply(input, 0)
    const pick = random(3)
    const times = []
    for (const chance of [80, 0]) {
      const drafter = standIn(new Map([[`${input.id} 0`, tokens]]), () => pick(100) < chance)
      const options = { speculative: speculative(drafter, 0) }
      const { engine, program, isClean } = setUp({ context: 1000, cost, options })
      expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(tokens)
      isClean()
      times.push(program.clock)
      if (chance > 0) continue
      let drawn = 0
      const late = program.steps.filter(({ rows, tokens }) => {
        drawn++
        return drawn > 64 && rows > 1 && tokens > 1
      })
      expect(late.length).toBeLessThan(8)
    }
    const alone = 400 * 11
    expect(alone / times[0]!).toBeGreaterThan(2)
    expect(alone / times[1]!).toBeGreaterThan(0.97)
  })

  test.each([1, 2, 3, 4])("leave one alone where times swing, %i", async (seed) => {
    const pick = random(seed)
    const swinging = (step: { tokens: number }) => cost(step) * [1, 1, 1.1, 1.3, 2][pick(5)]!
    const options = {
      speculative: speculative(
        standIn(new Map(), () => false),
        0,
      ),
    }
    const { engine, program, isClean } = setUp({ context: 1000, cost: swinging, options })
    await collect(engine.generate(request(20, { maxTokens: 300 })).choices[0]!)
    const late = program.steps.slice(64)
    expect(late.filter(({ tokens }) => tokens > 1).length).toBeLessThan(8)
    isClean()
  })
})

describe("where nobody asked for drafts", () => {
  /** Proposes whatever happens, and says that the text has been repeating itself for long. */
  const sure = (drafter: Drafter): Drafter => ({ ...drafter, matched: () => 64 })
  const thrifty = (drafter: Drafter): Speculative => ({
    ...speculative(drafter, 0, 16),
    mode: "auto",
    thrifty: true,
  })
  const costs = {
    "rows that cost little": ({ tokens }: { tokens: number }) => 10 + tokens,
    "rows that cost as much as the first": ({ tokens }: { tokens: number }) => tokens,
  }
  const plainTime = (cost: (step: { tokens: number }) => number, length: number) =>
    cost({ tokens: 20 }) + (length - 1) * cost({ tokens: 1 })

  test.each(
    Object.entries(costs).flatMap(([name, cost]) => [100, 400].map((n) => [name, n, cost])) as [
      string,
      number,
      (typeof costs)["rows that cost little"],
    ][],
  )(
    "one that is always wrong costs less than a hundredth: %s, %i tokens",
    async (_, length, cost) => {
      const options = { speculative: thrifty(sure(standIn(new Map(), () => false))) }
      const { engine, program, isClean } = setUp({ context: 1000, cost, options })
      const input = request(20, { maxTokens: length })
      const { tokens } = await collect(engine.generate(input).choices[0]!)
      expect(tokens).toEqual(expectedReply(input, 0).tokens)
      expect(engine.stats().drafts!.drafted[0]).toBeGreaterThan(0)
      expect(program.clock / plainTime(cost, length)).toBeLessThan(1.01)
      isClean()
    },
  )

  test("one that is right is believed soon, and again after it was wrong", async () => {
    const input = request(20, { maxTokens: 400 })
    const { tokens } = expectedReply(input, 0)
    const cost = costs["rows that cost little"]
    let at = 0
    for (const [isWrong, least] of [
      [() => false, 5],
      [() => at++ % 60 >= 58, 2],
    ] as const) {
      const drafter = sure(standIn(new Map([[`${input.id} 0`, tokens]]), () => !isWrong()))
      const options = { speculative: thrifty(drafter) }
      const { engine, program, isClean } = setUp({ context: 1000, cost, options })
      expect((await collect(engine.generate(input).choices[0]!)).tokens).toEqual(tokens)
      expect(plainTime(cost, 400) / program.clock).toBeGreaterThan(least)
      isClean()
    }
  })

  test("a text that repeats nothing has no drafts, and what is repeated comes many tokens a step", async () => {
    const drafted = async (bias: number) => {
      const input = request(20, {
        maxTokens: 200,
        sampling: { ...plain, temperature: 1, seed: 3n, logitBias: new Map([[7, bias]]) },
      })
      const { engine, program, isClean } = setUp({
        context: 1000,
        cost: costs["rows that cost little"],
        options: { speculative: thrifty(createRepeater()) },
      })
      await collect(engine.generate(input).choices[0]!)
      isClean()
      return { steps: program.steps.length, drafted: engine.stats().drafts!.drafted[0] }
    }
    expect(await drafted(0)).toEqual({ steps: 200, drafted: 0 })
    expect((await drafted(100)).steps).toBeLessThan(40)
  })

  test("nobody has a draft in a step that reads a prompt", async () => {
    const input = request(20, { maxTokens: 700 })
    const { tokens } = expectedReply(input, 0)
    const options = {
      speculative: thrifty(sure(standIn(new Map([[`${input.id} 0`, tokens]]), () => true))),
    }
    const { engine, program, isClean } = setUp({ context: 1000, sequences: 2, chunk: 16, options })
    const first = collect(engine.generate(input).choices[0]!)
    await turns(10)
    const second = collect(engine.generate(request(200, { maxTokens: 1 })).choices[0]!)
    await Promise.all([first, second])
    const reading = program.steps.slice(1).filter(({ chunks }) => chunks.length === 2)
    expect(reading.length).toBeGreaterThan(5)
    expect(reading.every(({ chunks }) => chunks.includes(1))).toBe(true)
    expect(engine.stats().drafts!.drafted[0]).toBeGreaterThan(0)
    isClean()
  })
})

test("a repetition is followed where it began, until it goes on otherwise", async () => {
  const drafter = createRepeater()
  const tokens = [
    [11, 12, 13, 14, 15, 16, 17, 18, 50], // as it is first
    [13, 14, 15, 16, 60, 61], // a part of it, and then something else
    [11, 12, 13, 14, 15, 16, 17, 18],
  ].flat()
  const sequence = {
    tokens: Int32Array.from(tokens),
    length: 0,
    wish: 0,
    drafts: [] as number[],
    sequenceGroup: { request: { stopTokens: new Set() } },
    tokenAt(position: number) {
      return position < this.length ? this.tokens[position] : this.drafts[position - this.length]
    },
  }
  const matched = tokens.map((_, at) => {
    sequence.length = at + 1
    return drafter.matched!(sequence as unknown as Sequence)
  })
  expect(matched).toEqual([
    ...[0, 0, 0, 0, 0, 0, 0, 0, 0],
    ...[0, 0, 0, 4, 0, 0],
    ...[0, 0, 0, 4, 5, 6, 7, 8],
  ])
  sequence.wish = 3
  await drafter.propose([sequence as unknown as Sequence], new Int32Array(1))
  expect(sequence.drafts).toEqual([50, 13, 14])
  sequence.tokens = Int32Array.of(...tokens, 60, 61, 11)
  sequence.length += 2
  sequence.drafts.length = 0
  expect(drafter.matched!(sequence as unknown as Sequence)).toBe(0)
  await drafter.propose([sequence as unknown as Sequence], new Int32Array(1))
  expect(sequence.drafts).toEqual([])
})
