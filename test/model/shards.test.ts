// One model in several shards: the bits of one, whatever is split and whatever stays whole. The reference runs shards in one
// thread; GPUs, where one is here, run the same plans with an exchange between their steps.

import { describe, expect, test } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import {
  add,
  apply,
  attention,
  embed,
  finish,
  linear,
  multiply,
  norm,
  reorder,
  rope,
  slice,
  weigh,
  weight,
} from "../../src/compiler/graph/builder.ts"
import type { CodecOf } from "../../src/compiler/graph/codecs.ts"
import {
  distancesOf,
  type Graph,
  inOrder,
  rewrite,
  type Weight,
} from "../../src/compiler/graph/graph.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { shard } from "../../src/compiler/shard.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference, openShards } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { type ArchitectureName, architectures } from "../../src/model/architectures.ts"
import { withAttention, withBlocks } from "../../src/model/block.ts"
import { Fields } from "../../src/model/fields.ts"
import { decoder } from "../../src/model/layers.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { findDevices } from "../../src/runtime/devices.ts"
import {
  type LoadableProgram,
  type Program,
  type ProgramLimits,
  SEEN,
} from "../../src/runtime/program.ts"
import { isLeftOut } from "../left-out.ts"
import { type FamilyName, familyGraph } from "./families.ts"
import { goldenFolder } from "./golden.ts"
import { results, sizes, tokensOf } from "./sharded.ts"
import { loadSmall, smallGraph, smallWeights } from "./small.ts"
import { batch, blocksFor, limitsFor, take } from "./steps.ts"
import { tinyFolder } from "./tiny.ts"
import { seeingStep } from "./vision.ts"

const found = (await findDevices(60_000)).flatMap(({ devices }) => devices)
const { sums } = traitsOf("vulkan")

interface WideShape {
  heads?: number
  kvHeads?: number
  intermediate?: number
  /** Of q, k and v, of what becomes of attention, and of an MLP without gates. */
  hasBiases?: boolean
  /** What becomes of attention, and what MLPs end with, is read in another order, which every shard needs whole. */
  hasOrder?: boolean
  /** What attention reads is a product itself, as in heads of EAGLE. */
  hasDoor?: boolean
  /** Over all heads together. */
  normsAll?: boolean
}

const [HIDDEN, HEAD_DIM, VOCABULARY] = [48, 32, 72]
const DOOR = 256 // columns, of which eight shards could have whole groups

/** Eight heads, of which every shard can have some; what is joined, biased, gated, weighed and normed by heads, and sinks. */
function wideGraph(shape: WideShape = {}): Graph {
  const {
    heads = 16,
    kvHeads = 8,
    intermediate = 512,
    hasBiases = false,
    hasOrder,
    normsAll,
  } = shape
  const width = heads * HEAD_DIM
  const rotation = { frequencies: [1, 0.1, 0.01, 0.001], factor: 1 }
  const table = weight("embed", "embed", VOCABULARY, HIDDEN)
  let x = embed(table)
  for (let layer = 0; layer < 2; layer++) {
    const w = (name: string, rows: number, columns?: number): Weight =>
      weight(`layers.${layer}.${name}`, `${layer}.${name}`, rows, columns)
    const bias = (name: string, rows: number) => (hasBiases ? w(name, rows) : undefined)
    const h = shape.hasDoor
      ? linear(x, w("door", DOOR, HIDDEN))
      : norm(x, w("attention_norm", HIDDEN), 1e-5)
    const rows = width + 2 * kvHeads * HEAD_DIM
    const all = linear(h, w("qkv", rows, h.columns), bias("qkv_bias", rows))
    const of = (from: number, count: number) => slice(all, from * HEAD_DIM, count * HEAD_DIM)
    const q = normsAll
      ? norm(of(0, heads), w("q_norm", width), 1e-5)
      : norm(of(0, heads), w("q_norm", width), 1e-5, { width: HEAD_DIM })
    const mixed = attention(
      rope(q, HEAD_DIM, rotation),
      rope(norm(of(heads, kvHeads), w("k_norm", HEAD_DIM), 1e-5), HEAD_DIM, rotation),
      of(heads + kvHeads, kvHeads),
      {
        layer,
        heads,
        kvHeads,
        headDim: HEAD_DIM,
        scale: HEAD_DIM ** -0.5,
        cap: undefined,
        window: undefined,
        sinks: 0,
      },
      layer === 1
        ? { sinkLogits: w("sinks", heads) }
        : { biases: w("biases", heads * distancesOf(512)) },
    )
    const gates = () => apply("softplus", linear(h, w("gates", heads, h.columns)))
    const opened = layer === 0 ? multiply(mixed, gates()) : mixed
    const read = hasOrder && layer === 1 ? reorder(opened, w("o_order", width)) : opened
    x = add(x, linear(read, w("o", HIDDEN, width), bias("o_bias", HIDDEN)))
    const m = norm(x, w("mlp_norm", HIDDEN), 1e-5)
    const up = linear(m, w("up", intermediate, HIDDEN), bias("up_bias", intermediate))
    const inner =
      layer === 0
        ? multiply(apply("silu", linear(m, w("gate", intermediate, HIDDEN))), up)
        : weigh(apply("gelu", up), w("factors", intermediate))
    const given = hasOrder ? reorder(inner, w("down_order", intermediate)) : inner
    x = add(x, linear(given, w("down", HIDDEN, intermediate), bias("down_bias", HIDDEN)))
  }
  const shapes = {
    vocabulary: VOCABULARY,
    hidden: HIDDEN,
    layers: 2,
    heads,
    kvHeads,
    headDim: HEAD_DIM,
    intermediate,
    context: 512,
  }
  const last = norm(x, weight("norm", "norm", HIDDEN), 1e-5)
  return finish({ architecture: "wide", shapes, window: undefined, sinks: 0 }, last, table)
}

