// Products of a few rows with a matrix: what a token of each sequence needs, and bound by the bytes of the matrix, which is read
// once for up to eight rows. A group of threads has a panel of 32 columns of the output: 32 threads for each of the eight
// parts of a sum, a row of the matrix each. Neighbours read neighbouring 16 bytes, several of them before the first is
// used; sums of parts meet in shared memory.
//
// What tiles.ts shares with this stands here too: operands, parts, and what becomes of a sum (ProductKind). The order of
// sums is the reference's (dotFour, dotCodesFour, addParts of reference/kernels.ts), bit for bit, in both.

import {
  type CodecName,
  type GroupCodecName,
  groupCodecs,
  isGroupCodec,
  type WideCodec,
} from "../../../../runtime/format.ts"
import { type Activation, type ElementwiseName, elementwise } from "../../../graph/elementwise.ts"
import { WIDE_GROUP, wideCodes } from "../../../plan.ts"
import {
  type Builder,
  type Elements,
  f32,
  fma,
  i32,
  kernel,
  select,
  u32,
  type Value,
  type Variable,
} from "../ir/builder.ts"
import { type Kernel, ROOMY } from "../ir/ir.ts"
import { codingOf, PANEL, unitOf } from "../layout.ts"
import { roundedWord, wideFloats } from "./codes.ts"
import {
  byteShift,
  columnValue,
  groupBytes,
  groupScales,
  groupWords,
  numbersOf,
  unitsOf,
  type Weight,
  type WeightRow,
  weightBuffers,
  weightRow,
  wideGroupWords,
} from "./weights.ts"

/** Teams of threads, one for each part of a sum; a shard's sums have fewer parts, and the other teams nothing to add. */
export const PARTS = 8

/** What is literal in a product's kernel. */
export interface ProductKind {
  /** Floats are `aligned` where each row begins at a multiple of 16 bytes. */
  input: "int8" | "int16" | "floats" | "aligned floats"
  codec: CodecName
  bias: boolean
  end: ProductEnd
  /** Of a sum. */
  parts: Parts
  /** Of products of a few rows, which may be rounded to codes of 8 bits instead of stored: so many columns have one scale. */
  rounds?: number
}

/** Whether a group of threads has whole groups of columns, and so can round them. */
export const canRound = (group: number) => PANEL % group === 0 && group % 4 === 0

export type Parts = 1 | 2 | 4 | typeof PARTS

/**
 * As the plan's epilogues; "add" adds to what is in the output, "add to" to another buffer. A product is `under` gates where these
 * are in the output, which becomes activation(output) * y; `applied` without a gate, it is a function of y and perhaps a number, which may
 * be multiplied with what is in that other buffer.
 */
export type ProductEnd = "store" | "add" | "add to" | Applied | Gated

interface Applied {
  applied: ElementwiseName
  by?: number | undefined
  times?: "to"
}

type Gated = { limit?: number | undefined } & ({ gated: Activation } | { under: Activation })

export function productName({ input, codec, bias, end, parts, rounds }: ProductKind): string {
  const floats = input === "floats" ? "_unaligned" : ""
  const packed = isGroupCodec(codec) && input !== "int8" ? "_unpacked" : ""
  const wide = input === "int16" ? "_wide" : ""
  const few = parts === PARTS ? "" : `_parts${parts}`
  const codes = rounds === undefined ? "" : `_codes${rounds}`
  return `${codec}${packed}${wide}${floats}${bias ? "_bias" : ""}_${endName(end)}${codes}${few}`
}

function endName(end: ProductEnd): string {
  if (typeof end === "string") return end.replace(" ", "_")
  if ("applied" in end) return `${end.applied}${end.times ? "_times" : ""}`
  const limit = end.limit === undefined ? "" : `_limit${end.limit}`
  return `${"gated" in end ? `gated_${end.gated}` : `under_${end.under}`}${limit}`
}

