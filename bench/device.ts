// What half an hour of a GPU is for, prepared beforehand: three runs of some minutes, each a table that is printed line by line
// and says of every figure how near it comes to the limits that the same run has measured (device-limits.ts).
//
//   npm run bench:device -- --device cuda --run 1      kernels alone: limits, products of few rows and of many, attention
//   npm run bench:device -- --device cuda --run 2      whole steps of the 1B and the 8B shape
//   npm run bench:device -- --device cuda --run 3      bits in company; Vulkan on the same card; torch's products
//   npm run bench:device -- --device cuda --run 4      where a step's time goes: each of its kernels by itself
//   npm run bench:device -- --device vulkan --run 1 --shapes 2M      whether it runs, on a processor that poses as a GPU
//
// A run that has no time left (--seconds) leaves out what it has not come to, and says so.

import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { planOf } from "../src/app/plan.ts"
import { device as deviceOf } from "../src/cli/values.ts"
import { checkDevice, checkedKernels } from "../src/compiler/targets/gpu/check.ts"
import { printers } from "../src/compiler/targets/gpu/printers.ts"
import { traitsOf } from "../src/compiler/targets/prepare.ts"
import { chooseDevice, type Device, deviceNames, findDevices } from "../src/runtime/devices.ts"
import type { FormatName } from "../src/runtime/format.ts"
import type { GpuKind } from "../src/runtime/gpu/open.ts"
import { parameterBytes } from "../src/runtime/manifest.ts"
import { BLOCK, type LoadableProgram } from "../src/runtime/program.ts"
import type { Task } from "./contenders/contender.ts"
import {
  engine,
  fill,
  inputOf,
  type MeasuredEngine,
  never,
  openProgram,
} from "./contenders/engine.ts"
import { deviceLimits } from "./device-limits.ts"
import { sharesOf } from "./limit-shares.ts"
import type { Limits, LimitsProbe } from "./machine.ts"
import { graphOf, shapes as known, type ShapeName } from "./shapes.ts"
import { StepPlayer } from "./step-player.ts"

const { values: options } = parseArgs({
  options: {
    device: { type: "string", default: "cuda" },
    run: { type: "string" },
    shapes: { type: "string", default: "1B,8B" },
    format: { type: "string", default: "q4f16_1" },
    seconds: { type: "string", default: "480" },
    python: { type: "string", default: "python3" },
  },
})
const found = await chooseDevice(deviceOf(options.device, "--device"), deviceNames)
if (found.name === "cpu") throw new Error("--device cpu is no GPU; npm run bench measures it")
const device = found as Device & { name: GpuKind }
const shapes = options.shapes.split(",") as ShapeName[]
for (const shape of shapes)
  if (!Object.hasOwn(known, shape))
    throw new Error(`--shapes ${shape}: expected ${Object.keys(known).join(", ")}`)
const format = options.format as FormatName
const deadline = performance.now() + Number(options.seconds) * 1000

const runs: Record<string, (limits: LimitsProbe) => Promise<void>> = {
  1: kernelsAlone,
  2: wholeSteps,
  3: bitsAndPeers,
  4: partsOfSteps,
}

async function main(): Promise<void> {
  const run = runs[options.run ?? ""]
  if (!run) throw new Error(`--run ${options.run}: expected ${Object.keys(runs).join(", ")}`)
  console.log(`# ${device.name}:${device.id}, ${device.description}, run ${options.run}\n`)
  line("what", "measured", "% of the limit", "of which limit")
  line("---", "---:", "---:", "---")
  const limits = await deviceLimits(device.name, device.id)
  try {
    sayLimits(await limits.measure())
    await run(limits)
  } finally {
    await limits.close()
  }
}

const line = (...cells: string[]) => console.log(`| ${cells.join(" | ")} |`)
const percent = (share: number) => `${(100 * share).toFixed(0)}`

