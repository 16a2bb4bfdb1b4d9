// The reference program, hosted: the same interface, with the arithmetic in a worker thread, so that a step never holds up
// the event loop. A call is a message, an answer is a message; arrays are copied, the cancel word is shared.

import { Worker } from "node:worker_threads"
import type { ProgramLimits } from "../../../runtime/program.ts"
import type { Plan } from "../../plan.ts"
import { type ReferenceProgram, referenceManifest } from "./reference.ts"

export interface Opening {
  plan: Plan
  limits: ProgramLimits
}

export interface Call {
  id: number
  method: "load" | "step" | "copyBlocks"
  values: readonly unknown[]
}

export type Answer = { id: number; value: unknown } | { id: number; error: string }

/** Calls reject when the thread could not get the memory that `limits` ask for. */
export function hostReference(plan: Plan, limits: ProgramLimits): ReferenceProgram {
  const worker = startWorker({ plan, limits })
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (e: Error) => void }>()
  let calls = 0
  let ended: Error | undefined

  function end(error: Error): void {
    ended ??= error
    for (const { reject } of waiting.values()) reject(ended)
    waiting.clear()
  }
  worker.on("message", (answer: Answer) => {
    const { resolve, reject } = waiting.get(answer.id)!
    waiting.delete(answer.id)
    if ("error" in answer) reject(new Error(answer.error))
    else resolve(answer.value as never)
  })
  worker.on("error", (error) =>
    end(new Error(`the reference program's thread failed: ${error.message}`)),
  )
  worker.on("exit", () => end(new Error("the reference program has been closed")))

  function call<T>(method: Call["method"], ...values: unknown[]): Promise<T> {
    if (ended) return Promise.reject(ended)
    const id = calls++
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject })
      worker.postMessage({ id, method, values } satisfies Call)
    })
  }

  return {
    manifest: referenceManifest(plan),
    limits,
    load: (...values) => call("load", ...values),
    step: (input, cancel) => call("step", input, cancel),
    copyBlocks: (from, to) => call("copyBlocks", from, to),
    async close() {
      await worker.terminate()
    },
  }
}

/** Beside this file stands the worker's. Run from the sources, it is TypeScript, which a thread must be taught to read. */
function startWorker(workerData: Opening): Worker {
  if (!import.meta.url.endsWith(".ts"))
    return new Worker(new URL("./worker.js", import.meta.url), { workerData })
  const file = JSON.stringify(new URL("./worker.ts", import.meta.url))
  const script = `import("tsx/esm/api").then((tsx) => tsx.register() && import(${file}))`
  return new Worker(script, { eval: true, workerData })
}