/** Operands of a product, in this order. Strides are in elements as the buffers are named here. */
export interface ProductOperands {
  count: Elements // u32 [1]
  /** Codes as words of four, or floats. */
  input: Pick<Elements, "load" | "loadTwo" | "loadFour">
  scales: Elements | undefined // f32, of codes
  weight: Weight
  bias: Elements | undefined
  to: Elements | undefined
  /** Absent: rows are rounded, and nothing is read of the output. */
  output: Elements | undefined
  rounded: RoundedOperands | undefined
  /** Columns of the output: of a gated product half the rows of its matrix. */
  outputs: Value
  inputStride: Value
  scaleStride: Value | undefined
  outputStride: Value | undefined
  toStride: Value | undefined
}

/** A row that each group of threads makes for itself, in the place of those that lie in memory. */
export interface MadeRow {
  /** Writes what makes it, behind whatever earlier kernels do. All threads come there. */
  write: () => void
  input: ProductOperands["input"]
  /** Of its codes. */
  scales: Elements | undefined
  stride: number
}

/** Where rounded rows go. */
interface RoundedOperands {
  codes: Elements // words of four
  scales: Elements // f32
  codeStride: Value
  scaleStride: Value
}

/** @param made what stands in the place of the input, of a product that makes its row */
export function productOperands(k: Builder, kind: ProductKind, made?: MadeRow): ProductOperands {
  const { codec, end, bias } = kind
  const hasCodes = kind.input === "int8" || kind.input === "int16"
  const words = (name: string) => k.word(name)
  const count = k.buffer("count", "u32", "read")
  const read = () =>
    hasCodes ? k.buffer("codes", "u32", "read") : k.buffer("input", "f32", "read")
  const input = made ? made.input : read()
  const scales = made ? made.scales : hasCodes ? k.buffer("input scales", "f32", "read") : undefined
  const parts = weightBuffers(k, codec)
  const biases = bias ? k.buffer("bias", "f32", "read") : undefined
  const to = readsTo(end) ? k.buffer("to", "f32", "read") : undefined
  const isRead = end === "add" || (typeof end === "object" && "under" in end)
  const isRounded = kind.rounds !== undefined
  const access = isRounded ? "read" : isRead ? "readwrite" : "write"
  const output = isRead || !isRounded ? k.buffer("output", "f32", access) : undefined
  const roundedTo = isRounded && {
    codes: k.buffer("rounded", "u32", "write"),
    scales: k.buffer("rounded scales", "f32", "write"),
  }
  const columns = words("columns")
  return {
    count,
    input,
    scales,
    weight: { codec, columns, ...parts },
    bias: biases,
    to,
    output,
    outputs: words("outputs"),
    inputStride: made ? u32(made.stride) : words("inputStride"),
    scaleStride: made ? u32(0) : hasCodes ? words("scaleStride") : undefined,
    outputStride: output && words("outputStride"),
    toStride: to && words("toStride"),
    rounded: roundedTo
      ? { ...roundedTo, codeStride: words("codeStride"), scaleStride: words("roundedStride") }
      : undefined,
  }
}

/** Whether it reads another buffer of the output's columns. */
const readsTo = (end: ProductEnd) =>
  end === "add to" || (typeof end === "object" && "applied" in end && end.times === "to")

/** Rows of the matrix that make one column of the output: a gate and its up row, or one. */
export function halvesOf({ end }: ProductKind): number {
  return typeof end === "object" && "gated" in end ? 2 : 1
}

/** Which element it is of the output; and of its rows in the matrix the first, where that is not its column. */
interface Element {
  row: Value
  column: Value
  matrixRow?: () => Value
}

/** Puts an element where it belongs: the sums of `halvesOf` rows of the matrix, whole. */
export function finish(
  k: Builder,
  kind: ProductKind,
  operands: ProductOperands,
  element: Element,
  sums: readonly Value[],
): void {
  const { output, outputStride } = operands
  const value = finished(k, kind, operands, element, sums)
  output!.store(element.row.mul(outputStride!).add(element.column), value)
}

