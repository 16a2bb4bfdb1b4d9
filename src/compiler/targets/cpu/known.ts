// What libraries are called that were written before. A name on the shelf is the hash of a library's own C text, and writing that
// text takes a start longer than finding the file: so what came of it is kept beside the libraries, by all that decides it. The
// program's own code is part of that, by the hash that the build leaves (scripts/build.js); a program that runs from its sources has
// none, and writes the text each time.

import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { codeRoot } from "../../../code-root.ts"
import type { Manifest } from "../../../runtime/manifest.ts"
import { type Shelf, shelfKey } from "../../../runtime/shelf.ts"
import { sealed, unsealed } from "./objects.ts"

/** What they are called on the shelf. */
export const KNOWN = ".known"

export interface Known {
  /** Of the library, on the shelf. */
  name: string
  manifest: Manifest
}

/**
 * What `write` found for the same code and the same `decided`, or finds now.
 * @param code the hash of the program's code; undefined: nothing is remembered
 * @param decided all that decides it beside that: plan, level, compiler, kernels
 */
export async function known(
  shelf: Shelf,
  code: string | undefined,
  decided: readonly string[],
  write: () => Promise<Known>,
): Promise<Known> {
  if (code === undefined) return write()
  const item = `${shelfKey([code, ...decided])}${KNOWN}`
  const path = shelf.find(item)
  const before = path && unsealed(readFileSync(path))
  if (before) return JSON.parse(before.toString())
  const found = await write()
  const text = Buffer.from(JSON.stringify(found))
  // A shelf that cannot hold it costs the keeping alone.
  await shelf.put(item, (aside) => writeFile(aside, sealed(text))).catch(() => {})
  return found
}

/** Of the program that runs; undefined where it runs from its sources. */
export function codeHash(): string | undefined {
  try {
    return readFileSync(new URL("code.sha256", codeRoot), "utf8")
  } catch {
    return undefined
  }
}
