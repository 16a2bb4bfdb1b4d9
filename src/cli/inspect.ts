// `sinter inspect MODEL`: what a model is and what is made of it, one phase at a time, as text: configuration, parameters,
// graph, plan, emitted source, manifest, and what each kernel costs by the roofline.

import { basename } from "node:path"
import { findModel } from "../app/find-model.ts"
import { planOf } from "../app.ts"
import { printGraph } from "../compiler/graph/graph.ts"
import { type Plan, printPlan } from "../compiler/plan.ts"
import { libraryPath, parameterCount } from "../compiler/targets/prepare.ts"
import { targets } from "../compiler/targets/targets.ts"
import { printable } from "../errors.ts"
import { checkFormat } from "../model/compile-folder.ts"
import { Folder, type Json } from "../model/folder.ts"
import { type Model, openModel } from "../model/model.ts"
import { readOrigin } from "../model/origin.ts"
import { readManifest } from "../runtime/library.ts"
import { type Manifest, type Parameter, parameterBytes } from "../runtime/manifest.ts"
import { BLOCK } from "../runtime/program.ts"
import type { inspectOptions } from "./options.ts"
import { downloadProgress } from "./progress.ts"
import type { Values } from "./read-options.ts"
import { table } from "./table.ts"

export async function inspect(name: string, options: Values<typeof inspectOptions>): Promise<void> {
  const path = await findModel(name, { onDownload: downloadProgress(process.stderr) })
  const model = await openModel(path, { verify: false })
  try {
    const format = options["--quantization"] ?? model.format
    checkFormat(model, format)
    const target = targets[options["--target"]]
    const plan = planOf(model, format, options["--overrides"], target.traits)
    const library = () => target.library!.prepare(plan)
    const origin = async () => ({
      weights: await readOrigin(new Folder(model.path)),
      libraries: librariesIn(model.path),
    })
    const parts = {
      summary: async () => {
        const kv = await target.library!.kv(plan)
        const costs = await target.library!.costs?.(plan)
        const lines = summary(model, plan, kv, [...madeFrom(await origin()), ...(costs ?? [])])
        return costs ? lines : `${lines}\n\n${kernels(plan)}`
      },
      config: () => JSON.stringify(model.config, undefined, 2),
      parameters: () => plan.parameters.map(parameterLine).join("\n"),
      graph: () => printGraph(model.graph),
      plan: () => printPlan(plan),
      source: async () =>
        (await library()).sources
          .flatMap((source) => ("text" in source ? [`// ${source.name}\n${source.text}`] : []))
          .join("\n"),
      library: async () => JSON.stringify((await library()).manifest, undefined, 2),
      origin: async () =>
        JSON.stringify(await origin(), undefined, 2)
          .split("\n")
          .map(printable)
          .join("\n"),
    }
    console.log((await parts[options["--show"]]()).trimEnd())
  } finally {
    await model.close()
  }
}

function summary(
  model: Model,
  plan: Plan,
  kv: Manifest["kv"],
  costs: readonly (readonly [string, string])[] = [],
): string {
  const { shapes } = plan
  const rows = [
    ["folder", model.path],
    [
      "architecture",
      `${model.architecture}, ${(parameterCount(plan) / 1e6).toFixed(1)} M parameters`,
    ],
    ["format", `${plan.format}, stored as ${model.format}; keys and values ${plan.kv}`],
    ...Object.entries(shapes).map(([name, value]) => [name, String(value)]),
    ["window", plan.groups.map(({ window = "none" }) => window).join(", ") || "none"],
    ["weights", mib(plan.parameters.reduce((sum, each) => sum + parameterBytes(each), 0))],
    ["KV", `${(positionBytes(kv) / 1024).toFixed(1)} KiB a token`],
    ["steps", `${plan.steps.length} over ${plan.buffers.length} buffers`],
    ...costs,
  ]
  return rows.map(([name, value]) => `${name!.padEnd(13)} ${value}`).join("\n")
}

