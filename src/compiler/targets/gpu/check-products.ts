// Products of every codec, and the kernels that pack its weights, on twenty shapes each. What is multiplied looks random: no
// result means anything, and all a device has to do is to compute what the slow twin does.

import { narrow } from "../../../runtime/dtype.ts"
import {
  type CodecName,
  floatBytes,
  groupCodecNames,
  groupCodecs,
  isGroupCodec,
  isIntegerCodec,
  type RoundingCodec,
  rowLayout,
} from "../../../runtime/format.ts"
import type { Parameter } from "../../../runtime/manifest.ts"
import { type Buffer, type Plan, type Step, wideCodes } from "../../plan.ts"
import { arrays, type CheckedKernel, type Numbers, SHAPES, type ShapedCase } from "./check-cases.ts"
import { mulberry32 } from "./check-random.ts"
import { elementBytes, type Kernel } from "./ir/ir.ts"
import { endingOf, matmulChoices } from "./kernels/matmul.ts"
import { packOf } from "./kernels/pack.ts"
import { groupWidth } from "./kernels/products.ts"
import type { Units } from "./kernels/tiles.ts"
import type { Binding } from "./launch.ts"
import { PANEL, type PartName, strideOf, weightLayout, wholeColumns } from "./layout.ts"

type Matmul = Extract<Step, { op: "matmul" }>
type Random = () => number

const codecs: readonly CodecName[] = ["f32", "f16", "bf16", ...groupCodecNames]

/** A matrix and what it meets: codes of its own width where it has such. */
interface Pair {
  codec: CodecName
  input: Matmul["input"]["kind"]
}

const pairs: readonly Pair[] = [
  ...codecs.map((codec): Pair => ({ codec, input: isIntegerCodec(codec) ? "int8" : "float" })),
  ...(["f16", "bf16"] as const).map((codec): Pair => ({ codec, input: "int16" })),
]

/** Rows, columns and columns of the output: of each one, few, odd ones, and more than threads, groups and tiles take. */
const sizes: readonly (readonly [number, number, number])[] = [
  [9, 72, 37],
  [1, 2, 1],
  [2, 3, 2],
  [3, 8, 32],
  [5, 15, 33],
  [7, 16, 5],
  [8, 17, 31],
  [1, 31, 64],
  [17, 32, 3],
  [4, 33, 65],
  [1, 39, 70],
  [33, 40, 8],
  [6, 41, 1],
  [1, 63, 34],
  [2, 64, 7],
  [65, 65, 4],
  [1, 256, 66],
  [10, 97, 16],
  [3, 1160, 12],
  [3, 7, 95],
]

// ------------------------------------------------------------------ numbers

/** Floats between -1 and 1, and small ones among them. */
function smallFloats(count: number, next: Random): Float32Array {
  return Float32Array.from({ length: count }, () => (next() / 2 ** 31 - 1) * 2 ** -(next() % 8))
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Numbers) =>
  new Uint8Array(buffer, byteOffset, byteLength)

const codeWords = (bytes: number, next: Random) =>
  bytesOf(Uint32Array.from({ length: Math.ceil(bytes / 4) }, next)).subarray(0, bytes)

/** A parameter as it lies on a device, part by part. */
export function randomParts(
  parameter: Pick<Parameter, "rows" | "columns" | "codec">,
  next: Random,
): Map<PartName, Uint8Array> {
  const { codec, columns } = parameter
  const floats = (bytes: number, type: keyof typeof floatBytes) =>
    narrow(smallFloats(bytes / floatBytes[type], next), type)
  const made = ({ name, bytes }: { name: PartName; bytes: number }) => {
    if (columns === 1) return floats(bytes, "f32")
    if (!isGroupCodec(codec)) return floats(bytes, codec)
    return name === "values" ? codeWords(bytes, next) : floats(bytes, groupCodecs[codec].dtype)
  }
  return new Map(weightLayout(parameter).parts.map((part) => [part.name, made(part)]))
}

/** Bytes as what a kernel's operand has them for. */
export function asOperand({ operands }: Kernel, i: number, bytes: Uint8Array): Numbers {
  const operand = operands[i]!
  if (operand.kind === "word") throw new Error(`internal: ${operand.name} is no buffer`)
  const { element } = operand
  const own = bytes.slice() // at the beginning of memory of its own
  return new arrays[element](own.buffer, 0, Math.floor(own.length / elementBytes[element]))
}

// ------------------------------------------------------------------ products

