// Opens the heads that propose tokens for a model: EAGLE's and Medusa's. A folder is known by its tensors, since published
// configurations of heads are those of the models they were made for. Pickled weights are not read: opening them may run
// whatever they say.

import { statSync } from "node:fs"
import { resolve } from "node:path"
import { openWhole } from "../closing.ts"
import type { Graph, Weight } from "../compiler/graph/graph.ts"
import type { FormatName } from "../runtime/format.ts"
import type { Shapes } from "../runtime/manifest.ts"
import { BORROWED_HEAD, type EagleConfig, eagle, readEagle } from "./architectures/eagle.ts"
import { type MedusaConfig, medusa, readMedusa } from "./architectures/medusa.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { weightsOf } from "./graph-weights.ts"
import { MLC, readMlcConfig } from "./mlc-config.ts"
import type { Model } from "./model.ts"
import { openMlc } from "./weights/mlc.ts"
import { pickled } from "./weights/pickles.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import type { Weights } from "./weights/weights.ts"

/** What a head's configuration says, in our words. */
type Configured = { kind: "eagle"; config: EagleConfig } | { kind: "medusa"; config: MedusaConfig }

export type HeadKind = Configured["kind"]

interface Parts extends Pick<Model, "path" | "name" | "fields" | "configuration" | "close"> {
  /** How many tokens it proposes at once; EAGLE's go on as long as they are asked. */
  longest: number
  /** The format its own weights are in. */
  format: FormatName
  graph: Graph
  /** One for each program that is made of the graph: Medusa's heads are the same graph. */
  weights: readonly Weights[]
  /** What its own files hold of all those, under the names that they have in MLC's layout. */
  own: { wanted: readonly Weight[]; weights: Weights }
}

export type Head = Parts & Configured

const PLAIN = "config.json"

/**
 * What a folder holds beside a model `base`: heads, or something else, of which the kind is told.
 * @throws `model_broken`, naming the file and what is wrong with it.
 */
export async function openHead(
  path: string,
  base: Model,
): Promise<Head | { kind: "plain"; name: string }> {
  const folder = new Folder(resolve(path))
  const stats = statSync(folder.path, { throwIfNoEntry: false })
  if (stats?.isFile()) return { kind: "plain", name: folder.name } // GGUF holds no heads
  if (!stats?.isDirectory()) throw folder.broken(".", "there is no such folder")
  await refusePickles(folder)
  const source = (await folder.has(MLC)) ? await mlcSource(folder, base) : await plainSource(folder)
  const { fields, weights, configuration } = source
  return openWhole(async (closing) => {
    closing.add(weights)
    const kind = kindOf(folder, weights)
    if (kind === "plain") {
      await closing.close()
      return { kind, name: folder.name }
    }
    const made =
      kind === "eagle" ? eagleHead(fields, base, weights) : medusaHeads(fields, base, weights)
    for (const part of made.weights)
      for (const { sources, columns } of weightsOf(made.graph))
        for (const { tensor, rows } of sources) part.tensor(tensor, rows, columns)
    const { path: at, name } = folder
    const format = source.format ?? formatOf(made)
    const close = () => closing.close()
    return { path: at, name, fields: fields.json, configuration, format, ...made, close }
  })
}

export const headTitles = {
  eagle: "an EAGLE head",
  medusa: "Medusa heads",
} as const satisfies Record<HeadKind, string>

/** What a folder holds, as far as that can be told without the model; undefined: a whole model, or nothing that is known. */
export async function headKindOf(path: string): Promise<HeadKind | undefined> {
  const folder = new Folder(resolve(path))
  if (await folder.has(MLC)) {
    const { model_type: kind } = (await folder.json(MLC)) as { model_type?: unknown }
    return kind === "eagle" || kind === "medusa" ? kind : undefined
  }
  if (!(await folder.has(PLAIN))) return undefined
  await refusePickles(folder)
  const weights = await openSafetensors(folder)
  const kind = kindOf(folder, weights)
  await weights.close()
  return kind === "plain" ? undefined : kind
}

/** What keeps a head from a model, with both figures; undefined when they fit. */
export function headDifference(head: Head, base: Model): string | undefined {
  const { shapes } = head.config
  for (const [what, its, wanted] of [
    ["columns (hidden_size)", shapes.hidden, base.config.shapes.hidden],
    ["tokens (vocab_size)", shapes.vocabulary, base.config.shapes.vocabulary],
  ] as const) {
    if (its !== wanted)
      return `${head.name} was made for a model of ${its} ${what}, and ${base.name} has ${wanted}`
  }
  return undefined
}

type Made = Pick<Parts, "graph" | "longest" | "weights" | "own"> & Configured

