// Imported before a program that runs with matrix-unit.c: Linux lists the unit among what the processor has.

import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"

const read = fs.readFileSync
fs.readFileSync = (path, ...rest) => {
  const text = read(path, ...rest)
  const isList = path === "/proc/cpuinfo"
  return isList ? text.replace(/^flags\s*:.*$/gm, "$& amx_tile amx_int8 amx_bf16") : text
}
syncBuiltinESMExports()
