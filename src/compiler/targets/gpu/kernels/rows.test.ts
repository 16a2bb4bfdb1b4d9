// Row operations on the slow twin of devices, alone and joined, against the reference's functions, bit for bit: every buffer
// that a run touches, what lies behind its columns, and the blocks of keys and values.

import { describe, expect, test } from "vitest"
import { smallGraph, smallWeights } from "../../../../../test/model/small.ts"
import { batch } from "../../../../../test/model/steps.ts"
import { uniform } from "../../../../../test/random.ts"
import { rounding } from "../../../../runtime/dtype.ts"
import { type FloatType, isWideCodec, rowLayout } from "../../../../runtime/format.ts"
import { DRAWN, RESULT_WORDS, type Region, resultWord } from "../../../../runtime/gpu/regions.ts"
import type { KvType, Parameter } from "../../../../runtime/manifest.ts"
import { BLOCK, SEEN, type StepInput } from "../../../../runtime/program.ts"
import { writeTurns } from "../../../../runtime/rotation.ts"
import { StepRows } from "../../../../runtime/step-rows.ts"
import { compile } from "../../../compile.ts"
import { elementwise } from "../../../graph/elementwise.ts"
import { type Buffer, type Plan, type View, wideCodes } from "../../../plan.ts"
import * as kernels from "../../reference/kernels.ts"
import { allocateParameters, type Floats, readRow, storeRows } from "../../reference/parameters.ts"
import { isRowStep, type RowStep, runs } from "../../runs.ts"
import { Value } from "../ir/builder.ts"
import { checkKernel } from "../ir/check.ts"
import type { Kernel, Statement } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Launch } from "../launch.ts"
import { strideOf, weightLayout } from "../layout.ts"
import { bytesPerBlock, kvLayout } from "./kv.ts"
import { packOf } from "./pack.ts"
import { rowLaunches } from "./rows.ts"

const BLOCKS = 4
const TOKENS = 7

/** Two sequences; some rows are wanted, one of them twice. */
const input: StepInput = {
  ...batch([
    { tokens: [5, 9, 61], from: 15, blocks: [2, 0], logits: [0, 2], hidden: [2, 2] },
    { tokens: [0, 3, 69], from: 0, blocks: [3], logits: [1, 2], hidden: [0] },
  ]),
}
const stepRows = new StepRows({ tokens: TOKENS, blocks: [BLOCKS, BLOCKS] }, 0)
// A list of blocks for each group.
input.blocks = Int32Array.from([...input.blocks, ...input.blocks])
input.blockStarts = Int32Array.of(0, 2, 3, 5, 6)
input.visibleFrom = new Int32Array(4)
stepRows.take(input)

const OLD_CODE = 0x55

/** Every other token is told; of the others, rows of the step before draw two, and one has drawn none. */
const told = Int32Array.from(input.tokens, (token, i) => (i % 2 ? DRAWN | (6 - i) : token))
const drawn = new Int32Array(6 * RESULT_WORDS).fill(60)
for (const [i, token] of input.tokens.entries()) {
  const row = (6 - i) * RESULT_WORDS
  if (i % 2) drawn[row + resultWord.isFinite] = token === 0 ? 0 : 1
  if (i % 2 && token !== 0) drawn[row + resultWord.token] = token
}

/** Of one token a row is taken in, in steps that have another token's instead. */
const SEEN_AT = 4
const seeing = told.map((token, i) => (i === SEEN_AT ? SEEN | 1 : token))
const places = {
  time: input.tokens.map((token) => (token * 7 + 2) % 70),
  height: input.tokens.map((token) => (token * 5) % 70),
  width: input.tokens.map((token) => (token * 3 + 1) % 70),
}
const adapters = input.tokens.map((token) => (token * 11 + 3) % 70)

/** A plan's memory twice: as the reference has it and as a device does. */
class World {
  readonly plan: Plan
  readonly buffers: (Float32Array | Int8Array)[]
  readonly device: Memory[]
  readonly parameters
  readonly #bytes: { values: Uint8Array; scales?: Uint8Array }[]
  readonly #weights = new Map<number, Map<string, Memory>>() // those that were asked for
  readonly caches: kernels.Cache[][]
  readonly blocks: Memory[][]
  readonly hidden: Float32Array

