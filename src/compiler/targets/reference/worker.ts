// The reference program in a thread of its own: what hosted.ts starts. It answers calls in the order in which they come;
// a step sees its cancel word because the word is shared memory.

import { parentPort, workerData } from "node:worker_threads"
import type { Answer, Call, Opening } from "./hosted.ts"
import { openReference } from "./reference.ts"

const port = parentPort!
const { plan, limits } = workerData as Opening
const program = openReference(plan, limits)

port.on("message", async ({ id, method, values }: Call) => {
  let answer: Answer
  try {
    // The names of both sides are those of ReferenceProgram.
    const run = program[method] as (...values: unknown[]) => Promise<unknown>
    answer = { id, value: await run(...values) }
  } catch (error) {
    answer = { id, error: (error as Error).message }
  }
  port.postMessage(answer)
})
