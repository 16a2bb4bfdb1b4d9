// A step of a plan, through every choice of kernels that it is given, against the sums of the reference: bit for bit, in every
// codec.

import { describe, expect, test } from "vitest"
import {
  packedWeights,
  randomWeights,
  referenceWeights,
} from "../../../../../test/device-weights.ts"
import { mulberry32 } from "../../../../../test/random.ts"
import {
  type CodecName,
  type FloatType,
  floatBytes,
  type GroupCodecName,
  groupCodecNames,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
  type RoundingCodec,
} from "../../../../runtime/format.ts"
import {
  type Activation,
  activations,
  type ElementwiseName,
  elementwise,
} from "../../../graph/elementwise.ts"
import { type Buffer, type Plan, partEnds, type Step, wideCodes } from "../../../plan.ts"
import { addParts, dotCodesFour, dotFour, dotWideFour, quantize } from "../../reference/kernels.ts"
import type { Codes, Floats } from "../../reference/parameters.ts"
import { checkKernel } from "../ir/check.ts"
import type { Kernel } from "../ir/ir.ts"
import { Memory, runKernel } from "../ir/run.ts"
import type { Binding, Choice, Launch } from "../launch.ts"
import { strideOf, wholeColumns } from "../layout.ts"
import { type Ending, endingOf, matmulChoices } from "./matmul.ts"
import type { Units } from "./tiles.ts"

const { fround } = Math
type Matmul = Extract<Step, { op: "matmul" }>

interface Product {
  codec: CodecName
  input: "int8" | "int16" | "float"
  columns: number
  outputs: number
  /** "add to" another buffer than the output. */
  end?: "store" | "add" | "add to" | Activation
  bias?: boolean
  /** Where the views of floats begin. */
  from?: number
  /** The step behind rounds the output for matrices in this, to where the input was or elsewhere. */
  rounds?: GroupCodecName
  roundsInPlace?: true
  /** Before that, steps activate the output and multiply it with other rows. */
  times?: Activation
  /** The step behind applies this, with its number, where the output lies. */
  applied?: readonly [ElementwiseName, number]
}

/** Buffers of the plan that computes nothing else. */
const [CODES, SCALES, INPUT, OUTPUT, TO, ROUNDED, ROUNDED_SCALES, ACTIVATED, MULTIPLIED] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
]
const [WEIGHT, BIAS] = [0, 1]

/** A plan of one product, and memory that a device would have: with what is no number wherever the plan keeps nothing. */
class Case {
  readonly #plan: Plan
  readonly #step: Matmul
  readonly #behind: readonly Step[]
  readonly #product: Product
  readonly #weights
  readonly #bias
  readonly #parts: readonly Memory[][] // of the parameters
  readonly #next = mulberry32(7)

