// Which files of a repository are a model, and which of them are read: a folder in safetensors, one that was compiled, an adapter, or
// one GGUF file with its parts and what it sees with. Code, pickles, other formats of the same weights and libraries are never among them.

import { printable, problem } from "../errors.ts"
import { otherFormatAmong } from "./other-formats.ts"

export interface Selection {
  /** Those that the model needs; the small ones, which say what it is, come first. */
  files: string[]
  /** What is opened: the snapshot's folder (""), or a GGUF file in it. */
  model: string
  /** Of the files the one that it sees with, and without which it is whole all the same; absent: there is none. */
  mmproj?: string
}

/** Files that say what a model is. Those that a folder does not have are not missed. */
const TEXTS = [
  "config.json",
  "generation_config.json",
  "quantize_config.json",
  "hf_quant_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "chat_template.jinja",
  "chat_template.json",
  "preprocessor_config.json",
  "processor_config.json",
]
/** Templates for a purpose, in a folder of their own. */
const NAMED_TEMPLATE = /^additional_chat_templates\/[^/]+\.jinja$/
/** Read where there is no tokenizer.json. */
const TOKENIZERS = ["tekken.json", "tokenizer.model", "tiktoken.model"]
/** What a model that embeds says of it: modules, in folders of their own. */
const MODULES = "modules.json"
const POOLING =
  /^(modules\.json|config_sentence_transformers\.json|\d+_(Pooling|Dense)\/config\.json|\d+_Dense\/model\.safetensors)$/
const MLC = "mlc-chat-config.json"
const MLC_TABLES = ["tensor-cache.json", "ndarray-cache.json"]
/** Where a compiled folder says what it was made from. */
const ORIGIN = "sinter.json"
/** What a compiled model sees or hears with, in a folder of its own; no library. */
const TOWER =
  /^(vision|hearing)\/((tokenizer_|preprocessor_|processor_)?config\.json|tensor-cache\.json|params_shard_\d+\.bin)$/
/** What was trained on top of a model, as PEFT calls its weights and as MLX does. */
export const ADAPTER = "adapter_config.json"
export const ADAPTER_WEIGHTS = ["adapter_model.safetensors", "adapters.safetensors"] as const
export const SINGLE = "model.safetensors"
export const INDEX = "model.safetensors.index.json"
/** How Mistral calls its own: what describes them, and the weights, in one file or several. */
export const PARAMS = "params.json"
export const CONSOLIDATED = {
  single: "consolidated.safetensors",
  index: "consolidated.safetensors.index.json",
} as const

/** Those without which a snapshot is not whole, though nobody has written down what it should hold. */
export const ESSENTIAL = ["tokenizer_config.json"]

/**
 * The model of a repository.
 * @param paths all of its files
 * @param file which of several GGUF models: the name of its type, or its path
 * @param readIndex the text of a file that lists the shards of a model in safetensors
 * @throws `hub_unfit`, and `hub_choice` where there are several
 */
