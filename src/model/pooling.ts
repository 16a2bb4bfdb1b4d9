// How the rows of a text become one: what sentence-transformers writes beside a model that embeds (modules.json, and a folder for
// each of its modules). https://sbert.net/docs/package_reference/sentence_transformer/models.html

import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { Fields } from "./fields.ts"
import { Folder } from "./folder.ts"
import { openSafetensors } from "./weights/safetensors.ts"
import { readFloats, type Weights } from "./weights/weights.ts"

export interface Pooling {
  /** Which rows: their mean, the first, or the last. */
  mode: "mean" | "cls" | "lasttoken"
  /** Matrices that the pooled row goes through, one after the other. */
  dense: readonly Dense[]
  /** By name, what is put before a text that is read for a purpose. */
  prompts: Readonly<Record<string, string>>
}

/** activation(weight * row + bias), and of that a LayerNorm, if there is one. */
export interface Dense {
  rows: number
  columns: number
  weight: Float32Array // [rows, columns]
  bias: Float32Array | undefined // [rows]
  activation: "none" | "tanh" | "gelu" | "relu"
  norm?: { weight: Float32Array; bias: Float32Array | undefined; epsilon: number }
}

const MODULES = "modules.json"
const PROMPTS = "config_sentence_transformers.json"

const MODES = {
  pooling_mode_mean_tokens: "mean",
  pooling_mode_cls_token: "cls",
  pooling_mode_lasttoken: "lasttoken",
} as const

/** Of torch.nn.modules. */
const ACTIVATIONS: Readonly<Record<string, Dense["activation"]>> = {
  Identity: "none",
  Tanh: "tanh",
}

/** @returns undefined for a folder that says nothing of it @throws `model_broken` for what cannot be computed */
export async function readPooling(folder: Folder): Promise<Pooling | undefined> {
  if (!(await folder.has(MODULES))) return undefined
  const modules = await modulesOf(folder)
  let mode: Pooling["mode"] | undefined
  let isPromptPooled = true
  const dense: Dense[] = []
  for (const { type, path } of modules) {
    const kind = type.split(".").at(-1)
    if (kind === "Pooling") {
      const fields = await fieldsOf(folder, path)
      mode = readMode(folder, path, fields)
      isPromptPooled = fields.flag("include_prompt", true)
    } else if (kind === "Dense") dense.push(await readDense(folder, path))
    else if (kind !== "Transformer" && kind !== "Normalize")
      throw folder.broken(MODULES, `the module ${type} is not supported`)
  }
  if (mode === undefined) throw folder.broken(MODULES, "no module pools")
  // A prompt whose own rows are left out is not known.
  return { mode, dense, prompts: isPromptPooled ? await readPrompts(folder) : {} }
}

async function readPrompts(folder: Folder): Promise<Pooling["prompts"]> {
  const json = (await folder.jsonIfThere(PROMPTS)) ?? {}
  const prompts = new Fields(json, (what) => folder.broken(PROMPTS, what)).object("prompts")
  const entries = Object.entries(prompts?.json ?? {})
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  )
}

/** Files of a folder that say it, as far as they are there. */
export async function poolingFiles(folder: Folder): Promise<string[]> {
  if (!(await folder.has(MODULES))) return []
  const modules = await modulesOf(folder)
  const files = modules.flatMap(({ type, path }) => {
    if (path === "") return []
    return type.endsWith("Dense")
      ? [`${path}/config.json`, `${path}/model.safetensors`]
      : [`${path}/config.json`]
  })
  return [MODULES, PROMPTS, ...files]
}

/** What `readPooling` reads of a folder, of a model whose rows go through no matrix. */
export async function writePooling({ mode }: Pooling, directory: string): Promise<void> {
  const path = "1_Pooling"
  const name = Object.entries(MODES).find(([, known]) => known === mode)![0]
  const modules = [
    { type: "sentence_transformers.models.Transformer", path: "" },
    { type: "sentence_transformers.models.Pooling", path },
  ]
  await mkdir(join(directory, path), { recursive: true })
  await writeFile(join(directory, path, "config.json"), JSON.stringify({ [name]: true }))
  await writeFile(join(directory, MODULES), JSON.stringify(modules))
}

async function modulesOf(folder: Folder): Promise<{ type: string; path: string }[]> {
  const broken = () => folder.broken(MODULES, "it is no list of modules with type and path")
  const text = await folder.text(MODULES)
  let list: unknown
  try {
    list = JSON.parse(text)
  } catch {
    throw broken()
  }
  if (!Array.isArray(list)) throw broken()
  return list.map((entry: { type?: unknown; path?: unknown } | null) => {
    const { type, path } = entry ?? {}
    if (typeof type !== "string" || typeof path !== "string" || !/^[\w-]*$/.test(path))
      throw broken()
    return { type, path }
  })
}

async function fieldsOf(folder: Folder, path: string): Promise<Fields> {
  const file = `${path}/config.json`
  return new Fields(await folder.json(file), (what) => folder.broken(file, what))
}

function readMode(folder: Folder, path: string, fields: Fields): Pooling["mode"] {
  const chosen = Object.keys(fields.json).filter(
    (name) => name.startsWith("pooling_mode_") && fields.json[name] === true,
  )
  const [first, ...others] = chosen
  if (first !== undefined && others.length === 0 && first in MODES)
    return MODES[first as keyof typeof MODES]
  const known = Object.keys(MODES).join(", ")
  throw folder.broken(
    `${path}/config.json`,
    `it pools by ${chosen.join(" and ") || "nothing"}; one of ${known} is supported`,
  )
}

async function readDense(folder: Folder, path: string): Promise<Dense> {
  const fields = await fieldsOf(folder, path)
  const [columns, rows] = [fields.count("in_features"), fields.count("out_features")]
  const name = fields.text("activation_function", "torch.nn.modules.linear.Identity")
  const activation = ACTIVATIONS[name.split(".").at(-1)!]
  if (!activation)
    throw folder.broken(`${path}/config.json`, `activation_function ${name} is not supported`)
  const weights = await openSafetensors(new Folder(join(folder.path, path)))
  try {
    const isBiased = fields.json.bias !== false
    return await readMatrix(weights, "linear", { rows, columns, activation, isBiased })
  } finally {
    await weights.close()
  }
}

/** A small matrix of the weights, and its bias. */
export async function readMatrix(
  weights: Weights,
  name: string,
  {
    rows,
    columns,
    activation,
    isBiased = true,
  }: Pick<Dense, "rows" | "columns" | "activation"> & { isBiased?: boolean },
): Promise<Dense> {
  const bias = isBiased ? await readFloats(weights, `${name}.bias`, rows, 1) : undefined
  const weight = await readFloats(weights, `${name}.weight`, rows, columns)
  return { rows, columns, activation, weight, bias }
}

/** A LayerNorm over as many columns. */
export async function readNorm(
  weights: Weights,
  name: string,
  columns: number,
  { epsilon, isBiased }: { epsilon: number; isBiased: boolean },
): Promise<NonNullable<Dense["norm"]>> {
  const weight = await readFloats(weights, `${name}.weight`, columns, 1)
  const bias = isBiased ? await readFloats(weights, `${name}.bias`, columns, 1) : undefined
  return { weight, bias, epsilon }
}
