// What users install, in an empty folder and without development packages. And what
// the README promises, in a copy of the repository as a fresh clone would be.

import { execFileSync, spawnSync } from "node:child_process"
import {
  cpSync,
  existsSync,
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
import { type Installed, run, serve, serving, start } from "./sinter.ts"

const root = resolve(import.meta.dirname, "..")
const folder = mkdtempSync(join(tmpdir(), "sinter-package-"))
const clone = join(folder, "clone")
const empty = join(folder, "empty")
const installed: Installed = {
  command: [process.execPath, join(empty, "node_modules/sinter/build/cli/main.js")],
  folder: empty,
}
const inPackage = (...path: string[]) => join(empty, "node_modules/sinter", ...path)

/** npm in `cwd`; what it says on stderr is returned with what it prints. */
function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync("npm", args, { cwd, encoding: "utf8" })
  if (status !== 0) throw new Error(`npm ${args.join(" ")} ended with ${status}: ${stderr}`)
  return stdout + stderr
}

function newFolder(path: string): void {
  mkdirSync(path)
  npm(path, "init", "--yes", "--silent")
}

let installing: string
beforeAll(() => {
  const files = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], { cwd: root })
  for (const file of files
    .toString()
    .split("\0")
    .filter((file) => existsSync(join(root, file)))) {
    mkdirSync(dirname(join(clone, file)), { recursive: true })
    if (file) cpSync(join(root, file), join(clone, file))
  }
  const git = (...args: string[]) => execFileSync("git", args, { cwd: clone, stdio: "ignore" })
  git("init")
  git("config", "core.compression", "0") // nobody keeps it
  git("add", "--all")
  git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-m", "all")
  // From git npm does all that it does for a tarball, and before that installs what builds the package.
  newFolder(empty)
  const options = ["--omit=dev", "--prefer-offline"]
  installing = npm(empty, "install", ...options, `git+file://${clone}`)
  symlinkSync(join(root, "node_modules"), join(clone, "node_modules"))
}, 600_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test("the package holds what serving needs and nothing else", () => {
  const files = readdirSync(inPackage(), { recursive: true, encoding: "utf8" })
  const built = files.filter((file) => file.startsWith("build/") && extname(file) !== "")
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (file) => extname(file) !== "" && !file.endsWith(".ts"),
  )
  expect(built).toEqual(expect.arrayContaining(sources.map((file) => join("build", file))))
  const workers = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (file) =>
      file.endsWith(".ts") &&
      readFileSync(join(root, "src", file), "utf8").includes('../worker/serve.ts"'),
  )
  const started = workers.map((file) => join("build", file.replace(/ts$/, "js")))
  expect(started).toContain("build/chat/encode-worker.js")
  expect(built).toEqual(expect.arrayContaining(started))
  expect(files).toEqual(
    expect.arrayContaining(["models/tiny/tokenizer.json", "README.md", "LICENSE"]),
  )
  expect(files.filter((file) => /\.test\.|^(src|test|tiny|scripts)\//.test(file))).toEqual([])
})

test("every link of its pages leads to a file that is in it", () => {
  const pages = readdirSync(inPackage(), { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".md") && !file.includes("node_modules"),
  )
  const dead = pages.flatMap((page) =>
    [...readFileSync(inPackage(page), "utf8").matchAll(/\]\(([^)#\s]+)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^https?:/.test(link) && !existsSync(inPackage(dirname(page), link)))
      .map((link) => `${page}: ${link}`),
  )
  expect(dead).toEqual([])
})

test("nothing it brings asks for a newer Node than this one", () => {
  expect(installing).not.toContain("EBADENGINE")
})

test("npm installs it from git, built", () => {
  const sinter = join(empty, "node_modules/.bin/sinter")
  expect(execFileSync(sinter, ["--version"], { encoding: "utf8" })).toMatch(/^\d+\.\d+\.\d+\n$/)
})

test("it serves the embedded model from an empty folder, and Ctrl-C ends it", async () => {
  const server = await serve(["tiny", "--log-level", "warn"], installed)
  const answer = await ask(server.url)
  expect(answer).toMatch(/\w/)
  const { code, err } = await server.stop("SIGINT")
  expect({ code, err }).toEqual({ code: 0, err: "" })
})

test("HOME where no folder can be made costs the caching alone", async () => {
  const env = { HOME: "/proc", XDG_CACHE_HOME: undefined }
  const server = await serve(["tiny", "--target", "reference"], installed, env)
  expect(await ask(server.url)).toMatch(/\w/)
  expect(await server.stop()).toMatchObject({ code: 0 })
})

test("a temporary folder that cannot be written is a sentence", async () => {
  const env = { TMPDIR: join(folder, "nowhere"), XDG_CACHE_HOME: join(folder, "cache") }
  const options = ["serve", "tiny", "--port", "0", "--target", "cpu"]
  const { code, err } = await run(options, "", installed, env)
  expect(code).toBe(2)
  if (!err.includes("No C compiler"))
    expect(err).toContain("sinter: No temporary folder can be made")
  expect(err).toMatch(/^sinter: [^\n]+\n$/)
})

test("what its library says of types names no package that it does not bring", () => {
  const { dependencies } = JSON.parse(readFileSync(inPackage("package.json"), "utf8"))
  const files = new Set([inPackage("build/index.d.ts")])
  const packages = new Set<string>()
  for (const file of files) {
    const imports = readFileSync(file, "utf8").matchAll(/(?:from |import\()"([^"\n]+)"/g)
    for (const [, name] of imports) {
      if (name!.startsWith(".")) files.add(join(dirname(file), name!.replace(/\.[jt]s$/, ".d.ts")))
      else if (!name!.startsWith("node:")) packages.add(name!.split("/")[0]!)
    }
  }
  expect(files.size).toBeGreaterThan(100)
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining([...packages]))
})

test("its library can be imported", () => {
  const script =
    'import("sinter").then(({ createApp, load }) => console.log(typeof createApp, typeof load))'
  const printed = execFileSync(process.execPath, ["-e", script], { cwd: empty, encoding: "utf8" })
  expect(printed).toBe("function function\n")
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
