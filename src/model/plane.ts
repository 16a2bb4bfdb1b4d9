// A convolution of three by three taps over the patches of an image, column by column. In memory patches do not lie line by line, and lines are
// as long as the image is wide: so each finds its neighbours by attention. A key tells by ones among zeros in which column its patch lies
// and in which line, a query those of a neighbour. Where all agree the score is far above every other; a sink stands between, so that
// beyond the edges nothing is found. Patches see no more than the lines around their own (`isNear`), which a line's code tells apart.

import { add, attention, concat, embed, slice, weigh } from "../compiler/graph/builder.ts"
import type { Node } from "../compiler/graph/graph.ts"
import { type Named, named } from "./tensors.ts"
import type { Naming } from "./weights/names.ts"

/** A number is told by so many digits, each of so many values. */
const BASE = 16
const DIGITS = 3
/** Lines and columns that an image may have. */
const MOST_LINES = BASE ** DIGITS

/** Columns of a head that finds neighbours, at the least. */
export const FINDING = (DIGITS + 1) * BASE

/** Of a digit that agrees: a score that lacks one is nothing beside one that lacks none, and whole numbers of it are exact in any float. */
const AGREED = 256
const NOTHING = (DIGITS + 0.5) * AGREED

/** Taps to each side of the plane. */
export const SIDE = 3

/** Nobody reads what is kept here of rows behind a layer: all convolutions have one place, that of attention before it. */
const KEPT = 1

/** A convolution by the taps of a layer. @param columns of a row */
export function planeOf(columns: number): (x: Node, layer: Named) => Node {
  let heads = Math.floor(columns / FINDING)
  while (columns % heads !== 0) heads--
  const headDim = columns / heads
  const own = named("plane_", "model.plane.")
  const table = (name: string) => ({
    ...own(name, `${name}.weight`, MOST_LINES, headDim - BASE),
    exact: true as const,
  })
  const code = (across: string, down: string) => {
    const line = slice(embed(table(down), "height"), 0, BASE)
    return Array<Node>(heads)
      .fill(concat(embed(table(across), "width"), line))
      .reduce(concat)
  }
  const key = code("here", "here")
  const found = (query: Node) => (value: Node) =>
    attention(
      query,
      key,
      value,
      {
        ...{ layer: KEPT, heads, kvHeads: heads, headDim, scale: AGREED },
        ...{ cap: undefined, window: undefined, sinks: 0, mutual: true },
      },
      { sinkLogits: own("nothing", "nothing.weight", heads) },
    )
  const [left, right] = [found(code("before", "here")), found(code("behind", "here"))]
  const [above, below] = [found(code("here", "before")), found(code("here", "behind"))]
  return (x, layer) => {
    const three = [left(x), x, right(x)]
    const line = (y: number) =>
      three
        .map((each, i) => {
          const tap = y * SIDE + i
          return weigh(each, layer(`conv_tap_${tap}`, `conv.tap_${tap}.weight`, columns))
        })
        .reduce(add)
    return [above(line(0)), line(1), below(line(2))].reduce(add)
  }
}

/** Tables that nobody stores, and a layer's taps. @param name of these, stored as [columns, 1, 3, 3] */
export function planeParts(name: string, columns: number): Naming["parts"] {
  const digits = (shift: number) => ({
    name: "plane.digits",
    digits: { base: BASE, count: DIGITS, shift },
  })
  const taps = SIDE * SIDE
  return {
    "plane.here.weight": digits(0),
    "plane.before.weight": digits(-1),
    "plane.behind.weight": digits(1),
    "plane.nothing.weight": { name: "plane.nothing", constant: NOTHING },
    ...Object.fromEntries(
      Array.from({ length: taps }, (_, tap) => [
        `conv.tap_${tap}.weight`,
        {
          name: `${name}.weight`,
          shape: [columns, 1, SIDE, SIDE],
          rows: { of: columns * taps, from: tap, run: 1, every: taps },
        },
      ]),
    ),
  }
}
