// Command buffers of OpenCL (cl_khr_command_buffer), where a driver has them: dispatches that are recorded once and handed to the
// queue in one call, which takes a call for each of them otherwise. That call is made on a thread of Node's pool: PoCL goes
// through all dispatches in it. Names are those of cl_ext.h; these functions are alike in all versions of the extension.

import type { Handle } from "../drivers/opencl.ts"
import { type FoundFunction, functionAt, type Pointer } from "../ffi.ts"

/** A kernel object with its arguments, and how many threads it runs with. */
export interface Prepared {
  kernel: Pointer
  threads: BigUint64Array // [3]  in all, along each axis
  group: BigUint64Array // [3]
}

const prototypes = {
  clCreateCommandBufferKHR: "void *(uint32_t queues, void *queue, void *properties, void *code)",
  clCommandNDRangeKernelKHR:
    "int32_t (void *commands, void *queue, void *properties, void *kernel, uint32_t axes, void *from, void *threads, void *group, uint32_t points, void *after, void *point, void *handle)",
  clFinalizeCommandBufferKHR: "int32_t (void *commands)",
  clEnqueueCommandBufferKHR:
    "int32_t (uint32_t queues, void *queue, void *commands, uint32_t events, void *after, void *event)",
  clReleaseCommandBufferKHR: "int32_t (void *commands)",
} as const

type Functions = Record<keyof typeof prototypes, FoundFunction>

/** What is asked of a device, and of its driver where the functions of extensions lie. */
interface Device {
  ask: (what: number) => bigint
  find: (name: string) => Handle
}

const CAPABILITIES = 0x12a9
const WANTED_OF_QUEUES = 0x12aa
/** CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR */
const MAY_BE_PENDING = 1n << 2n
/** CL_COMMAND_BUFFER_FLAGS_KHR: may be queued while it is in the queue. PoCL takes it to be there for a while after its event. */
const PROPERTIES = BigUint64Array.of(0x1293n, 1n, 0n)

export class CommandBuffers {
  readonly #queue: Pointer
  readonly #functions: Functions

  private constructor(queue: Pointer, functions: Functions) {
    this.#queue = queue
    this.#functions = functions
  }

  /** @returns undefined where the driver lacks one of them, or has them for other uses alone */
  static of(queue: Pointer, device: Device): CommandBuffers | undefined {
    if ((device.ask(CAPABILITIES) & MAY_BE_PENDING) === 0n) return undefined
    if (device.ask(WANTED_OF_QUEUES) !== 0n) return undefined
    const functions: Partial<Functions> = {}
    for (const [name, prototype] of Object.entries(prototypes)) {
      const address = device.find(name)
      if (!address) return undefined
      functions[name as keyof Functions] = functionAt(BigInt(address), prototype)
    }
    return new CommandBuffers(queue, functions as Functions)
  }

  /** Undefined where the driver does not take these. The kernel objects must live as long as what it gives. */
  record(dispatches: readonly Prepared[]): Pointer | undefined {
    const { clCreateCommandBufferKHR, clCommandNDRangeKernelKHR, clFinalizeCommandBufferKHR } =
      this.#functions
    const code = new Int32Array(1)
    const created = clCreateCommandBufferKHR.call(
      1,
      BigUint64Array.of(this.#queue),
      PROPERTIES,
      code,
    )
    if (code[0] !== 0) return undefined
    const commands = BigInt(created)
    const add = clCommandNDRangeKernelKHR.call
    const isTaken = dispatches.every(
      ({ kernel, threads, group }) =>
        add(commands, null, null, kernel, 3, null, threads, group, 0, null, null, null) === 0,
    )
    if (isTaken && clFinalizeCommandBufferKHR.call(commands) === 0) return commands
    this.release(commands)
    return undefined
  }

  /** @param event of its last dispatch, once the promise is settled */
  enqueue(commands: Pointer, event: BigUint64Array): Promise<number> {
    return this.#functions.clEnqueueCommandBufferKHR.callAsync(0, null, commands, 0, null, event)
  }

  release(commands: Pointer): void {
    this.#functions.clReleaseCommandBufferKHR.call(commands)
  }
}
