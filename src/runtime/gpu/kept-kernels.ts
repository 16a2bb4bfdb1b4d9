// What a driver has made of a library's kernels, on the shelf beside the library: the next start hands it back, and the driver
// has little left to do. It is the driver's own form, sealed as a library is, under a name that says which library, device and
// driver it belongs to. Whatever is wrong with it costs time and nothing else.

import { writeFile } from "node:fs/promises"
import { libraryHash, seal, unseal } from "../library.ts"
import type { Manifest } from "../manifest.ts"
import { openShelf, shelfKey } from "../shelf.ts"

/** How names of such items end. */
export const KEPT_KERNELS = ".kernels"

export class KeptKernels {
  readonly #shelf = openShelf()
  readonly #name: string
  readonly #manifest: Manifest

  /** @param maker the device's */
  constructor(library: string, manifest: Manifest, maker: string) {
    this.#name = `${shelfKey([libraryHash(library), maker])}${KEPT_KERNELS}`
    this.#manifest = manifest
  }

  /** Undefined where there are none, or they are damaged. */
  read(): Uint8Array | undefined {
    const path = this.#shelf.find(this.#name)
    try {
      return path === undefined ? undefined : new Uint8Array(unseal(path).code)
    } catch {
      return undefined
    }
  }

  async write(made: Uint8Array): Promise<void> {
    const file = seal(Buffer.from(made), this.#manifest)
    await this.#shelf
      .put(this.#name, (path) => writeFile(path, file, { flag: "wx", mode: 0o600 }))
      .catch(() => {}) // a shelf that cannot be written to
  }
}
