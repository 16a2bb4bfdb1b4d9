// Products of 5 and more rows with a matrix of codes on CUDA's matrix units. A group of threads has a panel of 32 columns of the
// output and 16 or 32 rows of it: 32 threads for each of the eight parts of a sum, as products of fewer rows have them
// (products.ts). What a product of tiles takes lies in memory as threads want it: a word of four codes of the input, or of eight
// of a matrix of nibbles, so that nothing is staged, and no thread waits for another before its part is added up.
//
// Tiles are those of `matrixDot`: thread 4q + p of 32 brings columns 4p … of a row of either side, and then 16 more columns on. Which of a
// group's words come first does not matter, as long as both sides' are the same: here they are words 2p and 2p + 1, neighbours.

import { type GroupCodecName, groupCodecs } from "../../../../runtime/format.ts"
import {
  type Builder,
  f32,
  fma,
  i32,
  kernel,
  once,
  select,
  u32,
  type Value,
} from "../ir/builder.ts"
import { type Four, type Kernel, ROOMY, type Two } from "../ir/ir.ts"
import { CHUNK_WORDS, codingOf, PANEL } from "../layout.ts"
import {
  begunSumOfBytes,
  finishRows,
  groupsOfPart,
  halvesOf,
  PARTS,
  type ProductKind,
  type ProductOperands,
  productName,
  productOperands,
  startOfBytes,
} from "./products.ts"
import { groupBytes, groupScales, unitsOf, type WeightRow, weightRow } from "./weights.ts"

/** Rows that a group of threads has. */
export type TiledRows = 16 | 32

/** Columns of a group that a tile takes, words of a group, and columns of the output in a tile. */
const [WIDTH, WORDS, ACROSS] = [32, 8, 8]
/** Rows that are finished at once, and words from one to the next in shared memory: 8 more than there are, for other banks. */
const [FINISHED, PITCH] = [8, PARTS * PANEL + 8]

/** @param outputs of a gated product, of which either half must begin with a panel */
export const isTiled = (kind: ProductKind, outputs: number) =>
  kind.input === "int8" &&
  groupCodecs[kind.codec as GroupCodecName].group === WIDTH &&
  (halvesOf(kind) === 1 || outputs % PANEL === 0)

/** How rows of the input lie: as the plan's buffer has them, or as `laidRows` leaves them for whoever comes next. */
export type Lying = "in rows" | "laid"

/** What a thread has of a group of the input: of each eight rows one, its words at the thread's place and its scale. */
interface OwnRows {
  words: Two<Value>[]
  scales: Value[]
}

/** What a thread reads of a group, of both sides. */
interface Loaded extends OwnRows {
  group: Value
  matrix: Value[][][] // [halves][tiles]
  parameters: ReturnType<typeof groupScales>[][][] // [halves][tiles][its columns of each]
}

/**
 * Columns of the output that a panel's threads have: all of it, or of a gated product that rounds none as many as make a panel of
 * both halves, so that more rows meet each.
 */
export const widthOf = (kind: ProductKind, lying: Lying) =>
  lying === "laid" && kind.rounds === undefined ? PANEL / halvesOf(kind) : PANEL

