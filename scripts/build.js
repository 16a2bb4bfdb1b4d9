// Emits build/: tsc writes the JavaScript, this copies what is not TypeScript (C sources, pages) beside it.
import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, rmSync } from "node:fs"
import { extname } from "node:path"

const COPIED = new Set(["", ".c", ".h", ".html", ".css", ".svg"]) // "" is a folder: cpSync asks for those too

rmSync("build", { recursive: true, force: true })
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"], {
  stdio: "inherit",
})
cpSync("src", "build", { recursive: true, filter: (path) => COPIED.has(extname(path)) })
chmodSync("build/cli/main.js", 0o755)
