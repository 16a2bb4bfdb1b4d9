// A program that has not been opened: its manifest says what it is and what it will take.

import { availableParallelism } from "node:os"
import type { Log } from "../../log.ts"
import { bufferBytes, type Manifest } from "../../runtime/manifest.ts"
import { openShelf } from "../../runtime/shelf.ts"
import type { Plan } from "../plan.ts"
import type { LibraryKind, Prepared } from "./target.ts"

/** The library of a plan from the shelf, or one that opening builds. */
export async function prepareBuilt(
  plan: Plan,
  kind: LibraryKind,
  device = 0,
  log?: Log,
): Promise<Prepared> {
  const shelf = openShelf()
  const library = await kind.prepare(plan, shelf)
  const { manifest, name } = library
  const origin = library.origin ?? shelf.find(name) ?? `built now by ${library.builder}`
  return prepared(manifest, origin, async (limits, signal) => {
    const { path, kept } = await shelf.get(name, () => library.build(signal), signal)
    if (!kept) log?.warn(`The library is built at every start: ${shelf.folder} cannot hold it.`)
    return kind.open(path, limits, device)
  })
}

export function prepared(manifest: Manifest, origin: string, open: Prepared["open"]): Prepared {
  const { bytes } = manifest
  const threads = availableParallelism()
  return {
    manifest,
    origin,
    weightBytes: bytes.weights,
    bufferBytes: (limits) => bufferBytes(bytes, limits, threads),
    open,
  }
}
