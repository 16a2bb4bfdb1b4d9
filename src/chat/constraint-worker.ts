// What runs in the thread of constraint-thread.ts: takes orders, one after the other, and answers each.

import { parentPort, workerData } from "node:worker_threads"
import { Problem } from "../errors.ts"
import { type ConstraintOptions, Constraints } from "./constraint.ts"
import type { Answer, Move, Order, SharedMasks } from "./constraint-thread.ts"
import type { Lookahead } from "./lookahead.ts"
import { TokenBytes } from "./vocabulary.ts"
import { warmUp } from "./warm-up.ts"

const options = workerData as ConstraintOptions
const { data, offsets } = options.tokens.bytes
const tokens = { ...options.tokens, bytes: new TokenBytes(data, offsets) }
const constraints = new Constraints({ ...options, tokens })
const words = Math.ceil(tokens.size / 32)

interface Live {
  constraint: Lookahead
  shared: SharedMasks
}

const live = new Map<number, Live>()

parentPort!.postMessage({ value: "started" } satisfies Answer)
parentPort!.on("message", (order: Order) => {
  if (order.kind === "close") live.delete(order.sequence)
  else parentPort!.postMessage(answer(order))
})
warmUp(constraints, tokens)

function answer(order: Order): Answer {
  try {
    return { value: taken(order) }
  } catch (error) {
    if (error instanceof Problem) return { refusal: error.message, param: error.param }
    return { failure: (error as Error).message }
  }
}

function taken(order: Order): unknown {
  switch (order.kind) {
    case "hold":
      return constraints.hold(order.held).unenforced
    case "check":
      return constraints.check(order.asked)
    case "open": {
      const constraint = constraints.hold(order.held).constraint()
      live.set(order.sequence, { constraint, shared: order.shared! })
      return move(live.get(order.sequence)!, order)
    }
    case "accept": {
      const one = live.get(order.sequence)
      if (!one) throw new Error("internal: a token for a constraint that is not open")
      return move(one, order)
    }
  }
}

/** The masks are written before the move's number, so whoever sees the number sees the masks. */
function move(one: Live, { tokens, draft, turn, shared }: Move): void {
  const { constraint } = one
  if (shared) one.shared = shared
  const { found, masks } = one.shared
  for (const token of tokens) constraint.accept(token)
  constraint.draft(draft ?? constraint.forced)
  const { drafted, forced } = constraint
  for (let after = draft ? 0 : drafted; after <= drafted; after++) {
    const row = draft ? after * words : 0
    constraint.mask(masks.subarray(row, row + words), after)
  }
  found.set([drafted, forced.length, ...forced], 1)
  Atomics.store(found, 0, turn)
}
