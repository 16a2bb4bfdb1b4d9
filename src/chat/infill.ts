// Filling in between two texts: models that can were taught it with tokens of their own, and which those are shows in the
// vocabulary. The orders are those of the models' cards and papers (Bavarian et al., 2022: prefix, suffix, middle).

import { problem } from "../errors.ts"
import type { Tokenizer } from "./tokenizer.ts"

interface InfillNames {
  /** What stands before each text, in the order in which they come. */
  order: readonly ["prefix" | "suffix", string][]
  /** What stands after both. */
  middle: string | undefined
}

const prefixFirst = (prefix: string, suffix: string, middle: string): InfillNames => ({
  order: [
    ["prefix", prefix],
    ["suffix", suffix],
  ],
  middle,
})

const FAMILIES: readonly InfillNames[] = [
  prefixFirst("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), // Qwen2.5-Coder, CodeGemma
  prefixFirst("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), // StarCoder, Granite
  prefixFirst("<fim-prefix>", "<fim-suffix>", "<fim-middle>"), // SantaCoder
  prefixFirst("▁<PRE>", "▁<SUF>", "▁<MID>"), // Code Llama
  prefixFirst("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), // DeepSeek-Coder
  prefixFirst("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"), // GLM
  {
    order: [
      ["suffix", "[SUFFIX]"],
      ["prefix", "[PREFIX]"],
    ],
    middle: undefined, // Codestral
  },
]

/** With these a model that fills in says that it is done, beside its own end tokens. */
const ENDS = [
  "▁<EOT>",
  "<EOT>",
  "<|endoftext|>",
  "<|fim_pad|>",
  "<fim_pad>",
  "<|file_sep|>",
  "<file_sep>",
]

export interface Infill {
  /** The token before each text, in the order in which they come. */
  order: readonly ["prefix" | "suffix", number][]
  /** After both. */
  middle: readonly number[]
  ends: readonly number[]
}

/** How a model is asked to fill in. Throws the problem that refuses it where it was never taught to. */
export function infillOf(tokenizer: Pick<Tokenizer, "control">): Infill {
  const idsOf = (names: readonly string[]) => names.flatMap((name) => tokenizer.control(name) ?? [])
  for (const { order, middle: name } of FAMILIES) {
    const ids = idsOf(order.map(([, mark]) => mark))
    const middle = idsOf(name === undefined ? [] : [name])
    if (ids.length < order.length || (name !== undefined && middle.length === 0)) continue
    return { order: order.map(([text], at) => [text, ids[at]!]), middle, ends: idsOf(ENDS) }
  }
  const words = "suffix: this model has no tokens for filling in between two texts."
  throw problem("unsupported_value", { problem: words }, "suffix")
}

/** Whether it can be asked, by its tokenizer.json alone. */
export function hasInfill(json: Buffer): boolean {
  const names = ({ order, middle }: InfillNames) => [
    ...order.map(([, mark]) => mark),
    ...(middle === undefined ? [] : [middle]),
  ]
  return FAMILIES.some((family) =>
    names(family).every((name) => json.includes(JSON.stringify(name))),
  )
}
