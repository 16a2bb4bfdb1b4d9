import { expect, test } from "vitest"
import { pageCalls } from "../ffi.ts"
import { ShownBytes } from "./shown-bytes.ts"

const GIB = 2 ** 30
/** Linux's, of what memory is for and of memory that only what is touched takes. */
const [BOTH, PRIVATE_ANONYMOUS_UNRESERVED] = [1 | 2, 0x02 | 0x20 | 0x4000]

const calls = pageCalls()

const note = calls ? "" : " (skipped: not Linux)"

test.skipIf(!calls)(
  `memory of more than 4 GiB is read, written and cleared at its end${note}`,
  () => {
    const length = 6 * GIB
    const at = calls!.map(0n, length, BOTH, PRIVATE_ANONYMOUS_UNRESERVED, -1, 0)!
    try {
      const shown = new ShownBytes(at, length)
      const edge = 4 * GIB - 2
      shown.part(edge, 4).set([1, 2, 3, 4])
      shown.part(length - 3, 3).set([5, 6, 7])
      expect([...shown.part(edge - 1, 6)]).toEqual([0, 1, 2, 3, 4, 0])
      shown.clear(edge + 1, 2)
      expect([...shown.part(edge - 1, 6)]).toEqual([0, 1, 0, 0, 4, 0])
      expect([...shown.part(length - 3, 3)]).toEqual([5, 6, 7])
    } finally {
      calls!.unmap(at, length)
    }
  },
)

test.skipIf(!calls)(`what is cleared in several pieces is all cleared${note}`, () => {
  const [length, piece] = [GIB, GIB / 4]
  const at = calls!.map(0n, length, BOTH, PRIVATE_ANONYMOUS_UNRESERVED, -1, 0)!
  try {
    const shown = new ShownBytes(at, length)
    for (const place of [0, 1, piece, piece + 2, piece + 3]) shown.part(place, 1).fill(9)
    shown.clear(1, piece + 2)
    const left = [0, 1, piece, piece + 2, piece + 3].map((place) => shown.part(place, 1)[0])
    expect(left).toEqual([9, 0, 0, 0, 9])
  } finally {
    calls!.unmap(at, length)
  }
})