/** What becomes of an element. */
function finished(
  k: Builder,
  { end }: ProductKind,
  operands: ProductOperands,
  { row, column, matrixRow = () => column }: Element,
  sums: readonly Value[],
): Value {
  const { bias, to, output, outputs, outputStride, toStride } = operands
  const [y, up] = sums.map((sum, half) =>
    bias ? k.let(sum.add(bias.load(half === 0 ? matrixRow() : outputs.add(matrixRow())))) : sum,
  )
  const before = () => output!.load(row.mul(outputStride!).add(column))
  if (end === "store") return y!
  if (end === "add") return before().add(y!)
  const there = () => to!.load(row.mul(toStride!).add(column))
  if (end === "add to") return there().add(y!)
  if ("applied" in end) {
    const own = elementwise[end.applied].gpu(k, y!, end.by ?? 0)
    return end.times ? own.mul(there()) : own
  }
  const [name, gate, other] =
    "gated" in end ? [end.gated, y!, up!] : [end.under, k.let(before()), y!]
  if (end.limit !== undefined) return limited(k, name, end.limit, gate, other)
  return elementwise[name].gpu(k, gate).mul(other)
}

/** Cut off as the graph says; what is no number shows. */
function limited(k: Builder, name: Activation, limit: number, gate: Value, up: Value): Value {
  const below = (x: Value) => k.let(select(x.lt(limit), x, limit))
  const other = below(up)
  const within = select(other.gt(-limit), other, -limit).add(up.mul(0))
  const most = (x: Value) => below(x).add(x.mul(0))
  if (name === "silu") return most(k.let(elementwise.silu.gpu(k, gate))).mul(within)
  return elementwise[name].gpu(k, most(gate)).mul(within.add(1))
}

/** As partEnds has it: the groups of columns that a part of a sum has; none behind the last part. */
export function groupsOfPart(
  k: Builder,
  { codec, parts }: Pick<ProductKind, "codec" | "parts">,
  columns: Value,
  part: Value,
): { from: Value; to: Value } {
  const groups = k.let(unitsOf(columns, groupWidth(codec)))
  const within = (part: Value) => (parts === PARTS ? part : part.min(parts))
  const endOf = (part: Value) => k.let(within(part).mul(groups).div(parts))
  return { from: endOf(part), to: endOf(part.add(1)) }
}

/** Columns of a group: parts of sums have whole ones. */
export function groupWidth(codec: CodecName): number {
  return isGroupCodec(codec) ? groupCodecs[codec].group : 32
}

/**
 * The words of four codes that a group of a row of the input has, read 16 bytes at a time where groups begin there. Where
 * the row ends before its last group does, what comes instead of the missing words is anything: they meet weights of 0.
 */
export function inputWords(
  k: Builder,
  codec: GroupCodecName,
  { input, inputStride }: ProductOperands,
  row: Value,
  group: Value,
): Value[] {
  const words = groupCodecs[codec].group / 4
  if (words % 4 !== 0) {
    const first = k.let(row.mul(inputStride))
    const last = inputStride.sub(1)
    return Array.from({ length: words }, (_, w) =>
      input.load(first.add(group.mul(words).add(w).min(last))),
    )
  }
  const pieces = inputStride.div(4)
  const first = k.let(row.mul(pieces))
  return Array.from({ length: words / 4 }, (_, piece) => {
    const own = group.mul(words / 4).add(piece)
    return input.loadFour(first.add(piece === 0 ? own : own.min(pieces.sub(1))))
  }).flat()
}

/** Words of codes of 16 bits that lie side by side: eight of a group's upper bytes, then eight of its lower ones. */
const WIDE_WORDS = wideCodes(WIDE_GROUP) / 4

/** Those of a group of a row of the input, `count` from number `from` on: both multiples of four. */
export function wideInputWords(
  k: Builder,
  { input, inputStride }: ProductOperands,
  row: Value,
  group: Value,
  { from, count }: { from: Value; count: number },
): Value[] {
  const place = group.mul(WIDE_WORDS).add(from)
  const first = k.let(row.mul(inputStride).add(place).div(4))
  return Array.from({ length: count / 4 }, (_, i) => input.loadFour(first.add(i))).flat()
}

