// Emits build/: tsc writes the JavaScript, this copies what is not TypeScript (C sources, pages) beside it. All of it is
// made aside and put into place at the end: a server that runs from here must find its files. With --unchecked types are
// left to `npm run check:types`, which takes five sixths of the time.
import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, renameSync, rmSync } from "node:fs"
import { extname } from "node:path"

const COPIED = new Set(["", ".c", ".h", ".html", ".css", ".svg"]) // "" is a folder: cpSync asks for those too
const aside = `build.partial-${process.pid}`
const types = process.argv.includes("--unchecked") ? ["--noCheck"] : []

try {
  const tsc = ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", aside]
  execFileSync(process.execPath, [...tsc, ...types], { stdio: "inherit" })
  cpSync("src", aside, { recursive: true, filter: (path) => COPIED.has(extname(path)) })
  chmodSync(`${aside}/cli/main.js`, 0o755)
  rmSync("build", { recursive: true, force: true })
  renameSync(aside, "build")
} catch (error) {
  if (error.status === undefined) throw error // else tsc has said what is wrong
  process.exitCode = 1
} finally {
  rmSync(aside, { recursive: true, force: true })
}
