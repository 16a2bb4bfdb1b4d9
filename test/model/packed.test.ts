// Folders that were quantised before they were published, against weights and logits of another program: see
// test/golden/packed/README.md.

import { createHash } from "node:crypto"
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { planOf } from "../../src/app/plan.ts"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { storeRows } from "../../src/compiler/targets/reference/parameters.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { checkFormat, compileFolder } from "../../src/model/compile-folder.ts"
import { Folder } from "../../src/model/folder.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { openSafetensors } from "../../src/model/weights/safetensors.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { widen } from "../../src/runtime/dtype.ts"
import type { FloatType } from "../../src/runtime/format.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { unpackedRows } from "../../src/runtime/unpack.ts"
import { goldenFolder } from "./golden.ts"
import { arithmeticHere, blocksFor, prefill, worstDifference } from "./steps.ts"

interface Golden {
  quantization_config: Record<string, unknown>
  weights: Record<string, string>
  logits: number[]
}

const root = join(import.meta.dirname, "../golden/packed")
const golden: { prompt: number[]; models: Record<string, Golden> } = JSON.parse(
  readFileSync(join(root, "golden.json"), "utf8"),
)
const limits = { blocks: [4], tokens: 32, sequences: 1, rows: 1 }
const prompt = new Int32Array(golden.prompt)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-packed-"))
})
afterEach(() => rmSync(folder, { recursive: true }))

const shapes = {
  vocab_size: 32,
  hidden_size: 64,
  intermediate_size: 256,
  num_hidden_layers: 1,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 64,
}

/** The golden model of that name as a folder, its configuration or its weights' header changed. */
async function open(
  name: string,
  changes: Record<string, unknown> = {},
  change: (header: string) => string = (header) => header,
): Promise<Model> {
  const { quantization_config } = golden.models[name]!
  const config = {
    model_type: "llama",
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: true,
    eos_token_id: 2,
    ...shapes,
    quantization_config: { ...quantization_config, ...changes },
  }
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  for (const file of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(goldenFolder("broken", "sound-hf"), file), join(folder, file))
  const weights = readFileSync(join(root, `${name}.safetensors`))
  const length = 8 + Number(weights.readBigUInt64LE(0))
  const header = change(weights.toString("utf8", 8, length))
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(Buffer.byteLength(header)))
  const whole = Buffer.concat([size, Buffer.from(header), weights.subarray(length)])
  writeFileSync(join(folder, "model.safetensors"), whole)
  return openModel(folder)
}

/** The matrix as the graph reads it: "X.weight", or "X.sorted" where its columns are in another order. */
function matrixOf(model: Model, name: string) {
  const stem = `model.layers.0.${name}`
  const { rows, columns, sources } = model.graph.nodes
    .flatMap((node) => (node.op === "linear" ? [node.weight] : []))
    .find(({ sources: [first] }) => first!.tensor.startsWith(`${stem}.`))!
  const { tensor } = sources[0]!
  return { stem, tensor, rows, columns, stored: model.weights.tensor(tensor, rows, columns) }
}

/** A matrix unpacked, as numpy hashes it; `whole`: as those that are read together with others are. */
async function hashOf(model: Model, name: string, whole = false): Promise<string> {
  const { stem, tensor, rows, columns, stored: read } = matrixOf(model, name)
  const isSorted = tensor.endsWith(".sorted") && !whole
  const stored = whole ? model.weights.tensor(`${stem}.weight`, rows, columns) : read
  const floats = { kind: "floats", columns, values: new Float32Array(rows * columns) } as const
  const half = Math.floor(rows / 2)
  for (const [first, count] of [
    [0, half],
    [half, rows - half],
  ] as const) {
    const { values, scales } = await stored.read(first, count)
    const parameter = { name, rows, columns, codec: stored.codec, sources: [] }
    storeRows(floats, parameter, first, count, values, scales)
  }
  const values = floats.values.map((value) => value + 0) // no negative zeros
  if (isSorted) {
    const { values: bytes } = await model.weights
      .tensor(`${stem}.order`, columns, 1)
      .read(0, columns)
    const order = widen(bytes, "f32")
    for (let row = 0; row < rows; row++) {
      const from = floats.values.subarray(row * columns, (row + 1) * columns)
      for (const [k, column] of order.entries()) values[row * columns + column] = from[k]! + 0
    }
  }
  const bytes = Buffer.from(values.buffer)
  return createHash("sha256").update(bytes).digest("hex")
}