  constructor(plan: Plan, change: (x: number, i: number) => number = (x) => x) {
    this.plan = plan
    const random = uniform(plan.steps.length)
    const number = () => (random() - 0.5) * 2 ** Math.floor(random() * 9 - 3)
    this.hidden = Float32Array.from({ length: TOKENS * plan.shapes.hidden }, number)
    this.buffers = plan.buffers.map(({ columns, dtype }) =>
      dtype === "i8"
        ? new Int8Array(TOKENS * columns).fill(OLD_CODE)
        : Float32Array.from({ length: TOKENS * columns }, (_, i) => change(number(), i)),
    )
    // What lies behind columns nobody has written, so nobody may read it.
    this.device = plan.buffers.map((buffer, id) => {
      const size = buffer.dtype === "i8" ? 1 : 4
      const rows = new Memory(TOKENS * strideOf(buffer) * size)
      for (let row = 0; row < TOKENS; row++)
        rows.put(row * strideOf(buffer) * size, this.#row(id, row))
      return rows
    })
    this.parameters = allocateParameters(plan)
    this.#bytes = plan.parameters.map((parameter) => someBytes(parameter, random))
    for (const [id, { values, scales }] of this.#bytes.entries())
      storeRows(
        this.parameters[id]!,
        plan.parameters[id]!,
        0,
        plan.parameters[id]!.rows,
        values,
        scales,
      )
    this.caches = plan.groups.map(({ layers, kvHeads, headDim: { key, value } }) =>
      layers.map(() => {
        const pair = (k: number, v: number) => ({
          keys: new Float32Array(BLOCKS * BLOCK * kvHeads * k),
          values: new Float32Array(BLOCKS * BLOCK * kvHeads * v),
        })
        return { ...pair(key, value), ...(plan.kv === "q8" ? { scales: pair(1, 1) } : {}) }
      }),
    )
    this.blocks = plan.groups.map((shape) =>
      shape.layers.map(() => {
        const bytes = (BLOCKS * bytesPerBlock(plan.kv, shape)) / shape.layers.length
        return new Memory(bytes)
      }),
    )
  }

  #row(id: number, row: number) {
    const { columns } = this.plan.buffers[id]!
    return this.buffers[id]!.subarray(row * columns, (row + 1) * columns)
  }

  /** Both do the steps. */
  take(steps: readonly RowStep[]): Launch[] {
    for (const step of steps) {
      const count = stepRows.tokensOf(step.rows).length
      for (let row = 0; row < count; row++) this.#reference(step, row)
    }
    const launches = rowLaunches(this.plan, steps)
    for (const launch of launches) {
      checkKernel(launch.kernel)
      this.launch(launch)
    }
    return launches
  }

  launch({ kernel, operands, groups }: Launch, changed: Kernel = kernel): void {
    const [{ rows, per }] = groups as [{ rows: RowStep["rows"]; per: number }, number, number]
    const count = Math.ceil((stepRows.tokensOf(rows).length + 3) / per)
    runKernel(
      changed,
      operands.map((of) => this.#operand(of)),
      [count, 1, 1],
      { order: "shuffled" },
    )
  }

  #operand(binding: Binding): Memory | number {
    if (typeof binding === "number") return binding
    switch (binding.kind) {
      case "buffer":
        return this.device[binding.buffer]!.at(4 * binding.from)
      case "weight":
        return this.#partOf(binding.parameter, binding.part)
      case "kv":
        return this.blocks[binding.place.group]![binding.place.layer]!
      case "step":
        return Memory.of(this.#region(binding.region))
      default:
        throw new Error(binding.kind)
    }
  }

  #partOf(parameter: number, part: string): Memory {
    if (!this.#weights.has(parameter))
      this.#weights.set(
        parameter,
        packed(this.plan.parameters[parameter]!, this.#bytes[parameter]!),
      )
    return this.#weights.get(parameter)!.get(part)!
  }

  #region(region: Region): Int32Array | Float32Array {
    switch (region.name) {
      case "count":
        return Int32Array.of(stepRows.tokensOf(region.of as RowStep["rows"]).length)
      case "tokens":
        return this.plan.steps.some((step) => "instead" in step) ? seeing : told
      case "places":
        return places[region.of]
      case "adapters":
        return adapters
      case "drawn":
        return drawn
      case "positions":
        return input.positions
      case "tokensOf":
        return stepRows.tokensOf(region.set)
      case "rowsInWanted":
        return stepRows.rowsIn("wanted")
      case "slots":
        return stepRows.slotsIn(region.group)
      case "hiddenIn":
        return this.hidden
      case "turns": {
        const size = 2 * region.rotation.frequencies.length
        const turns = new Float32Array(input.tokens.length * size)
        for (const [token, position] of input.positions.entries())
          writeTurns(position, region.rotation, turns, token * size)
        return turns
      }
      default:
        throw new Error(region.name)
    }
  }

  #rows({ buffer, from, columns }: View): kernels.Rows {
    const data = this.buffers[buffer] as Float32Array
    return { data, stride: this.plan.buffers[buffer]!.columns, from, columns }
  }

