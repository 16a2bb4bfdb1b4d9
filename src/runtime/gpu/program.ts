// A GPU library, opened: the tape's places on a device, and a step as one write, one list of recordings and one read. What
// changes from step to step lies in the step block; launches depend on how many rows there are, rounded up to powers of two,
// and are recorded once for each such shape. A kernel leaves at once where a row is beyond those that the step has.
//
// A short step behind another (`Program.chains`) is handed to the device before anybody has waited for that one: it reads its tokens
// from where the sampler leaves them. So there are two places for the step block, each with its results and recordings, and such
// steps take turns with them.

import { openWhole } from "../../closing.ts"
import { problem } from "../../errors.ts"
import { checkStep } from "../check-step.ts"
import { checkGroups, givenColumns, type Manifest, takenColumns } from "../manifest.ts"
import type { Loan } from "../open-device.ts"
import {
  type CancelWord,
  type LoadableProgram,
  newStepDone,
  type ProgramLimits,
  type StepDone,
  type StepInput,
  type StepOutput,
} from "../program.ts"
import { type StartedStep, StepQueue } from "../step-queue.ts"
import type { RowSet } from "../step-rows.ts"
import { independentPairs } from "./block-pairs.ts"
import type {
  Dispatch,
  GpuDevice,
  GpuKernel,
  OperandValue,
  PeerDevice,
  Place,
  Recording,
  Rows,
  Wanted,
} from "./device.ts"
import { readGpuLibrary } from "./gpu-library.ts"
import { KeptKernels } from "./kept-kernels.ts"
import type { CountName, Region } from "./regions.ts"
import { type Shard, ShardedProgram } from "./shards.ts"
import { StepBlock, writeResults } from "./step-block.ts"
import {
  everyLaunch,
  groupsOf,
  profileFor,
  stepLaunches,
  type Tape,
  type TapeLaunch,
  type TapeOperand,
  type TapeRows,
  type TapeStep,
} from "./tape.ts"

/**
 * @param borrow the devices that share it, one for each shard of the library
 * @throws `library_unusable`; `memory_refused` and `piece_refused` when what `limits` ask for is not there
 */
export async function openGpuLibrary(
  path: string,
  limits: ProgramLimits,
  borrow: readonly (() => Promise<Loan<GpuDevice>>)[],
): Promise<LoadableProgram> {
  const library = readGpuLibrary(path)
  const { manifest, tape } = library
  checkGroups(manifest.kv.groups, limits)
  return openWhole(async (closing) => {
    const programs: GpuProgram[] = []
    for (const one of borrow) {
      const loan = await one()
      const kept = new KeptKernels(path, manifest, loan.device.maker)
      const program = closing.add(new GpuProgram(manifest, tape, limits, loan, kept))
      const beside = programs.find(({ device }) => device === loan.device)
      await program.open(library.modulesOf(profileFor(tape, loan.device.traits)), beside)
      programs.push(program)
    }
    return tape.slices ? new ShardedProgram(manifest, tape.slices, programs) : programs[0]!
  })
}

/** Shapes of steps whose recordings are kept; those longest unused go. */
const MAX_SHAPES = 64
/**
 * A step of more tokens, or one whose attention comes in several chunks, is cut into pieces of so many launches: it can be cancelled
 * between them, and no watchdog wakes. A chunk is some 4 GFLOP of every layer (`PARTIAL_BYTES`), whatever the model's heads.
 */
const SHORT_STEP = 64
const LAUNCHES_AT_ONCE = 24

/** How many launches of a step are handed to the device in one piece, and waited for. */
export function launchesAtOnce(tokens: number, chunks: number): number {
  return isShort(tokens, chunks) ? Number.POSITIVE_INFINITY : LAUNCHES_AT_ONCE
}

const isShort = (tokens: number, chunks: number) => tokens <= SHORT_STEP && chunks <= 1

/** What launches beside a step's are told. */
interface Given {
  places: Partial<Record<"values" | "scales" | "pairs", Place>>
  numbers: Partial<Record<"row" | "rows" | "count", number>>
}

const nothing: Given = { places: {}, numbers: {} }
const never: CancelWord = new Int32Array(new SharedArrayBuffer(4))

