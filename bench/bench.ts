// The benchmark: this program beside others, on the same shape, on this machine, now. Contenders take turns, A B A B, within
// every round, because machines change within minutes; samples are kept after each one, so a run that was cut short goes on
// where it was.
//
//   npm run bench                                              this program alone, engine and server
//   npm run bench -- --against llama-server=PATH,FILE.gguf     beside others: see bench/README.md
//   npm run bench -- --own engine                              the kernels, without the server
//   npm run bench -- --own-model FILE.gguf --against …         the file that the others read, too
//   npm run bench -- --own engine --level avx2                 as on a processor that has no more than that
//   npm run bench -- --device vulkan --shape 135M              the same on a GPU
//   npm run bench -- --only "prefill,decode 4" --rounds 5 --seconds 80 --output bench/results/NAME
//
// Models are random weights of real shapes, made on first use: nothing is downloaded.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { basename, dirname, resolve } from "node:path"
import { parseArgs } from "node:util"
import { device as deviceOf } from "../src/cli/values.ts"
import { type Level, usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { openModel } from "../src/model/model.ts"
import { chooseDevice, deviceNames } from "../src/runtime/devices.ts"
import { processorFeatures } from "../src/runtime/features.ts"
import type { FormatName } from "../src/runtime/format.ts"
import { bestOf } from "./contenders/best.ts"
import type { Contender, Task } from "./contenders/contender.ts"
import { engine, type MeasuredEngine } from "./contenders/engine.ts"
import { FLASH_ATTENTION, llamaBench } from "./contenders/llama-bench.ts"
import { llamaServer, running, sinter } from "./contenders/servers.ts"
import { nodeLlamaCpp, openvino } from "./contenders/worker.ts"
import { deviceLimits } from "./device-limits.ts"
import { sharesOf } from "./limit-shares.ts"
import { type Limits, type LimitsProbe, limitsProbe, load, machine } from "./machine.ts"
import { measurements, unitOf, usualGroups } from "./measurements.ts"
import { modelFolder } from "./models.ts"
import { markdown, type Results, svg } from "./report.ts"
import { denseOf, graphOf, type ShapeName } from "./shapes.ts"

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "1B" },
    format: { type: "string", default: "q4f16_1" },
    device: { type: "string", default: "cpu" },
    level: { type: "string" },
    threads: { type: "string", default: `${availableParallelism()}` },
    own: { type: "string", default: "sinter,engine" },
    "own-model": { type: "string" },
    against: { type: "string", multiple: true, default: [] },
    only: { type: "string", default: usualGroups.join(",") },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "3600" },
    output: { type: "string" },
  },
})
const shape = options.shape as ShapeName
const format = options.format as FormatName
const device = await chooseDevice(deviceOf(options.device, "--device"), deviceNames)
const threads = Number(options.threads)
const level = options.level ? levelNamed(options.level) : undefined
const wanted = options.only.split(",")
const chosen = measurements.filter(
  ({ group, name = group }) => wanted.includes(group) || wanted.includes(name),
)
const task: Task = {
  shape,
  device,
  threads,
  ...(level && { level }),
  sequences: 16,
  context: Math.max(8192, ...chosen.map(({ depth = 0 }) => depth)),
}
const isGpu = device.name !== "cpu"
const served = options["own-model"] && resolve(options["own-model"])
const stored = served ? basename(served, ".gguf") : format
const name = `${shape}-${stored}${isGpu ? `-${device.name}` : ""}`
const output = resolve(options.output ?? `bench/results/${name}`)

function levelNamed(name: string): Level {
  const usable = usableLevels(process.arch, processorFeatures())
  const level = usable.find((level) => level.name === name)
  if (!level)
    throw new Error(`--level ${name}: expected ${usable.map(({ name }) => name).join(", ")}`)
  return level
}

/** `--against KIND=PLACE[,MODEL]`: who else takes part. */
const peers: Record<string, (place: string, model: string) => Promise<Contender>> = {
  "llama-server": (binary, model) =>
    inSettings(FLASH_ATTENTION, (flash) => llamaServer(binary, model, task, flash)),
  "llama-bench": (binary, model) =>
    inSettings(FLASH_ATTENTION, (flash) => llamaBench(binary, model, task, flash)),
  openvino: (python, model) => inSettings(GROUPS, (group) => openvino(python, model, task, group)),
  "node-llama-cpp": (folder, model) => nodeLlamaCpp(folder, model, task),
  url: (url) => running(url, task),
}

/** Of the weights, as they are exported, and OpenVINO's default. */
const GROUPS = [128, undefined] as const

async function inSettings<Setting>(
  settings: readonly [Setting, ...Setting[]],
  open: (setting: Setting) => Promise<Contender>,
): Promise<Contender> {
  const [first, ...others] = settings
  const opened: [Contender, ...Contender[]] = [await open(first)]
  for (const setting of others) opened.push(await open(setting))
  return bestOf(opened)
}