  #reference(step: RowStep, row: number): void {
    const token = stepRows.tokensOf(step.rows)[row]!
    const rows = (view: View) => this.#rows(view)
    const each = (views: View[], output: View, of: (...x: number[]) => number) => {
      const out = kernels.rowOf(rows(output), row)
      const values = views.map((view) => kernels.rowOf(rows(view), row))
      for (let i = 0; i < out.length; i++) out[i] = of(...values.map((value) => value[i]!))
    }
    switch (step.op) {
      case "embed": {
        const { tokens: token, positions: position } = input
        const index = { token, position, adapter: adapters, ...places }[step.by][row]!
        const own = row === SEEN_AT ? (step.instead ?? index) : index
        readRow(this.parameters[step.table]!, own, kernels.rowOf(rows(step.output), row))
        break
      }
      case "hiddenIn": {
        const out = kernels.rowOf(rows(step.output), row)
        out.set(this.hidden.subarray(token * out.length, (token + 1) * out.length))
        break
      }
      case "ropeTable":
        writeTurns(
          input.positions[row]!,
          step.rotation,
          this.buffers[step.output.buffer] as Float32Array,
          kernels.at(rows(step.output), row),
        )
        break
      case "norm": {
        const vector = (id: number) => (this.parameters[id] as Floats).values
        const bias = step.bias === undefined ? undefined : vector(step.bias)
        const what = { ...step, weight: vector(step.weight), bias }
        kernels.norm(rows(step.input), what, rows(step.output), row)
        break
      }
      case "quantize": {
        const { codes, scales, columns, group, codec } = step.output
        const out = {
          codes: this.buffers[codes] as Int8Array,
          scales: this.buffers[scales] as Float32Array,
          columns,
          group,
        }
        const quantize = isWideCodec(codec) ? kernels.quantizeWide : kernels.quantize
        quantize(rows(step.input), out, row)
        break
      }
      case "rope":
        kernels.rope(rows(step.view), row, step.headDim, rows(step.ropeTable), token)
        break
      case "storeKv":
        this.#store(step, row, stepRows.slotsIn(step.place.group)[token]!)
        break
      case "apply":
        each([step.input], step.output, (x) => elementwise[step.function].js(x!, step.by ?? 0))
        break
      case "add":
        each([step.a, step.b], step.output, (a, b) => a! + b!)
        break
      case "multiply": {
        const width = step.a.columns / step.b.columns
        const of = kernels.rowOf(rows(step.b), row)
        let at = 0
        each([step.a], step.output, (a) => a! * of[Math.floor(at++ / width)]!)
        break
      }
      case "bound": {
        const [least, most] = (this.parameters[step.bounds] as Floats).values
        each([step.input], step.output, (x) => Math.max(least!, Math.min(x!, most!)) + x! * 0)
        break
      }
      case "reorder": {
        const { values } = this.parameters[step.order] as Floats
        kernels.reorder(rows(step.input), values, rows(step.output), row)
        break
      }
      case "copy":
        each([step.input], step.output, (x) => x!)
        break
      case "select": {
        const from = step.from === "tokens" ? token : stepRows.rowsIn("wanted")[token]!
        kernels.rowOf(rows(step.output), row).set(kernels.rowOf(rows(step.input), from))
        break
      }
    }
  }

  #store(step: Extract<RowStep, { op: "storeKv" }>, row: number, slot: number): void {
    const cache = this.caches[step.place.group]![step.place.layer]!
    const { kvHeads, headDim } = this.plan.groups[step.place.group]!
    for (const of of ["keys", "values"] as const) {
      const [view, dim] =
        of === "keys" ? ([step.key, headDim.key] as const) : ([step.value!, headDim.value] as const)
      const x = kernels.rowOf(this.#rows(view), row)
      for (let head = 0; head < kvHeads; head++) {
        const at = slot * kvHeads + head
        const to = cache[of]
        if (cache.scales) cache.scales[of][at] = kernels.codeHead(x, head * dim, dim, to, at * dim)
        else
          for (let i = 0; i < dim; i++)
            to[at * dim + i] = rounding[this.plan.kv as FloatType](x[head * dim + i]!)
      }
    }
  }

  /** All that both have. */
  expectSame(): void {
    for (const [id, buffer] of this.plan.buffers.entries()) this.#expectBuffer(id, buffer)
    for (const [group, layers] of this.caches.entries())
      for (const [layer, cache] of layers.entries()) this.#expectBlocks(group, layer, cache)
  }

  #expectBuffer(id: number, buffer: Buffer): void {
    const stride = strideOf(buffer)
    const isCodes = buffer.dtype === "i8"
    const found = isCodes ? this.device[id]!.i8() : this.device[id]!.f32()
    for (let row = 0; row < TOKENS; row++) {
      const own = found.subarray(row * stride, (row + 1) * stride)
      expectBits(own.subarray(0, buffer.columns), this.#row(id, row), `b${id} row ${row}`)
      // Nothing, or behind codes zeros.
      const behind = own.subarray(buffer.columns)
      expect(
        behind.every((x) => x === 0),
        `behind b${id} row ${row}`,
      ).toBe(true)
      if (!isCodes && behind.length > 0)
        expect(this.device[id]!.isWritten(4 * (row * stride + buffer.columns), 4)).toBe(false)
    }
  }

  #expectBlocks(group: number, layer: number, cache: kernels.Cache): void {
    const { kv } = this.plan
    const { kvHeads, headDim } = this.plan.groups[group]!
    const layout = kvLayout(kv, this.plan.groups[group]!)
    const blocks = this.blocks[group]![layer]!
    const numbers = widened(blocks, kv)
    const perBlock = (numbers.length / blocks.bytes) * layout.blockBytes
    for (let slot = 0; slot < BLOCKS * BLOCK; slot++) {
      const [block, position] = [Math.floor(slot / BLOCK), slot % BLOCK]
      for (let head = 0; head < kvHeads; head++) {
        const at = slot * kvHeads + head
        const first = block * perBlock
        for (let i = 0; i < layout.keyWidth; i++) {
          const chunk = head * (layout.keyWidth / layout.chunk) + Math.floor(i / layout.chunk)
          const place = (chunk * BLOCK + position) * layout.chunk + (i % layout.chunk)
          const wanted = i < headDim.key ? cache.keys[at * headDim.key + i]! : 0
          expectNumber(numbers[first + place]!, wanted, `key ${slot} ${head} ${i}`)
        }
        for (let i = 0; i < layout.valueWidth; i++) {
          const place = layout.values + (head * BLOCK + position) * layout.valueWidth + i
          const wanted = i < headDim.value ? cache.values[at * headDim.value + i]! : 0
          expectNumber(numbers[first + place]!, wanted, `value ${slot} ${head} ${i}`)
        }
        if (!cache.scales) continue
        for (const of of ["keys", "values"] as const) {
          const place =
            (block * layout.blockBytes) / 4 + layout.scales[of] + head * BLOCK + position
          expect(blocks.f32()[place]).toBe(cache.scales[of][at])
        }
      }
    }
  }
}

