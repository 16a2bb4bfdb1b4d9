// Opens a GGUF file, or the first of several, as a model's configuration, weights and texts. Tensors keep the number formats
// that the file has them in, mixed as it mixes them; nothing is quantised anew.

import { basename } from "node:path"
import { type Closing, openWhole } from "../../closing.ts"
import { widen } from "../../runtime/dtype.ts"
import { isGroupCodec } from "../../runtime/format.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { type Folder, readExactly } from "../folder.ts"
import { type Dense, type Pooling, readMatrix } from "../pooling.ts"
import type { AdvisedSampling, ModelTexts, TextFile } from "../texts.ts"
import type { StoredRows } from "../weights/convert.ts"
import { type Source, type Sources, sourcesOf } from "../weights/names.ts"
import { Room } from "../weights/room.ts"
import { constantTensor, rowsOf } from "../weights/rows.ts"
import type { Tensor, Weights } from "../weights/weights.ts"
import { ggufArchitectures, ggufNaming } from "./architectures.ts"
import { unpackBlocks } from "./blocks.ts"
import { configOf, type GgufArchitecture, GgufFile, type Tensors } from "./config.ts"
import { type Container, readContainer, type StoredTensor } from "./container.ts"
import { Keys } from "./keys.ts"
import { readTokenizer } from "./tokenizer.ts"
import { blockTypes, codecOfType } from "./types.ts"

export interface GgufModel {
  /** In the words of a config.json. */
  fields: Fields
  weights: (config: ModelConfig) => Weights
  /** Where it has the tensors that a graph reads. */
  sources: (config: ModelConfig) => Sources
  texts: (config: ModelConfig) => ModelTexts
  /** Without the matrices that rows go through; absent: the file says nothing of it. */
  pooling: Pooling | undefined
  readDense: (weights: Weights) => Promise<Dense[]>
  close(): Promise<void>
}

/** @throws `model_broken` */
export async function openGguf(folder: Folder, file: string): Promise<GgufModel> {
  return openWhole(async (closing) => {
    const parts = await openParts(folder, file, closing)
    const close = () => closing.close()
    const broken = (what: string) => folder.broken(file, what)
    const keys = new Keys(parts[0]!.pairs, broken)
    const tensors = joined(folder, parts)
    const name = architectureOf(keys)
    const embedding = tensors.get("token_embd.weight")
    if (!embedding) throw broken("there is no tensor token_embd.weight")
    const architecture = ggufArchitectures[name]!
    const its = new GgufFile(name, keys, {
      has: (tensor) => tensors.has(tensor),
      rowsOf: (tensor) => tensors.get(tensor)?.dims[1],
      count: tensors.size,
      vocabulary: embedding.dims[1] ?? 0,
      divisors: await divisorsOf(folder, tensors),
    })
    const namesFor = (config: ModelConfig) =>
      sourcesOf(ggufNaming(architecture, config, its), (tensor) => tensors.get(tensor)?.dims)
    return {
      fields: new Fields(configOf(its, architecture), broken),
      sources: namesFor,
      weights: (config) => {
        const sources = namesFor(config)
        const isRead = readOf(architecture, config)
        const read = new Map([...tensors].filter(([name]) => isRead(name)))
        return weightsOf({ folder, file, tensors: read, sources, config, close })
      },
      texts: ({ shapes }) => textsOf(folder, file, keys, shapes.vocabulary),
      pooling: poolingOf(its),
      readDense: (opened) => readDense(its, opened),
      close,
    }
  })
}

/** By llama.cpp's numbers. */
const POOLINGS: Readonly<Record<number, Pooling["mode"]>> = { 1: "mean", 2: "cls", 3: "lasttoken" }

function poolingOf(file: GgufFile): Pooling | undefined {
  const number = file.factor("pooling_type")
  if (number === undefined) return undefined
  const mode = POOLINGS[number]
  if (mode) return { mode, dense: [], prompts: {} }
  const known = Object.entries(POOLINGS).map(([number, name]) => `${number} (${name})`)
  throw file.wrong("pooling_type", `is ${number}; read from GGUF: ${known.join(", ")}`)
}

const DENSE = ["dense_2", "dense_3"] as const

