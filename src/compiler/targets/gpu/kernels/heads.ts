// Products of every head's columns with rows of the matrix that are its own: how latent attention goes from heads to what is
// remembered, and back. Each product is one sum, in the order of the columns, by a thread; of several rows a group takes some
// together, so that the matrix is read once for them.
//
// On the way there a product may turn what it keeps of each head as it goes, in the place of a kernel for that alone.
// On the way back a group merges the softmaxes of its head's spans first, where any wait (merge.ts), and may round what it makes.

import { type CodecName, isGroupCodec, isWideCodec } from "../../../../runtime/format.ts"
import { NO_ITEM } from "../../../../runtime/gpu/attention-work.ts"
import type { Codes, Plan, Step } from "../../../plan.ts"
import { isReadBehind } from "../../runs.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  kernel,
  once,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import type { Kernel } from "../ir/ir.ts"
import type { Binding, Choice } from "../launch.ts"
import { strideOf } from "../layout.ts"
import type { Attend, Waiting } from "./attend.ts"
import { roundedWord } from "./codes.ts"
import { MERGE_THREADS, Merge, MOST_MERGED, workOf } from "./merge.ts"
import { turnedPair } from "./numbers.ts"
import { canRound } from "./products.ts"
import { columnValue, numbersOf, weightBindings, weightBuffers, weightRow } from "./weights.ts"

type HeadMatmul = Extract<Step, { op: "headMatmul" }>
type Rope = Extract<Step, { op: "rope" }>

const THREADS = MERGE_THREADS
const TOGETHER = 4
/** Columns of a head that are merged, at most: those of some rows lie in shared memory. */
const MOST_COLUMNS = 768

const product = once(headProduct)

/** Whether a product merges what attention before it leaves to be merged, and nobody else reads that. */
export function mergesHeads(plan: Plan, attend: Attend, step: Step | undefined): boolean {
  if (step?.op !== "headMatmul" || step.kept > 0 || step.rows !== attend.rows) return false
  const { buffer, from, columns } = step.input
  const { output } = attend
  if (buffer !== output.buffer || from !== output.from || columns !== output.columns) return false
  const isSmall = columns / step.heads <= MOST_COLUMNS && step.heads === attend.attention.heads
  return isSmall && !isReadBehind(plan, plan.steps.indexOf(step), output)
}

/** The codes that a product makes of its rows instead of the step behind, if nobody else reads these. */
export function headCodes(
  plan: Plan,
  step: HeadMatmul,
  behind: readonly Step[],
): Codes | undefined {
  const [next, ...others] = behind
  if (next?.op !== "quantize" || others.length > 0 || next.rows !== step.rows) return undefined
  const { codec, group } = next.output
  const { buffer, from, columns } = next.input
  const { output, heads, kept } = step
  if (isWideCodec(codec) || !canRound(group) || kept > 0) return undefined
  if (buffer !== output.buffer || from !== output.from || columns !== output.columns)
    return undefined
  const ofHead = columns / heads
  if (ofHead % group !== 0 || ofHead % 16 !== 0) return undefined
  return isReadBehind(plan, plan.steps.indexOf(next), output) ? undefined : next.output
}

/** The turning of what a product keeps of each head, if that is all the run before it does and nobody else reads that. */
export function headTurning(
  plan: Plan,
  run: readonly Step[],
  step: Step | undefined,
): Rope | undefined {
  const [rope, ...others] = run
  if (rope?.op !== "rope" || others.length > 0) return undefined
  if (step?.op !== "headMatmul" || step.rows !== rope.rows) return undefined
  const { view, headDim, ropeTable } = rope
  const { buffer, from, columns } = step.input
  if (buffer !== view.buffer || from !== view.from || columns !== view.columns) return undefined
  if (ropeTable.columns !== step.kept || headDim * step.heads !== columns) return undefined
  return isReadBehind(plan, plan.steps.indexOf(step), view) ? undefined : rope
}

/** What a product does beside its own. */
interface Also {
  /** What the step before leaves, which it merges. */
  waiting?: Waiting | undefined
  /** What becomes of its rows. */
  codes?: Codes | undefined
  /** How it turns what it keeps. */
  rope?: Rope | undefined
}