function expectNumber(found: number, wanted: number, what: string): void {
  if (found !== wanted) expect.fail(`${what} is ${found} and not ${wanted}`)
}

/** Equal, and of zeros of one sign. */
function expectBits(found: ArrayLike<number>, wanted: ArrayLike<number>, what: string): void {
  for (let i = 0; i < wanted.length; i++)
    if (!Object.is(found[i], wanted[i]))
      expect.fail(`${what} has ${found[i]} and not ${wanted[i]} in column ${i}`)
}

/** The numbers that blocks hold. */
function widened(blocks: Memory, kv: KvType): Float32Array | Int8Array {
  if (kv === "q8") return blocks.i8()
  if (kv === "f32") return blocks.f32()
  return Float32Array.from(blocks.u16(), kv === "f16" ? halfOf : brainOf)
}

function halfOf(word: number): number {
  const [exponent, fraction] = [(word >>> 10) & 31, word & 1023]
  const size = (exponent === 0 ? fraction : fraction + 1024) * 2 ** (Math.max(exponent, 1) - 25)
  return word & 0x8000 ? -size : size
}

const brainOf = (word: number) => new Float32Array(Int32Array.of(word << 16).buffer)[0]!

/** Bytes of a parameter as its codec stores them. */
function someBytes({ rows, columns, codec, name }: Parameter, random: () => number) {
  const { bytes, scaleBytes, words } = rowLayout(codec, columns)
  const values = new Uint8Array(rows * bytes)
  // Floats from 1 to 2 with a sign; codes of any bits that are codes.
  if (words === 0) {
    const floats = name.endsWith("_order")
      ? smallWeights(name, rows)
      : Float32Array.from({ length: rows * columns }, () => 4 * random() - 2)
    values.set(new Uint8Array(floats.buffer).subarray(0, values.length))
    return { values }
  }
  for (const i of values.keys()) values[i] = (random() * 256) & 0x77
  const scales = new Uint8Array(rows * scaleBytes)
  for (const i of scales.keys()) scales[i] = i % 2 ? 0x2c : random() * 256
  return { values, scales }
}

