// An engine over a history program, small enough that everything runs out: blocks, places, step tokens.

import { expect } from "vitest"
import { createEngine, type EngineOptions } from "../src/engine/engine.ts"
import {
  type GenerationRequest,
  plainSampling,
  type SamplingParams,
} from "../src/engine/generation.ts"
import { type HistoryOptions, historyProgram, VOCABULARY } from "./history-program.ts"

export const plain: SamplingParams = { ...plainSampling, seed: 7n, topLogprobs: 0 }

let requests = 0
let counted: string | undefined

/** A prompt of its own for every call of a test: the same ones whatever tests ran before it in this process. */
export function request(
  length: number,
  changes: Partial<GenerationRequest> = {},
): GenerationRequest {
  const { testPath, currentTestName } = expect.getState()
  const test = `${testPath} ${currentTestName}`
  if (test !== counted) requests = 0
  counted = test
  const id = `r${requests++}`
  const prompt = Int32Array.from({ length }, (_, i) => (i * 31 + requests * 7) % VOCABULARY)
  return {
    id,
    prompt,
    choices: 1,
    maxTokens: 20,
    stopTokens: new Set(),
    sampling: plain,
    scope: "",
    ...changes,
  }
}

export interface Setting extends Partial<Omit<HistoryOptions, "limits">> {
  /** Of the first KV group, and of each one behind it; absent: as many as the first has. */
  blocks?: number
  otherBlocks?: readonly number[]
  states?: number
  sequences?: number
  tokens?: number
  chunk?: number
  context?: number
  options?: Partial<EngineOptions>
}

/** What a program is opened for, with room for drafts. */
export function limitsOf(setting: Setting, room: number) {
  const { blocks = 64, otherBlocks = [], sequences = 4, tokens = 64, windows = [0] } = setting
  const spares = Math.min(sequences, room)
  const { hasStates, states = sequences * 4 } = setting
  return {
    blocks: [
      ...windows.map((_, group) => (otherBlocks[group - 1] ?? blocks) + spares),
      ...(hasStates ? [states] : []),
    ],
    tokens: tokens + room,
    sequences,
    rows: sequences + room,
  }
}

export function setUp(setting: Setting = {}) {
  const { blocks = 64, sequences = 4, tokens = 64, context = 1024 } = setting
  const { chunk = tokens, options, otherBlocks: _, states: __, ...history } = setting
  const room = options?.speculative?.room ?? 0
  const limits = limitsOf(setting, room)
  const program = historyProgram({ ...history, context, limits })
  const chosen = (value: number) => ({ value, why: "test" })
  const engine = createEngine(program, {
    limits: {
      context: {
        ...chosen(Math.min(context, history.window ? context : blocks * 16)),
        bound: "model",
      },
      total: chosen(blocks * 16),
      sequences: chosen(sequences),
      chunk: chosen(chunk),
    },
    maxQueue: 100,
    now: () => program.clock,
    ...options,
  })
  /** The engine and the program agree that all is well and nothing is held. */
  const isClean = () => {
    engine.audit()
    expect(program.faults).toEqual([])
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 })
  }
  return { engine, program, isClean }
}

/** Turns of the event loop. */
export const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}
