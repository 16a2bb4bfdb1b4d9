// Every pass leaves what is computed as it was, and does what it is there for: plans with and without it are interpreted
// and compared, and the plan of a small decoder is read.

import { expect, test } from "vitest"
import { loadSmall, smallGraph } from "../../test/model/small.ts"
import { batch, blocksFor, limitsFor, take, worstDifference } from "../../test/model/steps.ts"
import { type CompileOptions, compile, passes, usualCodecs } from "./compile.ts"
import { add, embed, finish, linear, norm, slice, weight } from "./graph/builder.ts"
import type { CodecOf } from "./graph/codecs.ts"
import { type Graph, type Node, printGraph, withInputs } from "./graph/graph.ts"
import { splitExperts } from "./graph/split-experts.ts"
import { lower } from "./lower.ts"
import { fuseResidual } from "./passes/fuse-residual.ts"
import { joinLinears } from "./passes/join-linears.ts"
import { orderNodes } from "./passes/order-nodes.ts"
import { printPlan } from "./plan.ts"
import { openReference } from "./targets/reference/reference.ts"

const options: CompileOptions = { format: "q0f32", activations: "float", kv: "f32" }
const codecOf = usualCodecs("q0f32")
const sums = { parts: 1, span: undefined } as const
const limits = { blocks: 8, tokens: 40, sequences: 2, rows: 4 }

async function logitsOf(graph: Graph): Promise<Float32Array> {
  const plan = lower(graph, { ...options, codecOf, sums })
  const program = openReference(plan, limitsFor(plan, limits))
  await loadSmall(program)
  const tokens = Int32Array.from({ length: 40 }, (_, i) => (i * 31) % 70)
  const part = { tokens, from: 0, blocks: blocksFor(40), logits: [39, 3], hidden: [38] }
  const { logits, hidden } = await take(program, batch([part]))
  return Float32Array.of(...logits!, ...hidden)
}

test.each(passes.map((pass) => [pass.name, pass] as const))(
  "%s changes no result",
  async (_, { run }) => {
    const graph = smallGraph()
    const changed = run(graph, { ...options, codecOf })
    expect(worstDifference(await logitsOf(changed), await logitsOf(graph))).toBeLessThan(1e-5)
  },
)

test("nor do all of them, one after the other", async () => {
  const graph = smallGraph()
  const changed = passes.reduce((before, { run }) => run(before, { ...options, codecOf }), graph)
  expect(worstDifference(await logitsOf(changed), await logitsOf(graph))).toBeLessThan(1e-5)
})

test("products add neither to slices nor to what slices of are read behind them", async () => {
  const { shapes } = smallGraph()
  const { vocabulary, hidden } = shapes
  const matrix = (name: string, rows: number, columns: number) => weight(name, name, rows, columns)
  const product = (x: Node, name: string, rows = hidden) => linear(x, matrix(name, rows, x.columns))
  const x = embed(matrix("embed", vocabulary, hidden))
  const both = product(x, "both", 2 * hidden)
  const sliced = add(slice(both, hidden, hidden), product(x, "to a slice"))
  const wide = add(both, product(sliced, "to what is sliced", 2 * hidden))
  const late = add(product(wide, "behind"), product(slice(both, 4, hidden), "to that"))
  const head = matrix("head", vocabulary, hidden)
  const graph = finish({ architecture: "small", shapes, window: undefined, sinks: 0 }, late, head)
  const changed = fuseResidual(graph)
  const { steps, parameters } = lower(changed, { ...options, codecOf, sums })
  const added = steps.flatMap((step) =>
    step.op === "matmul" && step.epilogue.kind === "add" ? [parameters[step.weight]!.name] : [],
  )
  expect(added).toEqual(["to that"])
  expect(worstDifference(await logitsOf(changed), await logitsOf(graph))).toBeLessThan(1e-5)
})

test("a product with a bias is not joined with one that has none", async () => {
  const { shapes } = smallGraph()
  const { vocabulary, hidden } = shapes
  const x = embed(weight("embed", "embed", vocabulary, hidden))
  const product = (name: string, bias?: string) =>
    linear(x, weight(name, name, hidden, hidden), bias ? weight(bias, bias, hidden) : undefined)
  const sum = add(add(product("a", "a_bias"), product("b")), product("c"))
  const head = weight("head", "head", vocabulary, hidden)
  const graph = finish({ architecture: "small", shapes, window: undefined, sinks: 0 }, sum, head)
  const changed = joinLinears(graph, codecOf)
  expect(printGraph(changed)).toContain("b+c")
  expect(worstDifference(await logitsOf(changed), await logitsOf(graph))).toBeLessThan(1e-5)
})

