// Products of many rows with a matrix, in tiles of 64 columns of the output and 32 or 64 rows: some columns of both sides come
// to shared memory, and 16 times 16 threads each make 4 columns of 2 or 4 rows of it. Sums are those of products.ts: the
// parts of each element follow one another, and join their tree as soon as both of its sides are there.

import type { GroupCodecName } from "../../../../runtime/format.ts"
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
import type { Kernel } from "../ir/ir.ts"
import { codingOf } from "../layout.ts"
import {
  finish,
  groupsOfPart,
  groupWidth,
  halvesOf,
  inputFloats,
  inputWords,
  PARTS,
  type ProductKind,
  type ProductOperands,
  productName,
  productOperands,
  sumOfBytes,
  sumOfCodes,
} from "./products.ts"
import {
  columnValue,
  groupBytes,
  groupScales,
  groupWords,
  numbersOf,
  unitsOf,
  weightRow,
} from "./weights.ts"

/** Rows of the matrix in a tile: of a gated product, half of them gates and half the rows that belong to them. */
export const TILE_COLUMNS = 64
type TileRows = 32 | 64

/** Threads stand in a square, and take every 16th column and every 16th row. */
const SIDE = 16
const ACROSS = TILE_COLUMNS / SIDE

/** Words of four codes of a row, or floats, that are in shared memory at once, where a block has no more. */
const STAGED_WORDS = 16

/** What a group of threads works on. */
interface Tile {
  k: Builder
  kind: ProductKind
  operands: ProductOperands
  rows: TileRows
  /** The row of the input that is number `r` of the tile: the last one again for those behind it. */
  inputRow: (r: Value) => Value
  /** The row of the matrix that is number `c` of the tile. */
  matrixRow: (c: Value) => Value
  /** Of this thread, [its rows][its columns]. */
  totals: Variable[][]
  /** Numbers in the tile of its first row and its first column. */
  down: Value
  across: Value
}

/** Groups: [64 rows of the matrix each, `rows` rows of the input each]. */
export function tileProduct(kind: ProductKind, rows: TileRows): Kernel {
  const halves = halvesOf(kind)
  const width = TILE_COLUMNS / halves
  return kernel(`tile${rows}_${productName(kind)}`, SIDE * SIDE, (k) => {
    const operands = productOperands(k, kind)
    const { weight, outputs } = operands
    const [firstColumn, firstRow] = [k.let(k.group(0).mul(width)), k.let(k.group(1).mul(rows))]
    const count = operands.count.load(0)
    const variables = () =>
      Array.from({ length: rows / SIDE }, () =>
        Array.from({ length: ACROSS }, () => k.variable(f32(0))),
      )
    const tile: Tile = {
      k,
      kind,
      operands,
      rows,
      inputRow: (r) => k.let(firstRow.add(r).min(count.sub(1))),
      matrixRow: (c) => {
        const own = firstColumn.add(halves === 1 ? c : c.rem(width)).min(outputs.sub(1))
        return k.let(halves === 1 ? own : own.add(select(c.lt(width), u32(0), outputs)))
      },
      totals: variables(),
      down: k.let(k.lane.div(SIDE)),
      across: k.let(k.lane.rem(SIDE)),
    }
    const {
      width: block,
      atOnce,
      stage,
      multiply,
    } = kind.input === "int8" ? codesTile(tile) : floatsTile(tile)
    const waiting = [variables(), variables(), variables()]
    // One loop over the steps of all parts, each of which has as many: nothing but that has barriers.
    const perGroup = groupWidth(weight.codec) / block
    const groups = k.let(unitsOf(weight.columns, groupWidth(weight.codec)))
    const blocks = unitsOf(groups, PARTS).mul(perGroup)
    const perPart = k.let(unitsOf(blocks, atOnce))
    const steps = select(firstRow.lt(count), perPart.mul(PARTS), 0)
    k.for(0, steps, 1, (step) => {
      const part = k.let(step.div(perPart))
      const own = k.let(step.rem(perPart))
      const { from, to } = groupsOfPart(k, weight.codec, weight.columns, part)
      const first = k.let(from.mul(perGroup).add(own.mul(atOnce)))
      const count = k.let(to.mul(perGroup).max(first).sub(first).min(atOnce))
      k.if(own.eq(0), () => {
        for (const total of tile.totals.flat()) total.set(0)
      })
      stage(first, count)
      k.barrier()
      multiply(count)
      k.if(own.eq(perPart.sub(1)), () => join(k, part, tile.totals, waiting))
      k.barrier()
    })
    for (const [i, totals] of tile.totals.entries())
      for (let j = 0; j < ACROSS / halves; j++) {
        const row = k.let(firstRow.add(tile.down).add(i * SIDE))
        const column = k.let(firstColumn.add(tile.across).add(j * SIDE))
        const sums = Array.from(
          { length: halves },
          (_, half) => totals[j + half * (ACROSS / 2)]!.now,
        )
        k.if(row.lt(count).and(column.lt(outputs)), () =>
          finish(k, kind, operands, { row, column }, sums),
        )
      }
  })
}

