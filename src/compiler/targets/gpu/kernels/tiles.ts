// Products of many rows with a matrix, in tiles of 64 columns of the output and 32 or 64 rows: some columns of both sides come
// to shared memory, and 256 threads each make 4 columns of 2 or 4 rows of it. Sums are those of products.ts: the parts of
// each element follow one another, and join their tree as soon as both of its sides are there. Where a device multiplies tiles
// of bytes or halves, 32 threads do so together, a group of columns at a time: those sums are whole numbers, so the bits are the same.

import type { GroupCodecName, WideCodec } from "../../../../runtime/format.ts"
import { WIDE_GROUP } from "../../../plan.ts"
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
import { type Kernel, MATRIX_THREADS, TILE, TILE_DEPTHS } from "../ir/ir.ts"
import { codingOf } from "../layout.ts"
import { wideFloats } from "./codes.ts"
import {
  finish,
  groupsOfPart,
  groupWidth,
  halvesOf,
  inputFloats,
  inputWords,
  type ProductKind,
  type ProductOperands,
  productName,
  productOperands,
  sumOfBytes,
  sumOfCodes,
  wideInputWords,
  wideSum,
} from "./products.ts"
import {
  columnValue,
  groupBytes,
  groupScales,
  groupWords,
  numbersOf,
  unitsOf,
  weightRow,
  wideGroupWords,
} from "./weights.ts"

/** Rows of the matrix in a tile: of a gated product, half of them gates and half the rows that belong to them. */
export const TILE_COLUMNS = 64
type TileRows = 32 | 64

/** Threads along a side of a square. */
const SIDE = 16

/** Threads stand in a square, and take every 16th column and every 16th row. */
function placesInSquare(k: Builder, rows: TileRows): Places {
  const every = (count: number) => Array.from({ length: count / SIDE }, (_, i) => i * SIDE)
  return {
    down: [{ first: k.let(k.lane.div(SIDE)), offsets: every(rows) }],
    across: [{ first: k.let(k.lane.rem(SIDE)), offsets: every(TILE_COLUMNS) }],
  }
}

/**
 * Each 32 threads have two tiles of 16 rows below each other, times two of 8 columns: in the left half of the columns and in the
 * right one, where the rows lie that belong to gates. Within them a thread has what `matrixDot` gives it.
 */
function placesInTiles(k: Builder): Places {
  const { quad, place, rows, columns } = pieceOf(k)
  return {
    down: [{ first: k.let(rows.add(quad)), offsets: [0, 8, 16, 24] }],
    across: [{ first: k.let(columns.add(place.mul(2))), offsets: [0, 1, 32, 33] }],
  }
}

/**
 * A team has two tiles of 16 by 16 in the same rows, one in either half of the columns. A thread has eight elements of each, and
 * asks a tile of the numbers 0 to 255 which ones.
 */
function placesOfTeam(k: Builder, units: "bytes" | "halves"): Places {
  const { rows, columns } = tilesOfTeam(k)
  const numbers = k.shared("places", units === "bytes" ? "u32" : "f32", TILE ** 2)
  k.each(TILE ** 2, (i) => numbers.store(i, units === "bytes" ? i : i.float()))
  k.barrier()
  const own = k.tileElements(numbers).map((number) => {
    const place = units === "bytes" ? number : number.whole().bits("u32")
    return { row: place.div(TILE), column: place.rem(TILE) }
  })
  return {
    down: own.map(({ row }) => ({ first: k.let(rows.add(row)), offsets: [0] })),
    across: own.map(({ column }) => ({ first: k.let(columns.add(column)), offsets: [0, 32] })),
  }
}

/** Where they begin: the first row, and the first column of the left one. */
const tilesOfTeam = (k: Builder) => ({
  rows: k.team.div(2).mul(TILE),
  columns: k.team.rem(2).mul(TILE),
})

/** Thread 4 * quad + place of 32, and the first row and column that those have. */
function pieceOf(k: Builder) {
  const [thread, team] = [k.lane.rem(MATRIX_THREADS), k.lane.div(MATRIX_THREADS)]
  return {
    quad: k.let(thread.div(4)),
    place: k.let(thread.rem(4)),
    rows: team.div(4).mul(32),
    columns: team.rem(4).mul(8),
  }
}