/** EAGLE reads its logits off the head of the model it belongs to. */
function eagleHead(fields: Fields, base: Model, own: Weights): Made {
  const config = readEagle(fields)
  checkCount(fields, "num_hidden_layers", config.shapes.layers, own, /^layers\.(\d+)\./)
  const { shapes } = base.config
  const head = base.config.head.tied ? "model.embed_tokens.weight" : BORROWED_HEAD
  const tensor: Weights["tensor"] = (name, rows, columns) =>
    name === BORROWED_HEAD
      ? base.weights.tensor(head, shapes.vocabulary, shapes.hidden)
      : own.tensor(name, rows, columns)
  const graph = eagle(config)
  const wanted = weightsOf(graph).filter(({ sources }) => sources[0]!.tensor !== BORROWED_HEAD)
  return {
    kind: "eagle",
    config,
    graph,
    longest: Number.POSITIVE_INFINITY,
    weights: [{ ...own, tensor }],
    own: { wanted, weights: own },
  }
}

/** MLC folders put "medusa_head." before the names of all tensors, others do not. */
function medusaHeads(fields: Fields, base: Model, own: Weights): Made {
  const config = readMedusa(fields, { ...base.config.shapes, ...medusaShapes(own) })
  const { heads } = config
  checkCount(fields, "medusa_num_heads", heads, own, /^(?:medusa_head\.)?(\d+)\./)
  const isPrefixed = own.entries.some(({ name }) => name.startsWith(MEDUSA_PREFIX))
  const named: Weights = {
    ...own,
    tensor: (name, rows, columns) =>
      own.tensor(isPrefixed ? name : name.slice(MEDUSA_PREFIX.length), rows, columns),
  }
  const graph = medusa(config)
  const nameIn = (head: number, tensor: string) => `${MEDUSA_PREFIX}${head}.${tensor}`
  const weights = Array.from({ length: heads }, (_, i) => ({
    ...own,
    tensor: (name: string, rows: number, columns: number) =>
      named.tensor(nameIn(i, name), rows, columns),
  }))
  const wanted = Array.from({ length: heads }, (_, i) =>
    weightsOf(graph).map((weight) => ({
      ...weight,
      sources: weight.sources.map((source) => ({ ...source, tensor: nameIn(i, source.tensor) })),
    })),
  )
  const mine = { wanted: wanted.flat(), weights: named }
  return { kind: "medusa", config, graph, longest: heads, weights, own: mine }
}

/** No more than there are; fewer may be wanted. */
function checkCount(
  fields: Fields,
  field: string,
  count: number,
  { entries }: Weights,
  numbered: RegExp,
): void {
  const there = new Set(entries.flatMap(({ name }) => numbered.exec(name)?.[1] ?? [])).size
  if (count > there) throw fields.wrong(field, `is ${count}, and the weights hold ${there}`)
}

const MEDUSA_PREFIX = "medusa_head."

/** Published configurations do not say it: what the last matrix of the first head, if it is not packed, was made for. */
function medusaShapes({ entries }: Weights): Partial<Shapes> {
  const last = entries.find(({ name }) => /^(medusa_head\.)?0\.\d+\.weight$/.test(name))
  const [vocabulary, hidden] = last?.shape ?? []
  return vocabulary && hidden ? { vocabulary, hidden } : {}
}

async function refusePickles(folder: Folder): Promise<void> {
  if ((await folder.has("model.safetensors")) || (await folder.has(MLC))) return
  for (const file of ["medusa_lm_head.pt", "pytorch_model.bin"]) {
    if (!(await folder.has(file))) continue
    throw pickled(
      folder,
      file,
      `import torch, safetensors.torch as s; s.save_file(torch.load("${file}", map_location="cpu", weights_only=True), "model.safetensors")`,
    )
  }
}

interface Source {
  fields: Fields
  weights: Weights
  configuration: Model["configuration"]
  format: FormatName | undefined
}

async function plainSource(folder: Folder): Promise<Source> {
  const fields = new Fields(await folder.json(PLAIN), (what) => folder.broken(PLAIN, what))
  const weights = await openSafetensors(folder)
  return { fields, weights, configuration: PLAIN, format: undefined }
}

async function mlcSource(folder: Folder, base: Model): Promise<Source> {
  const { fields, format } = await readMlcConfig(folder)
  const shapes = fields.has("num_attention_heads") ? readEagle(fields).shapes : base.config.shapes
  const names = { shapes, attention: "qkv_proj", gated: true } as const
  const weights = await openMlc(folder, { format, names })
  return { fields, weights, configuration: MLC, format }
}

function kindOf(folder: Folder, { entries }: Weights): HeadKind | "plain" {
  const names = entries.map(({ name }) => name)
  const [first] = entries
  if (names.some((name) => name.startsWith("midlayer.")))
    throw folder.broken(
      first!.file,
      "it holds an EAGLE 3 head, which reads three layers of its model; EAGLE 1 and 2 are known",
    )
  if (names.some((name) => /^fc\.(q_)?weight$/.test(name))) return "eagle"
  if (names.some((name) => /^(medusa_head\.)?0\.0\.(linear\.)?(q_)?weight$/.test(name)))
    return "medusa"
  return "plain"
}

/** The format of a folder of floats: that of its first matrix. */
function formatOf({ graph, weights: [own] }: Made): FormatName {
  const matrix = weightsOf(graph).find(({ columns }) => columns > 1)!
  const [{ tensor, rows }] = matrix.sources as [{ tensor: string; rows: number }]
  return `q0${own!.tensor(tensor, rows, matrix.columns).codec as "f32" | "f16" | "bf16"}`
}