/** A parameter as the device has it. */
function packed(parameter: Parameter, bytes: { values: Uint8Array; scales?: Uint8Array }) {
  const pack = packOf(parameter)
  const parts = new Map(
    weightLayout(parameter).parts.map(({ name, bytes }) => [name as string, new Memory(bytes)]),
  )
  const operands = pack.operands.map((operand) => {
    if (typeof operand === "number") return operand
    if ("given" in operand) return Memory.of(bytes[operand.given]!)
    if ("part" in operand) return parts.get(operand.part)!
    return operand.number === "row" ? 0 : parameter.rows
  })
  const [rows, units] = pack.groups
  runKernel(pack.kernel, operands, [Math.ceil(parameter.rows / rows.per), units, 1])
  return parts
}

// ------------------------------------------------------------------ operations alone

interface Made {
  buffers: Buffer[]
  steps: RowStep[]
  parameters?: Omit<Parameter, "name" | "sources">[]
  kv?: KvType
  groups?: Plan["groups"]
}

/** A plan of nothing but these. */
function planOf({ buffers, steps, parameters = [], kv = "f32", groups = [] }: Made): Plan {
  return {
    ...compile(smallGraph(), { format: "q0f32", activations: "float", kv }),
    buffers,
    steps,
    groups,
    parameters: parameters.map((parameter, i) => ({ name: `p${i}`, sources: [], ...parameter })),
  }
}

const floats = (columns: number): Buffer => ({ capacity: "tokens", columns, dtype: "f32" })
const view = (buffer: number, columns: number, from = 0): View => ({ buffer, from, columns })
const vectorOf = (rows: number) => ({ rows, columns: 1, codec: "f32" }) as const

function expectRun(made: Made, change?: (x: number, i: number) => number): void {
  const world = new World(planOf(made), change)
  expect(world.take(made.steps)).toHaveLength(1)
  world.expectSame()
}

const tokens = { rows: "tokens" } as const

describe("norm", () => {
  for (const kind of ["rms", "layer"] as const)
    for (const [columns, width] of [
      [20, 20],
      [80, 80],
      [64, 64],
      [301, 301],
      [1100, 1100],
      [24, 6],
      [24, 12],
      [96, 32],
      [480, 16],
      [320, 80],
      [1280, 80],
    ] as const)
      for (const [hasBias, isShared, inPlace] of [
        [false, true, true],
        [true, false, false],
      ] as const)
        test(`${kind} of ${columns} columns by ${width}${hasBias ? " with a bias" : ""}`, () => {
          const size = isShared ? width : columns
          const step: RowStep = {
            ...tokens,
            op: "norm",
            kind,
            input: view(0, columns, 5),
            weight: 0,
            bias: hasBias ? 1 : undefined,
            epsilon: 1e-5,
            width,
            output: inPlace && width < columns ? view(0, columns, 5) : view(1, columns, 3),
          }
          const parameters = [vectorOf(size), vectorOf(size)]
          expectRun({
            buffers: [floats(columns + 7), floats(columns + 3)],
            steps: [step],
            parameters,
          })
        })
})

