// A golden model's GGUF file with its layer that guesses ahead, as converters write it: one layer more, under llama.cpp's names.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import { rewritten, uint32 } from "./gguf-file.ts"
import { goldenFolder, type mtpModels } from "./golden.ts"

/** What the file says that the tensors are of, how many layers the model has, and what it calls otherwise than the others. */
interface GgufFile {
  architecture: string
  layers: number
  names?: Readonly<Record<string, string>>
}

/** Norms of llama's places. */
const usualNorms = { post_attention_layernorm: "ffn_norm" }

const files = {
  "qwen3-5": { architecture: "qwen35", layers: 4 },
  "glm4-moe": { architecture: "glm4moe", layers: 3 },
  glm4: { architecture: "glm4", layers: 2, names: usualNorms },
  exaone4: { architecture: "exaone4", layers: 4 },
  "exaone-moe": { architecture: "exaone-moe", layers: 3, names: usualNorms },
  "bailing-moe-v2": { architecture: "bailingmoe2", layers: 3, names: usualNorms },
  "hy-v3": {
    architecture: "hy_v3",
    layers: 3,
    names: { ...usualNorms, final_layernorm: "nextn.shared_head_norm" },
  },
} as const satisfies Readonly<Record<string, GgufFile>>

export const mtpFiles = Object.keys(files) as (keyof typeof files)[]

/** Of a stem without what stands before it. */
const names: Readonly<Record<string, string>> = {
  "mtp.fc": "nextn.eh_proj",
  "mtp.pre_fc_norm_embedding": "nextn.enorm",
  "mtp.pre_fc_norm_hidden": "nextn.hnorm",
  "mtp.norm": "nextn.shared_head_norm",
  eh_proj: "nextn.eh_proj",
  enorm: "nextn.enorm",
  hnorm: "nextn.hnorm",
  "shared_head.norm": "nextn.shared_head_norm",
  final_layernorm: "layer_output_norm",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "post_attention_norm",
  post_feedforward_layernorm: "post_ffw_norm",
  post_self_attn_layernorm: "post_attention_norm",
  post_mlp_layernorm: "post_ffw_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "attention.query_key_value": "attn_qkv",
  "attention.dense": "attn_output",
  "attention.query_layernorm": "attn_q_norm",
  "attention.key_layernorm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.gate_up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "mlp.gate": "ffn_gate_inp",
  "mlp.router.gate": "ffn_gate_inp",
  "mlp.gate.e_score_correction": "exp_probs_b",
  "mlp.gate.expert": "exp_probs_b",
  "mlp.expert": "exp_probs_b",
  "mlp.experts.gate_proj": "ffn_gate_exps",
  "mlp.experts.up_proj": "ffn_up_exps",
  "mlp.experts.down_proj": "ffn_down_exps",
  "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
  "mlp.shared_experts.up_proj": "ffn_up_shexp",
  "mlp.shared_experts.down_proj": "ffn_down_shexp",
  "mlp.shared_mlp.gate_proj": "ffn_gate_shexp",
  "mlp.shared_mlp.up_proj": "ffn_up_shexp",
  "mlp.shared_mlp.down_proj": "ffn_down_shexp",
}

export function writeMtpGguf(name: (typeof mtpModels)[number], folder: string): void {
  const { architecture, layers, names: others }: GgufFile = files[name as keyof typeof files]
  const named = { ...names, ...others }
  const file = readFileSync(join(goldenFolder("gguf", "architectures"), `${name}.gguf`))
  const changed = rewritten(file, ({ pairs, tensors }) => {
    pairs.set(`${architecture}.block_count`, uint32(layers + 1))
    pairs.set(`${architecture}.nextn_predict_layers`, uint32(1))
    for (const tensor of tensors.keys()) // of another such layer, which is not meant to be read
      if (tensor.startsWith(`blk.${layers}.`)) tensors.delete(tensor)
    for (const { stem, kind, shape, values } of storedTensors(name)) {
      const own = named[stem]
      if (!own) throw new Error(`${stem} has no name in a GGUF file`)
      const isNorm = stem.endsWith("norm") || stem.includes("_norm_")
      const floats = isNorm && name === "qwen3-5" ? values.map((value) => value + 1) : values
      const isBare = stem === "mlp.expert" // llama.cpp leaves out what it is
      const at = `blk.${layers}.${own}${isBare ? "" : `.${kind}`}`
      const type = shape.length > 1 ? "BF16" : "F32"
      const data = Buffer.from(narrow(floats, shape.length > 1 ? "bf16" : "f32"))
      const dims = shape.toReversed()
      if (!stem.startsWith("mlp.experts.")) tensors.set(at, { type, dims, data })
      else {
        const before = tensors.get(at) ?? { dims: [0, 0, 0], data: Buffer.alloc(0) }
        const all = Buffer.concat([before.data, data])
        tensors.set(at, { type, dims: [...dims, before.dims[2]! + 1], data: all })
      }
    }
  })
  writeFileSync(join(folder, `${name}.gguf`), changed)
}

/** Experts in their order. */
function storedTensors(name: string) {
  const bytes = readFileSync(join(goldenFolder("mtp", `${name}.safetensors`)))
  const begin = 8 + Number(bytes.readBigUInt64LE(0))
  const header: Record<string, { shape: number[]; data_offsets: [number, number] }> = JSON.parse(
    bytes.toString("utf8", 8, begin),
  )
  return Object.entries(header)
    .filter(([tensor]) => tensor !== "__metadata__")
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(
      ([
        tensor,
        {
          shape,
          data_offsets: [from, to],
        },
      ]) => {
        const [, whole, kind] = /^(.+?)[._](weight|bias)$/.exec(tensor)!
        return {
          stem: whole!
            .replace(/^(mtp|model)\.layers\.\d+\./, "")
            .replace(/experts\.\d\./, "experts."),
          kind: kind!,
          shape,
          values: widen(bytes.subarray(begin + from, begin + to), "bf16"),
        }
      },
    )
}
