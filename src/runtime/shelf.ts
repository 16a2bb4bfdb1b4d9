// The shelf: what was made once and is found again at the next start, compiled libraries, copies of packed weights, and what
// drivers have made of kernels. An item's name is the hash of all that decides its bytes, and a suffix that says what it is. It
// is written aside and renamed into place, so a reader sees all of it or none; makers of one item take turns by a lock. The
// shelf is ours alone (0700, owner checked), because what lies on it is run. A disk that is full or read-only costs the caching
// and nothing else.
//
//   NAME            the item; its time of change is when it was last taken
//   NAME.lock       somebody makes it          both hold a process id and are touched while that process lives
//   NAME.PID.used   a server runs with it
//   NAME.PID.new    half an item

import { createHash } from "node:crypto"
import {
  chmodSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { cacheHome } from "./cache.ts"
import { makeFolder, openScratch } from "./scratch.ts"

export interface Shelf {
  readonly folder: string
  /**
   * The path of the item with this name, if it is there. It then is in use until this process ends.
   * @param isSound whether the item at a path is what its name says; one that a crash has damaged is not there
   */
  find(name: string, isSound?: (path: string) => boolean): string | undefined
  /**
   * The path of the item with this name, made by `make` if it is not there. `kept` is false when the shelf could not hold
   * it; then the file lies in a folder of its own until the process ends.
   * @param signal ends the waiting for another process that makes it
   * @param isSound as above
   */
  get(
    name: string,
    make: () => Promise<Buffer>,
    signal?: AbortSignal,
    isSound?: (path: string) => boolean,
  ): Promise<{ path: string; kept: boolean }>
  /**
   * Puts an item there that `write` writes to a path it is given, unless another process is about to.
   * @throws what `write` throws; then nothing is left.
   */
  put(name: string, write: (path: string) => Promise<void>): Promise<void>
  items(): Item[]
  /** Takes away what the rules say, never what is in use, and sweeps what dead processes left. */
  prune(rules: Rules): Item[]
}

export interface Item {
  name: string
  path: string
  bytes: number
  lastUsed: Date
  inUse: boolean
}

export interface Rules {
  /** Those not used for longest go until the others fit in. */
  maxBytes?: number | undefined
  /** Milliseconds since the last use. */
  olderThan?: number | undefined
}

export const DEFAULT_SHELF_SIZE = 20 * 2 ** 30 // bytes

/** Parts that together decide what is built; their order counts. */
export function shelfKey(parts: readonly string[]): string {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part)
  return hash.digest("hex").slice(0, 40)
}

function defaultShelf(): string {
  return join(cacheHome(), "sinter", "shelf")
}

export function openShelf(folder: string = defaultShelf()): Shelf {
  const usable = prepare(folder)
  const place = (name: string) => join(folder, name)
  const take = (path: string) => {
    touch(path)
    markUsed(path)
    return path
  }
  const find: Shelf["find"] = (name, isSound = () => true) => {
    const there = usable && existsSync(place(name)) && isSound(place(name))
    return there ? take(place(name)) : undefined
  }
  return {
    folder,
    find,
    async get(name, make, signal, isSound) {
      const item = find(name, isSound)
      if (item) return { path: item, kept: true }
      const done = () => find(name, isSound) !== undefined
      const unlock = usable ? await lock(`${place(name)}.lock`, done, signal) : undefined
      try {
        const path = find(name, isSound)
        if (path) return { path, kept: true }
        const bytes = await make()
        const kept = usable && keep(bytes, place(name))
        return kept ? { path: take(place(name)), kept } : { path: besides(bytes, name), kept }
      } finally {
        unlock?.()
      }
    },
    async put(name, write) {
      const unlock = tryLock(`${place(name)}.lock`)
      if (unlock === "busy") return
      const aside = asideOf(place(name))
      try {
        await write(aside)
        renameSync(aside, place(name))
        take(place(name))
      } finally {
        rmSync(aside, { force: true })
        unlock?.()
      }
    },
    items: () => (usable ? survey(folder).items : []),
    prune: (rules) => (usable ? prune(folder, rules) : []),
  }
}

/** @returns whether the folder is there, is ours and nobody else's. */
function prepare(folder: string): boolean {
  try {
    makeFolder(folder, 0o700)
    const { uid } = statSync(folder)
    if (process.getuid && uid !== process.getuid()) return false
    chmodSync(folder, 0o700)
    return true
  } catch {
    return false
  }
}

const asideOf = (place: string) => `${place}.${process.pid}.new`

function keep(bytes: Buffer, place: string): boolean {
  const aside = asideOf(place)
  try {
    writeFileSync(aside, bytes, { mode: 0o700, flush: true }) // its name must not outlive a power cut without it
    renameSync(aside, place)
    return true
  } catch {
    rmSync(aside, { force: true })
    return false
  }
}

