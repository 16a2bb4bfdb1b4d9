// What drafts bring, and what a bad drafter costs: the engine over a real shape with random weights, and stand-in drafters
// that are right with a given chance, since what they look up is the reply that was told without them. What is reached is
// held against what the steps' own times and that chance allow (speculation-report.ts).
//
//   npm run bench:speculation -- --rounds 5 --seconds 80          rounds are added to those that the results hold already
//   npm run bench:speculation -- --hostile 9                      pairs of a drafter that is never right and none
//
// Times are those of the same round, since machines change within minutes.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { dirname } from "node:path"
import { parseArgs } from "node:util"
import { planOf } from "../src/app/plan.ts"
import { prepareProgram, traitsOf } from "../src/compiler/targets/prepare.ts"
import { targets } from "../src/compiler/targets/targets.ts"
import { createEngine } from "../src/engine/engine.ts"
import { plainSampling } from "../src/engine/generation.ts"
import { chooseLimits, type EngineLimits } from "../src/engine/limits.ts"
import type { Sequence } from "../src/engine/sequence.ts"
import { type Drafter, MAX_DRAFT, nobody } from "../src/engine/speculative.ts"
import { createLog } from "../src/log.ts"
import { openModel } from "../src/model/model.ts"
import { loadWeights } from "../src/model/packed-copy.ts"
import type { FormatName } from "../src/runtime/format.ts"
import type { Program } from "../src/runtime/program.ts"
import { DEFAULT_SHELF_SIZE, openShelf } from "../src/runtime/shelf.ts"
import { median } from "./contenders/api.ts"
import { load, machine } from "./machine.ts"
import { modelFolder } from "./models.ts"
import type { ShapeName } from "./shapes.ts"
import {
  CALM,
  CHANCES,
  type Drafts,
  draftsPage,
  FIXED,
  HOSTILE_REPLY,
  type Hostile,
  LENGTHS,
  type Round,
  type Sequences,
} from "./speculation-report.ts"

const PROMPT = 32 // tokens
const REPLY = { 1: 128, 4: 96 } as const // tokens of each sequence
const WARM = { 1: 32, 4: 24 } as const // of those, the first ones are not timed: lengths are learnt meanwhile
const TIMED_STEPS = 5

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "1B" },
    format: { type: "string", default: "q4f16_1" },
    rounds: { type: "string", default: "0" },
    sequences: { type: "string", default: Object.keys(LENGTHS).join(",") },
    hostile: { type: "string", default: "0" },
    seconds: { type: "string", default: "3600" },
    output: { type: "string" },
  },
})
const { shape, format } = options
const output = options.output ?? `bench/results/speculation-${shape}-${format}`
const deadline = performance.now() + Number(options.seconds) * 1000

// ------------------------------------------------------------------ a model and engines over it

interface SeenStep {
  begun: number
  ms: number
  sequences: number
  tokens: number
  /** Tokens drawn before it, by all. */
  drawn: number
}

interface Asked {
  sequences: Sequences
  tokens: number
  drafter: Drafter
  /** Of each sequence's drafts; 0: as long as pays. */
  length: number
  /** Steps after which nobody listens any more. */
  most?: number
}

interface Told {
  replies: number[][]
  /** Those that all sequences took part in. */
  steps: SeenStep[]
}

async function openShape(): Promise<{ program: Program; limits: EngineLimits }> {
  const log = createLog("warn", true)
  const model = await openModel(await modelFolder(shape as ShapeName, format as FormatName))
  const device = { name: "cpu", id: 0 } as const
  const wish = { device, target: "auto", library: undefined, folder: model.path, log } as const
  const plan = planOf(model, model.format, {}, traitsOf(device.name))
  const prepared = await prepareProgram(plan, wish)
  const limits = chooseLimits({
    mode: "local",
    overrides: { context_window_size: 1024 },
    traits: targets.cpu.steps,
    manifest: prepared.manifest,
    available: Number.POSITIVE_INFINITY,
    weightBytes: prepared.weightBytes,
    bufferBytes: prepared.bufferBytes,
    drafts: { length: MAX_DRAFT },
  })
  const program = await prepared.open(limits.program)
  const { signal } = new AbortController()
  const loading = {
    shelf: openShelf(),
    shelfSize: DEFAULT_SHELF_SIZE,
    log,
    signal,
    progress: () => {},
  }
  const { finish } = await loadWeights(model, program, loading)
  await finish()
  await model.close()
  return { program, limits }
}

