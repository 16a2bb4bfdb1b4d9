// Where everything lies in an opened library is said once, in layout.ts. Here it is held to what follows from it: regions
// that do not overlap, a driver that finds everything where the layout says, and kernels that need what is kept for them.

import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { emit, ofStates, shared } from "../../src/compiler/targets/cpu/emit.ts"
import {
  type Amounts,
  bytesOf,
  kvOf,
  type Layout,
  layoutOf,
  programBytes,
  quantizedBytes,
  type Region,
  regionOf,
} from "../../src/compiler/targets/cpu/layout.ts"
import { DRIVER } from "../../src/compiler/targets/cpu/objects.ts"
import { flagsOf, identify } from "../../src/compiler/targets/cpu/toolchain.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import { bufferBytes, type KvType } from "../../src/runtime/manifest.ts"
import { isLeftOut } from "../left-out.ts"
import { type SmallShape, smallGraph } from "../model/small.ts"
import { best } from "./ways.ts"

const planOf = (format: FormatName, kv: KvType, shape?: SmallShape) =>
  compile(smallGraph(shape), { format, kv, activations: "int8" })

const plans: readonly [string, Plan][] = [
  ["q4f16_1 with keys and values f16", planOf("q4f16_1", "f16")],
  ["q3f16_1 with q8", planOf("q3f16_1", "q8", { hidden: 72, intermediate: 100, layers: 3 })],
  ["q0bf16 with bf16", planOf("q0bf16", "bf16", { hidden: 512, intermediate: 1024 })],
  ["q0f32 with f32, and rows taken in", planOf("q0f32", "f32", { takesHidden: true })],
  [
    "q4f16_1 with q8 and windows",
    planOf("q4f16_1", "q8", { layers: 5, windows: [undefined, 9, 9] }),
  ],
  [
    "GGUF's codecs",
    compile(smallGraph({ hidden: 320, intermediate: 600 }), {
      format: "gguf",
      kv: "f16",
      activations: "int8",
      codecOf: ({ name, columns }) =>
        columns === 1 ? "f32" : /down|[ov]$/.test(name) ? "q6_k" : "q4_k",
    }),
  ],
  ["q4f16_1 with q8, values in the keys", planOf("q4f16_1", "q8", { latent: 14 })],
  ["q8f16_1 without layers", planOf("q8f16_1", "f16", { layers: 0 })],
]

const BLOCKS = 7
const openings: readonly Amounts[] = [
  { token: 1, row: 1, thread: 1 },
  { token: 13, row: 3, thread: 2 },
  { token: 511, row: 130, thread: 5 },
]

const memoriesOf = ({ weights, work }: Layout) => [weights, work]

test.each(plans)("%s: regions lie one behind the other, on their lines", (_, plan) => {
  for (const amounts of openings)
    for (const { regions, end } of memoriesOf(layoutOf(plan))) {
      let before = 0
      for (const { name, at, bytes, alignment } of regions) {
        const from = bytesOf(at, amounts)
        expect(from, name).toBeGreaterThanOrEqual(before)
        expect(from % alignment, name).toBe(0)
        before = from + bytesOf(bytes, amounts)
      }
      expect(bytesOf(end, amounts)).toBe(before)
    }
})

const cc = await identify("cc")
const scratch = mkdtempSync(join(tmpdir(), "sinter-layout-"))
afterAll(() => rmSync(scratch, { recursive: true }))