type Places = Pick<Tile, "down" | "across">

const placesFor = (k: Builder, rows: TileRows, units: Units): Places => {
  if (units === "dots") return placesInSquare(k, rows)
  return units === "tiles" ? placesInTiles(k) : placesOfTeam(k, units)
}

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
  /** Their numbers in the tile: of its rows, and of the columns it has in each of them, where it has the same in all but once. */
  down: readonly Spread[]
  across: readonly Spread[]
  units: Units
}

/**
 * What multiplies codes: dots of four, or tiles of them, in which 32 threads work together. Those of "tiles" lie in registers, in
 * a known way (`matrixDot`), those of bytes and of halves in shared memory (`tileDot`).
 */
export type Units = "dots" | "tiles" | "bytes" | "halves"

/** The first of some numbers, and how far from it each is. */
interface Spread {
  first: Value
  offsets: readonly number[]
}

/** Groups: [64 rows of the matrix each, `rows` rows of the input each]. @param units others than "dots" only for 64 rows of codes */
export function tileProduct(kind: ProductKind, rows: TileRows, units: Units): Kernel {
  const halves = halvesOf(kind)
  const width = TILE_COLUMNS / halves
  // What takes the place of another is called the same.
  const name = units === "tiles" ? "matrix" : "tile"
  return kernel(`${name}${rows}_${productName(kind)}`, SIDE * SIDE, (k) => {
    const operands = productOperands(k, kind)
    const { weight, outputs } = operands
    const [firstColumn, firstRow] = [k.let(k.group(0).mul(width)), k.let(k.group(1).mul(rows))]
    const count = operands.count.load(0)
    const places = placesFor(k, rows, units)
    const { down, across } = places
    const ownRows = down.flatMap(({ first, offsets }) => offsets.map((offset) => first.add(offset)))
    const ownColumns = across[0]!.offsets.length
    const variables = () =>
      ownRows.map(() => Array.from({ length: ownColumns }, () => k.variable(f32(0))))
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
      ...places,
      units,
    }
    const { width: block, atOnce, stage, multiply } = stagedOf(tile)
    const waiting = Array.from({ length: Math.log2(kind.parts) }, variables)
    // One loop over the steps of all parts, each of which has as many: nothing but that has barriers.
    const perGroup = groupWidth(weight.codec) / block
    const groups = k.let(unitsOf(weight.columns, groupWidth(weight.codec)))
    const blocks = unitsOf(groups, kind.parts).mul(perGroup)
    const perPart = k.let(unitsOf(blocks, atOnce))
    const steps = select(firstRow.lt(count), perPart.mul(kind.parts), 0)
    k.for(0, steps, 1, (step) => {
      const part = k.let(step.div(perPart))
      const own = k.let(step.rem(perPart))
      const { from, to } = groupsOfPart(k, kind, weight.columns, part)
      const first = k.let(from.mul(perGroup).add(own.mul(atOnce)))
      const count = k.let(to.mul(perGroup).max(first).sub(first).min(atOnce))
      k.if(own.eq(0), () => {
        for (const total of tile.totals.flat()) total.set(0)
      })
      stage(first, count)
      k.barrier()
      multiply(count)
      k.if(own.eq(perPart.sub(1)), () => join(k, part, tile.totals, waiting, 1))
      k.barrier()
    })
    for (const [i, totals] of tile.totals.entries())
      for (let j = 0; j < ownColumns / halves; j++) {
        const { first, offsets } = acrossOf(across, i)
        const row = k.let(firstRow.add(ownRows[i]!))
        const column = k.let(firstColumn.add(first).add(offsets[j]!))
        const sums = Array.from(
          { length: halves },
          (_, half) => totals[j + half * (ownColumns / 2)]!.now,
        )
        k.if(row.lt(count).and(column.lt(outputs)), () =>
          finish(k, kind, operands, { row, column }, sums),
        )
      }
  })
}

