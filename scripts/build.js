// Emits build/: esbuild lays the program's modules together in a few files, since a start that reads each of them by itself takes
// 0.2 s more; tsc writes their types; and what is not TypeScript (C sources, pages) is copied beside them, where
// src/code-root.ts finds it. All of it is made aside and put into place at the end: a server that runs from here must find its
// files. With --unchecked types are left to `npm run check:types`, which takes most of the time.
//
// What is newer than all that it is made of stays: `npm ci` has built before `npm start` asks, and from git npm asks twice. What
// `npm run generic` has added to is made anew, without it.
//
// What package.json lists under dependencies stays in node_modules. A development package that src/ imports is laid in as well,
// with what it needs: fastify, whose 134 files take a start 0.04 s more from there. Names stay as they are written, since stack
// traces show them; a trace's line stands below a comment that names the module.
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  cpSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { extname, join } from "node:path"

const INPUTS = [
  ...["src", "scripts/build.js", "package.json", "tsconfig.json", "tsconfig.build.json"],
  "node_modules/.package-lock.json", // npm's own, of what is installed
]
const MADE = "code.sha256" // its time is when the build began: what was saved meanwhile is newer
const COPIED = new Set(["", ".c", ".h", ".html", ".css", ".svg"]) // "" is a folder: cpSync asks for those too
// Parts of fastify that are never asked for: its routes have no schemas, and nobody calls it without a socket.
const UNUSED = [
  "@fastify/ajv-compiler",
  "@fastify/fast-json-stringify-compiler",
  "light-my-request",
]
const aside = `build.partial-${process.pid}`
const REQUIRE =
  'import { createRequire as forCommonJs } from "node:module"; const require = forCommonJs(import.meta.url);'
const types = process.argv.includes("--unchecked") ? ["--noCheck"] : []

const began = new Date()
if (isCurrent()) process.exit()

try {
  const { build } = await import("esbuild")
  const tsc = ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", aside]
  execFileSync(process.execPath, [...tsc, ...types], { stdio: "inherit" })
  const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"))
  const { metafile } = await build({
    entryPoints: ["cli/main", "index", ...workers()].map((name) => `src/${name}.ts`),
    outbase: "src",
    outdir: aside,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: [...Object.keys(dependencies), ...UNUSED],
    banner: { js: REQUIRE },
    metafile: true,
    chunkNames: "[name]-[hash]",
    logLevel: "warning",
  })
  writeFileSync(join(aside, "LICENSES"), licenses(Object.keys(metafile.inputs)))
  writeFileSync(join(aside, MADE), codeHash(Object.keys(metafile.outputs)))
  utimesSync(join(aside, MADE), began, began)
  cpSync("src", aside, { recursive: true, filter: (path) => COPIED.has(extname(path)) })
  chmodSync(`${aside}/cli/main.js`, 0o755)
  rmSync("build", { recursive: true, force: true })
  renameSync(aside, "build")
} catch (error) {
  if (error.status === undefined && !error.errors) throw error // else they have said what is wrong
  process.exitCode = 1
} finally {
  rmSync(aside, { recursive: true, force: true })
}

function isCurrent() {
  const made = changed(join("build", MADE))
  return changed("build/generic") === 0 && INPUTS.every((name) => changed(name) < made)
}

/** When something there last changed: a file, or which files there are. Never, where nothing is. */
function changed(path) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats?.isDirectory()) return stats?.mtimeMs ?? 0
  return Math.max(stats.mtimeMs, ...readdirSync(path).map((name) => changed(join(path, name))))
}

/** Of all that runs: what was found by another program may be otherwise (targets/cpu/known.ts). */
function codeHash(files) {
  const hash = createHash("sha256")
  for (const file of files.sort()) hash.update(readFileSync(file))
  return hash.digest("hex")
}

/** Of the packages that are laid in, whose licenses ask for it. */
function licenses(inputs) {
  const folders = inputs.map((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0])
  const texts = [...new Set(folders)].filter(Boolean).map((folder) => {
    const { name, version, license } = JSON.parse(
      readFileSync(join(folder, "package.json"), "utf8"),
    )
    const file = readdirSync(folder).find((name) => /^licen[sc]e/i.test(name))
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : `License: ${license}`
    return `${name} ${version}\n\n${text}\n`
  })
  return texts.sort().join(`\n${"-".repeat(80)}\n\n`)
}

/** What runs in threads and processes of its own, by the names that worker/hosts.ts is given. */
function workers() {
  return readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => readFileSync(join("src", name), "utf8"))
    .flatMap((text) => [...text.matchAll(/\bfile: new URL\("([^"]+)", codeRoot\)/g)])
    .map(([, name]) => name)
}