/** Those of EmbeddingGemma, as far as the file has them. */
async function readDense(file: GgufFile, weights: Weights): Promise<Dense[]> {
  const dense: Dense[] = []
  for (const name of DENSE) {
    if (!file.tensors.has(`${name}.weight`)) continue
    const size = { rows: file.count(`${name}_feat_out`), columns: file.count(`${name}_feat_in`) }
    dense.push(await readMatrix(weights, name, { ...size, activation: "none", isBiased: false }))
  }
  return dense
}

const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/

/** The file, and those that it goes on in. */
async function openParts(folder: Folder, file: string, closing: Closing): Promise<Container[]> {
  const [, stem, number, ofName] = PART.exec(file) ?? []
  if (number !== undefined && number !== "00001")
    throw folder.broken(file, `it is a later part of a model; open ${stem}-00001-of-${ofName}.gguf`)
  const first = await readContainer(folder, file)
  closing.add(first.handle)
  const parts = [first]
  const keys = new Keys(first.pairs, (what) => folder.broken(file, what))
  const count = keys.countIfThere("split.count") ?? 1
  if (count > 1 && (stem === undefined || Number(ofName) !== count))
    throw folder.broken(file, `it is the first of ${count} parts, and its name does not say so`)
  for (let i = 2; i <= count; i++) {
    const name = `${stem}-${String(i).padStart(5, "0")}-of-${ofName}.gguf`
    if (!(await folder.has(name)))
      throw folder.broken(file, `it goes on in ${name}, which is not there`)
    const part = await readContainer(folder, name)
    closing.add(part.handle)
    parts.push(part)
    const its = new Keys(part.pairs, (what) => folder.broken(name, what))
    if (its.count("split.no") !== i - 1)
      throw folder.broken(name, `it says that it is part ${its.count("split.no") + 1}`)
  }
  return parts
}

/** All parts' tensors, each once, as many as the first part says. */
function joined(folder: Folder, parts: readonly Container[]): Map<string, StoredTensor> {
  const [first] = parts as [Container]
  const all = new Map<string, StoredTensor>()
  for (const { file, tensors } of parts)
    for (const tensor of tensors) {
      const before = all.get(tensor.name)
      if (before) throw folder.broken(file, `it holds ${tensor.name}, as ${before.file} does`)
      all.set(tensor.name, tensor)
    }
  const keys = new Keys(first.pairs, (what) => folder.broken(first.file, what))
  const promised = keys.countIfThere("split.tensors.count") ?? all.size
  if (promised !== all.size)
    throw folder.broken(first.file, `its parts hold ${all.size} tensors, and it says ${promised}`)
  return all
}

function architectureOf(keys: Keys): string {
  const kind = keys.textIfThere("general.type") ?? "model"
  if (kind === "adapter")
    throw keys.wrong("general.type", `is "${kind}": name its model, and this with --lora`)
  if (kind !== "model")
    throw keys.wrong("general.type", `is "${kind}": this is no language model by itself`)
  const name = keys.text("general.architecture")
  if (Object.hasOwn(ggufArchitectures, name)) return name
  const known = Object.keys(ggufArchitectures).join(", ")
  throw keys.wrong("general.architecture", `is "${name}"; read from GGUF: ${known}`)
}

const FREQUENCIES = "rope_freqs.weight"
const SHORT = "rope_factors_short.weight"
const LONG = "rope_factors_long.weight"

async function divisorsOf(
  folder: Folder,
  tensors: ReadonlyMap<string, StoredTensor>,
): Promise<Tensors["divisors"]> {
  const [one, short, long] = await Promise.all(
    [FREQUENCIES, SHORT, LONG].map(async (name) => {
      const tensor = tensors.get(name)
      if (!tensor) return undefined
      const { file, handle, type, dims, position } = tensor
      if (type !== "F32" || dims.length !== 1)
        throw folder.broken(file, `tensor ${name} is no list of type F32`)
      return [...widen(await readExactly(handle, position, 4 * dims[0]!), "f32")]
    }),
  )
  if (one) return { short: one, long: one }
  return short && long && { short, long }
}

interface Opened {
  folder: Folder
  file: string
  tensors: ReadonlyMap<string, StoredTensor>
  sources: Sources
  config: ModelConfig
  close: () => Promise<void>
}