/** Groups: [`widthOf` columns of the output each, `rows` rows each]. */
export function tiledProduct(kind: ProductKind, rows: TiledRows, lying: Lying): Kernel {
  const name = lying === "laid" ? "laid" : "tiled"
  return kernel(`${name}${rows}_${productName(kind)}`, PARTS * PANEL, (k) => {
    k.roomFor(ROOMY)
    const operands = productOperands(k, kind)
    const { weight, outputs } = operands
    const codec = kind.codec as GroupCodecName
    const halves = halvesOf(kind)
    const width = widthOf(kind, lying)
    const sums = k.shared("sums", "f32", halves * FINISHED * PITCH)
    const [part, thread] = [k.let(k.lane.div(PANEL)), k.let(k.lane.and(PANEL - 1))]
    const [quad, place] = [k.let(thread.div(4)), k.let(thread.and(3))]
    const first = k.let(k.group(1).mul(rows))
    const count = operands.count.load(0)
    const isThere = first.lt(count)
    const groups = k.let(unitsOf(weight.columns, WIDTH))
    const input =
      lying === "laid"
        ? laidInput(k, operands, { rows, first, count, thread, groups })
        : inputInRows(k, operands, { rows, first, quad, place, count })
    // Of each panel the row that thread 0 of a tile has, and the first whose scales this thread wants; others lie beside them.
    const panels = Array.from({ length: halves }, (_, half) => {
      const column = k.let(k.group(0).mul(width))
      const first = half === 0 ? column : column.add(outputs)
      const row = (more: Value) => weightRow(k, weight, first.add(more))
      return { codes: row(quad), scales: row(place.mul(2)) }
    })
    const totals = Array.from({ length: halves }, () =>
      Array.from({ length: rows / 8 }, () =>
        Array.from({ length: (2 * width) / ACROSS }, () => k.variable(f32(0))),
      ),
    )
    const tiles = Array.from({ length: width / ACROSS }, (_, tile) => ACROSS * tile)
    const { from, to } = groupsOfPart(k, kind, weight.columns, part)
    // Minimums and codes of 8 bits take more registers.
    const most = weight.minimums || codingOf(codec).bits === 8 ? 32 : 64
    const atOnce = Math.max(1, most / ((rows * halves * width) / PANEL))
    const load = (i: Value): Loaded => {
      const group = k.let(from.add(i).min(groups.sub(1)))
      return {
        group,
        ...input(group),
        matrix: panels.map(({ codes }) =>
          tiles.map((more) => loadWords(beside(codes, more), group, place)),
        ),
        parameters: panels.map(({ scales }) =>
          tiles.map((tile) =>
            [tile, tile + 1].map((more) => groupScales(k, beside(scales, more), group)),
          ),
        ),
      }
    }
    const add = (loaded: Loaded, within: (write: () => void) => void) => {
      const { group, words, scales, matrix, parameters } = loaded
      const codeSums = weight.minimums && sumsOfInput(k, weight.columns, group, words, place)
      const start = startOfBytes(codec)
      for (const [half, ofRows] of totals.entries())
        for (const [tile, own] of matrix[half]!.entries()) {
          const b = twoWords(k, codec, own)
          const columns = parameters[half]![tile]!
          for (let pair = 0; pair < rows / 16; pair++) {
            const [upper, lower] = [words[2 * pair]!, words[2 * pair + 1]!]
            const a = [upper[0], lower[0], upper[1], lower[1]] as const
            const sums = k.matrixDot(a, b, [start, start, start, start])
            within(() => {
              for (const [i, sum] of sums.entries()) {
                const [r, right] = [2 * pair + Math.floor(i / 2), i % 2]
                const total = ofRows[r]![2 * tile + right]!
                const { scale, minimum } = columns[right]!
                const codes = codeSums?.[r]
                const number = begunSumOfBytes(codec, sum, codes)
                total.set(fma(number, scales[r]!.mul(scale), total.now))
                if (codes) total.set(fma(minimum!, scales[r]!.mul(codes.float()), total.now))
              }
            })
          }
        }
    }
    // As many groups as every part has, some of them on their way at once; then those that are left, which not every part has. All
    // threads come to every product. A part that has none, of a shard's sums, adds up what nobody wants.
    const perPart = (up: number) => select(isThere, groups.add(up).div(kind.parts), 0)
    const common = k.let(perPart(0).div(atOnce).mul(atOnce))
    k.for(0, common, atOnce, (i) => {
      const loaded = Array.from({ length: atOnce }, (_, j) => load(i.add(j)))
      for (const each of loaded) add(each, (write) => write())
    })
    k.for(common, perPart(kind.parts - 1), 1, (i) => {
      const isOwn = k.let(from.add(i).lt(to))
      add(load(i), (write) => k.if(isOwn, write))
    })
    k.letLaterBegin()
    // Eight rows after the other: thread 4q + p has two columns of each tile in the q-th of them.
    for (let block = 0; block < rows / FINISHED; block++) {
      if (block > 0) k.barrier()
      for (const [half, ofRows] of totals.entries())
        for (const [c, total] of ofRows[block]!.entries()) {
          const column = place.mul(2).add(ACROSS * Math.floor(c / 2) + (c % 2))
          const row = quad.add(half * FINISHED)
          sums.store(row.mul(PITCH).add(part.mul(PANEL)).add(column), total.now)
        }
      k.barrier()
      const output = (r: Value) => {
        const row = k.let(first.add(block * FINISHED).add(r))
        return { row, isRow: row.lt(count) }
      }
      const finished = { sums, rows: FINISHED, pitch: PITCH, width }
      finishRows(k, kind, operands, { isThere, output }, finished)
    }
  })
}

