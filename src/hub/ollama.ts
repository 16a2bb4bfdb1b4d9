// Ollama's store on this disk, for reading alone: a name goes in, the files of a model come out as they lie there. Ollama's own
// program fetches models, changes them and takes them away.
//
//     OLLAMA_MODELS/
//       manifests-v2/HOST/NAMESPACE/NAME/TAG   since Ollama 0.40: a link to a blob, which holds a manifest or a list of some
//       manifests/HOST/NAMESPACE/NAME/TAG      a manifest: JSON that names the model's layers by type, digest and size
//       blobs/sha256-HEX                       a layer's bytes, or a manifest's
//
// Its own registry is registry.ollama.ai, and ollama.com in manifests-v2, where the colon before a port is %3A. All of it is
// untrusted: a manifest names blobs by their digests and nothing else, and no link leads out of these three folders.
// https://github.com/ollama/ollama/blob/main/manifest/paths.go and types/model/name.go

import { readdirSync, readFileSync, realpathSync, type Stats } from "node:fs"
import { basename, join, sep } from "node:path"
import { printable, problem, systemWords } from "../errors.ts"
import { home } from "../runtime/cache.ts"
import { type Environment, entriesOf, expanded, statsOf } from "./cache.ts"

/** As Ollama's own command takes it, all parts written out. */
export interface OllamaName {
  host: string
  namespace: string
  model: string
  tag: string
}

const REGISTRY = "registry.ollama.ai"
const REGISTRY_ALIAS = "ollama.com"
const NAMESPACE = "library"
const TAG = "latest"

/** A model by its manifest. */
interface Entry {
  name: OllamaName
  /** The folder that holds manifests and blobs. */
  store: string
  manifest: string // path
}

/** What the manifest names; whether that is there, `checked` says. */
interface Stored extends Entry {
  changed: Date
  weights: Layer[]
  adapters: Layer[]
  /** What it sees with. */
  projectors: Layer[]
}

interface Layer {
  path: string
  bytes: number
}

/** Where Ollama keeps models: its user's, and on Linux those of the service that its installer sets up. */
export function ollamaStores(env: Environment = process.env): string[] {
  if (env.OLLAMA_MODELS) return [expanded(env.OLLAMA_MODELS)]
  const own = join(home(), ".ollama", "models")
  return process.platform === "linux" ? [own, "/usr/share/ollama/.ollama/models"] : [own]
}

const HOST_PART = /^\w[\w.:-]{0,349}$/
const NAMESPACE_PART = /^\w[\w-]{0,79}$/
const PART = /^\w[\w.-]{0,79}$/

/**
 * Reads `ollama:[[HOST/]NAMESPACE/]NAME[:TAG]`; undefined where a name begins otherwise.
 * @throws `name_invalid`
 */
export function parseOllamaName(text: string): OllamaName | undefined {
  const [scheme] = /^ollama:(?:\/\/)?/i.exec(text) ?? []
  if (scheme === undefined) return undefined
  const [, path = "", tag = TAG] = /^(.*?)(?::([^/:]*))?$/s.exec(text.slice(scheme.length)) ?? []
  const parts = path.split("/")
  const [model = "", namespace = NAMESPACE, host = REGISTRY] = parts.toReversed()
  const name = { host: isRegistry(host) ? REGISTRY : host, namespace, model, tag }
  if (parts.length <= 3 && isName(name)) return name
  throw problem("name_invalid", {
    name: printable(text),
    problem:
      "expected ollama:NAME, ollama:USER/NAME or ollama:HOST/USER/NAME, then :TAG where it matters",
  })
}

function isRegistry(host: string): boolean {
  return [REGISTRY, REGISTRY_ALIAS].includes(host.toLowerCase())
}

function isName({ host, namespace, model, tag }: OllamaName): boolean {
  const isHost = HOST_PART.test(host) && NAMESPACE_PART.test(namespace)
  return isHost && PART.test(model) && PART.test(tag)
}

/** The shortest that means the same to Ollama. */
export function shortOllamaName({ host, namespace, model, tag }: OllamaName): string {
  const short = tag === TAG ? model : `${model}:${tag}`
  if (host !== REGISTRY) return `${host}/${namespace}/${short}`
  return namespace === NAMESPACE ? short : `${namespace}/${short}`
}

/**
 * A model as it lies in the store.
 * @throws `model_missing`, and `model_broken` for what its manifest says
 */
export function findOllamaModel(
  name: OllamaName,
  env: Environment = process.env,
): { path: string; adapters: string[]; ownMmproj?: string; name: string } {
  const stored = read(entryOf(name, env))
  const [projector] = stored.projectors
  return {
    path: checked(stored, onlyWeights(stored)),
    adapters: stored.adapters.map((layer) => checked(stored, layer)),
    ...(projector && { ownMmproj: checked(stored, projector) }),
    name: shortOllamaName(stored.name),
  }
}

/**
 * What changes a model's weights, for another model of the same kind.
 * @throws as above, and where nothing changes them
 */
