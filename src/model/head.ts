// Opens the heads that propose tokens for a model: EAGLE's and Medusa's. A folder is known by its tensors, since published
// configurations of heads are those of the models they were made for. Pickled weights are not read: opening them may run
// whatever they say.

import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { Graph } from "../compiler/graph/graph.ts"
import { type FormatName, formatNames, isFormatName } from "../runtime/format.ts"
import type { Shapes } from "../runtime/manifest.ts"
import { BORROWED_HEAD, eagle, readEagle } from "./architectures/eagle.ts"
import { medusa, readMedusa } from "./architectures/medusa.ts"
import { fromMlc } from "./config.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { weightsOf } from "./graph-weights.ts"
import type { Model } from "./model.ts"
import { openMlc } from "./weights/mlc.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import type { Tensor, Weights } from "./weights/weights.ts"

export type HeadKind = "eagle" | "medusa"

export interface Head extends Pick<Model, "path" | "name" | "configuration" | "weights" | "close"> {
  kind: HeadKind
  shapes: Shapes
  /** How many tokens it proposes at once; EAGLE's go on as long as they are asked. */
  longest: number
  /** The format its own weights are in. */
  format: FormatName
  graph: Graph
}

const PLAIN = "config.json"
const MLC = "mlc-chat-config.json"

/**
 * What a folder holds beside a model `base`: heads, or something else, of which the kind is told.
 * @throws `model_broken`, naming the file and what is wrong with it.
 */
export async function openHead(
  path: string,
  base: Model,
): Promise<Head | { kind: "plain"; name: string }> {
  const folder = new Folder(resolve(path))
  if (!statSync(folder.path, { throwIfNoEntry: false })?.isDirectory())
    throw folder.broken(".", "there is no such folder")
  await refusePickles(folder)
  const source = (await folder.has(MLC)) ? await mlcSource(folder, base) : await plainSource(folder)
  const { fields, weights, configuration } = source
  try {
    const kind = kindOf(folder, weights)
    if (kind === "plain") {
      await weights.close()
      return { kind, name: folder.name }
    }
    const { shapes, graph, longest } = read(kind, fields, base, weights)
    const borrowed = { ...weights, tensor: withBorrowed(weights, base) }
    for (const { sources, columns } of weightsOf(graph))
      for (const { tensor, rows } of sources)
        if (tensor !== BORROWED_HEAD) weights.tensor(tensor, rows, columns)
    const { path: at, name } = folder
    const format = source.format ?? formatOf(weights, graph)
    const close = () => weights.close()
    return {
      kind,
      path: at,
      name,
      configuration,
      shapes,
      longest,
      format,
      graph,
      weights: borrowed,
      close,
    }
  } catch (error) {
    await weights.close()
    throw error
  }
}

function read(kind: HeadKind, fields: Fields, base: Model, weights: Weights) {
  if (kind === "eagle") {
    const config = readEagle(fields)
    return { shapes: config.shapes, graph: eagle(config), longest: Number.POSITIVE_INFINITY }
  }
  const prefix = weights.entries.some(({ name }) => name.startsWith("medusa_head."))
    ? "medusa_head."
    : ""
  const config = readMedusa(fields, base.config.shapes, prefix)
  return { shapes: config.shapes, graph: medusa(config), longest: config.heads }
}

async function refusePickles(folder: Folder): Promise<void> {
  if ((await folder.has("model.safetensors")) || (await folder.has(MLC))) return
  for (const file of ["medusa_lm_head.pt", "pytorch_model.bin"]) {
    if (!(await folder.has(file))) continue
    throw folder.broken(
      file,
      `it is a pickle, which can run any program and is not opened; convert it once: python -c 'import torch, safetensors.torch as s; s.save_file(torch.load("${file}", map_location="cpu", weights_only=True), "model.safetensors")'`,
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
  const broken = (what: string) => folder.broken(MLC, what)
  const chat = new Fields(await folder.json(MLC), broken)
  const format = chat.text("quantization")
  if (!isFormatName(format))
    throw chat.wrong("quantization", `is "${format}"; known: ${formatNames.join(", ")}`)
  const fields = new Fields(fromMlc(chat), broken)
  const shapes = fields.has("num_attention_heads") ? readEagle(fields).shapes : base.config.shapes
  const names = { shapes, attention: "qkv_proj" } as const
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

/** EAGLE reads its logits off the head of the model it belongs to. */
function withBorrowed(own: Weights, base: Model): Weights["tensor"] {
  const { tied, shapes } = base.config
  const head = tied ? "model.embed_tokens.weight" : BORROWED_HEAD
  return (name, rows, columns): Tensor =>
    name === BORROWED_HEAD
      ? base.weights.tensor(head, shapes.vocabulary, shapes.hidden)
      : own.tensor(name, rows, columns)
}

/** The format of a folder of floats: that of its first matrix. */
function formatOf(weights: Weights, graph: Graph): FormatName {
  const matrix = weightsOf(graph).find(({ columns }) => columns > 1)!
  const [{ tensor, rows }] = matrix.sources as [{ tensor: string; rows: number }]
  return `q0${weights.tensor(tensor, rows, matrix.columns).format as "f32" | "f16" | "bf16"}`
}
