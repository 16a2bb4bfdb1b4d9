// The products of attend-codes.ts in tiles, for items of several rows: 32 threads multiply sixteen queries with eight positions, or
// with eight columns of values, at a time. Pieces of tiles lie as ir.ts says (`matrixDot`): of them a thread takes the cache's
// side from memory as it lies there, without a stop in shared memory.

import { BLOCK } from "../../../../runtime/program.ts"
import { type Builder, f32, fma, i32, u32, type Value } from "../ir/builder.ts"
import { type Four, MATRIX_THREADS, TILE } from "../ir/ir.ts"
import { CodeProducts, codeWords, sumOfHalves } from "./attend-codes.ts"
import {
  type AttendShape,
  type Mixed,
  type Mixing,
  type Part,
  type Score,
  STEP,
  tilingOf,
} from "./attention.ts"
import { transposedBytes } from "./codes.ts"
import { keyChunkIndex, scaleIndex, valueUnitIndex } from "./kv.ts"

/** Columns of four tiles: a word of values has one of each. */
const COLUMNS = 32
const NOTHING: Four<Value> = [i32(0), i32(0), i32(0), i32(0)]

/** Words of shared memory for sixteen queries, but what all attention has. */
export const tileWords = ({ layout }: Pick<AttendShape, "layout">) =>
  TILE * codeWords({ layout, products: "tiles" }, 1)

/** Which of 32 threads this is, 4 * quad + place, and of which team. */
function placeOf(k: Builder) {
  const thread = k.let(k.lane.rem(MATRIX_THREADS))
  return {
    team: k.let(k.lane.div(MATRIX_THREADS)),
    quad: k.let(thread.div(4)),
    place: k.let(thread.rem(4)),
  }
}

/** Upper and lower bytes' sums. */
type Halves = [Four<Value>, Four<Value>]

/** The elements of a thread in a tile: rows and columns, less its quad and twice its place. */
const ELEMENTS = [
  { row: 0, column: 0 },
  { row: 0, column: 1 },
  { row: TILE / 2, column: 0 },
  { row: TILE / 2, column: 1 },
] as const

export class TileProducts extends CodeProducts {
  scores(part: Part): Score[] {
    const { k, shape } = this
    return tileProducts(k, shape, this, part).flatMap(({ within, products }) => {
      const at = scaleIndex(shape.layout, "keys", part.spotOf(within))
      const by = part.stored.load(at).bits("f32")
      return products.map(({ q, product }) => {
        const score = k.let(product.mul(by).mul(this.queryScales.load(q)))
        return { q, isOwn: undefined, within, score }
      })
    })
  }

  mixes(): Mixing {
    return tileMixes(this.k, this.shape, this)
  }
}

/** The products of each query with a position's key, of the positions and queries that this thread has. */
function tileProducts(
  k: Builder,
  { layout }: AttendShape,
  coded: CodeProducts,
  { stored, spotOf }: Part,
): { within: Value; products: { q: Value; product: Value }[] }[] {
  const { team, quad, place } = placeOf(k)
  const tiles = [0, 1].map((tile) => k.let(team.mul(BLOCK).add(tile * 8)))
  const firsts = tiles.map((first) =>
    k.let(
      keyChunkIndex(layout, spotOf(k.let(first.add(quad))), 0)
        .mul(4)
        .add(place),
    ),
  )
  const chunks = layout.keyWidth / layout.chunk
  const from = k.let(quad.mul(coded.queryStride).add(place))
  const sums = tiles.map((): Halves => [NOTHING, NOTHING])
  for (let chunk = 0; chunk < chunks; chunk += 2) {
    const keys = firsts.map((first) =>
      [chunk, chunk + 1].map((own) =>
        own < chunks ? stored.load(first.add(own * BLOCK * 4)) : u32(0),
      ),
    )
    for (const half of [0, 1] as const) {
      const at = half * coded.words + chunk * 4
      const rows = [0, 4].flatMap((far) =>
        [0, TILE / 2].map((row) =>
          coded.queries.load(from.add(row * coded.queryStride + at + far)),
        ),
      ) as unknown as Four<Value>
      for (const [tile, [near, far]] of keys.entries())
        sums[tile]![half] = k.matrixDot(rows, [near!, far!], sums[tile]![half])
    }
  }
  return tiles.flatMap((first, tile) =>
    [0, 1].map((column) => ({
      within: k.let(first.add(place.mul(2)).add(column)),
      products: ELEMENTS.flatMap((element, i) => {
        if (element.column !== column) return []
        const [upper, lower] = sums[tile]!.map((sum) => sum[i]!) as [Value, Value]
        return [{ q: k.let(quad.add(element.row)), product: sumOfHalves(upper, lower) }]
      }),
    })),
  )
}

