// A file's pages in place of native memory: there at once where the system has the file in memory already. They are small,
// they are slower to read through than huge ones by as much as a third, and the system may take them back; so each piece is
// later given memory of its own, under whoever reads it, since mremap puts pages in the place of others in one step. Linux
// alone has that; elsewhere a file is read.

import { type PageCalls, type Pointer, pageCalls } from "./ffi.ts"
import type { ShownFile } from "./program.ts"

/** From the kernel's headers, the same on x86-64 and arm64. */
const READ = 1
const WRITE = 2
const PRIVATE = 0x02
const FIXED = 0x10
const ANONYMOUS = 0x20
const ON_HUGE_PAGES = 14 // MADV_HUGEPAGE
const TO_A_PLACE = 3 // MREMAP_MAYMOVE | MREMAP_FIXED

const PAGE = 4096
const HUGE_PAGE = 2 << 20
/** Of a file, must be in memory: page by page the rest would come slower from the disk than large reads bring it. */
const MOST = 15 / 16

/**
 * Shows a file's bytes from `begin` on in the place of `length` bytes of memory.
 * @param memory begins a page
 * @returns undefined where they must be read
 */
export function showFile(
  memory: Pointer,
  length: number,
  file: number,
  begin: number,
): ShownFile | undefined {
  const calls = pageCalls()
  if (!calls) return undefined
  const bytes = wholePages(length)
  const shown = calls.map(0n, bytes, READ, PRIVATE, file, begin)
  if (shown === undefined) return undefined
  if (!isInMemory(calls, shown, bytes) || !calls.move(shown, bytes, bytes, TO_A_PLACE, memory)) {
    calls.unmap(shown, bytes)
    return undefined
  }
  return {
    async own(from, length) {
      const bytes = wholePages(length)
      const own = newPages(calls, bytes)
      try {
        for (let read = 0; read < length; ) {
          const got = await calls.read(file, own + BigInt(read), length - read, begin + from + read)
          if (got <= 0) throw new Error("its file cannot be read")
          read += got
        }
        if (!calls.move(own, bytes, bytes, TO_A_PLACE, memory + BigInt(from)))
          throw new Error("the system moves no pages")
      } catch (error) {
        calls.unmap(own, bytes)
        throw error
      }
    },
    remove() {
      calls.map(memory, bytes, READ | WRITE, PRIVATE | FIXED | ANONYMOUS, -1, 0)
      calls.advise(memory, bytes, ON_HUGE_PAGES)
    },
  }
}

const PLACES = 64
const AT_A_PLACE = 1 << 20 // bytes

/** Whether most of a file's bytes are, by what places all over it say. */
export function isMostlyInMemory(file: number, size: number): boolean {
  const calls = pageCalls()
  const bytes = wholePages(size)
  const shown = size > 0 ? calls?.map(0n, bytes, READ, PRIVATE, file, 0) : undefined
  if (!calls || shown === undefined) return false
  let there = 0
  for (let place = 0; place < PLACES; place++) {
    const from = PAGE * Math.floor((place * bytes) / PLACES / PAGE)
    const length = Math.min(AT_A_PLACE, bytes - from)
    if (isInMemory(calls, shown + BigInt(from), length)) there++
  }
  calls.unmap(shown, bytes)
  return there > PLACES / 2
}

const wholePages = (bytes: number) => Math.ceil(bytes / PAGE) * PAGE

function isInMemory(calls: PageCalls, at: Pointer, bytes: number): boolean {
  const pages = new Uint8Array(bytes / PAGE)
  if (!calls.inMemory(at, bytes, pages)) return false
  let there = 0
  for (const page of pages) there += page & 1
  return there >= MOST * pages.length
}

/** Zeros, on huge pages where there are enough of them. */
function newPages(calls: PageCalls, bytes: number): Pointer {
  const slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0
  const all = calls.map(0n, bytes + slack, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0)
  if (all === undefined) throw new Error("the system has no memory left")
  const before = slack && (HUGE_PAGE - Number(all % BigInt(HUGE_PAGE))) % HUGE_PAGE
  const at = all + BigInt(before)
  if (before > 0) calls.unmap(all, before)
  if (slack > before) calls.unmap(at + BigInt(bytes), slack - before)
  calls.advise(at, bytes, ON_HUGE_PAGES)
  return at
}
