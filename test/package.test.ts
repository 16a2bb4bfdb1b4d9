// What users install: the tarball, in an empty folder, without development packages and without install scripts. And what
// the README promises, in a copy of the repository as a fresh clone would be.

import { execFileSync } from "node:child_process"
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, extname, join, resolve } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { type Installed, serve, serving, start } from "./sinter.ts"

const root = resolve(import.meta.dirname, "..")
const folder = mkdtempSync(join(tmpdir(), "sinter-package-"))
const clone = join(folder, "clone")
const empty = join(folder, "empty")
const installed: Installed = {
  command: [process.execPath, join(empty, "node_modules/sinter/build/cli/main.js")],
  folder: empty,
}
const inPackage = (...path: string[]) => join(empty, "node_modules/sinter", ...path)

beforeAll(() => {
  const files = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], { cwd: root })
  for (const file of files.toString().split("\0").filter(Boolean)) {
    mkdirSync(dirname(join(clone, file)), { recursive: true })
    cpSync(join(root, file), join(clone, file))
  }
  symlinkSync(join(root, "node_modules"), join(clone, "node_modules"))
  const npm = (cwd: string, ...args: string[]) =>
    execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })
  npm(clone, "run", "--silent", "build")
  npm(clone, "pack", "--silent", "--pack-destination", folder)
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"))!
  mkdirSync(empty)
  npm(empty, "init", "--yes", "--silent")
  npm(empty, "install", "--omit=dev", "--ignore-scripts", "--prefer-offline", join(folder, tarball))
}, 240_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test("the tarball holds what serving needs and nothing else", () => {
  const files = readdirSync(inPackage(), { recursive: true, encoding: "utf8" })
  const built = files.filter((file) => file.startsWith("build/") && extname(file) !== "")
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (file) => extname(file) !== "" && !file.endsWith(".ts"),
  )
  expect(built).toEqual(expect.arrayContaining(sources.map((file) => join("build", file))))
  expect(files).toEqual(
    expect.arrayContaining(["models/tiny/tokenizer.json", "README.md", "LICENSE"]),
  )
  expect(files.filter((file) => /\.test\.|^(src|test|tiny|bench|scripts)\//.test(file))).toEqual([])
})

test("it serves the embedded model from an empty folder, and Ctrl-C ends it", async () => {
  const server = await serve(["tiny", "--log-level", "warn"], installed)
  const answer = await ask(server.url)
  expect(answer).toMatch(/\w/)
  const { code, err } = await server.stop("SIGINT")
  expect({ code, err }).toEqual({ code: 0, err: "" })
})

test("its library can be imported", () => {
  const script = 'import("sinter").then(({ createApp }) => console.log(typeof createApp))'
  const printed = execFileSync(process.execPath, ["-e", script], { cwd: empty, encoding: "utf8" })
  expect(printed).toBe("function\n")
})

const readme = readFileSync(join(root, "README.md"), "utf8")

test("the README's two commands are what starts and what continuous integration runs", () => {
  expect(readme).toMatch(/^npm ci && npm start$/m)
  expect(readme).toMatch(/^npm ci && npm test$/m)
  const ci = readFileSync(join(root, ".ci/run"), "utf8")
  expect(ci).toMatch(/^npm ci \|\|/m)
  expect(ci).toMatch(/npm test$/m)
})

const started: Installed = { command: ["npm", "start", "--silent", "--"], folder: clone }

test("npm start in a fresh clone serves, and the README's curl streams", async () => {
  const server = await serving(start(["--port", "0"], started))
  const [, curl] = /```sh\n(curl -N[^`]+)```/.exec(readme)!
  const streamed = execFileSync(
    "bash",
    ["-c", curl!.replaceAll("http://127.0.0.1:8000", server.url)],
    { encoding: "utf8" },
  )
  expect(streamed).toMatch(/^(data: .+\n\n)+$/)
  expect(streamed).toMatch(/data: \[DONE\]\n\n$/)
  await server.stop("SIGTERM")
})

async function ask(url: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "tiny",
      temperature: 0,
      messages: [{ role: "user", content: "Hello!" }],
    }),
  })
  expect(response.status).toBe(200)
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  return choices[0]!.message.content
}
