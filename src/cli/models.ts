// `sinter pull`, `list`, `show` and `rm`: the models of the hub's cache, which other programs use as well. Ollama's are listed and
// shown; its own command fetches them and takes them away.

import { basename } from "node:path"
import { hubCache } from "../hub/cache.ts"
import { fetchModel, pullModel, titleOf } from "../hub/hub.ts"
import { downloadedModels, filesOfModel, removeModel } from "../hub/models.ts"
import { parseName, type RemoteName } from "../hub/names.ts"
import {
  describeOllamaModel,
  type OllamaModel,
  ollamaModels,
  parseOllamaName,
  shortOllamaName,
} from "../hub/ollama.ts"
import { downloadProgress, size } from "./progress.ts"
import { table } from "./table.ts"
import { quoted, refuse } from "./values.ts"

export async function pull(name: string): Promise<void> {
  const path = await pullModel(remote("pull", name), {
    onDownload: downloadProgress(process.stderr),
  })
  console.log(path)
}

export async function list(): Promise<void> {
  const models = await downloadedModels()
  const stored = ollamaModels()
  const rows = [...models, ...stored].map(({ name, bytes, changed, whole }) => [
    name,
    whole ? size(bytes) : `${size(bytes)}, not all of it`,
    changed.toISOString().slice(0, 10),
  ])
  if (rows.length > 0) console.log(`${table([["model", "size", "downloaded"], ...rows])}\n`)
  console.log(inAll(hubCache(), models.length, sum(models)))
  for (const store of new Set(stored.map(({ store }) => store))) {
    const its = stored.filter((model) => model.store === store)
    const files = new Map(its.flatMap(({ files }) => files.map((file) => [file.path, file])))
    console.log(inAll(store, its.length, sum(files.values())))
  }
}

function inAll(folder: string, count: number, bytes: number): string {
  return `${folder}: ${count} ${count === 1 ? "model" : "models"}, ${size(bytes)}`
}

function sum(all: Iterable<{ bytes: number }>): number {
  return [...all].reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Asks nobody: what of it is not here is not shown. */
export async function show(name: string): Promise<void> {
  const stored = parseOllamaName(name)
  if (stored) return showStored(describeOllamaModel(stored))
  const model = remote("show", name)
  const files = filesOfModel(model)
  console.log(`${table(files.map(({ file, bytes }) => [file, size(bytes)]))}\n`)
  const path = await fetchModel(model, { env: { ...process.env, HF_HUB_OFFLINE: "1" } }).catch(
    () => undefined,
  )
  console.log(`${titleOf(model)}: ${path ?? "not all of it is here; sinter pull fetches the rest"}`)
}

function showStored({ name, files, whole }: OllamaModel): void {
  console.log(`${table(files.map(({ path, bytes }) => [basename(path), size(bytes)]))}\n`)
  console.log(`${name}: ${whole ? files[0]!.path : "not all of it is here"}`)
}

export async function rm(name: string): Promise<void> {
  const model = remote("rm", name)
  const bytes = removeModel(model)
  console.log(`removed ${titleOf(model)}, ${size(bytes)}`)
}

function remote(command: string, name: string): RemoteName {
  const stored = parseOllamaName(name)
  if (stored)
    refuse(
      command,
      `Ollama's store is its own; ollama ${command} ${shortOllamaName(stored)} does that.`,
    )
  return (
    parseName(name) ??
    refuse(command, `expected ORG/NAME, hf:NAME or an address, got ${quoted(name)}.`)
  )
}