export async function selectModel(
  repository: string,
  paths: readonly string[],
  file: string | undefined,
  readIndex: (file: string) => Promise<string>,
): Promise<Selection> {
  const unfit = (what: string) =>
    problem("hub_unfit", { model: repository, problem: printable(what) })
  const has = (path: string) => paths.includes(path)
  if (file === undefined) {
    const pooling = has(MODULES) ? paths.filter((path) => POOLING.test(path)) : []
    const named = paths.filter((path) => NAMED_TEMPLATE.test(path))
    const texts = [...TEXTS.filter(has), ...named, ...pooling]
    const vocabulary = has("tokenizer.json") ? [] : TOKENIZERS.filter(has)
    const folder = (weights: string[]) => ({
      files: [...texts, ...vocabulary, ...weights],
      model: "",
    })
    if (has(MLC)) {
      const shards = paths.filter(
        (path) => /^params_shard_\d+\.bin$/.test(path) || TOWER.test(path),
      )
      return folder([MLC, ...[...MLC_TABLES, ORIGIN].filter(has), ...shards])
    }
    const weights = async (single: string, index: string) => {
      if (has(index)) {
        const shards = shardsOf(await readIndex(index), index, unfit)
        const lost = shards.find((shard) => !has(shard))
        if (!lost) return [index, ...shards]
        if (!has(single)) throw unfit(`${index} names ${lost}, which is not there`)
      }
      return has(single) ? [single] : undefined
    }
    const plain = has("config.json") && (await weights(SINGLE, INDEX))
    if (plain) return folder(plain)
    const own = has(PARAMS) && (await weights(CONSOLIDATED.single, CONSOLIDATED.index))
    if (own && ggufGroups(paths).length === 0) return folder([PARAMS, ...own])
    const adapter = ADAPTER_WEIGHTS.find(has)
    if (has(ADAPTER) && adapter && ggufGroups(paths).length === 0) return folder([ADAPTER, adapter])
  }
  return ggufOf(repository, paths, file)
}

function shardsOf(index: string, file: string, unfit: (what: string) => Error): string[] {
  let names: unknown[] = []
  try {
    names = Object.values(JSON.parse(index).weight_map)
  } catch {
    throw unfit(`${file} cannot be read`)
  }
  const shards = [...new Set(names)].filter((name) => typeof name === "string")
  if (shards.length === 0) throw unfit(`${file} names no file`)
  return shards.sort()
}

/** Whether a file is all of a model, or the first part, by its name: GGUF, or as whisper.cpp's are called. */
export function isModelFile(path: string): boolean {
  return path.endsWith(".gguf") || WHISPER.test(path)
}

const WHISPER = /(?:^|\/)ggml-[^/]*\.bin$/

/** One model as GGUF, in one file or several, or as a file of whisper.cpp. */
export interface GgufGroup {
  /** How it is asked for: its type where its name ends in one, else its name. */
  tag: string
  files: string[]
}

const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/
const TYPE =
  /(?:^|[-._])((?:UD[-_])?(?:I?Q\d+(?:_[A-Z\d]+)*|TQ\d_\d|BF16|F16|F32|FP16|FP32|(?:MX|NV)FP4(?:_[A-Z\d]+)*))$/i

/** Projectors of images and tables of importance lie beside models, and are none. */
export function isBeside(name: string): boolean {
  return /mmproj|imatrix/i.test(name)
}

/** What a GGUF model may see with, by its name. */
export const isMmproj = (name: string) => /mmproj[^/]*\.gguf$/i.test(name)

/** Types of what sees, as far as they are told apart: halves are small and exact, and most devices have them. */
const SEEING_TYPES = ["F16", "FP16", "BF16", "F32", "FP32"]

/** What GGUF models of a folder see with, by its names: of files that differ in their type alone one, f16 before bf16, f32 and others. */
export function mmprojsAmong(names: readonly string[]): string[] {
  const groups = new Map<string, { name: string; rank: number }>()
  for (const name of [...names].sort()) {
    if (!isMmproj(name)) continue
    const whole = name.replace(/\.gguf$/i, "")
    const stem = whole.replace(TYPE, "")
    const at = SEEING_TYPES.indexOf(TYPE.exec(whole)?.[1]?.toUpperCase() ?? "")
    const rank = at < 0 ? SEEING_TYPES.length : at
    if (rank < (groups.get(stem)?.rank ?? Infinity)) groups.set(stem, { name, rank })
  }
  return [...groups.values()].map(({ name }) => name)
}

/** What a model among these paths sees with: in its own folder, else in the outermost one; none where there are several. */
function mmprojOf(model: string, paths: readonly string[]): string | undefined {
  const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/") + 1)
  for (const folder of new Set([folderOf(model), ""])) {
    const own = mmprojsAmong(paths.filter((path) => folderOf(path) === folder))
    if (own.length > 0) return own.length === 1 ? own[0] : undefined
  }
  return undefined
}

