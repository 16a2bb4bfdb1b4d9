// How the matrices of a published folder are packed, as its configuration says: the `quantization_config` that quantisers
// leave. Bits, groups and zeros are read off the tensors themselves, which differ from matrix to matrix; what cannot be
// seen there is here. What is not read is refused by name.

import type { FloatType } from "../../runtime/format.ts"
import { Fields } from "../fields.ts"
import { type Folder, isObject } from "../folder.ts"

export type Packing =
  | { method: "gptq"; group: number; symmetric: boolean; zeroOffset: 0 | 1 }
  | { method: "awq" }
  | { method: "compressed-tensors"; block: readonly [rows: number, columns: number] }
  | { method: "mxfp4" }
  | { method: "fp8"; block: readonly [rows: number, columns: number] }
  | { method: "modelopt" }
  | { method: "mlx" }
  | { method: "bitsandbytes"; dtype: FloatType }
  | { method: "bitnet"; kept: "multiplied" | "divided" | "floats" }

type Method = Packing["method"]

/** Files that may say it instead, and whose: those of the first quantisers by GPTQ, and of ModelOpt. */
export const packingFiles = {
  "quantize_config.json": "gptq",
  "hf_quant_config.json": "modelopt",
} as const satisfies Record<string, Method>

/** By the names that configurations have for them. */
const readers = {
  gptq: readGptq,
  awq: readAwq,
  "compressed-tensors": readCompressed,
  mxfp4: () => ({ method: "mxfp4" }),
  fp8: readFloat8,
  modelopt: readModelopt,
  mlx: readMlx,
  bitsandbytes: readBitsandbytes,
  bitnet: readBitnet,
  "auto-round": readAutoRound,
} satisfies Record<Method | "auto-round", (packing: Fields, model: Fields) => Packing>

/** @throws `model_broken` for a way of packing that is not known */
export function readPacking(fields: Fields): Packing | undefined {
  // MLX's name for it comes first: beside it may still stand what its publishers said of theirs.
  const name = isObject(fields.json.quantization) ? "quantization" : "quantization_config"
  const packing = fields.object(name)
  if (!packing) return undefined
  const isMlx = !packing.has("quant_method") && packing.has("bits") && packing.has("group_size")
  const method = isMlx ? "mlx" : packing.text("quant_method", "an unknown method")
  if (Object.hasOwn(readers, method))
    return readers[method as keyof typeof readers](packing, fields)
  const known = Object.keys(readers).join(", ")
  throw fields.wrong(
    name,
    `says the weights are packed by ${method}, which cannot be read (known: ${known}); use the original weights`,
  )
}

/**
 * How a folder's matrices are packed, as the first of `configurations` says that says it, or else a file of its own.
 * @throws `model_broken` for a way of packing that is not known
 */
export async function packingOf(
  folder: Folder,
  configurations: readonly Fields[],
): Promise<Packing | undefined> {
  for (const fields of configurations) {
    const packing = readPacking(fields)
    if (packing) return packing
  }
  for (const [file, quant_method] of Object.entries(packingFiles)) {
    const json = await folder.jsonIfThere(file)
    const its = json && (isObject(json.quantization) ? json.quantization : json)
    if (!its) continue
    const fields = { quantization_config: { quant_method, ...its } }
    return readPacking(new Fields(fields, (what) => folder.broken(file, what)))
  }
  return undefined
}

/** The first version stores zeros less one. */
function readGptq(fields: Fields): Packing {
  const version = oneOf(fields, "checkpoint_format", ["gptq", "gptq_v2"])
  if (fields.flag("is_marlin_format", false))
    throw fields.wrong("is_marlin_format", "is true; only the order of GPTQ itself is read")
  return {
    method: "gptq",
    group: groupSize(fields),
    symmetric: fields.flag("sym", true),
    zeroOffset: version === "gptq" ? 1 : 0,
  }
}

/** Of GPTQ; 0: one for the whole row. */
function groupSize(fields: Fields): number {
  return fields.json.group_size === -1 ? 0 : fields.count("group_size", 128)
}

function readAwq(fields: Fields): Packing {
  const version = fields.text("version", "gemm")
  if (version.toLowerCase() !== "gemm")
    throw fields.wrong("version", `is "${version}"; known: gemm`)
  return { method: "awq" }
}