function sayLimits(limits: Limits): void {
  const {
    read_gbs,
    int8_gops,
    matrix_gops,
    f32_gflops = 0,
    launch_us = 0,
    submission_us = 0,
  } = limits
  line("reads", `${read_gbs.toFixed(1)} GB/s`, "", "")
  line("dots of four bytes", `${int8_gops.toFixed(0)} GOPS`, "", "")
  const units = matrix_gops > 0 ? `${matrix_gops.toFixed(0)} GOPS` : "none"
  line("products on matrix units", units, "", "")
  line("multiply-adds", `${f32_gflops.toFixed(0)} GFLOPS`, "", "")
  line("a launch behind another", `${launch_us.toFixed(2)} µs`, "", "")
  line("a submission", `${submission_us.toFixed(0)} µs`, "", "")
}

/** @returns whether there is time for it */
function begins(what: string): boolean {
  if (performance.now() < deadline) return true
  line(what, "no time was left", "", "")
  return false
}

// ------------------------------------------------------------------ run 1

const ROWS = [1, 2, 4, 8, 16, 64, 512, 2048]
const DEPTHS = [512, 4096, 32768]

/** Of the last shape that is named, with two layers: of the first one every product and its attention. */
async function kernelsAlone(probe: LimitsProbe): Promise<void> {
  const shape = shapes.at(-1)!
  const traits = traitsOf(device.name)
  const plan = planOf({ graph: graphOf(shape, 2) }, format, { kv_dtype: "f16" }, traits)
  const depths = DEPTHS.filter((depth) => depth < plan.shapes.context)
  const blocks = plan.groups.map(
    () => Math.ceil(Math.max(...depths, 2048) / BLOCK) + ROWS.length * 64,
  )
  const player = await StepPlayer.open(device.name, device.id, plan, {
    blocks,
    tokens: Math.max(...ROWS),
    sequences: 64,
    rows: 64,
  })
  try {
    for (const product of player.products())
      for (const rows of ROWS) {
        if (rows > 64 && product.rows === "logits") continue // nobody draws so many tokens
        const { name, rows: of } = plan.parameters[product.weight]!
        const what = `${shape}: ${name}, ${rows} rows`
        if (!begins(what)) return
        const { seconds, isSame } = await player.playProduct(product, rows)
        const { columns } = plan.parameters[product.weight]!
        const limit = await probe.measure()
        const reading = parameterBytes(plan.parameters[product.weight]!) / (limit.read_gbs * 1e9)
        const peak = limit.matrix_gops || limit.int8_gops
        const computing = (2 * rows * of * columns) / (peak * 1e9)
        line(
          what,
          `${(seconds * 1e6).toFixed(1)} µs, first row ${sameness(isSame)}`,
          percent(Math.max(reading, computing) / seconds),
          reading > computing ? "reads" : "arithmetic in 8 bits",
        )
      }
    for (const depth of depths) {
      const what = `${shape}: attention of one token, depth ${depth}`
      if (!begins(what)) return
      const { seconds, bytes } = await player.playAttention(depth)
      const limit = await probe.measure()
      const share = bytes / (limit.read_gbs * 1e9) / seconds
      line(what, `${(seconds * 1e6).toFixed(1)} µs`, percent(share), "reads")
    }
  } finally {
    await player.close()
  }
}

// ------------------------------------------------------------------ run 2

const sameness = (isSame: boolean | undefined) =>
  isSame === undefined ? "in codes" : isSame ? "as alone" : "NOT AS ALONE"

const SEQUENCES = 64
const taskOn = (on: Device, shape: string): Task => {
  return { shape, device: on, threads: 1, sequences: SEQUENCES, context: 8192 }
}

async function wholeSteps(probe: LimitsProbe): Promise<void> {
  for (const shape of shapes) {
    if (!begins(`${shape}: whole steps`)) return
    await stepsOf(probe, device, shape, [1, 4, 16, SEQUENCES], [512, 2048])
  }
}

