import {
  closeSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import koffi from "koffi"
import { afterAll, expect, onTestFinished, test } from "vitest"
import { mulberry32 } from "../../test/random.ts"
import { DirectFiles } from "./direct-files.ts"
import { addressOf } from "./ffi.ts"
import { isMostlyInMemory } from "./file-pages.ts"

const SIZE = 3_000_001
const LARGE = 256 << 10 // as much as is read so

const folder = mkdtempSync(join(tmpdir(), "sinter-direct-"))
const path = join(folder, "weights")
const bytes = Uint8Array.from({ length: SIZE }, mulberry32(1))
writeFileSync(path, bytes)
afterAll(() => rmSync(folder, { recursive: true }))

const DONT_NEED = 4 // of the kernel's fadvise.h

/** Takes the file's pages out of memory. @returns why it cannot, as part of a test's name */
function forget(): string {
  if (process.platform !== "linux") return " (skipped: not Linux)"
  const file = openSync(path, "r+")
  fsyncSync(file)
  koffi.load(null).func("int posix_fadvise(int, int64_t, int64_t, int)")(file, 0, 0, DONT_NEED)
  const isHeld = isMostlyInMemory(file, SIZE)
  closeSync(file)
  return isHeld ? " (skipped: temporary files are kept in memory here)" : ""
}

const why = forget()
const isSkipped = why !== ""

async function opened(): Promise<{ file: FileHandle; files: DirectFiles }> {
  const file = await open(path)
  const files = new DirectFiles()
  onTestFinished(async () => {
    await files.close()
    await file.close()
  })
  return { file, files }
}

const memory = (length: number) => new Uint8Array(length)

test.skipIf(isSkipped)(
  `large pieces are what the file has there, and stay out of memory${why}`,
  async () => {
    const { file, files } = await opened()
    expect(isMostlyInMemory(file.fd, SIZE)).toBe(false)
    const next = mulberry32(2)
    const pieces = Array.from({ length: 40 }, () => {
      const position = next() % (SIZE - LARGE)
      return [position, LARGE + (next() % (SIZE - LARGE - position + 1))] as const
    })
    pieces.push([0, SIZE], [4096, LARGE], [4104, LARGE], [SIZE - LARGE, LARGE])
    for (const [position, length] of pieces) {
      const read = await files.read(file, position, length, memory)
      expect(Buffer.compare(read!, bytes.subarray(position, position + length))).toBe(0)
      expect(addressOf(read!) % 16n).toBe(0n)
    }
    expect(isMostlyInMemory(file.fd, SIZE)).toBe(false)
  },
)

test("small pieces, and all of a file that is in memory, are left to whoever reads as ever", async () => {
  const { file, files } = await opened()
  expect(await files.read(file, 0, LARGE - 1, memory)).toBeUndefined()
  const whole = join(folder, "in memory")
  writeFileSync(whole, bytes)
  const known = await open(whole)
  onTestFinished(() => known.close())
  expect(await files.read(known, 0, LARGE, memory)).toBeUndefined()
})

test.skipIf(isSkipped)(`a file that ends early is left, and none stays open${why}`, async () => {
  const open = () => readdirSync("/proc/self/fd").filter(isOurs).length
  const { file, files } = await opened()
  const before = open()
  expect(await files.read(file, 0, LARGE, memory)).toHaveLength(LARGE)
  expect(open()).toBe(before + 1)
  expect(await files.read(file, SIZE - LARGE, LARGE + 1, memory)).toBeUndefined()
  await files.close()
  expect(open()).toBe(before)
})

/** Whether what a process has open under that number is the file. */
function isOurs(number: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${number}`) === path
  } catch {
    return false // it is closed by now
  }
}
