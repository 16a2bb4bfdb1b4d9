// `sinter inspect MODEL`: what a model is and what is made of it, one phase at a time, as text: configuration, parameters,
// graph, plan, emitted source, manifest, and what each kernel costs by the roofline. Of a model that sees or hears a tower is
// shown in the same way, where that is asked for.

import { basename } from "node:path"
import { findModel } from "../app/find-model.ts"
import { checkImagePatches, planOf, tileBytes, towerPlanOf } from "../app.ts"
import { mostRecordingRows, mostWindowRows, windowSeconds } from "../audio/tiles.ts"
import { type Graph, type Node, printGraph } from "../compiler/graph/graph.ts"
import { type Plan, printPlan } from "../compiler/plan.ts"
import { libraryPath, parameterCount } from "../compiler/targets/prepare.ts"
import { type TargetName, targets } from "../compiler/targets/targets.ts"
import type { Overrides } from "../engine/limits.ts"
import { printable } from "../errors.ts"
import { mostTiles } from "../images/cut.ts"
import { fits } from "../images/image.ts"
import { mostImageRows, mostRows, wantedOf } from "../images/patches.ts"
import { checkFormat } from "../model/compile-folder.ts"
import type { ModelConfig } from "../model/config.ts"
import { Folder, type Json } from "../model/folder.ts"
import type { Hearing } from "../model/hearing/open-hearing.ts"
import { type Model, openModel } from "../model/model.ts"
import { readOrigin } from "../model/origin.ts"
import { findOwnLayer } from "../model/own-layers.ts"
import { type SenseName, senseFolder, sensesOf } from "../model/sense.ts"
import type { Sight } from "../model/vision/open-vision.ts"
import type { TowerConfig } from "../model/vision/tower.ts"
import type { FormatName } from "../runtime/format.ts"
import { readManifest } from "../runtime/library.ts"
import { type Manifest, type Parameter, parameterBytes } from "../runtime/manifest.ts"
import { BLOCK } from "../runtime/program.ts"
import type { inspectOptions } from "./options.ts"
import { downloadProgress } from "./progress.ts"
import type { Values } from "./read-options.ts"
import { table } from "./table.ts"
import { refuse } from "./values.ts"

export async function inspect(name: string, options: Values<typeof inspectOptions>): Promise<void> {
  const hub = { onDownload: downloadProgress(process.stderr), log: console }
  const { path, ...changes } = await findModel(name, hub, options["--lora"])
  const { max_image_patches: mostPatches }: Overrides = options["--overrides"]
  const model = await openModel(path, { verify: false, sees: true, mostPatches, ...changes })
  try {
    checkImagePatches(model, options["--overrides"])
    const senses = sensesOf<Sight | Hearing>(model)
    const option = options["--audio-tower"] ? "--audio-tower" : "--tower"
    const isTower = options[option]
    const own = senses.find(({ name }) => option === "--tower" || name === "hearing")
    const of = isTower ? towerOf(model, own?.sense, option) : model
    const format = isTower ? of.format : (options["--quantization"] ?? of.format)
    if (!isTower) checkFormat(model, format)
    const target = targets[options["--target"]]
    const { tensor_parallel_shards: shards }: Overrides = options["--overrides"]
    const plan = isTower
      ? towerPlanOf(of, options["--overrides"], target.traits)
      : planOf(of, format, options["--overrides"], target.traits)
    const library = () => target.library!.prepare(plan, target.divides && !isTower ? shards : 1)
    const making = async (): Promise<Making> => ({
      weights: await readOrigin(new Folder(model.path)),
      libraries: librariesIn(isTower ? senseFolder(model.path, own!.name) : model.path),
    })
    const parts: Record<PartName, () => Promise<Part> | Part> = {
      summary: async () => {
        const kv = await target.library!.kv(plan)
        const costs = await target.library!.costs?.(plan)
        const plans: Partial<Record<SenseName, Plan>> = {}
        for (const { name, sense } of senses)
          plans[name] = towerPlanOf(sense, options["--overrides"], target.traits)
        const seen = plans.vision && (await target.library!.prepare(plans.vision, 1)).manifest
        return summary(of, plan, {
          kv,
          ahead: isTower ? undefined : await aheadOf(model, plan, target, options["--overrides"]),
          making: await making(),
          costs,
          sensing: [seeingOf(model, plans.vision, seen), hearingOf(model, plans.hearing)],
        })
      },
      config: () => ({ json: of.config }),
      parameters: () => ({
        json: plan.parameters.map((each) => ({ ...each, bytes: parameterBytes(each) })),
        text: plan.parameters.map(parameterLine).join("\n"),
      }),
      graph: () => ({ json: flat(of.graph), text: printGraph(of.graph) }),
      plan: () => ({ json: plan, text: printPlan(plan) }),
      source: async () => {
        const all = await (await library()).sources()
        const sources = all.filter((source) => "text" in source)
        const text = sources.map((source) => `// ${source.name}\n${source.text}`).join("\n")
        return { json: sources.map(({ name, text }) => ({ name, text })), text }
      },
      library: async () => ({ json: (await library()).manifest }),
      origin: async () => ({ json: await making() }),
    }
    const { json, text } = await parts[options["--show"]]()
    const isText = text !== undefined && !options["--json"]
    console.log(isText ? text.trimEnd() : jsonLines(json))
  } finally {
    await model.close()
  }
}