async function stepsOf(
  probe: LimitsProbe,
  on: Device,
  shape: ShapeName,
  together: readonly number[],
  prompts: readonly number[],
): Promise<void> {
  const own = await engine(format, { graph: graphOf(shape), format }, taskOn(on, shape))
  try {
    const rates: number[] = []
    for (const sequences of together) {
      const row = `decode ${sequences} together, tok/s`
      if (!begins(`${shape}: ${row}`)) return
      rates.push(await own.decode!(sequences, 0))
      sayShares(shape, row, rates.at(-1)!, own, await probe.measure())
    }
    for (const [i, sequences] of together.entries())
      if (i > 0)
        line(
          `${shape}: ${sequences} together`,
          `${(rates[i]! / rates[0]!).toFixed(1)} times one`,
          "",
          "",
        )
    for (const tokens of prompts) {
      const row = `prefill ${tokens}, tok/s`
      if (!begins(`${shape}: ${row}`)) return
      await own.prefill!(tokens) // recorded, and finished by the driver
      sayShares(shape, row, await own.prefill!(tokens), own, await probe.measure())
    }
    if (own.javascript) {
      const taken = await own.javascript(16)
      line(`${shape}: JavaScript of a step of 16`, `${taken.toFixed(3)} ms`, "", "")
    }
  } finally {
    await own.close()
  }
}

function sayShares(
  shape: string,
  row: string,
  rate: number,
  own: MeasuredEngine,
  limit: Limits,
): void {
  const [what, unit] = row.split(", ")
  const shares = Object.entries(sharesOf(row, rate, own, limit))
  for (const [of, share] of shares)
    line(`${shape}: ${what}`, `${rate.toFixed(1)} ${unit}`, percent(share), of)
}

// ------------------------------------------------------------------ run 3

const DRIVER_MILLISECONDS = 60_000

async function bitsAndPeers(probe: LimitsProbe): Promise<void> {
  const [shape] = shapes as [ShapeName]
  if (begins("company")) await company(shape)
  const beside = (await findDevices()).find(({ name }) => name === "vulkan")?.devices ?? []
  const card = beside.find(({ type, obstacle }) => type !== "processor" && !obstacle)
  if (device.name === "vulkan" || !card) line("Vulkan on the same card", "not here", "", "")
  else if (begins("Vulkan on the same card")) {
    const own = await deviceLimits("vulkan", card.id)
    await stepsOf(own, card as Device, shape, [1, 16], [512]).finally(() => own.close())
  }
  torch(await probe.measure())
  if (begins("every kernel beside its slow twin")) await twins()
}

/** One sequence's logits alone and among others, and a prompt in pieces. */
async function company(shape: ShapeName): Promise<void> {
  const traits = traitsOf(device.name)
  const plan = planOf({ graph: graphOf(shape) }, format, { kv_dtype: "f16" }, traits)
  const blocks = plan.groups.map(() => 1024)
  const limits = { blocks, tokens: READ * SEQUENCES, sequences: SEQUENCES, rows: SEQUENCES }
  const program = await openProgram(plan, limits, taskOn(device, shape))
  try {
    await fill(program)
    const alone = await logitsOf(program, 1)
    for (const sequences of [2, 3, 8, 17, SEQUENCES]) {
      const rows = await logitsOf(program, sequences)
      sayEqual(`${shape}: a sequence among ${sequences}`, alone, rows.subarray(0, alone.length))
    }
    const whole = await promptInPieces(program, 512)
    for (const piece of [1, 17, 64])
      sayEqual(
        `${shape}: a prompt of 128 in pieces of ${piece}`,
        whole,
        await promptInPieces(program, piece),
      )
  } finally {
    await program.close()
  }
}

function sayEqual(what: string, one: Float32Array, other: Float32Array): void {
  const differing = one.filter((value, i) => !Object.is(value, other[i])).length
  line(what, differing === 0 ? "equal bits" : `${differing} of ${one.length} DIFFER`, "", "")
}

const READ = 8 // tokens of each sequence, in one step of all

