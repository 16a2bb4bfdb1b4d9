import { expect, test } from "vitest"
import { downloadLine } from "./progress.ts"

const MIB = 2 ** 20

test.each([
  [0, 3 * MIB, Number.NaN, "m: 0.0 KiB of 3.0 MiB"],
  [MIB, 3 * MIB, MIB, "m: 1.0 MiB of 3.0 MiB, 1.0 MiB/s, 2 s left"],
  [0, 3000 * MIB, 10 * MIB, "m: 0.0 KiB of 2.9 GiB, 10.0 MiB/s, 5 min left"],
  [0, 90_000 * MIB, 10 * MIB, "m: 0.0 KiB of 87.9 GiB, 10.0 MiB/s, 2 h 30 min left"],
  [3 * MIB, 3 * MIB, MIB, "m: 3.0 MiB of 3.0 MiB, 1.0 MiB/s"],
])("%d of %d bytes at %d a second", (done, total, rate, line) => {
  expect(downloadLine("m", done, total, rate)).toBe(line)
})