type PartName = Values<typeof inspectOptions>["--show"]

/** What is shown, for programs and, where that is not the same, for people. */
interface Part {
  json: unknown
  text?: string
}

/** A line of what a stranger wrote moves no cursor. */
function jsonLines(value: unknown): string {
  return JSON.stringify(value, undefined, 2).split("\n").map(printable).join("\n")
}

/** Nodes by their places in the list. */
function flat(graph: Graph): unknown {
  const { nodes, logits, hidden, ...rest } = graph
  const places = new Map(nodes.map((node, place) => [node, place]))
  const place = (node: Node) => places.get(node)
  const flatNodes = nodes.map((node) => ({ ...node, inputs: node.inputs.map(place) }))
  return { ...rest, nodes: flatNodes, logits: place(logits), hidden: place(hidden) }
}

/** A model or its tower. */
interface Inspected extends Pick<Model, "path" | "adapters" | "format" | "graph" | "codecOf"> {
  configuration: string
  /** Absent: of a tower. */
  texts?: Model["texts"]
  architecture: string
  config: ModelConfig | TowerConfig | Hearing["config"]
}

function towerOf(
  { path, blind, deaf }: Model,
  sense: Sight | Hearing | undefined,
  option: "--tower" | "--audio-tower",
): Inspected {
  if (sense) return { ...sense, path, adapters: [], architecture: sense.config.architecture }
  const lack = option === "--tower" ? (blind ?? deaf) : deaf
  const why = lack
    ? `its tower cannot be used: ${lack}`
    : "it has no tower that is known; leave it out."
  return refuse(option, why)
}

/** What a model sees or hears with. */
interface Sensing {
  name: "images" | "audio"
  json: unknown
  rows: readonly (readonly [string, string])[]
}

/** Why nothing is read, where there is something to read it with. */
function lackOf(name: Sensing["name"], lack: string | undefined): Sensing {
  const rows = lack ? [[name, printable(`refused: ${lack}`)] as const] : []
  return { name, json: lack && { refused: lack }, rows }
}

const towerFacts = (plan: Plan, format: FormatName) => ({
  tower: plan.architecture,
  parameters: parameterCount(plan),
  format,
  weightBytes: weightBytesOf(plan),
})

function towerWords({ tower, parameters, format, weightBytes }: ReturnType<typeof towerFacts>) {
  return `${tower}, ${millions(parameters)}, ${format}, ${mib(weightBytes)}`
}

function seeingOf(
  { vision, blind }: Model,
  plan: Plan | undefined,
  manifest: Manifest | undefined,
): Sensing {
  const name = "images"
  if (!vision || !plan || !manifest) return lackOf(name, blind)
  const { images, format } = vision
  const { joined, queries } = images
  const patches = mostRows(images) - Number(images.hasClassRow) - (queries ?? 0)
  const isFitting = fits(images.cutting)
  const facts = {
    ...towerFacts(plan, format),
    tile: images.tile,
    patches,
    rows: isFitting ? (queries ?? Math.floor(patches / joined ** 2)) : wantedOf(images).length,
    tiles: mostTiles(images),
    imageRows: mostImageRows(images),
    tileBytes: tileBytes(manifest, images),
  }
  const { width, height } = facts.tile
  const become = `${facts.patches} patches become ${facts.rows} rows`
  const tile = isFitting
    ? `of the image's proportions, in steps of ${width} pixels; at most ${become}`
    : `${width} x ${height} pixels, whose ${become}`
  const image = `at most ${facts.tiles === 1 ? "one tile" : `${facts.tiles} tiles`} and ${facts.imageRows} rows`
  return {
    name,
    json: facts,
    rows: [
      [name, towerWords(facts)],
      ["tile", `${tile}, for which ${mib(facts.tileBytes)} are set aside`],
      ["image", image],
    ],
  }
}

