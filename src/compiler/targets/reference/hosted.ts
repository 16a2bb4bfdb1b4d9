// The reference program, hosted: the same interface, with the arithmetic in a worker thread, so that a step never holds up
// the event loop. Arrays are copied there and back, the cancel word is shared.

import { codeRoot } from "../../../code-root.ts"
import { type LoadableProgram, type ProgramLimits, ProgramLost } from "../../../runtime/program.ts"
import { Worker, WorkerLost } from "../../../worker/worker.ts"
import type { Plan } from "../../plan.ts"
import { prepared } from "../prepared.ts"
import type { Prepared } from "../target.ts"
import { referenceManifest } from "./reference.ts"

export interface Opening {
  plan: Plan
  limits: ProgramLimits
}

export interface Call {
  method: "load" | "step" | "copyBlocks"
  values: readonly unknown[]
}

export function prepareReference(plan: Plan): Prepared {
  return prepared(referenceManifest(plan), [0], "interpreted", async (limits) =>
    hostReference(plan, limits),
  )
}

/** Calls reject when the thread could not get the memory that `limits` ask for. */
export function hostReference(plan: Plan, limits: ProgramLimits): LoadableProgram {
  const worker = new Worker<Call, never>({
    name: "reference program",
    file: new URL("compiler/targets/reference/worker", codeRoot),
    host: "thread",
    afterLoss: "end", // the weights are gone with it
    opening: { plan, limits } satisfies Opening,
  })
  worker.start()

  const call = (method: Call["method"], ...values: unknown[]) =>
    worker.ask({ method, values }).catch((error: Error) => {
      throw error instanceof WorkerLost
        ? new ProgramLost(`the reference program: ${error.why}`)
        : error
    })

  return {
    manifest: referenceManifest(plan),
    limits,
    load: (...values) => call("load", ...values),
    step: (input, cancel) => call("step", input, cancel),
    copyBlocks: (...values) => call("copyBlocks", ...values),
    close: () => worker.close(),
  }
}
