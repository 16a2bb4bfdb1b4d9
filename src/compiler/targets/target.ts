// What a target is: how a plan becomes a program for some devices. A target is a row of the table in targets.ts; whatever
// is asked about it (which devices run it, what its library is called, what its plans and steps are like, who opens it)
// is answered there and nowhere else.

import type { Log } from "../../log.ts"
import type { Device, DeviceName } from "../../runtime/devices.ts"
import type { Manifest } from "../../runtime/manifest.ts"
import type { Budget } from "../../runtime/memory.ts"
import type { LoadableProgram, ProgramLimits, StepTraits } from "../../runtime/program.ts"
import type { Shelf } from "../../runtime/shelf.ts"
import type { CompileOptions } from "../compile.ts"
import type { Plan } from "../plan.ts"
import type { CheckLine } from "./gpu/check.ts"

export interface Target {
  /** What it is, for the help of --target. */
  help: string
  /** Those that run it. */
  devices: readonly DeviceName[]
  traits: PlanTraits
  steps: StepTraits
  /**
   * How many KV blocks a device can address; absent: as many as memory has room for.
   * @param kvs of the programs whose blocks have the same numbers
   */
  mostBlocks?(device: Device, kvs: readonly Manifest["kv"][]): StepTraits["mostBlocks"]
  /** Whether several devices of it can share a model; absent: they cannot. */
  divides?: true
  /** How its programs are kept as files; absent: it keeps none. */
  library?: LibraryKind
  /** What this machine lacks to make its programs; undefined: nothing. */
  lacks(): Promise<Lack | undefined>
  /** What it makes here, for people; only where nothing is lacking. */
  makes(): Promise<string>
  /** The memory that its programs lie in on a device, and the host's where that is another. */
  memory(device: Device): Budget
  /** Whether a device computes as its target has it; absent: it needs no checking. `milliseconds` are for each kernel. */
  check?(device: number, milliseconds: number): Promise<readonly CheckLine[]>
  /**
   * Quick: says what a plan's program will be and take. Opening it may run a compiler.
   * @param devices which of them it will be opened on, one for each shard
   */
  prepare(plan: Plan, devices?: readonly number[], log?: Log): Promise<Prepared>
}

/** In words that sentences are made of. */
export interface Lack {
  problem: string // "No C compiler is here"
  cure: string // "install gcc or clang"
}

/** What is decided in a plan by the device that is to run it. All targets of a device have the same. */
export type PlanTraits = Pick<CompileOptions, "activations" | "sums">

export interface LibraryKind {
  /** Its name in lib/ of a compiled folder. */
  file: string
  /** What it may hold code of, beside what all its devices take; absent: of nothing that has a name. */
  architectures?: { pattern: RegExp; example: string }
  /** @throws `library_unusable` where this machine lacks what the library was built for */
  check(path: string, manifest: Manifest): Promise<void>
  /** @param devices which of those that run it, one for each shard */
  open(path: string, limits: ProgramLimits, devices: readonly number[]): Promise<LoadableProgram>
  /**
   * @param shards how many devices share the model; 1 unless the target divides
   * @param shelf where it may lie already; absent: it is not for running here now
   * @param architectures that it is to hold code of
   * @throws `option_invalid` where the plan cannot be divided
   */
  prepare(
    plan: Plan,
    shards?: number,
    shelf?: Shelf,
    architectures?: readonly string[],
  ): Promise<Build>
  /** What its programs keep, known without what builds them. */
  kv(plan: Plan): Promise<Manifest["kv"]>
  /** What its steps cost, as far as it can be counted on any machine; absent: the processor's roofline says it. */
  costs?(plan: Plan): Promise<readonly (readonly [name: string, value: string])[]>
}

/** A library that has not been built yet: everything that decides its bytes. */
export interface Build {
  manifest: Manifest
  /** On the shelf. */
  name: string
  /** What builds it, for people. */
  builder: string
  /** Where its program comes from, for people, whether or not it is on the shelf; absent: the shelf, or the builder. */
  origin?: string
  /** What has the same fingerprint and serves until it is built; absent: its build is waited for. */
  meanwhile?: Build
  /** What it is built of: written when it is asked for. */
  sources(): Promise<readonly Source[]>
  /** Seconds. The bytes of the library file, manifest included. */
  build(building?: Building): Promise<Buffer>
}

export interface Building {
  /** Ends it. */
  signal?: AbortSignal | undefined
  /** Told how many of its sources are compiled; a target that compiles none tells nothing. */
  progress?: BuildProgress | undefined
  /** Nobody waits for it: it takes what processors have left. */
  isBehind?: boolean
}

export type BuildProgress = (done: number, total: number) => void

/** One translation unit: its text, or the path of a source that is shipped. */
export type Source = { name: string; text: string } | { name: string; path: string }

export interface Prepared {
  manifest: Manifest
  /** Where the program comes from, for people. */
  origin: string
  /** Bytes of its parameters, and of the buffers that `limits` ask for. */
  weightBytes: number
  bufferBytes: (limits: ProgramLimits) => number
  /**
   * @param signal ends a compiler that runs
   * @param progress told of one
   */
  open(
    limits: ProgramLimits,
    signal?: AbortSignal,
    progress?: BuildProgress,
  ): Promise<LoadableProgram>
}
