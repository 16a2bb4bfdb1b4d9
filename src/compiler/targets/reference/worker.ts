// The reference program in a thread of its own: what hosted.ts starts. It answers calls in the order in which they come;
// a step sees its cancel word because the word is shared memory.

import type { LoadableProgram } from "../../../runtime/program.ts"
import { serve } from "../../../worker/serve.ts"
import type { Call, Opening } from "./hosted.ts"
import { openReference } from "./reference.ts"

let program: LoadableProgram

serve({
  open({ plan, limits }: Opening): void {
    program = openReference(plan, limits)
  },
  answer({ method, values }: Call): unknown {
    // The names on both sides are those of LoadableProgram.
    const run = program[method] as (...values: unknown[]) => Promise<unknown>
    return run(...values)
  },
})
