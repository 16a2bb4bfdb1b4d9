// A program whose "model" is a hash of everything a token can see, read through the KV blocks as a real one reads K and V.
// A wrong block, a wrong position, a missing recomputation or a block written under somebody else's eyes gives other
// tokens, and most of them are caught by name in `faults` too. `expectedReply` says what comes out without any blocks.

import { setImmediate as turn } from "node:timers/promises"
import type { GenerationEvent, GenerationRequest } from "../src/engine/generation.ts"
import { givenColumns, takenColumns } from "../src/runtime/manifest.ts"
import {
  BLOCK,
  blockIndex,
  type CancelWord,
  NO_LOGPROBS,
  newStepDone,
  type Program,
  type ProgramLimits,
  type SamplingRows,
  SEEN,
  type StepDone,
  type StepInput,
  type StepOutput,
} from "../src/runtime/program.ts"
import { AXES, coordinatesOf } from "../src/runtime/rotation.ts"
import { createSampler } from "../src/runtime/sampling.ts"
import { type StartedStep, StepQueue, takeDrawn } from "../src/runtime/step-queue.ts"

export const VOCABULARY = 67

/** A hidden row tells which token it is of: its position and the token. */
const HIDDEN = 2

/** The other row of a token, and the other way round: no number of it is one of the first. */
const besideOf = (row: readonly number[]) => row.map((n) => -1 - n)

export interface HistoryOptions {
  limits: ProgramLimits
  context?: number
  window?: number
  /** Of each KV group, where there are several; undefined: all positions are seen. */
  windows?: readonly (number | undefined)[]
  sinks?: number
  /** Behind the other groups, one that keeps a state of each sequence. */
  hasStates?: boolean
  /** Rows may stand in the place of tokens: what it then reads is the first number of the row. */
  sees?: true
  /** And those of an image see each other: a row's second number is the position of its image's last one. */
  mutual?: true
  /** Of every sequence so many tokens, its prompt, see the last of them. */
  bothWays?: number
  /** Another row is handed out behind the hidden one; or both are taken in, that one first, and one of them is zeros. */
  beside?: "given" | "taken"
  /** Whether it takes a step while one runs, and whether that one's tokens are told to it or had where they are drawn. */
  chains?: "told" | "drawn"
  /** Event-loop turns that a step takes; the cancel word is looked at in each. */
  turns?: number
  /** Milliseconds that a step takes on the program's own clock. */
  cost?: (step: StepRecord) => number
}

export interface StepRecord {
  sequences: number
  tokens: number
  rows: number
  /** Tokens of each sequence. */
  chunks: number[]
  cancelled: boolean
  /** Whether it was handed over while the one before it ran. */
  isChained: boolean
}

export interface HistoryProgram extends Program {
  readonly steps: StepRecord[]
  readonly faults: string[]
  /** Milliseconds, moved on by steps. */
  clock: number
  copies: number
  closed: boolean
  /** Called before a step computes anything; may throw, or return rows whose logits are to be NaN. */
  before: (input: StepInput) => undefined | ReadonlySet<number>
}

