// Memory that windows of weights are read into, over and over: pages that are new for every window take longer than reading into
// them, and the collector runs for them. Windows of a model have few lengths, so what is kept is found by its length.

import type { FileHandle } from "node:fs/promises"
import type { DirectFiles } from "../../runtime/direct-files.ts"
import type { WeightWork } from "../../runtime/program.ts"
import { readExactly } from "../folder.ts"

export class Room {
  /** Of the program that the windows are for, if that does it. */
  readonly weightWork: WeightWork | undefined
  readonly #files: DirectFiles | undefined
  readonly #free = new Map<number, Uint8Array[]>()
  readonly #taken: Uint8Array[] = []

  constructor({ weightWork, files }: RoomOptions = {}) {
    this.weightWork = weightWork
    this.#files = files
  }

  /** Bytes of any value, from the beginning of a buffer of their own. */
  take(length: number): Uint8Array {
    const bytes = this.#free.get(length)?.pop() ?? new Uint8Array(length)
    this.#taken.push(bytes)
    return bytes
  }

  /** Exactly so many bytes of a file. */
  async read(file: FileHandle, position: number, length: number): Promise<Uint8Array> {
    const take = (length: number) => this.take(length)
    const bytes = await this.#files?.read(file, position, length, take)
    return bytes ?? readExactly(file, position, length, this.take(length))
  }

  /** Nobody uses what was taken any more. */
  clear(): void {
    for (const bytes of this.#taken.splice(0)) {
      const alike = this.#free.get(bytes.length)
      if (alike) alike.push(bytes)
      else this.#free.set(bytes.length, [bytes])
    }
  }
}

export interface RoomOptions {
  weightWork?: WeightWork | undefined
  /** Past the page cache; absent: what is read is kept there. */
  files?: DirectFiles
}
