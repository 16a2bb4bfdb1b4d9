// Whether a device computes what the slow twin computes, kernel by kernel, in a process of its own: a driver that hangs or
// crashes costs a line of the table.

import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { Worker, WorkerLost } from "../../../worker/worker.ts"
import { gpuCases } from "./check-cases.ts"

export interface CheckOpening {
  kind: GpuKind
  id: number
}

export interface CheckOutcome {
  result: "equal" | "differs" | "refused"
  /** Where it differs, or what its driver says. */
  words: string
}

export interface CheckLine extends CheckOutcome {
  kernel: string
  /** Groups of threads, and how many threads a group has. */
  shape: string
}

/** A driver that hangs does so with every kernel. */
const MAX_LOST = 3
const GONE = "the driver's process is gone"

/** @param milliseconds that a kernel may take, with what the driver makes of it */
export async function checkDevice(
  opening: CheckOpening,
  milliseconds: number,
): Promise<CheckLine[]> {
  const worker = new Worker<string, CheckOutcome>({
    name: `check of ${opening.kind}:${opening.id}`,
    file: new URL("check-worker", import.meta.url),
    host: "process",
    afterLoss: "resume",
    opening,
    milliseconds,
  })
  const lines: CheckLine[] = []
  let lost = 0 // in a row
  for (const { kernel, groups } of gpuCases) {
    const shape = `${groups.join(" x ")} of ${kernel.threads}`
    if (lost === MAX_LOST) {
      lines.push({ kernel: kernel.name, shape, result: "refused", words: "not tried any more" })
      continue
    }
    lost++
    const outcome = await worker.ask(kernel.name).catch((error: Error): CheckOutcome => {
      if (!(error instanceof WorkerLost)) throw error
      return { result: "refused", words: `${GONE}: ${error.why}` }
    })
    if (!outcome.words.startsWith(GONE)) lost = 0
    lines.push({ kernel: kernel.name, shape, ...outcome })
  }
  void worker.close() // a process that waits inside the kernel cannot be waited for
  return lines
}
