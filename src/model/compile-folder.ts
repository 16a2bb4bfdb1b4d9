// A compiled model folder: weights in MLC's layout and a number format, the configuration that goes with them, and the
// tokenizer's files as they were; in a folder of its own what a model sees or hears with (sense.ts). It is written aside and renamed into place when all of it is there, so that a run that
// was killed leaves nothing that loads, and what it left is taken away by the next. What is at that place by then stays.

import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  writeFile,
} from "node:fs/promises"
import { hostname } from "node:os"
import { basename, dirname, join, relative, resolve } from "node:path"
import type { Weight } from "../compiler/graph/graph.ts"
import { problem } from "../errors.ts"
import { CONSOLIDATED, INDEX, isBeside, mmprojsAmong } from "../hub/selection.ts"
import { type CodecName, type FormatName, formats, isMixed } from "../runtime/format.ts"
import { guardOf, makeFolder } from "../runtime/scratch.ts"
import { isFactor } from "./adapters/adapted.ts"
import { architectures } from "./architectures.ts"
import { commonWindow, type ModelConfig } from "./config.ts"
import { Folder, isObject, type Json } from "./folder.ts"
import { weightsOf } from "./graph-weights.ts"
import type { Head } from "./head.ts"
import { speechFields } from "./hearing/speech.ts"
import { MLC } from "./mlc-config.ts"
import type { Model } from "./model.ts"
import { writeOrigin } from "./origin.ts"
import { findOwnLayer, type OwnLayer } from "./own-layers.ts"
import { packingFiles } from "./packed/packing.ts"
import { poolingFiles, writePooling } from "./pooling.ts"
import { inFloats, type Sense, senseFolder, sensesOf } from "./sense.ts"
import { TEKKEN } from "./tekken.ts"
import { namedTemplates } from "./texts.ts"
import { TIKTOKEN_MODEL } from "./tiktoken-model.ts"
import { TOKENIZER_MODEL } from "./tokenizer-model.ts"
import { processingFiles } from "./vision/processing.ts"
import { convertible } from "./weights/convert.ts"
import { mlcNames } from "./weights/mlc-names.ts"
import { writeMlc } from "./weights/write-mlc.ts"

export interface CompileFolderOptions {
  format: FormatName
  progress?: (written: number, total: number) => void
  /** Adds to the folder before it is put into place: the library. */
  finish?: (directory: string) => Promise<void>
}

const TOKENIZER = "tokenizer.json"
const TOKENIZER_CONFIG = "tokenizer_config.json"
/** How its makers advise to draw, which no adapter says. */
const ADVICE = "generation_config.json"

/** Files that say how a model reads and talks, copied as they are. */
const COPIED = [
  TOKENIZER,
  TOKENIZER_CONFIG,
  "special_tokens_map.json",
  "added_tokens.json",
  "chat_template.jinja",
  "chat_template.json",
]

/** What a published folder is besides its configuration and weights. */
const PUBLISHED = [
  INDEX,
  CONSOLIDATED.index,
  TEKKEN,
  TOKENIZER_MODEL,
  TIKTOKEN_MODEL,
  ...Object.keys(packingFiles),
  ...processingFiles,
  ADVICE,
  ...COPIED,
]

/**
 * Writes `model` in a format to the folder `output`, which must not be there, or be empty.
 * @throws `option_invalid` when it cannot be had in that format, or the place is taken.
 */
