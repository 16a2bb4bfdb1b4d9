// Several adapters beside one model, of which each sequence chooses one, against what mlx-lm and PEFT make of each alone
// (test/golden/adapters/README.md).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { shard } from "../../src/compiler/shard.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference, openShards } from "../../src/compiler/targets/reference/reference.ts"
import { type Model, openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import type { LoadableProgram, Program, StepInput } from "../../src/runtime/program.ts"
import { isLeftOut } from "../left-out.ts"
import { type GoldenPrompt, goldenFolder, readGolden } from "./golden.ts"
import { lora, PLAIN, readTensors, type Tensors, writeAdapter, written } from "./peft-files.ts"
import {
  batch,
  blocksFor,
  expectGolden,
  limitsFor,
  prefill,
  take,
  worstDifference,
} from "./steps.ts"

const golden = (name: string) => goldenFolder("adapters", name)
const untied = goldenFolder("models", "llama-untied")
const onQ4 = goldenFolder("gguf", "llama-q4_0/llama-q4_0.gguf")

let scratch: string
let stronger: string
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "choices-"))
  stronger = strengthened("mlx")
})
afterAll(() => rmSync(scratch, { recursive: true }))

/** An adapter of mlx-lm's, twice as strong. */
function strengthened(name: string): string {
  const folder = mkdtempSync(join(scratch, "adapter-"))
  cpSync(golden(name), folder, { recursive: true })
  const file = join(folder, "adapter_config.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  config.lora_parameters.scale *= 2
  writeFileSync(file, JSON.stringify(config))
  return folder
}

const planOf = ({ graph, format, codecOf }: Model) =>
  compile(graph, { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" })

async function opened(model: Model): Promise<LoadableProgram> {
  const plan = planOf(model)
  const limits = limitsFor(plan, { blocks: 50, tokens: 700, sequences: 4, rows: 700 })
  const program = openReference(plan, limits)
  await loadParameters(model.weights, program.manifest, program)
  return program
}

/** The program, every token of which has chosen that adapter. */
function choosing(program: Program, adapter: number): Program {
  const step: Program["step"] = (input, cancel) =>
    program.step({ ...input, adapters: new Int32Array(input.tokens.length).fill(adapter) }, cancel)
  return Object.assign(Object.create(program), { step })
}

test.each([
  ["as mlx-lm has it", "mlx", untied, () => [stronger, golden("mlx")]],
  ["beside codes, as PEFT has it", "on-q4_0", onQ4, () => [golden("on-q4_0/adapter.gguf")]],
] as const)(
  "%s: each sequence has the adapter that it has chosen",
  async (_, name, base, choices) => {
    const model = await openModel(base, { choices: choices() })
    const program = await opened(model)
    const chosen = choices().length
    expect(program.manifest.adapters).toBe(chosen)
    for (const prompt of readGolden(golden(name)))
      await expectGolden(
        choosing(program, chosen),
        prompt,
        blocksFor(prompt.tokens.length + 40),
        1e-4,
      )
    await program.close()
    await model.close()
  },
)

/** Four sequences, of which the second has chosen nothing. */
const together = [2, 0, 1, 2].map((adapter, s) => ({
  adapter,
  tokens: Array.from({ length: 9 - s }, (_, i) => 5 + 3 * i + s),
  from: 0,
  blocks: [s],
}))

function inCompany(sequences: readonly (typeof together)[number][]): StepInput {
  const adapters = sequences.flatMap(({ adapter, tokens }) => tokens.map(() => adapter))
  return { ...batch(sequences), adapters: Int32Array.from(adapters) }
}

const logitsOf = async (program: Program, input: StepInput) => (await take(program, input)).logits!

test("in company the bits are those of each alone, and of none those of the model without", async () => {
  const model = await openModel(untied, { choices: [stronger, golden("mlx")] })
  const program = await opened(model)
  const all = await logitsOf(program, inCompany(together))
  const each: number[] = []
  for (const one of together) each.push(...(await logitsOf(program, inCompany([one]))))
  expect([...all]).toEqual(each)
  const plain = await openModel(untied)
  const without = await opened(plain)
  const second = await logitsOf(without, batch([together[1]!]))
  expect([...all].slice(second.length, 2 * second.length)).toEqual([...second])
  for (const thing of [program, model, without, plain]) await thing.close()
})

const compiler = await findCompiler()

test.skipIf(isLeftOut(compiler))(
  `the processor computes it${compiler ? "" : " (skipped: no C compiler on this machine)"}`,
  async () => {
    const model = await openModel(untied, { choices: [stronger, golden("mlx")] })
    const plan = planOf(model)
    const { path } = await shelvedCpu(plan)
    const limits = limitsFor(plan, { blocks: 8, tokens: 64, sequences: 4, rows: 64 })
    const programs = [openReference(plan, limits), await openLibrary(path, limits)]
    for (const program of programs) await loadParameters(model.weights, program.manifest, program)
    const [expected, made] = await Promise.all(
      programs.map((program) => logitsOf(program, inCompany(together))),
    )
    expect(worstDifference(made!, expected!)).toBeLessThan(1e-4)
    for (const thing of [...programs, model]) await thing.close()
  },
  240_000,
)

test("shards make the bits of one", async () => {
  const choices = [3, 5].map((alpha) => {
    const matrices = {
      "self_attn.q_proj": [128, 128],
      "self_attn.o_proj": [128, 128],
      "mlp.up_proj": [384, 128],
      "mlp.down_proj": [128, 384],
    } as const
    return writeAdapter(scratch, { ...PLAIN, lora_alpha: alpha }, lora(matrices))
  })
  const model = await openModel(goldenFolder("mlc", "llama-wide-q4f16_1"), { choices })
  const { graph, format } = model
  const { sums } = traitsOf("vulkan")
  const plan = compile(graph, { format, activations: "int8", kv: "f32", sums: sums! })
  const limits = limitsFor(plan, { blocks: 8, tokens: 64, sequences: 4, rows: 64 })
  const programs = [openReference(plan, limits), openShards(plan, shard(plan, 2)!, limits)]
  for (const program of programs) await loadParameters(model.weights, program.manifest, program)
  const [one, two] = await Promise.all(
    programs.map((program) => logitsOf(program, inCompany(together))),
  )
  expect(two).toEqual(one)
  for (const thing of [...programs, model]) await thing.close()
})

/** Bamba's is kept whole, and read as five; three of them are one in the graph. */
test("an adapter that doubles a matrix makes the logits of the model with twice its numbers", async () => {
  const bamba = goldenFolder("models", "bamba")
  const tensors = readTensors(readFileSync(join(bamba, "model.safetensors")))
  const changes: Tensors = new Map()
  for (const [name, tensor] of tensors) {
    if (!name.endsWith(".in_proj.weight")) continue
    const columns = tensor.shape[1]!
    const one = Float32Array.from({ length: columns ** 2 }, (_, i) =>
      Number(i % (columns + 1) === 0),
    )
    const module = `base_model.model.${name.replace(/\.weight$/, "")}`
    const unit = { dtype: "F32", shape: [columns, columns], bytes: new Uint8Array(one.buffer) }
    changes.set(`${module}.lora_A.weight`, unit).set(`${module}.lora_B.weight`, tensor)
    const twice = widen(tensor.bytes, "bf16").map((value) => 2 * value)
    tensors.set(name, { ...tensor, bytes: narrow(twice, "bf16") })
  }
  const adapter = writeAdapter(scratch, { ...PLAIN, r: 40, lora_alpha: 40 }, changes)
  const folder = mkdtempSync(join(scratch, "doubled-"))
  cpSync(bamba, folder, { recursive: true })
  writeFileSync(join(folder, "model.safetensors"), written(tensors))
  const [{ tokens }] = readGolden(bamba) as [GoldenPrompt]
  const logits: Float32Array[] = []
  for (const [base, choices] of [
    [folder, []],
    [bamba, [adapter]],
  ] as const) {
    const model = await openModel(base, { choices })
    const program = choosing(await opened(model), choices.length)
    logits.push(await prefill(program, tokens, blocksFor(tokens.length)))
    await program.close()
    await model.close()
  }
  expect(worstDifference(logits[1]!, logits[0]!)).toBeLessThan(1e-4)
})

test.each([
  ["norms and a head that were trained whole", "llama", untied],
  ["lengths of rows", "llama-dora", untied],
  ["the table of embeddings", "gpt2", goldenFolder("models", "gpt2")],
  ["experts", "qwen3-moe", goldenFolder("models", "qwen3-moe")],
] as const)(
  "an adapter of %s is refused, and the sentence says where it goes",
  async (_, name, base) => {
    await expect(openModel(base, { choices: [golden(name)] })).rejects.toThrow(
      /it changes \S+, and an adapter that requests choose adds to .*; --lora serves the others that it has/,
    )
  },
)

test.each([
  ["lora_A", Number.POSITIVE_INFINITY],
  ["lora_B", Number.POSITIVE_INFINITY],
  ["lora_A", 3e38],
])(
  "an adapter with a number that is not finite, or makes others so, is refused by its name: %s %f",
  async (side, number) => {
    const sentence =
      /it adds to model\.layers\.1\.mlp\.up_proj\.weight has a number that is not finite/
    const tensors = lora({ "mlp.up_proj": [112, 48] })
    const name = `base_model.model.model.layers.1.mlp.up_proj.${side}.weight`
    const { bytes } = tensors.get(name)!
    new DataView(bytes.buffer).setFloat32(bytes.length - 4, number, true)
    const adapter = writeAdapter(scratch, PLAIN, tensors)
    const model = await openModel(untied, { choices: [golden("mlx"), adapter] })
    await expect(opened(model)).rejects.toThrow(sentence)
    await expect(opened(model)).rejects.toThrow(adapter)
    await model.close()
  },
)
