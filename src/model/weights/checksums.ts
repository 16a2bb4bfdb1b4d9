// MD5 sums of weights files, as MLC's tables give them. A thread reads and sums large files, while weights are packed and others'
// replies are written; files are read into one small piece of memory over and over, since new memory costs more than the sum.

import { createHash } from "node:crypto"
import { readSync } from "node:fs"
import { codeRoot } from "../../code-root.ts"
import { Worker } from "../../worker/worker.ts"

/** An open file, which stays open until the order is answered. */
export interface ChecksumOrder {
  fd: number
  size: number // bytes
}

const PIECE = 1 << 20

/** Files of so few bytes together are summed sooner than a thread starts. */
const MIN_BYTES = 8 << 20

/**
 * MD5 of a file's first `size` bytes, in hexadecimal digits.
 * @throws when it is shorter
 */
export function md5Of(fd: number, size: number): string {
  const hash = createHash("md5")
  const piece = Buffer.allocUnsafeSlow(Math.min(PIECE, size))
  for (let at = 0; at < size; ) {
    const read = readSync(fd, piece, 0, Math.min(piece.length, size - at), at)
    if (read === 0) throw new Error(`a weights file ended early, at byte ${at}`)
    hash.update(piece.subarray(0, read))
    at += read
  }
  return hash.digest("hex")
}

/** Tells `each` the sum of each file, one after the other. Rejects with what that throws, or the signal's reason. */
export async function sumFiles<File extends ChecksumOrder>(
  files: readonly File[],
  each: (file: File, md5: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted()
  if (files.reduce((sum, { size }) => sum + size, 0) < MIN_BYTES) {
    for (const file of files) each(file, md5Of(file.fd, file.size))
    return
  }
  const thread = new Worker<ChecksumOrder, string>({
    name: "checksum",
    file: new URL("model/weights/checksum-worker", codeRoot),
    host: "thread",
    afterLoss: "end",
    opening: undefined,
  })
  try {
    for (const file of files)
      each(file, await thread.ask({ fd: file.fd, size: file.size }, { signal }))
  } finally {
    await thread.close() // then nobody reads files that may be closed
  }
}