/** Stores a matrix of that folder once more, as the head. */
function addHead(matrix: string): void {
  const path = join(folder, "model.safetensors")
  const weights = readFileSync(path)
  const data = weights.subarray(8 + Number(weights.readBigUInt64LE(0)))
  const header = JSON.parse(weights.toString("utf8", 8, weights.length - data.length))
  const parts: Buffer[] = [data]
  let end = data.length
  for (const [name, { data_offsets, ...entry }] of Object.entries<Record<string, number[]>>(
    header,
  )) {
    if (!name.startsWith(`${matrix}.`)) continue
    const part = data.subarray(data_offsets![0], data_offsets![1])
    parts.push(part)
    const offsets = [end, end + part.length]
    header[name.replace(matrix, "lm_head")] = { ...entry, data_offsets: offsets }
    end += part.length
  }
  const text = JSON.stringify(header)
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(text.length))
  writeFileSync(path, Buffer.concat([size, Buffer.from(text), ...parts]))
}

test.each(["gptq-4-32", "compressed-int4", "compressed-fp8"])(
  "a packed head is the head, although the configuration ties it to the embedding: %s",
  async (name) => {
    await (await open(name)).close()
    addHead("model.layers.0.self_attn.k_proj") // as large as the vocabulary
    const model = await openModel(folder)
    expect(model.config.head.tied).toBe(false)
    await model.close()
  },
)

describe.each(Object.entries(golden.models))("%s", (name, { weights, logits }) => {
  test("every weight is the packer's, and the logits are those of its weights", async () => {
    const model = await open(name)
    for (const [matrix, hash] of Object.entries(weights))
      for (const whole of [false, true])
        expect({ matrix, hash: await hashOf(model, matrix, whole) }).toEqual({ matrix, hash })
    const { codecOf, format } = model
    const options = { format, activations: "float", kv: "f32" } as const
    const plan = compile(model.graph, { ...options, ...(codecOf && { codecOf }) })
    const program = openReference(plan, limits)
    await loadParameters(model.weights, program.manifest, program)
    const ours = await prefill(program, prompt, blocksFor(prompt.length), { firstRow: 19 })
    expect(worstDifference(ours, new Float32Array(logits))).toBeLessThan(1e-3)
    await program.close()
    await model.close()
  })
})

// QuantizationArgs of compressed-tensors: where a strategy is "block", `block_structure` says how large they are.
test("blocks of compressed-tensors are as large as it says, the last ones cut off", async () => {
  const sized = (block_structure: unknown) => ({
    weights: { num_bits: 8, type: "float", strategy: "block", block_structure },
  })
  const block = (rows: number) => sized([rows, 40])
  const changed = (...groups: object[]) => ({
    quant_method: "compressed-tensors",
    format: "float-quantized",
    config_groups: Object.fromEntries(groups.map((group, i) => [`group_${i}`, group])),
  })
  const named = (header: string) => header.replaceAll("weight_scale_inv", "weight_scale")
  const model = await open("fp8-ragged", changed(block(48), sized("48x40")), named) // as up to 0.10
  for (const [matrix, hash] of Object.entries(golden.models["fp8-ragged"]!.weights))
    expect({ matrix, hash: await hashOf(model, matrix) }).toEqual({ matrix, hash })
  await model.close()
  await expect(open("fp8-ragged", changed(block(48), block(32)), named)).rejects.toThrow(
    "config_groups has blocks of several sizes; one for all is read",
  )
  for (const text of ["48", "48x", "48x40x1", "0x40", "a"])
    await expect(open("fp8-ragged", changed(sized(text)), named)).rejects.toThrow("block_structure")
})

