// Where a model is looked for when it is given by name. A path that is there is taken as it is; a name is tried in the
// places where compiled models and downloads lie. What is not found is answered with where it was looked for, what keeps
// a place from being a model, and what lies there instead.

import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from "node:fs"
import { isAbsolute, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { codeRoot } from "../code-root.ts"
import { problem } from "../errors.ts"
import { otherFormat, otherFormatAmong } from "../hub/other-formats.ts"
import { ADAPTER, CONSOLIDATED, isBeside, mmprojsAmong, PARAMS } from "../hub/selection.ts"
import { cacheHome } from "../runtime/cache.ts"
import { MAGIC } from "./ggml/container.ts"
import { MLC } from "./mlc-config.ts"

export interface LocateOptions {
  cwd?: string
  env?: Readonly<Record<string, string | undefined>>
  /** The models that come with the package. */
  packaged?: string
}

/** A folder is a model's when it holds one of these, or one file that is a model. */
const CONFIGURATIONS = ["config.json", MLC, ADAPTER]

/**
 * The folder or the GGUF file of the model `name`: a path or a name.
 * @throws `model_missing`
 */
export function locateModel(name: string, options: LocateOptions = {}): string {
  const cwd = options.cwd ?? process.cwd()
  if (isAbsolute(name) || /^\.{1,2}([/\\]|$)/.test(name)) {
    const path = resolve(cwd, name)
    const isThere = isFolder(path) || isFile(path)
    if (isThere && !barAt(path)) return path // a folder without a configuration is opened, to be told what it lacks
    throw missing(name, [path], [resolve(path, "..")])
  }
  const roots = rootsOf(cwd, options)
  const tried = placesOf(name, roots)
  const match = tried.find(isModel)
  if (match) return match
  throw missing(
    name,
    tried,
    roots.map(({ folder }) => folder),
  )
}

/** The models in a folder that is none itself and bears no model's name, by their paths; else what was given. */
export function modelsAt(given: string, options: LocateOptions = {}): string[] {
  const cwd = options.cwd ?? process.cwd()
  const path = resolve(cwd, given)
  if (!isFolder(path) || [path, ...placesOf(given, rootsOf(cwd, options))].some(isModel))
    return [given]
  const names = list(path).filter((name) => isModel(join(path, name)) && isFirstPart(name))
  return names.length > 0 ? names.sort().map((name) => join(given, name)) : [given]
}

interface Root {
  folder: string
  /** The places within a model's own folder. */
  inside: string[]
}

function placesOf(name: string, roots: readonly Root[]): string[] {
  const places = roots.flatMap(({ folder, inside }) => inside.map((sub) => join(folder, name, sub)))
  return [...new Set(places)]
}

/** In this order. */
function rootsOf(cwd: string, options: LocateOptions): Root[] {
  const env = options.env ?? process.env
  const packaged = options.packaged ?? fileURLToPath(new URL("../models", codeRoot))
  const home = env.SINTER_HOME
  return [
    { folder: cwd, inside: ["."] },
    { folder: join(cwd, "dist"), inside: [".", "params"] },
    { folder: join(cwd, "dist", "prebuilt"), inside: ["."] },
    { folder: join(cwd, "models"), inside: ["."] },
    ...(home ? [{ folder: resolve(cwd, home), inside: ["."] }] : []),
    { folder: join(cacheHome(env), "sinter", "models"), inside: ["."] },
    { folder: packaged, inside: ["."] },
  ]
}

/** The one model that lies in a folder as a file, by the name of its first part. */
export function modelFileIn(folder: string): string | undefined {
  const files = modelFilesIn(folder)
  return files.length === 1 ? files[0] : undefined
}

/** All of them: GGUF, and whisper.cpp's. */
export function modelFilesIn(folder: string): string[] {
  return list(folder).filter((name) => isModelFile(join(folder, name)) && isFirstPart(name))
}

/** By its ending, or by that and its beginning: any file may end in .bin. */
function isModelFile(path: string): boolean {
  return path.endsWith(".gguf") || (path.endsWith(".bin") && isWhisperFile(path))
}

/** Whether it begins as a file of whisper.cpp does. */
export function isWhisperFile(path: string): boolean {
  if (!isFile(path)) return false
  try {
    const file = openSync(path, "r")
    try {
      const start = Buffer.alloc(MAGIC.length)
      readSync(file, start, 0, start.length, 0)
      return start.equals(MAGIC)
    } finally {
      closeSync(file)
    }
  } catch {
    return false // whoever opens it is told why
  }
}

/** What GGUF models there see with; of files that differ in their type alone one. */
export function mmprojsIn(folder: string): string[] {
  return mmprojsAmong(list(folder))
}

/** Not another part of a file that is split, nor what belongs to a model or was used to make it. */
function isFirstPart(name: string): boolean {
  return !/-(?!00001)\d{5}-of-\d{5}\.gguf$/.test(name) && !isBeside(name)
}

function isFile(path: string): boolean {
  return look(path)?.isFile() ?? false
}

function isFolder(path: string): boolean {
  return look(path)?.isDirectory() ?? false
}

function isModel(path: string): boolean {
  if (isFile(path)) return isModelFile(path)
  const has = (file: string) => isFile(join(path, file))
  return CONFIGURATIONS.some(has) || modelFileIn(path) !== undefined || holdsParams(has)
}

/** Mistral's own files: many a folder that is no model has a params.json. */
function holdsParams(has: (file: string) => boolean): boolean {
  return has(PARAMS) && Object.values(CONSOLIDATED).some(has)
}

/** What cannot be looked at (a file where a folder should be, a folder of somebody else's) is not there. */
function look(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

function missing(name: string, looked: readonly string[], roots: readonly string[]): Error {
  const models = [...new Set(roots)].flatMap((root) => {
    const names = modelsIn(root)
    return names.length > 0 ? [`${root} has ${names.join(", ")}`] : []
  })
  return problem("model_missing", {
    model: name,
    looked: looked.map((path) => path + flawOf(path)).join(", "),
    found: models.length > 0 ? models.join("; ") : "no models lie there",
  })
}

/** Why what lies at `path` is no model; nothing where nothing lies there. */
function flawOf(path: string): string {
  const bar = barAt(path)
  if (bar) return ` which may not be read by this user (${bar})`
  const other = look(path) && otherFormat(path, isFolder(path))
  if (other) return ` which is ${other}`
  if (isFile(path)) return " which is neither a .gguf file nor whisper.cpp's .bin"
  const several = modelFilesIn(path)
  if (several.length > 1)
    return ` which holds ${several.length} models (name one of ${several.join(", ")})`
  const lacks = `neither ${CONFIGURATIONS.join(", ")} nor one GGUF file or whisper.cpp's`
  if (!look(path)) return ""
  const held = otherFormatIn(path)
  return ` which is there but holds ${lacks}${held ? `; ${held}` : ""}`
}

/** What a folder holds of other programs. */
export function otherFormatIn(folder: string): string | undefined {
  return otherFormatAmong(list(folder))
}

/** What the system answers where this user may not look at what lies at `path`, or into it. */
function barAt(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK)
    statSync(join(path, CONFIGURATIONS[0]!))
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException
    if (["EACCES", "EPERM"].includes(code)) return code
  }
  return undefined
}

const MAX_NAMES = 20

function modelsIn(root: string): string[] {
  return someOf(list(root).filter((name) => isModel(join(root, name))))
}

/** As many names as a sentence may have. */
export function someOf(names: string[]): string[] {
  return names.length > MAX_NAMES ? [...names.slice(0, MAX_NAMES), "…"] : names
}

/** What lies in a folder; nothing where we may not look. */
function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
