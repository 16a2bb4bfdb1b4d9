// Imports run downstairs. The table is the architecture; this test is what keeps it true.

import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { expect, test } from "vitest"

const OPEN = [
  "byte-alphabet",
  "closing",
  "code-root",
  "errors",
  "languages",
  "log",
  "lru",
  "node-http",
  "version",
  "worker",
] // open to all

/** The rooms that the wiring knows. */
const below = [
  ...["runtime", "grammar", "engine", "chat", "http"],
  ...["compiler", "model", "hub", "images", "audio"],
]

const floors: Record<string, string[]> = {
  runtime: [],
  grammar: [],
  images: [],
  audio: [],
  engine: ["runtime", "grammar"],
  chat: ["engine", "grammar"],
  http: ["chat", "engine"],
  compiler: ["runtime"],
  hub: ["runtime"],
  model: ["compiler", "runtime", "hub", "images", "audio"],
  app: below,
  cli: ["app", ...below],
  index: ["app", ...below],
  "byte-alphabet": [],
  closing: [],
  "code-root": [],
  errors: [],
  languages: [],
  log: [],
  lru: [],
  "node-http": [],
  version: [],
  worker: [],
}

const source = resolve(import.meta.dirname, "../src")
const roomOf = (file: string) => relative(source, file).split("/")[0]!.replace(/\.ts$/, "")

const sources = readdirSync(source, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
  .map((name) => join(source, name))

/** What a file imports from this repository, types included. */
function importsOf(file: string): string[] {
  const found = readFileSync(file, "utf8").matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)
  return Array.from(found, ([, path]) => resolve(dirname(file), path!))
}

test("every room imports only the rooms below it", () => {
  const wrong: string[] = []
  for (const file of sources) {
    const room = roomOf(file)
    for (const path of importsOf(file)) {
      const allowed = [room, ...OPEN, ...(floors[room] ?? [])]
      if (!allowed.includes(roomOf(path))) wrong.push(`${file} imports ${path}`)
    }
  }
  expect(wrong).toEqual([])
})

/** The files on rings: what is left once those that import nothing, or that nobody imports, have gone one by one. */
function ringed(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const left = new Set(imports.keys())
  const reaches = (file: string) => imports.get(file)!.some((path) => left.has(path))
  const isReached = (file: string) => [...left].some((other) => imports.get(other)!.includes(file))
  for (let before = -1; before !== left.size; ) {
    before = left.size
    for (const file of left) if (!reaches(file) || !isReached(file)) left.delete(file)
  }
  return [...left].sort()
}

test("no import leads back to where it began, not even of a type", () => {
  const imports = new Map(sources.map((file) => [file, importsOf(file)]))
  expect(ringed(imports).map((file) => relative(source, file))).toEqual([])
  const planted = { a: ["b"], b: ["c", "d"], c: ["a"], d: [], e: ["a"] }
  expect(ringed(new Map(Object.entries(planted)))).toEqual(["a", "b", "c"])
})

test("every room stands in the table", () => {
  const rooms = readdirSync(source)
    .filter((name) => !name.endsWith(".test.ts"))
    .map((name) => name.replace(/\.ts$/, ""))
  expect(rooms.filter((room) => !(room in floors))).toEqual([])
})

test("model takes only graphs from the compiler", () => {
  const wrong = readdirSync(join(source, "model"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .filter((name) =>
      /from "[./]+compiler\/(?!graph\/)/.test(readFileSync(join(source, "model", name), "utf8")),
    )
  expect(wrong).toEqual([])
})

test("Node's modules of HTTP are imported for their types alone", () => {
  const imports = /^import (?!type )[^"]*"node:https?"|[^f] import\("node:https?"\)/m
  const wrong = sources.filter((file) => imports.test(readFileSync(file, "utf8")))
  expect(wrong.map((file) => relative(source, file))).toEqual([])
})