export function historyProgram(options: HistoryOptions): HistoryProgram {
  const { limits, sinks = 0, turns = 0, hasStates, sees, mutual, beside } = options
  const windows = windowsOf(options)
  const stores = limits.blocks.slice(0, windows.length).map((blocks) => ({
    states: new Uint32Array(blocks * BLOCK),
    positions: new Int32Array(blocks * BLOCK).fill(-1),
  }))
  // Of each state, and behind how many positions it is.
  const kept = Array.from({ length: hasStates ? limits.blocks.at(-1)! : 0 }, () => ({
    state: 0,
    length: -1,
  }))
  const faults: string[] = []
  const sample = createSampler(VOCABULARY)
  let busy = false
  let drawn: Promise<StepOutput> = Promise.resolve({ kind: "cancelled" })
  const queue =
    options.chains === "drawn"
      ? new StepQueue(handOver, (input, cancel) => handOver(input, cancel, drawn))
      : new StepQueue(async (input, cancel) => ({ output: take(input, cancel) }))

  const program: HistoryProgram = {
    manifest: {
      abi: 1,
      target: "history",
      architecture: "history",
      format: "q0f32",
      plan: "history",
      fingerprint: "history",
      shapes: {
        vocabulary: VOCABULARY,
        hidden: HIDDEN,
        ...(beside && { [beside]: 2 * HIDDEN }),
        layers: 1,
        heads: 1,
        kvHeads: 1,
        headDim: 1,
        intermediate: 1,
        context: options.context ?? 4096,
      },
      sinks,
      ...(sees && { takes: "some" as const }),
      ...(mutual && { mutual }),
      kv: {
        dtype: "f32",
        groups: [
          ...windows.map((window, layer) => ({
            layers: [layer],
            kvHeads: 1,
            headDim: { key: 1, value: 1 },
            ...(window < Number.POSITIVE_INFINITY ? { window } : {}),
            bytesPerBlock: 64,
          })),
          ...(hasStates ? [stateGroup] : []),
        ],
      },
      bytes: { weights: 0, perToken: 0, perRow: 0, perThread: 0, fixed: 0 },
      features: [],
      parameters: [],
    },
    limits,
    steps: [],
    faults,
    clock: 0,
    copies: 0,
    closed: false,
    before: () => undefined,

    step: (input, cancel) => queue.step(input, cancel),
    ...(options.chains && { chains: true as const }),
    async copyBlocks(group, from, to) {
      if (busy) faults.push("blocks copied during a step")
      const { states, positions } = stores[group]!
      for (let i = 0; i < from.length; i++) {
        states.copyWithin(to[i]! * BLOCK, from[i]! * BLOCK, (from[i]! + 1) * BLOCK)
        positions.copyWithin(to[i]! * BLOCK, from[i]! * BLOCK, (from[i]! + 1) * BLOCK)
        program.copies++
      }
    },

    async close() {
      if (busy) faults.push("closed during a step")
      program.closed = true
    },
  }
  return program

  /** As a device does: what a step is made of is its own from here on, and nothing cancels it. */
  async function handOver(
    input: StepInput,
    cancel: CancelWord,
    ahead?: Promise<StepOutput>,
  ): Promise<StartedStep> {
    if (Atomics.load(cancel, 0) !== 0)
      return { output: Promise.resolve<StepOutput>({ kind: "cancelled" }) }
    const own = structuredClone(input)
    const output = (async () => {
      const before = await ahead
      if (before?.kind === "done") takeDrawn(own, before)
      return take(own, new Int32Array(new SharedArrayBuffer(4)))
    })()
    drawn = output
    return { output, leads: true }
  }

  async function take(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    if (busy) faults.push("two steps at a time")
    busy = true
    try {
      checkShapes(input)
      const broken = program.before(input)
      const record = recordOf(input)
      program.steps.push(record)
      for (let i = 0; i < turns && !record.cancelled; i++) {
        await turn()
        record.cancelled = Atomics.load(cancel, 0) !== 0
      }
      program.clock += options.cost?.(record) ?? 1
      if (record.cancelled) return spoil(input)
      return compute(input, broken)
    } finally {
      busy = false
    }
  }

  function compute(input: StepInput, broken: ReadonlySet<number> | undefined): StepDone {
    const logits = new Map<number, Float32Array>()
    const wanted = new Set(input.logitRows)
    for (let s = 0; s + 1 < input.starts.length; s++) {
      let carried = hasStates ? carriedInto(input, s) : undefined
      for (let i = input.starts[s]!; i < input.starts[s + 1]!; i++) {
        const position = input.positions[i]!
        const token = readAt(input, i)
        if (carried !== undefined) carried = carriedOn(carried, token)
        const seenState = stateOf(position, token, windows, sinks, (seen, group) => {
          const visibleFrom = input.visibleFrom[listOf(input, group, s)]!
          if (seen < visibleFrom && input.hiddenIn && !sees) return 0 // a head need not see all that stands before
          if (seen >= sinks && seen < visibleFrom) faults.push(`${seen} has slid away`)
          const { states, positions } = stores[group]!
          const from = slotOf(input, group, s, seen)
          if (positions[from] !== seen) faults.push(`position ${seen} was read and holds another`)
          return states[from]!
        })
        const state = carried === undefined ? seenState : mix(seenState, carried)
        write(input, s, position, state)
        if (wanted.has(i)) logits.set(i, logitsOf(state))
      }
      if (carried !== undefined) leave(input, s, carried)
    }
    const rows = input.logitRows.length
    const { shapes } = program.manifest
    const out = newStepDone({ ...input, wantLogits: false }, shapes)
    for (const [row, at] of input.hiddenRows.entries()) {
      const own = [input.positions[at]!, input.tokens[at]!]
      const all = beside === "given" ? [...own, ...besideOf(own)] : own
      out.hidden.set(all, row * givenColumns(shapes))
    }
    if (input.hiddenIn && !sees) checkHiddenIn(input)
    for (let row = 0; row < rows; row++) {
      const values = logits.get(input.logitRows[row]!)!
      if (broken?.has(row)) values[3] = Number.NaN
      sample.sample(values, row, input.sampling, out)
    }
    return out
  }

  function listedStates(input: StepInput, s: number): [from: number, to: number] {
    const list = listOf(input, windows.length, s)
    const [from, to, ...others] = input.blocks.subarray(
      input.blockStarts[list],
      input.blockStarts[list + 1],
    )
    if (to === undefined || others.length > 0) throw new Error("a sequence has two states")
    return [from!, to]
  }

  function carriedInto(input: StepInput, s: number): number {
    const [from] = listedStates(input, s)
    const first = input.positions[input.starts[s]!]!
    if (first === 0) return 0
    const { state, length } = kept[from]!
    if (length !== first) faults.push(`position ${first} goes on from the state behind ${length}`)
    return state
  }

  function leave(input: StepInput, s: number, state: number, isSpoilt = false): void {
    const length = input.positions[input.starts[s + 1]! - 1]! + 1
    kept[listedStates(input, s)[1]] = { state, length: isSpoilt ? -1 : length }
  }

  function readAt({ tokens, hiddenIn, positions, coordinates }: StepInput, i: number): number {
    const row = tokens[i]! - SEEN
    const token = sees && row >= 0 ? hiddenIn![row * HIDDEN]! : tokens[i]!
    if (!coordinates) return token
    return turned(token, positions[i]!, coordinatesOf(coordinates, i))
  }

  /** Beside each token goes the row of the one before it. */
  function checkHiddenIn(input: StepInput): void {
    for (let i = 0; i < input.tokens.length; i++) {
      const taken = takenColumns(program.manifest.shapes)
      const [position, token] = rowTaken([...input.hiddenIn!.subarray(i * taken, (i + 1) * taken)])
      if (position !== input.positions[i]! - 1)
        faults.push(`the row of position ${position} beside ${input.positions[i]}`)
      const isFirst = i === 0 || input.starts.includes(i)
      if (!isFirst && token !== input.tokens[i - 1]) faults.push("the row of another token")
    }
  }

  function rowTaken(all: readonly number[]): readonly number[] {
    if (beside !== "taken") return all
    const [given, own] = [all.slice(0, HIDDEN), all.slice(HIDDEN)]
    if (given.every((n) => n === 0)) return own
    if (own.some((n) => n !== 0)) faults.push("a row of the model's beside one of its own")
    return besideOf(given)
  }

  /** What a cancelled step leaves behind. */
  function spoil(input: StepInput): StepOutput {
    for (let s = 0; s + 1 < input.starts.length; s++) {
      for (let i = input.starts[s]!; i < input.starts[s + 1]!; i++) {
        write(input, s, input.positions[i]!, Math.random() * 2 ** 32, -1)
      }
      if (hasStates) leave(input, s, 0, true)
    }
    return { kind: "cancelled" }
  }

  function write(input: StepInput, s: number, position: number, state: number, as = position) {
    for (const [group, { states, positions }] of stores.entries()) {
      const slot = slotOf(input, group, s, position)
      states[slot] = state
      positions[slot] = as
    }
  }

  function listOf(input: StepInput, group: number, sequence: number): number {
    return group * (input.starts.length - 1) + sequence
  }

  function slotOf(input: StepInput, group: number, sequence: number, position: number): number {
    const list = listOf(input, group, sequence)
    const number = Math.floor(position / BLOCK)
    const at = input.blockStarts[list]! + blockIndex(number, input.visibleFrom[list]!, sinks)
    if (at >= input.blockStarts[list + 1]!) throw new Error(`no block for position ${position}`)
    return input.blocks[at]! * BLOCK + (position % BLOCK)
  }

  /** Nobody may write where another sequence of the step reads. */
  function checkShapes(input: StepInput): void {
    const sequences = input.starts.length - 1
    if (input.tokens.length > limits.tokens) faults.push("too many tokens")
    if (sequences > limits.sequences) faults.push("too many sequences")
    if (input.logitRows.length > limits.rows) faults.push("too many rows")
    for (const group of stores.keys()) checkReaders(input, group)
    if (hasStates) checkStates(input)
    if (mutual) checkImages(input)
  }

  /** Images are whole, and who is none of theirs sees itself last. */
  function checkImages({ tokens, starts, positions, seenTo, hiddenIn }: StepInput): void {
    const { bothWays = 0 } = options
    for (let s = 0; s + 1 < starts.length; s++) {
      const last = positions[starts[s + 1]! - 1]!
      for (let i = starts[s]!; i < starts[s + 1]!; i++) {
        const row = tokens[i]! - SEEN
        const own = positions[i]! < bothWays ? bothWays - 1 : positions[i]!
        const end = row < 0 ? own : hiddenIn![row * HIDDEN + 1]!
        if (end > last) faults.push(`position ${end} of an image is in another step`)
        if ((seenTo ?? positions)[i] !== end) faults.push(`${positions[i]} does not see to ${end}`)
      }
    }
  }

  function checkReaders(input: StepInput, group: number): void {
    const sequences = input.starts.length - 1
    const readers = new Map<number, number>()
    for (let s = 0; s < sequences; s++) {
      for (const block of blocksOf(input, group, s)) {
        readers.set(block, (readers.get(block) ?? 0) + 1)
      }
    }
    for (let s = 0; s < sequences; s++) {
      for (let i = input.starts[s]!; i < input.starts[s + 1]!; i++) {
        const block = Math.floor(slotOf(input, group, s, input.positions[i]!) / BLOCK)
        if (readers.get(block) !== 1) faults.push(`block ${block} is written while others read it`)
      }
    }
  }

  function checkStates(input: StepInput): void {
    const all = Array.from({ length: input.starts.length - 1 }, (_, s) => listedStates(input, s))
    for (const [s, [, to]] of all.entries()) {
      const isUsed = all.some(
        (other, i) =>
          (i !== s && other[1] === to) ||
          (other[0] === to && input.positions[input.starts[i]!]! > 0),
      )
      if (isUsed) faults.push(`state ${to} is written while others use it`)
    }
  }

  function blocksOf(input: StepInput, group: number, s: number): Set<number> {
    const list = listOf(input, group, s)
    return new Set(input.blocks.subarray(input.blockStarts[list], input.blockStarts[list + 1]))
  }
}

