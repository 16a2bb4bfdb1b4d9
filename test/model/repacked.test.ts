// Models that no golden folder holds, made of one that does: the same weights, as another architecture keeps them, give its logits.

import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { goldenFolder, readGolden } from "./golden.ts"
import { blocksFor, limitsFor, prefill, worstDifference } from "./steps.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-repacked-"))
afterAll(() => rmSync(scratch, { recursive: true }))

interface Tensor {
  shape: number[]
  rows: Buffer[]
}
type Tensors = Map<string, Tensor>

/** Of two bytes each. */
function read(path: string): Tensors {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const { __metadata__: _, ...header } = JSON.parse(bytes.toString("utf8", 8, data)) as Record<
    string,
    { shape: number[]; data_offsets: [number, number] }
  >
  return new Map(
    Object.entries(header).map(
      ([
        name,
        {
          shape,
          data_offsets: [begin, end],
        },
      ]) => {
        const size = (end - begin) / shape[0]!
        const row = (_: unknown, i: number) =>
          bytes.subarray(data + begin + i * size, data + begin + (i + 1) * size)
        return [name, { shape, rows: Array.from({ length: shape[0]! }, row) }]
      },
    ),
  )
}

function write(path: string, tensors: Tensors): void {
  let end = 0
  const header = [...tensors].map(([name, { shape, rows }]) => {
    const begin = end
    end += Buffer.concat(rows).length
    return [name, { dtype: "BF16", shape, data_offsets: [begin, end] }] as const
  })
  const json = Buffer.from(JSON.stringify(Object.fromEntries(header)))
  const length = Buffer.alloc(8)
  length.writeUInt32LE(json.length)
  const data = [...tensors.values()].flatMap(({ rows }) => rows)
  writeFileSync(path, Buffer.concat([length, json, ...data]))
}

const whole = (rows: Buffer[], columns: number): Tensor => ({ shape: [rows.length, columns], rows })

const bare = (name: string) => /^(.+)\.mlp\.gate_proj\.weight$/.exec(name)?.[1]

/** Experts that are all the MLP, and a shared one that gives nothing. */
function withExperts(tensors: Tensors): void {
  for (const layer of [...tensors.keys()].flatMap((name) => bare(name) ?? [])) {
    const take = (name: string) => {
      const key = `${layer}.mlp.${name}_proj.weight`
      const tensor = tensors.get(key)!
      tensors.delete(key)
      return tensor
    }
    const [gate, up, down] = [take("gate"), take("up"), take("down")]
    const [intermediate, hidden] = gate.shape as [number, number]
    const stack = (rows: Buffer[], columns: number): Tensor => ({
      shape: [3, rows.length, columns],
      rows: [rows, rows, rows].flat(),
    })
    tensors.set(`${layer}.mlp.experts.gate_up_proj`, stack([...gate.rows, ...up.rows], hidden))
    tensors.set(`${layer}.mlp.experts.down_proj`, stack(down.rows, intermediate))
    tensors.set(`${layer}.mlp.gate.weight`, whole(gate.rows.slice(0, 3), hidden))
    tensors.set(`${layer}.mlp.shared_expert_gate.weight`, whole(gate.rows.slice(0, 1), hidden))
    tensors.set(`${layer}.mlp.shared_expert.gate_proj.weight`, gate)
    tensors.set(`${layer}.mlp.shared_expert.up_proj.weight`, up)
    const nothing = down.rows.map(({ length }) => Buffer.alloc(length))
    tensors.set(`${layer}.mlp.shared_expert.down_proj.weight`, whole(nothing, intermediate))
  }
}