/**
 * A part that has been added up goes into the tree: what waits at level l is the sum of 2^l parts. After the last part, totals
 * are whole.
 */
function join(k: Builder, part: Value, totals: Variable[][], waiting: Variable[][][]): void {
  const [level, ...above] = waiting
  if (!level) return
  const each = (what: (total: Variable, waiting: Variable) => void) => {
    for (const [i, row] of totals.entries())
      for (const [j, total] of row.entries()) what(total, level[i]![j]!)
  }
  k.if(
    part.and(2 ** (3 - waiting.length)).eq(0),
    () => each((total, waiting) => waiting.set(total.now)),
    () => {
      each((total, waiting) => total.set(waiting.now.add(total.now)))
      join(k, part, totals, above)
    },
  )
}

/** How blocks of columns are multiplied: a group has a whole number of them. All threads come to both. */
interface Staged {
  /** Columns of a block. */
  width: number
  /** Blocks that are in shared memory at once. */
  atOnce: number
  /** Brings blocks of both sides there. */
  stage: (first: Value, count: Value) => void
  /** Adds their products to the totals. */
  multiply: (count: Value) => void
}

/** A shared array of some numbers for each of a tile's rows or columns, those of neighbours side by side. */
class Side {
  readonly #elements: Elements
  readonly #width: number

  constructor(k: Builder, name: string, element: "f32" | "u32", count: number, width: number) {
    this.#elements = k.shared(name, element, count * width)
    this.#width = width
  }

  store(number: Value, place: Value, value: Value): void {
    this.#elements.store(number.mul(this.#width).add(place), value)
  }