const [CODES, SCALES, INPUT, OUTPUT, TO, ROUNDED, ROUNDED_SCALES] = [0, 1, 2, 3, 4, 5, 6]
const [WEIGHT, BIAS] = [0, 1]

const epilogues = [
  { kind: "store" },
  { kind: "add", to: OUTPUT },
  { kind: "gated", activation: "silu" },
  { kind: "add", to: TO },
] as const

/** A plan of one product. */
function productPlan(
  { codec, input: kind }: Pair,
  [columns, outputs]: readonly [number, number],
  number: number,
): { plan: Plan; step: Matmul; rounding: Step } {
  const end = epilogues[number % epilogues.length]!
  const rows = end.kind === "gated" ? 2 * outputs : outputs
  const hasBias = number % 3 === 1
  const buffer = (width: number, dtype: Buffer["dtype"]): Buffer => {
    return { capacity: "tokens", columns: width, dtype }
  }
  const view = (id: number, width: number) => ({ buffer: id, from: 0, columns: width })
  const output = view(OUTPUT, outputs)
  const group = groupWidth(codec)
  const step: Matmul = {
    rows: "wanted",
    op: "matmul",
    input:
      kind === "float"
        ? { kind, view: view(INPUT, columns) }
        : {
            kind,
            codes: {
              codes: CODES,
              scales: SCALES,
              columns,
              group,
              codec: codec as RoundingCodec,
            },
          },
    weight: WEIGHT,
    bias: hasBias ? BIAS : undefined,
    parts: 8,
    epilogue: end.kind === "add" ? { kind: "add", to: view(end.to, outputs) } : end,
    output,
  }
  const rounding: Extract<Step, { op: "quantize" }> = {
    rows: "wanted",
    op: "quantize",
    input: output,
    output: {
      ...{ codes: ROUNDED, scales: ROUNDED_SCALES, columns: outputs },
      ...{ group: number % 16 < 8 ? 32 : 16, codec: number % 16 < 8 ? "q4f16_1" : "q6_k" },
    },
  }
  const parameter = (name: string, width: number, own: CodecName): Parameter => {
    return { name, rows, columns: width, codec: own, sources: [] }
  }
  const plan: Plan = {
    architecture: "check",
    format: "gguf",
    shapes: {
      vocabulary: 1,
      hidden: columns,
      layers: 0,
      heads: 1,
      kvHeads: 1,
      headDim: 1,
      intermediate: 1,
      context: 1,
    },
    sinks: 0,
    kv: "f32",
    groups: [],
    parameters: [parameter("weight", columns, codec), parameter("bias", 1, "f32")],
    buffers: [
      buffer(kind === "int16" ? wideCodes(columns) : columns, "i8"),
      buffer(Math.ceil(columns / group), "scales"),
      buffer(columns, "f32"),
      buffer(outputs, "f32"),
      buffer(outputs, "f32"),
      buffer(outputs, "i8"),
      buffer(Math.ceil(outputs / rounding.output.group), "scales"),
    ],
    steps: [step, rounding],
    logits: view(TO, outputs),
    hidden: view(TO, outputs),
  }
  return { plan, step, rounding }
}

/** A product of one of the sizes, and those that its rows choose among; each takes any number of rows. */
function productOf(pair: Pair, number: number, units: readonly Units[], shape: number) {
  const [rows, width, some] = sizes[shape]!
  const columns = wholeColumns(pair.codec, width)
  // Where a gated product's kernel depends on it, both halves of the matrix begin with a panel.
  const isEven = units[0] === "tiles" && epilogues[number % epilogues.length]!.kind === "gated"
  const outputs = isEven ? Math.ceil(some / PANEL) * PANEL : some
  const { plan, step, rounding } = productPlan(pair, [columns, outputs], number)
  // Of gated ones every other is rounded.
  const codes = number % 8 < 4 ? endingOf(plan, step, [rounding]) : undefined
  return { rows, columns, outputs, plan, choices: matmulChoices(plan, step, units, codes) }
}