/** Values: tile `t` of four has columns t, t + 4, t + 8 …, so that a word of values has one of each. */
function tileMixes(k: Builder, shape: AttendShape, coded: CodeProducts): Mixing {
  const { layout, values: columns } = shape
  const teams = tilingOf(shape).threads / MATRIX_THREADS
  const blocks = Math.ceil(columns / COLUMNS)
  const { team, quad, place } = placeOf(k)
  const last = layout.valueWidth / 4 - 1
  const own = Array.from({ length: Math.ceil(blocks / teams) }, (_, i) => {
    const block = k.let(team.add(i * teams))
    return {
      block,
      unit: k.let(
        block
          .mul(COLUMNS / 4)
          .add(quad)
          .min(last),
      ),
      sums: Array.from({ length: 4 }, () => ELEMENTS.map(() => k.variable(f32(0)))),
    }
  })

  /** A block at a time: sums of more would not all find a register. */
  const add = ({ stored, corrections, spotOf }: Mixed) => {
    for (const { unit, sums } of own) {
      const wholes = sums.map((): Halves => [NOTHING, NOTHING])
      for (let first = 0; first < STEP; first += 2 * BLOCK) {
        // Positions 4 * place … of sixteen, and of the next sixteen.
        const within = k.let(place.mul(4).add(first))
        const [near, far] = [0, BLOCK].map((more) => {
          const spots = Array.from({ length: 4 }, (_, j) => spotOf(k.let(within.add(more + j))))
          const words = spots.map((spot) => stored.load(valueUnitIndex(layout, spot, unit)))
          return transposedBytes(k, words)
        })
        for (const half of [0, 1] as const) {
          const weights = [0, BLOCK].flatMap((more) =>
            [0, TILE / 2].map((row) => coded.loadCodes(quad.add(row), within.add(more), half)),
          ) as unknown as Four<Value>
          for (const [tile, halves] of wholes.entries())
            halves[half] = k.matrixDot(weights, [near![tile]!, far![tile]!], halves[half])
        }
      }
      for (const [i, { row }] of ELEMENTS.entries()) {
        const q = k.let(quad.add(row))
        const [correction, scale] = [corrections.load(q), coded.weightScales.load(q)]
        for (const [tile, elements] of sums.entries()) {
          const [upper, lower] = wholes[tile]!.map((whole) => whole[i]!) as [Value, Value]
          const sum = elements[i]!
          sum.set(fma(sumOfHalves(upper, lower), scale, sum.now.mul(correction)))
        }
      }
    }
  }

  const each = (body: (q: Value, column: Value, sum: Value) => void) => {
    for (const { block, sums } of own)
      for (const [tile, elements] of sums.entries())
        for (const [i, { now }] of elements.entries()) {
          const { row, column } = ELEMENTS[i]!
          const number = place.mul(2).add(column).mul(4).add(tile)
          const at = k.let(block.mul(COLUMNS).add(number))
          const write = () => body(k.let(quad.add(row)), at, now)
          if (columns % (teams * COLUMNS) === 0) write()
          else k.if(at.lt(columns), write)
        }
  }
  return { add, each }
}