/** Neither the blocks behind the last layer nor what sees, where an architecture has those. */
function readOf(
  { guessesAhead, sees }: GgufArchitecture,
  { shapes }: ModelConfig,
): (name: string) => boolean {
  return (name) =>
    !(guessesAhead && Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0) >= shapes.layers) &&
    !(sees && /^(v|mm)\./.test(name))
}

function weightsOf(opened: Opened): Weights {
  const { tensors, close } = opened
  return {
    entries: [...tensors.values()].map(({ name, file, type, dims }) => ({
      name,
      file,
      dtype: type,
      shape: dims.toReversed(),
    })),
    tensor: (name, rows, columns) => find(opened, name, rows, columns),
    refuseOthers: (names) => refuseOthers(opened, names),
    verify: async () => {}, // the format has no checksums
    close,
  }
}

function find(opened: Opened, name: string, rows: number, columns: number): Tensor {
  return findSource(opened, sourceOf(opened, name), rows, columns)
}

function findSource(opened: Opened, source: Source, rows: number, columns: number): Tensor {
  const { folder, file, tensors } = opened
  if (source.constant !== undefined) return constantTensor(source.constant, columns)
  const tensor = tensors.get(source.tensor)
  if (!tensor) throw folder.broken(file, `there is no tensor ${source.tensor}`)
  const all = source.rows?.of ?? rows
  const { stacked, turnedRuns } = source
  const width = turnedRuns?.width ?? columns // of a stored row
  const matrix = stacked ? [width, all / stacked, stacked] : [width, all]
  // A matrix of one row, the gate of a shared expert, is written as a list.
  const wanted = columns === 1 ? [all] : all === 1 && tensor.dims.length === 1 ? [columns] : matrix
  const { type, handle, position } = tensor
  const dims = columns === 1 ? [tensor.dims.reduce((product, n) => product * n, 1)] : tensor.dims
  if (dims.length !== wanted.length || dims.some((n, i) => n !== wanted[i]))
    throw folder.broken(
      tensor.file,
      `tensor ${source.tensor} has shape [${tensor.dims.toReversed().join(", ")}], the keys say [${wanted.toReversed().join(", ")}]`,
    )
  const codec = codecOfType(type)
  if (!codec || (columns === 1 && isGroupCodec(codec)))
    throw folder.broken(
      tensor.file,
      `tensor ${source.tensor} is of type ${type}, which is not read; take another file of the model, as Q4_K_M or Q8_0 (docs/models.md lists the types)`,
    )
  const rowBytes = bytesOf(tensor, width)
  const factors = factorsOf(opened, tensor, stacked ?? 1)
  const read = async (first: number, count: number, room = new Room()) => {
    const bytes = await room.read(handle, position + first * rowBytes, count * rowBytes)
    if (!isGroupCodec(codec)) return { rows: count, values: bytes }
    const stored = await unpackBlocks(type, codec, bytes, count, width, room)
    if (factors) multiplyScales(stored, first, all, await factors())
    return stored
  }
  const { plusRow } = source
  const addend = plusRow && rowOf(opened, plusRow, columns)
  return rowsOf({ codec, read }, source, columns, addend)
}

/** The name of what a matrix is multiplied with beside its own scales, where its type has that. */
function factorName({ name, type }: StoredTensor): string | undefined {
  return type === "NVFP4" ? name.replace(/weight$/, "scale") : undefined
}

/** One for the matrix, or one for each of those that are stacked in it; undefined: the file has none. */
function factorsOf(
  { folder, tensors }: Opened,
  matrix: StoredTensor,
  stacked: number,
): (() => Promise<Float32Array>) | undefined {
  const factors = tensors.get(factorName(matrix) ?? "")
  if (!factors) return undefined
  const { file, name, handle, type, dims, position } = factors
  if (type !== "F32" || dims.length !== 1 || ![1, stacked].includes(dims[0]!))
    throw folder.broken(file, `tensor ${name} is no list of ${stacked} numbers of type F32`)
  let read: Promise<Float32Array> | undefined
  return () => {
    read ??= readExactly(handle, position, 4 * dims[0]!).then((bytes) => widen(bytes, "f32"))
    return read
  }
}

