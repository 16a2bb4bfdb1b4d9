// Whether a device computes what the slow twin computes, kernel by kernel, in processes of its own: a driver that hangs or
// crashes costs a line of the table.

import { availableParallelism } from "node:os"
import { codeRoot } from "../../../code-root.ts"
import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { Worker, WorkerLost } from "../../../worker/worker.ts"
import type { SumOrder } from "../../plan.ts"
import { type CheckedKernel, languageKernels, type ShapedCase } from "./check-cases.ts"
import { weightKernels } from "./check-products.ts"
import { stepKernels } from "./check-steps.ts"
import type { KernelWords } from "./tape-of.ts"

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
export function* checkedKernels(sums: SumOrder, words: KernelWords): Generator<CheckedKernel> {
  yield* languageKernels
  yield* weightKernels(words.units)
  yield* stepKernels(sums, words)
}

/** What a machine's processors are enough for: twins are slow, and a compiler takes its time for every kernel. */
const processesHere = () =>
  Math.max(1, Math.min(MOST_PROCESSES, Math.floor(availableParallelism() / 2)))

/**
 * @param milliseconds that a kernel may take, with what the driver makes of it
 * @param processes that share the kernels
 */
export async function checkDevice(
  opening: CheckOpening,
  milliseconds: number,
  kernels: Iterable<CheckedKernel>,
  processes = processesHere(),
): Promise<CheckLine[]> {
  const left = [...kernels].entries()
  const lines: CheckLine[] = []
  let lost = 0 // in a row, whoever has lost them
  const refused = (words: string): CheckOutcome => ({ result: "refused", equal: 0, words })
  const takeTurns = async () => {
    const worker = new Worker<CheckOrder, CheckOutcome>({
      name: `check of ${opening.kind}:${opening.id}`,
      file: new URL("compiler/targets/gpu/check-worker", codeRoot),
      host: "process",
      afterLoss: "resume",
      opening,
      milliseconds,
    })
    for (const [i, { name, profiles, shapes, at }] of left) {
      if (lost >= MAX_LOST) {
        lines[i] = { kernel: name, shapes, ...refused("not tried any more") }
        continue
      }
      const cases = Array.from({ length: shapes }, (_, shape) => at(shape))
      const outcome = await worker.ask({ profiles, shapes: cases }).catch((error: Error) => {
        if (!(error instanceof WorkerLost)) throw error
        return refused(`${GONE}: ${error.why}`)
      })
      lost = outcome.words.startsWith(GONE) ? lost + 1 : 0
      lines[i] = { kernel: name, shapes, ...outcome }
    }
    void worker.close() // a process that waits inside the kernel cannot be waited for
  }
  await Promise.all(Array.from({ length: processes }, takeTurns))
  return lines
}
