// What a decode step of one sequence costs on a GPU, as far as it can be counted without one: the launches that program.ts
// would play, and the bytes of weights that their kernels read.

import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { launchesAtOnce } from "../../../runtime/gpu/program.ts"
import { type AskedName, MOST_LISTED } from "../../../runtime/gpu/regions.ts"
import { groupsOf, stepLaunches, type TapeStep } from "../../../runtime/gpu/tape.ts"
import { parameterBytes } from "../../../runtime/manifest.ts"
import type { Plan, Step } from "../../plan.ts"
import { weightLayout } from "./layout.ts"
import { printers } from "./printers.ts"
import { tapeOf } from "./tape-of.ts"

interface StepCosts {
  launches: number
  /** Of them, of a layer, as most have it. The last takes more, for it leaves rows out. */
  ofLayer: number
  submissions: number
  /** Of the host, until the device has done something. */
  waits: number
  /** Bytes of weights: as they lie on the device, padded, and as they are stored. */
  read: number
  weights: number
}

type Sees = "one span" | "all"

/** What a draw asks of the sampler, by what it is called here. */
const draws = {
  greedy: ["unlisted"],
  few: ["listed"],
  plain: ["unlisted", "raced"],
  cut: ["unlisted", "raced", "weighed"],
  most: ["unlisted", "raced", "counted", "weighed", "described"],
} as const satisfies Record<string, readonly AskedName[]>

/** @param sees "all": more positions than a span of attention, whose spans are then merged */
export function decodeCosts(plan: Plan, kind: GpuKind, sees: Sees): StepCosts {
  const { steps } = tapeOf(plan, printers[kind]).tape
  const launches = launchesOf(steps, sees)
  const layers = layerLaunches(steps, sees).sort((a, b) => a - b)
  const submissions = Math.ceil(launches / Math.min(launches, launchesAtOnce(1, 1)))
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

/** Of a decode step of one sequence. */
function launchesOf(
  steps: readonly TapeStep[],
  sees: Sees,
  draw: keyof typeof draws = "greedy",
): number {
  const works: Record<string, number> = {
    ...{ chunks: 1, singles: 1, multiples: 0, chunkMerges: 0 },
    merges: sees === "all" ? 1 : 0,
  }
  const isAsked = (name: string) => (draws[draw] as readonly string[]).includes(name)
  const countOf = (of: string) => {
    const [what, name] = of.split(" ") as [string, string?]
    if (what === "asked") return isAsked(name!) ? 1 : 0
    return works[what] ?? (of === "hidden" ? 0 : 1)
  }
  const all = stepLaunches(steps, countOf)
  return all.filter(({ launch }) => !groupsOf(launch, countOf).includes(0)).length
}

/** Of each layer but the last: from its first product to the next one's. @param all the tape's steps, and the draw behind them */
export function layerLaunches(all: readonly TapeStep[], sees: Sees): number[] {
  const steps = all.filter(({ only }) => only !== "more tokens")
  const begins: number[] = [] // of each layer, as often as it is passed, the tape's step
  const first = new Map<string, string>() // of each layer, the matrix that it begins with
  let latest: string | undefined
  for (const [at, { text }] of steps.entries()) {
    const [, weight, layer] =
      / (?:matmul|headMatmul|experts) .*?((?<= )layers\.(\d+)\.\S+)/.exec(text[0]!) ?? []
    if (layer === undefined || weight === undefined) continue
    if (!first.has(layer)) first.set(layer, weight)
    if (first.get(layer) !== weight || layer === latest) continue
    begins.push(at)
    latest = layer
  }
  return begins.slice(1).map((end, i) => launchesOf(steps.slice(begins[i], end), sees))
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
  const [near, far] = (["one span", "all"] as const).map((sees) => decodeCosts(plan, kind, sees))
  const { submissions, waits, read, weights } = far!
  const both = (of: "launches" | "ofLayer") =>
    near![of] === far![of] ? `${far![of]}` : `${near![of]} to ${far![of]}`
  return [
    ["launches", `${both("launches")} of kernels a decode step, ${both("ofLayer")} a layer`],
    ["draw", drawText(plan, kind)],
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

function drawText(plan: Plan, kind: GpuKind): string {
  const draw = tapeOf(plan, printers[kind]).tape.steps.slice(-1)
  const [greedy, few, plain, cut, most] = (Object.keys(draws) as (keyof typeof draws)[]).map(
    (each) => launchesOf(draw, "all", each),
  )
  return `${greedy} of them where it is greedy; ${few} with a top-k of up to ${MOST_LISTED}, ${plain} without top-k and top-p, ${cut} with top-p, ${most} at most`
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