export function findOllamaAdapters(name: OllamaName, env: Environment = process.env): string[] {
  const stored = read(entryOf(name, env))
  if (stored.adapters.length === 0)
    throw broken(stored.manifest, `it has no layer ${ADAPTER}; name a model that has one`)
  return stored.adapters.map((layer) => checked(stored, layer))
}

export interface OllamaModel {
  /** As it is typed to be served. */
  name: string
  store: string
  /** Those that are opened for it. Models may share them. */
  files: { path: string; bytes: number }[]
  bytes: number // of all of them
  changed: Date
  /** Whether all of it is there. */
  whole: boolean
}

/** The models that can be opened; what is kept elsewhere, in another format, or is no model is passed over. */
export function ollamaModels(env: Environment = process.env): OllamaModel[] {
  return entriesOfAll(env).flatMap((entry) => {
    try {
      return [describe(entry)]
    } catch {
      return []
    }
  })
}

/** @throws as `findOllamaModel`, but for files that are not there */
export function describeOllamaModel(name: OllamaName, env: Environment = process.env): OllamaModel {
  return describe(entryOf(name, env))
}

function describe(entry: Entry): OllamaModel {
  const stored = read(entry)
  const files = [onlyWeights(stored), ...stored.adapters, ...stored.projectors]
  return {
    name: `ollama:${shortOllamaName(stored.name)}`,
    store: stored.store,
    files,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    changed: stored.changed,
    whole: files.every(({ path, bytes }) => statsOf(path)?.size === bytes),
  }
}

// ------------------------------------------------------------------ manifests

/** A name means one manifest: of the first store that has one, and there of the newer layout. */
function entriesOfAll(env: Environment): Entry[] {
  const entries = new Map<string, Entry>()
  for (const store of ollamaStores(env))
    for (const entry of entriesIn(store)) {
      const key = shortOllamaName(entry.name)
      if (!entries.has(key)) entries.set(key, entry)
    }
  return [...entries.values()].sort((a, b) =>
    shortOllamaName(a.name) < shortOllamaName(b.name) ? -1 : 1,
  )
}

function entriesIn(store: string): Entry[] {
  return MANIFESTS.flatMap((folder) => {
    const names = below(join(store, folder), 4)
    return names.flatMap((parts) => {
      const [directory = "", namespace = "", model = "", tag = ""] = parts
      const host = directory.replace(/%3a/i, ":")
      const name = { host: isRegistry(host) ? REGISTRY : host, namespace, model, tag }
      const manifest = join(store, folder, ...parts)
      const isThere = isName(name) && !isShadow(name) && statsOf(manifest)?.isFile()
      return isThere ? [{ name, store, manifest }] : []
    })
  })
}

const MANIFESTS = ["manifests-v2", "manifests"]

/** All paths of so many parts. */
function below(folder: string, depth: number): string[][] {
  if (depth === 0) return [[]]
  return entriesOf(folder).flatMap((name) =>
    below(join(folder, name), depth - 1).map((parts) => [name, ...parts]),
  )
}

/** What Ollama 0.40 leaves of a model that it has converted, for older versions of itself. */
function isShadow({ model, tag }: OllamaName): boolean {
  return model === "llamacpp" && /^[0-9a-f]{64}$/.test(tag)
}

/** Case tells no names apart, as with Ollama, but the name as it was typed goes first. */
function entryOf(name: OllamaName, env: Environment): Entry {
  const [short, entries] = [shortOllamaName(name), entriesOfAll(env)]
  const named = (as: (text: string) => string) =>
    entries.find((entry) => as(shortOllamaName(entry.name)) === as(short))
  const entry = named((text) => text) ?? named((text) => text.toLowerCase())
  if (entry) return entry
  const names = entries.map((each) => `ollama:${shortOllamaName(each.name)}`)
  const found = names.length > 0 ? `what lies there: ${some(names)}` : "no models were found"
  throw problem("model_missing", {
    model: `ollama:${short}`,
    looked: ollamaStores(env)
      .map((store) => store + flawOf(store))
      .join(", "),
    found: `${found}; ollama pull ${short} fetches it`,
  })
}

const MAX_NAMES = 20

function some(names: readonly string[]): string {
  return [...names.slice(0, MAX_NAMES), ...(names.length > MAX_NAMES ? ["…"] : [])].join(", ")
}

function flawOf(store: string): string {
  try {
    readdirSync(store)
    return ""
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === "ENOENT"
      ? " which is not there"
      : ` which may not be read by this user (${code})`
  }
}

const MODEL = "application/vnd.ollama.image.model"
const ADAPTER = "application/vnd.ollama.image.adapter"
const PROJECTOR = "application/vnd.ollama.image.projector"
const LIST = "application/vnd.ollama.manifest.list.v2+json"

/** Those whose manifest is of a GGUF file, the one first that llama.cpp opens as well; MLX has another format. */
const RUNNERS = ["llamacpp", "ggml", "ollama", ""]

const MAX_ADAPTERS = 16 // files that are open at once

