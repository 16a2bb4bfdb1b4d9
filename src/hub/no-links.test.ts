// A file system without symbolic links, as FAT has none and Windows none for most users: each is refused, and all else is real.

import files, {
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { COMMIT, type HubServer, openHubServer, sha256 } from "../../test/hub-server.ts"
import { pullModel } from "./hub.ts"
import { removeModel } from "./models.ts"
import { parseName } from "./names.ts"

const { symlinkSync } = files
const link = (own: typeof symlinkSync) => {
  files.symlinkSync = own
  syncBuiltinESMExports()
}
const refuse = () => {
  throw Object.assign(new Error("EPERM: operation not permitted, symlink"), { code: "EPERM" })
}

const WEIGHTS = Buffer.alloc(100_000, "weights ")
const OTHER = COMMIT.replace(/1$/, "2")

let hub: HubServer
let env: Record<string, string>
let home: string
beforeEach(async () => {
  link(refuse)
  hub = await openHubServer({ "org/gguf": { files: { "a-Q8_0.gguf": WEIGHTS } } })
  home = mkdtempSync(join(tmpdir(), "hub-"))
  env = { HF_HOME: home, HF_ENDPOINT: hub.url, XDG_CACHE_HOME: join(home, "cache") }
})
afterEach(async () => {
  link(symlinkSync)
  await hub.close()
  rmSync(home, { recursive: true })
})

const pull = () => pullModel(parseName("org/gguf")!, { env })
const folder = () => join(home, "hub/models--org--gguf")
const blobs = () => readdirSync(join(folder(), "blobs"))
const blob = () => join(folder(), "blobs", sha256(WEIGHTS))

test("what was downloaded lies there once, is fetched once, and goes whole", async () => {
  const path = await pull()
  expect(lstatSync(path).isFile()).toBe(true)
  expect(readFileSync(path).equals(WEIGHTS)).toBe(true)
  expect(readdirSync(dirname(path))).toEqual(["a-Q8_0.gguf"])
  expect(blobs()).toEqual([])
  const fetched = () => hub.asked.filter(({ server }) => server === "files").length
  expect(fetched()).toBe(1)
  expect(await pull()).toBe(path)
  expect(fetched()).toBe(1)
  expect(removeModel(parseName("org/gguf:Q8_0")!, env)).toBe(WEIGHTS.length)
})

test("a blob that others have put there is copied, and goes with the copy", async () => {
  const path = await pull()
  copyFileSync(path, blob())
  hub.repositories["org/gguf"] = { files: { "a-Q8_0.gguf": WEIGHTS }, commit: OTHER }
  const other = await pull()
  expect(readFileSync(other).equals(WEIGHTS)).toBe(true)
  expect(blobs()).toEqual([sha256(WEIGHTS)])
  expect(hub.asked.filter(({ server }) => server === "files")).toHaveLength(1)
  expect(removeModel(parseName("org/gguf@main")!, env)).toBe(2 * WEIGHTS.length)
  expect(blobs()).toEqual([])
  expect(readFileSync(path).equals(WEIGHTS)).toBe(true)
})

test("a copy that fails leaves nothing beside its place", async () => {
  const path = await pull()
  copyFileSync(path, blob())
  rmSync(path)
  mkdirSync(path) // a file cannot be renamed to it
  await expect(pull()).rejects.toThrow("EISDIR")
  expect(readdirSync(dirname(path))).toEqual(["a-Q8_0.gguf"])
})
