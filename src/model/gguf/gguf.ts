// Opens a GGUF file, or the first of several, as a model's configuration, weights and texts. Tensors keep the number formats
// that the file has them in, mixed as it mixes them; nothing is quantised anew.

import { basename } from "node:path"
import { type Closing, openWhole } from "../../closing.ts"
import { widen } from "../../runtime/dtype.ts"
import { readableTokens } from "../../runtime/manifest.ts"
import type { ModelConfig } from "../config.ts"
import { Fields } from "../fields.ts"
import { type Folder, readExactly } from "../folder.ts"
import { type Dense, type Pooling, readMatrix } from "../pooling.ts"
import {
  type AdvisedSampling,
  type ModelTexts,
  type TextFile,
  unwrittenTemplates,
} from "../texts.ts"
import { type Sources, sourcesOf } from "../weights/names.ts"
import type { Weights } from "../weights/weights.ts"
import { ggufArchitectures, ggufNaming } from "./architectures.ts"
import { configOf, type GgufArchitecture, GgufFile, type Tensors } from "./config.ts"
import { type Container, readContainer, type StoredTensor } from "./container.ts"
import { inOtherWords, isMmproj, Keys } from "./keys.ts"
import { addedTokensIn, readTokenizer } from "./tokenizer.ts"
import { isOfTower, towerIn } from "./tower-inside.ts"
import { ggufWeights } from "./weights.ts"

export interface GgufModel {
  /** In the words of a config.json. */
  fields: Fields
  weights: (config: ModelConfig) => Weights
  /** Where it has the tensors that a graph reads. */
  sources: (config: ModelConfig) => Sources
  texts: (config: ModelConfig) => ModelTexts
  /** The ids of tokens that a template writes so, and no user. */
  readTokenIds: () => (text: string) => number | undefined
  /** It has what it sees with inside, and whether that is known. */
  tower: ReturnType<typeof towerIn>
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
    const config = configOf(its, architecture)
    const unwritten = unwrittenTemplates.get(String(config.model_type))
    return {
      fields: new Fields(config, inOtherWords(broken)),
      sources: namesFor,
      weights: (config) => {
        const sources = byHead(namesFor(config), config)
        const isRead = readOf(architecture, config)
        return ggufWeights({ folder, file, tensors, sources, isRead, close })
      },
      texts: ({ shapes }) => textsOf(folder, file, keys, readableTokens(shapes), unwritten),
      readTokenIds: () => addedTokensIn(keys, embedding.dims[1] ?? 0),
      tower: towerIn(name, tensors.keys()),
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
  if (isMmproj(keys))
    throw keys.wrong("general.architecture", 'is "clip": name its model, and this with --mmproj')
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

/**
 * Neither what guesses ahead, behind the last layer or by Ollama's name for it, nor what sees or hears, some of it under the names that
 * it was published with, nor layers that attend to images alone, where an architecture has those.
 */
function readOf(
  { guessesAhead, sees }: GgufArchitecture,
  { shapes, seeing }: ModelConfig,
): (name: string) => boolean {
  const layerOf = (name: string) => Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? Number.NaN)
  return (name) =>
    !(guessesAhead && layerOf(name) >= shapes.layers) &&
    !(guessesAhead && name.startsWith("mtp.")) &&
    !(sees && (isOfTower(name) || name.startsWith("model.vision_tower."))) &&
    !seeing?.has(layerOf(name))
}

/** Norms of single heads lie in one tensor, head after head. */
function byHead(sources: Sources, { shapes }: ModelConfig): Sources {
  const { heads, kvHeads, headDim } = shapes
  return (name) => {
    const source = sources(name)
    const [, stem, head] = /^(.+)\.(\d+)\.weight$/.exec(source.tensor) ?? []
    if (stem === undefined) return source
    const of = (stem.endsWith("q_norm") ? heads : kvHeads) * headDim
    const rows = { of, from: Number(head) * headDim, run: headDim, every: of }
    return { tensor: `${stem}.weight`, rows }
  }
}

/** @param unwritten the template of a file that has none */
function textsOf(
  folder: Folder,
  file: string,
  keys: Keys,
  vocabulary: number,
  unwritten: string | undefined,
): ModelTexts {
  const path = `${folder.path}/${basename(file)}`
  const tokenizer = readTokenizer(keys, vocabulary)
  const templates = new Map<string, TextFile>()
  const main = keys.textIfThere("tokenizer.chat_template") ?? unwritten
  if (main !== undefined) templates.set("default", { file: path, text: main })
  const PREFIX = "tokenizer.chat_template."
  for (const key of keys.names)
    if (key.startsWith(PREFIX))
      templates.set(key.slice(PREFIX.length), { file: path, text: keys.text(key) })
  return {
    tokenizer: { file: path, json: tokenizer.json, doubt: doubtOf(tokenizer.guessedPre) },
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
