// Opens the heads that propose tokens for a model: EAGLE's, of all three kinds, and Medusa's. A folder is known by its tensors, since
// published configurations of heads are those of the models they were made for. What a head shares with its model lies in the model's
// files alone. Pickled weights are not read: opening them may run whatever they say.

import { statSync } from "node:fs"
import { resolve } from "node:path"
import { openWhole } from "../closing.ts"
import type { Graph, Weight } from "../compiler/graph/graph.ts"
import { type FormatName, isMixed } from "../runtime/format.ts"
import type { Shapes } from "../runtime/manifest.ts"
import { type EagleConfig, eagle, readEagle } from "./architectures/eagle.ts"
import {
  type Eagle3Config,
  eagle3,
  eagle3Fields,
  PLACES,
  readEagle3,
} from "./architectures/eagle3.ts"
import { type MedusaConfig, medusa, readMedusa } from "./architectures/medusa.ts"
import { readDecoder } from "./config.ts"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { weightsOf } from "./graph-weights.ts"
import { EMBEDDING, HEAD } from "./layers.ts"
import { MLC, readMlcConfig } from "./mlc-config.ts"
import type { Model } from "./model.ts"
import { openMlc } from "./weights/mlc.ts"
import { pickled } from "./weights/pickles.ts"
import { asFloats, listTensor } from "./weights/rows.ts"
import { openParts, openSafetensors } from "./weights/safetensors.ts"
import type { Tensor, Weights } from "./weights/weights.ts"

/** What a head's configuration says, in our words. */
type Configured =
  | { kind: "eagle"; config: EagleConfig }
  | { kind: "eagle3"; config: Eagle3Config }
  | { kind: "medusa"; config: MedusaConfig }

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
  /** Whether the others are the model's. */
  borrows: boolean
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
    const kind = kindOf(weights)
    if (kind === "plain") {
      await closing.close()
      return { kind, name: folder.name }
    }
    const made =
      kind === "eagle"
        ? eagleHead(folder, fields, base, weights)
        : kind === "eagle3"
          ? await eagle3Head(folder, eagle3Fields(fields), base, weights)
          : medusaHeads(folder, fields, base, weights)
    for (const part of made.weights)
      for (const { sources, columns } of weightsOf(made.graph))
        for (const { tensor, rows } of sources) part.tensor(tensor, rows, columns)
    const { path: at, name } = folder
    const format = source.format ?? formatOf(made)
    const close = () => closing.close()
    return { path: at, name, configuration, format, ...made, close }
  })
}

export const headTitles = {
  eagle: "an EAGLE head",
  eagle3: "an EAGLE 3 head",
  medusa: "Medusa heads",
} as const satisfies Record<HeadKind, string>

const kindNames = Object.keys(headTitles) as HeadKind[]

/** What a folder holds, as far as that can be told without the model; undefined: a whole model, or nothing that is known. */
export async function headKindOf(path: string): Promise<HeadKind | undefined> {
  const folder = new Folder(resolve(path))
  if (await folder.has(MLC)) {
    const { model_type: kind } = (await folder.json(MLC)) as { model_type?: unknown }
    return kindNames.find((name) => name === kind)
  }
  if (!(await folder.has(PLAIN))) return undefined
  await refusePickles(folder)
  const weights = await openSafetensors(folder)
  const kind = kindOf(weights)
  await weights.close()
  return kind === "plain" ? undefined : kind
}

/** What keeps a head from a model, with both figures; undefined when they fit. */
export function headDifference(head: Head, base: Model): string | undefined {
  const { shapes } = head.config
  const [field, columns] =
    head.kind === "eagle3"
      ? ["target_hidden_size", head.config.columns]
      : ["hidden_size", shapes.hidden]
  for (const [what, its, wanted] of [
    [`columns (${field})`, columns, base.config.shapes.hidden],
    ["tokens (vocab_size)", shapes.vocabulary, base.config.shapes.vocabulary],
  ] as const) {
    if (its !== wanted)
      return `${head.name} was made for a model of ${its} ${what}, and ${base.name} has ${wanted}`
  }
  if (head.kind === "eagle3" && base.config.streams)
    return `${head.name} reads 1 row of a token between layers, and ${base.name} has ${base.config.streams.count}`
  return undefined
}

type Made = Pick<Parts, "fields" | "graph" | "longest" | "weights" | "own" | "borrows"> & Configured