export async function compileFolder(
  model: Model,
  output: string,
  { format, progress, finish }: CompileFolderOptions,
): Promise<void> {
  checkFormat(model, format)
  if (model.adapters.length > 0 && (isMixed(format) || isBesideCodes(model)))
    throw problem("option_invalid", {
      option: "--lora",
      problem: `${model.path} is packed as ${format}, into which no adapter can be written; serve both as they are`,
    })
  const left = model.ranks
    ? "a model that ranks"
    : "a model whose pooled rows go through its matrix"
  if (model.ranks || model.config.pooledTo !== undefined)
    throw new Folder(model.path).broken(
      model.configuration,
      `${left} is not compiled; serve the folder as it was published`,
    )
  const towers = sensesOf<Sense>(model).map(({ name, sense }) => {
    const kept = senseFor(sense, format)
    if (kept) return { name, kept }
    throw problem("option_invalid", {
      option: "--quantization",
      problem: `${join(sense.path, sense.configuration)} is of a tower that stays as it is, and so has its model to, which ${format} is not; serve it as it was published`,
    })
  })
  await writeAside(output, async (directory) => {
    const folder = new Folder(model.path)
    const { isOneFile } = model
    const stored = model.weights.entries.map(({ file }) => file)
    const talker = new Folder(dirname(model.texts.tokenizer.file)) // an adapter may have its own
    const pooling = isOneFile ? [] : await poolingFiles(folder)
    const named = isOneFile ? [] : namedTemplates(talker)
    const texts = isOneFile ? [] : [model.configuration, ...PUBLISHED, ...named, ...pooling]
    const ofTowers = sensesOf<Sense>(model).flatMap(({ sense }) => towerFiles(model, sense))
    const files = [...new Set([...texts, ...stored, ...ofTowers])]
    await writeOrigin(directory, model, files, format)
    if (isMixed(format)) {
      // It is as compiled as weights can be: only the library is added.
      const own = isOneFile ? [...texts, ...stored] : files
      await copyFiles(folder, new Set(own), directory, isOneFile ? fileNaming(model) : undefined)
      for (const { kept } of towers)
        if (isOneFile && !isInside(model, kept)) await copyMmproj(kept, directory)
      await finish?.(directory)
      return
    }
    if (isOneFile && talker.path === folder.path) await writeTexts(model, directory)
    else {
      await copyFiles(folder, [ADVICE, ...pooling], directory)
      await copyFiles(talker, [...COPIED, ...named], directory)
    }
    if (basename(model.texts.tokenizer.file) !== TOKENIZER)
      await writeFile(join(directory, "tokenizer.json"), model.texts.tokenizer.json)
    if (basename(model.texts.tokenizer.file) === TEKKEN) await writeNames(model, talker, directory)
    // A conversation that an MLC configuration or a tekken.json stands for goes along as the template that was made of it.
    const template = model.texts.templates.get("default")
    if (template && [model.configuration, TEKKEN].includes(basename(template.file)))
      await writeFile(join(directory, "chat_template.jinja"), template.text)
    const names = mlcNames(model.config, architectures[model.architecture].mlcAttention)
    const { layer } = await findOwnLayer(model, format)
    await writeMlc(weightsWith(layer, model), model.weights, directory, {
      format,
      stored: model.format,
      names,
      ...(progress ? { progress } : {}),
    })
    for (const { name, kept } of towers) await writeTower(kept, senseFolder(directory, name))
    await finish?.(directory)
    await writeConfig(directory, chatConfig(model, format))
  })
}

/** The model's, and what the layer that guesses ahead has beside them, where there is one. */
function weightsWith(layer: OwnLayer | undefined, model: Model): Weight[] {
  const own = weightsOf(model.graph)
  if (!layer) return own
  const tensors = new Set(own.flatMap(({ sources }) => sources.map(({ tensor }) => tensor)))
  const isOwn = ({ sources: [first] }: Weight) => tensors.has(first!.tensor)
  return [...own, ...weightsOf(layer.graph).filter((weight) => !isOwn(weight))]
}

/** A tower as it is compiled with its model in that format; nothing where it cannot be. */
export function senseFor<Own extends Sense>(sense: Own, format: FormatName): Own | undefined {
  return isMixed(format) ? sense : inFloats(sense)
}

/** In the GGUF file of the model itself. */
function isInside({ path, configuration }: Model, sense: Sense): boolean {
  return sense.path === path && sense.configuration === configuration
}

/** Under a name by which it is found beside its model, wherever it lay. */
async function copyMmproj({ path, configuration }: Sense, directory: string): Promise<void> {
  const folder = new Folder(path)
  const [name] = mmprojsAmong([configuration])
  await copyFiles(folder, [configuration], directory, () => name ?? "mmproj.gguf")
}

