// How many kernels a decode step of one sequence launches for a layer, of every architecture that has golden logits: what stands between
// a GPU and its memory once kernels are quick. The golden configurations with twice as many layers, so that there are layers which
// neither begin nor end a model; no weights are read.

import { readdirSync, readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { decodeCosts, layerLaunches } from "../../src/compiler/targets/gpu/costs.ts"
import { unitsOf } from "../../src/compiler/targets/gpu/order.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { tapeOf } from "../../src/compiler/targets/gpu/tape-of.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { viewsRead } from "../../src/compiler/targets/runs.ts"
import { architectures } from "../../src/model/architectures.ts"
import { withAttention, withBlocks } from "../../src/model/block.ts"
import type { ModelConfig } from "../../src/model/config.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"
import { openModel } from "../../src/model/model.ts"
import { openVision } from "../../src/model/vision/open-vision.ts"
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

function planOf(name: string, change = (config: ModelConfig) => config): Plan {
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
  const { tape } = tapeOf(plan, printers.cuda.units)
  const counts = (["one span", "all"] as const).map((sees) => {
    const all = new Set(layerLaunches(plan, tape.steps, sees).slice(0, -1))
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

test("a model that sees launches no more than one that does not", () => {
  const sees = (config: ModelConfig): ModelConfig => ({
    ...config,
    embedding: { ...config.embedding, sees: true },
  })
  const mutually = (config: ModelConfig) =>
    withBlocks(sees(config), (block) => withAttention(block, { mutual: true }))
  for (const name of ["cohere2", "gemma3", "llama-wide"])
    for (const change of [sees, mutually])
      for (const kind of ["cuda", "vulkan"] as const)
        for (const span of ["one span", "all"] as const) {
          const [blind, seeing] = [planOf(name), planOf(name, change)].map(
            (plan) => decodeCosts(plan, kind, span).launches,
          )
          expect(seeing, name).toBe(blind)
        }
})

test("of two rows, which may be one sequence's, what is kept is kept before any launch convolves it", () => {
  for (const name of ["lfm2", "qwen3-5"]) {
    const { tape, kernels } = tapeOf(planOf(name), printers.cuda.units)
    const ofRows = (rows: number) =>
      tape.steps.flatMap(({ text, choices }) => {
        if (!text.some((line) => line.includes(" convolve "))) return []
        const choice = choices.find(({ most }) => most === undefined || rows <= most)!
        return choice.launches.map(({ kernel }) => kernels[kernel]!.name.includes("storeKv"))
      })
    expect(ofRows(1), name).toContain(true)
    expect(ofRows(2), name).not.toContain(true)
  }
})

test("launches of a layer in q4f16_1", () => {
  expect(Object.fromEntries(names.map((name) => [name, countsOf(name)]))).toMatchInlineSnapshot(`
    {
      "afmoe": "9 10",
      "apertus": "10",
      "apertus1p5": "10",
      "arcee": "10",
      "bailing-moe": "10",
      "bailing-moe-v2": "9 10",
      "bamba": "9",
      "bitnet": "10, beyond 11",
      "bloom": "10",
      "codegen": "7",
      "cohere": "7",
      "cohere-compass": "7",
      "cohere-normed": "7",
      "cohere2": "7",
      "cohere2-moe": "7 8",
      "cwm": "9",
      "dbrx": "9",
      "deepseek-v2": "12 13",
      "deepseek-v2-dense": "11",
      "deepseek-v3": "12 13",
      "dory": "10, beyond 11",
      "dots1": "9 10",
      "ernie4-5": "9",
      "ernie4-5-moe": "9 10",
      "exaone": "9",
      "exaone-moe": "9 10",
      "exaone4": "9",
      "falcon": "7",
      "falcon-h1": "12",
      "falcon-h1-normed": "12",
      "falcon-mamba": "9",
      "flex-olmo": "9",
      "gemma": "9",
      "gemma2": "9",
      "gemma3": "9",
      "gemma3-nested": "9",
      "gemma3n": "14 15 20",
      "gemma4-experts": "10",
      "gemma4-layer-inputs": "12 13 15",
      "glm": "9",
      "glm4": "9",
      "glm4-moe": "9 10",
      "glm4-moe-lite": "12 13",
      "gpt-bigcode": "10",
      "gpt-neo": "10",
      "gpt-neox": "7",
      "gpt-oss": "9",
      "gpt-oss-bf16": "9",
      "gpt2": "10",
      "gptj": "7",
      "granite": "9",
      "granite-hybrid": "10",
      "granite-hybrid-dense": "9",
      "granite-swa": "9",
      "granitemoe": "9",
      "granitemoe-shared": "10",
      "granitemoe-swa": "10",
      "helium": "9",
      "hrm-text": "9",
      "hunyuan-dense": "9",
      "hunyuan-moe": "10",
      "hy-v3": "9 10",
      "hyperclovax": "9",
      "internlm3": "9",
      "iquestcoder": "9",
      "jais2": "10",
      "jamba": "9 12",
      "kimi-linear": "12 13",
      "kolibri1": "10",
      "laguna": "9 11, beyond 10 12",
      "lara-mini": "10",
      "lfm2": "7 9",
      "lfm2-moe": "7 9",
      "lfm3": "7 9, beyond 7 10",
      "llama-odd": "9",
      "llama-tied": "9",
      "llama-untied": "9",
      "llama-wide": "9",
      "llama4": "9 11",
      "mamba": "9",
      "mamba2": "6",
      "mellum": "9",
      "minicpm3": "12",
      "minimax-m2": "9",
      "ministral3": "9",
      "mistral-swa": "9",
      "mistral4": "13",
      "mixtral": "9",
      "mllama": "9",
      "mpt": "10",
      "muse-glimmer": "9",
      "nanochat": "10",
      "nemotron": "10",
      "nemotron-h": "4 6 7",
      "nemotron-h-moe": "6 8 9",
      "nemotron-nas": "3 5 6 9",
      "olmo": "9",
      "olmo-hybrid": "9",
      "olmo2": "9",
      "olmo3": "9",
      "olmoe": "9",
      "opt": "10",
      "phi": "7",
      "phi3": "9",
      "phi3-longrope": "9",
      "phimoe": "9",
      "qwen2": "9",
      "qwen2-moe": "10",
      "qwen3": "9",
      "qwen3-5": "9",
      "qwen3-5-moe": "10",
      "qwen3-moe": "9",
      "qwen3-next": "10",
      "sarvam-mla": "11 12",
      "sarvam-moe": "9 10",
      "smollm3": "9",
      "solar-open": "10",
      "stablelm": "7",
      "starcoder2": "10",
      "vaultgemma": "9",
      "youtu": "12",
    }
  `)
})