/** EAGLE reads its logits off the head of the model it belongs to. */
function eagleHead(folder: Folder, fields: Fields, base: Model, own: Weights): Made {
  const config = readEagle(fields)
  checkCount(fields, "num_hidden_layers", config.shapes.layers, own, /^layers\.(\d+)\./)
  const graph = eagle(config)
  refuseOtherTensors(folder, "EAGLE heads", { own }, readBy(graph))
  const shared = sharedBy(graph, { [HEAD]: headOf(base) }, base, own)
  return {
    kind: "eagle",
    config,
    fields: fields.json,
    graph,
    longest: Number.POSITIVE_INFINITY,
    ...shared,
  }
}

/**
 * An EAGLE 3 head may read the embedding of its model, where it has none, and its logits off the model's head, where it knows all of
 * its tokens.
 * @param fields in the words of a compiled head
 */
async function eagle3Head(
  folder: Folder,
  fields: Fields,
  base: Model,
  stored: Weights,
): Promise<Made> {
  const { layers, vocabulary } = base.config.shapes
  const config = readEagle3(fields, { name: base.name, layers, vocabulary })
  const { known, shapes } = config
  const own = withLayerNames(stored)
  checkCount(fields, "num_hidden_layers", shapes.layers, own, /^layers\.(\d+)\./)
  const graph = eagle3(config)
  refuseOtherTensors(folder, "EAGLE 3 heads", { own, stored }, readBy(graph))
  const has = (tensor: string) =>
    own.entries.some(({ name }) => name.replace(/\.q_weight$/, ".weight") === tensor)
  const lent = {
    ...(!has(OWN_EMBEDDING) && { [OWN_EMBEDDING]: EMBEDDING }),
    ...(!has(HEAD) && known === shapes.vocabulary && { [HEAD]: headOf(base) }),
  }
  const tokens = fields.has("draft_tokens")
    ? fields.counts("draft_tokens", known)
    : await readDraftTokens(folder, stored, config)
  const places = placesOf(tokens, config, (what) => fields.wrong("draft_vocab_size", what))
  const shared = sharedBy(graph, lent, base, own)
  const [weights] = shared.weights
  const tensor: Weights["tensor"] = (name, rows, columns) =>
    name === PLACES ? listTensor(places) : weights.tensor(name, rows, columns)
  const wanted = shared.own.wanted.filter(({ sources }) => sources[0]!.tensor !== PLACES)
  return {
    kind: "eagle3",
    config,
    fields: { ...fields.json, layer_rows: config.reads, draft_tokens: tokens },
    graph,
    longest: Number.POSITIVE_INFINITY,
    ...shared,
    weights: [{ ...weights, tensor }],
    own: { ...shared.own, wanted },
  }
}

/** SafeAILab's heads have one layer, which is called otherwise. */
function withLayerNames(stored: Weights): Weights {
  const [midlayer, first] = ["midlayer.", "layers.0."]
  if (!stored.entries.some(({ name }) => name.startsWith(midlayer))) return stored
  const renamed = (name: string, from: string, to: string) =>
    name.startsWith(from) ? to + name.slice(from.length) : name
  return {
    ...stored,
    entries: stored.entries.map((entry) => ({
      ...entry,
      name: renamed(entry.name, midlayer, first),
    })),
    tensor: (name, rows, columns) => stored.tensor(renamed(name, first, midlayer), rows, columns),
  }
}

const OWN_EMBEDDING = "embed_tokens.weight"

const headOf = ({ config }: Model) => (config.head.tied ? EMBEDDING : HEAD)

/**
 * Weights of a graph whose tensors are the head's own, but for those that it shares with its model.
 * @param lent by their names in the graph, what the model calls them
 */
function sharedBy(
  graph: Graph,
  lent: Readonly<Record<string, string>>,
  base: Model,
  own: Weights,
): { weights: [Weights]; own: Parts["own"]; borrows: boolean } {
  const tensor: Weights["tensor"] = (name, rows, columns) =>
    Object.hasOwn(lent, name) ? lentTensor(base, lent[name]!) : own.tensor(name, rows, columns)
  const wanted = weightsOf(graph).filter(({ sources }) => !Object.hasOwn(lent, sources[0]!.tensor))
  return {
    weights: [{ ...own, tensor }],
    own: { wanted, weights: own },
    borrows: Object.keys(lent).length > 0,
  }
}

/** In a codec that heads know, too; in the model's own shape, which the head's is compared with. */
function lentTensor({ weights, format, config }: Model, name: string): Tensor {
  const { vocabulary, hidden } = config.shapes
  const tensor = weights.tensor(name, vocabulary, hidden)
  return isMixed(format) ? asFloats(tensor, hidden) : tensor
}

