// How heads of towers turn by height and width: pairs of columns turn by a patch's line or by its column, with frequencies as of a text
// model's heads that are half as wide. Families differ in which pairs turn by which.

import type { Axis, Rotation } from "../../runtime/rotation.ts"
import { type Block, withAttention, withBlocks } from "../block.ts"
import type { Fields } from "../fields.ts"
import { readRotation } from "../rotation.ts"

const [HEIGHT, WIDTH] = [1, 2] as const

/** Which pairs of a head turn by which side. */
type Order =
  /** All of one side, then all of the other. */
  | "height first"
  | "width first"
  /** As Pixtral: of the frequencies of a whole head every other one is of height, and these come first. */
  | "alternate frequencies"
  /** As Kimi: by turns, two of each frequency. */
  | "width and height by turns"

interface Turning {
  order: Order
  /** Where none is said. */
  theta?: number
  /** What the configuration may call it; the first where it does not say. */
  kinds?: readonly [string, ...string[]]
  /** The field that says how wide heads are. */
  heads?: string
}

/** @throws where it is said in a way that is not known */
export function turnedBySides<Config extends { blocks: readonly Block[] }>(
  vision: Fields,
  config: Config,
  { order, theta = 10_000, kinds = ["axial", "default"], heads = "num_attention_heads" }: Turning,
): Config {
  const { headDim } = config.blocks[0]!.attention
  if (headDim % 4 !== 0) {
    const what = heads === "head_dim" ? `is ${headDim}` : `makes heads of ${headDim} columns`
    throw vision.wrong(heads, `${what}, no multiple of 4`)
  }
  const parameters = vision.object("rope_parameters")
  const kind = parameters?.text("rope_type", kinds[0]) ?? kinds[0]
  if (!kinds.includes(kind))
    throw parameters!.wrong("rope_type", `is "${kind}"; known: ${kinds[0]}`)
  const own = (parameters ?? vision).positive("rope_theta", theta)
  const plain = vision.without("rope_parameters").without("rope_scaling").over({ rope_theta: own })
  const of = (columns: number) => readRotation(plain, { headDim: columns, context: 1 }).frequencies
  const rotation = sides(order, headDim, of)
  return withBlocks(config, (block) =>
    withAttention(block, { rotation: { query: rotation, key: rotation } }),
  )
}

/** @param of the frequencies of a head so wide */
function sides(
  order: Order,
  headDim: number,
  of: (columns: number) => readonly number[],
): Rotation {
  const all = (axis: Axis, frequencies: readonly number[]) =>
    frequencies.map((frequency) => ({ axis, frequency }))
  const every = (odd: number) => of(headDim).filter((_, pair) => pair % 2 === odd)
  const half = of(headDim / 2)
  const pairs = {
    "height first": [...all(HEIGHT, half), ...all(WIDTH, half)],
    "width first": [...all(WIDTH, half), ...all(HEIGHT, half)],
    "alternate frequencies": [...all(HEIGHT, every(0)), ...all(WIDTH, every(1))],
    "width and height by turns": half.flatMap((each) => [
      ...all(WIDTH, [each]),
      ...all(HEIGHT, [each]),
    ]),
  }[order]
  return {
    frequencies: pairs.map(({ frequency }) => frequency),
    factor: 1,
    axes: pairs.map(({ axis }) => axis),
  }
}
