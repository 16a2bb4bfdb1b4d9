// The reference program in a thread of its own: what hosted.ts starts. It answers calls in the order in which they come;
// a step sees its cancel word because the word is shared memory.

import { parentPort, workerData } from "node:worker_threads"
import type { Answer, Call, Opening } from "./hosted.ts"
import { openReference } from "./reference.ts"

const port = parentPort!
const { plan, limits } = workerData as Opening
const program = openReference(plan, limits)

port.on("message", (call: Call) => {
  void answer(call).then((given) => port.postMessage(given))
})

async function answer({ id, method, values }: Call): Promise<Answer> {
  try {
    // The names on both sides are those of ReferenceProgram.
    const run = program[method] as (...values: unknown[]) => Promise<unknown>
    return { id, value: await run(...values) }
  } catch (error) {
    return { id, error: (error as Error).message }
  }
}
