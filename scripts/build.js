// Emits dist/: tsc writes the JavaScript, this copies what is not TypeScript (C sources, pages) beside it.
import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, rmSync } from "node:fs"
import { extname } from "node:path"

const COPIED = new Set(["", ".c", ".h", ".html", ".css", ".svg"]) // "" is a folder: cpSync asks for those too

rmSync("dist", { recursive: true, force: true })
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"], {
  stdio: "inherit",
})
cpSync("src", "dist", { recursive: true, filter: (path) => COPIED.has(extname(path)) })
chmodSync("dist/cli/main.js", 0o755)