test("the plan of a decoder", () => {
  const { steps, parameters, buffers } = compile(smallGraph(), options)
  expect(steps.map(({ op, rows }) => `${op} ${rows}`)).toEqual([
    "embed tokens",
    // layer 0
    "norm tokens",
    "matmul tokens", // q+k+v
    "norm tokens", // each query head, in place
    "ropeTable tokens",
    "rope tokens",
    "rope tokens",
    "storeKv tokens",
    "attend tokens",
    "matmul tokens", // o, added
    "norm tokens",
    "matmul tokens", // gate+up, gated
    "matmul tokens", // down, added
    // layer 1: beside keys and values only the wanted rows
    "norm tokens",
    "select wanted",
    "matmul wanted", // q
    "matmul tokens", // k+v
    "norm wanted",
    "rope wanted",
    "rope tokens",
    "storeKv tokens",
    "attend wanted",
    "select wanted",
    "matmul wanted",
    "norm wanted",
    "matmul wanted",
    "matmul wanted",
    "norm wanted",
    "select logits",
    "matmul logits",
    "select hidden",
  ])
  expect(parameters.map(({ name }) => name)).toContain("layers.0.q+k+v")
  expect(parameters.map(({ name }) => name)).toContain("layers.1.gate+up")
  expect(parameters.find(({ name }) => name === "layers.1.k+v")).toEqual({
    name: "layers.1.k+v",
    rows: 24,
    columns: 20,
    codec: "f32",
    sources: [
      { tensor: "1.k", rows: 12 },
      { tensor: "1.v", rows: 12 },
    ],
  })
  expect(buffers.length).toBeLessThan(12) // they are used again
})

test("rows of one token come together, and what is rounded stands behind its product", () => {
  const { shapes } = smallGraph()
  const { vocabulary, hidden } = shapes
  const x = embed(weight("embed", "embed", vocabulary, hidden))
  const vector = (name: string) => weight(name, name, hidden)
  const product = (input: Node, name: string) => linear(input, weight(name, name, hidden, hidden))
  const branch = (name: string) => {
    const inner = product(norm(x, vector(`${name}_norm`), 1e-5), `${name}_in`)
    return norm(product(inner, `${name}_out`), vector(`${name}_behind`), 1e-5)
  }
  const head = weight("head", "head", vocabulary, hidden)
  const sum = add(branch("a"), branch("b"))
  const graph = finish({ architecture: "small", shapes, window: undefined, sinks: 0 }, sum, head)
  const rounded = { ...options, format: "q4f16_1", activations: "int8" } as const
  expect(compile(graph, rounded).steps.map(({ op }) => op)).toEqual([
    ...["embed", "norm", "quantize", "norm", "quantize"], // of both branches
    ...["matmul", "quantize", "matmul", "matmul", "quantize", "matmul"],
    ...["norm", "norm", "add", "select", "quantize", "matmul", "select"],
  ])
})

test("what a layer remembers is kept before another reads it, whichever is ready first", () => {
  const small = smallGraph()
  const { vocabulary } = small.shapes
  const keeps = small.nodes.find(({ op }) => op === "attention")!
  const query = embed(weight("query", "query", vocabulary, keeps.inputs[0]!.columns))
  const reads = withInputs(keeps, [query])
  const head = weight("head", "head", vocabulary, keeps.columns)
  const graph = finish(small, add(keeps, reads), head)
  expect(orderNodes(graph).nodes.filter(({ op }) => op === "attention")).toEqual([keeps, reads])
})

test("activations are rounded once for every product that reads them", () => {
  const { steps } = compile(smallGraph(), { ...options, format: "q4f16_1", activations: "int8" })
  const ops = steps.map(({ op }) => op)
  expect(ops.filter((op) => op === "matmul").length).toBe(10)
  expect(ops.filter((op) => op === "quantize").length).toBe(10)
  for (const step of steps) if (step.op === "matmul") expect(step.input.kind).toBe("int8")
  const floats = compile(smallGraph(), { ...options, format: "q4f16_1" })
  expect(floats.steps.some(({ op }) => op === "quantize")).toBe(false)
})