/** The weights of a tower, by their places in the model's folder, and the texts of one that is compiled; none where it lies elsewhere. */
function towerFiles(model: Model, sense: Sense): string[] {
  const inside = relative(model.path, sense.path)
  if (inside.startsWith("..")) return []
  const texts = inside === "" ? [] : [sense.configuration, ...processingFiles]
  return [...texts, ...sense.weights.entries.map(({ file }) => file)].map((file) =>
    join(inside, file),
  )
}

/** In the floats that it is stored in, whatever becomes of the text model. */
async function writeTower(sense: Sense, directory: string): Promise<void> {
  const { path, configuration, graph, format, weights, names, beside = [], files } = sense
  await mkdir(directory)
  if (files)
    for (const [file, json] of Object.entries(files))
      await writeFile(join(directory, file), JSON.stringify(json))
  else await copyFiles(new Folder(path), [configuration, ...processingFiles], directory)
  const read = [...weightsOf(graph), ...beside]
  await writeMlc(read, weights, directory, { format, stored: format, names })
}

/** Whether what adapters add is computed beside matrices, and so is in none of them. */
function isBesideCodes({ graph }: Model): boolean {
  return weightsOf(graph).some(({ sources }) => sources.some(({ tensor }) => isFactor(tensor)))
}

/** @param nameOf what a file is called in the directory; absent: as in its folder */
async function copyFiles(
  folder: Folder,
  files: Iterable<string>,
  directory: string,
  nameOf = (file: string) => file,
): Promise<void> {
  for (const file of files) {
    const place = await folder.place(file)
    if (!place) continue
    const copy = join(directory, nameOf(file))
    await mkdir(dirname(copy), { recursive: true })
    await copyFile(place, copy)
  }
}

/**
 * In a folder such a file is known by its ending, which a blob of Ollama's store does not have; it is called as its model then, unless that
 * is how a part of a model is called, or what lies beside one.
 */
function fileNaming({ name }: Model): (file: string) => string {
  const called = `${name.replace(/[^\w.-]+/g, "-")}.gguf`
  const own = isBeside(called) || /-\d{5}-of-\d{5}\.gguf$/.test(called) ? "model.gguf" : called
  return (file) => (/\.(gguf|bin)$/.test(file) ? file : own)
}

/** What a tekken.json calls its tokens, beside what the folder says of them. */
async function writeNames({ texts }: Model, talker: Folder, directory: string): Promise<void> {
  const config = { ...texts.specialTokens, ...(await talker.jsonIfThere(TOKENIZER_CONFIG)) }
  await writeFile(join(directory, TOKENIZER_CONFIG), JSON.stringify(config))
}

/** What a file that holds everything says of its tokens, as the files that a folder has for it. */
async function writeTexts(model: Model, directory: string): Promise<void> {
  const { texts, pooling, hearing } = model
  if (pooling && pooling.dense.length > 0)
    throw new Folder(model.path).broken(
      model.configuration,
      "its embeddings go through matrices that a compiled folder has no place for; serve the file",
    )
  const named = [...texts.templates].filter(([name]) => name !== "default")
  const config = {
    ...texts.specialTokens,
    ...(named.length > 0 && {
      chat_template: named.map(([name, { text }]) => ({ name, template: text })),
    }),
  }
  await writeFile(join(directory, "tokenizer.json"), texts.tokenizer.json)
  await writeFile(join(directory, TOKENIZER_CONFIG), JSON.stringify(config))
  if (pooling) await writePooling(pooling, directory)
  if (hearing?.speech)
    await writeFile(join(directory, ADVICE), JSON.stringify(speechFields(hearing.speech)))
}

/**
 * The same for heads, without what they borrow of their model.
 * @throws `option_invalid` as above
 */
export async function compileHeadFolder(
  head: Head,
  output: string,
  { format, progress, finish }: CompileFolderOptions,
): Promise<void> {
  checkHeadFormat(head, format)
  await writeAside(output, async (directory) => {
    const { wanted, weights } = head.own
    const files = weights.entries.map(({ file }) => file)
    const name = basename(head.path)
    await writeOrigin(directory, { path: head.path, name }, files, format)
    const names = { shapes: head.config.shapes, attention: "qkv_proj", gated: true } as const
    await writeMlc(wanted, weights, directory, {
      format,
      stored: head.format,
      names,
      ...(progress ? { progress } : {}),
    })
    await finish?.(directory)
    await writeConfig(directory, headConfig(head, format))
  })
}

