// What runs in the thread of compile-thread.ts.

import { createHash } from "node:crypto"
import { Problem } from "../errors.ts"
import { serve } from "../worker/serve.ts"
import { type Answer, type Opening, type Order, tooCostly } from "./compile-thread.ts"
import { CompiledSchemas, type Watch } from "./compiled-schemas.ts"
import { Grammars } from "./grammars.ts"
import { compilePieces, warmUp } from "./warm-up.ts"

let grammars: Grammars

serve({
  open(opening: Opening): void {
    grammars = new Grammars(opening.options, new CompiledSchemas(watching(opening)))
    warmUp(compilePieces(grammars))
  },
  answer(order: Order): Answer {
    const began = performance.now()
    try {
      const value =
        order.kind === "hold" ? grammars.of(order.spec).unenforced : grammars.check(order.asked)
      return { value, milliseconds: performance.now() - began }
    } catch (error) {
      if (error instanceof Problem) return { refusal: error.message, param: error.param }
      throw error
    }
  },
})

/** What is being compiled is written where it can be read when this thread is no more. */
function watching({ costly, current }: Opening): Watch {
  return {
    begin(schema) {
      const hash = createHash("sha256").update(schema).digest()
      const why = costly.get(hash.toString("hex"))
      if (why !== undefined) throw tooCostly(why)
      current.set(hash)
    },
    end: () => void current.fill(0),
  }
}
