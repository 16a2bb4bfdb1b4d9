// Towers held to golden pixels and features (test/golden/vision), whatever files they lie in.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, onTestFinished } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import type { Vision } from "../../src/model/vision/open-vision.ts"
import type { TowerConfig } from "../../src/model/vision/tower.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import type { LoadableProgram, ProgramLimits } from "../../src/runtime/program.ts"
import { goldenFolder, readTensors } from "./golden.ts"
import { batch, blocksFor, limitsFor, type Part, take } from "./steps.ts"

export type Open = (plan: Plan, limits: ProgramLimits) => LoadableProgram | Promise<LoadableProgram>

/** Some tiles, and the rows that come out of all of them. */
export interface Golden {
  tiles: number
  pixels: Float32Array // [tiles, 3, side, side]
  features: Float32Array // [rows, hidden]
}

export function goldensOf(name: string): Golden[] {
  const folder = goldenFolder("vision", name)
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return (prompts as { tiles: number }[]).map(({ tiles }, i) => ({
    tiles,
    pixels: new Float32Array(tensors(`pixels.${i}`)),
    features: new Float32Array(tensors(`features.${i}`)),
  }))
}

/**
 * The patches of a tile [3, pixels, pixels] as a tower takes them: those that become one row behind one another, and a class's
 * row before them.
 */
function cut(
  { patch, side, hasClass, merge }: TowerConfig,
  tile: Float32Array,
): { rows: number[][]; places: number[]; wanted: number[] } {
  const across = Math.sqrt(tile.length / 3)
  const [rows, places, wanted]: [number[][], number[], number[]] = [[], [], []]
  if (hasClass) {
    rows.push(Array<number>(3 * patch * patch).fill(0))
    places.push(0)
  }
  const inBlocks = side / merge.side
  for (let block = 0; block < inBlocks * inBlocks; block++) {
    wanted.push(rows.length)
    for (let i = 0; i < merge.side * merge.side; i++) {
      const y = Math.floor(block / inBlocks) * merge.side + Math.floor(i / merge.side)
      const x = (block % inBlocks) * merge.side + (i % merge.side)
      places.push((hasClass ? 1 : 0) + y * side + x)
      rows.push(
        Array.from({ length: 3 * patch * patch }, (_, n) => {
          const colour = Math.floor(n / (patch * patch))
          const down = y * patch + (Math.floor(n / patch) % patch)
          return tile[(colour * across + down) * across + x * patch + (n % patch)]!
        }),
      )
    }
  }
  return { rows, places, wanted }
}

/** What comes out of all tiles in one step. */
async function seen(
  program: LoadableProgram,
  { config }: Vision,
  { tiles, pixels }: Golden,
): Promise<Float32Array> {
  const size = pixels.length / tiles
  const cuts = Array.from({ length: tiles }, (_, tile) =>
    cut(config, pixels.subarray(tile * size, (tile + 1) * size)),
  )
  const parts = cuts.map(({ places, wanted }, tile): Part => {
    const blocks = blocksFor(places.length, tile * blocksFor(places.length).length)
    return { tokens: places, from: 0, blocks, logits: [], hidden: wanted }
  })
  const hiddenIn = Float32Array.from(cuts.flatMap(({ rows }) => rows.flat()))
  return (await take(program, { ...batch(parts), hiddenIn })).hidden
}

/** That the tower makes of each golden's pixels the rows that transformers makes. @returns the rows, as they go into the text model */
export async function judgeTower(
  vision: Vision,
  goldens: readonly Golden[],
  open: Open,
): Promise<Float32Array[]> {
  const { graph, format, codecOf, weights } = vision
  const options = { format, ...(codecOf && { codecOf }), activations: "float", kv: "f32" } as const
  const plan = compile(graph, options)
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
    const worst = hidden.reduce((most, x, i) => Math.max(most, Math.abs(x - expected[i]!)), 0)
    expect(worst).toBeLessThan(1e-4)
    rows.push(hidden)
  }
  return rows
}
