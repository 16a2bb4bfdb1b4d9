// Where a step's time goes, thread by thread: a library whose host notes every loop and every piece of it (timeline.c), a
// model of a real shape with random weights, some steps; a table, and a file for Perfetto (https://ui.perfetto.dev).
//
//   npm run bench:timeline                                     one sequence of the 1B shape
//   npm run bench:timeline -- --shape 0.6B --format q8f16_1 --sequences 8 --depth 4096
//   npm run bench:timeline -- --tokens 512 --steps 4           a prompt
//   npm run bench:timeline -- --level avx2 --output build/timeline.json
//   npm run bench:timeline -- --model FILE.gguf                a model as it is, with random weights all the same
//
// Libraries that are run are compiled without any of it.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { planOf } from "../../src/app/plan.ts"
import { table } from "../../src/cli/table.ts"
import { manifestOf } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { emit } from "../../src/compiler/targets/cpu/emit.ts"
import { kvOf, layoutOf, programBytes } from "../../src/compiler/targets/cpu/layout.ts"
import { type Level, usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { build, requireCompiler, shippedSources } from "../../src/compiler/targets/cpu/toolchain.ts"
import { runs } from "../../src/compiler/targets/runs.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { openModel } from "../../src/model/model.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import { openLibrary, seal } from "../../src/runtime/library.ts"
import { BLOCK } from "../../src/runtime/program.ts"
import { median } from "../contenders/api.ts"
import { fill, inputOf, limitedBy, never } from "../contenders/engine.ts"
import { limitsProbe } from "../machine.ts"
import { graphOf, type ShapeName } from "../shapes.ts"
import { medians, microsecondsOf, type Pass, passesOf, type Row, rowsOf, traceOf } from "./notes.ts"

/** What each entry of a library's table of steps is called, without its layer; and what comes behind the last. */
export function namesOf({ steps, parameters }: Plan): string[] {
  const weight = (id: number) => parameters[id]!.name.replace(/^layers\.\d+\./, "")
  const names = runs(steps).map((run) =>
    run
      .map((i) => {
        const step = steps[i]!
        if (step.op === "matmul" || step.op === "headMatmul") return `× ${weight(step.weight)}`
        if (step.op === "experts") return `experts ${weight(step.experts.gateUp)}`
        return step.op
      })
      .filter((name, i, all) => name !== all[i - 1])
      .join(" "),
  )
  return [...names, "draw tokens"]
}

/** The library of a plan with a host that notes into the file `notes`. @returns the bytes of a library file */
async function notingLibrary(plan: Plan, level: Level, notes: string): Promise<Buffer> {
  const compiler = await requireCompiler()
  const layout = layoutOf(plan)
  const own = (name: string) => join(import.meta.dirname, name)
  const flags = [...level.flags, "-include", own("timeline.h"), `-DNOTES_PATH="${notes}"`]
  const sources = [
    ...emit(plan, layout),
    ...shippedSources,
    { name: "timeline.c", path: own("timeline.c") },
  ]
  const code = await build(compiler, { ...level, flags }, sources)
  const { features } = level
  const manifest = manifestOf(plan, {
    target: "cpu",
    kv: kvOf(plan),
    bytes: programBytes(layout),
    features,
    sources: "timeline",
  })
  return seal(code, manifest)
}

interface Wish {
  threads: number
  sequences: number
  tokens: number // of each sequence, in a step
  depth: number
  steps: number
}

/** Takes steps of a plan with random weights. @returns its passes, without those that warmed it up */
export async function watch(plan: Plan, level: Level, wish: Wish): Promise<Pass[]> {
  const { threads, sequences, tokens, depth, steps } = wish
  const folder = mkdtempSync(join(tmpdir(), "sinter-timeline-"))
  try {
    const [path, notes] = [join(folder, "library.so"), join(folder, "notes")]
    writeFileSync(path, await notingLibrary(plan, level, notes))
    const each = Math.ceil((depth + tokens * (steps + WARM)) / BLOCK) + 1
    const blocks = plan.groups.map(() => sequences * each)
    const limits = { tokens: sequences * tokens, sequences, rows: sequences, blocks }
    const program = await openLibrary(path, limits, threads)
    await fill(program)
    for (let i = 0; i < WARM + steps; i++)
      await program.step(inputOf(program, sequences, tokens, depth + i * tokens), never)
    await program.close()
    return passesOf(readFileSync(notes, "utf8"), threads).slice(WARM)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const WARM = 4

/** @param quickest which part of the steps counts: in the others the machine was kept busy by somebody else */
function report(plan: Plan, passes: readonly Pass[], quickest: number, read: number): string {
  const names = namesOf(plan)
  const quiet = passes
    .toSorted((a, b) => microsecondsOf(a) - microsecondsOf(b))
    .slice(0, Math.max(1, Math.floor(passes.length * quickest)))
  const rows = medians(quiet.map((pass) => rowsOf(pass, names)))
  const step = median(quiet.map(microsecondsOf))
  const inLoops = rows.reduce((sum, { microseconds }) => sum + microseconds, 0)
  const { weightBytes } = limitedBy(plan)
  const products = rows.filter(({ name }) => isProduct(name))
  const inProducts = products.reduce((sum, { microseconds }) => sum + microseconds, 0)
  const share = (microseconds: number) => `${((100 * microseconds) / step).toFixed(1)} %`
  const rate = (microseconds: number) => weightBytes / microseconds / 1000
  const ofRead = (microseconds: number) => `${((100 * rate(microseconds)) / read).toFixed(0)} %`
  const spent = ({ worked, woken, handed, waited, idle }: Row["threads"][number]) =>
    [worked, woken, handed, waited, idle].map((value) => value.toFixed(0))
  const threads = rows[0]!.threads.map((_, thread) => thread)
  const heading = threads.flatMap((t) => [`${t}: works`, "woken", "handed", "waits", "idle"])
  const total = threads.flatMap((t) => {
    const sum = (key: keyof Row["threads"][number]) =>
      rows.reduce((all, row) => all + row.threads[t]![key], 0).toFixed(0)
    return [sum("worked"), sum("woken"), sum("handed"), sum("waited"), sum("idle")]
  })
  return [
    `${passes.length} steps, the quicker ${quiet.length} of them; microseconds a step, medians`,
    "",
    table([
      ["loops of", "number", "time", "of a step", ...heading],
      ...rows.map(({ name, loops, microseconds, threads }) => [
        name,
        `${loops}`,
        microseconds.toFixed(0),
        share(microseconds),
        ...threads.flatMap(spent),
      ]),
      ["all loops", "", inLoops.toFixed(0), share(inLoops), ...total],
      [
        "between loops",
        "",
        (step - inLoops).toFixed(0),
        share(step - inLoops),
        ...total.map(() => ""),
      ],
      ["a step", "", step.toFixed(0), "", ...total.map(() => "")],
    ]),
    "",
    `Weights of ${(weightBytes / 2 ** 20).toFixed(0)} MiB are read at ${rate(step).toFixed(1)} GB/s, in products at ${rate(inProducts).toFixed(1)} GB/s:`,
    `${ofRead(step)} and ${ofRead(inProducts)} of what memory gave in the same minute, ${read.toFixed(1)} GB/s.`,
  ].join("\n")
}

const isProduct = (name: string) => /^(×|experts) /.test(name)

async function main(): Promise<void> {
  const { values: options } = parseArgs({
    options: {
      shape: { type: "string", default: "1B" },
      format: { type: "string", default: "q4f16_1" },
      model: { type: "string" },
      level: { type: "string" },
      threads: { type: "string", default: `${availableParallelism()}` },
      sequences: { type: "string", default: "1" },
      tokens: { type: "string", default: "1" },
      depth: { type: "string", default: "16" },
      steps: { type: "string", default: "64" },
      quickest: { type: "string", default: "0.5" },
      output: { type: "string", default: "build/timeline.json" },
    },
  })
  const levels = usableLevels(process.arch, processorFeatures())
  const level = options.level ? levels.find(({ name }) => name === options.level) : levels[0]
  if (!level)
    throw new Error(
      `--level ${options.level}: here there are ${levels.map(({ name }) => name).join(", ")}`,
    )
  const { format, ...model } = options.model
    ? await openModel(resolve(options.model))
    : { graph: graphOf(options.shape as ShapeName), format: options.format as FormatName }
  const plan = planOf(model, format, { kv_dtype: "f16" }, targets.cpu.traits)
  const threads = Number(options.threads)
  const limits = await limitsProbe(threads)
  const wish = {
    threads,
    sequences: Number(options.sequences),
    tokens: Number(options.tokens),
    depth: Number(options.depth),
    steps: Number(options.steps),
  }
  const before = await limits.measure()
  const passes = await watch(plan, level, wish)
  const read = Math.max(before.read_gbs, (await limits.measure()).read_gbs)
  console.log(report(plan, passes, Number(options.quickest), read))
  const output = resolve(options.output)
  mkdirSync(dirname(output), { recursive: true })
  writeFileSync(output, traceOf(passes.slice(-SHOWN), namesOf(plan)))
  console.log(`\nThe last ${SHOWN} steps for Perfetto: ${output}`)
}

const SHOWN = 4

if (process.argv[1] === import.meta.filename) await main()
