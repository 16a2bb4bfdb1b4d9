// Large pieces of files that are not in memory, read past the system's page cache: what is read once, to be packed, needs no pages
// there. To make and fill those takes a processor longer than the disk takes (docs/log.md#start), and what others have there would
// have to go for them. Linux alone has that, and not on every file system; elsewhere, and of files that are in memory, a piece is read
// as any other.

import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { addressOf } from "./ffi.ts"
import { isMostlyInMemory } from "./file-pages.ts"

const PAGE = 4096 // of which the blocks of every disk are a part
const ALIGNED = 16 // bytes: as memory of its own would begin

/** Of a smaller piece the disk's answer takes longer than its pages, and the system reads its neighbours along. */
const LEAST = 256 << 10

export class DirectFiles {
  /** By the handles that they are known by; undefined: to be read as any other. */
  readonly #files = new Map<FileHandle, Promise<FileHandle | undefined>>()

  /**
   * @param take memory for so many bytes
   * @returns undefined: it is to be read as any other
   */
  async read(
    file: FileHandle,
    position: number,
    length: number,
    take: (length: number) => Uint8Array,
  ): Promise<Uint8Array | undefined> {
    if (length < LEAST) return undefined
    const opened = this.#files.get(file) ?? openDirect(file)
    this.#files.set(file, opened)
    const direct = await opened
    if (!direct) return undefined
    const memory = take(length + 3 * PAGE)
    const start = memory.subarray(Number(-addressOf(memory) & BigInt(PAGE - 1)))
    const before = position % PAGE
    const isRead = await readPages(direct, position - before, start, before + length)
    if (!isRead) return undefined
    if (before % ALIGNED === 0) return start.subarray(before, before + length)
    return start.copyWithin(0, before, before + length).subarray(0, length)
  }

  async close(): Promise<void> {
    for (const opened of this.#files.values()) await (await opened)?.close()
    this.#files.clear()
  }
}

/** The same file once more, whatever has become of its name. */
async function openDirect(file: FileHandle): Promise<FileHandle | undefined> {
  if (process.platform !== "linux") return undefined
  try {
    const { size } = await file.stat()
    if (isMostlyInMemory(file.fd, size)) return undefined
    return await open(`/proc/self/fd/${file.fd}`, constants.O_RDONLY | constants.O_DIRECT)
  } catch {
    return undefined
  }
}

/** @param position of a page, which comes to the first of `pages` @returns whether at least `length` bytes were read */
async function readPages(
  file: FileHandle,
  position: number,
  pages: Uint8Array,
  length: number,
): Promise<boolean> {
  const whole = Math.ceil(length / PAGE) * PAGE
  try {
    for (let done = 0; done < length; ) {
      const { bytesRead } = await file.read(pages, done, whole - done, position + done)
      if (bytesRead === 0) return false
      done += bytesRead
    }
    return true
  } catch {
    return false
  }
}
