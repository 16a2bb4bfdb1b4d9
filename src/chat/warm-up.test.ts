import { expect, test } from "vitest"
import { Constraints } from "./constraint.ts"
import { TokenBytes } from "./vocabulary.ts"
import { warmUpPieces } from "./warm-up.ts"

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
