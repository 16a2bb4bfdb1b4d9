// Several GPU programs as one: each has a slice of the parameters and of every layer's keys and values, and takes every step.
// Where a step's rows are sums over all shards, what each has of them goes to all: from device to device where all of them reach
// each other's memory, and then nobody waits for the host; else through the host's memory. Behind the last meeting nothing is
// stored that another step reads, so only the first shard draws.

import type { Manifest } from "../manifest.ts"
import type {
  CancelWord,
  LoadableProgram,
  ProgramLimits,
  StepInput,
  StepOutput,
} from "../program.ts"
import { cutWindow, type Slice } from "../slices.ts"
import { StepQueue } from "../step-queue.ts"
import { type GpuDevice, isPeer, type PeerDevice } from "./device.ts"

/** One device's part of a model. A step is begun, run from one meeting to the next, and ended. */
export interface Shard extends LoadableProgram {
  readonly device: GpuDevice
  /** How often shards meet in a step. */
  readonly meetings: number
  /** Hands a step over; what it is made of can then be run. */
  begin(input: StepInput): Promise<void>
  /** Runs the step as far as meeting `number`, and reads what this one brings there. */
  meet(number: number, cancel: CancelWord): Promise<Uint8Array | "cancelled">
  /** Takes in what all shards have brought to a meeting, in their order. */
  join(number: number, brought: readonly Uint8Array[]): Promise<void>
  /** `meet` without the host: hands over the step as far as a meeting. A long step is waited for, so that it can be cancelled. */
  go(number: number, cancel: CancelWord): Promise<"done" | "cancelled">
  /** `join` without the host: copies what all shards have brought, once that is handed over. */
  fetch(number: number, shards: readonly Shard[]): void
  /** Runs what comes behind the last meeting, or all there is, and reads the step's results. */
  end(input: StepInput, cancel: CancelWord): Promise<StepOutput>
}

export class ShardedProgram implements LoadableProgram {
  readonly chains = true
  /** Tokens pass through the host: steps of shards are handed over from meeting to meeting. */
  readonly #queue = new StepQueue(async (input, cancel) => ({
    output: this.#take(input, cancel),
  }))
  readonly manifest: Manifest
  readonly limits: ProgramLimits
  readonly #slices: readonly Slice[]
  readonly #shards: readonly Shard[]
  /** Where all devices reach each other. */
  readonly #peers: readonly PeerDevice[] | undefined

  constructor(manifest: Manifest, slices: readonly Slice[], shards: readonly Shard[]) {
    this.manifest = manifest
    this.limits = shards[0]!.limits
    this.#slices = slices
    this.#shards = shards
    this.#peers = peersOf(shards.map(({ device }) => device))
  }

  async load(
    parameter: number,
    row: number,
    rows: number,
    values: Uint8Array,
    scales?: Uint8Array,
  ): Promise<void> {
    const whole = this.manifest.parameters[parameter]!
    const shards = this.#shards.length
    await this.#each(async (program, shard) => {
      for (const [own, { of, cut }] of this.#slices.entries()) {
        if (of !== parameter) continue
        const window = { row, rows, values, scales }
        for (const each of cutWindow(whole, cut, { shard, shards }, window))
          await program.load(own, each.row, each.rows, each.values, each.scales)
      }
    })
  }

  async warmUp(
    progress: (done: number, total: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    for (const program of this.#shards) await program.warmUp?.(progress, signal)
  }

  step(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    return this.#queue.step(input, cancel)
  }

  async #take(input: StepInput, cancel: CancelWord): Promise<StepOutput> {
    const [first] = this.#shards
    const peers = this.#peers
    try {
      await this.#each((program) => program.begin(input))
      for (let number = 0; number < first!.meetings; number++) {
        const met = peers
          ? await this.#exchange(peers, number, cancel)
          : await this.#pass(number, cancel)
        if (met === "cancelled") return { kind: "cancelled" }
      }
      return await first!.end(input, cancel)
    } finally {
      if (peers) await this.#each(({ device }) => device.run([], cancel)) // nobody is still at work
    }
  }

  /** Each device's part from device to device. */
  async #exchange(
    peers: readonly PeerDevice[],
    number: number,
    cancel: CancelWord,
  ): Promise<"done" | "cancelled"> {
    const gone = await this.#each((program) => program.go(number, cancel))
    if (gone.includes("cancelled")) return "cancelled"
    meet(peers) // parts are there
    for (const program of this.#shards) program.fetch(number, this.#shards)
    meet(peers) // and may be written again
    return "done"
  }

  /** Through the host. */
  async #pass(number: number, cancel: CancelWord): Promise<"done" | "cancelled"> {
    const brought = await this.#each((program) => program.meet(number, cancel))
    const parts = brought.filter((each) => each !== "cancelled")
    if (parts.length < brought.length) return "cancelled"
    await this.#each((program) => program.join(number, parts))
    return "done"
  }

  async copyBlocks(group: number, from: Int32Array, to: Int32Array): Promise<void> {
    await this.#each((program) => program.copyBlocks(group, from, to))
  }

  /** Last the first of a device, which has loaded the kernels of all of them. */
  async close(): Promise<void> {
    for (const program of this.#shards.toReversed()) await program.close()
  }

  /** Devices side by side, and the shards of one device one after the other, since it runs one thing at a time. */
  async #each<T>(work: (program: Shard, shard: number) => Promise<T>): Promise<T[]> {
    const turns = new Map<GpuDevice, Promise<unknown>>()
    const all = this.#shards.map((program, shard) => {
      const before = turns.get(program.device) ?? Promise.resolve()
      const own = before.then(() => work(program, shard))
      turns.set(program.device, own)
      return own
    })
    await Promise.allSettled(all) // nobody is still at work when one has failed
    return Promise.all(all)
  }
}

function peersOf(devices: readonly GpuDevice[]): readonly PeerDevice[] | undefined {
  const peers = [...new Set(devices)].filter(isPeer)
  if (peers.length < new Set(devices).size) return undefined
  const reach = peers.map((device) => peers.map((other) => device.reaches(other)))
  return reach.flat().every((does) => does) ? peers : undefined
}

/** What any of them is handed from here on begins once all of them have done what they had been handed. */
function meet(devices: readonly PeerDevice[]): void {
  for (const device of devices) device.mark()
  for (const device of devices)
    for (const other of devices) if (other !== device) device.waitFor(other)
}