function stagedOf(tile: Tile): Staged {
  const { input } = tile.kind
  if (input === "int8") return codesTile(tile)
  return input === "int16" ? wideTile(tile) : floatsTile(tile)
}

/** The columns that a thread has in its `i`th row. */
const acrossOf = (across: readonly Spread[], i: number): Spread => across[i] ?? across[0]!

/**
 * A part that has been added up goes into the tree: what waits at level l is the sum of 2^l parts. After the last part, totals
 * are whole.
 * @param count of the parts that are in the totals
 */
function join(
  k: Builder,
  part: Value,
  totals: Variable[][],
  waiting: Variable[][][],
  count: number,
): void {
  const [level, ...above] = waiting
  if (!level) return
  const each = (what: (total: Variable, waiting: Variable) => void) => {
    for (const [i, row] of totals.entries())
      for (const [j, total] of row.entries()) what(total, level[i]![j]!)
  }
  k.if(
    part.and(count).eq(0),
    () => each((total, waiting) => waiting.set(total.now)),
    () => {
      each((total, waiting) => total.set(waiting.now.add(total.now)))
      join(k, part, totals, above, 2 * count)
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

/**
 * A shared array of some numbers for each of a tile's rows or columns, those of neighbours side by side; `width` may be more
 * than there are, which puts the numbers of one row into different banks.
 */
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

  /** Number `number` of some rows or columns. */
  load(number: Value, spreads: readonly Spread[]): Value[] {
    return spreads.flatMap(({ first, offsets }) => {
      const at = number.mul(this.#width).add(first)
      return offsets.map((offset) => this.#elements.load(at.add(offset)))
    })
  }
}

/** Codes of a tile's rows or columns in shared memory, as words of four. */
interface Codes {
  /** Word `w` of group `s`. */
  store(s: Value, w: Value | number, place: Value, word: Value): void
}

/** Words of neighbours side by side: what `Side` does, a number for each word. */
class WordsApart implements Codes {
  readonly side: Side
  readonly #words: number

  constructor(side: Side, words: number) {
    this.side = side
    this.#words = words
  }

  store(s: Value, w: Value | number, place: Value, word: Value): void {
    this.side.store(s.mul(this.#words).add(w), place, word)
  }
}

/** Each row's codes side by side, as bytes or as halves, groups padded with zeros to what tiles are deep. */
class CodesOfRows implements Codes {
  readonly #elements: Elements
  readonly #isBytes: boolean
  /** Of a group, in numbers. */
  readonly depth: number
  /** In elements, from one row to the next: 16 bytes more than it takes, which puts rows into different banks. */
  readonly #stride: number
  /** What a word of codes takes. */
  readonly #perWord: number

  constructor(k: Builder, name: string, units: "bytes" | "halves", rows: number, groups: Groups) {
    this.#isBytes = units === "bytes"
    this.depth = groups.depth
    this.#perWord = this.#isBytes ? 1 : 4
    this.#stride = (groups.atOnce * this.depth * this.#perWord) / 4 + (this.#isBytes ? 4 : 8)
    this.#elements = k.shared(name, this.#isBytes ? "u32" : "f16", rows * this.#stride)
  }

  store(s: Value, w: Value | number, place: Value, word: Value): void {
    const at = this.#at(s, place).add(
      typeof w === "number" ? w * this.#perWord : w.mul(this.#perWord),
    )
    if (this.#isBytes) this.#elements.store(at, word)
    else
      for (let i = 0; i < 4; i++) {
        const code = word
          .shl(24 - 8 * i)
          .bits("i32")
          .shr(24)
        this.#elements.store(at.add(i), code.float())
      }
  }

  /** A tile of 16 rows of group `s`. */
  tile(s: Value, first: Value) {
    return { elements: this.#elements, from: this.#at(s, first), stride: this.#stride }
  }

  #at(s: Value, place: Value): Value {
    return place.mul(this.#stride).add(s.mul((this.depth * this.#perWord) / 4))
  }
}

/** How deep tiles of a group are, and how many groups are in shared memory at once. */
interface Groups {
  depth: number
  atOnce: number
}

function groupsFor(codec: GroupCodecName, units: Units): Groups {
  const width = groupWidth(codec)
  const whole = Math.max(1, Math.floor(STAGED_WORDS / (width / 4)))
  if (units === "dots" || units === "tiles") return { depth: width, atOnce: whole }
  const least = units === "bytes" ? TILE_DEPTHS.byteTiles : TILE_DEPTHS.halfTiles
  const depth = Math.ceil(width / least) * least
  // Halves take twice the room, and there is none for more than a group.
  return { depth, atOnce: units === "bytes" ? Math.max(1, (4 * STAGED_WORDS) / depth) : 1 }
}

/** Both sides of some groups are brought to shared memory, each row of one by a thread, and multiplied by all. */
function codesTile(tile: Tile): Staged {
  const { k, kind, operands, rows, inputRow, totals, down, across, units } = tile
  const codec = kind.codec as GroupCodecName
  const { weight } = operands
  const words = groupWidth(codec) / 4
  const groups = groupsFor(codec, units)
  const staged = groups.atOnce
  const codes = codesOf(tile, words, { input: groups, matrix: groups })
  const input = {
    codes: codes.input,
    scales: new Side(k, "input scales", "f32", staged, rows),
    sums: weight.minimums && new Side(k, "input sums", "f32", staged, rows),
    wholeSums: codingOf(codec).less
      ? new Side(k, "input whole sums", "u32", staged, rows)
      : undefined,
  }
  const matrix = {
    codes: codes.matrix,
    scales: new Side(k, "scales", "f32", staged, TILE_COLUMNS),
    minimums: weight.minimums && new Side(k, "minimums", "f32", staged, TILE_COLUMNS),
  }

  const stageInput = (r: Value, s: Value, group: Value) => {
    const row = inputRow(r)
    const own = inputWords(k, codec, operands, row, group)
    storeWords(input.codes, s, r, own)
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
    storeWords(matrix.codes, s, c, own)
    const { scale, minimum } = groupScales(k, row, group)
    matrix.scales.store(s, c, scale)
    if (minimum) matrix.minimums!.store(s, c, minimum)
  }
  const storeWords = (to: Codes, s: Value, place: Value, own: readonly Value[]) => {
    for (let w = 0; w < groups.depth / 4; w++) to.store(s, w, place, own[w] ?? u32(0))
  }
  const multiply = (s: Value) => {
    const sums = codes.sums(s, s)
    const inputScales = input.scales.load(s, down)
    const scales = across.map((spread) => matrix.scales.load(s, [spread]))
    const inputSums = input.sums?.load(s, down)
    const wholeSums = input.wholeSums?.load(s, down).map((sum) => sum.bits("i32"))
    const minimums = matrix.minimums && across.map((spread) => matrix.minimums!.load(s, [spread]))
    for (const [i, row] of totals.entries())
      for (const [j, total] of row.entries()) {
        const product = sumOfBytes(codec, sums[i]![j]!, wholeSums?.[i])
        const scale = (scales[i] ?? scales[0]!)[j]!
        total.set(fma(product, inputScales[i]!.mul(scale), total.now))
        if (!minimums) continue
        total.set(fma((minimums[i] ?? minimums[0]!)[j]!, inputSums![i]!, total.now))
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

/**
 * Codes of 16 bits: of a group the upper and the lower bytes are multiplied like two groups, each with each. Floats of the matrix
 * become codes on their way to shared memory. Where tiles are of halves it has no room for all of it: the input's lower bytes
 * come there when its upper ones have been multiplied.
 */
function wideTile(tile: Tile): Staged {
  const { k, kind, operands, rows, inputRow, totals, down, across, units } = tile
  const codec = kind.codec as WideCodec
  const words = WIDE_GROUP / 4
  const depth = WIDE_GROUP
  const isSplit = units === "halves"
  const codes = codesOf(tile, words, {
    input: { depth, atOnce: isSplit ? 1 : 2 },
    matrix: { depth, atOnce: 2 },
  })
  const inputScales = new Side(k, "input scales", "f32", 1, rows)
  const scales = new Side(k, "scales", "f32", 1, TILE_COLUMNS)
  const current = k.variable(u32(0), "group")

  /** Four words of a row are a thread's. */
  const stageInput = (first: Value, group: Value, pieces: number) =>
    k.each(pieces * rows, (job) => {
      const [piece, r] = [k.let(job.div(rows)), k.let(job.rem(rows))]
      const own = k.let(first.add(piece))
      const row = inputRow(r)
      const loaded = wideInputWords(k, operands, row, group, { from: own.mul(4), count: 4 })
      const [half, w] = [isSplit ? u32(0) : own.div(2), own.and(1).mul(4)]
      for (const [i, word] of loaded.entries()) codes.input.store(half, w.add(i), r, word)
      k.if(own.eq(0), () => {
        const scale = operands.scales!.load(row.mul(operands.scaleStride!).add(group))
        inputScales.store(u32(0), r, scale)
      })
    })
  /** Eight floats of a row become a thread's two words of either half; what the group is scaled with, each finds for itself. */
  const stageMatrix = (group: Value) => {
    const pieces = WIDE_GROUP / 8
    k.each(pieces * TILE_COLUMNS, (job) => {
      const [piece, c] = [k.let(job.div(TILE_COLUMNS)), k.let(job.rem(TILE_COLUMNS))]
      const row = weightRow(k, operands.weight, tile.matrixRow(c))
      const all = wideGroupWords(k, row, group)
      const { scale, codes: codesIn } = wideFloats(k, codec, all)
      const own = Array.from({ length: 4 }, (_, i) =>
        k.let(
          select(
            piece.lt(2),
            select(piece.eq(0), all[i]!, all[4 + i]!),
            select(piece.eq(2), all[8 + i]!, all[12 + i]!),
          ),
        ),
      )
      const { upper, lower } = codesIn(own)
      for (const [half, made] of [upper, lower].entries())
        for (const [i, word] of made.entries())
          codes.matrix.store(u32(half), piece.mul(2).add(i), c, word)
      k.if(piece.eq(0), () => scales.store(u32(0), c, scale))
    })
  }
  const multiply = () => {
    const sums = (ofInput: number, ofMatrix: number) =>
      codes.sums(u32(isSplit ? 0 : ofInput), u32(ofMatrix))
    const [uppers, upperByLower] = [sums(0, 0), sums(0, 1)]
    if (isSplit) {
      k.barrier()
      stageInput(u32(2), current.now, 2)
      k.barrier()
    }
    const [lowerByUpper, lowers] = [sums(1, 0), sums(1, 1)]
    const ofInput = inputScales.load(u32(0), down)
    const ofMatrix = across.map((spread) => scales.load(u32(0), [spread]))
    for (const [i, row] of totals.entries())
      for (const [j, total] of row.entries()) {
        const middle = upperByLower[i]![j]!.add(lowerByUpper[i]![j]!)
        const sum = wideSum(uppers[i]![j]!, middle, lowers[i]![j]!)
        const scale = (ofMatrix[i] ?? ofMatrix[0]!)[j]!
        total.set(fma(sum, ofInput[i]!.mul(scale), total.now))
      }
  }
  return {
    width: WIDE_GROUP,
    atOnce: 1,
    stage: (first, count) => {
      current.set(first)
      k.for(0, count, 1, () => {
        stageMatrix(first)
        stageInput(u32(0), first, isSplit ? 2 : 4)
      })
    },
    multiply: (count) => k.for(0, count, 1, multiply),
  }
}

/** Where the codes of both sides lie, and what multiplies those of a group of either. */
interface TileCodes {
  input: Codes
  matrix: Codes
  /** Of this thread's elements. */
  sums: (ofInput: Value, ofMatrix: Value) => Value[][]
}

/** @param words of a group */
function codesOf(tile: Tile, words: number, groups: { input: Groups; matrix: Groups }): TileCodes {
  const { k, rows, units } = tile
  if (units === "bytes" || units === "halves") {
    const input = new CodesOfRows(k, "input codes", units, rows, groups.input)
    const matrix = new CodesOfRows(k, "codes", units, TILE_COLUMNS, groups.matrix)
    return { input, matrix, sums: (a, b) => sumsOfTeam(k, [input, a], [matrix, b]) }
  }
  const apart = units === "tiles" ? 8 : 0 // banks between the numbers of a row
  const side = (name: string, count: number, { atOnce }: Groups) =>
    new Side(k, name, "u32", atOnce * words, count + apart)
  const input = side("input codes", rows, groups.input)
  const matrix = side("codes", TILE_COLUMNS, groups.matrix)
  const sumsOf = units === "tiles" ? sumsByTiles : sumsByDots
  return {
    input: new WordsApart(input, words),
    matrix: new WordsApart(matrix, words),
    sums: (a, b) => sumsOf(tile, [input, a.mul(words)], [matrix, b.mul(words)], words),
  }
}

/** Of both of a team's tiles: [elements of a tile][tiles]. */
function sumsOfTeam(
  k: Builder,
  [input, ofInput]: readonly [CodesOfRows, Value],
  [matrix, ofMatrix]: readonly [CodesOfRows, Value],
): Value[][] {
  const { rows, columns } = tilesOfTeam(k)
  const [left, right] = [0, TILE_COLUMNS / 2].map((more) =>
    k.tileDot(input.tile(ofInput, rows), matrix.tile(ofMatrix, columns.add(more)), input.depth),
  )
  return left!.map((sum, i) => [sum, right![i]!])
}

/** Of this thread's elements, sums of products of so many words of four codes. */
function sumsByDots(
  { k, totals, down, across }: Tile,
  [input, inputFirst]: readonly [Side, Value],
  [matrix, matrixFirst]: readonly [Side, Value],
  words: number,
): Value[][] {
  let sums = totals.map((row) => row.map(() => i32(0)))
  for (let w = 0; w < words; w++) {
    const a = input.load(inputFirst.add(w), down)
    const b = matrix.load(matrixFirst.add(w), across)
    sums = sums.map((row, i) => row.map((sum, j) => k.let(k.dot4(a[i]!, b[j]!, sum))))
  }
  return sums
}

/** The same, eight words at a time; words that are missing in the last eight are zeros. */
function sumsByTiles(
  { k, totals, down }: Tile,
  [input, inputFirst]: readonly [Side, Value],
  [matrix, matrixFirst]: readonly [Side, Value],
  words: number,
): Value[][] {
  const { quad, place, columns } = pieceOf(k)
  const across = [{ first: k.let(columns.add(quad)), offsets: [0, 32] }]
  const sums = totals.map((row) => row.map(() => i32(0)))
  for (let w = 0; w < words; w += 8) {
    const [near, far] = [0, 4].map(
      (more) =>
        (side: Side, first: Value, of: readonly Spread[]): Value[] => {
          const left = words - w - more
          if (left <= 0) return of.flatMap(({ offsets }) => offsets.map(() => u32(0)))
          if (left >= 4) return side.load(first.add(place).add(w + more), of)
          const loaded = side.load(first.add(place.min(left - 1)).add(w + more), of)
          return loaded.map((word) => select(place.lt(left), word, 0))
        },
    ) as [WordsOf, WordsOf]
    const [a, b] = [near(input, inputFirst, down), near(matrix, matrixFirst, across)]
    const [aFar, bFar] = [far(input, inputFirst, down), far(matrix, matrixFirst, across)]
    for (const i of [0, 2])
      for (const j of [0, 2]) {
        const [upper, lower] = [sums[i]!, sums[i + 1]!]
        const made = k.matrixDot(
          [a[i]!, a[i + 1]!, aFar[i]!, aFar[i + 1]!],
          [b[j / 2]!, bFar[j / 2]!],
          [upper[j]!, upper[j + 1]!, lower[j]!, lower[j + 1]!],
        )
        ;[upper[j], upper[j + 1], lower[j], lower[j + 1]] = made
      }
  }
  return sums
}

type WordsOf = (side: Side, first: Value, of: readonly Spread[]) => Value[]

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