/** Who takes part; the first one is the one that the others are compared with. */
function contenders(): (() => Promise<Contender>)[] {
  const others = options.against.map((wish) => {
    const [, kind = "", place = "", model = ""] = /^([\w-]+)=([^,]+)(?:,(.+))?$/.exec(wish) ?? []
    const open = peers[kind]
    if (!open) throw new Error(`--against ${wish}: expected ${Object.keys(peers).join(", ")} = …`)
    return () => open(place, model)
  })
  const computed = async () =>
    served ? await openModel(served) : { graph: graphOf(shape), format }
  const own = {
    sinter: async () => sinter(served ?? (await modelFolder(shape, format)), task),
    packaged: async () => sinter(served ?? (await modelFolder(shape, format)), task, "generic"),
    engine: async () => engine(stored, await computed(), task),
    generic: async () => engine(stored, await computed(), task, "generic"),
    dense: async () => engine(format, { graph: graphOf(denseOf(shape)), format }, task, "dense"),
  }
  const wanted = Object.entries(own).filter(([name]) => options.own.split(",").includes(name))
  return [...wanted.map(([, open]) => open), ...others]
}

async function main(): Promise<void> {
  const deadline = performance.now() + Number(options.seconds) * 1000
  const { name: kind, id } = device
  const limits = kind === "cpu" ? await limitsProbe(task.threads) : await deviceLimits(kind, id)
  const results = readResults()
  const opened: Contender[] = []
  try {
    for (const open of contenders()) {
      const contender = await open()
      opened.push(contender)
      await touch(contender)
      results.contenders[contender.name] = contender.about
    }
    for (let round = 0; round < Number(options.rounds); round++) {
      const more = await takeRound(round, opened, results, limits, deadline)
      write(results)
      if (!more) break
    }
  } finally {
    for (const contender of opened) await contender.close()
    await limits.close()
  }
  console.log(markdown(results, `${basename(output)}.svg`))
}

/** The first touch of memory is nobody's speed. */
const touch = (contender: Contender) => contender.prefill?.(isGpu ? 32 : 512)

/** @returns whether there was time for all of it */
async function takeRound(
  round: number,
  opened: readonly Contender[],
  results: Results,
  limits: LimitsProbe,
  deadline: number,
): Promise<boolean> {
  results.limits[round] ??= await limits.measure()
  results.load[round] ??= load()
  for (const measurement of chosen) {
    const number = measurements.indexOf(measurement)
    const isDone = opened.every(({ name }) => results.done.includes(`${number} ${round} ${name}`))
    const resting = measurement.isAlone && !isDone ? opened : []
    for (const contender of resting) await contender.rest?.()
    // Who begins changes from round to round, so that nobody always comes after the same one.
    for (const contender of round % 2 ? opened.toReversed() : opened) {
      const done = `${number} ${round} ${contender.name}`
      if (results.done.includes(done)) continue
      if (performance.now() > deadline) return false
      const limit = "weightBytes" in contender ? await limits.measure() : undefined
      const rows = await measurement.sample(contender).catch((error: Error) => {
        console.error(`${contender.name}: ${error.message}`)
        return undefined
      })
      results.done.push(done)
      for (const [row, value] of Object.entries(rows ?? {})) {
        console.error(`${round + 1}. ${row}: ${contender.name} ${value.toFixed(1)}`)
        note(results, row, contender.name, round, value)
        if (limit) noteShare(results, row, value, contender as MeasuredEngine, limit)
      }
      write(results)
    }
    for (const contender of resting) {
      await contender.wake?.()
      await touch(contender)
    }
  }
  return true
}

function note({ samples }: Results, row: string, name: string, round: number, value: number): void {
  samples[row] ??= {}
  samples[row][name] ??= []
  const rounds = samples[row][name]
  while (rounds.length < round) rounds.push(null)
  rounds[round] = value
}

function noteShare(
  { shares }: Results,
  row: string,
  rate: number,
  engine: MeasuredEngine,
  limit: Limits,
): void {
  if (unitOf(row) !== "tok/s" || row.includes("depth")) return // where keys and values are read beside the weights
  for (const [of, share] of Object.entries(sharesOf(row, rate, engine, limit))) {
    const name = `${row.split(", ")[0]}: ${of}`
    shares[name] ??= []
    shares[name].push(share)
  }
}

// ------------------------------------------------------------------ the files

function readResults(): Results {
  if (existsSync(`${output}.json`)) return JSON.parse(readFileSync(`${output}.json`, "utf8"))
  return {
    title: `${shape}, ${stored}, ${isGpu ? `${device.name}: ${device.description}` : `${threads} threads`}`,
    machine: machine(task.threads),
    date: new Date().toISOString().slice(0, 10),
    contenders: {},
    load: [],
    limits: [],
    samples: {},
    shares: {},
    done: [],
  }
}

function write(results: Results): void {
  mkdirSync(dirname(output), { recursive: true })
  const files = {
    json: `${JSON.stringify(results, undefined, 1)}\n`,
    md: markdown(results, `${basename(output)}.svg`),
    svg: svg(results),
  }
  for (const [extension, text] of Object.entries(files)) {
    writeFileSync(`${output}.${extension}.new`, text)
    renameSync(`${output}.${extension}.new`, `${output}.${extension}`)
  }
}

await main()