/** One device's: the whole model, or a shard of it. */
class GpuProgram implements Shard {
  readonly chains = true
  readonly #queue = new StepQueue(
    (input, cancel) => this.#start(input, cancel),
    (input, cancel) => this.#startBehind(input, cancel),
  )
  readonly manifest: Manifest
  readonly limits: ProgramLimits
  readonly #tape: Tape
  readonly #loan: Loan<GpuDevice>
  readonly device: GpuDevice
  readonly #block: StepBlock
  /** Whether a step's kernels find tokens that the one before draws. */
  readonly #findsDrawn: boolean
  /** Of each of the tape's counts, as the block has it. */
  readonly #counters: readonly (() => number)[]
  /** Those of attention's chunks among them. */
  readonly #chunkCounters: readonly (() => number)[]
  readonly #meetings: readonly (NonNullable<TapeStep["gather"]> & Pick<TapeStep, "rows">)[]
  readonly #kept: KeptKernels
  #kernels: readonly GpuKernel[] = []
  readonly #places: Place[] = []
  /** Of the step block: two where steps find what others draw. */
  #steps: readonly Place[] = []
  /** Which of them the step has that was begun last. */
  #own = 0
  /** Whether they have less room than the block, which has grown while one of them was in use. */
  #areSmall = false
  readonly #windows = new Map<string, Place>()
  /** Of each place and shape, from one meeting of shards to the next; who has waited longest for its turn comes first. */
  readonly #recorded = new Map<string, readonly (readonly Recording[])[]>()
  #makesKernels = true
  #isClosed = false

  constructor(
    manifest: Manifest,
    tape: Tape,
    limits: ProgramLimits,
    loan: Loan<GpuDevice>,
    kept: KeptKernels,
  ) {
    const { shapes, sinks } = manifest
    const { vocabulary } = shapes
    this.manifest = manifest
    this.limits = limits
    this.#tape = tape
    this.#loan = loan
    this.#kept = kept
    this.device = loan.device
    this.#meetings = tape.steps.flatMap(({ rows, gather }) => (gather ? [{ rows, ...gather }] : []))
    this.#block = new StepBlock(
      { limits, sinks, words: manifest.words, vocabulary, taken: takenColumns(shapes) },
      tape.regions,
    )
    this.#counters = tape.counts.map((of) => this.#block.counter(of))
    this.#chunkCounters = this.#counters.filter((_, i) => tape.counts[i]!.startsWith("chunks "))
    const has = (region: Region["name"]) => tape.regions.some(({ name }) => name === region)
    this.#findsDrawn = has("drawn") && manifest.takes !== "all" && !tape.slices
  }

  get meetings(): number {
    return this.#meetings.length
  }

  /** @param beside another shard on the same device, whose kernels are these */
  async open(modules: readonly Uint8Array[], beside?: GpuProgram): Promise<void> {
    const { places, kernels } = this.#tape
    const { tokens, rows, blocks } = this.limits
    const sizes = places.map(({ fixed, perToken, perRow, perBlock }) => {
      const ofBlocks = perBlock ? perBlock.bytes * blocks[perBlock.group]! : 0
      return fixed + perToken * tokens + perRow * rows + ofBlocks
    })
    this.#checkLargest(Math.max(...sizes)) // before a driver takes seconds for the kernels
    this.#makesKernels = !beside
    this.#kernels = beside
      ? beside.#kernels
      : await this.device.load(modules, kernels, this.#kept.read())
    for (const bytes of sizes) this.#places.push(await this.device.allocate(bytes, "device"))
    await this.#placeStep()
  }

  /** A place is one piece of the device's memory, however much of it is free. */
  #checkLargest(bytes: number): void {
    const { largest } = this.device.memory()
    if (bytes <= largest) return
    const needed = Math.ceil(bytes / 2 ** 20)
    const device = this.device.description
    throw problem("piece_refused", { needed, device, largest: Math.floor(largest / 2 ** 20) })
  }

  async load(
    parameter: number,
    row: number,
    rows: number,
    values: Uint8Array,
    scales?: Uint8Array,
  ): Promise<void> {
    const places: Given["places"] = { values: await this.#window("values", values) }
    if (scales) places.scales = await this.#window("scales", scales)
    await this.#runOnce(this.#tape.packs[parameter]!, { places, numbers: { row, rows } })
  }

  /**
   * Runs each kernel once, on a step without tokens and windows without rows: every byte that launches are told of is 0, as it
   * has been since it was allocated. What the driver has made of the kernels then goes on the shelf. Not what drivers of
   * processors have: those keep caches of their own, and PoCL would build every kernel once more to give it away.
   */
  async warmUp(
    progress: (done: number, total: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (!this.#makesKernels) return
    const first = new Map<number, TapeLaunch>()
    for (const launch of everyLaunch(this.#tape))
      if (!first.has(launch.kernel)) first.set(launch.kernel, launch)
    const empty = new Uint8Array(8) // a pair of blocks, the first one twice
    const places = {
      values: await this.#window("values", empty),
      scales: await this.#window("scales", empty),
      pairs: await this.#window("pairs", empty),
    }
    const numbers = { row: 0, rows: 0, count: 0 }
    let done = 0
    for (const launch of first.values()) {
      signal.throwIfAborted()
      progress(done++, first.size)
      const groups = groupsOf(launch, () => 1, { rows: 1, count: 1 })
      await this.#runNow([this.#dispatch(launch, groups, { places, numbers })])
    }
    progress(done, first.size)
    if (this.device.traits.isProcessor) return
    const made = await this.device.madeOf(this.#kernels)
    if (made) await this.#kept.write(made)
  }

  step(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    return this.#queue.step(input, cancel)
  }

  async begin(input: StepInput): Promise<void> {
    this.#own = 0
    this.#fill(input)
    if (this.#areSmall) await this.#placeStep()
    await this.#writeBlock()
  }

  #fill(input: StepInput): void {
    checkStep(input, this.manifest, this.manifest.kv.groups, this.limits)
    if (this.#block.fill(input)) this.#areSmall = true
  }

  async #writeBlock(): Promise<void> {
    const [place, bytes] = [this.#steps[this.#own]!, this.#block.bytes]
    for (const { from, to } of this.#block.written())
      await this.device.write(place, from, bytes.subarray(from, to))
  }

  async #start(input: StepInput, cancel: CancelWord): Promise<StartedStep> {
    await this.begin(input)
    const recording = this.#oneRecording(input)
    if (!recording) return { output: this.end(input, cancel) }
    if (Atomics.load(cancel, 0) !== 0) return { output: Promise.resolve({ kind: "cancelled" }) }
    return this.#handOver(recording, input)
  }

  /** Nothing that the step ahead uses is touched: its place, its recording, its results. */
  async #startBehind(input: StepInput, cancel: CancelWord): Promise<StartedStep | undefined> {
    if (!isShort(input.tokens.length, 1) || Atomics.load(cancel, 0) !== 0) return undefined
    this.#own = 1 - this.#own
    this.#fill(input)
    if (this.#areSmall || !isShort(...this.#extent())) return undefined
    const recording = this.#oneRecording(input)
    if (!recording) return undefined
    await this.#writeBlock()
    return this.#handOver(recording, input)
  }

  /** All of a step behind which another may be started. Not of one whose logits or hidden rows are read: they have one place. */
  #oneRecording({ wantLogits, hiddenRows }: StepInput): Recording | undefined {
    if (!this.#findsDrawn || wantLogits || hiddenRows.length > 0) return undefined
    const [recording, ...others] = this.#recordingsOf()[0]!
    return others.length === 0 ? recording : undefined
  }

  async #handOver(recording: Recording, input: StepInput): Promise<StartedStep> {
    const results = this.#resultsOf(input)
    const wanted = results.map(({ wanted }) => wanted)
    const { ended } = await this.device.start(recording, wanted)
    return { output: ended.then(() => this.#doneOf(input, results)), leads: true }
  }

  async meet(number: number, cancel: CancelWord): Promise<Uint8Array | "cancelled"> {
    const { rows, part, columns } = this.#meetings[number]!
    const brought = new Uint8Array(sizeOfRows(this.#block.countOf(rows), part.stride, columns))
    const wanted = { place: this.#places[part.place]!, at: part.at, into: brought }
    const run = this.#recordingsOf()[number]!
    const outcome = await this.device.run(run, cancel, brought.length > 0 ? [wanted] : [])
    return outcome === "cancelled" ? outcome : brought
  }

  async join(number: number, brought: readonly Uint8Array[]): Promise<void> {
    const { rows, part, columns, pieces = 1, output } = this.#meetings[number]!
    const count = this.#block.countOf(rows)
    const bytes = (4 * columns) / pieces
    const all = new Uint8Array(sizeOfRows(count, output.stride, columns * brought.length))
    for (let row = 0; row < count; row++)
      for (const [shard, each] of brought.entries())
        for (let piece = 0; piece < pieces; piece++) {
          const from = row * part.stride + piece * bytes
          const to = row * output.stride + (piece * brought.length + shard) * bytes
          all.set(each.subarray(from, from + bytes), to)
        }
    await this.device.write(this.#places[output.place]!, output.at, all)
  }

  async go(number: number, cancel: CancelWord): Promise<"done" | "cancelled"> {
    const device = this.device as PeerDevice
    const recordings = this.#recordingsOf()[number]!
    return isShort(...this.#extent())
      ? device.hand(recordings, cancel)
      : device.run(recordings, cancel)
  }

  /** What it brings to a meeting. */
  #part(number: number): Rows {
    const { place, at, stride } = this.#meetings[number]!.part
    return { place: this.#places[place]!, at, stride }
  }

  fetch(number: number, shards: readonly Shard[]): void {
    const device = this.device as PeerDevice
    const { rows, columns, pieces = 1, output } = this.#meetings[number]!
    const count = this.#block.countOf(rows)
    const bytes = (4 * columns) / pieces
    const [place, { stride }] = [this.#places[output.place]!, output]
    for (const [shard, each] of (shards as readonly GpuProgram[]).entries()) {
      const part = each.#part(number)
      for (let piece = 0; piece < pieces; piece++) {
        const to = { place, at: output.at + (piece * shards.length + shard) * bytes, stride }
        device.copyRows(to, { ...part, at: part.at + piece * bytes }, bytes, count)
      }
    }
  }

  async end(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    const results = this.#resultsOf(input)
    const wanted = results.map(({ wanted }) => wanted)
    const outcome = await this.device.run(this.#recordingsOf().at(-1)!, cancel, wanted)
    return outcome === "cancelled" ? { kind: outcome } : this.#doneOf(input, results)
  }

  #doneOf(input: StepInput, results: readonly Result[]): StepDone {
    const out = newStepDone(input, this.manifest.shapes)
    for (const { write } of results) write(out)
    return out
  }

  async copyBlocks(group: number, from: Int32Array, to: Int32Array): Promise<void> {
    const blocks = this.limits.blocks[group]
    if (blocks === undefined) throw new Error(`internal: no KV group ${group}`)
    for (const block of [...from, ...to])
      if (block < 0 || block >= blocks) throw new Error(`internal: no block ${block}`)
    for (const { first, end } of independentPairs(from, to)) {
      const pairs = Int32Array.from({ length: 2 * (end - first) }, (_, i) =>
        i % 2 === 0 ? from[first + i / 2]! : to[first + (i - 1) / 2]!,
      )
      const places = { pairs: await this.#window("pairs", new Uint8Array(pairs.buffer)) }
      const numbers = { count: end - first }
      await this.#runOnce(this.#tape.copies[group]!, { places, numbers })
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#queue.idle()
    this.#forgetRecordings()
    for (const place of [...this.#places, ...this.#windows.values(), ...this.#steps])
      this.device.free(place)
    if (this.#makesKernels) this.device.unload(this.#kernels)
    await this.#loan.giveBack()
  }

  /** Anew where the step block has grown; what was recorded names the old places. */
  async #placeStep(): Promise<void> {
    this.#forgetRecordings()
    for (const place of this.#steps) this.device.free(place)
    const steps: Place[] = []
    this.#steps = steps
    while (steps.length < (this.#findsDrawn ? 2 : 1))
      steps.push(await this.device.allocate(this.#block.bytes.length, "host"))
    this.#areSmall = false
  }

  #forgetRecordings(): void {
    for (const recording of [...this.#recorded.values()].flat(2)) recording.free()
    this.#recorded.clear()
  }

  /** Bytes that launches read, in a place that is used again. */
  async #window(name: "values" | "scales" | "pairs", bytes: Uint8Array): Promise<Place> {
    let place = this.#windows.get(name)
    if (!place || place.bytes < bytes.length) {
      if (place) this.device.free(place)
      this.#windows.delete(name)
      place = await this.device.allocate(bytes.length, "host")
      this.#windows.set(name, place)
    }
    await this.device.write(place, 0, bytes)
    return place
  }

  async #runOnce(launches: readonly TapeLaunch[], given: Given): Promise<void> {
    await this.#runNow(launches.flatMap((launch) => this.#dispatches(launch, given)))
  }

  async #runNow(dispatches: readonly Dispatch[]): Promise<void> {
    const recording = this.device.record(dispatches)
    try {
      await this.device.run([recording], never)
    } finally {
      recording.free()
    }
  }

  /** Of the step that the block holds. */
  #recordingsOf(): readonly (readonly Recording[])[] {
    const shape = [this.#own, ...this.#counters.map((count) => rounded(count()))].join(" ")
    const known = this.#recorded.get(shape)
    if (known) this.#recorded.delete(shape)
    else if (this.#recorded.size >= MAX_SHAPES) this.#forgetOldest()
    const recordings =
      known ?? betweenMeetings(this.#tape.steps).map((steps) => this.#record(steps))
    this.#recorded.set(shape, recordings)
    return recordings
  }

  /** The one longest unused, which is none that a step ahead has. */
  #forgetOldest(): void {
    const [shape, recordings] = this.#recorded.entries().next().value!
    this.#recorded.delete(shape)
    for (const recording of recordings.flat()) recording.free()
  }

  #record(steps: readonly TapeStep[]): Recording[] {
    const dispatches = stepLaunches(steps, (of) => this.#bucket(of)).flatMap(({ launch, chunk }) =>
      this.#dispatches(launch, nothing, chunk),
    )
    const size = launchesAtOnce(...this.#extent())
    const recordings: Recording[] = []
    for (let first = 0; first < dispatches.length; first += size)
      recordings.push(this.device.record(dispatches.slice(first, first + size)))
    return recordings
  }

  /** Of the step that the block holds: its tokens, and the most chunks of any attention. */
  #extent(): [tokens: number, chunks: number] {
    const chunks = Math.max(1, ...this.#chunkCounters.map((count) => count()))
    return [this.#block.countOf("tokens"), chunks]
  }

  /** How many there are in this step, rounded up. */
  #bucket(of: RowSet | CountName): number {
    return rounded(this.#block.countOf(of))
  }

  /** None where there is nothing to do. */
  #dispatches(launch: TapeLaunch, given: Given, chunk = 0): Dispatch[] {
    const groups = groupsOf(launch, (of) => this.#bucket(of), given.numbers)
    return groups.includes(0) ? [] : [this.#dispatch(launch, groups, given, chunk)]
  }

  #dispatch(
    { kernel, operands }: TapeLaunch,
    groups: Dispatch["groups"],
    given: Given,
    chunk = 0,
  ): Dispatch {
    const values = operands.map((operand) => this.#operand(operand, given, chunk))
    return { kernel: this.#kernels[kernel]!, operands: values, groups }
  }

  #operand(operand: TapeOperand, { places, numbers }: Given, chunk: number): OperandValue {
    if (typeof operand === "number") return operand
    if ("place" in operand) return { place: this.#places[operand.place]!, at: operand.at }
    if ("region" in operand) return this.#regionAt(operand.region)
    if ("given" in operand) return { place: places[operand.given]!, at: 0 }
    return operand.number === "chunk" ? chunk : numbers[operand.number]!
  }

  /** What is drawn lies in the other place; where there is none, nobody looks. */
  #regionAt(region: number): OperandValue {
    const isDrawn = this.#tape.regions[region]!.name === "drawn"
    const place = (isDrawn && this.#steps[1 - this.#own]) || this.#steps[this.#own]!
    return { place, at: this.#block.offsetOf(region) }
  }

  /** What is read back of a step, and what becomes of it. */
  #resultsOf({ logitRows, hiddenRows, wantLogits, sampling }: StepInput): Result[] {
    const results: Result[] = []
    if (logitRows.length > 0) {
      const into = new Uint8Array(StepBlock.resultBytes(logitRows.length))
      results.push({
        wanted: { place: this.#steps[this.#own]!, at: 0, into },
        write: (out) => writeResults(into, sampling, out),
      })
    }
    const { logits, hidden } = this.#tape
    const { shapes } = this.manifest
    const add = (rows: number, columns: number, { place, at, stride }: TapeRows, of: RowsOf) => {
      if (rows === 0) return
      const into = new Uint8Array(sizeOfRows(rows, stride, columns))
      const write = (out: StepDone) => {
        for (let row = 0; row < rows; row++)
          of(out).set(new Float32Array(into.buffer, row * stride, columns), row * columns)
      }
      results.push({ wanted: { place: this.#places[place]!, at, into }, write })
    }
    add(hiddenRows.length, givenColumns(shapes), hidden, (out) => out.hidden)
    if (wantLogits) add(logitRows.length, shapes.vocabulary, logits, (out) => out.logits!)
    return results
  }
}

/** Bytes of so many rows of floats, as far as the last of them. */
function sizeOfRows(rows: number, stride: number, columns: number): number {
  return rows === 0 ? 0 : (rows - 1) * stride + columns * 4
}

/** Steps without those in which shards meet, as these part them. */
function betweenMeetings(steps: readonly TapeStep[]): TapeStep[][] {
  const all: TapeStep[][] = [[]]
  for (const step of steps) {
    if (step.gather) all.push([])
    else all.at(-1)!.push(step)
  }
  return all
}

/** To a power of two. */
function rounded(count: number): number {
  return count === 0 ? 0 : 2 ** Math.ceil(Math.log2(count))
}

interface Result {
  wanted: Wanted
  write: (out: StepDone) => void
}

type RowsOf = (out: StepDone) => Float32Array