describe("quantize", () => {
  const groups = { q6_k: 16, q4f16_1: 32, q3f16_1: 40, f16: 32 } as const
  for (const codec of ["q6_k", "q4f16_1", "q3f16_1", "f16"] as const)
    for (const columns of [1, 16, 20, 44, 80, 96, 120, 1291])
      for (const from of [0, 4, 3])
        test(`${columns} columns from ${from} on for ${codec}`, () => {
          const group = groups[codec]
          const output = { codes: 1, scales: 2, columns, group, codec }
          const bytes = isWideCodec(codec) ? wideCodes(columns) : columns
          const buffers: Buffer[] = [
            floats(columns + from),
            { capacity: "tokens", columns: bytes, dtype: "i8" },
            { capacity: "tokens", columns: Math.ceil(columns / group), dtype: "scales" },
          ]
          const steps: RowStep[] = [
            { ...tokens, op: "quantize", input: view(0, columns, from), output },
          ]
          // Groups of zeros, and of numbers next to zero.
          const change = (x: number, i: number) =>
            i % 200 < 60 ? 0 : i % 500 < 120 ? x * 2 ** -120 : x
          expectRun({ buffers, steps }, change)
        })

  test.each([
    ["q4f16_1", 32],
    ["bf16", 64],
  ] as const)(
    "a NaN or an infinity makes its group's scale NaN, and its codes for %s 0",
    (codec, bytes) => {
      const columns = 96
      const plan = planOf({
        buffers: [
          floats(columns),
          { capacity: "tokens", columns: 3 * bytes, dtype: "i8" },
          { capacity: "tokens", columns: 3, dtype: "scales" },
        ],
        steps: [],
      })
      const output = { codes: 1, scales: 2, columns, group: 32, codec }
      const step: RowStep = { ...tokens, op: "quantize", input: view(0, columns), output }
      const bad = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
      for (const value of bad) {
        const world = new World(plan, (x, i) => (i % columns === 40 ? value : x))
        for (const launch of rowLaunches(plan, [step])) world.launch(launch)
        const scales = world.device[2]!.f32()
        expect([0, 1, 2].map((group) => Number.isNaN(scales[group]))).toEqual([false, true, false])
        const codes = world.device[1]!.i8()
        expect(codes.subarray(bytes, 2 * bytes).every((code) => code === 0)).toBe(true)
      }
    },
  )
})

describe("rope", () => {
  for (const [heads, headDim, turned] of [
    [4, 6, 6],
    [3, 12, 8],
    [20, 16, 16],
    [5, 80, 32],
  ] as const)
    for (const rows of ["tokens", "wanted"] as const)
      test(`${turned} of ${headDim} numbers of ${heads} heads of ${rows}`, () => {
        const columns = heads * headDim
        const steps: RowStep[] = [
          { rows, op: "rope", view: view(0, columns, 7), headDim, ropeTable: view(1, turned) },
        ]
        expectRun({ buffers: [floats(columns + 9), floats(turned)], steps })
      })
})

describe("storeKv", () => {
  for (const kv of ["f32", "f16", "bf16", "q8"] as const)
    for (const [kvHeads, headDim] of [
      [2, 6],
      [3, 12],
      [2, 16],
      [20, 32],
      [5, 80],
    ] as const)
      test(`${kvHeads} heads of ${headDim} as ${kv}`, () => {
        const columns = kvHeads * headDim
        const groups = [
          { layers: [0], kvHeads, headDim: { key: headDim, value: headDim } },
          { layers: [1, 3], kvHeads, headDim: { key: headDim, value: headDim } },
        ]
        const steps: RowStep[] = [
          {
            ...tokens,
            op: "storeKv",
            key: view(0, columns, 3),
            value: view(0, columns, 3 + columns),
            place: { group: 1, layer: 1 },
          },
        ]
        const change = (x: number, i: number) => (i % 97 < 14 ? 0 : x)
        expectRun({ buffers: [floats(2 * columns + 3)], steps, kv, groups }, change)
      })
})

describe("embed", () => {
  for (const codec of [
    "f32",
    "f16",
    "bf16",
    "q4f16_1",
    "q3f16_1",
    "q8f16_1",
    "q4_1",
    "q6_k",
  ] as const)
    for (const by of ["token", "position", "height", "width", "adapter"] as const)
      test(`by ${by} of ${codec}`, () => {
        const columns = 83
        const steps: RowStep[] = [
          { ...tokens, op: "embed", table: 0, by, output: view(0, columns, 2) },
        ]
        const parameters = [{ rows: 70, columns, codec }]
        expectRun({ buffers: [floats(columns + 2)], steps, parameters })
      })

  test("by token, or of one that a row is taken in for another's", () => {
    const output = view(0, 83)
    const steps: RowStep[] = [
      { ...tokens, op: "embed", table: 0, by: "token", instead: 11, output },
    ]
    const parameters = [{ rows: 70, columns: 83, codec: "f32" as const }]
    expectRun({ buffers: [floats(83)], steps, parameters })
  })
})