function productCase(
  pair: Pair,
  number: number,
  [choice, launch]: readonly [number, number],
  units: readonly Units[],
  shape: number,
): ShapedCase {
  const { rows, columns, outputs, plan, choices } = productOf(pair, number, units, shape)
  const { kernel, operands, groups } = choices[choice]!.launches[launch]!
  const next = mulberry32(1000 * shape + number)
  const parameters = plan.parameters.map((parameter) => randomParts(parameter, next))
  const bytesFor = (binding: Exclude<Binding, number>): Uint8Array => {
    if (binding.kind === "step") return bytesOf(Uint32Array.of(rows))
    if (binding.kind === "weight")
      return parameters[binding.parameter]!.get(binding.part as PartName)!
    if (binding.kind === "scratch") {
      const { fixed = 0, perToken = 0 } = binding.bytes
      const length = fixed + rows * perToken
      return binding.name === "laid codes"
        ? codeWords(length, next)
        : bytesOf(smallFloats(length / 4, next))
    }
    if (binding.kind !== "buffer") throw new Error(`internal: a product has no ${binding.kind}`)
    const buffer = plan.buffers[binding.buffer]!
    const length = rows * strideOf(buffer)
    if (buffer.dtype !== "i8") return bytesOf(smallFloats(length, next))
    return bytesOf(Int8Array.from({ length }, () => (next() % 255) - 127))
  }
  return {
    shape: `${rows} rows of ${columns}, ${outputs} columns`,
    kernel,
    operands: operands.map((binding, i) =>
      typeof binding === "number" ? binding : asOperand(kernel, i, bytesFor(binding)),
    ),
    groups: groups.map((of) => (typeof of === "number" ? of : Math.ceil(rows / of.per))) as [
      number,
      number,
      number,
    ],
  }
}

/** Of each codec one row or two at a time, four or eight (or sixteen), and tiles; what lays rows for these, once. */
function productKernels(units: readonly Units[]): CheckedKernel[] {
  const names = new Set<string>()
  return pairs.flatMap((pair, number) => {
    const { choices } = productOf(pair, number, units, 0)
    return [number % 2, 2 + (number % 2), choices.length - 1].flatMap((choice) =>
      choices[choice]!.launches.flatMap(({ kernel }, launch) => {
        const { name } = kernel
        if (names.has(name)) return []
        names.add(name)
        const at = (shape: number) => productCase(pair, number, [choice, launch], units, shape)
        return [{ name, kernel, profiles: "first" as const, shapes: SHAPES, at }]
      }),
    )
  })
}

// ------------------------------------------------------------------ packing

/** A window of a parameter: rows of all from one on, and columns. Windows end where the parameter does, or before. */
const windowOf = (shape: number) => {
  const [rows, columns, row] = sizes[shape]!
  return { row, rows, columns, all: row + rows + (shape % 3 === 0 ? 0 : row) }
}

function packCase(codec: CodecName, isVector: boolean, shape: number): ShapedCase {
  const { row, rows, all, ...size } = windowOf(shape)
  const columns = isVector ? 1 : wholeColumns(codec, size.columns)
  const next = mulberry32(shape + 500)
  const { kernel, operands, groups } = packOf({ rows: all, columns, codec })
  const { bytes, scaleBytes } = rowLayout(codec, columns)
  const floats = (length: number, type: keyof typeof floatBytes) =>
    narrow(smallFloats(length / floatBytes[type], next), type)
  const given = {
    values: isGroupCodec(codec) ? codeWords(rows * bytes, next) : floats(rows * bytes, codec),
    scales: isGroupCodec(codec)
      ? floats(rows * scaleBytes, groupCodecs[codec].dtype)
      : new Uint8Array(),
  }
  const { parts } = weightLayout({ rows: all, columns, codec })
  const [first, second, third] = groups
  return {
    shape: `${rows} of ${all} rows of ${columns} from row ${row} on`,
    kernel,
    operands: operands.map((operand, i) => {
      if (typeof operand === "number") return operand
      if ("number" in operand) return { row, rows }[operand.number]
      if ("given" in operand) return asOperand(kernel, i, given[operand.given])
      const { bytes: length } = parts.find(({ name }) => name === operand.part)!
      return asOperand(kernel, i, new Uint8Array(length))
    }),
    groups: [Math.ceil(rows / first.per), second, third],
  }
}

const packKernels: readonly CheckedKernel[] = [
  ...codecs.map((codec) => ({ codec, isVector: false })),
  ...(["f32", "f16", "bf16"] as const).map((codec) => ({ codec, isVector: true })),
].map(({ codec, isVector }) => {
  const at = (shape: number) => packCase(codec, isVector, shape)
  const { kernel } = at(0)
  return { name: kernel.name, kernel, profiles: "first" as const, shapes: SHAPES, at }
})

export function weightKernels(units: readonly Units[]): CheckedKernel[] {
  return [...packKernels, ...productKernels(units)]
}