  /** Number `number` of every 16th row or column from `first` on. */
  load(number: Value, first: Value): Value[] {
    const at = number.mul(this.#width).add(first)
    return Array.from({ length: this.#width / SIDE }, (_, i) =>
      this.#elements.load(at.add(i * SIDE)),
    )
  }
}

/** Both sides of some groups are brought to shared memory, each row of one by a thread, and multiplied by all. */
function codesTile(tile: Tile): Staged {
  const { k, kind, operands, rows, inputRow, totals, down, across } = tile
  const codec = kind.codec as GroupCodecName
  const { weight } = operands
  const words = groupWidth(codec) / 4
  const staged = Math.max(1, Math.floor(STAGED_WORDS / words)) // groups
  const input = {
    codes: new Side(k, "input codes", "u32", staged * words, rows),
    scales: new Side(k, "input scales", "f32", staged, rows),
    sums: weight.minimums && new Side(k, "input sums", "f32", staged, rows),
    wholeSums: codingOf(codec).less
      ? new Side(k, "input whole sums", "u32", staged, rows)
      : undefined,
  }
  const matrix = {
    codes: new Side(k, "codes", "u32", staged * words, TILE_COLUMNS),
    scales: new Side(k, "scales", "f32", staged, TILE_COLUMNS),
    minimums: weight.minimums && new Side(k, "minimums", "f32", staged, TILE_COLUMNS),
  }

  const stageInput = (r: Value, s: Value, group: Value) => {
    const row = inputRow(r)
    const own = inputWords(k, codec, operands, row, group)
    for (const [w, word] of own.entries()) input.codes.store(s.mul(words).add(w), r, word)
    const scale = operands.scales!.load(row.mul(operands.scaleStride!).add(group))
    input.scales.store(s, r, scale)
    if (!input.sums) return
    const sum = sumOfCodes(k, codec, weight.columns, group, own)
    input.sums.store(s, r, scale.mul(sum.float()))
    input.wholeSums?.store(s, r, sum.bits("u32"))
  }
  const stageMatrix = (c: Value, s: Value, group: Value) => {
    const row = weightRow(k, weight, tile.matrixRow(c))
    const own = groupBytes(k, codec, groupWords(k, row, group))
    for (const [w, word] of own.entries()) matrix.codes.store(s.mul(words).add(w), c, word)
    const { scale, minimum } = groupScales(k, row, group)
    matrix.scales.store(s, c, scale)
    if (minimum) matrix.minimums!.store(s, c, minimum)
  }
  const multiply = (s: Value) => {
    let sums = totals.map((row) => row.map(() => i32(0)))
    for (let w = 0; w < words; w++) {
      const a = input.codes.load(s.mul(words).add(w), down)
      const b = matrix.codes.load(s.mul(words).add(w), across)
      sums = sums.map((row, i) => row.map((sum, j) => k.let(k.dot4(a[i]!, b[j]!, sum))))
    }
    const [inputScales, scales] = [input.scales.load(s, down), matrix.scales.load(s, across)]
    const inputSums = input.sums?.load(s, down)
    const wholeSums = input.wholeSums?.load(s, down).map((sum) => sum.bits("i32"))
    const minimums = matrix.minimums?.load(s, across)
    for (const [i, row] of totals.entries())
      for (const [j, total] of row.entries()) {
        const product = sumOfBytes(codec, sums[i]![j]!, wholeSums?.[i])
        total.set(fma(product, inputScales[i]!.mul(scales[j]!), total.now))
        if (minimums) total.set(fma(minimums[j]!, inputSums![i]!, total.now))
      }
  }

  const stage = (first: Value, count: Value) =>
    eachSide(tile, count, (s, own, isMatrix) => {
      const group = k.let(first.add(s))
      if (isMatrix) stageMatrix(own, s, group)
      else stageInput(own, s, group)
    })
  return {
    width: groupWidth(codec),
    atOnce: staged,
    stage,
    multiply: (count) => k.for(0, count, 1, multiply),
  }
}

/** The same with floats: a chain for each element. */
function floatsTile(tile: Tile): Staged {
  const { k, kind, operands, rows, inputRow, totals, down, across } = tile
  const { codec } = kind
  const { weight } = operands
  const { columns } = weight
  const numbers = numbersOf(k, codec)
  const width = numbers.columns
  const atOnce = Math.max(1, Math.floor(STAGED_WORDS / width))
  const input = new Side(k, "input floats", "f32", atOnce * width, rows)
  const matrix = new Side(k, "matrix", "f32", atOnce * width, TILE_COLUMNS)

  /** The columns of a piece that is whole, at once; of the last one, those that are there, and such as change no sum. */
  const stage = (
    piece: Value,
    whole: () => Value[],
    single: (column: Value) => Value,
    nothing: Value,
    store: (c: Value, value: Value) => void,
  ) => {
    const first = k.let(piece.mul(width))
    k.if(
      first.add(width).le(columns),
      () => {
        for (const [c, value] of whole().entries()) store(u32(c), value)
      },
      () =>
        k.for(0, width, 1, (c) => {
          const column = k.let(first.add(c))
          k.if(
            column.lt(columns),
            () => store(c, single(column)),
            () => store(c, nothing),
          )
        }),
    )
  }
  const stageInput = (r: Value, at: Value, piece: Value) => {
    const row = inputRow(r)
    stage(
      piece,
      () => inputFloats(operands, kind.input, row, piece.mul(width), width),
      (column) => operands.input.load(row.mul(operands.inputStride).add(column)),
      f32(0),
      (c, value) => input.store(at.add(c), r, value),
    )
  }
  // 0 times -0 is -0, and that is what may be added to any number, -0 and all.
  const minusZero = u32(0x80000000).bits("f32")
  const stageMatrix = (c: Value, at: Value, piece: Value) => {
    const row = weightRow(k, weight, tile.matrixRow(c))
    stage(
      piece,
      () => numbers.load(row, piece)(),
      (column) => columnValue(k, row, column),
      minusZero,
      (i, value) => matrix.store(at.add(i), c, value),
    )
  }

  const stageBlocks = (first: Value, count: Value) =>
    eachSide(tile, count, (s, c, isMatrix) => {
      const [at, piece] = [k.let(s.mul(width)), k.let(first.add(s))]
      if (isMatrix) stageMatrix(c, at, piece)
      else stageInput(c, at, piece)
    })
  const multiply = (count: Value) =>
    k.for(0, count.mul(width), 1, (c) => {
      const [a, b] = [input.load(c, down), matrix.load(c, across)]
      for (const [i, row] of totals.entries())
        for (const [j, total] of row.entries()) total.set(fma(a[i]!, b[j]!, total.now))
    })
  return { width, atOnce, stage: stageBlocks, multiply }
}

/** A row of either side for each thread that is left, of each of `count` blocks. */
function eachSide(
  { k, rows }: Tile,
  count: Value,
  stage: (block: Value, place: Value, isMatrix: boolean) => void,
): void {
  const both = TILE_COLUMNS + rows
  k.each(count.mul(both), (job) => {
    const block = k.let(job.div(both))
    const own = k.let(job.rem(both))
    k.if(
      own.lt(TILE_COLUMNS),
      () => stage(block, own, true),
      () => stage(block, k.let(own.sub(TILE_COLUMNS)), false),
    )
  })
}