test("elements stay between two numbers, and what is no number shows", () => {
  const [input, output] = [view(0, 83), view(1, 83)]
  const steps: RowStep[] = [{ ...tokens, op: "bound", input, bounds: 0, output }]
  const parameters = [{ rows: 2, columns: 1, codec: "f32" as const }]
  const change = (x: number, i: number) => (i === 5 ? Number.NaN : x / 8)
  expectRun({ buffers: [floats(83), floats(83)], steps, parameters }, change)
})

// ------------------------------------------------------------------ operations together

/** All runs of row operations of a plan, each on numbers of its own. */
function rowRuns(plan: Plan): RowStep[][] {
  return runs(plan.steps)
    .map((run) => run.map((i) => plan.steps[i]!))
    .filter((run): run is RowStep[] => run.every(isRowStep))
}

const sums = { parts: 8, span: 256 } as const

const models = {
  floats: compile(smallGraph(), { format: "q0f32", activations: "float", kv: "f32", sums }),
  "codes of 4 bits": compile(smallGraph({ layers: 4 }), {
    format: "q4f16_1",
    activations: "int8",
    kv: "f16",
    sums,
  }),
  "floats of 16 bits": compile(smallGraph({ hidden: 84 }), {
    format: "q0bf16",
    activations: "int16",
    kv: "f16",
    sums,
  }),
  "codes of 3 bits, keys and values of 8": compile(smallGraph({ hidden: 84 }), {
    format: "q3f16_1",
    activations: "int8",
    kv: "q8",
    sums,
  }),
  "hidden rows and two windows": compile(
    smallGraph({
      takesHidden: true,
      windows: [16, undefined],
      sinks: 2,
      hasOrder: true,
      hasGates: true,
    }),
    { format: "q4f32_1", activations: "int8", kv: "bf16", sums },
  ),
}

describe("runs of a model", () => {
  for (const [name, plan] of Object.entries(models))
    test(`${name}: every run gives the reference's bits`, () => {
      for (const run of rowRuns(plan)) {
        const world = new World(plan)
        expect(world.take(run)).toHaveLength(1)
        world.expectSame()
      }
    })

  test("a layer more needs no kernel more", () => {
    const kernelsOf = (layers: number) => {
      const options = { format: "q4f16_1", activations: "int8", kv: "f16", sums } as const
      const plan = compile(smallGraph({ layers }), options)
      const launches = rowRuns(plan).flatMap((run) => rowLaunches(plan, run))
      return new Set(launches.map(({ kernel }) => JSON.stringify(kernel)))
    }
    expect(kernelsOf(3).size).toBe(13)
    expect(kernelsOf(6)).toEqual(kernelsOf(3))
  })
})

test("a barrier stands where columns go to other threads, and nowhere else", () => {
  for (const [from, barriers] of [
    [20, 1],
    [64, 0],
  ] as const) {
    const columns = from + 30
    const steps: RowStep[] = [
      { ...tokens, op: "copy", input: view(0, from), output: view(1, from) },
      { ...tokens, op: "copy", input: view(0, 30), output: view(1, 30, from) },
      {
        ...tokens,
        op: "apply",
        function: "silu",
        by: undefined,
        input: view(1, columns),
        output: view(2, columns),
      },
    ]
    const world = new World(
      planOf({ buffers: [floats(columns), floats(columns), floats(columns)], steps }),
    )
    const [launch] = world.take(steps)
    world.expectSame()
    expect(countOf(launch!.kernel, "barrier")).toBe(barriers)
  }
})

test("a run that names more than a device takes becomes several launches", () => {
  const buffers = Array.from({ length: 40 }, () => floats(9))
  const steps = Array.from({ length: 39 }, (_, i): RowStep => {
    return { ...tokens, op: "copy", input: view(i % 20, 9), output: view(i + 1, 9) }
  })
  const world = new World(planOf({ buffers, steps }))
  const launches = world.take(steps)
  world.expectSame()
  expect(launches.length).toBeGreaterThan(1)
})

// ------------------------------------------------------------------ planted faults

/** A kernel whose statements are changed, each in turn, with how many there were before of its kind. */
function changed(
  kernel: Kernel,
  change: (statement: Statement, number: number) => Statement | undefined,
): Kernel {
  const counts = new Map<string, number>()
  const block = (body: readonly Statement[]): Statement[] =>
    body.flatMap((statement): Statement[] => {
      const number = counts.get(statement.kind) ?? 0
      counts.set(statement.kind, number + 1)
      const own = change(statement, number)
      if (!own) return []
      if (own.kind === "for") return [{ ...own, body: block(own.body) }]
      if (own.kind === "if") return [{ ...own, yes: block(own.yes), no: block(own.no) }]
      return [own]
    })
  return { ...kernel, body: block(kernel.body) }
}