/** A token that stands where its coordinates say: itself, where these are its position. */
function turned(token: number, position: number, coordinates: readonly number[]): number {
  const factors = [1000, 30_000, 500_000]
  return coordinates.reduce((sum, each, axis) => sum + factors[axis]! * (each - position), token)
}

/** The reply of one choice, computed from the tokens alone, and from the coordinates that a prompt with images gives them. */
export function expectedReply(
  request: GenerationRequest,
  choice: number,
  { context = 4096, sinks = 0, hasStates, ...visible }: Visible & { context?: number } = {},
): { tokens: number[]; logprobs: number[]; reason: "stop" | "length" } {
  const sample = createSampler(VOCABULARY)
  const windows = windowsOf(visible)
  const states: number[] = []
  const history = [...request.prompt]
  const reply: number[] = []
  const logprobs: number[] = []
  let carried = 0
  const { coordinates } = request.media ?? {}
  const readAt = (position: number) => {
    const token = history[position]!
    if (!coordinates) return token
    const { length } = request.prompt
    const behind = Array<number>(AXES).fill(position - coordinates.behind)
    const own = position < length ? coordinatesOf(coordinates.ofPrompt, position) : behind
    return turned(token, position, own)
  }
  for (;;) {
    while (states.length < history.length) {
      const position = states.length
      const token = readAt(position)
      const state = stateOf(position, token, windows, sinks, (seen) => states[seen]!)
      carried = carriedOn(carried, token)
      states.push(hasStates ? mix(state, carried) : state)
    }
    const out = oneRow()
    const rows = rowOf(request, choice, history.length, reply)
    sample.sample(logitsOf(states.at(-1)!), 0, rows, out)
    const token = out.tokens[0]!
    if (request.stopTokens.has(token)) return { tokens: reply, logprobs, reason: "stop" }
    reply.push(token)
    logprobs.push(out.logprobs[0]!)
    history.push(token)
    if (reply.length === request.maxTokens || history.length === context) {
      return { tokens: reply, logprobs, reason: "length" }
    }
  }
}

