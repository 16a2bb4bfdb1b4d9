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
  expect(shelf.find("key")).toBeUndefined()
  const { path, kept } = await shelf.get("key", async () => bytes)
  expect(kept).toBe(true)
  expect(readFileSync(path)).toEqual(bytes)
  const again = await openShelf(folder).get("key", () => Promise.reject(new Error("made twice")))
  expect(again.path).toBe(path)
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  expect(readdirSync(folder)).toEqual(["key.so"])
})

test("builders of one key take turns, and only the first one builds", async () => {
  let made = 0
  const make = async () => {
    made++
    await new Promise((resolve) => setTimeout(resolve, 30))
    return bytes
  }
  const found = await Promise.all([1, 2, 3].map(() => openShelf(folder).get("key", make)))
  expect(made).toBe(1)
  expect(new Set(found.map(({ path }) => path)).size).toBe(1)
})

test("a failed build leaves nothing and no lock", async () => {
  const shelf = openShelf(folder)
  await expect(shelf.get("key", () => Promise.reject(new Error("cc failed")))).rejects.toThrow("cc")
  expect(readdirSync(folder)).toEqual([])
  expect((await shelf.get("key", async () => bytes)).kept).toBe(true)
})

test("the lock of a dead process is not waited for", async () => {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "key.so.lock"), "4194305") // above the largest process id of Linux
  expect((await openShelf(folder).get("key", async () => bytes)).kept).toBe(true)
})

test("nor is one that nobody touches, though a process has its id", async () => {
  mkdirSync(folder, { recursive: true })
  const lock = join(folder, "key.so.lock")
  writeFileSync(lock, String(process.pid))
  const long = new Date(Date.now() - 11_000)
  utimesSync(lock, long, long)
  expect((await openShelf(folder).get("key", async () => bytes)).kept).toBe(true)
})

test("a builder touches its lock", async () => {
  const make = async () => {
    const touched = () => statSync(join(folder, "key.so.lock")).mtimeMs
    const before = touched()
    await vi.waitUntil(() => touched() > before, { timeout: 5000 })
    return bytes
  }
  expect((await openShelf(folder).get("key", make)).kept).toBe(true)
})

test("what cannot be kept is used from a folder of its own", async () => {
  writeFileSync(folder, "a file where the shelf should be")
  const { path, kept } = await openShelf(folder).get("key", async () => bytes)
  expect(kept).toBe(false)
  expect(readFileSync(path)).toEqual(bytes)
})

const isRoot = process.getuid?.() === 0
const why = isRoot ? " (skipped: root may write anywhere)" : ""
test.skipIf(isRoot)(`a read-only shelf costs only the caching${why}`, async () => {
  mkdirSync(join(folder, ".."), { recursive: true })
  chmodSync(join(folder, ".."), 0o500)
  const { kept } = await openShelf(folder).get("key", async () => bytes)
  chmodSync(join(folder, ".."), 0o700)
  expect(kept).toBe(false)
  expect(existsSync(folder)).toBe(false)
})

test("keys depend on every part and on where it ends", () => {
  const keys = [["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""]].map(shelfKey)
  expect(new Set(keys).size).toBe(4)
  expect(keys[0]).toMatch(/^[0-9a-f]{40}$/)
})
