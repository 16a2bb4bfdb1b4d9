// The graph of what asks of windows of patches: BLIP-2's questions, one for each square of patches, in a projector for each of several layers of
// the tower. A question has no row of its own: it stands in that of each of its patches, so that keys and values of one that are there four times
// count four times less, and what is seen is the same. Only these are computed for each: what asks and what is made of it behind is computed of
// rows that come out, one of each square (passes/select-rows.ts). Rows know by `time` which patch of its window each is, by `height` in which square
// it lies and by `width` at which corner. Windows are what rows see of each other.
//
// What a square has in the mean, or at one corner, rows find by attention, too: scores of those of one square are far above all others.

import {
  add,
  apply,
  attention,
  concat,
  embed,
  linear,
  multiply,
  select,
  slice,
  stacked,
} from "../../compiler/graph/builder.ts"
import type { Activation } from "../../compiler/graph/elementwise.ts"
import type { Node } from "../../compiler/graph/graph.ts"
import { named, normed, scaled } from "../tensors.ts"

export interface Asking {
  /** In patches a side. */
  window: number
  heads: number
  /** Columns of an MLP. */
  intermediate: number
  activation: Activation
  epsilon: number
  questions: readonly Question[]
}

/** Those of one projector. */
export interface Question {
  /** How the projector is called. */
  projector: string
  /** Whose rows it reads, as the layer leaves them, counted from 1. */
  layer: number
  /** Its rows are added before that layer of the text model, counted from 0; before the first they stand alone. */
  to: number
  /** Of its square it is told that patch, and not their mean. */
  corner?: number
}

/** Nobody reads what the tower keeps of its rows behind a layer: all of a kind have one place, the tower's own before these. */
const QUESTIONS = 1

const FAR = 1e4 // beyond what any float remembers of a share
const EPSILON = 1e-6

/**
 * @param left rows of each layer, as it leaves them
 * @param out columns of a row of the text model, and what the first one is multiplied with
 * @returns [rows that come out, those of all projectors side by side]
 */
export function asked(
  { window, heads, intermediate, activation, epsilon, questions }: Asking,
  left: readonly Node[],
  { width: hidden, factor }: Record<"width" | "factor", number>,
): Node {
  const { columns: width } = left[0]!
  const [headDim, squares] = [width / heads, (window / 2) ** 2]
  const memory = {
    layer: QUESTIONS,
    heads,
    kvHeads: heads,
    headDim,
    cap: undefined,
    window: undefined,
  }
  const within = { ...memory, sinks: 0, mutual: true } as const
  const kept = named("", "")
  // Every table that coordinates name a row of has as many rows as the largest.
  const count = window ** 2
  const table = (name: string, columns: number, rows = count) => {
    const own = kept(name, `${name}.weight`, rows, columns)
    const rest = kept(`${name}_rest`, `${name}_rest.weight`, count - rows, columns)
    return { ...(rows < count ? stacked(name, [own, rest]) : own), exact: true as const }
  }
  const ofHead = embed(table("asking.squares", headDim), "height")
  const square = Array<Node>(heads).fill(ofHead).reduce(concat)
  const corners = embed(table("asking.corners", 4), "width")
  const rows = questions.map(({ layer, corner }, number) => {
    const name = `asking.${number}`
    const own = (part: string, rows: number, columns?: number) =>
      kept(`${name}.${part}`, `${name}.${part}`, rows, columns)
    const project = (part: string, x: Node, rows: number) =>
      linear(x, own(`${part}.weight`, rows, x.columns), own(`${part}.bias`, rows))
    const even = (part: string, x: Node, near = epsilon) =>
      normed(
        x,
        { kind: "layer", bias: true, epsilon: near },
        kept,
        `${name}.${part}`,
        `${name}.${part}`,
      )
    const attend = (part: string, x: Node, seen: Node) => {
      const q = project(`${part}.query`, x, width)
      const [k, v] = ["key", "value"].map((each) => project(`${part}.${each}`, seen, width))
      const values = attention(q, k!, v!, { ...within, scale: headDim ** -0.5 })
      return even(`${part}.norm`, add(project(`${part}.out`, values, width), x))
    }
    const seen = even("norm", left[layer - 1]!, EPSILON)
    const key = corner === undefined ? square : multiply(square, slice(corners, corner, 1))
    const told = attention(square, key, seen, { ...within, scale: FAR })
    const query = embed(table(`${name}.query`, width, squares), "height")
    const places = embed(table(`${name}.image_positions`, width), "time")
    const begun = even("even", add(query, told))
    const open = attend("open", attend("among", begun, begun), add(seen, places))
    const down = project("down", apply(activation, project("up", open, intermediate)), width)
    const answer = select(even("last_norm", add(down, open)), "hidden")
    return scaled(project("out", answer, hidden), number === 0 ? factor : 1)
  })
  return rows.reduce(concat)
}
