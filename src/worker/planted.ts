// A worker for worker.test.ts: does what it is ordered to, good or bad.

import { getPriority } from "node:os"
import { serve } from "./serve.ts"

export type Order =
  | { say: unknown }
  | { fail: string }
  | { later: string } // thrown where nobody catches it
  | "answer and throw"
  | "hang"
  | "wait" // without ever answering, and without being busy
  | "eat"
  | "exit"
  | "die"
  | "tell how nice you are"

export type Opening = { isBroken?: boolean; dies?: boolean }

const told: unknown[] = []
let opened: Opening

serve({
  open(opening: Opening): unknown {
    opened = opening
    if (opened.isBroken) throw new Error("it cannot be opened")
    if (opened.dies) process.exit(1)
    return process.pid
  },
  answer(order: Order): unknown {
    if (order === "hang") for (;;) {}
    if (order === "wait") return new Promise(() => {})
    if (order === "eat") return eat()
    if (order === "exit") return process.exit(3)
    if (order === "tell how nice you are") return getPriority()
    if (order === "die") return process.kill(process.pid, "SIGKILL")
    if (order === "answer and throw") {
      queueMicrotask(() => {
        throw new Error("after the answer")
      })
      return "answered"
    }
    if ("fail" in order) throw new Error(order.fail)
    if ("later" in order) {
      setImmediate(() => {
        throw new Error(order.later)
      })
      return new Promise(() => {})
    }
    return [order.say, ...told]
  },
  tell(message) {
    told.push(message)
  },
})

function eat(): number {
  const eaten: unknown[][] = []
  for (;;) eaten.push(Array.from({ length: 1e5 }, (_, i) => ({ i })))
}