/** The row so many further down, in the same panel. */
function beside({ weight, chunkAt, groupAt }: WeightRow, rows: number): WeightRow {
  return {
    weight,
    chunkAt: (chunk) => chunkAt(chunk).add(rows),
    groupAt: (group) => groupAt(group).add(rows),
  }
}

type InputOperands = Pick<ProductOperands, "input" | "inputStride" | "scales" | "scaleStride">

function inputInRows(
  k: Builder,
  operands: InputOperands,
  own: { rows: number; first: Value; quad: Value; place: Value; count: Value },
): (group: Value) => OwnRows {
  const { rows, first, quad, place, count } = own
  const inputs = Array.from({ length: rows / ACROSS }, (_, i) => {
    const row = first.add(ACROSS * i).add(quad)
    return inputRow(k, operands, k.let(row.min(count.sub(1))))
  })
  return (group) => ({
    words: inputs.map(({ codes }) => codes(group, place)),
    scales: inputs.map(({ scale }) => scale(group)),
  })
}

/** Codes of a row of the input: the words of a thread's place in a group, and the group's scale. */
function inputRow(
  k: Builder,
  { input, inputStride, scales, scaleStride }: InputOperands,
  row: Value,
) {
  const pieces = inputStride.div(2)
  const [first, firstScale] = [k.let(row.mul(pieces)), k.let(row.mul(scaleStride!))]
  return {
    // Behind the row's last word comes that again, and meets weights of 0.
    codes: (group: Value, place: Value): Two<Value> =>
      input.loadTwo(
        first.add(
          group
            .mul(WORDS / 2)
            .add(place)
            .min(pieces.sub(1)),
        ),
      ),
    scale: (group: Value) => scales!.load(firstScale.add(group)),
  }
}

/** Rows that `laidRows` takes together: those of a tile; and groups of columns, one for each 32 threads. */
export const LAID = { rows: 16, groups: PARTS } as const

/**
 * Rows of codes as products of tiles want them: of 16 rows and a group, what a thread brings to a tile is 16 bytes, and threads'
 * lie side by side; so do the two scales of threads that have the same rows. Rows behind the last are that one again.
 * Groups: [8 groups of columns each, 16 rows each].
 */
