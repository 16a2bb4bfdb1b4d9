// What a tape launches of one token, and of more: the plan's own steps of more, and of one what is wanted as the token's row. That both
// leave the same bits golden tests see, which take prompts whole, in chunks and token by token.

import { expect, test } from "vitest"
import { stepLaunches, type TapeStep } from "../../../runtime/gpu/tape.ts"
import type { RowSet } from "../../../runtime/step-rows.ts"
import type { Plan, Step } from "../../plan.ts"
import { choicesOfOne, planOfOne, withOne } from "./one-token.ts"

const view = (buffer: number) => ({ buffer, from: 0, columns: 8 })
const planOf = (...steps: Step[]) => ({ steps }) as unknown as Plan
const copy = (rows: RowSet): Step => ({ rows, op: "copy", input: view(1), output: view(2) })
const select = (rows: RowSet, from: RowSet, behind?: number): Step => ({
  ...{ rows, op: "select", input: view(0), from, ...(behind && { behind }), output: view(1) },
})

test("of one token wanted rows are its row, and what the host reads is chosen as ever", () => {
  const plan = planOf(select("wanted", "tokens"), copy("wanted"), select("logits", "wanted"))
  expect(planOfOne(plan)!.steps).toEqual([
    { rows: "tokens", op: "copy", input: view(0), output: view(1) },
    copy("tokens"),
    select("logits", "wanted"),
  ])
})

test("plans whose rows are of one set, are joined, or meet other shards' have no steps of one token", () => {
  const chosen = select("wanted", "tokens")
  const gather: Step = {
    ...{ rows: "tokens", op: "gather", part: view(0), pieces: 1, output: view(1) },
  }
  expect(planOfOne(planOf(copy("tokens")))).toBeUndefined()
  expect(planOfOne(planOf(chosen, select("wanted", "wanted", 1)))).toBeUndefined()
  expect(planOfOne(planOf(chosen, gather))).toBeUndefined()
  expect(planOfOne(planOf(chosen))).toBeDefined()
})

test("a step of one token launches what is its own, and others what is theirs, between what they have in common", () => {
  const step = (rows: RowSet, ...kernels: number[]): TapeStep => ({
    ...{ text: [], rows },
    choices: kernels.map((kernel, i) => ({
      ...(i + 1 < kernels.length && { most: i + 1 }),
      launches: [{ kernel, operands: [], groups: [1, 1, 1] }],
    })),
  })
  const ofOne = (each: TapeStep) => ({ ...each, choices: choicesOfOne(each.rows, each.choices) })
  const [first, last] = [step("tokens", 1, 2), step("logits", 8, 9)]
  const steps = [first, step("tokens", 3), step("wanted", 4), step("wanted", 5, 6), last]
  const own = [first, step("tokens", 7, 6), last].map(ofOne)
  const both = withOne(steps, own, 0)
  expect(withOne(steps, own.slice(1), 1)).toEqual(both)
  const launched = (tokens: number, others: number) =>
    stepLaunches(both, (of) => (of === "tokens" ? tokens : others)).map(
      ({ launch }) => launch.kernel,
    )
  expect(launched(1, 1)).toEqual([1, 7, 8])
  expect(launched(1, 2)).toEqual([1, 7, 9])
  expect(launched(2, 1)).toEqual([2, 3, 4, 5, 8])
  expect(launched(2, 2)).toEqual([2, 3, 4, 6, 9])
  // What ends alike is shared no further than what begins so.
  expect(withOne([first], [ofOne(first)], 0)).toEqual([first])
  expect(withOne([first, first], [ofOne(first)], 0)).toHaveLength(2)
})
