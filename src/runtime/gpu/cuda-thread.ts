// The thread of a device of CUDA's or HIP's: it has entered the device, and makes the calls that take long. It is handed
// addresses, and whoever asks keeps what lies there.

import { serve } from "../../worker/serve.ts"
import { addressOf, openDriverLibrary, type Pointer } from "../ffi.ts"
import { type CudaKind, callsOf, entering } from "./cuda-api.ts"
import { compileHip } from "./run-time-compiler.ts"

export interface CudaThread {
  kind: CudaKind
  names: readonly string[]
  handle: Pointer
  stream: Pointer
}

export type CudaOrder =
  | { call: "read" | "write"; copies: readonly Copy[] }
  /** Waits for what the stream had been handed when the event was recorded. */
  | { call: "waitFor"; event: Pointer }
  /** HIP C becomes code. */
  | { call: "build"; text: Uint8Array }
  | { call: "load"; image: Uint8Array }

interface Copy {
  device: Pointer
  host: Pointer
  bytes: number
}

/** The driver's code, once what is to be waited for, or else all that was handed to the stream before, is done, and what it said and made. */
export interface CudaAnswer {
  code: number
  said?: string
  made?: Uint8Array
  module?: Pointer
}

const ERROR_LOG = 5
const ERROR_LOG_BYTES = 6

function opened({ kind, names, handle, stream }: CudaThread): (order: CudaOrder) => CudaAnswer {
  const library = openDriverLibrary(names)
  const { read, write, wait, waitForEvent, load } = callsOf(kind, library)
  const entered = entering(kind, library, handle).enter()
  return (order) => {
    if (entered !== 0) return { code: entered }
    if (order.call === "waitFor") return { code: waitForEvent(order.event) }
    if (order.call === "build") return compileHip(order.text, names)
    if (order.call === "load") {
      const module = new BigUint64Array(1)
      const log = new Uint8Array(16 << 10)
      const image = Buffer.concat([order.image, Buffer.of(0)]) // text ends in a zero byte
      const options = Int32Array.of(ERROR_LOG, ERROR_LOG_BYTES)
      const values = BigUint64Array.of(addressOf(log), BigInt(log.length))
      const code =
        kind === "cuda"
          ? load(module, image, 2, options, values)
          : load(module, image, 0, null, null)
      const said = Buffer.from(log.subarray(0, Math.max(0, log.indexOf(0)))).toString()
      return { code, said, module: module[0]! }
    }
    for (const { device, host, bytes } of order.copies) {
      const code =
        order.call === "read"
          ? read(host, device, bytes, stream)
          : write(device, host, bytes, stream)
      if (code !== 0) return { code }
    }
    return { code: wait(stream) }
  }
}

let answer: (order: CudaOrder) => CudaAnswer
serve<CudaThread, CudaOrder>({
  open: (opening) => {
    answer = opened(opening)
  },
  answer: (order) => answer(order),
})
