// The tower of a model that sees or hears: a program that reads tiles of images, or windows of recordings, which are tiles here, too. A
// tile is a sequence that is whole in one step, and no step has two, so that its rows are the same whatever else is read. Images and
// recordings take turns, and only the one whose turn it is has its tiles in memory: they are many times as large as its file.
//
// A tile takes seconds on a processor, and tokens that others wait for come first: while a step of the model runs the tower stands
// back, and between two of those it has its share of the time (engine.ts).

import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import {
  BLOCK,
  type CancelWord,
  type Program,
  type ProgramLimits,
  ProgramLost,
  type SamplingRows,
  type StepInput,
  type StepOutput,
} from "../runtime/program.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { failure } from "./endings.ts"

/** Some patches of an image, as rows that are read together. */
export interface Tile {
  given: Float32Array // [rows, taken]  pixels of patches, or bands of frames
  places: Int32Array // [rows]  rows of the tower's table of positions
  wanted: Int32Array // [rows that come out]  the first of the rows that become one
  coordinates?: Int32Array // [3, rows]  what turns each, in towers that turn by them
  /** [rows] the first and the last row that each sees, in layers that have windows. */
  seenFrom?: Int32Array
  seenTo?: Int32Array
}

/** What stands back behind the model's steps. */
export interface Beside {
  /** Whether it has something to do. */
  readonly isBusy: boolean
  hold(): void
  letGo(): void
}

/** Of a model that sees and hears, both. */
export function allBeside(all: readonly Beside[]): Beside {
  return {
    get isBusy() {
      return all.some(({ isBusy }) => isBusy)
    },
    hold() {
      for (const each of all) each.hold()
    },
    letGo() {
      for (const each of all) each.letGo()
    },
  }
}

export interface Tower extends Beside {
  /**
   * What the model reads in the place of an image's soft tokens. Rejects with the signal's reason, with `server_closing`, with what
   * its tiles reject with, and where the program fails.
   * @param rows that come out of all its tiles
   * @param tiles asked for when its turn comes
   */
  read(rows: number, tiles: () => Promise<readonly Tile[]>, caller: Caller): Promise<Float32Array> // [rows, hidden]
  /** How many were read to their end, and how long that took. */
  stats(): { read: number; seconds: number }
  /** Ends what runs, and the program, which belongs to it. */
  close(): Promise<void>
}

/** What a tower is opened for: one tile of at most so many rows. */
export const towerLimits = (groups: number, rows: number): ProgramLimits => ({
  blocks: Array.from({ length: groups }, () => Math.ceil(rows / BLOCK)),
  tokens: rows,
  sequences: 1,
  rows: 1,
})

export interface TowerOptions {
  log?: Log
  /** Told once when the program is lost: whoever asks is told why from then on. */
  onLost?: (reason: Problem) => void
}

export function createTower(program: Program, { log, onLost }: TowerOptions = {}): Tower {
  const lane = new Lane()
  const { groups } = program.manifest.kv
  const { hidden } = program.manifest.shapes
  const behind: CancelWord = new Int32Array(new SharedArrayBuffer(4))
  let running: { cancel: CancelWord; step: Promise<StepOutput> } | undefined
  let lost: Problem | undefined
  const stats = { read: 0, seconds: 0 }
  let isClosed = false

  function lose({ message }: ProgramLost): Problem {
    lost = problem("program_lost", { problem: message })
    log?.error({ why: message }, "the program that reads images or recordings is lost")
    onLost?.(lost)
    return lost
  }

  async function take(tile: Tile, signal: AbortSignal | undefined): Promise<Float32Array> {
    signal?.throwIfAborted()
    if (isClosed) throw problem("server_closing", {})
    if (lost) throw lost
    const cancel: CancelWord = new Int32Array(new SharedArrayBuffer(4))
    const abort = () => Atomics.store(cancel, 0, 1)
    signal?.addEventListener("abort", abort, { once: true })
    const step = program.step({ ...stepOf(tile, groups.length), behind }, cancel)
    running = { cancel, step }
    try {
      const output = await step
      if (output.kind === "done") return output.hidden
    } catch (error) {
      throw error instanceof ProgramLost ? lose(error) : failure(error)
    } finally {
      signal?.removeEventListener("abort", abort)
      running = undefined
    }
    throw signal?.aborted ? signal.reason : problem("server_closing", {})
  }

  const letGo = () => Atomics.store(behind, 0, 0)
  return {
    get isBusy() {
      return running !== undefined
    },
    hold: () => Atomics.store(behind, 0, 1),
    letGo,
    read(rows, tiles, caller) {
      const work = async () => {
        const all = new Float32Array(rows * hidden)
        let at = 0
        const cut = await tiles()
        const begun = performance.now()
        for (const tile of cut) {
          const own = await take(tile, caller.signal)
          all.set(own, at)
          at += own.length
        }
        stats.read++
        stats.seconds += (performance.now() - begun) / 1000
        return all
      }
      return lane.run(work, rows, caller)
    },
    stats: () => ({ ...stats }),
    async close() {
      if (isClosed) return
      isClosed = true
      lane.close()
      if (running) Atomics.store(running.cancel, 0, 1)
      letGo()
      await running?.step.catch(() => {}) // whoever asked for it is told
      await program.close()
    },
  }
}

/** Blocks are the tile's alone, in order. */
function stepOf({ given, places, wanted, ...beside }: Tile, groups: number): StepInput {
  const rows = places.length
  const blocks = Math.ceil(rows / BLOCK)
  return {
    tokens: places,
    starts: Int32Array.of(0, rows),
    positions: Int32Array.from({ length: rows }, (_, row) => row),
    blocks: Int32Array.from({ length: groups * blocks }, (_, at) => at % blocks),
    blockStarts: Int32Array.from({ length: groups + 1 }, (_, group) => group * blocks),
    visibleFrom: new Int32Array(groups),
    logitRows: new Int32Array(0),
    hiddenRows: wanted,
    hiddenIn: given,
    ...beside,
    sampling: nothingDrawn,
  }
}

const [integers, floats] = [new Int32Array(0), new Float32Array(0)]

const nothingDrawn: SamplingRows = {
  temperature: floats,
  topK: integers,
  topP: floats,
  minP: floats,
  presence: floats,
  frequency: floats,
  repetition: floats,
  countStarts: Int32Array.of(0),
  countTokens: integers,
  counts: integers,
  biasStarts: Int32Array.of(0),
  biasTokens: integers,
  biases: floats,
  masks: new Uint32Array(0),
  maskRow: integers,
  seed: new BigUint64Array(0),
  choice: integers,
  position: integers,
  topLogprobs: integers,
}
