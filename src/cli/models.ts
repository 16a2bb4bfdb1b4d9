// `sinter pull`, `list`, `show` and `rm`: the models of the hub's cache, which other programs use as well.

import { hubCache } from "../hub/cache.ts"
import { fetchModel, pullModel, titleOf } from "../hub/hub.ts"
import { downloadedModels, filesOfModel, removeModel } from "../hub/models.ts"
import { parseName, type RemoteName } from "../hub/names.ts"
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
  const rows = models.map(({ name, bytes, changed, whole }) => [
    name,
    whole ? size(bytes) : `${size(bytes)}, not all of it`,
    changed.toISOString().slice(0, 10),
  ])
  if (rows.length > 0) console.log(`${table([["model", "size", "downloaded"], ...rows])}\n`)
  const bytes = models.reduce((sum, model) => sum + model.bytes, 0)
  console.log(
    `${hubCache()}: ${rows.length} ${rows.length === 1 ? "model" : "models"}, ${size(bytes)}`,
  )
}

/** Asks nobody: what of it is not here is not shown. */
export async function show(name: string): Promise<void> {
  const model = remote("show", name)
  const files = filesOfModel(model)
  console.log(`${table(files.map(({ file, bytes }) => [file, size(bytes)]))}\n`)
  const path = await fetchModel(model, { env: { ...process.env, HF_HUB_OFFLINE: "1" } }).catch(
    () => undefined,
  )
  console.log(`${titleOf(model)}: ${path ?? "not all of it is here; sinter pull fetches the rest"}`)
}

export async function rm(name: string): Promise<void> {
  const model = remote("rm", name)
  const bytes = removeModel(model)
  console.log(`removed ${titleOf(model)}, ${size(bytes)}`)
}

function remote(command: string, name: string): RemoteName {
  return (
    parseName(name) ??
    refuse(command, `expected ORG/NAME, hf:NAME or an address, got ${quoted(name)}.`)
  )
}
