// Whether a device computes what the slow twin computes, kernel by kernel, in a process of its own: a driver that hangs or
// crashes costs a line of the table.

import { availableParallelism } from "node:os"
import { codeRoot } from "../../../code-root.ts"
import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { Worker, WorkerLost } from "../../../worker/worker.ts"
import type { SumOrder } from "../../plan.ts"
import { type CheckedKernel, languageKernels, type ShapedCase } from "./check-cases.ts"
import { weightKernels } from "./check-products.ts"
import { stepKernels } from "./check-steps.ts"
import type { Units } from "./kernels/tiles.ts"

export interface CheckOpening {
  kind: GpuKind
  id: number
}

/** A kernel and all its shapes. */
export interface CheckOrder {
  profiles: CheckedKernel["profiles"]
  shapes: readonly ShapedCase[]
}

export interface CheckOutcome {
  result: "equal" | "differs" | "refused"
  /** On how many shapes it computes what the twin does. */
  equal: number
  /** On which shape it first differs and where, or what its driver says. */
  words: string
}

export interface CheckLine extends CheckOutcome {
  kernel: string
  /** On how many it was tried. */
  shapes: number
}

/** A driver that hangs does so with every kernel. */
const MAX_LOST = 3
/** Each of which opens the device. */
const MOST_PROCESSES = 6
const GONE = "the driver's process is gone"

/** All that there are: the language, each codec's, and those of steps. @param sums as the target's plans have them */
export function* checkedKernels(sums: SumOrder, units: readonly Units[]): Generator<CheckedKernel> {
  yield* languageKernels
  yield* weightKernels(units)
  yield* stepKernels(sums, units)
}

/**
 * Several processes share the kernels where there are processors for them: twins are slow, and a compiler takes its time for every kernel.
 * @param milliseconds that a kernel may take, with what the driver makes of it
 */
export async function checkDevice(
  opening: CheckOpening,
  milliseconds: number,
  kernels: Iterable<CheckedKernel>,
): Promise<CheckLine[]> {
  const all = [...kernels]
  const processes = Math.max(1, Math.min(MOST_PROCESSES, Math.floor(availableParallelism() / 2)))
  const parts = await Promise.all(
    Array.from({ length: processes }, (_, first) =>
      checkPart(
        opening,
        milliseconds,
        all.filter((_, i) => i % processes === first),
      ),
    ),
  )
  return all.map((_, i) => parts[i % processes]![Math.floor(i / processes)]!)
}

async function checkPart(
  opening: CheckOpening,
  milliseconds: number,
  kernels: readonly CheckedKernel[],
): Promise<CheckLine[]> {
  const worker = new Worker<CheckOrder, CheckOutcome>({
    name: `check of ${opening.kind}:${opening.id}`,
    file: new URL("compiler/targets/gpu/check-worker", codeRoot),
    host: "process",
    afterLoss: "resume",
    opening,
    milliseconds,
  })
  const refused = (words: string): CheckOutcome => ({ result: "refused", equal: 0, words })
  const lines: CheckLine[] = []
  let lost = 0 // in a row
  for (const { name, profiles, shapes, at } of kernels) {
    if (lost === MAX_LOST) {
      lines.push({ kernel: name, shapes, ...refused("not tried any more") })
      continue
    }
    lost++
    const cases = Array.from({ length: shapes }, (_, shape) => at(shape))
    const outcome = await worker.ask({ profiles, shapes: cases }).catch((error: Error) => {
      if (!(error instanceof WorkerLost)) throw error
      return refused(`${GONE}: ${error.why}`)
    })
    if (!outcome.words.startsWith(GONE)) lost = 0
    lines.push({ kernel: name, shapes, ...outcome })
  }
  void worker.close() // a process that waits inside the kernel cannot be waited for
  return lines
}
