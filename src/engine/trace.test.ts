import { expect, test } from "vitest"
import { request, setUp } from "../../test/history-engine.ts"
import { collect } from "../../test/history-program.ts"
import { Trace } from "./trace.ts"

test("a trace tells what happened to whom, in Chrome's words", () => {
  let clock = 0
  const trace = new Trace(() => clock)
  trace.mark("r1", "queued", { prompt: 7 })
  clock = 5
  trace.span(undefined, "step", 2, { sequences: 1 })
  expect(trace.toJSON()).toEqual({
    displayTimeUnit: "ms",
    otherData: { dropped: 0 },
    traceEvents: [
      { name: "process_name", ph: "M", pid: 1, tid: 0, args: { name: "engine" } },
      { name: "process_name", ph: "M", pid: 2, tid: 0, args: { name: "requests" } },
      { name: "thread_name", ph: "M", pid: 2, tid: 1, args: { name: "r1" } },
      { name: "queued", ph: "i", s: "t", ts: 0, pid: 2, tid: 1, args: { prompt: 7 } },
      { name: "step", ph: "X", ts: 2000, dur: 3000, pid: 1, tid: 0, args: { sequences: 1 } },
    ],
  })
})

test("the oldest events make room", () => {
  const trace = new Trace(() => 0, 3)
  for (const name of ["a", "b", "c", "d", "e"]) trace.mark("r", name)
  const { otherData, traceEvents } = trace.toJSON()
  expect(otherData.dropped).toBe(2)
  expect(traceEvents.filter(({ ph }) => ph === "i").map(({ name }) => name)).toEqual([
    "c",
    "d",
    "e",
  ])
})

test("eight concurrent requests: steps that hold eight, and every event of each request", async () => {
  const trace = new Trace()
  const { engine, isClean } = setUp({ sequences: 8, blocks: 200, options: { trace } })
  const inputs = Array.from({ length: 8 }, () => request(50))
  await Promise.all(inputs.map((each) => collect(engine.generate(each).choices[0]!)))
  const { traceEvents } = trace.toJSON()
  const steps = traceEvents.filter(({ name }) => name === "step")
  expect(Math.max(...steps.map(({ args }) => Number(args.sequences)))).toBe(8)
  expect(steps.reduce((sum, { args }) => sum + Number(args.prompt), 0)).toBe(8 * 50)
  expect(steps.reduce((sum, { args }) => sum + Number(args.reply), 0)).toBe(8 * 20)
  const line = traceEvents.find(({ args }) => args.name === inputs[2]!.id)!
  const names = traceEvents
    .filter(({ ph, pid, tid }) => ph !== "M" && pid === line.pid && tid === line.tid)
    .map(({ name }) => name)
  // A prompt is read in as many steps as their pace asks for.
  expect([...new Set(names)]).toEqual(["queued", "prefix", "admitted", "prompt", "reply"])
  isClean()
})
