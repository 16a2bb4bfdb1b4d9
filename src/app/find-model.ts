// Where a model is, by whatever it is called: a path or a name of this machine first, then one of the hub, which is downloaded if
// it is not here. What begins with ollama: is looked for in Ollama's store alone.

import { existsSync, statSync } from "node:fs"
import { resolve } from "node:path"
import { Problem, printable, problem } from "../errors.ts"
import { fetchModel, type HubOptions } from "../hub/hub.ts"
import { hasScheme, parseName, parseSchemed } from "../hub/names.ts"
import { findOllamaAdapters, findOllamaModel, parseOllamaName } from "../hub/ollama.ts"
import { isMmproj } from "../hub/selection.ts"
import type { Log } from "../log.ts"
import { isAdapter } from "../model/adapters/files.ts"
import { baseOf } from "../model/adapters/open-adapter.ts"
import { Folder } from "../model/folder.ts"
import { headKindOf, headTitles } from "../model/head.ts"
import { locateModel, modelsAt } from "../model/locate.ts"
import { openModel } from "../model/model.ts"

/** A model, and what changes its weights. */
export interface Found {
  path: string
  adapters: readonly string[]
  /** The GGUF file that it sees with, where that does not lie in its folder. */
  ownMmproj?: string
  /** Of an adapter that was named as a model its folder's, of Ollama's model its own; absent: the model's folder or file says it. */
  name?: string
}

/**
 * @param name of an adapter it stands for the model that this was trained on, changed by it
 * @param lora more adapters, each by its path or a name of its own; a model of Ollama's stands for the adapters in it
 * @throws `model_missing`, `base_missing`, or the sentences of a hub where it could be one of its names
 */
export async function findModel(
  name: string,
  options: HubOptions = {},
  lora: readonly string[] = [],
): Promise<Found> {
  const found = await find(name, options)
  const more: string[] = []
  for (const adapter of lora) more.push(...(await findAdapters(adapter, options)))
  if (!isAdapter(found.path)) return { ...found, adapters: [...found.adapters, ...more] }
  const base = await findBase(found.path, options)
  const changes = [...base.adapters, found.path, ...more]
  return { ...base, adapters: changes, name: new Folder(found.path).name }
}

/** The file that a GGUF model is to see with: a path stays one, and ORG/NAME:FILE or an address is downloaded unless it is here. */
export async function findMmproj(name: string, options: HubOptions = {}): Promise<string> {
  const remote = existsSync(name) ? undefined : parseName(name)
  if (remote?.kind === "address") return fetchModel(remote, options)
  if (remote?.file === undefined) return name
  if (isMmproj(remote.file)) return fetchModel(remote, options)
  const words = `${printable(remote.file)} is no mmproj file by its name; name one that is.`
  throw problem("option_invalid", { option: "--mmproj", problem: words })
}

async function find(name: string, options: HubOptions): Promise<Found> {
  const stored = parseOllamaName(name)
  return stored
    ? findOllamaModel(stored, options.env)
    : { path: await findPath(name, options), adapters: [] }
}

/** @throws `option_invalid` for a model of Ollama's that has several, or none */
export async function findAdapter(name: string, options: HubOptions): Promise<string> {
  const [adapter, ...others] = await findAdapters(name, options)
  if (adapter !== undefined && others.length === 0) return adapter
  const words = `${printable(name)} has ${others.length > 0 ? "several adapters" : "no adapter"}; name one.`
  throw problem("option_invalid", { option: "--lora-modules", problem: words })
}

async function findAdapters(name: string, options: HubOptions): Promise<string[]> {
  const stored = parseOllamaName(name)
  return stored ? findOllamaAdapters(stored, options.env) : [await findPath(name, options)]
}

/** One that is here is meant, though a model of a hub might be called so. */
const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false

async function findPath(name: string, options: HubOptions): Promise<string> {
  if (hasScheme(name)) return fetchModel(parseSchemed(name), options)
  try {
    return locateModel(name)
  } catch (error) {
    const remote = isFile(name) ? undefined : parseName(name)
    if (!remote || !(error instanceof Problem)) throw error
    return fetchModel(remote, options)
  }
}

/**
 * Where the model of an adapter is: a path is taken from here, where somebody typed it when that was trained, or from the adapter's
 * folder. An address that a stranger wrote is not followed, and a name of the hub is.
 */
async function findBase(adapter: string, options: HubOptions): Promise<Found> {
  const base = await baseOf(adapter)
  const lost = (why: string) =>
    problem("base_missing", { adapter, base: printable(base), problem: why })
  if (hasScheme(base)) throw lost("Addresses are not followed.")
  const beside = resolve(adapter, base)
  try {
    const isBeside = base.startsWith(".") && existsSync(beside)
    const found = await find(isBeside ? beside : base, options)
    if (!isAdapter(found.path)) return found
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    throw lost(error.message)
  }
  throw lost("It is an adapter itself.")
}

/**
 * The models to serve where these were named: a folder of models stands for those in it that can be served, and the log says which
 * cannot. What was named itself is not looked at yet.
 * @throws `model_broken` for a folder of models of which none can be served, of the first of them
 */
export async function findServed(given: readonly string[], log: Log): Promise<string[]> {
  const served: string[] = []
  for (const name of given) {
    const listed = modelsAt(name)
    served.push(...(listed.includes(name) ? listed : await servableOf(listed, log)))
  }
  return served
}

async function servableOf(listed: readonly string[], log: Log): Promise<string[]> {
  const servable: string[] = []
  const offline = { env: { ...process.env, HF_HUB_OFFLINE: "1" } } // nobody named what adapters were trained on
  const refused: { path: string; error: Problem }[] = []
  for (const path of listed) {
    try {
      const { path: place, ...changes } = await findModel(path, offline)
      await (await openModel(place, { verify: false, ...changes })).close()
      servable.push(path)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      refused.push({ path, error })
    }
  }
  if (servable.length === 0) throw refused[0]!.error
  for (const { path, error } of refused) {
    const kind = await headKindOf(path).catch(() => undefined) // what is wrong with it has been said
    const why = kind
      ? `it holds ${headTitles[kind]}, which --additional-models takes beside its model.`
      : error.message
    log.warn(`${path} is passed over: ${why}`)
  }
  return servable
}