/** What sums of upper and lower bytes make together, which are in all cases exact: `middle` of both crosswise. */
export function wideSum(uppers: Value, middle: Value, lowers: Value): Value {
  return fma(uppers.float(), 65536, middle.shl(8).add(lowers).float())
}

/** The sum of a group's codes in a row of the input: what a minimum is multiplied with, before the scale. */
export function sumOfCodes(
  k: Builder,
  codec: GroupCodecName,
  columns: Value,
  group: Value,
  words: readonly Value[],
): Value {
  const { group: width } = groupCodecs[codec]
  // What lies behind the row's end is anything, and minimums have no zeros to meet it.
  return words.reduce((sum, word, w) => {
    const column = group.mul(width).add(4 * w)
    const own = w < 4 ? word : select(column.lt(columns), word, 0)
    return k.let(k.dot4(own, u32(0x01010101), sum))
  }, i32(0))
}

/**
 * The sum of products of a group's codes, of bytes as groupBytes makes them, as the float that it is.
 * @param codes the sum of the input's codes, where the codec has minimums
 */
export function sumOfBytes(codec: GroupCodecName, sum: Value, codes: Value | undefined): Value {
  const { negated, less } = codingOf(codec)
  const shift = byteShift(codec)
  const whole = shift > 0 ? sum.shr(shift) : sum
  return (negated ? whole.neg() : less ? whole.add(codes!.mul(less)) : whole).float()
}

/**
 * What such sums may begin with: the bits of a float of which the last place is worth 1, or as much as bytes
 * are too large. Read as a float, a sum is then that float and its own number, since none is 2^22 or more. So one subtraction, which
 * is exact, makes of it what a shift and a conversion would.
 */
export function startOfBytes(codec: GroupCodecName): Value {
  return codingOf(codec).less ? i32(0) : f32(startOf(codec)).bits("i32")
}

const startOf = (codec: GroupCodecName) => 1.5 * 2 ** (23 - byteShift(codec))

/** The same as `sumOfBytes`, of a sum that began with `startOfBytes`. */
export function begunSumOfBytes(
  codec: GroupCodecName,
  sum: Value,
  codes: Value | undefined,
): Value {
  const { negated, less } = codingOf(codec)
  if (less) return sumOfBytes(codec, sum, codes)
  const start = f32(startOf(codec))
  const number = sum.bits("f32")
  return negated ? start.sub(number) : number.sub(start)
}

export type FewRows = 1 | 2 | 4 | 8

/** Of a matrix, that a thread has under way of its groups, shared by as many rows as are multiplied with each. */
const WORDS_AHEAD = 32

/** Words of four bytes that a group of codes is read in. */
const wordsOf = (codec: CodecName) => {
  if (!isGroupCodec(codec)) return 4
  const { chunks, groups } = unitOf(codec)
  return (4 * chunks) / groups
}

/** Groups of a matrix that a thread reads before it uses the first, of so many sums. */
export const groupsAhead = (codec: CodecName, sums: number) =>
  Math.max(1, WORDS_AHEAD / (sums * wordsOf(codec)))

/** Which rows a group of threads multiplies, and with which of a matrix. */
export interface FewTask {
  /** Makes them first. */
  make?: () => void
  /** Whether there is any of them; the same for the whole group. */
  isThere: Value
  /** Those of the input, asked where there is any. Behind the last one they are any other. */
  rows: () => Value[]
  /** Of its rows in the matrix, the first. */
  matrixRow?: () => Value
  /** Where number `r` goes, asked where there is any, and whether it is one. */
  output: (r: Value) => { row: Value; isRow: Value }
}

