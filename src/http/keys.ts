// The keys that requests must carry: those of the options and those of a file, a line each, which is read again when it changes.

import { createHash } from "node:crypto"
import type { Log } from "../log.ts"
import type { HttpOptions } from "./service.ts"
import { Watched } from "./watched.ts"

export class Keys {
  readonly #given: readonly Buffer[]
  readonly #file: Watched<readonly Buffer[]> | undefined

  /** @throws `option_invalid` */
  constructor({ apiKeys, apiKeyFile }: Pick<HttpOptions, "apiKeys" | "apiKeyFile">, log: Log) {
    this.#given = apiKeys.map(digest)
    if (apiKeyFile === undefined) return
    const read = ([text]: readonly Buffer[]) => keysIn(String(text), apiKeyFile).map(digest)
    this.#file = new Watched({ option: "--api-key-file", paths: [apiKeyFile], read, log })
  }

  /** None: everybody is welcome. */
  get digests(): readonly Buffer[] {
    return this.#file ? [...this.#given, ...this.#file.value] : this.#given
  }

  close(): void {
    this.#file?.close()
  }
}

function keysIn(text: string, path: string): string[] {
  const lines = text.split("\n")
  const keys = lines.map((line) => line.trim()).filter((line) => line !== "" && line[0] !== "#")
  if (keys.length === 0) throw new Error(`${path} holds no key`) // which would let everybody in
  return keys
}

export function digest(key: string | Buffer): Buffer {
  return createHash("sha256").update(key).digest()
}
