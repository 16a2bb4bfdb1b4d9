// How long a device is waited for. What it is handed at once lasts some seconds at most (program.ts), and systems end what lasts
// much longer; but one that hangs, or has fallen off its bus, may never say so. Whoever waits is told then, and nothing more
// is asked of the device, not even to be closed: any call could wait for ever, and some are made on the event loop.

import { leaveThread } from "../../closing.ts"
import { endProcess } from "../ffi.ts"
import { ProgramLost } from "../program.ts"
import type { GpuDevice } from "./device.ts"

/** Looks, a second apart: a machine that sleeps meanwhile has been looked at once. */
export const PATIENCE = 300

/** Nothing more is to be asked of the device. */
export class DeviceSilent extends ProgramLost {
  constructor(description: string) {
    super(`${description}: it has not answered for ${PATIENCE} seconds`)
    leaveThread()
    process.once("exit", endProcess) // Node's own exit waits for threads, too
  }
}

/** A processor that poses as a GPU does not hang, and may be as slow as it likes. */
export function patienceWith({ traits }: Pick<GpuDevice, "traits">): number {
  return traits.isProcessor ? Number.POSITIVE_INFINITY : PATIENCE
}

/**
 * What a device answers.
 * @param lose told before anybody else where it does not
 * @throws DeviceSilent
 */
export function answerOf<Answer>(
  device: Pick<GpuDevice, "description" | "traits">,
  answer: Promise<Answer>,
  lose: (silent: DeviceSilent) => void,
): Promise<Answer> {
  const patience = patienceWith(device)
  return new Promise((resolve, reject) => {
    let looks = 0
    const watch = setInterval(() => {
      if (++looks < patience) return
      clearInterval(watch)
      const silent = new DeviceSilent(device.description)
      lose(silent)
      reject(silent)
    }, 1000).unref()
    answer.finally(() => clearInterval(watch)).then(resolve, reject)
  })
}
