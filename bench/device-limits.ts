// What a GPU can do at most, right now: how fast it reads memory, what it multiplies and adds, and what a launch and a submission
// cost. The kernels are written in our own language, so every kind of device is asked the same, in the words that our programs
// are given on it. A ceiling found by a kernel is one that a kernel can reach; data sheets promise more.
//
// No figure is read from a clock of the device's: dispatches are recorded so often, one behind the other, that handing them over
// and waiting for them counts for little.

import { newCancel } from "../src/compiler/targets/gpu/check-device.ts"
import {
  type Builder,
  fma,
  i32,
  kernel,
  u32,
  type Value,
} from "../src/compiler/targets/gpu/ir/builder.ts"
import {
  type Four,
  type Kernel,
  MATRIX_THREADS,
  TILE,
  type Two,
} from "../src/compiler/targets/gpu/ir/ir.ts"
import { floatWord } from "../src/compiler/targets/gpu/launch.ts"
import { madeOf, printers } from "../src/compiler/targets/gpu/printers.ts"
import type { Dispatch, GpuDevice, GpuKernel, Place } from "../src/runtime/gpu/device.ts"
import { type GpuKind, openDevice } from "../src/runtime/gpu/open.ts"
import { meets } from "../src/runtime/gpu/tape.ts"
import type { Limits, LimitsProbe } from "./machine.ts"

const THREADS = 256
/** Pieces of 16 bytes that a thread has under way at once, and how often. */
const READS = 8
const READ_TURNS = 4
const READ_BYTES = 16 * THREADS * READS * READ_TURNS // of a group

/** More than any cache of a GPU holds. A processor that poses as one is slower than its caches and its memory. */
const MOST_READ = { gpu: 1 << 30, processor: 1 << 25 }

/** Sums of a thread that do not wait for each other, and operations in a turn of each. */
const CHAINS = 8
const UNROLLED = 8
const GROUPS = 1024
/** Numbers of a tile's rows, as packed weights have them in a group. */
const DEPTH = 32
/** Of each side, in shared memory. */
const TILES = 4

const SECONDS = 0.02 // that a run takes, at least
const MOST_REPEATS = 256
const ROUNDS = 3
const LAUNCHES = 1024

/** Each thread reads what no other does, and leaves what came of it. */
export const reads = kernel("limit_reads", THREADS, (k) => {
  const [memory, out] = [k.buffer("memory", "u32", "read"), k.buffer("out", "u32", "write")]
  const begin = k.let(
    k
      .group(0)
      .mul(THREADS * READS * READ_TURNS)
      .add(k.lane),
  )
  const all = k.variable(u32(0))
  k.for(0, READ_TURNS, 1, (turn) => {
    const at = k.let(turn.mul(THREADS * READS).add(begin))
    const fours = Array.from({ length: READS }, (_, i) => memory.loadFour(at.add(i * THREADS)))
    all.set(fours.flat().reduce((a, b) => a.xor(b), all.now))
  })
  keep(k, out, all.now)
})

/** It does nothing, which no compiler knows. */
const empty = kernel("limit_empty", THREADS, (k) => {
  const [out, below] = [k.buffer("out", "u32", "write"), k.word("below")]
  k.if(k.lane.ge(below), () => out.store(k.lane, 1))
})

/** Each sum is a factor of the next, so that no compiler makes one operation of many. */
export const dots = kernel("limit_dots", THREADS, (k) => {
  const [out, turns, factor] = [k.buffer("out", "u32", "write"), k.word("turns"), k.word("factor")]
  const sums = chainsOf(k, (i) => k.lane.add(i).bits("i32"))
  repeated(k, turns, () => {
    for (const sum of sums) sum.set(k.dot4(sum.now.bits("u32"), factor, 1))
  })
  const [first, ...others] = sums.map(({ now }) => now)
  keep(k, out, others.reduce((a, b) => a.xor(b), first!).bits("u32"))
})

/** x * a + b, which stays near b / (1 - a). */
export const multiplyAdds = kernel("limit_multiply_adds", THREADS, (k) => {
  const [out, turns] = [k.buffer("out", "u32", "write"), k.word("turns")]
  const [factor, more] = [k.word("factor", "f32"), k.word("more", "f32")]
  const sums = chainsOf(k, (i) => k.lane.add(i).float())
  repeated(k, turns, () => {
    for (const sum of sums) sum.set(fma(sum.now, factor, more))
  })
  const [first, ...others] = sums.map(({ now }) => now)
  keep(k, out, others.reduce((a, b) => a.add(b), first!).bits("u32"))
})