function read(entry: Entry): Stored {
  const { json, stats } = readManifest(entry, entry.manifest)
  const { manifest, layers } =
    json.mediaType === LIST
      ? childOf(entry, json)
      : { manifest: entry.manifest, layers: json.layers }
  if (!Array.isArray(layers)) throw damaged(entry, manifest, "it lists no layers")
  const blobs = (type: string) =>
    layers
      .filter((layer) => isObject(layer) && layer.mediaType === type)
      .map((layer) => layerOf({ ...entry, manifest }, layer))
  const adapters = blobs(ADAPTER)
  if (adapters.length > MAX_ADAPTERS)
    throw broken(manifest, `it has ${adapters.length} adapters, more than ${MAX_ADAPTERS}`)
  const [weights, projectors] = [blobs(MODEL), blobs(PROJECTOR)]
  return { ...entry, manifest, changed: stats.mtime, weights, adapters, projectors }
}

/** Of a list of manifests the one that is opened here. It stands there, or in a blob that is named there. */
function childOf(entry: Entry, { manifests }: Json): { manifest: string; layers: unknown } {
  const { manifest } = entry
  const children: Json[] = Array.isArray(manifests) ? manifests.filter(isObject) : []
  const runner = RUNNERS.find((each) => children.some(({ runner = "" }) => runner === each))
  const child = children.find((each) => (each.runner ?? "") === runner)
  if (!child) throw broken(manifest, `it lists no manifest of a GGUF file; ${ELSEWHERE}`)
  if (child.layers !== undefined) return { manifest, layers: child.layers }
  const path = blobOf(entry, child.digest)
  return { manifest: path, layers: readManifest(entry, path).json.layers }
}

function layerOf(entry: Entry, { digest, size }: Json): Layer {
  const path = blobOf(entry, digest)
  if (Number.isSafeInteger(size) && (size as number) >= 0) return { path, bytes: size as number }
  throw damaged(entry, entry.manifest, `it says no size of ${basename(path)}`)
}

function blobOf(entry: Entry, digest: unknown): string {
  const [, hex] = (typeof digest === "string" && DIGEST.exec(digest)) || []
  if (hex !== undefined) return join(entry.store, "blobs", `sha256-${hex.toLowerCase()}`)
  const what = "it names a blob by something else than sha256: and 64 hexadecimal digits"
  throw damaged(entry, entry.manifest, what)
}

const DIGEST = /^sha256[:-]([0-9a-fA-F]{64})$/

// The longest, of a model that MLX runs, have a layer for each tensor.
const MAX_MANIFEST = 8 << 20

function readManifest(entry: Entry, path: string): { json: Json; stats: Stats } {
  const stats = look(entry, path, [...MANIFESTS, "blobs"])
  if (stats.size > MAX_MANIFEST)
    throw damaged(entry, path, `it is ${stats.size} bytes long, no manifest`)
  try {
    const json: unknown = JSON.parse(readFileSync(path, "utf8"))
    if (isObject(json)) return { json, stats }
  } catch (error) {
    if (!(error instanceof SyntaxError))
      throw broken(path, `it cannot be read: ${systemWords(error as NodeJS.ErrnoException)}`)
  }
  throw damaged(entry, path, "it is no manifest: it holds no JSON object")
}

// ------------------------------------------------------------------ files

const ELSEWHERE =
  "the model is not kept here, or in another format; take another tag of it, or the model of the hub"

function onlyWeights({ manifest, weights }: Stored): Layer {
  const [layer, ...others] = weights
  if (!layer) throw broken(manifest, `it has no layer ${MODEL}: ${ELSEWHERE}`)
  if (others.length > 0)
    throw broken(
      manifest,
      `it has ${weights.length} layers ${MODEL}, and a model of one is opened; take the model of the hub`,
    )
  return layer
}

/** The path of a layer that is there, as long as its manifest says. */
function checked(stored: Stored, { path, bytes }: Layer): string {
  const { size } = look(stored, path, ["blobs"])
  if (size === bytes) return path
  throw damaged(stored, path, `it is ${size} bytes long, and its manifest says ${bytes}`)
}

/** @throws `model_broken` for what is no file, or a link that leads out of these folders of the store */
function look(entry: Entry, path: string, folders: readonly string[]): Stats {
  const stats = statsOf(path)
  if (!stats?.isFile()) throw damaged(entry, path, "it belongs to the model and is not there")
  const place = realpathSync(path)
  const isWithin = (folder: string) =>
    statsOf(folder) !== undefined && place.startsWith(realpathSync(folder) + sep)
  if (folders.some((folder) => isWithin(join(entry.store, folder)))) return stats
  throw broken(path, "it is a link that leads out of Ollama's store; put the file itself there")
}

function damaged({ name }: Entry, file: string, what: string): Error {
  return broken(file, `${what}; ollama pull ${shortOllamaName(name)} fetches it again`)
}

function broken(file: string, what: string): Error {
  return problem("model_broken", { file, problem: what })
}

type Json = Readonly<Record<string, unknown>>

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
