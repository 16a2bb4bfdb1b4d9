// The door of the room: a folder goes in, a model comes out: its configuration in our words, its graph, its weights as
// tensors to be read in windows, and what it says about text. Every size, offset, type, shape and name has been checked
// when it is returned, and the graph's tensors are all there; no tensor has been read.

import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { Graph } from "../compiler/graph/graph.ts"
import { type FormatName, formatNames, isFormatName } from "../runtime/format.ts"
import { type ArchitectureName, architectureOf, architectures } from "./architectures.ts"
import { checkLayerTypes, fromMlc, type ModelConfig } from "./config.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { weightsOf } from "./graph-weights.ts"
import { type ModelTexts, readMlcTexts, readTexts } from "./texts.ts"
import { openMlc } from "./weights/mlc.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import type { Weights } from "./weights/weights.ts"

export interface Model {
  path: string // absolute
  name: string // the folder's own
  architecture: ArchitectureName
  config: ModelConfig
  /** The file in the folder that says all this. */
  configuration: typeof PLAIN | typeof MLC
  /** The format its weights are in. */
  format: FormatName
  graph: Graph
  weights: Weights
  texts: ModelTexts
  close(): Promise<void>
}

export interface OpenOptions {
  /** Whether weights are compared with the checksums their folder gives, which reads them once; true unless said otherwise. */
  verify?: boolean
}

/** @throws `model_broken`, naming the file and what is wrong with it. */
export async function openModel(path: string, { verify = true }: OpenOptions = {}): Promise<Model> {
  const folder = new Folder(resolve(path))
  if (!statSync(folder.path, { throwIfNoEntry: false })?.isDirectory())
    throw folder.broken(".", "there is no such folder")
  const configuration = (await folder.has(MLC)) ? MLC : PLAIN
  const source = configuration === MLC ? await mlcSource(folder) : await plainSource(folder)
  const { architecture, config, fields } = source
  const weights = await source.openWeights()
  try {
    checkLayers(fields, config, weights)
    checkLayerTypes(fields, config)
    const graph = architectures[architecture].graph(config)
    checkTensors(graph, weights)
    if (verify) await weights.verify()
    return {
      path: folder.path,
      name: folder.name,
      architecture,
      config,
      configuration,
      format: source.format ?? formatOfFloats(weights, graph),
      graph,
      weights,
      texts: await source.readTexts(),
      close: () => weights.close(),
    }
  } catch (error) {
    await weights.close()
    throw error
  }
}

/** What differs between folders as they are published and compiled ones. */
interface Source {
  fields: Fields
  architecture: ArchitectureName
  config: ModelConfig
  /** Absent: the weights will say. */
  format: FormatName | undefined
  openWeights: () => Promise<Weights>
  readTexts: () => Promise<ModelTexts>
}

const PLAIN = "config.json"
const MLC = "mlc-chat-config.json"

async function plainSource(folder: Folder): Promise<Source> {
  const fields = new Fields(await folder.json(PLAIN), (what) => folder.broken(PLAIN, what))
  const architecture = architectureOf(fields)
  const config = architectures[architecture].read(fields)
  return {
    fields,
    architecture,
    config,
    format: undefined,
    openWeights: () => openSafetensors(folder),
    readTexts: () => readTexts(folder, fields, config.shapes.vocabulary),
  }
}

async function mlcSource(folder: Folder): Promise<Source> {
  const broken = (what: string) => folder.broken(MLC, what)
  const chat = new Fields(await folder.json(MLC), broken)
  const format = chat.text("quantization")
  if (!isFormatName(format))
    throw chat.wrong("quantization", `is "${format}"; known: ${formatNames.join(", ")}`)
  const fields = new Fields(fromMlc(chat), broken)
  const architecture = architectureOf(fields)
  const { read, mlcAttention: attention } = architectures[architecture]
  const config = read(fields)
  return {
    fields,
    architecture,
    config,
    format,
    openWeights: () => openMlc(folder, { format, names: { shapes: config.shapes, attention } }),
    readTexts: () => readMlcTexts(folder, chat, config.shapes.vocabulary),
  }
}

/** Before anything is made for each layer: every layer has tensors of its own. */
function checkLayers(fields: Fields, { shapes }: ModelConfig, { entries }: Weights): void {
  if (shapes.layers > entries.length)
    throw fields.wrong(
      "num_hidden_layers",
      `is ${shapes.layers}, but the weights are ${entries.length} tensors in all`,
    )
}

function checkTensors(graph: Graph, weights: Weights): void {
  for (const { sources, columns } of weightsOf(graph))
    for (const { tensor, rows } of sources) weights.tensor(tensor, rows, columns)
}

/** The format of a folder of floats: that of its tensors, or where they differ the one that holds them all exactly. */
function formatOfFloats(weights: Weights, graph: Graph): FormatName {
  const found = weightsOf(graph).flatMap(({ sources, columns }) =>
    sources.map(({ tensor, rows }) => weights.tensor(tensor, rows, columns).format),
  )
  const types = new Set(found as ("f32" | "f16" | "bf16")[])
  const [only] = types
  return types.size === 1 ? `q0${only!}` : "q0f32"
}
