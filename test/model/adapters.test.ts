// Models changed by adapters, against what PEFT, mlx-lm and llama.cpp's converter make of the same (test/golden/adapters/README.md),
// and what is said of adapters that cannot be read.

import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { shard } from "../../src/compiler/shard.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference, openShards } from "../../src/compiler/targets/reference/reference.ts"
import { compileFolder } from "../../src/model/compile-folder.ts"
import { Folder } from "../../src/model/folder.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { type Model, type OpenOptions, openModel } from "../../src/model/model.ts"
import { readOrigin } from "../../src/model/origin.ts"
import { floatTypes } from "../../src/model/packed/matrix.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import type { LoadableProgram } from "../../src/runtime/program.ts"
import { isLeftOut } from "../left-out.ts"
import { type GoldenPrompt, goldenFolder, readGolden } from "./golden.ts"
import {
  floats,
  lora,
  PLAIN,
  readTensors,
  type Tensor,
  type Tensors,
  writeAdapter,
  written,
} from "./peft-files.ts"
import { blocksFor, expectGolden, limitsFor, prefill, worstDifference } from "./steps.ts"

const root = goldenFolder("adapters", ".")
const golden = (name: string) => join(root, name)
const names = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const baseOf = (folder: string): string =>
  goldenFolder(".", JSON.parse(readFileSync(join(folder, "golden.json"), "utf8")).base)

let scratch: string
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "adapters-"))
})
afterAll(() => rmSync(scratch, { recursive: true }))

async function withProgram(
  path: string,
  options: OpenOptions,
  use: (program: LoadableProgram, model: Model) => Promise<void>,
): Promise<void> {
  const model = await openModel(path, options)
  const { graph, format, codecOf } = model
  const plan = compile(graph, {
    format,
    ...(codecOf && { codecOf }),
    activations: "float",
    kv: "f32",
  })
  const limits = limitsFor(plan, { blocks: 50, tokens: 700, sequences: 2, rows: 700 })
  const program = openReference(plan, limits)
  await loadParameters(model.weights, program.manifest, program)
  await use(program, model)
  await program.close()
  await model.close()
}

const logitsOf = (program: LoadableProgram, { tokens, firstRow }: GoldenPrompt) =>
  prefill(program, tokens, blocksFor(tokens.length), { firstRow })

const expectAll = async (program: LoadableProgram, folder: string) => {
  for (const prompt of readGolden(folder))
    await expectGolden(program, prompt, blocksFor(prompt.tokens.length + 40), 1e-4)
}

test.each([
  ...names.map((name) => [name, name] as const),
  ["on-q4_0/adapter.gguf", "on-q4_0"],
] as const)("%s: logits are within 1e-4, greedy tokens are equal", async (path, name) => {
  const folder = golden(name)
  await withProgram(baseOf(folder), { adapters: [golden(path)] }, (program) =>
    expectAll(program, folder),
  )
})

const adapterOf = (fields: object, tensors: Tensors) => writeAdapter(scratch, fields, tensors)

/** A golden one with other fields, or with its tensors changed. */
function changed(
  name: string,
  fields: object,
  change: (tensors: Tensors) => void = () => {},
): string {
  const tensors = readTensors(readFileSync(join(golden(name), "adapter_model.safetensors")))
  change(tensors)
  return adapterOf({ ...configOf(golden(name)), ...fields }, tensors)
}

const configOf = (folder: string) =>
  JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"))

const renamed = (rule: (name: string) => string) => (tensors: Tensors) => {
  const all = [...tensors]
  tensors.clear()
  for (const [name, tensor] of all) tensors.set(rule(name), tensor)
}

test.each(["phi3", "on-q4_0"])("twice the same is one of twice the strength: %s", async (name) => {
  const prompt = readGolden(golden(name))[1]!
  const stronger = changed(name, { lora_alpha: 2 * configOf(golden(name)).lora_alpha })
  const logits: Float32Array[] = []
  for (const adapters of [[golden(name), golden(name)], [stronger]])
    await withProgram(baseOf(golden(name)), { adapters }, async (program) => {
      logits.push(await logitsOf(program, prompt))
    })
  const [twice, once] = logits as [Float32Array, Float32Array]
  expect(worstDifference(twice, prompt.logits)).toBeGreaterThan(0.1)
  expect(worstDifference(twice, once)).toBeLessThan(1e-4)
})

