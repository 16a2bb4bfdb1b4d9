// Where a tensor lies in an MLC folder. Query, key and value rows are joined there, gate and up rows too, and a packed
// matrix is two tensors, `q_weight` and `q_scale`, under the matrix's name. Everything else keeps its name.

import type { Shapes } from "../../runtime/manifest.ts"
import type { ModelConfig } from "../config.ts"

export interface MlcNames {
  shapes: Shapes
  /** What joined queries, keys and values are called; undefined: they are not joined. */
  attention: "qkv_proj" | "c_attn" | undefined
  /** Whether an MLP has a gate that is joined with what it is multiplied with. */
  gated: boolean
}

/** Where layers differ in their heads, or in the widths of their MLPs, these are not joined: MLC has no such models. */
export function mlcNames(
  { shapes, blocks }: ModelConfig,
  attention: "qkv_proj" | "c_attn",
): MlcNames {
  const heads = blocks.map(({ attention: { heads, kvHeads, headDim, valuesAreKeys, reads } }) =>
    [heads, kvHeads, headDim, valuesAreKeys, reads].join(" "),
  )
  const widths = blocks.flatMap(
    ({ mlp, experts }) => (experts ? experts.beside : mlp)?.intermediate ?? [],
  )
  const isOne = (list: readonly unknown[]) => new Set(list).size <= 1
  return {
    shapes,
    attention: isOne(heads) ? attention : undefined,
    gated: blocks.every(({ mlp }) => mlp.gated) && isOne(widths),
  }
}

/** The joined tensor that holds a Hugging Face tensor, and at which of its rows. */
export interface Home {
  name: string
  firstRow: number
  rows: number // of the joined tensor
}

export function homeOf(tensor: string, rows: number, names: MlcNames): Home {
  const { shapes, attention, gated } = names
  const { heads, kvHeads, headDim, intermediate } = shapes
  const [q, kv] = [heads * headDim, kvHeads * headDim]
  const parts: Record<string, Home> = {
    ...(attention && {
      "self_attn.q_proj": { name: `self_attn.${attention}`, firstRow: 0, rows: q + 2 * kv },
      "self_attn.k_proj": { name: `self_attn.${attention}`, firstRow: q, rows: q + 2 * kv },
      "self_attn.v_proj": { name: `self_attn.${attention}`, firstRow: q + kv, rows: q + 2 * kv },
    }),
    ...(gated && {
      "mlp.gate_proj": { name: "mlp.gate_up_proj", firstRow: 0, rows: 2 * intermediate },
      "mlp.up_proj": { name: "mlp.gate_up_proj", firstRow: intermediate, rows: 2 * intermediate },
    }),
  }
  const [, layer, part, kind] =
    /^((?:model\.)?layers\.\d+\.)(.+)\.(weight|bias)$/.exec(tensor) ?? []
  const home = part === undefined ? undefined : parts[part]
  return home
    ? { ...home, name: `${layer}${home.name}.${kind}` }
    : { name: tensor, firstRow: 0, rows }
}

/** The order in which MLC writes the tensors of a layer. */
export function orderInLayer({ attention }: MlcNames): readonly string[] {
  return [
    "input_layernorm.weight",
    ...(attention ? [`self_attn.${attention}.weight`, `self_attn.${attention}.bias`] : []),
    "self_attn.o_proj.weight",
    "self_attn.o_proj.bias",
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_up_proj.weight",
    "mlp.gate_up_proj.bias",
    "mlp.up_proj.weight",
    "mlp.up_proj.bias",
    "mlp.down_proj.weight",
    "mlp.down_proj.bias",
  ]
}
