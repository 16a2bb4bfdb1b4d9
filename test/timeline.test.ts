// The timeline of steps: what the notes add up to, on notes written by hand; and the notes of a real library, whose threads are
// never in two pieces at once and whose loops are those of the plan.

import { expect, test } from "vitest"
import {
  medians,
  microsecondsOf,
  type Noted,
  passesOf,
  rowsOf,
  traceOf,
} from "../bench/timeline/notes.ts"
import { namesOf, watch } from "../bench/timeline/timeline.ts"
import { planOf } from "../src/app/plan.ts"
import { usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { findCompiler } from "../src/compiler/targets/cpu/toolchain.ts"
import { runs } from "../src/compiler/targets/runs.ts"
import { targets } from "../src/compiler/targets/targets.ts"
import { openModel } from "../src/model/model.ts"
import { processorFeatures } from "../src/runtime/features.ts"

const names = ["norm", "× q", "draw tokens"]
/** Loading; then two passes of three loops, of which the first thread has some pieces and the second others. */
const notes = `
0 -1 0 0 50
0 0 1 1000 3000
0 1 2 5000 9000
0 1 2 10000 13000
0 2 3 20000 21000
0 0 4 101000 102000
0 1 5 103000 104000
1 1 2 6000 12000
-1 -1 0 0 60
-1 0 1 1000 4000
-1 1 2 4000 14000
-1 2 3 19000 22000
-1 0 4 101000 102000
-1 1 5 102000 105000
-1 2 6 105000 106000
`

test("every microsecond of a thread in a loop is said once", () => {
  const [first, second] = passesOf(notes, 2)
  expect([microsecondsOf(first!), microsecondsOf(second!)]).toEqual([21, 5])
  const rows = rowsOf(first!, names)
  expect(rows.map(({ name, microseconds }) => [name, microseconds])).toEqual([
    ["norm", 3],
    ["× q", 10],
    ["draw tokens", 3],
  ])
  const [norm, product] = rows
  expect(norm!.threads).toEqual([
    { worked: 2, woken: 0, handed: 0, waited: 1, idle: 0 },
    { worked: 0, woken: 0, handed: 0, waited: 0, idle: 3 },
  ])
  expect(product!.threads).toEqual([
    { worked: 7, woken: 1, handed: 1, waited: 1, idle: 0 },
    { worked: 6, woken: 2, handed: 0, waited: 2, idle: 0 },
  ])
  for (const { microseconds, threads } of rowsOf(second!, names))
    for (const { worked, woken, handed, waited, idle } of threads)
      expect(worked + woken + handed + waited + idle).toBe(microseconds)
  const [between] = medians([rows, rowsOf(second!, names)])
  expect(between!.microseconds).toBe(2) // of 3 and 1
})

test("a trace has a box for each piece and each loop", () => {
  const [first] = passesOf(notes, 2)
  const { traceEvents } = JSON.parse(traceOf([first!], names)) as {
    traceEvents: { ph: string; tid: number; name: string; ts: number; dur: number }[]
  }
  const boxes = traceEvents.filter(({ ph, tid }) => ph === "X" && tid === 1)
  expect(boxes).toEqual([{ name: "× q", ph: "X", pid: 1, tid: 1, ts: 5, dur: 6 }])
  expect(traceEvents.filter(({ ph, tid }) => ph === "X" && tid === 2)).toHaveLength(3)
})

const compiler = await findCompiler()

test.skipIf(!compiler)("a library with a host that notes says where its steps were", async () => {
  const model = await openModel("models/tiny")
  const plan = planOf(model, model.format, {}, targets.cpu.traits)
  await model.close()
  const level = usableLevels(process.arch, processorFeatures()).at(-1)! // the quickest to compile
  const wish = { threads: 2, sequences: 2, tokens: 1, depth: 16, steps: 3 }
  const passes = await watch(plan, level, wish)
  expect(passes).toHaveLength(3)
  const plannedSteps = runs(plan.steps).map((_, number) => number)
  for (const { loops, pieces } of passes) {
    expect([...new Set(loops.map(({ step }) => step))]).toEqual([
      ...plannedSteps,
      plannedSteps.length,
    ])
    expect(overlaps(loops)).toBe(0)
    for (const own of pieces) expect(overlaps(own)).toBe(0)
  }
  expect(namesOf(plan)).toHaveLength(plannedSteps.length + 1)
})

const overlaps = (noted: readonly Noted[]) =>
  noted.filter(({ begin }, i) => i > 0 && begin < noted[i - 1]!.end).length