/** What a compiled folder says of its making; nothing of others. */
interface Making {
  weights: Json | undefined
  libraries: Record<string, Pick<Manifest, "target" | "format" | "plan" | "features" | "built">>
}

/** Of the libraries that a folder brings; those that cannot be used are told by whoever wants to use them. */
function librariesIn(folder: string): Making["libraries"] {
  const files = Object.values(targets).flatMap(({ library }) => (library ? [library] : []))
  const found = [...new Set(files.map((library) => libraryPath(folder, library)))].flatMap(
    (path) => {
      try {
        const { target, format, plan, features, built } = readManifest(path)
        return [[basename(path), { target, format, plan, features, built }]]
      } catch {
        return []
      }
    },
  )
  return Object.fromEntries(found)
}

function madeFrom({ weights, libraries }: Making): [string, string][] {
  const rows: [string, string][] = Object.entries(libraries).map(([file, { built }]) => {
    const { sinter = "an older version", compiler } = built ?? {}
    return [file, `built by sinter ${sinter}${compiler ? ` with ${compiler}` : ""}`]
  })
  if (weights) {
    const { repository, revision, name } = (weights.source ?? {}) as Json
    const word = (value: unknown) => (typeof value === "string" ? value : "?")
    const source = repository ? `${word(repository)}@${word(revision)}` : word(name)
    rows.unshift(["made from", `${source}, by sinter ${word(weights.sinter)}`])
  }
  return rows.map(([what, text]) => [what, printable(text)])
}

function positionBytes({ groups }: Manifest["kv"]): number {
  return groups.reduce((sum, group) => sum + group.bytesPerBlock, 0) / BLOCK
}

function parameterLine(parameter: Parameter): string {
  const { name, rows, columns, codec, sources } = parameter
  const from = sources.map(({ tensor }) => tensor).join(" + ")
  return `${name}  [${rows}, ${columns}] ${codec}, ${mib(parameterBytes(parameter))} = ${from}`
}

/**
 * What each product costs while one sequence is decoded, which reads every weight once a token. Bandwidth is
 * measured here and now, by copying. Many rows at once are bound by arithmetic instead: see operations a byte.
 */
function kernels(plan: Plan): string {
  const bandwidth = copyBandwidth()
  const products = new Map<string, { count: number; bytes: number; macs: number }>()
  for (const step of plan.steps) {
    if (step.op !== "matmul") continue
    const parameter = plan.parameters[step.weight]!
    const { rows, columns, codec } = parameter
    const input = step.input.kind === "int8" ? "int8" : "f32"
    const key = `${rows} x ${columns} ${codec} by ${input}`
    const row = products.get(key) ?? {
      count: 0,
      bytes: parameterBytes(parameter),
      macs: rows * columns,
    }
    row.count++
    products.set(key, row)
  }
  const lines = [...products].map(([name, { count, bytes, macs }]) => {
    const time = ((bytes / bandwidth) * 1e6).toFixed(1)
    const intensity = ((2 * macs) / bytes).toFixed(1)
    return [name, `${count}`, mib(bytes), `${time} µs`, intensity]
  })
  const all = [...products.values()].reduce((sum, { count, bytes }) => sum + count * bytes, 0)
  const rate = bandwidth / all
  return [
    table([["product", "times", "weights", "from memory", "operations a byte"], ...lines]),
    "",
    `${mib(all)} of weights a token. Read from memory at ${(bandwidth / 1e9).toFixed(1)} GB/s, as one thread copies here now, that`,
    `is ${rate.toFixed(rate < 100 ? 1 : 0)} tokens/s for one sequence; weights that stay in the processor's caches come faster.`,
  ].join("\n")
}

/** Bytes read and written in a second, by one thread. */
function copyBandwidth(): number {
  const from = Buffer.alloc(64 << 20, 1)
  const to = Buffer.alloc(64 << 20)
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5; round++) {
    const begun = performance.now()
    from.copy(to)
    best = Math.min(best, performance.now() - begun)
  }
  return (2 * from.length) / (best / 1000)
}

const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(bytes < 1e5 ? 3 : 1)} MiB`
