import { mkdtempSync, rmSync, truncateSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { openShelf } from "../../../runtime/shelf.ts"
import { keptObjects, OBJECT } from "./objects.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-objects-"))
afterAll(() => rmSync(folder, { recursive: true }))

test("an object is made once for all that decides it, and again when its file is cut", async () => {
  const shelf = openShelf(folder)
  let made = 0
  const object = (text: string, ...decided: string[]) =>
    keptObjects(shelf, decided)({ name: "near.c", text }, async () => Buffer.from(`${++made}`))
  const twice = [await object("a", "gcc", "-O2"), await object("a", "gcc", "-O2")]
  expect(twice).toEqual([Buffer.from("1"), Buffer.from("1")])
  expect(await object("b", "gcc", "-O2")).toEqual(Buffer.from("2"))
  expect(await object("a", "clang", "-O2")).toEqual(Buffer.from("3"))
  const items = shelf.items().filter(({ name }) => name.endsWith(OBJECT))
  expect(items).toHaveLength(3)
  for (const { path, bytes } of items) truncateSync(path, bytes - 1)
  expect(await object("a", "gcc", "-O2")).toEqual(Buffer.from("4"))
  expect(await object("a", "gcc", "-O2")).toEqual(Buffer.from("4"))
})

test("where nothing can be kept, everything is made", async () => {
  const shelf = openShelf("/proc/nowhere")
  const objects = keptObjects(shelf, [])
  for (const content of ["1", "2"])
    expect(await objects({ name: "a.c", text: "" }, async () => Buffer.from(content))).toEqual(
      Buffer.from(content),
    )
})