/** Codes cannot be unpacked into another format: a packed folder is served as it is. */
export function checkFormat(model: Model, format: FormatName): void {
  for (const { sources, columns } of weightsOf(model.graph))
    for (const { tensor, rows } of columns > 1 ? sources : [])
      checkPacking(model, model.weights.tensor(tensor, rows, columns).codec, format)
}

export function checkHeadFormat(head: Head, format: FormatName): void {
  const { wanted, weights } = head.own
  const { columns, sources } = wanted.find(({ columns }) => columns > 1)!
  const { tensor, rows } = sources[0]!
  checkPacking(head, weights.tensor(tensor, rows, columns).codec, format)
}

function checkPacking(
  { path, format: packed }: Pick<Model, "path" | "format">,
  stored: CodecName,
  format: FormatName,
): void {
  if (format === packed || convertible(stored, formats[format].matrix)) return
  throw problem("option_invalid", {
    option: "--quantization",
    problem: `${path} is packed as ${packed} already; ${format} needs the original weights`,
  })
}

async function writeConfig(directory: string, config: object): Promise<void> {
  const text = `${JSON.stringify(config, undefined, 1)}\n`
  await writeFile(join(directory, MLC), text)
}

/**
 * Runs `write` on a hidden folder and puts what it wrote at `output`, or leaves nothing. A folder that is there already is
 * written in: it may be where another file system is mounted, and its parent nobody's to write to.
 */
async function writeAside(
  output: string,
  write: (directory: string) => Promise<void>,
): Promise<void> {
  const named = resolve(output)
  const there = await realpath(named).catch(ignoreMissing).catch(unwritable(named))
  const path = there ?? named
  const parent = there ?? dirname(path)
  const aside = await makeAside(parent, path).catch(unwritable(parent))
  const guard = guardOf(aside)
  active.add(aside)
  try {
    if (there === undefined ? await isLink(path) : (await othersIn(path, aside)).length > 0)
      throw taken(path)
    await writeFile(join(aside, WRITER), `${hostname()} ${process.pid}`)
    await write(aside)
    await rm(join(aside, WRITER))
    if (there !== undefined) await moveOut(aside, path)
    else {
      await chmod(aside, 0o777 & ~process.umask())
      await rename(aside, path).catch(ifTaken(path))
    }
  } finally {
    await rm(aside, { recursive: true, force: true })
    guard.release()
    active.delete(aside)
  }
}

function taken(path: string): Error {
  return problem("option_invalid", {
    option: "--output",
    problem: `${path} is there already and is not empty; name another folder or remove it`,
  })
}

/** What came while the folder was written stays. */
function ifTaken(path: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    throw /^(ENOTEMPTY|EEXIST|ENOTDIR)$/.test(error.code ?? "") ? taken(path) : error
  }
}

function unwritable(folder: string): (error: NodeJS.ErrnoException) => never {
  return ({ code }) => {
    throw problem("option_invalid", {
      option: "--output",
      problem: `nothing can be written to ${folder} (${code}).`,
    })
  }
}

/** A link that leads nowhere is something, too. */
async function isLink(path: string): Promise<boolean> {
  return (await lstat(path).catch(ignoreMissing)) !== undefined
}

async function othersIn(path: string, aside: string): Promise<string[]> {
  return (await readdir(path)).filter((name) => name !== basename(aside))
}

/** From `aside` to the folder that it lies in; the configuration, which makes it a model, comes last. */
async function moveOut(aside: string, path: string): Promise<void> {
  if ((await othersIn(path, aside)).length > 0) throw taken(path)
  const names = await readdir(aside)
  const isLast = (name: string) => name === "config.json" || name === MLC
  for (const name of [...names.filter((name) => !isLast(name)), ...names.filter(isLast)])
    await rename(join(aside, name), join(path, name))
}

async function makeAside(parent: string, path: string): Promise<string> {
  const prefix = join(parent, `.${basename(path)}.partial-`)
  makeFolder(parent)
  await sweep(prefix)
  return mkdtemp(prefix)
}

