// What runs in the thread of align-thread.ts.

import { serve } from "../../worker/serve.ts"
import type { Answer, Order } from "./align-thread.ts"
import { type AlignmentHeads, beginnings } from "./alignment.ts"

let heads: AlignmentHeads

serve({
  open(opening: AlignmentHeads): void {
    heads = opening
  },
  answer: (said: Order): Answer => beginnings(heads, said),
})
