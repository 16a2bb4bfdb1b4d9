// The tower of a model that sees or hears: a program that reads tiles of images, or windows of recordings, which are tiles here, too. A
// tile is a sequence that is whole in one step, and no step has two, so that its rows are the same whatever else is read. Images and
// recordings take turns, and only the one whose turn it is has its tiles in memory: they are many times as large as its file.
//
// A tile takes seconds on a processor, and tokens that others wait for come first: while a step of the model runs the tower stands
// back, and between two of those it has its share of the time (engine.ts).

import {
  BLOCK,
  type CancelWord,
  type Program,
  type ProgramLimits,
  type StepInput,
} from "../runtime/program.ts"
import { type Caller, Lane } from "../worker/lane.ts"
import { LoneSteps, type LoneStepsOptions, likeliestOf } from "./lone-steps.ts"

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

/** @param options what is told of its program */
export function createTower(program: Program, options: LoneStepsOptions = {}): Tower {
  const lane = new Lane()
  const steps = new LoneSteps(program, "reads images or recordings", options)
  const { groups } = program.manifest.kv
  const { hidden } = program.manifest.shapes
  const behind: CancelWord = new Int32Array(new SharedArrayBuffer(4))
  const stats = { read: 0, seconds: 0 }
  let isClosed = false
  const letGo = () => Atomics.store(behind, 0, 0)
  return {
    get isBusy() {
      return steps.isBusy
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
          const step = { ...stepOf(tile, groups.length), behind }
          const own = (await steps.take(step, caller.signal)).hidden
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
      const ended = steps.close()
      letGo()
      await ended
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
    sampling: likeliestOf(0),
  }
}
