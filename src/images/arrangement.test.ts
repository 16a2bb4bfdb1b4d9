import { expect, test } from "vitest"
import { turnsUntil } from "../../test/loop-turns.ts"
import { arranged, mostPacked, packed } from "./arrangement.ts"

const newline = new Float32Array(1024)

test("others have their turn while rows of an image are put together", async () => {
  const arrangement = packed({ width: 2, height: 1 }, { width: 2, height: 1 }, 30)
  const rows = arranged(new Float32Array(3 * 900 * 1024), arrangement, newline)
  expect(await turnsUntil(rows)).toBeGreaterThan(8) // of 2,730 rows of 1,024 numbers
})

test("whoever leaves meanwhile is told why", async () => {
  const arrangement = packed({ width: 1, height: 1 }, { width: 1, height: 1 }, 2)
  const rows = arranged(new Float32Array(8 * 1024), arrangement, newline, AbortSignal.abort("left"))
  await expect(rows).rejects.toBe("left")
})

test("no grid becomes more rows than are told before", () => {
  for (const [width, height] of [
    [1, 1],
    [3, 2],
    [6, 6],
    [1, 7],
  ] as const)
    for (const most of [undefined, 2, 9])
      for (const size of [
        [100, 100],
        [640, 480],
        [333, 1000],
        [1, 65_535],
      ] as const) {
        const picture = { width: size[0], height: size[1] }
        const { from, taps } = packed(picture, { width, height }, 27, most)
        expect(from.length / taps).toBeLessThanOrEqual(
          27 * 27 + mostPacked({ width, height }, 27, most),
        )
      }
})
