// A program that has not been opened: its manifest says what it is and what it will take.

import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { Problem } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { isLibrary, isNoexec } from "../../runtime/library.ts"
import { bufferBytes, type Manifest } from "../../runtime/manifest.ts"
import type { LoadableProgram } from "../../runtime/program.ts"
import { besides, openShelf } from "../../runtime/shelf.ts"
import type { Plan } from "../plan.ts"
import type { LibraryKind, Prepared } from "./target.ts"

/** The library of a plan from the shelf, or one that opening builds: before it is used, or behind another that serves meanwhile. */
export async function prepareBuilt(
  plan: Plan,
  kind: LibraryKind,
  devices: readonly number[] = [0],
  log?: Log,
): Promise<Prepared> {
  const shelf = openShelf()
  const own = await kind.prepare(plan, devices.length, shelf)
  const found = shelf.find(own.name, isLibrary)
  const other = found ? undefined : own.meanwhile
  const library = other ?? own
  const { manifest, name } = library
  const origin = library.origin ?? found ?? `built now by ${library.builder}`
  return prepared(manifest, devices, origin, async (limits, signal, progress) => {
    const build = () => library.build({ signal, progress })
    const { path, kept } = await shelf.get(name, build, signal, isLibrary)
    if (!kept)
      log?.warn(
        `The library is built at every start: ${shelf.folder} cannot hold it; XDG_CACHE_HOME names another place.`,
      )
    const program = await kind.open(path, limits, devices).catch((error) => {
      const isRefused = error instanceof Problem && error.code === "library_unusable"
      if (!isRefused || !kept || !isNoexec(path)) throw error
      log?.warn(`${shelf.folder} is mounted noexec: a copy of the library is opened elsewhere.`)
      return kind.open(besides(readFileSync(path), name), limits, devices)
    })
    if (!other || !kept) return program
    return withBuild(program, async (signal) => {
      try {
        const build = () => own.build({ signal, isBehind: true })
        await shelf.get(own.name, build, signal, isLibrary)
        log?.debug("This model's own library lies on the shelf for the next start.")
      } catch (error) {
        if (signal.aborted) return
        const { message } = error as Error
        log?.warn(`This model's own library is not built, and others go on serving: ${message}`)
      }
    })
  })
}

/** A program behind which something is built for the next start, until it is closed. */
function withBuild(
  program: LoadableProgram,
  build: (signal: AbortSignal) => Promise<void>,
): LoadableProgram {
  const ending = new AbortController()
  let over: Promise<void> | undefined
  return {
    ...program,
    prepareNext: () => {
      over ??= build(ending.signal)
    },
    close: async () => {
      ending.abort()
      await over
      await program.close()
    },
  }
}

/** @param devices that it will be opened on, one for each shard */
export function prepared(
  library: Manifest,
  devices: readonly number[],
  origin: string,
  open: Prepared["open"],
): Prepared {
  const manifest = library.shards ? ofFullest(library, devices) : library
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

/** A library says what one shard takes; a device that has several is as full as all of them. */
function ofFullest({ bytes, kv, ...manifest }: Manifest, devices: readonly number[]): Manifest {
  const most = Math.max(...devices.map((id) => devices.filter((other) => other === id).length))
  const { weights, perToken, perRow, perThread, fixed } = bytes
  return {
    ...manifest,
    bytes: {
      weights: most * weights,
      perToken: most * perToken,
      perRow: most * perRow,
      perThread,
      fixed: most * fixed,
    },
    kv: {
      ...kv,
      groups: kv.groups.map((group) => ({ ...group, bytesPerBlock: most * group.bytesPerBlock })),
    },
  }
}