/** In a folder that is being written: on which machine, and by which process. */
const WRITER = ".writer"

/** Folders that this process is writing. */
const active = new Set<string>()

/** Takes away what killed processes of this machine left of the same output. A folder that says no such thing is not ours. */
async function sweep(prefix: string): Promise<void> {
  for (const name of await readdir(dirname(prefix))) {
    const left = join(dirname(prefix), name)
    if (!left.startsWith(prefix) || active.has(left)) continue
    const writer = await readFile(join(left, WRITER), "utf8").catch(() => "")
    const [host, pid] = writer.split(" ")
    if (host !== hostname() || !(Number(pid) > 0)) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid)))
      await rm(left, { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error
}

/** mlc-chat-config.json, with the fields that mlc-config.ts reads back. */
function chatConfig(model: Model, format: FormatName): object {
  const { architecture, config, fields, texts } = model
  const { shapes, embedding } = config
  const window = commonWindow(config)
  const isAll = window === undefined && !embedding.positions?.skipped
  const { endTokens, beginToken, sampling } = texts
  return {
    version: "0.1.0",
    model_type: architecture,
    quantization: format,
    model_config: decoderFields(config, fields),
    vocab_size: shapes.vocabulary,
    context_window_size: isAll ? shapes.context : -1,
    sliding_window_size: window ?? -1,
    prefill_chunk_size: Math.min(shapes.context, 2048),
    attention_sink_size: window === undefined ? -1 : config.sinks,
    tensor_parallel_shards: 1,
    pipeline_parallel_stages: 1,
    temperature: sampling.temperature ?? 1,
    presence_penalty: sampling.presencePenalty ?? 0,
    frequency_penalty: sampling.frequencyPenalty ?? 0,
    repetition_penalty: sampling.repetitionPenalty ?? 1,
    top_p: sampling.topP ?? 1,
    tokenizer_files: ["tokenizer.json", "tokenizer_config.json"],
    bos_token_id: beginToken ?? null,
    eos_token_id: endTokens,
    model_task: "chat",
  }
}

/** Of heads only what theirs says, in the same file. */
function headConfig(head: Head, format: FormatName): object {
  return {
    version: "0.1.0",
    model_type: head.kind,
    quantization: format,
    model_config: headFields(head),
    vocab_size: head.config.shapes.vocabulary,
  }
}

function headFields(head: Head): object {
  switch (head.kind) {
    case "eagle":
      return { ...decoderFields(head.config, head.fields), bias: head.config.joinBias }
    case "eagle3":
      return decoderFields(head.config, head.fields)
    case "medusa": {
      const { heads, layers, shapes } = head.config
      const { hidden: hidden_size, vocabulary: vocab_size } = shapes
      return { medusa_num_heads: heads, medusa_num_layers: layers, hidden_size, vocab_size }
    }
  }
}

/** The fields that the configuration was read from, and beside them those that MLC's programs ask for by name. */
function decoderFields({ shapes, blocks, embedding, head }: ModelConfig, fields: Json): object {
  const { quantization_config: _, ...others } = fields
  const norm = blocks[0]?.norm
  return {
    ...others,
    hidden_size: shapes.hidden,
    intermediate_size: fields.intermediate_size ?? shapes.intermediate, // of Llama 4 it is an expert's
    num_attention_heads: shapes.heads,
    num_hidden_layers: shapes.layers,
    num_key_value_heads: shapes.kvHeads,
    ...(norm?.kind === "rms" && { rms_norm_eps: norm.epsilon }),
    vocab_size: shapes.vocabulary,
    head_dim: fields.head_dim ?? shapes.headDim, // of Mamba 2 it is that of a state
    tie_word_embeddings: head.tied,
    ...baseOf(fields),
    max_position_embeddings: shapes.context + (embedding.positions?.skipped ?? 0),
    tensor_parallel_shards: 1,
  }
}

/** The theta of either spelling, if it is given, under MLC's name. */
function baseOf({ rope_parameters: parameters, rope_theta }: Json): object {
  const theta = rope_theta ?? (isObject(parameters) ? parameters.rope_theta : undefined)
  return theta === undefined ? {} : { position_embedding_base: theta }
}