export function headChoices(
  plan: Plan,
  step: HeadMatmul,
  { waiting, codes, rope }: Also = {},
): Choice[] {
  const { rows, input, weight, heads, kept, output } = step
  const { codec, columns } = plan.parameters[weight]!
  const made = output.columns / heads
  const to: Binding[] = codes
    ? [codes.codes, codes.scales].map((buffer) => ({ kind: "buffer", buffer, from: 0 }))
    : [{ kind: "buffer", buffer: output.buffer, from: output.from }]
  const stride = (buffer: number) => strideOf(plan.buffers[buffer]!)
  const strides = codes ? [stride(codes.codes) / 4, stride(codes.scales)] : [stride(output.buffer)]
  const choice = (most: number | undefined, together: number, merged?: Waiting): Choice => ({
    most,
    launches: [
      {
        kernel: product(codec, together, kept, merged && columns, codes?.group, rope?.rows),
        operands: [
          { kind: "step", region: { name: "count", of: rows } },
          { kind: "buffer", buffer: input.buffer, from: input.from },
          ...weightBindings(plan, weight),
          ...to,
          ...(merged ? waitingBindings(merged) : []),
          ...(rope ? turningBindings(rope) : []),
          columns,
          made - kept,
          stride(input.buffer),
          ...strides,
          ...(rope ? [stride(rope.ropeTable.buffer)] : []),
        ],
        groups: [Math.ceil(Math.max(made - kept, kept) / THREADS), { rows, per: together }, heads],
      },
    ],
  })
  return [
    choice(1, 1, waiting),
    ...(waiting ? [choice(MOST_MERGED, TOGETHER, waiting)] : []),
    choice(undefined, TOGETHER),
  ]
}

const waitingBindings = ({ of, items, partials }: Waiting): Binding[] => [
  { kind: "step", region: { name: "waiting", of } },
  items,
  partials,
]

const turningBindings = ({ rows, ropeTable: { buffer, from } }: Rope): Binding[] => [
  { kind: "buffer", buffer, from },
  ...(rows === "tokens"
    ? []
    : [{ kind: "step", region: { name: "tokensOf", set: rows } } as const]),
]

/**
 * Groups: [64 columns of a head each, `together` rows each, heads].
 * @param merged columns of a head, if softmaxes may wait to be merged
 * @param rounds columns that have one scale, if rows are rounded
 * @param turned which rows they are whose kept columns are turned; absent: these are copied
 */