/** Tensors that are not part of the graph, and change nothing: what training kept, and the lists of tokens. */
const BESIDE =
  /^(d2t|t2d|(embed_tokens|lm_head)\.weight|verifier_(norm|lm_head)\.weight|.*rotary_emb\.inv_freq)$/

function readBy(graph: Graph): (name: string) => boolean {
  const tensors = weightsOf(graph).flatMap(({ sources }) => sources.map(({ tensor }) => tensor))
  const read = new Set(tensors)
  return (name) => read.has(name)
}

/**
 * Whatever else a head has, another mathematics reads.
 * @param stored under the names in the files, where those are not its own
 */
function refuseOtherTensors(
  folder: Folder,
  heads: string,
  { own, stored = own }: { own: Weights; stored?: Weights },
  isRead: (name: string) => boolean,
): void {
  const other = own.entries.findIndex(({ name, file }) => {
    const isCompiled = !file.endsWith(".safetensors") // which joins and packs them under other names
    return !isCompiled && !isRead(name) && !BESIDE.test(name)
  })
  if (other < 0) return
  const { file, name } = stored.entries[other]!
  throw folder.broken(file, `tensor ${name} is not known of ${heads}`)
}

/** Which of the model's tokens each of those is that the head knows: stored as how much further on it is. */
async function readDraftTokens(
  folder: Folder,
  { entries }: Weights,
  { known, shapes }: Eagle3Config,
): Promise<number[]> {
  const entry = entries.find(({ name }) => name === "d2t")
  const all = Array.from({ length: known }, (_, token) => token)
  if (!entry && known === shapes.vocabulary) return all
  const file = entry?.file ?? entries[0]!.file
  const wrong = (what: string) => folder.broken(file, `tensor d2t ${what}`)
  if (!entry) throw wrong(`is missing, and the head knows ${known} of ${shapes.vocabulary} tokens`)
  if (entry.dtype !== "I64" || entry.shape.join() !== `${known}`)
    throw wrong(`is ${entry.dtype} [${entry.shape.join(", ")}], not I64 [${known}]`)
  const { parts, close } = await openParts(folder, file)
  try {
    const bytes = await parts.find(({ name }) => name === "d2t")!.read(0, 8 * known)
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    return all.map((token) => token + Number(view.getBigInt64(8 * token, true)))
  } finally {
    await close()
  }
}

/** Of each of the model's tokens, which of the head's it is, or -1. */
function placesOf(
  tokens: readonly number[],
  { known, shapes: { vocabulary } }: Eagle3Config,
  wrong: (what: string) => Error,
): Int32Array {
  if (tokens.length !== known) throw wrong(`is ${known}, and ${tokens.length} tokens are listed`)
  const places = new Int32Array(vocabulary).fill(-1)
  for (const [place, token] of tokens.entries()) {
    if (token < 0 || token >= vocabulary || places[token] !== -1)
      throw wrong(`does not fit: token ${token} of ${vocabulary} is listed, or listed twice`)
    places[token] = place
  }
  if (known === vocabulary && tokens.some((token, place) => token !== place))
    throw wrong(`is ${known}, which is all tokens, and they are in another order`)
  return places
}

/** MLC folders put "medusa_head." before the names of all tensors, others do not. */
function medusaHeads(folder: Folder, fields: Fields, base: Model, own: Weights): Made {
  refuseOtherTensors(folder, "Medusa heads", { own }, (name) =>
    /^(medusa_head\.)?\d+\.\d+\.(linear\.)?(weight|bias)$/.test(name),
  )
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
  const parts = { graph, longest: heads, weights, own: mine, borrows: false }
  return { kind: "medusa", config, fields: fields.json, ...parts }
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
  const { model_type: type } = fields.json
  if (typeof type === "string" && type.endsWith("_assistant"))
    throw fields.wrong(
      "model_type",
      `is "${type}", which reads its model's keys and values; choose another --speculative-mode, as no drafter here does so`,
    )
  const weights = await openSafetensors(folder)
  return { fields, weights, configuration: PLAIN, format: undefined }
}

async function mlcSource(folder: Folder, base: Model): Promise<Source> {
  const { fields, format } = await readMlcConfig(folder)
  const shapes = fields.has("num_attention_heads") ? readDecoder(fields).shapes : base.config.shapes
  const names = { shapes, attention: "qkv_proj", gated: true } as const
  const weights = await openMlc(folder, { format, names })
  return { fields, weights, configuration: MLC, format }
}

function kindOf({ entries }: Weights): HeadKind | "plain" {
  const names = entries.map(({ name }) => name)
  if (names.some((name) => /^(midlayer|layers\.0)\.hidden_norm\.weight$/.test(name)))
    return "eagle3"
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