/** @param first which of the matrix's `all` rows the stored ones begin with */
function multiplyScales(
  { rows, scales }: StoredRows,
  first: number,
  all: number,
  factors: Float32Array,
): void {
  const numbers = widen(scales!, "f32")
  const perRow = numbers.length / rows
  const tall = all / factors.length
  for (let row = 0; row < rows; row++) {
    const factor = factors[Math.floor((first + row) / tall)]!
    for (let g = row * perRow; g < (row + 1) * perRow; g++) numbers[g]! *= factor
  }
}

function rowOf(opened: Opened, { tensor, row }: NonNullable<Source["plusRow"]>, columns: number) {
  const all = opened.tensors.get(tensor)?.dims[1] ?? 1
  const rows = { of: all, from: row, run: 1, every: all }
  return findSource(opened, { tensor, rows }, 1, columns)
}

/**
 * Lists of divisors are read with the keys, matrices behind pooling by name; the others are what older converters left, or how
 * activations were rounded elsewhere, and nobody reads them.
 */
const APART =
  /^rope_(freqs|factors_(short|long))\.weight$|^dense_[23]\.weight$|\.(attn_rot_embd|rope_freqs|masked_bias|input_scale)\b/

/** A bias or a norm that is not known of the architecture would be missing from what is computed. */
function refuseOthers(opened: Opened, names: readonly string[]): void {
  const sources = names.map((name) => sourceOf(opened, name))
  const read = new Set(
    sources.flatMap(({ tensor, plusRow }) => {
      const stored = opened.tensors.get(tensor)
      return [tensor, plusRow?.tensor, stored && factorName(stored)]
    }),
  )
  for (const { name, file } of opened.tensors.values())
    if (!read.has(name) && !APART.test(name))
      throw opened.folder.broken(
        file,
        `it holds tensor ${name}, which is not known of this architecture`,
      )
}

function bytesOf({ type }: StoredTensor, columns: number): number {
  const { values, bytes } = blockTypes[type]
  return (columns / values) * bytes
}

/** Norms of single heads lie in one tensor, head after head. */
function sourceOf({ sources, config: { shapes } }: Opened, name: string): Source {
  const source = sources(name)
  const [, stem, head] = /^(.+)\.(\d+)\.weight$/.exec(source.tensor) ?? []
  if (stem === undefined) return source
  const { headDim } = shapes
  const of = (stem.endsWith("q_norm") ? shapes.heads : shapes.kvHeads) * headDim
  const rows = { of, from: Number(head) * headDim, run: headDim, every: of }
  return { tensor: `${stem}.weight`, rows }
}

function textsOf(folder: Folder, file: string, keys: Keys, vocabulary: number): ModelTexts {
  const path = `${folder.path}/${basename(file)}`
  const tokenizer = readTokenizer(keys, vocabulary)
  const templates = new Map<string, TextFile>()
  const main = keys.textIfThere("tokenizer.chat_template")
  if (main !== undefined) templates.set("default", { file: path, text: main })
  const PREFIX = "tokenizer.chat_template."
  for (const key of keys.names)
    if (key.startsWith(PREFIX))
      templates.set(key.slice(PREFIX.length), { file: path, text: keys.text(key) })
  return {
    tokenizer: { file: path, text: tokenizer.json, doubt: doubtOf(tokenizer.guessedPre) },
    templates,
    specialTokens: tokenizer.specialTokens,
    endTokens: tokenizer.endTokens,
    beginToken: tokenizer.beginToken,
    sampling: samplingOf(keys),
  }
}

function doubtOf(guessedPre: string | undefined): string | undefined {
  if (guessedPre === undefined) return undefined
  return `it does not say how texts are cut (tokenizer.ggml.pre); the rule ${guessedPre} is taken. Files converted since May 2024 say it.`
}

function samplingOf(keys: Keys): AdvisedSampling {
  const names = {
    temperature: "temp",
    topP: "top_p",
    topK: "top_k",
    minP: "min_p",
    repetitionPenalty: "penalty_repeat",
  } as const
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, key]) => {
      const value = keys.numberIfThere(`general.sampling.${key}`)
      return value === undefined ? [] : [[name, value]]
    }),
  )
}