const compiler = await findCompiler()
test
  .skipIf(!compiler)
  .each([
    ...["awq-64", "fp8-blocks", "gptq-8-32-zeros", "gptq-4-order"],
    ...["mlx-4-64", "mlx-nvfp4"],
  ])(
  `the compiled kernels compute the reference's bits of %s${compiler ? "" : ": no C compiler on this machine"}`,
  async (name) => {
    const model = await open(name)
    const plan = planOf(model, model.format, {}, traitsOf("cpu"))
    const { path } = await shelvedCpu(plan, "cpu")
    const logits: Float32Array[] = []
    const reference = openReference(plan, limits, arithmeticHere)
    for (const program of [reference, await openLibrary(path, limits)]) {
      await loadParameters(model.weights, program.manifest, program)
      logits.push(await prefill(program, prompt, blocksFor(prompt.length), { firstRow: 19 }))
      await program.close()
    }
    expect(logits[1]).toEqual(logits[0])
    await model.close()
  },
  240_000,
)

test.each([
  ["gptq-4-32", "q4_0"],
  ["gptq-4-128-zeros", "q4_zeros"],
  ["gptq-4-row-v2", "q4_zeros"],
  ["gptq-4-order", "q4_0"],
  ["gptq-8-order", "q8_zeros"],
  ["gptq-8-64", "q8_0"],
  ["gptq-8-32-zeros", "q8_zeros"],
  ["awq-64", "q4_zeros"],
  ["compressed-int8-row", "q8_f32"],
  ["fp8-blocks", "e4m3"],
  ["fp8-ragged", "f32"],
  ["compressed-mxfp4", "mxfp4"],
  ["compressed-nvfp4", "nvfp4"],
  ["modelopt-nvfp4", "nvfp4"],
  ["modelopt-fp8", "e4m3"],
  ["bitsandbytes-nf4", "bf16"],
  ["bitsandbytes-int8", "q8_f32"],
  ["bitnet", "q4_0"],
  ["bitnet-over", "q4_0"],
  ["bitnet-floats", "q4_0"],
  ["mlx-3-64", "q4_1"],
  ["mlx-4-64", "q4_bf16"],
  ["mlx-5-32", "q8_zeros"],
  ["mlx-6-64", "q5_1"],
  ["mlx-mxfp4", "mxfp4"],
  ["mlx-mxfp8", "e4m3"],
])("the matrices of %s are kept as %s, and packed anew only from floats", async (name, codec) => {
  const model = await open(name)
  expect(matrixOf(model, "mlp.up_proj").stored.codec).toBe(codec)
  const again = () => checkFormat(model, "q4f16_1")
  if (["f32", "bf16", "e4m3"].includes(codec)) expect(again).not.toThrow()
  else expect(again).toThrow("already; q4f16_1 needs the original weights")
  await model.close()
})

