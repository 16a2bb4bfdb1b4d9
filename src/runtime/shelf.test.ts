import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { openShelf, shelfKey } from "./shelf.ts"

let folder: string
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "sinter-shelf-")), "shelf")
})
afterEach(() => rmSync(join(folder, ".."), { recursive: true, force: true }))

const bytes = Buffer.from("library")

test("what was made once is found again, and the shelf is ours alone", async () => {
  const shelf = openShelf(folder)
  expect(shelf.find("key.so")).toBeUndefined()
  const { path, kept } = await shelf.get("key.so", async () => bytes)
  expect(kept).toBe(true)
  expect(readFileSync(path)).toEqual(bytes)
  const again = await openShelf(folder).get("key.so", () => Promise.reject(new Error("made twice")))
  expect(again.path).toBe(path)
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  expect(readdirSync(folder)).toEqual(["key.so", `key.so.${process.pid}.used`])
})

test("an item that is not sound is not there, and is made again", async () => {
  const shelf = openShelf(folder)
  const isSound = (path: string) => readFileSync(path).equals(bytes)
  const { path } = await shelf.get("key.so", async () => Buffer.alloc(0))
  expect(shelf.find("key.so", isSound)).toBeUndefined()
  const again = () => shelf.get("key.so", async () => bytes, undefined, isSound)
  expect(await Promise.all([again(), again()])).toEqual(Array(2).fill({ path, kept: true }))
  expect(shelf.find("key.so", isSound)).toBe(path)
})

test("builders of one key take turns, and only the first one builds", async () => {
  let made = 0
  const make = async () => {
    made++
    await new Promise((resolve) => setTimeout(resolve, 30))
    return bytes
  }
  const found = await Promise.all([1, 2, 3].map(() => openShelf(folder).get("key.so", make)))
  expect(made).toBe(1)
  expect(new Set(found.map(({ path }) => path)).size).toBe(1)
})

test("a failed build leaves nothing and no lock", async () => {
  const shelf = openShelf(folder)
  await expect(shelf.get("key.so", () => Promise.reject(new Error("cc failed")))).rejects.toThrow(
    "cc",
  )
  expect(readdirSync(folder)).toEqual([])
  expect((await shelf.get("key.so", async () => bytes)).kept).toBe(true)
})

test("the lock of a dead process is not waited for", async () => {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "key.so.lock"), "4194305") // above the largest process id of Linux
  expect((await openShelf(folder).get("key.so", async () => bytes)).kept).toBe(true)
})

test("nor is one that nobody touches, though a process has its id", async () => {
  mkdirSync(folder, { recursive: true })
  const lock = join(folder, "key.so.lock")
  writeFileSync(lock, String(process.pid))
  const long = new Date(Date.now() - 11_000)
  utimesSync(lock, long, long)
  expect((await openShelf(folder).get("key.so", async () => bytes)).kept).toBe(true)
})

test("nor is one that was touched in a time to come", async () => {
  mkdirSync(folder, { recursive: true })
  const lock = join(folder, "key.so.lock")
  writeFileSync(lock, String(process.pid))
  const future = new Date(Date.now() + 86_400_000)
  utimesSync(lock, future, future)
  expect((await openShelf(folder).get("key.so", async () => bytes)).kept).toBe(true)
})

test("whoever waits for a lock can be told to stop", async () => {
  const shelf = openShelf(folder)
  writeFileSync(join(folder, "key.so.lock"), String(process.pid))
  const leaving = new AbortController()
  const waiting = shelf.get("key.so", async () => bytes, leaving.signal)
  leaving.abort(new Error("the server ends"))
  await expect(waiting).rejects.toThrow("the server ends")
})

test("a builder touches its lock", async () => {
  const make = async () => {
    const touched = () => statSync(join(folder, "key.so.lock")).mtimeMs
    const before = touched()
    await vi.waitUntil(() => touched() > before, { timeout: 60_000 })
    return bytes
  }
  expect((await openShelf(folder).get("key.so", make)).kept).toBe(true)
})

test("what cannot be kept is used from a folder of its own", async () => {
  writeFileSync(folder, "a file where the shelf should be")
  const { path, kept } = await openShelf(folder).get("key.so", async () => bytes)
  expect(kept).toBe(false)
  expect(readFileSync(path)).toEqual(bytes)
})