test("beside codes, an adapter of one rank is one of two, the second of which is nothing", async () => {
  const [prompt] = readGolden(golden("on-q4_0"))
  const logits: Float32Array[] = []
  for (const r of [1, 2]) {
    const first = changed("on-q4_0", { r, lora_alpha: 24 * r }, (tensors) => {
      for (const [name, { dtype, shape, bytes }] of [...tensors]) {
        const [isLeft, all] = [name.includes("lora_B"), shape as [number, number]]
        const [length, rank] = isLeft ? all : [all[1], all[0]]
        const [values, its] = [floatsOf(bytes), new Float32Array(length * r)]
        for (let i = 0; i < length; i++) its[isLeft ? i * r : i] = values[isLeft ? i * rank : i]!
        tensors.delete(name)
        if (name.includes("layers.1.self_attn.q_proj"))
          tensors.set(name, {
            ...{ dtype, shape: isLeft ? [length, r] : [r, length] },
            bytes: new Uint8Array(its.buffer),
          })
      }
    })
    await withProgram(baseOf(golden("on-q4_0")), { adapters: [first] }, async (program) => {
      logits.push(await logitsOf(program, prompt!))
    })
  }
  expect(logits[0]).toEqual(logits[1])
  expect(worstDifference(logits[0]!, prompt!.logits)).toBeGreaterThan(0.01)
})

const floatsOf = (bytes: Uint8Array) => new Float32Array(Uint8Array.from(bytes).buffer)

const EXPERTS = 8 // of qwen3-moe

/** A factor of a stack's columns as one of its rows: what was right is left, and in that one's order. */
function exchanged({ dtype, shape, bytes }: Tensor, isLeft: boolean): Tensor {
  const values = floatsOf(bytes)
  const [height, width] = shape as [number, number]
  const [all, length] = isLeft ? [width, height] : [height, width]
  const rank = all / EXPERTS
  const others = new Float32Array(values.length)
  for (let expert = 0; expert < EXPERTS; expert++)
    for (let k = 0; k < rank; k++)
      for (let i = 0; i < length; i++) {
        const [left, right] = [i * all + k * EXPERTS + expert, (expert * rank + k) * length + i]
        others[isLeft ? right : left] = values[isLeft ? left : right]!
      }
  return { dtype, shape: shape.toReversed(), bytes: new Uint8Array(others.buffer) }
}

test("stacks of experts have their factors either way round, as in PEFT 0.17 or since", async () => {
  const adapter = changed("qwen3-moe", {}, (tensors) => {
    const stacks = [...tensors].filter(([name]) => name.includes("experts"))
    expect(stacks.length).toBeGreaterThan(0)
    for (const [name, tensor] of stacks) {
      const isLeft = name.includes("lora_B")
      const other = isLeft ? name.replace("lora_B", "lora_A") : name.replace("lora_A", "lora_B")
      tensors.set(other, exchanged(tensor, isLeft))
    }
  })
  await withProgram(baseOf(golden("qwen3-moe")), { adapters: [adapter] }, (program) =>
    expectAll(program, golden("qwen3-moe")),
  )
})