/** Stacked experts, each with tensors of its own. */
function oneByOne(tensors: Tensors): void {
  for (const name of [...tensors.keys()]) {
    const [, at, kind] = /^(.+\.mlp\.experts)\.(gate_up|down)_proj$/.exec(name) ?? []
    if (at === undefined) continue
    const { shape, rows } = tensors.get(name)!
    tensors.delete(name)
    const [count, each, columns] = shape as [number, number, number]
    for (let expert = 0; expert < count; expert++) {
      const own = rows.slice(expert * each, (expert + 1) * each)
      const parts =
        kind === "down" ? { down: own } : { gate: own.slice(0, each / 2), up: own.slice(each / 2) }
      for (const [part, matrix] of Object.entries(parts))
        tensors.set(`${at}.${expert}.${part}_proj.weight`, whole(matrix, columns))
    }
  }
}

/** The projections of the delta rule, key head by key head. */
function byKeyHead(tensors: Tensors): void {
  const [keyHeads, valueHeads, keyDim, valueDim] = [2, 4, 8, 6]
  for (const layer of [...tensors.keys()].flatMap((n) => /^(.+)in_proj_z/.exec(n)?.[1] ?? [])) {
    const take = (name: string) => {
      const key = `${layer}in_proj_${name}.weight`
      const { rows } = tensors.get(key)!
      tensors.delete(key)
      return rows
    }
    const [qkv, z, a, b] = [take("qkv"), take("z"), take("a"), take("b")]
    const keys = keyHeads * keyDim
    const slices = (width: number) => (rows: Buffer[], head: number) =>
      rows.slice(head * width, (head + 1) * width)
    const [ofKey, ofValues] = [slices(keyDim), slices((valueHeads / keyHeads) * valueDim)]
    const ofHeads = slices(valueHeads / keyHeads)
    const heads = Array.from({ length: keyHeads }, (_, head) => head)
    const columns = qkv[0]!.length / 2
    const qkvz = heads.flatMap((head) => [
      ...ofKey(qkv, head),
      ...ofKey(qkv.slice(keys), head),
      ...ofValues(qkv.slice(2 * keys), head),
      ...ofValues(z, head),
    ])
    tensors.set(`${layer}in_proj_qkvz.weight`, whole(qkvz, columns))
    const ba = heads.flatMap((head) => [...ofHeads(b, head), ...ofHeads(a, head)])
    tensors.set(`${layer}in_proj_ba.weight`, whole(ba, columns))
  }
}

const experts = { num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 40 }

test.each([
  ["qwen3_5_moe_text", { ...experts, shared_expert_intermediate_size: 40 }, withExperts],
  [
    "qwen3_5_moe_text",
    { ...experts, shared_expert_intermediate_size: 40 },
    (tensors: Tensors) => {
      withExperts(tensors)
      oneByOne(tensors)
    },
  ],
  ["qwen3_next", { ...experts, mlp_only_layers: [0, 1, 2, 3] }, byKeyHead],
  [
    "qwen3_next",
    { ...experts, shared_expert_intermediate_size: 40 },
    (tensors: Tensors) => {
      byKeyHead(tensors)
      withExperts(tensors)
      oneByOne(tensors)
    },
  ],
] as const)("%s", async (model_type, fields, repack) => {
  const golden = goldenFolder("models", "qwen3-5")
  const folder = mkdtempSync(join(scratch, model_type))
  for (const name of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(golden, name), join(folder, name))
  const config = JSON.parse(readFileSync(join(golden, "config.json"), "utf8"))
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, ...fields, model_type }))
  const tensors = read(join(golden, "model.safetensors"))
  repack(tensors)
  write(join(folder, "model.safetensors"), tensors)

  const model = await openModel(folder)
  expect(model.architecture).toBe(model_type)
  const { graph, format } = model
  const plan = compile(graph, { format, activations: "float", kv: "f32" })
  const limits = { blocks: 12, tokens: 150, sequences: 1, rows: 150 }
  const program = openReference(plan, limitsFor(plan, limits))
  await loadParameters(model.weights, program.manifest, program)
  await model.close()
  for (const { tokens, firstRow, logits } of readGolden(golden)) {
    const ours = await prefill(program, tokens, blocksFor(tokens.length), { firstRow })
    expect(worstDifference(ours, logits)).toBeLessThan(1e-4)
  }
  await program.close()
})