const WIDE = {
  vocab_size: 70,
  hidden_size: 64,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  intermediate_size: 512,
  max_position_embeddings: 512,
}

/** Of a model that embeds, wide enough for two shards. */
function encoderGraph(architecture: ArchitectureName): Graph {
  const relative = { relative_attention: true, pos_att_type: ["c2p", "p2c"], position_buckets: 8 }
  const narrow = architecture === "electra" && { embedding_size: 32 }
  const own = { local_attention: 14, ...relative, ...narrow }
  const fields = new Fields({ ...WIDE, ...own }, (what) => new Error(what) as never)
  const config = architectures[architecture].read(fields)
  return decoder(architecture, { ...config, head: { ...config.head, tied: true, bias: false } })
}

/** Every row of two texts, each read whole. */
async function embedded(program: Program): Promise<Float32Array> {
  const text = (length: number, first: number) => ({
    tokens: tokensOf(length, first),
    from: 0,
    blocks: blocksFor(length, first),
    logits: [],
    hidden: [...Array(length).keys()],
  })
  return (await take(program, batch([text(40, 0), text(30, 4)]))).hidden
}

/** The value heads of a state of the same rest read one key head. */
const tiled = (graph: Graph): Graph =>
  rewrite(graph, (node) =>
    node.op === "delta" ? { ...node, delta: { ...node.delta, tiled: true } } : node,
  )

