// How many prompt tokens a shared step takes on machines that are faster or slower than the ones before.

import { expect, test } from "vitest"
import { Pace } from "./pace.ts"

/** What steps take: `own` without prompts, and `each` for each of their tokens. */
function settled(own: number, each: number): { pace: Pace; steps: number[] } {
  const pace = new Pace(4)
  const steps: number[] = []
  for (let step = 0; step < 40; step++) {
    const tokens = pace.allowed(1)
    steps.push(own + tokens * each)
    pace.note(1, tokens, own + tokens * each)
  }
  return { pace, steps }
}

test("steps get as long as they may, and no longer, however slow the machine is", () => {
  for (const [own, each, least, most] of [
    [40, 2.5, 55, 60],
    [60, 5, 70, 90],
    [20, 0.1, 28, 30],
    [12, 0.1, 24, 25],
    [10, 0.1, 22, 25],
    [1, 0.05, 2.4, 2.5],
    [0.1, 0.005, 1.9, 2],
  ] as const) {
    const { steps } = settled(own, each)
    const last = steps.slice(-9)
    expect(last.filter((ms) => ms === own)).toHaveLength(1) // without a prompt, to know what that takes
    for (const ms of last.filter((ms) => ms > own)) {
      expect(ms).toBeGreaterThan(least)
      expect(ms).toBeLessThanOrEqual(most)
    }
  }
  expect(settled(60, 50).pace.allowed(1)).toBe(4)
})

test("where nobody draws, steps last as long as any may", () => {
  const pace = new Pace(4)
  for (let step = 0; step < 20; step++) pace.note(0, pace.allowed(0), 10 + 0.1 * pace.allowed(0))
  expect(10 + 0.1 * pace.allowed(0)).toBeCloseTo(80, 0)
  for (let step = 0; step < 20; step++) pace.note(1, pace.allowed(1), 1 + 0.1 * pace.allowed(1))
  expect(10 + 0.1 * pace.allowed(0)).toBeCloseTo(80, 0) // what steps beside tokens take is none of theirs
})

test("a slow step is forgotten after a few", () => {
  const { pace } = settled(10, 0.125)
  const before = pace.allowed(1)
  pace.note(1, before, 2000)
  expect(pace.allowed(1)).toBeLessThan(16)
  for (let step = 0; step < 6; step++) {
    const tokens = pace.allowed(1)
    pace.note(1, tokens, 10 + 0.125 * tokens)
  }
  expect(pace.allowed(1)).toBeGreaterThan(before / 2)
})