function hearingOf({ hearing, deaf }: Model, plan: Plan | undefined): Sensing {
  const name = "audio"
  if (!hearing || !plan) return lackOf(name, deaf)
  const { audio, format } = hearing
  const rows = mostWindowRows(audio)
  const facts = {
    ...towerFacts(plan, format),
    windowSeconds: windowSeconds(audio),
    rows,
    mostSeconds: audio.most,
    recordingRows: mostRecordingRows(audio),
  }
  return {
    name,
    json: facts,
    rows: [
      [name, towerWords(facts)],
      ["window", `${facts.windowSeconds} seconds, which become ${rows} rows`],
      ["recording", `at most ${audio.most} seconds and ${facts.recordingRows} rows`],
    ],
  }
}

/** The layer that guesses ahead, whose program has a copy of what it shares with its model. */
interface Ahead {
  parameters: number
  format: FormatName
  weightBytes: number
  /** Of those, what is not the model's. */
  ownBytes: number
  kvBytesPerToken: number
}

async function aheadOf(
  model: Model,
  modelPlan: Plan,
  { traits, library }: (typeof targets)[TargetName],
  overrides: Overrides,
): Promise<Ahead | { refused: string } | undefined> {
  const { layer, why } = await findOwnLayer(model, modelPlan.format)
  if (!layer) return why === undefined ? undefined : { refused: why }
  const plan = planOf(layer, layer.format, overrides, traits)
  const tensorOf = ({ sources: [first] }: Parameter) => first!.tensor
  const shared = new Set(modelPlan.parameters.map(tensorOf))
  const own = plan.parameters.filter((parameter) => !shared.has(tensorOf(parameter)))
  return {
    parameters: parameterCount(plan),
    format: plan.format,
    weightBytes: weightBytesOf(plan),
    ownBytes: weightBytesOf({ parameters: own }),
    kvBytesPerToken: positionBytes(await library!.kv(plan)),
  }
}

function aheadWords(ahead: Ahead | { refused: string }): string {
  if ("refused" in ahead) return printable(`refused: ${ahead.refused}`)
  const { parameters, format, weightBytes, ownBytes, kvBytesPerToken } = ahead
  const weights = `${mib(weightBytes)}, ${mib(ownBytes)} of them its own`
  return `a layer of ${millions(parameters)}, ${format}, ${weights}; KV ${kib(kvBytesPerToken)} a token`
}

interface Shown {
  kv: Manifest["kv"]
  ahead: Ahead | { refused: string } | undefined
  making: Making
  costs: readonly (readonly [string, string])[] | undefined
  sensing: readonly Sensing[]
}

function summary(model: Inspected, plan: Plan, { kv, ahead, making, costs, sensing }: Shown): Part {
  const { shapes } = plan
  const windows = plan.groups.filter(({ state }) => !state).map(({ window }) => window)
  const stateBytes = kv.groups.reduce((sum, each) => sum + (each.state ? each.bytesPerBlock : 0), 0)
  const facts = {
    folder: model.path,
    ...sourcesOf(model),
    adapters: model.adapters.map(({ path }) => path),
    architecture: model.architecture,
    parameters: parameterCount(plan),
    format: plan.format,
    storedFormat: model.format,
    kv: plan.kv,
    shapes,
    windows: windows.map((window) => window ?? null),
    weightBytes: weightBytesOf(plan),
    kvBytesPerToken: positionBytes(kv),
    ...(stateBytes > 0 ? { stateBytes } : {}),
    steps: plan.steps.length,
    buffers: plan.buffers.length,
    ...(ahead && { ahead }),
    ...Object.fromEntries(sensing.flatMap(({ name, json }) => (json ? [[name, json]] : []))),
  }
  const rows: (readonly [string, string])[] = [
    ["folder", facts.folder],
    ...Object.entries(sourcesOf(model)),
    ...facts.adapters.map((path) => ["changed by", path] as const),
    ["architecture", `${facts.architecture}, ${millions(facts.parameters)}`],
    ["format", `${facts.format}, stored as ${facts.storedFormat}; keys and values ${facts.kv}`],
    ...Object.entries(shapes).map(([name, value]) => [name, String(value)] as const),
    ["window", windows.map((window) => window ?? "none").join(", ") || "none"],
    ["weights", mib(facts.weightBytes)],
    ["KV", `${kib(facts.kvBytesPerToken)} a token`],
    ...(stateBytes > 0 ? [["state", `${mib(stateBytes)} a sequence`] as const] : []),
    ["steps", `${facts.steps} over ${facts.buffers} buffers`],
    ...(ahead ? [["ahead", aheadWords(ahead)] as const] : []),
    ...sensing.flatMap(({ rows }) => rows),
    ...madeFrom(making),
    ...(costs ?? []),
  ]
  const lines = rows.map(([name, value]) => `${name.padEnd(13)} ${value}`).join("\n")
  if (costs) return { json: { ...facts, ...making, costs: Object.fromEntries(costs) }, text: lines }
  const [products, bandwidth] = [productsOf(plan), copyBandwidth()]
  return {
    json: { ...facts, ...making, products, bandwidth },
    text: `${lines}\n\n${printProducts(products, bandwidth)}`,
  }
}