/** A request of some choices, told by an engine of its own. */
async function tell(on: Awaited<ReturnType<typeof openShape>>, asked: Asked): Promise<Told> {
  const { sequences, tokens, drafter, length, most = Number.POSITIVE_INFINITY } = asked
  const { program, limits } = on
  const seen: SeenStep[] = []
  const enough = new AbortController()
  const engine = createEngine(
    {
      manifest: program.manifest,
      limits: program.limits,
      async step(input, cancel) {
        const begun = performance.now()
        const drawn = engine.stats().replyTokens
        const output = await program.step(input, cancel)
        const ms = performance.now() - begun
        const counts = { sequences: input.starts.length - 1, tokens: input.tokens.length }
        seen.push({ begun, ms, drawn, ...counts })
        if (seen.length === most) enough.abort()
        return output
      },
      copyBlocks: (...copies) => program.copyBlocks(...copies),
      close: async () => {},
    },
    {
      limits,
      maxQueue: 1,
      recycledSequences: 0,
      speculative: { mode: "lookup", drafter: () => drafter, length, room: limits.drafts },
    },
  )
  const { vocabulary } = program.manifest.shapes
  const generation = engine.generate(
    {
      id: "bench",
      prompt: Int32Array.from(
        { length: PROMPT },
        (_, i) => 300 + ((i * 7919) % (vocabulary - 300)),
      ),
      choices: sequences,
      maxTokens: tokens,
      stopTokens: new Set(),
      sampling: { ...plainSampling, seed: 1n },
      scope: "",
    },
    enough.signal,
  )
  const replies = await Promise.all(
    generation.choices.map(async (choice) => {
      const reply: number[] = []
      for await (const event of choice) {
        if (event.kind === "token") reply.push(event.token)
        else if (event.kind === "end" && event.problem) throw event.problem
      }
      return reply
    }),
  )
  await engine.close()
  const reads = (step: SeenStep) => step.tokens >= PROMPT && step.drawn < sequences
  return { replies, steps: seen.filter((step) => step.sequences === sequences && !reads(step)) }
}

/** Knows what will be told, and says something else now and then. */
function standIn(replies: readonly number[][], chance: number): Drafter {
  return {
    hidden: "none",
    longest: MAX_DRAFT,
    async propose(step: readonly Sequence[]) {
      for (const { choice, replyTokens, drafts, wish } of step) {
        for (let i = 0; i < wish; i++) {
          const right = replies[choice]?.[replyTokens + i] ?? 0
          drafts.push(Math.random() < chance ? right : right + 1)
        }
      }
    },
    async close() {},
  }
}

/** Tokens a second of all sequences together, once they are warm. */
function rateOf({ steps }: Told, sequences: Sequences): number {
  const timed = steps.filter(({ drawn }) => drawn >= sequences * WARM[sequences])
  const [first, last] = [timed[0]!, timed.at(-1)!]
  return (last.drawn - first.drawn) / ((last.begun - first.begun) / 1000)
}

// ------------------------------------------------------------------ what is measured

type Opened = Awaited<ReturnType<typeof openShape>>

