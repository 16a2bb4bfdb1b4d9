// Imports run downstairs. The table is the architecture; this test is what keeps it true.

import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { expect, test } from "vitest"

const OPEN = ["errors", "log", "version"] // open to all

const floors: Record<string, string[]> = {
  runtime: [],
  grammar: [],
  engine: ["runtime", "grammar"],
  chat: ["engine", "grammar"],
  http: ["chat", "engine"],
  compiler: ["runtime"],
  model: ["compiler", "runtime"],
  app: ["runtime", "grammar", "engine", "chat", "http", "compiler", "model"],
  cli: ["app", "runtime", "grammar", "engine", "chat", "http", "compiler", "model"],
  index: ["app", "runtime", "grammar", "engine", "chat", "http", "compiler", "model"],
  errors: [],
  log: [],
  version: [],
}

const source = resolve(import.meta.dirname, "../src")
const roomOf = (file: string) => relative(source, file).split("/")[0]!.replace(/\.ts$/, "")

test("every room imports only the rooms below it", () => {
  const wrong: string[] = []
  for (const name of readdirSync(source, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts") || name.endsWith(".test.ts")) continue
    const file = join(source, name)
    const room = roomOf(file)
    for (const [, path] of readFileSync(file, "utf8").matchAll(
      /(?:from|import\()\s*"(\.[^"]+)"/g,
    )) {
      const target = roomOf(resolve(dirname(file), path!))
      const allowed = [room, ...OPEN, ...(floors[room] ?? [])]
      if (!allowed.includes(target)) wrong.push(`${name} imports ${path}`)
    }
  }
  expect(wrong).toEqual([])
})

test("every room stands in the table", () => {
  const rooms = readdirSync(source).map((name) => name.replace(/\.ts$/, ""))
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