/** The files that say what it is and how it talks. */
function sourcesOf({ configuration, texts }: Inspected): Record<string, string> {
  if (!texts) return { configuration }
  const template = texts.templates.get("default")
  return {
    configuration,
    tokenizer: basename(texts.tokenizer.file),
    template: template ? basename(template.file) : "none",
  }
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

function madeFrom({ weights, libraries }: Making): (readonly [string, string])[] {
  const rows: (readonly [string, string])[] = Object.entries(libraries).map(([file, { built }]) => {
    const { sinter = "an older version", compiler } = built ?? {}
    return [file, `built by sinter ${sinter}${compiler ? ` with ${compiler}` : ""}`]
  })
  if (weights) {
    const { repository, revision, name } = (weights.source ?? {}) as Json
    const word = (value: unknown) => (typeof value === "string" ? value : "?")
    const source = repository ? `${word(repository)}@${word(revision)}` : word(name)
    rows.unshift(["made from", `${source}, by sinter ${word(weights.sinter)}`])
  }
  return rows.map(([what, text]) => [what, printable(text)] as const)
}

function weightBytesOf({ parameters }: Pick<Plan, "parameters">): number {
  return parameters.reduce((sum, each) => sum + parameterBytes(each), 0)
}

function positionBytes({ groups }: Manifest["kv"]): number {
  return groups.reduce((sum, group) => sum + (group.state ? 0 : group.bytesPerBlock), 0) / BLOCK
}

function parameterLine(parameter: Parameter): string {
  const { name, rows, columns, codec, sources } = parameter
  const from = sources.map(({ tensor }) => tensor).join(" + ")
  return `${name}  [${rows}, ${columns}] ${codec}, ${mib(parameterBytes(parameter))} = ${from}`
}

/** Products of one shape. */
interface Product {
  rows: number
  columns: number
  codec: Parameter["codec"]
  input: "int8" | "int16" | "f32"
  /** Of one. */
  bytes: number
  /** How many there are. */
  times: number
}

function productsOf(plan: Plan): Product[] {
  const products = new Map<string, Product>()
  for (const step of plan.steps) {
    if (step.op !== "matmul") continue
    const parameter = plan.parameters[step.weight]!
    const { rows, columns, codec } = parameter
    const input = step.input.kind === "float" ? "f32" : step.input.kind
    const key = `${rows} x ${columns} ${codec} by ${input}`
    const bytes = parameterBytes(parameter)
    const { times = 0 } = products.get(key) ?? {}
    products.set(key, { rows, columns, codec, input, bytes, times: times + 1 })
  }
  return [...products.values()]
}

/**
 * What each product costs while one sequence is decoded, which reads every weight once a token. Many rows at once are bound by
 * arithmetic instead: see operations a byte.
 * @param bandwidth bytes a second, measured here and now, by copying
 */
function printProducts(products: readonly Product[], bandwidth: number): string {
  const lines = products.map(({ rows, columns, codec, input, bytes, times }) => {
    const time = ((bytes / bandwidth) * 1e6).toFixed(1)
    const intensity = ((2 * rows * columns) / bytes).toFixed(1)
    const name = `${rows} x ${columns} ${codec} by ${input}`
    return [name, `${times}`, mib(bytes), `${time} µs`, intensity]
  })
  const all = products.reduce((sum, { times, bytes }) => sum + times * bytes, 0)
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

const millions = (count: number) => `${(count / 1e6).toFixed(1)} M parameters`
const kib = (bytes: number) => `${(bytes / 1024).toFixed(1)} KiB`
const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(bytes < 1e5 ? 3 : 1)} MiB`
