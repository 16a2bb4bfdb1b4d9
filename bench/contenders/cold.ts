// Cold starts: nothing is left of earlier ones. What a program keeps for its next start lies in a cache folder that is empty, and
// the files that it reads, its own and the model's, are on the disk alone: the system is asked to forget what it keeps of them in
// memory, which it can where nobody has them mapped. Node, Python and the system's own libraries stay, since others run them.

import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { platform, tmpdir } from "node:os"
import { join } from "node:path"
import { requireCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"

/** Where the files lie that a start reads: files, and folders as a whole. */
export type Places = readonly string[]

/** Only here is the system asked so (forget.c). */
export const canForget = platform() === "linux"

/** @param start is given what the environment must say */
export async function startCold(
  places: Places,
  start: (env: NodeJS.ProcessEnv) => Promise<number>,
): Promise<number> {
  await forget(places)
  const cache = mkdtempSync(join(tmpdir(), "sinter-cold-"))
  try {
    return await start({ XDG_CACHE_HOME: cache })
  } finally {
    rmSync(cache, { recursive: true, force: true, maxRetries: 5 })
  }
}

const MAX_KEPT = 0.05 // of the bytes: libraries that the benchmark has mapped itself
const AT_ONCE = 1000 // names that one process is given

/** @throws where the system keeps more of the files than a cold start may find */
async function forget(places: Places): Promise<void> {
  const files = places.flatMap(filesOf)
  const program = await forgetter()
  let kept = 0
  for (let at = 0; at < files.length; at += AT_ONCE) {
    const names = files.slice(at, at + AT_ONCE)
    kept += Number(execFileSync(program, names, { encoding: "utf8" }))
  }
  const all = files.reduce((sum, file) => sum + statSync(file).size, 0)
  if (kept > MAX_KEPT * all)
    throw new Error(`${((100 * kept) / all).toFixed(0)} % of its files are still in memory`)
}

function filesOf(place: string): string[] {
  if (statSync(place).isFile()) return [place]
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

let program: Promise<string> | undefined

function forgetter(): Promise<string> {
  program ??= build()
  return program
}

async function build(): Promise<string> {
  const { command, leading } = await requireCompiler()
  const folder = mkdtempSync(join(tmpdir(), "sinter-forget-"))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, "forget")
  const source = join(import.meta.dirname, "..", "forget.c")
  execFileSync(command, [...leading, "-O1", source, "-o", path])
  return path
}
