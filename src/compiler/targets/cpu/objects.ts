// Objects that the libraries of several models have in common: products, attention, the threads. They are kept on the shelf, so
// that a library takes a fraction of the time to build where one with such shapes was built before.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { type Shelf, shelfKey } from "../../../runtime/shelf.ts"
import type { Source } from "../target.ts"

/** The file that is one library's own. */
export const DRIVER = "driver.c"

/** What they are called on the shelf. */
export const OBJECT = ".o"

/** Gives an object that was made before, or makes it. */
export type Objects = (source: Source, make: () => Promise<Buffer>) => Promise<Buffer>

/** @param decided all that decides an object's bytes beside its source: compiler, flags, headers */
export function keptObjects(shelf: Shelf, decided: readonly string[]): Objects {
  return async (source, make) => {
    const name = `${shelfKey([...decided, ...Object.values(source)])}${OBJECT}`
    const path = shelf.find(name)
    const before = path && unsealed(readFileSync(path))
    if (before) return before
    const object = await make()
    // A shelf that cannot hold it costs the keeping alone.
    await shelf.put(name, (aside) => writeFile(aside, sealed(object))).catch(() => {})
    return object
  }
}

const DIGEST = 32 // bytes

/** A file that a crash has cut must not reach the linker. */
export function sealed(object: Buffer): Buffer {
  return Buffer.concat([createHash("sha256").update(object).digest(), object])
}

export function unsealed(file: Buffer): Buffer | undefined {
  const [digest, object] = [file.subarray(0, DIGEST), file.subarray(DIGEST)]
  return createHash("sha256").update(object).digest().equals(digest) ? object : undefined
}
