// Asks a driver which devices it knows, in a process of its own with a time limit: a driver that hangs, crashes or is half
// installed costs a line of the answer and nothing else.

import { codeRoot } from "../../code-root.ts"
import type { Ending } from "../../worker/protocol.ts"
import { Worker, WorkerLost } from "../../worker/worker.ts"
import type { DriverDevice, Obstacle } from "./driver.ts"

export interface DriverOrder {
  driver: "cuda" | "rocm" | "metal" | "vulkan" | "opencl"
  /** Names of the driver's library, the likeliest first. */
  libraries: readonly string[]
}

export type DriverAnswer = { devices: DriverDevice[] } | { obstacle: Obstacle }

/** @param milliseconds from the moment that the process has started */
export async function askDriver(order: DriverOrder, milliseconds: number): Promise<DriverAnswer> {
  let ending: Ending | undefined
  const worker = new Worker<DriverOrder, DriverAnswer>({
    name: `${order.driver} driver`,
    file: new URL("runtime/drivers/worker", codeRoot),
    host: "process",
    afterLoss: "end",
    opening: undefined,
    milliseconds,
    onLoss: (how) => {
      ending = how
    },
  })
  try {
    return await worker.ask(order)
  } catch (error) {
    if (error instanceof WorkerLost && ending) return { obstacle: obstacleOf(ending, milliseconds) }
    throw error
  } finally {
    void worker.close() // a process that waits inside the kernel cannot be waited for
  }
}

function obstacleOf({ reason, signal, why }: Ending, milliseconds: number): Obstacle {
  if (reason === "time")
    return {
      reason: "driver_hangs",
      problem: `its driver did not answer within ${milliseconds / 1000} s and was given up`,
    }
  if (reason === "unstartable")
    return { reason: "driver_failed", problem: `its driver could not be asked: ${why}` }
  return {
    reason: "driver_crashed",
    problem: `its driver ended the process that asked it${signal ? ` (${signal})` : ""}`,
  }
}