function readCompressed(fields: Fields): Packing {
  const whole = ["pack-quantized", "int-quantized", "naive-quantized"]
  const known = [
    ...whole,
    "float-quantized",
    "mxfp4-pack-quantized",
    "nvfp4-pack-quantized",
    "dense",
    "mixed-precision",
  ]
  oneOf(fields, "format", known)
  const groups = fields.object("config_groups")
  const blocks = Object.keys(groups?.json ?? {}).flatMap((name) => {
    const group = groups!.object(name)
    if (group?.has("format")) oneOf(group, "format", known)
    const weights = group?.object("weights")
    return weights?.has("block_structure") ? [structureOf(weights)] : []
  })
  const [block = [1, 1]] = blocks
  if (blocks.some((other) => other.join() !== block.join()))
    throw fields.wrong("config_groups", "has blocks of several sizes; one for all is read")
  const sparsity = fields.object("sparsity_config")
  if (sparsity?.has("format")) oneOf(sparsity, "format", ["dense"])
  const transforms = fields.object("transform_config")?.object("config_groups")
  if (transforms && Object.keys(transforms.json).length > 0)
    throw fields.wrong("transform_config", "turns what the matrices read, which is not known")
  return { method: "compressed-tensors", block }
}

const BLOCK = [128, 128] as const

function readFloat8(fields: Fields): Packing {
  oneOf(fields, "fmt", ["e4m3", "float8_e4m3fn"])
  const name = "weight_block_size"
  return { method: "fp8", block: fields.has(name) ? blockOf(fields, name) : BLOCK }
}

/** AutoRound packs as others do, GPTQ's zeros as in its first version or as in its second. */
function readAutoRound(fields: Fields): Packing {
  const first = "auto_round:auto_gptq"
  const known = [first, "auto_round", "auto_round:gptqmodel", "auto_round:auto_awq"]
  const order = oneOf(fields, "packing_format", known)
  oneOf(fields, "data_type", ["int"])
  if (order.endsWith("awq")) return { method: "awq" }
  return {
    method: "gptq",
    group: groupSize(fields),
    symmetric: fields.flag("sym", true),
    zeroOffset: order === first ? 1 : 0,
  }
}

const floats: Readonly<Record<string, FloatType>> = {
  bfloat16: "bf16",
  float16: "f16",
  float32: "f32",
}

/** What a configuration says that a model computes in; undefined: nothing that is known. */
export function floatsOf({ json: { dtype, torch_dtype } }: Fields): FloatType | undefined {
  return floats[String(dtype ?? torch_dtype)]
}

/** What is multiplied there are the model's floats. */
function readBitsandbytes(packing: Fields, model: Fields): Packing {
  oneOf(packing, "bnb_4bit_quant_storage", ["uint8"])
  const name = model.has("dtype") ? "dtype" : "torch_dtype"
  return { method: "bitsandbytes", dtype: floats[oneOf(model, name, Object.keys(floats))]! }
}

function readBitnet(fields: Fields): Packing {
  if (fields.flag("use_rms_norm", false))
    throw fields.wrong("use_rms_norm", "is true; known: matrices without norms of their own")
  const linear = oneOf(fields, "linear_class", ["bitlinear", "autobitlinear"])
  if (linear === "bitlinear") return { method: "bitnet", kept: "divided" }
  const mode = oneOf(fields, "quantization_mode", ["offline", "online"])
  if (mode === "offline") return { method: "bitnet", kept: "multiplied" }
  const name = "modules_to_not_convert"
  const others = fields.has(name) ? fields.texts(name) : []
  if (others.some((module) => module !== "lm_head"))
    throw fields.wrong(
      name,
      "names others than lm_head, which is not known where weights are floats",
    )
  return { method: "bitnet", kept: "floats" }
}

function readModelopt(fields: Fields): Packing {
  const known = ["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION"]
  oneOf(fields, "quant_algo", known)
  return { method: "modelopt" }
}

/** Which writes no name of its own, and settings of single matrices under their names. */
function readMlx(fields: Fields): Packing {
  oneOf(fields, "mode", ["affine", "mxfp4", "mxfp8", "nvfp4"])
  return { method: "mlx" }
}

/** A list, or a text as up to version 0.10: "128x128" (`validate_block_structure` of compressed-tensors). */
function structureOf(weights: Fields): readonly [rows: number, columns: number] {
  const name = "block_structure"
  if (typeof weights.json[name] !== "string") return blockOf(weights, name)
  const sides = weights.text(name).split("x").map(Number)
  return blockOf(weights.without(name).with({ [name]: sides }), name)
}

function blockOf(fields: Fields, name: string): readonly [rows: number, columns: number] {
  const [rows = 0, columns = 0, ...rest] = fields.counts(name)
  if (rows === 0 || columns === 0 || rest.length > 0)
    throw fields.wrong(name, "is not two whole numbers from 1 on")
  return [rows, columns]
}

function oneOf(fields: Fields, name: string, known: readonly string[]): string {
  const value = fields.text(name, known[0])
  if (known.includes(value)) return value
  throw fields.wrong(name, `is "${value}"; known: ${known.join(", ")}`)
}
