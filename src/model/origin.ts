// Where a compiled folder's weights came from, in sinter.json beside them: what a stranger needs to fetch the same files, compare
// them and compile them again. It states and proves nothing; the checksums are there to be held against the source.
// How a library was built stands in the library itself (runtime/manifest.ts).

import { createHash } from "node:crypto"
import { writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { snapshotAround } from "../hub/cache.ts"
import type { FormatName } from "../runtime/format.ts"
import { version } from "../version.ts"
import { Folder, type Json } from "./folder.ts"
import type { Model } from "./model.ts"

const ORIGIN = "sinter.json"

interface Origin extends Sourced {
  sinter: string
  format: string
  /** What changed its weights, in this order. */
  adapters?: Sourced[]
  /** What the source, a compiled folder, says of itself. */
  from?: Json
}

/** Files, and where they came from. */
interface Sourced {
  /** Of the hub, or the name of a folder or a file; a path is nobody else's business. */
  source: { repository: string; revision: string } | { name: string }
  files: { file: string; bytes: number; sha256: string }[]
}

/** @param files of the model's folder, those that were read */
export async function writeOrigin(
  directory: string,
  { path, name, adapters = [] }: Pick<Model, "path" | "name"> & Partial<Pick<Model, "adapters">>,
  files: Iterable<string>,
  format: FormatName,
): Promise<void> {
  const folder = new Folder(path)
  const from = await readOrigin(folder)
  const changes: Sourced[] = []
  for (const adapter of adapters)
    changes.push(await sourced(adapter.folder, adapter.folder.name, adapter.files))
  const origin: Origin = {
    sinter: version,
    format,
    ...(await sourced(folder, name, files)),
    ...(changes.length > 0 && { adapters: changes }),
    ...(from && { from }),
  }
  await writeFile(join(directory, ORIGIN), `${JSON.stringify(origin, undefined, 1)}\n`)
}

async function sourced(folder: Folder, name: string, files: Iterable<string>): Promise<Sourced> {
  const snapshot = snapshotAround(folder.path)
  const sums: Sourced["files"] = []
  for (const file of [...new Set(files)].sort())
    if (await folder.has(file)) sums.push(await checksum(folder, file))
  const source = snapshot
    ? { repository: snapshot.repository, revision: snapshot.commit }
    : { name }
  return { source, files: sums }
}

async function checksum(folder: Folder, file: string): Promise<Sourced["files"][number]> {
  const within = new Folder(join(folder.path, dirname(file))) // a module's files lie in a folder of their own
  const { handle, size } = await within.open(basename(file), file)
  const hash = createHash("sha256")
  for await (const piece of handle.createReadStream({ start: 0 })) hash.update(piece) // which closes it
  return { file, bytes: size, sha256: hash.digest("hex") }
}

/** @throws `model_broken` where it is no JSON object */
export function readOrigin(folder: Folder): Promise<Json | undefined> {
  return folder.jsonIfThere(ORIGIN)
}