/** The models that a repository has as GGUF; where it has none, as files of whisper.cpp: older language models were called so, too. */
export function ggufGroups(paths: readonly string[]): GgufGroup[] {
  const groups = new Map<string, string[]>()
  const isGguf = paths.some((path) => path.endsWith(".gguf"))
  for (const path of [...paths].sort()) {
    const name = path.split("/").at(-1)!
    if (!(isGguf ? name.endsWith(".gguf") : isModelFile(name)) || isBeside(name)) continue
    const stem = path.replace(SPLIT, "").replace(/\.(gguf|bin)$/, "")
    groups.set(stem, [...(groups.get(stem) ?? []), path])
  }
  return [...groups].map(([path, files]) => {
    const stem = path.split("/").at(-1)!
    return { tag: TYPE.exec(stem)?.[1]?.toUpperCase() ?? stem, files }
  })
}

function ggufOf(repository: string, paths: readonly string[], file: string | undefined): Selection {
  const groups = ggufGroups(paths)
  const unfit = (what: string) =>
    problem("hub_unfit", { model: repository, problem: printable(what) })
  // By its path what a model is to see with can be named, too.
  if (file !== undefined && paths.includes(file) && isMmproj(file))
    return { files: [file], model: file }
  if (groups.length === 0) throw unfit(whyNone(paths, file))
  const chosen = file === undefined ? groups : groupsMeant(groups, file)
  if (chosen.length === 0)
    throw choiceOf(repository, `has no ${file} among its ${kindOf(groups)}`, groups)
  const { files } = onlyOne(repository, chosen, file)!
  const [, , count = "1"] = SPLIT.exec(files[0]!) ?? []
  if (files.length !== Number(count))
    throw unfit(`${files[0]} is the first of ${Number(count)} parts, and ${files.length} are there`)
  const [model] = files as [string]
  const mmproj = mmprojOf(model, paths)
  return mmproj === undefined ? { files, model } : { files: [...files, mmproj], model, mmproj }
}

/** @throws `hub_choice` where there are several */
export function onlyOne(
  repository: string,
  chosen: readonly GgufGroup[],
  file: string | undefined,
): GgufGroup | undefined {
  if (chosen.length <= 1) return chosen[0]
  const called = file === undefined ? "" : ` called ${file}`
  throw choiceOf(repository, `has ${chosen.length} ${kindOf(chosen)}${called}`, chosen)
}

const kindOf = ([first]: readonly GgufGroup[]) =>
  first?.files[0]?.endsWith(".bin") ? "models of whisper.cpp" : "GGUF models"

function choiceOf(repository: string, what: string, groups: readonly GgufGroup[]): Error {
  const names = groups.map((group) => nameAmong(groups, group)).join(", ")
  return problem("hub_choice", { model: repository, problem: what, names })
}

/** What a group is asked for by: its tag, or a path where several have that. */
export function nameAmong(groups: readonly GgufGroup[], { tag, files }: GgufGroup): string {
  return groupsMeant(groups, tag).length === 1 ? tag : files[0]!
}

export function groupsMeant(groups: readonly GgufGroup[], wanted: string): GgufGroup[] {
  return groups.filter(
    ({ tag, files }) => tag.toUpperCase() === wanted.toUpperCase() || files.includes(wanted),
  )
}

function whyNone(paths: readonly string[], file: string | undefined): string {
  if (file !== undefined) return `there is no GGUF file in it, ${file} or another`
  if (paths.some((path) => /^pytorch_model.*\.bin$/.test(path)))
    return "its weights are pickles (pytorch_model.bin), which may run code when they are read; look for a copy in safetensors or GGUF"
  const other = otherFormatAmong(paths)
  const none = "there are neither weights in safetensors with a config.json, nor a GGUF file"
  return other ? `${none}; ${other}` : none
}