/** How likely each token of the prompt but the first was, computed from the tokens alone. */
export function expectedScores(
  { prompt }: GenerationRequest,
  { sinks = 0, hasStates, ...visible }: Visible = {},
): number[] {
  const windows = windowsOf(visible)
  const states: number[] = []
  let carried = 0
  return Array.from(prompt.subarray(1), (next, position) => {
    const token = prompt[position]!
    const state = stateOf(position, token, windows, sinks, (seen) => states[seen]!)
    carried = carriedOn(carried, token)
    states.push(hasStates ? mix(state, carried) : state)
    const logits = [...logitsOf(states[position]!)]
    return logits[next]! - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0))
  })
}

/** Everything a choice hands out, to its end. */
export async function collect(choice: AsyncIterable<GenerationEvent>): Promise<{
  tokens: number[]
  logprobs: number[]
  end: GenerationEvent | undefined
}> {
  const tokens: number[] = []
  const logprobs: number[] = []
  let end: GenerationEvent | undefined
  for await (const event of choice) {
    if (event.kind === "end") end = event
    else {
      tokens.push(event.token)
      logprobs.push(event.logprob)
    }
  }
  return { tokens, logprobs, end }
}

/** Like K and V in the deeper layers: what stands at a position depends on all that the position saw. */
function stateOf(
  position: number,
  token: number,
  windows: readonly number[],
  sinks: number,
  read: (position: number, group: number) => number,
): number {
  let state = mix(0x9e3779b9, token)
  for (const [group, window] of windows.entries()) {
    const from = Math.max(0, position + 1 - window)
    for (let seen = 0; seen < Math.min(sinks, from); seen++) state = mix(state, read(seen, group))
    for (let seen = from; seen < position; seen++) state = mix(state, read(seen, group))
  }
  return mix(state, position)
}