test("an item that a process writes itself appears whole or not at all", async () => {
  const shelf = openShelf(folder)
  const cut = shelf.put("key.weights", async (path) => {
    writeFileSync(path, "half")
    throw new Error("no space left")
  })
  await expect(cut).rejects.toThrow("no space left")
  expect(readdirSync(folder)).toEqual([])
  await shelf.put("key.weights", async (path) => writeFileSync(path, bytes))
  expect(readFileSync(shelf.find("key.weights")!)).toEqual(bytes)
})

test("what is being written elsewhere is not written here", async () => {
  const shelf = openShelf(folder)
  const write = vi.fn(async (path: string) => writeFileSync(path, bytes))
  writeFileSync(join(folder, "key.weights.lock"), String(process.pid))
  await shelf.put("key.weights", write)
  expect(write).not.toHaveBeenCalled()
})

/** An item as a process left it that ran long ago. */
function leave(name: string, size: number, daysAgo: number): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, name), Buffer.alloc(size))
  const then = new Date(Date.now() - daysAgo * 86_400_000)
  utimesSync(join(folder, name), then, then)
}

const names = () => readdirSync(folder).filter((name) => !name.includes("used"))

test("pruning takes what was not used for longest, until the rest fits", () => {
  for (const [name, daysAgo] of [
    ["a.so", 5],
    ["b.weights", 40],
    ["c.weights", 20],
  ] as const)
    leave(name, 100, daysAgo)
  const shelf = openShelf(folder)
  expect(shelf.items().map(({ name, bytes, inUse }) => [name, bytes, inUse])).toEqual([
    ["a.so", 100, false],
    ["b.weights", 100, false],
    ["c.weights", 100, false],
  ])
  expect(shelf.prune({ maxBytes: 300, olderThan: 50 * 86_400_000 })).toEqual([])
  expect(shelf.prune({ maxBytes: 250 }).map(({ name }) => name)).toEqual(["b.weights"])
  expect(shelf.prune({ olderThan: 10 * 86_400_000 }).map(({ name }) => name)).toEqual(["c.weights"])
  expect(names()).toEqual(["a.so"])
})

test("pruning leaves what is in use, and sweeps what the dead left", () => {
  for (const name of ["used.so", "mine.so", "locked.so", "dead.so"]) leave(name, 100, 1)
  writeFileSync(join(folder, "dead.so.4194305.used"), "4194305") // above the largest process id of Linux
  writeFileSync(join(folder, "half.weights.4194305.new"), "half")
  writeFileSync(join(folder, "locked.so.lock"), String(process.pid))
  writeFileSync(join(folder, `locked.so.${process.pid}.new`), "being written")
  writeFileSync(join(folder, "used.so.1.used"), String(process.pid))
  leave(`used.so.${process.pid}.used`, 3, 1) // nobody touched it since yesterday
  const shelf = openShelf(folder)
  shelf.find("mine.so")
  expect(shelf.prune({ maxBytes: 0 }).map(({ name }) => name)).toEqual(["dead.so"])
  expect(readdirSync(folder)).toEqual([
    "locked.so",
    `locked.so.${process.pid}.new`,
    "locked.so.lock",
    "mine.so",
    `mine.so.${process.pid}.used`,
    "used.so",
    "used.so.1.used",
  ])
})

const isRoot = process.getuid?.() === 0
const why = isRoot ? " (skipped: root may write anywhere)" : ""
test.skipIf(isRoot)(`a read-only shelf costs only the caching${why}`, async () => {
  mkdirSync(join(folder, ".."), { recursive: true })
  chmodSync(join(folder, ".."), 0o500)
  const { kept } = await openShelf(folder).get("key.so", async () => bytes)
  chmodSync(join(folder, ".."), 0o700)
  expect(kept).toBe(false)
  expect(existsSync(folder)).toBe(false)
})

test("keys depend on every part and on where it ends", () => {
  const keys = [["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""]].map(shelfKey)
  expect(new Set(keys).size).toBe(4)
  expect(keys[0]).toMatch(/^[0-9a-f]{40}$/)
})
