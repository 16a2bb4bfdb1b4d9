// What is said of the devices that a driver knows, and of why one cannot be used: plain data, since it comes from a process
// that asks the driver (ask.ts) and is printed as it is.

export interface DriverDevice {
  /** As the driver calls it. */
  description: string
  type: DeviceType
  /** The driver's name and version. */
  driver: string
  memory: OwnMemory
  features: Features
  /** Names of the device itself, under any driver: two that have one of them in common are one. Absent: none is known. */
  identities?: readonly string[]
  /** Absent: nothing speaks against it. */
  obstacle?: Obstacle
}

/** Those of type processor are no GPU, though the driver makes one of them. */
export type DeviceType = "gpu" | "integrated_gpu" | "virtual_gpu" | "processor" | "accelerator"

export interface OwnMemory {
  total: number // bytes
  /** What the driver says is free, in bytes; absent: it does not say. */
  available?: number
  /** It is the processor's memory as well. */
  shared: boolean
}

/** What a device can do, by names that all kinds of devices share where they mean the same. */
export type Features = Readonly<Record<string, boolean | number | string | readonly string[]>>

/** Why something cannot be used. */
export interface Obstacle {
  reason:
    | "no_driver"
    | "no_device"
    | "no_permission"
    | "driver_too_old"
    | "driver_failed" // it says so itself
    | "driver_hangs"
    | "driver_crashed"
    | "unsuitable" // it lacks what every kernel needs
  /** For people, behind a device's name and a colon. */
  problem: string
}

/** Thrown by whoever asks a driver. */
export class DriverObstacle extends Error {
  readonly obstacle: Obstacle

  constructor(reason: Obstacle["reason"], problem: string) {
    super(problem)
    this.obstacle = { reason, problem }
  }
}

/** Numbers of a version that lies in one word, from its bit on: "1.3.230". */
export function versionText(word: number, bits: readonly number[]): string {
  const ends = [32, ...bits]
  return bits.map((from, i) => Math.floor(word / 2 ** from) % 2 ** (ends[i]! - from)).join(".")
}

/** The likeliest to be fast first. */
const ranks = {
  gpu: 0,
  virtual_gpu: 1,
  integrated_gpu: 2,
  accelerator: 3,
  processor: 4,
} as const satisfies Record<DeviceType, number>

/**
 * In the order in which they are numbered, those of one type as the driver lists them: a laptop's may list what draws the
 * screen first, and number 0 is the GPU with memory of its own all the same.
 */
export function byType<Handle>(
  handles: readonly Handle[],
  typeOf: (handle: Handle) => DeviceType,
): Handle[] {
  return handles
    .map((handle) => ({ handle, rank: ranks[typeOf(handle)] }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ handle }) => handle)
}
