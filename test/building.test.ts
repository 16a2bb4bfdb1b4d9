// When scripts/build.js builds: in a tree where nothing is installed that it could build with, so that to go on is to fail.

import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, expect, test } from "vitest"

const tree = mkdtempSync(join(tmpdir(), "sinter-building-"))
afterAll(() => rmSync(tree, { recursive: true }))

const [BEFORE, BUILT, AFTER] = [1_000, 2_000, 3_000]
const setTime = (path: string, seconds: number) => utimesSync(join(tree, path), seconds, seconds)
const builds = () => spawnSync(process.execPath, ["scripts/build.js"], { cwd: tree }).status !== 0

test("what is built stays until something that it is made of is newer", () => {
  const copied = [
    ...["package.json", "tsconfig.json", "tsconfig.build.json", "scripts/build.js"],
    ...["src/index.ts", "src/http/json.ts"],
  ]
  for (const file of copied) cpSync(resolve(import.meta.dirname, "..", file), join(tree, file))
  for (const made of ["build/code.sha256", "node_modules/.package-lock.json"]) {
    mkdirSync(resolve(tree, made, ".."))
    writeFileSync(join(tree, made), "")
  }
  const inputs = [...copied, "src/http", "src", "node_modules/.package-lock.json"]
  for (const path of inputs) setTime(path, BEFORE)
  setTime("build/code.sha256", BUILT)
  expect(builds()).toBe(false)
  for (const path of inputs) {
    setTime(path, AFTER)
    expect([path, builds()]).toEqual([path, true])
    setTime(path, BEFORE)
  }
  rmSync(join(tree, "src/http/json.ts"))
  expect(builds()).toBe(true)
  setTime("src/http", BEFORE)
  expect(builds()).toBe(false)
  mkdirSync(join(tree, "build/generic"))
  expect(builds()).toBe(true)
})
