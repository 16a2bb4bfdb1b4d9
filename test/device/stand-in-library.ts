// A stand-in's library. Compiling one takes five seconds of a processor, and four files of tests want it: it lies on this machine's
// shelf, under the hash of all it is made of. Each gets a copy, since what a library keeps belongs to its file in a process.

import { execFileSync } from "node:child_process"
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openShelf, shelfKey } from "../../src/runtime/shelf.ts"

/** @param parameters of the compiler; those that begin with `-l` stand behind the source */
export async function buildLibrary(
  compiler: string,
  source: string,
  parameters: readonly string[],
  path: string,
): Promise<void> {
  const version = execFileSync(compiler, ["--version"], { encoding: "utf8" })
  const made = [version, readFileSync(source, "utf8"), ...parameters]
  const { path: kept } = await openShelf().get(`${shelfKey(made)}.stand-in`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-stand-in-"))
    const library = join(folder, "library.so")
    const linked = parameters.filter((each) => each.startsWith("-l"))
    const flags = parameters.filter((each) => !each.startsWith("-l"))
    try {
      execFileSync(compiler, [...flags, "-o", library, source, ...linked])
      return readFileSync(library)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
  copyFileSync(kept, path)
}