type Visible = Pick<HistoryOptions, "window" | "windows" | "sinks" | "hasStates">

const carriedOn = (state: number, token: number) => mix(mix(state, token), 0x2545f491)

const stateGroup = {
  layers: [0],
  kvHeads: 0,
  headDim: { key: 0, value: 0 },
  state: 1,
  bytesPerBlock: 4,
}

function windowsOf({ window, windows = [window] }: Visible): number[] {
  return windows.map((each) => each ?? Number.POSITIVE_INFINITY)
}

function mix(state: number, value: number): number {
  let mixed = Math.imul(state ^ value, 0x85ebca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function logitsOf(state: number): Float32Array {
  return Float32Array.from({ length: VOCABULARY }, (_, token) => mix(state, token) / 2 ** 29)
}

function recordOf(input: StepInput): StepRecord {
  const sequences = input.starts.length - 1
  return {
    sequences,
    tokens: input.tokens.length,
    rows: input.logitRows.length,
    chunks: Array.from({ length: sequences }, (_, s) => input.starts[s + 1]! - input.starts[s]!),
    cancelled: false,
    isChained: input.drawnBy !== undefined,
  }
}

function oneRow(): StepDone {
  return newStepDone(
    { logitRows: new Int32Array(1), hiddenRows: new Int32Array(0) },
    { hidden: HIDDEN, vocabulary: VOCABULARY },
  )
}

function rowOf(
  { sampling }: GenerationRequest,
  choice: number,
  position: number,
  reply: readonly number[],
): SamplingRows {
  const counts = new Map<number, number>()
  for (const token of reply) counts.set(token, (counts.get(token) ?? 0) + 1)
  return {
    temperature: Float32Array.of(sampling.temperature),
    topK: Int32Array.of(sampling.topK),
    topP: Float32Array.of(sampling.topP),
    minP: Float32Array.of(sampling.minP),
    presence: Float32Array.of(sampling.presencePenalty),
    frequency: Float32Array.of(sampling.frequencyPenalty),
    repetition: Float32Array.of(sampling.repetitionPenalty),
    countStarts: Int32Array.of(0, counts.size),
    countTokens: Int32Array.from(counts.keys()),
    counts: Int32Array.from(counts.values()),
    biasStarts: Int32Array.of(0, sampling.logitBias.size),
    biasTokens: Int32Array.from(sampling.logitBias.keys()),
    biases: Float32Array.from(sampling.logitBias.values()),
    masks: new Uint32Array(0),
    maskRow: Int32Array.of(-1),
    seed: BigUint64Array.of(sampling.seed),
    choice: Int32Array.of(choice),
    position: Int32Array.of(position),
    topLogprobs: Int32Array.of(sampling.topLogprobs ?? NO_LOGPROBS),
  }
}