test("16-bit floats take codes of 16 bits where integers of that width are multiplied", () => {
  const kindsIn = (activations: CompileOptions["activations"]) => {
    const { steps } = compile(smallGraph(), { ...options, format: "q0bf16", activations })
    return new Set(steps.flatMap((step) => (step.op === "matmul" ? [step.input.kind] : [])))
  }
  expect(kindsIn("int16")).toEqual(new Set(["int16"]))
  expect(kindsIn("int8")).toEqual(new Set(["float"]))
  const packed = { ...options, format: "q4f16_1" } as const
  const [narrow, wide] = (["int8", "int16"] as const).map((activations) =>
    printPlan(compile(smallGraph(), { ...packed, activations })),
  )
  expect(wide).toBe(narrow)
  const mixture = smallGraph({ hasExperts: true })
  for (const step of compile(mixture, { ...options, format: "q0f16", activations: "int16" }).steps)
    if (step.op === "experts")
      expect([step.input.kind, step.experts.rounded]).toEqual(["float", undefined])
})

test("nothing lies where scales lie, even if it is as wide", () => {
  const shape = { hidden: 6 * 32 } // as many groups as a head has columns: the rope table would fit
  const options = { format: "q4f16_1", activations: "int8", kv: "f32" } as const
  const { steps, buffers } = compile(smallGraph(shape), options)
  const views = steps.flatMap((step) =>
    Object.values(step).filter((value) => typeof value === "object" && "buffer" in value),
  )
  expect(views.length).toBeGreaterThan(30)
  for (const { buffer } of views) expect(buffers[buffer]!.dtype).toBe("f32")
})

test("every phase can be read", () => {
  const files = new Map<string, string>()
  compile(smallGraph(), { ...options, dump: (name, text) => files.set(name, text) })
  expect([...files.keys()]).toEqual([
    "0-graph.txt",
    "1-select-rows.txt",
    "2-split-experts.txt",
    "3-join-linears.txt",
    "4-fuse-gated.txt",
    "5-fuse-residual.txt",
    "6-quantize-activations.txt",
    "7-order-nodes.txt",
    "8-plan.txt",
  ])
  expect(files.get("0-graph.txt")).toMatch(/%2 = linear\(%1, layers.0.q \[24, 20\]\) +tokens x 24/)
  expect(files.get("8-plan.txt")).toMatch(/matmul b\d\[0:20\] layers.0.gate\+up gated silu +tokens/)
})

test("experts whose gates are in another codec than what they are multiplied with have two matrices, which compute the same bits", async () => {
  const graph = smallGraph({ hasExperts: true, intermediate: 42 })
  const apart: CodecOf = ({ sources: [first] }) => (first!.tensor.endsWith(".up") ? "f16" : "f32")
  expect(splitExperts(graph, codecOf)).toEqual(graph)
  const split = splitExperts(graph, apart)
  const [first, second] = split.nodes.filter((node) => node.op === "experts")
  expect([first!.gateUp.rows, first!.up!.name]).toEqual([12 * 42, "layers.0.experts_up"])
  expect(first!.gateUp.sources.map(({ tensor }) => tensor)).toEqual(
    Array.from({ length: 12 }, (_, expert) => `0.${expert}.gate`),
  )
  expect(second!.biases!.up!.sources[11]).toEqual({ tensor: "1.11.up_bias", rows: 42 })
  expect(await logitsOf(split)).toEqual(await logitsOf(graph)) // in one codec all the same
})

test("weights of several codecs: what reads one input is joined and rounded codec by codec", () => {
  const mixed: CodecOf = ({ name, columns }) =>
    columns === 1
      ? "f32"
      : /\.(v|down)$/.test(name)
        ? "q8f16_1"
        : /\.o$/.test(name)
          ? "f16"
          : "q4f16_1"
  const { steps, parameters } = compile(smallGraph({ layers: 1 }), {
    ...options,
    activations: "int8",
    codecOf: mixed,
  })
  expect(
    parameters.flatMap(({ name, codec, columns }) => (columns > 1 ? `${name} ${codec}` : [])),
  ).toEqual([
    "embed q4f16_1",
    "layers.0.q q4f16_1",
    "layers.0.k q4f16_1",
    "layers.0.v q8f16_1",
    "layers.0.o f16",
    "layers.0.gate+up q4f16_1",
    "layers.0.down q8f16_1",
    "head q4f16_1",
  ])
  const products = steps.flatMap((step) =>
    step.op === "matmul" ? `${parameters[step.weight]!.name} ${step.input.kind}` : [],
  )
  expect(products.filter((text) => text.endsWith("float"))).toEqual(["layers.0.o float"])
})