/** The path of a file with these bytes, in a temporary folder of its own until the process ends. @throws `scratch_refused` */
export function besides(bytes: Buffer, name: string): string {
  const { folder } = openScratch("sinter-library")
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, name)
  writeFileSync(path, bytes, { mode: 0o700 })
  return path
}

// ------------------------------------------------------------------ signs of life

// A process id alone does not tell whether somebody lives: in a container the next server has the id of the one that was
// killed, and another container cannot see it at all. So whoever holds a lock or uses an item touches a file.

const POLL_MS = 50
const LOCK_BEAT_MS = 1000
const LOCK_SILENT_MS = 10_000 // a lock that nobody touched for so long has no owner
const USE_BEAT_MS = 60_000
const USE_SILENT_MS = 200_000

/**
 * Waits until the lock is ours, its owner is dead, or `done` says that waiting was enough; throws the signal's reason.
 * @returns what gives the lock back; undefined when there is none to be had and the work is simply done twice.
 */
async function lock(
  path: string,
  done: () => boolean,
  signal: AbortSignal | undefined,
): Promise<(() => void) | undefined> {
  while (!done()) {
    const unlock = tryLock(path)
    if (unlock !== "busy") return unlock
    signal?.throwIfAborted()
    await sleep(POLL_MS)
  }
  return undefined
}

/** Takes the lock, unless somebody alive has it; undefined where no lock can be written. */
function tryLock(path: string): (() => void) | "busy" | undefined {
  if (existsSync(path) && !ownerLives(path, LOCK_SILENT_MS)) rmSync(path, { force: true })
  try {
    const file = openSync(path, "wx", 0o600)
    writeSync(file, String(process.pid))
    closeSync(file)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EEXIST" ? "busy" : undefined
  }
  const beat = setInterval(() => touch(path), LOCK_BEAT_MS).unref()
  return () => {
    clearInterval(beat)
    rmSync(path, { force: true })
  }
}

const marks = new Set<string>()

/** Says that this process uses an item, until it ends. */
function markUsed(place: string): void {
  const mark = `${place}.${process.pid}.used`
  if (marks.has(mark)) return
  try {
    writeFileSync(mark, String(process.pid), { mode: 0o600 })
  } catch {
    return // a shelf that can only be read is not pruned either
  }
  if (marks.size === 0) process.once("exit", unmark)
  marks.add(mark)
  setInterval(() => touch(mark), USE_BEAT_MS).unref()
}

function unmark(): void {
  for (const mark of marks) rmSync(mark, { force: true })
}

function touch(path: string): void {
  const now = new Date()
  try {
    utimesSync(path, now, now)
  } catch {} // taken away: another process thought us dead, and the work is done twice
}

function ownerLives(path: string, silent: number): boolean {
  try {
    // Of a time to come nobody can have touched it: the clock was wrong, or somebody wants us to wait.
    if (Math.abs(Date.now() - statSync(path).mtimeMs) > silent) return false
    const pid = Number(readFileSync(path, "utf8"))
    if (pid) process.kill(pid, 0) // none: created a moment ago by somebody who is about to write it
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

// ------------------------------------------------------------------ order

function prune(folder: string, { maxBytes = Infinity, olderThan = Infinity }: Rules): Item[] {
  const { items, dead } = survey(folder)
  for (const path of dead) rmSync(path, { force: true })
  const oldest = items.toSorted((a, b) => a.lastUsed.getTime() - b.lastUsed.getTime())
  const removed: Item[] = []
  let total = items.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const item of oldest) {
    const old = Date.now() - item.lastUsed.getTime() > olderThan
    if (item.inUse || !(old || total > maxBytes)) continue
    rmSync(item.path, { force: true })
    total -= item.bytes
    removed.push(item)
  }
  return removed
}

/** The items, and the files of processes that live no more. */
function survey(folder: string): { items: Item[]; dead: string[] } {
  const names = readdirSync(folder)
  const alive = (suffix: string, silent: number) =>
    names.filter((name) => name.endsWith(suffix) && ownerLives(join(folder, name), silent))
  const signs = [...alive(".lock", LOCK_SILENT_MS), ...alive(".used", USE_SILENT_MS)]
  const busy = new Set(signs.map(itemOf))
  const items: Item[] = []
  const dead: string[] = []
  for (const name of names) {
    const path = join(folder, name)
    const stats = statSync(path, { throwIfNoEntry: false })
    const item = itemOf(name)
    if (!stats) continue // gone since we looked
    if (item === name)
      items.push({
        name,
        path,
        bytes: stats.size,
        lastUsed: stats.mtime,
        inUse: busy.has(name),
      })
    else if (!signs.includes(name) && !(name.endsWith(".new") && signs.includes(`${item}.lock`)))
      dead.push(path)
  }
  return { items, dead }
}

/** NAME of NAME.lock, NAME.PID.used and NAME.PID.new. */
const itemOf = (name: string) => name.replace(/\.lock$|\.\d+\.(used|new)$/, "")
