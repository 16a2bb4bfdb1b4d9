// How many prompt tokens a shared step takes on machines that are faster or slower than the ones before.

import { expect, test } from "vitest"
import { Pace } from "./pace.ts"

/** The allowance once steps whose tokens take so long, and everything else in them, have told it. */
function settled(msPerToken: number, ms: number): number {
  const pace = new Pace()
  for (let step = 0; step < 20; step++) pace.note(pace.allowed, ms + pace.allowed * msPerToken)
  return pace.allowed
}

test("steps get as long as they may, and no longer, however slow the machine is", () => {
  expect(settled(0.1, 10)).toBeGreaterThan(600)
  for (const [msPerToken, ms] of [
    [0.1, 10],
    [2.5, 40],
    [5, 60],
  ] as const) {
    const allowed = settled(msPerToken, ms)
    expect(ms + allowed * msPerToken).toBeGreaterThan(70)
    expect(ms + allowed * msPerToken).toBeLessThanOrEqual(90)
  }
  expect(settled(50, 60)).toBe(4)
})

test("a slow step is forgotten after a few", () => {
  const pace = new Pace()
  for (let step = 0; step < 10; step++) pace.note(pace.allowed, 0.5 * pace.allowed)
  pace.note(pace.allowed, 2000)
  expect(pace.allowed).toBeLessThan(16)
  for (let step = 0; step < 6; step++) pace.note(pace.allowed, 0.5 * pace.allowed)
  expect(pace.allowed).toBeGreaterThan(100)
})
