// A worker's own side, in a thread and in a process alike: opened once, then one answer to each order. What an order throws
// is its answer; what nobody catches ends the worker, and its asker (worker.ts) starts another.

import { writeFileSync } from "node:fs"
import module from "node:module"
import { parentPort, workerData } from "node:worker_threads"
import { GiveBack } from "./give-back.ts"
import { OUT_OF_MEMORY, standBack } from "./hosts.ts"
import type { FromWorker, ToWorker } from "./protocol.ts"
import { residentSize } from "./resident-size.ts"

export interface Served<Opening, Order> {
  /** What it returns is what opening it says. */
  open: (opening: Opening) => unknown
  answer: (order: Order) => unknown
  tell?: (message: unknown) => void
}

/** One answer after the other, also where nobody waits for the first any more. */
export function oneByOne<Order, Answer>(
  answer: (order: Order) => Promise<Answer>,
): (order: Order) => Promise<Answer> {
  let last: Promise<unknown> = Promise.resolve()
  return (order) => {
    const next = last.then(() => answer(order))
    last = next.catch(() => {})
    return next
  }
}

/** Orders that come before it is open wait until it is. */
export function serve<Opening, Order>({ open, answer, tell }: Served<Opening, Order>): void {
  const post = channel((message) => {
    if ("opening" in message) {
      opened = Promise.resolve(message.opening as Opening).then(open)
      void opened.then((value) => {
        isOpen = true
        memory = new GiveBack() // what it has now is its own
        post({ id: message.id, value })
        setImmediate(keepCompiledModules)
      }, failing(message.id))
    } else if (isOpen) respond(message)
    else opened.then(() => respond(message), "id" in message ? failing(message.id) : () => {})
  })
  let opened: Promise<unknown> = Promise.resolve()
  let isOpen = false
  let orders = 0 // that were taken and are not answered
  let memory: GiveBack | undefined

  function respond(message: Exclude<ToWorker, { opening: unknown }>): void {
    if ("tell" in message) tell?.(message.tell)
    else settle(message.id, message.order as Order)
  }

  /** At once where it can be: a promise costs a turn. */
  function settle(id: number, order: Order): void {
    const reply = (answer: FromWorker) => {
      post(answer)
      if (--orders === 0) memory?.idle()
    }
    const fail = (error: Error) => reply({ id, failure: error.message })
    orders++
    memory?.busy()
    try {
      const value = answer(order)
      if (value instanceof Promise) value.then((value) => reply({ id, value }), fail)
      else reply({ id, value })
    } catch (error) {
      fail(error as Error)
    }
  }

  function failing(id: number) {
    return (error: Error) => post({ id, failure: error.message })
  }
}

/** Node would when this ends by itself, which it never does: https://nodejs.org/api/module.html#moduleflushcompilecache (from 22.10 on) */
function keepCompiledModules(): void {
  ;(module as { flushCompileCache?: () => void }).flushCompileCache?.()
}

function channel(take: (message: ToWorker) => void): (answer: FromWorker) => void {
  if (parentPort) {
    const port = parentPort
    standBack((workerData as { nice?: number }).nice)
    port.on("message", take)
    return (answer) => port.postMessage(answer)
  }
  // As for SIGUSR1: it would open an inspector.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"] as const)
    process.on(signal, () => {})
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL")) // whatever native code is doing
  process.on("message", take)
  offerFirst()
  watchMemory(Number(process.argv.at(-1)))
  return (answer) => void process.send!(answer)
}

/** Where the machine runs out of memory, the system ends this process before its server. */
function offerFirst(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "1000")
  } catch {} // other systems choose for themselves
}

const WATCH = 100 // milliseconds

/** Native memory counts: the heap alone is bounded by V8. */
function watchMemory(megabytes: number): void {
  if (!megabytes) return
  const look = () => {
    if ((residentSize() ?? 0) > megabytes * 2 ** 20) process.exit(OUT_OF_MEMORY)
  }
  setInterval(look, WATCH).unref()
}
