// What a GPU's driver does for us, the same words for every kind: memory, kernels, and lists of dispatches that are recorded
// once and run again. Drivers (vulkan.ts, opencl.ts) implement it; program.ts is all that uses it. Nothing here is about
// models.

import type { OpenDevice } from "../open-device.ts"
import type { CancelWord } from "../program.ts"
import type { TileShape } from "./tile-shapes.ts"

export interface GpuDevice extends OpenDevice {
  /** For people. */
  readonly description: string
  readonly traits: GpuTraits
  /** Device and driver, to the version: what one has made of kernels is nothing to another. */
  readonly maker: string
  memory(): GpuMemory
  /**
   * "host" is memory that both reach, the device more slowly. Its bytes are zeros.
   * @throws `memory_refused`
   */
  allocate(bytes: number, where: "device" | "host"): Promise<Place>
  free(place: Place): void
  /** What is run later sees it. `bytes` may be used again once it resolves. */
  write(place: Place, at: number, bytes: Uint8Array): Promise<void>
  /** What has been run before is in it. */
  read(place: Place, at: number, into: Uint8Array): Promise<void>
  /**
   * Makes kernels ready to be run, as far as the driver does that beforehand: many finish a kernel when it runs for the first
   * time.
   * @param made what `madeOf` has given for the same modules; what the driver does not take is left
   * @throws DriverObstacle in the driver's words where it refuses one
   */
  load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
    made?: Uint8Array,
  ): Promise<readonly GpuKernel[]>
  /** Kernels of one load, which no recording has any more. What others may have loaded as well is kept for whoever comes next. */
  unload(kernels: readonly GpuKernel[]): void
  /** What the driver has made of kernels, for another start; undefined: nothing that `load` was not given. */
  madeOf(kernels: readonly GpuKernel[]): Promise<Uint8Array | undefined>
  /** Places and kernels in it must live as long as it does. */
  record(dispatches: readonly Dispatch[]): Recording
  /**
   * Hands over one recording, behind all that was handed over before, and does not wait for it. Another may follow while this one runs:
   * one that leaves alone what is wanted of this one. Nor may `write` touch meanwhile what either reads.
   * @param wanted is read behind it, and before what is handed over next
   * @returns once all of that is handed over
   * @throws ProgramLost where the device is gone
   */
  start(recording: Recording, wanted: readonly Wanted[]): Promise<Started>
  /**
   * One recording after the other; each dispatch sees what the ones before it have written. The cancel word is looked at
   * between recordings. One run at a time.
   * @param wanted is read when all has run, without another wait where the driver can do that; nothing of a run that is cancelled
   * @throws ProgramLost where the device is gone
   */
  run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted?: readonly Wanted[],
  ): Promise<"done" | "cancelled">
}

/**
 * A device that may reach others of its kind: what goes between them then needs no host. Calls wait for nothing, and what they
 * hand over is done in their order.
 */
export interface PeerDevice extends GpuDevice {
  /** Whether it can read the other's memory, which it may from here on. */
  reaches(other: PeerDevice): boolean
  /** As `run`, and does not wait. */
  hand(recordings: readonly Recording[], cancel: CancelWord): "done" | "cancelled"
  /** Copies the first `bytes` of each row. `from` is its own memory, or that of a device that it reaches. */
  copyRows(to: Rows, from: Rows, bytes: number, rows: number): void
  /** Ends what another may wait for. */
  mark(): void
  /** What is handed over from here on begins once the other has done all that it had been handed at its last mark. */
  waitFor(other: PeerDevice): void
}

export function isPeer(device: GpuDevice): device is PeerDevice {
  return "reaches" in device
}

/** Rows of a place: where the first begins, and how far it is from one to the next, in bytes. */
export interface Rows {
  place: Place
  at: number
  stride: number
}

/** Bytes of a place, and where they are to be copied to. */
export interface Wanted {
  place: Place
  at: number
  into: Uint8Array
}

/** What decides which kernels a device can be given, and how its plans are made. */
export interface GpuTraits {
  /** In a group, at most. */
  threads: number
  sharedBytes: number
  /** Bytes of operands of a dispatch, at most. */
  operandBytes: number
  /** Threads that can add among themselves; 0: it cannot. */
  subgroup: number
  /** Has an instruction for the products of four bytes, or spells it well. */
  dot4: boolean
  /** Multiplies tiles of [16, 32] and [32, 8] bytes in one instruction. */
  matrix: boolean
  /** Begins a kernel before the one before it has ended, if it waits for that one itself. */
  overlap: boolean
  /** Shapes of tiles in shared memory that it multiplies. */
  tiles: readonly TileShape[]
  /** Its instruction for a * b + c rounds once. */
  fma: boolean
  /** Division and square root are correctly rounded. */
  division: boolean
  /** Has doubles. */
  float64: boolean
  /** Whose code it runs, in the words of its maker; absent: only its driver's compiler makes any. */
  architectures?: readonly string[]
  /** A processor that poses as a GPU may be taken several times. */
  isProcessor: boolean
}

export interface GpuMemory {
  total: number
  available: number
  /** The host's own memory: there is one pool. */
  shared: boolean
  /** Of one allocation. */
  largest: number
}

/** A piece of a device's memory. */
export interface Place {
  readonly bytes: number
}

/** Where the kernels of a module are found, and what each is like. */
export interface KernelCode {
  name: string
  /** Which of the modules has it. */
  module: number
  entry: string
  threads: number
  sharedBytes: number
  operands: readonly OperandKind[]
  /** It says itself where it waits for the kernels before it, where it is made for devices that can begin it earlier. */
  waits?: true
}

export type OperandKind = "buffer" | "word"

declare const kernelOfDevice: unique symbol
/** A kernel that a device has taken. */
export interface GpuKernel {
  readonly [kernelOfDevice]?: never
}

export interface Recording {
  free(): void
}

/** A recording that was handed over and may still run. */
export interface Started {
  /** Resolves once it has run and what is wanted of it has been read; rejects with ProgramLost where the device is gone. */
  ended: Promise<void>
}

/** A buffer operand begins `at` bytes into a place, a multiple of 4, or of 16 where the kernel loads four at a time. */
export type OperandValue = { place: Place; at: number } | number

/** As many groups of a kernel along each of three axes. */
export interface Dispatch {
  kernel: GpuKernel
  operands: readonly OperandValue[]
  groups: readonly [number, number, number]
}

/**
 * Where operands lie in a block of them, in order: a buffer is an address of 8 bytes at a multiple of 8, a word has 4.
 * @returns the offset of each, and the bytes of all
 */
export function operandLayout(kinds: readonly OperandKind[]): { offsets: number[]; bytes: number } {
  let bytes = 0
  const offsets = kinds.map((kind) => {
    const size = kind === "buffer" ? 8 : 4
    const at = Math.ceil(bytes / size) * size
    bytes = at + size
    return at
  })
  return { offsets, bytes }
}