const part = (kind: string) => `"model.layers.0.mlp.up_proj.${kind}"`
test.each<[string, Record<string, unknown>, (header: string) => string, string]>([
  [
    "gptq-4-32",
    { quant_method: "aqlm" },
    same,
    "are packed by aqlm, which cannot be read (known: ",
  ],
  [
    "gptq-4-32",
    { quant_method: "bitsandbytes", bnb_4bit_quant_storage: "bfloat16" },
    same,
    'bnb_4bit_quant_storage is "bfloat16"; known: uint8',
  ],
  [
    "gptq-4-32",
    { checkpoint_format: "marlin" },
    same,
    'checkpoint_format is "marlin"; known: gptq',
  ],
  ["awq-64", { version: "gemv" }, same, 'version is "gemv"; known: gemm'],
  ["mlx-4-64", { mode: "nf4" }, same, 'mode is "nf4"; known: affine, mxfp4, mxfp8, nvfp4'],
  [
    "mlx-4-64",
    {},
    (header) => header.replace(part("biases"), part("other")),
    "tensor model.layers.0.mlp.up_proj.biases is not there",
  ],
  [
    "mlx-4-64",
    {},
    (header) =>
      header.replace(/(up_proj.weight": {"dtype": "U32", "shape": )\[256, 8\]/, "$1[128, 16]"),
    "tensor model.layers.0.mlp.up_proj.weight has shape [128, 16], its matrix wants [256, 16]",
  ],
  [
    "mlx-mxfp4",
    {},
    (header) =>
      header.replace(/(up_proj.scales": {"dtype": "U8", "shape": )\[256, 2\]/, "$1[128, 4]"),
    "tensor model.layers.0.mlp.up_proj.scales has shape [128, 4], its matrix wants [256, 4]",
  ],
  [
    "gptq-4-32",
    { quant_method: "auto-round", packing_format: "auto_round:llm_compressor" },
    same,
    'packing_format is "auto_round:llm_compressor"; known: auto_round:auto_gptq, auto_round',
  ],
  [
    "bitsandbytes-nf4",
    {},
    (header) => header.replace(part("weight.absmax"), part("weight.other")),
    "tensor model.layers.0.mlp.up_proj.weight.absmax is not there",
  ],
  [
    "bitnet",
    { use_rms_norm: true },
    same,
    "use_rms_norm is true; known: matrices without norms of their own",
  ],
  [
    "bitnet-floats",
    { modules_to_not_convert: ["lm_head", "mlp.up_proj"] },
    same,
    "modules_to_not_convert names others than lm_head",
  ],
  [
    "bitnet",
    {},
    (header) =>
      header.replace(/(up_proj.weight": {"dtype": "U8", "shape": )\[64, 64\]/, "$1[128, 32]"),
    "tensor model.layers.0.mlp.up_proj.weight has shape [128, 32], its matrix wants [64, 64]",
  ],
  ["modelopt-fp8", { quant_algo: "W4A8_AWQ" }, same, 'quant_algo is "W4A8_AWQ"; known: FP8'],
  ["compressed-int4", { format: "marlin-24" }, same, 'format is "marlin-24"; known: pack-quan'],
  ["fp8-blocks", { weight_block_size: [128] }, same, "weight_block_size is not two whole numbers"],
  [
    "gptq-4-32",
    {},
    (header) => header.replace(part("qzeros"), part("other")),
    "tensor model.layers.0.mlp.up_proj.qzeros is not there",
  ],
  [
    "gptq-4-32",
    {},
    (header) =>
      header.replace(/(up_proj.scales": {"dtype": "F16", "shape": )\[2, 256\]/, "$1[4, 128]"),
    "tensor model.layers.0.mlp.up_proj.scales has shape [4, 128], its matrix wants [4, 256]",
  ],
  [
    "fp8-ragged",
    {},
    (header) =>
      header.replace(
        /(up_proj.weight_scale_inv": {"dtype": "BF16", "shape": )\[6, 2\]/,
        "$1[4, 3]",
      ),
    "weight_scale_inv has shape [4, 3], which does not divide [256, 64] in blocks",
  ],
])("%s with %o is refused in a sentence", async (name, changes, change, sentence) => {
  await expect(open(name, changes, change)).rejects.toThrow(sentence)
})

test.each([
  ["quantize_config.json", "gptq-4-row-v2", "gptq", (config: object) => config],
  [
    "hf_quant_config.json",
    "modelopt-nvfp4",
    "modelopt",
    (quantization: object) => ({ producer: { name: "modelopt" }, quantization }),
  ],
])("a configuration may lie in %s: %s", async (file, name, format, wrap) => {
  const { quantization_config, weights } = golden.models[name]!
  const { quant_method: _, ...beside } = quantization_config
  writeFileSync(join(folder, file), JSON.stringify(wrap(beside)))
  await (await open(name)).close()
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  delete config.quantization_config
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  const model = await openModel(folder)
  const compiled = join(folder, "compiled")
  await compileFolder(model, compiled, { format: model.format })
  await model.close()
  for (const path of [folder, compiled]) {
    const opened = await openModel(path)
    expect(opened.format).toBe(format)
    expect(await hashOf(opened, "mlp.up_proj")).toBe(weights["mlp.up_proj"])
    await opened.close()
  }
})

test.each([
  ["gptq-4-128-zeros", "auto_round:auto_gptq"],
  ["gptq-4-row-v2", "auto_round"],
  ["gptq-4-row-v2", "auto_round:gptqmodel"],
  ["awq-64", "auto_round:auto_awq"],
])("%s is what AutoRound calls %s", async (name, packing_format) => {
  const model = await open(name, { quant_method: "auto-round", packing_format, data_type: "int" })
  expect(await hashOf(model, "mlp.up_proj")).toBe(golden.models[name]!.weights["mlp.up_proj"])
  await model.close()
})

test("MLX's configuration may have MLX's name for it, beside the publisher's", async () => {
  const { quantization_config, weights } = golden.models["mlx-4-64"]!
  await (await open("mlx-4-64")).close()
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))
  config.quantization_config = { quant_method: "mxfp4" }
  config.quantization = { ...quantization_config, "model.embed_tokens": false }
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  const model = await openModel(folder)
  expect(model.format).toBe("mlx")
  expect(await hashOf(model, "mlp.up_proj")).toBe(weights["mlp.up_proj"])
  await model.close()
})

test.each([
  ...["mlp.gate", "mlp.router", "router.proj", "block_sparse_moe.router.layer"],
  ...["mlp.gate.proj", "mlp.shared_expert_gate"],
])("what experts are chosen by is floats, though MLX packs it: %s", async (router) => {
  const rename = (header: string) => header.replaceAll("mlp.up_proj.", `${router}.`)
  await expect(open("mlx-4-64", {}, rename)).rejects.toThrow("mlp.up_proj.weight")
  const weights = await openSafetensors(new Folder(folder), undefined, { method: "mlx" })
  const codec = (name: string) =>
    weights.tensor(`model.layers.0.${name}.weight`, shapes.intermediate_size, 64).codec
  expect([codec(router), codec("mlp.gate_proj")]).toEqual(["f32", "q4_bf16"])
  await weights.close()
})

test("a row is added to one that MLX packed, as CLIP's class is to its place", async () => {
  await (await open("mlx-4-64")).close()
  const { intermediate_size: of, hidden_size: columns } = shapes
  const place = {
    name: "mlp.up_proj.weight",
    rows: { of, from: 3, run: 1, every: of },
    plusRow: { tensor: "input_layernorm.weight", row: 0, shape: [columns] },
  }
  const naming = {
    roots: [{ root: "model.layers.0.", head: "" }],
    layers: "",
    parts: { embed_tokens: "mlp.up_proj", "place.weight": place },
  }
  const weights = await openSafetensors(new Folder(folder), naming, { method: "mlx" })
  const matrix = weights.tensor("model.mlp.up_proj.weight", of, columns)
  const own = unpackedRows(await matrix.read(3, 1), columns, "q4_bf16")
  const added = weights.tensor("model.input_layernorm.weight", columns, 1)
  const { values } = await added.read(0, columns)
  const row = widen(values, added.codec as FloatType)
  const sum = await weights.tensor("model.place.weight", 1, columns).read(0, 1)
  expect(row.some((value) => value !== 0)).toBe(true)
  expect(widen(sum.values, "f32")).toEqual(own.map((value, i) => value + row[i]!))
  await weights.close()
})

test("zeros that are not where the configuration says are found when they are read", async () => {
  const model = await open("gptq-4-128-zeros", { sym: true })
  await expect(hashOf(model, "mlp.up_proj")).rejects.toThrow(
    /tensor model\.layers\.0\.mlp\.up_proj\.weight has the zero \d+, and is said to be symmetric/,
  )
  await model.close()
})

function same(header: string): string {
  return header
}