/** Of so many rows at a time. Groups: [32 columns of the output each, `rows` rows each]. */
export function fewProduct(kind: ProductKind, rows: FewRows): Kernel {
  return kernel(`few${rows}_${productName(kind)}`, PARTS * PANEL, (k) => {
    const operands = productOperands(k, kind)
    const first = k.let(k.group(1).mul(rows), "firstRow")
    const count = operands.count.load(0)
    multiplyFew(k, kind, operands, rows, {
      isThere: first.lt(count),
      rows: () => Array.from({ length: rows }, (_, r) => k.let(first.add(r).min(count.sub(1)))),
      output: (r) => {
        const row = k.let(first.add(r))
        return { row, isRow: row.lt(count) }
      },
    })
  })
}

/**
 * The same of one row, which each group makes for itself.
 * @param make names what it reads, behind the product's own operands
 */
export function madeProduct(
  kind: ProductKind,
  name: string,
  make: (k: Builder, row: Value) => MadeRow,
): Kernel {
  return kernel(`few1_${productName(kind)}_of_${name}`, PARTS * PANEL, (k) => {
    const row = k.group(1)
    const made = make(k, row)
    const operands = productOperands(k, kind, made)
    multiplyFew(k, kind, operands, 1, {
      isThere: row.lt(operands.count.load(0)),
      make: made.write,
      rows: () => [u32(0)],
      output: () => ({ row, isRow: row.lt(operands.count.load(0)) }),
    })
  })
}

/** What is said at the top of this file, with 32 columns of the output by the group's first number. */
export function multiplyFew(
  k: Builder,
  kind: ProductKind,
  operands: ProductOperands,
  rows: FewRows,
  task: FewTask,
): void {
  k.roomFor(ROOMY)
  const halves = halvesOf(kind)
  const { weight, outputs } = operands
  const sums = k.shared("sums", "f32", halves * rows * PARTS * PANEL)
  const [part, place] = [k.let(k.lane.div(PANEL), "part"), k.let(k.lane.and(PANEL - 1), "place")]
  const column = k.let(k.group(0).mul(PANEL).add(place), "column")
  const isThere = k.let(task.isThere)
  const at = (half: number, r: Value, part: Value) =>
    r
      .add(half * rows)
      .mul(PARTS)
      .add(part)
      .mul(PANEL)
      .add(place)
  const own = k.let(column.min(outputs.sub(1)))
  const rowsFrom = (first: Value): MatrixRows => ({
    range: groupsOfPart(k, kind, weight.columns, part),
    weights: Array.from({ length: halves }, (_, half) =>
      weightRow(k, weight, half === 0 ? first : first.add(outputs)),
    ),
    // Some hundred bytes of the matrix on their way to each thread, whatever happens with those that have arrived.
    atOnce: groupsAhead(kind.codec, rows * halves),
  })
  const codec = weight.codec as GroupCodecName
  // Where nobody has chosen which rows these are, the first of them are on their way before the input is there.
  const { matrixRow } = task
  const matrix = matrixRow ? undefined : rowsFrom(own)
  const ahead = kind.input === "int8" && matrix ? codesAhead(k, codec, matrix) : undefined
  if (matrix) k.afterEarlier()
  task.make?.()
  // The barrier stands under no condition: some drivers copy all that follows one that may be passed by.
  k.if(isThere, () => {
    const work: FewWork = {
      operands,
      rows: task.rows(),
      totals: Array.from({ length: halves }, () =>
        Array.from({ length: rows }, () => k.variable(f32(0), "total")),
      ),
      ...(matrix ?? rowsFrom(k.let(own.add(matrixRow!())))),
    }
    if (kind.input === "int8") sumCodes(k, codec, work, ahead)
    else if (kind.input === "int16") sumWide(k, weight.codec as WideCodec, work)
    else sumFloats(k, kind, work)
    for (const [half, totals] of work.totals.entries())
      for (const [r, total] of totals.entries()) sums.store(at(half, u32(r), part), total.now)
  })
  k.letLaterBegin()
  k.barrier()
  const finished = { sums, rows, pitch: PARTS * PANEL, width: PANEL }
  finishRows(k, kind, operands, { ...task, isThere }, finished)
}