async function takeRound(on: Opened, sequences: Sequences): Promise<Round> {
  const times = new Map<number, number[]>() // milliseconds of all steps, by their tokens
  const note = (told: Told) => {
    for (const { tokens, ms } of told.steps) times.set(tokens, [...(times.get(tokens) ?? []), ms])
    return told
  }
  const tokens = REPLY[sequences]
  const plain = note(await tell(on, { sequences, tokens, drafter: nobody, length: 0 }))
  const rate = async (chance: number, length: number) => {
    const drafter = standIn(plain.replies, chance)
    const run = note(await tell(on, { sequences, tokens, drafter, length }))
    if (`${run.replies}` !== `${plain.replies}`) throw new Error("drafts have changed the text")
    const speed = rateOf(run, sequences)
    console.error(`${sequences} together, a = ${chance}: ${speed.toFixed(1)} tokens a second`)
    return speed
  }
  const adaptive: Record<number, number> = {}
  const costs: Record<number, number> = {}
  const fixed = await rate(FIXED.chance, FIXED.length)
  for (const chance of CHANCES) adaptive[chance] = await rate(chance, 0)
  for (const length of LENGTHS[sequences]) note(await takeSteps(on, sequences, length))
  for (const length of LENGTHS[sequences]) {
    costs[length] = median(times.get(sequences * (length + 1))!)
  }
  return { sequences, load: load(), costs, plain: rateOf(plain, sequences), adaptive, fixed }
}

/** Some steps in which each sequence has a draft of such a length. */
function takeSteps(on: Opened, sequences: Sequences, length: number): Promise<Told> {
  const drafter = length > 0 ? standIn([], 0) : nobody
  const tokens = 2 * MAX_DRAFT + TIMED_STEPS // towards a reply's end drafts are shorter
  const most = TIMED_STEPS + 4 // the first read the prompt, and begin one choice after the other
  return tell(on, { sequences, tokens, drafter, length, most })
}

async function takePair(on: Opened, number: number): Promise<Hostile> {
  const time = async (drafter: Drafter) => {
    const begun = performance.now()
    const run = await tell(on, { sequences: 1, tokens: HOSTILE_REPLY, drafter, length: 0 })
    return { ...run, ms: performance.now() - begun }
  }
  const hostile = standIn([], 0)
  const order = number % 2 ? [hostile, nobody] : [nobody, hostile]
  const [first, second] = [await time(order[0]!), await time(order[1]!)]
  const [without, beside] = number % 2 ? [second, first] : [first, second]
  if (`${without.replies}` !== `${beside.replies}`) throw new Error("drafts have changed the text")
  const calm = beside.steps.filter(({ drawn }) => drawn >= CALM)
  const late = calm.filter(({ tokens }) => tokens > 1).length / calm.length
  return { load: load(), ratio: without.ms / beside.ms, late }
}

// ------------------------------------------------------------------ the run

function readResults(): Drafts {
  if (existsSync(`${output}.json`)) return JSON.parse(readFileSync(`${output}.json`, "utf8"))
  const threads = availableParallelism()
  return {
    title: `${shape}, ${format}, ${threads} threads`,
    machine: machine(threads),
    date: new Date().toISOString().slice(0, 10),
    rounds: [],
    hostile: [],
  }
}

function write(results: Drafts): void {
  mkdirSync(dirname(output), { recursive: true })
  writeFileSync(`${output}.json`, `${JSON.stringify(results, undefined, 1)}\n`)
  writeFileSync(`${output}.md`, draftsPage(results))
}

const results = readResults()
const on = await openShape()
await tell(on, { sequences: 4, tokens: TIMED_STEPS, drafter: nobody, length: 0 }) // the first touch of memory
const left = () => performance.now() < deadline
for (let i = 0; i < Number(options.rounds); i++) {
  for (const sequences of options.sequences.split(",").map(Number) as Sequences[]) {
    if (!left()) break
    results.rounds.push(await takeRound(on, sequences))
    write(results)
  }
}
for (let i = 0; i < Number(options.hostile) && left(); i++) {
  results.hostile.push(await takePair(on, i))
  write(results)
}
await on.program.close()
console.log(draftsPage(results))
