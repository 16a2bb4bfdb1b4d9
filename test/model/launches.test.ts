// How many kernels a decode step of one sequence launches for a layer, of every architecture that has golden logits: what stands between
// a GPU and its memory once kernels are quick. The golden configurations with twice as many layers, so that there are layers which
// neither begin nor end a model; no weights are read.

import { readdirSync, readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { decodeCosts, layerLaunches } from "../../src/compiler/targets/gpu/costs.ts"
import { planOfOne } from "../../src/compiler/targets/gpu/one-token.ts"
import { unitsOf } from "../../src/compiler/targets/gpu/order.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { type KernelWords, tapeOf } from "../../src/compiler/targets/gpu/tape-of.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { viewsRead } from "../../src/compiler/targets/runs.ts"
import { architectures } from "../../src/model/architectures.ts"
import { withAttention, withBlocks } from "../../src/model/block.ts"
import type { ModelConfig } from "../../src/model/config.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"
import { openModel } from "../../src/model/model.ts"
import { openVision } from "../../src/model/vision/open-vision.ts"
import { stepLaunches } from "../../src/runtime/gpu/tape.ts"
import { goldenFolder } from "./golden.ts"
import { seeingModels } from "./vision.ts"

type ArchitectureName = keyof typeof architectures

function longer(name: string): Record<string, unknown> {
  const config = JSON.parse(readFileSync(`${goldenFolder("models", name)}/config.json`, "utf8"))
  const own = config.text_config ? { ...config, ...config.text_config } : config
  const names = ["num_hidden_layers", "n_layer", "n_layers", "num_layers"]
  const layers = own[names.find((each) => each in own)!]
  const twice = ([key, value]: [string, unknown]) => {
    if (key === "hybrid_override_pattern") return [key, (value as string).repeat(2)]
    if (key === "linear_attn_config") return [key, twiceNumbered(value as object)]
    const isOfLayers = Array.isArray(value) && value.length === layers
    return isOfLayers && !key.endsWith("_multipliers") ? [key, [...value, ...value]] : [key, value]
  }
  /** Lists of layers by their numbers. */
  const twiceNumbered = (lists: object) =>
    Object.fromEntries(
      Object.entries(lists).map(([key, value]) =>
        Array.isArray(value)
          ? [key, [...value, ...value.map((layer) => layer + layers)]]
          : [key, value],
      ),
    )
  const counts = Object.fromEntries(names.flatMap((key) => (key in own ? [[key, 2 * layers]] : [])))
  return { ...Object.fromEntries(Object.entries(own).map(twice as never)), ...counts }
}

const codes: CompileOptions = {
  format: "q4f16_1",
  activations: "int8",
  kv: "f16",
  sums: traitsOf("cuda").sums!,
}

const plans = new Map<string, Plan>() // by their names, unchanged

function planOf(name: string, change?: (config: ModelConfig) => ModelConfig): Plan {
  const known = change ? undefined : plans.get(name)
  const plan = known ?? compiled(name, change)
  if (!change) plans.set(name, plan)
  return plan
}

function compiled(name: string, change = (config: ModelConfig) => config): Plan {
  const config = longer(name)
  const type = config.model_type as ArchitectureName
  const fields = new Fields(config, (what) => new Error(`${name}: ${what}`) as never)
  const read: (fields: Fields) => ModelConfig = architectures[type].read
  return compile(decoder(type, change(read(fields))), codes)
}

/**
 * Different counts of its layers, of whichever kinds they are, within a span of attention and beyond it; the last two are left
 * out, which end the model.
 */
function countsOf(name: string): string {
  const plan = planOf(name)
  const { tape } = tapeOf(plan, printers.cuda)
  const counts = (["one span", "all"] as const).map((sees) => {
    const all = new Set(layerLaunches(tape.steps, sees).slice(0, -1))
    return [...all].sort((a, b) => a - b).join(" ")
  })
  return [...new Set(counts)].join(", beyond ")
}

/** Of each step, which steps have last written what it reads, column by column, when all are taken in this order. */
function writersRead({ steps }: Plan, order: readonly number[]): string[] {
  const writers = new Map<string, number[]>() // of buffers' columns, and of blocks
  const columnsOf = (of: string) => writers.get(of) ?? []
  const found: string[] = []
  for (const i of order) {
    const step = steps[i]!
    const inputs =
      step.op === "matmul"
        ? [step.input]
        : step.op === "experts"
          ? [step.input, ...(step.experts.up ? [step.experts.up.input] : [])]
          : []
    const given = inputs.flatMap((each) => (each.kind === "float" ? [] : [each.codes]))
    const blocks = "place" in step ? [`${step.place.group} ${step.place.layer}`] : []
    const read = [
      ...viewsRead(step).map(({ buffer, from, columns }) =>
        columnsOf(`b${buffer}`).slice(from, from + columns),
      ),
      ...given.flatMap(({ codes, scales }) => [codes, scales].map((id) => columnsOf(`b${id}`))),
      ...(step.op === "attend" || step.op === "convolve" ? blocks.map(columnsOf) : []),
    ]
    found[i] = JSON.stringify(read)
    const write = (of: string, from: number, columns: number) => {
      const own = writers.get(of) ?? []
      for (let c = from; c < from + columns; c++) own[c] = i
      writers.set(of, own)
    }
    if (step.op === "storeKv" || step.op === "delta") write(blocks[0]!, 0, 1)
    const output = step.op === "rope" ? step.view : "output" in step ? step.output : undefined
    if (output && "buffer" in output) write(`b${output.buffer}`, output.from, output.columns)
    else if (output) for (const id of [output.codes, output.scales]) write(`b${id}`, 0, 1)
  }
  return found
}

const names = readdirSync(goldenFolder("models", "."), { withFileTypes: true })
  .filter((each) => each.isDirectory())
  .map(({ name }) => name)

test("steps that a GPU takes in another order read what the plan's order has them read", () => {
  for (const name of names) {
    const plan = planOf(name)
    const order = unitsOf(plan).flatMap(({ run }) => run)
    expect(order.toSorted((a, b) => a - b)).toEqual([...plan.steps.keys()])
    expect(writersRead(plan, order), name).toEqual(writersRead(plan, [...plan.steps.keys()]))
  }
  for (const name of ["gemma3n", "gemma4-layer-inputs", "llama-tied"]) {
    const plan = planOfOne(planOf(name))!
    const order = unitsOf(plan).flatMap(({ run }) => run)
    expect(writersRead(plan, order), name).toEqual(writersRead(plan, [...plan.steps.keys()]))
  }
})

test("and so do those of towers, whose layers keep what they see in one place", async () => {
  for (const name of seeingModels) {
    const model = await openModel(goldenFolder("vision", name))
    const vision = await openVision(model)
    const plan = compile(vision!.graph, { ...codes, format: "q0f16", activations: "float" })
    expect(plan.groups).toMatchObject([{ layers: [0] }])
    const order = unitsOf(plan).flatMap(({ run }) => run)
    expect(writersRead(plan, order), name).toEqual(writersRead(plan, [...plan.steps.keys()]))
    await vision!.close()
    await model.close()
  }
})

test("on OpenCL no kernel does two things beside each other, of which PoCL computes wrong numbers", () => {
  const besides = (words: KernelWords) =>
    tapeOf(planOf("deepseek-v3"), words)
      .kernels.map(({ name }) => name)
      .filter((name) => name.includes("_beside_"))
  expect(besides(printers.cuda)).not.toEqual([])
  expect(besides(printers.opencl)).toEqual([])
})

test("a model that sees launches no more than one that does not", () => {
  const sees = (config: ModelConfig): ModelConfig => ({
    ...config,
    embedding: { ...config.embedding, sees: true },
  })
  const mutually = (config: ModelConfig) =>
    withBlocks(sees(config), (block) => withAttention(block, { mutual: true }))
  for (const name of ["cohere2", "gemma3", "llama-wide"]) {
    const [blind, ...seeing] = [planOf(name), planOf(name, sees), planOf(name, mutually)]
    for (const kind of ["cuda", "vulkan"] as const)
      for (const span of ["one span", "all"] as const) {
        const { launches } = decodeCosts(blind!, kind, span)
        for (const plan of seeing)
          expect(decodeCosts(plan, kind, span).launches, name).toBe(launches)
      }
  }
})

test("of two rows, which may be one sequence's, what is kept is kept before any launch convolves it", () => {
  for (const name of ["lfm2", "qwen3-5"]) {
    const { tape, kernels } = tapeOf(planOf(name), printers.cuda)
    const steps = tape.steps.filter(({ text }) => text.some((line) => line.includes(" convolve ")))
    const ofRows = (rows: number) =>
      stepLaunches(steps, () => rows).map(({ launch: { kernel } }) =>
        kernels[kernel]!.name.includes("storeKv"),
      )
    expect(ofRows(1), name).toContain(true)
    expect(ofRows(2), name).not.toContain(true)
  }
})

test("launches of a layer in q4f16_1", () => {
  expect(Object.fromEntries(names.map((name) => [name, countsOf(name)]))).toMatchInlineSnapshot(`
    {
      "afmoe": "7 9",
      "apertus": "7",
      "apertus1p5": "7",
      "arcee": "7",
      "bailing-moe": "9",
      "bailing-moe-v2": "7 9",
      "bamba": "6 7",
      "bitnet": "6, beyond 7",
      "bloom": "7",
      "codegen": "6",
      "cohere": "6",
      "cohere-compass": "6",
      "cohere-normed": "6",
      "cohere2": "6",
      "cohere2-moe": "6 8",
      "cwm": "7",
      "dbrx": "9",
      "deepseek-v2": "8 10",
      "deepseek-v2-dense": "8",
      "deepseek-v3": "8 10",
      "deepseek-v32": "12 14, beyond 13 15",
      "dory": "8, beyond 9",
      "dots1": "7 9",
      "ernie4-5": "7",
      "ernie4-5-moe": "7 9",
      "exaone": "7",
      "exaone-moe": "7 9",
      "exaone4": "7",
      "falcon": "6",
      "falcon-h1": "9",
      "falcon-h1-normed": "9",
      "falcon-mamba": "6",
      "flex-olmo": "9",
      "gemma": "7",
      "gemma2": "7",
      "gemma3": "7",
      "gemma3-nested": "7",
      "gemma3n": "13 14",
      "gemma4-experts": "10",
      "gemma4-layer-inputs": "9 10",
      "glm": "7",
      "glm-moe-dsa": "10 12 14, beyond 10 13 15",
      "glm4": "7",
      "glm4-moe": "7 9",
      "glm4-moe-lite": "8 10",
      "gpt-bigcode": "7",
      "gpt-neo": "7",
      "gpt-neox": "6",
      "gpt-oss": "9",
      "gpt-oss-bf16": "9",
      "gpt2": "7",
      "gptj": "6",
      "granite": "7",
      "granite-hybrid": "8 9",
      "granite-hybrid-dense": "7",
      "granite-swa": "7",
      "granitemoe": "9",
      "granitemoe-shared": "9",
      "granitemoe-swa": "9",
      "helium": "7",
      "hrm-text": "7",
      "hunyuan-dense": "7",
      "hunyuan-moe": "9",
      "hy-v3": "7 9",
      "hyperclovax": "7",
      "internlm3": "7",
      "iquestcoder": "7",
      "jais2": "7",
      "jamba": "7 8 10",
      "kimi-linear": "8 10",
      "kolibri1": "9",
      "laguna": "7 9, beyond 8 10",
      "lara-mini": "9",
      "lfm2": "5 7",
      "lfm2-moe": "5 7 9",
      "lfm3": "5 7, beyond 5 8",
      "llama-odd": "7",
      "llama-tied": "7",
      "llama-untied": "7",
      "llama-wide": "7",
      "llama4": "7 10",
      "mamba": "7",
      "mamba2": "5",
      "mellum": "9",
      "mimo": "7 9",
      "minicpm3": "8",
      "minimax-m2": "9",
      "ministral3": "7",
      "mistral-swa": "7",
      "mistral4": "10",
      "mixtral": "9",
      "mllama": "7",
      "mpt": "7",
      "muse-glimmer": "7",
      "nanochat": "7",
      "nemotron": "7",
      "nemotron-h": "2 5 6",
      "nemotron-h-moe": "5 6 7",
      "nemotron-nas": "3 5 7",
      "olmo": "7",
      "olmo-hybrid": "7",
      "olmo2": "7",
      "olmo3": "7",
      "olmoe": "9",
      "opt": "7",
      "phi": "6",
      "phi3": "7",
      "phi3-longrope": "7",
      "phimoe": "9",
      "qwen2": "7",
      "qwen2-moe": "9",
      "qwen3": "7",
      "qwen3-5": "7",
      "qwen3-5-moe": "9",
      "qwen3-moe": "7 9",
      "qwen3-next": "9",
      "sarvam-mla": "8 10",
      "sarvam-moe": "7 9",
      "smollm3": "7",
      "solar-open": "9",
      "stablelm": "6",
      "starcoder2": "7",
      "step": "7 9 10, beyond 8 10 11",
      "vaultgemma": "7",
      "youtu": "8",
    }
  `)
})