/** Sums of the parts of some rows of a panel, in shared memory: [halves][rows][pitch], of which `[parts][32 columns]` are used. */
export interface PanelSums {
  sums: Elements
  rows: number
  pitch: number
  /** Columns of the output that a group has; fewer than a panel only where none are rounded. */
  width: number
}

/** Puts rows of a panel where they belong, or rounds them: each 32 threads of 256 finish one. All threads come here. */
export function finishRows(
  k: Builder,
  kind: ProductKind,
  operands: ProductOperands,
  task: Pick<FewTask, "isThere" | "output" | "matrixRow">,
  { sums, rows, pitch, width }: PanelSums,
): void {
  const { outputs } = operands
  const { isThere } = task
  const [part, place] = [k.let(k.lane.div(PANEL)), k.let(k.lane.and(PANEL - 1))]
  const column = k.let(k.group(0).mul(width).add(place))
  const at = (half: number, p: number) =>
    part
      .add(half * rows)
      .mul(pitch)
      .add(p * PANEL)
      .add(place)
  const value = k.variable(f32(0))
  const isOwn = width < PANEL ? place.lt(width).and(column.lt(outputs)) : column.lt(outputs)
  k.if(isThere.and(part.lt(rows)).and(isOwn), () => {
    const { row, isRow } = task.output(part)
    k.if(isRow, () => {
      const wholes = Array.from({ length: halvesOf(kind) }, (_, half) => {
        const sumOf = (p: number) => sums.load(at(half, p))
        return k.let(sumOfTree(Array.from({ length: kind.parts }, (_, p) => sumOf(p))))
      })
      const matrixRow = () => (task.matrixRow ? column.add(task.matrixRow()) : column)
      const element = { row, column, matrixRow }
      if (kind.rounds === undefined) finish(k, kind, operands, element, wholes)
      else value.set(finished(k, kind, operands, element, wholes))
    })
  })
  if (kind.rounds === undefined) return
  // Where the thread's first sum was, which nobody else reads.
  k.if(part.lt(rows), () => sums.store(at(0, 0), value.now))
  k.barrier()
  // Eight threads of these make a word of four codes each, of which those behind the last column are 0.
  k.if(isThere.and(part.lt(rows)).and(place.lt(PANEL / 4)), () => {
    const { row, isRow } = task.output(part)
    const first = k.let(part.mul(pitch))
    k.if(isRow, () => storeWord(k, kind.rounds!, operands, { row, place, first }, sums))
  })
}

/**
 * Rounds as `quantize` does.
 * @param numbers a panel of the row from `first` on
 */
function storeWord(
  k: Builder,
  group: number,
  { outputs, rounded }: ProductOperands,
  { row, place, first }: { row: Value; place: Value; first: Value },
  numbers: Elements,
): void {
  const { codes, scales, codeStride, scaleStride } = rounded!
  const { word, scale } = roundedWord(k, numbers, [first, place.mul(4)], group)
  const number = k.let(
    k
      .group(0)
      .mul(PANEL / 4)
      .add(place),
  )
  k.if(number.lt(codeStride), () => codes.store(row.mul(codeStride).add(number), word))
  const column = k.let(number.mul(4))
  k.if(column.rem(group).eq(0).and(column.lt(outputs)), () =>
    scales.store(row.mul(scaleStride).add(column.div(group)), scale),
  )
}

/** Neighbours are added, then those sums, until one is left. */
export function sumOfTree(parts: readonly Value[]): Value {
  if (parts.length === 1) return parts[0]!
  const half = parts.length / 2
  return sumOfTree(parts.slice(0, half)).add(sumOfTree(parts.slice(half)))
}

/** Of the matrix what a thread multiplies with. */
interface MatrixRows {
  /** Of this thread's part. */
  range: { from: Value; to: Value }
  weights: WeightRow[]
  /** Groups that are read before the first is used. */
  atOnce: number
}

