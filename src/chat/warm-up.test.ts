import { expect, onTestFinished, test, vi } from "vitest"
import { Constraints } from "./constraint.ts"
import { TokenBytes } from "./vocabulary.ts"
import { warmUp, warmUpPieces } from "./warm-up.ts"

test("every document of the warm-up is read to its end", () => {
  const data = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  const tokens = {
    size: 257,
    bytes: new TokenBytes(
      data,
      Uint32Array.from({ length: 258 }, (_, i) => Math.min(i, 256)),
    ),
    special: new Set([256]),
    stripsLeadingSpace: false,
  }
  const constraints = new Constraints({
    tokens,
    visible: new Set(),
    ends: [256],
    toolFormat: "hermes" as const,
  })
  const pieces = warmUpPieces(constraints, tokens)
  let piece = pieces.next()
  while (!piece.done) piece = pieces.next()
  expect(piece.value).toBe(2)
})

test("the warm-up stands back while the process is busy, and comes to its end all the same", () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  let share = 0 // of a processor
  let taken = 0
  function* pieces(): Generator<void> {
    for (;;) yield void taken++
  }
  const piecesIn = (milliseconds: number) => {
    const before = taken
    vi.advanceTimersByTime(milliseconds)
    return taken - before
  }
  warmUp(pieces(), () => 1000 * share * performance.now())
  expect(piecesIn(2999)).toBe(0)
  expect(piecesIn(1001)).toBeGreaterThan(50)
  share = 1.5
  piecesIn(100) // counts from when it became busy
  expect(piecesIn(60_000)).toBeLessThanOrEqual(12)
  expect(piecesIn(60_000)).toBeGreaterThan(10)
  share = 0
  piecesIn(100)
  expect(piecesIn(1000)).toBeGreaterThan(50)
})
