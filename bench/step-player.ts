// One step of a plan by itself on a GPU, over and over: what a product or attention takes without the rest of a model. The same
// launches that a program would play, on the same step block; but weights, and keys and values, lie in memory several times, and
// each turn reads others, so that no cache answers.

import type { Plan, Step } from "../src/compiler/plan.ts"
import { newCancel } from "../src/compiler/targets/gpu/check-device.ts"
import { kvOf } from "../src/compiler/targets/gpu/gpu.ts"
import { strideOf, weightLayout } from "../src/compiler/targets/gpu/layout.ts"
import { madeOf, printers } from "../src/compiler/targets/gpu/printers.ts"
import { tapeOf, type Unprinted } from "../src/compiler/targets/gpu/tape-of.ts"
import { runs } from "../src/compiler/targets/runs.ts"
import type {
  Dispatch,
  GpuDevice,
  GpuKernel,
  OperandValue,
  Place,
} from "../src/runtime/gpu/device.ts"
import { type GpuKind, openDevice } from "../src/runtime/gpu/open.ts"
import { StepBlock } from "../src/runtime/gpu/step-block.ts"
import {
  groupsOf,
  meets,
  stepLaunches,
  type TapeOperand,
  type TapeStep,
} from "../src/runtime/gpu/tape.ts"
import { takenColumns } from "../src/runtime/manifest.ts"
import type { ProgramLimits, StepInput } from "../src/runtime/program.ts"
import { inputOf } from "./contenders/engine.ts"
import { quickest } from "./device-limits.ts"

type Product = Step & { op: "matmul" }

/** What the copies of a place take together, on a GPU: more than its caches hold. */
const COPIES_BYTES = 1 << 28
const MAX_COPIES = 16
const WINDOW = 16 << 20
const SECONDS = 0.02 // that a run takes, at least
const MAX_TURNS = 1024

export class StepPlayer {
  readonly #kind: GpuKind
  readonly #device: GpuDevice
  readonly #plan: Plan
  readonly #limits: ProgramLimits
  readonly #unprinted: Unprinted
  readonly #block: StepBlock
  readonly #kernels = new Map<number, GpuKernel>()
  readonly #places = new Map<number, Place[]>() // by the tape's numbers, each in all its copies
  #step: Place | undefined

  static async open(
    kind: GpuKind,
    id: number,
    plan: Plan,
    limits: ProgramLimits,
  ): Promise<StepPlayer> {
    return new StepPlayer(kind, await openDevice(kind, id), plan, limits)
  }

  private constructor(kind: GpuKind, device: GpuDevice, plan: Plan, limits: ProgramLimits) {
    this.#kind = kind
    this.#device = device
    this.#plan = plan
    this.#limits = limits
    this.#unprinted = tapeOf(plan, printers[kind])
    const { vocabulary } = plan.shapes
    const taken = takenColumns(plan.shapes)
    const shape = { limits, sinks: plan.sinks, vocabulary, taken }
    this.#block = new StepBlock(shape, this.#unprinted.tape.regions)
  }

  /** Of the first layer, and the head. */
  products(): Product[] {
    const own = ({ name }: Plan["parameters"][number]) => /^layers\.0\.|^head$|embed/.test(name)
    return this.#plan.steps.filter(
      (step): step is Product => step.op === "matmul" && own(this.#plan.parameters[step.weight]!),
    )
  }

  /** @returns seconds of a turn, and whether its first row is what it is alone: unknown where one of them is rounded to codes */
  async playProduct(
    product: Product,
    rows: number,
  ): Promise<{ seconds: number; isSame: boolean | undefined }> {
    const step = this.#tapeStepOf(product)
    const first = async (count: number) => {
      await this.#take(this.#rowsOf(count))
      return this.#firstRow(step, product)
    }
    const alone = await first(1)
    const own = await first(rows)
    const isStored = [alone, own].every((row) => row.some((byte) => byte !== 0))
    const isSame = isStored ? Buffer.compare(alone, own) === 0 : undefined
    return { seconds: await this.#seconds(step), isSame }
  }

  /** Of one token that sees `depth` others, and the bytes of keys and values that it reads. */
  async playAttention(depth: number): Promise<{ seconds: number; bytes: number }> {
    const attend = this.#plan.steps.find(
      (step): step is Step & { op: "attend" } => step.op === "attend",
    )!
    await this.#take(inputOf(this.#sized(), 1, 1, depth))
    const { kvHeads, headDim } = this.#plan.groups[attend.place.group]!
    const seconds = await this.#seconds(this.#tapeStepOf(attend))
    return { seconds, bytes: depth * kvHeads * (headDim.key + headDim.value) * 2 } // f16
  }

