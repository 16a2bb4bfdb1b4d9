// What runs in the thread of constraint-thread.ts: takes orders, one after the other, and answers each.

import { parentPort, workerData } from "node:worker_threads"
import type { Constraint } from "../engine/generation.ts"
import { Problem } from "../errors.ts"
import { type ConstraintOptions, Constraints } from "./constraint.ts"
import type { Answer, Order, SharedMask } from "./constraint-thread.ts"
import { TokenBytes } from "./vocabulary.ts"

const { tokens, ...options } = workerData as ConstraintOptions
const bytes = new TokenBytes(tokens.bytes.data, tokens.bytes.offsets)
const constraints = new Constraints({ ...options, tokens: { ...tokens, bytes } })

interface Live {
  constraint: Constraint
  accepted: number
  shared: SharedMask
}

const live = new Map<number, Live>()

parentPort!.postMessage({ value: "started" } satisfies Answer)
parentPort!.on("message", (order: Order) => {
  if (order.kind === "close") live.delete(order.sequence)
  else parentPort!.postMessage(answer(order))
})

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
      for (const token of order.tokens) constraint.accept(token)
      const opened = { constraint, accepted: order.tokens.length, shared: order.shared }
      live.set(order.sequence, opened)
      return publish(opened)
    }
    case "accept": {
      const one = live.get(order.sequence)
      if (!one) throw new Error("internal: a token for a constraint that is not open")
      one.constraint.accept(order.token)
      one.accepted++
      return publish(one)
    }
  }
}

/** The mask is written before its number, so whoever sees the number sees the mask. */
function publish({ constraint, accepted, shared }: Live): void {
  constraint.mask(shared.mask)
  Atomics.store(shared.turn, 0, accepted)
}