export const laidRows = once(() =>
  kernel("laid_rows", PARTS * PANEL, (k) => {
    const operands = {
      count: k.buffer("count", "u32", "read"),
      input: k.buffer("codes", "u32", "read"),
      scales: k.buffer("input scales", "f32", "read"),
    }
    const [codes, scales] = [k.buffer("laid", "u32", "write"), k.buffer("scales", "f32", "write")]
    const [groups, inputStride, scaleStride] = [
      k.word("groups"),
      k.word("inputStride"),
      k.word("scaleStride"),
    ]
    const count = k.let(operands.count.load(0))
    const [part, thread] = [k.let(k.lane.div(PANEL)), k.let(k.lane.and(PANEL - 1))]
    const [quad, place] = [k.let(thread.div(4)), k.let(thread.and(3))]
    const first = k.let(k.group(1).mul(LAID.rows))
    const group = k.let(k.group(0).mul(PARTS).add(part))
    k.if(first.lt(count).and(group.lt(groups)), () => {
      const own = inputInRows(
        k,
        { ...operands, inputStride, scaleStride },
        { rows: LAID.rows, first, quad, place, count },
      )(group)
      const [upper, lower] = own.words
      const at = k.let(k.group(1).mul(groups).add(group))
      for (const [i, word] of [upper![0], lower![0], upper![1], lower![1]].entries())
        codes.store(at.mul(PANEL).add(thread).mul(4).add(i), word)
      k.if(place.eq(0), () => {
        for (const [i, scale] of own.scales.entries())
          scales.store(at.mul(ACROSS).add(quad).mul(2).add(i), scale)
      })
    })
  }),
)

/** Of a row of so many columns: its groups, and the bytes of what `laidRows` leaves. */
export function laidRow(columns: number): { groups: number; codes: number; scales: number } {
  const groups = Math.ceil(columns / WIDTH)
  return { groups, codes: groups * WIDTH, scales: groups * 4 }
}

function laidInput(
  k: Builder,
  { input, scales }: ProductOperands,
  own: { rows: number; first: Value; count: Value; thread: Value; groups: Value },
): (group: Value) => OwnRows {
  const { rows, first, count, thread, groups } = own
  const last = k.let(count.sub(1).div(LAID.rows))
  const firsts = Array.from({ length: rows / LAID.rows }, (_, i) =>
    k.let(first.div(LAID.rows).add(i).min(last).mul(groups)),
  )
  return (group) => {
    const pairs = firsts.map((of) => {
      const at = k.let(of.add(group))
      return {
        words: input.loadFour(at.mul(PANEL).add(thread)),
        scales: scales!.loadTwo(at.mul(ACROSS).add(thread.div(4))),
      }
    })
    return {
      words: pairs.flatMap(({ words: [a, b, c, d] }): Two<Value>[] => [
        [a, c],
        [b, d],
      ]),
      scales: pairs.flatMap((pair) => pair.scales),
    }
  }
}

/** What of a group of a row of the matrix words 2 * place and 2 * place + 1 are made of. */
function loadWords({ weight, chunkAt }: WeightRow, group: Value, place: Value): Value[] {
  if (codingOf(weight.codec as GroupCodecName).bits === 4)
    return [weight.values.load(chunkAt(group).mul(CHUNK_WORDS).add(place))]
  const chunk = chunkAt(group.mul(2).add(place.div(2)))
  return weight.values.loadTwo(chunk.mul(CHUNK_WORDS / 2).add(place.and(1)))
}

function twoWords(k: Builder, codec: GroupCodecName, loaded: readonly Value[]): Two<Value> {
  const [first, second] = groupBytes(k, codec, loaded)
  return [first!, second!]
}

/** Of each row of the input the sum of a group's codes, without what lies behind the row's end: each meets ones. */
function sumsOfInput(
  k: Builder,
  columns: Value,
  group: Value,
  words: readonly Two<Value>[],
  place: Value,
): Value[] {
  const ones = u32(0x01010101)
  const own = words.map((two) =>
    two.map((word, i) => {
      const column = group.mul(WIDTH).add(place.mul(8).add(4 * i))
      return k.let(select(column.lt(columns), word, 0))
    }),
  )
  const zero = i32(0)
  return Array.from({ length: words.length / 2 }, (_, pair) => {
    const [upper, lower] = [own[2 * pair]!, own[2 * pair + 1]!]
    const a = [upper[0]!, lower[0]!, upper[1]!, lower[1]!] as Four<Value>
    const made = k.matrixDot(a, [ones, ones], [zero, zero, zero, zero])
    return [made[0], made[2]]
  }).flat()
}
