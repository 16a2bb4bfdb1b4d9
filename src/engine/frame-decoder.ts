// Which tokens a recording says, by what names them for rows of its encoder: the likeliest at each, as greedy search finds them. A CTC model names one
// for every row, and a run of the same is one token. A transducer is asked step by step, for it reads what it has said: a token, or that nothing
// comes, and where it goes on.
//
// What a transducer remembers comes out of each step and goes into the next; where nothing was said it stays as it was.
//
// Sources: ParakeetTokenizer and generation_parakeet.py of transformers.

import { problem } from "../errors.ts"
import { takenColumns } from "../runtime/manifest.ts"
import type { Program, StepDone, StepInput } from "../runtime/program.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { LoneSteps, type LoneStepsOptions, likeliestOf } from "./lone-steps.ts"

/** See `Acoustic` of model/config.ts. */
export interface FrameDecoding {
  blank: number
  network?: { layers: number; width: number; durations: readonly number[]; most: number }
}

export interface Said {
  token: number
  /** The row at which it begins, and how many rows it goes on. */
  row: number
  rows: number
  logprob: number
}

export interface FrameDecoder {
  /** How long tokens go on is the model's own word, and punctuation has none of it. */
  readonly tellsDurations: boolean
  /**
   * What is said in a piece, token by token.
   * @param rows [rows, columns] what the encoder makes of it
   */
  decode(rows: Float32Array, caller: Caller): AsyncGenerator<Said>
  close(): Promise<void>
}

/** The program stays somebody else's, who takes no step of it. */
export function createFrameDecoder(
  program: Program,
  { blank, network }: FrameDecoding,
  options: LoneStepsOptions = {},
): FrameDecoder {
  const steps = new LoneSteps(program, "names tokens for recordings", options)
  const lane = new Lane()
  const { manifest, limits } = program
  const taken = takenColumns(manifest.shapes)
  const most = Math.min(limits.rows, limits.tokens)

  /** A step of the caller's, when its turn comes. */
  async function take(tokens: Int32Array, hiddenIn: Float32Array, caller: Caller) {
    const input = stepOf(tokens, hiddenIn, network !== undefined)
    const done = await lane.run(() => steps.take(input, caller.signal), tokens.length, caller)
    if (done.finite.includes(0))
      throw problem("generation_failed", { problem: "it computed logits that are not finite" })
    return done
  }

  async function* eachRow(rows: Float32Array, caller: Caller): AsyncGenerator<Said> {
    const count = rows.length / taken
    let said: Said | undefined
    for (let first = 0; first < count; first += most) {
      const own = Math.min(most, count - first)
      const given = rows.subarray(first * taken, (first + own) * taken)
      const { tokens, logprobs } = await take(new Int32Array(own), given, caller)
      for (const [at, token] of tokens.entries()) {
        if (token === said?.token) {
          said.rows++
          continue
        }
        if (said) yield said
        said =
          token === blank ? undefined : { token, row: first + at, rows: 1, logprob: logprobs[at]! }
      }
    }
    if (said) yield said
  }

  async function* transduced(
    rows: Float32Array,
    { layers, width, durations, most }: NonNullable<FrameDecoding["network"]>,
    caller: Caller,
  ): AsyncGenerator<Said> {
    const remembered = 2 * layers * width
    const count = rows.length / width
    const given = new Float32Array(taken)
    const spoken = Int32Array.of(blank)
    let left = most * count // a model that never goes on is not asked for ever
    for (let [row, atRow] = [0, 0]; row < count && left > 0; left--) {
      given.set(rows.subarray(row * width, (row + 1) * width), remembered)
      const { tokens, logprobs, hidden }: StepDone = await take(spoken, given, caller)
      const token = tokens[0]!
      const isSaid = token !== blank
      const told = durations[likeliest(hidden.subarray(remembered))] ?? 0
      if (isSaid) {
        const span = durations.length > 0 ? told : 1
        yield { token, row, rows: span, logprob: logprobs[0]! }
        given.set(hidden.subarray(0, remembered))
        spoken[0] = token
      }
      atRow = isSaid ? atRow + 1 : 0
      const isOver = durations.length === 0 && atRow === most
      if (isOver) atRow = 0
      row += isSaid ? told + Number(isOver) : Math.max(1, told)
    }
  }

  return {
    tellsDurations: (network?.durations.length ?? 0) > 0,
    decode: (rows, caller) => (network ? transduced(rows, network, caller) : eachRow(rows, caller)),
    async close() {
      lane.close()
      await steps.close()
    },
  }
}

/** The first of the largest. */
const likeliest = (numbers: Float32Array): number =>
  numbers.reduce((best, number, at) => (number > numbers[best]! ? at : best), 0)

/** Rows of one sequence, each of which draws a token. No layer keeps anything of them. */
function stepOf(tokens: Int32Array, hiddenIn: Float32Array, isRemembered: boolean): StepInput {
  const rows = tokens.length
  const each = Int32Array.from({ length: rows }, (_, row) => row)
  return {
    tokens,
    starts: Int32Array.of(0, rows),
    positions: each,
    blocks: new Int32Array(0),
    blockStarts: Int32Array.of(0),
    visibleFrom: new Int32Array(0),
    logitRows: each,
    hiddenRows: isRemembered ? each : new Int32Array(0),
    hiddenIn,
    sampling: likeliestOf(rows),
  }
}