/** That an encoder's rows are, by whoever opens it, those of the reference in one piece. */
async function judgeEncoder(
  name: ArchitectureName,
  open: (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>,
): Promise<void> {
  const plan = compile(encoderGraph(name), { ...floats, sums: sums! })
  const limits = limitsFor(plan, sizes)
  const programs = [openReference(plan, limits), await open(plan, limits)]
  for (const program of programs) await loadSmall(program)
  const [expected, made] = await Promise.all(programs.map(embedded))
  expect(new Set(expected).size).toBeGreaterThan(70 * 32)
  expect(made).toEqual(expected)
  for (const program of programs) await program.close()
}

/** Of a model that sees, wide enough for two shards; in one of its layers rows of an image see each other. */
function seeingGraph(): Graph {
  const fields = new Fields(WIDE, (what) => new Error(what) as never)
  const config = architectures.llama.read(fields)
  const seeing = { ...config, embedding: { ...config.embedding, sees: true } as const }
  return decoder(
    "llama",
    withBlocks(seeing, (block, layer) =>
      layer === 1 ? withAttention(block, { mutual: true }) : block,
    ),
  )
}

/** An image between words beside a text, a second image behind, then a token of each: every logit and every hidden row. */
async function seen(program: Program): Promise<unknown> {
  const isImage = (i: number) => (i >= 5 && i < 21) || (i >= 30 && i < 37)
  const tokens = tokensOf(40, 1)
  let row = 0
  const rowAt = tokens.map((_, i) => (isImage(i) ? row++ : -1))
  const features = smallWeights("images", row * WIDE.hidden_size)
  const image = { prompt: { tokens, rowAt, features }, blocks: blocksFor(48) }
  const text = { tokens: tokensOf(21, 2), rowAt: new Int32Array(21).fill(-1), features }
  const own = { hidden: WIDE.hidden_size, isMutual: true }
  const made: unknown[] = []
  for (const parts of [
    [
      { ...image, from: 0, to: 25, logits: [4, 20, 24] },
      { prompt: text, blocks: blocksFor(40, 4), from: 0, to: 20 },
    ],
    [{ ...image, from: 25, to: 39, logits: [5, 13] }],
    [
      { prompt: text, blocks: blocksFor(40, 4), from: 20, to: 21 },
      { ...image, from: 39, to: 40 },
    ],
  ]) {
    const step = seeingStep(parts, own)
    const hiddenRows = Int32Array.of(0, step.tokens.length - 1)
    const { logits, hidden } = await take(program, { ...step, hiddenRows })
    made.push({ logits, hidden })
  }
  return made
}

async function judgeSeeing(
  open: (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>,
): Promise<void> {
  const plan = compile(seeingGraph(), { ...floats, sums: sums! })
  const limits = limitsFor(plan, sizes)
  const programs = [openReference(plan, limits), await open(plan, limits)]
  for (const program of programs) await loadSmall(program)
  const [expected, made] = await Promise.all(programs.map(seen))
  expect(made).toEqual(expected)
  for (const program of programs) await program.close()
}

/** Rows of a recording, which tokens read by cross-attention, then a token more. */
async function heard(program: Program): Promise<unknown> {
  const rows = 30
  const tokens = [...Array.from({ length: rows }, (_, i) => SEEN + i), 5, 6, 7, 8]
  const features = smallWeights("rows", rows * program.manifest.shapes.hidden)
  const blocks = blocksFor(rows + 5)
  const whole = await take(program, {
    ...batch([{ tokens, from: 0, blocks, logits: [30, 33], hidden: [31] }]),
    hiddenIn: features,
  })
  const next = await take(program, batch([{ tokens: [9], from: rows + 4, blocks }]))
  return [whole, next].map(({ logits, hidden }) => ({ logits, hidden }))
}

test.each([2, 4, 8])("a Whisper in %i shards computes the bits of one", async (count) => {
  const fields = new Fields(
    {
      ...{ vocab_size: 72, d_model: 256, decoder_layers: 2, decoder_attention_heads: 8 },
      ...{ decoder_ffn_dim: 512, max_source_positions: 30, max_target_positions: 14 },
    },
    (what) => {
      throw new Error(what)
    },
  )
  const aligned = [
    { layer: 0, head: 5 },
    { layer: 1, head: 0 },
    { layer: 1, head: 7 },
  ]
  const graph = decoder("whisper", { ...architectures.whisper.read(fields), aligned })
  const plan = compile(graph, { ...floats, sums: sums! })
  const limits = limitsFor(plan, sizes)
  const programs = [openReference(plan, limits), openShards(plan, shard(plan, count)!, limits)]
  for (const program of programs) await loadSmall(program)
  const [one, several] = await Promise.all(programs.map(heard))
  expect(several).toEqual(one)
})

type Options = Pick<CompileOptions, "format" | "activations" | "kv" | "codecOf">
const floats: Options = { format: "q0f32", activations: "float", kv: "f32" }
const codes: Options = { format: "q4f16_1", activations: "int8", kv: "q8" }

/** That so many shards compute what one device does, each with about its part of the numbers. */
async function judge(graph: Graph, options: Options, counts: readonly number[]): Promise<void> {
  const plan = compile(graph, { ...options, sums: sums! })
  const numbersOf = ({ parameters }: Plan) =>
    parameters.reduce((sum, { rows, columns }) => sum + rows * columns, 0)
  const limits = limitsFor(plan, sizes)
  const one = openReference(plan, limits)
  await loadSmall(one)
  const expected = await results(one)
  for (const count of counts) {
    const sharded = shard(plan, count)!
    expect(numbersOf(sharded.plan)).toBeLessThan((numbersOf(plan) / count) * 2)
    const several = openShards(plan, sharded, limits)
    await loadSmall(several)
    expect(await results(several)).toEqual(expected)
  }
}

describe("the reference", () => {
  test.each<[string, WideShape, Options, readonly number[]]>([
    ["floats", {}, floats, [4]],
    [
      "codes of 16 bits",
      { kvHeads: 2 },
      { ...floats, format: "q0bf16", activations: "int16" },
      [2],
    ],
    ["a product before attention", { hasDoor: true }, floats, [2]],
    ["columns in another order", { hasOrder: true }, { ...codes, kv: "f16" }, [2]],
    ["biases and codes", { hasBiases: true }, codes, [2, 8]],
    ["fewer heads of keys than shards", { kvHeads: 2, hasBiases: true }, codes, [4]],
    ["one head of keys", { kvHeads: 1, hasDoor: true }, floats, [8]],
  ])("computes %s in shards to the bit", async (_, shape, options, counts) => {
    await judge(wideGraph(shape), options, counts)
  })

  test.each<[FamilyName, Options, readonly number[]]>([
    ["experts", codes, [2, 8]],
    ["experts beside others", floats, [4]],
    ["latents", { ...codes, kv: "f16" }, [2, 8]],
    ["latents of queries as they are", codes, [4]],
    ["sparse latents", codes, [2, 8]],
    ["states", codes, [4, 8]],
    ["states by column", codes, [2, 4]],
    ["several widths", codes, [2, 4]],
    ["selective states", codes, [2, 4]],
    ["selective states beside attention", codes, [2, 4]],
    ["states by number", codes, [2, 4, 8]],
    ["states by number alone", codes, [2, 4]],
    ["experts without gates", codes, [2, 4]],
    ["chunks and weighed rows", codes, [2, 4]],
    ["convolutions", codes, [2]],
    ["rows side by side", codes, [2, 4, 8]],
    ["values narrower than keys", codes, [2]],
    ["experts with limits", codes, [2]],
    ["norms of what is projected back", codes, [2, 4]],
  ])("computes layers of %s in shards to the bit", async (family, options, counts) => {
    await judge(familyGraph(family), options, counts)
  })

  test("computes what an EAGLE 3 head reads, and logits of a part of the vocabulary, in shards to the bit", async () => {
    const config = architectures.llama.read(new Fields(WIDE, (what) => new Error(what) as never))
    const graph = decoder("llama", config, [1, 3])
    const logits = reorder(graph.logits, weight("known_order", "known_order", 70))
    const partly = { ...graph, logits, nodes: inOrder([logits, graph.hidden]) }
    for (const options of [floats, codes]) await judge(partly, options, [2])
  })

  test("computes experts whose gates are in another codec than ups in shards to the bit", async () => {
    const codecOf: CodecOf = ({ columns, sources: [first] }) =>
      columns > 1 && /experts\.\d+\.(gate|down)/.test(first!.tensor) ? "q4f16_1" : "f32"
    await judge(familyGraph("experts"), { ...codes, codecOf }, [4])
  })

  test("divides several layers of states alike", async () => {
    const layers = { num_hidden_layers: 3, layer_types: ["mamba", "mamba", "attention"] }
    await judge(familyGraph("selective states", layers), floats, [4])
  })

  test("computes selective states in fewer groups than shards to the bit", async () => {
    await judge(familyGraph("selective states", { mamba_n_groups: 2 }), floats, [2, 4])
  })

  test("computes states whose keys come round again in shards to the bit", async () => {
    await judge(tiled(familyGraph("states")), floats, [2, 8])
  })

  test.each([
    tinyFolder,
    ...["dory", "llama-wide", "mistral-swa"].map((name) => goldenFolder("models", name)),
  ])("computes %s in two shards to the bit", async (folder) => {
    const model = await openModel(folder)
    const { graph, format } = model
    const plan = compile(graph, { format, activations: "int8", kv: "f32", sums: sums! })
    const limits = limitsFor(plan, sizes)
    const programs = [openReference(plan, limits), openShards(plan, shard(plan, 2)!, limits)]
    for (const program of programs) await loadParameters(model.weights, program.manifest, program)
    const [expected, made] = await Promise.all(programs.map(results))
    expect(made).toEqual(expected)
    await model.close()
  })

  test.each(["bert", "modernbert", "electra", "mpnet", "deberta-v2"] as const)(
    "reads both ways in two shards: %s",
    async (name) => {
      await judgeEncoder(name, (plan, limits) => openShards(plan, shard(plan, 2)!, limits))
    },
  )

  test("reads rows of images in two shards", async () => {
    await judgeSeeing((plan, limits) => openShards(plan, shard(plan, 2)!, limits))
  })
})

const vulkan = found.find(({ name, obstacle }) => name === "vulkan" && !obstacle)
const left = isLeftOut(vulkan?.type === "processor")
test.skipIf(left)(
  `on Vulkan: four shards on one device that is a processor compute the reference's bits${left ? " (skipped: none of Vulkan)" : ""}`,
  async () => {
    const shape = { kvHeads: 4, heads: 8, hasBiases: true, hasOrder: true, intermediate: 256 }
    // Small enough for a driver that compiles for longer than it computes.
    const options = { format: "q4f16_1", activations: "int8", kv: "q8", sums: sums! } as const
    const plan = compile(wideGraph(shape), options)
    const limits = limitsFor(plan, sizes)
    const devices = Array.from({ length: 4 }, () => vulkan!.id)
    const programs = [
      openReference(plan, limits),
      await (await targets.vulkan.prepare(plan, devices)).open(limits),
    ]
    for (const program of programs) await loadSmall(program)
    const [expected, made] = await Promise.all(programs.map(results))
    expect(made).toEqual(expected)
    for (const program of programs) await program.close()
  },
  240_000,
)

test.skipIf(left)(
  `on Vulkan: two shards of an encoder${left ? " (skipped: none of Vulkan)" : ""}`,
  async () => {
    const devices = [vulkan!.id, vulkan!.id]
    await judgeEncoder("modernbert", async (plan, limits) =>
      (await targets.vulkan.prepare(plan, devices)).open(limits),
    )
  },
  240_000,
)

test.skipIf(left)(
  `on Vulkan: two shards of a model that sees${left ? " (skipped: none of Vulkan)" : ""}`,
  async () => {
    const devices = [vulkan!.id, vulkan!.id]
    await judgeSeeing(async (plan, limits) =>
      (await targets.vulkan.prepare(plan, devices)).open(limits),
    )
  },
  240_000,
)

const onDevices = [
  "sparse latents",
  "states",
  "states by column",
  "states by number",
  "convolutions",
] as const
test.skipIf(left).each(onDevices)(
  `on Vulkan: two shards of %s${left ? " (skipped: none of Vulkan)" : ""}`,
  async (family) => {
    const plan = compile(familyGraph(family), { ...codes, sums: sums! })
    const limits = limitsFor(plan, sizes)
    const programs = [
      openReference(plan, limits),
      await (await targets.vulkan.prepare(plan, [vulkan!.id, vulkan!.id])).open(limits),
    ]
    for (const program of programs) await loadSmall(program)
    const [expected, made] = await Promise.all(programs.map(results))
    expect(made).toEqual(expected)
    for (const program of programs) await program.close()
  },
  240_000,
)

describe("what cannot be divided is said in a sentence:", () => {
  const oddRows = { hasExperts: true, hidden: 21, intermediate: 48 }
  const of = (graph: Graph, shards: number) => () =>
    shard(compile(graph, { ...floats, sums: sums! }), shards)

  test.each<[string, () => unknown, RegExp]>([
    [
      "heads",
      of(wideGraph({ heads: 12, kvHeads: 3 }), 4),
      /12 query heads and 3 of keys and values/,
    ],
    [
      "heads of queries",
      of(familyGraph("latents", { num_attention_heads: 6, num_key_value_heads: 6 }), 4),
      /6 query heads,/,
    ],
    ["columns", of(wideGraph({ intermediate: 80 }), 2), /80 columns .* 2 equal parts .* of 32\.$/],
    [
      "columns of so few heads that they are one group",
      of(familyGraph("states", { head_dim: 4 }), 2),
      /32 columns .* 2 equal parts .* of 32\.$/,
    ],
    [
      "columns of so few heads of states",
      of(familyGraph("selective states beside attention", { mamba_d_ssm: 32 }), 2),
      /32 columns .* 2 equal parts .* of 32\.$/,
    ],
    ["all heads together", of(wideGraph({ normsAll: true }), 2), /of all heads together/],
    ["experts", of(smallGraph({ hasExperts: true }), 2), /44 columns of an expert .* whole fours/],
    [
      "odd rows",
      of(smallGraph(oddRows), 2),
      /21 columns that experts give have no 2 equal parts\./,
    ],
    [
      "heads of states",
      of(familyGraph("states", { linear_num_value_heads: 4 }), 8),
      /states have 4 heads and 2 of keys/,
    ],
    [
      "rows of convolutions",
      of(familyGraph("convolutions"), 4),
      /keep rows in 2 pieces of 128 columns/,
    ],
  ])("%s", (_, divide, sentence) => {
    expect(divide).toThrow(sentence)
  })
})