/** layout.c around the plan's driver, with what all libraries share and stubs for the other functions in files beside it. */
function built(plan: Plan, folder: string): string {
  if (!cc) throw new Error("no C compiler: cc")
  mkdirSync(folder)
  const { text } = emit(plan).find(({ name }) => name === DRIVER)!
  const beside = text.matchAll(/^(void \w+\(void \*context, int64_t index, int32_t thread\));$/gm)
  writeFileSync(join(folder, DRIVER), text)
  writeFileSync(
    join(folder, "stubs.c"),
    ["#include <stdint.h>", ...Array.from(beside, ([, head]) => `${head} {}`)].join("\n"),
  )
  const program = join(folder, "layout")
  const constant = [...shared, ofStates]
  for (const { name, text } of constant) writeFileSync(join(folder, name), text)
  const own = ["stubs.c", ...constant.map(({ name }) => name)].map((name) => join(folder, name))
  const sources = [join(import.meta.dirname, "layout.c"), ...own]
  const flags = [...flagsOf(best, cc), "-O0", "-Werror", `-I${folder}`]
  execFileSync(cc.command, [...flags, ...sources, "-o", program, "-lm"], { stdio: "pipe" })
  return program
}

const quantizedRows = ({ steps }: Plan) =>
  steps.flatMap((step) => (step.op === "quantize" ? [step.output] : []))
const widest = ({ parameters }: Plan) =>
  Math.max(0, ...parameters.map(({ codec, columns }) => (codec === "bf16" ? columns : 0)))

test.skipIf(isLeftOut(cc)).each(plans)(
  `%s: a library takes what the layout says, and finds everything there${cc ? "" : " (skipped: no cc)"}`,
  (name, plan) => {
    const layout = layoutOf(plan)
    const program = built(plan, join(scratch, name))
    const rows = quantizedRows(plan)
    const asked = [
      ...plan.groups.flatMap(({ layers, kvHeads, headDim }) => [
        ...["block", layers.length, kvHeads, headDim.key, headDim.value === 0 ? 1 : 0],
      ]),
      ...rows.flatMap(({ columns, group }) => ["row", columns, group]),
      ...(widest(plan) ? ["planes", widest(plan)] : []),
    ]
    for (const amounts of openings) {
      const { token, row, thread } = amounts
      const values = [BLOCKS, token, 1, row, thread, ...asked].map(String)
      const lines = execFileSync(program, values, { encoding: "utf8" }).trimEnd().split("\n")
      const said = new Map(
        lines.map((line) => line.split(" ") as [string, string]).map(([key, n]) => [key, +n]),
      )
      const bytes = programBytes(layout)
      expect(said.get("weights")).toBe(bytes.weights)
      expect(said.get("work")).toBe(bufferBytes(bytes, { tokens: token, rows: row }, thread))
      const cache = layout.kv.map((_, i) => said.get(`kv${i}`)!)
      expect(cache).toEqual(layout.kv.map(({ blockBytes }, i) => (BLOCKS + i) * blockBytes))
      expect(kvOf(plan).groups.map((group) => group.bytesPerBlock)).toEqual(
        layout.kv.map(({ blockBytes }) => blockBytes),
      )

      const at = (region: Region) => bytesOf(region.at, amounts)
      for (const [i, region] of layout.weights.regions.entries())
        expect(said.get(`at.p${i}`), region.name).toBe(at(region))
      for (const region of layout.work.regions)
        expect(said.get(`at.${region.name}`), region.name).toBe(at(region))

      for (const [i, region] of layout.weights.regions.entries())
        expect(Math.ceil((said.get(`needs.p${i}`)! + 256) / 64) * 64).toBe(region.bytes.fixed)
      for (const { columns, group } of rows)
        expect(said.get(`needs.row.${columns}.${group}`)).toBe(quantizedBytes({ columns, group }))
      for (const [i, { blockBytes }] of layout.kv.entries())
        expect(said.get(`needs.block${i}`)).toBe(blockBytes)
      const each = (name: string) => regionOf(layout.work, name).bytes
      expect(said.get("needs.samplers")).toBe(each("samplers").thread)
      expect(said.get("needs.planes") ?? 0).toBe(each("planes").token)
      const attends = plan.steps.some(({ op }) => op === "attend")
      expect(each("scratch").thread).toBe(attends ? said.get("needs.scratch") : 0)
    }
  },
  240_000,
)
