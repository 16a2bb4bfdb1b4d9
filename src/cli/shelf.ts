// `sinter shelf list` and `sinter shelf prune`: what earlier starts have kept for later ones, listed or removed.

import { closeSync, openSync } from "node:fs"
import { KNOWN } from "../compiler/targets/cpu/known.ts"
import { OBJECT } from "../compiler/targets/cpu/objects.ts"
import { UNFIT } from "../compiler/targets/cpu/unfit.ts"
import { isLibraryName } from "../compiler/targets/targets.ts"
import { Problem } from "../errors.ts"
import { readHeader } from "../model/packed-copy.ts"
import { KEPT_KERNELS } from "../runtime/gpu/kept-kernels.ts"
import { readManifest } from "../runtime/library.ts"
import { type Item, openShelf } from "../runtime/shelf.ts"
import type { pruneOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { table } from "./table.ts"

export async function list(): Promise<void> {
  const shelf = openShelf()
  const items = shelf.items().sort((a, b) => b.lastUsed.getTime() - a.lastUsed.getTime())
  if (items.length > 0)
    console.log(table([["what", "size", "last used"], ...items.map(row)]).concat("\n"))
  console.log(`${shelf.folder}: ${count(items)}`)
}

export async function prune(options: Values<typeof pruneOptions>): Promise<void> {
  const shelf = openShelf()
  const [maxBytes, olderThan] = [options["--max-size"], options["--older-than"]]
  const removed = shelf.prune({ maxBytes, olderThan })
  for (const item of removed) console.log(`removed ${item.path}`)
  console.log(`removed ${count(removed)}; ${count(shelf.items())} left`)
}

function row(item: Item): string[] {
  const used = item.inUse ? "in use" : `${age(Date.now() - item.lastUsed.getTime())} ago`
  return [contents(item), size(item.bytes), used]
}

function contents(item: Item): string {
  if (item.name.endsWith(KEPT_KERNELS)) return sealed(item, "kernels")
  if (item.name.endsWith(OBJECT)) return "kernels of libraries"
  if (item.name.endsWith(KNOWN)) return "names of libraries"
  if (item.name.endsWith(UNFIT)) return "a compiler that builds nothing here"
  return isLibraryName(item.name) ? sealed(item, "library") : weights(item)
}

/** A library, or what a driver has made of one. */
function sealed({ path }: Item, what: string): string {
  try {
    const { architecture, shapes, format, target } = readManifest(path)
    return `${what}: ${architecture}, ${shapes.layers} layers of ${shapes.hidden}, ${format}, ${target}`
  } catch (error) {
    if (error instanceof Problem) return `${what} of another version, or damaged`
    throw error
  }
}

function weights({ path }: Item): string {
  const file = openSync(path, "r")
  try {
    const copy = readHeader(file)
    return copy
      ? `weights: ${copy.header.model}, ${copy.header.format}, of ${copy.header.folder}`
      : "weights of another version, or damaged"
  } finally {
    closeSync(file)
  }
}

function count(items: readonly Item[]): string {
  const bytes = items.reduce((sum, item) => sum + item.bytes, 0)
  return `${items.length} ${items.length === 1 ? "item" : "items"}, ${size(bytes)}`
}

const size = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`

function age(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000)
  if (minutes < 120) return `${minutes} min`
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`
}
