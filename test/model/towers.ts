// Towers held to golden pixels and features (test/golden/vision), whatever files they lie in.

import { expect, onTestFinished } from "vitest"
import { type CompileOptions, compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import type { Vision } from "../../src/model/vision/open-vision.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram, ProgramLimits } from "../../src/runtime/program.ts"
import { arithmeticOf, batch, blocksFor, expectNear, limitsFor, type Part, take } from "./steps.ts"
import { type GoldenSight, tilesOf } from "./vision.ts"

export type Open = (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>

/** What comes out of all tiles in one step. */
async function seen(
  program: LoadableProgram,
  { config }: Vision,
  golden: GoldenSight,
): Promise<Float32Array> {
  const tiles = tilesOf(config, golden)
  const parts = tiles.map(({ places, wanted }, tile): Part => {
    const blocks = blocksFor(places.length, tile * blocksFor(places.length).length)
    return { tokens: places, from: 0, blocks, logits: [], hidden: [...wanted] }
  })
  const hiddenIn = Float32Array.from(tiles.flatMap(({ given }) => [...given]))
  return (await take(program, { ...batch(parts), hiddenIn })).hidden
}

/** That the tower makes of each golden's pixels the rows that transformers makes. @returns the rows, as they go into the text model */
export async function judgeTower(
  vision: Vision,
  goldens: readonly GoldenSight[],
  open: Open,
  traits: Pick<CompileOptions, "sums"> = {},
): Promise<Float32Array[]> {
  const { graph, format, codecOf, weights } = vision
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...traits })
  const { context } = graph.shapes
  const limits = { blocks: 20, tokens: 2 * context, sequences: 2, rows: 2 * context }
  const program = await open(plan, limitsFor(plan, limits))
  onTestFinished(() => program.close())
  await loadParameters(weights, program.manifest, program)
  const rows: Float32Array[] = []
  for (const golden of goldens) {
    const hidden = await seen(program, vision, golden)
    // Gemma's text model multiplies what comes out, here and not there.
    const { factor } = vision.config.projector
    const expected = golden.features.map((feature) => feature * factor)
    expect(hidden.length).toBe(expected.length)
    expectNear(hidden, expected, { distance: 1e-4, arithmetic: arithmeticOf(program) })
    rows.push(hidden)
  }
  return rows
}
