// Compilers that are here and do not build for a level, for want of headers mostly: found out once, and not behind every start. Kept on
// the shelf by all that it can be seen by without asking: the compiler's own file, and the folders that headers are installed
// into. What is seen by neither is found out again after a day.

import { type Stats, statSync } from "node:fs"
import { readFile, writeFile } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { type Shelf, shelfKey } from "../../../runtime/shelf.ts"
import type { Level } from "./levels.ts"
import { type Compiler, supports } from "./toolchain.ts"

/** What they are called on the shelf. */
export const UNFIT = ".unfit"

const DAY = 24 * 3_600_000 // milliseconds
const HEADERS = ["/usr/include", "/usr/local/include", "/Library/Developer"]

/** Whether it was found to be unfit, on this shelf. */
export async function isKnownUnfit(
  compiler: Compiler,
  level: Level,
  shelf: Shelf | undefined,
): Promise<boolean> {
  const path = shelf?.find(itemOf(compiler, level))
  if (path === undefined) return false
  const since = await readFile(path, "utf8").catch(() => 0) // another process may have made room on the shelf
  return Date.now() - Number(since) < DAY
}

const fit = new Set<string>() // a process that prepares several programs asks once

/** Asks it, and keeps that it is unfit. */
export async function isFit(
  compiler: Compiler,
  level: Level,
  shelf: Shelf | undefined,
): Promise<boolean> {
  const item = itemOf(compiler, level)
  if (fit.has(item)) return true
  if (await supports(compiler, level)) {
    fit.add(item)
    return true
  }
  const now = String(Date.now())
  // A shelf that cannot hold it costs the keeping alone.
  await shelf?.put(item, (aside) => writeFile(aside, now)).catch(() => {})
  return false
}

function itemOf({ command, leading, version }: Compiler, level: Level): string {
  const traces = [fileOf(command), ...HEADERS.map(statsOf)].map((stats) =>
    stats ? `${stats.ino} ${stats.size} ${stats.mtimeMs}` : "",
  )
  return `${shelfKey([command, ...leading, version, level.name, ...traces])}${UNFIT}`
}

/** Of a command, as the system finds it. */
function fileOf(command: string): Stats | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter)
  const paths = command.includes("/") ? [command] : folders.map((folder) => join(folder, command))
  return paths.map(statsOf).find((stats) => stats?.isFile())
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined // it is not there, or not for us
  }
}
