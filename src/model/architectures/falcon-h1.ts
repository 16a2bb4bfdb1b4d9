// Falcon-H1: selective state spaces and attention side by side in every layer, then an MLP. All that is projected is multiplied with a
// number of the configuration, here where it costs least: what goes into attention multiplies its scores and values alike.
// Source: modeling_falcon_h1.py of transformers.

import { type Selective, withAttention, withBlocks, withMlp } from "../block.ts"
import { type ModelConfig, readDecoder } from "../config.ts"
import type { Fields } from "../fields.ts"
import { llamaNaming, type Naming, withParts } from "../weights/names.ts"
import { readStates, refuseStates, selectiveParts } from "./granite.ts"

export function readFalconH1(fields: Fields): ModelConfig {
  const config = readDecoder(fields, {
    absent: { vocabulary: 128000, kvHeads: 8, epsilon: 1e-5, context: 8192 },
    rotation: { theta: 1e5 },
  })
  const bias = fields.flag("attention_bias", false)
  const into = fields.positive("attention_in_multiplier", 1)
  if (bias && into !== 1)
    throw fields.wrong(
      "attention_bias",
      "is true; known: false where attention_in_multiplier is not 1",
    )
  const selective = readSelective(fields, config, into)
  const [gate, down] = readFactors(fields, "mlp_multipliers", 2) as [number, number]
  const blocks = withBlocks(config, (block) => {
    const { scale } = block.attention
    const keys = into * into * fields.positive("key_multiplier", 1)
    const attended = withAttention(block, { scale: scale * keys, bias: { qkv: bias, o: bias } })
    const own = withMlp(attended, {
      bias: fields.flag("mlp_bias", false),
      factors: { gate, down },
    })
    return { ...own, selective }
  })
  const factor = fields.positive("lm_head_multiplier", 1)
  return {
    ...blocks,
    embedding: { ...config.embedding, factor: fields.positive("embedding_multiplier", 1) },
    head: { ...config.head, factor },
  }
}

function readSelective(
  fields: Fields,
  { shapes: { hidden } }: ModelConfig,
  into: number,
): Selective {
  refuseStates(fields, "mamba_proj_bias", "projectors_bias")
  const isExpanded = fields.json.mamba_d_ssm === null
  const width = isExpanded
    ? fields.count("mamba_expand", 2) * hidden
    : fields.count("mamba_d_ssm", 1024)
  const given = fields.positive("ssm_in_multiplier", 1)
  const [z, v, k, q, a] = readFactors(fields, "ssm_multipliers", 5).map((each) => given * each)
  const isNormed = fields.flag("mamba_rms_norm", false)
  const isNormedFirst = fields.flag("mamba_norm_before_gate", true)
  return {
    ...readStates(fields, width),
    ...(isNormed && !isNormedFirst ? {} : { behind: isNormed ? "normed, then gated" : "gated" }),
    factors: { z: z!, v: v!, k: k!, q: q!, a: a!, out: fields.positive("ssm_out_multiplier", 1) },
    beside: { attention: into * fields.positive("attention_out_multiplier", 1) },
  }
}

function readFactors(fields: Fields, name: string, count: number): number[] {
  const factors = fields.has(name) ? fields.positives(name) : Array<number>(count).fill(1)
  if (factors.length === count) return factors
  throw fields.wrong(name, `has ${factors.length} numbers, not ${count}`)
}

export function falconH1Naming({ blocks: [block] }: ModelConfig): Naming {
  const selective = block!.selective!
  return withParts(
    { ...llamaNaming, foldedByMlx: true },
    {
      norm: "final_layernorm",
      post_attention_layernorm: "pre_ff_layernorm",
      ...Object.fromEntries(
        ["gate_proj", "up_proj", "down_proj"].map((name) => [
          `mlp.${name}`,
          `feed_forward.${name}`,
        ]),
      ),
      ...selectiveParts(selective, "mamba."),
      ...Object.fromEntries(
        (["v", "k", "q"] as const).map((name) => {
          const own = `mamba.${name}_factor`
          return [own, { name: own, constant: selective.factors![name] }]
        }),
      ),
    },
  )
}
