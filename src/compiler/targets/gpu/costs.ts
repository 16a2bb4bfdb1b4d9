// What a decode step of one sequence costs on a GPU, as far as it can be counted without one: the launches that program.ts
// would play, and the bytes of weights that their kernels read.

import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { launchesAtOnce } from "../../../runtime/gpu/program.ts"
import { groupsOf, stepLaunches, type TapeStep } from "../../../runtime/gpu/tape.ts"
import { parameterBytes } from "../../../runtime/manifest.ts"
import type { Plan, Step } from "../../plan.ts"
import { weightLayout } from "./layout.ts"
import { printers } from "./printers.ts"
import { tapeOf } from "./tape-of.ts"

interface StepCosts {
  launches: number
  /** Of them, from one layer's attention to the next one's: as most layers have it. The last takes more, for it leaves rows out. */
  ofLayer: number
  submissions: number
  /** Of the host, until the device has done something. */
  waits: number
  /** Bytes of weights: as they lie on the device, padded, and as they are stored. */
  read: number
  weights: number
}

/** @param sees "all": more positions than a span of attention, whose spans are then merged */
function decodeCosts(plan: Plan, steps: readonly TapeStep[], sees: "one span" | "all"): StepCosts {
  const merges = sees === "all" ? 1 : 0
  const works: Record<string, number> = { chunks: 1, singles: 1, multiples: 0, merges }
  const countOf = (of: string) => works[of.split(" ")[0]!] ?? (of === "hidden" ? 0 : 1)
  const launchesOf = (some: readonly TapeStep[]) =>
    stepLaunches(some, countOf).filter(({ launch }) => !groupsOf(launch, countOf).includes(0))
      .length
  const attends = [...steps.keys()].filter((i) => steps[i]!.choices[0]!.repeats !== undefined)
  const launches = launchesOf(steps)
  const layers = attends.slice(1).map((end, i) => launchesOf(steps.slice(attends[i], end)))
  layers.sort((a, b) => a - b)
  const submissions = Math.ceil(launches / Math.min(launches, launchesAtOnce(1)))
  const reads = plan.steps.flatMap((step) => readsOf(plan, step))
  return {
    launches,
    ofLayer: layers[Math.floor((layers.length - 1) / 2)] ?? launches,
    submissions,
    waits: submissions, // each once; on OpenCL, reading what a step leaves is that wait
    read: reads.reduce((sum, { read }) => sum + read, 0),
    weights: reads.reduce((sum, { stored }) => sum + stored, 0),
  }
}

/** How often the host hands something to the device, so many pieces of a step's launches. */
const submitted: Record<GpuKind, (pieces: number) => string> = {
  cuda: (pieces) => `${pieces} a decode step`,
  rocm: (pieces) => `${pieces} a decode step`,
  metal: (pieces) => `${pieces} a decode step`,
  vulkan: (pieces) => `${pieces} a decode step`,
  opencl: (pieces) => `${pieces} a decode step with command buffers, one a launch without`,
}

/** For people. */
export function costLines(plan: Plan, kind: GpuKind): [name: string, value: string][] {
  const { steps } = tapeOf(plan, printers[kind].units).tape
  const [near, far] = (["one span", "all"] as const).map((sees) => decodeCosts(plan, steps, sees))
  const { submissions, waits, read, weights } = far!
  const both = (of: "launches" | "ofLayer") =>
    near![of] === far![of] ? `${far![of]}` : `${near![of]} to ${far![of]}`
  return [
    ["launches", `${both("launches")} of kernels a decode step, ${both("ofLayer")} a layer`],
    [
      "submissions",
      `${submitted[kind](submissions)}, waited for ${waits === 1 ? "once" : `${waits} times`}`,
    ],
    [
      "reads",
      `${mib(read)} of weights a token, which are ${mib(weights)} as stored: ${(read / weights).toFixed(3)} of them`,
    ],
  ]
}

const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(bytes < 1e5 ? 3 : 1)} MiB`

/** Of each parameter that a step of one row reads. */
function readsOf({ parameters }: Plan, step: Step): { read: number; stored: number }[] {
  const whole = (id: number) => {
    const parameter = parameters[id]!
    return { read: weightLayout(parameter).bytes, stored: parameterBytes(parameter) }
  }
  if (step.op === "embed") {
    const { rows } = parameters[step.table]!
    const { read, stored } = whole(step.table)
    return [{ read: read / rows, stored: stored / rows }]
  }
  if (step.op === "experts") {
    const { count, active, gateUp, up, down } = step.experts
    const matrices = up ? [gateUp, up.weight, down] : [gateUp, down]
    return matrices.map(whole).map(({ read, stored }) => ({
      read: (read * active) / count,
      stored: (stored * active) / count,
    }))
  }
  if (step.op === "headMatmul") return [whole(step.weight)]
  if (step.op !== "matmul" && step.op !== "norm") return []
  return [step.weight, ...(step.bias === undefined ? [] : [step.bias])].map(whole)
}
