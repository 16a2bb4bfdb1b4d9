// Libraries that a test puts where a driver's would be: C, compiled into a folder that LD_LIBRARY_PATH names for the
// processes that the test starts.

import { execFileSync, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"

const compiler = "cc"

export const hasCompiler =
  process.platform === "linux" && spawnSync(compiler, ["--version"]).status === 0

const headers = ["stdio", "stdlib", "string", "stdint", "unistd", "stdbool"]

/** @returns its path */
export function plantDriver(folder: string, name: string, code: string): string {
  const [source, path] = [join(folder, `${name}.c`), join(folder, name)]
  writeFileSync(source, headers.map((header) => `#include <${header}.h>\n`).join("") + code)
  execFileSync(compiler, ["-shared", "-fPIC", "-O1", "-o", path, source])
  return path
}