interface FewWork extends MatrixRows {
  operands: ProductOperands
  /** Of the input; behind the last they are the last again, and their sums go nowhere. */
  rows: Value[]
  totals: Variable[][] // [weights][rows]
}

/** Reads some neighbours of a range, then uses each. Where there are fewer left, the last is read again and not used. */
function eachAhead<T>(
  k: Builder,
  { from, to }: { from: Value; to: Value },
  atOnce: number,
  read: (index: Value) => T,
  use: (index: Value, read: T) => void,
): void {
  k.for(from, to, atOnce, (first) => {
    const indices = Array.from({ length: atOnce }, (_, j) =>
      j === 0 ? first : k.let(first.add(j).min(to.sub(1))),
    )
    const reads = indices.map(read)
    for (const [j, each] of reads.entries()) {
      if (j === 0) use(indices[j]!, each)
      else k.if(first.add(j).lt(to), () => use(indices[j]!, each))
    }
  })
}

/** Words of groups of a matrix on their way to a thread: of each of `atOnce` groups, and of each of its rows in the matrix. */
type Ahead = Variable[][][]

/** The first groups of a part; of a part that has none, whichever. */
function codesAhead(
  k: Builder,
  codec: GroupCodecName,
  { range, weights, atOnce }: MatrixRows,
): Ahead {
  const last = unitsOf(weights[0]!.weight.columns, groupWidth(codec)).sub(1)
  const end = k.let(range.to.max(1).sub(1).min(last))
  return Array.from({ length: atOnce }, (_, j) => {
    const group = k.let(range.from.add(j).min(end))
    return weights.map((row) => groupWords(k, row, group).map((word) => k.variable(word)))
  })
}

/**
 * A group's words are used, and those of a later one come in their place: so many are under way all the time. There is no branch,
 * since a compiler would wait at its end for what has been read.
 * @param ahead the first groups of the part
 */
function sumCodes(
  k: Builder,
  codec: GroupCodecName,
  work: FewWork,
  ahead = codesAhead(k, codec, work),
): void {
  const { operands, range, rows, weights, totals, atOnce } = work
  const end = k.let(range.to.max(1).sub(1))
  k.for(range.from, range.to, atOnce, (first) => {
    const groups = ahead.map((_, j) => k.let(first.add(j).min(end)))
    const scales = groups.map((group) => weights.map((row) => groupScales(k, row, group)))
    for (const [j, kept] of ahead.entries()) {
      const group = groups[j]!
      const isOwn = j === 0 ? undefined : k.let(first.add(j).lt(range.to))
      const bytes = kept.map((words) =>
        groupBytes(
          k,
          codec,
          words.map((word) => k.let(word.now)),
        ),
      )
      const next = k.let(first.add(atOnce + j).min(end))
      for (const [half, words] of kept.entries())
        for (const [w, word] of groupWords(k, weights[half]!, next).entries()) words[w]!.set(word)
      for (const [r, row] of rows.entries()) {
        const input = inputWords(k, codec, operands, row, group)
        const inputScale = operands.scales!.load(row.mul(operands.scaleStride!).add(group))
        for (const [half, { scale, minimum }] of scales[j]!.entries()) {
          const total = totals[half]![r]!
          const dots = bytes[half]!.reduce<Value>(
            (sum, word, w) => k.let(k.dot4(input[w]!, word, sum)),
            startOfBytes(codec),
          )
          const sum = minimum && sumOfCodes(k, codec, operands.weight.columns, group, input)
          const product = begunSumOfBytes(codec, dots, sum)
          const own = k.let(fma(product, inputScale.mul(scale), total.now))
          const whole = sum ? k.let(fma(minimum, inputScale.mul(sum.float()), own)) : own
          total.set(isOwn ? select(isOwn, whole, total.now) : whole)
        }
      }
    }
  })
}

