// A model served in another number format than its folder's is packed once, into a compiled folder in the user's cache, and
// found there the next time: by the folder, the format and what the files look like. A cache that cannot be written costs
// the caching and nothing else: the weights are then packed as they are read, at every start.

import { createHash } from "node:crypto"
import { stat } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import type { Log } from "../log.ts"
import type { FormatName } from "../runtime/format.ts"
import { compileFolder } from "./compile-folder.ts"
import { type Model, openModel } from "./model.ts"

function packedFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sinter", "packed")
}

export interface CopyOptions {
  log: Log
  signal: AbortSignal
  progress: (written: number, total: number) => void
}

/** @returns the copy, or `model` itself when there is none to be had. Both are the caller's to close. */
export async function packedCopy(
  model: Model,
  format: FormatName,
  options: CopyOptions,
): Promise<Model> {
  if (format === model.format) return model
  const folder = join(packedFolder(), `${model.name}-${format}-${await keyOf(model)}`)
  try {
    if (!(await isThere(folder))) await pack(model, folder, format, options)
    return await openModel(folder)
  } catch (error) {
    options.signal.throwIfAborted()
    options.log.warn(`The weights are packed at every start: ${(error as Error).message}`)
    return model
  }
}

async function pack(
  model: Model,
  folder: string,
  format: FormatName,
  { signal, progress }: CopyOptions,
): Promise<void> {
  const watched = (written: number, total: number) => {
    signal.throwIfAborted()
    progress(written, total)
  }
  try {
    await compileFolder(model, folder, { format, progress: watched })
  } catch (error) {
    signal.throwIfAborted()
    if (!(await isThere(folder))) throw error // else another server was quicker, with the same bytes
  }
}

async function isThere(folder: string): Promise<boolean> {
  return stat(join(folder, "mlc-chat-config.json")).then(
    () => true,
    () => false,
  )
}

/** Another size or time of any weights file, or of the configuration, makes another model. */
async function keyOf(model: Model): Promise<string> {
  const files = [...new Set(model.weights.entries.map(({ file }) => file)), model.configuration]
  const hash = createHash("sha256").update(model.path)
  for (const file of files.sort()) {
    const { size, mtimeMs } = await stat(join(model.path, file))
    hash.update(`${file} ${size} ${mtimeMs}\n`)
  }
  return hash.digest("hex").slice(0, 12)
}
