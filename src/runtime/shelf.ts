// The shelf of compiled libraries: what was built once for a graph, a format, a processor and a compiler is found again by
// the hash of all of those. A file is written aside and renamed into place, so a reader sees all of it or none; builders of
// one key take turns by a lock that names its process. The shelf is ours alone (0700, owner checked), because what lies on
// it is run. A disk that is full or read-only costs the caching and nothing else.

import { createHash } from "node:crypto"
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

export interface Shelf {
  readonly folder: string
  /** The path of the file with this key, if it is there. */
  find(key: string): string | undefined
  /**
   * The path of the file with this key, made by `make` if it is not there. `kept` is false when the shelf could not hold
   * it; then the file lies in a folder of its own until the process ends.
   */
  get(key: string, make: () => Promise<Buffer>): Promise<{ path: string; kept: boolean }>
}

/** Parts that together decide what is built; their order counts. */
export function shelfKey(parts: readonly string[]): string {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part)
  return hash.digest("hex").slice(0, 40)
}

function defaultShelf(): string {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache")
  return join(cache, "sinter", "libraries")
}

export function openShelf(folder: string = defaultShelf(), suffix = ".so"): Shelf {
  const usable = prepare(folder)
  const place = (key: string) => join(folder, key + suffix)
  const find = (key: string) => (usable && existsSync(place(key)) ? place(key) : undefined)
  return {
    folder,
    find,
    async get(key, make) {
      const found = find(key)
      if (found) return { path: found, kept: true }
      const unlock = usable
        ? await lock(`${place(key)}.lock`, () => find(key) !== undefined)
        : undefined
      try {
        const path = find(key)
        if (path) return { path, kept: true }
        const bytes = await make()
        return keep(bytes, usable ? place(key) : undefined, key + suffix)
      } finally {
        unlock?.()
      }
    },
  }
}

/** @returns whether the folder is there, is ours and nobody else's. */
function prepare(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid } = statSync(folder)
    if (process.getuid && uid !== process.getuid()) return false
    chmodSync(folder, 0o700)
    return true
  } catch {
    return false
  }
}

function keep(
  bytes: Buffer,
  place: string | undefined,
  name: string,
): { path: string; kept: boolean } {
  if (place) {
    const aside = `${place}.${process.pid}.new`
    try {
      writeFileSync(aside, bytes, { mode: 0o700 })
      renameSync(aside, place)
      return { path: place, kept: true }
    } catch {
      rmSync(aside, { force: true })
    }
  }
  const folder = mkdtempSync(join(tmpdir(), "sinter-"))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, name)
  writeFileSync(path, bytes, { mode: 0o700 })
  return { path, kept: false }
}

const POLL_MS = 50
const BEAT_MS = 1000
const SILENT_MS = 10_000 // a lock that nobody touched for so long has no owner

/**
 * Waits until the lock is ours, its owner is dead, or `done` says that waiting was enough. The owner touches its lock every
 * second: a process id alone does not tell, since in a container the next server has the id of the one that was killed.
 * @returns what gives the lock back; undefined when there is none to be had and the work is simply done twice.
 */
async function lock(path: string, done: () => boolean): Promise<(() => void) | undefined> {
  while (!done()) {
    try {
      const file = openSync(path, "wx", 0o600)
      writeSync(file, String(process.pid))
      closeSync(file)
      const beat = setInterval(() => touch(path), BEAT_MS).unref()
      return () => {
        clearInterval(beat)
        rmSync(path, { force: true })
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") return undefined
    }
    if (!ownerLives(path)) rmSync(path, { force: true })
    else await sleep(POLL_MS)
  }
  return undefined
}

function touch(path: string): void {
  const now = new Date()
  try {
    utimesSync(path, now, now)
  } catch {} // taken away: another builder thought us dead, and the work is done twice
}

function ownerLives(path: string): boolean {
  try {
    if (Date.now() - statSync(path).mtimeMs > SILENT_MS) return false
    const pid = Number(readFileSync(path, "utf8"))
    if (pid) process.kill(pid, 0) // none: created a moment ago by somebody who is about to write it
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}
