// Products of every head's columns with rows of the matrix that are its own: how latent attention goes from heads to what is
// remembered, and back. Each product is one sum, in the order of the columns, by a thread; of several rows a group takes some
// together, so that the matrix is read once for them.

import { type CodecName, isGroupCodec } from "../../../../runtime/format.ts"
import type { Plan, Step } from "../../../plan.ts"
import { f32, fma, kernel, once, u32, type Value } from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import type { Choice } from "../launch.ts"
import { strideOf } from "../layout.ts"
import { columnValue, numbersOf, weightBindings, weightBuffers, weightRow } from "./weights.ts"

type HeadMatmul = Extract<Step, { op: "headMatmul" }>

const THREADS = 64
const TOGETHER = 4

const product = once(headProduct)

export function headChoices(plan: Plan, step: HeadMatmul): Choice[] {
  const { rows, input, weight, heads, kept, output } = step
  const { codec, columns } = plan.parameters[weight]!
  const made = output.columns / heads
  const choice = (most: number | undefined, together: number): Choice => ({
    most,
    launches: [
      {
        kernel: product(codec, together, kept),
        operands: [
          { kind: "step", region: { name: "count", of: rows } },
          { kind: "buffer", buffer: input.buffer, from: input.from },
          ...weightBindings(plan, weight),
          { kind: "buffer", buffer: output.buffer, from: output.from },
          columns,
          made - kept,
          strideOf(plan.buffers[input.buffer]!),
          strideOf(plan.buffers[output.buffer]!),
        ],
        groups: [Math.ceil(Math.max(made - kept, kept) / THREADS), { rows, per: together }, heads],
      },
    ],
  })
  return [choice(1, 1), choice(undefined, TOGETHER)]
}

/** Groups: [64 columns of a head each, `together` rows each, heads]. */
function headProduct(codec: CodecName, together: number, kept: number): Kernel {
  const packed = isGroupCodec(codec) ? "_unpacked" : ""
  return kernel(`heads${together}_${codec}${packed}_kept${kept}`, THREADS, (k) => {
    const count = k.buffer("count", "u32", "read").load(0)
    const input = k.buffer("input", "f32", "read")
    const parts = weightBuffers(k, codec)
    const output = k.buffer("output", "f32", "write")
    const columns = k.word("columns")
    const outputs = k.word("outputs")
    const [inputStride, outputStride] = [k.word("inputStride"), k.word("outputStride")]
    const numbers = numbersOf(k, codec)

    const head = k.group(2)
    const first = k.let(k.group(1).mul(together), "firstRow")
    const column = k.let(k.group(0).mul(THREADS).add(k.lane), "column")
    const rows = Array.from({ length: together }, (_, r) => k.let(first.add(r)))
    k.if(first.lt(count), () => {
      const begins = rows.map((row) => {
        const own = row.min(count.sub(1)).mul(inputStride)
        return k.let(own.add(head.mul(columns.add(kept))))
      })
      const to = (row: Value) => k.let(row.mul(outputStride).add(head.mul(outputs.add(kept))))
      k.if(column.lt(outputs), () => {
        const own = weightRow(k, { codec, columns, ...parts }, head.mul(outputs).add(column))
        const sums = rows.map(() => k.variable(f32(0), "sum"))
        const add = (number: Value, at: Value) => {
          for (const [r, sum] of sums.entries())
            sum.set(fma(input.load(begins[r]!.add(kept).add(at)), number, sum.now))
        }
        const whole = k.let(columns.div(numbers.columns))
        k.for(0, whole, 1, (index) => {
          const from = k.let(index.mul(numbers.columns))
          for (const [c, number] of numbers.load(own, index)().entries())
            add(k.let(number), k.let(from.add(c)))
        })
        k.for(whole.mul(numbers.columns), columns, 1, (at) => add(columnValue(k, own, at), at))
        for (const [r, sum] of sums.entries())
          k.if(rows[r]!.lt(count), () => output.store(to(rows[r]!).add(column), sum.now))
      })
      if (kept > 0)
        k.if(column.lt(u32(kept)), () => {
          for (const [r, row] of rows.entries())
            k.if(row.lt(count), () => {
              const value = input.load(begins[r]!.add(column))
              output.store(to(row).add(outputs).add(column), value)
            })
        })
    })
  })
}