/** Words of a matrix are made to codes once for all rows. */
function sumWide(k: Builder, codec: WideCodec, work: FewWork): void {
  const { operands, range, rows, weights, totals, atOnce } = work
  const read = (group: Value) => weights.map((row) => wideGroupWords(k, row, group))
  eachAhead(k, range, Math.min(2, atOnce), read, (group, groups) => {
    const floats = groups.map((words) => {
      const { scale, codes } = wideFloats(k, codec, words)
      return { scale: k.let(scale), ...codes(words) }
    })
    for (const [r, row] of rows.entries()) {
      const input = wideInputWords(k, operands, row, group, { from: u32(0), count: WIDE_WORDS })
      const [upperInput, lowerInput] = [input.slice(0, WIDE_WORDS / 2), input.slice(WIDE_WORDS / 2)]
      const inputScale = operands.scales!.load(row.mul(operands.scaleStride!).add(group))
      const dots = (a: readonly Value[], b: readonly Value[], first: Value = i32(0)) =>
        a.reduce<Value>((sum, word, w) => k.let(k.dot4(word, b[w]!, sum)), first)
      for (const [half, { scale, upper, lower }] of floats.entries()) {
        const middle = dots(lowerInput, upper, dots(upperInput, lower))
        const sum = wideSum(dots(upperInput, upper), middle, dots(lowerInput, lower))
        const total = totals[half]![r]!
        total.set(fma(sum, inputScale.mul(scale), total.now))
      }
    }
  })
}

function sumFloats(k: Builder, { input, codec }: ProductKind, work: FewWork): void {
  const { operands, rows } = work
  addFloats(k, codec, work, (r, column, count) => {
    const row = rows[r]!
    if (count > 1) return inputFloats(operands, input, row, column, count)
    return [operands.input.load(row.mul(operands.inputStride).add(column))]
  })
}

/**
 * A chain of fused multiply-adds for each row, column by column; columns that do not fill what is read at once come last.
 * @param load so many columns of a row
 */
export function addFloats(
  k: Builder,
  codec: CodecName,
  { range, weights, totals, atOnce }: Omit<FewWork, "operands" | "rows">,
  load: (r: number, column: Value, count: number) => readonly Value[],
): void {
  const { columns } = weights[0]!.weight
  const numbers = numbersOf(k, codec)
  const each = groupWidth(codec) / numbers.columns
  const from = k.let(range.from.mul(each))
  const to = k.let(range.to.mul(each).min(columns.div(numbers.columns)))
  const all = [...totals[0]!.keys()]
  const read = (index: Value) => weights.map((row) => numbers.load(row, index))
  eachAhead(k, { from, to }, atOnce, read, (index, loaded) => {
    const values = loaded.map((numbers) => numbers().map((number) => k.let(number)))
    for (const r of all) {
      const x = load(r, index.mul(numbers.columns), numbers.columns)
      for (const [half, own] of values.entries()) {
        const total = totals[half]![r]!
        total.set(own.reduce((sum, number, c) => k.let(fma(x[c]!, number, sum)), total.now))
      }
    }
  })
  const end = range.to.mul(groupWidth(codec)).min(columns)
  k.for(to.mul(numbers.columns), end, 1, (column) => {
    const own = weights.map((row) => columnValue(k, row, column))
    for (const r of all) {
      const [x] = load(r, column, 1)
      for (const [half, number] of own.entries()) {
        const total = totals[half]![r]!
        total.set(fma(x!, number, total.now))
      }
    }
  })
}

/** So many floats of a row of the input, from a column on that is a multiple of 8. */
export function inputFloats(
  { input, inputStride }: ProductOperands,
  kind: ProductKind["input"],
  row: Value,
  column: Value,
  count: number,
): Value[] {
  if (kind === "aligned floats") {
    const first = row.mul(inputStride).add(column).div(4)
    return Array.from({ length: count / 4 }, (_, i) => input.loadFour(first.add(i))).flat()
  }
  const first = row.mul(inputStride).add(column)
  return Array.from({ length: count }, (_, i) => input.load(first.add(i)))
}