const models = readdirSync(goldenFolder("models", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** How it is stored: [in, out], as PEFT's `fan_in_fan_out` says. */
const isTurned = (model: string) => model === "gpt2"

/** Whatever an architecture calls its matrices, joins, splits or turns. */
test.each(models)("a change of every matrix is that of the files: %s", async (name) => {
  const folder = goldenFolder("models", name)
  const stored = join(folder, "model.safetensors")
  if (!existsSync(stored)) return // in shards
  const tensors = readTensors(readFileSync(stored))
  const changes: Tensors = new Map()
  for (const [tensor, { dtype, shape, bytes }] of tensors) {
    const codec = floatTypes[dtype]
    const [rows, columns] = isTurned(name) ? shape.toReversed() : shape
    if (shape.length !== 2 || !codec || !/\.\d+\..*(?<!norm\.)weight$/.test(tensor)) continue
    const module = `base_model.model.${tensor.replace(/\.weight$/, "")}`
    const [right, left] = [floats(2, columns!), floats(rows!, 2)]
    changes.set(`${module}.lora_A.weight`, right).set(`${module}.lora_B.weight`, left)
    const [a, b] = [right, left].map(({ bytes }) => widen(bytes, "f32")) as [
      Float32Array,
      Float32Array,
    ]
    const values = widen(bytes.slice(), codec).map((value, i) => {
      const [row, column] = [Math.floor(i / shape[1]!), i % shape[1]!]
      const [to, from] = isTurned(name) ? [column, row] : [row, column]
      const added = b[2 * to]! * a[from]! + b[2 * to + 1]! * a[columns! + from]!
      return Math.fround(value + Math.fround(added))
    })
    tensors.set(tensor, { dtype, shape, bytes: narrow(values, codec) })
  }
  expect(changes.size).toBeGreaterThan(0)
  const copy = mkdtempSync(join(scratch, "model-"))
  cpSync(folder, copy, { recursive: true })
  writeFileSync(join(copy, "model.safetensors"), written(tensors))
  const adapter = adapterOf({ ...PLAIN, r: 2, lora_alpha: 2 }, changes)
  const [ours, theirs] = [await openModel(folder, { adapters: [adapter] }), await openModel(copy)]
  for (const { sources, columns } of weightsOf(ours.graph))
    for (const { tensor, rows } of sources) {
      const [own, its] = [ours, theirs].map(({ weights }) => weights.tensor(tensor, rows, columns))
      expect([tensor, (await own!.read(0, rows)).values]).toEqual([
        tensor,
        (await its!.read(0, rows)).values,
      ])
    }
  for (const model of [ours, theirs]) await model.close()
})

const compiler = await findCompiler()
test.skipIf(isLeftOut(compiler))(
  `beside codes, the processor computes it${compiler ? "" : " (skipped: no C compiler on this machine)"}`,
  async () => {
    const folder = golden("on-q4_0")
    const model = await openModel(baseOf(folder), { adapters: [folder] })
    const options = { activations: "float", kv: "f32" } as const
    const plan = compile(model.graph, { format: "gguf", codecOf: model.codecOf!, ...options })
    const { path } = await shelvedCpu(plan)
    const limits = limitsFor(plan, { blocks: 50, tokens: 700, sequences: 2, rows: 700 })
    const program = await openLibrary(path, limits)
    await loadParameters(model.weights, program.manifest, program)
    await expectAll(program, folder)
    await program.close()
    await model.close()
  },
  240_000,
)

test("beside codes, shards of a model compute the bits of one", async () => {
  const adapter = adapterOf(
    PLAIN,
    lora({
      "self_attn.q_proj": [128, 128],
      "self_attn.o_proj": [128, 128],
      "mlp.up_proj": [384, 128],
      "mlp.down_proj": [128, 384],
    }),
  )
  const model = await openModel(goldenFolder("mlc", "llama-wide-q4f16_1"), { adapters: [adapter] })
  const { graph, format } = model
  const { sums } = traitsOf("vulkan")
  const plan = compile(graph, { format, activations: "int8", kv: "f32", sums: sums! })
  const limits = limitsFor(plan, { blocks: 12, tokens: 64, sequences: 2, rows: 64 })
  const programs = [openReference(plan, limits), openShards(plan, shard(plan, 2)!, limits)]
  for (const program of programs) await loadParameters(model.weights, program.manifest, program)
  const tokens = Int32Array.from({ length: 40 }, (_, i) => 5 + 3 * i)
  const [expected, made] = await Promise.all(
    programs.map((program) => prefill(program, tokens, blocksFor(40), { firstRow: 0 })),
  )
  expect(made).toEqual(expected)
  for (const program of programs) await program.close()
  await model.close()
})

/** As they are called behind another root, with what a file of an older PEFT has in its names, and with parts that are not served. */
test("tensors are found behind any root, and those of what sees are left out", async () => {
  const adapter = changed("phi3", {}, (tensors) => {
    renamed((name) =>
      name
        .replace("model.model.", "model.language_model.model.")
        .replace(".weight", ".default.weight"),
    )(tensors)
    tensors.set(
      "base_model.model.vision_tower.layers.0.self_attn.o_proj.lora_A.weight",
      floats(4, 9),
    )
    tensors.set(
      "base_model.model.vision_tower.layers.0.self_attn.o_proj.lora_B.weight",
      floats(9, 4),
    )
  })
  await withProgram(baseOf(golden("phi3")), { adapters: [adapter] }, (program) =>
    expectAll(program, golden("phi3")),
  )
})

const loraOf = (matrices: Record<string, readonly [number, number]>) =>
  new Map(
    Object.entries(matrices).flatMap(([name, [rows, columns]]) => [
      [`base_model.model.${name}.lora_A.weight`, floats(4, columns)],
      [`base_model.model.${name}.lora_B.weight`, floats(rows, 4)],
    ]),
  ) as Tensors

test("what requests would choose for a tower leaves a model blind, as does what a tower does not have", async () => {
  const blindBy = async (name: "adapters" | "choices", tensor: string) => {
    const layer = { "model.layers.0.self_attn.q_proj": [48, 48], [tensor]: [32, 32] } as const
    const path = adapterOf(PLAIN, loraOf(layer))
    const folder = goldenFolder("vision", "qwen2-vl")
    const seeing = await openModel(folder, { sees: true, [name]: [path] })
    await seeing.close()
    expect(seeing.vision).toBeUndefined()
    return seeing.blind
  }
  expect(await blindBy("choices", "visual.blocks.0.attn.proj")).toMatch(
    /it changes visual\.blocks\.0\.attn\.proj\.weight, and what a model sees or hears with is changed by --lora alone/,
  )
  expect(await blindBy("adapters", "visual.blocks.7.attn.proj")).toMatch(
    /it changes blocks\.7\.attn\.proj\.weight, which this model does not have under that name/,
  )
})

test("an encoder is not taken for the decoder", async () => {
  const encoder = adapterOf(PLAIN, loraOf({ "model.encoder.layers.0.fc1": [48, 32] }))
  const [changed, plain] = await Promise.all(
    [[encoder], []].map((adapters) =>
      openModel(goldenFolder("whisper", "english"), { sees: true, adapters }),
    ),
  )
  const differing = async (of: (model: Model) => Pick<Model, "graph" | "weights">) => {
    const names: string[] = []
    const [mine, theirs] = [of(changed!), of(plain!)]
    for (const { sources, columns } of weightsOf(mine.graph))
      for (const { tensor, rows } of sources) {
        const [own, its] = [mine, theirs].map(({ weights }) =>
          weights.tensor(tensor, rows, columns),
        )
        const values = [await own!.read(0, rows), await its!.read(0, rows)].map(
          (read) => read.values,
        )
        if (Buffer.compare(values[0]!, values[1]!) !== 0) names.push(tensor)
      }
    return names
  }
  expect(await differing((model) => model)).toEqual([])
  expect(await differing(({ hearing }) => hearing!)).toEqual(["model.layers.0.mlp.up_proj.weight"])
  for (const model of [changed, plain]) await model!.close()
})

test("what it changes in layers that attend to images alone says nothing to a text", async () => {
  const model = goldenFolder("models", "mllama")
  const [, prompt] = readGolden(model) // of one token alone queries say nothing
  const factors = (layer: number, attention: string, seed: number): Tensors => {
    const at = `base_model.model.language_model.model.layers.${layer}.${attention}.q_proj`
    const tensor = (shape: number[]) => {
      const values = Float32Array.from({ length: 96 }, (_, i) => Math.sin(seed + i))
      return { dtype: "F32", shape, bytes: new Uint8Array(values.buffer) }
    }
    return new Map([
      [`${at}.lora_A.weight`, tensor([4, 24])],
      [`${at}.lora_B.weight`, tensor([24, 4])],
    ])
  }
  const logitsWith = async (...tensors: Tensors[]) => {
    const adapter = adapterOf(PLAIN, new Map(tensors.flatMap((each) => [...each])))
    let logits: Float32Array | undefined
    await withProgram(model, { adapters: [adapter] }, async (program) => {
      logits = await logitsOf(program, prompt!)
    })
    return logits!
  }
  const text = factors(0, "self_attn", 1)
  const changedLogits = await logitsWith(text)
  expect(await logitsWith(text, factors(1, "cross_attn", 2))).toEqual(changedLogits)
  expect(worstDifference(changedLogits, prompt!.logits)).toBeGreaterThan(1e-3)
  await expect(logitsWith(text, factors(2, "cross_attn", 2))).rejects.toThrow(
    /changes layers\.2\.cross_attn\.q_proj\.weight, which this model does not have/,
  )
})

test("what comes in a matrix's place is of the model's floats", async () => {
  const whole = "base_model.model.model.layers.0.self_attn.o_proj.weight"
  const adapter = adapterOf(PLAIN, new Map([[whole, floats(40, 40)]]))
  const model = await openModel(baseOf(golden("phi3")), { adapters: [adapter] })
  expect(model.format).toBe("q0bf16")
  await model.close()
})

test("a table of codes that is the head, too, is changed for both", async () => {
  const folder = mkdtempSync(join(scratch, "mlx-"))
  writeFileSync(join(folder, "adapter_config.json"), '{"lora_parameters": {"scale": 1}}')
  const table = "model.embed_tokens"
  const tensors: Tensors = new Map([
    [`${table}.lora_a`, floats(528, 2)],
    [`${table}.lora_b`, floats(2, 96)],
  ])
  writeFileSync(join(folder, "adapters.safetensors"), written(tensors))
  const model = await openModel(goldenFolder("gguf", "qwen2-q4_1"), { adapters: [folder] })
  const read = weightsOf(model.graph).flatMap(({ sources }) => sources.map(({ tensor }) => tensor))
  expect(read.filter((tensor) => tensor.includes("lora"))).toEqual([])
  expect(model.weights.tensor(`${table}.weight`, 528, 96).codec).toBe("f16")
  await model.close()
})

test("a table of more tokens than the model has makes it one of so many", async () => {
  const adapter = adapterOf(
    { ...PLAIN, modules_to_save: ["embed_tokens", "lm_head"] },
    new Map([
      ["base_model.model.model.embed_tokens.weight", floats(515, 48)],
      ["base_model.model.lm_head.weight", floats(515, 48)],
    ]),
  )
  await withProgram(
    goldenFolder("models", "llama-untied"),
    { adapters: [adapter] },
    async (program, model) => {
      expect(model.config.shapes.vocabulary).toBe(515)
      const logits = await prefill(program, Int32Array.of(514), blocksFor(1), { firstRow: 0 })
      expect(logits.length).toBe(515)
      expect(logits.every(Number.isFinite)).toBe(true)
    },
  )
})

test("a tokenizer that it brings is the model's, which still says how answers are drawn and end", async () => {
  const adapter = changed("phi3", {})
  const base = baseOf(golden("phi3"))
  const tokenizer = readFileSync(join(base, "tokenizer.json"), "utf8")
  writeFileSync(join(adapter, "tokenizer.json"), tokenizer)
  writeFileSync(
    join(adapter, "tokenizer_config.json"),
    JSON.stringify({ chat_template: "tuned {{ messages }}", eos_token: "<tuned>" }),
  )
  const [plain, tuned] = [await openModel(base), await openModel(base, { adapters: [adapter] })]
  expect(tuned.texts.templates.get("default")?.text).toBe("tuned {{ messages }}")
  expect(tuned.texts.endSpelling).toBe("<tuned>")
  const { endTokens, sampling } = plain.texts
  expect(tuned.texts).toMatchObject({ endTokens, sampling })
  const output = join(scratch, "tuned")
  await compileFolder(tuned, output, { format: "q0bf16" })
  expect(readFileSync(join(output, "tokenizer_config.json"), "utf8")).toContain("<tuned>")
  for (const model of [plain, tuned]) await model.close()
})

test("a compiled folder has the changed weights, and says what changed them", async () => {
  const output = join(scratch, "compiled")
  const model = await openModel(baseOf(golden("llama")), { adapters: [golden("llama")] })
  await compileFolder(model, output, { format: "q0f32" })
  await model.close()
  await withProgram(output, {}, (program) => expectAll(program, golden("llama")))
  const origin = await readOrigin(new Folder(output))
  const files = ["adapter_config.json", "adapter_model.safetensors"]
  expect(origin).toMatchObject({
    source: { name: "llama-untied" },
    adapters: [{ source: { name: "llama" }, files: files.map((file) => ({ file })) }],
  })
})

test("packed as they are, weights cannot be written with an adapter", async () => {
  const model = await openModel(baseOf(golden("on-q4_0")), { adapters: [golden("on-q4_0")] })
  await expect(compileFolder(model, join(scratch, "no"), { format: "gguf" })).rejects.toThrow(
    /--lora: .* is packed as gguf, into which no adapter can be written/,
  )
  await model.close()
})

test("beside codes, nothing can be compiled", async () => {
  const adapters = [adapterOf(PLAIN, lora({ "self_attn.q_proj": [128, 128] }))]
  const model = await openModel(goldenFolder("mlc", "llama-wide-q4f16_1"), { adapters })
  await expect(compileFolder(model, join(scratch, "no"), { format: "q4f16_1" })).rejects.toThrow(
    /--lora: .* is packed as q4f16_1, into which no adapter can be written/,
  )
  await model.close()
})

test("what PEFT saves twice, or as it was, counts once", async () => {
  const name = "base_model.model.lm_head"
  const adapter = adapterOf(
    PLAIN,
    new Map([
      [`${name}.original_module.weight`, floats(512, 48)],
      [`${name}.weight`, floats(512, 48)],
      [`${name}.modules_to_save.weight`, floats(512, 48)],
    ]),
  )
  const model = await openModel(goldenFolder("models", "llama-untied"), { adapters: [adapter] })
  expect(model.weights.tensor("lm_head.weight", 512, 48).codec).toBe("f32")
  await model.close()
})

test.each<[string, RegExp, string, Tensors]>([
  [
    "ranks that are no expert's",
    /the factors of the experts of layer 1 have 25 ranks for 8 experts/,
    "qwen3-moe",
    new Map([
      ["model.layers.1.mlp.experts.lora_A.weight", floats(25, 14)],
      ["model.layers.1.mlp.experts.lora_B.weight", floats(32, 25)],
    ]),
  ],
  [
    "a stack that fits either way round",
    /the factors of the experts of layer \d fit either way round/,
    "llama4",
    new Map([
      ["model.layers.1.feed_forward.experts.lora_A.weight", floats(24, 40)],
      ["model.layers.1.feed_forward.experts.lora_B.weight", floats(40, 24)],
    ]),
  ],
  [
    "an expert by itself and with all",
    /it changes model.layers.1.mlp.experts.3.down_proj.weight by itself and with its layer's/,
    "qwen3-moe",
    new Map([
      ["model.layers.1.mlp.experts.lora_A.weight", floats(32, 14)],
      ["model.layers.1.mlp.experts.lora_B.weight", floats(32, 32)],
      ["model.layers.1.mlp.experts.3.down_proj.lora_A.weight", floats(4, 14)],
      ["model.layers.1.mlp.experts.3.down_proj.lora_B.weight", floats(32, 4)],
    ]),
  ],
  ["nothing", /it changes nothing that is served/, "qwen3-moe", new Map()],
])("refused: %s", async (_, words, name, tensors) => {
  const adapters = [adapterOf(PLAIN, tensors)]
  await expect(openModel(goldenFolder("models", name), { adapters })).rejects.toThrow(words)
})

test("refused: a table that comes in the place of one that another row is added to", async () => {
  const table = "base_model.model.embeddings.word_embeddings.weight"
  const adapters = [adapterOf(PLAIN, new Map([[table, floats(400, 24)]]))]
  await expect(openModel(goldenFolder("embeddings", "bert"), { adapters })).rejects.toThrow(
    /word_embeddings.weight comes in the place of one that another is added to/,
  )
})

const A = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"

test.each<[string, RegExp, object, ((tensors: Tensors) => void)?]>([
  ["another method", /peft_type is "IA3"; LORA is read/, { peft_type: "IA3" }],
  [
    "a beginning that took from the weights",
    /init_lora_weights is "pissa", which changes/,
    { init_lora_weights: "pissa" },
  ],
  [
    "layers copied",
    /layer_replication is \[\[0,1\]\], which is not known/,
    { layer_replication: [[0, 1]] },
  ],
  ["biases of factors", /lora_bias is true, which is not known of a LoRA/, { lora_bias: true }],
  ["tokens trained alone", /trainable_token_indices is \[5\]/, { trainable_token_indices: [5] }],
  ["a field of tomorrow", /spin is 2, which is not known of a LoRA/, { spin: 2 }],
  ["DoRA without lengths", /it has no lengths of .*, and use_dora is true/, { use_dora: true }],
  ["no strength", /lora_alpha is missing/, { lora_alpha: null }],
  [
    "a rank that no factor has",
    /r says rank 5 of model.layers.0.\S+, whose factors have 6/,
    { r: 5 },
  ],
  [
    "a rank that the factors of one module do not have",
    /r says rank 5 of model.layers.0.mlp.down_proj, whose factors have 6/,
    { rank_pattern: { "layers.0.mlp.down_proj": 5 } },
  ],
  [
    "a pattern that is none",
    /alpha_pattern has "\(", which is no plain pattern/,
    { alpha_pattern: { "(": 1 } },
  ],
  ["a pattern that never ends", /which is no plain pattern/, { alpha_pattern: { "(a+)+b": 1 } }],
  ["a pattern that takes long", /which is no plain pattern/, { alpha_pattern: { ".*.*.*b": 1 } }],
  ["a factor alone", /down_proj.weight it holds one factor of two/, {}, (all) => all.delete(A)],
  [
    "ranks that differ",
    /the factors of .* have ranks 6 and 4/,
    {},
    (all) => all.set(A, floats(4, 96)),
  ],
  [
    "another width",
    /lora_A.weight is a factor of 6 x 95, and the model wants \d+ columns/,
    {},
    (all) => all.set(A, floats(6, 95)),
  ],
  [
    "a vector for a factor",
    /has shape \[6\], which is no matrix/,
    {},
    (all) => all.set(A, floats(6)),
  ],
  [
    "whole numbers",
    /is of type I32; F32, F16 and BF16 can be read/,
    {},
    (all) => all.set(A, { ...floats(6, 48), dtype: "I32" }),
  ],
  [
    "a name without end",
    /the name of a tensor has 50\d\d characters/,
    {},
    (all) => all.set("a".repeat(5000), floats(1)),
  ],
  [
    "what the model does not have",
    /it changes layers.7.mlp.up_proj.weight, which this model does not have/,
    {},
    (all) => all.set("base_model.model.model.layers.7.mlp.up_proj.weight", floats(2, 2)),
  ],
  [
    "one tensor in two places",
    /it changes layers.0.mlp.down_proj.weight in two places/,
    {},
    (all) => all.set("base_model.model.model.text.layers.0.mlp.down_proj.weight", floats(2, 2)),
  ],
  [
    "one tensor twice",
    /are one thing/,
    {},
    (all) => all.set(A.replace(".weight", ".default.weight"), floats(6, 48)),
  ],
])("refused: %s", async (_, words, fields, change) => {
  const adapters = [changed("phi3", fields, change)]
  await expect(openModel(baseOf(golden("phi3")), { adapters })).rejects.toThrow(words)
})

test("refused: another model's, names of GGUF for a folder, pickles, an empty folder, a model", async () => {
  const base = baseOf(golden("phi3"))
  const opened = (adapter: string) => openModel(base, { adapters: [adapter] })
  await expect(opened(golden("on-q4_0/adapter.gguf"))).rejects.toThrow(
    "it is an adapter of a GGUF file, and the model is none",
  )
  await expect(opened(baseOf(golden("on-q4_0")))).rejects.toThrow("this is no adapter")
  await expect(opened(base)).rejects.toThrow("adapter_config.json: there is no such file")
  await expect(openModel(golden("on-q4_0/adapter.gguf"))).rejects.toThrow(
    'general.type is "adapter": name its model, and this with --lora',
  )
  await expect(
    openModel(goldenFolder("models", "gpt2"), { adapters: [golden("phi3")] }),
  ).rejects.toThrow(/it changes model\.layers\.\d\.\S+\.weight, which this model does not have/)
  const dora = [golden("llama-dora"), golden("mlx")]
  await expect(openModel(baseOf(dora[0]!), { adapters: dora })).rejects.toThrow(
    /lora_magnitude_vector gives rows their lengths, and another adapter changes them, too/,
  )
  const pickled = changed("phi3", {})
  rmSync(join(pickled, "adapter_model.safetensors"))
  await expect(opened(pickled)).rejects.toThrow("adapter_model.safetensors: there is no such file")
  writeFileSync(join(pickled, "adapter_model.bin"), "")
  await expect(opened(pickled)).rejects.toThrow("load it with PEFT once and save it anew")
})