/** Tiles in registers: a product of [16, 32] and [32, 8] is 32 threads'. */
export const matrixProducts = kernel("limit_matrix", THREADS, (k) => {
  const [out, turns] = [k.buffer("out", "u32", "write"), k.word("turns")]
  const word = (i: number) => k.let(k.lane.mul(0x01010101).add(i))
  const a = [word(1), word(2), word(3), word(4)] as const satisfies Four<Value>
  const b = [word(5), word(6)] as const satisfies Two<Value>
  const sums = Array.from({ length: 4 }, () => Array.from({ length: 4 }, () => k.variable(i32(0))))
  repeated(k, turns, () => {
    for (const sum of sums) {
      const now = sum.map(({ now }) => now) as unknown as Four<Value>
      for (const [i, made] of k.matrixDot(a, b, now).entries()) sum[i]!.set(made)
    }
  })
  const [first, ...others] = sums.flat().map(({ now }) => now)
  keep(k, out, others.reduce((x, y) => x.xor(y), first!).bits("u32"))
})

/** Tiles in shared memory, from where each product takes others: [16, DEPTH] and [DEPTH, 16] are a team's. */
export const tileProducts = {
  bytes: productsOf("bytes"),
  halves: productsOf("halves"),
}

function productsOf(units: "bytes" | "halves"): Kernel {
  return kernel(`limit_tiles_of_${units}`, THREADS, (k) => {
    const [out, turns] = [k.buffer("out", "u32", "write"), k.word("turns")]
    const [element, stride] =
      units === "bytes" ? (["u32", DEPTH / 4] as const) : (["f16", DEPTH] as const)
    const sides = ["a", "b"].map((name) => k.shared(name, element, TILES * TILE * stride))
    k.each(TILES * TILE * stride, (i) => {
      for (const side of sides)
        side.store(i, units === "bytes" ? i.mul(0x01010101) : i.rem(16).float())
    })
    k.barrier()
    const sums = Array.from({ length: 8 }, () => k.variable(i32(0)))
    k.for(0, turns, 1, (turn) => {
      for (let i = 0; i < UNROLLED; i++) {
        const [from, other] = [turn.add(i), turn.mul(3).add(i + 1)].map((at) =>
          k.let(
            at
              .add(k.team)
              .rem(TILES)
              .mul(TILE * stride),
          ),
        )
        const made = k.tileDot(
          { elements: sides[0]!, from: from!, stride },
          { elements: sides[1]!, from: other!, stride },
          DEPTH,
        )
        for (const [i, sum] of sums.entries()) sum.set(sum.now.add(made[i]!))
      }
    })
    const [first, ...others] = sums.map(({ now }) => now)
    keep(k, out, others.reduce((x, y) => x.xor(y), first!).bits("u32"))
  })
}

function chainsOf(k: Builder, from: (i: number) => Value) {
  return Array.from({ length: CHAINS }, (_, i) => k.variable(from(i)))
}

function repeated(k: Builder, turns: Value, write: () => void): void {
  k.for(0, turns, 1, () => {
    for (let i = 0; i < UNROLLED; i++) write()
  })
}

function keep(k: Builder, out: ReturnType<Builder["buffer"]>, value: Value): void {
  out.store(k.group(0).mul(THREADS).add(k.lane), value)
}

// ------------------------------------------------------------------ on a device

/** Opens the device beside whoever else has it; each `measure` takes some tenths of a second. */
export async function deviceLimits(kind: GpuKind, id: number): Promise<LimitsProbe> {
  const device = await openDevice(kind, id)
  try {
    const probe = new Probe(device)
    await probe.open(kind)
    return { measure: () => probe.measure(), close: () => device.close() }
  } catch (error) {
    await device.close()
    throw error
  }
}

class Probe {
  readonly #device: GpuDevice
  readonly #kernels = new Map<Kernel, GpuKernel>()
  #memory!: Place
  #out!: Place

  constructor(device: GpuDevice) {
    this.#device = device
  }