function headProduct(
  codec: CodecName,
  together: number,
  kept: number,
  merged: number | undefined,
  rounds: number | undefined,
  turned: Step["rows"] | undefined,
): Kernel {
  const packed = isGroupCodec(codec) ? "_unpacked" : ""
  const more = `${merged ? "_merged" : ""}${rounds ? `_codes${rounds}` : ""}${turned ? `_turned_${turned}` : ""}`
  return kernel(`heads${together}_${codec}${packed}_kept${kept}${more}`, THREADS, (k) => {
    const count = k.buffer("count", "u32", "read").load(0)
    const input = k.buffer("input", "f32", "read")
    const parts = weightBuffers(k, codec)
    const output = rounds ? undefined : k.buffer("output", "f32", "write")
    const codes = rounds ? k.buffer("codes", "u32", "write") : undefined
    const scales = rounds ? k.buffer("scales", "f32", "write") : undefined
    const waiting = merged ? k.buffer("waiting", "u32", "read") : undefined
    const items = merged ? k.buffer("items", "u32", "read") : undefined
    const partials = merged ? k.buffer("partials", "f32", "read") : undefined
    const turns = turned ? k.buffer("turns", "f32", "read") : undefined
    const tokens = turned && turned !== "tokens" ? k.buffer("tokens", "u32", "read") : undefined
    const columns = k.word("columns")
    const outputs = k.word("outputs")
    const [inputStride, outputStride] = [k.word("inputStride"), k.word("outputStride")]
    const scaleStride = rounds ? k.word("scaleStride") : undefined
    const turnStride = turns && k.word("turnStride")
    const numbers = numbersOf(k, codec)

    const head = k.group(2)
    const first = k.let(k.group(1).mul(together), "firstRow")
    const column = k.let(k.group(0).mul(THREADS).add(k.lane), "column")
    const rows = Array.from({ length: together }, (_, r) => k.let(first.add(r)))
    const begins = rows.map((row) => {
      const own = row.min(count.max(1).sub(1)).mul(inputStride)
      return k.let(own.add(head.mul(columns.add(kept))))
    })
    const own =
      merged && waiting && items && partials
        ? mergedRows(k, merged, { count, rows, begins, input, waiting, items, partials })
        : undefined
    const read = (r: number, at: Value) =>
      own ? own(r, at) : input.load(begins[r]!.add(kept).add(at))
    const made = rounds ? k.shared("made", "f32", together * THREADS) : undefined
    if (made) for (const r of rows.keys()) made.store(k.lane.add(r * THREADS), 0)
    k.if(first.lt(count), () => {
      const to = (row: Value) => k.let(row.mul(outputStride).add(head.mul(outputs.add(kept))))
      k.if(column.lt(outputs), () => {
        const own = weightRow(k, { codec, columns, ...parts }, head.mul(outputs).add(column))
        const sums = rows.map(() => k.variable(f32(0), "sum"))
        const add = (number: Value, at: Value) => {
          for (const [r, sum] of sums.entries()) sum.set(fma(read(r, at), number, sum.now))
        }
        const whole = k.let(columns.div(numbers.columns))
        k.for(0, whole, 1, (index) => {
          const from = k.let(index.mul(numbers.columns))
          for (const [c, number] of numbers.load(own, index)().entries())
            add(k.let(number), k.let(from.add(c)))
        })
        k.for(whole.mul(numbers.columns), columns, 1, (at) => add(columnValue(k, own, at), at))
        for (const [r, sum] of sums.entries())
          if (made) made.store(k.lane.add(r * THREADS), sum.now)
          else k.if(rows[r]!.lt(count), () => output!.store(to(rows[r]!).add(column), sum.now))
      })
      if (kept === 0) return
      const half = kept / 2
      k.if(column.lt(u32(turns ? half : kept)), () => {
        for (const [r, row] of rows.entries())
          k.if(row.lt(count), () => {
            const from = k.let(begins[r]!.add(column))
            const behind = k.let(to(row).add(outputs).add(column))
            if (!turns) return output!.store(behind, input.load(from))
            const angle = k.let((tokens?.load(row) ?? row).mul(turnStride!).add(column))
            const [cos, sin] = [turns.load(angle), turns.load(angle.add(half))]
            const [first, second] = turnedPair(
              input.load(from),
              input.load(from.add(half)),
              cos,
              sin,
            )
            output!.store(behind, first)
            output!.store(behind.add(half), second)
          })
      })
    })
    if (!made) return
    k.barrier()
    // Four columns of a row are a thread's.
    k.each((together * THREADS) / 4, (i) => {
      const four = k.let(i.rem(THREADS / 4).mul(4))
      const r = k.let(i.div(THREADS / 4))
      const row = k.let(first.add(r))
      const place = k.let(k.group(0).mul(THREADS).add(four)) // of the head's columns
      k.if(row.lt(count).and(place.lt(outputs)), () => {
        const { word, scale } = roundedWord(k, made, [r.mul(THREADS), four], rounds!)
        const at = k.let(head.mul(outputs).add(place))
        codes!.store(row.mul(outputStride).add(at.div(4)), word)
        k.if(at.rem(rounds!).eq(0), () =>
          scales!.store(row.mul(scaleStride!).add(at.div(rounds!)), scale),
        )
      })
    })
  })
}

interface MergedRows {
  count: Value
  rows: readonly Value[]
  begins: readonly Value[]
  input: Elements
  waiting: Elements
  items: Elements
  partials: Elements
}

/** A head's columns of each row, in shared memory: merged, or as attention has left them. Rows that are not there are the first. */
function mergedRows(
  k: Builder,
  columns: number,
  { count, rows, begins, input, waiting, items, partials }: MergedRows,
): (r: number, at: Value) => Value {
  const all = k.shared("rows", "f32", rows.length * columns)
  const merge = new Merge(k, columns, partials)
  for (const [r, row] of rows.entries()) {
    const item = k.variable(u32(NO_ITEM))
    k.if(row.lt(count), () => {
      item.set(waiting.load(row))
      k.if(item.now.eq(NO_ITEM), () =>
        k.each(columns, (c) => all.store(c.add(r * columns), input.load(begins[r]!.add(c)))),
      )
    })
    // Barriers stand under no condition: a loop has one turn, or none.
    k.for(0, select(item.now.ne(NO_ITEM), u32(1), 0), 1, () => {
      const { row: firstRow, ...found } = workOf(items, item.now)
      const partial = { ...found, r: row.sub(firstRow), heads: k.groups(2), head: k.group(2) }
      merge.head(partial, (c, value) => all.store(c.add(r * columns), value))
    })
  }
  k.barrier()
  const from = rows.map((row, r) => k.let(select(row.lt(count), u32(r * columns), 0)))
  return (r, at) => all.load(from[r]!.add(at))
}