/** Of sequences that have read some tokens each. */
async function logitsOf(program: LoadableProgram, sequences: number): Promise<Float32Array> {
  await program.step(inputOf(program, sequences, READ, 0), never)
  return lastLogits(program, inputOf(program, sequences, 1, READ))
}

async function promptInPieces(program: LoadableProgram, piece: number): Promise<Float32Array> {
  const tokens = 128
  for (let past = 0; ; past += piece) {
    const input = inputOf(program, 1, Math.min(piece, tokens - past), past)
    for (const [i, position] of input.positions.entries())
      input.tokens[i] = (position * 7919) % program.manifest.shapes.vocabulary
    if (past + piece >= tokens) return lastLogits(program, input)
    await program.step(input, never)
  }
}

async function lastLogits(program: LoadableProgram, input: ReturnType<typeof inputOf>) {
  const out = await program.step({ ...input, wantLogits: true }, never)
  if (out.kind === "cancelled") throw new Error("internal: nobody has cancelled")
  return out.logits!
}

/** What the image has beside us: products of 16-bit floats, of as many rows as a prompt's piece. */
function torch({ read_gbs }: Limits): void {
  const script = join(import.meta.dirname, "torch_matmul.py")
  const { status, stdout } = spawnSync(options.python, [script], { encoding: "utf8" })
  if (status !== 0) line("torch", `not here (${options.python})`, "", "")
  for (const { rows, seconds, bytes } of JSON.parse(status === 0 ? stdout : "[]") as TorchLine[]) {
    const share = bytes / (read_gbs * 1e9) / seconds
    const rate = (2 * rows * (bytes / 2)) / seconds / 1e9
    line(
      `torch: 16-bit product of ${rows} rows`,
      `${(seconds * 1e6).toFixed(1)} µs, ${rate.toFixed(0)} GFLOPS`,
      rows === 1 ? percent(share) : "",
      rows === 1 ? "reads" : "",
    )
  }
}

interface TorchLine {
  rows: number
  seconds: number
  bytes: number
}

async function twins(): Promise<void> {
  const { sums } = traitsOf(device.name)
  const kernels = checkedKernels(sums!, printers[device.name])
  const { name: kind, id } = device
  const lines = await checkDevice({ kind, id }, DRIVER_MILLISECONDS, kernels)
  const wrong = lines.filter(({ result }) => result !== "equal")
  line(
    "kernels with their slow twin's bits",
    `${lines.length - wrong.length} of ${lines.length}`,
    "",
    "",
  )
  for (const { kernel, words } of wrong) line(kernel, words, "", "")
}

// ------------------------------------------------------------------ run 4

/** Of a step: its sequences, the tokens of each, and how many are behind them. */
const STEPS_APART = [
  [1, 1, 64],
  [1, 1, 8000],
  [16, 1, 64],
  [64, 1, 64],
  [1, 512, 1536],
] as const

/** Of the last shape that is named, with two layers: of the last one few rows are wanted. */
async function partsOfSteps(): Promise<void> {
  const shape = shapes.at(-1)!
  const traits = traitsOf(device.name)
  const plan = planOf({ graph: graphOf(shape, 2) }, format, { kv_dtype: "f16" }, traits)
  const blocks = plan.groups.map(() => 1024)
  const limits = { blocks, tokens: 512, sequences: SEQUENCES, rows: SEQUENCES }
  const player = await StepPlayer.open(device.name, device.id, plan, limits)
  try {
    for (const [sequences, tokens, past] of STEPS_APART) {
      const what = `${shape}: ${sequences} × ${tokens} tokens behind ${past}`
      if (!begins(what)) return
      for (const { text, launches, seconds } of await player.playSteps(sequences, tokens, past))
        if (!text.includes("layers.1."))
          line(
            `${what}: ${text.slice(0, 60)}`,
            `${(seconds * 1e6).toFixed(1)} µs`,
            "",
            `${launches}`,
          )
    }
  } finally {
    await player.close()
  }
}

await main()