  /** Each step of the tape by itself, as sequences take it that get so many tokens each behind `past` others. */
  async playSteps(
    sequences: number,
    tokens: number,
    past: number,
  ): Promise<{ text: string; launches: number; seconds: number }[]> {
    await this.#take(inputOf(this.#sized(), sequences, tokens, past))
    const all = []
    const { steps } = this.#unprinted.tape
    const countOf = (of: Parameters<StepBlock["countOf"]>[0]) => this.#block.countOf(of)
    const kernels = new Set([...stepLaunches(steps, countOf)].map(({ launch }) => launch.kernel))
    await Promise.all([...kernels].map((number) => this.#kernel(number))) // compiled side by side
    for (const step of steps) {
      const { length: launches } = await this.#dispatches(step, 0)
      if (launches > 0)
        all.push({ text: step.text.join("; "), launches, seconds: await this.#seconds(step) })
    }
    return all
  }

  async close(): Promise<void> {
    for (const place of [...this.#places.values()].flat()) this.#device.free(place)
    if (this.#step) this.#device.free(this.#step)
    await this.#device.close()
  }

  /** As many tokens: sequences' next ones, or where those are too many, one's prompt. */
  #rowsOf(count: number): StepInput {
    const { sequences } = this.#limits
    return count <= sequences
      ? inputOf(this.#sized(), count, 1, 16)
      : inputOf(this.#sized(), 1, count, 0)
  }

  #sized() {
    const { shapes } = this.#plan
    return { manifest: { shapes, kv: kvOf(this.#plan) }, limits: this.#limits }
  }

  #tapeStepOf(step: Step): TapeStep {
    const { steps } = this.#plan
    const number = runs(steps).findIndex((run) => run.some((i) => steps[i] === step))
    return this.#unprinted.tape.steps[number]!
  }

  async #take(input: StepInput): Promise<void> {
    if (this.#block.fill(input) && this.#step) {
      this.#device.free(this.#step)
      this.#step = undefined
    }
    const { bytes } = this.#block
    this.#step ??= await this.#device.allocate(bytes.length, "host")
    await this.#device.write(this.#step, 0, bytes)
  }

  /** What a product leaves of its first row, where nothing was before. */
  async #firstRow(step: TapeStep, { output, weight, epilogue }: Product): Promise<Uint8Array> {
    const { tape } = this.#unprinted
    const number = tape.places.findIndex(({ name }) => name === `b${output.buffer}`)
    const [place] = await this.#placesOf(number)
    const { rows } = this.#plan.parameters[weight]!
    const columns = epilogue.kind === "gated" ? rows / 2 : rows
    const row = new Uint8Array(4 * Math.min(columns, strideOf(this.#plan.buffers[output.buffer]!)))
    await this.#device.write(place!, 4 * output.from, row)
    await this.#run(await this.#dispatches(step, 0))
    await this.#device.read(place!, 4 * output.from, row)
    return row
  }

  /** Of a turn, of as many as it takes to be worth measuring. */
  async #seconds(step: TapeStep): Promise<number> {
    for (let turns = 1; ; turns *= 4) {
      const all: Dispatch[] = []
      for (let turn = 0; turn < turns; turn++) all.push(...(await this.#dispatches(step, turn)))
      const seconds = await quickest(this.#device, all)
      if (seconds >= SECONDS || turns >= MAX_TURNS) return seconds / turns
    }
  }

  async #run(dispatches: readonly Dispatch[]): Promise<void> {
    const recording = this.#device.record(dispatches)
    await this.#device.run([recording], newCancel())
    recording.free()
  }

  async #dispatches(step: TapeStep, turn: number): Promise<Dispatch[]> {
    const countOf = (of: Parameters<StepBlock["countOf"]>[0]) => this.#block.countOf(of)
    const all: Dispatch[] = []
    for (const { launch, chunk } of stepLaunches([step], countOf)) {
      const groups = groupsOf(launch, countOf)
      if (groups.includes(0)) continue
      const operands: OperandValue[] = []
      for (const operand of launch.operands)
        operands.push(await this.#operand(operand, turn, chunk))
      all.push({ kernel: await this.#kernel(launch.kernel), operands, groups })
    }
    return all
  }

  async #operand(operand: TapeOperand, turn: number, chunk: number): Promise<OperandValue> {
    if (typeof operand === "number") return operand
    if ("place" in operand) {
      const copies = await this.#placesOf(operand.place)
      return { place: copies[turn % copies.length]!, at: operand.at }
    }
    if ("region" in operand) return { place: this.#step!, at: this.#block.offsetOf(operand.region) }
    return chunk
  }

  async #kernel(number: number): Promise<GpuKernel> {
    const known = this.#kernels.get(number)
    if (known) return known
    const printer = printers[this.#kind]
    const needs = printer.profiles.find((each) => meets(this.#device.traits, each))!
    const own = [this.#unprinted.kernels[number]!]
    const { modules, kernels } = (await madeOf(printer, own, { needs }))!
    const [loaded] = await this.#device.load(modules, kernels)
    this.#kernels.set(number, loaded!)
    return loaded!
  }

  async #placesOf(number: number): Promise<Place[]> {
    const known = this.#places.get(number)
    if (known) return known
    const { name, fixed, perToken, perRow, perBlock } = this.#unprinted.tape.places[number]!
    const { tokens, rows, blocks } = this.#limits
    const bytes =
      fixed +
      perToken * tokens +
      perRow * rows +
      (perBlock ? perBlock.bytes * blocks[perBlock.group]! : 0)
    const isRead = /^(p|kv)\d/.test(name)
    const copies = isRead && !this.#device.traits.isProcessor ? Math.ceil(COPIES_BYTES / bytes) : 1
    const places: Place[] = []
    for (let copy = 0; copy < Math.min(copies, MAX_COPIES); copy++) {
      const place = await this.#device.allocate(bytes, "device")
      if (!name.startsWith("scratch")) await this.#fill(place, name)
      places.push(place)
    }
    this.#places.set(number, places)
    return places
  }

  /** Codes may be anything; scales, floats, keys and values are small numbers. */
  async #fill(place: Place, name: string): Promise<void> {
    const number = Number(/\d+/.exec(name)![0])
    const write = async (from: number, bytes: number, pattern: Uint8Array) => {
      for (let at = 0; at < bytes; at += WINDOW)
        await this.#device.write(
          place,
          from + at,
          pattern.subarray(0, Math.min(WINDOW, bytes - at)),
        )
    }
    if (name.startsWith("p")) {
      const parameter = this.#plan.parameters[number]!
      const [values, ...others] = weightLayout(parameter).parts
      const hasCodes = others.length > 0
      await write(values!.at, values!.bytes, hasCodes ? noise : small)
      for (const { at, bytes } of others) await write(at, bytes, small)
      return
    }
    const isCodes = name.startsWith("b") && this.#plan.buffers[number]!.dtype === "i8"
    await write(0, place.bytes, isCodes ? noise : small)
  }
}

const noise = new Uint8Array(WINDOW)
const words = new Uint32Array(noise.buffer)
for (let i = 0, state = 1; i < words.length; i++)
  words[i] = state = (Math.imul(state, 1664525) + 1013904223) | 0

/** f16 numbers near 0.01; two of them are a smaller f32. */
const small = new Uint8Array(
  Uint16Array.from({ length: WINDOW / 2 }, (_, i) => 0x2100 + ((i * 37) & 0xff)).buffer,
)
