// Which steps of a plan are done together: neighbours that look at nothing but their own row, one after the other on each row.

import type { BufferId, Plan, Step, View } from "../plan.ts"

/** What is done to each row by itself. */
export type RowStep = Exclude<Step, { op: (typeof others)[number] }>

const others = [
  "matmul",
  "headMatmul",
  "experts",
  "expertRows",
  "expertSums",
  "attend",
  "indexer",
  "delta",
  "gather",
] as const

/** A step by itself, or several that each row takes in turn, by their places in the plan. */
export function runs(steps: readonly Step[]): number[][] {
  const all: number[][] = []
  for (const [i, step] of steps.entries()) {
    const run = all.at(-1)
    if (
      run &&
      joins(
        run.map((before) => steps[before]!),
        step,
      )
    )
      run.push(i)
    else all.push([i])
  }
  return all
}

export function isRowStep(step: Step): step is RowStep {
  return !(others as readonly string[]).includes(step.op)
}

/**
 * Rows of a run are done in any order, so nobody may write into a buffer of which another row is still to be read: `select`
 * reads the row of its token, and so does a `rope` that has not all of them. `convolve` reads what other rows have stored; and a run keeps or
 * reads rows of one layer.
 */
export function joins(run: readonly Step[], step: Step): boolean {
  if (!isRowStep(step) || step.rows !== run[0]!.rows) return false
  const isKept = ({ op }: Step) => op === "convolve" || op === "storeKv"
  if (isKept(step) && run.some(isKept)) return false
  const written = writtenBy(step)
  return run.every((before) => isRowStep(before) && !written.includes(readElsewhere(before)!))
}

/** Columns of floats that a step reads, in whichever rows. */
export function viewsRead(step: Step): View[] {
  const found: View[] = []
  const look = (value: unknown) => {
    if (typeof value !== "object" || value === null) return
    if ("buffer" in value && "from" in value) found.push(value as View)
    else for (const part of Object.values(value)) look(part)
  }
  for (const [name, value] of Object.entries(step)) if (name !== "output") look(value)
  return found
}

/** Whether some step behind number `at` reads what lies in a view there, or the host does at the end. */
export function isReadBehind({ steps, logits, hidden }: Plan, at: number, view: View): boolean {
  const overlaps = ({ buffer, from, columns }: View) =>
    buffer === view.buffer && from < view.from + view.columns && view.from < from + columns
  const covers = ({ buffer, from, columns }: View) =>
    buffer === view.buffer && from <= view.from && from + columns >= view.from + view.columns
  for (const step of steps.slice(at + 1)) {
    if (viewsRead(step).some(overlaps)) return true
    if ("output" in step && "buffer" in step.output && covers(step.output)) return false
  }
  return [logits, hidden].some(overlaps)
}

/** The buffer that a step reads in another row than its own. */
function readElsewhere(step: RowStep): BufferId | undefined {
  if (step.op === "select") return step.input.buffer
  return step.op === "rope" && step.rows !== "tokens" ? step.ropeTable.buffer : undefined
}

function writtenBy(step: RowStep): BufferId[] {
  switch (step.op) {
    case "quantize":
      return [step.output.codes, step.output.scales]
    case "rope":
      return [step.view.buffer]
    case "storeKv":
      return []
    default:
      return [step.output.buffer]
  }
}