  async open(kind: GpuKind): Promise<void> {
    const device = this.#device
    const printer = printers[kind]
    const needs = printer.profiles.find((each) => meets(device.traits, each))!
    for (const kernel of [reads, empty, dots, multiplyAdds, ...this.#matrixKernels()]) {
      const { modules, kernels } = (await madeOf(printer, [kernel], { needs }))!
      this.#kernels.set(kernel, (await device.load(modules, kernels))[0]!)
    }
    const { largest, available } = device.memory()
    const most = device.traits.isProcessor ? MOST_READ.processor : MOST_READ.gpu
    const bytes = Math.min(most, largest, available / 4)
    this.#memory = await device.allocate(bytes - (bytes % READ_BYTES), "device")
    const groups = Math.max(GROUPS, this.#memory.bytes / READ_BYTES)
    this.#out = await device.allocate(4 * THREADS * groups, "device")
  }

  /** What multiplies tiles on this device, if anything does. */
  #matrixKernels(): Kernel[] {
    const { matrix, tiles } = this.#device.traits
    if (matrix) return [matrixProducts]
    const [shape] = tiles
    return shape ? [tileProducts[shape.startsWith("bytes") ? "bytes" : "halves"]] : []
  }

  async measure(): Promise<Limits> {
    const submission = await quickest(this.#device, this.#empty(1))
    const launch = (await quickest(this.#device, this.#empty(LAUNCHES))) / LAUNCHES
    const out = { place: this.#out, at: 0 }
    const memory = { place: this.#memory, at: 0 }
    const groups = this.#memory.bytes / READ_BYTES
    const read = await this.#secondsOf(() => ({
      kernel: this.#kernels.get(reads)!,
      operands: [memory, out],
      groups: [groups, 1, 1],
    }))
    /** Operations a second. @param each of a group's, in a turn of its loop */
    const rate = async (kernel: Kernel, each: number, words: readonly number[] = []) => {
      const seconds = await this.#secondsOf((turns) => ({
        kernel: this.#kernels.get(kernel)!,
        operands: [out, turns, ...words],
        groups: [GROUPS, 1, 1],
      }))
      return (each * GROUPS) / seconds
    }
    const ofThreads = THREADS * CHAINS * UNROLLED
    const int8 = await rate(dots, 8 * ofThreads, [0x01030507])
    const f32 = await rate(multiplyAdds, 2 * ofThreads, [floatWord(0.75), floatWord(1)])
    const [matrix] = this.#matrixKernels()
    const products = (THREADS / MATRIX_THREADS) * UNROLLED
    const operations = matrix === matrixProducts ? 4 * 2 * 16 * 32 * 8 : 2 * TILE * TILE * DEPTH
    return {
      read_gbs: (this.#memory.bytes / read) * 1e-9,
      int8_gops: int8 * 1e-9,
      matrix_gops: matrix ? (await rate(matrix, products * operations)) * 1e-9 : 0,
      f32_gflops: f32 * 1e-9,
      launch_us: launch * 1e6,
      submission_us: submission * 1e6,
    }
  }

  #empty(count: number): Dispatch[] {
    const operands = [{ place: this.#out, at: 0 }, THREADS]
    return Array(count).fill({ kernel: this.#kernels.get(empty)!, operands, groups: [1, 1, 1] })
  }

  /** Of one turn of a dispatch, which is recorded as often, with as many turns, as it takes to be worth measuring. */
  async #secondsOf(dispatch: (turns: number) => Dispatch): Promise<number> {
    let turns = 1
    let repeats = 1
    const isCounted = dispatch(1).operands.length > 2 // the reads are as many as there is memory
    for (;;) {
      const seconds = await quickest(this.#device, Array(repeats).fill(dispatch(turns)))
      if (seconds >= SECONDS || repeats >= MOST_REPEATS) return seconds / (repeats * turns)
      if (isCounted && turns < 1 << 16) turns *= 4
      else repeats *= 4
    }
  }
}

/** Seconds of a run, from the host's call to its return: the least of some, of which the first is not asked, since it may compile. */
export async function quickest(
  device: GpuDevice,
  dispatches: readonly Dispatch[],
): Promise<number> {
  const recording = device.record(dispatches)
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round <= ROUNDS; round++) {
    const begun = performance.now()
    await device.run([recording], newCancel())
    if (round > 0) best = Math.min(best, (performance.now() - begun) / 1000)
  }
  recording.free()
  return best
}
