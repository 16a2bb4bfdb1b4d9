// What runs in a thread of mask-thread.ts.

import { serve } from "../worker/serve.ts"
import { type ConstraintOptions, Constraints } from "./constraint.ts"
import type { Lookahead } from "./lookahead.ts"
import type { Answer, Move, Order, SharedMasks } from "./mask-thread.ts"
import { TokenBytes } from "./vocabulary.ts"
import { warmUp, warmUpPieces } from "./warm-up.ts"

interface Live {
  constraint: Lookahead
  shared: SharedMasks
}

const live = new Map<number, Live>()
let constraints: Constraints
let words: number

serve({
  open(options: ConstraintOptions): void {
    const { data, offsets } = options.tokens.bytes
    const tokens = { ...options.tokens, bytes: new TokenBytes(data, offsets) }
    constraints = new Constraints({ ...options, tokens })
    words = Math.ceil(tokens.size / 32)
    warmUp(warmUpPieces(constraints, tokens))
  },
  answer(order: Order): Answer {
    const began = performance.now()
    move(order.kind === "open" ? opened(order) : known(order), order)
    return { milliseconds: performance.now() - began }
  },
  /** A sequence has ended, or is another thread's. */
  tell(sequence) {
    live.delete(sequence as number)
  },
})

function opened({ sequence, spec: held, shared }: Order & { kind: "open" }): Live {
  const one = { constraint: constraints.hold(held).constraint(), shared: shared! }
  live.set(sequence, one)
  return one
}

function known({ sequence }: Order): Live {
  const one = live.get(sequence)
  if (!one) throw new Error("internal: a token for a constraint that is not open")
  return one
}

/** The masks are written before the move's number, so whoever sees the number sees the masks. */
function move(one: Live, { tokens, draft, turn, shared }: Move): void {
  const { constraint } = one
  if (shared) one.shared = shared
  const { status, masks } = one.shared
  for (const token of tokens) constraint.accept(token)
  constraint.draft(draft ?? constraint.forced)
  const { drafted, forced } = constraint
  for (let after = draft ? 0 : drafted; after <= drafted; after++) {
    const row = draft ? after * words : 0
    constraint.mask(masks.subarray(row, row + words), after)
  }
  status.set([drafted, forced.length, ...forced], 1)
  Atomics.store(status, 0, turn)
}