  constructor(product: Product) {
    const { codec, input, outputs, end = "store", bias, from = 0 } = product
    const columns = wholeColumns(codec, product.columns)
    const isGated = (activations as readonly string[]).includes(end)
    const rows = isGated ? 2 * outputs : outputs
    this.#product = { ...product, columns }
    this.#weights = randomWeights(codec, rows, columns)
    this.#bias = randomWeights("f16", rows, 1)
    this.#parts = [packedWeights(this.#weights), packedWeights(this.#bias)]
    const group = isGroupCodec(codec) ? groupCodecs[codec].group : 32
    const buffer = (columns: number, dtype: Buffer["dtype"]): Buffer => {
      return { capacity: "tokens", columns, dtype }
    }
    const view = (buffer: number, columns: number) => ({ buffer, from, columns })
    const output = view(OUTPUT, outputs)
    const epilogue = (): Matmul["epilogue"] => {
      if (isGated) return { kind: "gated", activation: end as Activation }
      if (end === "store") return { kind: "store" }
      return { kind: "add", to: end === "add" ? output : view(TO, outputs) }
    }
    this.#step = {
      rows: "wanted",
      op: "matmul",
      input:
        input === "float"
          ? { kind: "float", view: view(INPUT, columns) }
          : {
              kind: input,
              codes: {
                codes: CODES,
                scales: SCALES,
                columns,
                group,
                codec: codec as RoundingCodec,
              },
            },
      weight: WEIGHT,
      bias: bias ? BIAS : undefined,
      parts: 8,
      epilogue: epilogue(),
      output,
    }
    this.#behind = this.#stepsBehind()
    this.#plan = {
      parameters: [this.#weights.parameter, this.#bias.parameter],
      buffers: [
        buffer(input === "int16" ? wideCodes(columns) : columns, "i8"),
        buffer(Math.ceil(columns / group), "scales"),
        buffer(from + columns + 1, "f32"),
        buffer(from + outputs, "f32"),
        buffer(from + outputs + 9, "f32"),
        buffer(outputs, "i8"),
        buffer(Math.ceil(outputs / this.#roundedGroup), "scales"),
        buffer(outputs, "f32"),
        buffer(outputs, "f32"),
      ],
      steps: [this.#step, ...this.#behind],
      ...{ logits: view(-1, 0), hidden: view(-1, 0) },
    } as unknown as Plan
  }

  get #roundedGroup(): number {
    return groupCodecs[this.#product.rounds ?? "q4f16_1"].group
  }

  #stepsBehind(): Step[] {
    const { rounds, outputs, times, applied, from = 0 } = this.#product
    if (applied) {
      const [name, by] = applied
      const { output } = this.#step
      return [{ rows: "wanted", op: "apply", function: name, by, input: output, output }]
    }
    if (!rounds) return []
    const group = this.#roundedGroup
    const codes = this.#product.roundsInPlace ? CODES : ROUNDED
    const output = { codes, scales: ROUNDED_SCALES, columns: outputs, group } as const
    const rows = "wanted"
    const whole = (buffer: number) => ({ buffer, from: 0, columns: outputs })
    const a = whole(ACTIVATED)
    const b = { ...whole(TO), from }
    const gate: Step[] = times
      ? [
          {
            rows,
            op: "apply",
            function: times,
            by: undefined,
            input: this.#step.output,
            output: a,
          },
          { rows, op: "multiply", a, b, output: whole(MULTIPLIED) },
        ]
      : []
    return [
      ...gate,
      {
        rows,
        op: "quantize",
        input: times ? whole(MULTIPLIED) : this.#step.output,
        output: { ...output, codec: rounds as RoundingCodec },
      },
    ]
  }

  get ending(): Ending | undefined {
    return endingOf(this.#plan, this.#step, this.#behind)
  }

  choices(units: Units = "dots"): Choice[] {
    return matmulChoices(this.#plan, this.#step, [units], this.ending)
  }

  /** The bits that a choice makes, and those that the reference makes of the same. */
  run(
    { launches, most }: Choice,
    count: number,
  ): { computed: ArrayLike<number>; expected: ArrayLike<number> } {
    const { outputs, from = 0 } = this.#product
    const data = this.#plan.buffers.map((buffer) => this.#rowsOf(buffer, count))
    const places = data.map((rows) => Memory.of(rows))
    const isFew = most !== undefined
    const isRounded = this.#product.rounds !== undefined && isFew
    const expected = this.#expected(data, count, isFew ? this.#product : {})
    const written = [ROUNDED, ROUNDED_SCALES]
    if (this.#step.epilogue.kind !== "add") written.push(OUTPUT)
    for (const id of written) places[id] = new Memory(data[id]!.byteLength)
    const scratch = new Map<string, Memory>()
    const operandOf = (binding: Binding) => {
      if (typeof binding === "number") return binding
      if (binding.kind === "scratch") {
        const { fixed = 0, perToken = 0, perRow = 0 } = binding.bytes
        const known =
          scratch.get(binding.name) ?? new Memory(fixed + Math.max(perToken, perRow) * count)
        scratch.set(binding.name, known)
        return known
      }
      if (binding.kind === "buffer") return places[binding.buffer]!.at(binding.from * 4)
      if (binding.kind === "weight") {
        const { parameter, part } = binding
        return this.#parts[parameter]![["values", "scales", "minimums"].indexOf(part)]!
      }
      expect(binding).toEqual({ kind: "step", region: { name: "count", of: "wanted" } })
      return Memory.of(Uint32Array.of(count))
    }
    for (const { kernel, operands, groups } of launches) {
      checkKernel(kernel)
      // There may be more groups than there are rows.
      const all = groups.map((of) => {
        if (typeof of === "number") return of
        return Math.ceil(count / of.per) + 1
      })
      runKernel(kernel, operands.map(operandOf), all as [number, number, number])
    }
    if (isRounded) return this.#rounded(places, expected, count)
    const stride = strideOf(this.#plan.buffers[OUTPUT]!)
    const rows = places[OUTPUT]!.f32()
    const computed = Float32Array.from(
      { length: count * outputs },
      (_, i) => rows[Math.floor(i / outputs) * stride + from + (i % outputs)]!,
    )
    return { computed: bitsOf(computed), expected: bitsOf(expected) }
  }

  /** Codes and zeros behind them, then the bits of scales. */
  #rounded(places: readonly Memory[], expected: Float32Array, count: number) {
    const { outputs } = this.#product
    const group = this.#roundedGroup
    const [codes, scales] = [ROUNDED, ROUNDED_SCALES].map((id) => strideOf(this.#plan.buffers[id]!))
    const perRow = Math.ceil(outputs / group)
    const rounded = {
      ...{ codes: new Int8Array(count * outputs), columns: outputs, group },
      scales: new Float32Array(count * perRow),
    }
    const rows = { data: expected, stride: outputs, from: 0, columns: outputs }
    for (let row = 0; row < count; row++) quantize(rows, rounded, row)
    const wanted = Array.from({ length: count }, (_, row) => [
      ...rounded.codes.subarray(row * outputs, (row + 1) * outputs),
      ...new Int8Array(codes! - outputs),
      ...bitsOf(rounded.scales.slice(row * perRow, (row + 1) * perRow)),
    ])
    const found = Array.from({ length: count }, (_, row) => [
      ...places[ROUNDED]!.i8().subarray(row * codes!, (row + 1) * codes!),
      ...bitsOf(places[ROUNDED_SCALES]!.f32().slice(row * scales!, row * scales! + perRow)),
    ])
    return { computed: found.flat(), expected: wanted.flat() }
  }

  /** Rows of a buffer. Behind the last column of codes there are zeros; of 16 bits, the upper byte is no -128. */
  #rowsOf(buffer: Buffer, count: number): Float32Array | Int8Array {
    const { columns, dtype } = buffer
    const stride = strideOf(buffer)
    const { from = 0 } = this.#product
    const first = dtype === "f32" ? from : 0
    const isThere = (i: number) => {
      if (dtype !== "i8" || this.#product.input !== "int16") return i < columns
      return Math.floor(i / 64) * 32 + (i % 32) < this.#product.columns
    }
    const isOwn = (i: number) => i % stride >= first && isThere(i % stride)
    const length = count * stride
    if (dtype === "i8")
      return Int8Array.from({ length }, (_, i) => (isOwn(i) ? (this.#next() % 255) - 127 : 0))
    const float = () => this.#next() / 2 ** 31 - 1
    return Float32Array.from({ length }, (_, i) => (isOwn(i) ? float() : Number.NaN))
  }

  /** As machine.ts multiplies. */
  #expected(
    data: readonly (Float32Array | Int8Array)[],
    count: number,
    { times, applied }: Pick<Product, "times" | "applied">,
  ): Float32Array {
    const { codec, input, columns, outputs, end = "store", bias, from = 0 } = this.#product
    const { epilogue } = this.#step
    const { buffers } = this.#plan
    const kept = { int8: "codes", int16: "wide", float: "floats" } as const
    const stored = referenceWeights(this.#weights, kept[input])
    const { values: biases } = referenceWeights(this.#bias, "floats") as Floats
    const strideIn = (buffer: number) => strideOf(buffers[buffer]!)
    const tight = <T extends Float32Array | Int8Array>(buffer: number) => {
      const { columns } = buffers[buffer]!
      return data[buffer]!.filter((_, i) => i % strideIn(buffer) < columns) as T
    }
    const group = input === "int8" ? groupCodecs[codec as GroupCodecName].group : 32
    const codes = { codes: tight<Int8Array>(CODES), scales: tight<Float32Array>(SCALES) }
    const quantized = { ...codes, columns, group }
    const floats = { data: data[INPUT] as Float32Array, stride: strideIn(INPUT), from, columns }
    const ends = partEnds(columns, codec, 8)
    const sums = new Float64Array(4 * ends.length)
    const out = new Float32Array(count * outputs)
    for (let row = 0; row < count; row++)
      for (let n = 0; n < outputs; n++) {
        const wanted = [n, epilogue.kind === "gated" ? n + outputs : n, n, n] as const
        for (const [part, last] of ends.entries()) {
          const [first, own] = [ends[part - 1] ?? 0, sums.subarray(4 * part, 4 * part + 4)]
          if (input === "int8")
            dotCodesFour(quantized, row, stored as Codes, wanted, first, last, own)
          else if (input === "int16")
            dotWideFour(quantized, row, stored as Floats, wanted, first, last, own)
          else dotFour(floats, row, stored as Floats, wanted, first, last, own)
        }
        addParts(sums)
        const [y, up] = [0, 1].map((i) =>
          bias ? fround(sums[i]! + biases[wanted[i]!]!) : sums[i]!,
        )
        const at = row * outputs + n
        if (epilogue.kind === "gated") out[at] = elementwise[epilogue.activation].js(y!) * up!
        else if (times)
          out[at] = elementwise[times].js(y!) * data[TO]![row * strideIn(TO) + from + n]!
        else if (applied) out[at] = elementwise[applied[0]].js(y!, applied[1])
        else if (end === "store") out[at] = y!
        else {
          const to = end === "add" ? OUTPUT : TO
          out[at] = data[to]![row * strideIn(to) + from + n]! + y!
        }
      }
    return out
  }
}

const bitsOf = (values: Float32Array) => new Uint32Array(values.buffer)

/** One row more than a group takes. */
function rowsFor({ launches }: Choice): number {
  const rows = launches.at(-1)!.groups[1]
  return typeof rows === "number" ? rows : rows.per + 1
}

function expectEqualBits(product: Product, rows = rowsFor): void {
  const own = new Case(product)
  const units = product.input === "float" ? [] : (["tiles", "bytes", "halves"] as const)
  const all = [own.choices(), ...units.map((each) => own.choices(each))].flat()
  const known = new Set<Kernel>()
  for (const choice of all) {
    const { kernel } = choice.launches.at(-1)!
    if (known.has(kernel)) continue
    known.add(kernel)
    const { computed, expected } = own.run(choice, rows(choice))
    expect(computed, kernel.name).toEqual(expected)
  }
}

const floats = Object.keys(floatBytes) as FloatType[]

// Parts of two groups and of three, the last of which ends early; lanes have columns of several panels, and some none.
describe("codes meet", () => {
  test.each(groupCodecNames.filter(isIntegerCodec))("%s", (codec) => {
    const columns = 18 * groupCodecs[codec].group + 5
    expectEqualBits({ codec, input: "int8", columns, outputs: 70 })
  })
})

test.each(activations)(
  "rows are activated with %s, multiplied with others and rounded",
  (times) => {
    const product = { codec: "q4f16_1", input: "int8", columns: 300, outputs: 70 } as const
    const own = new Case({ ...product, rounds: "q4f16_1", times, bias: true, from: 3 })
    expect(own.ending?.applied?.function).toBe(times)
    expectEqualBits({ ...product, rounds: "q4f16_1", times })
    expectEqualBits({ ...product, rounds: "q4f16_1", times, bias: true, from: 3 })
  },
)

test("something is applied to rows where they are few", () => {
  const applied = { outputs: 37, applied: ["cap", 3] } as const
  expectEqualBits({ codec: "bf16", input: "float", columns: 41, bias: true, ...applied })
  expectEqualBits({ codec: "q4f16_1", input: "int8", columns: 300, from: 3, ...applied })
})

test("nothing is applied to rows that others read, or where a group of threads still reads", () => {
  const view = (buffer: number) => ({ buffer, from: 0, columns: 32 })
  const product = {
    ...{ rows: "tokens", op: "matmul", input: { kind: "float", view: view(INPUT) }, weight: 0 },
    ...{ bias: undefined, parts: 8, epilogue: { kind: "store" }, output: view(OUTPUT) },
  } as Matmul
  const applied = (output: number, later: Step[] = []) => {
    const apply = { rows: "tokens", op: "apply", function: "cap", by: 3 } as const
    const behind: Step[] = [{ ...apply, input: view(OUTPUT), output: view(output) }]
    const results = { logits: view(output), hidden: view(-1) }
    const steps = [product, ...behind, ...later]
    const plan = { ...results, steps, parameters: [{ codec: "f16" }] } as unknown as Plan
    return endingOf(plan, product, behind) !== undefined
  }
  const copy = (from: number): Step => {
    return { rows: "tokens", op: "copy", input: view(from), output: view(TO) }
  }
  expect(applied(OUTPUT)).toBe(true)
  expect(applied(ACTIVATED, [copy(ACTIVATED)])).toBe(true)
  expect(applied(OUTPUT, [copy(OUTPUT)])).toBe(true)
  expect(applied(ACTIVATED, [copy(OUTPUT)])).toBe(false)
  expect(applied(INPUT)).toBe(false)
})

// Parts of four groups and of five, where up to four are on their way at once.
test.each([
  ["q4f16_1", "store"],
  ["q4f16_1", "silu"],
  ["q4_k", "store"],
  ["q8_0", "silu"],
] as const)("many groups of %s in tiles, %s", (codec, end) => {
  const own = new Case({ codec, input: "int8", columns: 36 * 32 + 5, outputs: 32, end })
  for (const choice of own.choices("tiles").slice(-3)) {
    const { computed, expected } = own.run(choice, 3)
    expect(computed, choice.launches[0]!.kernel.name).toEqual(expected)
  }
})

describe("codes of 16 bits meet", () => {
  test.each([
    ["f16", 33],
    ["bf16", 20],
  ] as const)("%s", (codec, outputs) => {
    expectEqualBits({ codec, input: "int16", columns: 9 * 32 + 5, outputs })
  })

  test("gates, biases and few columns", () => {
    const what = { codec: "bf16", input: "int16", bias: true, from: 4 } as const
    expectEqualBits({ ...what, columns: 41, outputs: 37, end: "silu" }, () => 3)
    expectEqualBits({ ...what, columns: 7, outputs: 3, end: "add to" }, () => 3)
  })
})

describe("floats meet", () => {
  test.each<CodecName>([...floats, ...groupCodecNames])("%s", (codec) => {
    const columns = isGroupCodec(codec) ? 9 * groupCodecs[codec].group + 5 : 581
    expectEqualBits({ codec, input: "float", columns, outputs: 70 })
  })

  test.each([...floats, "q4f16_1", "q3f16_1"] as const)("%s, and begin anywhere", (codec) => {
    expectEqualBits({ codec, input: "float", columns: 90, outputs: 33, from: 3 }, () => 3)
  })
})

describe.each([
  { codec: "q4_k", input: "int8" },
  { codec: "f16", input: "float" },
] as const)("$codec and what becomes of sums:", (what) => {
  test.each(["store", "add", "add to", ...activations] as const)("%s", (end) => {
    expectEqualBits({ ...what, columns: 100, outputs: 37, end, bias: true, from: 4 }, () => 5)
  })

  test("gates that lie in their panels as their up rows do", () => {
    expectEqualBits({ ...what, columns: 40, outputs: 64, end: "silu" }, () => 3)
  })
})

describe("rows that a product of few rounds itself", () => {
  test.each([
    ["q4f16_1", 70, "silu"],
    ["q6_k", 37, "gelu"],
    ["q4f16_1", 64, "store"],
  ] as const)("for %s, %i columns, %s", (rounds, outputs, end) => {
    const what = { codec: "q4f16_1", input: "int8", columns: 100, bias: true } as const
    const product = { ...what, outputs, end, rounds }
    const names = new Case(product).choices().map(({ launches }) => launches[0]!.kernel.name)
    expect(names.map((name) => name.includes("codes"))).toEqual([true, true, true, true, false])
    expectEqualBits(product, () => 3)
  })

  test("of groups that no panel is whole ones of, of what is added up and in place of its input, others do", () => {
    const what = { codec: "q4f16_1", input: "int8", columns: 64, outputs: 80 } as const
    for (const other of [
      { rounds: "q3f16_1" },
      { rounds: "q4f16_1", end: "add" },
      { rounds: "q4f16_1", roundsInPlace: true },
    ] as const)
      for (const { launches } of new Case({ ...what, ...other }).choices())
        expect(launches[0]!.kernel.name).not.toContain("codes")
  })

  test("a barrier less is a race", () => {
    const what = { codec: "q4f16_1", input: "int8", columns: 64, outputs: 40 } as const
    const own = new Case({ ...what, end: "silu", rounds: "q4f16_1" })
    const [one] = own.choices() as [Choice]
    const [launch] = one.launches as [Launch]
    const { body } = launch.kernel
    for (const barrier of body.filter(({ kind }) => kind === "barrier")) {
      const kernel = { ...launch.kernel, body: body.filter((each) => each !== barrier) }
      expect(() => own.run({ ...one, launches: [{ ...launch, kernel }] }, 1)).toThrow("a race")
    }
  })
})

test.each([2, 7, 31, 33, 64])("%i columns: parts that have none", (columns) => {
  for (const codec of ["q4f16_1", "q8f16_1", "q2_k"] as const)
    expectEqualBits({ codec, input: "int8", columns, outputs: 33 }, () => 2)
  for (const codec of ["f32", "bf16"] as const)
    expectEqualBits({ codec, input: "float", columns, outputs: 33 }, () => 2)
})

test("rows choose among kernels", () => {
  const names = new Case({ codec: "q8_0", input: "int8", columns: 64, outputs: 8 })
    .choices()
    .map(({ most, launches }) => [most, launches[0]!.kernel.name])
  expect(names).toEqual([
    [1, "few1_q8_0_store"],
    [2, "few2_q8_0_store"],
    [4, "few4_q8_0_store"],
    [64, "few8_q8_0_store"],
    [undefined, "tile64_q8_0_store"],
  ])
})

test("products of other sizes have the same kernels", () => {
  const kernels = ([128, 300] as const).map((columns) =>
    new Case({ codec: "q6_k", input: "int8", columns, outputs: columns / 4 })
      .choices()
      .map(({ launches }) => launches.map(({ kernel }) => kernel)),
  )
  expect(JSON.stringify(kernels[0])).toBe(JSON.stringify(kernels[1]))
})