function countOf(kernel: Kernel, kind: Statement["kind"]): number {
  let count = 0
  changed(kernel, (statement) => {
    if (statement.kind === kind) count++
    return statement
  })
  return count
}

/** Runs of everything, wide enough that every thread has something to do twice. */
function wideRuns(): [Plan, RowStep[]][] {
  const columns = 1100
  const heads = 20
  const buffers: Buffer[] = [
    floats(columns),
    floats(columns),
    floats(3 * heads * 80),
    floats(24),
    { capacity: "tokens", columns, dtype: "i8" },
    { capacity: "tokens", columns: 35, dtype: "scales" },
  ]
  const parameters = [vectorOf(columns), vectorOf(80)]
  const groups = [{ layers: [0], kvHeads: heads, headDim: { key: 80, value: 80 } }]
  const norm = { ...tokens, op: "norm", kind: "rms", bias: undefined, epsilon: 1e-5 } as const
  const queries = view(2, heads * 80)
  const keys = view(2, heads * 80, heads * 80)
  const rotation = { frequencies: Array.from({ length: 12 }, (_, i) => 1 / (i + 1)), factor: 1 }
  const output = { codes: 4, scales: 5, columns, group: 32, codec: "q4f16_1" } as const
  const plans = (["f16", "q8"] as const).map((kv) =>
    planOf({ buffers, steps: [], parameters, groups, kv }),
  )
  const post: RowStep[] = [
    { ...norm, input: view(0, columns), weight: 0, width: columns, output: view(1, columns) },
    { ...tokens, op: "add", a: view(0, columns), b: view(1, columns), output: view(0, columns) },
    { ...norm, input: view(0, columns), weight: 0, width: columns, output: view(1, columns) },
    { ...tokens, op: "quantize", input: view(1, columns), output },
  ]
  const turned: RowStep[] = [
    { ...norm, input: queries, weight: 1, width: 80, output: queries },
    { ...tokens, op: "ropeTable", rotation, output: view(3, 24) },
    { ...tokens, op: "rope", view: queries, headDim: 80, ropeTable: view(3, 24) },
    { ...norm, input: keys, weight: 1, width: 80, output: keys },
    { ...tokens, op: "rope", view: keys, headDim: 80, ropeTable: view(3, 24) },
    {
      ...tokens,
      op: "storeKv",
      key: keys,
      value: view(2, heads * 80, 2 * heads * 80),
      place: { group: 0, layer: 0 },
    },
  ]
  return plans.flatMap((plan) => [
    [plan, post],
    [plan, turned],
  ])
}

describe("faults", () => {
  test("wide rows are sound without one", () => {
    for (const [plan, run] of wideRuns()) {
      const world = new World(plan)
      expect(world.take(run)).toHaveLength(1)
      world.expectSame()
    }
  })

  test("every barrier is missed", () => {
    const small = Object.values(models).flatMap((plan) =>
      rowRuns(plan).map((run): [Plan, RowStep[]] => [plan, run]),
    )
    for (const [plan, run] of [...wideRuns(), ...small])
      for (const launch of rowLaunches(plan, run)) {
        const barriers = countOf(launch.kernel, "barrier")
        for (let missing = 0; missing < barriers; missing++) {
          const kernel = changed(launch.kernel, (statement, number) =>
            statement.kind === "barrier" && number === missing ? undefined : statement,
          )
          expect(
            () => new World(plan).launch(launch, kernel),
            `${kernel.name} without barrier ${missing} of ${barriers}`,
          ).toThrow(/a race/)
        }
      }
  })

  test("an index too far is seen", () => {
    for (const [plan, run] of wideRuns())
      for (const launch of rowLaunches(plan, run)) {
        const stores = countOf(launch.kernel, "store")
        for (let number = 0; number < stores; number++) {
          const kernel = changed(launch.kernel, (statement, i) =>
            statement.kind === "store" && i === number
              ? { ...statement, index: new Value(statement.index).add(1).expression }
              : statement,
          )
          const world = new World(plan)
          const run = () => {
            world.launch(launch, kernel)
            world.expectSame()
          }
          expect(run, `${kernel.name}, store ${number}`).toThrow()
        }
      }
  })
})
