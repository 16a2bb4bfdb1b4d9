// Steps of one token. Where later rows are those that somebody wants, such a step has one row from beginning to end: what is done to
// wanted rows is done to the token's, and nobody chooses any. So runs go on where rows would be chosen, and products of all tokens
// lie beside those of wanted ones. If nobody wants the token, its row is computed all the same, and nobody reads it.

import type { TapeStep } from "../../../runtime/gpu/tape.ts"
import type { RowSet } from "../../../runtime/step-rows.ts"
import type { Plan, Step } from "../../plan.ts"
import type { Unit } from "./order.ts"

/** The same plan of one token; undefined: it has no wanted rows, or they are not the token's. */
export function planOfOne(plan: Plan): Plan | undefined {
  const isOther = (step: Step) =>
    step.op === "gather" || // shards meet once, whatever rows there are
    (step.op === "select" && step.behind !== undefined)
  if (plan.steps.some(isOther) || plan.steps.every(({ rows }) => rows !== "wanted"))
    return undefined
  return { ...plan, steps: plan.steps.map(stepOfOne) }
}

function stepOfOne(step: Step): Step {
  if (step.rows !== "wanted") return step
  if (step.op !== "select") return { ...step, rows: "tokens" }
  return { rows: "tokens", op: "copy", input: step.input, output: step.output }
}

/** Launches that join no others. */
const apart: ReadonlySet<Step["op"]> = new Set(["attend", "delta"] as const)

/** Of a plan's units, from which on those of one token are asked for: what comes before has nothing to do with wanted rows. */
export function beginOfOne(
  units: readonly Unit[],
  ofOne: readonly Unit[],
  { steps }: Plan,
): number {
  const isOther = ({ run }: Unit, i: number) =>
    run.join() !== ofOne[i]?.run.join() || steps[run[0]!]!.rows === "wanted"
  const before = units.slice(0, units.findIndex(isOther))
  return Math.max(
    0,
    before.findLastIndex(({ run }) => apart.has(steps[run[0]!]!.op)),
  )
}

/** What is launched of one token, of which it is known how many rows there are; of others' rows, all that may be. */
export function choicesOfOne<Own extends { most?: number | undefined }>(
  rows: RowSet,
  choices: readonly Own[],
): readonly Own[] {
  if (rows !== "tokens") return choices
  const own = choices.find(({ most }) => most === undefined || most >= 1)!
  return [{ ...own, most: undefined }]
}

/** Steps of any number of tokens, with those of one between: both have the same beginning and the same end. */
export function withOne(
  steps: readonly TapeStep[],
  ofOne: readonly TapeStep[],
  begin: number,
): TapeStep[] {
  const isSame = (step: TapeStep | undefined, one: TapeStep | undefined) =>
    step !== undefined &&
    JSON.stringify({ ...step, choices: choicesOfOne(step.rows, step.choices) }) ===
      JSON.stringify(one)
  let first = begin
  while (isSame(steps[first], ofOne[first - begin])) first++
  let same = 0 // at the end
  const most = Math.min(steps.length - first, begin + ofOne.length - first)
  while (same < most && isSame(steps.at(-1 - same), ofOne.at(-1 - same))) same++
  const own = ofOne.slice(first - begin, ofOne.length - same)
  const others = steps.slice(first, steps.length - same)
  return [
    ...steps.slice(0, first),
    ...own.map((step): TapeStep => ({ ...step, only: "one token" })),
    ...others.map((step): TapeStep => ({ ...step, only: "more tokens" })),
    ...steps.slice(steps.length - same),
  ]
}
